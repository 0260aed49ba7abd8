/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of device code (include/weft/device/staging.h): two sets of slots used in turn, rounds in
 * which all members send to all, and rounds in which all send to one root, in any mixture. The root
 * sets a flag at the others when it has ended the round. They wait for a flag in a later round that
 * sends: for that of round r - 2 if round r - 1 was also to a root, else for that of r - 1.
 *
 * Claims: no packet is overwritten before it was taken; each member takes the packets of the round;
 * the packets of a round can be read until this member begins the next one; no process waits
 * forever.
 *
 * A claim fails if no member waits (-DNO_WAIT), if it checks only the flag of round r - 2, which
 * does not exist if that round was to all (-DOWED_ONCE), if it waits after sending (-DLATE_WAIT),
 * if the root sets the flag before it has taken all packets (-DEARLY_FLAG) or not at all
 * (-DNO_FLAG), and with one set (-DSETS=1). */
#ifndef N
#define N 3
#endif
#ifndef SETS
#define SETS 2
#endif
#ifndef CALLS
#define CALLS 4
#endif
#define ALL 0 /* otherwise: to member program - 1 */
#define SLOT(to, from) ((to) * N + (from)) * SETS + r % SETS

byte slot[N * N * SETS];  /* sequence number of the packet in the slot */
byte taken[N * N * SETS]; /* sequence number of the last packet taken */
byte flag[N * N];         /* to * N + from */
byte program[CALLS + 1];

#define is_root (program[r] == me + 1)

inline send(to) {
    atomic {
        assert(slot[SLOT(to, me)] == taken[SLOT(to, me)]);
        slot[SLOT(to, me)] = r
    }
}

inline send_round() {
    k = 0;
    do
    :: k == N -> break
    :: k < N && (k == me || (program[r] != ALL && program[r] != k + 1)) -> k++
    :: k < N && k != me && (program[r] == ALL || program[r] == k + 1) -> send(k); k++
    od
}

/* The packets of a round must stay readable until the next one begins, so all are checked again. */
inline take_round() {
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me -> slot[SLOT(me, k)] == r; k++
    od;
    atomic {
        k = 0;
        do
        :: k == N -> break
        :: k < N && k == me -> k++
        :: k < N && k != me -> assert(slot[SLOT(me, k)] == r); taken[SLOT(me, k)] = r; k++
        od
    }
}

inline flag_all() {
    k = 0;
    do
    :: k == N -> break
    :: k < N && k == me -> k++
    :: k < N && k != me -> flag[k * N + me] = number; k++
    od
}

inline await_set() {
#ifndef NO_WAIT
    if
    :: rooted + 1 == r && !is_root -> flag[me * N + owed_by[r % 2]] >= owed[r % 2]
    :: else
    fi
#else
    skip
#endif
}

proctype member(byte me) {
    byte r = 1, k, number = 0; /* number of the last collective that sets flags */
    byte rooted = 0, owed[2], owed_by[2];
    do
    :: r > CALLS -> break
    :: else ->
#ifdef LATE_WAIT
        send_round();
        await_set();
#else
        await_set();
        send_round();
#endif
        if
        :: program[r] == ALL -> take_round()
        :: is_root ->
            number++;
#ifdef EARLY_FLAG
            flag_all();
            take_round();
#else
            take_round();
#ifndef NO_FLAG
            flag_all();
#endif
#endif
            owed[0] = 0;
            owed[1] = 0;
            rooted = r
        :: else ->
            number++;
            d_step {
                owed[r % 2] = number;
                owed_by[r % 2] = program[r] - 1;
#ifdef OWED_ONCE
                if
                :: rooted + 1 != r -> owed[(r + 1) % 2] = 0
                :: else
                fi;
#else
                if
                :: rooted + 1 != r ->
                    owed[(r + 1) % 2] = number;
                    owed_by[(r + 1) % 2] = program[r] - 1
                :: else
                fi;
#endif
                rooted = r
            }
        fi;
        r++
    od
}

init {
    byte i;
    if /* the first round to a root; all roots are equivalent here */
    :: program[1] = ALL
    :: program[1] = 1
    fi;
    i = 2;
    do
    :: i > CALLS -> break
    :: else ->
        if
        :: program[i] = ALL
        :: program[i] = 1
        :: program[i] = 2
        :: N > 2 -> program[i] = N
        fi;
        i++
    od;
    atomic {
        i = 0;
        do
        :: i == N -> break
        :: else -> run member(i); i++
        od
    }
}
