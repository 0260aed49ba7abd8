/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how the engine of a file handles time limits, failures of requests and of the queue, and
 * which request size it measures as the fastest. Shows also which settings a program may request,
 * and how the store of a file is identified. The test controls the queue and the clock. */
#include "file/file.h"

#include "base/config.h"
#include "base/status.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { CHUNK = 4096, PIECES = 6 };
static const uint64_t ms = 1000 * 1000;

static uint64_t now;
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    now += ms / 10;
    return 0;
}

static char memory[16 << 20] __attribute__((aligned(4096)));

/* ------------------------------------------------------------------------------------ the queue */

static struct {
    struct file_io *given[64];
    int count, all;       /* in flight; so far */
    uint64_t takes_ns;    /* ns until a request completes; 0: never */
    uint64_t chunk_ns[3]; /* ns of requests of 1 MiB, 4 MiB, 256 KiB; others: takes_ns */
    /* errno of the request of that number; bytes that the last request lacks. */
    int fails[16], short_by;
    int queue_error;
    bool whole;
} queue;

static weft_status queue_open(const struct opened_file *file, unsigned depth,
                              struct file_queue **result)
{
    (void)file, (void)depth;
    *result = (struct file_queue *)(void *)&queue;
    return WEFT_OK;
}

static void queue_close(struct file_queue *q)
{
    (void)q;
}

static void queue_give(struct file_queue *q, struct file_io *io)
{
    (void)q;
    assert_true(queue.count < 64);
    if (queue.whole) /* memory and file advance together */
        assert_ptr_equal(io->address, memory + io->offset);
    io->result = (int64_t)io->bytes;
    if (queue.all < 16 && queue.fails[queue.all])
        io->result = -queue.fails[queue.all];
    queue.all++;
    queue.given[queue.count++] = io;
}

static void queue_push(struct file_queue *q)
{
    (void)q;
}

static uint64_t time_of(const struct file_io *io)
{
    return io->bytes == 1 << 20     ? queue.chunk_ns[0]
           : io->bytes == 4 << 20   ? queue.chunk_ns[1]
           : io->bytes == 256 << 10 ? queue.chunk_ns[2]
                                    : queue.takes_ns;
}

/* Completes one request at a time, the oldest first. */
static struct file_io *queue_take(struct file_queue *q, uint64_t wait_ns, int *error)
{
    (void)q;
    *error = 0;
    if (queue.queue_error && wait_ns) {
        *error = queue.queue_error;
        return NULL;
    }
    if (!queue.count || !time_of(queue.given[0])) {
        now += wait_ns;
        return NULL;
    }
    struct file_io *io = queue.given[0];
    now += time_of(io);
    memmove(queue.given, queue.given + 1, (size_t)--queue.count * sizeof queue.given[0]);
    if (!queue.count && io->result > queue.short_by)
        io->result -= queue.short_by;
    io->next = NULL;
    return io;
}

static void queue_wake(struct file_queue *q)
{
    (void)q;
}

static const struct file_backend backend = {.name = "by hand",
                                            .open = queue_open,
                                            .close = queue_close,
                                            .submit = queue_give,
                                            .start = queue_push,
                                            .reap = queue_take,
                                            .wake = queue_wake};

static struct opened_file file;
static struct file_engine *engine;
static weft_file_result result;

static int open_engine(void **state)
{
    static char path[] = "a/file";
    const struct file_settings settings = {.backend = &backend,
                                           .depth = PIECES,
                                           .most_depth = FILE_TUNE_MOST_DEPTH,
                                           .chunk_bytes = CHUNK,
                                           .wait_limit_ns = 1000 * ms};
    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.takes_ns = ms;
    queue.whole = true;
    now = 1000 * 1000 * ms;
    file = (struct opened_file){.calls = &file_system_calls,
                                .path = path,
                                .direct = -1,
                                .buffered = -1,
                                .reads = true,
                                .writes = true,
                                .alignment = 4096,
                                .memory_alignment = 512};
    return file_engine_open(&file, &settings, &engine) != WEFT_OK;
}

static int close_engine(void **state)
{
    (void)state;
    file_engine_close(engine);
    return 0;
}

static weft_status run(bool write, size_t bytes)
{
    const struct file_transfer transfer = {.place = {.kind = FILE_HOST, .address = memory},
                                           .bytes = bytes,
                                           .write = write,
                                           .result = &result};
    weft_status status = file_engine_run(engine, &transfer, 1);
    assert_int_equal(result.status, status);
    return status;
}

/* ------------------------------------------------------------------------------------- failures */

/* Each request may take as long as the limit, and all together longer. */
static void within_the_limit(void **state)
{
    (void)state;
    queue.takes_ns = 1000 * ms;
    assert_int_equal(run(false, PIECES * CHUNK), WEFT_OK);
    assert_int_equal(result.done, PIECES * CHUNK);
    now += 5000 * ms; /* nothing is in flight */
    assert_int_equal(run(false, CHUNK), WEFT_OK);
}

