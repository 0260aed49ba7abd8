/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run --hosts`. The launcher is the hub of the job and starts one agent per host through a
 * remote shell (ssh). Each agent is a `weft run` that starts the PEs of its host and follows the
 * launcher's frames. They communicate over TCP in frames whose tags authenticate both sides by
 * the secret of the job. An agent reads its setup, with the secret, from its standard input; the
 * rest of that stream is the standard input of PE 0. Its standard output and error are those of
 * its PEs. */
#ifndef WEFT_CLI_RUN_HOSTS_H
#define WEFT_CLI_RUN_HOSTS_H

#include "run/run.h"

/* Exit status of an agent that lost its connection to the launcher. */
enum { HOST_EXIT_LOST = 96 };

enum run_host_frame {
    /* from the launcher */
    HOST_GO = 1, /* start the PEs */
    HOST_SIGNAL, /* number: a signal; payload: int32_t, the PE that gets it */
    HOST_FINISH, /* every PE of the job has ended: the agent ends their remaining processes and
                    exits */
    /* from an agent */
    HOST_STARTED, /* payload: int32_t pids of its PEs */
    HOST_REFUSED, /* number: an exit status. Not every PE could be started; the agent has reported
                     why. */
    HOST_EXITED,  /* number: a PE; payload: int32_t, its wait status */
    HOST_LOST,    /* number: a PE that has closed its connection */
    HOST_PROGRAM_ENDED, /* number: a PE whose program has ended while the process that was started
                           runs */
    HOST_DONE,          /* nothing is left on this host */
    /* Both directions: a frame of hub.h from or to a PE. Payload: struct host_relay, then the
     * payload of that frame. */
    HOST_RELAY,
};

enum { HOST_EVERY_PE = -1 };

struct host_relay {
    int32_t pe; /* from the launcher also HOST_EVERY_PE: all PEs of the host */
    uint32_t type;
    int32_t number;
    int32_t sender; /* the process that sent it */
    int32_t dying;  /* another PE of the host was dying */
};

struct run_host {
    char *name;        /* as given by the user, perhaps user@host */
    const char *label; /* the name without the user */
    char address[96];  /* address from which its agent connected */
    char *rsh;         /* remote shell command, for messages */
    int first, count;  /* its first PE and its number of PEs */
    pid_t pid;         /* remote shell, which leads its process group; 0: it has ended */
    int pidfd;
    int stdin_end;  /* writing end of the remote shell's standard input, or -1 */
    bool finishing; /* HOST_FINISH was sent */
    bool done;      /* HOST_DONE was received */
    bool lost;
};

/* State of an agent besides struct run_options and the environment. */
struct run_agent {
    struct wire up; /* connection to the launcher */
    bool go, finish, up_lost;
    char host[64];
    int first, npes; /* first PE of this host in the job; number of its PEs */
    /* from the setup: */
    int index, hosts;
    char *secret, *job, *directory;
    struct rendezvous_address *addresses;
    int address_count;
    char **strings; /* memory that the pointers above point into */
};

/* hostlist.c */

/* Parses hosts and their numbers of PEs, such as "a:2,n[01-03,7]:2". False: it has reported why. */
bool run_parse_hosts(struct run_options *options, const char *text);
bool run_parse_hostfile(struct run_options *options, const char *path);
bool run_distribute_pes(struct run_options *options);

/* setup.c */

/* Returns the setup text for the agent of host `index`; NULL: no memory. */
char *run_setup_write(const struct run *run, int index, const char *secret, const char *job,
                      const struct rendezvous_address *addresses, int count, size_t *bytes);

/* Reads the setup from standard input and sets options, agent and environment. */
bool run_setup_read(struct run_options *options, struct run_agent *agent);

#endif
