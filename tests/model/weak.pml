/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of weak.inc itself, by litmus tests. D is data, F a flag, X and Y are two more words.
 *
 * Claims: what C11 forbids does not occur in
 *   - message passing, by a release and an acquire, by fences, through an atomic of a third thread
 *     (a release sequence), and through a third thread that waits and signals (transitivity),
 *   - store buffering with sequentially consistent fences, or accesses,
 *   - independent reads of independent writes, with sequentially consistent fences,
 *   - two loads of one location (coherence).
 *
 * A claim fails, because C11 permits the outcome,
 *   - with a relaxed store or load of the flag (-DRELAXED_STORE, -DRELAXED_LOAD), or without one of
 *     the fences (-DNO_RELEASE_FENCE, -DNO_ACQUIRE_FENCE),
 *   - if the third thread stores in place of its atomic (-DNO_SEQUENCE),
 *   - with fences that are not sequentially consistent in store buffering (-DWEAK_FENCES) and
 *     between the reads (-DACQUIRE_READS), or such accesses (-DWEAK_ACCESSES). */
#define THREADS 4
#define LOCATIONS 4
#define MESSAGES 4
#include "weak.inc"
#define D 0
#define F 1
#define X 2
#define Y 3

#ifdef RELAXED_STORE
#define STORE RELAXED
#else
#define STORE RELEASE
#endif
#ifdef RELAXED_LOAD
#define LOAD RELAXED
#else
#define LOAD ACQUIRE
#endif
#ifdef WEAK_FENCES
#define FULL ACQ_REL
#else
#define FULL SEQ_CST
#endif
#ifdef ACQUIRE_READS
#define BETWEEN ACQUIRE
#else
#define BETWEEN SEQ_CST
#endif
#ifdef WEAK_ACCESSES
#define SC_STORE RELEASE
#define SC_LOAD ACQUIRE
#else
#define SC_STORE SEQ_CST
#define SC_LOAD SEQ_CST
#endif

mtype = { passing, fences, sequence, transitive, buffering, accesses, independent, coherence };
mtype test;
byte seen[THREADS * 2];
byte ended;

proctype thread_0() {
    byte v;
    if
    :: test == passing || test == transitive -> store(0, D, 1, RELAXED); store(0, F, 1, STORE)
    :: test == fences ->
        store(0, D, 1, RELAXED);
#ifndef NO_RELEASE_FENCE
        fence(0, RELEASE);
#endif
        store(0, F, 1, RELAXED)
    :: test == sequence -> store(0, D, 1, RELAXED); store(0, F, 1, RELEASE)
    :: test == buffering -> store(0, X, 1, RELAXED); fence(0, FULL); load(0, Y, seen[0], RELAXED)
    :: test == accesses -> store(0, X, 1, SC_STORE); load(0, Y, seen[0], SC_LOAD)
    :: test == independent -> store(0, X, 1, RELAXED)
    :: test == coherence -> store(0, X, 1, RELAXED); store(0, X, 2, RELAXED)
    fi;
    ended++
}

proctype thread_1() {
    byte v;
    if
    :: test == passing ->
        await(1, F, v, 1, LOAD);
        load(1, D, seen[2], RELAXED);
        assert(seen[2] == 1)
    :: test == fences ->
        await(1, F, v, 1, RELAXED);
#ifndef NO_ACQUIRE_FENCE
        fence(1, ACQUIRE);
#endif
        load(1, D, seen[2], RELAXED);
        assert(seen[2] == 1)
    :: test == sequence ->
#ifdef NO_SEQUENCE
        await(1, F, v, 1, RELAXED);
        store(1, F, 2, RELAXED)
#else
        NEWEST(F) == 1;
        update(1, F, v, v + 1, RELAXED)
#endif
    :: test == transitive -> await(1, F, v, 1, LOAD); store(1, X, 1, STORE)
    :: test == buffering -> store(1, Y, 1, RELAXED); fence(1, FULL); load(1, X, seen[2], RELAXED)
    :: test == accesses -> store(1, Y, 1, SC_STORE); load(1, X, seen[2], SC_LOAD)
    :: test == independent -> store(1, Y, 1, RELAXED)
    :: test == coherence ->
        load(1, X, seen[2], RELAXED);
        load(1, X, seen[3], RELAXED);
        assert(seen[2] <= seen[3])
    fi;
    ended++
}

proctype thread_2() {
    byte v;
    if
    :: test == sequence -> await(2, F, v, 2, ACQUIRE); load(2, D, v, RELAXED); assert(v == 1)
    :: test == transitive -> await(2, X, v, 1, LOAD); load(2, D, v, RELAXED); assert(v == 1)
    :: test == independent ->
        load(2, X, seen[4], ACQUIRE);
        fence(2, BETWEEN);
        load(2, Y, seen[5], ACQUIRE)
    :: else
    fi;
    ended++
}

proctype thread_3() {
    if
    :: test == independent ->
        load(3, Y, seen[6], ACQUIRE);
        fence(3, BETWEEN);
        load(3, X, seen[7], ACQUIRE)
    :: else
    fi;
    ended++
}

init {
    atomic {
        if
        :: test = passing
        :: test = fences
        :: test = sequence
        :: test = transitive
        :: test = buffering
        :: test = accesses
        :: test = independent
        :: test = coherence
        fi;
        run thread_0(); run thread_1(); run thread_2(); run thread_3()
    }
    ended == 4;
    assert((test != buffering && test != accesses) || seen[0] == 1 || seen[2] == 1);
    assert(test != independent || seen[4] != 1 || seen[5] != 0 || seen[6] != 1 || seen[7] != 0)
}
