# SPDX-License-Identifier: Apache-2.0
"""A kernel of Triton sends an array around the ring of PEs, and counts at PE 0 by a plain atomic of
Triton. It runs on a GPU, or without one in Triton's interpreter.

    TRITON_INTERPRET=1 python -m weft run -n 3 examples/python/triton_ring.py   # triton, numpy
    WEFT_TARGET=cuda python -m weft run -n 2 examples/python/triton_ring.py     # and a GPU, torch
"""

import triton
import triton.language as tl

import weft
import weft.triton as wt

N = 1024


@triton.jit(do_not_specialize=["state", "value", "inbox", "arrived", "count"])
def ring(state, value, inbox, arrived, count, n: tl.constexpr):
    # Arrays come as addresses, so that the interpreter needs no torch.
    value = value.to(tl.pointer_type(tl.int64))
    inbox = inbox.to(tl.pointer_type(tl.int64))
    at = tl.arange(0, n)
    pes = wt.n_pes(state)
    right = (wt.my_pe(state) + 1) % pes
    turn = 1
    while turn <= pes:
        # A place for each turn: the neighbour may be turns ahead.
        place = inbox + (turn - 1) * n
        wt.put_signal(state, place, value, 8 * n, arrived, turn, right)
        wt.signal_wait(state, arrived, turn)
        tl.store(value + at, tl.load(place + at) + at)
        turn += 1
    at_zero = wt.peer_ptr(state, count.to(tl.pointer_type(tl.int64)), 0)
    if at_zero.to(tl.int64) != 0:
        tl.atomic_add(at_zero, 1, sem="acq_rel", scope="sys")


job = weft.init()
kind = "host" if wt.INTERPRETED else "gpu"
value = job.full(N, 100 * job.rank, "i8", kind=kind)
inbox, arrived = job.zeros((job.size, N), "i8", kind=kind), job.zeros(1, "u8", kind=kind)
count = job.zeros(1, "i8", kind=kind)
ring[(1,)](wt.state(job), value.address, inbox.address, arrived.address, count.address, N,
           extern_libs=wt.extern_libs())
if not wt.INTERPRETED:
    import torch

    torch.cuda.synchronize()
    job.device_check()
job.barrier()
# It has gone around once, and every PE has added i to element i.
assert value.tolist() == [100 * job.rank + i * job.size for i in range(N)]
counted = job.g(count, of=0)
assert counted == job.size, counted
print(f"PE {job.rank}: {N} numbers passed {counted} PEs\n", end="")
