/* SPDX-License-Identifier: Apache-2.0 */
/* `weft demo`: shows a newcomer on his own machine what Weft does. Starts a job of itself, in which
 * the PEs prove their paths, measure them and mend a picture together; PE 0 tells what was found.
 */
#include "demo.h"

#include "commands.h"

#include "machine/machine.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_IMAGE = 256, KEY_IN_JOB, PES_BY_ITSELF = 4, MOST_PES = 1024 };

struct options {
    const char *image, *output;
    int pes;
    bool json;
    const char *called; /* in a PE of the job: how the command was called; else NULL */
};

static const struct argp_option option_list[] = {
    {"image", KEY_IMAGE, "FILE", 0, "picture to mend, PGM or PPM (a woven one of our own)", 0},
    {"pes", 'n', "N", 0, "PEs of the job (one a CPU, at least 2, at most 4)", 0},
    {"output", 'o', "DIR", 0, "folder for the pictures, made if need be (weft-demo)", 0},
    {"json", 'j', NULL, 0, "print a JSON object instead of the story", 0},
    {"in-job", KEY_IN_JOB, "NAME", OPTION_HIDDEN, "be a PE of the job that NAME demo started", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    char *end;
    switch (key) {
    case KEY_IMAGE:
        options->image = argument;
        return 0;
    case 'n':
        options->pes = (int)strtol(argument, &end, 10);
        if (!*argument || *end || options->pes < 2 || options->pes > MOST_PES)
            argp_error(state, "--pes %s: a whole number from 2 to %d is wanted", argument,
                       MOST_PES);
        return 0;
    case 'o':
        options->output = argument;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case KEY_IN_JOB:
        options->called = argument;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* ------------------------------------------------------------------------------- what is said */

static const char *many(int n)
{
    return n == 1 ? "" : "s";
}

static void tell_paths(const struct demo *demo)
{
    const struct bench_floors *floors = &demo->bench.floors;
    printf("\n%d PEs, each a process with its own memory, in which the others read and write.\n",
           demo->bench.n);
    if (demo->all_proven)
        printf("Proven: over all %d paths, data, flags and atomics arrived as they were sent, in "
               "order.\n",
               demo->bench.n * demo->bench.n);
    else
        printf("NOT proven: %s\n", *demo->unproven ? demo->unproven : "see the PEs' messages");
    printf("\n    from  to  path   8 B, one way      1 MiB, put    same by memcpy\n");
    for (int i = 0; i < demo->n_pairs; i++) {
        const struct demo_pair *pair = &demo->pairs[i];
        printf("    %4d %3d  %-6s %12s %10.1f GB/s %12.1f GB/s%s\n", pair->from, pair->to,
               pair->path, bench_us_text(pair->latency_us).text, pair->put_gbps, pair->memcpy_gbps,
               pair->right ? "" : "  WRONG DATA");
    }
    if (demo->n_pairs < demo->possible_pairs)
        printf("    (those of PE 0; there are %d)\n", demo->possible_pairs);
    printf("    A cache line that two CPUs write in turn needs %s one way, with no library.\n",
           bench_us_text(floors->two_lines_ns / 1e3).text);
}

static void tell_picture(const struct demo *demo)
{
    const struct image *image = &demo->before;
    printf("\nA picture of %u x %u pixels is mended by all PEs together: %.1f %% of its pixels are "
           "taken\n"
           "out; each becomes the mean of its neighbours, again and again, %llu steps in all.\n"
           "(%s)\n",
           image->width, image->height,
           100.0 * (double)demo->missing / image->width / image->height,
           (unsigned long long)demo->steps, demo->image_file);
    printf("\n    PEs         time   speed-up   result\n");
    printf("    no job %9s                the one to compare with\n",
           bench_us_text(demo->serial_seconds * 1e6).text);
    for (int i = 0; i < demo->n_runs; i++)
        printf("    %-6d %9s %10.2f   %s\n", demo->runs[i].pes,
               bench_us_text(demo->runs[i].seconds * 1e6).text,
               demo->runs[0].seconds / demo->runs[i].seconds,
               demo->runs[i].identical ? "the same, byte for byte" : "DIFFERENT");
    printf("    The mended pixels differ from the original by %.1f of 255 on average.\n",
           demo->error);
}

static bool all_good(const struct demo *demo)
{
    bool good = demo->all_proven;
    for (int i = 0; i < demo->n_pairs; i++)
        good &= demo->pairs[i].right;
    for (int i = 0; i < demo->n_runs; i++)
        good &= demo->runs[i].identical;
    return good;
}

static void tell_summary(const struct demo *demo, int cpus, const char *weft)
{
    const struct demo_run *last = &demo->runs[demo->n_runs - 1];
    double put = 0, copy = 0;
    for (int i = 0; i < demo->n_pairs; i++) {
        put += demo->pairs[i].put_gbps;
        copy += demo->pairs[i].memcpy_gbps;
    }
    printf("\nIn short\n");
    printf("  %s\n", all_good(demo) ? "Every path was proven and every result was right."
                                    : "SOMETHING WAS WRONG; the lines above say what.");
    printf("  Writing to another PE's memory runs at %.0f %% of memcpy's rate here.\n",
           copy > 0 ? 100 * put / copy : 0);
    printf("  %d PEs did the work of one %.2f times as fast", last->pes,
           demo->runs[0].seconds / last->seconds);
    printf(cpus < last->pes ? ", sharing %d CPU%s.\n" : ".\n", cpus, many(cpus));
    printf("  See %s and %s\n", demo->before_png, demo->after_png);
    printf("\nNext\n"
           "  %s demo --image FILE.ppm --pes N    your own picture\n"
           "  %s bench                            every operation, every size\n"
           "  %s run -n 4 PROGRAM                 a program of your own; README.md has one\n",
           weft, weft, weft);
}

static json_t *pairs_as_json(const struct demo *demo)
{
    json_t *list = json_array();
    for (int i = 0; i < demo->n_pairs; i++) {
        const struct demo_pair *pair = &demo->pairs[i];
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:s, s:f, s:f, s:f, s:b}", "from", pair->from,
                                        "to", pair->to, "path", pair->path, "latency_us",
                                        pair->latency_us, "put_gbps", pair->put_gbps, "memcpy_gbps",
                                        pair->memcpy_gbps, "right", pair->right));
    }
    return list;
}

