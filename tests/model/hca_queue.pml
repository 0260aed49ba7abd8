/* A send queue that two producers fill and an HCA empties (standin/hca/send.c, and producers like
 * those of path gda): reserve a slot, wait until it is free, write the request, wait for the turn,
 * write the doorbell record, ring the doorbell, pass the turn on. Stores of a producer first enter
 * a buffer and leave it in any order, as on a GPU; a fence waits until it is empty. The HCA's
 * stores do the same: it reads the doorbell, then the record, uses either value, reads the
 * requests, writes the data of each at its target, fences, and writes the completion, which frees
 * slots.
 *
 * Claims: the HCA finds every request complete, once and in its place; the record is never less
 * than the doorbell; a producer that sees a completion sees the data; no process is stuck.
 *
 * A claim fails with a producer that does not wait for its slot (-DNO_SLOT_WAIT), that does not
 * fence between request and record (-DNO_REQUEST_FENCE) or between record and doorbell
 * (-DNO_RECORD_FENCE), that passes its turn on before its doorbell is visible (-DNO_TURN_FENCE), or
 * that rings without a turn (-DNO_TURN), and with an HCA that completes before the data is visible
 * (-DNO_DATA_FENCE) or before it has read the request (-DCOMPLETE_EARLY). */
#define SLOTS 2
#define PRODUCERS 2
#define EACH 2
#define REQUESTS (PRODUCERS * EACH)

byte reserved, turn;
byte slot[SLOTS];          /* sequence number of the request, from 1 */
byte record, doorbell;     /* counts of requests */
byte completed;
byte data[REQUESTS + 1];
byte executed;

/* Buffered stores of each producer; 0: none. */
byte b_slot[PRODUCERS * SLOTS], b_record[PRODUCERS], b_doorbell[PRODUCERS];
/* Buffered stores of the HCA. */
byte b_data[REQUESTS + 1], b_completed;

inline fence(p) {
    (b_slot[p * SLOTS] == 0 && b_slot[p * SLOTS + 1] == 0 && b_record[p] == 0 && b_doorbell[p] == 0)
}

/* Stores leave the buffers at any time. A second store to the same place waits for the first one,
 * because stores to one address keep their order. */
proctype buffers() {
end:
    do
    :: atomic { b_slot[0] -> slot[0] = b_slot[0]; b_slot[0] = 0 }
    :: atomic { b_slot[1] -> slot[1] = b_slot[1]; b_slot[1] = 0 }
    :: atomic { b_slot[2] -> slot[0] = b_slot[2]; b_slot[2] = 0 }
    :: atomic { b_slot[3] -> slot[1] = b_slot[3]; b_slot[3] = 0 }
    :: atomic { b_record[0] -> record = b_record[0]; b_record[0] = 0 }
    :: atomic { b_record[1] -> record = b_record[1]; b_record[1] = 0 }
    :: atomic { b_doorbell[0] -> doorbell = b_doorbell[0]; b_doorbell[0] = 0 }
    :: atomic { b_doorbell[1] -> doorbell = b_doorbell[1]; b_doorbell[1] = 0 }
    :: atomic { b_data[1] -> data[1] = b_data[1]; b_data[1] = 0 }
    :: atomic { b_data[2] -> data[2] = b_data[2]; b_data[2] = 0 }
    :: atomic { b_data[3] -> data[3] = b_data[3]; b_data[3] = 0 }
    :: atomic { b_data[4] -> data[4] = b_data[4]; b_data[4] = 0 }
    :: atomic { b_completed -> completed = b_completed; b_completed = 0 }
    od
}

proctype producer(byte p) {
    byte i, index;
    for (i : 1 .. EACH) {
        d_step { index = reserved; reserved++ }
#ifndef NO_SLOT_WAIT
        completed + SLOTS > index;
#endif
        atomic { b_slot[p * SLOTS + index % SLOTS] == 0 -> b_slot[p * SLOTS + index % SLOTS] = index + 1 }
#ifndef NO_REQUEST_FENCE
        fence(p);
#endif
#ifndef NO_TURN
        turn == index;
#endif
        atomic { b_record[p] == 0 -> b_record[p] = index + 1 }
#ifndef NO_RECORD_FENCE
        fence(p);
#endif
        atomic { b_doorbell[p] == 0 -> b_doorbell[p] = index + 1 }
#ifndef NO_TURN_FENCE
        fence(p);
#endif
        turn = index + 1;
    }
    /* A producer that sees a completion sees its data. */
    completed > index;
    assert(data[index + 1] == index + 1);
}

proctype hca() {
    byte seen, taken, number;
    do
    :: executed == REQUESTS -> break
    :: doorbell > taken ->
        assert(record >= doorbell);
        if
        :: seen = doorbell
        :: seen = record
        fi;
        do
        :: taken == seen -> break
        :: else ->
#ifdef COMPLETE_EARLY
            completed = taken + 1;
#endif
            number = slot[taken % SLOTS];
            assert(number == taken + 1);
            b_data[number] = number;
            taken++;
            executed++;
#ifndef NO_DATA_FENCE
            b_data[number] == 0;
#endif
            atomic { b_completed == 0 -> b_completed = taken }
        od
    od
}

init {
    atomic { run buffers(); run producer(0); run producer(1); run hca() }
}
