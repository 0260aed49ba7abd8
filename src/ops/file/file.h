/* SPDX-License-Identifier: Apache-2.0 */
/* The handle of weft_file.h, and what the files of its functions share. */
#ifndef WEFT_OPS_FILE_H
#define WEFT_OPS_FILE_H

#include "file/file.h"
#include "ops/access.h"

struct weft_file {
    struct weft_job *job;
    struct opened_file handle;
    struct file_engine *engine; /* NULL: the job has been finalized */
    weft_ctx *ctx;              /* toward other PEs; NULL until it is needed */
    unsigned flags;             /* WEFT_FILE_* */
    bool measured;              /* how many requests of what size */
    struct weft_file *next;     /* of those that are open in the job */
};

/* One part of a transfer as the program has given it. */
struct file_part {
    const void *address;
    size_t bytes;
    uint64_t offset;
    int pe;
    weft_file_result *result;
};

/* WEFT_OK, and the job runs, or why not. */
weft_status file_check(const char *function, const weft_file *file);

/* Checks the part and finds its memory. */
weft_status file_find(const char *function, weft_file *file, bool write,
                      const struct file_part *part, struct file_transfer *transfer);

#endif
