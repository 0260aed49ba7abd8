/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a collective's algorithm: which algorithm is chosen at each size on H100, how many
 * bytes each algorithm takes at most, and that the kernels can execute every choice. */
#include "ops/coll/choose.h"

#include "gpu/coll/coll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/golden.h"

static struct coll_question ask(enum coll_what what, int members, uint64_t bytes)
{
    return (struct coll_question){what, members, bytes,          COLL_WIDE_SET, false,
                                  true, 64,      COLL_ALGO_AUTO, false,         false};
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        enum coll_what what;
        int members;
        uint64_t bytes;
        enum coll_algorithm way;
    } rows[] = {
        {COLL_ALLREDUCE, 2, 8, COLL_ALGO_LL},
        {COLL_ALLREDUCE, 2, 64 << 10, COLL_ALGO_LL},
        {COLL_ALLREDUCE, 2, 4 << 20, COLL_ALGO_SIMPLE},
        {COLL_ALLREDUCE, 4, 4 << 10, COLL_ALGO_LL},
        {COLL_ALLREDUCE, 4, 64 << 10, COLL_ALGO_TWO_SHOT_LL},
        {COLL_ALLREDUCE, 4, 256 << 10, COLL_ALGO_SIMPLE},
        {COLL_ALLREDUCE, 4, 16 << 20, COLL_ALGO_SIMPLE},
        {COLL_ALLGATHER, 4, 8, COLL_ALGO_LL},
        {COLL_ALLGATHER, 4, 16 << 10, COLL_ALGO_LL},
        {COLL_ALLGATHER, 4, 64 << 10, COLL_ALGO_SIMPLE},
        {COLL_ALLGATHER, 4, 1 << 20, COLL_ALGO_SIMPLE},
        {COLL_ALLTOALL, 2, 64 << 10, COLL_ALGO_LL},
        {COLL_ALLTOALL, 2, 4 << 20, COLL_ALGO_SIMPLE},
        {COLL_ALLTOALL, 2, 64 << 20, COLL_ALGO_ENGINES},
        {COLL_ALLTOALL, 4, 4 << 20, COLL_ALGO_SIMPLE},
        {COLL_ALLGATHER, 4, 64 << 20, COLL_ALGO_ENGINES},
        {COLL_SCATTER, 4, 64 << 20, COLL_ALGO_ENGINES},
        {COLL_GATHER, 4, 64 << 20, COLL_ALGO_ENGINES},
        {COLL_BROADCAST, 2, 256 << 20, COLL_ALGO_ENGINES},
        {COLL_BROADCAST, 4, 1000, COLL_ALGO_LL},
        {COLL_BROADCAST, 4, 64 << 20, COLL_ALGO_SIMPLE},
        {COLL_REDUCESCATTER, 8, 8, COLL_ALGO_LL},
        {COLL_REDUCESCATTER, 8, 8 << 20, COLL_ALGO_SIMPLE},
        {COLL_REDUCE, 4, 64 << 10, COLL_ALGO_LL},
        {COLL_REDUCE, 4, 64 << 20, COLL_ALGO_STAGED}, /* it has no algorithm "simple" */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_question q = ask(rows[i].what, rows[i].members, rows[i].bytes);
        struct coll_choice choice = coll_choose(&q, &coll_rates_built_in);
        if (choice.algorithm != rows[i].way)
            print_error("row %zu: %s and not %s\n", i, coll_algorithm_name(choice.algorithm),
                        coll_algorithm_name(rows[i].way));
        assert_int_equal(choice.algorithm, rows[i].way);
    }
}

