/* SPDX-License-Identifier: Apache-2.0 */
/* The order of host operations over a load/store path, on the memory of weak.inc: src/ops/rma/rma.c,
 * signal.c, order.c, wait.c, src/path/local/p2p.c, and coll_put_notify() of src/ops/coll/coll.h.
 * The number of a thread is that of its PE. D and E are words of data, F and G flags at the PE that
 * waits.
 *
 *     put                     stores, relaxed
 *     fence                   release fence
 *     p, atomic set, signal   relaxed store; an add is a relaxed atomic
 *     put_signal              stores, then a release store; an add is a release atomic
 *     get, iget               relaxed loads, then an acquire fence
 *     g, wait, signal_wait    acquire load
 *     quiet                   sequentially consistent fence
 *
 * Claims: a PE that has seen a flag, by a wait or by a get, sees the data put before it, also the
 * data of a PE whose signal another PE has passed on, and of each of two PEs that add to the flag;
 * of two PEs that put, quiet and get, at least one gets what the other has put.
 *
 * A claim fails without the fence (-DNO_FENCE), with a relaxed signal (-DSIGNAL_RELAXED) or wait
 * (-DWAIT_RELAXED), a relaxed g (-DG_RELAXED), a get without its fence (-DGET_NO_FENCE), and a
 * quiet that is a fence (-DQUIET_IS_FENCE). */
#define THREADS 3
#define LOCATIONS 4
#define MESSAGES 4
#include "weak.inc"
#define D 0
#define E 1
#define F 2
#define G 3

#ifdef SIGNAL_RELAXED
#define SIGNAL RELAXED
#else
#define SIGNAL RELEASE
#endif
#ifdef WAIT_RELAXED
#define WAIT RELAXED
#else
#define WAIT ACQUIRE
#endif
#ifdef G_RELAXED
#define SINGLE RELAXED
#else
#define SINGLE ACQUIRE
#endif
#ifdef QUIET_IS_FENCE
#define QUIET RELEASE
#else
#define QUIET SEQ_CST
#endif

mtype = { put_fence_p, put_signal, put_signal_add, passed_on, polled_by_g, polled_by_get };
mtype = { put_quiet_get };
mtype how;
byte got[2];
byte ended;

inline put_and_fence(t) {
    store(t, D, 1, RELAXED);
    store(t, E, 1, RELAXED);
#ifndef NO_FENCE
    fence(t, RELEASE)
#endif
}

inline get(t, variable) {
    load(t, D, variable, RELAXED);
#ifndef GET_NO_FENCE
    fence(t, ACQUIRE)
#endif
}

inline check_data(t) {
    load(t, D, v, RELAXED);
    assert(v == 1);
    load(t, E, v, RELAXED);
    assert(v == 1)
}

proctype pe_0() {
    byte v;
    if
    :: how == put_fence_p || how == polled_by_g -> put_and_fence(0); store(0, F, 1, RELAXED)
    :: how == put_signal || how == passed_on ->
        store(0, D, 1, RELAXED);
        store(0, E, 1, RELAXED);
        store(0, F, 1, SIGNAL)
    :: how == put_signal_add -> store(0, D, 1, RELAXED); update(0, F, v, v + 1, SIGNAL)
    :: how == polled_by_get -> store(0, E, 1, RELAXED); fence(0, RELEASE); store(0, D, 1, RELAXED)
    :: how == put_quiet_get -> store(0, D, 1, RELAXED); fence(0, QUIET); load(0, E, got[0], RELAXED)
    fi;
    ended++
}

proctype pe_1() {
    byte v;
    if
    :: how == put_fence_p || how == put_signal -> await(1, F, v, 1, WAIT); check_data(1)
    :: how == put_signal_add -> store(1, E, 1, RELAXED); update(1, F, v, v + 1, SIGNAL)
    :: how == passed_on -> await(1, F, v, 1, WAIT); fence(1, RELEASE); store(1, G, 1, RELAXED)
    :: how == polled_by_g ->
        load(1, F, v, SINGLE);
        if
        :: v == 1 -> check_data(1)
        :: else
        fi
    :: how == polled_by_get ->
        get(1, got[1]);
        load(1, E, v, RELAXED);
        assert(v == 1 || got[1] == 0)
    :: how == put_quiet_get -> store(1, E, 1, RELAXED); fence(1, QUIET); load(1, D, got[1], RELAXED)
    fi;
    ended++
}

proctype pe_2() {
    byte v;
    if
    :: how == put_signal_add -> await(2, F, v, 2, WAIT); check_data(2)
    :: how == passed_on -> await(2, G, v, 1, WAIT); check_data(2)
    :: else
    fi;
    ended++
}

init {
    atomic {
        if
        :: how = put_fence_p
        :: how = put_signal
        :: how = put_signal_add
        :: how = passed_on
        :: how = polled_by_g
        :: how = polled_by_get
        :: how = put_quiet_get
        fi;
        run pe_0(); run pe_1(); run pe_2()
    }
    ended == 3;
    assert(how != put_quiet_get || got[0] == 1 || got[1] == 1)
}
