/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives on streams. Between members whose GPUs load and store each other's memory one
 * kernel moves all messages of a call (kernel.c, gpu/messages.h); the others go through streams of
 * the library (streams.c). */
#ifndef WEFT_OPS_MESSAGES_H
#define WEFT_OPS_MESSAGES_H

#include "gpu/gpu.h"
#include "gpu/messages.h"
#include "job/job.h"

#include <weft/stream.h>

/* The messages from, or to, one member, through a stream. */
struct message_stream {
    weft_stream stream; /* NULL: there have been none */
    weft_event ended;
    uint64_t slots; /* used so far */
    bool waits;     /* it waits for the program's stream, in this call */
};

/* Messages of a call that the kernel reads from GPU memory. */
struct message_list {
    struct message_list *next;
    size_t room;        /* messages */
    CUdeviceptr memory; /* their copy */
    weft_event ended;   /* the kernel that reads it */
    bool captured;      /* a graph copies it at each replay */
    struct message messages[];
};

struct weft_messages {
    struct weft_team *team;
    bool on_cuda; /* its streams are CUDA streams; else those of the SIMT executor */
    pthread_mutex_t lock;
    void *memory;             /* symmetric: the area of messages.h, then words of streams.c */
    struct message_call call; /* of the last call; area and layout are the same in all */
    uint32_t *counts;         /* [2 * member + receives]: messages of a call; places in its list */
    uint16_t *next;           /* [2 * member + receives]: first channel of the next message */
    int64_t own_open;         /* sends to this member itself, less receives, in earlier calls */
    struct message_list *lists;
    weft_event begun;
    struct message_stream *streams; /* [2 * member + receives] */
};

/* Whether the kernel moves the messages to and from a member. */
static inline bool messages_by_kernel(const struct weft_messages *m, int member)
{
    return member < MESSAGE_MEMBERS && m->call.area[member];
}

/* Moves the messages of a call that are for the kernel. */
weft_status messages_run_kernel(struct weft_messages *m, const weft_message *list, size_t n,
                                weft_stream stream);

/* The streams have ended. */
void messages_close_kernel(struct weft_messages *m);

/* Bytes of the words of streams.c, after the area of messages.h, whose slots both use. */
size_t messages_stream_bytes(int members);

/* Notes the place in the program's stream after which messages_run_streams() moves the others. */
weft_status messages_begin_streams(struct weft_messages *m, weft_stream stream);
weft_status messages_run_streams(struct weft_messages *m, const weft_message *list, size_t n,
                                 weft_stream stream);

/* Waits for the streams and destroys them. */
void messages_close_streams(struct weft_messages *m);

#endif
