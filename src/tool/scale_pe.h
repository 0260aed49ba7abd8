/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated PEs of scale_coll.c and scale_gpu.c. */
#ifndef WEFT_TOOL_SCALE_PE_H
#define WEFT_TOOL_SCALE_PE_H

#include "tool/scale_names.h"

#include "gpu/gpu.h"
#include "tool/scale_coll.h"

#include <pthread.h>
#include <semaphore.h>

#define SCALE_PACKET (UINT64_C(1) << 63)

enum { SCALE_PHASE = 1 };

/* A flag on its way to a PE, or there. */
struct scale_flag {
    int from;
    uint64_t phase; /* of a packet: SCALE_PACKET plus its sequence number */
    double arrives_ns;
    unsigned char payload[PACKET_BYTES]; /* of a packet */
};

struct scale_pe {
    struct weft_team team; /* must be first */
    struct team_nodes nodes;
    struct weft_job *job;
    struct scale_team *all;
    pthread_t thread;
    sem_t turn;
    double clock_ns;
    double link_ns, in_ns; /* until which its link to other nodes, and from them, is busy */
    double gets_ns;        /* until its nonblocking puts and gets are complete */
    double kernel_ns;      /* until which its kernel runs */
    double gpu_ns;         /* until which its GPU copies to and from others of the node */
    struct scale_flag *flags;
    int flag_count, flag_size;
    int awaited;            /* member that it waits for; -1: it does not wait */
    uint64_t awaited_phase; /* the flag must have at least this phase */
    bool ready, done, wrong;
    uint32_t *memory; /* source, then destination */
    char *heap;       /* with GPUs: slots of the team, then `memory`; else `memory` */
    size_t heap_bytes;
    weft_status status;
};

struct scale_team {
    const struct tool_scale_job *job;
    enum tool_scale_collective collective;
    struct tool_scale_result *result;
    struct scale_pe *pes;
    struct team_nodes nodes;
    struct mailbox *no_mailboxes;   /* flags stay 0: the simulation keeps them */
    struct mailbox **no_mailbox_at; /* NULL for every member */
    struct combiner combiner;
    struct scale_gpus *gpus; /* NULL: in host memory */
    sem_t scheduler;
    bool no_memory, ending;
};

static inline struct scale_pe *pe_of_ctx(weft_ctx *ctx)
{
    return (struct scale_pe *)(void *)ctx;
}

static inline bool is_in_node(const struct scale_pe *pe, int other)
{
    return pe->team.nodes->of[other] == pe->team.nodes->mine;
}

/* As coll_reduce_ranges(). */
weft_status scale_reduce(struct scale_pe *pe, const struct coll_range_reduction *what, size_t n);

/* Time at which `bytes` bytes, or a flag, are at another PE. The sender's clock moves on. */
double scale_send(struct scale_pe *pe, int to, size_t bytes);

/* scale_check.c. Elements of 4 bytes of source and destination. */
struct scale_shape {
    size_t src, dst;
};
struct scale_shape scale_shape_of(const struct scale_team *all);
uint32_t scale_element(enum tool_scale_collective collective, int pe, size_t i);
bool scale_has_right_bits(const struct scale_team *all);

/* scale_gpu.c: makes the GPU of a PE of GPU memory, and performs the collective there. */
bool scale_make_gpus(struct scale_team *all);
void scale_free_gpus(struct scale_team *all);
void scale_use_gpu(struct scale_pe *pe);
size_t scale_slot_bytes(void); /* of the slots of the team's area, which a PE's heap begins with */
weft_status scale_perform_on_gpu(struct scale_pe *pe);
/* When a get of GPU memory, whose request is there at there_ns, is complete. */
double scale_get_ns(struct scale_pe *pe, int from, size_t bytes, double there_ns);

#endif
