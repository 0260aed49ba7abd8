/* SPDX-License-Identifier: Apache-2.0 */
/* The program that file_power.sh interrupts by cutting the power. It creates a file in FOLDER,
 * writes it in pieces of random size, calls weft_file_sync() (argument sync) or not (argument
 * none), prints "ready" and waits until it is killed. With `check` it checks the file instead:
 * status 0 if it is complete, 3 if not.
 *   file_power FOLDER sync|none|check */
#include "tests/job/file.h"

enum { BYTES = 3 * 1000 * 1000 + 77, PIECES = 40 };

static unsigned char byte_of(size_t at)
{
    return (unsigned char)(at * 31 + (at >> 9) * 7 + 1);
}

static int check(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    unsigned char *seen = malloc(BYTES);
    if (fd < 0 || fstat(fd, &st) || st.st_size != BYTES || read(fd, seen, BYTES) != BYTES)
        return 3;
    for (size_t i = 0; i < BYTES; i++)
        if (seen[i] != byte_of(i))
            return 3;
    return 0;
}

int main(int argc, char **argv)
{
    weft_job *job;
    weft_file *file;
    char path[600];
    CHECK(argc == 3);
    snprintf(path, sizeof path, "%s/written", argv[1]);
    if (strcmp(argv[2], "check") == 0)
        return check(path);
    OK(weft_init(&job, NULL));
    char *block = alloc(job, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        block[i] = (char)byte_of(i);
    OK(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE | WEFT_FILE_EXCLUSIVE, NULL,
                      &file));
    uint64_t random = 5;
    size_t at = 0;
    for (int i = 0; i < PIECES; i++) {
        size_t bytes =
            i == PIECES - 1 ? BYTES - at : 1 + next_random(&random) % (2 * BYTES / PIECES - 1);
        bytes = bytes < BYTES - at ? bytes : BYTES - at;
        OK(weft_file_write_nbi(file, block + at, bytes, at, 0, NULL));
        at += bytes;
    }
    CHECK(at == BYTES);
    OK(weft_file_quiet(file));
    if (strcmp(argv[2], "sync") == 0)
        OK(weft_file_sync(file));
    printf("ready\n");
    fflush(stdout);
    pause();
    return 1;
}
