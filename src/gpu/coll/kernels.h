/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of collectives (kernels.cu) and the code that launches them agree on. Plain
 * C that nvcc reads too.
 *
 * Rounds. Each collective of a team is a round, and its number lives in GPU memory, so that a
 * captured graph can be replayed any number of times: a launch of B blocks, a power of two, draws B
 * tickets of COLL_BLOCKS / B each, so that all of its blocks find the same number, and no block has
 * to wait for the others to have read it.
 *
 * The ticket is also the block's number in the round: block b is the b-th that began. A GPU
 * promises no order in which it runs the blocks of a grid, but where only some of them run, these
 * are the first ones of every member. A member's block b exchanges data with block b of the others
 * only, and waits besides only for their block 0. So nothing waits for a whole grid, or for a block
 * that is behind one that does not run, and a kernel has ended when all of its blocks have. */
#ifndef WEFT_GPU_COLL_KERNELS_H
#define WEFT_GPU_COLL_KERNELS_H

#include <stdint.h>

#include "gpu/kernels.h"

/* X(name): the kernels, by their names in the module. */
#define COLL_KERNELS(X)                                                                            \
    X(weft_coll_send)                                                                              \
    X(weft_coll_reduce_one)                                                                        \
    X(weft_coll_reduce_two)                                                                        \
    X(weft_coll_push)                                                                              \
    X(weft_coll_push_sized)                                                                        \
    X(weft_coll_spread)                                                                            \
    X(weft_coll_meet)                                                                              \
    X(weft_coll_check)                                                                             \
    X(weft_coll_send_strided)                                                                      \
    X(weft_coll_push_strided)                                                                      \
    X(weft_coll_reduce_one_more)                                                                   \
    X(weft_coll_reduce_two_more)                                                                   \
    X(weft_coll_combine_more)                                                                      \
    X(weft_coll_combine)                                                                           \
    X(weft_coll_send_lines)                                                                        \
    X(weft_coll_reduce_one_lines)                                                                  \
    X(weft_coll_reduce_two_lines)                                                                  \
    X(weft_coll_push_scratch)                                                                      \
    X(weft_coll_spread_scratch)                                                                    \
    X(weft_coll_push_strided_scratch)                                                              \
    X(weft_coll_sized_scratch)                                                                     \
    X(weft_coll_reduce_scratch)                                                                    \
    X(weft_coll_reduce_scratch_more)                                                               \
    X(weft_coll_prove_lines)

enum {
    COLL_MEMBERS = 64,   /* of a team, at most */
    COLL_BLOCKS = 64,    /* of a launch, at most */
    COLL_TEAMS = 32,     /* that have an area: those with the lowest slots */
    COLL_WIDE_TEAMS = 2, /* the world and the node: their sets are larger */
    COLL_WIDE_SET = 2 << 20,
    COLL_NARROW_SET = 256 << 10,
    COLL_CHUNKS = 256, /* of a block's share of a broadcast, fewer than this */
    COLL_UNIT = 16,    /* bytes of payload, of which a thread makes two packets */
    COLL_UNIT_WIRE = 32,
    COLL_PIECE = 480, /* bytes of payload, of which a warp makes four lines, see ll128.h */
    COLL_PIECE_WIRE = 512,
    COLL_SCRATCH_GRAIN = 128, /* bytes, see staged.h */
    COLL_STEPS = 1 << 20,     /* of a round through scratch, fewer than this */
    COLL_PROOF_THREADS = 512,
    COLL_PROOF_ROUNDS = 3,        /* one after the other, so that both sets of slots are used */
    COLL_NUMBER_BIT = 0x40000000, /* packets have it: never 0, as in a new set */
    COLL_RENEW_MASK = 0x1fffffff, /* of rounds, see coll_renew() */
};

/* What the proof of lines found, the worst of all that its warps saw: shifted by COLL_PROOF_SHIFT,
 * above the number of the member that it was of. */
enum coll_proof {
    COLL_PROOF_NONE, /* it was not made */
    COLL_PROOF_GOOD,
    COLL_PROOF_FEW, /* too few lines were seen while they changed */
    COLL_PROOF_TORN,
    COLL_PROOF_CUT, /* a wait ran out, or the job failed */
    COLL_PROOF_SHIFT = 8
};

/* A team's place in each member's GPU heap; two sets of slots for packets follow it, and two for
 * lines. Flags are numbers of rounds, and only grow. Those of others are in lines of their own. */
