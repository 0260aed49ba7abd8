/* SPDX-License-Identifier: Apache-2.0 */
/* See choose.h. The model compares algorithms on the same machine: a slower link changes the
 * predicted times more than it changes the message sizes at which one algorithm overtakes
 * another. */
#include "ops/coll/choose.h"

#include "gpu/coll/kernels.h"

const char *const coll_names[COLL_WHATS] = {
    [COLL_BROADCAST] = "broadcast",
    [COLL_ALLGATHER] = "allgather",
    [COLL_ALLTOALL] = "alltoall",
    [COLL_GATHER] = "gather",
    [COLL_SCATTER] = "scatter",
    [COLL_ALLREDUCE] = "allreduce",
    [COLL_REDUCESCATTER] = "reducescatter",
    [COLL_REDUCE] = "reduce",
    [COLL_COLLECT] = "collect",
    [COLL_ALLTOALLV] = "alltoallv",
};

const bool coll_reduces[COLL_WHATS] = {
    [COLL_ALLREDUCE] = true, [COLL_REDUCESCATTER] = true, [COLL_REDUCE] = true};
const bool coll_is_sized[COLL_WHATS] = {[COLL_COLLECT] = true, [COLL_ALLTOALLV] = true};

enum {
    UNIT = 16,   /* bytes of payload that a thread sends as two LL packets */
    PIECE = 480, /* bytes of payload that a warp sends as four LL128 lines */
    PIECE_WIRE_BYTES = 512,
    WARP = 32,
    LL_THREADS = 64,
    MOST_THREADS = 512,
    LEAST_CHUNK = 16 << 10, /* smallest pipeline chunk of a block's share, in bytes */
    MOST_CHUNKS = 16,
    LEAST_SLICE = 4 << 10, /* smallest slice that members forward in a broadcast, in bytes */
    /* smallest slot of the staged algorithm, in bytes: smaller steps cost mostly flags */
    LEAST_SLOT = 4 << 10,
    MOST_STEPS = 1 << 14, /* most steps of one staged round with one block */
    SIZED_BLOCKS = 32,
};

/* Share of a one-shot LL round that is the flag round trip; the rest is the launch and the end of
 * the kernel. Between H200 a flag takes 0.8 us in each direction, and the round 2.3 us. */
static const double FLAG_SHARE = 0.7;

static bool is_ll128(enum coll_algorithm algorithm)
{
    return algorithm == COLL_ALGO_LL128 || algorithm == COLL_ALGO_TWO_SHOT_LL128;
}

static bool is_two_shot(enum coll_algorithm algorithm)
{
    return algorithm == COLL_ALGO_TWO_SHOT_LL || algorithm == COLL_ALGO_TWO_SHOT_LL128;
}

/* Bytes of payload per slot, where `slots` slots share the buffer of set_bytes. */
static uint64_t slot_payload(const struct coll_question *q, enum coll_algorithm algorithm,
                             uint64_t slots)
{
    if (is_ll128(algorithm))
        return q->set_bytes / slots / PIECE_WIRE_BYTES * PIECE;
    return q->set_bytes / slots / (2 * UNIT) * UNIT;
}

/* Whether each member combines one slice and sends the result to the members that want it. */
static bool has_slices(const struct coll_question *q)
{
    return q->what == COLL_ALLREDUCE || q->what == COLL_REDUCE;
}

static uint64_t staged_slot(const struct coll_question *q, unsigned blocks)
{
    return coll_staging_slot_bytes(q->set_bytes, blocks, 1 + (unsigned)has_slices(q),
                                   (unsigned)q->members);
}

static uint64_t most_bytes(const struct coll_question *q, enum coll_algorithm algorithm)
{
    uint64_t n = (uint64_t)q->members;
    if (algorithm == COLL_ALGO_STAGED)
        return MOST_STEPS * staged_slot(q, 1) * (has_slices(q) ? n : 1);
    if (algorithm == COLL_ALGO_LL || algorithm == COLL_ALGO_LL128)
        return slot_payload(q, algorithm, n);
    return is_two_shot(algorithm) ? n * slot_payload(q, algorithm, 2 * n) : UINT64_MAX;
}

