/* SPDX-License-Identifier: Apache-2.0 */
/* SOFT_HCA_MODE=adversarial: what the rules permit and nobody expects. Steps of the engine are left
 * out at random, so that doorbells are seen late, work comes in odd batches and completions gather;
 * doorbells come twice; and writes are held back as PCI Express permits it:
 *
 *  - A write into memory of IBV_ACCESS_RELAXED_ORDERING is acknowledged and may be placed later,
 *    behind later ones. What its connection does next in strict order places it first: a write into
 *    other memory (which passes no write), a read (which brings what was written), an atomic, a
 *    message.
 *  - SOFT_HCA_APART=1, in any mode: memory that others may reach is taken for a GPU's, of which a
 *    completion in memory of the host says nothing. What a read has brought there is held back
 *    until the adapter reads there (DUMP, or a read of another), or writes there.
 *
 * All is placed after 4 ms at most, and before its memory is deregistered. */
#include "hca.h"

#include <stdlib.h>
#include <string.h>

enum { DELAY_NS = 4000000 }; /* at most */

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
    w->bytes = (uint32_t)bytes;
    w->until = d->now + random_next(d) % DELAY_NS;
    memcpy(w->data, from, bytes);
    return true;
}

/* adversary_hold: takes the write of that connection over, to be placed later; false: place it
 * now. */
bool adversary_delay(struct device *d, struct delayed_writes *h, const struct responder *owner,
                     void *to, const void *from, uint32_t bytes)
{
    return d->config->mode == MODE_ADVERSARIAL && random_next(d) % 4 &&
           delay_write(d, h, owner, to, from, bytes);
}

/* adversary_hold_apart: the same of what was read into memory of that access. */
bool adversary_delay_apart(struct device *d, uint32_t access, void *to, const void *from,
                           uint64_t bytes)
{
    return d->config->apart && access & MR_REMOTE_WRITE &&
           delay_write(d, &d->apart, NULL, to, from, bytes);
}

/* adversary_place: what is held of that connection, or with NULL all, in any order. */
void adversary_flush(struct device *d, struct delayed_writes *h, const struct responder *owner)
{
    unsigned mine = 0;
    for (unsigned i = 0; i < h->count; i++) /* they come to the front */
        if (!owner || h->writes[i].owner == owner) {
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

/* adversary_expire: places what was held long enough; true: something is held still. */
bool adversary_flush_expired(struct device *d, struct delayed_writes *h)
{
    for (unsigned i = 0; i < h->count; i++)
        if (d->now >= h->writes[i].until)
            place_write(d, h, i--);
    return h->count;
}
