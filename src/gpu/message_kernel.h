/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of messages.h. All threads of a block look at the words of the block's lanes, a thread
 * at each; then the block copies a slot of each lane that can move; then these threads pass the
 * slots on, each after a fence. Two transfers and a fence for each slot, and at most MESSAGE_SLOTS
 * slots of a channel on their way. */
#ifndef WEFT_GPU_MESSAGE_KERNEL_H
#define WEFT_GPU_MESSAGE_KERNEL_H

#include <weft/device/move.h>

#include "gpu/kernel_record.h"
#include "gpu/messages.h"

/* A lane in the channel of this block, in shared memory. */
struct message_state {
    struct wait_progress progress;
    uint64_t at, end; /* bytes of the current part that have not been moved */
    uint64_t used;    /* slots used so far, by all kernels */
    uint32_t message; /* of the lane's; n: all are done */
    uint32_t moves;   /* a slot can be moved now */
};

/* Message n of the lane. By value, and words of the list by a load that the compiler does not merge
 * with one of by_value: a pointer that may lead into the argument of the kernel would have it
 * copied to the stack. */
WEFT_DEVICE struct message message_of(const struct message_call *c, const struct message_lane *lane,
                                      uint32_t n)
{
    if (!c->list)
        return c->by_value[lane->first + n];
    const uint64_t *words = (const uint64_t *)(c->list + lane->first + n);
    uint64_t channels = weft_dev_load_u64(words + 2, RELAXED, WEFT_SCOPE_GPU);
    struct message m = {(char *)(uintptr_t)weft_dev_load_u64(words, RELAXED, WEFT_SCOPE_GPU),
                        weft_dev_load_u64(words + 1, RELAXED, WEFT_SCOPE_GPU), (uint16_t)channels,
                        (uint16_t)(channels >> 16), 0};
    return m;
}

/* Sets the part of message state->message that is in this channel. Returns whether there is one. */
WEFT_DEVICE int find_part(const struct message_call *c, struct message m, unsigned channel,
                          struct message_state *state)
{
    unsigned index =
        channel >= m.first ? channel - m.first : channel + c->layout.channels - m.first;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): a lane has n messages */
    uint64_t part = (m.bytes + m.channels - 1) / m.channels;
    part = (part + MESSAGE_GRAIN - 1) / MESSAGE_GRAIN * MESSAGE_GRAIN;
    if (index >= m.channels || index * part >= m.bytes)
        return 0;
    state->at = index * part;
    state->end = m.bytes - state->at < part ? m.bytes : state->at + part;
    return 1;
}

/* Goes on to the next part of the lane in this channel, from message state->message on. */
WEFT_DEVICE void next_part(const struct message_call *c, const struct message_lane *lane,
                           unsigned channel, struct message_state *state)
{
    while (state->message < lane->n &&
           !find_part(c, message_of(c, lane, state->message), channel, state))
        state->message++;
}

WEFT_DEVICE uint64_t *used_word(const struct message_call *c, const struct message_lane *lane,
                                unsigned channel)
{
    return (uint64_t *)(c->area[c->me] +
                        message_used_at(&c->layout, lane->member, lane->receives, channel));
}

/* The word that says whether the lane can move: in this member's memory. */
WEFT_DEVICE const uint64_t *awaited_word(const struct message_call *c,
                                         const struct message_lane *lane, unsigned channel,
                                         uint64_t used)
{
    uint64_t at = lane->receives ? message_came_at(&c->layout, lane->member, channel,
                                                   (unsigned)(used % MESSAGE_SLOTS))
                                 : message_taken_at(&c->layout, lane->member, channel);
    return (const uint64_t *)(c->area[c->me] + at);
}

/* Out of line and by value, as record_timeout(). */
WEFT_DEVICE_NOINLINE void record_message(struct weft_dev_box *box, uint64_t *tickets, int differs,
                                         int receives, int team, int pe, const void *word,
                                         uint64_t wanted, uint64_t seen, uint64_t since)
{
    uint32_t operation = receives ? WEFT_DEV_OP_RECEIVE : WEFT_DEV_OP_SEND;
    if (differs) /* 1: the word of a header that is a number of bytes (enum coll_header) */
        write_record_of(box, tickets, WEFT_DEV_RECORD_REFUSED, -10 /* WEFT_ERR_MISMATCH */,
                        operation, team, pe, (const void *)1, wanted, seen, 0, 0);
    else
        write_record(box, tickets, operation, team, pe, word, wanted, seen, 5, since);
}

/* What a record has of a word: the size of the message, or the number of slots. */
WEFT_DEVICE uint64_t reported(uint64_t word, int size, int receives)
{
    if (size)
        return message_word(0, word);
    return receives ? word >> MESSAGE_SIZE_BITS : word;
}

/* Looks whether the lane can move a slot. Returns nonzero when the kernel shall end: the wait has
 * timed out, the job has failed, or the sender's message has another size. */
