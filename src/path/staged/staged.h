/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of path `staged`: what two processes share (this page), the asker's end of a channel
 * (channel.c), the owner's thread (owner.c), the memory (area.c) and the table
 * (staged.c).
 *
 * A channel leads from one PE, the asker, to one owner. The asker puts requests into slots, in
 * order; the owner carries them out in that order and counts them. Few bytes travel in the slot,
 * more of them in a room of the channel: written by one side's copy, read by the other's, and by
 * nothing between. The asker alone hands out slots and rooms, so nothing in shared memory is ever
 * waited for but counts, and a PE that dies at any moment leaves at most a request that nobody has
 * published. */
#ifndef WEFT_PATH_STAGED_STAGED_H
#define WEFT_PATH_STAGED_STAGED_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu.h"
#include "path/serve.h"

enum {
    STAGED_SLOTS = 64,        /* requests under way in a channel */
    STAGED_INLINE_BYTES = 64, /* bytes that travel in the slot */
    STAGED_SENTENCE_BYTES = 192,
    STAGED_MOST_PES = 4096,     /* of a node */
    STAGED_COPY_IN_STREAM = 2,  /* of this PE's GPU: what goes into rooms of peers, */
    STAGED_COPY_OUT_STREAM = 3, /* and what comes out of them */
};

/* The rooms of a channel. Chunks of host memory are small enough to stay in a cache between the two
 * copies; those of GPU memory large enough for the copy engines. */
enum staged_buffer_id { STAGED_HOST_BUFFER, STAGED_GPU_BUFFER, STAGED_BUFFERS };

enum {
    STAGED_HOST_CHUNK_LEAST = 16 << 10,
    STAGED_HOST_CHUNK_MOST = 64 << 10,
    STAGED_HOST_BYTES = 512 << 10,
    STAGED_GPU_CHUNK_LEAST = 128 << 10,
    STAGED_GPU_CHUNK_MOST = 1 << 20,
    STAGED_GPU_BYTES = 8 << 20,
};

/* ------------------------------------------------------------------------- in shared memory */

struct staged_slot {
    _Alignas(64) _Atomic uint64_t sequence; /* of the request that is in it, from 1 */
    struct serve_request request;
    uint32_t buffer; /* enum staged_room_id */
    uint32_t offset; /* of its data in the room; in the slot when there are at most STAGED_INLINE */
    unsigned char data[STAGED_INLINE_BYTES]; /* also what an atomic found */
};

struct staged_ring {
    _Alignas(64) _Atomic uint64_t done; /* requests complete, in order; the owner's */
    _Atomic int32_t failed;             /* weft_status of the first that failed; before `done` */
    char sentence[STAGED_SENTENCE_BYTES];
    struct staged_slot slots[STAGED_SLOTS];
};

struct staged_channel_memory {
    struct staged_ring ring;
    _Alignas(4096) unsigned char host_buffer[STAGED_HOST_BYTES];
    _Alignas(SEGMENT_ALIGN) unsigned char gpu_buffer[STAGED_GPU_BYTES]; /* huge pages fit */
};

/* The beginning of an owner's part of the area. Channels follow, one for each local PE. */
struct staged_mailbox {
    _Alignas(64) _Atomic uint32_t asleep; /* futex of the owner's thread */
    _Alignas(
        64) _Atomic uint32_t senders[STAGED_MOST_PES / 32]; /* bit per local PE that has asked */
    _Atomic uint32_t users; /* PEs as threads: who still uses the mapping; in the first desk */
    _Alignas(SEGMENT_ALIGN) struct staged_channel_memory channels[];
};

/* ------------------------------------------------------------------------ the asker's own part */

/* A request under way. */
struct staged_pending {
    struct staged_channel *channel;
    void *destination;       /* where what comes back goes; NULL: nothing does */
    size_t bytes;            /* of that, or of a room's data */
    uint64_t buffer_end;     /* the room is free up to here when the request is gone */
    uint8_t buffer;          /* enum staged_room_id; STAGED_ROOMS: none of it is used */
    bool destination_is_gpu; /* `to` is GPU memory */
    struct gpu_mark
        *copy_event; /* a copy of this PE's GPU is awaited: into the slot, then out of it */
};

