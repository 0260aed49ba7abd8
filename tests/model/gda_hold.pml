/* SPDX-License-Identifier: Apache-2.0 */
/* Two PEs create queues in GPU memory for the links that are connected, and begin no link meanwhile
 * (gda_hold_links() in src/path/gda/first_use.c). Each PE has a thread that begins links, which this
 * PE wants or the other has offered, and connects them; and a main thread, which agrees with the
 * other's several times, and waits for links that are pending.
 *
 * Claim: between the last agreement and the release no link is being connected, both PEs agree
 * whether the link is up, and no PE waits forever. It fails if a thread does not look at `hold`
 * after it has announced the link (-DLOOK_BEFORE), if a PE does not wait again after the other has
 * waited (-DWAIT_ONCE), and if offers are held like wishes (-DHOLD_OFFERS). */
#ifdef HOLD_OFFERS
#define OFFERS_HELD 1
#else
#define OFFERS_HELD 2
#endif
#ifdef LOOK_BEFORE
#define MAY_BEGIN(i, least) true
#else
#define MAY_BEGIN(i, least) (hold[i] < least)
#endif

mtype = { NONE, BEGUN, UP };

mtype state[2] = NONE;
bool wants[2], offered[2], connected[2], reported[2]; /* the last of what the other has reported */
byte hold[2], pending[2], arrived[5];

inline begin_link(i, least) {
    pending[i]++;
    if
    :: MAY_BEGIN(i, least) ->
        state[i] = BEGUN;
        pending[i]++;
        offered[1 - i] = true
    :: else
    fi;
    pending[i]--
}

proctype thread(byte i) {
end:
    do
    :: state[i] == NONE && wants[i] && hold[i] < 1 -> begin_link(i, 1)
    :: state[i] == NONE && offered[i] && hold[i] < OFFERS_HELD -> begin_link(i, OFFERS_HELD)
    :: state[i] == BEGUN && offered[i] && !connected[i] ->
        connected[i] = true;
        reported[1 - i] = true
    :: state[i] == BEGUN && connected[i] && reported[i] ->
        state[i] = UP;
        pending[i]--
    od
}

inline agree(n) {
    arrived[n]++;
    arrived[n] == 2
}

proctype main(byte i) {
    agree(0);
    hold[i] = 1;
    agree(1);
    pending[i] == 0;
    agree(2);
#ifndef WAIT_ONCE
    pending[i] == 0;
#endif
    hold[i] = 2;
    agree(3);
    assert(state[0] == state[1] && state[0] != BEGUN);
    agree(4);
    hold[i] = 0
}

proctype program(byte i) {
    wants[i] = true
}

init {
    atomic {
        run thread(0); run thread(1); run main(0); run main(1);
        run program(0);
        if :: run program(1) :: skip fi
    }
}
