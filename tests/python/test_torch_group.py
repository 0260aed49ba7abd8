# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backend "weft", CPU tensors, compared with loops over all ranks."""

import ctypes
import datetime
import gc
import os
import random
import signal
import time
import types

import pytest

import weft

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

import weft.torch  # noqa: E402

REDUCED = ["int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
MOVED = REDUCED + ["bool", "complex64", "complex128"]
# None, one element, an odd number, more than a buffer.
SIZES = [0, 1, 77, 3 << 20]


def at_ranks(size, tmp_path, body, *arguments):
    """Runs body(rank, size) in processes that have made the group."""
    store = tmp_path / f"store{random.random()}"

    def at_pe(job):
        torch.set_num_threads(1)
        dist.init_process_group("weft", init_method=f"file://{store}", rank=job.rank,
                                world_size=size)
        result = body(job.rank, size, *arguments)
        dist.barrier()
        dist.destroy_process_group()
        return result

    return weft.spawn(at_pe, size)


def values(rank, count, name, seed=0):
    """Small numbers, of which sums and products are exact."""
    made = torch.Generator().manual_seed(seed * 100 + rank)
    numbers = torch.randint(0, 3, (count,), generator=made)
    return numbers.to(getattr(torch, name))


def reduced(operation, parts):
    result = parts[0].clone()
    for part in parts[1:]:
        result = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum,
                  "MAX": torch.maximum, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or,
                  "BXOR": torch.bitwise_xor}[operation](result, part)
    return result


def operations_of(name):
    exact = ["SUM", "PRODUCT", "MIN", "MAX"]
    return exact if "float" in name else exact + ["BAND", "BOR", "BXOR"]


def reductions(rank, size):
    for name in REDUCED:
        for count in SIZES if name in ("int32", "float32") else SIZES[1:3]:
            parts = [values(peer, count * size, name) for peer in range(size)]
            for operation in operations_of(name) if count < 100 else ["SUM"]:
                op = getattr(dist.ReduceOp, operation)
                want = reduced(operation, parts)
                x = parts[rank].clone()
                dist.all_reduce(x, op=op)
                assert torch.equal(x, want), (name, count, operation)
                x = parts[rank].clone()
                dist.reduce(x, size - 1, op=op)
                assert torch.equal(x, want if rank == size - 1 else parts[rank])
                out = torch.empty(count, dtype=want.dtype)
                dist.reduce_scatter(out, list(parts[rank].view(size, count)), op=op)
                assert torch.equal(out, want.view(size, count)[rank])
                dist._reduce_scatter_base(out.zero_(), parts[rank], op=op)
                assert torch.equal(out, want.view(size, count)[rank])
    x = torch.tensor([1.0, 2.0]) * (rank + 1)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert torch.equal(x, torch.tensor([1.0, 2.0]) * (size + 1) / 2)