/* LL128 is chosen between LL and simple, if LL128 has passed its test. */
static void lines(void **state)
{
    (void)state;
    static const struct {
        enum coll_what what;
        int members;
        uint64_t bytes;
        enum coll_algorithm way;
    } rows[] = {
        {COLL_ALLREDUCE, 2, 8, COLL_ALGO_LL128},
        {COLL_ALLREDUCE, 4, 4 << 10, COLL_ALGO_LL128},
        {COLL_ALLREDUCE, 4, 64 << 10, COLL_ALGO_LL128},
        {COLL_ALLREDUCE, 4, 256 << 10, COLL_ALGO_TWO_SHOT_LL128},
        {COLL_ALLREDUCE, 4, 512 << 10, COLL_ALGO_SIMPLE},
        {COLL_ALLREDUCE, 4, 16 << 20, COLL_ALGO_SIMPLE},
        {COLL_ALLGATHER, 4, 64 << 10, COLL_ALGO_LL128},
        {COLL_ALLTOALL, 2, 64 << 10, COLL_ALGO_LL128},
        {COLL_ALLTOALL, 4, 4 << 20, COLL_ALGO_SIMPLE},
        {COLL_BROADCAST, 4, 64 << 10, COLL_ALGO_LL128},
        {COLL_GATHER, 4, 64 << 10, COLL_ALGO_LL128},
        {COLL_SCATTER, 4, 64 << 10, COLL_ALGO_LL128},
        {COLL_REDUCE, 4, 64 << 10, COLL_ALGO_LL128},
        {COLL_REDUCE, 4, 64 << 20, COLL_ALGO_STAGED},
    };
    struct coll_rates estimated = coll_rates_built_in;
    estimated.estimates = 1u << COLL_RATE_lines_gbps;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_question q = ask(rows[i].what, rows[i].members, rows[i].bytes);
        q.ll128 = true;
        struct coll_choice choice = coll_choose(&q, &estimated);
        assert_true(choice.algorithm != COLL_ALGO_LL128 &&
                    choice.algorithm != COLL_ALGO_TWO_SHOT_LL128);
        choice = coll_choose(&q, &coll_rates_built_in);
        if (choice.algorithm != rows[i].way)
            print_error("row %zu: %s and not %s\n", i, coll_algorithm_name(choice.algorithm),
                        coll_algorithm_name(rows[i].way));
        assert_int_equal(choice.algorithm, rows[i].way);
        q.strided = true; /* only LL, simple or copy engines serve strided blocks */
        choice = coll_choose(&q, &coll_rates_built_in);
        assert_true(choice.algorithm != COLL_ALGO_LL128 &&
                    choice.algorithm != COLL_ALGO_TWO_SHOT_LL128);
    }
    struct coll_question q = ask(COLL_ALLGATHER, 4, 16 << 10); /* LL128 not tested */
    q.forced = COLL_ALGO_LL128;
    assert_int_equal(coll_choose(&q, &coll_rates_built_in).algorithm, COLL_ALGO_LL);
    assert_true(coll_cost(&q, &coll_rates_built_in, COLL_ALGO_LL128) < 0);
    q.ll128 = true;
    q.bytes = 8;
    assert_int_equal(coll_choose(&q, &coll_rates_built_in).algorithm, COLL_ALGO_LL128);
    q.bytes = 480 * 4; /* one warp per fragment, two warps per block */
    struct coll_choice choice = coll_choose(&q, &coll_rates_built_in);
    assert_int_equal(choice.blocks, 2);
    assert_int_equal(choice.threads, 64);
}

/* Beyond the sizes of LL, algorithm "staged" is chosen if the members cannot reach each other's
 * destinations. It is never chosen otherwise, except if forced. */
