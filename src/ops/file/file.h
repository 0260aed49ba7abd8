/* SPDX-License-Identifier: Apache-2.0 */
/* The handle behind weft_file.h, and what the files that implement it share. */
#ifndef WEFT_OPS_FILE_H
#define WEFT_OPS_FILE_H

#include "file/file.h"
#include "ops/access.h"

struct weft_file {
    struct weft_job *job;
    struct opened_file handle;
    struct file_engine *engine; /* NULL: the job has been finalized */
    weft_ctx *ctx;              /* for transfers to other PEs; NULL until first needed */
    unsigned flags;             /* WEFT_FILE_* */
    bool measured;              /* number and size of requests are chosen by measurement */
    struct weft_file *next;     /* next open file of the job */
};

/* One part of a transfer, as passed by the program. */
struct file_part {
    const void *address;
    size_t bytes;
    uint64_t offset;
    int pe;
    weft_file_result *result;
};

/* Checks the handle, and that the job runs and has not failed. */
weft_status file_check(const char *function, const weft_file *file);

/* Checks the part and resolves its memory into *transfer. */
weft_status file_find(const char *function, weft_file *file, bool write,
                      const struct file_part *part, struct file_transfer *transfer);

#endif
