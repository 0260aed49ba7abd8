/* SPDX-License-Identifier: Apache-2.0 */
/* A send queue of path gda (include/weft/device/gda_queue.h): producers that reserve, wait for room, write their
 * requests, and publish them in order by turns, of which who comes too early marks its blocks; and the adapter.
 * What a producer stores to blocks, record and doorbell, and which marks it takes away as they follow each other, goes
 * into a buffer of its own first and leaves it in any order; a release (before an add that passes the turn on, before a
 * mark) and a fence wait until it is empty. Other atomics and `turns` are changed in memory itself. Each mark is a word
 * of its own here. The record and the doorbell are one word each, of which stores keep their order only by way of the
 * buffers.
 * Claims: the adapter finds every request whole, at its place and once; neither doorbell nor record goes back, they stand
 * where a reservation ends, and the record is never behind the doorbell; no mark is left over; nobody is stuck, so all
 * requests are carried out.
 * Broken when room is not waited for (-DNO_ROOM), when there is no fence between request and record
 * (-DNO_REQUEST_FENCE) or record and doorbell (-DNO_RECORD_FENCE), when the turn is passed on without a release
 * (-DPASS_RELAXED) or before the doorbell is rung (-DPASS_EARLY), when nobody looks for marks behind
 * (-DNO_FOLLOW), when who leaves a mark does not look whether its turn has come (-DNO_LOOK), takes a turn that another
 * has taken by its mark (-DMARK_NOT_TAKEN), shows the mark before its request (-DMARK_RELAXED), marks the
 * first of several blocks first (-DMARK_FORWARD), or takes marks away that follow but once it has rung (-DMARKS_LATE). */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef EACH
#define EACH 1
#endif
#ifndef SIZE
#define SIZE 1 /* blocks of a reservation */
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#define BLOCKS (PRODUCERS * EACH * SIZE)
#define NONE 255

byte head, ready;       /* the halves of `turns` */
byte block[DEPTH];      /* number of the block, from 1 */
bool mark[DEPTH];
byte record, doorbell;  /* counts */
byte done;
byte executed;

/* Stores that wait, of each producer: NONE, nothing; marks that are to go. */
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

/* The mark of the block at `at`, to which the turn has come: an exchange. */
inline take_mark(p, at) {
    atomic { !b_clear[p * DEPTH + at % DEPTH] -> taken = mark[at % DEPTH];
#ifndef MARK_NOT_TAKEN
             mark[at % DEPTH] = false
#endif
    }
}

/* Those that follow, from `upto` on, by whose turn it is: read, then taken away by a store that may wait. */
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
            :: true -> /* it need not look */
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
                EMPTY(p); /* the add of nothing releases */
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
        do /* serves as long as the turn is its own */
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
    /* A request is carried out, whoever publishes it. */
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
