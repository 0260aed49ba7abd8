/* SPDX-License-Identifier: Apache-2.0 */
/* How PEs find each other: one small interface over the launcher's socket, PMIx, the torchrun
 * variables, PEs as threads, and a job of one. Knows nothing of memory, paths or operations. */
#ifndef WEFT_BOOT_BOOT_H
#define WEFT_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

struct boot;

enum { BOOT_HOST_BYTES = 64 };

/* One file per way of starting. Every wait inside is bounded by WEFT_WAIT_LIMIT and ends with
 * WEFT_ERR_TIMEOUT, or with WEFT_ERR_PEER_DEAD / WEFT_ERR_BOOT when the other side is gone. */
struct boot_ops {
    const char *name;

    /* Gathers `bytes` from each PE, in PE order, at every PE (all: npes * bytes). Collective; the
     * same size everywhere. It is at the same time a barrier. */
    weft_status (*allgather)(struct boot *boot, const void *mine, void *all, size_t bytes);

    weft_status (*barrier)(struct boot *boot);

    /* Gives a descriptor of this PE (fd >= 0 at PE `from`, ignored elsewhere) to every PE of the
     * node: *taken is this PE's own duplicate (close-on-exec). Collective over the PEs of the node.
     * Only a process of the same user that belongs to the job can receive it. */
    weft_status (*share_fd)(struct boot *boot, int from, int fd, int *taken);

    /* Tells everybody who can hear it that the job ends with `code` (weft_abort). */
    void (*abort)(struct boot *boot, int code, const char *sentence);

    /* Tells everybody who can hear it why this PE cannot go on, before it leaves: else they would
     * find out only that it has left. `sentence` may be the last error. */
    void (*fail)(struct boot *boot, weft_status why, const char *sentence);

    /* Polled now and then by waiting PEs: WEFT_OK, or why the job must end (a PE died and how, or
     * somebody aborted). Does not block, needs at most one system call. Thread-safe. */
    weft_status (*check)(struct boot *boot);

    /* In a child of fork(), in its handler: closes the child's copies of descriptors, so that the
     * child does not keep connections of its parent open. Says nothing to anybody. */
    void (*forked)(struct boot *boot);

    /* clean: after a successful finalize; the launcher is told so. */
    void (*close)(struct boot *boot, bool clean);
};

struct boot {
    const struct boot_ops *ops;
    int pe;
    int npes;
    int local_pe; /* rank among the PEs that share this kernel, in PE order */
    int local_npes;
    int *local_pes; /* their PE numbers, ascending; local_pes[local_pe] == pe */
    int *node_of;   /* node number of every PE; nodes are numbered by first appearance */
    int nodes;
    char (*hosts)[BOOT_HOST_BYTES]; /* name of each node's host; NULL where all share one node */
    /* PEs that are threads of one process share mappings instead of descriptors: non-NULL slot in
     * which the first local PE leaves pointers for the others between two barriers. */
    void **shared_slot;
};

/* Finds out how this process was started (WEFT_BOOT, or: the launcher's socket, PMIx, RANK and
 * WORLD_SIZE; else a job of one PE) and meets the others. group: PEs as threads, else NULL. */
weft_status boot_open(struct boot **boot, weft_group *group, int group_pe);

/* The same, where the program says who this PE is and where the others are
 * (weft_unique_id_get()). */
weft_status boot_open_id(struct boot **boot, const weft_unique_id *id, int pe, int npes);

/* `weft run`, or a launcher that speaks PMIx, has started this process. */
bool boot_was_launched(void);

/* PEs as threads: weft_group_create() and weft_group_destroy(). */
weft_status boot_group_create(int n, weft_group **group);
void boot_group_destroy(weft_group *group);

/* Fills local_pe ... nodes from an identity that is equal on one kernel and in one namespace
 * (boot id and more); used by every implementation after allgather works. */
weft_status boot_find_nodes(struct boot *boot);

/* " on HOST" for sentences about a PE, or "" where the job has one node. */
struct boot_where {
    char text[BOOT_HOST_BYTES + 8];
};
struct boot_where boot_where(const struct boot *boot, int pe);

#endif
