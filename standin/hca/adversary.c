/* SPDX-License-Identifier: Apache-2.0 */
/* SOFT_HCA_MODE=adversarial: behaviour that the specification permits and programs do not expect.
 * The engine skips steps at random, so doorbells are seen late, work comes in odd batches and
 * completions accumulate. Doorbells are handled twice. Writes are delayed as PCI Express permits:
 *
 *  - A write with a key of IBV_ACCESS_RELAXED_ORDERING is acknowledged and may be performed
 *    later, after later writes. The next strictly ordered access of its connection to memory of
 *    that kind, a GPU's or the host's, performs it first: a write with another key (no write may
 *    pass it), a read (which returns what was written), an atomic; and so does a message.
 *  - SOFT_HCA_APART=1, in any mode: memory that peers may access is treated like GPU memory,
 *    for which a completion in host memory guarantees nothing. Data of an RDMA read are written
 *    there only when the NIC reads there (DUMP, or a peer's read) or writes there.
 *
 * A write is delayed by 4 ms at most, and performed before its memory is deregistered. */
#include "gpu/memory.h"
#include "hca.h"

#include <stdlib.h>
#include <string.h>

enum { DELAY_NS = 4000000 }; /* longest delay */

bool adversary_skips_step(struct device *d)
{
    return d->config->mode == MODE_ADVERSARIAL && random_next(d) % 4 == 0;
}

unsigned adversary_limit(struct device *d, unsigned usual)
{
    return d->config->mode == MODE_ADVERSARIAL ? 1 + random_next(d) % usual : usual;
}

static void place_write(struct device *d, struct delayed_writes *h, unsigned i)
{
    struct delayed_write *w = &h->writes[i], *last = &h->writes[--h->count];
    memory_put(d, w->to, w->data, w->bytes);
    if (w != last)
        *w = *last;
}

static bool delay_write(struct device *d, struct delayed_writes *h, const void *owner, void *to,
                        const void *from, uint64_t bytes)
{
    if (!bytes || bytes > DELAYED_BYTES)
        return false;
    if (!h->writes && !(h->writes = calloc(DELAYED_WRITES, sizeof *h->writes)))
        return false;
    if (h->count == DELAYED_WRITES)
        place_write(d, h, random_next(d) % h->count);
    struct delayed_write *w = &h->writes[h->count++];
    w->owner = owner;
    w->to = to;
    w->gpu = gpu_memory_holds((uintptr_t)to);
    w->bytes = (uint32_t)bytes;
    w->until = d->now + random_next(d) % DELAY_NS;
    memcpy(w->data, from, bytes);
    return true;
}

/* Delays a write of that connection. False: the caller must perform it now. */
bool adversary_delay(struct device *d, struct delayed_writes *h, const struct responder *owner,
                     void *to, const void *from, uint32_t bytes)
{
    return d->config->mode == MODE_ADVERSARIAL && random_next(d) % 4 &&
           delay_write(d, h, owner, to, from, bytes);
}

/* The same for data of an RDMA read, for memory with that access. */
bool adversary_delay_apart(struct device *d, uint32_t access, void *to, const void *from,
                           uint64_t bytes)
{
    return d->config->apart && access & MR_REMOTE_WRITE &&
           delay_write(d, &d->pending.apart, NULL, to, from, bytes);
}

/* Performs the delayed writes of that connection into those kinds of memory, in any order. */
static void perform_writes(struct device *d, struct delayed_writes *h,
                           const struct responder *owner, bool host, bool gpu)
{
    unsigned mine = 0;
    for (unsigned i = 0; i < h->count; i++) /* move them to the front */
        if ((!owner || h->writes[i].owner == owner) && (h->writes[i].gpu ? gpu : host)) {
            struct delayed_write w = h->writes[i];
            if (i != mine)
                h->writes[i] = h->writes[mine];
            h->writes[mine++] = w;
        }
    while (mine) {
        unsigned i = random_next(d) % mine;
        struct delayed_write w = h->writes[i];
        h->writes[i] = h->writes[--mine];
        h->writes[mine] = w;
        place_write(d, h, mine);
    }
}

/* owner NULL: of all connections. */
void adversary_flush(struct device *d, struct delayed_writes *h, const struct responder *owner)
{
    perform_writes(d, h, owner, true, true);
}

/* Those into memory of the same kind as `at`. */
void adversary_flush_memory(struct device *d, struct delayed_writes *h,
                            const struct responder *owner, const void *at)
{
    const bool gpu = h->count && gpu_memory_holds((uintptr_t)at);
    perform_writes(d, h, owner, !gpu, gpu);
}

/* Performs the writes whose delay is over. True: some are still delayed. */
bool adversary_flush_expired(struct device *d, struct delayed_writes *h)
{
    for (unsigned i = 0; i < h->count; i++)
        if (d->now >= h->writes[i].until)
            place_write(d, h, i--);
    return h->count;
}
