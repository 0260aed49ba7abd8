/* SPDX-License-Identifier: Apache-2.0 */
/* By which way a collective on GPU memory would go, as the library chooses for the world of so many
 * PEs whose GPUs reach each other, with WEFT_COLL and WEFT_COLL_SMS as they are. Starts no job. */
#ifndef WEFT_TOOL_COLL_WAY_H
#define WEFT_TOOL_COLL_WAY_H

#include <stdbool.h>
#include <stdint.h>

enum { TOOL_COLL_WAYS = 7, TOOL_COLL_MEMBERS = 64 };

struct tool_coll_way {
    const char *name;
    double us; /* by the library's model; negative: it cannot serve */
    bool taken;
};

struct tool_coll_answer {
    const char *operation;
    bool blocks_each;   /* the bytes are those of a block from or for each PE */
    bool sized;         /* sizes differ, and are exchanged first: there is one way */
    bool sized_scratch; /* through memory of the team, as where others do not reach destinations */
    struct tool_coll_way ways[TOOL_COLL_WAYS];
    const char *wish; /* the way that WEFT_COLL asks for, or NULL */
    bool wish_taken;
    bool copies; /* WEFT_COLL=copies: no kernel runs at all */
    unsigned blocks, threads, chunks;
    bool engines;         /* copies by engines were taken */
    bool handed_on;       /* the root's slices, by the others, through scratch or by engines */
    uint64_t round_bytes; /* that one round takes */
    double floor_us;      /* the least that any way could take, with these rates */
    char rates[1200];     /* from where they are, see tool_coll_rates_here() */
    char estimates[600];  /* those among them that were not measured, or "none" */
};

/* False: there is no such operation. */
bool tool_coll_way(const char *operation, uint64_t bytes, int members,
                   struct tool_coll_answer *answer);

/* The name of operation i from 0 on, NULL behind the last. */
const char *tool_coll_operation(int i);

#endif
