/* SPDX-License-Identifier: Apache-2.0 */
/* A file larger than memory may be (10 GiB, most of it holes), written and read through a window, by one call of many
 * parts: every byte of it is looked at by its checksum, and memory stays bounded. */
#include "tests/job/file.h"

#include <sys/resource.h>

enum { MARK = 5001 };
static const size_t window = (size_t)32 << 20;
static const uint64_t whole = ((uint64_t)10 << 30) + 4321;

static void mark(unsigned char *bytes, uint64_t at)
{
    for (size_t i = 0; i < MARK; i++)
        bytes[i] = (unsigned char)((at >> 20) * 3 + i * 7 + 1);
}

static long most_kib(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

int main(void)
{
    weft_job *job;
    weft_file *file;
    const char *path = test_path("large", 0);
    static unsigned char mine[MARK];
    uint64_t size;
    OK(weft_init(&job, NULL));
    unsigned char *block = alloc(job, window);
    OK(weft_file_open(job, path,
                      WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_CHECKSUM,
                      NULL, &file));
    OK(weft_file_resize(file, whole));
    /* A mark across the end of every 40th window. */
    size_t windows = (size_t)((whole + window - 1) / window);
    for (size_t i = 0; i + 1 < windows; i += 40) {
        uint64_t at = (i + 1) * window - 1234;
        mark(mine, at);
        OK(weft_file_write(file, mine, MARK, at, 0, NULL));
    }
    OK(weft_file_size(file, &size));
    CHECK(size == whole);
    weft_file_part *parts = calloc(windows, sizeof *parts);
    weft_file_result *results = calloc(windows, sizeof *results);
    CHECK(parts && results);
    for (size_t i = 0; i < windows; i++) {
        uint64_t at = i * window;
        parts[i] = (weft_file_part){block, whole - at < window ? (size_t)(whole - at) : window, at,
                                    0, &results[i]};
    }
    OK(weft_file_read_vector(file, parts, windows));
    unsigned char *model = calloc(1, window);
    CHECK(model);
    uint32_t empty = slow_crc32c(model, window);
    for (size_t i = 0; i < windows; i++) {
        CHECK(results[i].done == parts[i].bytes);
        bool ends_in_mark = i % 40 == 0 && i + 1 < windows, begins_in_mark = i % 40 == 1;
        if (parts[i].bytes == window && !ends_in_mark && !begins_in_mark) {
            CHECK(results[i].crc32c == empty);
            continue;
        }
        memset(model, 0, window);
        if (ends_in_mark) {
            mark(mine, (i + 1) * window - 1234);
            memcpy(model + window - 1234, mine, 1234);
        }
        if (begins_in_mark) {
            mark(mine, i * window - 1234);
            memcpy(model, mine + 1234, MARK - 1234);
        }
        CHECK(results[i].crc32c == slow_crc32c(model, parts[i].bytes));
    }
    fprintf(stderr, "%zu windows, most memory %ld MiB\n", windows, most_kib() >> 10);
    CHECK(most_kib() < 300 << 10);
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
    OK(weft_finalize(job));
    free(model);
    free(results);
    free(parts);
    return 0;
}
