/* SPDX-License-Identifier: Apache-2.0 */
/* The turns and marks of a send queue of path gda (include/weft/device/gda_queue.h), on the memory
 * of weak.inc: PRODUCERS threads with a reservation of one block each, and the NIC. gda_queue.pml has
 * reservations of several blocks, reuse and the reordering of stores; here the loads are weak too.
 *
 *     weft_dev_gda_reserve()     `turns`, a relaxed atomic
 *     weft_dev_gda_record_end()  a fence, ACQ_REL; the record, relaxed
 *     weft_dev_gda_bell()        the doorbell, release
 *     weft_dev_gda_pass()        `turns`, a release atomic; weft_dev_gda_follow(): a fence, ACQ_REL
 *     weft_dev_gda_mark()        the mark, a release atomic; `turns`, an ACQ_REL atomic
 *     weft_dev_gda_take_mark()   the mark, a relaxed load, then an atomic, which acquires there and
 *                                need not: the fence before the record does
 *     weft_dev_gda_take_marks()  the marks, an acquire load, then a relaxed atomic
 *     the NIC                    the doorbell, acquire; record and blocks, relaxed
 *
 * Claims: the NIC finds the blocks, and a record that is not less than the doorbell; the stores of
 * record and doorbell by different producers are ordered; all blocks are published.
 *
 * A claim fails without the fence before the record (-DNO_RECORD_FENCE) or after the pass
 * (-DNO_FOLLOW_FENCE), with a relaxed doorbell (-DBELL_RELAXED), pass (-DPASS_RELAXED) or mark
 * (-DMARK_RELAXED), and if the add of 0 to `turns` is a load, which may be older than the pass
 * (-DMARK_BY_LOAD). */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#define THREADS (PRODUCERS + 1)
#define NIC PRODUCERS
#define LOCATIONS (PRODUCERS + 4)
#define MESSAGES 12
#include "weak.inc"
#define BLOCK(i) (i)
#define RECORD (PRODUCERS + 0)
#define DOORBELL (PRODUCERS + 1)
#define TURNS (PRODUCERS + 2) /* reserved * 16 + published */
#define MARKS (PRODUCERS + 3) /* a bit per block */

#ifdef BELL_RELAXED
#define BELL RELAXED
#else
#define BELL RELEASE
#endif
#ifdef PASS_RELAXED
#define PASS RELAXED
#else
#define PASS RELEASE
#endif
#ifdef MARK_RELAXED
#define MARK RELAXED
#else
#define MARK RELEASE
#endif

inline ring(p) {
#ifndef NO_RECORD_FENCE
    fence(p, ACQ_REL);
#endif
    store(p, RECORD, end, RELAXED);
    store(p, DOORBELL, end, BELL)
}

inline pass(p) {
    update(p, TURNS, v, v + end - base, PASS);
    others = (v / 16 != end)
}

inline take_mark(p) {
    load(p, MARKS, v, RELAXED);
    taken = false;
    if
    :: v & (1 << base) ->
        update(p, MARKS, v, v & ~(1 << base), RELAXED);
        taken = (v & (1 << base)) != 0
    :: else
    fi
}

/* From `end` on. */
inline take_marks(p) {
    load(p, MARKS, v, ACQUIRE);
    do
    :: v & (1 << end) -> update(p, MARKS, w, w & ~(1 << end), RELAXED); end++
    :: else -> break
    od
}

/* The caller has taken the mark of `base`. */
inline serve(p) {
    do
    :: !taken -> break
    :: taken ->
        end = base + 1;
        take_marks(p);
        do
        :: ring(p);
            rung = end;
            take_marks(p);
            if
            :: end == rung -> break
            :: else
            fi
        od;
        pass(p);
        taken = false;
        follow(p)
    od
}

inline follow(p) {
    if
    :: others ->
#ifndef NO_FOLLOW_FENCE
        fence(p, ACQ_REL);
#endif
        base = end;
        take_mark(p)
    :: else
    fi
}

proctype producer(byte p) {
    byte base, end, v, w, rung;
    bool others, taken, turn;
    update(p, TURNS, v, v + 16, RELAXED);
    base = v / 16;
    turn = (base == v % 16);
    store(p, BLOCK(base), base + 1, RELAXED);
    if
    :: turn
    :: else -> load(p, TURNS, v, ACQUIRE); turn = (base == v % 16)
    fi;
    if
    :: turn ->
        end = base + 1;
        ring(p);
        pass(p);
        follow(p)
    :: else ->
        update(p, MARKS, v, v | (1 << base), MARK);
#ifdef MARK_BY_LOAD
        load(p, TURNS, v, ACQUIRE);
#else
        update(p, TURNS, v, v, ACQ_REL);
#endif
        if
        :: v % 16 == base -> take_mark(p)
        :: else
        fi
    fi;
    serve(p)
}

proctype nic() {
    byte done, bell, v;
    do
    :: done == PRODUCERS -> break
    :: else ->
        await(NIC, DOORBELL, bell, done + 1, ACQUIRE);
        load(NIC, RECORD, v, RELAXED);
        assert(v >= bell);
        do
        :: done == bell -> break
        :: else -> load(NIC, BLOCK(done), v, RELAXED); done++; assert(v == done)
        od
    od
}

init {
    byte p;
    atomic {
        run nic();
        for (p : 0 .. PRODUCERS - 1) { run producer(p) }
    }
}