@pytest.mark.parametrize("size", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_reductions(tmp_path, size):
    at_ranks(size, tmp_path, reductions)


def moves(rank, size):
    root = size - 1
    for name in MOVED:
        for count in SIZES if name in ("bool", "float32") else SIZES[1:3]:
            parts = [values(peer, count, name, 1) for peer in range(size)]
            mine = parts[rank]
            x = mine.clone()
            dist.broadcast(x, root)
            assert torch.equal(x, parts[root])
            outs = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(outs, mine)
            assert all(torch.equal(a, b) for a, b in zip(outs, parts))
            flat = torch.empty(count * size, dtype=mine.dtype)
            dist._all_gather_base(flat, mine)
            assert torch.equal(flat, torch.cat(parts))
            outs = [torch.empty_like(mine) for _ in range(size)] if rank == root else None
            dist.gather(mine, outs, root)
            assert rank != root or all(torch.equal(a, b) for a, b in zip(outs, parts))
            x = torch.empty_like(mine)
            dist.scatter(x, parts if rank == root else None, root)
            assert torch.equal(x, mine)
            out = torch.empty(count * size, dtype=mine.dtype)
            dist.all_to_all_single(out, torch.cat([mine] * size))
            assert torch.equal(out, torch.cat(parts))
    # Ranks that do not wait for each other: one that is late gets what was meant for it.
    for late in range(size):
        for turn in range(6):
            if rank == late and turn == 0:
                time.sleep(0.02)
            x = torch.full((1000,), turn if rank == root else -1)
            dist.broadcast(x, root)
            assert (x == turn).all(), (late, turn)
        for turn in range(6):
            if rank == late and turn == 0:
                time.sleep(0.02)
            outs = [torch.empty(1000, dtype=torch.int64) for _ in range(size)]
            dist.gather(torch.full((1000,), turn), outs if rank == root else None, root)
            assert rank != root or all((out == turn).all() for out in outs), (late, turn)
    group = dist.distributed_c10d._get_default_group()
    pair = [torch.full((2,), rank), torch.full((3, 1), rank + 0.5)]
    lists = [[torch.zeros_like(x) for x in pair] for _ in range(size)]
    group.allgather_coalesced(lists, pair)
    assert all(a.eq(peer).all() and b.eq(peer + 0.5).all() for peer, (a, b) in enumerate(lists))
    outs = [torch.zeros(2 * size, dtype=torch.int64), torch.zeros(3 * size, 1)]
    group.allgather_into_tensor_coalesced(outs, pair)
    assert outs[0].tolist() == [peer for peer in range(size) for _ in range(2)]
    assert outs[1].view(size, 3)[:, 0].tolist() == [peer + 0.5 for peer in range(size)]
    # Uneven: rank r gets r + 2 * s + 1 rows of rank s.
    send = [rank * 2 + peer + 1 for peer in range(size)]
    take = [peer * 2 + rank + 1 for peer in range(size)]
    source = torch.arange(sum(send) * 3).view(-1, 3) + rank * 1000
    out = torch.zeros(sum(take), 3, dtype=torch.int64)
    dist.all_to_all_single(out, source, take, send)
    want = []
    for peer in range(size):
        theirs = [peer * 2 + to + 1 for to in range(size)]
        begin = sum(theirs[:rank])
        whole = torch.arange(sum(theirs) * 3).view(-1, 3) + peer * 1000
        want.append(whole[begin:begin + theirs[rank]])
    assert torch.equal(out, torch.cat(want))
    outs = [torch.zeros_like(part) for part in want]
    dist.all_to_all(outs, list(torch.split(source, send)))
    assert all(torch.equal(a, b) for a, b in zip(outs, want))
    outs = [torch.zeros(peer + 1) for peer in range(size)]
    dist.all_gather(outs, torch.full((rank + 1,), float(rank)))
    assert all(torch.equal(outs[peer], torch.full((peer + 1,), float(peer)))
               for peer in range(size))
    # Tensors that are not contiguous, and objects.
    x = torch.zeros(6, 4)
    x.t()[1:3] = float(rank + 1)
    dist.all_reduce(x.t()[1:3])
    assert x[:, 1:3].eq(size * (size + 1) / 2).all() and x[:, ::3].eq(0).all()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "list": list(range(rank))})
    assert objects == [{"rank": peer, "list": list(range(peer))} for peer in range(size)]
    listed = [{"of": rank}, "x" * rank]
    dist.broadcast_object_list(listed, root)
    assert listed == [{"of": root}, "x" * root]


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_moves(tmp_path, size):
    at_ranks(size, tmp_path, moves)