static bool can_serve(const struct coll_question *q, enum coll_algorithm algorithm)
{
    uint64_t n = (uint64_t)q->members, least = q->bytes < most_bytes(q, algorithm) ? q->bytes : 0;
    bool sized = q->what == COLL_COLLECT || q->what == COLL_ALLTOALLV;
    if (algorithm == COLL_ALGO_SIMPLE)
        return q->direct && q->what != COLL_REDUCE;
    if (algorithm == COLL_ALGO_ENGINES)
        return q->direct && !sized && !q->strided && !q->checked &&
               !coll_reduces[q->what]; /* copy engines cannot combine elements */
    if (algorithm == COLL_ALGO_STAGED)
        return n > 1;
    if (sized || (is_ll128(algorithm) && (!q->ll128 || q->strided)))
        return false;
    /* The slice of every member needs at least one unit (LL) or piece (LL128), so that every pair
     * exchanges data. */
    uint64_t slices = n * n * (is_ll128(algorithm) ? PIECE : UNIT);
    return !is_two_shot(algorithm) ||
           (q->what == COLL_ALLREDUCE && n > 1 && (!least || least >= slices));
}

/* Bytes that leave or reach the busiest GPU. */
static double link_bytes(const struct coll_question *q, enum coll_algorithm algorithm)
{
    double n = q->members, bytes = (double)q->bytes;
    if (is_two_shot(algorithm) || (algorithm == COLL_ALGO_SIMPLE && q->what == COLL_ALLREDUCE))
        return 2 * (n - 1) / n * bytes;
    return algorithm == COLL_ALGO_SIMPLE && q->what == COLL_BROADCAST ? bytes : (n - 1) * bytes;
}

static double rounds_of(const struct coll_question *q, enum coll_algorithm algorithm)
{
    uint64_t most = most_bytes(q, algorithm);
    double rounds = (double)((q->bytes + most - 1) / most);
    return rounds < 1 ? 1 : rounds;
}

/* One phase: the root, or every member, copies to all other members. Two phases: the root copies
 * one slice to each other member, then each of them copies its slice to all members but the
 * root. */
static double engines_cost(const struct coll_question *q, const struct coll_rates *rates,
                           int phases)
{
    double others = q->members - 1, copies = others - 1 > 0 ? others - 1 : 0;
    double bytes = others * (double)q->bytes,
           begin = rates->engines_first_us + copies * rates->engines_more_us;
    if (phases == 2) {
        bytes = (double)q->bytes * (1 + (others - 1) / others);
        begin = 2 * begin + rates->engines_meet_us / 2;
    }
    return rates->engines_meet_us + begin + bytes / rates->engines_gbps / 1e3;
}

/* Counts the flags that report filled slots, and those that report results or forwarded slices. */
static double staged_cost(const struct coll_question *q, const struct coll_rates *rates, int phases)
{
    double n = q->members, bytes = (double)q->bytes, out = (n - 1) * bytes;
    double begin =
        (coll_reduces[q->what] ? rates->combine_us : rates->push_us) + coll_flag_us(rates);
    double rate = rates->scratch_gbps;
    double blocks = rates->block_scratch_gbps * (q->most_blocks ? q->most_blocks : 1);
    if (has_slices(q))
        out = 2 * (n - 1) / n * bytes;
    else if (phases == 2)
        out = bytes;
    if (has_slices(q) || phases == 2)
        begin += coll_flag_us(rates);
    return rounds_of(q, COLL_ALGO_STAGED) * begin + out / (rate < blocks ? rate : blocks) / 1e3;
}

/* 2: members forward slices of a broadcast, by copy engines or staged; 1: they do not. */
static int phases_of(const struct coll_question *q, const struct coll_rates *rates,
                     enum coll_algorithm algorithm)
{
    double (*cost)(const struct coll_question *, const struct coll_rates *, int) =
        algorithm == COLL_ALGO_ENGINES ? engines_cost : staged_cost;
    uint64_t others = (uint64_t)q->members - 1;
    bool can_forward = q->what == COLL_BROADCAST && others > 1 && q->bytes / others >= LEAST_SLICE;
    return can_forward && cost(q, rates, 2) < cost(q, rates, 1) ? 2 : 1;
}

double coll_cost(const struct coll_question *q, const struct coll_rates *rates,
                 enum coll_algorithm algorithm)
{
    if (algorithm < COLL_ALGO_LL || algorithm > COLL_ALGO_ENGINES || !can_serve(q, algorithm))
        return -1;
    if (algorithm == COLL_ALGO_ENGINES)
        return engines_cost(q, rates, phases_of(q, rates, algorithm));
    if (algorithm == COLL_ALGO_STAGED)
        return staged_cost(q, rates, phases_of(q, rates, algorithm));
    bool direct = algorithm == COLL_ALGO_SIMPLE, lines = is_ll128(algorithm);
    double begin = lines ? rates->lines_us : rates->one_trip_us;
    double bytes = link_bytes(q, algorithm);
    double rate = direct ? rates->stores_gbps : lines ? rates->lines_gbps : rates->packets_gbps;
    double blocks = (direct  ? rates->block_stores_gbps
                     : lines ? rates->block_lines_gbps
                             : rates->block_packets_gbps) *
                    (q->most_blocks ? q->most_blocks : 1);
    if (direct)
        begin = coll_reduces[q->what]                         ? rates->combine_us
                : q->what == COLL_BROADCAST && q->members > 2 ? rates->spread_us
                                                              : rates->push_us;
    else if (is_two_shot(algorithm))
        begin = lines ? rates->two_lines_us : rates->two_trips_us;
    double rounds = direct ? 1 : rounds_of(q, algorithm);
    return rounds * begin + bytes / (rate < blocks ? rate : blocks) / 1e3;
}

