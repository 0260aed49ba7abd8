/* SPDX-License-Identifier: Apache-2.0 */
/* The temporary file of `weft bench file`: incompressible and without a name. */
#include "bench/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fill_file(int fd, uint64_t bytes)
{
    enum { STEP = 1 << 20 };
    char *block = malloc(STEP);
    uint64_t random = 88172645463325252u;
    bool well = block != NULL;
    for (size_t i = 0; well && i < STEP; i += 8) { /* incompressible */
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        memcpy(block + i, &random, 8);
    }
    for (uint64_t at = 0; well && at < bytes; at += STEP) {
        memcpy(block, &at, sizeof at);
        size_t n = bytes - at < STEP ? (size_t)(bytes - at) : STEP;
        well = pwrite(fd, block, n, (off_t)at) == (ssize_t)n;
    }
    free(block);
    return well && fdatasync(fd) == 0;
}

/* Opens an unnamed file with O_TMPFILE; where not supported, creates a file and unlinks it. */
static int open_nameless(void)
{
    char name[] = "./weft_bench_file.XXXXXX";
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    return fd;
}

/* The file has no name, so that it disappears with this process. fio opens it by *path. */
int file_make(uint64_t bytes, char *path, size_t path_bytes)
{
    int fd = open_nameless();
    if (fd >= 0 && fill_file(fd, bytes)) {
        snprintf(path, path_bytes, "/proc/%d/fd/%d", (int)getpid(), fd);
        return fd;
    }
    fprintf(stderr, "weft bench: a file of %llu bytes in this folder: %s\n",
            (unsigned long long)bytes, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}
