/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of the proxy (include/weft/device/proxy.h, src/proxy/proxy.c): PRODUCERS threads of the device
 * take tickets, wait for room, and write the WORDS of a descriptor in any order, each with the phase of
 * its ticket; the host reads a place when all words have that phase, carries it out, and counts it as
 * released. Claims: every ticket is carried out once, in order, with the words of its own producer; a
 * producer that waits until it is released finds it carried out; nobody is stuck. Broken by a producer
 * that does not wait for room (-DNO_ROOM), by words without a phase of their own round (-DONE_PHASE), and
 * by a host that looks at the first word alone (-DFIRST_WORD). */
#define SLOTS 2
#define PRODUCERS 2
#define EACH 3
#define TICKETS (PRODUCERS * EACH)
#define WORDS 2
#ifdef ONE_PHASE
#define PHASE(ticket) 1
#else
#define PHASE(ticket) (1 + ((ticket) / SLOTS) % 2)
#endif

byte phase[SLOTS * WORDS];
byte payload[SLOTS * WORDS];
byte head, released;
byte giver[TICKETS]; /* who took it, for the claim alone */
byte carried[TICKETS];

proctype producer(byte me) {
    byte ticket, i, first;
    for (i : 1 .. EACH) {
        d_step { ticket = head; head++; giver[ticket] = me }
#ifndef NO_ROOM
        ticket < released + SLOTS;
#endif
        if :: first = 0 :: first = 1 fi;
        d_step { payload[(ticket % SLOTS) * WORDS + first] = me; phase[(ticket % SLOTS) * WORDS + first] = PHASE(ticket) }
        d_step { payload[(ticket % SLOTS) * WORDS + 1 - first] = me; phase[(ticket % SLOTS) * WORDS + 1 - first] = PHASE(ticket) }
        if
        :: skip /* p: nobody waits */
        :: released > ticket -> assert(carried[ticket] == 1) /* put: its source is free */
        fi
    }
}

proctype host() {
    byte taken = 0, a, b;
    do
    :: taken == TICKETS -> break
    :: taken < TICKETS ->
        phase[(taken % SLOTS) * WORDS] == PHASE(taken);
        a = payload[(taken % SLOTS) * WORDS];
#ifndef FIRST_WORD
        phase[(taken % SLOTS) * WORDS + 1] == PHASE(taken);
#endif
        b = payload[(taken % SLOTS) * WORDS + 1];
        assert(a == giver[taken] && b == giver[taken]);
        carried[taken]++;
        taken++;
        released = taken
    od
}

init {
    byte i;
    atomic {
        for (i : 1 .. PRODUCERS) { run producer(i) }
        run host()
    }
}
