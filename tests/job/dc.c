/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda with DC queues to PEs beyond WEFT_TEST_GDA_RC:
 *
 *     reached  Each pair's reason names RC or DC, and says when its path has been tested by being
 *              used.
 *     none     An adapter has no DC: each pair's reason says so.
 *     many     Threads of each PE put, get and add over initiators that they share.
 *     goes_on  A request of PE 0 fails, without another path: requests to that PE fail, those to
 *              other PEs are executed, each exactly once.
 *     moves    A request, a port or an adapter of PE 0 fails under load, with path net as the other
 *              path: every operation is executed once, and each pair's reason says how.
 *     flood    The same, while PE 0 has many additions under way: each PE gets them once, or PE 0
 *              gives it up, with its name. */
#include "job.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    THREADS = 4,
    BURST = 40,
    BYTES = 5000,
    LONG_BYTES = 300000,
    PES_MOST = 16,
    OVERFILL = 500,
    INITIATORS = 4, /* of each adapter: PEs whose numbers differ by as many share one */
};

static weft_job *job;
static int me, npes, rounds;

static int rc_peers(void)
{
    const char *text = getenv("WEFT_TEST_GDA_RC");
    CHECK(text != NULL);
    return atoi(text);
}

static bool is_dc_peer(int pe)
{
    int up = (pe - me + npes) % npes, down = (me - pe + npes) % npes;
    return 2 * (up < down ? up : down) > rc_peers();
}

static bool has_reason(int pe, const char *text)
{
    weft_path_info info = {.size = sizeof info};
    OK(weft_path_query(job, pe, &info));
    bool found = strstr(info.reason, text) != NULL;
    CHECK(!strcmp(info.name, pe == me ? "self" : "gda") || pe == me);
    if (!found)
        fprintf(stderr, "PE %d to PE %d: \"%s\", wanted \"%s\"\n", me, pe, info.reason, text);
    return found;
}

static void barrier(void)
{
    OK(weft_barrier(weft_team_world(job)));
}

static void reached(void)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *word = alloc(job, sizeof *word), back = 0;
    char limit[64];
    snprintf(limit, sizeof limit, "RC to %d PEs, DC to the others", rc_peers());
    for (int pe = 0; pe < npes; pe++)
        CHECK(pe == me || has_reason(pe, is_dc_peer(pe) ? "by DC" : "by RC"));
    for (int pe = 0; pe < npes; pe++)
        OK(weft_atomic_add64(ctx, word, (uint64_t)me + 1, pe));
    OK(weft_quiet(ctx));
    barrier();
    for (int pe = 0; pe < npes; pe++) {
        OK(weft_g64(ctx, word, &back, pe));
        CHECK(back == (uint64_t)npes * ((uint64_t)npes + 1) / 2);
        CHECK(pe == me || has_reason(pe, is_dc_peer(pe) ? "; by DC" : "; by RC"));
        CHECK(pe == me || has_reason(pe, limit));
        weft_path_info info = {.size = sizeof info};
        OK(weft_path_query(job, pe, &info));
        CHECK(!strstr(info.reason, "first use") && (pe == me || info.proven));
    }
    barrier();
}

static void none(void)
{
    for (int pe = 0; pe < npes; pe++)
        CHECK(pe == me || has_reason(pe, "RC to all PEs, because mlx5_soft0 has no DC"));
    barrier();
}

/* ------------------------------------------------------------------------------------- threads */

static uint64_t *last;                    /* [npes][THREADS] */
static uint64_t *sums;                    /* [THREADS] */
static unsigned char *there, *long_there; /* [npes][THREADS] of BYTES, and of LONG_BYTES */

static size_t place(int pe, size_t thread)
{
    return (size_t)pe * THREADS + thread;
}

/* More requests than the ring has blocks: the last value stays. */
static void overfill(weft_ctx *ctx, uint64_t *word, int pe)
{
    uint64_t back = 0;
    for (uint64_t i = 1; i <= OVERFILL; i++)
        OK(weft_p64(ctx, word, i, pe));
    OK(weft_g64(ctx, word, &back, pe));
    CHECK(back == OVERFILL);
}

