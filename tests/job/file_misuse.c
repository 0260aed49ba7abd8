/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong use of files by the program, and changes of a file by other processes: the library refuses
 * them with a message or handles them. */
#include "tests/job/file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static weft_job *job;
static int me, n;

static void opens(void)
{
    weft_file *file = (weft_file *)1;
    weft_file_attr attr = {.size = sizeof attr, .depth = 257};
    const char *path = test_path("misuse", me);
    FAILS(weft_file_open(NULL, path, WEFT_FILE_READ, NULL, &file), WEFT_ERR_ARGUMENT,
          "job is null");
    CHECK(file == NULL);
    FAILS(weft_file_open(job, NULL, WEFT_FILE_READ, NULL, &file), WEFT_ERR_ARGUMENT,
          "path is null");
    FAILS(weft_file_open(job, path, WEFT_FILE_READ, NULL, NULL), WEFT_ERR_ARGUMENT, "file is null");
    FAILS(weft_file_open(job, path, 0, NULL, &file), WEFT_ERR_ARGUMENT, "neither WEFT_FILE_READ");
    FAILS(weft_file_open(job, path, 1024 | 1, NULL, &file), WEFT_ERR_ARGUMENT, "flags");
    FAILS(weft_file_open(job, path, WEFT_FILE_READ | WEFT_FILE_CREATE, NULL, &file),
          WEFT_ERR_ARGUMENT, "WEFT_FILE_WRITE");
    FAILS(weft_file_open(job, path, WEFT_FILE_READ, NULL, &file), WEFT_ERR_SYSTEM, path);
    CHECK(strstr(weft_last_error(), strerror(ENOENT)));
    FAILS(weft_file_open(job, "/proc/self", WEFT_FILE_READ, NULL, &file), WEFT_ERR_ARGUMENT,
          "is a directory");
    FAILS(weft_file_open(job, "/dev/zero", WEFT_FILE_READ, NULL, &file), WEFT_ERR_ARGUMENT,
          "character device");
    CHECK(mkfifo(path, 0600) == 0);
    FAILS(weft_file_open(job, path, WEFT_FILE_READ, NULL, &file), WEFT_ERR_ARGUMENT, "is a pipe");
    CHECK(unlink(path) == 0);
    FAILS(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE, &attr, &file),
          WEFT_ERR_ARGUMENT, "depth is 257");
    attr = (weft_file_attr){.size = sizeof attr, .chunk_bytes = 5000};
    FAILS(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE, &attr, &file),
          WEFT_ERR_ARGUMENT, "chunk_bytes is 5000");
    CHECK(access(path, F_OK) != 0); /* no file was created */
    attr = (weft_file_attr){.size = 3};
    FAILS(weft_file_open(job, path, WEFT_FILE_READ, &attr, &file), WEFT_ERR_ARGUMENT, "attr");
    OK(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    OK(weft_file_close(file));
    FAILS(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_EXCLUSIVE, NULL,
                         &file),
          WEFT_ERR_SYSTEM, strerror(EEXIST));
    CHECK(unlink(path) == 0);
    OK(weft_file_close(NULL));
}