static json_t *runs_as_json(const struct demo *demo)
{
    json_t *list = json_array();
    for (int i = 0; i < demo->n_runs; i++)
        json_array_append_new(list, json_pack("{s:i, s:f, s:b}", "pes", demo->runs[i].pes,
                                              "seconds", demo->runs[i].seconds, "identical",
                                              demo->runs[i].identical));
    return list;
}

static void print_json(const struct demo *demo, int cpus)
{
    const struct image *image = &demo->before;
    json_t *picture =
        json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:s, s:s}", "file", demo->image_file,
                  "width", (int)image->width, "height", (int)image->height, "channels",
                  (int)image->channels, "missing", (json_int_t)demo->missing, "steps",
                  (json_int_t)demo->steps, "serial_seconds", demo->serial_seconds, "mean_error",
                  demo->error, "before", demo->before_png, "after", demo->after_png);
    json_t *all = json_pack("{s:s, s:i, s:i, s:b, s:o, s:o, s:o, s:b}", "version", weft_version(),
                            "cpus", cpus, "pes", demo->bench.n, "proven", demo->all_proven, "paths",
                            pairs_as_json(demo), "picture", picture, "runs", runs_as_json(demo),
                            "good", all_good(demo));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
}

/* ------------------------------------------------------------------------------ a PE of the job */

static int usable_cpus(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
}

/* The other PEs would wait for one that fails: the job ends with it. */
static int give_up(const struct demo *demo)
{
    fprintf(stderr, "weft demo: PE %d: %s\n", demo->bench.job ? demo->bench.me : -1,
            weft_last_error());
    if (demo->bench.job)
        weft_abort(demo->bench.job, EXIT_FAULT);
    return EXIT_FAULT;
}

