/* SPDX-License-Identifier: Apache-2.0 */
/* See ops/coll/choose.h. What is compared are ways on the same machine, so a slower link moves the
 * borders less than it moves the times. */
#include "ops/coll/choose.h"

#include "gpu/coll/kernels.h"

enum {
    UNIT = 16,   /* bytes of payload that a thread makes two packets of */
    PIECE = 480, /* bytes of payload that a warp makes four lines of */
    PIECE_WIRE = 512,
    WARP = 32,
    PACKET_THREADS = 64,
    MOST_THREADS = 512,
    LEAST_CHUNK = 16 << 10, /* of a block's share, from hand to hand */
    MOST_CHUNKS = 16,
    LEAST_SLICE = 4 << 10, /* of a broadcast that others hand on */
    LEAST_SLOT = 4 << 10,  /* of scratch: steps of fewer bytes are mostly flags */
    MOST_STEPS = 1 << 14,  /* of scratch, in a round of one block */
    SIZED_BLOCKS = 32,
};

/* Of the time of a round of one trip: the rest of it is the kernel's begin and end. Between H200 a
 * flag takes 0.8 us each way, and the round 2.3. */
static const double FLAG_SHARE = 0.7;

static bool by_lines(enum coll_algorithm way)
{
    return way == COLL_ALGO_LL128 || way == COLL_ALGO_TWO_SHOT_LL128;
}

static bool has_two_trips(enum coll_algorithm way)
{
    return way == COLL_WAY_TWO_TRIPS || way == COLL_ALGO_TWO_SHOT_LL128;
}

/* Bytes of payload that a slot takes where `slots` of them share the set. */
static uint64_t slot_payload(const struct coll_question *q, enum coll_algorithm way, uint64_t slots)
{
    if (by_lines(way))
        return q->set_bytes / slots / PIECE_WIRE * PIECE;
    return q->set_bytes / slots / (2 * UNIT) * UNIT;
}

/* Whether a slice is combined by each member, and its result sent to those who want it. */
static bool has_slices(const struct coll_question *q)
{
    return q->what == COLL_REDUCE || q->what == COLL_REDUCE_TO;
}

static uint64_t scratch_slot(const struct coll_question *q, unsigned blocks)
{
    return coll_staging_slot_bytes(q->set_bytes, blocks,
                                   (unsigned)q->members * (1 + has_slices(q)));
}

static uint64_t most_bytes(const struct coll_question *q, enum coll_algorithm way)
{
    uint64_t n = (uint64_t)q->members;
    if (way == COLL_ALGO_STAGED)
        return MOST_STEPS * scratch_slot(q, 1) * (has_slices(q) ? n : 1);
    if (way == COLL_ALGO_LL || way == COLL_ALGO_LL128)
        return slot_payload(q, way, n);
    return has_two_trips(way) ? n * slot_payload(q, way, 2 * n) : UINT64_MAX;
}

static bool can(const struct coll_question *q, enum coll_algorithm way)
{
    uint64_t n = (uint64_t)q->members, least = q->bytes < most_bytes(q, way) ? q->bytes : 0;
    bool sized = q->what == COLL_COLLECT || q->what == COLL_ALLTOALLV;
    if (way == COLL_ALGO_SIMPLE)
        return q->direct && q->what != COLL_REDUCE_TO;
    if (way == COLL_ALGO_ENGINES)
        return q->direct && !sized && !q->strided && !q->checked &&
               !coll_reduces(q->what); /* engines do not add */
    if (way == COLL_ALGO_STAGED)
        return n > 1;
    if (sized || (by_lines(way) && (!q->lines || q->strided)))
        return false;
    /* Every member's slice has at least a unit, or piece, so that every pair exchanges some. */
    uint64_t slices = n * n * (by_lines(way) ? PIECE : UNIT);
    return !has_two_trips(way) || (q->what == COLL_REDUCE && n > 1 && (!least || least >= slices));
}

/* Bytes out of the busiest GPU, or into it. */
static double link_bytes(const struct coll_question *q, enum coll_algorithm way)
{
    double n = q->members, bytes = (double)q->bytes;
    if (has_two_trips(way) || (way == COLL_ALGO_SIMPLE && q->what == COLL_REDUCE))
        return 2 * (n - 1) / n * bytes;
    return way == COLL_ALGO_SIMPLE && q->what == COLL_BROADCAST ? bytes : (n - 1) * bytes;
}

static double rounds_of(const struct coll_question *q, enum coll_algorithm way)
{
    uint64_t most = most_bytes(q, way);
    double rounds = (double)((q->bytes + most - 1) / most);
    return rounds < 1 ? 1 : rounds;
}

/* Phase 1: the root, or everyone, to all others. In two phases: a slice to each other, then each
 * its slice to all but the root. */
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

