/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the kernels of collectives (kernels.cu) and the code that launches them. Plain C
 * that nvcc compiles too.
 *
 * Rounds. Each collective of a team is a round. Its number is in GPU memory, so that a captured
 * graph can be replayed any number of times. A launch of B blocks, B a power of two, draws B
 * tickets of COLL_BLOCKS / B each, so all of its blocks find the same number, and no block waits
 * for other blocks to read it.
 *
 * The ticket is also the block's index in the round: block b is the b-th block that began. A GPU
 * guarantees no order in which it runs the blocks of a grid, but if only some of them run, these
 * are the first ones of every member. A member's block b exchanges data only with block b of the
 * other members, and otherwise waits only for their block 0. So no block waits for a whole grid or
 * for a block that is queued behind one that does not run, and a kernel has ended when all of its
 * blocks have. */
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
    X(weft_coll_fold)                                                                              \
    X(weft_coll_pack)                                                                              \
    X(weft_coll_prove_lines)

enum {
    COLL_MEMBERS = 64,           /* members of a team, at most */
    COLL_BLOCKS = 64,            /* blocks of a launch, at most */
    COLL_TEAMS = 32,             /* teams that have an area, at most */
    COLL_WIDE_TEAMS = 2,         /* the world and the node team have larger slot sets */
    COLL_WIDE_SET = 2 << 20,     /* bytes of a slot set of those teams */
    COLL_NARROW_SET = 256 << 10, /* bytes of a slot set of the other teams */
    COLL_CHUNKS = 256,           /* a block's share of a broadcast has fewer chunks than this */
    COLL_UNIT = 16,              /* bytes of payload that one thread sends as two LL packets */
    COLL_UNIT_WIRE = 32,         /* bytes of the two packets */
    /* bytes of payload that one warp sends as four LL128 lines, see ll128.h */
    COLL_PIECE = 480,
    COLL_PIECE_WIRE = 512,    /* bytes of the four lines */
    COLL_STAGING_GRAIN = 128, /* bytes, see coll_scratch.h */
    COLL_STEPS = 1 << 20,     /* a staged round has fewer steps than this */
    COLL_PROOF_THREADS = 512, /* threads of a block of the LL128 test */
    /* rounds of the LL128 test, one after the other, so that both slot sets are used */
    COLL_PROOF_ROUNDS = 3,
    /* set in the flag of each LL packet, so that a flag is never 0 as in a new slot set */
    COLL_NUMBER_BIT = 0x40000000,
    COLL_RENEW_MASK = 0x1fffffff, /* mask of round numbers, see clear_next_set() */
};

/* Result of the LL128 test: the worst result of all warps, shifted by COLL_PROOF_SHIFT, above the
 * index of the member whose lines were tested. */
enum coll_proof {
    COLL_PROOF_NONE, /* not tested */
    COLL_PROOF_GOOD,
    COLL_PROOF_FEW, /* too few lines were seen while they changed */
    COLL_PROOF_TORN,
    COLL_PROOF_CUT, /* a wait timed out, or the job failed */
    COLL_PROOF_SHIFT = 8
};

/* A team's area in each member's GPU heap. Two slot sets for LL packets follow it, and two for
 * LL128 lines. Flags are round numbers and only grow. Flags that other members write are in cache
 * lines of their own. */
struct coll_area {
    uint64_t tickets, tickets_line[15];
    /* in checking mode: members called different collectives */
    uint64_t refused, refused_line[15];
    uint64_t proof, proof_line[15]; /* enum coll_proof */
    /* number of blocks that have ended a round in which a block of data did not fit */
    uint64_t ended, ended_line[15];
    uint64_t begun, begun_line[15]; /* latest round that all members are known to have begun */
    /* written by member i: number of the round that it has begun */
    uint64_t here[COLL_MEMBERS];
    /* written by the root of a broadcast: round * COLL_CHUNKS + number of chunks that have
     * arrived */
    uint64_t relay[COLL_BLOCKS];
    /* written by member i's block b: the round whose stores have arrived */
    uint64_t done[COLL_MEMBERS][COLL_BLOCKS];
    /* For staged rounds, written by member i's block b: round * COLL_STEPS + number of phases that
     * it has ended (staged.h); where sizes differ, of steps that it has stored here, and that it
     * has copied out of what this member stored there (sized.h). */
    uint64_t filled[COLL_MEMBERS][COLL_BLOCKS], emptied[COLL_MEMBERS][COLL_BLOCKS];
    /* For weighted sums, and for sizes of staged rounds: a unit of LL packets from each member, in
     * rounds with even and with odd numbers. */
    char factors[2][COLL_MEMBERS][COLL_UNIT_WIRE];
};

