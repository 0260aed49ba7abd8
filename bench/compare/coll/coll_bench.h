/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of bench/compare/coll: the rows, the loops around a collective on a
 * stream, in a graph and called by the host, the check of the result, and the lines that each
 * process prints. Before including it, a program defines how its library initialises, allocates
 * memory and calls collectives (see side_*). Times are those of this process; run.sh takes the
 * slowest process. */
#ifndef WEFT_COMPARE_COLL_BENCH_H
#define WEFT_COMPARE_COLL_BENCH_H

#include "bench/compare/device/pes.h"

#include <stdint.h>

enum op { OP_ALLREDUCE, OP_ALLGATHER, OP_REDUCESCATTER, OP_ALLTOALL, OP_BROADCAST, OP_COUNT };
static const char *const op_names[OP_COUNT] = {"allreduce", "allgather", "reducescatter",
                                               "alltoall", "broadcast"};

/* A library: its name, or the name of the mode; initialisation (sets me and n_pes); allocation of
 * both buffers; and the call that enqueues a collective of `bytes` (of the vector, or of a block)
 * on a stream. host NULL: the host cannot call it. */
struct side {
    const char *name;
    void (*join)(void);
    void *(*memory)(size_t bytes);
    void (*barrier)(void);
    void (*call)(enum op op, void *dst, void *src, size_t bytes, cudaStream_t stream);
    void (*host)(enum op op, void *dst, void *src, size_t bytes);
    void (*leave)(void);
};

enum { MOST_BYTES = 64 << 20, REPEATS = 5 };

static char *bench_src, *bench_dst;
static float *bench_words;
static cudaStream_t bench_stream;

static float bench_value(int pe, size_t i)
{
    return (float)((long)((i * 7 + (size_t)pe * 131) % 2003) - 1001);
}

static size_t blocks_of(enum op op, int dst)
{
    int many =
        dst ? op == OP_ALLGATHER || op == OP_ALLTOALL : op == OP_ALLTOALL || op == OP_REDUCESCATTER;
    return many ? (size_t)n_pes : 1;
}

static float bench_wanted(enum op op, size_t i, size_t words)
{
    float sum = 0;
    size_t from = i / words, at = i % words;
    if (op == OP_BROADCAST)
        return bench_value(0, i);
    if (op == OP_ALLGATHER || op == OP_ALLTOALL)
        return bench_value((int)from, op == OP_ALLTOALL ? (size_t)me * words + at : at);
    for (int pe = 0; pe < n_pes; pe++)
        sum += bench_value(pe, op == OP_REDUCESCATTER ? (size_t)me * words + i : i);
    return sum;
}

static void bench_fill(void)
{
    for (size_t i = 0; i < (size_t)MOST_BYTES / 4 * (size_t)n_pes; i++)
        bench_words[i] = bench_value(me, i);
    CUDA(cudaMemcpy(bench_src, bench_words, (size_t)MOST_BYTES * (size_t)n_pes,
                    cudaMemcpyHostToDevice));
}

