/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory and files by cuFile, over its stand-in:
 *   direct [unknown]    cuFile moves large blocks but not partial pages; registrations are removed
 *                       in order
 *   opened              the same when the program has opened the driver before: it stays open
 *   checksum            files with checksums do not use it
 *   refused CODE WORDS  the library does not use it for this reason, and the bytes are right
 *   falls WORDS         a transfer that it refuses goes through pinned memory, and so do the next
 *                       ones
 *   mixed               host and GPU memory in one vector, GPU memory not aligned to a page, and
 *                       concurrent work of the program
 *   peer                memory of the other PE's GPU does not use it
 *   error ERRNO         a system error is reported with the number of bytes done
 *   insists WORDS       with WEFT_FILE_GPU=cufile that is an error
 *   killed              ends by SIGKILL with transfers in flight */
#include "tests/job/file.h"

#include <signal.h>
#include <sys/wait.h>

enum { PAGE = 4096, BYTES = 3 * 1024 * 1024, PARTS = 777 };

static weft_job *job;
static int me;
static weft_file *file;
static char *memory;
static unsigned char model[BYTES], seen[BYTES];

static void fill(void)
{
    uint64_t random = 77;
    random_bytes(&random, model, BYTES);
    OK(weft_put(weft_default_ctx(job), memory, model, BYTES, me));
    OK(weft_quiet(weft_default_ctx(job)));
}

static void check_memory(size_t bytes)
{
    OK(weft_get(weft_default_ctx(job), seen, memory, bytes, me));
    CHECK(memcmp(seen, model, bytes) == 0);
}

static weft_file_info query(void)
{
    weft_file_info info = {.size = sizeof info};
    OK(weft_file_query(file, &info));
    return info;
}

/* Whole pages, and a partial page at both ends. */
static weft_status write_and_read(weft_file_result *result)
{
    unsigned char zeros[BYTES] = {0};
    weft_status status =
        weft_file_write(file, memory + PARTS, BYTES - 2 * PARTS, PARTS, me, result);
    if (status)
        return status;
    OK(weft_put(weft_default_ctx(job), memory, zeros, BYTES, me));
    OK(weft_put(weft_default_ctx(job), memory, model, PARTS, me));
    OK(weft_put(weft_default_ctx(job), memory + BYTES - PARTS, model + BYTES - PARTS, PARTS, me));
    OK(weft_quiet(weft_default_ctx(job)));
    status = weft_file_read(file, memory + PARTS, BYTES - 2 * PARTS, PARTS, me, result);
    if (status == WEFT_OK)
        check_memory(BYTES);
    return status;
}

/* Log of the calls of the stand-in by this process, or NULL without a log. */
static const char *own_log(void)
{
    static char path[512];
    const char *log = getenv("FAKE_CUFILE_LOG");
    if (!log)
        return NULL;
    snprintf(path, sizeof path, "%s.%d", log, (int)getpid());
    CHECK(setenv("FAKE_CUFILE_LOG", path, 1) == 0);
    return path;
}

static int count_lines(const char *path, const char *line)
{
    char text[64];
    int n = 0;
    FILE *log = fopen(path, "r");
    while (log && fgets(text, sizeof text, log))
        n += strncmp(text, line, strlen(line)) == 0 && text[strlen(line)] == '\n';
    if (log)
        fclose(log);
    return n;
}

static void check_log(const char *log, int opened, int known)
{
    CHECK(count_lines(log, "open") == opened && count_lines(log, "close") == opened);
    CHECK(count_lines(log, "enlist") == 1 && count_lines(log, "drop") == 1);
    CHECK(count_lines(log, "know") == known && count_lines(log, "forget") == known);
    /* 8 KiB for each request, except for the partial pages */
    CHECK(count_lines(log, "write") >= BYTES / 8192 - 2);
    CHECK(count_lines(log, "read") >= BYTES / 8192 - 2);
}

/* Each part gets its own result, whichever backend moves it. */
static void mixed_vector(char *host)
{
    weft_file_result results[4] = {{0}};
    weft_file_part parts[4];
    for (size_t i = 0; i < 4; i++)
        parts[i] = (weft_file_part){.address = (i % 2 ? host : memory) + i * 2 * PAGE,
                                    .bytes = (i + 1) * PAGE,
                                    .offset = i * 16 * PAGE,
                                    .result = &results[i]};
    OK(weft_file_write_vector(file, parts, 4));
    for (size_t i = 0; i < 4; i++)
        CHECK(results[i].status == WEFT_OK && results[i].done == (i + 1) * PAGE);
    parts[2].offset = BYTES; /* past the end */
    results[0].done = results[1].done = 0;
    CHECK(weft_file_read_vector(file, parts, 4) == WEFT_ERR_RANGE);
    for (size_t i = 0; i < 4; i++)
        CHECK(results[i].status == (i == 2 ? WEFT_ERR_RANGE : WEFT_OK) &&
              results[i].done == (i == 2 ? 0 : (i + 1) * PAGE));
}

/* cuFile needs whole pages of GPU memory, also where the kernel accepts less alignment of host
 * memory. */