/* Flags of what was filled; and of results, or of slices that are handed on. */
static double scratch_cost(const struct coll_question *q, const struct coll_rates *rates,
                           int phases)
{
    double n = q->members, bytes = (double)q->bytes, out = (n - 1) * bytes;
    double begin =
        (coll_reduces(q->what) ? rates->combine_us : rates->push_us) + coll_flag_us(rates);
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

/* Of a broadcast: whether others hand slices on, by engines or through scratch. */
static int phases_of(const struct coll_question *q, const struct coll_rates *rates,
                     enum coll_algorithm way)
{
    double (*cost)(const struct coll_question *, const struct coll_rates *, int) =
        way == COLL_ALGO_ENGINES ? engines_cost : scratch_cost;
    uint64_t others = (uint64_t)q->members - 1;
    bool can_hand_on = q->what == COLL_BROADCAST && others > 1 && q->bytes / others >= LEAST_SLICE;
    return can_hand_on && cost(q, rates, 2) < cost(q, rates, 1) ? 2 : 1;
}

double coll_cost(const struct coll_question *q, const struct coll_rates *rates, enum coll_algorithm way)
{
    if (way < COLL_ALGO_LL || way > COLL_ALGO_ENGINES || !can(q, way))
        return -1;
    if (way == COLL_ALGO_ENGINES)
        return engines_cost(q, rates, phases_of(q, rates, way));
    if (way == COLL_ALGO_STAGED)
        return scratch_cost(q, rates, phases_of(q, rates, way));
    bool direct = way == COLL_ALGO_SIMPLE, lines = by_lines(way);
    double begin = lines ? rates->lines_us : rates->one_trip_us;
    double bytes = link_bytes(q, way);
    double rate = direct ? rates->stores_gbps : lines ? rates->lines_gbps : rates->packets_gbps;
    double blocks = (direct  ? rates->block_stores_gbps
                     : lines ? rates->block_lines_gbps
                             : rates->block_packets_gbps) *
                    (q->most_blocks ? q->most_blocks : 1);
    if (direct)
        begin = coll_reduces(q->what)                         ? rates->combine_us
                : q->what == COLL_BROADCAST && q->members > 2 ? rates->spread_us
                                                              : rates->push_us;
    else if (has_two_trips(way))
        begin = lines ? rates->two_lines_us : rates->two_trips_us;
    double rounds = direct ? 1 : rounds_of(q, way);
    return rounds * begin + bytes / (rate < blocks ? rate : blocks) / 1e3;
}

double coll_least_bytes(const struct coll_question *q)
{
    double others = q->members - 1, bytes = (double)q->bytes;
    if (!others)
        return 0;
    if (q->what == COLL_REDUCE)
        return 2 * others / q->members * bytes;
    /* A broadcast may be handed on, and a sum for one be made in parts by all. */
    return q->what == COLL_BROADCAST || q->what == COLL_REDUCE_TO ? bytes : others * bytes;
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

/* A power of two, at most `most`. */
static unsigned power_for(uint64_t wanted, int most)
{
    unsigned blocks = 1;
    while (blocks < wanted && 2 * blocks <= (unsigned)most)
        blocks *= 2;
    return blocks;
}

static void size_packets(const struct coll_question *q, struct coll_choice *choice)
{
    uint64_t units = (choice->bytes + UNIT - 1) / UNIT;
    if (choice->way == COLL_WAY_TWO_TRIPS)
        units = (units + (uint64_t)q->members - 1) / (uint64_t)q->members;
    choice->blocks = power_for((units + PACKET_THREADS - 1) / PACKET_THREADS, q->most_blocks);
    uint64_t each = (units + choice->blocks - 1) / choice->blocks;
    choice->threads = each <= 32 ? 32 : PACKET_THREADS;
    while (choice->threads < each && choice->threads < MOST_THREADS / 2)
        choice->threads *= 2;
}

/* A piece for each warp, as far as there are threads. */
static void size_lines(const struct coll_question *q, struct coll_choice *choice)
{
    enum { WARPS = PACKET_THREADS / WARP };
    uint64_t pieces = (choice->bytes + PIECE - 1) / PIECE;
    if (choice->way == COLL_ALGO_TWO_SHOT_LL128)
        pieces = (pieces + (uint64_t)q->members - 1) / (uint64_t)q->members;
    choice->blocks = power_for((pieces + WARPS - 1) / WARPS, q->most_blocks);
    uint64_t each = (pieces + choice->blocks - 1) / choice->blocks;
    choice->threads = WARP;
    while (choice->threads < each * WARP && choice->threads < MOST_THREADS / 2)
        choice->threads *= 2;
}

static void size_direct(const struct coll_question *q, const struct coll_rates *rates,
                        struct coll_choice *choice)
{
    uint64_t others = (uint64_t)q->members - 1, bytes = q->bytes * (others ? others : 1);
    if (q->what == COLL_REDUCE || q->what == COLL_BROADCAST)
        bytes = q->bytes;
    choice->blocks = power_for(bytes / (uint64_t)rates->block_share_bytes, q->most_blocks);
    choice->threads = MOST_THREADS;
    if (q->what != COLL_BROADCAST || q->members <= 2)
        return;
    uint64_t chunks = q->bytes / others / choice->blocks / LEAST_CHUNK;
    choice->chunks = chunks < 1 ? 1 : chunks > MOST_CHUNKS ? MOST_CHUNKS : (uint32_t)chunks;
}

static void size_scratch(const struct coll_question *q, const struct coll_rates *rates,
                         struct coll_choice *choice)
{
    uint64_t others = (uint64_t)q->members - 1;
    choice->phases = phases_of(q, rates, COLL_ALGO_STAGED);
    uint64_t bytes = choice->bytes * (has_slices(q) || choice->phases > 1 || !others ? 1 : others);
    choice->blocks = power_for(bytes / (uint64_t)rates->block_share_bytes, q->most_blocks);
    while (choice->blocks > 1 && scratch_slot(q, choice->blocks) < LEAST_SLOT)
        choice->blocks /= 2;
    choice->threads = MOST_THREADS;
}

/* As many blocks as there may be: the size is not known. One member has no other one's memory to
 * reach. */
static struct coll_choice choose_sized(const struct coll_question *q,
                                       const struct coll_rates *rates)
{
    bool direct = q->members == 1 || (q->direct && q->wish != COLL_ALGO_STAGED);
    struct coll_choice choice = {.way = direct ? COLL_ALGO_SIMPLE : COLL_ALGO_STAGED,
                                 .bytes = q->bytes};
    choice.blocks = power_for(SIZED_BLOCKS, q->most_blocks);
    while (!direct && choice.blocks > 1 && scratch_slot(q, choice.blocks) < LEAST_SLOT)
        choice.blocks /= 2;
    choice.threads = MOST_THREADS;
    choice.us = rates->push_us + (direct ? 0 : coll_flag_us(rates));
    return choice;
}

static bool lines_are_estimates(const struct coll_rates *rates)
{
    static const enum coll_rate of_lines[] = {COLL_RATE_lines_us, COLL_RATE_two_lines_us,
                                              COLL_RATE_lines_gbps, COLL_RATE_block_lines_gbps};
    bool any = false;
    for (size_t i = 0; i < sizeof of_lines / sizeof *of_lines; i++)
        any |= coll_rates_estimated(rates, of_lines[i]);
    return any;
}

/* Lines are taken unasked where their rates were measured. Through scratch nothing goes
 * unasked that could be stored where it belongs. */
static bool is_candidate(const struct coll_question *q, const struct coll_rates *rates,
                         enum coll_algorithm way)
{
    if (way == COLL_ALGO_STAGED && way != q->wish && can(q, COLL_ALGO_SIMPLE))
        return false;
    return !by_lines(way) || way == q->wish || !lines_are_estimates(rates);
}

struct coll_choice coll_choose(const struct coll_question *q, const struct coll_rates *rates)
{
    if (q->what == COLL_COLLECT || q->what == COLL_ALLTOALLV)
        return choose_sized(q, rates);
    struct coll_choice choice = {.way = COLL_ALGO_LL, .bytes = q->bytes};
    enum coll_algorithm wish = q->wish == COLL_ALGO_AUTO && !q->most_blocks ? COLL_ALGO_ENGINES : q->wish;
    choice.us = coll_cost(q, rates, COLL_ALGO_LL);
    for (enum coll_algorithm way = COLL_WAY_TWO_TRIPS; way <= COLL_ALGO_ENGINES; way++) {
        double us = is_candidate(q, rates, way) ? coll_cost(q, rates, way) : -1;
        if (us >= 0 && (way == wish || (us < choice.us && choice.way != wish))) {
            choice.way = way;
            choice.us = us;
        }
    }
    uint64_t most = most_bytes(q, choice.way);
    choice.bytes = q->bytes < most ? q->bytes : most;
    if (choice.way == COLL_ALGO_ENGINES) {
        choice.blocks = 1; /* of the meetings */
        choice.threads = q->members <= 32 ? 32 : 64;
        choice.phases = phases_of(q, rates, choice.way);
    } else if (choice.way == COLL_ALGO_SIMPLE)
        size_direct(q, rates, &choice);
    else if (choice.way == COLL_ALGO_STAGED)
        size_scratch(q, rates, &choice);
    else if (by_lines(choice.way))
        size_lines(q, &choice);
    else
        size_packets(q, &choice);
    return choice;
}

const char *coll_way_name(enum coll_algorithm way)
{
    static const char *const names[] = {
        "auto",   "packets",         "two trips of packets", "lines", "two trips of lines",
        "direct", "through scratch", "copy engines",         "copies"};
    return names[way];
}

int coll_blocks_of(int64_t sms)
{
    enum { MOST_BLOCKS = 64 };
    return sms ? (int)power_for(MOST_BLOCKS, sms < MOST_BLOCKS ? (int)sms : MOST_BLOCKS) : 0;
}
