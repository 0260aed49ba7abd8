/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of the standard, rewritten from their descriptions. */
#include "check.h"

enum { MOST_PES = 16 };

static int me, n;

/* A put from the stack fills a static array of short at the peer. */
static void static_destination(void)
{
    static short dest[10];
    short source[10];
    for (int i = 0; i < 10; i++)
        source[i] = (short)(i + 1);
    if (me == 0)
        shmem_put(dest, source, 10, n > 1 ? 1 : 0);
    shmem_barrier_all();
    if (me == (n > 1 ? 1 : 0))
        for (int i = 0; i < 10; i++)
            CHECK(dest[i] == i + 1);
}

/* Ordinary stores write a remote variable where shmem_ptr() gives an address. */
static void stores(void)
{
    static int bigd[100];
    if (me == 0) {
        int *there = shmem_ptr(bigd, n - 1);
        for (int i = 0; there && i < 100; i++)
            there[i] = i + 1;
        if (!there)
            for (int i = 0; i < 100; i++)
                shmem_p(&bigd[i], i + 1, n - 1);
    }
    shmem_barrier_all();
    if (me == n - 1)
        CHECK(bigd[99] == 100);
}

/* A compare-and-swap race on one variable has exactly one winner. */
static void race(void)
{
    static int winner = -1, winners;
    if (shmem_atomic_compare_swap(&winner, -1, me, 0) == -1)
        shmem_atomic_inc(&winners, 0);
    shmem_barrier_all();
    if (me == 0)
        CHECK(winners == 1 && winner >= 0 && winner < n);
}

/* The even PEs form a team. */
static void even_team(void)
{
    shmem_team_t even;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &even) == 0);
    if (even != SHMEM_TEAM_INVALID)
        CHECK(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == (n + 1) / 2);
    CHECK((even == SHMEM_TEAM_INVALID) == (me % 2 == 1));
    shmem_team_destroy(even);
}

/* Three dimensions by two splits: first x, then y and z of the rest. */
static void three_dimensions(void)
{
    int x = 2, y = 2;
    shmem_team_t xteam, yzteam, yteam, zteam;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, x, NULL, 0, &xteam, NULL, 0, &yzteam) == 0);
    CHECK(shmem_team_split_2d(yzteam, y, NULL, 0, &yteam, NULL, 0, &zteam) == 0);
    CHECK(shmem_team_my_pe(xteam) == me % x);
    CHECK(shmem_team_my_pe(yteam) == me / x % y);
    CHECK(shmem_team_my_pe(zteam) == me / x / y);
    shmem_team_destroy(yteam);
    shmem_team_destroy(zteam);
    shmem_team_destroy(xteam);
    shmem_team_destroy(yzteam);
}

/* PEs take tasks from shared counters, first their own and then the others'. */
static void load_balance(void)
{
    enum { TASKS = 50 };
    static int taken, done;
    shmem_ctx_t ctx;
    CHECK(shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) == 0);
    for (int k = 0; k < n; k++) {
        int owner = (me + k) % n;
        while (shmem_atomic_fetch_inc(ctx, &taken, owner) < TASKS)
            shmem_atomic_inc(ctx, &done, owner);
    }
    shmem_ctx_destroy(ctx);
    shmem_barrier_all();
    CHECK(done == TASKS);
}

/* A sum over all PEs in segments: one context reads a segment while the previous segment is added
 * up. */
static void pipelined_sum(void)
{
    enum { SEGMENTS = 8, LENGTH = 64 };
    static int in[SEGMENTS * LENGTH], out[SEGMENTS * LENGTH], room[2][MOST_PES][LENGTH];
    shmem_ctx_t ctx[2];
    for (int i = 0; i < SEGMENTS * LENGTH; i++) {
        in[i] = me + i;
        out[i] = 0;
    }
    CHECK(shmem_ctx_create(0, &ctx[0]) == 0 && shmem_ctx_create(0, &ctx[1]) == 0);
    shmem_barrier_all();
    for (int s = 0; s <= SEGMENTS; s++) {
        if (s < SEGMENTS)
            for (int pe = 0; pe < n; pe++)
                shmem_get_nbi(ctx[s % 2], room[s % 2][pe], &in[s * LENGTH], LENGTH, pe);
        if (s > 0) {
            shmem_ctx_quiet(ctx[(s - 1) % 2]);
            for (int pe = 0; pe < n; pe++)
                for (int i = 0; i < LENGTH; i++)
                    out[(s - 1) * LENGTH + i] += room[(s - 1) % 2][pe][i];
        }
    }
    shmem_ctx_destroy(ctx[0]);
    shmem_ctx_destroy(ctx[1]);
    for (int i = 0; i < SEGMENTS * LENGTH; i++)
        CHECK(out[i] == n * i + n * (n - 1) / 2);
    shmem_barrier_all();
}