static void off_the_line(void)
{
    OK(weft_file_write(file, memory + 512, 4 * PAGE, 0, 0, NULL));
    OK(weft_file_read(file, memory + 16 * PAGE + 512, 4 * PAGE, 0, 0, NULL));
    OK(weft_get(weft_default_ctx(job), seen, memory + 16 * PAGE + 512, 4 * PAGE, 0));
    CHECK(memcmp(seen, model + 512, 4 * PAGE) == 0);
}

/* When weft_file_test() reports the end, the data is there. */
static void beside_the_program(void)
{
    int ended = 0;
    unsigned char zeros[BYTES] = {0};
    OK(weft_file_write(file, memory, BYTES, 0, 0, NULL));
    for (int round = 0; round < 5; round++) {
        OK(weft_put(weft_default_ctx(job), memory, zeros, BYTES, me));
        OK(weft_quiet(weft_default_ctx(job)));
        OK(weft_file_read_nbi(file, memory, BYTES, 0, 0, NULL));
        do
            OK(weft_file_test(file, &ended));
        while (!ended);
        check_memory(BYTES);
        OK(weft_file_quiet(file));
    }
}

static void mixed(void)
{
    void *host;
    OK(weft_alloc(job, WEFT_HOST, 16 * PAGE, PAGE, WEFT_ALLOC_ZERO, &host));
    fill();
    mixed_vector(host);
    fill();
    off_the_line();
    fill();
    beside_the_program();
    OK(weft_free(job, host));
}

/* PE 0 has the file and moves memory of PE 1, which it accesses like its own. */
static void peer(const char *log)
{
    OK(weft_barrier(weft_team_world(job)));
    if (me == 0) {
        int before = count_lines(log, "read") + count_lines(log, "write");
        CHECK(before > 0);
        OK(weft_file_write(file, memory, BYTES - PAGE, 0, 1, NULL));
        OK(weft_file_read(file, memory, BYTES - PAGE, 0, 1, NULL));
        CHECK(count_lines(log, "read") + count_lines(log, "write") == before);
    }
    OK(weft_barrier(weft_team_world(job)));
    if (me == 1)
        check_memory(BYTES);
}

static void killed(void)
{
    for (int i = 0; i < 50; i++)
        OK(weft_file_read_nbi(file, memory, BYTES - PAGE, 0, 0, NULL));
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "direct", *log = own_log();
    void *block;
    weft_file_result result = {0};
    if (log)
        unlink(log);
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    weft_status status = weft_alloc(job, WEFT_GPU, BYTES, 65536, 0, &block);
    if (status == WEFT_ERR_UNSUPPORTED)
        return 77;
    OK(status);
    memory = block;
    const char *path = test_path("cufile", me);
    bool opened = strcmp(what, "opened") == 0, direct = opened || strcmp(what, "direct") == 0;
    OK(weft_file_open(job, path,
                      WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_TRUNCATE |
                          (strcmp(what, "checksum") == 0 ? WEFT_FILE_CHECKSUM : 0),
                      NULL, &file));
    if (query().alignment == 1)
        return unlink(path), 77; /* no direct I/O on this file system */
    fill();
    status = strcmp(what, "killed") ? write_and_read(&result) : WEFT_OK;
    weft_file_info info = query();
    fprintf(stderr, "%s: %s %s\n%s\n", info.gpu_backend, info.gpu_reason_code, info.gpu_reason,
            status ? weft_last_error() : "");
    if (direct) {
        OK(status);
        CHECK(result.done == BYTES - 2 * PARTS);
        CHECK(strncmp(info.gpu_backend, "cufile", 6) == 0 && !info.gpu_reason[0]);
    } else if (strcmp(what, "refused") == 0) {
        OK(status);
        CHECK(strcmp(info.gpu_backend, "pinned") == 0);
        CHECK(strcmp(info.gpu_reason_code, argv[2][0] == '-' ? "" : argv[2]) == 0);
        CHECK(strstr(info.gpu_reason, argv[3]));
    } else if (strcmp(what, "checksum") == 0) {
        OK(status);
        CHECK(strcmp(info.gpu_backend, "pinned") == 0);
        CHECK(strstr(info.gpu_reason, "WEFT_FILE_CHECKSUM"));
        CHECK(count_lines(log, "open") == 0 && count_lines(log, "read") == 0);
    } else if (strcmp(what, "falls") == 0) {
        OK(status);
        CHECK(strcmp(info.gpu_backend, "pinned") == 0 && strstr(info.gpu_reason, argv[2]));
        int before = count_lines(log, "read");
        OK(weft_file_read(file, memory, BYTES - PAGE, 0, 0, NULL));
        CHECK(count_lines(log, "read") == before);
    } else if (strcmp(what, "mixed") == 0) {
        OK(status);
        mixed();
    } else if (strcmp(what, "peer") == 0) {
        OK(status);
        peer(log);
    } else if (strcmp(what, "error") == 0) {
        CHECK(status == WEFT_ERR_SYSTEM && result.error == atoi(argv[2]));
        CHECK(strstr(weft_last_error(), strerror(result.error)) && result.done < BYTES);
    } else if (strcmp(what, "insists") == 0) {
        CHECK(status && strstr(weft_last_error(), argv[2]));
    } else if (strcmp(what, "killed") == 0) {
        unlink(path);
        killed();
    }
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
    OK(weft_finalize(job));
    if (direct && log)
        check_log(log, !opened, argc > 2 ? 0 : 1);
    if (log)
        unlink(log);
    return 0;
}
