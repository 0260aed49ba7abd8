/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the ways of gpu/coll/kernels.cu a collective on GPU memory takes, and with how many
 * blocks, or whether the copy engines move its bytes: a pure function of what is the same at every
 * member, since all must choose alike: the question, and the rates (coll_rates.h) that the members
 * have agreed on. */
#ifndef WEFT_OPS_COLL_CHOOSE_H
#define WEFT_OPS_COLL_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/coll/rates.h"

enum coll_what {
    COLL_BROADCAST,
    COLL_FCOLLECT,
    COLL_ALLTOALL,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_REDUCE,
    COLL_REDUCESCATTER,
    COLL_REDUCE_TO, /* one member, the root */
    COLL_COLLECT,   /* the sizes differ, and no host knows them all */
    COLL_ALLTOALLV,
    COLL_WHATS
};

static inline bool coll_reduces(enum coll_what what)
{
    return what == COLL_REDUCE || what == COLL_REDUCESCATTER || what == COLL_REDUCE_TO;
}

enum coll_way {
    COLL_WAY_AUTO, /* of a wish: whichever is the fastest */
    COLL_WAY_PACKETS,
    COLL_WAY_TWO_TRIPS,
    COLL_WAY_LINES,
    COLL_WAY_TWO_LINES,
    COLL_WAY_DIRECT,
    COLL_WAY_SCRATCH, /* through the team's own memory, where others cannot store into the
                         destination */
    COLL_WAY_ENGINES,
    COLL_WAY_COPIES, /* of WEFT_COLL: no kernels, and no choice here */
};

struct coll_question {
    enum coll_what what;
    int members;
    uint64_t bytes;     /* of the vector, or of a block */
    uint64_t set_bytes; /* of the team's slots for packets */
    bool strided;       /* elements lie apart: nothing for copy engines and lines */
    bool direct;        /* others may store to the destination, and load what they combine */
    int most_blocks;    /* 1 ... 64; 0: copy engines where they can serve, else one block */
    enum coll_way wish;
    bool lines;   /* proven between all members, and elements have at most 8 bytes */
    bool checked; /* members are compared first, which copy engines would not wait for */
};

struct coll_choice {
    enum coll_way way;
    uint64_t bytes; /* that one round takes; less than asked for: several rounds */
    unsigned blocks, threads;
    uint32_t chunks; /* of a broadcast from hand to hand, 0: it goes straight to all */
    int phases; /* of copies by engines and through scratch: 2: the root's slices are handed on; 0:
                   another way */
    double us;  /* by the model, in a graph */
};

struct coll_choice coll_choose(const struct coll_question *q, const struct coll_rates *rates);

/* What a way costs by the model, in microseconds in a graph; negative: it cannot serve. */
double coll_cost(const struct coll_question *q, const struct coll_rates *rates, enum coll_way way);

/* The least that any way could take: the bytes that have to leave or reach the busiest GPU, at the
 * link's rate, and a flag there and back. */
double coll_floor(const struct coll_question *q, const struct coll_rates *rates);

/* Bytes of payload that have to leave or reach the busiest GPU, whatever the way. */
double coll_least_bytes(const struct coll_question *q);

/* 10^9 bytes a second out of a GPU, by stores or by copy engines, whichever are faster. */
double coll_link_gbps(const struct coll_rates *rates);

/* A flag there and back. */
double coll_flag_us(const struct coll_rates *rates);

const char *coll_way_name(enum coll_way way);

/* The most blocks under a limit of SMs, which is not negative. */
int coll_blocks_of(int64_t sms);

#endif
