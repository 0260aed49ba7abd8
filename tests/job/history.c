/* SPDX-License-Identifier: Apache-2.0 */
/* The black box is correct: its history contains the collective calls and the long waits in order;
 * its counters contain the one-sided operations of each path and the last of them. Every operation
 * that the box can name occurs. */
#include "job.h"

#include <weft_file.h>

#include "job/job.h"

#include <unistd.h>

#include <weft/gpu.h>

static weft_job *job;
static weft_ctx *ctx;
static struct box *box;
static int me, n, to;
static uint64_t *a, *b;
static bool seen[BOX_OP_COUNT];

/* Number of history entries read so far. */
static uint64_t looked;

static int new_ones(enum box_operation operation)
{
    int count = 0;
    CHECK(box->past_count - looked <= BOX_HISTORY);
    for (; looked < box->past_count; looked++) {
        const struct box_past *past = &box->past[looked % BOX_HISTORY];
        CHECK(past->number == looked);
        CHECK(past->operation > BOX_OP_NONE && past->operation < BOX_OP_COUNT);
        seen[past->operation] = true;
        count += past->operation == (uint32_t)operation;
    }
    return count;
}

#define RECORDS(OP, call)                                                                          \
    do {                                                                                           \
        new_ones(BOX_OP_NONE);                                                                     \
        OK(call);                                                                                  \
        CHECK(new_ones(BOX_OP_##OP) == 1);                                                         \
    } while (0)

/* The default context's counters of the path to PE `to`. */
static struct box_counters *counters(void)
{
    return ctx->peers[WEFT_HOST][to].counters;
}

#define COUNTS(OP, bytes_, address, call)                                                          \
    do {                                                                                           \
        uint64_t operations_ = counters()->operations, before_ = counters()->bytes;                \
        char wanted_[64], got_[64];                                                                \
        snprintf(wanted_, sizeof wanted_, "%s %s PE %d at offset %llu",                            \
                 box_operation_name(BOX_OP_##OP), BOX_OP_##OP == BOX_OP_GET ? "from" : "to", to,   \
                 (unsigned long long)((char *)(address)-job->segments[SEG_HEAP].base));            \
        OK(call);                                                                                  \
        seen[BOX_OP_##OP] = true;                                                                  \
        box_last_text(counters(), got_, sizeof got_);                                              \
        CHECK(counters()->operations == operations_ + 1);                                          \
        CHECK(counters()->bytes == before_ + (bytes_));                                            \
        if (strcmp(wanted_, got_) != 0) {                                                          \
            fprintf(stderr, "%s: wanted \"%s\", got \"%s\"\n", #call, wanted_, got_);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void counted(void)
{
    uint64_t word = 5;
    uint32_t half;
    COUNTS(PUT, 24, a, weft_put(ctx, a, b, 24, to));
    COUNTS(PUT, 8, a + 3, weft_put_nbi(ctx, a + 3, b, 8, to));
    COUNTS(PUT, 1, (char *)a + 5, weft_p8(ctx, (char *)a + 5, 200, to));
    COUNTS(PUT, 8, a + 1, weft_p64(ctx, a + 1, 7, to));
    COUNTS(PUT, 32, a + 2, weft_iput(ctx, a + 2, b, 2, 1, 8, 4, to));
    COUNTS(GET, 16, a + 4, weft_get(ctx, b, a + 4, 16, to));
    COUNTS(GET, 8, a + 5, weft_get_nbi(ctx, b, a + 5, 8, to));
    COUNTS(GET, 4, a + 6, weft_g32(ctx, a + 6, &half, to));
    COUNTS(GET, 24, a + 7, weft_iget(ctx, b, a + 7, 1, 3, 8, 3, to));
    COUNTS(ATOMIC, 8, a + 8, weft_atomic_add64(ctx, a + 8, 1, to));
    COUNTS(ATOMIC, 4, a + 9, weft_atomic_fetch_add32(ctx, a + 9, 1, &half, to));
    COUNTS(ATOMIC, 8, a + 10, weft_atomic_cswap64(ctx, a + 10, 0, 1, &word, to));
    COUNTS(ATOMIC, 8, a + 11, weft_atomic_fetch64(ctx, a + 11, &word, to));
    COUNTS(ATOMIC, 8, a + 12, weft_atomic_nbi(ctx, WEFT_AMO_FETCH_ADD, 8, a + 12, 0, 1, &word, to));
    COUNTS(SIGNAL, 8, a + 13, weft_signal(ctx, a + 13, 1, WEFT_SIGNAL_SET, to));
    COUNTS(SIGNAL, 40, a + 14, weft_put_signal(ctx, a + 14, b, 40, a + 13, 1, WEFT_SIGNAL_ADD, to));
    COUNTS(SIGNAL, 80, a + 20,
           weft_put_signal_nbi(ctx, a + 20, b, 80, a + 13, 1, WEFT_SIGNAL_ADD, to));
    OK(weft_quiet(ctx));
}

static void recorded(weft_team *world)
{
    void *block, *larger;
    weft_team *part;
    RECORDS(BARRIER, weft_barrier(world));
    RECORDS(SYNC, weft_sync(world));
    RECORDS(BROADCAST, weft_broadcast(world, a, b, 8, 0));
    RECORDS(ALLTOALL, weft_alltoall(world, a, b, 8));
    RECORDS(ALLTOALLS, weft_alltoalls(world, a, b, 1, 1, 8, 1));
    RECORDS(ALLGATHER, weft_allgather(world, a, b, 8));
    RECORDS(COLLECT, weft_collect(world, a, b, 8));
    RECORDS(ALLREDUCE, weft_allreduce(world, a, b, 1, WEFT_UINT64, WEFT_SUM));
    RECORDS(REDUCESCATTER, weft_reducescatter(world, a, b, 1, WEFT_UINT64, WEFT_SUM));
    RECORDS(GATHER, weft_gather(world, a, b, 8, 0));
    RECORDS(SCATTER, weft_scatter(world, a, b, 8, 0));
    RECORDS(REDUCE, weft_reduce(world, a, b, 1, WEFT_UINT64, WEFT_SUM, 0));
    const uint64_t none[16] = {0};
    RECORDS(ALLTOALLV, weft_alltoallv(world, a, 8, none, none, b, none, none));
    RECORDS(ALLOC, weft_alloc(job, WEFT_HOST, 100, 0, 0, &block));
    RECORDS(REALLOC, weft_realloc(job, block, 1000, &larger));
    RECORDS(FREE, weft_free(job, larger));
    RECORDS(TEAM_SPLIT, weft_team_split_strided(world, 0, 1, n, &part));
    RECORDS(TEAM_DESTROY, weft_team_destroy(part));
    RECORDS(PROVE, weft_prove(job));
    new_ones(BOX_OP_NONE);
    CHECK(weft_file_scatter(world, NULL, a, 8, 0, NULL)); /* no member has opened the file */
    CHECK(new_ones(BOX_OP_FILE_TEAM) == 1);
    seen[BOX_OP_FILE_TEAM] = true;
    /* Host memory is refused, and the call is still recorded. */
    new_ones(BOX_OP_NONE);
    CHECK(weft_register_symmetric(job, a, 8, &block));
    CHECK(new_ones(BOX_OP_REGISTER) == 1);
    CHECK(weft_unregister_symmetric(job, a));
    CHECK(new_ones(BOX_OP_UNREGISTER) == 1);
}

/* Waits until the black boxes of all other PEs show this wait; a fixed delay would fail on a busy
 * machine. */
static void until_all_wait(enum box_operation wanted)
{
    for (int slot = 0; slot < job->boot->local_npes; slot++) {
        const struct box *box = (const struct box *)segment_slot(&job->segments[SEG_SYSTEM], slot);
        bool waits = slot == job->boot->local_pe;
        for (int tries = 0; tries < 20000 && !waits; tries++) {
            for (int i = 0; i < BOX_WAITS; i++)
                waits |= atomic_load(&box->waits[i].operation) == (uint32_t)wanted;
            usleep(1000);
        }
        CHECK(waits);
    }
}

/* PE 0 makes the others wait for long enough that the wait is recorded. */
static void long_waits(void)
{
    weft_team *world = weft_team_world(job);
    for (int signal = 0; signal < 2; signal++) {
        OK(weft_barrier(world));
        new_ones(BOX_OP_NONE);
        if (me == 0) {
            until_all_wait(signal ? BOX_OP_SIGNAL_WAIT : BOX_OP_WAIT);
            for (int pe = 1; pe < n; pe++)
                OK(weft_p64(ctx, a + 40 + signal, 99, pe));
            OK(weft_quiet(ctx));
        } else if (signal) {
            RECORDS(SIGNAL_WAIT, weft_signal_wait(ctx, a + 41, WEFT_EQ, 99, NULL));
        } else {
            RECORDS(WAIT, weft_wait_until(ctx, WEFT_UINT64, a + 40, WEFT_EQ, 99));
        }
    }
    OK(weft_barrier(world));
}

/* Only paths that defer operations record a fence or a quiet. */
static void fences(void)
{
    int open = ctx->open_count;
    new_ones(BOX_OP_NONE);
    OK(weft_fence(ctx));
    CHECK(new_ones(BOX_OP_FENCE) == (open > 0));
    OK(weft_quiet(ctx));
    CHECK(new_ones(BOX_OP_QUIET) == (open > 0));
    if (!open)
        seen[BOX_OP_FENCE] = seen[BOX_OP_QUIET] = true;
}

int main(void)
{
    OK(weft_init(&job, NULL));
    box = job->box;
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    to = (me + 1) % n;
    CHECK(new_ones(BOX_OP_INIT) == 1);
    a = alloc(job, 4096);
    b = alloc(job, 4096);
    counted();
    recorded(weft_team_world(job));
    long_waits();
    fences();
    /* finalize removes the box when it is recorded; PE 0 and a single PE wait too briefly to be
     * recorded. */
    seen[BOX_OP_FINALIZE] = true;
    /* Only for GPU memory: tests/gpu/symmetric.c. */
    seen[BOX_OP_REGISTER] = seen[BOX_OP_UNREGISTER] = true;
    seen[BOX_OP_DEVICE_QUIET] = true; /* only in a job with device code */
    for (int operation = BOX_OP_NONE + 1; operation < BOX_OP_COUNT; operation++) {
        bool never_waits = me == 0 && (operation == BOX_OP_WAIT || operation == BOX_OP_SIGNAL_WAIT);
        if (!seen[operation] && !never_waits) {
            fprintf(stderr, "PE %d: %s is never in the box\n", me,
                    box_operation_name((uint32_t)operation));
            return 1;
        }
    }
    OK(weft_finalize(job));
    return 0;
}
