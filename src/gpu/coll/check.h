/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode: before each collective a round in which the members exchange the arguments of the
 * coming call. A member that sees a difference leaves a record that names the other member, and
 * every later kernel of the team on this GPU ends without storing anything at other members. All
 * members see a difference: where two members send different arguments, a third receives both. See
 * kernels.cu. */
#ifndef WEFT_GPU_COLL_CHECK_H
#define WEFT_GPU_COLL_CHECK_H

#include "gpu/coll/factors.h"
#include "gpu/coll/round.h"

/* Out of line and by value, as record_timeout(). */
WEFT_DEVICE_NOINLINE void record_difference(struct weft_dev_box *box, uint64_t *tickets,
                                            int operation, int team, int pe, int word,
                                            uint64_t mine, uint64_t theirs)
{
    write_record_of(box, tickets, WEFT_DEV_RECORD_REFUSED, -10 /* WEFT_ERR_MISMATCH */,
                    (uint32_t)operation, team, pe, (const void *)(uintptr_t)word, mine, theirs, 0,
                    0);
}

/* Returns unit `unit`, of two, of the arguments that this member sends. */
WEFT_DEVICE struct weft_dev_vec16 make_header_unit(const struct coll_call *c, uint64_t factor,
                                                   int unit)
{
    struct weft_dev_vec16 v;
    v.lo = unit ? factor : c->checking.header[COLL_HEADER_KIND];
    v.hi = unit ? c->checking.header[COLL_HEADER_ALGORITHM] : c->checking.header[COLL_HEADER_BYTES];
    return v;
}

KERNEL weft_coll_check(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    uint64_t ticket = round_draw(c);
    uint64_t factor = c->checking.header[COLL_HEADER_DETAIL];
    if (c->reduction.op == WEFT_DEV_SCALED && !c->reduction.weighted)
        factor = weft_dev_bits_f64(make_reduction(c, 1).factor);
    if (round_begin(&r, c, ticket, shared))
        return;
    await_slots(&r);
    for (int i = (int)r.rank; i < c->members; i += (int)r.threads)
        for (int unit = 0; unit < 2 && i != c->me; unit++)
            ll_send_unit(ll_slot(&r, i, c->me, c->members), (uint64_t)unit,
                         make_header_unit(c, factor, unit), 1, r.ll_flag);
    int differs = 0;
    for (int i = (int)r.rank; i < c->members; i += (int)r.threads)
        for (int unit = 0; unit < 2 && i != c->me && !r.failed && !differs; unit++) {
            const char *slot = ll_slot(&r, c->me, i, c->members);
            struct weft_dev_vec16 own = make_header_unit(c, factor, unit);
            struct weft_dev_vec16 v = ll_await_pair(&r, ll_load_pair(slot, (uint64_t)unit, 1), slot,
                                                    (uint64_t)unit, 1, i);
            differs = !r.failed && (v.lo != own.lo || v.hi != own.hi);
            if (differs)
                record_difference(c->record.reporting.box, c->record.reporting.tickets,
                                  c->record.operation, c->record.team, c->record.pe[i],
                                  2 * unit + (v.lo == own.lo), v.lo != own.lo ? own.lo : own.hi,
                                  v.lo != own.lo ? v.lo : v.hi);
        }
    if (weft_dev_sync_block_or(r.failed || differs)) {
        if (r.rank == 0)
            weft_dev_store_u64(&r.own->refused, 1, RELAXED, WEFT_SCOPE_GPU);
        return;
    }
    mark_all_begun(&r);
}

#endif
