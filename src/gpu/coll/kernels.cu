/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over GPUs that access each other by load and store, for the host and for streams.
 * One file for each protocol. In the table, T is one transfer over a link (about 0.8 us on NVLink
 * 4), F a fence after stores to peers (about 1.5 to 2 us), n the number of members, and B the bytes
 * of the operation. Units: one for each member. Copies: one at each end.
 *
 *  file        protocol: operations       cost     on each link       kernels
 *  ll.h        LL, one-shot               1 T      2 (n - 1) B        _send, _reduce_one
 *  ll.h        LL, two-shot               2 T      4 (n - 1) / n B    _reduce_two
 *  ll128.h     LL128, one-shot            1 T      1.07 (n - 1) B     _{send,reduce_one}_lines
 *  ll128.h     LL128, two-shot            2 T      2.13 (n - 1) / n B _reduce_two_lines
 *  simple.h    simple: blocks, reductions 2 T + F  B                  _push, _combine
 *  spread.h    simple: large broadcasts   2 T + F  B                  _spread
 *  exchange.h  simple: alltoallv, collect 3 T + F  B, units           _push_sized
 *  staged.h    staged: the same as simple 3 T + F  B, copies          _{push,spread,reduce}_scratch
 *  sized.h     staged: alltoallv, collect 4 T + F  B, copies, units   _sized_scratch
 *  kernels.cu  copy engines, synchronized 2 T + F  B, by no kernel    _meet, twice or more
 *
 * Elements with gaps (strided.h) cost what blocks cost: _send_strided as _send, _push_strided as
 * _push, _push_strided_scratch as _push_scratch.
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
 * A kernel may start before the earlier work of its stream has ended (programmatic dependent
 * launch), when all blocks of the kernel before it have ended. Before GRID_WAIT() it draws its
 * tickets, which in that kernel all blocks have drawn, and reads its arguments. All else follows:
 * earlier kernels write sources, `begun`, `refused`, factors and sizes, and a flag to another
 * member says that they have ended. No kernel lets the next one start earlier: its blocks would
 * only wait, in places where kernels of other streams could run.
 *
 * Every protocol combines elements in the order of the team and rounds once, so all protocols give
 * the same bits.
 *
 * Written in the common subset of C and CUDA, so that the stand-in of the CUDA driver can run the
 * same text, with blocks of one thread. */
#include <weft/device/simt.h>

#include "gpu/coll/check.h"
#include "gpu/coll/exchange.h"
#include "gpu/coll/fold.h"
#include "gpu/coll/ll.h"
#include "gpu/coll/ll128.h"
#include "gpu/coll/pack.h"
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
    uint64_t ticket = round_draw(c);
    if (round_begin(&r, c, ticket, shared))
        return;
    if (c->fenced)
        weft_dev_fence(ORDERED, SYSTEM);
    send_here(&r);
    await_here(&r, r.number);
}
