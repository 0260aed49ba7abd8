/* SPDX-License-Identifier: Apache-2.0 */
/* Core dumps of processes with large heaps. The kernel allocates every page of shared memory that
 * it writes to a core dump, so the dump of a hardly used heap would be large, slow, and full of
 * zeros. A handler of the signals that end a process with a core dump first excludes the untouched
 * pages. */
#ifndef WEFT_MEMORY_CORE_DUMP_H
#define WEFT_MEMORY_CORE_DUMP_H

#include <stddef.h>

/* Limits core dumps of the `bytes` bytes at `base`, which map the memfd `fd` from `offset` on, to
 * touched pages. If core dumps are enabled, signals that end the process with one get a handler,
 * unless the program has set its own; the handler restores the default action and lets the signal
 * act. May be called again for the same base with more bytes. Ranges beyond the table's capacity
 * are dumped whole. Thread-safe. */
void core_dump_add(char *base, size_t bytes, int fd, size_t offset);

/* Must be called before the range is unmapped or the descriptor closed. Removing the last range
 * removes the handlers. */
void core_dump_remove(const char *base);

#endif
