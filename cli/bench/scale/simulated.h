/* SPDX-License-Identifier: Apache-2.0 */
/* The processes and wires of a simulated job, which the files of `weft bench scale` share. */
#ifndef WEFT_CLI_BENCH_SCALE_SIMULATED_H
#define WEFT_CLI_BENCH_SCALE_SIMULATED_H

#include "bench/scale/scale.h"

/* A payload that several frames on their way share. */
struct payload {
    int users;
    size_t bytes;
    char data[];
};

struct simulation;

enum occurrence { ARRIVAL, TURN };

/* A process. Its frames are handled one after the other. */
struct simulated_process {
    enum occurrence what;            /* TURN: it handles the next frame */
    bool due;                        /* such an event is in the queue */
    bool slept;                      /* it slept until the first frame came */
    double busy_ns;                  /* virtual time until which it works */
    int chain;                       /* frames in the longest chain that led to its state */
    struct on_its_way *first, *last; /* frames that have arrived */
};

/* One direction between two processes. */
struct simulated_link {
    struct wire_simulation base; /* must be first */
    struct simulation *simulation;
    struct simulated_process *from, *to;
    void (*deliver)(struct simulated_link *link, struct wire_frame *frame);
    struct wire *wire; /* that the receiver reads; NULL: the receiver is a PE */
    int number;        /* of the PE in its host, or index of the child; by direction */
    int agent;         /* the agent at one of the ends */
    bool between_hosts;
    double arrived_ns; /* frames do not overtake each other */
};

struct on_its_way {
    enum occurrence what; /* ARRIVAL */
    struct on_its_way *next;
    struct simulated_link *link;
    uint32_t type;
    int number, chain;
    struct payload *payload;
};

struct simulated_pe {
    struct simulated_process process;
    struct simulated_link to_agent, from_agent;
    size_t left; /* bytes of its exchange that are not sent yet */
    bool exchanging, notified;
    uint64_t exchanges;
};

struct agent {
    struct simulated_process process;
    struct run run;
    struct run_agent state;
    struct simulated_link to_parent, from_parent;
    int unready; /* children that have not connected all hosts below them */
    bool sent_done;
};

struct simulation {
    const struct scale_job *job;
    struct scale_queue queue;
    struct simulated_process launcher_process;
    struct run launcher;
    int unready; /* as of an agent */
    struct agent *agents;
    struct simulated_pe *pes;
    int hosts;
    double *cpus;
    struct payload *last; /* the payload that was posted last, which the next frame may share */
    enum scale_step step;
    size_t bytes; /* of the exchange of this step */
    int working;  /* PEs that have not completed the step */
    struct scale_outcome *outcome;
    double began_ns, ended_ns;
    int began_chain;
    bool failed;
};

/* wires.c */

/* Sends a frame of a PE. Wires post theirs by themselves. */
void scale_post(struct simulated_link *link, uint32_t type, int number, const void *data,
                size_t bytes);
struct simulated_link scale_make_link(struct simulation *simulation, struct simulated_process *from,
                                      struct simulated_process *to);
void scale_handle_all(struct simulation *simulation); /* until no frame is on its way */
void scale_drop_all(struct simulation *simulation);

/* job.c */
bool scale_make_job(struct simulation *simulation); /* false: no memory */
void scale_free_job(struct simulation *simulation);

/* start.c: handle a frame that has arrived, and free it. */
void scale_deliver_to_pe(struct simulated_link *link, struct wire_frame *frame);
void scale_deliver_from_pe(struct simulated_link *link, struct wire_frame *frame);
void scale_deliver_from_parent(struct simulated_link *link, struct wire_frame *frame);
void scale_deliver_from_child(struct simulated_link *link, struct wire_frame *frame);

#endif
