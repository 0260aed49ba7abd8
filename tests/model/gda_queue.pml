/* SPDX-License-Identifier: Apache-2.0 */
/* A send queue of path gda (include/weft/device/gda_queue.h) and the adapter. Producers reserve
 * blocks, wait for room, write their requests, and publish them in order by turns; a producer whose
 * turn has not come marks its blocks. A producer's stores to blocks, record and doorbell, and its
 * removal of later marks, first enter its own buffer and leave it in any order. A release (before
 * the add that passes the turn on, and before a mark) and a fence wait until the buffer is empty.
 * Other atomics and `turns` access memory directly. Each mark is a word of its own here. The record
 * and the doorbell are one word each, whose stores keep their order only through the buffers.
 *
 * Claims: the adapter finds every request complete, in its place and once; neither doorbell nor
 * record decreases; both are at the end of a reservation; the record is never less than the
 * doorbell; no mark is left at the end; no process is stuck, so all requests are executed.
 *
 * A claim fails
 *   - without the wait for room (-DNO_ROOM),
 *   - without the fence between request and record (-DNO_REQUEST_FENCE) or between record and
 *     doorbell (-DNO_RECORD_FENCE),
 *   - if the turn is passed on without a release (-DPASS_RELAXED) or before the doorbell
 *     (-DPASS_EARLY),
 *   - if no producer looks for later marks (-DNO_FOLLOW),
 *   - if a producer that has left a mark does not check whether its turn has come (-DNO_LOOK),
 *   - if it takes a turn that another has taken by its mark (-DMARK_NOT_TAKEN),
 *   - if the mark is visible before its request (-DMARK_RELAXED),
 *   - if the first of several blocks is marked first (-DMARK_FORWARD),
 *   - if later marks are removed only after the doorbell (-DMARKS_LATE). */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef EACH
#define EACH 1
#endif
#ifndef SIZE
#define SIZE 1 /* blocks in a reservation */
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#define BLOCKS (PRODUCERS * EACH * SIZE)
#define NONE 255

byte head, ready;       /* the two halves of `turns` */
byte block[DEPTH];      /* sequence number of the block, from 1 */
bool mark[DEPTH];
byte record, doorbell;  /* counts */
byte done;
byte executed;

/* Buffered stores of each producer (NONE: no store), and marks to be removed. */
byte b_block[PRODUCERS * DEPTH], b_record[PRODUCERS], b_doorbell[PRODUCERS];
bool b_clear[PRODUCERS * DEPTH];

#define EMPTY_SLOT(p, i) (b_block[p * DEPTH + i] == NONE && !b_clear[p * DEPTH + i])
#if DEPTH > 2
#define EMPTY_SLOTS(p) (EMPTY_SLOT(p, 0) && EMPTY_SLOT(p, 1) && EMPTY_SLOT(p, 2) && EMPTY_SLOT(p, 3))
#else
#define EMPTY_SLOTS(p) (EMPTY_SLOT(p, 0) && EMPTY_SLOT(p, 1))
#endif
#define EMPTY(p) (EMPTY_SLOTS(p) && b_record[p] == NONE && b_doorbell[p] == NONE)

#define LEAVES_SLOT(p, i) \
    :: atomic { b_block[p * DEPTH + i] != NONE -> block[i] = b_block[p * DEPTH + i]; b_block[p * DEPTH + i] = NONE } \
    :: atomic { b_clear[p * DEPTH + i] -> mark[i] = false; b_clear[p * DEPTH + i] = false }
#if DEPTH > 2
#define LEAVES_SLOTS(p) LEAVES_SLOT(p, 0) LEAVES_SLOT(p, 1) LEAVES_SLOT(p, 2) LEAVES_SLOT(p, 3)
#else
#define LEAVES_SLOTS(p) LEAVES_SLOT(p, 0) LEAVES_SLOT(p, 1)
#endif
#define LEAVES(p) \
    LEAVES_SLOTS(p) \
    :: atomic { b_record[p] != NONE -> assert(b_record[p] >= record); record = b_record[p]; b_record[p] = NONE } \
    :: atomic { b_doorbell[p] != NONE -> assert(b_doorbell[p] >= doorbell); \
                doorbell = b_doorbell[p]; b_doorbell[p] = NONE }

proctype buffers() {
end:
    do
    LEAVES(0)
    LEAVES(1)
#if PRODUCERS > 2
    LEAVES(2)
#endif
    od
}

inline ring(p, upto) {
    assert(upto % SIZE == 0);
#ifndef NO_REQUEST_FENCE
    EMPTY(p);
#endif
    atomic { b_record[p] == NONE -> b_record[p] = upto }
#ifndef NO_RECORD_FENCE
    EMPTY(p);
#endif
    atomic { b_doorbell[p] == NONE -> b_doorbell[p] = upto }
}

