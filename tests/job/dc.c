/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda with DC queues to PEs beyond WEFT_TEST_GDA_RC:
 *
 *   dc reached   each pair's reason names RC or DC, and says when its path has been tested
 *   dc none      an adapter has no DC: each pair's reason says that all pairs take RC
 *   dc many      threads of each PE put, get and add over one initiator
 *   dc goes_on   a request of PE 0 fails: requests to that PE fail, those to other PEs are executed
 *                once
 *   dc down      the port of PE 0 goes down: its calls fail, and name the adapter */
#include "job.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static void down(void)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *word = alloc(job, sizeof *word);
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < 1000000 && !status; i++) {
        status = weft_atomic_add64(ctx, word, 1, (me + 1 + (int)(i % (uint64_t)(npes - 1))) % npes);
        if (!status)
            status = weft_quiet(ctx);
    }
    fprintf(stderr, "PE %d, %s: %s\n", me, weft_status_name(status), weft_last_error());
    CHECK(status == WEFT_ERR_PATH || status == WEFT_ERR_PEER_DEAD);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        bool fails; /* the faults of the software adapter happen at PE 0 alone; no PE leaves */
    } cases[] = {{"reached", reached, false},
                 {"none", none, false},
                 {"many", many, false},
                 {"goes_on", goes_on, true},
                 {"down", down, true}};
    const weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    const char *own = getenv("WEFT_PE");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc != 2 || strcmp(argv[1], cases[i].name) != 0)
            continue;
        if (cases[i].fails && own && strcmp(own, "0") != 0)
            unsetenv("SOFT_HCA_FAIL_AT");
        OK(weft_init(&job, &attr));
        me = weft_my_pe(job);
        npes = weft_n_pes(job);
        rounds = (int)rounds_or(300);
        CHECK(npes <= PES_MOST);
        cases[i].run();
        if (!cases[i].fails)
            OK(weft_finalize(job));
        return 0;
    }
    CHECK(!"the case is known");
    return 1;
}