struct staged_buffer {
    unsigned char *memory;
    uint64_t bytes, head, tail; /* in use: tail ... head, of positions that only grow */
};

/* Requests go through these counts in order: taken (it has a slot, and data may still be on the way
 * there), published, done (the owner's count), emptied (its answer is on the way to where it goes),
 * gone. Everything is under the lock. */
struct staged_channel {
    pthread_mutex_t lock;
    struct staged_common *common;
    int slot, pe; /* the owner: local number, number in the job */
    struct staged_mailbox *mailbox;
    struct staged_ring *ring;
    struct staged_buffer buffers[STAGED_BUFFERS];
    uint64_t begun, published, copied_out;
    _Atomic uint64_t retired; /* may be read without the lock: it only grows */
    struct staged_pending pending[STAGED_SLOTS];
    bool announced; /* the owner looks here */
    /* This PE's own thread moves the channel on, until all is published. Set under the lock. */
    _Atomic bool needs_polling;
    bool pinned;
    _Atomic bool
        cpu_access;     /* small transfers between the host and its GPU memory need no request */
    weft_status broken; /* the channel is not used any more */
    char sentence[STAGED_SENTENCE_BYTES + 64];
};

struct staged_common {
    const struct path_world *world;
    struct segment area;
    int local_pe;                    /* local number */
    int local_npes;                  /* local PEs */
    struct staged_channel *channels; /* [locals] from this PE to each */
    struct staged_owner *owner;      /* the thread that serves this PE's memory */
};

static inline struct staged_mailbox *staged_mailbox(const struct staged_common *common, int slot)
{
    return (struct staged_mailbox *)(void *)segment_slot(&common->area, slot);
}

/* ------------------------------------------------------------------------------ area.c */

weft_status staged_join(const struct path_world *world, struct path_common **common);
void staged_leave(struct path_common *common);

static inline struct staged_common *staged_common(const struct path_world *world)
{
    return (struct staged_common *)(void *)world->common[PATH_STAGED];
}

/* Lets this PE's GPU read and write a channel of which it is one end. Best effort: without it the
 * driver copies once more. True: it need not be tried again. */
bool staged_pin_channel(const struct staged_common *common, struct staged_channel_memory *memory);

/* ----------------------------------------------------------------------------- owner.c */

weft_status staged_owner_start(struct staged_common *common);
void staged_owner_stop(struct staged_owner *owner);

/* After a request was published. */
void staged_wake_owner(struct staged_mailbox *mailbox);

/* --------------------------------------------------------------------------- channel.c
 * The channel's lock is held. */

/* One request and its data: at most a slot's or a chunk's bytes. `from` is the source of a put,
 * `to` where a get or an atomic leaves what came back. Waits until there is room for it; its number
 * is channel->taken then. operation: of this PE, for the wait. */
weft_status staged_send_request(struct staged_channel *channel, enum box_operation operation,
                                const struct serve_request *request, const void *from, void *to);

/* How many bytes one request can have, of a transfer of so many between this local memory and that
 * segment. */
size_t staged_chunk_bytes(const struct path_world *world, const void *local,
                          enum segment_id segment, size_t bytes);

/* Moves on what can be moved on, without waiting. */
weft_status staged_advance(struct staged_channel *channel);

/* The asker may come no more for a long time, and somebody waits for what it has asked: this PE's
 * own thread publishes what still waits for a copy of its GPU. */
void staged_hand_to_thread(struct staged_channel *channel);

/* Return when the first `number` requests are published, or gone; WEFT_OK, or why the channel is
 * not used any more. */
weft_status staged_await_published(struct staged_channel *channel, enum box_operation operation,
                                   uint64_t sequence);
weft_status staged_await_retired(struct staged_channel *channel, enum box_operation operation,
                                 uint64_t sequence);

#endif
