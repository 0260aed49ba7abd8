/* SPDX-License-Identifier: Apache-2.0 */
/* See record.h. */
#include "path/gda/record.h"

#include <stdbool.h>
#include <string.h>

enum {
    LID_MOST = 0xbfff, /* highest unicast LID */
    MTU_MOST = 5,      /* 4096 bytes */
    NUMBER_MOST = 0xffffff,
    NEAR_MOST = 16,
};

size_t gda_record_keys(const struct gda_shape *shape)
{
    return (size_t)shape->adapters * shape->chunks * (shape->relaxed ? 2 : 1);
}

static size_t queue_number_count(const struct gda_shape *shape)
{
    return (size_t)shape->npes * (shape->queues_per_pe + shape->adapters);
}

size_t gda_record_bytes(const struct gda_shape *shape)
{
    size_t words = gda_record_keys(shape) + queue_number_count(shape);
    return sizeof(struct gda_record) + (words + words % 2) * sizeof(uint32_t);
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= bytes[i];
    return !all;
}

static const char *address_fault(const struct gda_address *a)
{
    if (a->mtu < 1 || a->mtu > MTU_MOST)
        return "invalid path MTU";
    if (a->ethernet > 1)
        return "invalid link layer";
    if (!a->ethernet && (!a->lid || a->lid > LID_MOST))
        return "invalid LID";
    if (a->ethernet && is_zero(a->gid, sizeof a->gid))
        return "no GID";
    if (a->ethernet && (a->mac[0] & 1))
        return "multicast MAC";
    return NULL;
}

const char *gda_window_fault(uint64_t base, uint64_t bytes)
{
    return !base || base + bytes < base ? "invalid memory addresses" : NULL;
}

const char *gda_numbers_fault(const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!numbers[i] || numbers[i] > NUMBER_MOST)
            return "invalid QP number";
    return NULL;
}

const char *gda_offer_fault(const struct gda_offer *offer)
{
    return offer->adapters > GDA_ADAPTERS_MOST                    ? "too many adapters"
           : offer->atomics_with_cpu > 1 || offer->no_atomics > 1 ? "invalid kind of atomics"
           : offer->dc > 1                                        ? "invalid kind of queues"
                                                                  : NULL;
}

const char *gda_candidates_fault(const struct gda_candidates *c)
{
    if (c->count < 0 || c->count > GDA_CANDIDATES || c->requested < 0 ||
        c->requested > GDA_ADAPTERS_MOST)
        return "invalid number of adapters";
    if (c->count && c->requested > c->count)
        return "fewer adapters than it requests";
    for (int i = 0; i < c->count; i++)
        if (c->list[i].near > NEAR_MOST || (i && c->list[i].near < c->list[i - 1].near))
            return "adapters not sorted by distance";
    return NULL;
}

const char *gda_record_fault(const struct gda_shape *shape, const struct gda_record *record)
{
    const uint32_t *words = gda_record_words(record);
    const char *fault = NULL;
    if (record->queues_per_pe != shape->queues_per_pe || record->chunks != shape->chunks ||
        record->chunk_bits != shape->chunk_bits || record->relaxed != shape->relaxed)
        return "sizes differ from those it sent before";
    for (uint32_t a = 0; a < shape->adapters && !fault; a++)
        fault = address_fault(&record->addresses[a]);
    if (shape->dc && !fault)
        fault = gda_numbers_fault(record->dc_targets, shape->adapters);
    for (int s = 0; s < SEG_COUNT && !fault; s++)
        if (shape->sizes[s])
            fault = gda_window_fault(record->bases[s], shape->sizes[s]);
    return fault ? fault
                 : gda_numbers_fault(words + gda_record_keys(shape), queue_number_count(shape));
}
