/* SPDX-License-Identifier: Apache-2.0 */
/* Execution model of the engine's kernel: a block of LANES threads on a GPU, one thread on a CPU.
 * Loads and stores of shared memory are relaxed with system scope. lanes_fence() orders them; after
 * a barrier it also orders those of all threads of the block. */
#ifndef WEFT_HCA_GPU_LANES_H
#define WEFT_HCA_GPU_LANES_H

#include <stdint.h>

struct lanes_16 {
    uint64_t low, high;
};

#if defined(__CUDACC__) || defined(__CUDA__)

#include <weft/device/target.h>

#define LANES    256u
#define LANES_FN static __device__ inline

LANES_FN void *lanes_at(uint64_t address)
{
    return (void *)address;
}
LANES_FN uint32_t lanes_rank(void)
{
    return threadIdx.x;
}
LANES_FN uint32_t lanes_block(void)
{
    return blockIdx.x;
}
LANES_FN uint32_t lanes_blocks(void)
{
    return gridDim.x;
}
LANES_FN void lanes_meet(void)
{
    __syncthreads();
}
LANES_FN int lanes_all(int x)
{
    return __syncthreads_and(x);
}
LANES_FN int lanes_any(int x)
{
    return __syncthreads_or(x);
}
LANES_FN void lanes_fence(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}
LANES_FN uint64_t lanes_clock(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}
LANES_FN void lanes_sleep(uint32_t ns)
{
    __nanosleep(ns);
}
LANES_FN void lanes_min(uint32_t *at, uint32_t v)
{
    atomicMin(at, v);
}
/* Returns the next number, starting at 0. */
LANES_FN uint32_t lanes_next(uint32_t *count)
{
    return atomicAdd(count, 1u);
}
/* Stores to the thread block's shared memory, 16-byte aligned. */
LANES_FN void lanes_put_16(uint32_t *to, struct lanes_16 v)
{
    *(ulonglong2 *)to = ulonglong2{v.low, v.high};
}

/* Called by all threads together. */
LANES_FN void lanes_sum_long(uint64_t *at, uint64_t v)
{
    for (int by = 16; by; by /= 2)
        v += __shfl_xor_sync(~0u, (unsigned long long)v, by);
    if (!(threadIdx.x % 32) && v)
        atomicAdd((unsigned long long *)at, (unsigned long long)v);
}
LANES_FN void lanes_sum(uint32_t *at, uint32_t v)
{
    for (int by = 16; by; by /= 2)
        v += __shfl_xor_sync(~0u, v, by);
    if (!(threadIdx.x % 32) && v)
        atomicAdd(at, v);
}
LANES_FN uint32_t lanes_max(uint32_t x, uint32_t y)
{
    return x > y ? x : y;
}
LANES_FN void lanes_most(uint32_t *at, uint32_t v)
{
    for (int by = 16; by; by /= 2)
        v = lanes_max(v, __shfl_xor_sync(~0u, v, by));
    if (!(threadIdx.x % 32) && v)
        atomicMax(at, v);
}

