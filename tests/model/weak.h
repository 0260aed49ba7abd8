/* SPDX-License-Identifier: Apache-2.0 */
/* A weak memory for Spin: C11 without consume and without load buffering, by views (the operational
 * form of RC11; Lahav and others, "Repairing Sequential Consistency in C/C++11", PLDI 2017, and
 * Kang and others, "A Promising Semantics for Relaxed-Memory Concurrency", POPL 2017). A C program
 * shows no more than this on 64-bit Arm, except that a load may be performed after a later relaxed
 * store that does not depend on it: a model where this matters performs its loads late by choice.
 *
 * Each location keeps all its messages (values, in modification order). A thread has a view: for
 * each location the oldest message that it may still read. A load reads any message from there on.
 * A message of a release carries the view of its writer, and an acquire takes it over. A release
 * fence does this for later relaxed stores, an acquire fence for earlier relaxed loads. An atomic
 * read-modify-write reads the newest message and passes its view on (a release sequence).
 *
 * A model defines THREADS, LOCATIONS and MESSAGES (most messages of a location, with the initial 0)
 * and includes this file. `t` is the number of the thread, `x` of the location.
 *
 *     store(t, x, value, order)        order: RELAXED (also of plain accesses), RELEASE, SEQ_CST
 *     load(t, x, variable, order)      order: RELAXED, ACQUIRE, SEQ_CST
 *     await(t, x, variable, least, order)
 *                                      loads until the value is at least `least`; executable when
 *                                      that of the newest message is
 *     update(t, x, variable, value, order)
 *                                      an atomic: `variable` gets the old value, of which `value`
 *                                      may be an expression; order: also ACQ_REL
 *     fence(t, order)                  ACQUIRE, RELEASE, ACQ_REL, SEQ_CST
 *
 * Stores of several threads to one location must be sequentially consistent or ordered by
 * synchronization, which store() asserts: otherwise their order in memory need not be that of the
 * search. */
#define RELAXED 0
#define ACQUIRE 1
#define RELEASE 2
#define ACQ_REL 3
#define SEQ_CST 7

byte w_value[LOCATIONS * MESSAGES];
byte w_view[LOCATIONS * MESSAGES * LOCATIONS]; /* of each message */
byte w_last[LOCATIONS];                        /* newest message */
byte w_current[THREADS * LOCATIONS];           /* view of a thread */
byte w_acquire[THREADS * LOCATIONS];           /* what an acquire fence adds to it */
byte w_release[THREADS * LOCATIONS];           /* the view at the last release fence */
byte w_fenced[LOCATIONS]; /* messages that SEQ_CST fences and accesses have ordered */
byte w_m, w_k;            /* 0 between steps */

#define VALUE(x, m)   w_value[(x) * MESSAGES + (m)]
#define VIEW(x, m, l) w_view[((x) * MESSAGES + (m)) * LOCATIONS + (l)]
#define CURRENT(t, l) w_current[(t) * LOCATIONS + (l)]
#define TO_COME(t, l) w_acquire[(t) * LOCATIONS + (l)]
#define FENCED(t, l)  w_release[(t) * LOCATIONS + (l)]
#define NEWEST(x)     VALUE(x, w_last[x])
#define LATER(a, b)   ((a) > (b) -> (a) : (b))

/* The thread reads message w_m. */
inline w_read(t, x, order) {
    CURRENT(t, x) = LATER(CURRENT(t, x), w_m);
    for (w_k : 0 .. LOCATIONS - 1) {
        TO_COME(t, w_k) = LATER(TO_COME(t, w_k), VIEW(x, w_m, w_k));
        if
        :: (order) & ACQUIRE -> CURRENT(t, w_k) = LATER(CURRENT(t, w_k), VIEW(x, w_m, w_k))
        :: else
        fi;
        TO_COME(t, w_k) = LATER(TO_COME(t, w_k), CURRENT(t, w_k))
    }
}

/* Appends a message. An atomic has its predecessor's view already in the new message. */
inline w_append(t, x, value, order) {
    assert(w_last[x] + 1 < MESSAGES);
    w_last[x]++;
    VALUE(x, w_last[x]) = value;
    CURRENT(t, x) = w_last[x];
    TO_COME(t, x) = w_last[x];
    for (w_k : 0 .. LOCATIONS - 1) {
        VIEW(x, w_last[x], w_k) = LATER(VIEW(x, w_last[x], w_k), FENCED(t, w_k));
        if
        :: (order) & RELEASE ->
            VIEW(x, w_last[x], w_k) = LATER(VIEW(x, w_last[x], w_k), CURRENT(t, w_k))
        :: else
        fi
    }
    VIEW(x, w_last[x], x) = w_last[x];
    w_fenced[x] = ((order) == SEQ_CST -> w_last[x] : w_fenced[x]);
    w_k = 0
}

inline store(t, x, value, order) {
    d_step {
        assert((order) == SEQ_CST || CURRENT(t, x) == w_last[x]);
        w_append(t, x, value, order)
    }
}

inline w_choose(t, x, order) {
    w_m = ((order) == SEQ_CST -> LATER(CURRENT(t, x), w_fenced[x]) : CURRENT(t, x));
    do
    :: w_m < w_last[x] -> w_m++
    :: true -> break
    od
}

inline load(t, x, variable, order) {
    atomic {
        w_choose(t, x, order);
        d_step { variable = VALUE(x, w_m); w_read(t, x, order); w_m = 0; w_k = 0 }
    }
}

inline await(t, x, variable, least, order) {
    atomic {
        NEWEST(x) >= least;
        w_m = ((order) == SEQ_CST -> LATER(CURRENT(t, x), w_fenced[x]) : CURRENT(t, x));
        do
        :: VALUE(x, w_m) >= least -> break
        :: w_m < w_last[x] -> w_m++
        od;
        d_step { variable = VALUE(x, w_m); w_read(t, x, order); w_m = 0; w_k = 0 }
    }
}

inline update(t, x, variable, value, order) {
    d_step {
        w_m = w_last[x];
        variable = VALUE(x, w_m);
        w_read(t, x, order);
        for (w_k : 0 .. LOCATIONS - 1) { VIEW(x, w_m + 1, w_k) = VIEW(x, w_m, w_k) }
        w_append(t, x, value, order);
        w_m = 0
    }
}

inline fence(t, order) {
    d_step {
        for (w_k : 0 .. LOCATIONS - 1) {
            CURRENT(t, w_k) = ((order) & ACQUIRE -> TO_COME(t, w_k) : CURRENT(t, w_k));
            if
            :: (order) == SEQ_CST ->
                CURRENT(t, w_k) = LATER(CURRENT(t, w_k), w_fenced[w_k]);
                w_fenced[w_k] = CURRENT(t, w_k)
            :: else
            fi;
            TO_COME(t, w_k) = LATER(TO_COME(t, w_k), CURRENT(t, w_k));
            FENCED(t, w_k) = ((order) & RELEASE -> CURRENT(t, w_k) : FENCED(t, w_k))
        }
        w_k = 0
    }
}
