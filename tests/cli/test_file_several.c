/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench file --folders` (file_several.c): the order of measurements, the exchange between
 * PEs, and the whole output of PE 0. The job and the measurement are mocks. */
#include "bench/file/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------- the job and the rest */

static int me, n, calls, fails_at;
static char call_log[4096], chdir_to[200];
static char *shared; /* returned by weft_alloc() */
static size_t shared_bytes;
static bool no_folder;

__attribute__((format(printf, 1, 2))) static weft_status call(const char *format, ...)
{
    size_t used = strlen(call_log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call_log + used, sizeof call_log - used - 2, format, arguments);
    va_end(arguments);
    strcat(call_log, "\n");
    return calls++ == fails_at ? WEFT_ERR_SYSTEM : WEFT_OK;
}

weft_status __wrap_weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                              unsigned flags, void **address);
weft_status __wrap_weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                              unsigned flags, void **address)
{
    assert_int_equal(kind, WEFT_HOST);
    assert_int_equal(flags, WEFT_ALLOC_ZERO);
    *address = shared = calloc(1, bytes);
    shared_bytes = bytes;
    return call("alloc");
}

weft_status __wrap_weft_free(weft_job *job, void *address);
weft_status __wrap_weft_free(weft_job *job, void *address)
{
    assert_ptr_equal(address, shared);
    free(shared);
    shared = NULL;
    return call("free");
}

weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    assert_ptr_equal(dst, src);
    return call("put part %d of %d to %d", (int)(((char *)dst - shared) / (long)bytes),
                (int)(shared_bytes / bytes), pe);
}

weft_status __wrap_weft_barrier(weft_team *team);
weft_status __wrap_weft_barrier(weft_team *team)
{
    return call("barrier");
}

weft_ctx *__wrap_weft_default_ctx(weft_job *job);
weft_ctx *__wrap_weft_default_ctx(weft_job *job)
{
    return NULL;
}

weft_team *__wrap_weft_team_world(weft_job *job);
weft_team *__wrap_weft_team_world(weft_job *job)
{
    return (weft_team *)call_log;
}

int __wrap_weft_my_pe(const weft_job *job);
int __wrap_weft_my_pe(const weft_job *job)
{
    return me;
}

int __wrap_weft_n_pes(const weft_job *job);
int __wrap_weft_n_pes(const weft_job *job)
{
    return n;
}

int __wrap_chdir(const char *path);
int __wrap_chdir(const char *path)
{
    snprintf(chdir_to, sizeof chdir_to, "%s", path);
    errno = ENOENT;
    return no_folder ? -1 : 0;
}

static double rows[2][FILE_METHODS]; /* of this PE alone, and together with the others */

void file_measure(const struct file_options *options, const struct file_point *point,
                  weft_team *together, struct file_row *row, char (*why)[256])
{
    assert_true(!together || together == (weft_team *)call_log);
    call("measure %zu%s", point->block, together ? " together" : "");
    memcpy(row->gbps, rows[together != NULL], sizeof row->gbps);
}

const char *file_method_name(int method)
{
    static const char *const names[] = {"weft", "plain", "fio", "cufile"};
    return names[method];
}

json_t *file_row_json(const struct file_point *point, const struct file_row *row)
{
    return json_pack("{s:i, s:i}", "block", (int)point->block, "weft", (int)row->gbps[0]);
}

static char json_lines[4000];

void file_json_print(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER);
    sprintf(json_lines + strlen(json_lines), "%s\n", text);
    free(text);
    json_decref(object);
}

/* ------------------------------------------------------------------------------------ helpers */

static char printed[4000];
static FILE *usual;
static char *memory;
static size_t memory_bytes;

static void divert(void)
{
    usual = stdout;
    stdout = open_memstream(&memory, &memory_bytes);
}

static const char *restore(void)
{
    fclose(stdout);
    stdout = usual;
    snprintf(printed, sizeof printed, "%s", memory);
    free(memory);
    return printed;
}

static struct file_options options;
static struct file_several *several;
static const struct file_point point = {.block = 64 << 10, .depth = 8, .threads = 3};

/* Block of PE `pe` in the shared memory: its folder at the start, its rows at the end. */
static char *part_of(int pe)
{
    return shared + (size_t)pe * (shared_bytes / (size_t)n);
}

static void set_rows(int pe, const double *alone, const double *together)
{
    char *end = part_of(pe) + shared_bytes / (size_t)n;
    memcpy(end - 2 * sizeof(struct file_row), alone, sizeof(struct file_row));
    memcpy(end - sizeof(struct file_row), together, sizeof(struct file_row));
}

static weft_status open_as(int pe, int pes)
{
    const weft_file_info info = {.size = sizeof info,
                                 .file_system = "ext4",
                                 .store = "nvme0",
                                 .backend = "io_uring",
                                 .gpu_backend = "cuFile"};
    me = pe;
    n = pes;
    calls = 0;
    *call_log = *json_lines = '\0';
    return file_several_open(&options, NULL, &info, &several);
}

static void close_it(void)
{
    fails_at = -1;
    file_several_close(several);
    several = NULL;
}

static int before(void **state)
{
    options = (struct file_options){.folders = "/a,/bb/c,/d", .pes = 3};
    fails_at = -1;
    no_folder = false;
    static const double made[2][FILE_METHODS] = {{1, 2, -1, 4}, {5, 6, 7, -1}};
    memcpy(rows, made, sizeof rows);
    return 0;
}

/* --------------------------------------------------------------------------------------- tests */

static void each_goes_into_its_folder(void **state)
{
    static const char *const folders[] = {"/a", "/bb/c", "/d"};
    for (int pe = 0; pe < 3; pe++) {
        assert_int_equal(file_several_enter(&options, pe), 0);
        assert_string_equal(chdir_to, folders[pe]);
    }
    FILE *err = stderr;
    char *said;
    size_t bytes;
    no_folder = true;
    stderr = open_memstream(&said, &bytes);
    assert_int_equal(file_several_enter(&options, 1), -1);
    fclose(stderr);
    stderr = err;
    assert_string_equal(said, "weft bench: --folders: /bb/c: No such file or directory\n");
    free(said);
}

static void the_parts_are_told(void **state)
{
    divert();
    assert_int_equal(open_as(1, 3), WEFT_OK);
    assert_string_equal(restore(), "");
    assert_string_equal(call_log, "alloc\nput part 1 of 3 to 0\nbarrier\n");
    assert_string_equal(part_of(1), "/bb/c");
    assert_string_equal(part_of(1) + 96, "ext4 on nvme0");
    assert_string_equal(part_of(1) + 192, "io_uring");
    *call_log = '\0';
    close_it();
    assert_string_equal(call_log, "free\n");
    file_several_close(NULL);
    for (int gpu = 0; gpu < 2; gpu++) {
        char expected[400];
        options.gpu = gpu;
        options.write = gpu;
        divert();
        assert_int_equal(open_as(0, 2), WEFT_OK);
        snprintf(
            expected, sizeof expected,
            "%s; GB/s; memory: %s; 2 PEs at once\n"
            "PE 0, /a: ext4 on nvme0; weft by io_uring%s\nPE 1, : ; weft by \n"
            "    block  depth  threads   PE      weft   at once     plain   at once       fio   at "
            "once    cufile   at once\n",
            gpu ? "write" : "read", gpu ? "gpu" : "host", gpu ? ", cuFile" : "");
        assert_string_equal(restore(), expected);
        assert_string_equal(call_log, "alloc\nbarrier\n");
        close_it();
    }
    options.json = true;
    divert();
    open_as(0, 2);
    assert_string_equal(restore(), "");
    close_it();
    for (int at = 0; at < 3; at++) {
        fails_at = at;
        assert_int_equal(open_as(1, 3), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, at + 1);
        if (at == 0)
            free(shared);
        close_it();
    }
}

static void all_measure_alone_and_together(void **state)
{
    assert_int_equal(open_as(1, 3), WEFT_OK);
    *call_log = '\0';
    calls = 0;
    divert();
    assert_int_equal(file_several_point(several, &options, &point, NULL), WEFT_OK);
    assert_string_equal(restore(), "");
    assert_string_equal(call_log,
                        "barrier\nmeasure 65536\nbarrier\nbarrier\nmeasure 65536 together\n"
                        "put part 1 of 3 to 0\nbarrier\nbarrier\n");
    static const int failing[] = {0, 2, 3, 5, 6, 7};
    for (int i = 0; i < 6; i++) {
        calls = 0;
        fails_at = failing[i];
        assert_int_equal(file_several_point(several, &options, &point, NULL), WEFT_ERR_SYSTEM);
        assert_int_equal(calls, failing[i] + 1);
    }
    close_it();
}

static void all_is_printed(void **state)
{
    static const double alone[] = {11, -1, 13, 14.126}, together[] = {3, 16, -1, 18};
    divert();
    assert_int_equal(open_as(0, 2), WEFT_OK);
    restore();
    set_rows(1, alone, together);
    divert();
    assert_int_equal(file_several_point(several, &options, &point, NULL), WEFT_OK);
    assert_string_equal(
        restore(),
        "      64K      8        3    0      1.00      5.00      2.00      6.00         -      "
        "7.00      "
        "4.00         -\n"
        "      64K      8        3    1     11.00      3.00         -     16.00     13.00         "
        "-     "
        "14.13     18.00\n"
        "      64K      8        3  all     12.00      6.00         -     12.00         -         "
        "-     "
        "18.13         -\n");
    options.json = true;
    divert();
    file_several_point(several, &options, &point, NULL);
    assert_string_equal(restore(), "");
    assert_string_equal(
        json_lines,
        "{\"block\":65536,\"weft\":1,\"pes\":2,\"pe\":0,\"folder\":\"/a\",\"at_once\":false}\n"
        "{\"block\":65536,\"weft\":5,\"pes\":2,\"pe\":0,\"folder\":\"/a\",\"at_once\":true}\n"
        "{\"block\":65536,\"weft\":11,\"pes\":2,\"pe\":1,\"folder\":\"\",\"at_once\":false}\n"
        "{\"block\":65536,\"weft\":3,\"pes\":2,\"pe\":1,\"folder\":\"\",\"at_once\":true}\n"
        "{\"block\":65536,\"weft\":12,\"pes\":2,\"pe\":null,\"folder\":null,\"at_once\":false}\n"
        "{\"block\":65536,\"weft\":6,\"pes\":2,\"pe\":null,\"folder\":null,\"at_once\":true}\n");
    close_it();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_goes_into_its_folder, before),
        cmocka_unit_test_setup(the_parts_are_told, before),
        cmocka_unit_test_setup(all_measure_alone_and_together, before),
        cmocka_unit_test_setup(all_is_printed, before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
