/* SPDX-License-Identifier: Apache-2.0 */
/* See mapped.h. A put is posted: the CPU has sent its stores when the put returns. Quiet and fence
 * wait until the stores have arrived, by a load from the same memory. PCI Express keeps stores to
 * one GPU in order, so a signal needs no such wait. */
#include "path/local/mapped.h"

#include "base/status.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Largest copy between two GPU memories by the CPU: a load and a store over PCIe take 1.2 us, a
     * copy engine takes 7 us. */
    THROUGH_CPU_BYTES = 1024,
    STRIDED_STORES = 256,
    STRIDED_LOADS = 4, /* each is a round trip over PCIe */
};

static _Thread_local char this_thread;
static const char several;

/* ------------------------------------------------------------- stores that may not have arrived */

/* Counts a store to that slot's memory. The count is written last: a thread that sees it also sees
 * the rest. */
static void count_store(struct mapped *m, int slot)
{
    uint64_t bit = 1ull << (slot % MAPPED_SLOTS);
    if (unlikely(m->fences_each))
        wc_fence();
    if (unlikely(!(atomic_load_explicit(&m->used, memory_order_relaxed) & bit)))
        atomic_fetch_or_explicit(&m->used, bit, memory_order_relaxed);
    const char *storer = atomic_load_explicit(&m->storer, memory_order_relaxed);
    if (unlikely(storer != &this_thread && storer != &several)) {
        /* The exchange fails for the second of two threads that store first at the same time. */
        bool first = !storer && atomic_compare_exchange_strong_explicit(
                                    &m->storer, &storer, &this_thread, memory_order_relaxed,
                                    memory_order_relaxed);
        if (!first)
            atomic_store_explicit(&m->storer, &several, memory_order_relaxed);
    }
    epoch_give(&m->stores[slot % MAPPED_SLOTS]);
}

/* Makes the stores of other threads leave their CPUs, by an interrupt on each (Intel SDM volume 3,
 * 11.3.1). */
