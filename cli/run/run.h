/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run`. run.c has the event loop, options.c the command line, start.c starts
 * processes, binds CPUs and starts the guard, server.c is the hub of the job, streams.c
 * handles standard input and prefixed output, end.c ends the job, orphans.c finds
 * processes that PEs left behind. hosts.h declares the files for jobs over several hosts. */
#ifndef WEFT_CLI_RUN_H
#define WEFT_CLI_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <weft.h>

#include "tool/launcher.h"

#define RUN_SECOND_NS UINT64_C(1000000000)

enum run_bind { RUN_BIND_SHARE, RUN_BIND_CORE, RUN_BIND_NONE };

/* An entry of the host list. */
struct run_slots {
    char *name;
    int npes; /* 0: not given */
};

struct run_options {
    int npes; /* PEs of the job; in an agent, PEs of its host */
    bool agent;
    struct run_slots *hosts;
    int host_count;         /* 0: only this machine */
    const char *rsh, *weft; /* remote shell command; path of weft on the host */
    int fan_out;            /* agents that one process starts at most; 0: the default */
    const char **env;       /* arguments of --env */
    int env_count;
    bool prefix;
    const char *count_frames; /* file that gets the number of frames to and from agents, or NULL */
    const char *output_dir;
    uint64_t timeout_ns; /* 0: no limit */
    uint64_t grace_ns;   /* time between SIGTERM and SIGKILL */
    enum run_bind bind;
    char **command; /* program and its arguments, NULL-terminated */
};

/* An output stream of a PE whose lines get a prefix. */
struct run_source {
    int fd; /* reading end of the pipe, or -1 */
    char *line;
    size_t used;
    size_t size;
};

struct run_pe {
    pid_t pid;
    pid_t group; /* Process group that gets signals. `pid` leads it, unless the PE continues as
                    another process. */
    int pidfd; /* Readable when the process ends (another thread may get SIGCHLD); -1 afterwards. */
    bool exited; /* Its end was seen. It is not reaped yet, so that its pid stays reserved until its
                    process group is gone. */
    bool to_judge; /* The process has ended and run_judge_exits() has not decided yet what follows.
                    */
    int wait_status;

    int jobs; /* Number of joins: a program may call weft_init() again after weft_finalize(). */
    bool joined;
    pid_t program;     /* Process that joined: not `pid` when `pid` is a shell. */
    int program_pidfd; /* pidfd of `program` when that is not `pid`, else -1 */
    bool program_gone; /* `program` ended before the launcher could watch it */
    bool end_sent;
    bool lost;           /* Its host was lost: its exit status is unknown. */
    uint64_t cut_off_ns; /* Time at which its connection was found closed while it was in the job;
                            0: not closed. */

    struct run_source streams[2]; /* stdout, stderr */
};

/* Destination of prefixed lines. */
struct run_sink {
    int fd;
    char *data;
    size_t used;
    size_t size;
    bool is_file;
    bool broken; /* the reader has closed it */
    bool waits;  /* waits until the destination is writable */
};

enum run_phase {
    RUN_WORKING,
    RUN_NOTIFIED,            /* PEs that are connected have received the reason why the job ends */
    RUN_UNJOINED_TERMINATED, /* PEs that have not joined have been sent SIGTERM */
    RUN_TERMINATED,
    RUN_KILLED,
};

struct run_host;
struct run_agent;

/* The agents of a job over several hosts. */
struct run_hosts {
    struct run_host *list; /* at the launcher all hosts, at an agent those below it; NULL: none */
    int count;
    int children;       /* hosts whose agents are children of this process */
    int levels;         /* levels of agents below this process */
    struct wire *wires; /* [list[i].member]: connection to the agent of list[i] */
    uint64_t end_ns;    /* Time by which the agents must have ended; 0: not yet asked to end. */
    struct run_hosts_start *start; /* NULL: no agents are being started */
    struct rlimit files; /* the limit of open files before it was raised, for remote shells */
};

/* How the job ends, and why. */
struct run_ending {
    enum run_phase phase;
    uint64_t phase_ends_ns;
    int result;       /* exit status of weft run, -1 while undecided */
    int culprit;      /* PE whose exit status becomes `result`, or -1 */
    int requested_by; /* signal by which the user asked the job to end, or 0 */
    weft_status status;
    char sentence[512];
    struct { /* A reason to end that waits for a dying PE, which may be the real cause. */
        uint64_t until_ns; /* Time at which the wait ends; 0: no reason waits. */
        int pe, result;
        weft_status status;
        char sentence[512];
    } postponed;
    bool some_dying;          /* an agent reported a dying PE on its host */
    bool some_cut_off;        /* cut_off_ns is set for some PE */
    uint64_t next_reaping_ns; /* time of the next reaping of orphans */
    int linger_ms;            /* time left for finding PEs that continue as daemons, in ms */
};

/* Standard input of the launcher, for PE 0. */
struct run_input {
    bool relay;
    bool terminal;
    bool watched;
    uint64_t again_ns; /* time of the next attempt to read; 0: none */
    size_t used;
    char data[4096];
    int pipe; /* writing end of PE 0's standard input when the launcher relays the terminal */
};

/* The process that ends the PEs when the launcher has died. */
struct run_guard {
    pid_t pid;
    int pipe;
    pid_t *groups; /* Process groups that it kills, in memory shared with it. */
};

struct run {
    struct run_options options;
    struct run_pe *pes; /* The PEs, followed by one entry for the streams of each host. */
    int first;          /* Number of the first PE here; not 0 on other hosts. */
    int all;            /* PEs of the whole job */
    int started;
    int sources; /* number of entries of `pes` whose streams are read here */
    struct run_hosts hosts;
    struct run_agent *agent; /* set when this `weft run` is an agent; else NULL */
    int alive;

    int epoll;
    int signals; /* signalfd */
    bool pipe_was_ignored;
    sigset_t old_mask; /* signal mask of the PEs */

    struct hub hub;  /* Hub of the job. Its wires are the launcher's ends of the PEs' sockets. */
    bool retry_soon; /* Sending failed for lack of kernel memory or because too many descriptors are
                        in flight. */
    uint64_t started_ns;
    struct run_ending ending;
    struct run_sink sinks[2];
    struct run_input input;
    char mark[96]; /* environment entry that marks every process of this job */
    struct run_guard guard;
};

/* Whether the PEs of run->pes run on other hosts, under agents. */
static inline bool run_is_remote(const struct run *run)
{
    return run->hosts.list && !run->agent;
}

/* Source of an event of the loop. The lower half of the epoll data is the number of a PE, stream
 * or sink. */
enum run_event {
    RUN_EVENT_SIGNAL,
    RUN_EVENT_EXIT,
    RUN_EVENT_SOCKET,
    RUN_EVENT_PROGRAM,
    RUN_EVENT_SOURCE, /* number: 2 * pe + stream */
    RUN_EVENT_SINK,
    RUN_EVENT_STDIN,
    RUN_EVENT_HOST,      /* its agent has sent a frame */
    RUN_EVENT_HOST_EXIT, /* its remote shell has ended */
    RUN_EVENT_LAUNCHER,  /* the launcher has sent a frame to this agent */
};

/* run.c */
int run_watch(struct run *run, int fd, uint32_t events, enum run_event event, int number);
void run_rewatch(struct run *run, int fd, uint32_t events, enum run_event event, int number);
void run_unwatch(struct run *run, int fd);

int run_loop(struct run *run); /* Runs until the job has ended; returns the exit status. */
bool run_prepare(struct run *run);
/* Sets the command name that run_say() prints first; the default is "weft run". */
void run_say_as(const char *command);
void run_be_quiet(bool quiet); /* run_say() prints nothing: a simulated job */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *run_pe_name(const struct run *run, int pe); /* "PE 3 (pid 1234)" */

/* hosts_start.c: the children of the launcher, or of an agent of a job over several hosts */
/* Starts and connects the agents on all hosts below. False: this process has reported which host
 * failed, or an agent has reported it to its parent. */
bool run_hosts_connect(struct run *run);

/* hosts.c */
bool run_hosts_start(struct run *run); /* starts the PEs of all hosts */
void run_hosts_signal(struct run *run, int pe, int number);
void run_hosts_relay(void *run, int pe, enum frame_type type, int number, const void *payload,
                     size_t bytes);
void run_hosts_serve(struct run *run, int host, uint32_t events);
void run_hosts_exited(struct run *run, int host);
bool run_hosts_wait(struct run *run); /* True when every PE has ended and children still run. */
void run_hosts_by_time(struct run *run, uint64_t now);
void run_hosts_close(struct run *run);
void run_hosts_abandon(struct run *run); /* an agent has lost its parent: closes its connections */
/* Sends a frame to the child through which host `index` is reached. */
void run_hosts_send(struct run *run, int index, int type, int number, const void *payload,
                    size_t bytes);
const char *run_host_of(const struct run *run, int pe);

/* agent.c: one host of such a job */
int run_agent_main(struct run *run); /* returns the exit status */
void run_agent_serve(struct run *run, int pe);
void run_agent_exited(struct run *run, int pe);
void run_agent_program_ended(struct run *run, int pe);
void run_agent_receive(struct run *run, uint32_t events);
/* Handles a frame of a child whose agent is that of host `index`. */
void run_agent_pass(struct run *run, int index, struct wire_frame *frame);
/* Sends a frame to the parent. */
void run_agent_report(struct run *run, int type, int number, const void *payload, size_t bytes);
weft_status run_agent_check_parent(struct run *run); /* while the hosts below are connected */
void run_agent_send_parts(struct run *run);       /* sends the parts of an exchange that it holds */
uint64_t run_agent_due_ns(const struct run *run); /* time by which it must do so */

/* options.c */
bool run_parse_options(struct run_options *options, int argc, char **argv); /* false: no memory */

/* end.c */

/* Ends the job because of PE `pe` (or -1): the other PEs get `sentence`, then SIGTERM, then
 * SIGKILL. result: the exit status of weft run, or -1 when the exit status of that PE decides. */
void run_end(struct run *run, int pe, weft_status status, int result, const char *sentence);

/* As run_end(), without a wait for another PE whose death may be the cause. */
void run_begin_end(struct run *run, int pe, weft_status status, int result, const char *sentence);

void run_find_exits(struct run *run);  /* a PE may have ended: judges those that have */
void run_judge_exits(struct run *run); /* judges the PEs that are `to_judge` */

/* The user asks the job to end by this signal, which the PEs get. After a second request they
 * get SIGKILL at once. */
void run_request_end(struct run *run, int number);
void run_signal_all(struct run *run, int number);

uint64_t run_end_due_ns(const struct run *run,
                        uint64_t now); /* time of the next run_end_by_time() */
void run_end_by_time(struct run *run, uint64_t now);

/* Ends the job for the postponed reason when the dying PE has ended or takes too long. now: ends
 * it in any case. */
void run_end_postponed(struct run *run, bool now);

/* After all PEs have ended: ends processes left in their process groups and reaps them. */
void run_clean_up(struct run *run);

/* orphans.c */
bool run_become_subreaper(void); /* makes this process the subreaper of orphans (prctl(2)) */
pid_t run_find_detached(struct run *run, int pe); /* the process that continues as this PE, or 0 */
void run_reap_orphans(struct run *run);           /* reaps orphans that have ended */
void run_end_orphans(
    struct run *run); /* ends all orphans, after all PEs have ended and are reaped */
void run_kill_marked(const char *mark); /* kills every process with this mark; used by the guard */
bool run_is_dying(pid_t pid);           /* the process is exiting or writes a core dump */

bool run_another_is_dying(const struct run *run,
                          int pe); /* a PE of this machine other than `pe` is dying */

/* proc.c: translates between a pid of this PID namespace and its number in /proc. 0:
 * unknown, or not in this namespace. */
pid_t run_proc_number(pid_t pid);
pid_t run_proc_pid(pid_t number);

/* start.c */
int run_find_program(const char *name,
                     char **path); /* Returns 0, or 126 or 127 after reporting why. */
bool run_start_guard(struct run *run);
void run_stop_guard(struct run *run);
bool run_start_pes(struct run *run, const char *path);
/* Raises the limit of open files as far as possible: the launcher needs up to three descriptors for
 * a PE, and four for a host. *given: the limit before, which PEs and remote shells get. */
void run_raise_descriptor_limit(struct rlimit *given);

/* server.c */
void run_serve(struct run *run, int pe);        /* the PE's socket is readable */
void run_flush_socket(struct run *run, int pe); /* the PE's socket may be writable again */
void run_program_ended(struct run *run, int pe);
void run_send_end(struct run *run, int pe);
void run_retry_sending(struct run *run);
void run_close_socket(struct run *run, int pe);
void run_watch_program(struct run *run, int pe);
void run_unwatch_program(struct run *run, int pe);
bool run_open_hub(struct run *run); /* false: no memory */
void run_close_hub(struct run *run);

/* streams.c */
void run_start_stdin(struct run *run);
void run_relay_stdin(
    struct run *run); /* standard input is readable, or stdin_again_ns has passed */
void run_end_stdin(struct run *run);
void run_open_sinks(struct run *run);
void run_read_source(struct run *run, int pe, int stream);
void run_flush_sink(struct run *run, int sink);
void run_drain_output(struct run *run); /* reads the remaining output after all PEs have ended */

#endif
