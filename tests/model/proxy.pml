/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of the proxy (include/weft/device/proxy.h, src/proxy/proxy.c): PRODUCERS threads of the device
 * take tickets, wait for room, and write the WORDS of a descriptor in any order, each with the phase of
 * its ticket; the host reads a place when all words have that phase, carries it out, and counts it as
 * released. A run of values brings LANES of them in a place of its own, of which there are fewer than
 * slots: its lanes write them, in any order, before its leader writes the words. Claims: every ticket is
 * carried out once, in order, with the words and values of its own producer; a producer that waits until
 * it is released finds it carried out; nobody is stuck. Broken by a producer that does not wait for room
 * (-DNO_ROOM), or for its values' place (-DNO_BOUNCE_ROOM), or that writes words before the values
 * (-DVALUES_LATE); by words without a phase of their own round (-DONE_PHASE); by a host that looks at the
 * first word alone (-DFIRST_WORD), or that releases before it has carried out (-DCREDIT_EARLY). */
#define SLOTS 2
#define BOUNCES 1
#define PRODUCERS 2
#define EACH 3
#define TICKETS (PRODUCERS * EACH)
#define WORDS 2
#define LANES 2
#ifdef ONE_PHASE
#define PHASE(ticket) 1
#else
#define PHASE(ticket) (1 + ((ticket) / SLOTS) % 2)
#endif
#ifdef NO_BOUNCE_ROOM
#define ROOM SLOTS
#else
#define ROOM BOUNCES
#endif
#define WORD(ticket, i) (((ticket) % SLOTS) * WORDS + (i))
#define VALUE(ticket, i) (((ticket) % BOUNCES) * LANES + (i))

byte phase[SLOTS * WORDS];
byte payload[SLOTS * WORDS];
bit is_run[SLOTS];
byte bounce[BOUNCES * LANES];
byte head, released;
byte giver[TICKETS]; /* who took it, for the claim alone */
byte carried[TICKETS];

inline write_words() {
    if :: first = 0 :: first = 1 fi;
    d_step { payload[WORD(ticket, first)] = me; phase[WORD(ticket, first)] = PHASE(ticket); is_run[ticket % SLOTS] = run_of }
    d_step { payload[WORD(ticket, 1 - first)] = me; phase[WORD(ticket, 1 - first)] = PHASE(ticket) }
}

/* A value names its producer and its ticket: an older one of the same producer is wrong, too. */
inline write_values() {
    if :: first = 0 :: first = 1 fi;
    bounce[VALUE(ticket, first)] = me * 16 + ticket;
    bounce[VALUE(ticket, 1 - first)] = me * 16 + ticket
}

proctype producer(byte me) {
    byte ticket, i, first;
    bit run_of;
    for (i : 1 .. EACH) {
        if :: run_of = 0 :: run_of = 1 fi;
        d_step { ticket = head; head++; giver[ticket] = me }
#ifndef NO_ROOM
        if
        :: run_of -> ticket < released + ROOM
        :: else -> ticket < released + SLOTS
        fi;
#endif
#ifdef VALUES_LATE
        write_words();
        if :: run_of -> write_values() :: else fi;
#else
        if :: run_of -> write_values() :: else fi;
        write_words();
#endif
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
        phase[WORD(taken, 0)] == PHASE(taken);
        a = payload[WORD(taken, 0)];
#ifndef FIRST_WORD
        phase[WORD(taken, 1)] == PHASE(taken);
#endif
        b = payload[WORD(taken, 1)];
        assert(a == giver[taken] && b == giver[taken]);
#ifdef CREDIT_EARLY
        released = taken + 1;
#endif
        if
        :: is_run[taken % SLOTS] ->
            assert(bounce[VALUE(taken, 0)] == a * 16 + taken);
            assert(bounce[VALUE(taken, 1)] == a * 16 + taken)
        :: else
        fi;
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
