/* SPDX-License-Identifier: Apache-2.0 */
/* Failover of requests by DC (src/path/gda/dc_post.c, dc_move.c). A poster posts data, atomics and
 * flags to two peers, which share a DC initiator. The NIC begins a request to another target when all earlier
 * requests are complete. A peer executes what arrives, and acknowledges it. At any time the NIC no
 * longer sees acknowledgements; what it has sent still arrives. Then the failover thread closes the
 * queue, waits for what is on its way, asks the peer of the first incomplete request for its last
 * mark, and executes over the other path what that peer has not executed. A new queue executes the
 * requests to the other peer. Later requests to the first peer take the other path. At the end the
 * poster's quiet waits until all is complete.
 *
 * A mark goes before the first atomic of a run of requests to one peer, and one behind each
 * atomic. Both let other PEs know of the data before them, which must not be written again then.
 * Flags grow, so the flag of a peer shows which of them it has.
 *
 * Claim: an atomic or a flag is never executed twice, data are not written behind one that follows
 * them, and when quiet succeeds everything has been executed, but for a peer that is given up; that
 * happens only if the NIC has sent something of the run. The claim fails if the run is repeated
 * whatever the mark (-DREPEAT), if a run has no first mark (-DNO_FIRST_MARK), if only the first run
 * has one (-DONE_MARK), if the mark is read before the queue is closed (-DREAD_BEFORE_CLOSE) or
 * before everything has arrived (-DREAD_EARLY), if the NIC begins the next target early
 * (-DNO_SWITCH_WAIT), if requests to the other peer are lost (-DLOSE_OTHERS), if the thread reports
 * blocks as complete before it has executed them (-DCOMPLETE_EARLY), if later requests pass those
 * that are taken over (-DPASS), if quiet does not look for losses (-DFORGET_LOSS), if the thread
 * does not look at flags (-DFORGET_FLAGS), or if it repeats what is before one that the peer has
 * (-DFLAGS_END). */
#ifndef POSTS
#define POSTS 3
#endif
#define RING  (3 * POSTS)
#define MARK  0
#define DATA  1
#define ADD   2
#define FLAG  3
#define NOBODY 2

byte pe_of[RING], kind[RING], number[RING]; /* of the requests in the ring */
byte run_of[RING], run_at;                  /* where the run of a request begins, and of the last */
byte head, done;                            /* posted, and known to be complete */
byte sent;                                  /* by the NIC */
byte acknowledged;
bool deaf, closed, open_again;
bool marked;
byte marks[2];    /* the last mark to each peer */
byte mark_at[2];  /* in memory of the peer */
byte flag_at[2];  /* there as well: the number of the last flag, plus 1 */
byte effects[POSTS], known[2]; /* known: the requests before the last executed atomic or flag of a peer */
byte to[POSTS] = NOBODY, what[POSTS];
byte taken = NOBODY; /* the peer whose requests are taken over */
bool moved, lost, begun;
chan wire = [RING] of { byte };
chan answers = [RING] of { byte };

/* A request takes effect at its peer. */
inline perform(peer, is, n) {
    if
    :: is == MARK -> mark_at[peer] = n
    :: is == DATA -> assert(n >= known[peer]); effects[n] = 1
    :: is == ADD -> assert(!effects[n]); effects[n] = 1; known[peer] = n
    :: is == FLAG -> assert(flag_at[peer] <= n); effects[n] = 1; known[peer] = n; flag_at[peer] = n + 1
    fi
}

inline put(peer, is, n) {
    pe_of[head] = peer;
    kind[head] = is;
    number[head] = n;
    run_of[head] = run_at;
    head++
}

inline put_mark(peer) {
    marks[peer]++;
    put(peer, MARK, marks[peer]);
    marked = true
}

inline post(peer, is, n) {
    if
    :: head == done || pe_of[head - 1] != peer ->
        run_at = head;
#ifndef ONE_MARK
        marked = false
#else
        skip
#endif
    :: else
    fi;
#ifndef NO_FIRST_MARK
    if :: is == ADD && !marked -> put_mark(peer) :: else fi;
#endif
    put(peer, is, n);
    if :: is == ADD -> put_mark(peer) :: else fi
}

