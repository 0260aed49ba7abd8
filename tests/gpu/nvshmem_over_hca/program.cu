/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers, atomics and signals of NVSHMEM between two PEs, from the host and from a kernel, each
 * compared with the expected result. NVSHMEM's own transports are a second user of the NIC formats
 * that the software HCA implements (run.sh). Every loop and wait of the kernels here is bounded.
 * The script bounds NVSHMEM's internal waits by ending the processes.
 *   PEER_RANK=0|1 PEER_FILE=ID_FILE [PEER_ADDS_ALONE=1] program */
#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PES = 2, BYTES = 100003, THREADS = 64, ADDS = 50, SPINS = 200000000 };

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t e = (call);                                                                    \
        if (e != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int me, failures;

static void expect(const char *what, int good)
{
    if (!good)
        failures++;
    if (!good || me == 0)
        printf("PE %d: %-28s %s\n", me, what, good ? "right" : "WRONG");
    fflush(stdout);
}

__host__ __device__ static unsigned char byte_of(int pe, int round, size_t i)
{
    return (unsigned char)((i * 2654435761u >> 13) ^ (unsigned)(pe * 97 + round * 31));
}

/* ----------------------------------------------------------------------------------- kernels */

__global__ void fill(unsigned char *to, int pe, int round)
{
    for (size_t i = threadIdx.x; i < BYTES; i += blockDim.x)
        to[i] = byte_of(pe, round, i);
}

__global__ void compare(const unsigned char *from, int pe, int round, unsigned long long *wrong)
{
    unsigned long long mine = 0;
    for (size_t i = threadIdx.x; i < BYTES; i += blockDim.x)
        mine += from[i] != byte_of(pe, round, i);
    atomicAdd(wrong, mine);
}

__global__ void puts_by_block(unsigned char *dst, const unsigned char *src, int peer)
{
    nvshmemx_putmem_nbi_block(dst, src, BYTES, peer);
    __syncthreads();
    if (threadIdx.x == 0)
        nvshmem_quiet();
}

__global__ void gets_by_block(unsigned char *dst, const unsigned char *src, int peer)
{
    nvshmemx_getmem_block(dst, src, BYTES, peer);
}

__global__ void values(uint64_t *words, int peer)
{
    nvshmem_uint64_p(words + threadIdx.x, (uint64_t)threadIdx.x * 0x9e3779b97f4a7c15u + 1, peer);
    nvshmem_quiet();
}

/* Both PEs add to the words of PE 0; the old values of the 8-byte adds are summed. Transport ibrc
 * has only adds without a result. */
__global__ void atomics(uint64_t *wide, uint32_t *narrow, int all, unsigned long long *olds)
{
    for (int i = 0; i < ADDS; i++) {
        nvshmem_uint64_atomic_add(wide + 1, 5, 0);
        if (!all)
            continue;
        atomicAdd(olds, (unsigned long long)nvshmem_uint64_atomic_fetch_add(wide, 3, 0));
        nvshmem_uint32_atomic_inc(narrow, 0);
        nvshmem_uint32_atomic_or(narrow + 1, 1u << (i % 32), 0);
    }
    nvshmem_quiet();
}

/* Checks old values, which the final values do not show, by one PE. *good is 1 if all were right.
 */
__global__ void swaps(uint64_t *wide, uint32_t *narrow, int peer, unsigned long long *good)
{
    int right = nvshmem_uint64_atomic_swap(wide, 0x1122334455667788u, peer) == 0;
    right &= nvshmem_uint64_atomic_compare_swap(wide, 7, 9, peer) == 0x1122334455667788u;
    right &= nvshmem_uint64_atomic_compare_swap(wide, 0x1122334455667788u, 9, peer) ==
             0x1122334455667788u;
    right &= nvshmem_uint64_atomic_fetch(wide, peer) == 9;
    nvshmem_uint32_atomic_set(narrow, 0xa1b2c3d4u, peer);
    right &= nvshmem_uint32_atomic_fetch_add(narrow, 1, peer) == 0xa1b2c3d4u;
    right &= nvshmem_uint32_atomic_swap(narrow, 17, peer) == 0xa1b2c3d5u;
    right &= nvshmem_uint32_atomic_fetch_xor(narrow, 3, peer) == 17;
    right &= nvshmem_uint32_atomic_fetch(narrow, peer) == 18;
    *good = right;
}

__global__ void send_signal(unsigned char *dst, const unsigned char *src, uint64_t *signal,
                            int peer)
{
    nvshmemx_putmem_signal_block(dst, src, BYTES, signal, 41, NVSHMEM_SIGNAL_SET, peer);
}

__global__ void await_signal(const unsigned char *data, volatile uint64_t *signal, int sender,
                             unsigned long long *wrong)
{
    __shared__ int there;
    if (threadIdx.x == 0) {
        long spins = 0;
        while (*signal != 41 && spins < SPINS)
            spins++;
        there = *signal == 41;
        __threadfence_system();
    }
    __syncthreads();
    unsigned long long mine = !there;
    for (size_t i = threadIdx.x; there && i < BYTES; i += blockDim.x)
        mine += ((volatile const unsigned char *)data)[i] != byte_of(sender, 4, i);
    atomicAdd(wrong, mine);
}

/* ------------------------------------------------------------------------------------- the host */

static void join(void)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    const char *file = getenv("PEER_FILE");
    char partial[4096];
    FILE *f = NULL;
    snprintf(partial, sizeof partial, "%s.partial", file);
    if (me == 0) {
        if (nvshmemx_get_uniqueid(&id) || !(f = fopen(partial, "w")) ||
            fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) || rename(partial, file))
            exit(1);
    } else {
        for (int tries = 0; !f && tries < 300; tries++, usleep(100000))
            f = fopen(file, "r");
        if (!f || fread(&id, sizeof id, 1, f) != 1)
            exit(1);
        fclose(f);
    }
    nvshmemx_set_attr_uniqueid_args(me, PES, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) {
        fprintf(stderr, "nvshmemx_init_attr failed\n");
        exit(1);
    }
}