WEFT_DEVICE int look_at_lane(const struct message_call *c, const struct message_lane *lane,
                             unsigned channel, struct message_state *state)
{
    if (lane->receives == MESSAGE_COPIES) {
        state->moves = 1;
        return 0;
    }
    const uint64_t *word = awaited_word(c, lane, channel, state->used);
    uint64_t bytes = message_of(c, lane, state->message).bytes;
    uint64_t seen = weft_dev_load_u64(word, ACQUIRE, SYSTEM), wanted;
    int differs = 0;
    if (lane->receives) {
        wanted = message_word(state->used + 1, bytes);
        state->moves = seen == wanted;
        differs = seen != wanted && (seen ^ wanted) >> MESSAGE_SIZE_BITS == 0;
    } else {
        wanted = state->used + 1 - MESSAGE_SLOTS;
        state->moves = seen + MESSAGE_SLOTS > state->used;
    }
    if (state->moves)
        return 0;
    enum wait_state waiting =
        differs ? WAIT_EXPIRED : check_wait_state(&state->progress, &c->reporting, seen);
    if (waiting == WAIT_FAILED)
        write_left_word(&c->reporting, lane->receives ? WEFT_DEV_OP_RECEIVE : WEFT_DEV_OP_SEND,
                        c->team, lane->pe);
    else if (waiting == WAIT_EXPIRED)
        record_message(c->reporting.box, c->reporting.tickets, differs, lane->receives, c->team,
                       lane->pe, word, reported(wanted, differs, lane->receives),
                       reported(seen, differs, lane->receives), state->progress.changed);
    return waiting != WAIT_ON;
}

WEFT_DEVICE uint64_t slot_part(const struct message_call *c, const struct message_lane *lane,
                               const struct message_state *state)
{
    uint64_t left = state->end - state->at;
    int own = lane->member == c->me && lane->receives != MESSAGE_COPIES;
    uint32_t most = c->layout.slot_bytes[own];
    return left < most ? left : most;
}

/* All threads of the block copy a slot of the lane. */
WEFT_DEVICE void move_slot(const struct message_call *c, const struct message_lane *lane,
                           unsigned channel, const struct message_state *state)
{
    if (lane->receives == MESSAGE_COPIES) {
        weft_dev_move(message_of(c, lane, lane->n + state->message).address + state->at,
                      message_of(c, lane, state->message).address + state->at,
                      (size_t)slot_part(c, lane, state), weft_dev_thread_x(),
                      weft_dev_block_dim_x(), 0);
        return;
    }
    unsigned slot = (unsigned)(state->used % MESSAGE_SLOTS);
    int receiver = lane->receives ? c->me : lane->member;
    int sender = lane->receives ? lane->member : c->me;
    char *ring = c->area[receiver] +
                 message_slot_at(&c->layout, (unsigned)receiver, (unsigned)sender, channel, slot);
    char *own = message_of(c, lane, state->message).address + state->at;
    weft_dev_move(lane->receives ? own : ring, lane->receives ? ring : own,
                  (size_t)slot_part(c, lane, state), weft_dev_thread_x(), weft_dev_block_dim_x(),
                  lane->receives);
}

/* Reports to the other end the slot that the block has copied, and goes on. The fence is
 * cumulative: it orders what the other threads stored and loaded before the barrier. */
WEFT_DEVICE void pass_slot(const struct message_call *c, const struct message_lane *lane,
                           unsigned channel, struct message_state *state)
{
    struct wait_progress begin = {0, 0, 0};
    unsigned slot = (unsigned)(state->used % MESSAGE_SLOTS);
    uint64_t bytes = message_of(c, lane, state->message).bytes, part = slot_part(c, lane, state);
    uint64_t at = lane->receives ? message_taken_at(&c->layout, c->me, channel)
                                 : message_came_at(&c->layout, c->me, channel, slot);
    state->used++;
    if (lane->receives != MESSAGE_COPIES) {
        weft_dev_fence(ORDERED, SYSTEM);
        weft_dev_store_u64((uint64_t *)(c->area[lane->member] + at),
                           lane->receives ? state->used : message_word(state->used, bytes), RELAXED,
                           SYSTEM);
    }
    state->at += part;
    state->progress = begin;
    if (state->at == state->end) {
        state->message++;
        next_part(c, lane, channel, state);
    }
}

/* The number of the b-th bit that is set. */
WEFT_DEVICE unsigned channel_of(uint64_t channels, unsigned b)
{
    unsigned channel = 0;
    while (!(channels >> channel & 1) || b--)
        channel++;
    return channel;
}

KERNEL_OF_512 weft_kernel_messages(struct message_call call)
{
    WEFT_SHARED(struct message_state, states, [MESSAGE_LANES]);
    const struct message_call *c = &call;
    unsigned channel = channel_of(c->channels, weft_dev_block_x());
    unsigned rank = weft_dev_thread_x(), threads = weft_dev_block_dim_x();
    int open = 1, failed = 0;
    for (unsigned l = rank; l < c->lanes; l += threads) {
        struct message_state state = {{0, 0, 0}, 0, 0, 0, 0, 0};
        if (c->lane[l].receives != MESSAGE_COPIES)
            state.used = *used_word(c, &c->lane[l], channel);
        next_part(c, &c->lane[l], channel, &state);
        states[l] = state;
    }
    while (open && !failed) {
        open = 0;
        for (unsigned l = rank; l < c->lanes; l += threads) {
            states[l].moves = 0;
            if (states[l].message == c->lane[l].n)
                continue;
            open = 1;
            failed |= look_at_lane(c, &c->lane[l], channel, &states[l]);
        }
        failed = weft_dev_sync_block_or(failed);
        for (unsigned l = 0; l < c->lanes && !failed; l++)
            if (states[l].moves)
                move_slot(c, &c->lane[l], channel, &states[l]);
        open = weft_dev_sync_block_or(open);
        for (unsigned l = rank; l < c->lanes && !failed; l += threads)
            if (states[l].moves)
                pass_slot(c, &c->lane[l], channel, &states[l]);
    }
    for (unsigned l = rank; l < c->lanes; l += threads)
        if (c->lane[l].receives != MESSAGE_COPIES)
            *used_word(c, &c->lane[l], channel) = states[l].used;
}

#endif
