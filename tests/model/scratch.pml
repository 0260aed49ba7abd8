/* SPDX-License-Identifier: Apache-2.0 */
/* Staged rounds (src/gpu/coll/staged.h, sized.h) between exchanges by LL packets that use the same
 * memory: each member has two places for each other member, and two for results. A staged round
 * fills one place in even steps and the other in odd steps, and the data looks like a packet of the
 * next round; packets use one place in even rounds and the other in odd rounds. One block for each
 * member: blocks with different numbers never share a place.
 *
 * Claims: no place is filled before it was emptied; each member takes the step that it waits for; a
 * packet that is taken was sent in that round; no process waits forever.
 *
 * A claim fails if a member begins a phase before the others have ended the one before
 * (-DNO_FILLED; -DEARLY: the one before that), without the wait for emptied places where sizes
 * differ (-DNO_EMPTIED), without clearing at the end (-DNO_CLEAR), without the end of the round
 * (-DNO_END: a packet arrives before its place is cleared), and without the wait for destinations
 * (-DNO_READY: packets are still in the places). */
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
bool result[N * N * 2];  /* likewise, in the places for results */
byte told[N * N]; /* to * N + from: the last round whose sizes were sent */
/* to * N + from; steps count over all rounds */
byte here[N * N], filled[N * N], emptied[N * N], ended[N * N];
byte begun[N], sent[N];
/* PACKETS; ALL; FROM: only member 0 sends; SPREAD: the others forward what they receive; REDUCE:
 * all combine and send results; SIZED: each pair has its own number of steps, which it sends first
 */
byte program[CALLS + 1];
#define PACKETS 0
#define ALL 1
#define FROM 2
#define SPREAD 3
#define SIZED 4
#define REDUCE 5
#define MOST_PHASES (STEPS + 2)
#define STEPS_OF(from, to) ((from) < (to) -> STEPS : 1)

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
#define PUSH(n) \
    atomic { \
        assert(!stored[PLACE(k, me, (n) % 2)]); \
        place[PLACE(k, me, (n) % 2)] = r + 1; \
        stored[PLACE(k, me, (n) % 2)] = true \
    }

#define TAKE(n) \
    atomic { \
        assert(stored[PLACE(me, k, (n) % 2)]); \
        stored[PLACE(me, k, (n) % 2)] = false \
    }

#define PUSH_RESULT(n) \
    atomic { \
        assert(!result[PLACE(k, me, (n) % 2)]); \
        result[PLACE(k, me, (n) % 2)] = true \
    }

#define TAKE_RESULT(n) \
    atomic { \
        assert(result[PLACE(me, k, (n) % 2)]); \
        result[PLACE(me, k, (n) % 2)] = false \
    }

#ifdef NO_FILLED
#define ENDED 0
#elif defined(EARLY)
#define ENDED before + phase - 1
#else
#define ENDED before + phase
#endif

/* Rounds of staged.h, by the phases of which all other members are awaited, or the root's. */
#define PHASES (program[r] == SPREAD || program[r] == REDUCE -> STEPS + 2 : STEPS + 1)

inline phases() {
    phase = 0;
    do
    :: phase == PHASES -> break
    :: else ->
        if
        :: phase > 0 && program[r] == FROM && me != 0 -> filled[me * N] >= ENDED
        :: phase > 0 && (program[r] != FROM || me == 0) -> EACH_OTHER(filled[me * N + k] >= ENDED)
        :: else
        fi;
        if
        :: program[r] == REDUCE && phase > 0 && phase <= STEPS ->
            EACH_OTHER(TAKE(phase - 1));
            EACH_OTHER(PUSH_RESULT(phase - 1))
        :: program[r] == SPREAD && me != 0 && phase > 0 && phase <= STEPS ->
            EACH_NEIGHBOUR(PUSH(phase - 1));
            k = 0;
            TAKE(phase - 1)
        :: else
        fi;
        if
        :: phase < STEPS && (program[r] == ALL || program[r] == REDUCE || me == 0) ->
            EACH_OTHER(PUSH(phase))
        :: else
        fi;
        if
        :: phase > 0 && program[r] == ALL -> EACH_OTHER(TAKE(phase - 1))
        :: phase > 0 && program[r] == FROM && me != 0 -> k = 0; TAKE(phase - 1)
        :: phase > 1 && program[r] == SPREAD && me != 0 -> EACH_NEIGHBOUR(TAKE(phase - 2))
        :: phase > 1 && program[r] == REDUCE -> EACH_OTHER(TAKE_RESULT(phase - 2))
        :: else
        fi;
        phase++;
        if
        :: phase < PHASES -> EACH_OTHER(filled[k * N + me] = before + phase)
        :: else
        fi
    od
}

#ifndef NO_EMPTIED
#define AWAIT_EMPTIED step < 2 || emptied[me * N + k] >= before + step - 1
#else
#define AWAIT_EMPTIED true
#endif

#define SIZED_SEND \
    if \
    :: step < STEPS_OF(me, k) -> AWAIT_EMPTIED; PUSH(step) \
    :: else \
    fi

#define SIZED_TAKE \
    if \
    :: step < STEPS_OF(k, me) -> \
        filled[me * N + k] >= before + step + 1; \
        TAKE(step); \
        emptied[k * N + me] = before + step + 1 \
    :: else \
    fi

#ifndef NO_CLEAR
#define CLEAR atomic { place[PLACE(me, k, 0)] = 0; place[PLACE(me, k, 1)] = 0 }
#else
#define CLEAR skip
#endif

proctype member(byte me) {
    byte r = 1, k, step, phase, before = 0; /* what `filled` is at most after earlier rounds */
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
        if
        :: program[r] == SIZED ->
            step = 0;
            do
            :: step == STEPS -> break
            :: else ->
                EACH_OTHER(SIZED_SEND);
                EACH_OTHER(filled[k * N + me] = before + step + 1);
                EACH_OTHER(SIZED_TAKE);
                step++
            od
        :: else -> phases()
        fi;
        before = before + MOST_PHASES;
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
        :: program[i] = REDUCE
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
