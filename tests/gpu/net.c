/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory over path net, by the NIC or through pinned host memory: either kind of memory at
 * either end, odd sizes and addresses, flags among the data and after it, signals after transfers
 * of many fragments, several threads at once; and a PE whose GPU fails, or that dies, during a
 * transfer.
 *   net moves [TEXT [LATER]]
 *   net some [TEXT [LATER]]   the first part of it
 *   net fails CALL WHERE
 *   net dies put|get
 * TEXT: expected text of the path's reason for GPU memory; LATER: at the end. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

enum { AREA = (1 << 20) + 4096, LARGE = 1000003, ROUNDS = 6, THREADS = 4, PART = 150001 };

static weft_job *job;
static weft_ctx *ctx;
static weft_ctx *readers[4]; /* each has its own stream */
static int me, n, next, previous;
static unsigned char *gpu_to, *gpu_from, *host_to, *host_from, *plain, *seen;

static int seed(int pe, int round)
{
    return pe * 1000 + round;
}

static unsigned char content(int pe, int round, size_t i)
{
    return pattern_byte(seed(pe, round), i);
}

static void make(unsigned char *to, int pe, int round, size_t bytes)
{
    make_pattern(to, seed(pe, round), bytes);
}

static void compare(const unsigned char *found, int pe, int round, size_t bytes, const char *what)
{
    size_t i = pattern_end(found, seed(pe, round), 0, bytes);
    if (i < bytes) {
        fprintf(stderr, "PE %d, %s of %zu bytes, round %d: byte %zu is %#x instead of %#x\n", me,
                what, bytes, round, i, found[i], content(pe, round, i));
        exit(1);
    }
}

static void barrier(void)
{
    OK(weft_barrier(weft_team_world(job)));
}

/* -------------------------------------------------------------------------- every pair of kinds */

/* Puts and gets; the bytes around them do not change. */
static void one_size(size_t bytes, size_t shift, bool to_gpu, int from_kind, int round)
{
    unsigned char *to = (to_gpu ? gpu_to : host_to) + shift;
    unsigned char *locals[] = {plain, host_from, gpu_from}, *local = locals[from_kind] + shift / 2;
    memset(seen, 0xa5, AREA);
    fill(job, to_gpu ? gpu_to : host_to, seen, AREA);
    make(seen, me, round, bytes);
    if (from_kind == 0)
        memcpy(local, seen, bytes);
    else
        fill(job, local, seen, bytes);
    barrier();
    OK(weft_put(ctx, to, local, bytes, next));
    barrier();
    look(job, seen, to_gpu ? gpu_to : host_to, AREA);
    compare(seen + shift, previous, round, bytes, "put");
    for (size_t i = 0; i < AREA; i++)
        CHECK((i >= shift && i < shift + bytes) || seen[i] == 0xa5);
    memset(seen, 0x3c, bytes);
    if (from_kind == 0)
        memset(local, 0x3c, bytes);
    else
        fill(job, local, seen, bytes);
    if (round % 2) {
        OK(weft_get(ctx, local, to, bytes, next));
    } else {
        OK(weft_get_nbi(ctx, local, to, bytes, next));
        OK(weft_quiet(ctx));
    }
    if (from_kind == 0)
        memcpy(seen, local, bytes);
    else
        look(job, seen, local, bytes);
    compare(seen, me, round, bytes, "get");
    barrier();
}

static void sizes(void)
{
    static const size_t bytes[] = {1,     7,     4096,  4097,   8192,   8193,
                                   65535, 65536, 65537, 200001, 524289, LARGE};
    int round = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        for (int kinds = 0; kinds < 6; kinds++, round++)
            if (kinds >= 3 || kinds == 2) /* another test covers transfers without GPU memory */
                one_size(bytes[i], (size_t)(round % 5) * 3, kinds >= 3, kinds % 3, round);
}

/* When a put has returned, its source may be overwritten, whether the NIC reads it in place or
 * not. */
static void source_is_free(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        make(seen, me, round, LARGE);
        fill(job, gpu_from, seen, LARGE);
        OK(weft_put(ctx, gpu_to, gpu_from, LARGE, next));
        memset(seen, 0x3c, LARGE);
        fill(job, gpu_from, seen, LARGE);
        barrier();
        look(job, seen, gpu_to, LARGE);
        compare(seen, previous, round, LARGE, "put whose source was used again");
        barrier();
    }
}

/* ------------------------------------------------------------------------- flags among the data */

/* Blocks of data with a flag after each: a fence keeps each flag behind all the data, and neither
 * overwrites the other. */
