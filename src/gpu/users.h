/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that use the memory of a GPU, in words, for the message when there is too little
 * memory. */
#ifndef WEFT_GPU_HOLDERS_H
#define WEFT_GPU_HOLDERS_H

#include "gpu/device.h"

/* Writes "it is used by pid 4711 (python) 80123 MiB, pid 4712 (train) 512 MiB", or why that is not
 * known. Loads NVML for this call and unloads it. */
void gpu_memory_users(const struct gpu_device *gpu, char *text, size_t bytes);

#endif
