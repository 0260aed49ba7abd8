/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the algorithm of a collective on GPU memory: one of the kernels of gpu/coll/kernels.cu
 * with a number of blocks, or the copy engines. All members must choose the same, so the choice is
 * a pure function of what is the same at every member: the arguments (struct coll_question) and the
 * rates (coll_rates.h) that the members have exchanged. */
#ifndef WEFT_OPS_COLL_CHOOSE_H
#define WEFT_OPS_COLL_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/coll/rates.h"

enum coll_what {
    COLL_BROADCAST,
    COLL_ALLGATHER,
    COLL_ALLTOALL,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_ALLREDUCE,
    COLL_REDUCESCATTER,
    COLL_REDUCE,  /* the result goes to the root only */
    COLL_COLLECT, /* block sizes differ, and no host knows all of them */
    COLL_ALLTOALLV,
    COLL_WHATS
};

extern const char *const coll_names[COLL_WHATS];

/* Whether it combines elements, and whether only the GPUs know the sizes of all blocks. */
extern const bool coll_reduces[COLL_WHATS], coll_is_sized[COLL_WHATS];

enum coll_algorithm {
    COLL_ALGO_AUTO,           /* nothing is forced: the fastest algorithm by the model */
    COLL_ALGO_LL,             /* one-shot over LL packets: 8 bytes of data, a flag next to them */
    COLL_ALGO_TWO_SHOT_LL,    /* each member combines a slice, then sends the result, by LL */
    COLL_ALGO_LL128,          /* one-shot over LL128 lines: 120 bytes of data in 128 */
    COLL_ALGO_TWO_SHOT_LL128, /* as TWO_SHOT_LL, by LL128 */
    COLL_ALGO_SIMPLE, /* stores into the destinations, with a flag before and a fence after */
    /* staged through the team's own buffer, for destinations that other members cannot store to */
    COLL_ALGO_STAGED,
    COLL_ALGO_ENGINES, /* copy engines between two barriers */
    /* only from WEFT_COLL: the host puts block by block; coll_choose() never returns it */
    COLL_ALGO_COPIES,
};

struct coll_question {
    enum coll_what what;
    int members;
    uint64_t bytes;     /* size of the vector of a broadcast or reduction, else of one block */
    uint64_t set_bytes; /* size of the buffer that holds the team's LL and LL128 slots */
    bool strided;       /* elements have gaps between them: excludes copy engines and LL128 */
    bool direct;        /* other members can store to dst, and load src of a reduction */
    /* largest number of blocks, 1 to 64; 0: copy engines where possible, else one block */
    int most_blocks;
    enum coll_algorithm forced;
    bool ll128; /* LL128 passed its test between all members, and elements have at most 8 bytes */
    /* checking mode: members compare the call first, for which copy engines would not wait */
    bool checked;
};

struct coll_choice {
    enum coll_algorithm algorithm;
    uint64_t bytes; /* bytes of one round; fewer than the question's bytes: several rounds */
    unsigned blocks, threads;
    /* pipeline chunks of a broadcast along a chain of members; 0: the root stores to all members */
    uint32_t chunks;
    /* for ENGINES and STAGED: 2: members forward the slices that the root sent them, else 1; 0 for
     * other algorithms */
    int phases;
    double us; /* microseconds by the model, when run from a CUDA graph */
};

struct coll_choice coll_choose(const struct coll_question *q, const struct coll_rates *rates);

/* Time of an algorithm by the model, in microseconds, when run from a CUDA graph. Negative: the
 * algorithm cannot serve the question. */
double coll_cost(const struct coll_question *q, const struct coll_rates *rates,
                 enum coll_algorithm algorithm);

/* Lower bound for any algorithm, in microseconds: the bytes that must leave or reach the busiest
 * GPU at the link's rate, plus one flag round trip. */
double coll_floor(const struct coll_question *q, const struct coll_rates *rates);

/* Bytes of payload that must leave or reach the busiest GPU, for any algorithm. */
double coll_least_bytes(const struct coll_question *q);

/* Rate out of a GPU in 10^9 bytes per second, by stores or by copy engines, whichever is faster. */
double coll_link_gbps(const struct coll_rates *rates);

/* Time of one flag round trip, in microseconds. */
double coll_flag_us(const struct coll_rates *rates);

const char *coll_algorithm_name(enum coll_algorithm algorithm);

/* Largest number of blocks for a limit of SMs (0 or more): a power of two, at most 64. */
int coll_blocks_of(int64_t sms);

#endif