static void rights(void)
{
    weft_file *file;
    char data[100] = {1};
    weft_file_result result;
    const char *path = test_path("rights", me);
    OK(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    FAILS(weft_file_read(file, data, 1, 0, me, &result), WEFT_ERR_ARGUMENT,
          "without WEFT_FILE_READ");
    CHECK(result.status == WEFT_ERR_ARGUMENT && result.done == 0);
    OK(weft_file_write(file, data, sizeof data, 0, me, &result));
    CHECK(result.crc32c == 0); /* checksums were not requested */
    OK(weft_file_close(file));
    OK(weft_file_open(job, path, WEFT_FILE_READ, NULL, &file));
    FAILS(weft_file_write(file, data, 1, 0, me, NULL), WEFT_ERR_ARGUMENT,
          "without WEFT_FILE_WRITE");
    FAILS(weft_file_write_nbi(file, data, 1, 0, me, NULL), WEFT_ERR_ARGUMENT, "WEFT_FILE_WRITE");
    FAILS(weft_file_resize(file, 1), WEFT_ERR_ARGUMENT, "WEFT_FILE_WRITE");
    OK(weft_file_sync(file));
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
}

static void arguments(weft_file *file, char *heap, size_t heap_bytes)
{
    static char own[100];
    weft_file_result result;
    int other = (me + 1) % n;
    FAILS(weft_file_read(NULL, own, 1, 0, me, NULL), WEFT_ERR_ARGUMENT, "file is null");
    FAILS(weft_file_read(file, NULL, 1, 0, me, NULL), WEFT_ERR_ARGUMENT, "dst is null");
    FAILS(weft_file_write(file, NULL, 1, 0, me, NULL), WEFT_ERR_ARGUMENT, "src is null");
    FAILS(weft_file_read(file, own, 1, 0, n, NULL), WEFT_ERR_PE, "does not exist");
    FAILS(weft_file_read(file, own, 1, 0, -1, NULL), WEFT_ERR_PE, "PE -1");
    OK(weft_file_read(file, NULL, 0, 0, me, &result));
    CHECK(result.status == WEFT_OK && result.done == 0);
    FAILS(weft_file_read(file, own, 8, (uint64_t)INT64_MAX - 3, me, NULL), WEFT_ERR_RANGE, "2^63");
    FAILS(weft_file_write(file, own, 8, UINT64_MAX, me, NULL), WEFT_ERR_RANGE, "2^63");
    if (n > 1) {
        FAILS(weft_file_read(file, own, 8, 0, other, &result), WEFT_ERR_ADDRESS,
              "is not a symmetric address");
        FAILS(weft_file_read(file, heap, heap_bytes, 0, other, &result), WEFT_ERR_RANGE,
              "past the end of the heap segment");
    }
    FAILS(weft_file_read(file, heap, heap_bytes, 0, me, &result), WEFT_ERR_RANGE,
          "past the end of the heap segment");
    CHECK(result.status == WEFT_ERR_RANGE);
    FAILS(weft_file_size(file, NULL), WEFT_ERR_ARGUMENT, "bytes is null");
    FAILS(weft_file_query(file, NULL), WEFT_ERR_ARGUMENT, "info is null");
    weft_file_info info = {.size = 1};
    FAILS(weft_file_query(file, &info), WEFT_ERR_ARGUMENT, "info");
}

/* Memory that is not mapped or is read-only. */
static void bad_memory(weft_file *file)
{
    weft_file_result result;
    char *mapped = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    FAILS(weft_file_read(file, mapped, 65536, 0, me, &result), WEFT_ERR_SYSTEM, strerror(EFAULT));
    CHECK(result.error == EFAULT && result.done == 0);
    CHECK(munmap(mapped, 65536) == 0);
    FAILS(weft_file_write(file, mapped, 65536, 0, me, &result), WEFT_ERR_SYSTEM, "not mapped");
    CHECK(result.error == EFAULT && result.done == 0);
}

/* A limit on the file size acts like a full disk: the kernel refuses in the middle of a write. */
static void full(weft_file *file, char *data, size_t bytes)
{
    struct rlimit before, limit;
    weft_file_result result;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = 123456;
    OK(weft_file_resize(file, 0));
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    weft_status status = weft_file_write(file, data, bytes, 0, me, &result);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(status == WEFT_ERR_SYSTEM && result.error == EFBIG && result.done <= 123456);
    CHECK(strstr(weft_last_error(), "ulimit -f") && strstr(weft_last_error(), "weft_test_wrong."));
    char *back = malloc(bytes);
    OK(weft_file_read(file, back, result.done, 0, me, NULL));
    CHECK(memcmp(back, data, result.done) == 0);
    free(back);
    OK(weft_file_write(file, data, bytes, 0, me, &result));
}

/* Another process truncates the file between two reads, and during reads. */
static void shrinks(weft_file *file, const char *path, char *data, size_t bytes)
{
    weft_file_result result;
    OK(weft_file_write(file, data, bytes, 0, me, NULL));
    CHECK(truncate(path, 70001) == 0);
    char *back = malloc(bytes);
    CHECK(back);
    FAILS(weft_file_read(file, back, bytes, 0, me, &result), WEFT_ERR_RANGE, "has 70001 bytes now");
    CHECK(result.done == 70001 && memcmp(back, data, 70001) == 0);
    CHECK(strstr(weft_last_error(), path)); /* the message names the file */
    FAILS(weft_file_read(file, back, 10, 90000, me, &result), WEFT_ERR_RANGE,
          "has 70001 bytes now");
    CHECK(result.done == 0);
    FAILS(weft_file_read(file, back, 10, 70001, me, &result), WEFT_ERR_RANGE, "past the end");
    CHECK(result.done == 0);
    OK(weft_file_write(file, data, bytes, 0, me, NULL));
    _Atomic int *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                             -1, 0); /* reads of the parent so far */
    CHECK(seen != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 400 || (*seen < 3 && i < 1000000); i++) {
            if (truncate(path, i % 2 ? (off_t)bytes : 8192 + i) != 0)
                _exit(1);
        }
        _exit(0);
    }
    int state, reads = 0;
    while (waitpid(child, &state, WNOHANG) == 0) {
        weft_status status = weft_file_read(file, back, bytes, 0, me, &result);
        CHECK(status == WEFT_OK || status == WEFT_ERR_RANGE);
        CHECK(status ? result.done < bytes && result.done >= 8192 : result.done == bytes);
        CHECK(memcmp(back, data, 8192) == 0);
        *seen = ++reads;
    }
    munmap((void *)seen, sizeof *seen);
    CHECK(reads >= 3 && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    free(back);
}

/* A child of fork() may not use the inherited handle; the parent's transfer continues. */
static void forks(weft_file *file, char *data, size_t bytes)
{
    weft_file_result result;
    OK(weft_file_write_nbi(file, data, bytes, 0, me, &result));
    pid_t child = fork();
    if (child == 0) {
        char byte;
        bool refused = weft_file_read(file, &byte, 1, 0, 0, NULL) == WEFT_ERR_FINALIZED &&
                       weft_file_close(file) == WEFT_ERR_FINALIZED;
        _exit(refused ? 0 : 1);
    }
    int state;
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    OK(weft_file_quiet(file));
    CHECK(result.done == bytes);
}

