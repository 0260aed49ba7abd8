/* SPDX-License-Identifier: Apache-2.0 */
/* Values from before, of the proxy (include/weft/device/proxy.h, give_result() of src/proxy/proxy.c):
 * each fetch of THREADS takes the next number, waits for its turn at place number % PLACES, and gives its
 * request; the host answers requests in whatever order they were given, with two halves that carry the
 * number of the round; the thread reads both and ends its turn. Claims: each gets its own value, whole;
 * nobody is stuck. Broken by a thread that does not wait for its turn (-DNO_TURN) or ends it before it has
 * read (-DTURN_EARLY), that looks at one half's number alone (-DONE_HALF), and by numbers that do not
 * change from round to round (-DONE_NUMBER). */
#define PLACES 2
#define THREADS 3
#define EACH 2
#define FETCHES (THREADS * EACH)
#ifdef ONE_NUMBER
#define ROUND(number) 1
#else
#define ROUND(number) (1 + (number) / PLACES)
#endif
#define HALF(number, i) (((number) % PLACES) * 2 + (i))

byte result_head;
byte turns[PLACES];
byte tag[PLACES * 2];
byte value[PLACES * 2];
chan requests = [FETCHES] of { byte };

proctype thread() {
    byte number, i, low, high;
    for (i : 1 .. EACH) {
        d_step { number = result_head; result_head++ }
#ifndef NO_TURN
        turns[number % PLACES] >= number / PLACES;
#endif
        requests ! number;
        atomic { tag[HALF(number, 0)] == ROUND(number) -> low = value[HALF(number, 0)] }
#ifdef TURN_EARLY
        turns[number % PLACES] = number / PLACES + 1;
#endif
#ifdef ONE_HALF
        high = value[HALF(number, 1)];
#else
        atomic { tag[HALF(number, 1)] == ROUND(number) -> high = value[HALF(number, 1)] }
#endif
        assert(low == number + 1 && high == number + 1);
        turns[number % PLACES] = number / PLACES + 1
    }
}

proctype host() {
    byte number, i;
    for (i : 1 .. FETCHES) {
        requests ? number;
        d_step { value[HALF(number, 0)] = number + 1; tag[HALF(number, 0)] = ROUND(number) }
        d_step { value[HALF(number, 1)] = number + 1; tag[HALF(number, 1)] = ROUND(number) }
    }
}

init {
    byte i;
    atomic {
        for (i : 1 .. THREADS) { run thread() }
        run host()
    }
}
