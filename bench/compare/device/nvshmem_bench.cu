/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of weft_device_bench with NVSHMEM's API: the same loops, sizes, rounds, threads and checks
 * (bench/device/plan.h), timed the same way. Spins of this program are bounded by a count; those
 * inside NVSHMEM's barrier are not, so run.sh ends the processes after a time limit. */
#include "bench/device/plan.h"
#include "bench/device/report.h"
#include "pes.h"

#include <nvshmem.h>
#include <nvshmemx.h>

enum { SPINS = 4 * 1000 * 1000, FILL_SEED = 17, STALE_SEED = 5 };

struct times {
    uint64_t start, end;
    int64_t status;
    uint64_t wrong;
};

static struct report report;
static const char *only = "";
static int peer, processors;
static cudaStream_t stream;
static char *src, *dst;
static size_t room;
static uint64_t *flag, *wrong;
static char *chain; /* words for fetching atomics */
static double *two;
static struct times *times; /* GPU memory of this PE */
static uint64_t base;

/* ---------------------------------------------------------------------------------- kernels */

static __device__ uint64_t clock_ns(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

static __device__ void begin_timing(struct times *t)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        t[blockIdx.x].status = 0;
        t[blockIdx.x].wrong = 0;
        t[blockIdx.x].start = clock_ns();
    }
}

static __device__ void end_timing(struct times *t, int status)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        t[blockIdx.x].end = clock_ns();
        t[blockIdx.x].status = status;
    }
}

/* nvshmem_uint64_wait_until() with a bound: spins, then calls the library's test, which orders
 * later accesses as the wait does. */
static __device__ int await(uint64_t *word, uint64_t value)
{
    for (unsigned i = 0; i < SPINS; i++)
        if (*(volatile uint64_t *)word == value)
            return !nvshmem_uint64_test(word, NVSHMEM_CMP_EQ, value);
    return 1;
}