def asynchronous(rank, size):
    # The call returns before the others have made theirs.
    if rank == 0:
        x = torch.ones(3)
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        for peer in range(1, size):
            dist.send(torch.ones(1), peer)
    else:
        dist.recv(torch.ones(1), 0)
        x = torch.full((3,), float(rank + 1))
        work = dist.all_reduce(x, async_op=True)
    assert work.wait() in (True, None) and work.is_completed() and work.is_success()
    assert work.wait() in (True, None) and work.exception() is None
    total = size * (size + 1) / 2
    assert (x == total).all() and work.result()[0] is x
    assert work.get_future().wait()[0] is x
    # In the order of the calls, waited for or dropped, also next to calls that wait.
    works, xs = [], []
    for step in range(30):
        xs.append(torch.full((1 + 40000 * (step % 3),), float(step * size + rank)))
        works.append(dist.all_reduce(xs[-1], async_op=True))
        if step % 7 == 3:
            y = torch.full((5,), float(step if rank == size - 1 else -1))
            dist.broadcast(y, size - 1)
            assert (y == step).all() and works[-1].is_completed()
        if step % 3 == 1:
            works[-1] = None
    later = dist.all_gather([torch.empty(2) for _ in range(size)], torch.ones(2) * rank,
                            async_op=True)
    seen = []
    done = later.get_future().then(lambda future: seen.append(future.value()) or 7)
    same = later.get_future().then(lambda future: 8)
    assert (done.wait(), same.wait()) == (7, 8)
    assert [out[0].item() for out in seen[0][0]] == list(range(size))
    for step, x in enumerate(xs):
        assert (x == sum(step * size + peer for peer in range(size))).all(), step
    for work in reversed([work for work in works if work is not None]):
        work.wait()
    assert dist.barrier(async_op=True).wait() in (True, None)


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 3])
def test_asynchronous(tmp_path, size):
    at_ranks(size, tmp_path, asynchronous)


def scaled(rank, size):
    """Sums of elements that each rank multiplies by its own factor first."""
    make = dist._make_nccl_premul_sum
    if torch.__version__ < "2":
        with pytest.raises(weft.InvalidOperation, match="does not tell a group the factor"):
            dist.all_reduce(torch.ones(2), op=make(0.5))
    for factor in (0.5 + rank, torch.tensor([0.5 + rank])) if torch.__version__ >= "2" else ():
        for name in ("float16", "float32", "float64"):
            kind = getattr(torch, name)
            parts = [torch.arange(4 * size).to(kind) + peer for peer in range(size)]
            want = sum(part * (0.5 + peer) for peer, part in enumerate(parts))
            x = parts[rank].clone()
            dist.all_reduce(x, op=make(factor))
            assert torch.equal(x, want.to(kind)), (name, x, want)
            out = torch.empty(4, dtype=kind)
            dist._reduce_scatter_base(out, parts[rank], op=make(factor))
            assert torch.equal(out, want.to(kind)[4 * rank:][:4])
            x = parts[rank].clone()
            dist.reduce(x, 0, op=make(factor))
            assert torch.equal(x, want.to(kind) if rank == 0 else parts[rank])
        with pytest.raises(weft.InvalidOperation, match="PREMUL_SUM of torch.int64"):
            dist.all_reduce(torch.ones(2, dtype=torch.int64), op=make(factor))
    flags = torch.tensor([rank == 0, True, False])
    for name, want in (("SUM", [True, True, False]), ("PRODUCT", [size == 1, True, False]),
                       ("BAND", [size == 1, True, False]), ("MAX", [True, True, False]),
                       ("BXOR", [True, size % 2 == 1, False])):
        x = flags.clone()
        dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
        assert x.view(torch.uint8).tolist() == want, name


@pytest.mark.parametrize("size", [1, 3])
def test_factors_and_flags(tmp_path, size):
    at_ranks(size, tmp_path, scaled)


