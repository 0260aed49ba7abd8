/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting the queues of two PEs at first use (src/path/gda/first_use.c). One of them or both want
 * it. Each leaves the numbers of its queues in the other's mail, connects its queues when the other's
 * numbers have come, reports that, and uses them when the other has reported it too. Once they are
 * up they may fail; then a count takes the numbers' place (failover.c).
 *
 * Claim: a PE reads numbers only, uses its queues only when the other's are connected, and both are
 * up in the end. It fails if the step is reported before the numbers (-DSTEP_FIRST), if a PE does
 * not wait for the other's report (-DUSE_EARLY), if a count may replace numbers before the link is up
 * (-DCOUNT_EARLY), and if a PE that wants nothing does not answer an offer (-DNO_ANSWER). */
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

mtype = { NOTHING, NUMBERS, COUNT };
mtype = { NONE, OFFERED, CONNECTED, UP, STOPPED };

mtype words[2] = NOTHING; /* in the mail of PE i */
byte step[2];             /* there: what the other has reported */
mtype state[2] = NONE;
bool wants[2], connected[2];

inline stop(i) {
    words[1 - i] = COUNT;
    state[i] = STOPPED
}

proctype pe(byte i) {
end:
    do
    :: state[i] == NONE && (wants[i] || OFFERED_TO(i)) ->
#ifdef STEP_FIRST
        step[1 - i] = 1;
        words[1 - i] = NUMBERS;
#else
        words[1 - i] = NUMBERS;
        step[1 - i] = 1;
#endif
        state[i] = OFFERED
    :: state[i] == OFFERED && step[i] >= 1 ->
        assert(words[i] == NUMBERS);
        connected[i] = true;
        step[1 - i] = 2;
        state[i] = CONNECTED
    :: state[i] == CONNECTED && PEER_IS_CONNECTED(i) ->
        assert(connected[1 - i]);
        state[i] = UP
    :: state[i] == UP -> stop(i)
#ifdef COUNT_EARLY
    :: state[i] == CONNECTED -> stop(i)
#endif
    od
}

proctype observer() {
    timeout;
    assert((state[0] == UP || state[0] == STOPPED) && (state[1] == UP || state[1] == STOPPED))
}

init {
    atomic {
        if :: wants[0] = true :: wants[1] = true :: wants[0] = true; wants[1] = true fi;
        run pe(0); run pe(1); run observer()
    }
}