static void scratch(void **state)
{
    (void)state;
    static const struct {
        enum coll_what what;
        int members;
        uint64_t bytes;
        enum coll_algorithm way;
    } rows[] = {
        {COLL_ALLREDUCE, 4, 8, COLL_ALGO_LL},
        {COLL_ALLREDUCE, 4, 256 << 10, COLL_ALGO_TWO_SHOT_LL},
        {COLL_ALLREDUCE, 4, 16 << 20, COLL_ALGO_STAGED},
        {COLL_ALLREDUCE, 2, 16 << 20, COLL_ALGO_STAGED},
        {COLL_REDUCESCATTER, 4, 16 << 20, COLL_ALGO_STAGED},
        {COLL_ALLGATHER, 4, 64 << 10, COLL_ALGO_LL},
        {COLL_ALLGATHER, 4, 16 << 20, COLL_ALGO_STAGED},
        {COLL_ALLTOALL, 2, 256 << 20, COLL_ALGO_STAGED},
        {COLL_BROADCAST, 4, 64 << 20, COLL_ALGO_STAGED},
        {COLL_GATHER, 4, 4 << 20, COLL_ALGO_STAGED},
        {COLL_SCATTER, 4, 4 << 20, COLL_ALGO_STAGED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_question q = ask(rows[i].what, rows[i].members, rows[i].bytes);
        assert_true(coll_choose(&q, &coll_rates_built_in).algorithm != COLL_ALGO_STAGED);
        q.direct = false;
        struct coll_choice choice = coll_choose(&q, &coll_rates_built_in);
        if (choice.algorithm != rows[i].way)
            print_error("row %zu: %s and not %s\n", i, coll_algorithm_name(choice.algorithm),
                        coll_algorithm_name(rows[i].way));
        assert_int_equal(choice.algorithm, rows[i].way);
        q.checked = true; /* staged also serves calls whose arguments the members compare first */
        assert_int_equal(coll_choose(&q, &coll_rates_built_in).algorithm, rows[i].way);
        q.strided = rows[i].what == COLL_ALLTOALL; /* staged also serves strided elements */
        assert_int_equal(coll_choose(&q, &coll_rates_built_in).algorithm, rows[i].way);
    }
    static const struct {
        int members;
        uint64_t bytes;
        int phases;
    } broadcasts[] = {{4, 64 << 10, 1},  {4, 1 << 20, 2},   {3, 256 << 10, 1}, {3, 1 << 20, 2},
                      {2, 256 << 20, 1}, {64, 64 << 10, 1}, {64, 1 << 20, 2}};
    for (size_t i = 0; i < sizeof broadcasts / sizeof *broadcasts; i++) {
        struct coll_question q = ask(COLL_BROADCAST, broadcasts[i].members, broadcasts[i].bytes);
        q.forced = COLL_ALGO_STAGED;
        assert_int_equal(coll_choose(&q, &coll_rates_built_in).phases, broadcasts[i].phases);
        /* Each link carries each byte once; the cost is two flags more than that of simple. */
        q.forced = COLL_ALGO_AUTO;
        if (broadcasts[i].phases == 2)
            assert_true(coll_cost(&q, &coll_rates_built_in, COLL_ALGO_STAGED) <
                        1.5 * coll_cost(&q, &coll_rates_built_in, COLL_ALGO_SIMPLE));
    }
    struct coll_rates slow = coll_rates_built_in; /* simple is chosen if the members allow it */
    slow.spread_us = 1000;
    struct coll_question q = ask(COLL_BROADCAST, 4, 4 << 20);
    assert_true(coll_cost(&q, &slow, COLL_ALGO_STAGED) < coll_cost(&q, &slow, COLL_ALGO_LL));
    assert_true(coll_choose(&q, &slow).algorithm != COLL_ALGO_STAGED);
    q = ask(COLL_ALLGATHER, 64, 1 << 20); /* larger slots need fewer blocks */
    q.direct = false;
    q.set_bytes = COLL_NARROW_SET;
    q.forced = COLL_ALGO_STAGED;
    assert_int_equal(coll_choose(&q, &coll_rates_built_in).blocks, 2);
}

/* Checks the assumptions of a block of a staged collective: the slots fit the two halves of the
 * sets, and the number of steps fits the sequence number. */
static void check_scratch(const struct coll_question *q, const struct coll_choice *choice,
                          uint64_t bytes)
{
    uint64_t n = (uint64_t)q->members;
    unsigned sliced = q->what == COLL_ALLREDUCE || q->what == COLL_REDUCE;
    unsigned slots = COLL_STEP_SLOTS * (1 + sliced);
    uint64_t slot = coll_staging_slot_bytes(q->set_bytes, choice->blocks, 1 + sliced, (unsigned)n);
    uint64_t each = sliced ? (bytes + n - 1) / n + 16 : bytes;
    uint64_t steps = (each / choice->blocks + COLL_STAGING_GRAIN) / (slot ? slot : 1) + 1;
    assert_true(n > 1 && choice->threads == 512);
    assert_true(slot >= COLL_STAGING_GRAIN && slot % COLL_STAGING_GRAIN == 0);
    assert_true(choice->blocks * slots * (n - 1) * slot <= 4 * q->set_bytes);
    assert_true(steps + 2 < COLL_STEPS);
}

/* For unknown sizes, staged uses as many blocks as keep slots of at least 4 KiB: at least one and
 * at most 32. */
static void blocks_of_unknown_sizes(void **state)
{
    (void)state;
    int seen = 0;
    for (int n = 1; n <= COLL_MEMBERS; n++)
        for (int k = 0; k < 8; k++) {
            struct coll_question q = ask(k & 1 ? COLL_COLLECT : COLL_ALLTOALLV, n, 1 << 20);
            q.set_bytes = k & 2 ? COLL_WIDE_SET : COLL_NARROW_SET;
            q.direct = k & 4;
            unsigned blocks = coll_choose(&q, &coll_rates_built_in).blocks;
            if (q.direct || n == 1) {
                assert_int_equal(blocks, 32);
                continue;
            }
            uint64_t slot = coll_staging_slot_bytes(q.set_bytes, blocks, 1, (unsigned)n);
            assert_true(blocks == 1 || slot >= 4096);
            assert_true(blocks == 32 ||
                        coll_staging_slot_bytes(q.set_bytes, 2 * blocks, 1, (unsigned)n) < 4096);
            seen |= (int)blocks;
            q.most_blocks = 4;
            assert_true(coll_choose(&q, &coll_rates_built_in).blocks <= 4);
        }
    /* The rows reached the largest and a small number of blocks. */
    assert_true(seen & 32 && seen & 2);
}

/* With WEFT_COLL_SMS=0 copy engines serve all sizes, except for collectives that they cannot do. */
static void no_sms(void **state)
{
    (void)state;
    assert_int_equal(coll_blocks_of(0), 0);
    assert_int_equal(coll_blocks_of(1), 1);
    assert_int_equal(coll_blocks_of(63), 32);
    assert_int_equal(coll_blocks_of(1000), 64);
    for (int what = 0; what < COLL_WHATS; what++)
        for (uint64_t bytes = 8; bytes < (uint64_t)1 << 32; bytes *= 64) {
            struct coll_question q = ask((enum coll_what)what, 4, bytes);
            q.most_blocks = 0;
            struct coll_choice choice = coll_choose(&q, &coll_rates_built_in);
            assert_int_equal(choice.blocks, 1);
            if (what < COLL_ALLREDUCE)
                assert_int_equal(choice.algorithm, COLL_ALGO_ENGINES);
            else
                assert_true(choice.algorithm != COLL_ALGO_ENGINES);
            q.forced = COLL_ALGO_LL;
            assert_int_equal(coll_choose(&q, &coll_rates_built_in).algorithm,
                             coll_cost(&q, &coll_rates_built_in, q.forced) < 0 ? COLL_ALGO_SIMPLE
                                                                               : COLL_ALGO_LL);
        }
    struct coll_question q = ask(COLL_BROADCAST, 4, 1 << 30);
    q.forced = COLL_ALGO_ENGINES;
    assert_int_equal(coll_choose(&q, &coll_rates_built_in).phases, 2); /* each link carries less */
    q.members = 2;
    assert_int_equal(coll_choose(&q, &coll_rates_built_in).phases, 1);
    q.members = 4;
    q.bytes = 4096;
    assert_int_equal(coll_choose(&q, &coll_rates_built_in).phases, 1);
}

/* Checks the assumptions of the kernels for one choice. */
static void check(const struct coll_question *q)
{
    struct coll_choice choice = coll_choose(q, &coll_rates_built_in);
    uint64_t n = (uint64_t)q->members, units = (choice.bytes + 15) / 16;
    uint64_t pieces = (choice.bytes + COLL_PIECE - 1) / COLL_PIECE;
    bool sized = q->what == COLL_COLLECT || q->what == COLL_ALLTOALLV;
    assert_true(choice.bytes > 0 && choice.bytes <= q->bytes);
    assert_true(choice.bytes == q->bytes || choice.bytes % 16 == 0);
    assert_true(choice.blocks >= 1);
    assert_true(choice.blocks <= (unsigned)(q->most_blocks ? q->most_blocks : 1));
    /* A power of two, so that tickets are divided evenly. */
    assert_true((choice.blocks & (choice.blocks - 1)) == 0);
    assert_true(choice.threads >= 32 && choice.threads <= 512 && choice.threads % 32 == 0);
    assert_true(choice.chunks < COLL_CHUNKS);
    assert_true(choice.us > 0);
    if (choice.algorithm == COLL_ALGO_LL) /* the data fits a slot */
        assert_true(units * COLL_UNIT_WIRE <= q->set_bytes / n);
    if (choice.algorithm == COLL_ALGO_TWO_SHOT_LL) {
        assert_int_equal(q->what, COLL_ALLREDUCE);
        assert_true((units + n - 1) / n * COLL_UNIT_WIRE <= q->set_bytes / (2 * n));
        uint64_t slice = (units + n - 1) / n;
        assert_true(slice * (n - 1) < units); /* no slice is empty, so all pairs exchange LL data */
    }
    if (choice.algorithm == COLL_ALGO_LL128)
        assert_true(pieces * COLL_PIECE_WIRE <= q->set_bytes / n);
    if (choice.algorithm == COLL_ALGO_TWO_SHOT_LL128) {
        assert_int_equal(q->what, COLL_ALLREDUCE);
        assert_true((pieces + n - 1) / n * COLL_PIECE_WIRE <= q->set_bytes / (2 * n));
        assert_true((pieces + n - 1) / n * (n - 1) < pieces);
    }
    if (choice.algorithm == COLL_ALGO_LL128 || choice.algorithm == COLL_ALGO_TWO_SHOT_LL128)
        assert_true(q->ll128 && !q->strided && choice.threads <= 256);
    if (choice.algorithm == COLL_ALGO_STAGED)
        /* The kernel determines the slots of unknown sizes. */
        check_scratch(q, &choice, sized ? 1 : choice.bytes);
    if (choice.algorithm == COLL_ALGO_SIMPLE || choice.algorithm == COLL_ALGO_ENGINES)
        assert_true(choice.bytes == q->bytes);
    assert_int_equal(choice.phases > 0, choice.algorithm == COLL_ALGO_ENGINES ||
                                            (choice.algorithm == COLL_ALGO_STAGED && !sized));
    if (choice.algorithm == COLL_ALGO_ENGINES)
        assert_true(!q->strided && !q->checked);
    if (choice.algorithm == COLL_ALGO_ENGINES)
        assert_true(q->what < COLL_ALLREDUCE && choice.threads >= (unsigned)n &&
                    choice.blocks == 1);
    if (choice.phases == 2) /* slices are at least a page, and none is empty */
        assert_true(q->what == COLL_BROADCAST && q->bytes / (n - 1) >= 4096);
    if (sized)
        assert_int_equal(choice.algorithm, n == 1 || (q->direct && q->forced != COLL_ALGO_STAGED)
                                               ? COLL_ALGO_SIMPLE
                                               : COLL_ALGO_STAGED);
    else if (!q->direct)
        assert_true(choice.algorithm != COLL_ALGO_SIMPLE && choice.algorithm != COLL_ALGO_ENGINES);
    if (choice.chunks)
        assert_true(q->what == COLL_BROADCAST && n > 2 && choice.algorithm == COLL_ALGO_SIMPLE);
    if (q->forced != COLL_ALGO_AUTO && coll_cost(q, &coll_rates_built_in, q->forced) >= 0)
        assert_int_equal(choice.algorithm, q->forced);
}

static void every_answer(void **state)
{
    (void)state;
    static const int limits[] = {1, 4, 16, 64, 0};
    for (int what = 0; what < COLL_WHATS; what++)
        for (int n = 1; n <= COLL_MEMBERS; n += n < 9 ? 1 : 11)
            for (uint64_t bytes = 1; bytes < (uint64_t)1 << 40; bytes = bytes * 7 + 5)
                for (int k = 0; k < 5 * 8 * 8; k++) {
                    struct coll_question q = ask((enum coll_what)what, n, bytes);
                    q.most_blocks = limits[k % 5];
                    q.forced = (enum coll_algorithm)(k / 5 % 8);
                    q.direct = k / 40 & 1;
                    q.ll128 = k / 40 & 4;
                    q.checked = bytes % 3 == 1;
                    q.set_bytes = k / 40 & 2 ? COLL_WIDE_SET : COLL_NARROW_SET;
                    check(&q);
                }
}

/* By the cost model, more blocks never make a collective slower, and more bytes never make it
 * faster. */
static void costs(void **state)
{
    (void)state;
    for (int what = 0; what < COLL_COLLECT; what++)
        for (int n = 2; n <= 8; n++) {
            double before = 0;
            for (uint64_t bytes = 8; bytes < (uint64_t)1 << 30; bytes *= 2) {
                struct coll_question q = ask((enum coll_what)what, n, bytes), few = q;
                few.most_blocks = 8;
                double us = coll_choose(&q, &coll_rates_built_in).us;
                assert_true(us >= before && us <= coll_choose(&few, &coll_rates_built_in).us);
                before = us;
            }
        }
}

/* The choices, and the modelled cost of each algorithm, are equal to golden/coll_choose.txt. */
static void as_written(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        1, 4095, 48 << 10, (1 << 20) + 24, 40 << 20, (uint64_t)3 << 30};
    static const int members[] = {1, 2, 3, 7, 64};
    static char text[1 << 18];
    struct coll_rates measured = coll_rates_built_in;
    size_t used = 0;
    measured.estimates = 0;
    for (int what = 0; what < COLL_WHATS; what++)
        for (size_t m = 0; m < 5; m++)
            for (size_t b = 0; b < 6; b++) {
                struct coll_question q = ask((enum coll_what)what, members[m], sizes[b]);
                used += (size_t)snprintf(text + used, sizeof text - used, "%d of %d, %llu:", what,
                                         q.members, (unsigned long long)q.bytes);
                for (int way = -1; way <= COLL_ALGO_COPIES + 1; way++) {
                    q.ll128 = true;
                    used += (size_t)snprintf(text + used, sizeof text - used, " %.4g",
                                             coll_cost(&q, &measured, (enum coll_algorithm)way));
                }
                for (int k = 0; k < 4; k++) {
                    q.ll128 = k == 1;
                    q.direct = k < 2;
                    q.strided = k == 2;
                    q.most_blocks = k == 3 ? 5 : 64;
                    q.set_bytes = k == 3 ? COLL_NARROW_SET : COLL_WIDE_SET;
                    struct coll_choice c = coll_choose(&q, &measured);
                    used += (size_t)snprintf(text + used, sizeof text - used,
                                             "; %d %llu %ux%u %u %d %.4g", (int)c.algorithm,
                                             (unsigned long long)c.bytes, c.blocks, c.threads,
                                             c.chunks, c.phases, c.us);
                }
                used += (size_t)snprintf(text + used, sizeof text - used, "; %.4g\n",
                                         coll_floor(&q, &measured));
            }
    golden_is(GOLDEN, text);
}

