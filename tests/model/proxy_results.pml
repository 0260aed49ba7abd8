/* Results of the proxy (include/weft/device/proxy.h, store_result() of src/proxy/proxy.c). Each
 * request of THREADS takes the next ticket and waits for room. If it fetches, it increments
 * `reading` of its slot when it begins. An odd count means that the previous user of the slot has
 * not read its value yet; the thread waits for it. Then it submits its request. The host executes
 * tickets in order, writes the value of a fetching request in two halves with the number of the
 * round, and releases the ticket. The thread reads both halves and increments `reading` again.
 *
 * Claims: each thread gets its own value, complete; no process is stuck.
 *
 * A claim fails with a thread that does not wait for a late reader (-DNO_TURN), that increments
 * before it has read (-DTURN_EARLY) or before there is room (-DBEGUN_EARLY), that checks the number
 * of only one half (-DONE_HALF), and with numbers that do not change from round to round
 * (-DONE_NUMBER). */
#define PLACES 2
#define THREADS 2
#define EACH 3
#define TICKETS (THREADS * EACH)
#ifdef ONE_NUMBER
#define ROUND(ticket) 1
#else
#define ROUND(ticket) (1 + (ticket) / PLACES)
#endif
#define HALF(ticket, i) (((ticket) % PLACES) * 2 + (i))

byte head, released;
byte reading[PLACES];
byte tag[PLACES * 2];
byte value[PLACES * 2];
byte given[TICKETS]; /* 1: a request that fetches, 2: another one */

inline begin() {
    d_step { count = reading[ticket % PLACES]; reading[ticket % PLACES]++ }
}

inline room() {
    ticket < released + PLACES
}

proctype thread() {
    byte ticket, i, low, high, count;
    for (i : 1 .. EACH) {
        d_step { ticket = head; head++ }
        if
        :: room(); given[ticket] = 2
        :: skip ->
#ifdef BEGUN_EARLY
            begin();
            room();
#else
            room();
            begin();
#endif
#ifndef NO_TURN
            if
            :: count % 2 == 1 -> reading[ticket % PLACES] >= count + 2
            :: else
            fi;
#endif
            given[ticket] = 1;
            atomic { tag[HALF(ticket, 0)] == ROUND(ticket) -> low = value[HALF(ticket, 0)] }
#ifdef TURN_EARLY
            reading[ticket % PLACES]++;
#endif
#ifdef ONE_HALF
            high = value[HALF(ticket, 1)];
#else
            atomic { tag[HALF(ticket, 1)] == ROUND(ticket) -> high = value[HALF(ticket, 1)] }
#endif
            assert(low == ticket + 1 && high == ticket + 1);
#ifndef TURN_EARLY
            reading[ticket % PLACES]++
#endif
        fi;
        d_step { ticket = 0; low = 0; high = 0; count = 0 } /* reduces the number of states */
    }
}

proctype host() {
    byte ticket;
    for (ticket : 0 .. TICKETS - 1) {
        given[ticket] != 0;
        if
        :: given[ticket] == 1 ->
            d_step { value[HALF(ticket, 0)] = ticket + 1; tag[HALF(ticket, 0)] = ROUND(ticket) }
            d_step { value[HALF(ticket, 1)] = ticket + 1; tag[HALF(ticket, 1)] = ROUND(ticket) }
        :: else
        fi;
        released = ticket + 1
    }
}

init {
    byte i;
    atomic {
        for (i : 1 .. THREADS) { run thread() }
        run host()
    }
}
