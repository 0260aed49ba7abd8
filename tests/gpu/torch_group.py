# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Weft with GPU tensors: collectives, messages, DistributedDataParallel,
fully_shard and functional collectives. Not a test of the build: it needs a GPU and torch 2.

    torchrun --nproc-per-node 2 tests/gpu/torch_group.py     # ranks may share a GPU
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import weft.torch  # noqa: F401

dist.init_process_group("weft")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
right, left = (rank + 1) % size, (rank - 1) % size


def tensor(*numbers):
    return torch.tensor(numbers, dtype=torch.float32, device="cuda")


x = tensor(1, 2) * (rank + 1)
dist.all_reduce(x)
assert torch.equal(x, tensor(1, 2) * size * (size + 1) / 2)
outs = [tensor(0, 0) for _ in range(size)]
dist.all_gather(outs, tensor(rank, 7))
assert all(torch.equal(out, tensor(peer, 7)) for peer, out in enumerate(outs))
flat = torch.zeros(2 * size, device="cuda")
dist.all_gather_into_tensor(flat, tensor(rank, 7))
assert torch.equal(flat, torch.cat(outs))
out = torch.zeros(2, device="cuda")
dist.reduce_scatter_tensor(out, torch.arange(2.0 * size, device="cuda"))
assert torch.equal(out, tensor(2 * rank, 2 * rank + 1) * size)
for name in ("int8", "int64", "float16", "bfloat16", "float64", "bool"):
    for count in (1, 1001, 1 << 20):
        kind = getattr(torch, name)
        parts = [torch.randint(0, 2, (size * count,), device="cuda",
                               generator=torch.Generator("cuda").manual_seed(peer)).to(kind)
                 for peer in range(size)]
        total = sum(part.to(torch.int64) for part in parts)
        mine = parts[rank].clone()
        dist.broadcast(mine, size - 1)
        assert torch.equal(mine, parts[size - 1])
        out = torch.empty_like(mine)
        dist.all_to_all_single(out, parts[rank])
        assert torch.equal(out, torch.cat([part[rank * count:][:count] for part in parts]))
        if name == "bool":
            continue
        mine = parts[rank].clone()
        dist.all_reduce(mine)
        assert torch.equal(mine, total.to(kind))
        mine = parts[rank].clone()
        dist.reduce(mine, 0)
        assert torch.equal(mine, total.to(kind) if rank == 0 else parts[rank])
        out = torch.empty(count, dtype=kind, device="cuda")
        dist.reduce_scatter(out, list(parts[rank].view(size, count)))
        assert torch.equal(out, total.to(kind)[rank * count:][:count])
for members in ([0], list(range(size))):
    group = dist.new_group(members)
    if rank in members:
        x = tensor(rank, 1)
        with torch.cuda.stream(torch.cuda.Stream()):
            dist.all_reduce(x, group=group)
            assert torch.equal(x, tensor(sum(members), len(members)))
if size > 1:
    y = torch.zeros(100000, device="cuda")
    for work in dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((100000,), float(rank), device="cuda"), right),
            dist.P2POp(dist.irecv, y, left)]):
        work.wait()
    assert (y == left).all()

torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8).cuda())
model(torch.randn(4, 64, device="cuda") * (rank + 1)).sum().backward()
gradients = [torch.zeros_like(model.module.weight) for _ in range(size)]
dist.all_gather(gradients, model.module.weight.grad)
assert all(torch.equal(gradients[0], gradient) for gradient in gradients)

net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).cuda()
fully_shard(net, mesh=init_device_mesh("cuda", (size,)))
net(torch.randn(4, 64, device="cuda")).sum().backward()
assert functional.all_reduce(tensor(1, 1), "sum", dist.group.WORLD).sum().item() == 2 * size
on_gpu = dist.distributed_c10d._get_default_group()._on_gpu
for count in (1, 16384, 4 << 20):
    x = torch.ones(count, device="cuda")
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.all_reduce(x)
    begun.record()
    for _ in range(20):
        dist.all_reduce(x)
    ended.record()
    torch.cuda.synchronize()
    if rank == 0:
        print(f"all_reduce of {4 * count} bytes: {begun.elapsed_time(ended) * 50:.1f} us, "
              f"on streams of GPUs {on_gpu}")
dist.barrier()
print(f"rank {rank} of {size}: ok", flush=True)
dist.destroy_process_group()
