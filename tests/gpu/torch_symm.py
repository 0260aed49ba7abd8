# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory with CUDA tensors: weft.torch.symm, and Weft as the backend "WEFT" of torch's
own symmetric memory. Not a test of the build: it needs a GPU, torch 2.11, g++ and ninja.

    torchrun --nproc-per-node 2 tests/gpu/torch_symm.py     # ranks may share a GPU
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

import weft
import weft.torch  # noqa: F401
import weft.torch.symm as symm

dist.init_process_group("weft")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
right, left = (rank + 1) % size, (rank - 1) % size
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # ninja
if rank == 0:  # one rank compiles, the others find the result
    symm.register()
dist.barrier()
symm.register()


def words_at(address, count):
    """Returns 64-bit words of GPU memory."""
    class Words:
        __cuda_array_interface__ = {"version": 3, "shape": (count,), "typestr": "<i8",
                                    "data": (address, False), "strides": None}

    return torch.as_tensor(Words(), device="cuda").tolist()


def check(x, handle):
    """Checks a handle of weft.torch.symm or of torch over `x`, 1000 elements of float32."""
    assert (handle.rank, handle.world_size, handle.device) == (rank, size, x.device)
    assert handle.buffer_size >= 4000 and handle.multicast_ptr == 0
    assert handle.buffer_ptrs[rank] + handle.offset == x.data_ptr() and all(handle.buffer_ptrs)
    assert words_at(handle.buffer_ptrs_dev, size) == handle.buffer_ptrs
    assert words_at(handle.signal_pad_ptrs_dev, size) == handle.signal_pad_ptrs
    pad = handle.get_signal_pad(rank, dtype=torch.int32)
    assert pad.device == x.device and not pad.any()
    handle.barrier()
    # Loads and stores between ranks.
    x.fill_(rank)
    handle.barrier()
    for peer in range(size):
        theirs = handle.get_buffer(peer, (1000,), x.dtype)
        assert theirs.device == x.device and (theirs == peer).all()
        assert (handle.get_remote_tensor(peer, (10, 100), x.dtype) == peer).all()
        assert handle.get_buffer(peer, (5,), x.dtype, 995).tolist() == [peer] * 5
    handle.barrier(channel=1)
    handle.get_buffer(right, (1000,), x.dtype).fill_(100 + rank)
    handle.get_signal_pad(right, (1,), torch.int32, 9).fill_(7 + rank)
    handle.barrier(channel=1)
    assert (x == 100 + left).all() and pad[9].item() == 7 + left
    pad[9] = 0
    handle.barrier()
    # Signals in the order of a stream: the host waits for nothing.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    seen = torch.zeros(50, device="cuda")
    with torch.cuda.stream(stream):
        for turn in range(50):
            handle.get_buffer(right, (1000,), x.dtype).fill_(turn)
            handle.put_signal(right, channel=2)
            handle.wait_signal(left, channel=2)
            seen[turn] = x[999]
            handle.put_signal(left, channel=3)
            handle.wait_signal(right, channel=3)
    stream.synchronize()
    assert seen.tolist() == list(range(50))
    # The same signals in a graph, which is replayed.
    count, graph = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    dist.barrier()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        handle.get_buffer(right, (1,), x.dtype).copy_(count)
        handle.barrier(channel=4)
        count.copy_(x[:1] + 1)
        handle.barrier(channel=4)
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    assert count.item() == 5
    handle.barrier()
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    for _ in range(100):
        handle.barrier()
    ended.record()
    torch.cuda.synchronize()
    return begun.elapsed_time(ended) * 10


# weft.torch.symm
x = symm.empty(1000, dtype=torch.float32, device="cuda")
handle = symm.rendezvous(x)
barrier = check(x, handle)
handle.put(right, torch.full((10,), 50.0 + rank, device="cuda"), 20)
handle.barrier()
assert x[20:30].tolist() == [50 + left] * 10
got = torch.zeros(10, device="cuda")
handle.get(right, got, 20)
assert got.tolist() == [50 + rank] * 10
handle.barrier()
try:
    handle.barrier(timeout_ms=5)
    raise AssertionError("timeout_ms of a CUDA tensor")
except weft.Unsupported:
    pass
group = dist.new_group(sorted({0, size - 1}))
if rank in (0, size - 1):
    y = symm.empty(64, dtype=torch.bfloat16, device="cuda")
    sub = symm.rendezvous(y, group)
    y.fill_(rank)
    sub.barrier()
    assert (sub.get_buffer(sub.world_size - 1, (64,), y.dtype) == size - 1).all()
    sub.barrier()
    torch.cuda.synchronize()
dist.barrier()

# torch's names
symm_mem.set_backend("WEFT")
assert symm_mem.get_backend("cuda") == symm_mem.get_backend("cpu") == "WEFT"
z = symm_mem.empty(1000, dtype=torch.float32, device=x.device)
torch_handle = symm_mem.rendezvous(z, dist.group.WORLD)
torch_barrier = check(z, torch_handle)
name = dist.group.WORLD.group_name
notes = []
want = torch.arange(1000.0, device="cuda") * size + size * (size - 1) // 2
for operation in ("one_shot_all_reduce", "two_shot_all_reduce_"):
    z.copy_(torch.arange(1000.0, device="cuda") + rank)
    torch.cuda.synchronize()
    dist.barrier()
    try:
        result = getattr(torch.ops.symm_mem, operation)(z, "sum", name)
        torch.cuda.synchronize()
    except RuntimeError as error:
        notes.append(f"{operation}: {str(error).splitlines()[0]}")
        continue
    assert torch.equal(result, want), operation
    notes.append(f"{operation}: ok")
torch.cuda.synchronize()
dist.barrier()
# Tensors of torch's memory pool for symmetric memory.
try:
    with torch.cuda.use_mem_pool(symm_mem.get_mem_pool(x.device)):
        pooled = torch.full((500,), float(rank), device="cuda")
    pool_handle = symm_mem.rendezvous(pooled, dist.group.WORLD)
    pool_handle.barrier()
    assert (pool_handle.get_remote_tensor(right, (500,), pooled.dtype) == right).all()
    pool_handle.barrier()
    torch.cuda.synchronize()
    notes.append("get_mem_pool: ok")
except RuntimeError as error:
    notes.append(f"get_mem_pool: {str(error).splitlines()[0]}")
dist.barrier()
if rank == 0:
    print(f"barrier: {barrier:.1f} us, by torch's handle {torch_barrier:.1f} us; "
          f"{'; '.join(notes)}", flush=True)
torch.cuda.synchronize()
dist.barrier()
print(f"rank {rank} of {size}: ok", flush=True)
dist.destroy_process_group()
