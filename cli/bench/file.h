/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `weft bench file` share: by what a file is moved, under which conditions. */
#ifndef WEFT_CLI_BENCH_FILE_H
#define WEFT_CLI_BENCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <weft_file.h>

enum { FILE_METHODS = 4, FILE_LIST_MOST = 16, FILE_REPETITIONS_MOST = 31, FILE_FOLDERS_MOST = 64 };

struct file_options {
    const char *path;    /* NULL: a file is made here, and removed */
    const char *folders; /* NULL, or of each PE one, with a comma between */
    int pes;             /* how many those are; 1 */
    uint64_t bytes;
    size_t window;
    uint64_t blocks[FILE_LIST_MOST], depths[FILE_LIST_MOST], threads[FILE_LIST_MOST];
    int n_blocks, n_depths, n_threads;
    int repetitions;
    bool gpu, write, json;
    const char *methods;
};

struct file_row {
    double gbps[FILE_METHODS]; /* negative: not measured */
};

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

/* Every method that is wanted, with the median of the repetitions; why[]: of what has failed, which
 * is not tried again.
 * together: begun by all PEs of that team at once; NULL: by this one alone. */
void file_measure(const struct file_options *options, const struct file_point *point,
                  weft_team *together, struct file_row *row, char (*why)[256]);

const char *file_method_name(int method);
json_t *file_row_json(const struct file_point *point, const struct file_row *row);
void file_json_print(json_t *object); /* a line; takes it over */

/* A file of that many bytes without a name in the current folder: its descriptor, and a path by
 * which it is found as long as that is open; -1: said why not. */
int file_make(uint64_t bytes, char *path, size_t path_bytes);

/* Several PEs, each with a file in a folder of its own (file_several.c). */
struct file_several;

/* Goes into the folder of a PE. -1: said why not. */
int file_several_enter(const struct file_options *options, int pe);

/* Collective, as all that follows. */
weft_status file_several_open(const struct file_options *options, weft_job *job,
                              const weft_file_info *info, struct file_several **several);
weft_status file_several_point(struct file_several *several, const struct file_options *options,
                               const struct file_point *point, char (*why)[256]);
void file_several_close(struct file_several *several); /* NULL is allowed */

#endif
