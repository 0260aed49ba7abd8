/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions by the host. The bits of the result are those of the team's order, independent of
 * shared memory and of the vector's length. Also tested: the number of calls and bytes, and that a
 * failed call ends that member's part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/members.h"

#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>

enum { GUARD = 64, FROM = 128 + GUARD, TO = (12 << 20) + 64, FILL = 0x5a };

enum what {
    ALLREDUCE,
    SCALED,
    WEIGHTED,
    EACH,
    EACH_SCALED,
    EACH_WEIGHTED,
    ONE,
    ONE_SCALED,
    ONE_WEIGHTED
};

static const struct layout layouts[] = {
    {.n = 3, .node = {0, 0, 0}},
    {.n = 4, .node = {0, 0, 0, 0}, .apart = true},
    {.n = 5, .node = {0, 0, 0, 1, 0}},
    {.n = 5, .node = {0, 0, 1, 1, 1}, .nodes = true},
    {.n = 6, .node = {0, 1, 0, 2, 1, 1}, .nodes = true},
    {.n = 5, .node = {0, 1, 1, 2, 2}, .nodes = true, .apart = true},
};

struct row {
    enum what what;
    int layout, root;
    weft_type type;
    weft_op op;
    size_t n;
    bool in_place;
    int calls; /* expected */
    size_t crossed;
};

static const struct row *row;

static size_t element(void)
{
    return row->type == WEFT_BFLOAT16 ? 2 : row->type == WEFT_INT64 ? 8 : 4;
}

static bool is_each(void)
{
    return row->what >= EACH && row->what < ONE;
}

/* Number of elements in the source. */
static size_t source_n(void)
{
    return is_each() ? row->n * (size_t)layouts[row->layout].n : row->n;
}

static double factor_of(int member)
{
    bool weighted = row->what % 3 == 2, scaled = row->what % 3 == 1;
    return weighted ? 0.25 * (member + 1) : scaled ? 0.75 : 1;
}

/* Sums of these values depend on the order. */
static float any_real(int member, size_t i)
{
    uint32_t x = ((uint32_t)i + 1) * 2654435761u + (uint32_t)member * 40503u * 65537u;
    x ^= x >> 15;
    union {
        uint32_t bits;
        float real;
    } v = {(x & 0x807fffff) | (uint32_t)(120 + (x >> 23) % 16) << 23};
    if (row->type == WEFT_BFLOAT16)
        v.bits &= 0xffff0000;
    return v.real;
}

static void store(char *at, float real, int64_t whole)
{
    int32_t narrow = (int32_t)whole;
    uint32_t bits;
    memcpy(&bits, &real, 4);
    bits += 0x7fff + (bits >> 16 & 1); /* round to nearest, ties to even */
    if (row->type == WEFT_INT32)
        memcpy(at, &narrow, 4);
    else if (row->type == WEFT_INT64)
        memcpy(at, &whole, 8);
    else if (row->type == WEFT_FLOAT)
        memcpy(at, &real, 4);
    else
        memcpy(at, (char *)&bits + 2, 2);
}

static int64_t any_whole(int member, size_t i)
{
    return (int64_t)(i * 7919 + (size_t)member * 104729) % 1000003;
}

/* Computes element i of the reduction over all members. */
static void expected(size_t i, char *at)
{
    float sum = 0;
    int64_t whole = 0;
    int n = layouts[row->layout].n;
    for (int m = 0; m < n; m++) {
        float scaled = (float)(any_real(m, i) * (float)factor_of(m));
        int64_t one = any_whole(m, i);
        sum = m ? sum + scaled : scaled;
        whole = row->op == WEFT_XOR ? whole ^ one : whole + one;
    }
    if (row->op == WEFT_AVG)
        sum /= (float)n;
    store(at, sum, whole);
}

static char *destination(int me)
{
    size_t at = is_each() ? (size_t)me * row->n * element() : 0;
    return members[me].heap + (row->in_place ? FROM + at : TO);
}