static void *use_all(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    weft_ctx *ctx;
    unsigned char *mine = malloc(LONG_BYTES), *back = malloc(LONG_BYTES);
    OK(weft_ctx_create(weft_team_world(job), WEFT_CTX_PRIVATE, &ctx));
    for (int round = 0; round < rounds; round++) {
        int pe = (me + round) % npes;
        size_t bytes = round % 40 == 7 ? LONG_BYTES : 1 + (size_t)(round * 37 % BYTES);
        unsigned char *at = bytes == LONG_BYTES ? long_there + place(me, thread) * LONG_BYTES
                                                : there + place(me, thread) * BYTES;
        uint64_t before = 0;
        memset(mine, round + (int)thread, bytes);
        OK(weft_put(ctx, at, mine, bytes, pe));
        OK(weft_atomic_add64(ctx, &sums[thread], 1, pe));
        OK(weft_fence(ctx));
        OK(weft_atomic_fetch64(ctx, &sums[thread], &before, pe));
        CHECK(before > 0);
        OK(weft_get(ctx, back, at, bytes, pe));
        CHECK(!memcmp(mine, back, bytes));
        if (round % 8 == 0)
            overfill(ctx, &last[place(me, thread)], pe);
    }
    OK(weft_quiet(ctx));
    OK(weft_ctx_destroy(ctx));
    free(mine);
    free(back);
    return NULL;
}

static void many(void)
{
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    sums = alloc(job, THREADS * sizeof *sums);
    last = alloc(job, place(npes, 0) * sizeof *last);
    there = alloc(job, place(npes, 0) * BYTES);
    long_there = alloc(job, place(npes, 0) * LONG_BYTES);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, use_all, (void *)(uintptr_t)i));
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    barrier();
    for (size_t i = 0; i < THREADS; i++)
        sum += sums[i];
    /* Of the rounds of each PE and thread, one in npes is for this PE. */
    uint64_t wanted = 0;
    for (int pe = 0; pe < npes; pe++)
        for (int round = 0; round < rounds; round++)
            wanted += (pe + round) % npes == me;
    CHECK(sum == THREADS * wanted);
    barrier();
}

/* -------------------------------------------------------------------------------------- faults */

/* Bursts of additions to PEs that share an initiator, until a quiet fails. */
static int add_until_lost(uint64_t *word, uint64_t *added)
{
    weft_ctx *ctx = weft_default_ctx(job);
    int lost = -1;
    for (int round = 0; round < 3000 && lost < 0; round++) {
        for (int i = 0; i < BURST; i++) {
            int pe = 1 + i % 2 * INITIATORS;
            OK(weft_atomic_add64(ctx, word, 1, pe));
            added[pe]++;
        }
        if (!weft_quiet(ctx))
            continue;
        const char *at = strstr(weft_last_error(), "by DC to PE ");
        CHECK(at && strstr(weft_last_error(), "mlx5_soft0, port 1"));
        lost = atoi(at + strlen("by DC to PE "));
        fprintf(stderr, "seen: %s\n", weft_last_error());
    }
    return lost;
}

/* The relay, which PE 0 reaches, reads what the lost PE has, and ends all others. */
static void relay(const uint64_t *word, uint64_t *orders, int lost, uint64_t posted)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t seen = 0;
    OK(weft_atomic_fetch64(ctx, word, &seen, lost));
    fprintf(stderr, "PE %d has %llu of %llu additions\n", lost, (unsigned long long)seen,
            (unsigned long long)posted);
    CHECK(seen + 2 <= posted);
    for (int pe = 0; pe < npes; pe++)
        OK(weft_p64(ctx, &orders[1], 1, pe));
    OK(weft_quiet(ctx));
}

/* orders: at the relay, 1 + the lost PE and the additions that were posted to it; at all, whether
 * they may end. */
static void goes_on(void)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *word = alloc(job, sizeof *word), *orders = alloc(job, 3 * sizeof *orders);
    uint64_t added[PES_MOST] = {0};
    if (!me) {
        int lost = add_until_lost(word, added), to = lost == 1 ? 1 + INITIATORS : 1;
        CHECK(lost == 1 || lost == 1 + INITIATORS);
        for (int pe = 1; pe < npes; pe++) {
            uint64_t seen = 0;
            weft_status status = weft_atomic_fetch64(ctx, word, &seen, pe);
            CHECK(pe == lost ? status == WEFT_ERR_PATH : !status && seen == added[pe]);
        }
        CHECK(weft_p64(ctx, word, 0, lost) == WEFT_ERR_PATH);
        OK(weft_p64(ctx, &orders[2], added[lost], to));
        OK(weft_fence(ctx));
        OK(weft_p64(ctx, &orders[0], (uint64_t)lost + 1, to));
    }
    size_t index;
    while (!orders[1]) {
        OK(weft_wait_until_any(ctx, WEFT_UINT64, orders, 2, NULL, WEFT_NE, 0, &index));
        if (orders[0] && me)
            relay(word, orders, (int)orders[0] - 1, orders[2]);
    }
}

