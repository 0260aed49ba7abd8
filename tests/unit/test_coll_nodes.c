/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of teams that span nodes: the data that each member receives, the number of calls and
 * bytes between members without shared memory, and that a failed call ends that member's part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/members.h"

#include <stdio.h>

enum { GUARD = 64, FROM = 128 + GUARD, TO = (12 << 20) + 64, FILL = 0x5a };

enum what { SYNC, BROADCAST, ALLGATHER, COLLECT, ALLTOALL, ALLTOALLS };

static const struct layout layouts[] = {
    {.n = 5, .node = {0, 0, 1, 1, 1}, .nodes = true},
    {.n = 7, .node = {0, 1, 0, 2, 1, 1, 1}, .nodes = true},
    {.n = 5, .node = {0, 1, 1, 2, 0}, .nodes = true, .apart = true},
    {.n = 4, .node = {0, 0, 0, 1}},
};

struct row {
    enum what what;
    int layout;
    size_t bytes; /* of a block or an element */
    int root;     /* or the stride of the destination */
    size_t n;
    int calls; /* expected */
    size_t crossed;
};

static const struct row *row;

static size_t bytes_of(int member)
{
    return row->what == COLLECT ? row->bytes * (size_t)((member + 3) % 4) / 2 : row->bytes;
}

/* Source data of a member. */
static const char *source_of(int member, size_t at)
{
    static char pattern[(9 << 20) + MOST_MEMBERS * 4099];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof pattern && !pattern[5]; i++) {
        random = random * 1664525 + 1013904223;
        pattern[sizeof pattern - 1 - i] = (char)(random >> 24 | 1);
    }
    return pattern + (size_t)member * 4099 + at;
}

static size_t source_bytes(void)
{
    size_t n = (size_t)layouts[row->layout].n;
    return row->what == SYNC        ? 0
           : row->what == ALLTOALLS ? row->bytes * row->n * n * 2
           : row->what == ALLTOALL  ? row->bytes * n
                                    : row->bytes * 2;
}

static size_t destination_bytes(void)
{
    size_t n = (size_t)layouts[row->layout].n;
    return row->what == SYNC        ? 0
           : row->what == BROADCAST ? row->bytes
           : row->what == ALLTOALLS ? row->bytes * row->n * n * (size_t)row->root
                                    : row->bytes * n * 2;
}

static void fill(void)
{
    for (int i = 0; i < layouts[row->layout].n; i++)
        memset(members[i].heap + TO - GUARD, FILL, destination_bytes() + 2 * (size_t)GUARD);
}

/* Computes the expected destination of a member. */
static void expect(int me, unsigned char *to)
{
    int n = layouts[row->layout].n;
    size_t at = 0, bytes = row->bytes;
    memset(to, FILL, destination_bytes() + GUARD);
    if (row->what == BROADCAST)
        memcpy(to, source_of(row->root, 0), bytes);
    for (int i = 0; i < n && (row->what == ALLGATHER || row->what == COLLECT); at += bytes_of(i++))
        memcpy(to + at, source_of(i, 0), bytes_of(i));
    for (int i = 0; i < n && row->what == ALLTOALL; at += bytes, i++)
        memcpy(to + at, source_of(i, (size_t)me * bytes), bytes);
    for (size_t i = 0; i < (size_t)n * row->n && row->what == ALLTOALLS; i++)
        memcpy(to + i * (size_t)row->root * bytes,
               source_of((int)(i / row->n), ((size_t)me * row->n + i % row->n) * 2 * bytes), bytes);
}

/* Whether all data has arrived when the call returns. Then the member overwrites its memory. */
static bool has_arrived(int me)
{
    static unsigned char expected[12 << 20];
    char *dst = members[me].heap + TO;
    bool same = true;
    assert_true(destination_bytes() + GUARD <= sizeof expected);
    expect(me, expected);
    for (int k = 1; k <= GUARD; k++)
        same &= dst[-k] == FILL;
    same &= !memcmp(dst, expected, destination_bytes() + GUARD);
    memset(dst, 1, destination_bytes());
    memset(members[me].heap + FROM, 2, source_bytes());
    return same;
}

