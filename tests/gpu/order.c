/* SPDX-License-Identifier: Apache-2.0 */
/* Order of operations with GPU memory: puts of several contexts (and so on all internal streams)
 * before fence, quiet, signals and barriers; reuse of sources; threads that share a context. Where
 * possible the receiver reads with its own CPU loads, so that no call of the library waits for the
 * data in between. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <weft/stream.h>

enum { CONTEXTS = 5, WORDS = 6000, ROUNDS = 24, LARGE = (5 << 20) + 4104 };

static weft_job *job;
static weft_ctx *contexts[CONTEXTS];
static weft_team *world;
static int me, n, next, previous;

static uint64_t word(int pe, uint64_t round, uint64_t i)
{
    return round << 40 | (uint64_t)pe << 32 | i;
}

static void wrong(const char *what, uint64_t round, uint64_t i, uint64_t seen)
{
    fprintf(stderr, "%s, round %llu: word %llu is %#llx at PE %d\n", what,
            (unsigned long long)round, (unsigned long long)i, (unsigned long long)seen, me);
    exit(1);
}

static void fill_words(uint64_t *source, uint64_t round)
{
    static uint64_t words[WORDS];
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = word(me, round, i);
    fill(job, source, words, sizeof words);
}

/* The data lies in the host heap: the CPU reads it as soon as it sees the flag. */
static void expect_now(const char *what, const uint64_t *data, uint64_t round)
{
    for (uint64_t i = WORDS; i-- > 0;)
        if (((const volatile uint64_t *)data)[i] != word(previous, round, i))
            wrong(what, round, i, data[i]);
}

static void wait_for(const uint64_t *flag, uint64_t value)
{
    OK(weft_wait_until(weft_default_ctx(job), WEFT_UINT64, flag, WEFT_GE, value));
}

/* The CPU stores a flag after a fence or a quiet of the context that put. */
static void flags(const char *what, uint64_t *data, uint64_t *source, uint64_t *flag,
                  weft_status (*order)(weft_ctx *ctx))
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        weft_ctx *ctx = contexts[round % CONTEXTS];
        fill_words(source, round);
        OK(weft_put_nbi(ctx, data, source, WORDS * 8, next));
        OK(order(ctx));
        OK(weft_p64(ctx, flag, round, next));
        wait_for(flag, round);
        expect_now(what, data, round);
        OK(weft_barrier(world));
    }
}

/* One put by every context, then one quiet of each: every quiet must complete its puts. */
static void all_contexts(uint64_t *data, uint64_t *source, uint64_t *flag)
{
    enum { PART = WORDS / CONTEXTS };
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        fill_words(source, round);
        for (int c = 0; c < CONTEXTS; c++)
            OK(weft_put_nbi(contexts[c], data + c * PART, source + c * PART, PART * 8, next));
        for (int c = 0; c < CONTEXTS; c++)
            OK(weft_quiet(contexts[c]));
        OK(weft_p64(contexts[0], flag, round, next));
        wait_for(flag, round);
        expect_now("puts of several contexts", data, round);
        OK(weft_barrier(world));
    }
}

/* An atomic with a result completes the operations before it, but not a put after it. All
 * operations are on GPU memory, and so on one internal stream. */
static void behind_an_answer(uint64_t *data, uint64_t *source, uint64_t *counter, uint64_t *flag)
{
    static uint64_t seen[WORDS];
    uint64_t before;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        weft_ctx *ctx = contexts[round % CONTEXTS];
        fill_words(source, round);
        OK(weft_atomic_fetch_add64(ctx, counter, 1, &before, next));
        OK(weft_put_nbi(ctx, data, source, WORDS * 8, next));
        OK(weft_quiet(ctx));
        OK(weft_p64(ctx, flag, round, next));
        wait_for(flag, round);
        look(job, seen, data, sizeof seen);
        expect_now("behind an answer", seen, round);
        OK(weft_barrier(world));
    }
}