/* ------------------------------------------------------------------------------ moved requests */

enum { PARTS = 3 };

struct load {
    uint64_t *sum, *signal, *value;   /* value: [npes] */
    unsigned char *there, *far_there; /* [npes] of PARTS x BYTES, and of LONG_BYTES */
    unsigned char *mine, *back;
};

static struct load new_load(void)
{
    return (struct load){alloc(job, sizeof(uint64_t)),
                         alloc(job, sizeof(uint64_t)),
                         alloc(job, (size_t)npes * sizeof(uint64_t)),
                         alloc(job, (size_t)npes * PARTS * BYTES),
                         alloc(job, (size_t)npes * LONG_BYTES),
                         malloc(LONG_BYTES),
                         malloc(LONG_BYTES)};
}

/* Nonblocking puts to all PEs, and the data that have arrived. */
static void put_parts(const struct load *l, int round)
{
    weft_ctx *ctx = weft_default_ctx(job);
    for (int i = 0; i < npes * PARTS; i++) {
        memset(l->mine + (size_t)i * BYTES, round * 7 + i, BYTES);
        OK(weft_put_nbi(ctx, l->there + ((size_t)me * PARTS + (size_t)(i / npes)) * BYTES,
                        l->mine + (size_t)i * BYTES, (size_t)(1 + (round * 53 + i) % BYTES),
                        i % npes));
    }
    OK(weft_quiet(ctx));
    for (int i = 0; i < npes * PARTS; i++) {
        size_t bytes = (size_t)(1 + (round * 53 + i) % BYTES);
        OK(weft_get(ctx, l->back, l->there + ((size_t)me * PARTS + (size_t)(i / npes)) * BYTES,
                    bytes, i % npes));
        CHECK(!memcmp(l->back, l->mine + (size_t)i * BYTES, bytes));
    }
}

/* One PE gets a long put, which several adapters share, values, additions and a signal. */
static void use_one(const struct load *l, int round, int pe)
{
    weft_ctx *ctx = weft_default_ctx(job);
    const uint64_t value = (uint64_t)round * 1000003 + (uint64_t)pe;
    uint64_t before = 0, back = 0;
    unsigned char *at = l->far_there + (size_t)me * LONG_BYTES;
    memset(l->mine, round + pe + 1, LONG_BYTES);
    OK(weft_put(ctx, at, l->mine, round % 4 ? BYTES : LONG_BYTES, pe));
    OK(weft_p64(ctx, &l->value[me], value, pe));
    /* A get by another adapter may overtake them. */
    OK(weft_quiet(ctx));
    OK(weft_g64(ctx, &l->value[me], &back, pe));
    CHECK(back == value);
    OK(weft_get(ctx, l->back, at, round % 4 ? BYTES : LONG_BYTES, pe));
    CHECK(!memcmp(l->back, l->mine, round % 4 ? BYTES : LONG_BYTES));
    OK(weft_atomic_add64(ctx, l->sum, 2, pe));
    OK(weft_quiet(ctx));
    OK(weft_atomic_fetch_add64(ctx, l->sum, 3, &before, pe));
    CHECK(before >= 5 * (uint64_t)round + 2);
    OK(weft_put_signal(ctx, at, l->mine, 40, l->signal, 1, WEFT_SIGNAL_ADD, pe));
    OK(weft_quiet(ctx));
}

