/* SPDX-License-Identifier: Apache-2.0 */
/* Failover of a queue of path gda (src/path/gda/failover.c). A poster writes blocks into a ring of
 * RING slots and reuses a slot once it knows that its old block is complete. Some blocks are
 * fillers, which begin no message. The sender's NIC sends the messages, the receiver's executes
 * them and acknowledges them. The sender's NIC fails at any time; its completion entry then shows an
 * error instead of the last count. The thread of the sender stops its end, the thread of the
 * receiver stops the other end and reports how many messages were executed, and the first thread
 * executes the rest.
 *
 * Claim: each message is executed once, and in its order. The claim fails if the thread begins at
 * the last known completion (-DREPEAT), if the receiver counts before it has stopped its end
 * (-DCOUNT_EARLY), if fillers count as messages (-DNO_FILLERS), if the thread does not pass fillers
 * behind the last executed message, which may be complete and reused (-DSTOP_AT_FILLERS), if it does
 * not look again whether slots were reused while it read them (-DNO_SECOND_LOOK), and if it does not
 * wait for blocks whose fillers are counted already (-DNO_WAIT_FOR_RECORD). */
#define BLOCKS 5
#define RING 2
#define NOTHING 255 /* of the completion entry: an error */
#define is_filler(block) ((block) == 1 || (block) == 2)

byte ring[RING], published;      /* the number of the block in each slot */
byte known;                      /* `done` of the queue: blocks known to be complete */
byte counted, counted_end;       /* fillers before an end */
byte entry;                      /* the completion entry: complete blocks, or NOTHING */
bool failed, asked, stopped;     /* the sender's NIC; the mail to the receiver; its NIC */
byte executed, reported = NOTHING;   /* messages: by the receiver's NIC, and as reported */
byte effects[BLOCKS], next_effect;
chan wire = [2] of { byte };
chan answers = [2] of { byte };

inline perform(block) {
    effects[block]++;
    assert(effects[block] == 1 && block >= next_effect);
    next_effect = block
}

/* Reads the entry, and raises `known` some time later. */
inline look() {
    seen = entry;
    atomic { if :: seen != NOTHING && seen > known -> known = seen :: else fi }
}

proctype poster() {
    byte block, seen;
    do
    :: block == BLOCKS -> break
    :: block < BLOCKS && block < known + RING ->
        /* nothing orders the count before the block, only both before the doorbell record */
        atomic {
            if
            :: is_filler(block) -> counted++; counted_end = block + 1
            :: else
            fi
        };
        ring[block % RING] = block;
        block++;
        published = block
    :: block < BLOCKS && block >= known + RING -> look()
    od;
    do
    :: known == BLOCKS -> break
    :: known < BLOCKS -> look()
    od;
    byte i;
    for (i : 0 .. BLOCKS - 1) {
        assert(effects[i] == !is_filler(i))
    }
}

proctype sender_nic() {
    byte sent, complete, block;
end:
    do
    :: atomic { !failed && sent < published && !is_filler(ring[sent % RING]) && nfull(wire) ->
            wire ! ring[sent % RING]; sent++ }
    :: atomic { !failed && sent < published && is_filler(ring[sent % RING]) -> sent++;
            if :: complete == sent - 1 -> complete = sent; entry = sent :: else fi }
    :: atomic { !failed && answers ? [block] ->
            answers ? block;
            complete = block + 1;
            do
            :: complete < sent && is_filler(complete) -> complete++
            :: else -> break
            od;
            entry = complete }
    :: atomic { !failed -> failed = true; entry = NOTHING }
    :: failed -> break
    od
}

proctype receiver_nic() {
    byte block;
end:
    do
    :: atomic { !stopped && wire ? [block] && nfull(answers) ->
            wire ? block; perform(block); executed++; answers ! block }
    od
}

proctype receiver() {
end:
    asked;
#ifdef COUNT_EARLY
    byte count = executed;
    stopped = true;
    reported = count
#else
    stopped = true;
    reported = executed
#endif
}

proctype sender() {
    byte from, at, fillers, upto, messages, block;
end:
    failed;
    asked = true;
    reported != NOTHING;
again:
    from = known;
    atomic { fillers = counted; upto = counted_end };
#ifndef NO_WAIT_FOR_RECORD
    published >= upto;
#endif
    at = from;
    do
    :: at < upto -> if :: is_filler(ring[at % RING]) -> fillers-- :: else fi; at++
    :: else -> break
    od;
#ifdef NO_FILLERS
    fillers = 0;
#endif
    messages = from - fillers;
    at = from;
#ifndef REPEAT
    do
    :: at < published ->
        block = ring[at % RING];
        if
        :: is_filler(block) -> skip
        :: !is_filler(block) && messages < reported -> messages++
        :: !is_filler(block) && messages >= reported -> break
        fi;
#ifdef STOP_AT_FILLERS
        if :: messages == reported -> at++; break :: else fi;
#endif
        at++
    :: at >= published -> break
    od;
#endif
#ifndef NO_SECOND_LOOK
    if :: known > from -> goto again :: else fi;
#endif
#if !defined REPEAT
    assert(messages == reported);
#endif
    entry = at;
    do
    :: atomic { at < published ->
            if :: !is_filler(ring[at % RING]) -> perform(ring[at % RING]) :: else fi;
            at++; entry = at }
    :: at == BLOCKS -> break
    od
}

init {
    atomic { run poster(); run sender_nic(); run receiver_nic(); run receiver(); run sender() }
}