/* Slots that a block of the staged protocol has for each other member and kind of data: one is
 * filled while the other is copied out. */
enum { COLL_STEP_SLOTS = 2 };

/* Bytes of a staging slot when all sets of a team together are divided among the blocks, each of
 * which exchanges `kinds` kinds of data with each other member. */
WEFT_DEV_BOTH uint64_t coll_staging_slot_bytes(uint64_t set_bytes, unsigned blocks, unsigned kinds,
                                               unsigned members)
{
    uint64_t all = (uint64_t)blocks * kinds * COLL_STEP_SLOTS * (members > 1 ? members - 1 : 1);
    return 4 * set_bytes / all / COLL_STAGING_GRAIN * COLL_STAGING_GRAIN;
}

/* Which members send to which. */
enum coll_flow {
    COLL_ALL,  /* every member to every member */
    COLL_FROM, /* the root to every member */
    COLL_TO,   /* every member to the root */
};

/* Words that members compare in checking mode. */
enum coll_header {
    COLL_HEADER_KIND,   /* operation, type, op, root + 1 and members: 8, 8, 8, 16 and 16 bits */
    COLL_HEADER_BYTES,  /* bytes of a block or vector; 0 when they differ between members */
    COLL_HEADER_DETAIL, /* factor of a scaled sum as a double; strides of a strided alltoall */
    /* algorithm: kernel, blocks and threads, which also depend on the kinds of memory */
    COLL_HEADER_ALGORITHM,
    COLL_HEADER_WORDS
};

/* Part of the argument of reductions. */
struct coll_reduction {
    int32_t type, op; /* op may be WEFT_DEV_SCALED */
    /* nonzero: the result goes to all members; 0: member i gets block i */
    int32_t everywhere;
    int32_t weighted; /* the factor applies to this member's elements only */
    /* For a scaled sum. factor: as in struct weft_dev_how. factor_at: its address in GPU memory, of
     * the type in which elements are combined; NULL: `factor` is used. */
    double factor;
    const void *factor_at;
    /* nonzero: the number at factor_at has the elements' type, of 16 or 8 bits */
    int32_t narrow_factor;
};

/* Part of the argument of weft_coll_push_sized and weft_coll_sized_scratch, in bytes for each
 * member i: size of the block for it, its offset in src, size limit of the block from it, its
 * offset in dst. NULL (collect): `bytes` of this member go to all, in the order of the team; they
 * differ between members. */
struct coll_sized {
    const uint64_t *counts, *src_at, *room_of, *dst_at;
    uint64_t room; /* bytes of dst */
};

/* Part of the argument of strided kernels, whose blocks are elements of `element` bytes, src_apart
 * and dst_apart bytes apart. */
struct coll_strided {
    uint64_t element, src_apart, dst_apart;
    uint64_t first; /* where `bytes` begin in the block without gaps */
    uint32_t grain; /* 1, 2, 4 or 8 bytes, of which elements and all addresses are multiples */
};

/* What members compare in checking mode. */
struct coll_checking {
    int32_t on; /* nonzero in checking mode */
    uint64_t header[COLL_HEADER_WORDS];
};

/* Part of the argument of weft_coll_fold. */
struct coll_fold {
    int32_t members; /* of the team, on all nodes */
    int32_t ends;    /* nonzero: the elements of all members are combined then */
};

/* Part of the argument of weft_coll_pack: the first node whose blocks pass, how many pass from it
 * on, and how many there are. */
struct coll_pack {
    uint32_t first, count, nodes;
};

/* What error records need. */
struct coll_record {
    uint16_t pe[COLL_MEMBERS]; /* PE numbers of the members */
    int32_t team, operation;
    struct gpu_reporting reporting;
};

/* The argument of a kernel. Block i of the source goes to member i, and block i of the destination
 * comes from member i; with a step of 0 all blocks are the same. */
struct coll_call {
    char *part[COLL_MEMBERS]; /* address of each member's window of the GPU heap as mapped here */
    uint64_t area;            /* offset of the team's area in the windows */
    char *dst;
    const char *src;
    /* offsets of dst and src in the windows, for stores and loads by other members */
    uint64_t to, from;
    uint64_t bytes; /* bytes of a block */
    uint64_t src_step, dst_step;
    uint64_t set_bytes;
    int32_t members, me, root, flow;
    uint32_t chunks; /* for weft_coll_spread */
    /* for weft_coll_meet: earlier stores of the stream are visible to the members that this member
     * meets */
    int32_t fenced;
    struct coll_reduction reduction;
    struct coll_sized sized;
    struct coll_strided strided;
    struct coll_checking checking;
    struct coll_fold fold;
    struct coll_pack pack;
    struct coll_record record;
};

#endif