/* Large enough for several routes (gpu/multipath/stripe.h). */
static void large(unsigned char *data, unsigned char *source, uint64_t *flag)
{
    unsigned char *pattern = malloc(LARGE);
    for (uint64_t round = 1; round <= 6; round++) {
        make_pattern(pattern, me + (int)round, LARGE);
        fill(job, source, pattern, LARGE);
        OK(weft_put_nbi(contexts[1], data, source, LARGE, next));
        OK(weft_quiet(contexts[1]));
        OK(weft_p64(contexts[1], flag, round, next));
        wait_for(flag, round);
        make_pattern(pattern, previous + (int)round, LARGE);
        CHECK(memcmp(data, pattern, LARGE) == 0);
        OK(weft_barrier(world));
    }
    free(pattern);
}

/* A put with signal of either form, and the wait for the one from the previous PE. */
static void exchange_signals(uint64_t *data, uint64_t *source, size_t words, uint64_t *signal,
                             uint64_t round)
{
    weft_ctx *ctx = contexts[round % CONTEXTS];
    fill_words(source, round);
    if (round % 2)
        OK(weft_put_signal_nbi(ctx, data, source, words * 8, signal, 1, WEFT_SIGNAL_ADD, next));
    else
        OK(weft_put_signal(ctx, data, source, words * 8, signal, round, WEFT_SIGNAL_SET, next));
    OK(weft_signal_wait(ctx, signal, WEFT_GE, round, NULL));
}

/* put_signal with the signal in either heap and the data in the host heap. */
static void signals(const char *what, uint64_t *data, uint64_t *source, uint64_t *signal)
{
    uint64_t zero = 0;
    fill(job, signal, &zero, sizeof zero);
    OK(weft_barrier(world));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        exchange_signals(data, source, WORDS, signal, round);
        expect_now(what, data, round);
        OK(weft_barrier(world));
    }
}

/* put_signal with the data in the GPU heap and the signal in the host heap, which the CPU reads. */
static void signals_of_gpu_data(uint64_t *data, uint64_t *source, uint64_t *signal)
{
    static uint64_t seen[WORDS];
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const size_t words = round % 4 ? WORDS : 3;
        exchange_signals(data, source, words, signal, round);
        look(job, seen, data, words * 8);
        for (uint64_t i = 0; i < words; i++)
            if (seen[i] != word(previous, round, i))
                wrong("GPU memory behind a signal of the host", round, i, seen[i]);
        OK(weft_barrier(world));
    }
}

/* A put from pageable memory: the source is overwritten as soon as it returns. */
static void sources(uint64_t *data, uint64_t *flag)
{
    static uint64_t source[WORDS], seen[WORDS];
    uint64_t *gpu_signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        weft_ctx *ctx = contexts[round % CONTEXTS];
        size_t words = round % 4 ? WORDS : 16;
        for (uint64_t i = 0; i < WORDS; i++)
            source[i] = word(me, round, i);
        if (round % 2)
            OK(weft_put(ctx, data, source, words * 8, next));
        else
            OK(weft_put_signal(ctx, data, source, words * 8, gpu_signal, round, WEFT_SIGNAL_SET,
                               next));
        memset(source, 0xee, sizeof source);
        OK(weft_quiet(ctx));
        OK(weft_p64(ctx, flag, round, next));
        wait_for(flag, round);
        look(job, seen, data, words * 8);
        for (uint64_t i = 0; i < words; i++)
            if (seen[i] != word(previous, round, i))
                wrong("a plain source used again", round, i, seen[i]);
        OK(weft_barrier(world));
    }
    OK(weft_free(job, gpu_signal));
}

/* The same for a put, with or without a signal, from host memory that the GPU reads directly. */
static void pinned_sources(uint64_t *data, uint64_t *source, uint64_t *gpu_signal)
{
    static uint64_t seen[WORDS];
    uint64_t zero = 0;
    fill(job, gpu_signal, &zero, sizeof zero);
    OK(weft_barrier(world));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        weft_ctx *ctx = contexts[round % CONTEXTS];
        for (uint64_t i = 0; i < WORDS; i++)
            source[i] = word(me, round, i);
        if (round % 2)
            OK(weft_put(ctx, data, source, WORDS * 8, next));
        else
            OK(weft_put_signal(ctx, data, source, WORDS * 8, gpu_signal, round, WEFT_SIGNAL_SET,
                               next));
        memset(source, 0xee, WORDS * 8);
        OK(weft_quiet(ctx));
        if (round % 2)
            OK(weft_signal(ctx, gpu_signal, round, WEFT_SIGNAL_SET, next));
        OK(weft_signal_wait(ctx, gpu_signal, WEFT_GE, round, NULL));
        look(job, seen, data, WORDS * 8);
        for (uint64_t i = 0; i < WORDS; i++)
            if (seen[i] != word(previous, round, i))
                wrong("a pinned source used again", round, i, seen[i]);
        OK(weft_barrier(world));
    }
}

