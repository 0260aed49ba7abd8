/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm that the library would choose for a collective on GPU memory: for a world of a
 * given number of PEs with peer access between their GPUs, and the current WEFT_COLL and
 * WEFT_COLL_SMS. Starts no job. */
#ifndef WEFT_TOOL_COLL_WAY_H
#define WEFT_TOOL_COLL_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOOL_COLL_WAYS = 7, TOOL_COLL_MEMBERS = 64 };

struct tool_coll_way {
    const char *name;
    double us; /* time that the model predicts; negative: it cannot run this */
    bool taken;
};

struct tool_coll_answer {
    const char *operation;
    bool blocks_each;   /* `bytes` is the size of a block from or for each PE */
    bool sized;         /* block sizes differ and are exchanged first: there is one algorithm */
    bool sized_scratch; /* staged in memory of the team, as when peers cannot access destinations */
    struct tool_coll_way ways[TOOL_COLL_WAYS];
    const char *wish;                 /* the algorithm that WEFT_COLL names, or NULL */
    bool wish_taken;                  /* it is the chosen one */
    bool copies;                      /* WEFT_COLL=copies: no kernel runs */
    unsigned blocks, threads, chunks; /* shape of the kernel */
    bool engines;                     /* copy engines were chosen */
    bool handed_on;                   /* peers forward slices of the root, staged or by engines */
    uint64_t round_bytes;             /* bytes of one round */
    double floor_us;                  /* lowest time of any algorithm with these rates */
    char rates[1200];                 /* origin of the rates, see tool_coll_rates_here() */
    char estimates[600];              /* rates that were not measured, or "none" */
};

/* Fills *answer. False: there is no such operation. */
bool tool_coll_way(const char *operation, uint64_t bytes, int members,
                   struct tool_coll_answer *answer);

/* Name of operation i, from 0 on; NULL after the last. */
const char *tool_coll_operation(int i);

/* Name of an operation that version 0.1 called `name`, of which `length` characters count; NULL if
 * there is none. */
const char *tool_coll_renamed(const char *name, size_t length);

#endif