/* The warnings and the reasons say what has failed, and what replaces it. */
static void check_reasons(void)
{
    const char *fault = getenv("SOFT_HCA_FAIL");
    const char *by =
        getenv("SOFT_HCA_DEVICES") ? "by mlx5_soft1: mlx5_soft0" : "by path net: mlx5_soft0";
    int named = 0;
    for (int pe = 0; pe < npes; pe++) {
        weft_path_info info = {.size = sizeof info};
        OK(weft_path_query(job, pe, &info));
        named += strstr(info.reason, "by DC; requests of failed queues") && strstr(info.reason, by);
        if (pe == 3 || !pe)
            fprintf(stderr, "PE %d to PE %d: %s\n", me, pe, info.reason);
    }
    if (!me && fault && !strcmp(fault, "port"))
        CHECK(has_reason(1, "mlx5_soft0, port 1: the port is down"));
    if (!me)
        CHECK(fault ? named == npes - 1 : named == 1);
    else if (fault)
        CHECK(named == 1);
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void moves(void)
{
    struct load l = new_load();
    double longest = 0;
    barrier();
    for (int round = 0; round < rounds; round++) {
        put_parts(&l, round);
        for (int i = 0; i < npes; i++) {
            double begun = now_s(), took;
            use_one(&l, round, (me + i) % npes);
            took = now_s() - begun;
            longest = took > longest ? took : longest;
        }
    }
    fprintf(stderr, "PE %d: the longest operations on one PE took %.3f s\n", me, longest);
    barrier();
    CHECK(*l.sum == 5 * (uint64_t)rounds * (uint64_t)npes);
    CHECK(*l.signal == (uint64_t)rounds * (uint64_t)npes);
    check_reasons();
    barrier();
    free(l.mine);
    free(l.back);
}

/* Bursts of additions to PEs that share an initiator; a PE that is given up gets no more. */
static void add_bursts(uint64_t *word, uint64_t *added, bool *lost)
{
    weft_ctx *ctx = weft_default_ctx(job);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BURST; i++) {
            int pe = 1 + i / 5 % 2 * INITIATORS;
            if (lost[pe] || weft_atomic_add64(ctx, word, 1, pe))
                continue;
            added[pe]++;
        }
        if (lost[1] || lost[1 + INITIATORS] || !weft_quiet(ctx))
            continue;
        const char *at = strstr(weft_last_error(), "PE ");
        fprintf(stderr, "seen: %s\n", weft_last_error());
        CHECK(at && strstr(at, " is given up: it may have executed"));
        lost[atoi(at + strlen("PE "))] = true;
    }
}

/* PE 2 reads the counts. orders: there, what PE 0 has posted to PE p and whether it has given p up;
 * at all, whether they may end. */
static void flood(void)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *word = alloc(job, sizeof *word),
             *orders = alloc(job, (2 * PES_MOST + 2) * sizeof *orders);
    uint64_t added[PES_MOST] = {0}, seen;
    bool lost[PES_MOST] = {false};
    if (!me) {
        add_bursts(word, added, lost);
        for (int pe = 1; pe < npes; pe++) {
            OK(weft_p64(ctx, &orders[2 * pe + 2], added[pe], 2));
            OK(weft_p64(ctx, &orders[2 * pe + 3], lost[pe], 2));
        }
        OK(weft_quiet(ctx));
        OK(weft_p64(ctx, &orders[0], 1, 2));
    }
    if (me == 2) {
        OK(weft_wait_until(ctx, WEFT_UINT64, &orders[0], WEFT_NE, 0));
        for (int pe = 1; pe < npes; pe++) {
            OK(weft_atomic_fetch64(ctx, word, &seen, pe));
            fprintf(stderr, "PE %d has %llu of %llu additions%s\n", pe, (unsigned long long)seen,
                    (unsigned long long)orders[2 * pe + 2], orders[2 * pe + 3] ? ", given up" : "");
            CHECK(orders[2 * pe + 3] ? seen <= orders[2 * pe + 2] : seen == orders[2 * pe + 2]);
        }
        for (int pe = 0; pe < npes; pe++)
            OK(weft_p64(ctx, &orders[1], 1, pe));
        OK(weft_quiet(ctx));
    }
    OK(weft_wait_until(ctx, WEFT_UINT64, &orders[1], WEFT_NE, 0));
}

int main(int argc, char **argv)
{
    /* The faults of the software adapter happen at PE 0 alone. */
    static const struct {
        const char *name;
        void (*run)(void);
        bool ends; /* collectively */
    } cases[] = {{"reached", reached, true},  {"none", none, true},   {"many", many, true},
                 {"goes_on", goes_on, false}, {"moves", moves, true}, {"flood", flood, false}};
    const weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    const char *own = getenv("WEFT_PE");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc != 2 || strcmp(argv[1], cases[i].name) != 0)
            continue;
        if (own && strcmp(own, "0") != 0)
            unsetenv("SOFT_HCA_FAIL_AT");
        OK(weft_init(&job, &attr));
        me = weft_my_pe(job);
        npes = weft_n_pes(job);
        rounds = (int)rounds_or(300);
        CHECK(npes <= PES_MOST);
        cases[i].run();
        if (cases[i].ends)
            OK(weft_finalize(job));
        return 0;
    }
    CHECK(!"the case is known");
    return 1;
}
