/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the memory of a GPU, in words, for the sentence when there is too little. */
#ifndef WEFT_GPU_HOLDERS_H
#define WEFT_GPU_HOLDERS_H

#include "gpu/device.h"

/* "it is held by pid 4711 (python) 80123 MiB, pid 4712 (train) 512 MiB", or why that is not known.
 * Asks NVML, which is loaded for this and dropped again. */
void gpu_memory_users(const struct gpu_device *gpu, char *text, size_t bytes);

#endif
