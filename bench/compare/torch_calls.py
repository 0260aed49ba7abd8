# SPDX-License-Identifier: Apache-2.0
"""What a collective of 1 KiB takes of the host: by the C function, by torch.distributed with
backend "weft", and with torch's backend "fake", which does nothing. Microseconds of a call.

GPU tensors: on the current stream, which is synchronised between the rounds; the slowest rank's
median. Without a GPU CPU tensors, for which ranks wait for each other: use one; the least of all
rounds, because other work has turns on the CPU.

    python3 -m weft run -n RANKS python3 bench/compare/torch_calls.py
"""

import functools
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # registers "fake"

import weft
import weft.torch
from weft.torch._reduction import reduction_of

COUNT = 256
ON_GPU = torch.cuda.is_available()
CALLS, ROUNDS = (50, 40) if ON_GPU else (10, 1500)  # the queue does not fill up within a round


def cost(call):
    times = []
    for _ in range(ROUNDS):
        if ON_GPU:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begun) / CALLS * 1e6)
    if ON_GPU:
        torch.cuda.synchronize()
    return (statistics.median if ON_GPU else min)(times[2:])


def main():
    job = weft.init()
    if ON_GPU:
        torch.cuda.set_device(job.rank % torch.cuda.device_count())
    dist.init_process_group("weft", init_method="weft://")
    x = torch.zeros(COUNT, device="cuda" if ON_GPU else "cpu")
    outputs = torch.zeros(COUNT * job.size, device=x.device)
    reduction = reduction_of(dist.ReduceOp.SUM, x)
    team, nbytes, calls = job._handle_team, 4 * COUNT, weft._library.calls
    if ON_GPU:
        stream = (torch.cuda.current_stream().cuda_stream,)
        allgather, broadcast = calls.allgather_on_stream, calls.broadcast_on_stream
        one, all_ = x.data_ptr(), outputs.data_ptr()
    else:
        stream, allgather, broadcast = (), calls.allgather, calls.broadcast
        memory = job.zeros(COUNT * (job.size + 1), "f4")  # symmetric, as the host's functions need
        one, all_ = memory.address, memory.address + nbytes
    rows = [
        ("all_reduce", lambda: reduction.all(team, one, one, COUNT, *stream),
         lambda **group: dist.all_reduce(x, **group)),
        ("all_gather", lambda: allgather(team, all_, one, nbytes, *stream),
         lambda **group: dist.all_gather_into_tensor(outputs, x, **group)),
        ("broadcast", lambda: broadcast(team, one, one, nbytes, 0, *stream),
         lambda **group: dist.broadcast(x, 0, **group)),
        ("reduce_scatter", lambda: reduction.scatter(team, one, all_, COUNT, *stream),
         lambda **group: dist.reduce_scatter_tensor(x, outputs, **group)),
    ]
    nothing = dist.new_group(backend="fake")
    if job.rank == 0:
        where = torch.cuda.get_device_name() if ON_GPU else "CPU tensors"
        print(f"{job.size} ranks, torch {torch.__version__}, {where}: us")
        print(f"{'':14} {'C':>8} {'torch':>8} {'fake':>8} {'over C':>8}")
    for name, by_c, by_torch in rows:
        for call in (by_c, by_torch):
            call()
        alone = [cost(by_c), cost(by_torch), cost(functools.partial(by_torch, group=nothing))]
        slowest = torch.tensor(alone, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if job.rank == 0:
            c, torch_us, fake = slowest.tolist()
            print(f"{name:14} {c:8.1f} {torch_us:8.1f} {fake:8.1f} {torch_us - c:8.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
