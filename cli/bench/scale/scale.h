/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench scale`: jobs of many PEs in one process. queue.c has the events of virtual time,
 * costs.c and group.c what a frame costs on this machine, wires.c the frames, processes.c when
 * processes run, job.c the processes of a job of `weft run --hosts`, start.c its start, exchanges
 * and end, collectives.c the collectives by node, measure.c the same job in real processes, print.c
 * the output, and command.c the command line. */
#ifndef WEFT_CLI_BENCH_SCALE_SCALE_H
#define WEFT_CLI_BENCH_SCALE_SCALE_H

#include "run/hosts.h"
#include "tool/scale_coll.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a frame costs its sender and its receiver, with the system calls around it. */
struct scale_frame_cost {
    double send_ns, receive_ns;
};

/* Of frames in a host, or between hosts. */
struct scale_kind_cost {
    struct scale_frame_cost down, up; /* to a process that mostly sleeps; to its agent or parent */
    double byte_ns;                   /* of a byte, for the sender and for the receiver */
    double switch_ns; /* of a process that slept, until it runs and again until it sleeps */
    double idle_ns;   /* that this takes longer on a CPU that was idle */
    double wake_ns;   /* of the sender, if the receiver starts on an idle CPU */
};

struct scale_costs {
    struct scale_kind_cost in_host, between_hosts;
    double latency_ns; /* between hosts */
    double byte_ns;    /* of the link of a host, or of a PE */
    double copy_ns;    /* of a byte, in memory of a host */
    double flag_ns;    /* until another PE of the host sees a flag */
    int cpus;          /* all processes share so many CPUs; 0: each process has its own */
};

enum { SCALE_ORIGIN_BYTES = 1200 }; /* text of the origin of rates */

struct scale_job {
    int pes, per_host, fan_out;
    size_t bytes;    /* of the exchange that is timed */
    size_t elements; /* of 4 bytes, of each PE in broadcast and allreduce */
    bool gpus;       /* collectives on GPU memory: a GPU and a NIC for each PE */
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

enum { SCALE_REPEATED = 2 }; /* barriers and exchanges, each directly after the one before */

struct scale_outcome {
    int hosts, levels;
    struct scale_result steps[SCALE_STEPS];
    uint64_t frames_to_launcher, frames_of_launcher; /* of the whole job */
    struct tool_scale_result collectives[TOOL_SCALE_BENCHED];
    bool has_collective[TOOL_SCALE_BENCHED];
    struct tool_scale_memory memory;    /* of a PE */
    uint64_t launcher_bytes;            /* memory of its tables */
    double repeated_us[SCALE_REPEATED]; /* barrier and exchange, one directly after the other */
    bool right;                         /* every PE got the parts of the others */
};

extern const char *const scale_step_names[SCALE_STEPS];
extern const char *const scale_collective_names[TOOL_SCALE_BENCHED];

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

/* costs.c: of a job of so many processes. false: it has reported why. */
struct scale_processes {
    int hosts, per_host;
};
bool scale_costs_measure(const struct scale_processes *job, struct scale_costs *costs);

int scale_be_child(int argc, char **argv); /* group.c: a process that is measured */

/* start.c */
bool scale_simulate(const struct scale_job *job, struct scale_outcome *outcome);
bool scale_predict(const struct scale_job *job, double us[SCALE_REPEATED]); /* of what is measured
                                                                             */

/* collectives.c: false: it has reported why */
bool scale_run_collectives(const struct scale_job *job, struct scale_outcome *outcome);

/* measure.c: the same job in processes of this machine. */
struct scale_compared {
    double predicted_us, measured_us; /* medians */
    double least_us, most_us;         /* of the measured ones */
};
struct scale_measured {
    uint64_t frames_to_launcher, frames_of_launcher;
    struct scale_compared times[SCALE_REPEATED];
    double others; /* part of the CPUs' busy time that other processes used meanwhile */
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
