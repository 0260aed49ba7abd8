/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in every scope over the world, the node, a team of every second PE and a team of the
 * PEs in reverse order: all values compared at sizes around the limits, and every type and
 * operation of allreduce. */
#include "device_test.h"

enum { MOST = 5000, MEMBERS = 8, ROUNDS = 20 };

enum what { BROADCAST, ALLGATHER, ALLTOALL, GATHER, SCATTER, MOVES };

#define MOVE_IN(scope)                                                                             \
    what == BROADCAST   ? weft_##scope##_broadcast(team, dst, src, bytes, root)                    \
    : what == ALLGATHER ? weft_##scope##_allgather(team, dst, src, bytes)                          \
    : what == GATHER    ? weft_##scope##_gather(team, dst, src, bytes, root)                       \
    : what == SCATTER   ? weft_##scope##_scatter(team, dst, src, bytes, root)                      \
                        : weft_##scope##_alltoall(team, dst, src, bytes)

#define BY_SCOPE(MACRO)                                                                            \
    if (scope == WEFT_DEV_BLOCK)                                                                   \
        status = MACRO(block);                                                                     \
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 0)                                       \
        status = MACRO(warp);                                                                      \
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 0)                              \
    status = MACRO(thread)

WEFT_KERNEL(move, (int, scope), (enum what, what), (int, team), (char *, dst), (const char *, src),
            (size_t, bytes), (int, root), (int *, result))
{
    int status = 0;
    BY_SCOPE(MOVE_IN);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

#define REDUCE_IN(scope)                                                                           \
    all ? weft_##scope##_allreduce(team, dst, src, n, type, op)                                    \
        : weft_##scope##_reducescatter(team, dst, src, n, type, op)

WEFT_KERNEL(combine, (int, scope), (int, all), (int, team), (void *, dst), (const void *, src),
            (size_t, n), (weft_type, type), (weft_op, op), (int *, result))
{
    int status = 0;
    BY_SCOPE(REDUCE_IN);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

/* Every member stores its round number at all others and synchronizes: no member may read an older
 * number afterwards. */
#define MEET_IN(scope) kind ? weft_##scope##_barrier(team) : weft_##scope##_sync(team)

WEFT_KERNEL(meet, (int, scope), (int, kind), (int, team), (uint32_t *, board), (int *, result))
{
    int status = 0;
    struct weft_dev_members m = weft_dev_members_of(team);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        if (weft_dev_thread_rank() == 0) {
            if (kind)
                for (int i = 0; i < m.n; i++)
                    weft_thread_p32(&board[m.me], round, weft_dev_member_pe(&m, i));
            else /* sync makes own stores visible */
                weft_dev_store_u32(&board[m.me], round, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        }
        BY_SCOPE(MEET_IN);
        if (status)
            break;
        if (weft_dev_thread_rank() == 0)
            for (int i = 0; i < m.n; i++) {
                uint32_t seen =
                    kind ? board[i] : weft_thread_g32(&board[i], weft_dev_member_pe(&m, i));
                if (seen < round)
                    status = -99;
            }
        /* No member continues before all have read. */
        int again = status;
        BY_SCOPE(MEET_IN);
        status = status ? status : again;
    }
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

WEFT_KERNEL(numbers, (int, team), (int, world), (int *, result))
{
    result[0] = weft_dev_team_my_pe(team);
    result[1] = weft_dev_team_n_pes(team);
    result[2] = weft_dev_team_translate(team, 0, world);
    result[3] = weft_dev_team_my_pe(1000);
}

#if WEFT_HOST_CODE

static unsigned char *src, *dst;
static int *result;

static unsigned char pattern(int member, int to, size_t i)
{
    return (unsigned char)(member * 41 + to * 13 + (int)i * 3 + 7);
}

static void one_move(weft_team *team, int number, int scope, enum what what, size_t bytes, int root)
{
    int n = weft_team_n_pes(team), mine = weft_team_my_pe(team), status;
    int blocks = what == BROADCAST || what == SCATTER ? 1
                 : what == GATHER && mine != root     ? 0
                                                      : n; /* blocks that this member receives */
    static unsigned char buffer[MOST * MEMBERS];
    memset(buffer, 0, sizeof buffer);
    store(dst, buffer, sizeof buffer);
    for (int to = 0; to < n; to++)
        for (size_t i = 0; i < bytes; i++)
            buffer[(size_t)to * bytes + i] =
                pattern(mine, what == ALLTOALL || what == SCATTER ? to : 0, i);
    store(src, buffer, sizeof buffer);
    OK(weft_barrier(team));
    LAUNCH(move, 1, 96, 0, NULL, scope, what, number, (char *)dst, (const char *)src, bytes, root,
           result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    fetch(buffer, dst, sizeof buffer);
    for (int from = 0; from < blocks; from++)
        for (size_t i = 0; i < bytes; i++) {
            int sender = what == BROADCAST || what == SCATTER ? root : from;
            CHECK(buffer[(size_t)from * bytes + i] ==
                  pattern(sender, what == ALLTOALL || what == SCATTER ? mine : 0, i));
        }
    for (size_t i = (size_t)blocks * bytes; i < sizeof buffer; i++)
        CHECK(buffer[i] == 0);
    OK(weft_barrier(team));
}

static void moves(weft_team *team, int number)
{
    static const size_t sizes[] = {0, 1, 8, 16, 60, 1000, MOST};
    for (int what = 0; what < MOVES; what++)
        for (int scope = 0; scope < 3; scope++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                one_move(team, number, scope, (enum what)what, sizes[s],
                         (int)s % weft_team_n_pes(team));
}

/* Element i of member m as bits of the type. The values are small, so products and sums are
 * exact. */
static uint64_t element(weft_type type, int m, size_t i)
{
    int v = 1 + (int)((i * 3 + (size_t)m * 5) % 3);
    float f = (float)v;
    double d = v;
    uint64_t bits = (uint64_t)v;
    if (type == WEFT_FLOAT)
        bits = weft_dev_bits_f32(f);
    else if (type == WEFT_DOUBLE)
        bits = weft_dev_bits_f64(d);
    else if (type == WEFT_DEV_HALF)
        bits = weft_dev_f16_f32(f);
    else if (type == WEFT_DEV_BFLOAT16)
        bits = weft_dev_bf16_f32(f);
    else if (type == WEFT_COMPLEX_FLOAT)
        bits = weft_dev_bits_f32(f) | (uint64_t)weft_dev_bits_f32(0.5f) << 32;
    else if (type == WEFT_INT8 || type == WEFT_INT16 || type == WEFT_INT32 || type == WEFT_INT64)
        bits = m % 2 ? (uint64_t)-v : (uint64_t)v; /* also negative values */
    return bits;
}

static void one_reduction(weft_team *team, int number, int scope, int all, weft_type type,
                          weft_op op, size_t n, int in_place)
{
    int members = weft_team_n_pes(team), mine = weft_team_my_pe(team), status;
    size_t width = weft_dev_type_bytes(type), total = all ? n : n * (size_t)members;
    static unsigned char buffer[MOST * MEMBERS];
    CHECK(total * width <= sizeof buffer);
    for (size_t i = 0; i < total; i++) {
        uint64_t bits = element(type, mine, i), more = weft_dev_bits_f64(0.5);
        memcpy(buffer + i * width, &bits, width < 8 ? width : 8);
        if (type == WEFT_COMPLEX_DOUBLE) {
            bits = weft_dev_bits_f64((double)bits);
            memcpy(buffer + i * width, &bits, 8);
            memcpy(buffer + i * width + 8, &more, 8);
        }
    }
    store(src, buffer, total * width);
    OK(weft_barrier(team));
    void *to = in_place ? src : dst;
    LAUNCH(combine, 1, 64, 0, NULL, scope, all, number, to, src, n, type, op, result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    fetch(buffer, to, n * width);
    for (size_t i = 0; i < n; i++) {
        size_t at = all ? i : i + n * (size_t)mine;
        struct weft_dev_vec16 acc = {0, 0}, v = {0, 0};
        for (int m = 0; m < members; m++) {
            v.lo = element(type, m, at);
            if (type == WEFT_COMPLEX_DOUBLE) {
                v.lo = weft_dev_bits_f64((double)v.lo);
                v.hi = weft_dev_bits_f64(0.5);
            }
            acc = m ? weft_dev_combine(type, op, acc, v) : v;
        }
        CHECK(memcmp(buffer + i * width, &acc, width) == 0);
    }
    OK(weft_barrier(team));
}

static void reductions(weft_team *team, int number)
{
    static const weft_type types[] = {
        WEFT_INT8,      WEFT_INT16,     WEFT_INT32,         WEFT_INT64,         WEFT_UINT8,
        WEFT_UINT16,    WEFT_UINT32,    WEFT_UINT64,        WEFT_FLOAT,         WEFT_DOUBLE,
        (weft_type)100, (weft_type)101, WEFT_COMPLEX_FLOAT, WEFT_COMPLEX_DOUBLE};
    int turn = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int op = 0; op < WEFT_AVG; op++) { /* real.c tests averages */
            if (!weft_dev_reducible(types[t], (weft_op)op))
                continue;
            for (int all = 0; all < 2; all++, turn++)
                one_reduction(team, number, turn % 3, all, types[t], (weft_op)op,
                              turn % 5 ? 37 + (size_t)turn % 11 : 300, all && turn % 4 == 1);
        }
    for (int scope = 0; scope < 3; scope++)
        for (size_t n = 0; n < 6; n++)
            one_reduction(team, number, scope, 1, WEFT_FLOAT, WEFT_SUM, n * n, 1);
}

/* Compares with sums computed differently, because the comparison above uses the same code on both
 * sides. */
static void plain_sum(weft_team *team, int number)
{
    enum { N = 700 };
    int members = weft_team_n_pes(team), mine = weft_team_my_pe(team), status;
    float values[N];
    for (int i = 0; i < N; i++)
        values[i] = (float)(i * (mine + 1));
    store(src, values, sizeof values);
    OK(weft_barrier(team));
    LAUNCH(combine, 1, 128, 0, NULL, WEFT_DEV_BLOCK, 1, number, dst, src, N, WEFT_FLOAT, WEFT_SUM,
           result);
    fetch(&status, result, sizeof status);
    fetch(values, dst, sizeof values);
    for (int i = 0; i < N; i++)
        CHECK(values[i] == (float)(i * (members * (members + 1) / 2)));
    OK(weft_barrier(team));
    CHECK(status == WEFT_OK);
}

static void meetings(weft_team *team, int number)
{
    for (int kind = 0; kind < 2; kind++)
        for (int scope = 0; scope < 3; scope++) {
            uint32_t zero[MEMBERS] = {0};
            int status;
            store(dst, zero, sizeof zero);
            OK(weft_barrier(team));
            LAUNCH(meet, 1, 64, 0, NULL, scope, kind, number, (uint32_t *)dst, result);
            fetch(&status, result, sizeof status);
            CHECK(status == WEFT_OK);
            OK(weft_barrier(team));
        }
}

static void everything(weft_team *team)
{
    int number = weft_team_device(team), seen[4];
    CHECK(number >= 0);
    LAUNCH(numbers, 1, 1, 0, NULL, number, WEFT_DEV_WORLD, result);
    fetch(seen, result, sizeof seen);
    CHECK(seen[0] == weft_team_my_pe(team) && seen[1] == weft_team_n_pes(team));
    CHECK(seen[2] == weft_team_translate(team, 0, weft_team_world(job)) && seen[3] == -1);
    meetings(team, number);
    moves(team, number);
    reductions(team, number);
    plain_sum(team, number);
}

int main(void)
{
    device_begin();
    CHECK(n_pes <= MEMBERS);
    src = symmetric(MOST * MEMBERS);
    dst = symmetric(MOST * MEMBERS);
    result = symmetric(4 * sizeof *result);
    CHECK(weft_team_device(weft_team_world(job)) == WEFT_DEV_WORLD);
    CHECK(weft_team_device(weft_team_node(job)) == WEFT_DEV_NODE);
    everything(weft_team_world(job));
    if (!WEFT_SIMT_TSAN) /* the other teams take minutes under ThreadSanitizer */
        everything(weft_team_node(job));
    for (int again = 0; again < (WEFT_SIMT_TSAN ? 0 : 2);
         again++) { /* the second pass reuses the index of the first */
        weft_team *evens, *reverse;
        OK(weft_team_split_strided(weft_team_world(job), 0, 2, (n_pes + 1) / 2, &evens));
        OK(weft_team_split_strided(weft_team_world(job), n_pes - 1, -1, n_pes, &reverse));
        if (evens)
            everything(evens);
        everything(reverse);
        OK(weft_team_destroy(evens));
        OK(weft_team_destroy(reverse));
    }
    device_end();
    return 0;
}
#endif
