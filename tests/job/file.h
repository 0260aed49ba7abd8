/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the file tests: a separate file for each PE, a check of its contents, and random
 * numbers that are equal in every run. */
#ifndef WEFT_TESTS_JOB_FILE_H
#define WEFT_TESTS_JOB_FILE_H

#include "tests/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft_file.h>

/* The path is in the folder JOB_FOLDER, else in the current one. */
static inline const char *test_path(const char *name, int pe)
{
    static char path[512];
    const char *folder = getenv("JOB_FOLDER");
    snprintf(path, sizeof path, "%s/weft_test_%s.%d.%d", folder ? folder : ".", name,
             (int)getppid(), pe);
    return path;
}

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Returns a length: often tiny, often about a page or a chunk, seldom large. */
static inline size_t random_length(uint64_t *state, size_t most)
{
    static const size_t about[] = {1, 8, 511, 512, 4095, 4096, 4097, 8192, 12288, 20000, 65536};
    size_t n =
        about[next_random(state) % (sizeof about / sizeof about[0])] + next_random(state) % 7;
    if (next_random(state) % 8 == 0)
        n = next_random(state) % most;
    return n < most ? n : most;
}

static inline void random_bytes(uint64_t *state, unsigned char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = next_random(state);
        memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* Checks the contents of the file with plain reads. */
static inline void check_file(const char *path, const unsigned char *model, size_t bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    unsigned char *seen = malloc(bytes + 1);
    CHECK(fd >= 0 && seen && fstat(fd, &st) == 0);
    CHECK((size_t)st.st_size == bytes);
    for (size_t at = 0; at < bytes;) {
        ssize_t n = read(fd, seen + at, bytes - at);
        CHECK(n > 0);
        at += (size_t)n;
    }
    if (memcmp(seen, model, bytes) != 0) {
        size_t i = 0;
        while (seen[i] == model[i])
            i++;
        fprintf(stderr, "%s: byte %zu is %02x, %02x was wanted\n", path, i, seen[i], model[i]);
        exit(1);
    }
    free(seen);
    close(fd);
}

/* CRC-32C byte by byte, each byte's part bit by bit from the definition. */
static inline uint32_t slow_crc32c(const unsigned char *data, size_t bytes)
{
    uint32_t parts[256], crc = ~0u;
    for (uint32_t byte = 0; byte < 256; byte++) {
        parts[byte] = byte;
        for (int bit = 0; bit < 8; bit++)
            parts[byte] = parts[byte] >> 1 ^ (parts[byte] & 1 ? 0x82f63b78u : 0);
    }
    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ parts[(crc ^ data[i]) & 0xff];
    return ~crc;
}

#endif
