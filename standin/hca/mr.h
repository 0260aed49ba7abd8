/* SPDX-License-Identifier: Apache-2.0 */
/* Memory keys (MTT): which bytes a key names, for which protection domain and for which access. A
 * key is a 24-bit index and an 8-bit tag. The tag changes whenever the index is reused, so a key of
 * deregistered memory is rejected. The check calls no function of the C library (see wqe.h). */
#ifndef WEFT_HCA_MR_H
#define WEFT_HCA_MR_H

#include "wqe.h"

/* Bits of enum ibv_access_flags. */
enum {
    MR_LOCAL_WRITE = 1,
    MR_REMOTE_WRITE = 2,
    MR_REMOTE_READ = 4,
    MR_REMOTE_ATOMIC = 8,
    MR_RELAXED_ORDERING = 1 << 20,
};

struct mr_entry {
    uint64_t address; /* address that users of the key use (iova) */
    uint64_t bytes;
    uint64_t memory; /* address in this process */
    uint32_t pd;
    uint32_t access;
    uint8_t tag;
    bool valid;
};

struct mr_table {
    struct mr_entry *entries;
    uint32_t count;
};

/* Why a key was rejected; text in mr_refusal_text(). */
enum mr_refusal {
    MR_FINE,
    MR_NO_SUCH_KEY,
    MR_STALE_TAG,
    MR_OTHER_DOMAIN,
    MR_NOT_PERMITTED,
    MR_OUT_OF_BOUNDS,
};

/* mr_find: translates address ... address + bytes of a key to an address of this process. *memory
 * is set only if the access is allowed. */
WQE_INLINE enum mr_refusal mr_find(const struct mr_table *t, uint32_t key, uint32_t pd,
                                   uint32_t need, uint64_t address, uint64_t bytes,
                                   uint64_t *memory)
{
    uint32_t index = key >> 8;
    if (index >= t->count || !t->entries[index].valid)
        return MR_NO_SUCH_KEY;
    const struct mr_entry *e = &t->entries[index];
    if (e->tag != (key & 0xff))
        return MR_STALE_TAG;
    if (e->pd != pd)
        return MR_OTHER_DOMAIN;
    if ((e->access & need) != need)
        return MR_NOT_PERMITTED;
    /* No overflow: address + bytes is never computed. */
    if (address < e->address || bytes > e->bytes || address - e->address > e->bytes - bytes)
        return MR_OUT_OF_BOUNDS;
    *memory = e->memory + (address - e->address);
    return MR_FINE;
}

#endif