struct coll_area {
    uint64_t tickets, tickets_line[15];
    uint64_t refused, refused_line[15]; /* in checking mode: members have called differently */
    uint64_t proof, proof_line[15];     /* enum coll_proof */
    uint64_t ended,
        ended_line[15]; /* blocks that have ended a round in which something did not fit */
    uint64_t begun, begun_line[15]; /* the latest round that all members are known to have begun */
    uint64_t here[COLL_MEMBERS];    /* by member i: it has begun that round */
    uint64_t relay[COLL_BLOCKS];    /* by the root of a broadcast: round * COLL_CHUNKS + chunks that
                                       are here */
    uint64_t done[COLL_MEMBERS]
                 [COLL_BLOCKS]; /* by member i's block b: its stores of that round are here */
    /* Through scratch, by member i's block b, round * COLL_STEPS + so many: parts that it has
     * stored here, and steps that it has taken out of what this member has stored there. */
    uint64_t filled[COLL_MEMBERS][COLL_BLOCKS], emptied[COLL_MEMBERS][COLL_BLOCKS];
    /* Of weighted sums, and of sizes through scratch: a unit of packets from each member, in rounds
     * with even numbers and in those with odd ones. */
    char factors[2][COLL_MEMBERS][COLL_UNIT_WIRE];
};

/* Bytes of a team's area with its sets, and its offset from the first one's. */
static inline uint64_t coll_set_bytes(int team)
{
    return team < COLL_WIDE_TEAMS ? COLL_WIDE_SET : COLL_NARROW_SET;
}

static inline uint64_t coll_area_offset(int team)
{
    uint64_t wide = (uint64_t)(team < COLL_WIDE_TEAMS ? team : COLL_WIDE_TEAMS);
    return (uint64_t)team * sizeof(struct coll_area) + wide * 4 * COLL_WIDE_SET +
           ((uint64_t)team - wide) * 4 * COLL_NARROW_SET;
}

/* Bytes of a slot where a team's sets, all together, are scratch of so many blocks, each with
 * `parts` slots, twice. */
WEFT_DEV_BOTH uint64_t coll_scratch_slot(uint64_t set_bytes, unsigned blocks, unsigned parts)
{
    return 4 * set_bytes / ((uint64_t)2 * blocks * parts) / COLL_SCRATCH_GRAIN * COLL_SCRATCH_GRAIN;
}

/* Who sends to whom. */
enum coll_flow {
    COLL_ALL,  /* everyone to everyone */
    COLL_FROM, /* the root to everyone */
    COLL_TO,   /* everyone to the root */
};

/* Words of what members compare in checking mode. */
enum coll_header {
    COLL_HEADER_KIND,   /* operation, type, op, root + 1 and members: 8, 8, 8, 16 and 16 bits */
    COLL_HEADER_BYTES,  /* of a block or vector; 0 where members have their own */
    COLL_HEADER_DETAIL, /* of a scaled sum the factor as a double, of a strided one the strides */
    COLL_HEADER_WAY,    /* kernel, blocks and threads: from what kinds of memory, besides */
    COLL_HEADER_WORDS
};

/* A kernel's argument. Block i of the source goes to member i, block i of the destination comes
 * from member i; with a step of 0 they are the same one. */
struct coll_call {
    char *part[COLL_MEMBERS];  /* where each member's window of the GPU heap is mapped here */
    uint16_t pe[COLL_MEMBERS]; /* for records */
    uint64_t area;             /* offset of the team's area in the windows */
    char *dst;
    const char *src;
    uint64_t to, from; /* offsets of dst and src in the windows, where others store and load */
    uint64_t bytes;    /* of a block */
    uint64_t src_step, dst_step;
    uint64_t set_bytes;
    int32_t members, me, root, flow;
    int32_t team, operation; /* for records */
    int32_t type, op;        /* of reductions; op: WEFT_DEV_SCALED too */
    int32_t
        everywhere;  /* the result of a reduction goes to all members, else member i gets block i */
    uint32_t chunks; /* of weft_coll_spread */
    int32_t fenced;  /* of weft_coll_meet: what the stream stored before is seen by who meets this
                        member */
    /* Of weft_coll_push_sized and weft_coll_sized_scratch, which read them: what goes to member i
     * and where it lies in src, how much may come from it and where to in dst, all in bytes. NULL:
     * `bytes` of this member, which differ from member to member, go to all, in the order of the
     * team. room: of dst. */
    const uint64_t *counts, *src_at, *room_of, *dst_at;
    uint64_t room;
    /* Of strided ones, whose blocks are elements of `element` bytes, src_apart and dst_apart bytes
     * from one to the next.
     * first: where `bytes` begin in a block without gaps. grain: 1, 2, 4 or 8 bytes that elements
     * and all addresses are multiples of. */
    uint64_t element, src_apart, dst_apart, first;
    uint32_t grain;
    /* Of a scaled sum. factor_at: a float or double, as elements are combined, in memory of the
     * GPU; NULL: `factor`. */
    double factor;
    const void *factor_at;
    int32_t weighted; /* the factor is of this member's elements alone */
    int32_t check;    /* checking mode */
    uint64_t header[COLL_HEADER_WORDS];
    struct gpu_reporting reporting;
};

#endif
