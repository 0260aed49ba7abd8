/* SPDX-License-Identifier: Apache-2.0 */
/* Reads in flight of the stand-in. Reads into GPU memory are held after they arrive. Reads of which
 * only a part has arrived need care, because the provider crashes when their endpoint is closed. */
#include "fake.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum { READS = 4096, LIMIT_S = 5 };

static struct arriving {
    const struct fid_ep *endpoint;
    void *context;
    struct region *region; /* NULL: not held */
    char *to;
    size_t bytes;
    uint64_t number;
} arriving[READS];

/* Written at both ends of the destination before the read. */
static const uint64_t not_here = 0x9d3be1a6c8f2504bu;

void note_read(const struct fid_ep *endpoint, void *context, void *to, size_t bytes,
               struct region *region)
{
    static uint64_t count;
    struct arriving *one = arriving;
    while (one < arriving + READS && one->context)
        one++;
    if (one == arriving + READS)
        broken("too many reads");
    *one = (struct arriving){endpoint, context, region, to, bytes, ++count};
    if (asked_for("FAKE_FABRIC_DEAF", "1") && bytes >= 2 * sizeof not_here) {
        memcpy(to, &not_here, sizeof not_here);
        memcpy(one->to + bytes - sizeof not_here, &not_here, sizeof not_here);
    }
}

void forget_read(const void *context, bool came)
{
    for (struct arriving *one = arriving; one < arriving + READS; one++) {
        if (one->context != context)
            continue;
        if (came && one->region)
            memset(one->region->written + (one->to - (char *)one->region->shadow), 0xff,
                   one->bytes);
        one->context = NULL;
        return;
    }
}

static bool is_half(const struct arriving *one)
{
    return one->context && one->bytes >= 2 * sizeof not_here &&
           memcmp(one->to, &not_here, sizeof not_here) != 0 &&
           memcmp(one->to + one->bytes - sizeof not_here, &not_here, sizeof not_here) == 0;
}

void *take_last_read(const struct fid *domain, bool any)
{
    struct arriving *last = NULL;
    bool half = false;
    for (struct arriving *one = arriving; one < arriving + READS; one++) {
        if (!one->context || domain_of(one->endpoint) != domain)
            continue;
        half |= is_half(one);
        last = !last || one->number > last->number ? one : last;
    }
    if (!last || (!any && (!half || is_half(last))))
        return NULL;
    void *context = last->context;
    last->context = NULL;
    return context;
}

static bool has_reads(const struct fid_ep *endpoint)
{
    for (const struct arriving *one = arriving; one < arriving + READS; one++)
        if (one->context && one->endpoint == endpoint)
            return true;
    return false;
}

/* The provider that the stand-in presents does not crash there (src/path/net/rails.c). */
bool end_reads(const struct fid_ep *endpoint, const struct fi_ops_cq *real, struct fid_cq *queue)
{
    time_t until = time(NULL) + LIMIT_S;
    while (has_reads(endpoint) && time(NULL) < until) {
        struct fi_cq_msg_entry entry;
        struct fi_cq_err_entry error = {0};
        ssize_t n = real->read(queue, &entry, 1);
        if (n == 1)
            forget_read(entry.op_context, false);
        else if (n == -FI_EAVAIL && real->readerr(queue, &error, 0) == 1)
            forget_read(error.op_context, false);
        else
            sched_yield();
    }
    return !has_reads(endpoint);
}
