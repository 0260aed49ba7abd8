/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between GPUs that load and store each other's memory: what the kernel
 * (message_kernel.h) and the code that launches it share. Plain C that nvcc compiles too.
 *
 * A lane is the way from one member to another. It has channels, each with a ring of MESSAGE_SLOTS
 * slots in the receiver's GPU memory; those of the lane from a member to itself are small, as such
 * messages are mostly copied. A message is divided among as many channels as pay, which
 * both ends know, and a channel moves its parts slot by slot, in the order of the messages. Block b
 * of a kernel serves a channel with the same number of all lanes of the member, in both directions,
 * and moves whichever lane can move. So it waits for the blocks of that channel at other members
 * alone, and neither the order of messages at the ends nor the order of blocks matters. */
#ifndef WEFT_GPU_MESSAGES_H
#define WEFT_GPU_MESSAGES_H

#include <stdint.h>

#include "gpu/kernels.h"

enum {
    MESSAGE_MEMBERS = 64,
    MESSAGE_LANES = 2 * MESSAGE_MEMBERS, /* of one member, in both directions */
    MESSAGE_CHANNELS = 64,
    MESSAGE_SLOTS = 2,      /* of a channel: one is filled while the other is copied out */
    MESSAGE_GRAIN = 128,    /* bytes of which parts and slots are multiples */
    MESSAGES_BY_VALUE = 88, /* more of them are in GPU memory */
    MESSAGE_SIZE_BITS = 40, /* of the size in the word of a slot; the others count */
};

struct message {
    char *address;
    uint64_t bytes;
    uint16_t first, channels; /* its parts are in channels first ... first + channels - 1 */
    uint32_t unused;
};

/* Values of message_lane.receives. */
enum { MESSAGE_SENDS, MESSAGE_RECEIVES, MESSAGE_COPIES };

/* The messages of one direction between this member and another one: `n` from list[first] on. Or
 * copies, of messages from this member to itself in one call, which need no slots: from `n` places
 * to the `n` places after them. */
struct message_lane {
    uint16_t first, n, pe;
    uint8_t member, receives;
};

/* Where things are in a member's area: the same at all. */
struct message_layout {
    uint32_t slot_bytes[2];     /* [1]: of the lane from a member to itself */
    uint16_t members, channels; /* at most MESSAGE_CHANNELS */
};

/* The argument of the kernel. area: of each member, as mapped here. */
struct message_call {
    char *area[MESSAGE_MEMBERS];
    const struct message *list; /* NULL: by_value */
    uint64_t channels;          /* block b serves the channel of the b-th bit that is set */
    struct message_layout layout;
    uint16_t me, lanes;
    int32_t team;
    struct gpu_reporting reporting;
    struct message_lane lane[MESSAGE_LANES];
    struct message by_value[MESSAGES_BY_VALUE];
};

/* Offsets in an area. Words have 8 bytes, and all begin at 0.
 *
 * used: slots that the lane has used, for this member alone. taken: by the receiver, slots that it
 * has copied out. came: by the sender, for each slot, the number of its use above the size of its
 * message. */
WEFT_DEV_BOTH uint64_t message_used_at(const struct message_layout *l, unsigned member,
                                       unsigned receives, unsigned channel)
{
    return 8 * ((uint64_t)(2 * member + receives) * l->channels + channel);
}

WEFT_DEV_BOTH uint64_t message_taken_at(const struct message_layout *l, unsigned receiver,
                                        unsigned channel)
{
    return message_used_at(l, l->members, 0, 0) + 8 * ((uint64_t)receiver * l->channels + channel);
}

WEFT_DEV_BOTH uint64_t message_came_at(const struct message_layout *l, unsigned sender,
                                       unsigned channel, unsigned slot)
{
    return message_taken_at(l, l->members, 0) +
           8 * (((uint64_t)sender * l->channels + channel) * MESSAGE_SLOTS + slot);
}

/* A slot in the receiver's area, a multiple of MESSAGE_GRAIN: behind the words the rings of the
 * other senders, then the receiver's own. */
WEFT_DEV_BOTH uint64_t message_slot_at(const struct message_layout *l, unsigned receiver,
                                       unsigned sender, unsigned channel, unsigned slot)
{
    uint64_t words = message_came_at(l, l->members, 0, 0);
    uint64_t rings = (words + MESSAGE_GRAIN - 1) / MESSAGE_GRAIN * MESSAGE_GRAIN;
    uint64_t lane_slots = (uint64_t)l->channels * MESSAGE_SLOTS;
    uint64_t before = sender == receiver ? l->members - 1u : sender - (sender > receiver);
    return rings + before * lane_slots * l->slot_bytes[0] +
           ((uint64_t)channel * MESSAGE_SLOTS + slot) * l->slot_bytes[sender == receiver];
}

static inline uint64_t message_area_bytes(const struct message_layout *l)
{
    return message_slot_at(l, 0, 0, l->channels, 0);
}

/* The word of a slot in its use number `use`. */
WEFT_DEV_BOTH uint64_t message_word(uint64_t use, uint64_t bytes)
{
    return use << MESSAGE_SIZE_BITS | (bytes & ((1ull << MESSAGE_SIZE_BITS) - 1));
}

#endif