inline pass(p, from, upto) {
#ifndef PASS_RELAXED
    EMPTY(p);
#endif
    atomic { assert(ready == from); others = (head != upto); ready = upto }
}

/* Takes the mark of the block at `at`, whose turn has come: an exchange. */
inline take_mark(p, at) {
    atomic { !b_clear[p * DEPTH + at % DEPTH] -> taken = mark[at % DEPTH];
#ifndef MARK_NOT_TAKEN
             mark[at % DEPTH] = false
#endif
    }
}

/* Takes the marks from `upto` on, in the turn of the caller: read, then removed by a store that may
 * be buffered. */
inline take_marks(p, upto) {
    do
    :: atomic { mark[upto % DEPTH] && !b_clear[p * DEPTH + upto % DEPTH] ->
#ifdef MARKS_LATE
                late[upto % DEPTH] = true;
#else
                b_clear[p * DEPTH + upto % DEPTH] = true;
#endif
                upto++ }
    :: else -> break
    od
}

#ifdef MARKS_LATE
inline clear_late(p) {
    atomic {
        for (k : 0 .. DEPTH - 1) { b_clear[p * DEPTH + k] = b_clear[p * DEPTH + k] || late[k]; late[k] = false }
    }
}
#else
#define clear_late(p) skip
#endif

proctype producer(byte p) {
    byte i, k, base, upto, from;
    bool others, turn, taken;
#ifdef MARKS_LATE
    bool late[DEPTH];
#endif
    for (i : 1 .. EACH) {
        atomic { base = head; turn = (ready == head); head = head + SIZE }
#ifndef NO_ROOM
        done + DEPTH >= base + SIZE;
#endif
        for (k : 0 .. SIZE - 1) {
            atomic { b_block[p * DEPTH + (base + k) % DEPTH] == NONE ->
                     b_block[p * DEPTH + (base + k) % DEPTH] = base + k + 1 }
        }
        upto = base + SIZE;
        taken = false;
        if
        :: turn -> skip
        :: else ->
            if
            :: ready == base -> turn = true
            :: true -> /* the producer may skip the check */
                for (k : 0 .. SIZE - 1) {
#ifndef MARK_RELAXED
                    EMPTY(p); /* release */
#endif
#ifdef MARK_FORWARD
                    mark[(base + k) % DEPTH] = true
#else
                    mark[(base + SIZE - 1 - k) % DEPTH] = true
#endif
                }
                EMPTY(p); /* the add of 0 is a release */
#ifndef NO_LOOK
                if
                :: ready == base -> take_mark(p, base)
                :: else
                fi
#endif
            fi
        fi;
        if
        :: turn && !taken ->
#ifdef PASS_EARLY
            pass(p, base, upto);
            ring(p, upto);
#else
            ring(p, upto);
            pass(p, base, upto);
#endif
#ifndef NO_FOLLOW
            if
            :: others -> base = upto; take_mark(p, base)
            :: else
            fi
#endif
        :: else
        fi;
        do /* continues as long as the caller has the turn */
        :: !taken -> break
        :: taken ->
            upto = base + 1;
            take_marks(p, upto);
            do
            :: ring(p, upto);
                clear_late(p);
                from = upto;
                take_marks(p, upto);
                if
                :: upto == from -> break
                :: else
                fi
            od;
            pass(p, base, upto);
            taken = false;
#ifndef NO_FOLLOW
            if
            :: others -> base = upto; take_mark(p, base)
            :: else
            fi
#endif
        od
    }
    /* Every request is executed, whichever producer publishes it. */
    done >= BLOCKS;
    EMPTY(p);
    for (k : 0 .. DEPTH - 1) { assert(!mark[k]) }
}

proctype adapter() {
    byte seen, number;
    do
    :: executed == BLOCKS -> break
    :: doorbell > executed ->
        seen = doorbell;
        assert(record >= seen);
        if
        :: skip
        :: seen = record
        fi;
        do
        :: executed == seen -> break
        :: else ->
            atomic {
                number = block[executed % DEPTH];
                assert(number == executed + 1);
                executed++
            }
        od;
        done = executed
    od
}

init {
    byte k;
    atomic {
        for (k : 0 .. PRODUCERS * DEPTH - 1) { b_block[k] = NONE }
        for (k : 0 .. PRODUCERS - 1) { b_record[k] = NONE; b_doorbell[k] = NONE }
        run buffers(); run adapter();
        for (k : 0 .. PRODUCERS - 1) { run producer(k) }
    }
}