static void fill(void)
{
    size_t bytes = row->n * element();
    for (int i = 0; i < layouts[row->layout].n; i++) {
        if (!row->in_place)
            memset(members[i].heap + TO - GUARD, FILL, bytes + 2 * (size_t)GUARD);
    }
}

/* Result of the reduction over all members. A member overwrites its memory when its call
 * returns. */
static char results[12 << 20];

static bool has_arrived(int me)
{
    size_t bytes = row->n * element();
    char *dst = destination(me);
    const char *from = results + (is_each() ? (size_t)me * bytes : 0);
    bool same = true;
    for (size_t k = 0; k < GUARD && !row->in_place; k++)
        same &= dst[-1 - (ptrdiff_t)k] == FILL && dst[bytes + k] == FILL;
    if (row->what >= ONE && me != row->root)
        same &= row->in_place || dst[0] == FILL;
    else
        same &= !memcmp(dst, from, bytes);
    memset(dst, 1, bytes);
    memset(members[me].heap + FROM, 2, source_n() * element());
    return same;
}

static void body(int me)
{
    struct member *m = &members[me];
    char *dst = destination(me), *src = m->heap + FROM;
    weft_team *team = &m->team;
    size_t n = row->n;
    float factor = (float)factor_of(me);
    weft_type type = row->type;
    for (size_t k = 0; k < source_n() && !crowd.fails_at && !crowd.fails_wait; k++)
        /* The source is written just before the call. */
        store(src + k * element(), any_real(me, k), any_whole(me, k));
    switch (row->what) {
    case ALLREDUCE:
        m->status = weft_allreduce(team, dst, src, n, type, row->op);
        break;
    case SCALED:
        m->status = weft_allreduce_scaled(team, dst, src, n, type, &factor);
        break;
    case WEIGHTED:
        m->status = weft_allreduce_weighted(team, dst, src, n, type, &factor);
        break;
    case EACH:
        m->status = weft_reducescatter(team, dst, src, n, type, row->op);
        break;
    case EACH_SCALED:
        m->status = weft_reducescatter_scaled(team, dst, src, n, type, &factor);
        break;
    case EACH_WEIGHTED:
        m->status = weft_reducescatter_weighted(team, dst, src, n, type, &factor);
        break;
    case ONE:
        m->status = weft_reduce(team, dst, src, n, type, row->op, row->root);
        break;
    case ONE_SCALED:
        m->status = weft_reduce_scaled(team, dst, src, n, type, &factor, row->root);
        break;
    case ONE_WEIGHTED:
        m->status = weft_reduce_weighted(team, dst, src, n, type, &factor, row->root);
        break;
    }
    m->arrived = !m->status && crowd.failed < 0 && has_arrived(me);
}

static void use_buffers(bool use)
{
    setenv("WEFT_TEST_COLL_BUFFER", use ? "256K" : "0", 1);
    config_reset();
}

static void check(size_t number)
{
    for (int i = 0; i < layouts[row->layout].n; i++) {
        assert_int_equal(members[i].status, WEFT_OK);
        if (!members[i].arrived)
            fail_msg("row %zu: the result of member %d", number, i);
    }
}

