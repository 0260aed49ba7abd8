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
    enum occurrence what;              /* TURN: it handles the next frame, or sleeps */
    const struct scale_kind_cost *own; /* whose times of a switch are its own */
    bool begins;                       /* a PE that first does simulation->begin() */
    bool runs;                         /* it has a CPU, or waits for one */
    bool starts;                       /* it slept, or waited for a CPU, until this turn */
    bool on_idle;                      /* on a CPU that was idle */
    int cpu;                           /* that it has or had last */
    double busy_ns;                    /* virtual time until which it works */
    int chain;                         /* frames in the longest chain that led to its state */
    struct on_its_way *first, *last;   /* frames that have arrived */
    struct simulated_process *next;    /* that waits for a CPU after this one */
};

/* The CPUs that all processes share. Processes that wait get them in the order of waiting. */
struct simulated_cpus {
    int count;                              /* 0: each process has its own */
    bool *taken;                            /* [count] */
    struct simulated_process *first, *last; /* waiting */
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
    bool up, between_hosts;
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
    struct simulated_process process; /* must be first */
    struct simulated_link to_agent, from_agent;
    size_t left; /* bytes of its exchange that are not sent yet */
    bool exchanging, notified;
    uint64_t exchanges;
    int again; /* exchanges after this one, which it begins at once */
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
    struct simulated_cpus cpus;
    void (*begin)(struct simulation *simulation, struct simulated_pe *pe);
    struct payload *last; /* the payload that was posted last, which the next frame may share */
    enum scale_step step;
    size_t bytes; /* of the exchange of this step */
    int working;  /* PEs that have not completed the step */
    struct scale_outcome *outcome;
    double began_ns, ended_ns;
    double repeated_from_ns, repeated_until_ns; /* of repeated exchanges, at PE 0 */
    int began_chain;
    bool failed;
};

/* processes.c */

/* A frame has arrived for a process, or it begins something. */
void scale_wake(struct simulation *simulation, struct simulated_process *process, double ns);
bool scale_starts_on_idle(const struct simulation *simulation,
                          const struct simulated_process *process); /* if it is woken now */
void scale_handle_all(struct simulation *simulation); /* until no frame is on its way */

/* wires.c */

/* Sends a frame of a PE. Wires post theirs by themselves. */
void scale_post(struct simulated_link *link, uint32_t type, int number, const void *data,
                size_t bytes);
struct simulated_link scale_make_link(struct simulation *simulation, struct simulated_process *from,
                                      struct simulated_process *to);
void scale_handle_frame(struct simulation *simulation, struct on_its_way *frame);
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