static __device__ int await_block(uint64_t *word, uint64_t value)
{
    int status = threadIdx.x == 0 ? await(word, value) : 0;
    return __syncthreads_or(status);
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    ping_p(uint64_t *flag, int first, int peer, uint64_t base, uint64_t warm, uint64_t rounds,
           struct times *t)
{
    int status = 0;
#pragma unroll 1
    for (uint64_t i = 1; i <= warm + rounds && !status; i++) {
        if (i == warm + 1)
            t->start = clock_ns();
        if (!first)
            status = await(flag, base + i);
        if (!status)
            nvshmem_uint64_p(flag, base + i, peer);
        if (first && !status)
            status = await(flag, base + i);
    }
    t->end = clock_ns();
    t->status = status;
    t->wrong = 0;
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    ping_signal(char *dst, char *src, size_t bytes, uint64_t *signal, int first, int peer,
                uint64_t base, uint64_t warm, uint64_t rounds, struct times *t)
{
    int status = 0;
#pragma unroll 1
    for (uint64_t i = 1; i <= warm + rounds && !status; i++) {
        if (i == warm + 1)
            begin_timing(t);
        if (!first)
            status = await_block(signal, base + i);
        if (!status)
            nvshmemx_putmem_signal_block(dst, src, bytes, signal, base + i, NVSHMEM_SIGNAL_SET,
                                         peer);
        if (first && !status)
            status = await_block(signal, base + i);
    }
    end_timing(t, status);
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    put_rate(char *dst, char *src, size_t bytes, uint64_t slots, int peer, uint64_t rounds,
             struct times *t)
{
    size_t own = blockIdx.x * slots * bytes;
    int n = nvshmem_n_pes(), pe = peer;
    if (peer < 0)
        pe = (nvshmem_my_pe() + 1 + (int)(blockIdx.x % (unsigned)(n - 1))) % n;
    begin_timing(t);
#pragma unroll 1
    for (uint64_t i = 0; i < rounds; i++) {
        size_t at = own + (i & (slots - 1)) * bytes;
        nvshmemx_putmem_nbi_block(dst + at, src + at, bytes, pe);
    }
    __syncthreads();
    nvshmem_quiet();
    end_timing(t, 0);
}

enum { SCATTER_BITS = 4 };

static __device__ size_t word_of(uint64_t k, unsigned bits, int scattered)
{
    k &= ((uint64_t)1 << bits) - 1;
    if (!scattered)
        return k;
    uint64_t rows = (uint64_t)1 << (bits - SCATTER_BITS);
    return (k & (rows - 1)) << SCATTER_BITS | k >> (bits - SCATTER_BITS);
}

static __device__ uint64_t value_of(uint64_t index)
{
    return (index + 1) * 0x9e3779b97f4a7c15u;
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    p_rate(uint64_t *dst, unsigned bits, int scattered, int peer, uint64_t rounds, struct times *t)
{
    uint64_t k = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    begin_timing(t);
#pragma unroll 1
    for (uint64_t i = 0; i < rounds; i++, k += (uint64_t)gridDim.x * blockDim.x) {
        size_t at = word_of(k, bits, scattered);
        nvshmem_uint64_p(dst + at, value_of(at), peer);
    }
    nvshmem_quiet();
    end_timing(t, 0);
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    fetch_adds(uint64_t *word, int peer, uint64_t rounds, struct times *t)
{
    uint64_t seen = 0;
    begin_timing(t);
#pragma unroll 1
    for (uint64_t i = 0; i < rounds; i++)
        seen = nvshmem_uint64_atomic_fetch_add(word, 1 + (seen >> 63), peer);
    end_timing(t, 0);
    if (seen >> 63)
        t->wrong = 1;
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    adds(uint64_t *words, unsigned bits, int peer, uint64_t rounds, struct times *t)
{
    uint64_t k = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
    begin_timing(t);
#pragma unroll 1
    for (uint64_t i = 0; i < rounds; i++, k += (uint64_t)gridDim.x * blockDim.x)
        nvshmem_uint64_atomic_add(words + word_of(k, bits, 0), 1, peer);
    nvshmem_quiet();
    end_timing(t, 0);
}

/* what: 1 sync, 2 barrier */
static __global__ void __launch_bounds__(PLAN_THREADS)
    meet_block(int what, uint64_t warm, uint64_t rounds, struct times *t)
{
#pragma unroll 1
    for (uint64_t i = 1; i <= warm + rounds; i++) {
        if (i == warm + 1)
            begin_timing(t);
        if (what == 1)
            nvshmemx_sync_all_block();
        else
            nvshmemx_barrier_all_block();
    }
    end_timing(t, 0);
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    meet_warp(int what, uint64_t warm, uint64_t rounds, struct times *t)
{
#pragma unroll 1
    for (uint64_t i = 1; i <= warm + rounds; i++) {
        if (i == warm + 1)
            begin_timing(t);
        if (what == 1)
            nvshmemx_sync_all_warp();
        else
            nvshmemx_barrier_all_warp();
    }
    end_timing(t, 0);
}

enum { BENCH_ALLTOALL, BENCH_FCOLLECT, BENCH_REDUCE, BENCH_REDUCESCATTER };

static __global__ void __launch_bounds__(PLAN_THREADS)
    collective_block(int what, char *dst, char *src, size_t bytes, uint64_t warm, uint64_t rounds,
                     struct times *t)
{
    int status = 0;
#pragma unroll 1
    for (uint64_t i = 1; i <= warm + rounds && !status; i++) {
        if (i == warm + 1)
            begin_timing(t);
        if (what == BENCH_ALLTOALL)
            status = nvshmemx_alltoallmem_block(NVSHMEM_TEAM_WORLD, dst, src, bytes);
        else if (what == BENCH_FCOLLECT)
            status = nvshmemx_fcollectmem_block(NVSHMEM_TEAM_WORLD, dst, src, bytes);
        else if (what == BENCH_REDUCESCATTER)
            status = nvshmemx_float_sum_reducescatter_block(NVSHMEM_TEAM_WORLD, (float *)dst,
                                                            (float *)src, bytes / 4);
        else
            status = nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, (float *)dst, (float *)src,
                                                     bytes / 4);
    }
    end_timing(t, status);
}

static __global__ void fill_floats(float *src, size_t n, int own)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        src[i] = (float)((int)(i % 64) + own);
}

static __global__ void check_floats(float *dst, size_t n, size_t first, int pes, uint64_t *wrong)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        if (dst[i] != (float)((int)((first + i) % 64) * pes + pes * (pes - 1) / 2))
            atomicAdd((unsigned long long *)wrong, 1);
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    fill_words(uint64_t *words, size_t n, uint64_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = value_of(i + seed);
}

static __global__ void __launch_bounds__(PLAN_THREADS)
    check_bytes(char *bytes, size_t n, size_t shift, uint64_t seed, uint64_t *wrong)
{
    uint64_t mine = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        mine += (uint8_t)bytes[i] !=
                (uint8_t)(value_of((i + shift) / 8 + seed) >> 8 * ((i + shift) % 8));
    if (mine)
        atomicAdd((unsigned long long *)wrong, mine);
}

/* ------------------------------------------------------------------------------------- rows */

static void synchronize(void)
{
    CUDA(cudaGetLastError());
    CUDA(cudaStreamSynchronize(stream));
}

static void barrier(void)
{
    CUDA(cudaStreamSynchronize(stream));
    nvshmem_barrier_all();
}

static double greatest(double value)
{
    CUDA(cudaMemcpy(&two[0], &value, sizeof value, cudaMemcpyHostToDevice));
    nvshmem_double_max_reduce(NVSHMEM_TEAM_WORLD, &two[1], &two[0], 1);
    CUDA(cudaMemcpy(&value, &two[1], sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static double span_ns(const char *row, unsigned blocks)
{
    static struct times seen[4096];
    uint64_t start = UINT64_MAX, end = 0;
    synchronize();
    CUDA(cudaMemcpy(seen, times, blocks * sizeof seen[0], cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < blocks; i++) {
        if (seen[i].status || seen[i].wrong) {
            fprintf(stderr, "nvshmem_bench: PE %d: %s: %s\n", me, row,
                    seen[i].status ? "a wait has run out" : "wrong data");
            exit(1);
        }
        start = seen[i].start < start ? seen[i].start : start;
        end = seen[i].end > end ? seen[i].end : end;
    }
    return (double)(end - start);
}

struct shape {
    size_t bytes;
    unsigned ctas;
    int what;
};
typedef double (*measurement)(const char *row, const struct shape *shape);

static int wanted(const char *row)
{
    return strncmp(row, only, strlen(only)) == 0;
}

static void measure(const char *row, const char *unit, measurement once, const struct shape *shape)
{
    double values[PLAN_REPEATS];
    if (!wanted(row))
        return;
    for (int i = -1; i < PLAN_REPEATS; i++) {
        barrier();
        double value = once(row, shape);
        barrier();
        if (i >= 0)
            values[i] = value;
    }
    if (me == 0)
        report_row(&report, row, unit, values, PLAN_REPEATS);
}

static double ping(const char *row, const struct shape *s)
{
    uint64_t warm = PLAN_PING_WARM, rounds = PLAN_PING_ROUNDS;
    if (me > 1)
        return 0;
    if (s->bytes == 0)
        ping_p<<<1, 1, 0, stream>>>(flag, me == 0, peer, base, warm, rounds, times);
    else
        ping_signal<<<1, PLAN_THREADS, 0, stream>>>(dst, src, s->bytes, flag, me == 0, peer, base,
                                                    warm, rounds, times);
    base += warm + rounds;
    return span_ns(row, 1) / (double)rounds / 2e3;
}

enum put { PUT_PAIR, PUT_MISALIGNED, PUT_TO_ALL };

static unsigned blocks_of(const struct shape *s)
{
    return s->ctas ? s->ctas : (unsigned)processors;
}

static void fill(void *words, size_t bytes, uint64_t seed)
{
    fill_words<<<processors, PLAN_THREADS, 0, stream>>>((uint64_t *)words, bytes / 8, seed);
    synchronize();
}

static void expect(const char *row, size_t bytes, size_t shift)
{
    uint64_t found = 0;
    CUDA(cudaMemset(wrong, 0, sizeof *wrong));
    CUDA(cudaDeviceSynchronize());
    check_bytes<<<processors, PLAN_THREADS, 0, stream>>>(dst, bytes, shift, FILL_SEED, wrong);
    synchronize();
    CUDA(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    if (found) {
        fprintf(stderr, "nvshmem_bench: PE %d: %s: %llu of %zu bytes are wrong\n", me, row,
                (unsigned long long)found, bytes);
        exit(1);
    }
}

static double put(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s);
    uint64_t rounds = plan_put_rounds(ctas, s->bytes);
    if (me != 0 && s->what != PUT_TO_ALL)
        return 0;
    put_rate<<<ctas, PLAN_THREADS, 0, stream>>>(dst, src + (s->what == PUT_MISALIGNED), s->bytes,
                                                plan_slots(s->bytes),
                                                s->what == PUT_TO_ALL ? -1 : peer, rounds, times);
    return (double)ctas * (double)s->bytes * (double)rounds / span_ns(row, ctas);
}

static double put_to_all(const char *row, const struct shape *s)
{
    return -greatest(-put(row, s));
}

static void put_row(const char *row, measurement once, const struct shape *s)
{
    size_t bytes = blocks_of(s) * plan_slots(s->bytes) * s->bytes;
    if (!wanted(row) || bytes + 8 > room)
        return;
    fill(src, bytes + 8, FILL_SEED);
    fill(dst, bytes, STALE_SEED);
    barrier();
    measure(row, "GB/s", once, s);
    if (s->what == PUT_TO_ALL || me == (n_pes > 1))
        expect(row, bytes, s->what == PUT_MISALIGNED);
    barrier();
}

static const char *ctas_name(unsigned ctas)
{
    return ctas ? row_name("%u", ctas) : "all";
}

static double misaligned_ratio(const char *row, const struct shape *s)
{
    struct shape even = *s;
    even.what = PUT_PAIR;
    double aligned = put(row, &even), odd = put(row, s);
    return aligned > 0 ? odd / aligned : 0;
}

static void puts_of_blocks(void)
{
    for (size_t c = 0; c < PLAN_COUNT(plan_ctas); c++) {
        for (size_t i = 0; i < PLAN_COUNT(plan_put_bytes); i++) {
            struct shape s = {plan_put_bytes[i], plan_ctas[c], PUT_PAIR};
            put_row(row_name("put.%s.%zu", ctas_name(s.ctas), s.bytes), put, &s);
        }
    }
    if (n_pes > 2) {
        struct shape s = {2097152, 0, PUT_TO_ALL};
        put_row(row_name("put_to_all.all.%zu", s.bytes), put_to_all, &s);
    }
    for (unsigned ctas = 1; ctas <= 16; ctas += 15) {
        struct shape s = {1048576, ctas, PUT_MISALIGNED};
        put_row(row_name("misaligned.%u.%zu", ctas, s.bytes), put, &s);
        measure(row_name("misaligned_ratio.%u", ctas), "ratio", misaligned_ratio, &s);
    }
}

static double p_rate_of(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s);
    uint64_t all = (uint64_t)ctas * PLAN_THREADS;
    uint64_t rounds = plan_value_rounds(PLAN_WORD_BITS, all);
    if (me != 0)
        return 0;
    p_rate<<<ctas, PLAN_THREADS, 0, stream>>>((uint64_t *)dst, PLAN_WORD_BITS, s->what, peer,
                                              rounds, times);
    return (double)all * (double)rounds / span_ns(row, ctas);
}

static double fetch_add(const char *row, const struct shape *s)
{
    double ns = 0;
    for (int place = 0; me == 0 && place < PLAN_CHAIN_PLACES; place++) {
        uint64_t *word = (uint64_t *)(chain + (size_t)place * PLAN_CHAIN_STEP);
        fetch_adds<<<1, 1, 0, stream>>>(word, peer, PLAN_CHAIN_ROUNDS, times);
        ns += span_ns(row, 1) / PLAN_CHAIN_ROUNDS;
    }
    return ns / PLAN_CHAIN_PLACES / 1e3;
}

static double add_rate(const char *row, const struct shape *s)
{
    unsigned ctas = blocks_of(s);
    uint64_t all = (uint64_t)ctas * PLAN_THREADS;
    uint64_t rounds = plan_value_rounds(PLAN_ADD_BITS, all);
    if (me != 0)
        return 0;
    adds<<<ctas, PLAN_THREADS, 0, stream>>>((uint64_t *)dst, PLAN_ADD_BITS, peer, rounds, times);
    return (double)all * (double)rounds / span_ns(row, ctas);
}

static void values_and_atomics(void)
{
    static const unsigned ctas[] = {1, 8, 0};
    struct shape s = {8, 0, 0};
    for (s.what = 0; s.what < 2; s.what++) {
        for (size_t c = 0; c < PLAN_COUNT(ctas); c++) {
            const char *row =
                row_name("%s.%s", s.what ? "p_scattered" : "p_contiguous", ctas_name(ctas[c]));
            if (!wanted(row))
                continue;
            s.ctas = ctas[c];
            fill(dst, (size_t)8 << PLAN_WORD_BITS, STALE_SEED);
            measure(row, "G/s", p_rate_of, &s);
        }
    }
    s.ctas = 0;
    measure("fetch_add", "us", fetch_add, &s);
    measure("add_rate.all", "G/s", add_rate, &s);
}

/* The library requires a collective launch of kernels in which PEs synchronise. */
static double meet(const char *row, const struct shape *s)
{
    int what = s->what;
    uint64_t warm = PLAN_PING_WARM, rounds = PLAN_PING_ROUNDS;
    void *arguments[] = {&what, &warm, &rounds, &times};
    unsigned threads = s->ctas == 32 ? 32 : PLAN_THREADS;
    const void *kernel = s->ctas == 32 ? (const void *)meet_warp : (const void *)meet_block;
    if (nvshmemx_collective_launch(kernel, dim3(1), dim3(threads), arguments, 0, stream)) {
        fprintf(stderr, "nvshmemx_collective_launch failed\n");
        exit(1);
    }
    return greatest(span_ns(row, 1) / (double)rounds / 1e3);
}

static void meetings(void)
{
    static const char *const names[] = {"", "sync", "barrier"};
    for (int what = 1; what < 3; what++) {
        struct shape block = {0, 1, what}, warp = {0, 32, what};
        measure(row_name("%s_block", names[what]), "us", meet, &block);
        measure(row_name("%s_warp", names[what]), "us", meet, &warp);
    }
}

/* ------------------------------------------------------------------------------- collectives */

static double collective(const char *row, const struct shape *s)
{
    int what = s->what;
    size_t bytes = s->bytes;
    uint64_t warm = 20, rounds = plan_collective_rounds(bytes);
    void *arguments[] = {&what, &dst, &src, &bytes, &warm, &rounds, &times};
    if (nvshmemx_collective_launch((const void *)collective_block, dim3(1), dim3(PLAN_THREADS),
                                   arguments, 0, stream)) {
        fprintf(stderr, "nvshmemx_collective_launch failed\n");
        exit(1);
    }
    return greatest(span_ns(row, 1) / (double)rounds / 1e3);
}

static double allreduce_by_host(const char *row, const struct shape *s)
{
    uint64_t rounds = plan_collective_rounds(s->bytes);
    double start = now_ns();
    for (uint64_t i = 0; i < rounds; i++)
        nvshmem_float_sum_reduce(NVSHMEM_TEAM_WORLD, (float *)dst, (float *)src, s->bytes / 4);
    return greatest((now_ns() - start) / (double)rounds / 1e3);
}

/* Compares the sums. The contents of the other collectives equal those of weft_device_bench and are
 * not checked again here. */
static void collective_row(const char *row, measurement once, const struct shape *s)
{
    uint64_t found = 0;
    size_t parts = s->what == BENCH_REDUCE ? 1 : (size_t)n_pes;
    if (!wanted(row) || parts * s->bytes > room)
        return;
    fill(src, parts * s->bytes, FILL_SEED);
    fill(dst, parts * s->bytes, STALE_SEED);
    if (s->what >= BENCH_REDUCE)
        fill_floats<<<processors, PLAN_THREADS, 0, stream>>>((float *)src, parts * s->bytes / 4,
                                                             me);
    barrier();
    measure(row, "us", once, s);
    if (s->what < BENCH_REDUCE)
        return;
    CUDA(cudaMemset(wrong, 0, sizeof *wrong));
    CUDA(cudaDeviceSynchronize());
    check_floats<<<processors, PLAN_THREADS, 0, stream>>>(
        (float *)dst, s->bytes / 4, s->what == BENCH_REDUCE ? 0 : (size_t)me * (s->bytes / 4),
        n_pes, wrong);
    synchronize();
    CUDA(cudaMemcpy(&found, wrong, sizeof found, cudaMemcpyDeviceToHost));
    if (found)
        fprintf(stderr, "nvshmem_bench: PE %d: %s: %llu wrong sums\n", me, row,
                (unsigned long long)found);
}

static void collectives(void)
{
    static const char *const names[] = {"alltoall", "allgather", "allreduce", "reducescatter"};
    for (int what = BENCH_ALLTOALL; what <= BENCH_REDUCESCATTER; what++) {
        for (size_t i = 0; i < PLAN_COUNT(plan_collective_bytes); i++) {
            struct shape s = {plan_collective_bytes[i], 1, what};
            /* NVSHMEM 3.4.5 fails an assertion on the device at these sizes, and later rows would
             * not run. */
            if (what == BENCH_REDUCESCATTER && s.bytes > (128 << 10))
                continue;
            collective_row(row_name("%s_block.%zu", names[what], s.bytes), collective, &s);
        }
    }
    for (size_t i = 0; i < PLAN_COUNT(plan_reduce_bytes); i++) {
        struct shape s = {plan_reduce_bytes[i], 0, BENCH_REDUCE};
        collective_row(row_name("allreduce_host.%zu", s.bytes), allreduce_by_host, &s);
    }
}

/* ---------------------------------------------------------------------------- stream and host */

static double put_on_stream(const char *row, const struct shape *s)
{
    int count = s->bytes > (1 << 20) ? 20 : PLAN_STREAM_OPERATIONS;
    cudaEvent_t start, end;
    float ms;
    if (me != 0)
        return 0;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(start, stream));
    for (int i = 0; i < count; i++)
        nvshmemx_putmem_on_stream(dst, src, s->bytes, peer, stream);
    nvshmemx_quiet_on_stream(stream);
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, start, end));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaEventDestroy(start));
    double ns = 1e6 * ms / count;
    return s->what ? (double)s->bytes / ns : ns / 1e3;
}

static double meet_on_stream(const char *row, const struct shape *s)
{
    cudaEvent_t start, end;
    float ms;
    (void)row;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(start, stream));
    for (int i = 0; i < PLAN_STREAM_OPERATIONS; i++) {
        if (s->what == 1)
            nvshmemx_sync_all_on_stream(stream);
        else
            nvshmemx_barrier_all_on_stream(stream);
    }
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms, start, end));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaEventDestroy(start));
    return greatest(1e3 * ms / PLAN_STREAM_OPERATIONS);
}