/* Blocks and threads of each algorithm at sizes where a unit, a fragment, a warp, a block's share
 * or a slice is exactly full, or one byte short or over. */
static void edges_as_written(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        16,       32 * 16,        32 * 16 + 1,      64 * 16 * 16, 64 * 16 * 16 + 1,
        480 * 2,  480 * 2 + 1,    480 * 32 + 1,     3 * 16 * 65,  3 * 480 * 3 + 1,
        8 << 10,  (8 << 10) - 2,  31 * (4 << 10),   1 << 19,      (3 << 18) - 1,
        20 << 20, (5 << 20) + 16, (1 << 20) * 9 + 9};
    static const enum coll_what whats[] = {COLL_BROADCAST, COLL_ALLGATHER, COLL_ALLREDUCE,
                                           COLL_REDUCE, COLL_COLLECT};
    static const int members[] = {1, 2, 3, 32, 33};
    static char text[1 << 18];
    size_t used = 0;
    for (size_t w = 0; w < sizeof whats / sizeof *whats; w++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++)
            for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++) {
                used += (size_t)snprintf(text + used, sizeof text - used,
                                         "%d of %d, %llu:", (int)whats[w], members[m],
                                         (unsigned long long)sizes[b]);
                for (int way = COLL_ALGO_LL; way <= COLL_ALGO_ENGINES; way++) {
                    struct coll_question q = ask(whats[w], members[m], sizes[b]);
                    q.ll128 = true;
                    q.forced = (enum coll_algorithm)way;
                    q.most_blocks = way == COLL_ALGO_SIMPLE ? 64 : 16;
                    struct coll_choice c = coll_choose(&q, &coll_rates_built_in);
                    used += (size_t)snprintf(
                        text + used, sizeof text - used, " %d:%llu,%ux%u,%u,%d", (int)c.algorithm,
                        (unsigned long long)c.bytes, c.blocks, c.threads, c.chunks, c.phases);
                }
                used += (size_t)snprintf(
                    text + used, sizeof text - used, "; %.5g\n",
                    coll_least_bytes(&(struct coll_question){
                        .what = whats[w], .members = members[m], .bytes = sizes[b]}));
            }
    golden_is(GOLDEN_EDGES, text);
}

