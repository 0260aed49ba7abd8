/* SPDX-License-Identifier: Apache-2.0 */
/* Internal header of path `staged`: the structures that two processes share, the requester's end of
 * a channel (channel.c), the owner's thread (owner.c), the shared memory (area.c) and the path's
 * operations (staged.c).
 *
 * A channel leads from one PE, the requester, to one PE, the owner of the memory. The requester
 * puts requests into slots, in order; the owner executes them in that order and counts them. A few
 * bytes of data are in the slot, more of them in a staging buffer of the channel, which one side's
 * copy writes and the other's reads. Only the requester allocates slots and buffer space. So the
 * shared memory has no locks, and PEs wait only for counts in it; a PE that dies at any moment
 * leaves at most a request that was not published. */
#ifndef WEFT_PATH_STAGED_STAGED_H
#define WEFT_PATH_STAGED_STAGED_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu.h"
#include "path/serve.h"

enum {
    STAGED_SLOTS = 64,        /* requests in flight in a channel */
    STAGED_INLINE_BYTES = 64, /* bytes of data in a slot */
    STAGED_SENTENCE_BYTES = 192,
    STAGED_MOST_PES = 4096,     /* local PEs of a node at most */
    STAGED_COPY_IN_STREAM = 2,  /* internal stream of this PE's GPU for copies into buffers */
    STAGED_COPY_OUT_STREAM = 3, /* internal stream of this PE's GPU for copies out of buffers */
};

/* The staging buffers of a channel. Chunks of host memory are small enough to stay in a cache
 * between the two copies; those of GPU memory are large enough for the copy engines. */
enum staged_buffer_id { STAGED_HOST_BUFFER, STAGED_GPU_BUFFER, STAGED_BUFFERS };

enum {
    STAGED_HOST_CHUNK_LEAST = 16 << 10,
    STAGED_HOST_CHUNK_MOST = 64 << 10,
    STAGED_HOST_BYTES = 512 << 10,
    STAGED_GPU_CHUNK_LEAST = 128 << 10,
    STAGED_GPU_CHUNK_MOST = 1 << 20,
    STAGED_GPU_BYTES = 8 << 20,
};

/* ---------------------------------------------------------------------------- shared memory */

struct staged_slot {
    _Alignas(64) _Atomic uint64_t sequence; /* sequence number of the request in the slot, from 1 */
    struct serve_request request;
    uint32_t buffer; /* enum staged_buffer_id */
    uint32_t offset; /* byte offset of the data in the buffer; unused if they fit the slot */
    unsigned char
        data[STAGED_INLINE_BYTES]; /* data of the request, or the old value of an atomic */
};

struct staged_ring {
    _Alignas(
        64) _Atomic uint64_t done; /* number of requests complete, in order; written by the owner */
    _Atomic int32_t
        failed; /* weft_status of the first request that failed; written before `done` */
    char sentence[STAGED_SENTENCE_BYTES];
    struct staged_slot slots[STAGED_SLOTS];
};

struct staged_channel_memory {
    struct staged_ring ring;
    _Alignas(4096) unsigned char host_buffer[STAGED_HOST_BYTES];
    _Alignas(SEGMENT_ALIGN) unsigned char gpu_buffer[STAGED_GPU_BYTES]; /* aligned for huge pages */
};

/* The start of an owner's part of the area. A channel for each local PE follows. */
struct staged_mailbox {
    _Alignas(64) _Atomic uint32_t asleep; /* futex: 1 while the owner's thread sleeps */
    /* Bit per local PE that has sent a request. */
    _Alignas(64) _Atomic uint32_t senders[STAGED_MOST_PES / 32];
    _Atomic uint32_t users; /* PEs as threads that use the mapping; in the first mailbox only */
    _Alignas(SEGMENT_ALIGN) struct staged_channel_memory channels[];
};

/* ----------------------------------------------------------- private memory of the requester */

