/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder: the opening function of each method of starting, and
 * functions that all methods need. Other folders include boot.h instead. */
#ifndef WEFT_BOOT_METHODS_H
#define WEFT_BOOT_METHODS_H

#include "boot/boot.h"

#include <stdatomic.h>

weft_status boot_open_single(struct boot **boot);
weft_status boot_open_launcher(struct boot **boot);
weft_status boot_open_tcp(struct boot **boot);
weft_status boot_open_pmix(struct boot **boot);
weft_status boot_open_group(struct boot **boot, weft_group *group, int pe);

/* Bytes that each PE exchanges in boot_find_nodes(). */
size_t boot_node_record_bytes(void);

enum { BOOT_MOST_LAUNCHED = 16384 }; /* largest number of PEs of one `weft run` */

/* Whether `weft run` started this process. */
bool boot_launcher_known(void);

/* Whether RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all set. */
bool boot_tcp_known(void);

/* Whether the launcher provides PMIx. */
bool boot_pmix_known(void);

/* Connects the PEs of this node over abstract AF_UNIX sockets, so that they can pass descriptors;
 * the first of them is the hub. Needs a working allgather and the node tables. Collective over the
 * job. */
struct member;
weft_status boot_local_connect(struct boot *boot, struct member *node);

/* Operation share_fd of a method that passes descriptors over these connections; `from` is a PE. */
weft_status boot_local_share(struct boot *boot, struct member *node, int from, int fd, int *taken);

/* Sets the fields that all methods have; one of the next two functions fills the node tables. */
void boot_set(struct boot *boot, const struct boot_ops *ops, int pe, int npes);

/* Fills the node tables without an exchange: all PEs share this kernel and can pass each other
 * descriptors. */
weft_status boot_one_node(struct boot *boot);

/* Frees what boot_set(), boot_one_node() and boot_find_nodes() allocated, but not `boot` itself. */
void boot_unset(struct boot *boot);

/* WEFT_WAIT_LIMIT as a count-down. Time in which the process was stopped (Ctrl-Z, a debugger) does
 * not count: each wait is divided into slices, and no slice counts for more than its length. */
struct boot_limit {
    uint64_t left_ns;
    bool endless;
    bool interrupted; /* the program's check has ended a wait (base/interrupt.h) */
};

/* Why a wait below returned false: WEFT_ERR_TIMEOUT, or WEFT_ERR_INTERRUPTED, whose sentence is the
 * last error. */
static inline weft_status boot_limit_status(const struct boot_limit *limit)
{
    return limit->interrupted ? WEFT_ERR_INTERRUPTED : WEFT_ERR_TIMEOUT;
}

struct boot_limit boot_limit_start(void);

/* The smaller of WEFT_BOOT_LIMIT and WEFT_WAIT_LIMIT, for PEs that are still connecting.
 * BOOT_LIMIT_NAMES is for sentences. */
struct boot_limit boot_limit_join(void);
#define BOOT_LIMIT_NAMES "WEFT_BOOT_LIMIT (or WEFT_WAIT_LIMIT where that is less)"

/* Waits 1 ms, where there is no event to wait for. Returns false when the limit has passed or the
 * program's check has ended the wait. */
bool boot_limit_pause(struct boot_limit *limit);

/* Waits until fd is ready for `events` (poll). Returns false when the limit passed first or the
 * program's check has ended the wait. */
bool boot_limit_poll(struct boot_limit *limit, int fd, short events);

#endif