static const struct row rows[] = {
    {ALLREDUCE, 0, 0, WEFT_FLOAT, WEFT_SUM, 14, false, 0, 0},
    {ALLREDUCE, 0, 0, WEFT_FLOAT, WEFT_AVG, 15, true, 0, 0},
    {ALLREDUCE, 0, 0, WEFT_INT64, WEFT_XOR, 1003, false, 0, 0},
    {ALLREDUCE, 0, 0, WEFT_FLOAT, WEFT_AVG, 3001, true, 0, 0},
    {ALLREDUCE, 0, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 48, 0},
    {SCALED, 0, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 48, 0},
    {WEIGHTED, 0, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 48, 0},
    {EACH, 0, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 36, 0},
    {EACH_SCALED, 0, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 36, 0},
    {EACH_WEIGHTED, 0, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 36, 0},
    {ONE, 0, 2, WEFT_INT32, WEFT_SUM, 333, false, 16, 0},
    {ONE_SCALED, 0, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 16, 0},
    {ONE_WEIGHTED, 0, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 16, 0},
    {ALLREDUCE, 1, 0, WEFT_FLOAT, WEFT_SUM, 14, false, 48, 1344},
    {ALLREDUCE, 1, 0, WEFT_FLOAT, WEFT_AVG, 15, true, 158, 1104},
    {ALLREDUCE, 1, 0, WEFT_INT64, WEFT_XOR, 1003, false, 200, 96672},
    {ALLREDUCE, 1, 0, WEFT_FLOAT, WEFT_AVG, 3001, true, 200, 144432},
    {ALLREDUCE, 1, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 224, 32416},
    {SCALED, 1, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 224, 32448},
    {WEIGHTED, 1, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 272, 32832},
    {EACH, 1, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 200, 53664},
    {EACH_SCALED, 1, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 200, 12704},
    {EACH_WEIGHTED, 1, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 248, 13088},
    {ONE, 1, 2, WEFT_INT32, WEFT_SUM, 333, false, 164, 13704},
    {ONE_SCALED, 1, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 164, 3464},
    {ONE_WEIGHTED, 1, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 212, 3848},
    {ALLREDUCE, 2, 0, WEFT_FLOAT, WEFT_SUM, 14, false, 32, 896},
    {ALLREDUCE, 2, 0, WEFT_FLOAT, WEFT_AVG, 15, true, 102, 496},
    {ALLREDUCE, 2, 0, WEFT_INT64, WEFT_XOR, 1003, false, 138, 51552},
    {ALLREDUCE, 2, 0, WEFT_FLOAT, WEFT_AVG, 3001, true, 138, 77456},
    {ALLREDUCE, 2, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 192, 13000},
    {SCALED, 2, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 192, 13008},
    {WEIGHTED, 2, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 224, 13264},
    {EACH, 2, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 152, 21504},
    {EACH_SCALED, 2, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 152, 5120},
    {EACH_WEIGHTED, 2, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 184, 5376},
    {ONE, 2, 2, WEFT_INT32, WEFT_SUM, 333, false, 96, 2856},
    {ONE_SCALED, 2, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 96, 808},
    {ONE_WEIGHTED, 2, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 128, 1064},
    {ALLREDUCE, 3, 0, WEFT_FLOAT, WEFT_SUM, 14, false, 20, 560},
    {ALLREDUCE, 3, 0, WEFT_FLOAT, WEFT_AVG, 15, true, 30, 272},
    {ALLREDUCE, 3, 0, WEFT_INT64, WEFT_XOR, 1003, false, 32, 32128},
    {ALLREDUCE, 3, 0, WEFT_FLOAT, WEFT_AVG, 3001, true, 32, 48048},
    {ALLREDUCE, 3, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 144, 19280},
    {SCALED, 3, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 144, 19296},
    {WEIGHTED, 3, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 164, 19456},
    {EACH, 3, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 104, 32032},
    {EACH_SCALED, 3, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 104, 7456},
    {EACH_WEIGHTED, 3, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 124, 7616},
    {ONE, 3, 2, WEFT_INT32, WEFT_SUM, 333, false, 48, 5392},
    {ONE_SCALED, 3, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 48, 1912},
    {ONE_WEIGHTED, 3, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 68, 2072},
    {ALLREDUCE, 4, 0, WEFT_FLOAT, WEFT_SUM, 14, false, 48, 1344},
    {ALLREDUCE, 4, 0, WEFT_FLOAT, WEFT_AVG, 15, true, 116, 696},
    {ALLREDUCE, 4, 0, WEFT_INT64, WEFT_XOR, 1003, false, 32, 64224},
    {ALLREDUCE, 4, 0, WEFT_FLOAT, WEFT_AVG, 3001, true, 164, 136136},
    {ALLREDUCE, 4, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 240, 29552},
    {SCALED, 4, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 240, 29584},
    {WEIGHTED, 4, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 288, 29968},
    {EACH, 4, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 180, 58800},
    {EACH_SCALED, 4, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 180, 13744},
    {EACH_WEIGHTED, 4, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 228, 14128},
    {ONE, 4, 2, WEFT_INT32, WEFT_SUM, 333, false, 100, 10848},
    {ONE_SCALED, 4, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 100, 2040},
    {ONE_WEIGHTED, 4, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 148, 3040},
    {ALLREDUCE, 5, 0, WEFT_FLOAT, WEFT_SUM, 14, false, 80, 2240},
    {ALLREDUCE, 5, 0, WEFT_FLOAT, WEFT_AVG, 15, true, 82, 1448},
    {ALLREDUCE, 5, 0, WEFT_INT64, WEFT_XOR, 1003, false, 82, 176656},
    {ALLREDUCE, 5, 0, WEFT_FLOAT, WEFT_AVG, 3001, true, 82, 264216},
    {ALLREDUCE, 5, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 240, 40360},
    {SCALED, 5, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 240, 40400},
    {WEIGHTED, 5, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 320, 41040},
    {EACH, 5, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 200, 80240},
    {EACH_SCALED, 5, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 200, 18800},
    {EACH_WEIGHTED, 5, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 280, 19440},
    {ONE, 5, 2, WEFT_INT32, WEFT_SUM, 333, false, 144, 16304},
    {ONE_SCALED, 5, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 144, 4016},
    {ONE_WEIGHTED, 5, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 224, 4656},
    {ALLREDUCE, 0, 0, WEFT_FLOAT, WEFT_SUM, 13001, false, 0, 0},
    {ALLREDUCE, 1, 0, WEFT_FLOAT, WEFT_SUM, 180003, true, 116, 4320264},
    {ALLREDUCE, 3, 0, WEFT_FLOAT, WEFT_AVG, 270003, true, 32, 2160056},
    {ALLREDUCE, 4, 0, WEFT_FLOAT, WEFT_SUM, 130003, true, 82, 2946796},
    {ALLREDUCE, 4, 0, WEFT_INT32, WEFT_SUM, 140003, true, 32, 2240080},
    {ALLREDUCE, 5, 0, WEFT_FLOAT, WEFT_SUM, 270003, false, 87, 11880228},
    {ONE, 0, 1, WEFT_FLOAT, WEFT_SUM, 1048577, false, 13, 0},
};

