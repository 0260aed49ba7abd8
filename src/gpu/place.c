/* SPDX-License-Identifier: Apache-2.0 */
/* Determines the kind of memory at an address. See gpu.h. */
#include "gpu/gpu.h"

#include <link.h>
#include <stdlib.h>
#include <unistd.h>

static bool find_registration(struct gpu *gpu, uintptr_t address, enum gpu_place *place)
{
    bool found = false;
    pthread_mutex_lock(&gpu->registered.lock);
    for (struct gpu_registration *r = gpu->registered.list; r && !found; r = r->next) {
        if (address - r->base < r->bytes) {
            *place = r->device ? GPU_PLACE_DEVICE : GPU_PLACE_PINNED;
            found = true;
        }
    }
    pthread_mutex_unlock(&gpu->registered.lock);
    return found;
}

enum gpu_place gpu_place_of(struct gpu *gpu, const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    if (gpu->owner)
        gpu = gpu->owner;
    if (address - gpu->heap.reservation < gpu->heap.reserved_bytes)
        return GPU_PLACE_DEVICE;
    enum gpu_place place;
    if (gpu->registered.list && find_registration(gpu, address, &place))
        return place;
    unsigned type = 0;
    /* The driver refuses an address that is unknown to it. */
    if (gpu->driver.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
        return GPU_PLACE_PLAIN;
    return type == CU_MEMORYTYPE_DEVICE ? GPU_PLACE_DEVICE : GPU_PLACE_PINNED;
}

/* --------------------------------------------------------------------- without a driver query */

static int find_first_object(struct dl_phdr_info *info, size_t bytes, void *start)
{
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        *(uintptr_t *)start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        break;
    }
    return 1; /* the first object is the program itself */
}

/* Returns whether the address lies in the program or in the brk heap behind it; nothing else is
 * mapped between them. */
static bool is_in_program(uintptr_t address)
{
    static _Atomic uintptr_t start;
    uintptr_t from = atomic_load_explicit(&start, memory_order_relaxed);
    if (!from) {
        dl_iterate_phdr(find_first_object, &from);
        atomic_store_explicit(&start, from, memory_order_relaxed);
    }
    return from && address >= from && address < (uintptr_t)sbrk(0);
}

/* Returns whether the address lies in the used part of this thread's stack. Lanes of the stand-in
 * GPU run on stacks of their own. */
static bool is_on_stack(uintptr_t address)
{
    static _Thread_local uintptr_t lowest, end;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!end) {
        pthread_attr_t attributes;
        void *stack;
        size_t bytes;
        end = 1;
        if (pthread_getattr_np(pthread_self(), &attributes))
            return false;
        if (!pthread_attr_getstack(&attributes, &stack, &bytes)) {
            lowest = (uintptr_t)stack;
            end = lowest + bytes;
        }
        pthread_attr_destroy(&attributes);
    }
    return here >= lowest && here < end && address >= here && address < end;
}

enum gpu_place gpu_place_for_cpu(struct gpu *gpu, const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    const struct gpu_pins *pins = &gpu->registered.pins;
    if (address - (uintptr_t)pins->slots < pins->stride * (size_t)pins->slot_count)
        return GPU_PLACE_PINNED; /* the host heap, even if this part is not pinned yet */
    if (is_on_stack(address) || is_in_program(address))
        return GPU_PLACE_PLAIN;
    return gpu_place_of(gpu, pointer);
}