static double put_by_host(const char *row, const struct shape *s)
{
    if (me != 0)
        return 0;
    double start = now_ns();
    for (int i = 0; i < PLAN_HOST_OPERATIONS; i++) {
        nvshmem_putmem(dst, src, s->bytes, peer);
        if (s->what)
            nvshmem_quiet();
    }
    double us = (now_ns() - start) / PLAN_HOST_OPERATIONS / 1e3;
    nvshmem_quiet();
    return us;
}

static void host_side_row(const char *row, const char *unit, measurement once,
                          const struct shape *s)
{
    if (!wanted(row))
        return;
    fill(src, s->bytes, FILL_SEED);
    fill(dst, s->bytes, STALE_SEED);
    barrier();
    measure(row, unit, once, s);
    if (me == (n_pes > 1))
        expect(row, s->bytes, 0);
    barrier();
}

static void stream_and_host(void)
{
    struct shape sync = {0, 0, 1}, barriers = {0, 0, 2};
    measure("sync_on_stream", "us", meet_on_stream, &sync);
    measure("barrier_on_stream", "us", meet_on_stream, &barriers);
    for (size_t i = 0; i < PLAN_COUNT(plan_stream_bytes); i++) {
        size_t bytes = plan_stream_bytes[i];
        struct shape s = {bytes, 0, bytes > (1 << 20)};
        host_side_row(row_name("put_on_stream.%zu", bytes), s.what ? "GB/s" : "us", put_on_stream,
                      &s);
    }
    for (int quiet = 0; quiet < 2; quiet++) {
        struct shape small = {8, 0, quiet}, large = {524288, 0, quiet};
        host_side_row(quiet ? "put_quiet_host.8" : "put_host.8", "us", put_by_host, &small);
        host_side_row(quiet ? "put_quiet_host.524288" : "put_host.524288", "us", put_by_host,
                      &large);
    }
}