/* The data is there when get returns, and after the quiet of a get_nbi. */
static void gets(uint64_t *gpu, uint64_t *own)
{
    static uint64_t seen[WORDS];
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        weft_ctx *ctx = contexts[round % CONTEXTS];
        uint64_t *to = round % 3 ? own : seen;
        fill_words(gpu, round);
        OK(weft_barrier(world));
        if (round % 2) {
            OK(weft_get(ctx, to, gpu, WORDS * 8, previous));
        } else {
            OK(weft_get_nbi(ctx, to, gpu, WORDS * 8, previous));
            OK(weft_quiet(ctx));
        }
        expect_now("a get", to, round);
        OK(weft_barrier(world));
    }
}

/* On streams: data before a barrier or a signal, without a wait of the host. */
static void stream_barriers(CUstream stream, const struct gpu_api *driver, uint64_t *data,
                            uint64_t *source, uint64_t *back)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        fill_words(source, round);
        OK(weft_put_on_stream(contexts[0], data, source, WORDS * 8, next, stream));
        OK(weft_barrier_on_stream(world, stream));
        OK(weft_get_on_stream(contexts[0], back, data, WORDS * 8, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        expect_now("behind a barrier on a stream", back, round);
        OK(weft_barrier(world));
    }
}

/* The barrier completes what the host has put on its default context before. */
static void stream_barrier_completes(CUstream stream, const struct gpu_api *driver, uint64_t *data,
                                     uint64_t *source, uint64_t *back)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        fill_words(source, round);
        OK(weft_put_nbi(weft_default_ctx(job), data, source, WORDS * 8, next));
        OK(weft_barrier_on_stream(world, stream));
        OK(weft_get_on_stream(contexts[0], back, data, WORDS * 8, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        expect_now("put by the host, behind a barrier on a stream", back, round);
        OK(weft_barrier(world));
    }
}

/* A quiet on the stream completes what the host has put on that context. */
static void stream_quiets(CUstream stream, const struct gpu_api *driver, uint64_t *data,
                          uint64_t *source, uint64_t *back)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        weft_ctx *ctx = contexts[round % CONTEXTS];
        fill_words(source, round);
        OK(weft_put_nbi(ctx, data, source, WORDS * 8, me));
        OK(weft_quiet_on_stream(ctx, stream));
        OK(weft_get_on_stream(ctx, back, data, WORDS * 8, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        for (uint64_t i = 0; i < WORDS; i++)
            if (back[i] != word(me, round, i))
                wrong("behind a quiet on a stream", round, i, back[i]);
    }
    OK(weft_barrier(world));
}

static void stream_signals(CUstream stream, const struct gpu_api *driver, uint64_t *data,
                           uint64_t *source, uint64_t *signal, uint64_t *back)
{
    uint64_t zero = 0;
    fill(job, signal, &zero, sizeof zero);
    OK(weft_barrier(world));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        fill_words(source, round);
        OK(weft_put_on_stream(contexts[0], data, source, WORDS * 8, next, stream));
        OK(weft_signal_on_stream(contexts[0], signal, round % 2 ? 1 : round,
                                 round % 2 ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET, next, stream));
        OK(weft_signal_wait_on_stream(contexts[0], signal, WEFT_GE, round, stream));
        OK(weft_get_on_stream(contexts[0], back, data, WORDS * 8, me, stream));
        CHECK(driver->StreamSynchronize(stream) == 0);
        expect_now("behind a signal on a stream", back, round);
        OK(weft_barrier(world));
    }
}

/* Two threads on one context. One repeatedly puts and calls quiet. The end of its quiet must not
 * complete the puts of the other thread. */
struct sharer {
    uint64_t *data, *source;
    _Atomic int stop;
};

static void *busy_thread(void *argument)
{
    struct sharer *sharer = argument;
    while (!sharer->stop) {
        OK(weft_put_nbi(contexts[2], sharer->data, sharer->source, 8, me));
        OK(weft_quiet(contexts[2]));
        usleep(300); /* a recent put would make the other thread's quiet wait */
    }
    return NULL;
}

