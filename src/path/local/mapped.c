/* SPDX-License-Identifier: Apache-2.0 */
/* See mapped.h. A put is posted: the CPU has sent its stores when it returns, and quiet and fence
 * wait until they have arrived, by a load from the same memory behind them. PCI Express keeps
 * stores to one GPU in order, so that a signal needs no such wait. */
#include "path/local/mapped.h"

#include "base/status.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    THROUGH_CPU_BYTES =
        1024, /* from GPU to GPU: one trip out and stores in, 1.2 us where an engine takes 7 */
    STRIDED_STORES = 256,
    STRIDED_LOADS = 4, /* a trip over PCIe each */
};

static _Thread_local char this_thread;
static const char several;

/* ------------------------------------------------------------------------- what is under way */

/* The count comes last: who finds the store counted finds the rest. */
static void stored(struct mapped *m, int slot)
{
    uint64_t bit = 1ull << (slot % MAPPED_SLOTS);
    if (unlikely(m->fences_each))
        wc_fence();
    if (unlikely(!(atomic_load_explicit(&m->used, memory_order_relaxed) & bit)))
        atomic_fetch_or_explicit(&m->used, bit, memory_order_relaxed);
    const char *storer = atomic_load_explicit(&m->storer, memory_order_relaxed);
    if (unlikely(storer != &this_thread && storer != &several))
        atomic_store_explicit(&m->storer, storer ? &several : &this_thread, memory_order_relaxed);
    epoch_give(&m->stores[slot % MAPPED_SLOTS]);
}

/* Stores of other threads leave their CPUs at an interrupt, if they have not before (Intel SDM
 * volume 3, 11.3.1). */
static void send_others_stores(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void mapped_open(struct mapped *m, const struct path_world *world)
{
    m->world = world;
    m->fences_each = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
}

void mapped_settle(struct mapped *m)
{
    uint64_t used = atomic_load_explicit(&m->used, memory_order_relaxed), open = 0;
    uint64_t upto[MAPPED_SLOTS];
    for (uint64_t left = used; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        open |= (uint64_t)epoch_is_open(&m->stores[i], &upto[i]) << i;
    }
    if (!open)
        return;
    /* Never forgotten: a second quiet would take the first one's word for stores that still are on
     * their way. */
    if (atomic_load_explicit(&m->storer, memory_order_relaxed) != &this_thread)
        send_others_stores();
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

/* ------------------------------------------------------------------------------------- where */

static int slot_of(struct remote at)
{
    return at.peer->world->gpu->slot_of[at.peer->pe];
}

static struct gpu_map *map_of(struct remote at)
{
    return at.peer->world->gpu->heap.map;
}

/* A part of the GPU heap of a PE of this node. */
struct place {
    int slot;
    size_t offset;
};

static struct place place_of(struct remote at)
{
    return (struct place){slot_of(at), at.offset};
}

/* Own memory that lies in the GPU heap. */
static bool is_in_heap(const struct gpu *gpu, const void *local, struct place *place)
{
    return gpu_map_locate(gpu, local, &place->slot, &place->offset);
}

/* ----------------------------------------------------------------------------------- transfers */

/* Between GPU memory on both sides. */
static bool through_cpu(struct mapped *m, struct place to, struct place from, size_t bytes)
{
    char room[THROUGH_CPU_BYTES];
    struct gpu_map *map = m->world->gpu->heap.map;
    if (!gpu_map_load(map, from.slot, from.offset, room, bytes) ||
        !gpu_map_store(map, to.slot, to.offset, room, bytes))
        return false;
    stored(m, to.slot);
    return true;
}

/* Anything of this PE to the GPU's memory. */
static bool store(struct mapped *m, struct remote to, const void *src, size_t bytes)
{
    struct gpu *gpu = m->world->gpu;
    struct place own;
    if (bytes <= THROUGH_CPU_BYTES && is_in_heap(gpu, src, &own))
        return through_cpu(m, place_of(to), own, bytes);
    if (gpu_place_for_cpu(gpu, src) == GPU_PLACE_DEVICE ||
        !gpu_map_is_faster(map_of(to), src, bytes, true) ||
        !gpu_map_store(map_of(to), slot_of(to), to.offset, src, bytes))
        return false;
    stored(m, slot_of(to));
    return true;
}

/* Own GPU memory to host memory of a peer, which is mapped here. */
static bool put_from_device(struct remote to, const void *src, size_t bytes)
{
    struct gpu *gpu = to.peer->world->gpu;
    char *dst = to.peer->base[to.segment];
    struct place own;
    return dst && gpu_map_is_faster(gpu->heap.map, dst, bytes, false) &&
           is_in_heap(gpu, src, &own) &&
           gpu_map_load(gpu->heap.map, own.slot, own.offset, dst + to.offset, bytes);
}

bool mapped_put(struct mapped *m, struct remote to, const void *src, size_t bytes)
{
    if (!gpu_map_works(map_of(to)) || bytes > GPU_MAP_MOST)
        return false;
    return to.segment == SEG_GPU ? store(m, to, src, bytes) : put_from_device(to, src, bytes);
}

/* What was stored into own memory is in front of what this thread launches on its GPU. */
static bool arrived(bool done)
{
    if (done)
        wc_fence();
    return done;
}

/* Host memory of a peer into own GPU memory: in front of what this PE launches there next, and
 * quiet makes sure of it for others. */
static bool get_to_device(struct mapped *m, struct remote from, void *dst, size_t bytes)
{
    struct gpu *gpu = m->world->gpu;
    const char *src = from.peer->base[from.segment];
    struct place own;
    if (!src || !gpu_map_is_faster(gpu->heap.map, src, bytes, true) ||
        !is_in_heap(gpu, dst, &own) ||
        !gpu_map_store(gpu->heap.map, own.slot, own.offset, src + from.offset, bytes))
        return false;
    stored(m, own.slot);
    return arrived(true);
}

bool mapped_get(struct mapped *m, struct remote from, void *dst, size_t bytes)
{
    struct gpu *gpu = m->world->gpu;
    struct place own;
    if (!gpu_map_works(gpu->heap.map) || bytes > GPU_MAP_MOST)
        return false;
    if (from.segment != SEG_GPU)
        return get_to_device(m, from, dst, bytes);
    if (bytes <= THROUGH_CPU_BYTES && is_in_heap(gpu, dst, &own))
        return arrived(through_cpu(m, own, place_of(from), bytes));
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
        stored(m, slot_of(at));
    }
    return true;
}

bool mapped_store(struct mapped *m, struct remote to, const void *value, size_t width)
{
    if (!gpu_map_store(map_of(to), slot_of(to), to.offset, value, width))
        return false;
    stored(m, slot_of(to));
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
    wc_fence(); /* the signal is not seen before the data */
    return gpu_map_store(map_of(to), slot_of(signal), signal.offset, &value, sizeof value);
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
    if (gpu_map_works(map) && gpu_map_at(gpu->heap.map, slot, gpu->map_test_offset, 1))
        snprintf(found, bytes, "small ones by the CPU, through %s", gpu_map_backend_text(map));
    else if (pe == world->pe) /* the one place where there is room for it */
        snprintf(found, bytes, "small ones not by the CPU: %s", why);
    else
        snprintf(found, bytes, "small ones not by the CPU (PE %d to itself says why)", world->pe);
    return WEFT_OK;
}