static void check_rows(const struct row *first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        row = &first[i];
        crowd_begin(&layouts[row->layout]);
        crowd.operation = row->what < EACH  ? BOX_OP_ALLREDUCE
                          : row->what < ONE ? BOX_OP_REDUCESCATTER
                                            : BOX_OP_REDUCE;
        /* Small ones run twice: data of the first run must not be taken for data of the second. */
        for (int again = 0; again < (row->n > 70000 ? 1 : 2); again++) {
            fill();
            for (size_t k = 0; k < source_n(); k++)
                expected(k, results + k * element());
            crowd_run(body);
            check(i);
        }
        if (crowd.calls != row->calls || crowd.crossed != row->crossed)
            fail_msg("row %zu: %d, %zu", i, crowd.calls, crowd.crossed);
        assert_int_equal(crowd.memory, 0);
    }
}

static void results_have_the_bits_of_the_order_of_the_team(void **state)
{
    (void)state;
    use_buffers(false);
    check_rows(rows, sizeof rows / sizeof *rows);
}

/* Those that pass through a buffer, of layouts with nodes. */
static const struct row buffered[] = {
    {ALLREDUCE, 3, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 62, 16048},
    {SCALED, 3, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 62, 8048},
    {WEIGHTED, 3, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 62, 8048},
    {EACH, 3, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 62, 26672},
    {EACH_SCALED, 3, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 62, 6192},
    {EACH_WEIGHTED, 3, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 62, 6192},
    {ONE, 3, 2, WEFT_INT32, WEFT_SUM, 333, false, 46, 5360},
    {ONE_SCALED, 3, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 46, 1264},
    {ONE_WEIGHTED, 3, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 46, 1264},
    {ONE, 4, 2, WEFT_INT32, WEFT_SUM, 333, false, 48, 10688},
    {ALLREDUCE, 5, 0, WEFT_BFLOAT16, WEFT_SUM, 1001, false, 112, 128256},
    {SCALED, 5, 0, WEFT_FLOAT, WEFT_SUM, 501, false, 112, 84296},
    {WEIGHTED, 5, 0, WEFT_FLOAT, WEFT_SUM, 501, true, 112, 84296},
    {EACH, 5, 0, WEFT_FLOAT, WEFT_AVG, 333, false, 112, 226568},
    {EACH_SCALED, 5, 0, WEFT_FLOAT, WEFT_SUM, 77, true, 112, 52488},
    {EACH_WEIGHTED, 5, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 112, 52488},
    {ONE, 5, 2, WEFT_INT32, WEFT_SUM, 333, false, 96, 45416},
    {ONE_SCALED, 5, 1, WEFT_FLOAT, WEFT_SUM, 77, true, 96, 10600},
    {ONE_WEIGHTED, 5, 0, WEFT_FLOAT, WEFT_SUM, 77, false, 96, 10600},
    {EACH, 3, 0, WEFT_FLOAT, WEFT_SUM, 13107, false, 62, 1048592},
    {ALLREDUCE, 5, 0, WEFT_BFLOAT16, WEFT_AVG, 65536, true, 112, 8388736},
};

