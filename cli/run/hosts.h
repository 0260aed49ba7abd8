/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run --hosts`: the launcher is the hub of the job and starts one agent per host by a remote
 * shell (ssh); each agent is a `weft run` that starts the PEs of its host and does what the
 * launcher says. They talk over TCP, in frames whose tags prove that both know the job's secret.
 * What an agent has to know, the secret too, it reads from its standard input; what follows there
 * is the standard input of PE 0. Its standard output and error are those of its PEs. */
#ifndef WEFT_CLI_RUN_HOSTS_H
#define WEFT_CLI_RUN_HOSTS_H

#include "run/run.h"

/* Exit status of an agent that has lost the launcher. */
enum { HOST_EXIT_LOST = 96 };

enum run_host_frame {
    /* from the launcher */
    HOST_GO = 1, /* start the PEs */
    HOST_SIGNAL, /* number: a signal, payload: int32_t, the PE that gets it */
    HOST_FINISH, /* every PE of the job has ended: end what they have left, and go */
    /* from an agent */
    HOST_STARTED,       /* payload: int32_t pids of its PEs */
    HOST_REFUSED,       /* number: an exit status: not every PE could be started; the agent has said
                         * why */
    HOST_EXITED,        /* number: a PE, payload: int32_t, its wait status */
    HOST_LOST,          /* number: a PE that has closed its connection */
    HOST_PROGRAM_ENDED, /* number: a PE whose program ended, although the process started has not */
    HOST_DONE,          /* nothing is left on this host */
    /* both ways: a frame of hub.h from or to a PE; payload: struct host_relay and the frame's
     * own */
    HOST_RELAY,
};

enum { HOST_EVERY_PE = -1 };

struct host_relay {
    int32_t pe; /* from the launcher also HOST_EVERY_PE, of this host */
    uint32_t type;
    int32_t number;
    int32_t sender; /* the process that sent it */
    int32_t dying;  /* another PE of the host was just dying */
};

struct run_host {
    char *name;        /* as it was given, perhaps with a user in front */
    const char *label; /* without */
    char address[96];  /* from where its agent has come */
    char *rsh;         /* the command that reaches it, for sentences */
    int first, count;  /* its PEs */
    pid_t pid;         /* of the remote shell, leader of its process group; 0: has ended */
    int pidfd;
    int stdin_end;  /* writing end of its standard input, or -1 */
    bool finishing; /* has been told HOST_FINISH */
    bool done;      /* has said HOST_DONE */
    bool lost;
};

/* What an agent was told, besides what goes into struct run_options and the environment. */
struct run_agent {
    struct wire up; /* to the launcher */
    bool go, finish, up_lost;
    char host[64];
    int first, npes; /* of its PEs, in the job */
    /* of the setup: */
    int index, hosts;
    char *secret, *job, *directory;
    struct rendezvous_address *addresses;
    int address_count;
    char **strings; /* what all of the above was cut from */
};

/* hostlist.c */

/* "a:2,n[01-03,7]:2": hosts and their numbers of PEs; npes: 0, or how many PEs there are in all.
 * false: said why not. */
bool run_parse_hosts(struct run_options *options, const char *text);
bool run_parse_hostfile(struct run_options *options, const char *path);
bool run_deal_pes(struct run_options *options);

/* setup.c */

/* The text for the agent of host `index`; NULL: no memory. */
char *run_setup_write(const struct run *run, int index, const char *secret, const char *job,
                      const struct rendezvous_address *addresses, int count, size_t *bytes);

/* Reads it from standard input; sets options, the agent and the environment. */
bool run_setup_read(struct run_options *options, struct run_agent *agent);

#endif
