/* SPDX-License-Identifier: Apache-2.0 */
/* Which queues a quiet of device code visits (include/weft/device/gda_span.h, gda.h): those whose bit in `used` is set.
 * Producers reserve, note the queue where they are not in their turn, publish by turns, and quiet. The bit waits in a store
 * buffer of its producer, which a release (before the turn is passed on, before a mark) empties. The adapter completes at
 * any time what is published.
 * Claim: a quiet that is ordered behind a put finds that put complete.
 * Broken when only the reservation that begins the queue notes it (-DFIRST_ONLY; finding A3), and when the turn is passed
 * on without a release of the bit (-DPASS_RELAXED). */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#define UNUSED 255

byte head, ready = UNUSED, done; /* blocks reserved, published; UNUSED: no reservation's turn, the first one's neither */
bool used;
bool buffered[PRODUCERS];        /* the bit is on its way from that producer */
bool marked[PRODUCERS + 1];      /* by number of the block */

proctype buffers() {
    byte k;
end:
    do
    :: atomic { buffered[0] -> used = true; buffered[0] = false }
    :: atomic { buffered[1] -> used = true; buffered[1] = false }
#if PRODUCERS > 2
    :: atomic { buffered[2] -> used = true; buffered[2] = false }
#endif
    od
}

proctype adapter() {
end:
    do
    :: atomic { ready != UNUSED && done < ready -> done = ready }
    od
}

/* What is reserved now is waited for, if the queue is known to be used. */
inline quiet(put) {
    if
    :: used -> until = head; done >= until
    :: else
    fi;
    assert(done > put)
}

proctype producer(byte p) {
    byte base, until, end_of;
    bool turn;
    atomic { base = head; turn = (ready == head); head++ }
#ifdef FIRST_ONLY
    if :: base == 0 -> buffered[p] = true :: else fi;
#else
    if :: !turn -> buffered[p] = true :: else fi;
#endif
    if
    :: turn || base == 0 -> skip
    :: else ->
        !buffered[p]; /* the mark is a release */
        atomic {
            if
            :: ready == base -> turn = true
            :: else -> marked[base] = true
            fi
        }
    fi;
    if
    :: turn || base == 0 ->
#ifndef PASS_RELAXED
        !buffered[p];
#endif
        /* The turn, with all marks behind it. */
        atomic {
            end_of = base + 1;
            do
            :: marked[end_of] -> end_of++
            :: else -> break
            od;
            ready = end_of
        }
    :: else
    fi;
    quiet(base)
}

init {
    byte k;
    atomic {
        run buffers(); run adapter();
        for (k : 0 .. PRODUCERS - 1) { run producer(k) }
    }
}