static void nothing_ends_within_the_limit(void **state)
{
    (void)state;
    queue.takes_ns = 0;
    uint64_t began = now;
    assert_int_equal(run(false, 2 * CHUNK), WEFT_ERR_TIMEOUT);
    assert_true(now - began > 1000 * ms && now - began <= 1200 * ms);
    assert_int_equal(result.error, ETIMEDOUT);
    assert_int_equal(result.done, 0);
    queue.takes_ns = ms;
    assert_int_equal(run(false, CHUNK), WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(base_last_error(), "an earlier transfer of this file did not end ("));
    const struct file_transfer transfer = {.place = {.kind = FILE_HOST, .address = memory},
                                           .bytes = 1};
    assert_int_equal(file_engine_begin(engine, &transfer), WEFT_ERR_TIMEOUT);
    assert_false(file_engine_busy(engine));
}

static void the_queue_fails(void **state)
{
    (void)state;
    queue.queue_error = EBADF;
    assert_int_equal(run(true, 20 * CHUNK), WEFT_ERR_SYSTEM); /* planned requests fail too */
    assert_int_equal(result.error, EBADF);
    assert_int_equal(run(true, CHUNK), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), strerror(EBADF)));
}

/* The first failure in the order of the file counts; bytes after it do not. */
static void the_first_failure_is_told(void **state)
{
    (void)state;
    queue.fails[2] = ENOSPC;
    queue.fails[3] = EIO;
    assert_int_equal(run(true, PIECES * CHUNK), WEFT_ERR_SYSTEM);
    assert_int_equal(result.error, ENOSPC);
    assert_int_equal(result.done, 2 * CHUNK);
    char words[400];
    snprintf(
        words, sizeof words,
        "weft_file_write: %d bytes at 0 of a/file: %s; the disk is full; the first %d bytes are "
        "transferred",
        PIECES * CHUNK, strerror(ENOSPC), 2 * CHUNK);
    assert_string_equal(base_last_error(), words);
    assert_int_equal(run(true, PIECES * CHUNK), WEFT_OK);
}

static void of_several_transfers_the_first_failure(void **state)
{
    (void)state;
    weft_file_result results[3];
    struct file_transfer list[3];
    for (int i = 0; i < 3; i++)
        list[i] = (struct file_transfer){.place = {.kind = FILE_HOST, .address = memory},
                                         .offset = 100 * CHUNK * (uint64_t)i,
                                         .bytes = CHUNK,
                                         .result = &results[i]};
    queue.whole = false;
    queue.fails[1] = EIO;
    queue.fails[2] = EFBIG;
    assert_int_equal(file_engine_run(engine, list, 3), WEFT_ERR_SYSTEM);
    assert_int_equal(results[0].status, WEFT_OK);
    assert_int_equal(results[1].error, EIO);
    assert_int_equal(results[2].error, EFBIG);
    assert_non_null(strstr(base_last_error(), strerror(EIO)));
}

/* --------------------------------------------------------------------------------------- tuning */

static weft_file_info info;

static void tuned(struct file_tunes *tunes, uint64_t where, bool write, size_t bytes)
{
    const struct file_transfer transfer = {.place = {.kind = FILE_HOST, .address = memory},
                                           .bytes = bytes,
                                           .write = write,
                                           .result = &result};
    assert_int_equal(file_engine_run_tuned(engine, tunes, where, &transfer), WEFT_OK);
    assert_int_equal(result.done, bytes);
    file_engine_describe(engine, false, &info);
}

enum { TRIAL = 4 << 20, LARGE = 16 << 20 };

/* The setting that is faster by more than 1/10 is used, for this file system and direction, and by
 * later transfers. */
static void the_quickest_is_taken(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns[3]; /* ns of a request of each size; a trial has 4, 1 and 16 of them */
        unsigned depth;
    } rows[] = {{{100, 400, 25}, FILE_DEPTH},
                {{100, 360, 25}, FILE_DEPTH},
                {{100, 359, 25}, 4},
                {{100, 400, 22}, FILE_TUNE_MOST_DEPTH},
                {{100, 300, 10}, FILE_TUNE_MOST_DEPTH},
                {{100, 100, 10}, 4}};
    struct file_tunes *tunes = file_tunes_new(TRIAL);
    for (uint64_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int k = 0; k < 3; k++)
            queue.chunk_ns[k] = rows[i].ns[k] * 1000;
        tuned(tunes, i, false, LARGE);
        if (info.depth != rows[i].depth)
            fail_msg("row %d: depth %u", (int)i, info.depth);
    }
    for (int k = 0; k < 3; k++)
        queue.chunk_ns[k] = k == 0 ? 1 : 1000;
    tuned(tunes, 77, true, LARGE); /* another file system, and writes */
    assert_int_equal(info.depth, FILE_DEPTH);
    tuned(tunes, 5, false, TRIAL); /* as measured there before */
    assert_int_equal(info.depth, 4);
    assert_int_equal(info.chunk_bytes, 4 << 20);
    tuned(tunes, 3, false, TRIAL - 1); /* too small to change the setting */
    assert_int_equal(info.depth, 4);
    tuned(tunes, 3, false, LARGE);
    assert_int_equal(info.depth, FILE_TUNE_MOST_DEPTH);
    assert_int_equal(info.chunk_bytes, 256 << 10);
    tuned(tunes, 5, true, LARGE); /* the other direction has not been measured */
    assert_int_equal(info.depth, FILE_DEPTH);
    tuned(tunes, 5, false, TRIAL);
    tuned(tunes, 88, false, 4 * TRIAL - 1); /* too small for trials */
    assert_int_equal(info.depth, 4);
    file_tunes_free(tunes);
    file_tunes_free(NULL);
}

