# SPDX-License-Identifier: Apache-2.0
"""A kernel in C++ sends an array around the ring of PEs; CuPy compiles it, for a GPU.

    WEFT_TARGET=cuda python -m weft run -n 2 examples/python/cupy_ring.py
"""

import cupy
import numpy as np

import weft

N = 1000
SOURCE = r"""
#include <weft_device.h>

WEFT_KERNEL(ring, (uint64_t *, value), (uint64_t *, inbox), (uint64_t *, arrived), (int, n))
{
    int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
    for (int turn = 1; turn <= weft_dev_n_pes(); turn++) {
        // A place for each turn: the neighbour may be turns ahead.
        uint64_t *place = inbox + (turn - 1) * n;
        weft_block_put_signal(place, value, n * sizeof(*value), arrived, turn, WEFT_SIGNAL_SET,
                              next);
        weft_block_signal_wait(arrived, WEFT_GE, turn);
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            value[i] = place[i] + i;
        __syncthreads();
    }
}
"""

job = weft.init()
value = job.full(N, 100 * job.rank, "u8", kind="gpu")
inbox, arrived = job.zeros((job.size, N), "u8", kind="gpu"), job.zeros(1, "u8", kind="gpu")
module = cupy.RawModule(code=SOURCE, options=("-std=c++17", "-I" + weft.include()))
job.module_init(module)
ring = module.get_function("weft_cuda_kernel_ring")
ring((1,), (128,), (np.uint64(value.address), np.uint64(inbox.address), np.uint64(arrived.address),
                    np.int32(N)))
cupy.cuda.Device().synchronize()
job.device_check()
# It has gone around once, and every PE has added i to element i.
assert value.tolist() == [100 * job.rank + i * job.size for i in range(N)]
print(f"PE {job.rank}: {N} numbers passed {job.size} PEs\n", end="")
