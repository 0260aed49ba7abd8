# SPDX-License-Identifier: Apache-2.0
"""torch's own backend "nccl" on libweft-nccl. Not a test of the build: it needs a GPU and torch.

    LD_PRELOAD=$BUILD/lib/libweft-nccl.so torchrun --nproc-per-node 4 tests/gpu/torch_nccl.py

Ranks may share a GPU, which NCCL refuses.
"""

import ctypes
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

begun = time.perf_counter()
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(rank % torch.cuda.device_count())
device = torch.device("cuda", torch.cuda.current_device())
torch.zeros(1, device=device)
dist.init_process_group("nccl", device_id=device)
x = torch.ones(1, device=device)
started = time.perf_counter()
dist.all_reduce(x)
torch.cuda.synchronize()
assert x.item() == size
first = time.perf_counter() - started
# Weft's library answers, whatever torch was linked with.
assert hasattr(ctypes.CDLL(None), "pncclGroupStart")
with open("/proc/self/maps") as maps:
    assert "libweft-nccl" in maps.read(), "libweft-nccl.so is not loaded: set LD_PRELOAD"


def tensors(dtype, shape, seed):
    """Every rank's tensor: small integers, whose sums are exact."""
    made = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 4, shape, generator=made).to(dtype).to(device) for _ in range(size)]


def check_collectives():
    types = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8,
             torch.int32, torch.int64)
    for seed, dtype in enumerate(types):
        for n in (1, 7, 1000, 70001):
            every = tensors(dtype, (n,), seed)
            wide = sum(t.double() for t in every)
            y = every[rank].clone()
            dist.all_reduce(y)
            assert torch.equal(y, wide.to(dtype)), (dtype, n)
            y = every[rank].clone()
            dist.all_reduce(y, op=dist.ReduceOp.MAX)
            assert torch.equal(y, torch.stack(every).max(0).values)
            y = every[rank].clone()
            dist.broadcast(y, size - 1)
            assert torch.equal(y, every[size - 1])
            out = torch.empty(size * n, dtype=dtype, device=device)
            dist.all_gather_into_tensor(out, every[rank])
            assert torch.equal(out, torch.cat(every))
            lists = [torch.empty_like(y) for _ in range(size)]
            dist.all_gather(lists, every[rank])
            assert all(map(torch.equal, lists, every))
            parts = tensors(dtype, (size * n,), seed + 50)
            y = torch.empty(n, dtype=dtype, device=device)
            dist.reduce_scatter_tensor(y, parts[rank])
            wide = sum(t.double() for t in parts).view(size, n)[rank]
            assert torch.equal(y, wide.to(dtype))
            out = torch.empty_like(parts[0])
            dist.all_to_all_single(out, parts[rank])
            assert torch.equal(out.view(size, n), torch.stack([p.view(size, n)[rank]
                                                               for p in parts]))
            y = every[rank].clone()
            dist.reduce(y, 0)
            if rank == 0:
                assert torch.equal(y, sum(t.double() for t in every).to(dtype))
    mean = torch.full((5,), float(rank), device=device)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert torch.equal(mean, torch.full_like(mean, (size - 1) / 2))
    uneven = torch.arange(sum(range(1, size + 1)), dtype=torch.float32, device=device) + 100 * rank
    sends, takes = list(range(1, size + 1)), [rank + 1] * size
    out = torch.empty(sum(takes), device=device)
    dist.all_to_all_single(out, uneven, takes, sends)
    first_of = sum(range(1, rank + 1))
    assert torch.equal(out, torch.cat([
        torch.arange(first_of, first_of + rank + 1, device=device) + 100.0 * r
        for r in range(size)]))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    dist.barrier()


def check_messages():
    after, before = (rank + 1) % size, (rank - 1) % size
    for n in (1, 5000, 3_000_000):
        mine = torch.arange(n, dtype=torch.float32, device=device) + rank
        got = torch.empty_like(mine)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after),
                                        dist.P2POp(dist.irecv, got, before)])
        for work in works:
            work.wait()
        assert torch.equal(got, torch.arange(n, dtype=torch.float32, device=device) + before)
        if size > 1:
            if rank % 2 == 0 and rank + 1 < size:
                dist.send(mine, rank + 1)
            elif rank % 2:
                dist.recv(got, rank - 1)
                assert torch.equal(got, mine - 1)


def check_graph():
    y = torch.zeros(4096, device=device)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        dist.all_reduce(y)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.add_(1)
        dist.all_reduce(y)
    y.fill_(rank)
    for _ in range(3):
        graph.replay()
    value = [float(r) for r in range(size)]
    for _ in range(3):
        value = [sum(v + 1 for v in value)] * size
    torch.cuda.synchronize()
    assert y[0].item() == value[0], (y[0].item(), value[0])


def losses(model, steps=6):
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    found = []
    for step in range(steps):
        made = torch.Generator().manual_seed(step)
        batch = torch.randn(size * 4, 64, generator=made).to(device)
        mine = batch[rank * 4:rank * 4 + 4]
        loss = model(mine).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole, op=dist.ReduceOp.AVG)
        found.append(whole.item())
    return found


def make_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(),
                               torch.nn.Linear(128, 32)).to(device)


def check_training():
    ddp = losses(DistributedDataParallel(make_model(), device_ids=[device.index]))
    from torch.distributed.fsdp import fully_shard
    sharded = losses(fully_shard(make_model()))
    assert all(abs(a - b) < 1e-5 * abs(a) for a, b in zip(ddp, sharded)), (ddp, sharded)
    assert ddp[-1] < ddp[0]
    return ddp


def check_groups():
    even = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        y = torch.ones(3, device=device)
        dist.all_reduce(y, group=even)
        assert y[0].item() == (size + 1) // 2


def cost(call, calls=200):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    spent = (time.perf_counter() - begun) / calls * 1e6
    torch.cuda.synchronize()
    return spent


check_collectives()
check_messages()
check_graph()
found = check_training()
check_groups()
if rank == 0:
    print(f"{size} ranks on {torch.cuda.device_count()} GPUs, torch {torch.__version__}: "
          f"init_process_group {started - begun:.2f} s, first all_reduce {first:.3f} s")
y = torch.zeros(256, device=device)
spent = cost(lambda: dist.all_reduce(y))
if rank == 0:
    print(f"losses {found[0]:.6f} ... {found[-1]:.6f}; host time of an all_reduce of 1 KiB by "
          f"torch {spent:.1f} us")
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank} of {size}: ok", flush=True)
