/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange records by which PEs connect path gda, and their validation. A record of a peer is
 * validated before any of it is used as a length, an index or a number. Pure functions; fuzz target
 * gda_record. Knows nothing of verbs. */
#ifndef WEFT_PATH_GDA_RECORD_H
#define WEFT_PATH_GDA_RECORD_H

#include "memory/segment.h"
#include "path/gda/pick.h"

#include <stddef.h>
#include <stdint.h>

/* Address of a NIC, as a peer needs it to connect a queue. */
struct gda_address {
    uint32_t lid, mtu;
    uint8_t gid[16];
    uint8_t mac[6];
    uint8_t ethernet, pad;
};

/* Sizes of a record. They are the same at all PEs. */
struct gda_shape {
    uint32_t adapters;      /* NICs of each PE */
    uint32_t queues_per_pe; /* device-code queues per peer */
    uint32_t chunks;        /* chunks (memory regions) of all segments together */
    uint32_t chunk_bits;    /* log2 of the bytes of a chunk */
    uint32_t relaxed;       /* 1: each chunk has a second key, with relaxed ordering */
    uint32_t dc;            /* 1: each NIC has a DC target */
    uint32_t npes;
    uint64_t sizes[SEG_COUNT]; /* bytes of each segment */
};

/* Record of a PE. 32-bit words follow: for each NIC the rkeys of its chunks in big-endian order,
 * then the relaxed-ordering rkeys if there are any, then the QP numbers of its queues to each
 * PE. */
struct gda_record {
    struct gda_address addresses[GDA_ADAPTERS_MOST];
    uint32_t queues_per_pe, chunks, chunk_bits, relaxed;
    uint64_t seed;                          /* random seed of the PE's first PSNs */
    uint64_t dc_key;                        /* access key of its DC targets */
    uint32_t dc_targets[GDA_ADAPTERS_MOST]; /* their numbers; 0: there are none */
    uint64_t bases[SEG_COUNT];
};

static inline const uint32_t *gda_record_words(const struct gda_record *record)
{
    return (const uint32_t *)(const void *)(record + 1);
}

/* Keys in a record, and bytes of a record, a multiple of 8. */
size_t gda_record_keys(const struct gda_shape *shape);
size_t gda_record_bytes(const struct gda_shape *shape);

/* Returns what is invalid in a record, or NULL. `record` has gda_record_bytes() bytes. */
const char *gda_record_fault(const struct gda_shape *shape, const struct gda_record *record);

/* What a PE can use, before all PEs agree. */
struct gda_offer {
    uint32_t adapters;
    uint32_t atomics_with_cpu; /* 1: the atomics of its NICs are atomic with those of CPUs */
    uint32_t no_atomics;       /* 1: its NICs have none */
    uint32_t dc;               /* 1: its NICs have DC queues */
};

/* The same for a list of NICs, for the NICs that a PE offers, for QP numbers, and for the first
 * address of a GPU heap of `bytes` bytes. */
const char *gda_candidates_fault(const struct gda_candidates *candidates);
const char *gda_offer_fault(const struct gda_offer *offer);
const char *gda_numbers_fault(const uint32_t *numbers, size_t count);
const char *gda_window_fault(uint64_t base, uint64_t bytes);

#endif
