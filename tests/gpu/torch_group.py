# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Weft with GPU tensors: collectives, messages, DistributedDataParallel,
fully_shard, pipelines and functional collectives. Not a test of the build: it needs a GPU and
torch 2.

    torchrun --nproc_per_node 2 tests/gpu/torch_group.py     # ranks may share a GPU
"""

import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import weft
import weft.torch

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

# Messages on streams: of a group that is made once each rank has chosen its GPU.
group = dist.new_group(list(range(size)))
on_streams = group._stream_messages is not None
slot = group._stream_messages.slot_bytes if on_streams else 1 << 20
assert on_streams == group._streams.usable[torch.cuda.current_device()]


def message(sender, turn, count, kind=torch.int32):
    made = torch.Generator("cuda").manual_seed(1000 * sender + turn)
    return torch.randint(-100, 100, (count,), device="cuda", generator=made).to(kind)


if size > 1:
    # Any size and type; to the next rank from the one before, and to itself over all others.
    for turn, count in enumerate((0, 1, 7, 1000, slot // 4 - 1, slot // 4, slot // 4 + 1, slot,
                                  3 * slot)):
        for kind in (torch.int32, torch.bfloat16, torch.bool):
            got = torch.zeros(count, dtype=kind, device="cuda")
            given = dist.isend(message(rank, turn, count, kind), right, group=group)
            dist.recv(got, left, group=group)
            given.wait()
            assert torch.equal(got, message(left, turn, count, kind)), (turn, count, kind)
    # Large ones in both directions, more than fit the slots, of which the receives come late.
    for peer in range(size):
        if peer != rank:
            dist.isend(message(rank, peer, 2 * slot + 5), peer, group=group)
    for peer in reversed(range(size)):
        if peer != rank:
            got = torch.zeros(2 * slot + 5, dtype=torch.int32, device="cuda")
            work = dist.irecv(got, peer, group=group)
            work.wait()
            assert torch.equal(got, message(peer, rank, 2 * slot + 5)), peer
    # Many at once in the order of the calls; parts of tensors; the source is changed by later work.
    source, gots, works = message(rank, 0, 4000), [], []
    for turn in range(100):
        works.append(dist.isend(source[turn::3], right, group=group))
        gots.append(torch.zeros(2, source[turn::3].numel(), dtype=torch.int32, device="cuda"))
        works.append(dist.irecv(gots[-1].t()[:, 1], left, group=group))
        works[-2].wait()
        source += 1
    for turn, got in enumerate(gots):
        works[2 * turn + 1].wait()
        assert torch.equal(got[1], message(left, 0, 4000)[turn::3] + turn) and not got[0].any()
    # Messages of CPU tensors of the same group, between them.
    for turn in range(3):
        cpu, gpu = torch.zeros(5), torch.zeros(5, device="cuda")
        sent = torch.full((5,), float(rank + turn))
        works = [dist.isend(sent + 0.5, right, group=group),
                 dist.isend(sent.cuda(), right, group=group)]
        dist.recv(gpu, left, group=group)
        dist.recv(cpu, left, group=group)
        assert (gpu == left + turn).all() and (cpu == left + turn + 0.5).all()
        for work in works:
            work.wait()
    # By tags, in another order; from any rank.
    works = [dist.isend(tensor(rank, tag), right, group=group, tag=tag) for tag in (5, 6, 7)]
    for tag in (6, 5):
        got = tensor(0, 0)
        dist.recv(got, left, group=group, tag=tag)
        assert torch.equal(got, tensor(left, tag))
    assert dist.recv(got, group=group, tag=7) == left and torch.equal(got, tensor(left, 7))
    for work in works:
        work.wait()
if size > 1 and on_streams:
    # In a graph, which is replayed with other values, between other messages.
    source, got = message(rank, 0, 1000), torch.zeros(1000, dtype=torch.int32, device="cuda")

    def exchange():
        for work in [dist.isend(source, right, group=group), dist.irecv(got, left, group=group)]:
            work.wait()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        exchange()
    for turn in range(10):
        source.copy_(message(rank, turn, 1000))
        if turn % 3:
            graph.replay()
        else:
            exchange()
        assert torch.equal(got, message(left, turn, 1000)), turn
if on_streams:
    for words, call in (("from any rank", lambda: dist.recv(tensor(0), group=group)),
                        ("rank", lambda: dist.recv(tensor(0), rank, group=group))):
        try:
            call()
        except (weft.WeftError, ValueError, RuntimeError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
if size > 1:
    # Half a round trip of the first two ranks; then one way, the host as fast as it can.
    for way, count, rounds in [(way, count, rounds) for way in (dist.group.WORLD, group)
                               for count, rounds in ((1, 100), (1 << 18, 20), (16 << 20, 5))]:
        if rank > 1:
            break
        x = torch.ones(count, device="cuda")
        times = []
        for _ in range(5):
            torch.cuda.synchronize()
            begun_s = time.perf_counter()
            for _ in range(rounds):
                for sender in (0, 1):
                    if rank == sender:
                        dist.send(x, 1 - rank, group=way)
                    else:
                        dist.recv(x, 1 - rank, group=way)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begun_s) / rounds / 2 * 1e6)
        if rank == 0:
            print(f"message of {4 * count} bytes: {sorted(times)[2]:.1f} us, on streams: "
                  f"{way._stream_messages is not None}")
    dist.barrier()
del group

# Parts of different sizes, one rank's tensors, and tensors that are not contiguous.
send = [rank * 2 + peer + 1 for peer in range(size)]
take = [peer * 2 + rank + 1 for peer in range(size)]
source = torch.arange(sum(send) * 3, device="cuda").view(-1, 3) + rank * 1000
want = []
for peer in range(size):
    theirs = [peer * 2 + to + 1 for to in range(size)]
    whole = torch.arange(sum(theirs) * 3, device="cuda").view(-1, 3) + peer * 1000
    want.append(whole[sum(theirs[:rank]):][:theirs[rank]])
out = torch.zeros(sum(take), 3, dtype=torch.int64, device="cuda")
dist.all_to_all_single(out, source, take, send)
assert torch.equal(out, torch.cat(want))
outs = [torch.zeros_like(part) for part in want]
dist.all_to_all(outs, list(torch.split(source, send)))
assert all(torch.equal(a, b) for a, b in zip(outs, want))
outs = [torch.zeros(peer + 1, device="cuda") for peer in range(size)]
dist.all_gather(outs, torch.full((rank + 1,), float(rank), device="cuda"))
assert all((out == peer).all() and out.numel() == peer + 1 for peer, out in enumerate(outs))
for root in range(size):
    outs = [tensor(0, 0) for _ in range(size)] if rank == root else None
    dist.gather(tensor(rank, root), outs, root)
    assert rank != root or all(torch.equal(out, tensor(peer, root))
                               for peer, out in enumerate(outs))
    parts = [tensor(root, peer) for peer in range(size)] if rank == root else None
    out = tensor(0, 0)
    dist.scatter(out, parts, root)
    assert torch.equal(out, tensor(root, rank))
wide = torch.zeros(6, 4, device="cuda")
wide.t()[1:3] = float(rank + 1)
dist.all_reduce(wide.t()[1:3])
assert wide[:, 1:3].eq(size * (size + 1) / 2).all() and wide[:, ::3].eq(0).all()
x = tensor(2, 4)
dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5 + rank))
assert torch.equal(x, tensor(2, 4) * sum(0.5 + peer for peer in range(size)))

# Collectives that the program does not wait for, next to kernels, and each after the one before.
group = dist.distributed_c10d._get_default_group()
for turn in range(20):
    xs = [torch.full((1 << 16 + turn % 3,), float(rank + turn), device="cuda") for _ in range(3)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    y = tensor(rank, turn)
    dist.all_reduce(y)
    assert torch.equal(y, tensor(sum(range(size)), turn * size))
    for x, work in zip(xs, works):
        work.wait()
        assert (x == sum(peer + turn for peer in range(size))).all()
    future = dist.all_gather(outs := [tensor(0) for _ in range(size)], tensor(rank + turn),
                             async_op=True).get_future()
    assert [out.item() for out in future.wait()[0]] == [peer + turn for peer in range(size)]


# A graph with collectives on the captured stream and on the group's, replayed with other values.
def step(x, y, z):
    dist.all_reduce(x)
    work = dist.all_reduce(y, async_op=True)
    z.mul_(2)
    work.wait()
    dist.all_to_all_single(out, source, take, send)
    return x + y + z


x, y, z = tensor(0), tensor(0), tensor(0)
out = torch.zeros(sum(take), 3, dtype=torch.int64, device="cuda")
for _ in range(2):
    step(x, y, z)
torch.cuda.synchronize()
dist.barrier()
if group._streams.usable[torch.cuda.current_device()]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = step(x, y, z)
    for turn in range(5):
        x.fill_(rank + turn)
        y.fill_(turn)
        z.fill_(rank)
        source.add_(1)
        out.zero_()
        graph.replay()
        assert total.item() == sum(peer + turn for peer in range(size)) + turn * size + 2 * rank
        assert torch.equal(out, torch.cat(want) + turn + 1)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    dist.barrier()

# Pipeline parallelism: the gradients of a layer are those of the whole model at one rank.
torch.manual_seed(3)
layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()).cuda() for _ in range(size)]
batch = torch.randn(16, 64, device="cuda")
for kind in (ScheduleGPipe, Schedule1F1B) if size > 1 else ():
    whole = torch.nn.Sequential(*layers)
    whole.zero_grad()
    stage = PipelineStage(layers[rank], rank, size, batch.device, group=dist.new_group())
    schedule = kind(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    schedule.step(*([batch] if rank == 0 else []),
                  target=torch.ones_like(batch) if rank == size - 1 else None)
    gradient = layers[rank][0].weight.grad.clone()
    whole.zero_grad()
    torch.nn.functional.mse_loss(whole(batch), torch.ones_like(batch)).backward()
    assert torch.allclose(gradient, layers[rank][0].weight.grad, rtol=1e-4, atol=1e-7), kind

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
on_gpu = group._streams.usable
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
calls = {"all_reduce": lambda: dist.all_reduce(small),
         "all_reduce, async_op": lambda: dist.all_reduce(small, async_op=True).wait()}
small = torch.ones(64, device="cuda")
for words, call in calls.items():
    torch.cuda.synchronize()
    dist.barrier()
    begun_s = time.perf_counter()
    for _ in range(200):
        call()
    spent = time.perf_counter() - begun_s
    torch.cuda.synchronize()
    if rank == 0:
        print(f"{words}: {spent * 5000:.1f} us of the host's time")
dist.barrier()
print(f"rank {rank} of {size}: ok", flush=True)
dist.destroy_process_group()
