/* SPDX-License-Identifier: Apache-2.0 */
/* File transfers in several parts, on streams, and over teams: scatter and gather with the file
 * open at all members, at one, at some, in host memory or (argument gpu) GPU memory. All members
 * get the same failure. */
#include "tests/job/file.h"

enum { MOST = 40001 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n;
static char *block;
static unsigned char *plain;

static unsigned char byte_of(size_t at, int round)
{
    return (unsigned char)(at * 7 + (at >> 8) * 3 + (size_t)round * 41 + 5);
}

static const char *the_path(void)
{
    return test_path("team", 0);
}

static void make_file(size_t bytes, int round)
{
    if (me == 0) {
        unsigned char *data = malloc(bytes);
        for (size_t i = 0; i < bytes; i++)
            data[i] = byte_of(i, round);
        int fd = open(the_path(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
        close(fd);
        free(data);
    }
    OK(weft_barrier(weft_team_world(job)));
}

static bool has_file(int pe, int round)
{
    return round % 3 == 0 || (round % 3 == 1 ? pe == (round / 3) % n : pe % 2 == (n > 1));
}

static void look(size_t bytes)
{
    OK(weft_get(ctx, plain, block, bytes, me));
}

static void scatter(int round)
{
    size_t bytes = (size_t)(1 + (round * 7919) % (MOST - 1));
    uint64_t offset = (uint64_t)((round * 5237) % 10000);
    weft_file *file = NULL;
    weft_file_result result;
    make_file(offset + bytes * (size_t)n, round);
    if (has_file(me, round))
        OK(weft_file_open(job, the_path(), WEFT_FILE_READ | WEFT_FILE_CHECKSUM, NULL, &file));
    OK(weft_file_scatter(weft_team_world(job), file, block, bytes, offset, &result));
    CHECK(result.status == WEFT_OK && result.done == bytes);
    look(bytes);
    for (size_t i = 0; i < bytes; i++)
        CHECK(plain[i] == byte_of(offset + (size_t)me * bytes + i, round));
    CHECK(result.crc32c == slow_crc32c(plain, bytes));
    OK(weft_file_close(file));
}

static void gather(int round)
{
    size_t bytes = (size_t)(1 + (round * 6323) % (MOST - 1));
    uint64_t offset = (uint64_t)((round * 3571) % 10000);
    weft_file *file = NULL;
    weft_file_result result;
    make_file(1, 0);
    if (has_file(me, round))
        OK(weft_file_open(job, the_path(), WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    for (size_t i = 0; i < bytes; i++)
        plain[i] = byte_of((size_t)me * bytes + i, round);
    OK(weft_put(ctx, block, plain, bytes, me));
    OK(weft_quiet(ctx));
    OK(weft_file_gather(weft_team_world(job), file, block, bytes, offset, &result));
    CHECK(result.status == WEFT_OK && result.done == bytes);
    OK(weft_file_close(file));
    OK(weft_barrier(weft_team_world(job)));
    if (me == 0) {
        size_t all = bytes * (size_t)n;
        unsigned char *model = calloc(1, offset + all);
        model[0] = byte_of(0, 0);
        for (size_t i = 0; i < all; i++)
            model[offset + i] = byte_of(i, round);
        check_file(the_path(), model, offset + all);
        free(model);
    }
    OK(weft_barrier(weft_team_world(job)));
}

/* The file ends within the last member's block: all members get the error, and the others get their
 * data. */
static void too_short(void)
{
    weft_file *file = NULL;
    weft_file_result result;
    size_t bytes = 5000;
    make_file(bytes * (size_t)n - 1234, 3);
    if (me == 0)
        OK(weft_file_open(job, the_path(), WEFT_FILE_READ, NULL, &file));
    FAILS(weft_file_scatter(weft_team_world(job), file, block, bytes, 0, &result), WEFT_ERR_RANGE,
          "its first 3766 bytes are safe");
    CHECK(result.done == (me == n - 1 ? 3766 : 5000));
    CHECK(result.status == (me == n - 1 ? WEFT_ERR_RANGE : WEFT_OK));
    FAILS(weft_file_gather(weft_team_world(job), file, block, bytes, 0, &result), WEFT_ERR_ARGUMENT,
          "an argument");
    FAILS(weft_file_scatter(weft_team_world(job), NULL, block, 8, 0, NULL), WEFT_ERR_ARGUMENT,
          "null at every member");
    FAILS(weft_file_scatter(NULL, file, block, 8, 0, NULL), WEFT_ERR_ARGUMENT, "team is null");
    if (n > 1)
        FAILS(weft_file_scatter(weft_team_world(job), file, block, 8 + (size_t)(me == 1), 0, NULL),
              WEFT_ERR_MISMATCH, "9 bytes");
    OK(weft_file_close(file));
}

/* ------------------------------------------------------------------------------- several parts */

static void parts(void)
{
    enum { PARTS = 37 };
    weft_file *file;
    weft_file_part list[PARTS];
    weft_file_result results[PARTS];
    const char *path = test_path("parts", me);
    OK(weft_file_open(job, path, WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    for (size_t i = 0; i < MOST; i++)
        plain[i] = byte_of(i, me);
    OK(weft_put(ctx, block, plain, MOST, me));
    OK(weft_quiet(ctx));
    /* Reversed: the last part of memory is the first of the file. */
    size_t size = MOST / PARTS;
    for (int i = 0; i < PARTS; i++)
        list[i] = (weft_file_part){block + (size_t)i * size, i == 5 ? 0 : size,
                                   (uint64_t)(PARTS - 1 - i) * size, me, &results[i]};
    OK(weft_file_write_vector(file, list, PARTS));
    unsigned char *model = calloc(1, size * PARTS);
    for (int i = 0; i < PARTS; i++) {
        CHECK(results[i].status == WEFT_OK && results[i].done == list[i].bytes);
        memcpy(model + list[i].offset, plain + (size_t)i * size, list[i].bytes);
    }
    check_file(path, model, size * PARTS);
    /* Reads it back in file order; one part runs past the end. */
    for (int i = 0; i < PARTS; i++)
        list[i] =
            (weft_file_part){block + (size_t)i * size, size, (uint64_t)i * size, me, &results[i]};
    list[9].offset = size * PARTS - 10;
    FAILS(weft_file_read_vector(file, list, PARTS), WEFT_ERR_RANGE, "run past the end of ");
    for (int i = 0; i < PARTS; i++)
        CHECK(results[i].done == (i == 9 ? 10 : size));
    list[9].offset = 9 * size;
    OK(weft_file_read_vector_nbi(file, list, PARTS));
    OK(weft_file_quiet(file));
    look(size * PARTS);
    CHECK(memcmp(plain, model, size * PARTS) == 0);
    results[0].done = 77;
    list[PARTS - 1].pe = n;
    FAILS(weft_file_read_vector(file, list, PARTS), WEFT_ERR_PE, "does not exist");
    CHECK(results[0].done == 77); /* no part has started */
    OK(weft_file_read_vector(file, NULL, 0));
    FAILS(weft_file_read_vector(file, NULL, 1), WEFT_ERR_ARGUMENT, "parts is null");
    free(model);
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
}

/* ------------------------------------------------------------------------------------- streams */

static void set(void *argument)
{
    memset(argument, 0x5a, 5000);
}

static void streams(void)
{
    weft_file *file;
    weft_stream stream;
    weft_file_result written, read, late;
    const char *path = test_path("stream", me);
    if (weft_target_get() != WEFT_SIMT)
        return; /* tests/gpu/file_stream.c tests it */
    OK(weft_file_open(job, path, WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    OK(weft_stream_create(&stream));
    for (int round = 0; round < 20; round++) {
        memset(block, round, 10000);
        OK(weft_stream_host_call(stream, set, block + 100));
        OK(weft_file_write_on_stream(file, block, 10000, 17, me, &written, stream));
        OK(weft_file_read_on_stream(file, block + 20000, 10000, 17, me, &read, stream));
        OK(weft_file_read_on_stream(file, block, 100, 20000, me, &late, stream));
        OK(weft_stream_synchronize(stream));
        CHECK(written.done == 10000 && read.done == 10000);
        for (int i = 0; i < 10000; i++)
            CHECK(block[20000 + i] == (i >= 100 && i < 5100 ? 0x5a : round));
        CHECK(late.status == WEFT_ERR_RANGE && late.done == 0);
        FAILS(weft_file_quiet(file), WEFT_ERR_RANGE, "100 bytes at 20000");
        OK(weft_file_quiet(file));
    }
    FAILS(weft_file_read_on_stream(file, NULL, 100, 0, me, &late, stream), WEFT_ERR_ARGUMENT,
          "dst is null");
    OK(weft_stream_destroy(stream));
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
}

int main(int argc, char **argv)
{
    void *made;
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    bool gpu = argc > 1 && strcmp(argv[1], "gpu") == 0;
    weft_status status = weft_alloc(job, gpu ? WEFT_GPU : WEFT_HOST, MOST + 64, 0, 0, &made);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        return 77;
    }
    OK(status);
    block = made;
    plain = malloc(MOST);
    CHECK(plain);
    for (int round = 0; round < 9; round++) {
        scatter(round);
        gather(round);
    }
    too_short();
    parts();
    if (!gpu)
        streams();
    OK(weft_barrier(weft_team_world(job)));
    if (me == 0)
        CHECK(unlink(the_path()) == 0);
    OK(weft_finalize(job));
    free(plain);
    return 0;
}
