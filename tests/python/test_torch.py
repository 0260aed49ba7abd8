# SPDX-License-Identifier: Apache-2.0
"""torch's CPU tensors: they share the memory of arrays, and are sources and destinations.
tests/gpu/python.py has those of GPUs."""

import gc

import pytest

import weft
from test_arrays import at_pes

torch = pytest.importorskip("torch")

TYPES = {"bool": torch.bool, "u1": torch.uint8, "i1": torch.int8, "i2": torch.int16,
         "i4": torch.int32, "i8": torch.int64, "f2": torch.float16, "bfloat16": torch.bfloat16,
         "f4": torch.float32, "f8": torch.float64, "c8": torch.complex64, "c16": torch.complex128}


@pytest.mark.parametrize("name", TYPES)
def test_memory_is_shared(name):
    def at_pe(job):
        other = 1 - job.rank
        x, y = job.zeros((2, 3), name), job.zeros((2, 3), name)
        tensors = [x.torch()]
        if name != "bool":  # numpy 1.24 gives no capsule of bool
            tensors.append(torch.from_dlpack(x))
        for tensor in tensors:
            assert tensor.dtype == TYPES[name] and tuple(tensor.shape) == (2, 3)
            assert tensor.data_ptr() == x.address
        tensor[1, 2] = tensor[0, 0] = job.rank + 1
        job.barrier()
        job.put(y, x, to=other)
        job.barrier()
        want = torch.zeros(2, 3, dtype=TYPES[name])
        want[1, 2] = want[0, 0] = other + 1
        assert torch.equal(y.torch(), want)

    weft.spawn(at_pe, 2)


@pytest.mark.parametrize("name", TYPES)
def test_tensors_of_torch_are_sources_and_destinations(name):
    def at_pe(job):
        other = 1 - job.rank
        values = torch.tensor([[0, 1, 1], [1, 0, job.rank]]).to(TYPES[name])
        x, back = job.zeros((2, 3), name), torch.zeros(2, 3, dtype=TYPES[name])
        job.put(x, values, to=other)
        job.barrier()
        job.get(back, x, of=other)
        assert torch.equal(back, values)
        part = values[1:, :2]
        job.barrier()
        job.put(x[0, :2], part, to=other)
        job.barrier()
        assert torch.equal(x.torch()[0, :2], part[0])
        made = job.asarray(values)
        assert made.dtype == x.dtype and torch.equal(made.torch(), values)

    weft.spawn(at_pe, 2)


@at_pes(3)
def test_collectives_of_tensors(job):
    x = job.zeros((4, 5), "f4").torch()
    x += torch.arange(20.0).reshape(4, 5) + job.rank
    job.allreduce(x, x)
    assert torch.equal(x, 3 * torch.arange(20.0).reshape(4, 5) + 3)
    ranks = job.zeros(3, "i8").torch()
    mine = job.full(1, 7 * job.rank, "i8").torch()
    job.allgather(ranks, mine)
    assert ranks.tolist() == [0, 7, 14]
    if job.rank == 1:
        mine[0] = -5
    job.broadcast(mine, mine, root=1)
    assert mine.tolist() == [-5]
    # Slices of a tensor are symmetric as the whole is.
    job.barrier()
    job.put(ranks[1:2], mine, to=(job.rank + 1) % 3)
    job.barrier()
    assert ranks.tolist() == [0, -5, 14]


@at_pes(2)
def test_gradients(job):
    # A parameter in symmetric memory, whose gradient is averaged in place.
    weights = torch.nn.Parameter(job.full((3, 2), 0.5, "f4").torch())
    sums = job.zeros((3, 2), "f4").torch()
    inputs = torch.tensor([[1.0, 2.0, 3.0]]) * (job.rank + 1)
    (inputs @ weights).sum().backward()
    job.allreduce(sums, job.asarray(weights.grad), "avg")
    assert torch.equal(sums, torch.tensor([[1.5], [3.0], [4.5]]).expand(3, 2))
    with torch.no_grad():
        weights -= sums
    job.barrier()
    assert job.g(weights.detach()[2, 1:], of=1 - job.rank) == -4.0


@at_pes(2)
def test_a_tensor_keeps_the_memory(job):
    tensor = job.full(1000, 3.0, "f8").torch()
    gc.collect()
    for _ in range(300):
        job.full(1000, 9.0, "f8")
    assert tensor.tolist() == [3.0] * 1000


@at_pes(2)
def test_what_is_refused(job):
    x = job.zeros((4, 4), "f4")
    with pytest.raises(weft.NotSymmetric, match="torch.Tensor of shape \\(4, 4\\) is not symm"):
        job.put(torch.zeros(4, 4), x, to=0)
    with pytest.raises(weft.InvalidArgument, match="contiguous"):
        job.put(x, torch.zeros(4, 4).t()[:, 1:], to=0)
    with pytest.raises(weft.InvalidType):
        job.allreduce(x, job.zeros((4, 4), "f8").torch())


@pytest.mark.parametrize("name", ["bfloat16", "f2", "f4"])
def test_experts(name):
    def at_pe(job):
        x = (torch.arange(24.0).reshape(3, 8) - 7 * job.rank).to(TYPES[name])
        idx = torch.tensor([[0, 2], [1, -1], [2, 1]])
        with job.experts(3, 8, 3, 2, dtype=name) as experts:
            rows = experts.dispatch(x, idx, torch.full((3, 2), 0.5))
            assert rows.x.dtype == TYPES[name] and rows.topk_idx.dtype == torch.int64
            assert rows.n == (2 if job.rank == 0 else 6)
            y = experts.combine(rows.x * rows.topk_weights.sum(1, keepdim=True).to(x.dtype), rows)
            assert torch.equal(y, x * torch.tensor([[1], [0.5], [1]]).to(x.dtype))

    weft.spawn(at_pe, 2)