static void shared_context(uint64_t *data, uint64_t *source)
{
    enum { PART = 256, TIMES = 200, APART = WORDS / 2 };
    struct sharer sharer = {data + WORDS, source + WORDS, 0};
    pthread_t thread;
    fill_words(source, 1);
    CHECK(pthread_create(&thread, NULL, busy_thread, &sharer) == 0);
    for (uint64_t round = 1; round <= TIMES; round++) {
        uint64_t first = round % 2 * APART;
        OK(weft_put_nbi(contexts[2], data, source + first, PART * 8, me));
        usleep((useconds_t)(round * 37 % 400)); /* time for the other thread's quiet to end */
        OK(weft_quiet(contexts[2]));
        for (uint64_t i = PART; i-- > 0;)
            if (((volatile uint64_t *)data)[i] != word(me, 1, first + i))
                wrong("two threads on one context", round, i, data[i]);
    }
    sharer.stop = 1;
    pthread_join(thread, NULL);
    OK(weft_barrier(world));
}

static CUstream make_stream(struct gpu_api *driver, void *probe)
{
    CUcontext context;
    CUstream stream;
    int ordinal = 0;
    OK(gpu_api_open(driver));
    CHECK(driver->PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      (uintptr_t)probe) == 0);
    CHECK(driver->DevicePrimaryCtxRetain(&context, ordinal) == 0);
    CHECK(driver->CtxPushCurrent(context) == 0);
    CHECK(driver->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == 0);
    return stream;
}

static void clear(uint64_t *flag)
{
    *flag = 0;
    OK(weft_barrier(world));
}

static void streams(uint64_t *gpu, uint64_t *gpu_other, uint64_t *gpu_signal, uint64_t *host,
                    uint64_t *host_other, uint64_t *flag)
{
    struct gpu_api driver;
    CUstream stream = make_stream(&driver, gpu);
    stream_barriers(stream, &driver, gpu, gpu_other, host);
    stream_barriers(stream, &driver, host_other, gpu_other, host);
    stream_barrier_completes(stream, &driver, gpu, gpu_other, host);
    stream_quiets(stream, &driver, gpu, gpu_other, host);
    stream_signals(stream, &driver, gpu, gpu_other, gpu_signal, host);
    stream_signals(stream, &driver, gpu, gpu_other, flag, host);
    CHECK(driver.StreamDestroy(stream) == 0);
}

/* With the argument "apart", only signals in other memory than their data. */
int main(int argc, char **argv)
{
    const bool all = argc < 2 || strcmp(argv[1], "apart") != 0;
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    OK(weft_init(&job, &attr));
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    previous = (me + n - 1) % n;
    uint64_t *gpu = gpu_alloc(job, LARGE, 0), *gpu_other = gpu_alloc(job, LARGE, 0);
    uint64_t *gpu_signal = gpu_alloc(job, 64, WEFT_ALLOC_ZERO);
    uint64_t *host = alloc(job, LARGE), *host_other = alloc(job, LARGE), *flag = alloc(job, 64);
    for (int c = 0; c < CONTEXTS; c++)
        OK(weft_ctx_create(world, 0, &contexts[c]));

    signals_of_gpu_data(gpu, gpu_other, flag);
    signals("behind a signal in the GPU heap", host, gpu, gpu_signal);
    if (all) {
        clear(flag);
        flags("behind a fence", host, gpu, flag, weft_fence);
        clear(flag);
        flags("behind a quiet", host, gpu, flag, weft_quiet);
        clear(flag);
        all_contexts(host, gpu, flag);
        clear(flag);
        behind_an_answer(gpu, gpu_other, gpu_signal, flag);
        clear(flag);
        large((unsigned char *)host, (unsigned char *)gpu, flag);
        signals("behind a signal in the host heap", host, gpu, flag);
        clear(flag);
        sources(gpu, flag);
        pinned_sources(gpu, host_other, gpu_signal);
        gets(gpu, host);
        shared_context(host, gpu);
        streams(gpu, gpu_other, gpu_signal, host, host_other, flag);
    }
    for (int c = 0; c < CONTEXTS; c++)
        OK(weft_ctx_destroy(contexts[c]));
    OK(weft_finalize(job));
    return 0;
}
