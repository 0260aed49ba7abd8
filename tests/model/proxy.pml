/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of the proxy (include/weft/device/proxy.h, src/proxy/proxy.c). PRODUCERS threads of the
 * device take tickets, wait for room, and write the WORDS of a descriptor in any order, each with
 * the phase of its ticket. The host reads a slot when all words have that phase, executes the
 * request, and increments `released`. A producer checks for room with `known`, which it has read
 * before its ticket, perhaps long ago. If that shows no room, it waits for `released` and stores
 * the value in `known`, perhaps over a newer one. A run of values brings LANES values in a bounce
 * slot, of which there are fewer than ring slots: its lanes write them in any order before its
 * leader writes the words.
 *
 * Claims: every ticket is executed once, in order, with the words and values of its producer;
 * `known` never exceeds `released`; a producer that waits for the release finds its request
 * executed; no process is stuck.
 *
 * A claim fails
 *   - with a producer that does not wait for room (-DNO_ROOM) or for its bounce slot
 *     (-DNO_BOUNCE_ROOM),
 *   - that stores a value one too large in `known` (-DNOTED_AHEAD), checks for one slot too many
 *     (-DROOM_OFF_BY_ONE), or writes words before the values (-DVALUES_LATE),
 *   - if words have the same phase in every round (-DONE_PHASE),
 *   - with a host that checks only the first word (-DFIRST_WORD), or that releases before it has
 *     executed (-DCREDIT_EARLY). */
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
#ifdef ROOM_OFF_BY_ONE
#define EXTRA 1
#else
#define EXTRA 0
#endif
#define WORD(ticket, i) (((ticket) % SLOTS) * WORDS + (i))
#define VALUE(ticket, i) (((ticket) % BOUNCES) * LANES + (i))

byte phase[SLOTS * WORDS];
byte payload[SLOTS * WORDS];
bit is_run[SLOTS];
byte bounce[BOUNCES * LANES];
byte head, released, known;
byte giver[TICKETS]; /* the producer that took the ticket, only for the claim */
byte carried[TICKETS];

inline write_words() {
    if :: first = 0 :: first = 1 fi;
    d_step { payload[WORD(ticket, first)] = me; phase[WORD(ticket, first)] = PHASE(ticket); is_run[ticket % SLOTS] = run_of }
    d_step { payload[WORD(ticket, 1 - first)] = me; phase[WORD(ticket, 1 - first)] = PHASE(ticket) }
}

/* A value names its producer and its ticket, so an older value of the same producer is wrong
 * too. */
inline write_values() {
    if :: first = 0 :: first = 1 fi;
    bounce[VALUE(ticket, first)] = me * 16 + ticket;
    bounce[VALUE(ticket, 1 - first)] = me * 16 + ticket
}

/* The stored value may be older than the one in `known`. */
inline wait_for_room(places) {
    if
    :: ticket < seen + places -> skip
    :: else ->
        atomic { ticket < released + places -> seen = released }
#ifdef NOTED_AHEAD
        seen++;
#endif
        d_step { known = seen; assert(known <= released) }
    fi
}

proctype producer(byte me) {
    byte ticket, i, first, seen;
    bit run_of;
    for (i : 1 .. EACH) {
        if :: run_of = 0 :: run_of = 1 fi;
        seen = known;
        d_step { ticket = head; head++; giver[ticket] = me }
#ifndef NO_ROOM
        if
        :: run_of -> wait_for_room(ROOM + EXTRA)
        :: else -> wait_for_room(SLOTS + EXTRA)
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
        :: skip /* p: no wait */
        :: released > ticket -> assert(carried[ticket] == 1) /* put: its source is free */
        fi;
        d_step { ticket = 0; first = 0; seen = 0; run_of = 0 } /* reduces the number of states */
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
