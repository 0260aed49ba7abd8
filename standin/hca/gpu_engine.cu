/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of the engine on a GPU, as cmake/gpu_ptx.sh compiles it. */
#include "gpu_kernel.h"

extern "C" __global__ void __launch_bounds__(LANES) weft_hca_slice(struct gpu_slice slice)
{
    __shared__ struct shared shared;
    run_slice(&shared, &slice);
}