/* Acquire: writes before this value are visible after the load. */
LANES_FN uint64_t lanes_acquire_8(uint64_t at)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
    return v;
}
LANES_FN uint64_t lanes_load_8(uint64_t at)
{
    uint64_t v;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
    return v;
}
LANES_FN uint32_t lanes_load_4(uint64_t at)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return v;
}
LANES_FN uint16_t lanes_load_2(uint64_t at)
{
    uint16_t v;
    asm volatile("ld.relaxed.sys.u16 %0, [%1];" : "=h"(v) : "l"(at) : "memory");
    return v;
}
LANES_FN uint8_t lanes_load_1(uint64_t at)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
    return (uint8_t)v;
}
LANES_FN struct lanes_16 lanes_load_16(uint64_t at)
{
    struct lanes_16 v;
    asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];"
                 : "=l"(v.low), "=l"(v.high)
                 : "l"(at)
                 : "memory");
    return v;
}
LANES_FN void lanes_store_8(uint64_t at, uint64_t v)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}
LANES_FN void lanes_store_4(uint64_t at, uint32_t v)
{
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
LANES_FN void lanes_store_2(uint64_t at, uint16_t v)
{
    asm volatile("st.relaxed.sys.u16 [%0], %1;" ::"l"(at), "h"(v) : "memory");
}
LANES_FN void lanes_store_1(uint64_t at, uint8_t v)
{
    asm volatile("st.relaxed.sys.u8 [%0], %1;" ::"l"(at), "r"((uint32_t)v) : "memory");
}
LANES_FN void lanes_store_16(uint64_t at, struct lanes_16 v)
{
    asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(v.low), "l"(v.high)
                 : "memory");
}
LANES_FN uint64_t lanes_add_8(uint64_t at, uint64_t v)
{
    uint64_t old;
    asm volatile("atom.acq_rel.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(v) : "memory");
    return old;
}
LANES_FN uint64_t lanes_swap_8(uint64_t at, uint64_t seen, uint64_t v)
{
    uint64_t old;
    asm volatile("atom.acq_rel.sys.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(at), "l"(seen), "l"(v)
                 : "memory");
    return old;
}
LANES_FN uint32_t lanes_swap_4(uint64_t at, uint32_t seen, uint32_t v)
{
    uint32_t old;
    asm volatile("atom.acq_rel.sys.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(at), "r"(seen), "r"(v)
                 : "memory");
    return old;
}

#else

#include <sched.h>
#include <stddef.h>
#include <time.h>

#define LANES    1u
#define LANES_FN static inline __attribute__((unused))

/* For platforms where the number of an address is not the address itself. */
#ifndef LANES_AT
#define LANES_AT(address) ((void *)(uintptr_t)(address))
#endif

LANES_FN void *lanes_at(uint64_t address)
{
    return LANES_AT(address);
}
LANES_FN uint32_t lanes_rank(void)
{
    return 0;
}
LANES_FN uint32_t lanes_block(void)
{
    return 0;
}
LANES_FN uint32_t lanes_blocks(void)
{
    return 1;
}
LANES_FN void lanes_meet(void)
{
}
LANES_FN int lanes_all(int x)
{
    return x;
}
LANES_FN int lanes_any(int x)
{
    return x;
}
LANES_FN void lanes_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
LANES_FN uint64_t lanes_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
LANES_FN void lanes_sleep(uint32_t ns)
{
    (void)ns;
    sched_yield();
}
LANES_FN void lanes_min(uint32_t *at, uint32_t v)
{
    *at = v < *at ? v : *at;
}
LANES_FN uint32_t lanes_next(uint32_t *count)
{
    return (*count)++;
}
LANES_FN void lanes_put_16(uint32_t *to, struct lanes_16 v)
{
    to[0] = (uint32_t)v.low;
    to[1] = (uint32_t)(v.low >> 32);
    to[2] = (uint32_t)v.high;
    to[3] = (uint32_t)(v.high >> 32);
}
LANES_FN void lanes_sum_long(uint64_t *at, uint64_t v)
{
    *at += v;
}
LANES_FN void lanes_sum(uint32_t *at, uint32_t v)
{
    *at += v;
}
LANES_FN uint32_t lanes_max(uint32_t x, uint32_t y)
{
    return x > y ? x : y;
}
LANES_FN void lanes_most(uint32_t *at, uint32_t v)
{
    *at = v > *at ? v : *at;
}

#define LANES_WORD(bytes, type)                                                                    \
    LANES_FN type lanes_load_##bytes(uint64_t at)                                                  \
    {                                                                                              \
        return __atomic_load_n((type *)lanes_at(at), __ATOMIC_ACQUIRE);                            \
    }                                                                                              \
    LANES_FN void lanes_store_##bytes(uint64_t at, type v)                                         \
    {                                                                                              \
        __atomic_store_n((type *)lanes_at(at), v, __ATOMIC_RELEASE);                               \
    }
LANES_WORD(8, uint64_t)
LANES_WORD(4, uint32_t)
LANES_WORD(2, uint16_t)
LANES_WORD(1, uint8_t)

LANES_FN uint64_t lanes_acquire_8(uint64_t at)
{
    return lanes_load_8(at);
}
LANES_FN struct lanes_16 lanes_load_16(uint64_t at)
{
    return (struct lanes_16){lanes_load_8(at), lanes_load_8(at + 8)};
}
LANES_FN void lanes_store_16(uint64_t at, struct lanes_16 v)
{
    lanes_store_8(at, v.low);
    lanes_store_8(at + 8, v.high);
}
LANES_FN uint64_t lanes_add_8(uint64_t at, uint64_t v)
{
    return __atomic_fetch_add((uint64_t *)lanes_at(at), v, __ATOMIC_ACQ_REL);
}
LANES_FN uint64_t lanes_swap_8(uint64_t at, uint64_t seen, uint64_t v)
{
    __atomic_compare_exchange_n((uint64_t *)lanes_at(at), &seen, v, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    return seen;
}
LANES_FN uint32_t lanes_swap_4(uint64_t at, uint32_t seen, uint32_t v)
{
    __atomic_compare_exchange_n((uint32_t *)lanes_at(at), &seen, v, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    return seen;
}

#endif

#endif
