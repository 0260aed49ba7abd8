/* SPDX-License-Identifier: Apache-2.0 */
/* SOFT_HCA_MODE=adversarial: what the rules permit and nobody expects. Steps of the engine are left out at random,
 * so that doorbells are seen late, work comes in odd batches and completions gather; doorbells come twice; and
 * writes into memory of relaxed ordering are placed in any order before the acknowledgement, or before
 * what must not pass them. */
#include "hca.h"

#include <stdlib.h>
#include <string.h>

bool adversary_skips(struct device *d)
{
    return d->config->mode == MODE_ADVERSARIAL && random_next(d) % 4 == 0;
}

unsigned adversary_budget(struct device *d, unsigned usual)
{
    return d->config->mode == MODE_ADVERSARIAL ? 1 + random_next(d) % usual : usual;
}

/* adversary_hold: takes the write over, to be placed later; false: place it now. */
bool adversary_hold(struct device *d, struct link_in *link, void *to, const void *from,
                    uint32_t bytes)
{
    if (d->config->mode != MODE_ADVERSARIAL || link->held_count == HELD_WRITES ||
        bytes > HELD_BYTES)
        return false;
    if (!link->held && !(link->held = calloc(HELD_WRITES, sizeof *link->held)))
        return false;
    struct held_write *w = &link->held[link->held_count++];
    w->to = to;
    w->bytes = bytes;
    memcpy(w->data, from, bytes);
    return true;
}

void adversary_place(struct device *d, struct link_in *link)
{
    while (link->held_count) {
        unsigned i = random_next(d) % link->held_count;
        struct held_write *w = &link->held[i], *last = &link->held[--link->held_count];
        memory_put(d, w->to, w->data, w->bytes);
        if (w != last)
            *w = *last;
    }
}
