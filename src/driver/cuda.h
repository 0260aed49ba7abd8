/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, for gpu_api.c. */
#ifndef WEFT_DRIVER_CUDA_H
#define WEFT_DRIVER_CUDA_H

#include "driver/gpu_api.h"

/* Loads and initializes libcuda.so.1. */
weft_status cuda_open(struct gpu_api *driver);

/* The current context of this thread if the program has loaded libcuda.so.1, else NULL. */
CUcontext cuda_current_if_loaded(void);

#endif
