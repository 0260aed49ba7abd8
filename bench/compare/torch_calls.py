# SPDX-License-Identifier: Apache-2.0
"""What a collective of a GPU tensor on the current stream takes of the host: by the C function,
by torch.distributed with backend "weft", and with torch's backend "fake", which does nothing.
Microseconds of a call, the slowest rank's median; the stream is synchronised between the rounds.

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

CALLS, ROUNDS, COUNT = 50, 40, 256


def cost(call):
    """call() queues little, so that the queue does not fill up within a round."""
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - begun) / CALLS * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times[2:])


def main():
    job = weft.init()
    torch.cuda.set_device(job.rank % torch.cuda.device_count())
    dist.init_process_group("weft", init_method="weft://")
    x = torch.zeros(COUNT, device="cuda")
    outputs = torch.zeros(COUNT * job.size, device="cuda")
    reduction = reduction_of(dist.ReduceOp.SUM, [x])
    team, stream = job._handle_team, torch.cuda.current_stream().cuda_stream
    address, calls = x.data_ptr(), weft._library.calls
    rows = [
        ("all_reduce", lambda: reduction.all(team, address, address, COUNT, stream),
         lambda **group: dist.all_reduce(x, **group)),
        ("all_gather", lambda: calls.allgather_on_stream(team, outputs.data_ptr(), address,
                                                         4 * COUNT, stream),
         lambda **group: dist.all_gather_into_tensor(outputs, x, **group)),
        ("broadcast", lambda: calls.broadcast_on_stream(team, address, address, 4 * COUNT, 0,
                                                        stream),
         lambda **group: dist.broadcast(x, 0, **group)),
    ]
    nothing = dist.new_group(backend="fake")
    if job.rank == 0:
        print(f"{job.size} ranks, torch {torch.__version__}, {torch.cuda.get_device_name()}: us")
        print(f"{'':12} {'C':>8} {'torch':>8} {'fake':>8} {'over C':>8}")
    for name, by_c, by_torch in rows:
        for call in (by_c, by_torch):
            call()
        alone = [cost(by_c), cost(by_torch), cost(functools.partial(by_torch, group=nothing))]
        slowest = torch.tensor(alone, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if job.rank == 0:
            c, torch_us, fake = slowest.tolist()
            print(f"{name:12} {c:8.1f} {torch_us:8.1f} {fake:8.1f} {torch_us - c:8.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
