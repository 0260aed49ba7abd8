/* SPDX-License-Identifier: Apache-2.0 */
/* A layer between the engine and the queue makes the k-th request of a transfer fail, end short, or
 * return EAGAIN, for each k. Shows that the transfer goes on if it can. Otherwise it reports how
 * many bytes are transferred, and they are. Shows the same for the calls around transfers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "file/file.h"
#include "tests/job/file.h"

enum { BYTES = 61 * 1000, OFFSET = 777, CHUNK = 8192, DEPTH = 3, SHORT = 100000, NEVER = -1 };

/* ----------------------------------------------------------------------------- the faulty layer */

struct shadow {
    struct file_io io; /* request of the queue below */
    struct file_io *original;
    bool used;
};

static struct {
    const struct file_backend *below;
    /* `at`: number of the faulty request, from 1 (0: none). `fault`: errno, SHORT + bytes, or
     * NEVER. */
    int at, fault;
    bool from_then_on;
    int seen;
    struct file_io *done; /* requests that ended without the queue below */
    struct shadow shadows[FILE_TUNE_MOST_DEPTH + 1];
} faulty;

static weft_status faulty_open(const struct opened_file *file, unsigned depth,
                               struct file_queue **queue)
{
    return faulty.below->open(file, depth, queue);
}

static void faulty_close(struct file_queue *queue)
{
    faulty.below->close(queue);
}

static bool faulty_buffers(struct file_queue *queue, char *base, size_t bytes, unsigned count)
{
    return faulty.below->buffers && faulty.below->buffers(queue, base, bytes, count);
}

static struct shadow *free_shadow(void)
{
    struct shadow *shadow = faulty.shadows;
    while (shadow->used)
        shadow++;
    shadow->used = true;
    return shadow;
}

static void faulty_give(struct file_queue *queue, struct file_io *io)
{
    bool now = ++faulty.seen == faulty.at || (faulty.from_then_on && faulty.seen > faulty.at);
    if (now && faulty.fault == NEVER)
        return;
    if (now && faulty.fault < SHORT) {
        io->result = -faulty.fault;
        io->next = faulty.done;
        faulty.done = io;
        faulty.below->wake(queue);
        return;
    }
    struct shadow *shadow = free_shadow();
    shadow->io = *io;
    shadow->original = io;
    if (now) {
        size_t n = (size_t)(faulty.fault - SHORT);
        shadow->io.bytes = n < io->bytes ? n : io->bytes;
    }
    faulty.below->submit(queue, &shadow->io);
}

static void faulty_push(struct file_queue *queue)
{
    faulty.below->start(queue);
}

static struct file_io *faulty_take(struct file_queue *queue, uint64_t wait_ns, int *error)
{
    struct file_io *all = faulty.done;
    faulty.done = NULL;
    struct file_io *list = faulty.below->reap(queue, all ? 0 : wait_ns, error);
    while (list) {
        struct shadow *shadow = (struct shadow *)list;
        list = list->next;
        shadow->original->result = shadow->io.result;
        shadow->original->next = all;
        all = shadow->original;
        shadow->used = false;
    }
    return all;
}

static void faulty_wake(struct file_queue *queue)
{
    faulty.below->wake(queue);
}

static const struct file_backend faulty_backend = {.name = "faulty",
                                                   .open = faulty_open,
                                                   .close = faulty_close,
                                                   .buffers = faulty_buffers,
                                                   .submit = faulty_give,
                                                   .start = faulty_push,
                                                   .reap = faulty_take,
                                                   .wake = faulty_wake};

/* ----------------------------------------------------------------------------------- a transfer */

static unsigned char source[BYTES + OFFSET], model[BYTES + 2 * OFFSET], memory[BYTES + 64];

struct run {
    struct opened_file file;
    struct file_engine *engine;
    weft_file_result result;
    weft_status status;
};

static const char *path(void)
{
    return test_path("faults", 0);
}

static void open_run(struct run *run, unsigned flags, int at, int fault)
{
    struct file_settings settings = {.backend = &faulty_backend,
                                     .depth = DEPTH,
                                     .most_depth = FILE_TUNE_MOST_DEPTH,
                                     .chunk_bytes = CHUNK,
                                     .checksums = true};
    faulty.at = at;
    faulty.fault = fault;
    faulty.seen = 0;
    assert_int_equal(file_open(&file_system_calls, path(), flags, 0, &run->file), 0);
    assert_int_equal(file_engine_open(&run->file, &settings, &run->engine), 0);
}

