/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory behind a key: the engine reaches it through the CUDA driver, where the process has
 * loaded that. Slow (some microseconds an access) and, as behind a real adapter, not atomic against
 * the GPU's own accesses. Knows nothing of keys and queues. */
#ifndef WEFT_HCA_GPU_MEMORY_H
#define WEFT_HCA_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_memory_kind {
    GPU_MEMORY_NONE,    /* no GPU's: the CPU reaches it, or nobody does */
    GPU_MEMORY_THERE,   /* all of it is one GPU's, and can be reached */
    GPU_MEMORY_REFUSED, /* a GPU's, but not all of it, or the driver refuses what reaching it
                         * needs */
};

/* gpu_memory_add: notes that a key names this range, if it is a GPU's; gpu_memory_remove() undoes
 * that. The engine takes no notice of GPU memory that nobody has added. */
enum gpu_memory_kind gpu_memory_add(uint64_t address, uint64_t bytes);
void gpu_memory_remove(uint64_t address, uint64_t bytes);

/* gpu_memory_holds: whether the address lies in a range that was added. One load where there is
 * none. */
bool gpu_memory_holds(uint64_t address);

/* All return 0, or the driver's number of why not. What is put becomes visible in the order of the
 * calls, and is when gpu_memory_flush() has returned, to kernels that acquire behind it; its
 * source may be reused at once. A get sees what was put before. */
int gpu_memory_put(uint64_t to, const void *from, size_t bytes);
int gpu_memory_get(void *to, uint64_t from, size_t bytes);
int gpu_memory_flush(void);

#endif
