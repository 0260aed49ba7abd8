/* SPDX-License-Identifier: Apache-2.0 */
/* Source of the GPU engine's kernel. */
#include "gpu/kernel.h"

extern "C" __global__ void __launch_bounds__(LANES) weft_hca_slice(struct gpu_slice slice)
{
    __shared__ struct shared shared;
    run_slice(&shared, &slice);
}
