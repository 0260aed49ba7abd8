/* SPDX-License-Identifier: Apache-2.0 */
/* `weft run --hosts`. The launcher is the hub of the job. One agent per host, a `weft run` that
 * starts the PEs of its host, follows the launcher's frames. The agents are a tree (tree.c): the
 * launcher and each agent start their children through a remote shell (ssh), and forward frames
 * between them and the launcher. Parent and child communicate over TCP in frames whose tags
 * authenticate both sides by the secret of the job. An agent reads its setup, with the secret, from
 * its standard input; the rest of that stream is the standard input of PE 0. Its standard output
 * and error are those of its PEs and of the agents below it. */
#ifndef WEFT_CLI_RUN_HOSTS_H
#define WEFT_CLI_RUN_HOSTS_H

#include "run/run.h"

/* Exit status of an agent that lost its connection to the launcher. */
enum { HOST_EXIT_LOST = 96 };

enum run_host_frame {
    /* from the launcher, forwarded to the agents below */
    HOST_GO = 1, /* start the PEs */
    HOST_SIGNAL, /* number: a signal; payload: int32_t, the PE that gets it */
    HOST_FINISH, /* every PE of the job has ended: the agent ends their remaining processes and
                    exits */
    /* from an agent; forwarded to the launcher, except HOST_DONE */
    HOST_STARTED,       /* number: a host; payload: int32_t pids of its PEs */
    HOST_REFUSED,       /* number: an exit status; payload: int32_t, a host. Not every PE could be
                           started there; its agent has reported why. */
    HOST_EXITED,        /* number: a PE; payload: int32_t, its wait status */
    HOST_LOST,          /* number: a PE that has closed its connection */
    HOST_PROGRAM_ENDED, /* number: a PE whose program has ended while the process that was started
                           runs */
    HOST_DONE,          /* nothing is left on this host and those below it */
    /* Both directions: a frame of hub.h from or to a PE. Payload: struct host_relay, then the
     * payload of that frame. */
    HOST_RELAY,
    /* from an agent with children */
    HOST_READY,     /* every host below it is connected */
    HOST_UNREACHED, /* not every host below it could be connected; payload: a sentence */
    HOST_GONE,      /* number: a host that is lost, with those below it; payload: host_loss */
    /* from any agent: parts of an exchange of consecutive PEs; payload: run_parts, then the parts
     */
    HOST_PARTS,
};

enum { HOST_EVERY_PE = -1 };

struct host_relay {
    int32_t pe; /* from the launcher also HOST_EVERY_PE: all PEs of the host */
    uint32_t type;
    int32_t number;
    int32_t sender; /* the process that sent it */
    int32_t dying;  /* another PE of the host was dying */
};

struct host_loss {
    char address[96];
    char why[HUB_MOST_SENTENCE];
};

struct run_parts {
    int32_t first, count; /* PEs */
    uint32_t bytes;       /* of each part */
};

struct run_host {
    int number;        /* in the list of the job's hosts */
    int below;         /* number of hosts below it in the tree, which follow it in the list */
    int via;           /* index of the child of this process through which it is reached */
    int member;        /* from 1: it is a child of this process, and this is its wire; else 0 */
    int npes;          /* of a child: PEs on it and on the hosts below it */
    char *name;        /* as given by the user, perhaps user@host */
    const char *label; /* the name without the user */
    char address[96];  /* address from which its agent connected */
    char *rsh;         /* remote shell command, for messages */
    int first, count;  /* its first PE and its number of PEs */
    pid_t pid;         /* remote shell, which leads its process group; 0: it has ended */
    int pidfd;
    int stdin_end;  /* writing end of the remote shell's standard input, or -1 */
    bool unreached; /* its agent has reported that a host below it was not reached */
    bool ready;     /* every host below it is connected */
    bool finishing; /* HOST_FINISH was sent */
    bool done;      /* HOST_DONE was received */
    bool lost;
};

/* Parts of an exchange that an agent has not sent to its parent yet. */
struct run_gather {
    int first, npes; /* the PEs on its host and on the hosts below it */
    char *data;      /* one part per PE; NULL: none is held */
    bool *held;      /* per PE */
    size_t bytes;    /* of each part */
    int count;       /* parts held */
    int passed;      /* parts of this exchange that were sent */
    uint64_t due_ns; /* time at which the parts that are held are sent */
};

/* State of an agent besides struct run_options and the environment. */
struct run_agent {
    struct wire up; /* connection to its parent */
    struct run_gather gather;
    bool go, finish, up_lost;
    char host[64];
    int first, npes; /* first PE of this host in the job; number of its PEs */
    /* from the setup: */
    int index;           /* number of its host in the job */
    int member, members; /* its number among its parent's children, from 1; their number, plus 1 */
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

/* tree.c */

enum { RUN_FAN_OUT = 32 }; /* children of a process, unless --fan-out says otherwise */

/* Sets below, via, member and npes of all hosts. Returns the number of children. */
int run_tree_plan(struct run_host *list, int count, int fan_out);
int run_tree_levels(int count, int fan_out); /* levels of agents below this process */

/* gather.c */

/* False: the part cannot be sent with those that are held (another size, a second part of that PE),
 * or there is no memory. */
bool run_gather_add(struct run_gather *gather, int pe, const void *part, size_t bytes);
bool run_gather_holds(const struct run_gather *gather, int pe);
bool run_gather_is_complete(const struct run_gather *gather);

/* Takes the next parts of consecutive PEs. *data is valid until the next call. */
bool run_gather_next(struct run_gather *gather, struct run_parts *parts, const char **data);
void run_gather_drop(struct run_gather *gather);

/* Reads HOST_PARTS of PEs among `first` and the npes - 1 after it. Returns the parts, or NULL. */
const char *run_parts_read(const struct wire_frame *frame, int first, int npes,
                           struct run_parts *parts);

/* hosts.c */

const char *run_describe_host(const struct run_host *host);   /* "host b (10.0.0.2)" */
struct wire *run_host_wire(const struct run *run, int index); /* NULL: it is not a child */
void run_describe_wait_status(int status, char *text, size_t size);
int run_host_with(const struct run *run, int pe); /* index of the host of a PE of the job */

/* setup.c */

/* Returns the setup text for the agent of host `index`; NULL: no memory. */
char *run_setup_write(const struct run *run, int index, const char *secret, const char *job,
                      const struct rendezvous_address *addresses, int count, size_t *bytes);

/* Reads the setup from standard input and sets options, agent and environment. */
bool run_setup_read(struct run_options *options, struct run_agent *agent);

#endif
