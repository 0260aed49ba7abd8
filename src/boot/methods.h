/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this room: one opener per method of starting, and the few things that all
 * of them need. Not for other rooms; those include boot.h. */
#ifndef WEFT_BOOT_METHODS_H
#define WEFT_BOOT_METHODS_H

#include "boot/boot.h"

#include <stdatomic.h>

weft_status boot_open_single(struct boot **boot);
weft_status boot_open_launcher(struct boot **boot);
weft_status boot_open_tcp(struct boot **boot);
weft_status boot_open_pmix(struct boot **boot);
weft_status boot_open_group(struct boot **boot, weft_group *group, int pe);

enum { BOOT_MOST_LAUNCHED = 4096 }; /* PEs of one `weft run` */

/* Whether this process was started by `weft run`. */
bool boot_launcher_known(void);

/* Whether RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all set. */
bool boot_tcp_known(void);

/* Whether the launcher speaks PMIx. */
bool boot_pmix_known(void);

/* Connects the PEs of this node over abstract AF_UNIX sockets, so that they can pass descriptors;
 * the first of them is the hub. Needs a working allgather and the node tables; collective over the
 * job. */
struct member;
weft_status boot_local_connect(struct boot *boot, struct member *node);

/* The boot operation of a PE whose descriptors travel over these connections: `from` is a PE. */
weft_status boot_local_share(struct boot *boot, struct member *node, int from, int fd, int *taken);

/* Sets what all methods have in common; the node tables are filled by one of the two below. */
void boot_set(struct boot *boot, const struct boot_ops *ops, int pe, int npes);

/* All PEs share this kernel and can pass each other descriptors: no exchange is needed. */
weft_status boot_one_node(struct boot *boot);

/* Frees what boot_set(), boot_one_node() and boot_find_nodes() made; not the structure. */
void boot_unset(struct boot *boot);

/* WEFT_WAIT_LIMIT as a count-down. Time in which the process was stopped (Ctrl-Z, a debugger)
 * does not count, because each wait is cut into slices and no slice counts for more than its
 * length. */
struct boot_limit {
    uint64_t left_ns;
    bool endless;
};

struct boot_limit boot_limit_start(void);

/* The lesser of WEFT_BOOT_LIMIT and WEFT_WAIT_LIMIT: for PEs that look for each other.
 * BOOT_LIMIT_NAMES is for sentences. */
struct boot_limit boot_limit_join(void);
#define BOOT_LIMIT_NAMES "WEFT_BOOT_LIMIT (or WEFT_WAIT_LIMIT where that is less)"

/* Waits a millisecond, where nothing can be waited for; false when the limit has passed. */
bool boot_limit_pause(struct boot_limit *limit);

/* Waits until fd is ready for `events` (poll); false when the limit passed first. */
bool boot_limit_poll(struct boot_limit *limit, int fd, short events);

#endif
