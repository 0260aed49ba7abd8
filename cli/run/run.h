/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run` in seven files: run.c (the loop), options.c (its command line), start.c
 * (processes, CPUs, the guard), server.c (the hub of the job), streams.c (standard input,
 * and output with the PE in front), end.c (how a job ends), orphans.c (processes that PEs
 * have left); and for jobs over several hosts hosts.h and its files. */
#ifndef WEFT_CLI_RUN_H
#define WEFT_CLI_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft.h>

#include "tool/launcher.h"

#define RUN_SECOND_NS UINT64_C(1000000000)

enum run_bind { RUN_BIND_SHARE, RUN_BIND_CORE, RUN_BIND_NONE };

/* An entry of the list of hosts. */
struct run_slots {
    char *name;
    int npes; /* 0: it does not say */
};

struct run_options {
    int npes; /* an agent: of its own host */
    bool agent;
    struct run_slots *hosts;
    int host_count;         /* 0: this machine alone */
    const char *rsh, *weft; /* how a host is reached, and the command there */
    const char **env;       /* of --env */
    int env_count;
    bool prefix;
    const char *output_dir;
    uint64_t timeout_ns; /* 0: none */
    uint64_t grace_ns;   /* between SIGTERM and SIGKILL */
    enum run_bind bind;
    char **command; /* NULL-terminated */
};

/* One stream of one PE whose lines get a prefix. */
struct run_source {
    int fd; /* reading end, or -1 */
    char *line;
    size_t used;
    size_t size;
};

struct run_pe {
    pid_t pid;
    pid_t group;   /* where signals go; led by `pid`, unless the PE went on as another process */
    int pidfd;     /* readable when it ends (SIGCHLD may go to another thread); -1 after that */
    bool exited;   /* seen, but not reaped: the pid stays reserved until the group is gone */
    bool to_judge; /* has ended, and what follows from it is not decided yet */
    int wait_status;

    int jobs; /* how often it has joined; weft_init() may be called again after weft_finalize() */
    bool joined;
    pid_t program;     /* who joined: not always `pid`, which may be a shell */
    int program_pidfd; /* watches `program` when that is not `pid`; else -1 */
    bool program_gone; /* it had ended before it could be watched */
    bool told_the_end;
    bool lost;           /* with its host; exited, but nobody knows how */
    uint64_t cut_off_ns; /* when its connection was found closed, in the job; 0: it was not */

    struct run_source streams[2]; /* stdout, stderr */
};

/* Where prefixed lines go. */
struct run_sink {
    int fd;
    char *data;
    size_t used;
    size_t size;
    bool is_file;
    bool broken; /* its reader is gone */
    bool waits;  /* for room */
};

enum run_phase {
    RUN_WORKING,
    RUN_TOLD,      /* everybody who listens has been told why the job ends */
    RUN_DEAF_GONE, /* who does not listen has been sent SIGTERM */
    RUN_TERMINATED,
    RUN_KILLED,
};

struct run_host;
struct run_agent;

struct run {
    struct run_options options;
    struct run_pe *pes; /* and behind them one for the streams of each host */
    int first;          /* number of the first of them in the job: not 0 on other hosts */
    int all;            /* PEs of the job */
    int started;
    int sources;            /* PEs and hosts whose streams are read here, or that many */
    struct run_host *hosts; /* of the launcher of a job over several; else NULL */
    int host_count;
    struct wire *host_wires; /* [1 + i] to the agent of hosts[i] */
    uint64_t hosts_end_ns;   /* how long agents have for ending; 0: not yet told to */
    struct run_agent *agent; /* what this `weft run` is when it is one; else NULL */
    int alive;

    int epoll;
    int signals; /* signalfd */
    bool pipe_was_ignored;
    sigset_t old_mask; /* what the PEs get */

    struct hub hub;  /* of the job; its wires are our ends of the PEs' sockets */
    bool retry_soon; /* the system has no memory for sending, or too many descriptors in flight */

    /* the end */
    enum run_phase phase;
    uint64_t phase_ends_ns;
    uint64_t started_ns;
    int result;       /* exit status, -1 while there is none */
    int culprit;      /* PE whose exit status becomes the result, or -1 */
    int asked_to_end; /* signal by which the user ended the job, 0 when not */
    weft_status end_status;
    char end_sentence[512];
    struct {               /* a reason to end that waits for the end of a PE that is just dying: */
        uint64_t until_ns; /* that may be the cause. 0: none waits */
        int pe, result;
        weft_status status;
        char sentence[512];
    } postponed;
    bool some_dying;          /* an agent has said so of its host */
    bool some_cut_off;        /* a PE has its cut_off_ns set */
    uint64_t next_reaping_ns; /* when to reap next what became our child because its parent ended */
    int linger_ms;            /* left to the job for waiting whether a PE goes on as a daemon */

    struct run_sink sinks[2];
    bool relay_stdin;
    bool stdin_terminal;
    bool stdin_watched;
    uint64_t stdin_again_ns; /* when to try again, 0 = not */
    size_t stdin_used;
    char stdin_data[4096];
    int stdin_pipe; /* writing end of PE 0's standard input when the terminal is relayed */

    char mark[96]; /* environment entry of every process that comes from this job */
    pid_t guard;
    int guard_pipe;
    pid_t *guard_groups; /* shared with the guard: process groups to kill when we are gone */
};

/* What an event of the loop is about; the number in the lower half is a PE, stream or sink. */
enum run_event {
    RUN_EVENT_SIGNAL,
    RUN_EVENT_EXIT,
    RUN_EVENT_SOCKET,
    RUN_EVENT_PROGRAM,
    RUN_EVENT_SOURCE, /* number: 2 * pe + stream */
    RUN_EVENT_SINK,
    RUN_EVENT_STDIN,
    RUN_EVENT_HOST,      /* its agent has sent something */
    RUN_EVENT_HOST_EXIT, /* its remote shell has ended */
    RUN_EVENT_LAUNCHER,  /* has told us, an agent, something */
};

/* run.c */
int run_watch(struct run *run, int fd, uint32_t events, enum run_event event, int number);
void run_rewatch(struct run *run, int fd, uint32_t events, enum run_event event, int number);
void run_unwatch(struct run *run, int fd);

int run_loop(struct run *run); /* until the job has ended; the exit status */
bool run_prepare(struct run *run);
/* The command in whose name run_say() speaks; "weft run" when nothing is said. */
void run_say_as(const char *command);
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *run_pe_name(const struct run *run, int pe); /* "PE 3 (pid 1234)" */

/* hosts.c: the launcher of a job over several hosts */
bool run_hosts_connect(
    struct run *run);                  /* agents on all hosts; false: said which could not be had */
bool run_hosts_start(struct run *run); /* their PEs */
void run_hosts_signal(struct run *run, int pe, int number);
void run_hosts_relay(void *run, int pe, enum frame_type type, int number, const void *payload,
                     size_t bytes);
void run_hosts_serve(struct run *run, int host, uint32_t events);
void run_hosts_exited(struct run *run, int host);
bool run_hosts_wait(struct run *run); /* every PE has ended, and agents are still there */
void run_hosts_by_time(struct run *run, uint64_t now);
void run_hosts_close(struct run *run);
const char *run_host_of(const struct run *run, int pe);

/* agent.c: one host of such a job */
int run_agent_main(struct run *run); /* exit status */
void run_agent_serve(struct run *run, int pe);
void run_agent_exited(struct run *run, int pe);
void run_agent_program_ended(struct run *run, int pe);
void run_agent_hear(struct run *run, uint32_t events);

/* options.c */
bool run_parse_options(struct run_options *options, int argc, char **argv); /* false: no memory */

/* end.c */

/* The job ends because of PE `pe` (or -1): the others are told `sentence`, then SIGTERM, SIGKILL.
 * result: the exit status of weft run, or -1 when that PE's own exit status decides. */
void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence);

/* The same when all that can be said has been said, and no other PE's death can be the cause. */
void run_begin_end(struct run *run, int pe, weft_status status, int result, const char *sentence);

void run_look_for_exits(struct run *run); /* some PE may have ended: judges those that have */
void run_judge_exits(struct run *run);    /* those that are `to_judge` */

/* The user has sent us this signal, which asks the job to end: its PEs get it. A second one leaves
 * them no time. */
void run_ask_to_end(struct run *run, int number);
void run_signal_all(struct run *run, int number);

uint64_t run_end_due_ns(const struct run *run, uint64_t now); /* when run_end_by_time() is due */
void run_end_by_time(struct run *run, uint64_t now);

/* A failure waits for the end of another PE that was dying, its possible cause: ends the job with
 * it when that one has ended or takes too long; now: waits no longer in any case. */
void run_settle(struct run *run, bool now);

/* All PEs have ended: ends what they have left in their process groups, and reaps them. */
void run_clean_up(struct run *run);

/* orphans.c */
bool run_adopt_orphans(void);                     /* from now on they become our children */
pid_t run_find_detached(struct run *run, int pe); /* a process that goes on for this PE, or 0 */
void run_reap_orphans(struct run *run);           /* orphans that have ended */
void run_end_orphans(struct run *run);            /* all PEs have ended and are reaped */
void run_kill_marked(const char *mark);           /* every process that has it; for the guard */
bool run_is_dying(pid_t pid);                     /* it ends just now, or writes a core dump */

bool run_another_is_dying(const struct run *run,
                          int pe); /* a PE of this machine, but not that one */

/* proc.c: what /proc calls a process of this PID namespace, and the reverse; 0: unknown or not
 * of this namespace */
pid_t run_proc_number(pid_t pid);
pid_t run_proc_pid(pid_t number);

/* start.c */
int run_find_program(const char *name, char **path); /* 0, 126 or 127, said why */
bool run_start_guard(struct run *run);
void run_stop_guard(struct run *run);
bool run_start_pes(struct run *run, const char *path);

/* server.c */
void run_serve(struct run *run, int pe);        /* something has arrived at its socket */
void run_flush_socket(struct run *run, int pe); /* there may be room again */
void run_program_ended(struct run *run, int pe);
void run_tell_end(struct run *run, int pe);
void run_retry_sending(struct run *run);
void run_close_socket(struct run *run, int pe);
void run_watch_program(struct run *run, int pe);
void run_unwatch_program(struct run *run, int pe);
bool run_open_hub(struct run *run); /* false: no memory */
void run_close_hub(struct run *run);

/* streams.c */
void run_start_stdin(struct run *run);
void run_relay_stdin(struct run *run); /* something is there to read, or stdin_again_ns has come */
void run_end_stdin(struct run *run);
void run_open_sinks(struct run *run);
void run_read_source(struct run *run, int pe, int stream);
void run_flush_sink(struct run *run, int sink);
void run_drain_output(struct run *run); /* what is still there when all PEs have ended */

#endif