/* A request in flight. */
struct staged_pending {
    struct staged_channel *channel;
    void *destination;       /* destination of the answer; NULL if there is none */
    size_t bytes;            /* bytes of the answer, or of the data in the buffer */
    uint64_t buffer_end;     /* value of the buffer's `tail` when the request is retired */
    uint8_t buffer;          /* enum staged_buffer_id; STAGED_BUFFERS if the data are in the slot */
    bool destination_is_gpu; /* `destination` is GPU memory. */
    /* Copy of this PE's GPU in flight: into the slot or buffer, later out of it. */
    struct gpu_event *copy_event;
};

struct staged_buffer {
    unsigned char *memory;
    uint64_t bytes, head, tail; /* positions tail ... head are in use; both only grow */
};

/* A request passes these counts in order: begun (it has a slot, and its data may still be copied
 * there), published, done (counted by the owner), copied_out (its answer is being copied to its
 * destination) and retired. The lock guards all of them. */
struct staged_channel {
    pthread_mutex_t lock;
    struct staged_common *common;
    int slot, pe; /* the owner: local number and number in the job */
    struct staged_mailbox *mailbox;
    struct staged_ring *ring;
    struct staged_buffer buffers[STAGED_BUFFERS];
    uint64_t begun, published, copied_out;
    _Atomic uint64_t retired; /* may be read without the lock, since it only grows */
    struct staged_pending pending[STAGED_SLOTS];
    bool announced; /* This PE's bit in `senders` is set. */
    /* The owner's thread of this PE advances the channel until all requests are published. Set
     * under the lock. */
    _Atomic bool needs_polling;
    bool pinned;
    _Atomic bool cpu_access; /* the CPU may do small transfers with GPU memory without a request */
    weft_status broken;      /* status of the failure that ended the use of the channel */
    char sentence[STAGED_SENTENCE_BYTES + 64];
};

struct staged_common {
    const struct path_world *world;
    struct segment area;
    int local_pe;                    /* local number of this PE */
    int local_npes;                  /* number of local PEs */
    struct staged_channel *channels; /* [local_npes] from this PE to each local PE */
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

/* Pins a channel for this PE's GPU. If that fails, the driver copies through a buffer of its own.
 * True: the caller need not try again. */
bool staged_pin_channel(const struct staged_common *common, struct staged_channel_memory *memory);

/* ----------------------------------------------------------------------------- owner.c */

weft_status staged_owner_start(struct staged_common *common);
void staged_owner_stop(struct staged_owner *owner);

/* Wakes the owner's thread after a request was published. */
void staged_wake_owner(struct staged_mailbox *mailbox);

/* --------------------------------------------------------------------------- channel.c
 * The channel's lock is held. */

/* Sends one request with its data, at most a chunk. `from` is the source of a put, `to` the
 * destination of a get or of an atomic's old value. It waits for a free slot and buffer space; the
 * request's sequence number is then channel->begun. operation: of the caller, for the wait. */
weft_status staged_send_request(struct staged_channel *channel, enum box_operation operation,
                                const struct serve_request *request, const void *from, void *to);

/* Bytes of a chunk, for a transfer of `bytes` bytes between local memory and the segment. */
size_t staged_chunk_bytes(const struct path_world *world, const void *local,
                          enum segment_id segment, size_t bytes);

/* Advances the channel without waiting. */
weft_status staged_advance(struct staged_channel *channel);

/* Lets this PE's owner thread publish the requests that still wait for a copy of its GPU, because
 * the requester may not return to the channel for a long time while the peer waits for them. */
void staged_hand_to_thread(struct staged_channel *channel);

/* Wait until the first `sequence` requests are published, or retired. They return WEFT_OK, or why
 * the channel has failed. */
weft_status staged_await_published(struct staged_channel *channel, enum box_operation operation,
                                   uint64_t sequence);
weft_status staged_await_retired(struct staged_channel *channel, enum box_operation operation,
                                 uint64_t sequence);

#endif
