/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting the queues of two PEs at first use (src/path/gda/first_use.c). One of them or both want
 * it. Each leaves the numbers of its queues in the other's mail, connects its queues when the other's
 * numbers have come, reports that, and uses them when the other has reported it too. At any time a
 * NIC of a PE may fail towards itself: the PE then stops its queues, and later puts counts in the
 * numbers' place (failover.c). A NIC may refuse a PE its queues: the PE then puts counts there at once,
 * and reports the last step.
 *
 * Claim: a PE reads numbers only, uses its queues only when the other's have been connected, no NIC
 * of a PE that has failed executes anything, and in the end both are up, or each knows that the
 * other has stopped. It fails if the step is reported before the numbers (-DSTEP_FIRST), if a PE does
 * not wait for the other's report (-DUSE_EARLY), if a count may replace numbers that the other has
 * not read (-DCOUNT_EARLY), if links that are being connected are not stopped (-DSTOP_LATE), if a PE
 * that wants nothing does not answer an offer (-DNO_ANSWER), and if a PE without queues reports the
 * first step (-DREFUSED_OFFERS) or the other takes its counts for numbers (-DCOUNT_UNREAD). */
#ifdef NO_ANSWER
#define OFFERED_TO(i) false
#else
#define OFFERED_TO(i) (step[i] >= 1)
#endif
#ifdef USE_EARLY
#define PEER_IS_CONNECTED(i) true
#else
#define PEER_IS_CONNECTED(i) (step[i] == 2)
#endif
#ifdef REFUSED_OFFERS
#define STEP_OF_REFUSED 1
#else
#define STEP_OF_REFUSED 2
#endif
#ifdef COUNT_UNREAD
#define HAS_COUNT(i) false
#else
#define HAS_COUNT(i) (words[i] == COUNT)
#endif
#ifdef COUNT_EARLY
#define PEER_HAS_READ(i) true
#else
#define PEER_HAS_READ(i) (step[i] == 2)
#endif

mtype = { NOTHING, NUMBERS, COUNT };
mtype = { NONE, OFFERED, CONNECTED, UP };

mtype words[2] = NOTHING; /* in the mail of PE i */
byte step[2];             /* there: what the other has reported */
mtype state[2] = NONE;
bool wants[2], refused[2], lost[2], used[2];
bool connected[2], stopped[2], told[2]; /* the queues of PE i; the other knows that they stopped */

proctype pe(byte i) {
end:
    do
    :: state[i] == NONE && refused[i] && (wants[i] || OFFERED_TO(i)) ->
        words[1 - i] = COUNT;
        step[1 - i] = STEP_OF_REFUSED;
        told[i] = true;
        atomic { stopped[i] = true; state[i] = UP }
    :: state[i] == NONE && !refused[i] && (wants[i] || OFFERED_TO(i)) ->
#ifdef STEP_FIRST
        step[1 - i] = 1;
        words[1 - i] = NUMBERS;
#else
        words[1 - i] = NUMBERS;
        step[1 - i] = 1;
#endif
        state[i] = OFFERED
    :: atomic { state[i] == OFFERED && step[i] >= 1 && HAS_COUNT(i) ->
            stopped[i] = true; state[i] = UP }
    :: state[i] == OFFERED && step[i] >= 1 && !HAS_COUNT(i) ->
        assert(words[i] == NUMBERS);
        atomic {
            connected[i] = true;
            state[i] = CONNECTED;
            if :: lost[i] -> stopped[i] = true; state[i] = UP :: else fi
        };
        step[1 - i] = 2
    :: state[i] == CONNECTED && PEER_IS_CONNECTED(i) ->
        assert(connected[1 - i]);
        state[i] = UP
    :: atomic { state[i] == UP && stopped[i] && !told[i] && PEER_HAS_READ(i) ->
            words[1 - i] = COUNT; told[i] = true }
    :: atomic { state[i] == UP && !stopped[i] && words[i] == COUNT -> stopped[i] = true }
    :: atomic { !lost[i] -> lost[i] = true;
            if
#ifdef STOP_LATE
            :: state[i] == UP -> stopped[i] = true
#else
            :: state[i] == UP || state[i] == CONNECTED -> stopped[i] = true; state[i] = UP
#endif
            :: else
            fi }
    :: atomic { !used[i] && state[i] == UP && connected[1 - i] && !stopped[1 - i] && !stopped[i] ->
            used[i] = true; /* a request is executed there */
            assert(!lost[1 - i]) }
    od
}

proctype observer() {
    (state[0] != NONE || state[1] != NONE);
    timeout;
    assert(state[0] == UP && state[1] == UP);
    assert(stopped[0] == stopped[1]);
    assert(!stopped[0] || (words[0] == COUNT && words[1] == COUNT))
}

init {
    atomic {
        if :: wants[0] = true :: wants[1] = true :: wants[0] = true; wants[1] = true fi;
        if :: skip :: refused[0] = true :: refused[1] = true :: refused[0] = true; refused[1] = true fi;
        run pe(0); run pe(1); run observer()
    }
}
