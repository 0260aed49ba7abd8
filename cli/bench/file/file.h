/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of `weft bench file`: methods of transfer and their conditions. */
#ifndef WEFT_CLI_BENCH_FILE_H
#define WEFT_CLI_BENCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <weft_file.h>

enum { FILE_METHODS = 4, FILE_LIST_MOST = 16, FILE_REPETITIONS_MOST = 31, FILE_FOLDERS_MOST = 64 };

struct file_options {
    const char *path;    /* NULL: a temporary file in the current folder */
    const char *folders; /* one folder per PE, separated by commas; NULL: none */
    int pes;             /* number of folders; 1 without --folders */
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

/* A point: the same conditions for every method. */
struct file_point {
    weft_job *job;
    const char *path;
    char *memory;   /* `window` bytes for each thread, contiguous */
    size_t window;  /* size of the buffer of each thread in bytes */
    uint64_t bytes; /* bytes of the file that all threads move together; a multiple of threads *
                       window */
    size_t block;   /* bytes of one request */
    unsigned depth, threads;
    bool write, gpu;
    char file_system[32];
};

/* Returns GB/s; negative: failed, with the reason in `why`. */
double file_by_weft(const struct file_point *point, char *why, size_t why_bytes);
double file_by_plain(const struct file_point *point, char *why, size_t why_bytes);
double file_by_fio(const struct file_point *point, char *why, size_t why_bytes);
double file_by_cufile(const struct file_point *point, char *why, size_t why_bytes);

/* The mode of cuFile; "": not installed. */
const char *file_cufile_mode(void);

/* Measures every selected method and gives the median of the repetitions. why[]: the reason of each
 * failed method, which is not tried again.
 * together: all PEs of that team start at once; NULL: this PE alone. */
void file_measure(const struct file_options *options, const struct file_point *point,
                  weft_team *together, struct file_row *row, char (*why)[256]);

const char *file_method_name(int method);
json_t *file_row_json(const struct file_point *point, const struct file_row *row);
void file_json_print(json_t *object); /* prints the object on a line and frees it */

/* Creates an unnamed file of that many bytes in the current folder. Returns its descriptor, and
 * a path that is valid while the descriptor is open; -1: it has reported why. */
int file_make(uint64_t bytes, char *path, size_t path_bytes);

/* Several PEs, each with a file in its own folder (file_several.c). */
struct file_several;

/* Changes to the folder of a PE. -1: it has reported why. */
int file_several_enter(const struct file_options *options, int pe);

/* The following functions are collective. */
weft_status file_several_open(const struct file_options *options, weft_job *job,
                              const weft_file_info *info, struct file_several **several);
weft_status file_several_point(struct file_several *several, const struct file_options *options,
                               const struct file_point *point, char (*why)[256]);
void file_several_close(struct file_several *several); /* NULL is allowed */

#endif