/* With unaligned memory most pieces use buffers; with aligned memory most do not. */
static void transfer(struct run *run, bool write, unsigned char *at)
{
    struct file_transfer t = {.place = {.kind = FILE_HOST, .address = (char *)at},
                              .offset = OFFSET,
                              .bytes = BYTES,
                              .write = write,
                              .result = &run->result};
    run->status = file_engine_run(run->engine, &t, 1);
    assert_int_equal(run->result.status, run->status);
}

static void close_run(struct run *run)
{
    file_engine_close(run->engine);
    file_close(&run->file);
}

/* Makes a file whose bytes differ from the source's. */
static void make_file(void)
{
    int fd = open(path(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t i = 0; i < sizeof model; i++)
        model[i] = (unsigned char)(i * 7 + 3);
    assert_true(fd >= 0 && write(fd, model, sizeof model) == (ssize_t)sizeof model);
    close(fd);
}

static void read_file(unsigned char *seen)
{
    int fd = open(path(), O_RDONLY);
    assert_true(fd >= 0 && read(fd, seen, sizeof model) == (ssize_t)sizeof model);
    close(fd);
}

/* Checks a write: `done` bytes are written, bytes outside of it are unchanged, and each of its
 * other bytes is the old one or the new one. */
static void check_written(uint64_t done)
{
    static unsigned char seen[sizeof model];
    read_file(seen);
    for (size_t i = 0; i < sizeof model; i++) {
        bool inside = i >= OFFSET && i < OFFSET + BYTES;
        unsigned char fresh = inside ? source[i - OFFSET] : 0;
        if (inside && i < OFFSET + done ? seen[i] != fresh
                                        : seen[i] != model[i] && !(inside && seen[i] == fresh))
            fail_msg("byte %zu is %02x after a write of which %llu bytes are transferred", i,
                     seen[i], (unsigned long long)done);
    }
}

/* Counts the requests of a transfer without faults. */
static int count_requests(bool write)
{
    struct run run;
    open_run(&run, WEFT_FILE_READ | WEFT_FILE_WRITE, 0, 0);
    transfer(&run, write, write ? source : memory);
    assert_int_equal(run.status, WEFT_OK);
    close_run(&run);
    return faulty.seen;
}

static void check_fault(bool write, int k, int fault, bool ends_it)
{
    struct run run;
    make_file();
    memset(memory, 0xee, sizeof memory);
    open_run(&run, WEFT_FILE_READ | WEFT_FILE_WRITE, k, fault);
    transfer(&run, write, write ? source : memory);
    if (ends_it) {
        assert_int_equal(run.status, WEFT_ERR_SYSTEM);
        int told = fault == SHORT ? EIO : fault; /* a write that writes nothing */
        assert_int_equal(run.result.error, told);
        assert_non_null(strstr(base_last_error(), strerror(told)));
        assert_true(run.result.done < BYTES);
    } else {
        assert_int_equal(run.status, WEFT_OK);
        assert_int_equal(run.result.done, BYTES);
    }
    uint64_t done = run.result.done;
    const unsigned char *right = write ? source : model + OFFSET;
    assert_int_equal(run.result.crc32c, slow_crc32c(right, done));
    if (write)
        check_written(done);
    else
        assert_memory_equal(memory, model + OFFSET, done);
    /* The engine works after the failure. */
    faulty.at = 0;
    transfer(&run, write, write ? source : memory);
    assert_int_equal(run.status, WEFT_OK);
    close_run(&run);
}

/* few: only some faults, since another queue is tested with all. */
static void check_all(bool write, bool few)
{
    static const struct {
        int fault;
        bool ends_it;
    } faults[] = {{EINTR, false},        {EAGAIN, false},      {ECANCELED, false},
                  {EIO, true},           {ENOSPC, true},       {EDQUOT, true},
                  {SHORT, true},         {SHORT + 1, false},   {SHORT + 511, false},
                  {SHORT + 4096, false}, {SHORT + 5000, false}};
    make_file();
    int requests = count_requests(write);
    assert_true(requests >= BYTES / CHUNK);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        for (int k = 1; k <= requests && !(few && i % 3); k++) {
            /* No file system ends a direct write within a block. */
            if (write && faults[i].fault > SHORT && faults[i].fault != SHORT + 4096)
                continue;
            /* A read that ends there, or reads nothing, has reached the end of the file. */
            if (!write && faults[i].fault == SHORT)
                continue;
            if (!write && faults[i].fault > SHORT && (faults[i].fault - SHORT) % 4096)
                continue;
            check_fault(write, k, faults[i].fault, faults[i].ends_it);
        }
    unlink(path());
}

static void by(const struct file_backend *backend)
{
    faulty.below = backend;
    faulty.from_then_on = false;
}

static bool uring_is_here(void)
{
    struct run run;
    make_file();
    by(&file_uring);
    struct file_settings settings = {.backend = &file_uring, .depth = DEPTH, .chunk_bytes = CHUNK};
    assert_int_equal(file_open(&file_system_calls, path(), WEFT_FILE_READ, 0, &run.file), 0);
    bool here = file_engine_open(&run.file, &settings, &run.engine) == WEFT_OK;
    if (here)
        file_engine_close(run.engine);
    file_close(&run.file);
    unlink(path());
    return here;
}

static void reads_by_uring(void **state)
{
    (void)state;
    if (!uring_is_here())
        skip();
    check_all(false, false);
}

static void writes_by_uring(void **state)
{
    (void)state;
    if (!uring_is_here())
        skip();
    check_all(true, false);
}

static void reads_by_threads(void **state)
{
    (void)state;
    bool uring = uring_is_here();
    by(&file_threads);
    check_all(false, uring);
}

static void writes_by_threads(void **state)
{
    (void)state;
    bool uring = uring_is_here();
    by(&file_threads);
    check_all(true, uring);
}

/* Each request ends short, at any length. Only the page cache may do that. */
static void always_short(void **state)
{
    (void)state;
    by(&file_threads);
    for (int n = 1; n < 3000; n += 577)
        for (int write = 0; write < 2; write++) {
            struct run run;
            make_file();
            open_run(&run, WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_BUFFERED, 1, SHORT + n);
            faulty.from_then_on = true;
            transfer(&run, write, write ? source : memory);
            faulty.from_then_on = false;
            assert_int_equal(run.status, WEFT_OK);
            if (write)
                check_written(BYTES);
            else
                assert_memory_equal(memory, model + OFFSET, BYTES);
            close_run(&run);
        }
    unlink(path());
}

/* open() accepts O_DIRECT and requests refuse it: the transfer uses the page cache and reports
 * that. */
static void direct_is_refused_later(void **state)
{
    (void)state;
    by(&file_threads);
    for (int write = 0; write < 2; write++) {
        struct run run;
        weft_file_info info = {.size = sizeof info};
        make_file();
        open_run(&run, WEFT_FILE_READ | WEFT_FILE_WRITE, 2, EINVAL);
        bool direct = run.file.direct >= 0;
        transfer(&run, write, write ? source : memory);
        assert_int_equal(run.status, WEFT_OK);
        file_engine_describe(run.engine, false, &info);
        if (direct) {
            assert_string_equal(info.reason_code, "FILE-BUFFERED");
            assert_non_null(strstr(info.reason, strerror(EINVAL)));
            assert_string_equal(info.backend, "threads buffered");
        }
        if (write)
            check_written(BYTES);
        else
            assert_memory_equal(memory, model + OFFSET, BYTES);
        close_run(&run);
    }
    unlink(path());
}

/* ----------------------------------------------------------------------- calls around transfers */

static int fails_left, fails_with, folder_syncs;

static int failing_fdatasync(int fd)
{
    if (!fails_left)
        return fdatasync(fd);
    fails_left--;
    errno = fails_with;
    return -1;
}

static int failing_fsync(int fd)
{
    folder_syncs++;
    if (!fails_left)
        return fsync(fd);
    fails_left--;
    errno = fails_with;
    return -1;
}

static void sync_tells(void **state)
{
    (void)state;
    struct file_calls calls = file_system_calls;
    struct opened_file file;
    calls.fdatasync = failing_fdatasync;
    unlink(path());
    assert_int_equal(file_open(&calls, path(), WEFT_FILE_WRITE | WEFT_FILE_CREATE, 0, &file), 0);
    fails_left = 3, fails_with = EINTR;
    assert_int_equal(file_sync(&file), WEFT_OK);
    fails_left = 1, fails_with = EIO;
    assert_int_equal(file_sync(&file), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), strerror(EIO)));
    assert_non_null(strstr(base_last_error(), "write it again"));
    file_close(&file);
    unlink(path());
}

