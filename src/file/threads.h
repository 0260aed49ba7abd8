/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of requests on a file that threads carry out, each by one call. Its operations are those
 * of struct file_backend. */
#ifndef WEFT_FILE_THREADS_H
#define WEFT_FILE_THREADS_H

#include "file/file.h"

/* Carries one request out: bytes moved, or a negative error. From several threads at once. */
typedef int64_t file_carry(const struct opened_file *file, const struct file_io *io);

/* By pread and pwrite. */
file_carry file_carry_by_system;

weft_status file_pool_open(const struct opened_file *file, unsigned depth, file_carry *carry,
                           struct file_queue **queue);
void file_pool_close(struct file_queue *queue);
void file_pool_give(struct file_queue *queue, struct file_io *io);
void file_pool_push(struct file_queue *queue);
struct file_io *file_pool_take(struct file_queue *queue, uint64_t wait_ns, int *error);
void file_pool_wake(struct file_queue *queue);

#endif