static void flags_among_data(void)
{
    enum { BLOCKS = 5, BLOCK = 100008 }; /* the flag is the last word of each block */
    memset(seen, 0, AREA);
    fill(job, gpu_to, seen, AREA);
    barrier();
    for (int round = 1; round <= ROUNDS; round++) {
        make(plain, me, round, BLOCKS * BLOCK);
        for (int b = 0; b < BLOCKS; b++)
            OK(weft_put_nbi(ctx, gpu_to + b * BLOCK, plain + b * BLOCK, BLOCK - 8, next));
        OK(weft_fence(ctx));
        for (int b = 0; b < BLOCKS; b++)
            OK(weft_p64(ctx, (uint64_t *)(void *)(gpu_to + b * BLOCK + BLOCK - 8), (uint64_t)round,
                        next));
        for (int b = 0; b < BLOCKS; b++)
            OK(weft_wait_until(ctx, WEFT_UINT64, gpu_to + b * BLOCK + BLOCK - 8, WEFT_GE,
                               (uint64_t)round));
        /* Reads before any quiet, which would also complete operations that this PE serves. */
        OK(weft_get(readers[round % 4], seen, gpu_to, BLOCKS * BLOCK, me));
        for (int i = 0; i < BLOCKS * BLOCK; i++) {
            uint64_t flag = (uint64_t)round;
            int in_flag = i % BLOCK - (BLOCK - 8);
            unsigned char wanted = content(previous, round, (size_t)i);
            CHECK(seen[i] == (in_flag < 0 ? wanted : ((unsigned char *)&flag)[in_flag]));
        }
        barrier();
    }
}

/* Operations separated by a fence arrive in that order, whatever path each takes: the last writer
 * of a byte is the last operation. */
static void small_and_large(void)
{
    enum { SMALL = 3001, AT = 100, ALL = 70001 };
    for (int round = 0; round < ROUNDS; round++) {
        make(plain, me, round, ALL);
        memset(seen, round, SMALL);
        if (round % 2) {
            OK(weft_put_nbi(ctx, gpu_to, plain, ALL, next));
            OK(weft_fence(ctx));
        }
        for (int i = 0; i < 8; i++) /* enough to keep the owner's GPU busy for a while */
            OK(weft_put_nbi(ctx, gpu_to + AT, seen, SMALL, next));
        if (round % 2 == 0) {
            OK(weft_fence(ctx));
            OK(weft_put_nbi(ctx, gpu_to, plain, ALL, next));
        }
        OK(weft_quiet(ctx));
        barrier();
        look(job, seen, gpu_to, ALL);
        for (size_t i = 0; i < ALL; i++) {
            bool small = round % 2 && i >= AT && i < AT + SMALL;
            CHECK(seen[i] == (small ? (unsigned char)round : content(previous, round, i)));
        }
        barrier();
    }
}

/* A put of many fragments, then a put with a signal: the signal shows that both have arrived. */
static void signals(uint64_t *signal, bool from_gpu)
{
    uint64_t value = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        make(seen, me, round, LARGE);
        unsigned char *from = from_gpu ? gpu_from : seen;
        if (from_gpu)
            fill(job, gpu_from, seen, LARGE);
        OK(weft_put_nbi(ctx, gpu_to, from, LARGE / 2, next));
        if (round % 2)
            OK(weft_put_signal_nbi(ctx, gpu_to + LARGE / 2, from + LARGE / 2, LARGE - LARGE / 2,
                                   signal, (uint64_t)round, WEFT_SIGNAL_SET, next));
        else
            OK(weft_put_signal(ctx, gpu_to + LARGE / 2, from + LARGE / 2, LARGE - LARGE / 2, signal,
                               1, WEFT_SIGNAL_ADD, next));
        if (round % 3 == 0)
            OK(weft_quiet(ctx));
        OK(weft_signal_wait(ctx, signal, WEFT_GE, (uint64_t)round, &value));
        OK(weft_get(readers[round % 4], plain, gpu_to + LARGE / 2, LARGE - LARGE / 2, me));
        for (size_t i = 0; i < LARGE - LARGE / 2; i++)
            CHECK(plain[i] == content(previous, round, LARGE / 2 + i));
        barrier();
        look(job, plain, gpu_to, LARGE / 2);
        compare(plain, previous, round, LARGE / 2, "put in front of a signal");
        barrier();
    }
}

/* -------------------------------------------------------------------------------------- threads */

struct worker {
    pthread_t thread;
    weft_ctx *ctx;
    int number;
};