def of_torch_2(rank, size):
    """What newer torch gives groups: coalesced operations and functional collectives."""
    import torch.distributed._functional_collectives as functional

    xs = [torch.full((step + 1,), float(rank + step)) for step in range(3)]
    with dist._coalescing_manager():
        for x in xs:
            dist.all_reduce(x)
    assert all((x == sum(peer + step for peer in range(size))).all() for step, x in enumerate(xs))
    flats = [torch.empty(size * (step + 1)) for step in range(3)]
    with dist._coalescing_manager(async_ops=True) as both:
        for step, flat in enumerate(flats):
            dist.all_gather_into_tensor(flat, torch.full((step + 1,), float(rank)))
    both.wait()
    assert all(flat.view(size, -1)[peer].eq(peer).all() for flat in flats for peer in range(size))
    world = dist.group.WORLD
    for tensor, values in [
            (functional.all_reduce(torch.ones(2), "sum", world), [size] * 2),
            (functional.all_gather_tensor(torch.tensor([rank]), 0, world), list(range(size))),
            (functional.reduce_scatter_tensor(torch.arange(2 * size), "sum", 0, world),
             [2 * rank * size, (2 * rank + 1) * size])]:
        assert (tensor + 0).tolist() == values

    # The compiler of torch 2.1 takes no groups but torch's own.
    members = world if torch.__version__ >= "2.5" else list(range(size))

    @torch.compile(backend="aot_eager")
    def compiled(x):
        return functional.all_reduce(x * 2, "sum", members) + 1

    assert compiled(torch.ones(3)).tolist() == [2 * size + 1] * 3


def late(rank, size):
    """The timeout of a group ends a collective that a member does not make."""
    group = dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=1.5))
    dist.all_reduce(torch.ones(1), group=group)
    begun = time.monotonic()
    if rank:
        with pytest.raises(weft.Timeout):
            dist.all_reduce(torch.ones(1), group=group)
        assert 1 < time.monotonic() - begun < 15
    dist.barrier()


def test_timeout(tmp_path):
    at_ranks(2, tmp_path, late)


def destroyed(rank, size):
    """Groups that are destroyed leave their memory, also where a member is late."""
    def mappings():
        gc.collect()
        return sum("/dev/zero" in line or "memfd" in line or "/dev/shm" in line
                   for line in open("/proc/self/maps"))

    counts = []
    for turn in range(size + 1):
        group = dist.new_group(list(range(size)))
        dist.all_reduce(torch.ones(3), group=group)
        if rank == turn % size:
            time.sleep(0.05)
        dist.destroy_process_group(group)
        if torch.__version__ < "2.11":
            del group  # torch 2.5 does not tell the group that it is destroyed
        dist.barrier()
        limit = time.monotonic() + 10
        while counts and mappings() > counts[0] and time.monotonic() < limit:
            time.sleep(0.01)
        counts.append(mappings())
    assert counts[-1] == counts[0] > 0, counts


def test_destroyed_groups(tmp_path):
    at_ranks(3, tmp_path, destroyed)


if torch.__version__ >= "2":
    def test_torch_2(tmp_path):
        at_ranks(2, tmp_path, of_torch_2)


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 1000, 1 << 20):  # the last one is larger than the ring
        x, y = torch.arange(count) * (rank + 1), torch.empty(count, dtype=torch.int64)
        sent = dist.isend(x, right)
        dist.recv(y, left)
        sent.wait()
        assert torch.equal(y, torch.arange(count) * (left + 1))
    # Each waits for its send first, and for a collective while a large message is on its way.
    x, y = torch.full((1 << 19,), rank), torch.empty(1 << 19, dtype=torch.int64)
    receive, send = dist.irecv(y, left), dist.isend(x, right)
    send.wait()
    receive.wait()
    assert (y == left).all()
    receive = dist.irecv(y, left, tag=1)
    send = dist.isend(x + 7, right, tag=1)
    if rank == 0:
        send.wait()
    dist.all_reduce(torch.ones(1))
    receive.wait()
    send.wait()
    assert (y == left + 7).all()
    # By tag, in another order than they were sent, and posted before and after they arrive.
    works = [dist.isend(torch.full((tag * 50000 + 1,), tag), right, tag=tag) for tag in range(6)]
    for tag in (3, 0, 5, 1, 4, 2):
        y = torch.zeros(tag * 50000 + 1, dtype=torch.int64)
        work = dist.irecv(y, left, tag=tag)
        work.wait()
        assert work.is_completed() and (y == tag).all()
    for work in works:
        work.wait()
    # Several receives of one tag match in order.
    ys = [torch.zeros(1) for _ in range(5)]
    works = [dist.irecv(y, left) for y in ys]
    for i in range(5):
        dist.send(torch.tensor([float(i)]), right)
    for i in (4, 0, 3, 1, 2):
        works[i].wait()
    assert [y.item() for y in ys] == [0, 1, 2, 3, 4]
    if rank:
        dist.send(torch.tensor([rank]), 0, tag=9)
    else:
        y, found = torch.zeros(1, dtype=torch.int64), []
        for _ in range(size - 1):
            source = dist.recv(y, tag=9)
            assert source == y.item()
            found.append(source)
        assert sorted(found) == list(range(1, size))
    # From any rank, behind messages of another tag from the same ranks.
    dist.barrier()
    if rank:
        dist.send(torch.tensor([-1]), 0, tag=1)
        dist.send(torch.tensor([rank]), 0, tag=2)
    else:
        y = torch.zeros(1, dtype=torch.int64)
        found = {dist.recv(y, tag=2): y.item() for _ in range(size - 1)}
        assert found == {peer: peer for peer in range(1, size)}
        for peer in range(1, size):
            dist.recv(y, peer, tag=1)
            assert y.item() == -1


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 3])
def test_messages(tmp_path, size):
    at_ranks(size, tmp_path, messages)