/* No trial follows a failed one, and a failed one does not count. */
static void a_trial_fails(void **state)
{
    (void)state;
    const struct file_transfer transfer = {
        .place = {.kind = FILE_HOST, .address = memory}, .bytes = LARGE, .result = &result};
    struct file_tunes *tunes = file_tunes_new(TRIAL);
    for (int k = 0; k < 3; k++)
        queue.chunk_ns[k] = 1000;
    queue.fails[5] = EIO; /* after four requests of the first trial and one of the second */
    assert_int_equal(file_engine_run_tuned(engine, tunes, 1, &transfer), WEFT_ERR_SYSTEM);
    assert_int_equal(result.status, WEFT_ERR_SYSTEM);
    assert_int_equal(result.error, EIO);
    assert_int_equal(result.done, 2 * TRIAL);
    tuned(tunes, 1, false, LARGE);
    assert_int_equal(info.depth, FILE_DEPTH);
    file_tunes_free(tunes);
}

/* ------------------------------------------------------------------------------------- settings */

static void what_a_program_asks_for(void **state)
{
    (void)state;
    static const struct {
        unsigned depth;
        size_t chunk;
        weft_status status;
        const char *words;
    } rows[] = {
        {1, FILE_PAGE, WEFT_OK, NULL},
        {FILE_DEPTH_MOST, FILE_CHUNK_MOST, WEFT_OK, NULL},
        {FILE_DEPTH_MOST + 1, FILE_PAGE, WEFT_ERR_ARGUMENT, "attr->depth is 257; 1 to 256"},
        {4, FILE_CHUNK_MOST + FILE_PAGE, WEFT_ERR_ARGUMENT, "attr->chunk_bytes is 67112960"},
        {4, FILE_PAGE + 1, WEFT_ERR_ARGUMENT, "attr->chunk_bytes is 4097"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weft_file_attr attr = {.depth = rows[i].depth, .chunk_bytes = rows[i].chunk};
        struct file_settings settings;
        assert_int_equal(file_choose_settings(&attr, WEFT_FILE_CHECKSUM, &settings),
                         rows[i].status);
        if (rows[i].words)
            assert_non_null(strstr(base_last_error(), rows[i].words));
        if (rows[i].status)
            continue;
        assert_int_equal(settings.depth, rows[i].depth);
        assert_int_equal(settings.chunk_bytes, rows[i].chunk);
        assert_true(settings.checksums && !settings.measured);
        assert_int_equal(settings.most_depth, 0);
    }
}

/* Uses paths of every machine: a file of /proc, and a name that does not exist. */
static void what_a_file_lies_on(void **state)
{
    char system[32], store[64];
    struct stat st = {0};
    (void)state;
    assert_int_equal(stat("/proc/self/status", &st), 0);
    file_identify("/proc/self/status", &st, system, sizeof system, store, sizeof store);
    assert_string_equal(system, "proc");
    assert_string_equal(store, "unknown");
    file_identify("/nowhere/at/all", &st, system, sizeof system, store, sizeof store);
    assert_string_equal(system, "unknown");
    assert_string_equal(store, "unknown");
    st.st_mode = S_IFBLK;
    st.st_rdev = 0xfff;
    file_identify("/nowhere/at/all", &st, system, sizeof system, store, sizeof store);
    assert_string_equal(system, "none");
    assert_string_equal(store, "block device 15:255");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_engine, close_engine)
    const struct CMUnitTest tests[] = {
        CASE(within_the_limit),
        CASE(nothing_ends_within_the_limit),
        CASE(the_queue_fails),
        CASE(the_first_failure_is_told),
        CASE(of_several_transfers_the_first_failure),
        CASE(the_quickest_is_taken),
        CASE(a_trial_fails),
        cmocka_unit_test(what_a_program_asks_for),
        cmocka_unit_test(what_a_file_lies_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