double coll_least_bytes(const struct coll_question *q)
{
    double others = q->members - 1, bytes = (double)q->bytes;
    if (!others)
        return 0;
    if (q->what == COLL_ALLREDUCE)
        return 2 * others / q->members * bytes;
    /* Members may forward a broadcast, and all members may combine slices of a reduction to one
     * root. */
    return q->what == COLL_BROADCAST || q->what == COLL_REDUCE ? bytes : others * bytes;
}

double coll_flag_us(const struct coll_rates *rates)
{
    return FLAG_SHARE * rates->one_trip_us;
}

double coll_link_gbps(const struct coll_rates *rates)
{
    return rates->engines_gbps > rates->stores_gbps ? rates->engines_gbps : rates->stores_gbps;
}

double coll_floor(const struct coll_question *q, const struct coll_rates *rates)
{
    return coll_flag_us(rates) + coll_least_bytes(q) / coll_link_gbps(rates) / 1e3;
}

/* Smallest power of two that is at least `wanted`, but at most `most`. */
static unsigned power_of_two(uint64_t wanted, int most)
{
    unsigned blocks = 1;
    while (blocks < wanted && 2 * blocks <= (unsigned)most)
        blocks *= 2;
    return blocks;
}

static void size_ll(const struct coll_question *q, struct coll_choice *choice)
{
    uint64_t units = (choice->bytes + UNIT - 1) / UNIT;
    if (choice->algorithm == COLL_ALGO_TWO_SHOT_LL)
        units = (units + (uint64_t)q->members - 1) / (uint64_t)q->members;
    choice->blocks = power_of_two((units + LL_THREADS - 1) / LL_THREADS, q->most_blocks);
    uint64_t each = (units + choice->blocks - 1) / choice->blocks;
    choice->threads = each <= 32 ? 32 : LL_THREADS;
    while (choice->threads < each && choice->threads < MOST_THREADS / 2)
        choice->threads *= 2;
}

/* One piece for each warp, up to the largest number of threads. */
static void size_ll128(const struct coll_question *q, struct coll_choice *choice)
{
    enum { WARPS = LL_THREADS / WARP };
    uint64_t pieces = (choice->bytes + PIECE - 1) / PIECE;
    if (choice->algorithm == COLL_ALGO_TWO_SHOT_LL128)
        pieces = (pieces + (uint64_t)q->members - 1) / (uint64_t)q->members;
    choice->blocks = power_of_two((pieces + WARPS - 1) / WARPS, q->most_blocks);
    uint64_t each = (pieces + choice->blocks - 1) / choice->blocks;
    choice->threads = WARP;
    while (choice->threads < each * WARP && choice->threads < MOST_THREADS / 2)
        choice->threads *= 2;
}

static void size_simple(const struct coll_question *q, const struct coll_rates *rates,
                        struct coll_choice *choice)
{
    uint64_t others = (uint64_t)q->members - 1, bytes = q->bytes * (others ? others : 1);
    if (q->what == COLL_ALLREDUCE || q->what == COLL_BROADCAST)
        bytes = q->bytes;
    choice->blocks = power_of_two(bytes / (uint64_t)rates->block_share_bytes, q->most_blocks);
    choice->threads = MOST_THREADS;
    if (q->what != COLL_BROADCAST || q->members <= 2)
        return;
    uint64_t chunks = q->bytes / others / choice->blocks / LEAST_CHUNK;
    choice->chunks = chunks < 1 ? 1 : chunks > MOST_CHUNKS ? MOST_CHUNKS : (uint32_t)chunks;
}