/* file_sync() syncs the folder once, for the handle that created the file. A failure is reported,
 * and the next call tries again. */
static void name_is_made_safe(void **state)
{
    (void)state;
    struct file_calls calls = file_system_calls;
    struct opened_file file;
    calls.fsync = failing_fsync;
    unlink(path());
    folder_syncs = 0;
    assert_int_equal(file_open(&calls, path(), WEFT_FILE_WRITE | WEFT_FILE_CREATE, 0, &file), 0);
    fails_left = 1, fails_with = EIO;
    assert_int_equal(file_sync(&file), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "folder"));
    assert_int_equal(file_sync(&file), WEFT_OK);
    assert_int_equal(folder_syncs, 2);
    assert_int_equal(file_sync(&file), WEFT_OK);
    assert_int_equal(folder_syncs, 2);
    file_close(&file);
    assert_int_equal(file_open(&calls, path(), WEFT_FILE_WRITE | WEFT_FILE_CREATE, 0, &file), 0);
    assert_int_equal(file_sync(&file), WEFT_OK); /* the file existed before */
    assert_int_equal(folder_syncs, 2);
    file_close(&file);
    unlink(path());
}

/* The queue completes nothing: the transfer times out, and the engine accepts no further ones. */
static void never_ends(void **state)
{
    (void)state;
    struct run run;
    by(&file_threads);
    make_file();
    struct file_settings settings = {.backend = &faulty_backend,
                                     .depth = DEPTH,
                                     .chunk_bytes = CHUNK,
                                     .wait_limit_ns = 150 * 1000 * 1000};
    faulty.at = 2, faulty.fault = NEVER, faulty.seen = 0;
    assert_int_equal(file_open(&file_system_calls, path(), WEFT_FILE_READ, 0, &run.file), 0);
    assert_int_equal(file_engine_open(&run.file, &settings, &run.engine), 0);
    transfer(&run, false, memory);
    assert_int_equal(run.status, WEFT_ERR_TIMEOUT);
    assert_int_equal(run.result.error, ETIMEDOUT);
    assert_memory_equal(memory, model + OFFSET, run.result.done);
    assert_true(run.result.done < BYTES);
    struct file_transfer t = {.place = {.address = (char *)memory}, .bytes = 1};
    assert_int_equal(file_engine_run(run.engine, &t, 1), WEFT_ERR_TIMEOUT);
    file_engine_close(run.engine);
    file_close(&run.file);
    unlink(path());
}