static void body(int me)
{
    struct member *m = &members[me];
    char *dst = m->heap + TO, *src = m->heap + FROM;
    weft_team *team = &m->team;
    if (!crowd.fails_at && !crowd.fails_wait)
        memcpy(src, source_of(me, 0), source_bytes()); /* written just before the call */
    m->status = row->what == SYNC        ? weft_sync(team)
                : row->what == BROADCAST ? weft_broadcast(team, dst, src, row->bytes, row->root)
                : row->what == ALLGATHER ? weft_allgather(team, dst, src, row->bytes)
                : row->what == COLLECT   ? weft_collect(team, dst, src, bytes_of(me))
                : row->what == ALLTOALL
                    ? weft_alltoall(team, dst, src, row->bytes)
                    : weft_alltoalls(team, dst, src, row->root, 2, row->bytes, row->n);
    m->arrived = !m->status && crowd.failed < 0 && has_arrived(me);
}

static void check_destinations(size_t number)
{
    for (int i = 0; i < layouts[row->layout].n; i++) {
        assert_int_equal(members[i].status, WEFT_OK);
        if (!members[i].arrived)
            fail_msg("row %zu: the destination of member %d", number, i);
    }
}

static const struct row rows[] = {
    {SYNC, 0, 0, 0, 0, 12, 32},
    {BROADCAST, 0, 24, 1, 0, 6, 48},
    {BROADCAST, 0, 5001, 3, 0, 6, 10002},
    {BROADCAST, 0, 40000, 2, 0, 6, 80000},
    {ALLGATHER, 0, 40, 0, 0, 20, 400},
    {ALLGATHER, 0, 5001, 0, 0, 30, 50010},
    {COLLECT, 0, 3000, 0, 0, 50, 27160},
    {ALLTOALL, 0, 40, 0, 0, 30, 960},
    {ALLTOALL, 0, 4096, 0, 0, 30, 98304},
    {ALLTOALL, 0, 4100, 0, 0, 72, 98400},
    {ALLTOALLS, 0, 4, 3, 7, 66, 752},
    {ALLTOALLS, 0, 8, 1, 200, 56, 38400},
    {ALLTOALLS, 0, 8, 2, 700, 122, 134592},
    {ALLTOALLS, 0, 24, 3, 1, 40, 656},
    {SYNC, 1, 0, 0, 0, 36, 96},
    {BROADCAST, 1, 24, 1, 0, 12, 96},
    {BROADCAST, 1, 5001, 3, 0, 12, 20004},
    {BROADCAST, 1, 40000, 2, 0, 12, 160000},
    {ALLGATHER, 1, 40, 0, 0, 56, 1120},
    {ALLGATHER, 1, 5001, 0, 0, 84, 140028},
    {COLLECT, 1, 3000, 0, 0, 140, 60448},
    {ALLTOALL, 1, 40, 0, 0, 100, 2320},
    {ALLTOALL, 1, 4096, 0, 0, 100, 229456},
    {ALLTOALL, 1, 4100, 0, 0, 168, 229600},
    {ALLTOALLS, 1, 4, 3, 7, 170, 1792},
    {ALLTOALLS, 1, 8, 1, 200, 142, 89600},
    {ALLTOALLS, 1, 8, 2, 700, 266, 314048},
    {ALLTOALLS, 1, 24, 3, 1, 106, 1472},
    {SYNC, 2, 0, 0, 0, 60, 160},
    {BROADCAST, 2, 24, 1, 0, 28, 224},
    {BROADCAST, 2, 5001, 3, 0, 28, 40040},
    {BROADCAST, 2, 40000, 2, 0, 28, 320032},
    {ALLGATHER, 2, 40, 0, 0, 80, 1600},
    {ALLGATHER, 2, 5001, 0, 0, 104, 200104},
    {COLLECT, 2, 3000, 0, 0, 180, 108704},
    {ALLTOALL, 2, 40, 0, 0, 134, 2256},
    {ALLTOALL, 2, 4096, 0, 0, 134, 213168},
    {ALLTOALL, 2, 4100, 0, 0, 128, 164064},
    {ALLTOALLS, 2, 4, 3, 7, 164, 2024},
    {ALLTOALLS, 2, 8, 1, 200, 144, 99328},
    {ALLTOALLS, 2, 8, 2, 700, 170, 280320},
    {ALLTOALLS, 2, 24, 3, 1, 140, 1472},
    {SYNC, 3, 0, 0, 0, 36, 96},
    {BROADCAST, 3, 24, 1, 0, 6, 48},
    {BROADCAST, 3, 5001, 3, 0, 18, 30006},
    {BROADCAST, 3, 40000, 2, 0, 6, 80000},
    {ALLGATHER, 3, 40, 0, 0, 24, 480},
    {ALLGATHER, 3, 5001, 0, 0, 36, 60012},
    {COLLECT, 3, 3000, 0, 0, 60, 30208},
    {ALLTOALL, 3, 40, 0, 0, 24, 480},
    {ALLTOALL, 3, 4096, 0, 0, 36, 49152},
    {ALLTOALL, 3, 4100, 0, 0, 36, 49200},
    {ALLTOALLS, 3, 4, 3, 7, 68, 432},
    {ALLTOALLS, 3, 8, 1, 200, 68, 19296},
    {ALLTOALLS, 3, 8, 2, 700, 68, 67296},
    {ALLTOALLS, 3, 24, 3, 1, 68, 384},
    {BROADCAST, 0, 1300001, 0, 0, 9, 1300001},
    {BROADCAST, 0, 4500000, 3, 0, 24, 4500000},
    {ALLGATHER, 0, 262144, 0, 0, 20, 1310720},
    {COLLECT, 0, 900000, 0, 0, 44, 4050080},
    {ALLTOALL, 0, 262144, 0, 0, 41, 3145728},
    {BROADCAST, 2, 1300000, 3, 0, 30, 5200016},
};

