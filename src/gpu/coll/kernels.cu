/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over GPUs that reach each other by load and store, for the host and for streams.
 * Ways, a file each, told apart by what a round costs besides its bytes (T: one trip over the link,
 * about 0.8 us on NVLink 4; F: a fence behind stores to peers, about 1.5 to 2 us):
 *
 *   ll.h  one trip             _send, _reduce_one                    1 T      2 x (n - 1)
 *                   x bytes on each link
 *                   two trips            _reduce_two                           2 T      4 x (n - 1)
 *                                        / n x bytes
 *   ll128.h    one trip             _send_lines, _reduce_one_lines        1 T      1.07 x (n -
 *                   1) x bytes
 *                   two trips            _reduce_two_lines                     2 T      2.13 x (n -
 *                                        1) / n x bytes
 *   simple.h   blocks, reductions   _push, _combine                       2 T + F  the bytes
 *                   themselves
 *   spread.h   large broadcasts     _spread                               2 T + F  the bytes
 *                   themselves
 *   exchange.h   alltoallv, collect   _push_sized                           3 T + F  and a unit
 *                   for each member
 *   staged.h  the same through     _push_scratch, _spread_scratch,       3 T + F  the bytes
 *                   themselves, and a copy at
 *                   scratch              _reduce_scratch                                each end
 *   sized.h                         _sized_scratch                        4 T + F  and a unit
 *                                        for each member
 *   strided.h  elements with gaps   _send_strided, _push_strided,         as _send, _push and
 *                   _push_scratch
 *                                        _push_strided_scratch
 *   here            for copy engines     _meet, twice or more                  2 T + F  the bytes
 *                   themselves, by no kernel
 *
 * Packets carry their number beside every 4 bytes of payload, so that nobody fences and nobody
 * waits for flags; they go to slots of the team's area. Direct stores go to the destinations
 * themselves: a member must know that all destinations are ready (`here`, which is under way while
 * the first loads are), and that all stores to its own have arrived (`done`, behind the fence).
 *
 * Two sets of slots are used in turn. A member may fill the others' slots of round k when they have
 * all ended round k - 2, which it knows when they have begun k - 1. In rounds in which everyone
 * sends to everyone the packets themselves say that (area->begun); a member that only receives says
 * `here`. So a root cannot overrun its receivers, and an exchange costs no flag.
 *
 * Elements are combined in the order of the team and rounded once, in whatever way, so that the
 * bits are the same.
 *
 * Written in the common subset, so that the stand-in of the CUDA driver can run the same text, with
 * blocks of one thread. */
#include <weft/device/simt.h>

#include "gpu/coll/check.h"
#include "gpu/coll/simple.h"
#include "gpu/coll/ll128.h"
#include "gpu/coll/exchange.h"
#include "gpu/coll/ll.h"
#include "gpu/coll/staged.h"
#include "gpu/coll/sized.h"
#include "gpu/coll/spread.h"
#include "gpu/coll/strided.h"

/* A round in which nothing is sent: in front of copies by the engines it says that destinations are
 * ready, behind them, fenced, that they have been filled. The copies were done before this kernel
 * began, by the streams that joined its own. */
KERNEL weft_coll_meet(struct coll_call call)
{
    WEFT_SHARED(uint64_t, shared, [2]);
    const struct coll_call *c = &call;
    struct round r;
    if (round_begin(&r, c, shared))
        return;
    if (c->fenced)
        weft_dev_fence(ORDERED, SYSTEM);
    say_here(&r);
    await_here(&r, r.number);
}
