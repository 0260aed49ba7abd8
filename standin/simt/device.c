/* SPDX-License-Identifier: Apache-2.0 */
/* Device primitives that do not synchronise lanes: indices, polling, clock, shared memory, and the
 * annotations of fences for ThreadSanitizer. */
#include "simt.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

static const uint64_t nothing; /* no lanes */

/* The lane of a caller outside kernels. */
static _Thread_local struct weft_simt_lane outside = {
    .block_dim = {1, 1, 1},
    .grid_dim = {1, 1, 1},
    .budget = POLL_BUDGET,
    .wave = 32,
    .watching = &nothing,
};

WEFT_EXPORT struct weft_simt_lane *weft_simt_self(void)
{
    return simt_current ? &simt_current->self : &outside;
}

WEFT_EXPORT void weft_simt_set_state(void *state)
{
    outside.state = state;
}

WEFT_EXPORT int weft_simt_in_kernel(void)
{
    return simt_current != NULL;
}

/* ------------------------------------------------------------------------------------ time */

enum { CLOCK_COST = 8, LONGEST_SLEEP_NS = 1000000 };

WEFT_EXPORT uint64_t weft_simt_clock_ns(void)
{
    struct weft_simt_lane *self = weft_simt_self();
    self->budget -= CLOCK_COST;
    if (self->budget <= 0)
        weft_simt_yield();
    return clock_now_ns();
}

WEFT_EXPORT void weft_simt_nanosleep(uint32_t ns)
{
    struct lane *lane = simt_current;
    if (!lane)
        return;
    if (ns) {
        lane->wake_ns = clock_now_ns() + (ns < LONGEST_SLEEP_NS ? ns : LONGEST_SLEEP_NS);
        lane->warp->sleeping |= lane_bit(lane);
    }
    block_pause(lane);
}

/* -------------------------------------------------------------------------- shared memory */

void *lane_memory_alloc(size_t bytes)
{
#if CONTEXT_TSAN
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room == MAP_FAILED ? NULL : room;
#else
    void *room;
    return posix_memalign(&room, 64, bytes) ? NULL : room;
#endif
}

void lane_memory_free(void *room, size_t bytes)
{
#if CONTEXT_TSAN
    if (room)
        munmap(room, bytes);
#else
    (void)bytes;
    free(room);
#endif
}

/* Allocates memory for one declaration, by malloc, so that AddressSanitizer checks its bounds. */
static void *site_alloc(struct block *block, size_t bytes)
{
#if CONTEXT_TSAN
    return block->arena ? block->arena + block->static_bytes : NULL;
#else
    (void)block;
    void *memory = lane_memory_alloc(bytes);
    if (memory)
        memset(memory, SHARED_FILL, bytes);
    return memory;
#endif
}

WEFT_EXPORT void *weft_simt_shared(const void *site, const char *name, size_t bytes)
{
    struct lane *lane = simt_current;
    if (!lane) {
        log_error(LOG_SIMT, "shared memory %s is used outside a kernel", name);
        return NULL;
    }
    struct block *block = lane->warp->block;
    for (unsigned i = 0; i < block->n_sites; i++)
        if (block->sites[i].key == site)
            return block->sites[i].memory;

    size_t aligned = (bytes + 15) & ~(size_t)15;
    if (block->n_sites == SITES)
        block_fail(lane, "more than %d declarations of shared memory (%s)", SITES, name);
    if (block->static_bytes + aligned > SITE_STATIC_BYTES)
        block_fail(lane, "shared memory %s of %zu bytes: more than 48 KiB are declared", name,
                   bytes);
    void *memory = site_alloc(block, bytes);
    if (!memory)
        block_fail(lane, "no memory for %zu bytes of shared memory %s", bytes, name);
    block->sites[block->n_sites++] = (struct site){site, memory, bytes};
    block->static_bytes += aligned;
    return memory;
}

WEFT_EXPORT void *weft_simt_shared_dynamic(void)
{
    return simt_current ? simt_current->warp->block->dynamic : NULL;
}

static bool lies_in(const void *p, const void *from, size_t bytes)
{
    return from && (uintptr_t)p - (uintptr_t)from < bytes;
}

WEFT_EXPORT int weft_simt_is_private(const void *p)
{
    const struct lane *lane = simt_current;
    if (!lane)
        return 0;
    const struct block *block = lane->warp->block;
    if (lies_in(p, lane->context.stack, lane->context.bytes) ||
        lies_in(p, block->dynamic, block->grid->attr.shared_bytes))
        return 1;
    for (unsigned i = 0; i < block->n_sites; i++)
        if (lies_in(p, block->sites[i].memory, block->sites[i].bytes))
            return 1;
    return 0;
}

/* --------------------------------------------------------------------------------- CPU features */

WEFT_EXPORT int weft_simt_vec16_unit(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx") ? 16 : 8;
#elif defined(__aarch64__)
    enum { USCAT = 1 << 25 }; /* HWCAP: aligned 16-byte accesses are atomic (LSE2) */
    return getauxval(AT_HWCAP) & USCAT ? 16 : 8;
#else
    return 8;
#endif
}

/* --------------------------------------------------------------------------------- ThreadSanitizer
 *
 * It models releases and acquires of single atomics, but not fences. The lane therefore remembers a
 * fence: later relaxed stores release, and the fence acquires the addresses of earlier relaxed
 * loads. */

WEFT_EXPORT void weft_simt_tsan_poll(const volatile void *p, int wrote)
{
    struct weft_simt_lane *self = weft_simt_self();
    self->budget -= self->polled == p ? 16 : 1;
    self->polled = p;
    if (wrote) {
        self->wrote = 1;
        weft_simt_written(p);
    }
    self->low = (uintptr_t)p < self->low ? (uintptr_t)p : self->low;
    self->high = (uintptr_t)p > self->high ? (uintptr_t)p : self->high;
    if (self->budget <= 0)
        weft_simt_yield();
}

/* Host threads run the same code (weft/device/gda_queue.h). */
static _Thread_local struct {
    const volatile void *loaded[sizeof((struct lane *)0)->loaded / sizeof(void *)];
    unsigned loads;
} host_thread;

WEFT_EXPORT void weft_simt_tsan_loaded(const volatile void *p)
{
    struct lane *lane = simt_current;
    enum { LOADED = sizeof host_thread.loaded / sizeof host_thread.loaded[0] };
    if (lane)
        lane->loaded[lane->loads++ % LOADED] = p;
    else
        host_thread.loaded[host_thread.loads++ % LOADED] = p;
}

WEFT_EXPORT int weft_simt_tsan_fenced(void)
{
    return !simt_current || simt_current->fenced;
}

WEFT_EXPORT void weft_simt_tsan_fence(void)
{
    struct lane *lane = simt_current;
    const volatile void **loaded = lane ? lane->loaded : host_thread.loaded;
    if (lane)
        lane->fenced = true;
    for (size_t i = 0; i < sizeof host_thread.loaded / sizeof host_thread.loaded[0]; i++) {
        if (loaded[i])
            tsan_acquire(loaded[i]);
        loaded[i] = NULL;
    }
}
