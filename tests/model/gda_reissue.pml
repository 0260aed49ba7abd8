/* SPDX-License-Identifier: Apache-2.0 */
/* Reissue of requests of a failed queue of path gda (src/path/gda/reissue.c). The failover thread
 * posts them, a batch at a time, to a queue of another NIC that other threads use too. That NIC
 * fails at any time. Then the thread executes what the peer has not executed of that queue, all
 * batches included, and further requests of the first queue itself.
 *
 * Claim: each request is executed once, in its order, and before the thread reports it as complete.
 * The claim fails if the thread reports a batch when it has posted it (-DREPORT_POSTED), if it goes
 * on in another way while a batch is under way (-DSWITCH_EARLY), and if it forgets the batch when
 * the NIC fails (-DFORGET_BATCH). */
#define REQUESTS 4
#define OTHERS   2
#define OTHER    99 /* a request of another thread */
#define RING     6

byte ring[RING], posted; /* the other NIC's queue */
byte executed;           /* its requests that the peer has executed */
byte done;               /* those that are known to be complete */
bool failed;
byte effects[REQUESTS], next_effect, others, other_effects;

inline perform(request) {
    if
    :: request == OTHER -> other_effects++
    :: else ->
        effects[request]++;
        assert(effects[request] == 1 && request == next_effect);
        next_effect = request + 1
    fi
}

proctype other_thread() {
    byte i;
    for (i : 1 .. OTHERS) {
        atomic { ring[posted] = OTHER; posted++; others++ }
    }
}

proctype nic() {
end:
    do
    :: atomic { !failed && executed < posted -> perform(ring[executed]); executed++ }
    :: atomic { !failed && done < executed -> done = executed }
    :: atomic { !failed -> failed = true; break }
    od
}

proctype failover_thread() {
    byte at, upto, batch_end, taken, i;
    bool under_way, noticed;
    do
    :: at == REQUESTS && noticed && taken == posted && others == OTHERS -> break
    :: atomic { at == REQUESTS && !noticed && failed -> noticed = true; taken = executed }
    :: atomic { at < REQUESTS && !under_way && !noticed ->
            upto = at;
            do
            :: upto < REQUESTS && upto < at + 2 -> ring[posted] = upto; posted++; upto++
            :: upto > at -> break
            od;
            batch_end = posted;
            under_way = true }
#ifdef REPORT_POSTED
    :: atomic { under_way ->
#else
    :: atomic { under_way && done >= batch_end ->
#endif
            for (i : at .. upto - 1) {
                assert(effects[i] == 1)
            }
            at = upto;
            under_way = false }
    :: atomic { at < REQUESTS && failed && !noticed ->
            noticed = true;
            taken = executed; /* the peer has stopped its end, and reports it */
#ifdef FORGET_BATCH
            under_way = false
#endif
            done = executed }
    :: atomic { noticed && taken < posted -> perform(ring[taken]); taken++; done = taken }
#ifdef SWITCH_EARLY
    :: atomic { noticed && at < REQUESTS ->
#else
    :: atomic { noticed && at < REQUESTS && !under_way ->
#endif
            perform(at);
            at++ }
    od;
    for (i : 0 .. REQUESTS - 1) {
        assert(effects[i] == 1)
    }
    assert(other_effects == OTHERS)
}

init {
    atomic { run other_thread(); run nic(); run failover_thread() }
}
