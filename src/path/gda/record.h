/* SPDX-License-Identifier: Apache-2.0 */
/* What PEs tell each other to connect path gda, and whether it can be true: what a peer has sent is
 * looked at before any of it is used as a length, an index or a number. Pure functions; fuzz target
 * gda_record. Knows nothing of verbs. */
#ifndef WEFT_PATH_GDA_RECORD_H
#define WEFT_PATH_GDA_RECORD_H

#include "memory/segment.h"
#include "path/gda/pick.h"

#include <stddef.h>
#include <stdint.h>

/* How a peer's end of a queue is reached. */
struct gda_address {
    uint32_t lid, mtu;
    uint8_t gid[16];
    uint8_t mac[6];
    uint8_t ethernet, pad;
};

/* The same at all PEs. */
struct gda_shape {
    uint32_t adapters;   /* of each PE */
    uint32_t each;       /* queues of device code to each PE */
    uint32_t chunks;     /* registered pieces of all segments together */
    uint32_t chunk_bits; /* bytes of a piece, as a power of 2 */
    uint32_t relaxed;    /* 1: each chunk has a second key, of relaxed order */
    uint32_t npes;
    uint64_t sizes[SEG_COUNT]; /* bytes of the segments */
};

/* A PE's; words follow: by each adapter the keys of its chunks as requests have them, those of
 * relaxed order likewise, then the numbers of its queues to each PE. */
struct gda_record {
    struct gda_address addresses[GDA_ADAPTERS_MOST];
    uint32_t each, chunks, chunk_bits, relaxed;
    uint64_t seed; /* of the numbers of its first packets */
    uint64_t bases[SEG_COUNT];
};

static inline const uint32_t *gda_record_words(const struct gda_record *record)
{
    return (const uint32_t *)(const void *)(record + 1);
}

/* Keys of a record; and all of its bytes, a multiple of 8. */
size_t gda_record_keys(const struct gda_shape *shape);
size_t gda_record_bytes(const struct gda_shape *shape);

/* What in it cannot be true; NULL: nothing. `record` has gda_record_bytes() bytes. */
const char *gda_record_fault(const struct gda_shape *shape, const struct gda_record *record);

/* The same of a list of adapters, of how many a PE uses, of numbers of queue pairs, and of where a
 * GPU heap of `bytes` bytes begins. */
const char *gda_candidates_fault(const struct gda_candidates *candidates);
const char *gda_count_fault(uint32_t adapters);
const char *gda_numbers_fault(const uint32_t *numbers, size_t count);
const char *gda_window_fault(uint64_t base, uint64_t bytes);

#endif
