/* SPDX-License-Identifier: Apache-2.0 */
/* Table of memory keys: allocation and removal. */
#include "hca.h"

#include <errno.h>
#include <sys/random.h>

/* Returns a tag different from the index's previous one. */
static uint8_t new_tag(uint8_t before)
{
    uint8_t step = 0;
    if (getrandom(&step, sizeof step, GRND_NONBLOCK) != sizeof step || !step)
        step = 1;
    return (uint8_t)(before + step);
}

/* The first index is random, because the sender of a packet must know the key. */
uint32_t mr_first(void)
{
    uint32_t first = 0;
    if (getrandom(&first, sizeof first, GRND_NONBLOCK) != sizeof first)
        first = 0;
    return first % (MAX_MRS - 1);
}

uint32_t mr_add(struct device *d, uint32_t pd, uint64_t address, uint64_t memory, uint64_t bytes,
                uint32_t access)
{
    /* Uses the next free index, not the lowest: a removed key stays invalid for long, and its tag
     * changes as well. */
    for (uint32_t tries = 1; tries < MAX_MRS; tries++) {
        uint32_t index = d->objects.key_next++ % (MAX_MRS - 1) + 1;
        struct mr_entry *e = &d->objects.keys.entries[index];
        if (e->valid)
            continue;
        *e = (struct mr_entry){.address = address,
                               .bytes = bytes,
                               .memory = memory,
                               .pd = pd,
                               .access = access,
                               .tag = new_tag(e->tag),
                               .valid = true};
        return index << 8 | e->tag;
    }
    return 0;
}

int mr_remove(struct device *d, uint32_t key)
{
    uint32_t index = key >> 8;
    if (index >= MAX_MRS || !d->objects.keys.entries[index].valid ||
        d->objects.keys.entries[index].tag != (key & 0xff))
        return EINVAL;
    respond_flush(d);
    d->objects.keys.entries[index].valid = false;
    device_changes(d);
    return 0;
}

bool mr_invalidate(struct device *d, uint32_t key, uint32_t pd)
{
    uint32_t index = key >> 8;
    struct mr_entry *e = &d->objects.keys.entries[index < MAX_MRS ? index : 0];
    if (!e->valid || e->tag != (key & 0xff) || e->pd != pd) {
        log_error(d,
                  "key 0x%x, which a message is to invalidate, does not belong to the queue's "
                  "protection domain",
                  key);
        return false;
    }
    e->access &= MR_LOCAL_WRITE;
    device_changes(d);
    return true;
}

const char *mr_refusal_text(enum mr_refusal r)
{
    static const char *const text[] = {
        [MR_FINE] = "fine",
        [MR_NO_SUCH_KEY] = "no such key",
        [MR_STALE_TAG] = "key of memory that was deregistered",
        [MR_OTHER_DOMAIN] = "key of another protection domain",
        [MR_NOT_PERMITTED] = "not permitted by the key",
        [MR_OUT_OF_BOUNDS] = "outside the key's memory",
    };
    return text[r];
}
