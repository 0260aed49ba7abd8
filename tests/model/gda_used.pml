/* SPDX-License-Identifier: Apache-2.0 */
/* The queues that a quiet of device code visits (include/weft/device/gda_span.h, gda.h): those
 * whose bit in `used` is set. Producers reserve, set the queue's bit if it is not their turn,
 * publish by turns, and call quiet. The bit waits in a store buffer of its producer, which a
 * release (before the turn is passed on, and before a mark) empties. The adapter completes
 * published blocks at any time.
 *
 * Claim: a quiet after a put finds that put complete. The claim fails if only the first reservation
 * of the queue sets the bit (-DFIRST_ONLY; finding A3), and if the turn is passed on without a
 * release of the bit (-DPASS_RELAXED). */
#ifndef PRODUCERS
#define PRODUCERS 3
#endif
#define UNUSED 255

/* blocks reserved, published, completed; UNUSED: no turn yet, not even of the first reservation */
byte head, ready = UNUSED, done;
bool used;
bool buffered[PRODUCERS];        /* the bit is in this producer's store buffer */
bool marked[PRODUCERS + 1];      /* indexed by block number */

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

/* Waits for all blocks reserved so far, if the queue's bit is set. */
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
        /* Takes the turn, with all marks that follow. */
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
