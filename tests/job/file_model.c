/* SPDX-License-Identifier: Apache-2.0 */
/* Random reads, writes and resizes are compared byte by byte with a model of the file in plain
 * memory. The buffers are memory of this PE and of others, on the host or (argument gpu) on GPUs.
 * Each PE has its own file. */
#include "tests/job/file.h"

enum { MOST = 300 * 1000, PAGE = 4096, ROOM = MOST + PAGE + 64 };

struct test {
    weft_job *job;
    weft_file *file;
    weft_ctx *ctx;
    int me, n;
    uint64_t random;
    unsigned char *model; /* contents of the file */
    size_t size;
    bool checksums;
    char *block; /* symmetric: n * ROOM bytes; each PE uses its own part at every PE */
    unsigned char *plain, *expected;
};

/* Memory of this test at that PE; no other PE writes there. In half of the cases it has the page
 * offset of the file range, so that the pages can be transferred without a copy. */
static char *room_at(struct test *t, size_t at)
{
    char *room = t->block + (size_t)t->me * ROOM + 1;
    if (next_random(&t->random) & 1)
        return room + (at - (uintptr_t)room) % PAGE;
    return room + next_random(&t->random) % 63;
}

static void check_crc(const struct test *t, const weft_file_result *result,
                      const unsigned char *data, size_t bytes)
{
    CHECK(result->crc32c == (t->checksums ? slow_crc32c(data, bytes) : 0));
}

static int random_pe(struct test *t)
{
    return (int)(next_random(&t->random) % (uint64_t)t->n);
}

static void put(struct test *t, char *at, const void *from, size_t bytes, int pe)
{
    OK(weft_put(t->ctx, at, from, bytes, pe));
    OK(weft_quiet(t->ctx));
}

static void write_some(struct test *t, bool nbi)
{
    weft_file_result result;
    size_t at = next_random(&t->random) % MOST, bytes = random_length(&t->random, MOST - at);
    char *room = room_at(t, at);
    int pe = random_pe(t);
    random_bytes(&t->random, t->plain, bytes);
    put(t, room, t->plain, bytes, pe);
    if (nbi) {
        OK(weft_file_write_nbi(t->file, room, bytes, at, pe, &result));
        OK(weft_file_quiet(t->file));
    } else {
        OK(weft_file_write(t->file, room, bytes, at, pe, &result));
    }
    CHECK(result.status == WEFT_OK && result.done == bytes && result.error == 0);
    check_crc(t, &result, t->plain, bytes);
    if (bytes && at > t->size)
        memset(t->model + t->size, 0, at - t->size);
    memcpy(t->model + at, t->plain, bytes);
    if (bytes && at + bytes > t->size)
        t->size = at + bytes;
}

/* Reads, also past the end of the file; bytes around the destination stay unchanged. */
static void read_some(struct test *t, bool nbi)
{
    weft_file_result result = {.status = WEFT_ERR_JOB};
    size_t at = next_random(&t->random) % MOST, bytes = random_length(&t->random, MOST - at);
    size_t there = at >= t->size ? 0 : bytes < t->size - at ? bytes : t->size - at;
    char *room = room_at(t, at);
    int pe = random_pe(t);
    random_bytes(&t->random, t->expected, bytes + 2);
    const size_t front = 1;
    put(t, room - front, t->expected, bytes + 2, pe);
    memcpy(t->expected + front, t->model + at, there);
    weft_status status;
    if (nbi) {
        OK(weft_file_read_nbi(t->file, room, bytes, at, pe, &result));
        status = weft_file_quiet(t->file);
    } else {
        status = weft_file_read(t->file, room, bytes, at, pe, &result);
    }
    CHECK(status == (there == bytes ? WEFT_OK : WEFT_ERR_RANGE) && result.status == status);
    CHECK(result.done == there && result.error == 0);
    check_crc(t, &result, t->model + at, there);
    if (status)
        CHECK(strstr(weft_last_error(), "run past the end of "));
    /* after a short read the bytes behind it are undefined */
    size_t sure = there + front + (there == bytes);
    OK(weft_get(t->ctx, t->plain, room - front, sure, pe));
    for (size_t i = 0; i < sure; i++)
        if (t->plain[i] != t->expected[i]) {
            fprintf(stderr, "PE %d: byte %zu of %zu read at %zu into PE %d is %02x, not %02x\n",
                    t->me, i - front, bytes, at, pe, t->plain[i], t->expected[i]);
            exit(1);
        }
}