static void flush_other_cpus(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* On Arm an interrupt does not flush a CPU's stores, and the kernel's barrier in it (DMB ISH) does
 * not order stores to devices. */
void mapped_open(struct mapped *m, const struct path_world *world)
{
#if defined(__x86_64__)
    const bool interrupts_flush = true;
#else
    const bool interrupts_flush = false;
#endif
    m->world = world;
    m->fences_each = !interrupts_flush ||
                     syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
}

void mapped_flush(struct mapped *m)
{
    uint64_t used = atomic_load_explicit(&m->used, memory_order_relaxed), open = 0;
    uint64_t upto[MAPPED_SLOTS];
    for (uint64_t left = used; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        open |= (uint64_t)epoch_is_open(&m->stores[i], &upto[i]) << i;
    }
    if (!open)
        return;
    /* `storer` is never reset: otherwise a second quiet would skip the barrier for stores that are
     * still in a CPU's buffers. */
    if (!m->fences_each && atomic_load_explicit(&m->storer, memory_order_relaxed) != &this_thread)
        flush_other_cpus();
    const struct gpu *gpu = m->world->gpu;
    const struct gpu_map *map = gpu->heap.map;
    for (int slot = 0; slot < gpu->boot->local_npes; slot++)
        if (open & 1ull << (slot % MAPPED_SLOTS) && map->windows[slot].tested)
            gpu_map_flush(map, slot);
    for (; open; open &= open - 1) {
        int i = __builtin_ctzll(open);
        epoch_close(&m->stores[i], upto[i]);
    }
}

/* ------------------------------------------------------------------------------------ addresses */

static int slot_of(struct remote at)
{
    return at.peer->world->gpu->slot_of[at.peer->pe];
}

static struct gpu_map *map_of(struct remote at)
{
    return at.peer->world->gpu->heap.map;
}

/* An offset in the GPU heap of a PE of this node. */
struct heap_place {
    int slot;
    size_t offset;
};

static struct heap_place heap_place_of(struct remote at)
{
    return (struct heap_place){slot_of(at), at.offset};
}

/* Returns true if local memory is in a GPU heap, and its place there. */
static bool find_in_heap(const struct gpu *gpu, const void *local, struct heap_place *heap_place)
{
    return gpu_map_locate(gpu, local, &heap_place->slot, &heap_place->offset);
}

/* ----------------------------------------------------------------------------------- transfers */

/* Copies between two GPU memories through a buffer of the CPU. */
static bool copy_through_cpu(struct mapped *m, struct heap_place to, struct heap_place from,
                             size_t bytes)
{
    char room[THROUGH_CPU_BYTES];
    struct gpu_map *map = m->world->gpu->heap.map;
    if (!gpu_map_load(map, from.slot, from.offset, room, bytes) ||
        !gpu_map_store(map, to.slot, to.offset, room, bytes))
        return false;
    count_store(m, to.slot);
    return true;
}

/* Stores local data, of the host or of a GPU, to GPU memory. */
static bool store(struct mapped *m, struct remote to, const void *src, size_t bytes)
{
    struct gpu *gpu = m->world->gpu;
    struct heap_place own;
    if (bytes <= THROUGH_CPU_BYTES && find_in_heap(gpu, src, &own))
        return copy_through_cpu(m, heap_place_of(to), own, bytes);
    if (gpu_place_for_cpu(gpu, src) == GPU_PLACE_DEVICE ||
        !gpu_map_is_faster(map_of(to), src, bytes, true) ||
        !gpu_map_store(map_of(to), slot_of(to), to.offset, src, bytes))
        return false;
    count_store(m, slot_of(to));
    return true;
}

/* Copies own GPU memory to a peer's mapped host memory. */
static bool put_from_device(struct remote to, const void *src, size_t bytes)
{
    struct gpu *gpu = to.peer->world->gpu;
    char *dst = to.peer->base[to.segment];
    struct heap_place own;
    return dst && gpu_map_is_faster(gpu->heap.map, dst, bytes, false) &&
           find_in_heap(gpu, src, &own) &&
           gpu_map_load(gpu->heap.map, own.slot, own.offset, dst + to.offset, bytes);
}

bool mapped_put(struct mapped *m, struct remote to, const void *src, size_t bytes)
{
    if (!gpu_map_works(map_of(to)) || bytes > GPU_MAP_MOST)
        return false;
    return to.segment == SEG_GPU ? store(m, to, src, bytes) : put_from_device(to, src, bytes);
}

/* Fences stores to own memory, so that kernels which this thread launches next see them. */
static bool fence_stores(bool done)
{
    if (done)
        wc_fence();
    return done;
}

/* Copies a peer's host memory to own GPU memory. Kernels that this PE launches next see the data;
 * quiet completes it for other PEs. */
static bool get_to_device(struct mapped *m, struct remote from, void *dst, size_t bytes)
{
    struct gpu *gpu = m->world->gpu;
    const char *src = from.peer->base[from.segment];
    struct heap_place own;
    if (!src || !gpu_map_is_faster(gpu->heap.map, src, bytes, true) ||
        !find_in_heap(gpu, dst, &own) ||
        !gpu_map_store(gpu->heap.map, own.slot, own.offset, src + from.offset, bytes))
        return false;
    count_store(m, own.slot);
    return fence_stores(true);
}

bool mapped_get(struct mapped *m, struct remote from, void *dst, size_t bytes)
{
    struct gpu *gpu = m->world->gpu;
    struct heap_place own;
    if (!gpu_map_works(gpu->heap.map) || bytes > GPU_MAP_MOST)
        return false;
    if (from.segment != SEG_GPU)
        return get_to_device(m, from, dst, bytes);
    if (bytes <= THROUGH_CPU_BYTES && find_in_heap(gpu, dst, &own))
        return fence_stores(copy_through_cpu(m, own, heap_place_of(from), bytes));
    return gpu_place_for_cpu(gpu, dst) != GPU_PLACE_DEVICE &&
           gpu_map_is_faster(gpu->heap.map, dst, bytes, false) &&
           gpu_map_load(gpu->heap.map, slot_of(from), from.offset, dst, bytes);
}

bool mapped_strided(struct mapped *m, struct remote at, void *local, bool put,
                    const struct path_strides *s)
{
    struct gpu *gpu = m->world->gpu;
    size_t most = put ? STRIDED_STORES : STRIDED_LOADS;
    if (!gpu_map_works(gpu->heap.map) || at.segment != SEG_GPU || s->n > most || s->element > 64 ||
        gpu_place_for_cpu(gpu, local) == GPU_PLACE_DEVICE)
        return false;
    size_t whole = (s->n - 1) * s->remote_step + s->element;
    char *mapped = gpu_map_at(gpu->heap.map, slot_of(at), at.offset, whole), *host = local;
    if (!mapped)
        return false;
    for (size_t i = 0; i < s->n; i++, mapped += s->remote_step, host += s->local_step) {
        if (put)
            wc_store(mapped, host, s->element);
        else
            wc_load(host, mapped, s->element);
    }
    if (put) {
        wc_fence();
        count_store(m, slot_of(at));
    }
    return true;
}

bool mapped_store(struct mapped *m, struct remote to, const void *value, size_t width)
{
    if (!gpu_map_store(map_of(to), slot_of(to), to.offset, value, width))
        return false;
    count_store(m, slot_of(to));
    return true;
}

bool mapped_load(struct remote from, void *value, size_t width)
{
    return gpu_map_load(map_of(from), slot_of(from), from.offset, value, width);
}

bool mapped_put_signal(struct mapped *m, struct remote to, const void *src, size_t bytes,
                       struct remote signal, uint64_t value)
{
    if (!gpu_map_works(map_of(to)) || to.segment != SEG_GPU || bytes > GPU_MAP_MOST ||
        !store(m, to, src, bytes))
        return false;
    wc_fence(); /* the signal must not become visible before the data */
    if (!gpu_map_store(map_of(to), slot_of(signal), signal.offset, &value, sizeof value))
        return false;
    count_store(m, slot_of(signal)); /* another thread's quiet may have completed the data alone */
    return true;
}

weft_status mapped_refine(const struct path_world *world, weft_kind kind, int pe, char *found,
                          size_t bytes)
{
    struct gpu *gpu = world->gpu;
    if (kind != WEFT_GPU || !gpu)
        return WEFT_OK;
    const struct gpu_map *map = gpu->heap.map;
    int slot = gpu->slot_of[pe];
    const char *why = !map                 ? "WEFT_MAP=none"
                      : gpu_map_works(map) ? map->windows[slot].why
                                           : map->why;
    if (gpu_map_works(map) && gpu_map_at(gpu->heap.map, slot, gpu->layout.map_test_offset, 1))
        snprintf(found, bytes, "small ones by the CPU, through %s", gpu_map_backend_text(map));
    else if (pe == world->pe) /* the reason is long, so only the PE's entry for itself states it */
        snprintf(found, bytes, "small ones not by the CPU: %s", why);
    else
        snprintf(found, bytes, "small ones not by the CPU (PE %d to itself says why)", world->pe);
    return WEFT_OK;
}