/* Checks every word up to 1 MiB, then every 61st. */
static void bench_check(const struct side *side, enum op op, size_t bytes, const char *how)
{
    size_t words = bytes / 4, all = words * blocks_of(op, 1);
    CUDA(cudaMemcpy(bench_words, bench_dst, all * 4, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i<all; i += all> 262144 ? 61 : 1)
        if (bench_words[i] != bench_wanted(op, i, words)) {
            fprintf(stderr, "%s: rank %d: %s of %zu bytes (%s): word %zu is %g, not %g\n",
                    side->name, me, op_names[op], bytes, how, i, (double)bench_words[i],
                    (double)bench_wanted(op, i, words));
            exit(1);
        }
    CUDA(cudaMemset(bench_dst, 0xff, all * 4));
    CUDA(cudaDeviceSynchronize());
}

static void bench_row(const struct side *side, enum op op, size_t bytes, const char *how, double us)
{
    printf(
        "{\"side\": \"%s\", \"op\": \"%s\", \"bytes\": %zu, \"how\": \"%s\", \"pe\": %d, \"us\": "
        "%.3f}\n",
        side->name, op_names[op], bytes, how, me, us);
    fflush(stdout);
}

static double events_us(cudaEvent_t from, cudaEvent_t to, int calls)
{
    float ms;
    CUDA(cudaEventSynchronize(to));
    CUDA(cudaEventElapsedTime(&ms, from, to));
    return 1e3 * (double)ms / calls;
}

/* Returns the minimum of several measurements of `calls` calls each, in a graph or one by one. */
static double on_stream(const struct side *side, enum op op, size_t bytes, int calls, int graph)
{
    cudaGraph_t captured;
    cudaGraphExec_t made;
    cudaEvent_t from, to;
    double least = 1e30;
    CUDA(cudaEventCreate(&from));
    CUDA(cudaEventCreate(&to));
    if (graph) {
        CUDA(cudaStreamBeginCapture(bench_stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < calls; i++)
            side->call(op, bench_dst, bench_src, bytes, bench_stream);
        CUDA(cudaStreamEndCapture(bench_stream, &captured));
        CUDA(cudaGraphInstantiate(&made, captured, 0));
        CUDA(cudaGraphLaunch(made, bench_stream));
        CUDA(cudaStreamSynchronize(bench_stream));
    }
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        side->barrier();
        if (graph) { /* an untimed first run, so that all PEs start together */
            CUDA(cudaGraphLaunch(made, bench_stream));
            CUDA(cudaEventRecord(from, bench_stream));
            CUDA(cudaGraphLaunch(made, bench_stream));
        } else {
            for (int i = 0; i < 10; i++)
                side->call(op, bench_dst, bench_src, bytes, bench_stream);
            CUDA(cudaEventRecord(from, bench_stream));
            for (int i = 0; i < calls; i++)
                side->call(op, bench_dst, bench_src, bytes, bench_stream);
        }
        CUDA(cudaEventRecord(to, bench_stream));
        double us = events_us(from, to, calls);
        least = us < least ? us : least;
    }
    if (graph) {
        CUDA(cudaGraphExecDestroy(made));
        CUDA(cudaGraphDestroy(captured));
    }
    CUDA(cudaEventDestroy(from));
    CUDA(cudaEventDestroy(to));
    return least;
}

static double by_host(const struct side *side, enum op op, size_t bytes, int calls)
{
    double least = 1e30;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        side->barrier();
        double from = now_ns();
        for (int i = 0; i < calls; i++)
            side->host(op, bench_dst, bench_src, bytes);
        double us = (now_ns() - from) / 1e3 / calls;
        least = us < least ? us : least;
    }
    return least;
}

static void measure(const struct side *side, enum op op, size_t bytes)
{
    int calls = bytes >= 16 << 20 ? 6 : bytes >= 1 << 20 ? 20 : 60;
    double us = on_stream(side, op, bytes, calls, 0);
    bench_check(side, op, bytes, "stream");
    bench_row(side, op, bytes, "stream", us);
    us = on_stream(side, op, bytes, calls, 1);
    bench_check(side, op, bytes, "graph");
    bench_row(side, op, bytes, "graph", us);
    if (!side->host || bytes > 1 << 20)
        return;
    us = by_host(side, op, bytes, calls);
    bench_check(side, op, bytes, "host");
    bench_row(side, op, bytes, "host", us);
}

/* COLL_SIZES, COLL_OPS: comma-separated lists that select rows. */
static int is_wanted(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
            return 1;
    return !list;
}

static int bench_run(const struct side *side)
{
    static const size_t sizes[] = {8, 4096, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    side->join();
    size_t room = (size_t)MOST_BYTES * (size_t)n_pes;
    bench_src = (char *)side->memory(room);
    bench_dst = (char *)side->memory(room);
    bench_words = (float *)malloc(room);
    CUDA(cudaStreamCreateWithFlags(&bench_stream, cudaStreamNonBlocking));
    bench_fill();
    CUDA(cudaDeviceSynchronize());
    for (int op = 0; op < OP_COUNT; op++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char text[32];
            snprintf(text, sizeof text, "%zu", sizes[s]);
            if (is_wanted(getenv("COLL_OPS"), op_names[op]) &&
                is_wanted(getenv("COLL_SIZES"), text))
                measure(side, (enum op)op, sizes[s]);
        }
    side->barrier();
    side->leave();
    return 0;
}

#endif
