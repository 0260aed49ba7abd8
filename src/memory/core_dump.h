/* SPDX-License-Identifier: Apache-2.0 */
/* Core dumps of processes with large heaps: the kernel fills in every page of shared memory that it
 * writes to a core, so one of a heap that was hardly used would be large, slow, and all zeros. A
 * signal that is about to end the process with a core first takes the pages that nobody has touched
 * out of it. */
#ifndef WEFT_MEMORY_CORE_DUMP_H
#define WEFT_MEMORY_CORE_DUMP_H

#include <stddef.h>

/* `bytes` bytes at `base`, which map the memfd `fd` from `offset` on, are written to core dumps
 * only where they were touched. Signals that end the process with a core get a handler, if none is
 * set and cores are written at all; it restores the default and lets the signal act. May be called
 * again for the same base, with more bytes. Ranges that are too many are dumped whole.
 * Thread-safe. */
void core_dump_add(char *base, size_t bytes, int fd, size_t offset);

/* Before the range is unmapped or the descriptor closed. With the last one the handlers go. */
void core_dump_remove(const char *base);

#endif
