/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL communicators of processes (libweft-nccl.so), read from their memory without their help.
 * The data is not trusted: numbers are bounded, text is made printable. */
#ifndef WEFT_TOOL_COMMUNICATORS_H
#define WEFT_TOOL_COMMUNICATORS_H

#include <stdint.h>

/* The first COMMUNICATORS_COLLECTIVES functions are collectives. */
enum { COMMUNICATORS_FUNCTIONS = 12, COMMUNICATORS_COLLECTIVES = 8 };

/* One rank of a communicator. */
struct communicator {
    int pid, rank, size;
    int device;        /* of CUDA; -1: not known yet */
    uint64_t hash;     /* the same at all ranks */
    const char *state; /* "ready" */
    uint64_t calls[COMMUNICATORS_FUNCTIONS];
    char name[64], failure[256]; /* "" for none */
};

struct communicators {
    int count;
    struct communicator *ranks; /* by hash and rank */
};

/* Reads those of `n` processes; without memory fewer than there are. */
void communicators_read(const int *pids, int n, struct communicators *all);
void communicators_free(struct communicators *all);

/* Adds those of a table of `bytes` bytes. Also for tests. */
void communicators_decode(const void *table, uint64_t bytes, int pid, struct communicators *all);

/* "AllReduce" */
const char *communicators_function(int function);

/* How many calls of a collective rank `i` is behind another rank that was read. */
uint64_t communicators_behind(const struct communicators *all, int i, int function);

#endif