/* The areas of successive teams are adjacent. */
static void areas(void **state)
{
    (void)state;
    for (int wide = 1; wide <= COLL_WIDE_TEAMS; wide++) {
        const struct coll_areas areas = {.offset = 77, .teams = COLL_TEAMS, .wide = wide};
        assert_int_equal(coll_area_offset(&areas, 0), 77);
        for (int team = 0; team < COLL_TEAMS; team++) {
            assert_int_equal(coll_set_bytes(&areas, team), team < wide ? 2 << 20 : 256 << 10);
            assert_int_equal(coll_area_offset(&areas, team + 1) - coll_area_offset(&areas, team),
                             sizeof(struct coll_area) + 4 * coll_set_bytes(&areas, team));
        }
    }
    assert_int_equal(sizeof(struct coll_area) % 128, 0);
    assert_true(sizeof(struct coll_call) <= 4096); /* limit of a kernel's parameters */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),        cmocka_unit_test(lines),
        cmocka_unit_test(no_sms),       cmocka_unit_test(scratch),
        cmocka_unit_test(every_answer), cmocka_unit_test(costs),
        cmocka_unit_test(areas),        cmocka_unit_test(blocks_of_unknown_sizes),
        cmocka_unit_test(as_written),   cmocka_unit_test(edges_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
