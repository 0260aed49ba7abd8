/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench scale`: jobs of many PEs in one process. queue.c has the events of virtual time,
 * costs.c what a frame costs on this machine, wires.c the frames, job.c the processes of a job of
 * `weft run --hosts`, start.c its start, exchanges and
 * end, collectives.c the collectives by node, measure.c the same job in real
 * processes, print.c the output, and command.c the command line. */
#ifndef WEFT_CLI_BENCH_SCALE_SCALE_H
#define WEFT_CLI_BENCH_SCALE_SCALE_H

#include "run/hosts.h"
#include "tool/scale_coll.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a frame costs its sender and its receiver, measured here on the real wire. */
struct scale_frame_cost {
    double send_ns, send_byte_ns, receive_ns, receive_byte_ns;
};

struct scale_costs {
    struct scale_frame_cost plain, keyed; /* between agent and PE; between hosts, with tags */
    double wake_ns;                       /* of a process that sleeps until a frame comes */
    double turn_ns;                       /* of the loop of a process around a frame */
    double latency_ns;                    /* between hosts */
    double byte_ns;                       /* of the link of a host, or of a PE */
    double copy_ns;                       /* of a byte, in memory of a host */
    double flag_ns;                       /* until another PE of the host sees a flag */
    int cpus; /* all processes share so many CPUs; 0: each process has its own */
};

struct scale_job {
    int pes, per_host, fan_out;
    size_t bytes;    /* of the exchange that is timed */
    size_t elements; /* floats of each PE in broadcast and allreduce */
    struct scale_costs costs;
};

enum scale_step {
    SCALE_START,    /* boot_open(): PEs join and find their nodes */
    SCALE_BARRIER,  /* an exchange of no bytes */
    SCALE_EXCHANGE, /* an exchange of `bytes` bytes */
    SCALE_DEATH,    /* a PE is killed: until all others are notified; a job of its own */
    SCALE_FINALIZE, /* from the first weft_finalize() to the end of the last agent */
    SCALE_STEPS,
};

struct scale_result {
    uint64_t frames; /* between any two processes */
    uint64_t frames_to_launcher, frames_of_launcher;
    uint64_t bytes_of_launcher;
    int rounds; /* longest chain of frames, each sent because of the one before */
    double us;
};

struct scale_outcome {
    int hosts, levels;
    struct scale_result steps[SCALE_STEPS];
    uint64_t frames_to_launcher, frames_of_launcher; /* of the whole job */
    struct tool_scale_result collectives[TOOL_SCALE_COLLECTIVES];
    bool has_collective[TOOL_SCALE_COLLECTIVES];
    struct tool_scale_memory memory; /* of a PE */
    uint64_t launcher_bytes;         /* memory of its tables */
    bool right;                      /* every PE got the parts of the others */
};

extern const char *const scale_step_names[SCALE_STEPS];
extern const char *const scale_collective_names[TOOL_SCALE_COLLECTIVES];

/* queue.c */
struct scale_event {
    double ns;      /* virtual time */
    uint64_t order; /* events of one time stay in the order in which they were added */
    void *what;
};
struct scale_queue {
    struct scale_event *events;
    size_t count, size;
    uint64_t added;
};
bool scale_queue_add(struct scale_queue *queue, double ns, void *what); /* false: no memory */
bool scale_queue_take(struct scale_queue *queue, struct scale_event *event);

/* costs.c */
bool scale_costs_measure(struct scale_costs *costs); /* false: it has reported why */

/* start.c */
bool scale_simulate(const struct scale_job *job, struct scale_outcome *outcome);

/* collectives.c: false: it has reported why */
bool scale_run_collectives(const struct scale_job *job, struct scale_outcome *outcome);

/* measure.c: the same job in processes of this machine. */
struct scale_measured {
    uint64_t frames_to_launcher, frames_of_launcher;
    double barrier_us, exchange_us; /* mean of many */
};
bool scale_measure(const struct scale_job *job, struct scale_measured *measured);
int scale_be_shell(int argc, char **argv); /* remote shell that starts the agent here */
int scale_be_pe(int argc, char **argv);    /* a PE of the measured job */

/* print.c */
void scale_print_head(const struct scale_job *job);
void scale_print_row(const struct scale_job *job, const struct scale_outcome *outcome,
                     const struct scale_measured *measured);
void scale_print_json(const struct scale_job *job, const struct scale_outcome *outcome,
                      const struct scale_measured *measured);

/* command.c. argv[0] is "weft bench scale". */
int bench_scale(int argc, char **argv);

#endif
