/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of src/ops/coll/coll.h: each pair of members has SLOTS packets for each direction, used
 * in turn, and one-sided broadcasts may run in between.
 *
 * Claim: with two slots a payload is never overwritten before it has been read, for any mixture of
 * exchanges and broadcasts. The claim fails with one slot (-DSLOTS=1), and if broadcasts, in which
 * a root runs ahead, use packets (-DPACKET_BROADCAST). */
#ifndef SLOTS
#define SLOTS 2
#endif
#define N 3
#define CALLS 4
#define LANE(to, from, slot) lane[((to) * N + (from)) * SLOTS + (slot)]

typedef packet { byte number; byte payload };
packet lane[N * N * SLOTS];
byte flag[N * N];   /* to * N + from */
byte program[CALLS]; /* 0: exchange; r + 1: broadcast from r */

inline send(to) {
    LANE(to, me, count % SLOTS).payload = count;
    LANE(to, me, count % SLOTS).number = count
}

inline receive(from) {
    LANE(me, from, count % SLOTS).number >= count;
    assert(LANE(me, from, count % SLOTS).payload == count)
}

proctype member(byte me) {
    byte call = 0, count = 0, sequence = 0, k;
    do
    :: call == CALLS -> break
    :: else ->
        sequence++;
        if
        :: program[call] == 0 ->
            count++;
            k = 0;
            do
            :: k == N -> break
            :: k < N && k == me -> k++
            :: k < N && k != me -> send(k); k++
            od;
            k = 0;
            do
            :: k == N -> break
            :: k < N && k == me -> k++
            :: k < N && k != me -> receive(k); k++
            od
        :: program[call] == me + 1 ->
#ifdef PACKET_BROADCAST
            count++;
            k = 0;
            do
            :: k == N -> break
            :: k < N && k == me -> k++
            :: k < N && k != me -> send(k); k++
            od
#else
            k = 0;
            do
            :: k == N -> break
            :: k < N && k == me -> k++
            :: k < N && k != me -> flag[k * N + me] = sequence; k++
            od
#endif
        :: else ->
#ifdef PACKET_BROADCAST
            count++;
            k = program[call] - 1;
            receive(k)
#else
            flag[me * N + program[call] - 1] >= sequence
#endif
        fi;
        call++
    od
}

init {
    byte i = 0;
    do
    :: i == CALLS -> break
    :: i < CALLS ->
        if
        :: program[i] = 0
        :: program[i] = 1
        :: program[i] = 2
        fi;
        i++
    od;
    atomic { run member(0); run member(1); run member(2) }
}