static unsigned long long *counter;

static unsigned long long take_counter(void)
{
    unsigned long long value = 0;
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
    CUDA(cudaMemset(counter, 0, sizeof value));
    return value;
}

static uint64_t word_at(const void *address, size_t width)
{
    uint64_t value = 0;
    CUDA(cudaMemcpy(&value, address, width, cudaMemcpyDeviceToHost));
    return value;
}

static void check_bytes(const char *what, const unsigned char *at, int pe, int round)
{
    compare<<<1, 256>>>(at, pe, round, counter);
    expect(what, take_counter() == 0);
}

static void transfers(unsigned char *dst, unsigned char *src, int peer)
{
    fill<<<1, 256>>>(src, me, 1);
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    nvshmem_putmem(dst, src, BYTES, peer);
    nvshmem_barrier_all();
    check_bytes("put of the host", dst, peer, 1);
    nvshmem_barrier_all();
    nvshmem_getmem(dst, src + 1, BYTES - 1, peer);
    expect("get of the host", word_at(dst + BYTES - 2, 1) == byte_of(peer, 1, BYTES - 1) &&
                                  word_at(dst, 1) == byte_of(peer, 1, 1));
    nvshmem_barrier_all();
    fill<<<1, 256>>>(src, me, 2);
    CUDA(cudaDeviceSynchronize());
    puts_by_block<<<1, THREADS>>>(dst, src, peer);
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    check_bytes("put of a block", dst, peer, 2);
    nvshmem_barrier_all();
    fill<<<1, 256>>>(src, me, 3);
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    gets_by_block<<<1, THREADS>>>(dst, src, peer);
    CUDA(cudaDeviceSynchronize());
    check_bytes("get of a block", dst, peer, 3);
    nvshmem_barrier_all();
}

static void words(uint64_t *wide, uint32_t *narrow, int peer, int all)
{
    int right = 1;
    values<<<1, THREADS>>>(wide, peer);
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    for (uint64_t i = 0; i < THREADS; i++)
        right &= word_at(wide + i, 8) == i * 0x9e3779b97f4a7c15u + 1;
    expect("values", right);
    CUDA(cudaMemset(wide, 0, 4096));
    CUDA(cudaMemset(narrow, 0, 4096));
    nvshmem_barrier_all();
    atomics<<<1, 1>>>(wide, narrow, all, counter);
    unsigned long long olds = take_counter();
    nvshmem_barrier_all();
    if (me == 0) {
        expect("atomics of 8 bytes", word_at(wide, 8) == (all ? 2 * 3 * ADDS : 0) &&
                                         word_at(wide + 1, 8) == 2 * 5 * ADDS);
        if (all)
            expect("atomics of 4 bytes",
                   word_at(narrow, 4) == 2 * ADDS && word_at(narrow + 1, 4) == 0xffffffffu);
    }
    /* Each old value is a multiple of 3 and less than the final value. */
    expect("values from before", olds % 3 == 0 && olds <= 3ull * (2 * ADDS - 1) * 2 * ADDS / 2);
    nvshmem_barrier_all();
    if (me == 1 && all) {
        swaps<<<1, 1>>>(wide + 8, narrow + 8, 0, counter);
        expect("swaps", take_counter() == 1);
    }
    nvshmem_barrier_all();
}

int main(void)
{
    const char *rank = getenv("PEER_RANK");
    int gpus = 0;
    if (!rank || !getenv("PEER_FILE")) {
        fprintf(stderr, "usage: PEER_RANK=0|1 PEER_FILE=ID_FILE program\n");
        return 2;
    }
    me = atoi(rank);
    CUDA(cudaGetDeviceCount(&gpus));
    CUDA(cudaSetDevice(me % gpus));
    join();
    int peer = 1 - me;
    CUDA(cudaMalloc(&counter, sizeof *counter));
    CUDA(cudaMemset(counter, 0, sizeof *counter));
    unsigned char *dst = (unsigned char *)nvshmem_calloc(1, BYTES + 8);
    unsigned char *src = (unsigned char *)nvshmem_calloc(1, BYTES + 8);
    uint64_t *wide = (uint64_t *)nvshmem_calloc(1, 4096),
             *signal = (uint64_t *)nvshmem_calloc(1, 64);
    uint32_t *narrow = (uint32_t *)nvshmem_calloc(1, 4096);
    if (!dst || !src || !wide || !narrow || !signal)
        return 1;
    if (nvshmem_ptr(dst, peer))
        printf("PE %d: the peer's memory is mapped: the transports are not used\n", me), failures++;
    transfers(dst, src, peer);
    words(wide, narrow, peer, !getenv("PEER_ADDS_ALONE"));
    fill<<<1, 256>>>(src, me, 4);
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    if (me == 0)
        send_signal<<<1, THREADS>>>(dst, src, signal, peer);
    else {
        await_signal<<<1, THREADS>>>(dst, signal, peer, counter);
        expect("put with signal", take_counter() == 0);
    }
    CUDA(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    nvshmem_finalize();
    printf("PE %d: %d failures\n", me, failures);
    return failures != 0;
}
