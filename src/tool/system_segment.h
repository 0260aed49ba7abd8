/* SPDX-License-Identifier: Apache-2.0 */
/* The system segment of a running job, read by another process. Every PE keeps the memfd open, so
 * the same user can open it under /proc/PID/fd, without privileges and even if the PE hangs. The
 * data may be inconsistent or hostile. */
#ifndef WEFT_TOOL_SYSTEM_SEGMENT_H
#define WEFT_TOOL_SYSTEM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

struct system_segment {
    int fd;
    int slots;     /* number of PEs of this node; each has a slot */
    size_t stride; /* bytes of a slot, which begins with the black box of its PE */
};

/* Opens the segment of the job of PE process `pid`. False with an error message in `why` on
 * failure. */
bool system_segment_open(int pid, struct system_segment *segment, char *why, int why_bytes);
void system_segment_close(struct system_segment *segment);

/* Maps the first `bytes` of a slot for reading; the caller unmaps them with munmap(2). NULL: the
 * slot is smaller, or mmap failed. */
const void *system_segment_map(const struct system_segment *segment, int slot, size_t bytes);

/* Copies text from a field of `bytes` bytes, which may lack its terminating zero and contain any
 * byte. The copy is terminated and printable. */
void system_segment_text(char *to, const char *from, size_t bytes);

/* Returns `pid` if it is a PE, else a descendant that is one, else 0. */
int system_segment_find_pe(int pid);

#endif
