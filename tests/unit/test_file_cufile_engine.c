/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which of the two engines of a file makes a transfer, when the cuFile engine is opened or
 * why it is not, whose failure counts, and what is reported. The engines are doubles that record
 * their transfers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"
#include "tests/unit/held_locks.h"

#include "file/engine.h"

#include "base/log.h"
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------- doubles */

static struct {
    int attached, detached, opens, closes, warnings;
    bool refuses, does_not_open;
    const char *carrier;
    enum file_gpu_backend way;
    struct file_settings settings;
    int known;
    const void *known_gpu, *known_address;
    size_t known_bytes;
} beneath;

static struct opened_file file;
static struct file_engine own, by_cufile;
static int some_gpu;

bool __wrap_file_cufile_attach(struct opened_file *f, enum file_gpu_backend way, const char *root,
                               struct file_why_not *why);
bool __wrap_file_cufile_attach(struct opened_file *f, enum file_gpu_backend way, const char *root,
                               struct file_why_not *why)
{
    assert_ptr_equal(f, &file);
    assert_true(is_held(&own.cufile_lock));
    assert_string_equal(root, "");
    beneath.attached++;
    beneath.way = way;
    if (beneath.refuses) {
        strcpy(why->code, "SOME-CODE");
        strcpy(why->words, "another way");
    }
    return !beneath.refuses;
}

void __wrap_file_cufile_detach(struct opened_file *f);
void __wrap_file_cufile_detach(struct opened_file *f)
{
    assert_ptr_equal(f, &file);
    beneath.detached++;
}

const char *__wrap_file_cufile_transport(void);
const char *__wrap_file_cufile_transport(void)
{
    return beneath.carrier;
}

const char *__wrap_file_cufile_words(int error, char *text, size_t bytes);
const char *__wrap_file_cufile_words(int error, char *text, size_t bytes)
{
    snprintf(text, bytes, "words of %d", error);
    return text;
}

void __wrap_file_cufile_register(struct gpu *gpu, const void *address, size_t bytes);
void __wrap_file_cufile_register(struct gpu *gpu, const void *address, size_t bytes)
{
    beneath.known++;
    beneath.known_gpu = gpu;
    beneath.known_address = address;
    beneath.known_bytes = bytes;
}

weft_status __wrap_file_engine_open(struct opened_file *f, const struct file_settings *settings,
                                    struct file_engine **engine);
weft_status __wrap_file_engine_open(struct opened_file *f, const struct file_settings *settings,
                                    struct file_engine **engine)
{
    assert_ptr_equal(f, &file);
    beneath.opens++;
    beneath.settings = *settings;
    if (beneath.does_not_open)
        return base_fail(WEFT_ERR_SYSTEM, "no threads");
    by_cufile = (struct file_engine){.file = f, .settings = *settings};
    *engine = &by_cufile;
    return WEFT_OK;
}

void __wrap_file_engine_close(struct file_engine *engine);
void __wrap_file_engine_close(struct file_engine *engine)
{
    assert_ptr_equal(engine, &by_cufile);
    assert_int_equal(beneath.detached, 0); /* detached only after the engine is closed */
    beneath.closes++;
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    (void)level, (void)format;
    beneath.warnings++;
}

static struct {
    int left, given, returned; /* allocations until one fails; made; freed */
} heap;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    void *made = heap.left-- ? __real_calloc(n, bytes) : NULL;
    heap.given += made != NULL;
    return made;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    heap.returned += memory != NULL;
    __real_free(memory);
}

/* -------------------------------------------------------------------------------------- engines */

static struct {
    struct {
        struct file_engine *engine;
        struct file_transfer list[8];
        size_t n;
    } runs[4];
    int count;
    uint64_t fails_at[4]; /* offsets of the transfers that fail */
    struct file_engine *broken;
    weft_status quiet[2];
    bool busy[2];
    struct file_engine *began;
} driven;

weft_status __wrap_file_drive_run(struct file_engine *engine, const struct file_transfer *list,
                                  size_t n);
