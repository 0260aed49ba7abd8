/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a log that NCCL writes with NCCL_DEBUG=INFO and finds the lines that name a slow path. Pure
 * functions of the text; the log may come from several processes and hosts, in any order. */
#ifndef WEFT_MACHINE_NCCL_LOG_H
#define WEFT_MACHINE_NCCL_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "machine/reasons.h"

enum nccl_transport {
    NCCL_P2P,
    NCCL_SHM,
    NCCL_NET_RDMA, /* NET/... with GDRDMA */
    NCCL_NET_HOST, /* NET/... but Socket, without GDRDMA */
    NCCL_NET_SOCKET,
    NCCL_TRANSPORTS
};

/* "P2P", "SHM", "NET with GPUDirect RDMA", ... */
extern const char *const nccl_transport_names[NCCL_TRANSPORTS];

/* One cause, at all lines that have it. */
struct nccl_finding {
    enum reason reason;
    enum weight weight; /* WEIGHT_SLOW: a slow path; WEIGHT_NOTE: no channel of the log shows one */
    int count;          /* channels; of other lines than channels: lines */
    bool channels;      /* `count` is a number of channels */
    int receives;       /* of NET channels: lines of the receiver */
    long line;          /* number of the first line, from 1 */
    char text[160];     /* that line, from behind "NCCL INFO" on */
    const char *why;    /* what the variable of NCCL-ENV does; NULL */
};

enum { NCCL_FINDINGS = 48, NCCL_HOSTS = 1024, NCCL_RANKS = 65536 };

struct nccl_log {
    char version[48]; /* "2.27.3+cuda12.9"; "" when no line has it */
    long lines;       /* of the text */
    long own_lines;   /* of these, lines of NCCL */
    int hosts, ranks; /* number of hosts that wrote lines; size of the largest communicator */
    int channels[NCCL_TRANSPORTS];
    struct nccl_finding list[NCCL_FINDINGS]; /* what is slow first, channels before other lines */
    int n, faults;                           /* faults: findings of WEIGHT_SLOW */
};

/* False when the text has no line of NCCL: `lines` is set all the same. */
bool nccl_log_read(const char *text, size_t length, struct nccl_log *log);

#endif