/* ----------------------------------------------------------------------------------- set-up */

static void join(void)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (me == 0 && nvshmemx_get_uniqueid(&id)) {
        fprintf(stderr, "nvshmemx_get_uniqueid failed\n");
        exit(1);
    }
    share_id(&id, sizeof id);
    nvshmemx_set_attr_uniqueid_args(me, n_pes, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) {
        fprintf(stderr, "nvshmemx_init_attr failed\n");
        exit(1);
    }
}

static void *symmetric(size_t bytes)
{
    void *address = nvshmem_calloc(1, bytes);
    if (!address) {
        fprintf(stderr, "nvshmem_calloc of %zu bytes failed\n", bytes);
        exit(1);
    }
    return address;
}

static void set_up(void)
{
    int device;
    peer = n_pes > 1 ? me == 0 : 0;
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    room = (size_t)processors * 2097152 + 4096;
    src = (char *)symmetric(room);
    dst = (char *)symmetric(room);
    flag = (uint64_t *)symmetric(4096);
    chain = (char *)symmetric(PLAN_CHAIN_PLACES * PLAN_CHAIN_STEP);
    wrong = (uint64_t *)symmetric(4096);
    two = (double *)symmetric(4096);
    CUDA(cudaMalloc((void **)&times, 4096 * sizeof *times));
    report.target = "cuda";
    report.pes = n_pes;
}

