/* SPDX-License-Identifier: Apache-2.0 */
/* Staged rounds (src/gpu/coll/staged.h) between exchanges by LL packets that use the same memory:
 * each member has two places for each other member. A staged round fills one place in even steps
 * and the other in odd steps, and the data looks like a packet of the next round; packets use one
 * place in even rounds and the other in odd rounds. One block for each member: blocks with
 * different numbers never share a place.
 *
 * Claims: no place is filled before it was emptied; each member takes the step that it waits for; a
 * packet that is taken was sent in that round; no process waits forever.
 *
 * A claim fails without the wait for emptied places if only one member sends (-DNO_EMPTIED; if all
 * send or forward, filled places show it: -DNO_FILLED), without clearing at the end (-DNO_CLEAR),
 * without the end of the round (-DNO_END: a packet arrives before its place is cleared), and
 * without the wait for destinations (-DNO_READY: packets are still in the places). */
#ifndef N
#define N 2
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef STEPS
#define STEPS 3
#endif
#define PLACE(to, from, half) (((to) * N + (from)) * 2 + (half))

byte place[N * N * 2]; /* what a reader of packets sees: the number of a round, 0 = clear */
bool stored[N * N * 2];  /* stored and not taken yet */
byte told[N * N]; /* to * N + from: the last round whose sizes were sent */
/* to * N + from; steps count over all rounds */
byte here[N * N], filled[N * N], emptied[N * N], ended[N * N];
byte begun[N], sent[N];
/* PACKETS; ALL; FROM: only member 0 sends; SPREAD: the others forward what they receive; SIZED:
 * each pair has its own number of steps, which it sends first */
byte program[CALLS + 1];
#define PACKETS 0
#define ALL 1
#define FROM 2
#define SPREAD 3
#define SIZED 4
#define STEPS_OF(from, to) (1 + (2 * (from) + (to)) % STEPS)

#define EACH_OTHER(action) \
    k = 0; \
    do \
    :: k == N -> break \
    :: k < N && k == me -> k++ \
    :: k < N && k != me -> action; k++ \
    od

/* Without member 0. */
#define EACH_NEIGHBOUR(action) \
    k = 1; \
    do \
    :: k == N -> break \
    :: k < N && k == me -> k++ \
    :: k < N && k != me -> action; k++ \
    od

inline await_slots() {
    if
    :: begun[me] + 1 < r -> EACH_OTHER(here[me * N + k] >= r - 1)
    :: else
    fi
}

#define SEND_PACKET \
    atomic { \
        assert(!stored[PLACE(k, me, r % 2)]); \
        place[PLACE(k, me, r % 2)] = r; \
        stored[PLACE(k, me, r % 2)] = true \
    }

#define TAKE_PACKET \
    atomic { \
        place[PLACE(me, k, r % 2)] == r; \
        assert(sent[k] >= r); \
        stored[PLACE(me, k, r % 2)] = false \
    }

/* The data looks like a packet of the next round. */
#define PUSH_STEP \
    atomic { \
        assert(!stored[PLACE(k, me, step % 2)]); \
        place[PLACE(k, me, step % 2)] = r + 1; \
        stored[PLACE(k, me, step % 2)] = true \
    }

#define TAKE_STEP \
    atomic { \
        assert(stored[PLACE(me, k, step % 2)]); \
        stored[PLACE(me, k, step % 2)] = false \
    }

#ifndef NO_EMPTIED
#define AWAIT_EMPTIED step < 2 || emptied[me * N + k] >= before + step - 1
#else
#define AWAIT_EMPTIED true
#endif

#define SIZED_SEND \
    if \
    :: step < STEPS_OF(me, k) -> AWAIT_EMPTIED; PUSH_STEP \
    :: else \
    fi

#define SIZED_TAKE \
    if \
    :: step < STEPS_OF(k, me) -> \
        filled[me * N + k] >= before + step + 1; \
        TAKE_STEP; \
        emptied[k * N + me] = before + step + 1 \
    :: else \
    fi

#ifndef NO_CLEAR
#define CLEAR atomic { place[PLACE(me, k, 0)] = 0; place[PLACE(me, k, 1)] = 0 }
#else
#define CLEAR skip
#endif

proctype member(byte me) {
    byte r = 1, k, step, before = 0; /* number of steps of earlier rounds */
    do
    :: r > CALLS -> break
    :: r <= CALLS && program[r] == PACKETS ->
        await_slots();
        sent[me] = r;
        EACH_OTHER(SEND_PACKET);
        EACH_OTHER(TAKE_PACKET);
        begun[me] = r;
        r++
    :: r <= CALLS && program[r] != PACKETS ->
        if
        :: program[r] == SIZED ->
            await_slots();
            EACH_OTHER(told[k * N + me] = r);
            EACH_OTHER(told[me * N + k] >= r)
        :: else ->
            EACH_OTHER(here[k * N + me] = r);
#ifndef NO_READY
            EACH_OTHER(here[me * N + k] >= r);
#endif
        fi;
        step = 0;
        do
        :: step == STEPS -> break
        :: else ->
#ifndef NO_EMPTIED
            if
            :: step > 1 && (program[r] == FROM || program[r] == SPREAD) && me == 0 -> EACH_OTHER(emptied[me * N + k] >= before + step - 1)
            :: else
            fi;
#endif
            if
            :: program[r] == ALL || (me == 0 && program[r] != SIZED) ->
                EACH_OTHER(PUSH_STEP);
                EACH_OTHER(filled[k * N + me] = before + step + 1)
            :: else
            fi;
            if
            :: program[r] == ALL ->
                EACH_OTHER(filled[me * N + k] >= before + step + 1);
                EACH_OTHER(TAKE_STEP)
            :: program[r] == FROM && me != 0 ->
                k = 0;
                filled[me * N] >= before + step + 1;
                TAKE_STEP;
                emptied[me] = before + step + 1 /* at member 0 */
            :: program[r] == SPREAD && me != 0 ->
                filled[me * N] >= before + step + 1;
                EACH_NEIGHBOUR(PUSH_STEP);
                EACH_OTHER(filled[k * N + me] = before + step + 1);
#ifndef NO_FILLED
                EACH_NEIGHBOUR(filled[me * N + k] >= before + step + 1);
#endif
                EACH_OTHER(TAKE_STEP);
                emptied[me] = before + step + 1
            :: program[r] == SIZED ->
                EACH_OTHER(SIZED_SEND);
                EACH_OTHER(filled[k * N + me] = before + step + 1);
                EACH_OTHER(SIZED_TAKE)
            :: else
            fi;
            step++
        od;
        before = before + STEPS;
        EACH_OTHER(CLEAR);
        EACH_OTHER(ended[k * N + me] = r);
#ifndef NO_END
        EACH_OTHER(ended[me * N + k] >= r);
#endif
        if
        :: program[r] == SIZED -> begun[me] = r
        :: else
        fi;
        r++
    od
}

init {
    byte i = 1;
    do
    :: i > CALLS -> break
    :: else ->
        if
        :: program[i] = PACKETS
        :: program[i] = ALL
        :: program[i] = FROM
        :: N > 2 -> program[i] = SPREAD
        :: program[i] = SIZED
        fi;
        i++
    od;
    atomic {
        i = 0;
        do
        :: i == N -> break
        :: else -> run member(i); i++
        od
    }
}
