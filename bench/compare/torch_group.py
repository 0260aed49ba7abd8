# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backends "weft" and "gloo" in one run: microseconds of a collective of
CPU tensors, of a step of DistributedDataParallel, and of the start; the slowest rank's median.

    PYTHONPATH=python python3 bench/compare/torch_group.py [RANKS]
"""

import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

SIZES = [4, 1024, 65536, 1 << 20, 16 << 20]
BACKENDS = ["weft", "gloo"]


def median(call, rounds):
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def collectives(group, size, nbytes):
    count = max(nbytes // 4, 1)
    x = torch.ones(count)
    parts = [torch.ones(max(count // size, 1)) for _ in range(size)]
    flat, out = torch.ones(parts[0].numel() * size), torch.empty_like(parts[0])
    same = torch.empty_like(flat)
    yield "all_reduce", lambda: dist.all_reduce(x, group=group)
    yield "broadcast", lambda: dist.broadcast(x, 0, group=group)
    yield "all_gather", lambda: dist.all_gather(parts, out, group=group)
    yield "all_to_all", lambda: dist.all_to_all_single(same, flat, group=group)
    yield "reduce_scatter", lambda: dist.reduce_scatter(out, parts, group=group)


def step_of(group):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    batch = torch.randn(16, 256)

    def step():
        model.zero_grad()
        model(batch).sum().backward()
    return step


def slowest(value):
    x = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x.item()


def rank_of(rank, size, folder):
    import weft.torch  # noqa: F401

    torch.set_num_threads(1)
    starts, groups = {}, {}
    for backend in BACKENDS:
        begun = time.perf_counter()
        if not dist.is_initialized():
            dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank,
                                    world_size=size)
            groups[backend] = dist.group.WORLD
        else:
            groups[backend] = dist.new_group(backend=backend)
        dist.all_reduce(torch.ones(1), group=groups[backend])
        starts[backend] = (time.perf_counter() - begun) * 1e6
    if rank == 0:
        print(f"{size} ranks, {os.cpu_count()} CPUs, torch {torch.__version__}; us\n"
              f"{'':16}{'bytes':>10}" + "".join(f"{name:>12}" for name in BACKENDS))
    rows = [("start and first", 4, starts)]
    for nbytes in SIZES:
        by_name = {}
        for backend in BACKENDS * 2:  # by turns; the better half counts
            for name, call in collectives(groups[backend], size, nbytes):
                try:
                    call()
                    value = slowest(median(call, 200 if nbytes < 1 << 20 else 20))
                except RuntimeError:
                    value = float("nan")  # gloo has no such collective
                row = by_name.setdefault(name, {})
                row[backend] = min(row.get(backend, value), value)
        rows += [(name, nbytes, row) for name, row in by_name.items()]
    rows.append(("step of DDP", 4 * 4 * 256 * 257,
                 {name: slowest(median(step_of(groups[name]), 200)) for name in BACKENDS}))
    if rank == 0:
        for name, nbytes, row in rows:
            print(f"{name:16}{nbytes:10}" + "".join(f"{row[key]:12.1f}" for key in BACKENDS))


if __name__ == "__main__":
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_of, (ranks, folder), nprocs=ranks)
