/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of the software HCA's engine (standin/hca/gpu/kernel.h) on the CPU: a test calls its
 * functions one by one, as any thread of any block, with a mock clock and counts of accesses,
 * fences and sleeps. */
#ifndef WEFT_TESTS_HCA_KERNEL_H
#define WEFT_TESTS_HCA_KERNEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static unsigned accesses, fences, sleeps;
static void *counted_address(unsigned long address)
{
    accesses++;
    return (void *)address;
}
#define LANES_AT(address) counted_address(address)
#include "gpu/lanes.h"

static uint32_t threads = 1, thread, block, block_count = 1;
static uint64_t clock_ns, clock_step;
static inline uint32_t own_rank(void)
{
    return thread;
}
static inline uint32_t own_block(void)
{
    return block;
}
static inline uint32_t own_blocks(void)
{
    return block_count;
}
static inline void own_fence(void)
{
    fences++;
}
static inline uint64_t own_clock(void)
{
    clock_ns += clock_step;
    return clock_ns;
}
static inline void own_sleep(uint32_t ns)
{
    sleeps += ns;
}
#undef LANES
#define LANES        threads
#define lanes_rank   own_rank
#define lanes_block  own_block
#define lanes_blocks own_blocks
#define lanes_fence  own_fence
#define lanes_clock  own_clock
#define lanes_sleep  own_sleep
#include "gpu/kernel.h"

/* Makes the call as each of `count` threads in turn. */
#define BY_THREADS(count, call)                                                                    \
    do {                                                                                           \
        threads = (count);                                                                         \
        for (thread = 0; thread < threads; thread++)                                               \
            call;                                                                                  \
        threads = 1;                                                                               \
        thread = 0;                                                                                \
    } while (0)

enum {
    RING_BLOCKS = 512,
    QUEUE = 0x123456,
    PEER = 0x654321,
    LKEY = 0x1100,
    RKEY = 0x2200,
    NEAR = 0x50000,
    FAR = 0x90000,
    KEY_BYTES = 4096,
};

static struct shared s;
static struct gpu_queue q;
static struct gpu_key keys[GPU_KEYS];
static uint32_t ring[RING_BLOCKS * 16] __attribute__((aligned(64)));
static uint32_t record[2], completion[16] __attribute__((aligned(64)));
static uint64_t doorbell;
static uint8_t near_bytes[KEY_BYTES] __attribute__((aligned(64)));
static uint8_t far_bytes[KEY_BYTES] __attribute__((aligned(64)));

static inline uint64_t number_of(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static inline uint32_t big(uint32_t v)
{
    return __builtin_bswap32(v);
}

static inline void key_enter(uint32_t number, uint32_t key, uint64_t address, uint64_t bytes,
                             const void *memory, uint32_t access)
{
    uint64_t name = (uint64_t)number << 32 | key;
    uint32_t at = gpu_key_place(name);
    while (keys[at].name)
        at = (at + 1) % GPU_KEYS;
    keys[at] = (struct gpu_key){name, address, bytes, number_of(memory), access, 0};
}

/* A queue of 8 blocks; LKEY is its own memory, RKEY the peer's. */
static inline void begin_kernel(void)
{
    const uint32_t remote = MR_REMOTE_READ | MR_REMOTE_WRITE | MR_REMOTE_ATOMIC;
    memset(&s, 0xee, sizeof s);
    memset(keys, 0, sizeof keys);
    memset(ring, 0, sizeof ring);
    memset(record, 0, sizeof record);
    memset(completion, 0xee, sizeof completion);
    for (unsigned i = 0; i < KEY_BYTES; i++) {
        near_bytes[i] = (uint8_t)(i * 7 + 1 + (i >> 8));
        far_bytes[i] = 0xa5;
    }
    key_enter(QUEUE, LKEY, NEAR, KEY_BYTES, near_bytes, MR_LOCAL_WRITE);
    key_enter(PEER, RKEY, FAR, KEY_BYTES, far_bytes, remote | MR_RELAXED_ORDERING);
    q = (struct gpu_queue){
        .ring = number_of(ring),
        .record = number_of(record),
        .doorbell = number_of(&doorbell),
        .completion = number_of(completion),
        .blocks = 8,
        .number = QUEUE,
        .peer = PEER,
        .user_index = 0x0a0b0c,
        .strict = 1,
        .log_completions = 3,
    };
    accesses = fences = sleeps = 0;
    clock_ns = clock_step = 0;
    threads = block_count = 1;
    thread = block = 0;
}

/* Writes a control segment. */
static inline uint32_t *request(uint32_t *words, uint32_t index, uint32_t opcode, uint32_t units,
                                uint32_t flags)
{
    words[0] = big(index << 8 | opcode);
    words[1] = big((uint32_t)QUEUE << 8 | units);
    words[2] = big(flags);
    words[3] = 0;
    return words;
}

static inline void segment(uint32_t *w, uint64_t address, uint32_t key, uint32_t bytes)
{
    w[0] = big(bytes);
    w[1] = big(key);
    w[2] = big((uint32_t)(address >> 32));
    w[3] = big((uint32_t)address);
}

static inline void remote_segment(uint32_t *w, uint64_t address, uint32_t key)
{
    w[0] = big((uint32_t)(address >> 32));
    w[1] = big((uint32_t)address);
    w[2] = big(key);
    w[3] = 0;
}

static inline uint64_t doorbell_of(uint32_t number, uint32_t index)
{
    return big(index << 8) | (uint64_t)big(number << 8) << 32;
}

#endif
