/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-ups by a futex, on the memory of weak.inc: thread 0 publishes work (W) and wakes thread 1 if
 * it sees that it sleeps (S), or is about to. B is a bell, a count.
 *
 *     owner    src/path/staged/owner.c, staged_wake_owner() and sleep_on_futex(): all accesses are
 *              SEQ_CST; the futex word is S
 *     proxy    src/proxy/proxy.c, proxy_wake() and sleep_until_bell(): S and B are SEQ_CST, the
 *              work (`wanted`) is release and acquire; the futex word is B
 *     hca      standin/hca/link.c, link_wake_engine(), and engine.c, sleep_idle(): S and B are
 *              relaxed, with a SEQ_CST fence on each side; the work is release and acquire; the
 *              futex word is B
 *
 * Claims: no thread sleeps while there is work and no wake-up follows; a thread that sees the work
 * sees what was stored before it (D). The timeouts of the sleeps are left out.
 *
 * A claim fails with release and acquire in place of SEQ_CST (-DOWNER_ACQ_REL, -DPROXY_ACQ_REL),
 * without one of the fences (-DNO_WAKE_FENCE, -DNO_SLEEP_FENCE), if the bell is read after the
 * check for work (-DBELL_LATE), and with a relaxed load of the work (-DWORK_RELAXED). */
#define THREADS 2
#define LOCATIONS 4
#define MESSAGES 5
#include "weak.inc"
#define D 0
#define W 1
#define S 2
#define B 3

#ifdef OWNER_ACQ_REL
#define OWNER_STORE RELEASE
#define OWNER_LOAD ACQUIRE
#else
#define OWNER_STORE SEQ_CST
#define OWNER_LOAD SEQ_CST
#endif
#ifdef PROXY_ACQ_REL
#define PROXY_STORE RELEASE
#define PROXY_LOAD ACQUIRE
#define PROXY_BELL ACQ_REL
#else
#define PROXY_STORE SEQ_CST
#define PROXY_LOAD SEQ_CST
#define PROXY_BELL SEQ_CST
#endif
#ifdef WORK_RELAXED
#define WORK RELAXED
#else
#define WORK ACQUIRE
#endif

mtype = { owner, proxy, hca };
mtype form;
bool asleep, woken; /* in the kernel */

/* FUTEX_WAKE wakes a thread that sleeps; FUTEX_WAIT sleeps if the word still has the value. The
 * kernel reads the newest value, under its lock. */
inline wake() { d_step { woken = woken || asleep } }
inline wait(x, value) {
    atomic {
        if
        :: NEWEST(x) == value -> asleep = true
        :: else -> woken = true
        fi
    }
    woken;
    asleep = false
}

inline wake_owner() {
    store(0, W, 1, OWNER_STORE);
    load(0, S, v, OWNER_LOAD);
    if
    :: v == 1 -> update(0, S, v, 0, SEQ_CST); wake()
    :: else
    fi
}

inline wake_proxy() {
    store(0, W, 1, RELEASE);
    update(0, B, v, v + 1, PROXY_BELL);
    load(0, S, v, PROXY_LOAD);
    if
    :: v == 1 -> wake()
    :: else
    fi
}

inline wake_hca() {
    store(0, W, 1, RELEASE);
#ifndef NO_WAKE_FENCE
    fence(0, SEQ_CST);
#endif
    load(0, S, v, RELAXED);
    if
    :: v == 1 -> update(0, B, v, v + 1, RELAXED); wake()
    :: else
    fi
}

proctype waker() {
    byte v;
    store(0, D, 1, RELAXED);
    if
    :: form == owner -> wake_owner()
    :: form == proxy -> wake_proxy()
    :: form == hca -> wake_hca()
    fi
}

proctype sleeper() {
    byte v, bell;
    if
    :: form == owner ->
        store(1, S, 1, OWNER_STORE);
        load(1, W, v, OWNER_LOAD);
        if
        :: v == 0 -> wait(S, 1)
        :: else
        fi
    :: form == proxy ->
        store(1, S, 1, PROXY_STORE);
#ifdef BELL_LATE
        load(1, W, v, WORK);
        load(1, B, bell, PROXY_LOAD);
#else
        load(1, B, bell, PROXY_LOAD);
        load(1, W, v, WORK);
#endif
        if
        :: v == 0 -> wait(B, bell)
        :: else
        fi
    :: form == hca ->
        load(1, B, bell, RELAXED);
        store(1, S, 1, RELAXED);
#ifndef NO_SLEEP_FENCE
        fence(1, SEQ_CST);
#endif
        load(1, W, v, WORK);
        if
        :: v == 0 -> wait(B, bell)
        :: else
        fi
    fi;
    await(1, W, v, 1, WORK);
    load(1, D, v, RELAXED);
    assert(v == 1)
}

init {
    atomic {
        if
        :: form = owner
        :: form = proxy
        :: form = hca
        fi;
        run waker(); run sleeper()
    }
}
