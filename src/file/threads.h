/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of requests that a pool of threads runs, one blocking call per request. Its operations
 * are those of struct file_backend. */
#ifndef WEFT_FILE_THREADS_H
#define WEFT_FILE_THREADS_H

#include "file/file.h"

/* Runs one request. Returns the bytes transferred or a negative error. Several threads call it at
 * the same time. */
typedef int64_t file_io_function(const struct opened_file *file, const struct file_io *io);

/* Uses pread and pwrite. */
file_io_function file_io_by_system;

weft_status file_pool_open(const struct opened_file *file, unsigned depth,
                           file_io_function *transfer, struct file_queue **queue);
void file_pool_close(struct file_queue *queue);
void file_pool_submit(struct file_queue *queue, struct file_io *io);
void file_pool_start(struct file_queue *queue);
struct file_io *file_pool_reap(struct file_queue *queue, uint64_t wait_ns, int *error);
void file_pool_wake(struct file_queue *queue);

#endif
