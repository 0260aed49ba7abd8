/* SPDX-License-Identifier: Apache-2.0 */
/* A send queue of path gda (include/weft/device/gda_queue.h): producers that reserve, wait for room, write their
 * requests, and publish them in order by turns, of which who comes too early leaves a mark; and the adapter.
 * What a producer stores to blocks, marks, record and doorbell goes into a buffer of its own first and leaves it in any
 * order; a release (before an add that passes the turn on, before a mark) and a fence wait until it is empty. Atomics
 * and `turns` are changed in memory itself. The record and the doorbell are one word each, of which stores keep
 * their order only by way of the buffers.
 * Claims: the adapter finds every request whole, at its place and once; neither doorbell nor record goes back, and the
 * record is never behind the doorbell; no mark is left over; nobody is stuck, so all requests are carried out.
 * Broken when room is not waited for (-DNO_ROOM), when there is no fence between request and record
 * (-DNO_REQUEST_FENCE) or record and doorbell (-DNO_RECORD_FENCE), when the turn is passed on without a release
 * (-DPASS_RELAXED) or before the doorbell is rung (-DPASS_EARLY), when nobody looks for marks behind
 * (-DNO_FOLLOW), when who leaves a mark does not look whether its turn has come (-DNO_LOOK), takes a turn that another
 * has taken by its mark (-DMARK_NOT_TAKEN), or shows the mark before its request (-DMARK_RELAXED). */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#ifndef EACH
#define EACH 1
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#define REQUESTS (PRODUCERS * EACH)
#define NONE 255

byte head, ready;       /* the halves of `turns` */
byte block[DEPTH];      /* number of the request, from 1 */
byte mark[DEPTH];
byte record, doorbell;  /* counts */
byte done;
byte executed;

/* Stores that wait, of each producer: NONE, nothing. */
byte b_block[PRODUCERS * DEPTH], b_mark[PRODUCERS * DEPTH], b_record[PRODUCERS], b_doorbell[PRODUCERS];

#define EMPTY(p) (b_block[p * DEPTH] == NONE && b_block[p * DEPTH + 1] == NONE && b_mark[p * DEPTH] == NONE && \
                  b_mark[p * DEPTH + 1] == NONE && b_record[p] == NONE && b_doorbell[p] == NONE)

#define LEAVES_SLOT(p, i) \
    :: atomic { b_block[p * DEPTH + i] != NONE -> block[i] = b_block[p * DEPTH + i]; b_block[p * DEPTH + i] = NONE } \
    :: atomic { b_mark[p * DEPTH + i] != NONE -> mark[i] = b_mark[p * DEPTH + i]; b_mark[p * DEPTH + i] = NONE }
#define LEAVES(p) \
    LEAVES_SLOT(p, 0) \
    LEAVES_SLOT(p, 1) \
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

inline ring_for(p, from, upto) {
#ifdef PASS_EARLY
    atomic { assert(ready == from); others = (head != upto); ready = upto }
#endif
#ifndef NO_REQUEST_FENCE
    EMPTY(p);
#endif
    atomic { b_record[p] == NONE -> b_record[p] = upto }
#ifndef NO_RECORD_FENCE
    EMPTY(p);
#endif
    atomic { b_doorbell[p] == NONE -> b_doorbell[p] = upto }
#ifndef PASS_EARLY
#ifndef PASS_RELAXED
    EMPTY(p);
#endif
    atomic { assert(ready == from); others = (head != upto); ready = upto }
#endif
}

/* Mark of the block at `at`, which is taken away: d_step as an exchange. */
inline take_mark(p, at) {
    atomic { b_mark[p * DEPTH + at % DEPTH] == NONE -> taken = mark[at % DEPTH];
#ifndef MARK_NOT_TAKEN
             mark[at % DEPTH] = 0
#endif
    }
}

proctype producer(byte p) {
    byte i, base, upto, from, taken;
    bool others, turn;
    for (i : 1 .. EACH) {
        atomic { base = head; turn = (ready == head); head++ }
#ifndef NO_ROOM
        done + DEPTH > base;
#endif
        atomic { b_block[p * DEPTH + base % DEPTH] == NONE -> b_block[p * DEPTH + base % DEPTH] = base + 1 }
        upto = base + 1;
        if
        :: turn -> skip
        :: else ->
            if
            :: ready == base -> turn = true
            :: ready != base ->
#ifndef MARK_RELAXED
                EMPTY(p); /* release */
#endif
                atomic { b_mark[p * DEPTH + base % DEPTH] == NONE -> b_mark[p * DEPTH + base % DEPTH] = 1 }
                EMPTY(p); /* the add of nothing releases */
#ifndef NO_LOOK
                turn = (ready == base);
                if
                :: turn -> take_mark(p, base); turn = (taken != 0)
                :: else
                fi
#endif
            fi
        fi;
        if
        :: !turn -> skip
        :: turn ->
            ring_for(p, base, upto);
#ifndef NO_FOLLOW
            do
            :: !others -> break
            :: others ->
                from = upto;
                do
                :: take_mark(p, upto);
                    if
                    :: taken == 0 -> break
                    :: else -> upto++
                    fi
                od;
                if
                :: upto == from -> break
                :: else -> ring_for(p, from, upto)
                fi
            od
#endif
        fi
    }
    /* A request is carried out, whoever publishes it. */
    done >= REQUESTS;
    assert(mark[0] == 0 && mark[1] == 0)
}

proctype adapter() {
    byte seen, number;
    do
    :: executed == REQUESTS -> break
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
        for (k : 0 .. PRODUCERS * DEPTH - 1) { b_block[k] = NONE; b_mark[k] = NONE }
        for (k : 0 .. PRODUCERS - 1) { b_record[k] = NONE; b_doorbell[k] = NONE }
        run buffers(); run adapter();
        for (k : 0 .. PRODUCERS - 1) { run producer(k) }
    }
}