/* Each thread repeatedly moves its own part to the next PE and back. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    unsigned char *there = gpu_to + (size_t)worker->number * PART;
    unsigned char *mine = malloc(PART), *back = malloc(PART);
    CHECK(mine && back);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = PART - (size_t)round * 1001;
        make(mine, worker->number, round, bytes);
        OK(weft_put_nbi(worker->ctx, there, mine, bytes, next));
        OK(weft_quiet(worker->ctx));
        memset(back, 0, bytes);
        OK(weft_get_nbi(worker->ctx, back, there, bytes, next));
        OK(weft_quiet(worker->ctx));
        compare(back, worker->number, round, bytes, "a thread's get");
    }
    free(mine);
    free(back);
    return NULL;
}

static void threads(void)
{
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        OK(weft_ctx_create(weft_team_world(job), 0, &workers[i].ctx));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        OK(weft_ctx_destroy(workers[i].ctx));
    barrier();
}

/* --------------------------------------------------------------------------------------- faults */

static weft_status there_and_back(void)
{
    weft_status status = weft_put(ctx, gpu_to, gpu_from, LARGE, 1);
    if (!status)
        status = weft_quiet(ctx);
    return status ? status : weft_get(ctx, gpu_from, gpu_to, LARGE, 1);
}

/* One call of the driver fails at PE `where`, the initiator (0) or the target (1). PE 0 gets the
 * error, and so does its next call. For a job of two PEs. */
static int one_fails(const char *call, int where)
{
    make(seen, me, 1, LARGE);
    fill(job, gpu_from, seen, LARGE);
    barrier();
    CHECK(gpu_api_fault_plan(call, me == where ? 2 : 0, CUDA_ERROR_UNKNOWN));
    barrier();
    if (me != 0) {
        weft_barrier(weft_team_world(job)); /* until PE 0 ends the job */
        return 0;
    }
    weft_status status = there_and_back();
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    weft_status again = there_and_back();
    fprintf(stderr, "seen: %s: %s; again: %s\n", weft_status_name(status), sentence,
            weft_status_name(again));
    weft_abort(job, 0);
    return 0;
}

/* PE 1 is killed during an operation of PE 0. */
static int one_dies(bool put)
{
    uint64_t *count = alloc(job, 64);
    weft_status status = WEFT_OK;
    barrier();
    if (me == 1) {
        OK(weft_wait_until(ctx, WEFT_UINT64, count, WEFT_GE, 5));
        raise(SIGKILL);
    }
    for (uint64_t i = 1; !status; i++) {
        status = put ? weft_put(ctx, gpu_to, gpu_from, LARGE, 1)
                     : weft_get(ctx, gpu_from, gpu_to, LARGE, 1);
        if (!status)
            status = weft_p64(ctx, count, i, 1);
    }
    fprintf(stderr, "asked: %s: %s\n", weft_status_name(status), weft_last_error());
    return 3;
}

static void is_told(const char *text)
{
    weft_path_info info = {.size = sizeof info, .kind = WEFT_GPU};
    OK(weft_path_query(job, next, &info));
    if (strstr(info.reason, text))
        return;
    fprintf(stderr, "the reason is \"%s\" without \"%s\"\n", info.reason, text);
    exit(1);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "moves";
    bool fails = strcmp(what, "fails") == 0 && argc > 3;
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    if (fails)
        CHECK(gpu_api_fault_plan(argv[2], 0, 0)); /* for tables opened later */
    OK(weft_init(&job, &attr));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    gpu_to = gpu_alloc(job, AREA, WEFT_ALLOC_ZERO);
    gpu_from = gpu_alloc(job, AREA, WEFT_ALLOC_ZERO);
    host_to = alloc(job, AREA);
    host_from = alloc(job, AREA);
    plain = malloc(AREA);
    seen = malloc(AREA);
    CHECK(plain && seen);
    if (fails)
        return one_fails(argv[2], atoi(argv[3]));
    if (strcmp(what, "dies") == 0)
        return one_dies(argc > 2 && strcmp(argv[2], "put") == 0);
    for (int i = 0; i < 4; i++)
        OK(weft_ctx_create(weft_team_world(job), 0, &readers[i]));
    if (argc > 2)
        is_told(argv[2]);
    uint64_t *signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO), *host_signal = alloc(job, 64);
    sizes();
    source_is_free();
    if (strcmp(what, "some") != 0) {
        flags_among_data();
        small_and_large();
        signals(signal, false);
        signals(signal + 1, true);
        signals(host_signal, true);
        threads();
    }
    if (argc > 3)
        is_told(argv[3]);
    free(plain);
    free(seen);
    OK(weft_finalize(job));
    printf("PE %d: all has arrived as it was sent\n", me);
    return 0;
}
