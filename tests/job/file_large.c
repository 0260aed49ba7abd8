/* SPDX-License-Identifier: Apache-2.0 */
/* A file larger than memory (10 GiB, most of it holes) is written and read through a window, whose
 * parts one call reads. Checksums cover every byte, and memory use stays bounded. */
#include "tests/job/file.h"

#include <sys/resource.h>

enum { MARK = 5001, PARTS = 4 };
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

/* Returns the checksum of the window, joined from those of its parts. The parts do not overlap in
 * memory, because the parts of a call have no order. */
static uint32_t read_window(weft_file *file, unsigned char *block, uint64_t at, size_t bytes)
{
    weft_file_part parts[PARTS];
    weft_file_result results[PARTS];
    uint32_t crc = 0;
    size_t share = bytes / PARTS;
    for (size_t i = 0; i < PARTS; i++)
        parts[i] = (weft_file_part){block + i * share, i < PARTS - 1 ? share : bytes - i * share,
                                    at + i * share, 0, &results[i]};
    OK(weft_file_read_vector(file, parts, PARTS));
    for (size_t i = 0; i < PARTS; i++) {
        CHECK(results[i].done == parts[i].bytes);
        crc = i ? weft_file_join_checksums(crc, results[i].crc32c, parts[i].bytes)
                : results[i].crc32c;
    }
    return crc;
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
    /* Marked bytes cross the end of every 40th window. */
    size_t windows = (size_t)((whole + window - 1) / window);
    for (size_t i = 0; i + 1 < windows; i += 40) {
        uint64_t at = (i + 1) * window - 1234;
        mark(mine, at);
        OK(weft_file_write(file, mine, MARK, at, 0, NULL));
    }
    OK(weft_file_size(file, &size));
    CHECK(size == whole);
    unsigned char *model = calloc(1, window);
    CHECK(model);
    uint32_t empty = slow_crc32c(model, window);
    for (size_t i = 0; i < windows; i++) {
        size_t bytes = whole - i * window < window ? (size_t)(whole - i * window) : window;
        uint32_t crc = read_window(file, block, i * window, bytes);
        bool ends_in_mark = i % 40 == 0 && i + 1 < windows, begins_in_mark = i % 40 == 1;
        if (bytes == window && !ends_in_mark && !begins_in_mark) {
            CHECK(crc == empty);
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
        CHECK(crc == slow_crc32c(model, bytes));
    }
    fprintf(stderr, "%zu windows, most memory %ld MiB\n", windows, most_kib() >> 10);
    CHECK(most_kib() < 300 << 10);
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
    OK(weft_finalize(job));
    free(model);
    return 0;
}
