/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric segments in host memory. Each is one memfd per node with a slot for every local PE. All
 * local PEs map the whole memfd once, so their slots are adjacent. Nothing is left when the last of
 * them ends, for any reason. */
#ifndef WEFT_MEMORY_SEGMENT_H
#define WEFT_MEMORY_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "boot/boot.h"

/* Alignment of each PE's part in memory and in the memfd, in bytes: so that it can have its own
 * huge pages, and so that an offset with this alignment is an address with this alignment at every
 * PE. */
/* SEGMENT_ALIGN: of every PE's part. SEGMENT_OWN_ALIGN: of a PE's own part in its own address
 * space, where enough addresses are free. */
enum { SEGMENT_ALIGN = 2 << 20, SEGMENT_OWN_ALIGN = 1 << 30 };

enum segment_id {
    SEG_HEAP,   /* the host heap */
    SEG_DATA,   /* the program's .data and .bss, with WEFT_INIT_GLOBAL_DATA */
    SEG_SYSTEM, /* black box and synchronisation areas; not for the program */
    SEG_COUNT,
    SEG_GPU = SEG_COUNT /* the GPU heap; not in the tables of host segments */
};

struct segment {
    char *base;  /* start of this PE's part, which is the symmetric address range */
    size_t size; /* usable bytes of each PE's part */
    char *slots; /* address of slot 0 of the node; slot i is at slots + i * stride */
    size_t stride;
    int slot_count;
    int fd;             /* the memfd; -1: this PE has no descriptor of it */
    int shared_mapping; /* PEs as threads: 1: the first local PE owns the mapping */
};

/* Creates a segment of `size` bytes per PE for the PEs of this node. Collective over the node, with
 * the same size. `name` appears in /proc/PID/maps. size 0 creates an empty segment. */
weft_status segment_create(struct segment *segment, struct boot *boot, const char *name,
                           size_t size);

/* Includes the first `bytes` bytes of this PE's part in core dumps, except pages that no PE has
 * touched (core_dump.h). Without this call no part is dumped; peers' parts never are. */
void segment_dump(const struct segment *segment, size_t bytes);

/* Unmaps and closes. PEs as threads: the caller ensures that no PE uses it any more. */
void segment_destroy(struct segment *segment);

/* Address of local PE `slot`'s part. */
static inline char *segment_slot(const struct segment *segment, int slot)
{
    return segment->slots + (size_t)slot * segment->stride;
}

#endif
