/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of the proxy as the host reads it (include/weft/device/proxy.h, src/proxy/proxy.c) on
 * the memory of weak.inc, for device code on simt: a ring of one slot with two words, two producers
 * (threads 0 and 1) with a request each, and the host (thread 2). A request puts a word of the
 * producer's memory and gets another. proxy.pml has runs, bounce buffers and longer rings, in a
 * strong memory. With a third ticket a producer could find room in `known`, whose relaxed load only
 * the dependency of the words' stores on it orders: hardware respects that, and C does not know it.
 *
 *     weft_dev_ring_ticket()  `known`, relaxed; `head`, a relaxed atomic; a fence, ACQ_REL
 *     weft_dev_ring_store()   the words, relaxed, in any order, each with the phase of its ticket
 *     arrived()               the words, acquire, until all have the phase
 *     store_result()          the halves of the result, release, each with its number
 *     publish_count()         `released`, release
 *     weft_dev_ring_look()    `released`, acquire; stored in `known`, release
 *     weft_dev_ring_poll_result()  both halves, relaxed, until both have the number
 *
 * Claims: the host finds the words of one request, and the source as the producer left it; a
 * producer that waits for the release finds what it gets, and may store to its source, and one that
 * finds the halves of its result finds their value.
 *
 * A claim fails without the fence (-DNO_SOURCE_FENCE), with a relaxed load of the words
 * (-DARRIVED_RELAXED) or of the count (-DLOOK_RELAXED), with a relaxed store of the count
 * (-DRELEASED_RELAXED), after which the host's loads of the source may be performed
 * (-DSOURCE_LATE), if the host reads a word without its phase (-DFIRST_WORD), and with a value in a
 * word of its own, which the number does not order (-DRESULT_APART). */
#define THREADS 3
#define LOCATIONS 11
#define MESSAGES 4
#include "weak.inc"
#define SOURCE(p) (p)
#define RESULT(p) (2 + (p)) /* what a get brings */
#define WORD(i) (4 + (i))
#define HEAD 6
#define KNOWN 7
#define RELEASED 8
#define HALF(i) (9 + (i))   /* of the slot's result */

#ifdef ARRIVED_RELAXED
#define ARRIVED RELAXED
#else
#define ARRIVED ACQUIRE
#endif
#ifdef LOOK_RELAXED
#define LOOK RELAXED
#else
#define LOOK ACQUIRE
#endif
#ifdef RELEASED_RELAXED
#define RELEASE_COUNT RELAXED
#else
#define RELEASE_COUNT RELEASE
#endif

/* A word and a half of a result: the ticket's phase or number, and the producer or the value. */
#define TAG(ticket) (4 * ((ticket) + 1))

proctype producer(byte me) {
    byte ticket, known, v, w;
    store(me, SOURCE(me), 1 + me, RELAXED);
    load(me, KNOWN, known, RELAXED);
    update(me, HEAD, ticket, ticket + 1, RELAXED);
#ifndef NO_SOURCE_FENCE
    fence(me, ACQ_REL);
#endif
    if
    :: ticket < known + 1
    :: else ->
        await(me, RELEASED, known, ticket, LOOK);
        store(me, KNOWN, known, RELEASE)
    fi;
    if
    :: store(me, WORD(0), TAG(ticket) + me, RELAXED); store(me, WORD(1), TAG(ticket) + me, RELAXED)
    :: store(me, WORD(1), TAG(ticket) + me, RELAXED); store(me, WORD(0), TAG(ticket) + me, RELAXED)
    fi;
    if
    :: await(me, RELEASED, v, ticket + 1, LOOK);
        load(me, RESULT(me), v, RELAXED);
        assert(v == 1 + me);
        store(me, SOURCE(me), 9, RELAXED)
    :: await(me, HALF(0), v, TAG(ticket), RELAXED);
#ifdef RESULT_APART
        load(me, HALF(1), w, RELAXED);
#else
        await(me, HALF(1), w, TAG(ticket), RELAXED);
#endif
        /* weft_dev_ring_reads() keeps a slot until its result was read, which is left out here */
        assert(w == TAG(ticket) + me || w >= TAG(ticket + 1) || v >= TAG(ticket + 1))
    fi
}

inline read_source() {
    load(2, SOURCE(v - TAG(taken)), w, RELAXED);
    assert(w == 1 + v - TAG(taken))
}

proctype host() {
    byte taken, v, w;
    for (taken : 0 .. 1) {
        await(2, WORD(0), v, TAG(taken), ARRIVED);
#ifdef FIRST_WORD
        load(2, WORD(1), w, ARRIVED);
#else
        await(2, WORD(1), w, TAG(taken), ARRIVED);
#endif
        assert(v == w);
#ifndef SOURCE_LATE
        read_source();
#endif
        store(2, RESULT(v - TAG(taken)), 1 + v - TAG(taken), RELAXED);
        store(2, HALF(0), v, RELEASE);
        store(2, HALF(1), v, RELEASE);
        store(2, RELEASED, taken + 1, RELEASE_COUNT);
#ifdef SOURCE_LATE
        read_source();
#endif
        w = 0
    }
}

init {
    atomic { run producer(0); run producer(1); run host() }
}
