/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over GPUs that access each other by load and store, for the host and for streams.
 * One file for each protocol. The table lists what a round costs (T: one transfer over a link,
 * about 0.8 us on NVLink 4; F: a fence after stores to peers, about 1.5 to 2 us) and the bytes on
 * each link for n members.
 *
 *   file             protocol and operation           kernels                        cost
 *                                                         bytes on each link
 *   ll.h   LL, one-shot                     _send, _reduce_one             1 T
 *                                                         2 x (n - 1) x bytes
 *                    LL, two-shot                     _reduce_two                    2 T
 *                                                         4 x (n - 1) / n x bytes
 *   ll128.h     LL128, one-shot                  _send_lines, _reduce_one_lines 1 T
 *                                                         1.07 x (n - 1) x bytes
 *                    LL128, two-shot                  _reduce_two_lines              2 T
 *                                                         2.13 x (n - 1) / n x bytes
 *   simple.h    simple: blocks, reductions       _push, _combine                2 T + F
 *                                                         the bytes themselves
 *   spread.h    simple: large broadcasts         _spread                        2 T + F
 *                                                         the bytes themselves
 *   exchange.h    simple: alltoallv, collect       _push_sized                    3 T + F
 *                                                         the bytes and a unit for each member
 *   staged.h   staged: the same operations      _push_scratch, _spread_scratch,
 *                                                     _reduce_scratch                3 T + F
 *                                                         the bytes, and a copy at each end
 *   sized.h     staged: alltoallv, collect       _sized_scratch                 4 T + F
 *                                                         also a unit for each member
 *   strided.h   elements with gaps               _send_strided, _push_strided,
 *                                                     _push_strided_scratch
 *                                                         as _send, _push and _push_scratch
 *   this file        synchronizes copies by           _meet, twice or more           2 T + F
 *                    copy engines                         the bytes, moved by no kernel
 *
 * An LL packet carries a flag, the number of its round, next to every 4 bytes of payload, so no
 * member needs a fence or waits for a separate flag. Packets go to slots of the team's area. Simple
 * stores go to the destinations themselves. Before it stores, a member must know that all
 * destinations are ready (`here`, which is in flight during the first loads). At the end it must
 * know that all stores to its own destination have arrived (`done`, after the fence).
 *
 * Two slot sets are used in turn. A member may fill the slots of round k at the other members when
 * all of them have ended round k - 2, and it knows this when they have begun round k - 1. In rounds
 * in which every member sends to every member, the packets themselves show this (area->begun). A
 * member that only receives sends `here`. So a root cannot overrun its receivers, and an exchange
 * needs no flag.
 *
 * Every protocol combines elements in the order of the team and rounds once, so all protocols give
 * the same bits.
 *
 * Written in the common subset of C and CUDA, so that the stand-in of the CUDA driver can run the
 * same text, with blocks of one thread. */
#include <weft/device/simt.h>

#include "gpu/coll/check.h"
#include "gpu/coll/exchange.h"
#include "gpu/coll/ll.h"
#include "gpu/coll/ll128.h"
#include "gpu/coll/simple.h"
#include "gpu/coll/sized.h"
#include "gpu/coll/spread.h"
#include "gpu/coll/staged.h"
#include "gpu/coll/strided.h"

/* A round that sends no data. Before copies by copy engines it reports that destinations are ready;
 * after them, with `fenced`, that they have been filled. The copies were complete before this
 * kernel began, since their streams joined its stream. */
KERNEL weft_coll_meet(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    if (round_begin(&r, c, shared))
        return;
    if (c->fenced)
        weft_dev_fence(ORDERED, SYSTEM);
    send_here(&r);
    await_here(&r, r.number);
}