static void size_staged(const struct coll_question *q, const struct coll_rates *rates,
                        struct coll_choice *choice)
{
    uint64_t others = (uint64_t)q->members - 1;
    choice->phases = phases_of(q, rates, COLL_ALGO_STAGED);
    uint64_t bytes = choice->bytes * (has_slices(q) || choice->phases > 1 || !others ? 1 : others);
    choice->blocks = power_of_two(bytes / (uint64_t)rates->block_share_bytes, q->most_blocks);
    while (choice->blocks > 1 && staged_slot(q, choice->blocks) < LEAST_SLOT)
        choice->blocks /= 2;
    choice->threads = MOST_THREADS;
}

/* The host does not know the size, so it launches SIZED_BLOCKS blocks if it may. A team of one
 * member needs no other member's memory. */
static struct coll_choice choose_sized(const struct coll_question *q,
                                       const struct coll_rates *rates)
{
    bool direct = q->members == 1 || (q->direct && q->forced != COLL_ALGO_STAGED);
    struct coll_choice choice = {.algorithm = direct ? COLL_ALGO_SIMPLE : COLL_ALGO_STAGED,
                                 .bytes = q->bytes};
    choice.blocks = power_of_two(SIZED_BLOCKS, q->most_blocks);
    while (!direct && choice.blocks > 1 && staged_slot(q, choice.blocks) < LEAST_SLOT)
        choice.blocks /= 2;
    choice.threads = MOST_THREADS;
    choice.us = rates->push_us + (direct ? 0 : coll_flag_us(rates));
    return choice;
}

static bool ll128_rates_are_estimates(const struct coll_rates *rates)
{
    static const enum coll_rate of_lines[] = {COLL_RATE_lines_us, COLL_RATE_two_lines_us,
                                              COLL_RATE_lines_gbps, COLL_RATE_block_lines_gbps};
    bool any = false;
    for (size_t i = 0; i < sizeof of_lines / sizeof *of_lines; i++)
        any |= coll_rates_estimated(rates, of_lines[i]);
    return any;
}

/* LL128 is chosen automatically only where its rates were measured. Staged is chosen automatically
 * only where other members cannot store to the destination. */
static bool is_candidate(const struct coll_question *q, const struct coll_rates *rates,
                         enum coll_algorithm algorithm)
{
    if (algorithm == COLL_ALGO_STAGED && algorithm != q->forced && can_serve(q, COLL_ALGO_SIMPLE))
        return false;
    return !is_ll128(algorithm) || algorithm == q->forced || !ll128_rates_are_estimates(rates);
}

struct coll_choice coll_choose(const struct coll_question *q, const struct coll_rates *rates)
{
    if (q->what == COLL_COLLECT || q->what == COLL_ALLTOALLV)
        return choose_sized(q, rates);
    struct coll_choice choice = {.algorithm = COLL_ALGO_LL, .bytes = q->bytes};
    enum coll_algorithm forced =
        q->forced == COLL_ALGO_AUTO && !q->most_blocks ? COLL_ALGO_ENGINES : q->forced;
    choice.us = coll_cost(q, rates, COLL_ALGO_LL);
    for (enum coll_algorithm algorithm = COLL_ALGO_TWO_SHOT_LL; algorithm <= COLL_ALGO_ENGINES;
         algorithm++) {
        double us = is_candidate(q, rates, algorithm) ? coll_cost(q, rates, algorithm) : -1;
        if (us >= 0 && (algorithm == forced || (us < choice.us && choice.algorithm != forced))) {
            choice.algorithm = algorithm;
            choice.us = us;
        }
    }
    uint64_t most = most_bytes(q, choice.algorithm);
    choice.bytes = q->bytes < most ? q->bytes : most;
    if (choice.algorithm == COLL_ALGO_ENGINES) {
        choice.blocks = 1; /* of the barrier kernels */
        choice.threads = q->members <= 32 ? 32 : 64;
        choice.phases = phases_of(q, rates, choice.algorithm);
    } else if (choice.algorithm == COLL_ALGO_SIMPLE)
        size_simple(q, rates, &choice);
    else if (choice.algorithm == COLL_ALGO_STAGED)
        size_staged(q, rates, &choice);
    else if (is_ll128(choice.algorithm))
        size_ll128(q, &choice);
    else
        size_ll(q, &choice);
    return choice;
}

const char *coll_algorithm_name(enum coll_algorithm algorithm)
{
    static const char *const names[] = {"auto",           "LL",     "two-shot LL", "LL128",
                                        "two-shot LL128", "simple", "staged",      "copy engines",
                                        "copies"};
    return names[algorithm];
}

int coll_blocks_of(int64_t sms)
{
    enum { MOST_BLOCKS = 64 };
    return sms ? (int)power_of_two(MOST_BLOCKS, sms < MOST_BLOCKS ? (int)sms : MOST_BLOCKS) : 0;
}