static int be_a_pe(const struct options *options)
{
    static struct demo demo;
    int cpus = usable_cpus(); /* before bench_prepare() gives this PE one of them */
    demo.image_file = options->image;
    demo.output = options->output;
    demo.bench_options =
        (struct bench_options){.from = 0, .to = 1, .repetitions = 5, .verify = true, .bind = true};
    if (bench_open(&demo.bench, &demo.bench_options) || bench_prepare(&demo.bench))
        return give_up(&demo);
    bool tells = demo.bench.me == 0 && !options->json;

    if (demo_prove(&demo) || demo_measure(&demo))
        return give_up(&demo);
    if (tells) {
        tell_paths(&demo);
        fflush(stdout);
    }
    if (demo_picture(&demo))
        return give_up(&demo);
    if (tells) {
        tell_picture(&demo);
        tell_summary(&demo, cpus, options->called);
    } else if (demo.bench.me == 0) {
        print_json(&demo, cpus);
    }
    double good = demo.bench.me == 0 ? all_good(&demo) : 1;
    if (bench_combine(&demo.bench, WEFT_MIN, &good) || bench_close(&demo.bench))
        return give_up(&demo);
    return good != 0 ? EXIT_GOOD : EXIT_FAULT;
}

/* ---------------------------------------------------------------------------- starting the job */

/* The picture of our own lies beside the installed command, or in the source of a build. */
static const char *own_picture(const char *self)
{
    static const char *const places[] = {"../share/weft/weave.ppm",
                                         "../../examples/data/weave.ppm"};
    static char path[8192];
    int folder = (int)(strrchr(self, '/') - self);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%.*s/%s", folder, self, places[i]);
        char *shorter = realpath(path, NULL);
        if (!shorter)
            continue;
        snprintf(path, sizeof path, "%s", shorter);
        free(shorter);
        return path;
    }
    return NULL;
}

/* What can be seen to be wrong is said before a job is started. */
static bool can_begin(struct options *options, const char *self)
{
    struct image image;
    if (!options->image)
        options->image = own_picture(self);
    if (!options->image) {
        fprintf(stderr,
                "weft demo: there is no weave.ppm in ../share/weft or ../../examples/data "
                "beside %s; name a picture with --image\n",
                self);
        return false;
    }
    if (image_read(options->image, &image)) {
        fprintf(stderr, "weft demo: %s\n", weft_last_error());
        return false;
    }
    image_free(&image);
    if (mkdir(options->output, 0777) && errno != EEXIST) {
        fprintf(stderr, "weft demo: making the folder %s: %s; choose another with --output\n",
                options->output, strerror(errno));
        return false;
    }
    if (access(options->output, W_OK | X_OK)) {
        fprintf(stderr, "weft demo: writing to %s: %s; choose another folder with --output\n",
                options->output, strerror(errno));
        return false;
    }
    return true;
}

static void tell_machine(void)
{
    struct machine *machine = machine_read_live(&(struct machine_source){.root = "", .gpus = true});
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    int cpus = usable_cpus();
    printf("Weft %s on this machine: %s, %d CPU%s, %.0f GiB of memory", weft_version(),
           text_or(machine->system.cpu_model, "CPU of unknown model"), cpus, many(cpus),
           memory / (1 << 30));
    if (machine->n_gpus)
        printf(", %zu GPU%s (%s).\n", machine->n_gpus, many((int)machine->n_gpus),
               text_or(machine->gpus[0].name, "of unknown model"));
    else
        printf(", no GPU that can be used.\n");
    machine_free(machine);
}

static int start_job(struct options *options)
{
    static char self[4096];
    char pes[16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) {
        perror("weft demo: readlink(\"/proc/self/exe\")");
        return EXIT_FAULT;
    }
    if (!can_begin(options, self))
        return EXIT_FAULT;
    if (!options->pes) {
        int cpus = usable_cpus();
        options->pes = cpus < 2 ? 2 : cpus > PES_BY_ITSELF ? PES_BY_ITSELF : cpus;
    }
    if (!options->json) {
        tell_machine();
        fflush(stdout);
    }
    snprintf(pes, sizeof pes, "%d", options->pes);
    char *args[] = {"weft run",
                    "-n",
                    pes,
                    "--bind=none",
                    self,
                    "demo",
                    "--in-job",
                    program_invocation_name,
                    "--image",
                    (char *)options->image,
                    "--output",
                    (char *)options->output,
                    options->json ? "--json" : NULL,
                    NULL};
    return cmd_run(options->json ? 13 : 12, args);
}

int cmd_demo(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = parse,
        .doc = "Show on this machine what Weft does: start a job, prove that its PEs reach each "
               "other's memory, measure it beside memcpy, and mend a picture together. Exit status "
               "1 when anything was wrong."};
    struct options options = {.output = "weft-demo"};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    return options.called ? be_a_pe(&options) : start_job(&options);
}