/* Every PE sends to every PE. The receiver adds up the data in order of arrival, one block at a
 * time or in groups. */
static void arrivals(int in_groups)
{
    enum { EACH = 20 };
    static int data[MOST_PES][EACH];
    static int flags[MOST_PES];
    int mine[EACH], status[MOST_PES] = {0};
    size_t found[MOST_PES];
    long sum = 0;
    memset(data, 0, sizeof data);
    memset(flags, 0, sizeof flags);
    shmem_barrier_all();
    for (int i = 0; i < EACH; i++)
        mine[i] = me * EACH + i;
    for (int pe = 0; pe < n; pe++)
        shmem_put_nbi(data[me], mine, EACH, pe);
    shmem_fence();
    for (int pe = 0; pe < n; pe++)
        shmem_p(&flags[me], 1, pe);
    for (int seen = 0; seen < n;) {
        size_t more = 1;
        if (in_groups)
            more = shmem_wait_until_some(flags, (size_t)n, found, status, SHMEM_CMP_NE, 0);
        else if (seen % 2)
            found[0] = shmem_wait_until_any(flags, (size_t)n, status, SHMEM_CMP_NE, 0);
        else
            while ((found[0] = shmem_test_any(flags, (size_t)n, status, SHMEM_CMP_NE, 0)) ==
                   SIZE_MAX)
                ;
        for (size_t k = 0; k < more; k++, seen++) {
            status[found[k]] = 1;
            for (int i = 0; i < EACH; i++)
                sum += data[found[k]][i];
        }
    }
    long all = (long)n * EACH;
    CHECK(sum == all * (all - 1) / 2);
    shmem_barrier_all();
}

/* A message travels around the ring: each PE waits for the signal and forwards the data. */
static void ring(void)
{
    enum { COUNT = 2048 };
    static uint64_t message[COUNT], signal;
    uint64_t data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = (uint64_t)i;
    if (me == 0) {
        shmem_put_signal(message, data, COUNT, &signal, 1, SHMEM_SIGNAL_SET, (me + 1) % n);
        shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 1);
    } else {
        shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 1);
        shmem_put_signal(message, message, COUNT, &signal, 1, SHMEM_SIGNAL_SET, (me + 1) % n);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(message[i] == (uint64_t)i);
    shmem_barrier_all();
}

/* Even PEs contribute two elements, odd PEs three. */
static void collected(void)
{
    static int source[3], dest[3 * MOST_PES];
    for (int i = 0; i < 3; i++)
        source[i] = 11 * (me + 1) + i;
    CHECK(shmem_collect(SHMEM_TEAM_WORLD, dest, source, me % 2 ? 3u : 2u) == 0);
    int at = 0;
    for (int pe = 0; pe < n; pe++)
        for (int i = 0; i < (pe % 2 ? 3 : 2); i++)
            CHECK(dest[at++] == 11 * (pe + 1) + i);
    shmem_barrier_all();
}

/* Two elements for each PE, with stride 2. */
static void strided_alltoall(void)
{
    static long source[4 * MOST_PES], dest[4 * MOST_PES];
    for (int pe = 0; pe < n; pe++)
        for (int i = 0; i < 2; i++)
            source[(pe * 2 + i) * 2] = me + pe;
    CHECK(shmem_alltoalls(SHMEM_TEAM_WORLD, dest, source, 2, 2, 2) == 0);
    for (int pe = 0; pe < n; pe++)
        for (int i = 0; i < 2; i++)
            CHECK(dest[(pe * 2 + i) * 2] == pe + me);
    shmem_barrier_all();
}

/* A lock around a get and a put. */
static void critical_section(void)
{
    static long lock;
    static int count;
    shmem_set_lock(&lock);
    int value = shmem_g(&count, 0);
    shmem_p(&count, value + 1, 0);
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    CHECK(shmem_g(&count, 0) == n);
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    CHECK(n <= MOST_PES);
    static_destination();
    stores();
    race();
    even_team();
    three_dimensions();
    load_balance();
    pipelined_sum();
    arrivals(0);
    arrivals(1);
    ring();
    collected();
    strided_alltoall();
    critical_section();
    shmem_finalize();
    return 0;
}
