/* SPDX-License-Identifier: Apache-2.0 */
/* Records that one thread or PE writes and another reads without a lock, on the memory of weak.inc.
 *
 *     failure  src/job/job.c, job_fail(): the sentence, relaxed; the status, release; the fault
 *              word, release. Every entry of the API loads the word, relaxed; job_check_failed()
 *              then has an acquire fence and loads the status, acquire, and the sentence.
 *     entry    src/nvshmem/team_meet.c, publish_entry(): the id becomes 0, relaxed; release
 *              fence; the other fields, relaxed; the id, release. read_entry(): the id, acquire; the
 *              fields, relaxed; acquire fence; the id again, which must be the same.
 *     epoch    src/base/epoch.h: thread 0 starts an operation (an atomic add to `given`, ACQ_REL).
 *              Thread 1 finds it (`given` and `complete`, acquire), completes it and raises
 *              `complete` (release). Thread 2, to which thread 0 has passed a flag, quiets: it reads
 *              both counts, acquire, and completes what is open.
 *
 * Claims: a thread that sees the fault word sees status and sentence; the fields of an entry are
 * those of its id; after the quiet the operation is complete for its thread.
 *
 * A claim fails with a relaxed fault word (-DWORD_RELAXED) or without the fence after its load
 * (-DNO_CHECK_FENCE); without the second load of the id (-DNO_RECHECK), without the fence before it
 * (-DNO_READ_FENCE), and with a release of the 0 in place of the fence after it, which does not
 * keep later stores behind it (-DNO_WRITE_FENCE); with relaxed counts of an epoch (-DGIVEN_RELAXED,
 * -DCOMPLETE_RELAXED, -DOPEN_RELAXED), and if the completed count is read before the work is done
 * and raised to what has been given since (-DUPTO_LATE). */
#define THREADS 3
#define LOCATIONS 6
#define MESSAGES 7
#include "weak.inc"
#define TEXT 0
#define STATUS 1
#define FAULT 2

#define ID 0
#define MEMBERS 1
#define SLOTS 2

#define OPERATION 0 /* what the operation did */
#define GIVEN 1
#define COMPLETED 2
#define VISIBLE 3   /* stands for the effect of the completing work */
#define FLAG 4

#ifdef WORD_RELAXED
#define WORD RELAXED
#else
#define WORD RELEASE
#endif
#ifdef GIVEN_RELAXED
#define GIVE RELAXED
#define OPEN_GIVEN RELAXED
#else
#define GIVE ACQ_REL
#define OPEN_GIVEN ACQUIRE
#endif
#ifdef COMPLETE_RELAXED
#define CLOSE RELAXED
#else
#define CLOSE RELEASE
#endif
#ifdef OPEN_RELAXED
#define OPEN RELAXED
#else
#define OPEN ACQUIRE
#endif

mtype = { failure, entry, epoch };
mtype form;

inline publish_entry(id) {
#ifdef NO_WRITE_FENCE
    store(0, ID, 0, RELEASE);
#else
    store(0, ID, 0, RELAXED);
    fence(0, RELEASE);
#endif
    store(0, MEMBERS, id, RELAXED);
    store(0, SLOTS, id, RELAXED);
    store(0, ID, id, RELEASE)
}

inline read_entry(id) {
    load(1, ID, v, ACQUIRE);
    if
    :: v != id
    :: else ->
        load(1, MEMBERS, a, RELAXED);
        load(1, SLOTS, b, RELAXED);
#ifndef NO_READ_FENCE
        fence(1, ACQUIRE);
#endif
#ifndef NO_RECHECK
        load(1, ID, v, RELAXED);
#endif
        assert(v != id || (a == id && b == id))
    fi
}

inline close_epoch(t) {
    atomic {
        if
        :: NEWEST(COMPLETED) < upto -> update(t, COMPLETED, v, upto, CLOSE)
        :: else
        fi
    }
}

/* The operation is complete once a thread that knows of it has done the work. */
inline quiet_epoch(t) {
    load(t, GIVEN, upto, OPEN_GIVEN);
    load(t, COMPLETED, v, OPEN);
    if
    :: v < upto ->
        load(t, OPERATION, a, RELAXED); /* a bit for each operation that the work covers */
        assert(a >= upto);
        update(t, VISIBLE, v, v | a, RELAXED);
#ifdef UPTO_LATE
        load(t, GIVEN, upto, OPEN_GIVEN);
#endif
        close_epoch(t)
    :: else
    fi
}

proctype thread_0() {
    byte v;
    if
    :: form == failure ->
        store(0, TEXT, 1, RELAXED);
        store(0, STATUS, 1, RELEASE);
        store(0, FAULT, 1, WORD)
    :: form == entry -> publish_entry(1); publish_entry(2)
    :: form == epoch ->
        store(0, OPERATION, 1, RELAXED);
        update(0, GIVEN, v, v + 1, GIVE);
        store(0, OPERATION, 3, RELAXED);
        update(0, GIVEN, v, v + 1, GIVE);
        store(0, FLAG, 1, RELEASE)
    fi
}

proctype thread_1() {
    byte v, a, b, upto;
    if
    :: form == failure ->
        load(1, FAULT, v, RELAXED);
        if
        :: v == 1 ->
#ifndef NO_CHECK_FENCE
            fence(1, ACQUIRE);
#endif
            load(1, STATUS, a, ACQUIRE);
            assert(a == 1);
            load(1, TEXT, b, RELAXED);
            assert(b == 1)
        :: else
        fi
    :: form == entry ->
        if
        :: read_entry(1)
        :: read_entry(2)
        fi
    :: form == epoch -> quiet_epoch(1)
    fi
}

proctype thread_2() {
    byte v, a, upto;
    if
    :: form == epoch ->
        await(2, FLAG, v, 1, ACQUIRE);
        quiet_epoch(2);
        load(2, VISIBLE, v, RELAXED);
        assert(v == 3)
    :: else
    fi
}

init {
    atomic {
        if
        :: form = failure
        :: form = entry
        :: form = epoch
        fi;
        run thread_0(); run thread_1(); run thread_2()
    }
}