int main(int argc, char **argv)
{
    report.side = "nvshmem";
    report.log = getenv("PEER_LOG");
    if (argc > 1)
        only = argv[1];
    read_rank();
    double start = now_ns();
    join();
    double init = (now_ns() - start) / 1e9;
    start = now_ns();
    set_up();
    double memory = (now_ns() - start) / 1e9;
    init = greatest(init);
    memory = greatest(memory);
    if (me == 0) {
        report_begin(&report, "GPU memory on both sides; PE 0 acts on PE 1.");
        report_row(&report, "init", "s", &init, 1);
        report_row(&report, "memory", "s", &memory, 1);
    }
    if (n_pes > 1) {
        struct shape s = {0, 1, 0};
        measure("p_wait", "us", ping, &s);
        for (size_t i = 0; i < PLAN_COUNT(plan_signal_bytes); i++) {
            s.bytes = plan_signal_bytes[i];
            measure(row_name("put_signal.%zu", s.bytes), "us", ping, &s);
        }
    }
    puts_of_blocks();
    values_and_atomics();
    if (n_pes > 1) {
        meetings();
        collectives();
    }
    stream_and_host();
    barrier();
    start = now_ns();
    nvshmem_finalize();
    double finalize = (now_ns() - start) / 1e9;
    if (me == 0)
        report_row(&report, "finalize", "s", &finalize, 1);
    return 0;
}
