/* SPDX-License-Identifier: Apache-2.0 */
/* A channel of path staged (src/path/staged/channel.c, owner.c) on the memory of weak.inc. Thread 0
 * is the requester, thread 1 the owner. There is one slot, so that each request reuses it. The
 * owner executes a request on its memory, and writes an atomic's old value into the slot.
 *
 *     publish_requests()      request and data, relaxed; the slot's sequence number, SEQ_CST
 *     is_pending()            SEQ_CST load, then the request and its data, relaxed
 *     record_failure()        the error text, relaxed; `failed`, release
 *     publish_completions()   `done`, release
 *     copy_answers_out()      `done`, acquire; then check_owner_failure(): `failed`, acquire, and
 *                             the text; then the answer, relaxed
 *     retire_requests()       `retired`, release, read by complete_channel() of another thread of
 *                             the requester (thread 2), acquire, which then sees the answer's copy
 *
 * Claims: the owner finds each request and its data whole; the requester finds its answer or the
 * failure with its text; the stores of both sides to the slot are ordered; a quiet of another
 * thread sees what the requests have done.
 *
 * A claim fails if one of these accesses is relaxed: -DPUBLISH_RELAXED, -DPENDING_RELAXED,
 * -DDONE_RELAXED, -DDONE_LOAD_RELAXED, -DFAILED_RELAXED, -DRETIRED_RELAXED, -DRETIRED_LOAD_RELAXED.
 */
#define THREADS 3
#define LOCATIONS 8
#define MESSAGES 6
#include "weak.inc"
#define DATA 0     /* of the request, then the answer */
#define SEQUENCE 1
#define DONE 2
#define FAILED 3
#define TEXT 4
#define RETIRED 5
#define MEMORY 6   /* of the owner, which requests change */
#define ANSWER 7   /* destination of the answer */
#define REQUESTS 2

#ifdef PUBLISH_RELAXED
#define PUBLISH RELAXED
#else
#define PUBLISH SEQ_CST
#endif
#ifdef PENDING_RELAXED
#define PENDING RELAXED
#else
#define PENDING SEQ_CST
#endif
#ifdef DONE_RELAXED
#define COMPLETE RELAXED
#else
#define COMPLETE RELEASE
#endif
#ifdef DONE_LOAD_RELAXED
#define DONE_LOAD RELAXED
#else
#define DONE_LOAD ACQUIRE
#endif
#ifdef FAILED_RELAXED
#define FAIL RELAXED
#else
#define FAIL RELEASE
#endif
#ifdef RETIRED_RELAXED
#define RETIRE RELAXED
#else
#define RETIRE RELEASE
#endif
#ifdef RETIRED_LOAD_RELAXED
#define RETIRED_LOAD RELAXED
#else
#define RETIRED_LOAD ACQUIRE
#endif

proctype requester() {
    byte request, v;
    for (request : 1 .. REQUESTS) {
        store(0, DATA, 10 + request, RELAXED);
        store(0, SEQUENCE, request, PUBLISH);
        if
        :: await(0, DONE, v, request, DONE_LOAD)
        :: load(0, FAILED, v, ACQUIRE); /* may be checked before `done` has grown */
            if
            :: v == 1 -> load(0, TEXT, v, RELAXED); assert(v == 1)
            :: else
            fi;
            await(0, DONE, v, request, DONE_LOAD)
        fi;
        load(0, DATA, v, RELAXED);
        assert(v == 20 + request);
        store(0, ANSWER, v, RELAXED);
        store(0, RETIRED, request, RETIRE);
        v = 0
    }
}

proctype owner() {
    byte request, v;
    for (request : 1 .. REQUESTS) {
        await(1, SEQUENCE, v, request, PENDING);
        load(1, DATA, v, RELAXED);
        assert(v == 10 + request);
        store(1, MEMORY, request, RELAXED);
        store(1, DATA, 20 + request, RELAXED);
        if
        :: NEWEST(FAILED) == 0 -> store(1, TEXT, 1, RELAXED); store(1, FAILED, 1, FAIL)
        :: true
        fi;
        store(1, DONE, request, COMPLETE);
        v = 0
    }
}

proctype quiet() {
    byte v;
    await(2, RETIRED, v, REQUESTS, RETIRED_LOAD);
    load(2, ANSWER, v, RELAXED);
    assert(v == 20 + REQUESTS);
    load(2, MEMORY, v, RELAXED);
    assert(v == REQUESTS)
}

init {
    atomic { run requester(); run owner(); run quiet() }
}