weft_status __wrap_file_drive_run(struct file_engine *engine, const struct file_transfer *list,
                                  size_t n)
{
    weft_status status = WEFT_OK;
    driven.runs[driven.count].engine = engine;
    driven.runs[driven.count].n = n;
    memcpy(driven.runs[driven.count++].list, list, n * sizeof *list);
    if (engine == driven.broken)
        return base_fail(WEFT_ERR_TIMEOUT, "broken");
    for (size_t i = 0; i < n; i++) {
        weft_file_result result = {.done = list[i].bytes};
        for (int k = 0; k < 4; k++)
            if (driven.fails_at[k] && driven.fails_at[k] == list[i].offset)
                result = (weft_file_result){.status = -(int)list[i].offset};
        if (list[i].result)
            *list[i].result = result;
        if (result.status && !status)
            status = base_fail(result.status, "%s at %d", engine == &own ? "own" : "other",
                               (int)list[i].offset);
    }
    return status;
}

weft_status __wrap_file_drive_begin(struct file_engine *engine, const struct file_transfer *t);
weft_status __wrap_file_drive_begin(struct file_engine *engine, const struct file_transfer *t)
{
    (void)t;
    driven.began = engine;
    return WEFT_OK;
}

weft_status __wrap_file_drive_quiet(struct file_engine *engine);
weft_status __wrap_file_drive_quiet(struct file_engine *engine)
{
    weft_status status = driven.quiet[engine != &own];
    driven.count++;
    return status ? base_fail(status, engine == &own ? "own failed" : "other failed") : WEFT_OK;
}

bool __wrap_file_drive_busy(struct file_engine *engine);
bool __wrap_file_drive_busy(struct file_engine *engine)
{
    return driven.busy[engine != &own];
}

static int reset(void **state)
{
    static char path[] = "a/file";
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    memset(&driven, 0, sizeof driven);
    memset(&heap, 0, sizeof heap);
    heap.left = -1;
    beneath.carrier = "nvidia_fs";
    file = (struct opened_file){.path = path};
    own = (struct file_engine){.file = &file,
                               .settings = {.backend = &file_uring, .chosen = true, .depth = 7}};
    return 0;
}

static int all_is_given_back(void **state)
{
    (void)state;
    assert_int_equal(heap.given, heap.returned);
    assert_true(none_is_held());
    return 0;
}

static struct file_transfer transfer(enum file_place_kind kind, uint64_t offset)
{
    return (struct file_transfer){.place = {.kind = kind,
                                            .address = (char *)&some_gpu + offset,
                                            .gpu = (struct gpu *)(void *)&some_gpu},
                                  .offset = offset,
                                  .bytes = 100 + offset};
}

/* -------------------------------------------------------------------------- choice of the
 * engine */

static void only_gpu_memory_of_this_pe_goes_beside(void **state)
{
    static struct peer peer;
    struct file_transfer t = transfer(FILE_HOST, 1);
    (void)state;
    assert_ptr_equal(file_engine_for(&own, &t), &own);
    t = transfer(FILE_REMOTE, 1);
    assert_ptr_equal(file_engine_for(&own, &t), &own);
    t = transfer(FILE_DEVICE, 1);
    t.place.remote.peer = &peer;
    assert_ptr_equal(file_engine_for(&own, &t), &own);
    t.place.remote.peer = NULL;
    own.settings.backend = &file_cufile;
    assert_ptr_equal(file_engine_for(&own, &t), &own);
    own.settings.backend = &file_uring;
    own.settings.chosen = false;
    assert_ptr_equal(file_engine_for(&own, &t), &own);
    assert_int_equal(beneath.attached, 0);
    assert_false(own.cufile_tried);
    own.settings.chosen = true;
    assert_ptr_equal(file_engine_for(&own, &t), &by_cufile);
    assert_true(by_cufile.by_cufile);
    assert_ptr_equal(beneath.settings.backend, &file_cufile);
    assert_int_equal(beneath.settings.depth, 7);
    assert_int_equal(beneath.known, 1);
    assert_ptr_equal(beneath.known_gpu, &some_gpu);
    assert_ptr_equal(beneath.known_address, (char *)&some_gpu + 1);
    assert_int_equal(beneath.known_bytes, 101);
    t.place.gpu = NULL;
    assert_ptr_equal(file_engine_for(&own, &t), &by_cufile);
    assert_int_equal(beneath.known, 1);
    assert_int_equal(beneath.attached, 1); /* the engine is opened once */
    assert_int_equal(beneath.opens, 1);
}