def schedule(rank, size, seed):
    """The same random operations at every rank, over groups that share members, with a rank that
    is late."""
    draw, draw_own, given = random.Random(seed), random.Random(seed * 9 + rank), []
    groups = [(list(range(size)), None)]
    for members in ([0, 1], [1, 2], [0, 2], [2]):
        groups.append((members, dist.new_group(members)))
    for step in range(150):
        members, group = draw.choice(groups)
        what, count = draw.randrange(5), draw.choice((1, 5, 2000, 300000))
        late = draw.randrange(size * 4)
        root = draw.choice(members)
        if rank not in members:
            continue
        if rank == late:
            time.sleep(0.002)
        mine, n = torch.full((count,), float(rank + step)), len(members)
        goes_on = draw_own.random() < 0.3  # not the same at every rank
        total = float(sum(peer + step for peer in members))
        if what == 0:
            given.append((dist.all_reduce(mine, group=group, async_op=goes_on), mine, total))
            if not goes_on:
                assert (mine == total).all()
        elif what == 1:
            dist.broadcast(mine, root, group=group)
            assert (mine == root + step).all()
        elif what == 2:
            outs = [torch.empty(count) for _ in members]
            dist.all_gather(outs, mine, group=group)
            assert all((out == peer + step).all() for out, peer in zip(outs, members))
        elif what == 3:
            outs = [torch.empty(count) for _ in members] if rank == root else None
            dist.gather(mine, outs, root, group=group)
            assert rank != root or all((out == peer + step).all()
                                       for out, peer in zip(outs, members))
        else:
            out = torch.empty(count * n)
            dist.all_to_all_single(out, mine.repeat(n), group=group)
            assert all((part == peer + step).all()
                       for part, peer in zip(out.view(n, count), members))
    for work, mine, total in given:
        if work is not None:
            work.wait()
        assert (mine == total).all()