static void blocks_arrive_over_as_few_calls_as_may_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        row = &rows[i];
        crowd_begin(&layouts[row->layout]);
        /* Small ones run twice: data of the first run must not be taken for data of the second. */
        for (int again = 0; again < (row->bytes > 100000 ? 1 : 2); again++) {
            fill();
            crowd_run(body);
            check_destinations(i);
        }
        if (crowd.calls != row->calls || crowd.crossed != row->crossed)
            fail_msg("row %zu: %d, %zu", i, crowd.calls, crowd.crossed);
        assert_int_equal(crowd.memory, 0);
    }
}

static void a_call_that_fails_ends_the_part_of_its_member(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        row = &rows[i];
        if (row->bytes > 5001 && row->bytes != 1300000 && row->bytes != 900000)
            continue;
        int calls = row->bytes > 100000 ? 9 : row->calls;
        for (int k = 1, failing = 1; failing && k < calls + 30; k++) {
            bool of_waits = k > calls;
            crowd_begin(&layouts[row->layout]);
            crowd.fails_at = of_waits ? 0 : k;
            crowd.fails_wait = of_waits ? k - calls : 0;
            crowd_run(body);
            failing = crowd.failed >= 0;
            for (int m = 0; m < layouts[row->layout].n && failing; m++)
                assert_true(members[m].status == (m == crowd.failed ? WEFT_ERR_SYSTEM : WEFT_OK) ||
                            (m != crowd.failed && members[m].status == WEFT_ERR_TIMEOUT));
            if (failing && members[crowd.failed].calls_after)
                fail_msg("row %zu: member %d goes on when call or wait %d has failed", i,
                         crowd.failed, k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_arrive_over_as_few_calls_as_may_be),
        cmocka_unit_test(a_call_that_fails_ends_the_part_of_its_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