static void why_there_is_none_beside(void **state)
{
    static const struct {
        enum file_gpu_backend way;
        bool checksums, refuses, does_not_open;
        int attached;
        const char *words, *fails; /* NULL: the file's own engine is used */
    } rows[] = {
        {FILE_GPU_PINNED, 0, 0, 0, 0, "through pinned memory: WEFT_FILE_GPU=pinned", NULL},
        {FILE_GPU_AUTO, true, 0, 0, 0, "through pinned memory: WEFT_FILE_CHECKSUM needs", NULL},
        {FILE_GPU_AUTO, 0, true, 0, 1, "another way", NULL},
        {FILE_GPU_AUTO, 0, 0, true, 1, "through pinned memory: no threads", NULL},
        {FILE_GPU_CUFILE, 0, true, 0, 1, "another way",
         "WEFT_FILE_GPU=cufile, but a/file goes another way"},
        {FILE_GPU_COMPAT, 0, true, 0, 1, "another way",
         "WEFT_FILE_GPU=compat, but a/file goes another way"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct file_transfer t = transfer(FILE_DEVICE, 1);
        reset(state);
        own.settings.gpu_backend = rows[i].way;
        own.settings.checksums = rows[i].checksums;
        beneath.refuses = rows[i].refuses;
        beneath.does_not_open = rows[i].does_not_open;
        for (int k = 0; k < 2; k++)
            assert_ptr_equal(file_engine_for(&own, &t), rows[i].fails ? NULL : &own);
        assert_int_equal(beneath.attached, rows[i].attached);
        if (rows[i].attached)
            assert_int_equal(beneath.way, rows[i].way);
        assert_int_equal(beneath.detached, rows[i].does_not_open);
        assert_int_equal(beneath.known, 0);
        assert_memory_equal(own.why_not.words, rows[i].words, strlen(rows[i].words));
        if (rows[i].fails)
            assert_string_equal(base_last_error(), rows[i].fails);
        assert_int_equal(file_engine_begin(&own, &t),
                         rows[i].fails ? WEFT_ERR_UNSUPPORTED : WEFT_OK);
        assert_ptr_equal(driven.began, rows[i].fails ? NULL : &own);
    }
}

/* cuFile is not even loaded for memory of another vendor's GPU. */
static void not_for_amd(void **state)
{
    static struct gpu gpu = {.driver = {.vendor = GPU_VENDOR_AMD}};
    struct file_transfer t = transfer(FILE_DEVICE, 1);
    reset(state);
    t.place.gpu = &gpu;
    assert_ptr_equal(file_engine_for(&own, &t), &own);
    assert_int_equal(beneath.attached, 0);
    assert_string_equal(own.why_not.words,
                        "through pinned memory: cuFile transfers memory of NVIDIA's GPUs only");
}

/* After a refusal GPU memory uses the file's own engine, unless the user demands cuFile. */
static void what_cufile_refuses_later(void **state)
{
    static const struct {
        bool carries;
        enum file_gpu_backend way;
        int error;
        const char *words; /* NULL: nothing changes */
    } rows[] = {{true, FILE_GPU_AUTO, 4999, "through pinned memory: cuFile refused a transfer: "},
                {true, FILE_GPU_AUTO, 5000,
                 "through pinned memory: cuFile refused a transfer: words of 5000"},
                {true, FILE_GPU_AUTO, EIO,
                 "through pinned memory: cuFile refused a transfer: Input/output error"},
                {false, FILE_GPU_AUTO, EIO, NULL},
                {true, FILE_GPU_CUFILE, EIO, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct file_transfer t = transfer(FILE_DEVICE, 1);
        reset(state);
        own.settings.gpu_backend = rows[i].way;
        assert_ptr_equal(file_engine_for(&own, &t), &by_cufile);
        by_cufile.by_cufile = rows[i].carries;
        file_cufile_engine_refused(&by_cufile, rows[i].error);
        assert_int_equal(beneath.warnings, rows[i].words != NULL);
        assert_string_equal(by_cufile.why_not.code, rows[i].words ? "FILE-CUFILE" : "");
        if (!rows[i].words)
            assert_string_equal(by_cufile.why_not.words, "");
        else if (rows[i].error != 4999)
            assert_string_equal(by_cufile.why_not.words, rows[i].words);
        else
            assert_null(strstr(by_cufile.why_not.words, "words of"));
        assert_ptr_equal(file_engine_for(&own, &t), i == 4 ? &by_cufile : &own);
        assert_int_equal(by_cufile.by_cufile, i == 4);
    }
}

static void both_are_closed(void **state)
{
    const struct file_transfer t = transfer(FILE_DEVICE, 1);
    for (int broken = 0; broken < 2; broken++) {
        reset(state);
        file_cufile_engine_close(&own);
        assert_int_equal(beneath.closes + beneath.detached, 0);
        assert_ptr_equal(file_engine_for(&own, &t), &by_cufile);
        by_cufile.broken = broken ? ETIMEDOUT : 0;
        file_cufile_engine_close(&own);
        assert_int_equal(beneath.closes, 1);
        assert_int_equal(beneath.detached, !broken); /* a broken engine may still use cuFile */
        assert_null(own.cufile_engine);
    }
}

/* ------------------------------------------------------------------------------------ transfers */

enum { N = 5 };
static struct file_transfer list[N];
static weft_file_result results[N];

/* Transfers of host and GPU memory in turn. The last one has no result. */
static void fill_list(void)
{
    memset(results, 0x55, sizeof results);
    for (int i = 0; i < N; i++) {
        list[i] = transfer(i % 2 ? FILE_DEVICE : FILE_HOST, (uint64_t)i + 1);
        list[i].result = i < N - 1 ? &results[i] : NULL;
    }
}

static void transfers_of_one_engine_go_together(void **state)
{
    (void)state;
    fill_list();
    for (int i = 0; i < N; i++)
        list[i].place.kind = FILE_HOST;
    assert_int_equal(file_engine_run(&own, list, N), WEFT_OK);
    assert_int_equal(file_engine_run(&own, list + 1, 1), WEFT_OK);
    assert_int_equal(driven.count, 2);
    assert_int_equal(driven.runs[0].n, N);
    assert_int_equal(driven.runs[1].n, 1);
    assert_ptr_equal(driven.runs[0].engine, &own);
    assert_memory_equal(driven.runs[0].list, list, sizeof list);
    heap.left = 0;
    assert_int_equal(file_engine_run(&own, list + 1, 1), WEFT_OK); /* needs no memory */
    heap.left = 0;
    assert_int_equal(file_engine_run(&own, list, N), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no private memory for 5 transfers");
}

static void the_first_failure_of_both_engines_counts(void **state)
{
    static const struct {
        uint64_t fails[4];
        weft_status status;
        const char *words;
    } rows[] = {{{0}, WEFT_OK, NULL},          {{1}, -1, "own at 1"},    {{2}, -2, "other at 2"},
                {{3, 2}, -2, "other at 2"},    {{3, 4}, -3, "own at 3"}, {{4, 5}, -4, "other at 4"},
                {{2, 4, 3}, -2, "other at 2"}, {{5}, -5, "own at 5"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        fill_list();
        memcpy(driven.fails_at, rows[i].fails, sizeof rows[i].fails);
        assert_int_equal(file_engine_run(&own, list, N), rows[i].status);
        if (rows[i].words)
            assert_string_equal(base_last_error(), rows[i].words);
        assert_int_equal(driven.count, 2);
        assert_ptr_equal(driven.runs[0].engine, &own);
        assert_ptr_equal(driven.runs[1].engine, &by_cufile);
        assert_int_equal(driven.runs[0].n, 3);
        assert_int_equal(driven.runs[1].n, 2);
        for (size_t k = 0; k < N; k++)
            assert_int_equal(driven.runs[k % 2].list[k / 2].bytes, list[k].bytes);
        for (size_t k = 0; k < N - 1; k++) {
            bool fails = false;
            for (int f = 0; f < 4; f++)
                fails |= rows[i].fails[f] == k + 1;
            assert_int_equal(results[k].status, fails ? -(int)(k + 1) : 0);
            assert_int_equal(results[k].done, fails ? 0 : list[k].bytes);
        }
        assert_int_equal(heap.given, heap.returned);
    }
}

static void an_engine_that_is_broken(void **state)
{
    for (int i = 0; i < 2; i++) {
        reset(state);
        fill_list();
        driven.broken = i ? &by_cufile : &own;
        assert_int_equal(file_engine_run(&own, list, N), WEFT_ERR_TIMEOUT);
        assert_string_equal(base_last_error(), "broken");
        reset(state);
        fill_list();
        /* After the list of engines, allocations fail: the results, then the transfers of an
         * engine. */
        heap.left = i + 1;
        assert_int_equal(file_engine_run(&own, list, N), WEFT_ERR_NO_MEMORY);
        assert_int_equal(heap.given, heap.returned);
        assert_int_equal(driven.count, i);
    }
}

static void nothing_goes_where_one_must_not(void **state)
{
    (void)state;
    fill_list();
    own.settings.gpu_backend = FILE_GPU_CUFILE;
    beneath.refuses = true;
    assert_int_equal(file_engine_run(&own, list, N), WEFT_ERR_UNSUPPORTED);
    for (int i = 0; i < N - 1; i++) {
        assert_int_equal(results[i].status, WEFT_ERR_UNSUPPORTED);
        assert_int_equal(results[i].done, 0);
    }
    assert_int_equal(driven.count, 0);
}

static void what_goes_on_by_itself_in_both(void **state)
{
    static const struct {
        weft_status own, other, status;
        const char *words;
    } rows[] = {{0, 0, 0, NULL},
                {WEFT_ERR_SYSTEM, 0, WEFT_ERR_SYSTEM, "own failed"},
                {0, WEFT_ERR_RANGE, WEFT_ERR_RANGE, "other failed"},
                {WEFT_ERR_SYSTEM, WEFT_ERR_RANGE, WEFT_ERR_SYSTEM, "own failed"}};
    const struct file_transfer t = transfer(FILE_DEVICE, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(state);
        driven.quiet[0] = rows[i].own;
        driven.quiet[1] = WEFT_ERR_RANGE;
        driven.busy[0] = i & 1;
        driven.busy[1] = true;
        assert_int_equal(file_engine_quiet(&own), rows[i].own); /* there is one engine only */
        assert_int_equal(file_engine_busy(&own), i & 1);
        assert_int_equal(driven.count, 1);
        assert_int_equal(file_engine_begin(&own, &t), WEFT_OK);
        assert_ptr_equal(driven.began, &by_cufile);
        driven.quiet[1] = rows[i].other;
        driven.busy[1] = i & 2;
        assert_int_equal(file_engine_quiet(&own), rows[i].status);
        if (rows[i].words)
            assert_string_equal(base_last_error(), rows[i].words);
        assert_int_equal(driven.count, 3);
        assert_int_equal(file_engine_busy(&own), i != 0);
    }
}

/* ---------------------------------------------------------------------------------- description */

static void how_gpu_memory_goes_is_told(void **state)
{
    static const struct {
        enum file_gpu_backend way;
        bool refuses, refused_later;
        const char *carrier, *backend, *code, *words;
    } rows[] = {
        {FILE_GPU_AUTO, 0, 0, "nvidia_fs", "cufile direct, nvidia_fs", "", ""},
        {FILE_GPU_AUTO, 0, 0, "P2PDMA", "cufile direct, P2PDMA", "", ""},
        {FILE_GPU_COMPAT, 0, 0, "P2PDMA", "cufile compat", "", ""},
        {FILE_GPU_AUTO, true, 0, "P2PDMA", "pinned", "SOME-CODE", "another way"},
        {FILE_GPU_AUTO, 0, true, "P2PDMA", "pinned", "FILE-CUFILE",
         "through pinned memory: cuFile refused a transfer: Input/output error"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_file_info info = {.gpu_backend = "nothing"};
        reset(state);
        own.settings.chosen = false;
        file_cufile_engine_describe(&own, true, &info);
        own.settings.chosen = true;
        own.settings.gpu_backend = rows[i].way;
        file_cufile_engine_describe(&own, false, &info); /* cuFile has not been tried */
        assert_string_equal(info.gpu_backend, "nothing");
        beneath.refuses = rows[i].refuses;
        beneath.carrier = rows[i].carrier;
        file_cufile_engine_describe(&own, true, &info);
        if (rows[i].refused_later)
            file_cufile_engine_refused(&by_cufile, EIO);
        for (int find = 0; find < 2; find++) {
            memset(&info, 0, sizeof info);
            file_cufile_engine_describe(&own, find, &info);
            assert_string_equal(info.gpu_backend, rows[i].backend);
            assert_string_equal(info.gpu_reason_code, rows[i].code);
            assert_string_equal(info.gpu_reason, rows[i].words);
        }
        assert_int_equal(beneath.attached, 1);
        assert_true(none_is_held());
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, all_is_given_back)
    const struct CMUnitTest tests[] = {
        CASE(only_gpu_memory_of_this_pe_goes_beside),
        CASE(why_there_is_none_beside),
        CASE(not_for_amd),
        CASE(what_cufile_refuses_later),
        CASE(both_are_closed),
        CASE(transfers_of_one_engine_go_together),
        CASE(the_first_failure_of_both_engines_counts),
        CASE(an_engine_that_is_broken),
        CASE(nothing_goes_where_one_must_not),
        CASE(what_goes_on_by_itself_in_both),
        CASE(how_gpu_memory_goes_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
