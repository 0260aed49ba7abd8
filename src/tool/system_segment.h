/* SPDX-License-Identifier: Apache-2.0 */
/* The system segment of a running job, as another process sees it: every PE holds the memfd open,
 * so the kernel shows it under /proc/PID/fd to the same user, with no privilege and no help from
 * the process, which may hang. What is read there may be torn or hostile. */
#ifndef WEFT_TOOL_SYSTEM_SEGMENT_H
#define WEFT_TOOL_SYSTEM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

struct system_segment {
    int fd;
    int slots;     /* PEs of this node; each has a slot of ... */
    size_t stride; /* ... so many bytes, with its black box at the start */
};

/* Of the job that process `pid` is a PE of. On failure false, and the sentence is in `why`. */
bool system_segment_open(int pid, struct system_segment *segment, char *why, int why_bytes);
void system_segment_close(struct system_segment *segment);

/* Maps the first `bytes` of a slot for reading, to be unmapped with munmap(2); NULL: the slot is
 * not so large, or the system refused. */
const void *system_segment_map(const struct system_segment *segment, int slot, size_t bytes);

/* Copies text of a segment, which need not end within its field of `bytes` bytes and may hold any
 * byte; what is copied is printable. */
void system_segment_text(char *to, const char *from, size_t bytes);

/* `pid` itself when it is a PE, else a process below it that is one; 0: there is none. */
int system_segment_find_pe(int pid);

#endif