/* The first large transfer on a file system measures with its own data. Later transfers, also of
 * other engines, use the result. A request that fails in a trial or after it ends the transfer as
 * usual. */
static void run_tuned(struct run *run, struct file_tunes *tunes, bool write)
{
    struct file_transfer t = {
        .place = {.kind = FILE_HOST, .address = (char *)(write ? source : memory)},
        .offset = OFFSET,
        .bytes = BYTES,
        .write = write,
        .result = &run->result};
    run->status = file_engine_run_tuned(run->engine, tunes, 5, &t);
    assert_int_equal(run->result.status, run->status);
}

static void measures(void **state)
{
    (void)state;
    by(&file_threads);
    for (int write = 0; write < 2; write++)
        for (int k = 0, more = 1; more; k++) {
            struct file_tunes *tunes = file_tunes_new(13001);
            struct run run, other;
            weft_file_info first = {.size = sizeof first}, second = {.size = sizeof second};
            make_file();
            memset(memory, 0xee, sizeof memory);
            open_run(&run, WEFT_FILE_READ | WEFT_FILE_WRITE, k, EIO);
            run_tuned(&run, tunes, write);
            more = k == 0 || faulty.seen >= k;
            assert_int_equal(run.status, k && more ? WEFT_ERR_SYSTEM : WEFT_OK);
            assert_true(k && more ? run.result.done < BYTES : run.result.done == BYTES);
            assert_int_equal(run.result.crc32c,
                             slow_crc32c(write ? source : model + OFFSET, run.result.done));
            if (write)
                check_written(run.result.done);
            else
                assert_memory_equal(memory, model + OFFSET, run.result.done);
            file_engine_describe(run.engine, false, &first);
            close_run(&run);
            open_run(&other, WEFT_FILE_READ | WEFT_FILE_WRITE, 0, 0);
            run_tuned(&other, tunes, write);
            assert_int_equal(other.status, WEFT_OK);
            file_engine_describe(other.engine, false, &second);
            if (!k) {
                assert_int_equal(first.depth, second.depth);
                assert_int_equal(first.chunk_bytes, second.chunk_bytes);
                /* not the setting that the run began with */
                assert_true(first.chunk_bytes >= 256 << 10);
            }
            close_run(&other);
            file_tunes_free(tunes);
        }
    unlink(path());
}

int main(void)
{
    uint64_t random = 99;
    random_bytes(&random, source, sizeof source);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_by_uring),   cmocka_unit_test(writes_by_uring),
        cmocka_unit_test(reads_by_threads), cmocka_unit_test(writes_by_threads),
        cmocka_unit_test(always_short),     cmocka_unit_test(direct_is_refused_later),
        cmocka_unit_test(sync_tells),       cmocka_unit_test(name_is_made_safe),
        cmocka_unit_test(never_ends),       cmocka_unit_test(measures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
