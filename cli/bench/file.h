/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `weft bench file` share: by what a file is moved, under which conditions. */
#ifndef WEFT_CLI_BENCH_FILE_H
#define WEFT_CLI_BENCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft_file.h>

/* One point: the same conditions for every method. */
struct file_point {
    weft_job *job;
    const char *path;
    char *memory;   /* of each thread `window` bytes behind one another */
    size_t window;  /* bytes of memory that each thread moves the file through */
    uint64_t bytes; /* of the file, all threads together; a multiple of threads * window */
    size_t block;   /* of one request */
    unsigned depth, threads;
    bool write, gpu;
    char file_system[32];
};

/* GB/s, or negative with why not in `why`. */
double file_by_weft(const struct file_point *point, char *why, size_t why_bytes);
double file_by_plain(const struct file_point *point, char *why, size_t why_bytes);
double file_by_fio(const struct file_point *point, char *why, size_t why_bytes);
double file_by_cufile(const struct file_point *point, char *why, size_t why_bytes);

/* What cuFile may do, "" = it is not here. */
const char *file_cufile_mode(void);

#endif