@pytest.mark.parametrize("seed", [
    0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_random_schedule_of_several_groups(tmp_path, seed):
    at_ranks(3, tmp_path, schedule, seed)


def train(rank, size):
    """Returns the parameters after steps over the same batches, divided over the ranks."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(4):
        batch = torch.randn(8, 12, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(batch[rank * 8 // size:(rank + 1) * 8 // size]).pow(2).mean().backward()
        optimizer.step()
    return [parameter.tolist() for parameter in model.parameters()]


def test_ddp(tmp_path):
    alone, = at_ranks(1, tmp_path, train)
    first, second = at_ranks(2, tmp_path, train)
    assert first == second
    for mine, theirs in zip(alone, first):
        assert torch.allclose(torch.tensor(mine), torch.tensor(theirs), rtol=1e-5, atol=1e-7)


def bad_input(rank, size):
    def raises(kind, words, call, *arguments, **named):
        with pytest.raises(kind) as caught:
            call(*arguments, **named)
        assert words in str(caught.value), str(caught.value)

    x = torch.ones(4)
    group = dist.distributed_c10d._get_default_group()
    raises(weft.InvalidArgument, "a list of 1 tensors, and the group has 2 ranks",
           group.allgather, [[x]], [x])
    raises(weft.InvalidArgument, "tensors of torch.float32 and torch.int64", group.allgather,
           [[torch.ones(4, dtype=torch.int64), x]], [x])
    raises(weft.InvalidArgument, "all_gather_into_tensor: tensors of 4 and 4 elements",
           dist._all_gather_base, x.clone(), x)
    raises(weft.InvalidArgument, "splits [1, 1] of a tensor of 4 rows", dist.all_to_all_single,
           x.clone(), x, [1, 1], [2, 2])
    raises(weft.InvalidArgument, "3 rows are no 2 equal parts", dist.all_to_all_single,
           torch.ones(3), torch.ones(3))
    raises(weft.InvalidType, "torch.qint8", group.allreduce,
           [torch.quantize_per_tensor(x, 1.0, 0, torch.qint8)])
    dist.broadcast(x, 0)  # the group still works
    raises(weft.InvalidArgument, "send: rank 2; the group has ranks 0 to 1",
           group.send, [x], 2, 0)
    y = torch.zeros(2)
    if rank == 0:
        dist.send(x, 1)
    else:
        raises(weft.InvalidArgument, "rank 0 sent 16 bytes, and the tensor has 8", dist.recv, y, 0)


def test_bad_input(tmp_path):
    at_ranks(2, tmp_path, bad_input)


def differ(rank, size):
    dist.all_reduce(torch.ones(3))
    with pytest.raises(weft.Mismatch) as caught:
        dist.all_reduce(torch.ones(3 + rank))
    mine, theirs = f"allreduce(float32[{3 + rank}]", f"allreduce(float32[{4 - rank}]"
    assert "SUM" in str(caught.value)
    assert f"rank {rank} calls {mine}" in str(caught.value) and theirs in str(caught.value)


def test_members_that_differ(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    dist.set_debug_level_from_env()
    try:
        at_ranks(2, tmp_path, differ)
    finally:
        monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG")
        dist.set_debug_level_from_env()


def monitored(rank, size):
    group = dist.group.WORLD
    group.monitored_barrier()
    # Late ranks are named, all if they are asked for; then the group works as before.
    for late, everyone, words in (({2}, False, "rank 2 did not"), ({1, 3}, True, "ranks 1, 3 did"),
                                  ({1, 3}, False, "rank 1 did not"), ({0}, False, "")):
        x = torch.ones(1)
        work = dist.irecv(x, (rank - 1) % size)  # of the program, in between
        if rank in late:
            time.sleep(1.0)
        begun = time.monotonic()
        try:
            group.monitored_barrier(datetime.timedelta(seconds=0.4), everyone)
        except weft.Timeout as error:
            assert rank == 0 or f"rank 0 has not answered rank {rank} within 0.4 s" in str(error)
            assert rank > 0 or words in str(error) and "within 0.4 s" in str(error), error
            assert 0.3 < time.monotonic() - begun < 30
        else:
            assert 0 in late
        dist.barrier()
        dist.send(torch.full((1,), float(rank)), (rank + 1) % size)
        work.wait()
        assert x.item() == (rank - 1) % size
        group.monitored_barrier(datetime.timedelta(seconds=30))
    # None leaves before the last one has come.
    if rank == 2:
        time.sleep(0.3)
    begun = time.monotonic()
    group.monitored_barrier()
    assert rank == 2 or time.monotonic() - begun > 0.1


def test_monitored_barrier(tmp_path):
    at_ranks(4, tmp_path, monitored)


@pytest.mark.parametrize("goes_on", [False, True])
def test_rank_is_killed(tmp_path, goes_on):
    def body(rank, size):
        for step in range(10000):
            if rank == 1 and step == 50:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                work = dist.all_reduce(torch.ones(1000), async_op=goes_on)
                if work is not None:
                    work.wait()
            except weft.PeerDead as error:
                assert "PE 1" in str(error)
                os._exit(7)

    begun = time.monotonic()
    with pytest.raises(weft.PEsFailed) as caught:
        at_ranks(3, tmp_path, body)
    assert time.monotonic() - begun < 20
    assert "exited with status 7" in str(caught.value) and "signal 9" in str(caught.value)


# --------------------------------------------- messages of GPU tensors, on the driver's stand-in


class Driver:
    """What _stream_messages.py calls of torch.cuda, by the driver alone: torch's own streams need a
    GPU."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.current = self.stream_of()

    def call(self, name, *arguments):
        assert getattr(self.cuda, name)(*arguments) == 0, name

    def stream_of(self, gpu=0):
        made = types.SimpleNamespace(device=f"cuda:{gpu}")
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        made.cuda_stream = stream.value

        def record_event():
            event = ctypes.c_void_p()
            self.call("cuEventCreate", ctypes.byref(event), 2)
            self.call("cuEventRecord", event, stream)
            return event

        made.record_event = record_event
        made.wait_event = lambda event: self.call("cuStreamWaitEvent", stream, event, 0)
        made.wait_stream = lambda other: made.wait_event(other.record_event())
        made.synchronize = lambda: self.call("cuStreamSynchronize", stream)
        return made

    def graph_of(self, calls):
        """Returns a replay of what calls() gives to the current stream."""
        graph, made = ctypes.c_void_p(), ctypes.c_void_p()
        stream = ctypes.c_void_p(self.current.cuda_stream)
        self.call("cuStreamBeginCapture_v2", stream, 0)
        calls()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        return lambda: self.call("cuGraphLaunch", made, stream)


class Recorder:
    """Takes messages in place of those by streams, or of the host."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def check_peer(self, words, peer, tensors):
        return tensors[0]

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((self.name, name))


def routes(rank, size):
    """Which messages of GPU tensors go by streams."""
    group, calls, capturing = dist.group.WORLD, [], False
    torch.cuda.is_current_stream_capturing = lambda: capturing
    group._messages, group._stream_messages = Recorder("host", calls), Recorder("stream", calls)
    gpu, cpu = types.SimpleNamespace(is_cuda=True), torch.zeros(1)
    for tensor, tag, by in ((gpu, 0, "stream"), (gpu, 5, "host"), (cpu, 0, "host"),
                            (cpu, 5, "host")):
        group.send([tensor], 0, tag)
        group.recv([tensor], 0, tag)
        if by == "host":
            group.recv_anysource([tensor], tag)
        assert calls == [(by, "send"), (by, "recv"), ("host", "recv_anysource")][:len(calls)]
        assert len(calls) == 2 + (by == "host")
        calls.clear()
    with pytest.raises(weft.Unsupported, match="from any rank without a tag"):
        group.recv_anysource([gpu], 0)
    capturing = True
    group.send([gpu], 0, 0)
    for words, call in (("send with tag 5 in a CUDA graph", lambda: group.send([gpu], 0, 5)),
                        ("recv with tag 5 in a CUDA graph",
                         lambda: group.recv_anysource([gpu], 5))):
        with pytest.raises(weft.Unsupported, match=words):
            call()
    group._stream_messages = None
    with pytest.raises(weft.Unsupported, match="recv with a group that was made before"):
        group.recv([gpu], 0, 0)
    capturing = False
    group.recv([gpu], 0, 0)
    assert calls == [("stream", "send"), ("host", "recv")]


def test_routes_of_messages(tmp_path):
    at_ranks(1, tmp_path, routes)


class GpuTensor:
    """Bytes of GPU memory, as a tensor that messages use."""

    def __init__(self, job, nbytes):
        self.job, self.nbytes = job, nbytes
        self.memory = job.zeros(nbytes + 8, "u1", kind="gpu")
        self.shape, self.dtype, self.device = (nbytes,), torch.uint8, "cuda:0"
        self.is_contiguous, self.element_size = lambda: True, lambda: 1
        self.numel, self.data_ptr = lambda: nbytes, lambda: self.memory.address
        self.get_device, self.record_stream = lambda: 0, lambda stream: None

    def fill(self, seed):
        self.memory[:self.nbytes] = self.bytes_of(seed)

    def bytes_of(self, seed):
        return list(random.Random(seed).randbytes(self.nbytes)) if self.nbytes else []

    def has(self, seed):
        return self.memory.tolist() == self.bytes_of(seed) + [0] * 8


def stream_messages(job):
    from weft.torch import _stream_messages, _work

    driver, rank, size = Driver(), job.rank, job.size
    _stream_messages._SLOT_MOST, slot = 1024, 1024
    cuda = types.SimpleNamespace(Stream=driver.stream_of,
                                 current_stream=lambda *gpu: driver.current)
    _stream_messages.torch = _work.torch = types.SimpleNamespace(cuda=cuda, no_grad=torch.no_grad)
    messages = _stream_messages.StreamMessages(job, 0)
    right, left = (rank + 1) % size, (rank - 1) % size
    for turn, nbytes in enumerate((0, 1, 7, slot - 1, slot, slot + 1, 3 * slot, 9 * slot + 5)):
        source, got = GpuTensor(job, nbytes), GpuTensor(job, nbytes)
        source.fill(100 * rank + turn)
        works = [messages.send(source, right), messages.recv(got, left)]
        for work in works:
            work.wait()
        driver.current.synchronize()
        assert got.has(100 * left + turn), (turn, nbytes)
    # More than fits the slots, to all others, and received late, in the other order of the ranks.
    peers = [peer for peer in range(size) if peer != rank]
    sources = [[GpuTensor(job, 2 * slot + 5) for _ in range(size)] for _ in range(4)]
    for turn, to in enumerate(sources):
        for peer in peers:
            to[peer].fill(1000 * turn + 10 * rank + peer)
            messages.send(to[peer], peer)
    gots = [[GpuTensor(job, 2 * slot + 5) for _ in range(size)] for _ in range(4)]
    for peer in reversed(peers):
        for turn in range(4):
            messages.recv(gots[turn][peer], peer).wait()
    driver.current.synchronize()
    for turn in range(4):
        for peer in peers:
            assert gots[turn][peer].has(1000 * turn + 10 * peer + rank)

    # A graph of messages, replayed between others. What is sent before the first receive fits the
    # slots: the stand-in executes a graph's operations one after the other.
    sources = [GpuTensor(job, nbytes) for nbytes in (slot + 1, 3)]
    gots = [GpuTensor(job, tensor.nbytes) for tensor in sources]

    def exchange():
        works = [messages.send(tensor, right) for tensor in sources]
        works += [messages.recv(tensor, left) for tensor in gots]
        for work in works:
            work.wait()

    replay = driver.graph_of(exchange)
    for turn in range(6):
        if turn % size == rank:
            time.sleep(0.02)
        for i, tensor in enumerate(sources):
            tensor.fill(10000 * turn + 100 * rank + i)
        replay()
        driver.current.synchronize()
        for i, tensor in enumerate(gots):
            assert tensor.has(10000 * turn + 100 * left + i), (turn, i)
        if turn % 2:
            for tensor in sources:
                tensor.fill(7 * turn + rank)
            exchange()
            driver.current.synchronize()
            assert all(tensor.has(7 * turn + left) for tensor in gots)
    for _ in range(20):  # no host waits in between
        replay()
    driver.current.synchronize()
    assert all(tensor.has(35 + left) for tensor in gots)
    messages.wait()


@pytest.mark.parametrize("size", [2, 3])
def test_stand_in_messages(size, monkeypatch):
    # Each stream has a thread of its own, and what it writes is seen late.
    monkeypatch.setenv("FAKE_CUDA_ORDER", "reordered")
    try:
        stand_in = hasattr(ctypes.CDLL("libcuda.so.1"), "fake_cuda_live")
    except OSError:
        stand_in = False
    if not stand_in:
        pytest.skip("no stand-in of the CUDA driver: LD_LIBRARY_PATH=build/fakecuda has it")
    weft.spawn(stream_messages, size)