static void resize(struct test *t)
{
    size_t bytes = next_random(&t->random) % MOST;
    uint64_t seen;
    OK(weft_file_resize(t->file, bytes));
    if (bytes > t->size)
        memset(t->model + t->size, 0, bytes - t->size);
    t->size = bytes;
    OK(weft_file_size(t->file, &seen));
    CHECK(seen == bytes);
}

static void open_test(struct test *t, weft_kind kind)
{
    OK(weft_init(&t->job, NULL));
    t->me = weft_my_pe(t->job);
    t->n = weft_n_pes(t->job);
    t->ctx = weft_default_ctx(t->job);
    const char *seed = getenv("JOB_SEED");
    t->random = (seed ? strtoull(seed, NULL, 10) : 1) * 1000003u + (uint64_t)t->me + 12345;
    void *block;
    weft_status status = weft_alloc(t->job, kind, (size_t)t->n * ROOM + 64, 0, 0, &block);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    OK(status);
    t->block = block;
    t->model = calloc(1, MOST);
    t->plain = malloc(ROOM + 64);
    t->expected = malloc(ROOM + 64);
    CHECK(t->model && t->plain && t->expected);
}

int main(int argc, char **argv)
{
    struct test t = {0};
    open_test(&t, argc > 1 && strcmp(argv[1], "gpu") == 0 ? WEFT_GPU : WEFT_HOST);
    const char *path = test_path("model", t.me);
    t.checksums = !getenv("JOB_NO_CHECKSUMS");
    OK(weft_file_open(t.job, path,
                      WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_EXCLUSIVE |
                          (t.checksums ? WEFT_FILE_CHECKSUM : 0),
                      NULL, &t.file));
    weft_file_info info = {.size = sizeof info};
    OK(weft_file_query(t.file, &info));
    if (t.me == 0)
        fprintf(stderr, "%s on %s (%s), %u x %llu bytes; %s %s\n", info.backend, info.file_system,
                info.store, info.depth, (unsigned long long)info.chunk_bytes, info.reason_code,
                info.reason);
    const char *wanted = getenv("JOB_BACKEND");
    CHECK(!wanted || strncmp(info.backend, wanted, strlen(wanted)) == 0);
    for (unsigned long long round = 0; round < rounds_or(250); round++) {
        uint64_t what = next_random(&t.random) % 16;
        if (what < 8)
            write_some(&t, what & 1);
        else if (what < 15)
            read_some(&t, what & 1);
        else
            resize(&t);
        if (round % 40 == 39)
            check_file(path, t.model, t.size);
    }
    OK(weft_file_sync(t.file));
    /* the file system refused no request for its alignment */
    weft_file_info after = {.size = sizeof after};
    OK(weft_file_query(t.file, &after));
    CHECK(after.backend == info.backend);
    wanted = getenv("JOB_GPU_BACKEND");
    if (wanted && strcmp(after.gpu_backend, wanted) != 0) {
        fprintf(stderr, "%s: %s %s\n", after.gpu_backend, after.gpu_reason_code, after.gpu_reason);
        exit(1);
    }
    OK(weft_file_close(t.file));
    check_file(path, t.model, t.size);
    CHECK(unlink(path) == 0);
    OK(weft_finalize(t.job));
    free(t.model);
    free(t.plain);
    free(t.expected);
    return 0;
}