/* The next quiet reports the first failure of nonblocking transfers, once; the results report
 * each. */
static void tells_late(weft_file *file, char *data)
{
    weft_file_result results[3];
    OK(weft_file_resize(file, 5000));
    OK(weft_file_read_nbi(file, data, 5000, 0, me, &results[0]));
    OK(weft_file_read_nbi(file, data + 8192, 5000, 4000, me, &results[1]));
    OK(weft_file_read_nbi(file, data + 16384, 100, 4900, me, &results[2]));
    FAILS(weft_file_quiet(file), WEFT_ERR_RANGE, "5000 bytes at 4000");
    CHECK(results[0].status == WEFT_OK && results[0].done == 5000);
    CHECK(results[1].status == WEFT_ERR_RANGE && results[1].done == 1000);
    CHECK(results[2].status == WEFT_OK && results[2].done == 100);
    OK(weft_file_quiet(file));
    OK(weft_file_read_nbi(file, data, 10, 6000, me, NULL));
}

/* A test never waits. When it reports completion, the results are valid, and the next quiet still
 * reports the failure. */
static void tests_without_waiting(weft_file *file, char *data)
{
    weft_file_result results[40];
    int ended = 7;
    OK(weft_file_test(file, &ended));
    CHECK(ended == 1);
    FAILS(weft_file_test(file, NULL), WEFT_ERR_ARGUMENT, "ended is null");
    OK(weft_file_resize(file, 5000));
    for (int i = 0; i < 40; i++)
        OK(weft_file_read_nbi(file, data + i * 5000, 5000, i == 39 ? 10 : 0, me, &results[i]));
    do
        OK(weft_file_test(file, &ended));
    while (!ended);
    for (int i = 0; i < 39; i++)
        CHECK(results[i].status == WEFT_OK && results[i].done == 5000);
    CHECK(results[39].status == WEFT_ERR_RANGE && results[39].done == 4990);
    FAILS(weft_file_quiet(file), WEFT_ERR_RANGE, "5000 bytes at 10");
}

static void joins_checksums(const char *path, char *data)
{
    weft_file *file;
    weft_file_result whole, parts[2];
    OK(weft_file_open(job, path, WEFT_FILE_READ | WEFT_FILE_CHECKSUM, NULL, &file));
    OK(weft_file_read(file, data, 5000, 0, me, &whole));
    OK(weft_file_read(file, data, 1777, 0, me, &parts[0]));
    OK(weft_file_read(file, data, 3223, 1777, me, &parts[1]));
    CHECK(weft_file_join_checksums(parts[0].crc32c, parts[1].crc32c, 3223) == whole.crc32c);
    CHECK(weft_file_join_checksums(parts[1].crc32c, parts[0].crc32c, 1777) != whole.crc32c);
    CHECK(weft_file_join_checksums(whole.crc32c, 0, 0) == whole.crc32c);
    OK(weft_file_close(file));
}

int main(void)
{
    enum { BYTES = 500 * 1000 };
    weft_file *file, *left;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    char *heap = alloc(job, BYTES);
    char path[512];
    for (size_t i = 0; i < BYTES; i++)
        heap[i] = (char)(i * 13 + (i >> 8) + 1);
    opens();
    rights();
    snprintf(path, sizeof path, "%s", test_path("wrong", me));
    unsigned flags = WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE;
    OK(weft_file_open(job, path, flags, NULL, &file));
    OK(weft_file_write(file, heap, BYTES, 0, me, NULL));
    arguments(file, heap, (size_t)5 << 30);
    bad_memory(file);
    full(file, heap, BYTES);
    shrinks(file, path, heap, BYTES);
    forks(file, heap, BYTES);
    tests_without_waiting(file, heap);
    joins_checksums(path, heap);
    tells_late(file, heap);
    /* no quiet has reported the failure */
    FAILS(weft_file_close(file), WEFT_ERR_RANGE, "10 bytes at 6000");
    OK(weft_file_open(job, path, flags, NULL, &left));
    OK(weft_file_write_nbi(left, heap, BYTES, 3, me, NULL));
    static char last[BYTES + 3];
    memcpy(last, heap, BYTES);
    OK(weft_finalize(job)); /* finishes the transfers in flight */
    FAILS(weft_file_read(left, last, 1, 0, 0, NULL), WEFT_ERR_FINALIZED, "finalized");
    OK(weft_file_close(left));
    memmove(last + 3, last, BYTES);
    int fd = open(path, O_RDONLY);
    static char seen[BYTES + 3];
    CHECK(fd >= 0 && read(fd, seen, sizeof seen) == (ssize_t)sizeof seen);
    CHECK(memcmp(seen + 3, last + 3, BYTES) == 0);
    close(fd);
    CHECK(unlink(path) == 0);
    return 0;
}
