/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of host collectives (src/ops/coll/coll.c, packet_send() and packet_await();
 * forward_packet() of nodes.c is the same) on the memory of weak.inc: two members exchange payloads
 * in two slots for each direction, used in turn. A member copies its payload into the other's slot
 * (relaxed stores, here of one word), stores the sequence number with release, awaits the other's
 * number with acquire, and copies the payload out. packets.pml has more members and broadcasts, in
 * a strong memory.
 *
 * Claim: each member gets the payload of the exchange that it is in, so a payload is neither read
 * too early nor overwritten too soon.
 *
 * The claim fails with a relaxed store of the number (-DSEND_RELAXED), a relaxed load
 * (-DAWAIT_RELAXED), one slot (-DONE_SLOT), and if the loads of a copy are performed after the next
 * number is stored, which its release prevents (-DCOPY_LATE). */
#define THREADS 2
#define LOCATIONS 8
#define MESSAGES 5
#include "weak.inc"
#define EXCHANGES 4

#ifdef ONE_SLOT
#define SLOT(to, number) (4 * (to))
#else
#define SLOT(to, number) (4 * (to) + 2 * ((number) % 2))
#endif
#define PAYLOAD(to, number) SLOT(to, number)
#define NUMBER(to, number) (SLOT(to, number) + 1)

#ifdef SEND_RELAXED
#define SEND RELAXED
#else
#define SEND RELEASE
#endif
#ifdef AWAIT_RELAXED
#define AWAIT RELAXED
#else
#define AWAIT ACQUIRE
#endif

inline copy_out(me, number) {
    load(me, PAYLOAD(me, number), got, RELAXED);
    assert(got == 10 * (number) + 1 - me)
}

inline send(me, number) {
    store(me, PAYLOAD(1 - me, number), 10 * (number) + me, RELAXED);
    store(me, NUMBER(1 - me, number), number, SEND)
}

proctype member(byte me) {
    byte number, seen, got;
    for (number : 1 .. EXCHANGES) {
        send(me, number);
#ifdef COPY_LATE
        if
        :: number > 1 -> copy_out(me, number - 1)
        :: else
        fi;
#endif
        await(me, NUMBER(me, number), seen, number, AWAIT);
#ifndef COPY_LATE
        copy_out(me, number);
#endif
        seen = 0; got = 0
    }
}

init {
    atomic { run member(0); run member(1) }
}
