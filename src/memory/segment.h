/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric segments in host memory. Each is one memfd per node with a slot for every local PE,
 * mapped once by all of them: the local PEs' memory stands side by side, and nothing is left when
 * the last of them ends, however it ends. */
#ifndef WEFT_MEMORY_SEGMENT_H
#define WEFT_MEMORY_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "boot/boot.h"

/* Where each PE's part starts, in memory and in the memfd: so that it can have huge pages of its
 * own, and so that an offset with this alignment is an address with it at every PE. */
/* Bytes: of every PE's part; and of a PE's own part in its own address space, where there is room
 * for it. */
enum { SEGMENT_ALIGN = 2 << 20, SEGMENT_OWN_ALIGN = 1 << 30 };

enum segment_id {
    SEG_HEAP,   /* the host heap */
    SEG_DATA,   /* the program's .data and .bss, when it asked for that */
    SEG_SYSTEM, /* black box and synchronisation areas; not the program's */
    SEG_COUNT,
    SEG_GPU = SEG_COUNT /* the GPU heap: not in the tables of host segments */
};

struct segment {
    char *base;  /* this PE's part: the symmetric address range starts here */
    size_t size; /* bytes of each PE's part that may be addressed */
    char *slots; /* where slot 0 of the node is mapped; slot i at slots + i * stride */
    size_t stride;
    int slot_count;
    int fd;             /* the memfd, -1 when this PE does not hold it */
    int shared_mapping; /* PEs as threads: the mapping belongs to the first local PE */
};

/* Makes a segment of `size` bytes per PE for the PEs of this node. Collective over the node, with
 * the same size. `name` is seen in /proc/PID/maps. size 0 makes an empty segment. */
weft_status segment_create(struct segment *segment, struct boot *boot, const char *name,
                           size_t size);

/* From now on the first `bytes` bytes of this PE's part are written to core dumps, but for what no
 * PE has touched (core_dump.h); nothing is before. Peers' parts never are. */
void segment_dump(const struct segment *segment, size_t bytes);

/* Unmaps and closes. PEs as threads: the caller sees to it that nobody uses it any more. */
void segment_destroy(struct segment *segment);

/* Address of local PE `slot`'s part. */
static inline char *segment_slot(const struct segment *segment, int slot)
{
    return segment->slots + (size_t)slot * segment->stride;
}

#endif
