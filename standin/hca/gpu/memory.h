/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory that keys name. The engine accesses it through the CUDA driver, if the process has
 * loaded that. An access takes several microseconds and, as with a real NIC, is not atomic with
 * accesses of the GPU. Knows nothing of keys and queues. */
#ifndef WEFT_HCA_GPU_MEMORY_H
#define WEFT_HCA_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_memory_kind {
    GPU_MEMORY_NONE,    /* not GPU memory */
    GPU_MEMORY_THERE,   /* memory of one GPU that can be accessed */
    GPU_MEMORY_REFUSED, /* GPU memory, but not all of one GPU, or a driver call failed */
};

/* gpu_memory_add: adds a range to the list of registered GPU memory, if it is GPU memory.
 * gpu_memory_remove() removes it. The engine treats only listed ranges as GPU memory. */
enum gpu_memory_kind gpu_memory_add(uint64_t address, uint64_t bytes);
void gpu_memory_remove(uint64_t address, uint64_t bytes);

/* gpu_memory_holds: returns true if the address is in a listed range. One load if the list is
 * empty. */
bool gpu_memory_holds(uint64_t address);

/* All return 0 or the driver's error number. Puts become visible in the order of the calls, at the
 * latest when gpu_memory_flush() returns, to kernels that then acquire. The source of a put may be
 * reused at once. A get sees earlier puts. */
int gpu_memory_put(uint64_t to, const void *from, size_t bytes);
int gpu_memory_get(void *to, uint64_t from, size_t bytes);
int gpu_memory_flush(void);

#endif