static void buffers_have_the_same_bits(void **state)
{
    (void)state;
    use_buffers(true);
    check_rows(buffered, sizeof buffered / sizeof *buffered);
}

static void fail_calls_of(const struct row *first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        row = &first[i];
        int calls = row->n > 10000 ? 12 : row->calls;
        if (row->n > 10000 && row->n != 130003)
            continue;
        for (int k = 1, failing = 1; failing && k < calls + 30; k++) {
            bool of_waits = k > calls;
            crowd_begin(&layouts[row->layout]);
            crowd.fails_at = of_waits ? 0 : k;
            crowd.fails_wait = of_waits ? k - calls : 0;
            crowd_run(body);
            failing = crowd.failed >= 0;
            for (int m = 0; m < layouts[row->layout].n && failing; m++)
                if (m == crowd.failed)
                    assert_int_equal(members[m].status, WEFT_ERR_SYSTEM);
                else
                    assert_true(members[m].status == WEFT_OK ||
                                members[m].status == WEFT_ERR_TIMEOUT);
            if (failing && members[crowd.failed].calls_after)
                fail_msg("row %zu: member %d goes on when call or wait %d has failed\n", i,
                         crowd.failed, k);
        }
    }
}

static void a_call_that_fails_ends_the_part_of_its_member(void **state)
{
    (void)state;
    use_buffers(false);
    fail_calls_of(rows, sizeof rows / sizeof *rows);
    use_buffers(true);
    fail_calls_of(buffered, sizeof buffered / sizeof *buffered);
}

static void a_member_without_memory_says_so(void **state)
{
    (void)state;
    use_buffers(false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct layout layout = layouts[rows[i].layout];
        row = &rows[i];
        if (row->n > 10000)
            continue;
        layout.refuses = 2;
        crowd_begin(&layout);
        fill();
        crowd_run(body);
        if (!crowd.refused)
            continue;
        assert_int_equal(members[1].status, WEFT_ERR_NO_MEMORY);
        assert_int_equal(members[1].reported, 1); /* the failure is reported to the other members */
    }
}

