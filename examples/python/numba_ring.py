# SPDX-License-Identifier: Apache-2.0
"""A kernel of Numba sends an array around the ring of PEs. It runs on a GPU, or without one in
Numba's simulator.

    NUMBA_ENABLE_CUDASIM=1 python -m weft run -n 3 examples/python/numba_ring.py    # needs numba
    WEFT_TARGET=cuda python -m weft run -n 2 examples/python/numba_ring.py          # and a GPU
"""

from numba import cuda

import weft
import weft.numba as wn

N = 1000
SET, AT_LEAST = 0, 5
my_pe, n_pes = wn.my_pe, wn.n_pes
put_signal, signal_wait = wn.block_put_signal, wn.block_signal_wait


@cuda.jit
def ring(state, value, value_address, inbox, inbox_address, arrived_address):
    pes = n_pes(state)
    right = (my_pe(state) + 1) % pes
    for turn in range(1, pes + 1):
        # A place for each turn: the neighbour may be turns ahead.
        place = turn - 1
        put_signal(state, inbox_address + 8 * N * place, value_address, 8 * N, arrived_address,
                   turn, SET, right)
        signal_wait(state, arrived_address, AT_LEAST, turn)
        for i in range(cuda.threadIdx.x, N, cuda.blockDim.x):
            value[i] = inbox[place, i] + i
        cuda.syncthreads()


job = weft.init()
kind = "host" if wn.SIMULATED else "gpu"
value = job.full(N, 100 * job.rank, "i8", kind=kind)
inbox, arrived = job.zeros((job.size, N), "i8", kind=kind), job.zeros(1, "u8", kind=kind)
ring[1, 32](wn.state(job), wn.array(value), value.address, wn.array(inbox), inbox.address,
            arrived.address)
if not wn.SIMULATED:
    cuda.synchronize()
    job.device_check()
# It has gone around once, and every PE has added i to element i.
assert value.tolist() == [100 * job.rank + i * job.size for i in range(N)]
print(f"PE {job.rank}: {N} numbers passed {job.size} PEs\n", end="")