proctype poster() {
    byte n, peer, is;
    for (n : 0 .. POSTS - 1) {
        if :: peer = 0 :: peer = 1 fi;
        if :: is = DATA :: is = ADD :: is = FLAG fi;
        to[n] = peer;
        what[n] = is;
        if
        :: atomic { (!closed || open_again) && taken != peer -> post(peer, is, n) }
#ifdef PASS
        :: atomic { taken == peer && !lost -> perform(peer, is, n) }
#else
        :: atomic { taken == peer && moved && !lost -> perform(peer, is, n) }
#endif
        :: taken == peer && lost -> to[n] = NOBODY
        fi
    }
    /* quiet */
    done == head;
    for (n : 0 .. POSTS - 1) {
#ifndef FORGET_LOSS
        assert(to[n] == NOBODY || effects[n] || (lost && to[n] == taken))
#else
        assert(to[n] == NOBODY || effects[n])
#endif
    }
    assert(!lost || begun)
}

#ifdef NO_SWITCH_WAIT
#define may_begin true
#else
#define may_begin (acknowledged == sent || pe_of[sent] == pe_of[sent - 1])
#endif

proctype nic() {
    byte x;
end:
    do
    :: atomic { !closed && sent < head && (sent == 0 || may_begin) -> wire ! sent; sent++ }
    :: atomic { !closed && !deaf && nempty(answers) ->
            answers ? x; acknowledged = x + 1; done = x + 1 }
    :: atomic { !deaf && sent > 0 -> deaf = true }
    od
}

proctype peers() {
    byte x;
end:
    do
    :: atomic { wire ? x -> perform(pe_of[x], kind[x], number[x]);
            if :: deaf :: !deaf -> answers ! x fi }
    od
}

/* The new queue, which executes the requests to the other peer. */
proctype new_nic(byte at) {
end:
    do
    :: atomic { at < head ->
            if
            :: pe_of[at] == taken
#ifdef LOSE_OTHERS
            :: pe_of[at] != taken
#endif
            :: pe_of[at] != taken -> perform(pe_of[at], kind[at], number[at])
            fi;
            at++;
            done = at }
    od
}

proctype thread() {
    byte first, at, executed, unknown, arrived;
    bool adds;
    deaf;
#ifdef READ_BEFORE_CLOSE
    if :: done < head -> arrived = mark_at[pe_of[done]] :: done == head fi;
#endif
    closed = true;
#ifndef READ_EARLY
    empty(wire);
#endif
    if
    :: done == head -> open_again = true; run new_nic(done); goto ended
    :: done < head
    fi;
    atomic {
        first = done;
        taken = pe_of[first]
    };
#ifndef READ_BEFORE_CLOSE
    arrived = mark_at[taken];
#endif
    /* The run is [first, ...): what has been executed, and what may have been. */
    atomic {
        executed = first;
        at = first;
        unknown = RING;
        do
        :: at < head && pe_of[at] == taken && unknown == RING ->
            if
            :: kind[at] == MARK && number[at] > arrived -> unknown = at
            :: kind[at] == MARK && number[at] <= arrived -> executed = at + 1
            :: kind[at] != MARK
            fi;
            at++
        :: else -> break
        od;
        if :: unknown == RING -> unknown = at :: else fi;
#ifndef FORGET_FLAGS
        at = executed;
        do
        :: at < unknown && kind[at] == FLAG && flag_at[taken] <= number[at] -> unknown = at
#ifndef FLAGS_END
        :: at < unknown && kind[at] == FLAG && flag_at[taken] > number[at] -> executed = at + 1; at++
#else
        :: at < unknown && kind[at] == FLAG && flag_at[taken] > number[at] -> at++
#endif
        :: at < unknown && kind[at] != FLAG -> at++
        :: at >= unknown -> break
        od;
#endif
        at = executed;
        do
        :: at < unknown -> adds = adds || kind[at] == ADD; at++
        :: else -> break
        od;
#ifdef REPEAT
        executed = first;
        adds = false;
#endif
        begun = sent > run_of[first];
        lost = adds
    };
#ifdef COMPLETE_EARLY
    open_again = true;
    run new_nic(first);
#endif
    at = executed;
    do
    :: at < head && !lost ->
        atomic {
            if
            :: pe_of[at] == taken && kind[at] != MARK -> perform(taken, kind[at], number[at])
            :: else
            fi;
            at++
        }
    :: else -> break
    od;
    moved = true;
#ifndef COMPLETE_EARLY
    open_again = true;
    run new_nic(first);
#endif
ended:
    skip
}

init {
    atomic { run poster(); run nic(); run peers(); run thread() }
}