/* Calls on 10 elements (40 bytes; for EACH the source has 120 bytes) with one wrong argument. */
static const struct wrong {
    enum what what;
    int to, from; /* offset from the start of the heap; negative: from its end */
    size_t n;
    int root;
    weft_status status;
} wrongs[] = {
    {ALLREDUCE, -39, 640, 10, 0, WEFT_ERR_RANGE},
    {ALLREDUCE, 640, -39, 10, 0, WEFT_ERR_RANGE},
    {ALLREDUCE, -40, 640, 10, 0, WEFT_OK},
    {ALLREDUCE, 641, 1280, 10, 0, WEFT_ERR_ALIGNMENT},
    {ALLREDUCE, 640, 1281, 10, 0, WEFT_ERR_ALIGNMENT},
    {ALLREDUCE, 680, 640, 10, 0, WEFT_OK},
    {ALLREDUCE, -1, -1, 0, 0, WEFT_OK},
    {ALLREDUCE, 0, 640, SIZE_MAX / 3, 0, WEFT_ERR_RANGE},
    {EACH, -39, 640, 10, 0, WEFT_ERR_RANGE},
    {EACH, 640, -119, 10, 0, WEFT_ERR_RANGE},
    {EACH, 640, -120, 10, 0, WEFT_OK},
    {EACH, 756, 640, 10, 0, WEFT_ERR_ARGUMENT},
    {EACH, 760, 640, 10, 0, WEFT_OK},
    {EACH, 604, 640, 10, 0, WEFT_ERR_ARGUMENT},
    {EACH, 600, 640, 10, 0, WEFT_OK},
    {EACH, -1, -1, 0, 0, WEFT_OK},
    {EACH, 0, 640, SIZE_MAX / 3, 0, WEFT_ERR_RANGE},
    {EACH, 0, 640, SIZE_MAX / 8, 0, WEFT_ERR_RANGE},
    {ONE, -39, 640, 10, 0, WEFT_ERR_RANGE},
    {ONE, 640, -39, 10, 0, WEFT_ERR_RANGE},
    {ONE, 676, 640, 10, 0, WEFT_ERR_ARGUMENT},
    {ONE, 680, 640, 10, 0, WEFT_OK},
    {ONE, 604, 640, 10, 0, WEFT_ERR_ARGUMENT},
    {ONE, 600, 640, 10, 0, WEFT_OK},
    {ONE, 640, 1280, 10, 3, WEFT_ERR_PE},
    {ONE, 640, 1280, 10, -1, WEFT_ERR_PE},
    {ONE, 640, 1280, 0, 3, WEFT_ERR_PE},
    {ONE, -1, -1, 0, 2, WEFT_OK},
    {ONE, 0, 640, SIZE_MAX / 3, 0, WEFT_ERR_RANGE},
};
static const struct wrong *wrong;

static char *behind(int me, int at)
{
    return members[me].heap + (at < 0 ? MEMBER_HEAP + at : at);
}

static void body_wrong(int me)
{
    struct member *m = &members[me];
    char *to = behind(me, wrong->to), *from = behind(me, wrong->from);
    m->status = wrong->what == ALLREDUCE
                    ? weft_allreduce(&m->team, to, from, wrong->n, WEFT_FLOAT, WEFT_SUM)
                : wrong->what == EACH
                    ? weft_reducescatter(&m->team, to, from, wrong->n, WEFT_FLOAT, WEFT_SUM)
                    : weft_reduce(&m->team, to, from, wrong->n, WEFT_FLOAT, WEFT_SUM, wrong->root);
}

static void arguments_that_are_wrong_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        wrong = &wrongs[i];
        crowd_begin(&layouts[0]);
        crowd_run(body_wrong);
        for (int m = 0; m < 3; m++)
            if (members[m].status != wrong->status)
                fail_msg("row %zu: member %d says %d", i, m, members[m].status);
        if (wrong->status || !wrong->n)
            assert_int_equal(crowd.calls, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_have_the_same_bits),
        cmocka_unit_test(results_have_the_bits_of_the_order_of_the_team),
        cmocka_unit_test(a_call_that_fails_ends_the_part_of_its_member),
        cmocka_unit_test(a_member_without_memory_says_so),
        cmocka_unit_test(arguments_that_are_wrong_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
