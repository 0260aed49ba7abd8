/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs find each other: one interface over the launcher's socket, PMIx, the torchrun variables,
 * PEs as threads, and a job of one PE. Knows nothing of memory, paths or operations. */
#ifndef WEFT_BOOT_BOOT_H
#define WEFT_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

struct boot;

enum { BOOT_HOST_BYTES = 64 };

/* Operations of one method of starting; each method has a file. WEFT_WAIT_LIMIT bounds every wait,
 * which then returns WEFT_ERR_TIMEOUT. A wait returns WEFT_ERR_PEER_DEAD or WEFT_ERR_BOOT when the
 * PE or launcher that it waits for has ended. */
struct boot_ops {
    const char *name;

    /* Gathers `bytes` bytes from each PE, in PE order, at every PE (all: npes * bytes). Collective,
     * with the same size at every PE. It is also a barrier. */
    weft_status (*allgather)(struct boot *boot, const void *mine, void *all, size_t bytes);

    weft_status (*barrier)(struct boot *boot);

    /* Passes a descriptor of PE `from` (fd; ignored at other PEs) to every PE of the node: *taken
     * becomes this PE's own duplicate (close-on-exec). Collective over the PEs of the node. Only a
     * process of the same user that belongs to the job can receive it. */
    weft_status (*share_fd)(struct boot *boot, int from, int fd, int *taken);

    /* Reports to all PEs that can be reached that the job ends with `code` (weft_abort). */
    void (*abort)(struct boot *boot, int code, const char *sentence);

    /* Reports to all PEs that can be reached why this PE cannot continue, before it leaves;
     * otherwise they would only see that it has left. `sentence` may be the last error. */
    void (*fail)(struct boot *boot, weft_status why, const char *sentence);

    /* Waiting PEs poll it. Returns WEFT_OK, or why the job must end (a PE died, and how, or a PE
     * aborted). Does not block, and makes at most one system call. Thread-safe. */
    weft_status (*check)(struct boot *boot);

    /* Called in the fork handler of a child process: closes the child's copies of descriptors, so
     * that the child does not keep connections of its parent open. Sends nothing. */
    void (*forked)(struct boot *boot);

    /* clean: after a successful finalize; the launcher is informed of it. */
    void (*close)(struct boot *boot, bool clean);
};

struct boot {
    const struct boot_ops *ops;
    int pe;
    int npes;
    int local_pe; /* rank among the PEs of this node, in PE order */
    int local_npes;
    int *local_pes; /* PE numbers of the node's PEs, ascending; local_pes[local_pe] == pe */
    int *node_of;   /* node number of every PE; nodes are numbered by first appearance */
    int nodes;
    char (*hosts)[BOOT_HOST_BYTES]; /* host name of each node; NULL where all PEs share one node */
    /* For PEs that are threads of one process, which share mappings instead of descriptors: a slot
     * in which the first local PE stores pointers for the others, between two barriers. Else
     * NULL. */
    void **shared_slot;
};

/* Finds out how this process was started (WEFT_BOOT, or: the launcher's socket, PMIx, RANK and
 * WORLD_SIZE; else a job of one PE) and connects to the other PEs. group: PEs as threads, else
 * NULL. */
weft_status boot_open(struct boot **boot, weft_group *group, int group_pe);

/* The same for a program that passes its PE number and a unique id (weft_unique_id_get()). */
weft_status boot_open_id(struct boot **boot, const weft_unique_id *id, int pe, int npes);

/* Whether `weft run`, or a launcher with PMIx, has started this process. */
bool boot_was_launched(void);

/* PEs as threads: weft_group_create() and weft_group_destroy(). */
weft_status boot_group_create(int n, weft_group **group);
void boot_group_destroy(weft_group *group);

/* Fills local_pe ... nodes from an identity that is equal for PEs on one kernel and in one
 * namespace (boot id and others). Every method uses it once allgather works. */
weft_status boot_find_nodes(struct boot *boot);

/* " on HOST" for sentences about a PE; "" where the job has one node. */
struct boot_where {
    char text[BOOT_HOST_BYTES + 8];
};
struct boot_where boot_where(const struct boot *boot, int pe);

#endif
