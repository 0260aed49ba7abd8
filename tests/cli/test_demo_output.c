/* SPDX-License-Identifier: Apache-2.0 */
/* The output of `weft demo` (cli/demo/output.c): the whole text and JSON for mock results. */
#include "demo/demo.h"

#include <unistd.h>

#include "golden.h"

/* cli/bench/table.c, of which the demo uses the formatting of numbers, refers to these. */
const char *const bench_memory_names[MEMORY_COUNT], *const bench_scope_names[SCOPE_COUNT],
                                                        *const bench_target_names[TARGET_COUNT];

/* Replace cli/demo/links.c. */
static bool links_good = true;

int demo_links_gpus(const json_t *links)
{
    return (int)json_array_size(json_object_get(links, "gpus"));
}

bool demo_links_good(const json_t *links)
{
    assert_non_null(links);
    return links_good;
}

long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_PHYS_PAGES ? 3L << 18 : 4096;
}

const char *__wrap_weft_version(void);
const char *__wrap_weft_version(void)
{
    return "9.8.7";
}

static char *text;
static size_t text_bytes;

static void check(const char *name, const struct demo *demo, int cpus)
{
    char path[512];
    FILE *usual = stdout;
    stdout = open_memstream(&text, &text_bytes);
    assert_non_null(stdout);
    demo_print_machine(demo->links, cpus);
    demo_print_paths(demo);
    demo_print_gpu(demo);
    demo_print_picture(demo);
    demo_print_summary(demo, cpus, "./weft");
    demo_json(demo, cpus);
    fclose(stdout);
    stdout = usual;
    snprintf(path, sizeof path, "%s/demo-%s.txt", GOLDEN, name);
    golden_is(path, text);
    free(text);
}

static void make_pairs(struct demo *demo)
{
    demo->bench.n = 3;
    demo->n_pairs = 3;
    demo->possible_pairs = 3;
    demo->bench.floors.two_lines_ns = 137.5;
    demo->pairs[0] = (struct demo_pair){0, 1, "p2p", 0.231, 11.25, 12.5, true};
    demo->pairs[1] = (struct demo_pair){0, 2, "staged", 5.5, 3.125, 12.0, true};
    demo->pairs[2] = (struct demo_pair){1, 2, "p2p", 0.25, 10, 11.5, true};
}

static void make_picture(struct demo *demo)
{
    demo->image_file = "in.png";
    demo->before = (struct image){.width = 40, .height = 30, .channels = 3};
    demo->missing = 103;
    demo->steps = 3904;
    demo->serial_seconds = 1.75;
    demo->error = 4.26;
    demo->n_runs = 3;
    demo->runs[0] = (struct demo_run){1, 1.8, true};
    demo->runs[1] = (struct demo_run){2, 0.95, true};
    demo->runs[2] = (struct demo_run){3, 0.75, true};
    snprintf(demo->before_png, sizeof demo->before_png, "out/before.png");
    snprintf(demo->after_png, sizeof demo->after_png, "out/after.png");
}

static struct demo demo;

static void no_gpu(void **context)
{
    (void)context;
    demo = (struct demo){.all_proven = true};
    make_pairs(&demo);
    make_picture(&demo);
    demo.links = json_pack("{s:s, s:s, s:[]}", "cpu", "A CPU", "unusable", "there is none", "gpus");
    demo.kernels = true;
    demo.n_gpu_pairs = 2;
    demo.gpu_pairs[0] = (struct demo_gpu_pair){0, 1, 0, 0, 0.5, 2, true};
    demo.gpu_pairs[1] = (struct demo_gpu_pair){0, 2, 0, 0, 0.75, 3, true};
    demo.picture_by_kernels = (struct demo_kernel_run){true, true, 25, 0.125, 0.25};
    assert_true(demo_good(&demo));
    check("no-gpu", &demo, 2);
    json_decref(demo.links);
}

static void gpus(void **context)
{
    (void)context;
    demo = (struct demo){.all_proven = true};
    make_pairs(&demo);
    make_picture(&demo);
    demo.possible_pairs = 6;
    demo.links = json_pack("{s:s, s:[{s:s}, {s:s}]}", "cpu", "A CPU", "gpus", "name",
                           "GPU of one kind", "name", "GPU of another");
    demo.gpus = 2;
    demo.cuda = demo.kernels = true;
    demo.gpu_of[0] = 0;
    demo.gpu_of[1] = 1;
    demo.gpu_of[2] = 1;
    demo.n_gpu_pairs = 2;
    demo.gpu_pairs[0] = (struct demo_gpu_pair){0, 1, 2.5, 390, 1.25, 395, true};
    demo.gpu_pairs[1] = (struct demo_gpu_pair){1, 2, 0, 0, 0, 0, true};
    demo.plate_edge = 2048;
    demo.picture_by_kernels = (struct demo_kernel_run){true, true, 3904, 0.031, 1.75};
    demo.plate_by_kernels = (struct demo_kernel_run){true, true, 1000, 0.25, 8.5};
    assert_true(demo_good(&demo));
    assert_true(demo_shares_gpu(&demo));
    check("gpus", &demo, 16);
    json_decref(demo.links);
}

/* Each result in turn is wrong; the demo then reports a failure. */
static void wrong(void **context)
{
    (void)context;
    bool *results[] = {&demo.all_proven,
                       &demo.pairs[0].right,
                       &demo.pairs[2].right,
                       &demo.runs[0].identical,
                       &demo.runs[2].identical,
                       &demo.gpu_pairs[0].right,
                       &demo.gpu_pairs[1].right,
                       &demo.picture_by_kernels.identical,
                       &demo.plate_by_kernels.identical,
                       &links_good};
    demo = (struct demo){.all_proven = true};
    make_pairs(&demo);
    make_picture(&demo);
    demo.links = json_pack("{s:s, s:s, s:[]}", "cpu", "A CPU", "unusable", "there is none", "gpus");
    demo.n_gpu_pairs = 2;
    demo.gpu_pairs[0].right = demo.gpu_pairs[1].right = true;
    demo.gpu_of[1] = 1;
    demo.gpu_of[2] = 2;
    assert_false(demo_shares_gpu(&demo));
    demo.picture_by_kernels = demo.plate_by_kernels =
        (struct demo_kernel_run){true, true, 25, 0.125, 0.25};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        assert_true(demo_good(&demo));
        *results[i] = false;
        assert_false(demo_good(&demo));
        *results[i] = true;
    }
    demo.picture_by_kernels = demo.plate_by_kernels = (struct demo_kernel_run){0};
    assert_true(demo_good(&demo));
    demo.gpus = 1;
    demo.all_proven = demo.pairs[1].right = demo.gpu_pairs[1].right = demo.runs[1].identical =
        false;
    snprintf(demo.unproven, sizeof demo.unproven, "p2p from 0 to 1: data was lost");
    snprintf(demo.gpu_why, sizeof demo.gpu_why, "the driver is too old");
    demo.picture_by_kernels = (struct demo_kernel_run){true, false, 25, 0.125, 0.25};
    check("wrong", &demo, 1);
    *demo.unproven = '\0';
    demo.gpus = 0;
    demo.cuda = true;
    check("wrong-no-reason", &demo, 3);
    json_decref(demo.links);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_gpu), cmocka_unit_test(gpus),
                                       cmocka_unit_test(wrong)};
    return cmocka_run_group_tests_name("demo_output", tests, NULL, NULL);
}
