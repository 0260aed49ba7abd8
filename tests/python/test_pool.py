# SPDX-License-Identifier: Apache-2.0
"""Pools: local allocations in a window, their places, and the comparison with other PEs."""

import contextlib
import ctypes
import gc
import sys
import threading
import time
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from test_arrays import TYPES, at_pes
from weft._pool import Space


@at_pes(3)
def test_arrays_of_every_type(job):
    pool = job.pool("1M", kind="host")
    right, left = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    for dtype in TYPES:
        x, y = pool.empty((3, 5), dtype), pool.zeros((3, 5), dtype)
        assert isinstance(x, np.ndarray) and isinstance(x, weft.Array) and x.address % 512 == 0
        assert x.job is job and x.kind == "host" and (y == 0).all()
        x[...] = (np.arange(15).reshape(3, 5) + 2 * job.rank) % 2 if dtype == "bool" else \
            np.arange(15).reshape(3, 5) + 2 * job.rank
        job.barrier()
        job.put(y[1], x[1], to=right)
        job.barrier()
        want = np.arange(5, 10) + 2 * left
        assert (y[1] == (want % 2 if dtype == "bool" else want)).all()
        assert not y[0].any() and not y[2].any()
        job.barrier()
    assert repr(pool) == f"weft.Pool(size=1048576, used={pool.used}, allocations=2)"


@at_pes(2)
def test_every_operation_takes_arrays_of_a_pool(job):
    pool, me, other = job.pool("64K", kind="host"), job.rank, 1 - job.rank
    x, y, words = pool.empty(6, "i8"), pool.zeros(6, "i8"), pool.zeros(3, "u8")
    x[...] = np.arange(6) + 10 * me
    job.barrier()
    job.put_nbi(y[:2], x[:2], to=other).wait()
    job.iput(y[2::3], x[2::3], to=other)
    job.p(y, 77, to=other, index=4)
    job.put_signal(y[3:4], x[3:4], words, to=other, value=5, index=1)
    job.put_signal_nbi(y[3:4], x[3:4], words, to=other, value=6, index=2).wait()
    assert job.signal_wait(words, "==", 5, index=1) == 5
    assert job.signal_wait(words, "==", 6, index=2) == 6
    job.barrier()
    assert y.tolist() == [10 * other, 10 * other + 1, 10 * other + 2, 10 * other + 3, 77,
                          10 * other + 5]
    got = np.zeros(6, "i8")
    job.get(got, x, of=other)
    assert (got == np.arange(6) + 10 * other).all()
    job.iget(got[::2], x[1::2], of=other)
    assert got[::2].tolist() == [10 * other + 1, 10 * other + 3, 10 * other + 5]
    assert job.g(x, of=other, index=5) == 10 * other + 5
    assert x.peer(other).tolist() == (np.arange(6) + 10 * other).tolist()
    assert job.atomic_fetch_add(x, 3, to=other, index=1) == 10 * other + 1
    job.signal(words, to=other, value=9)
    job.wait(words[:1], "==", 9)
    job.put_many(y.reshape(2, 3), x.reshape(2, 3), to=[other, other])
    job.allreduce(y, x, "max")
    assert y[5] == 15
    job.barrier()
    with job.context() as context:
        context.put(y, x, to=other)
    job.barrier()
    assert y[1] == 10 * other + 1 + 3


@at_pes(2)
def test_allocations_are_local_and_their_memory_returns(job):
    pool = job.pool(10 * 512 + 100, kind="host")
    assert pool.size == 5120
    if job.rank == 0:
        # The other PE makes no allocation: a collective one would hang.
        a, b_, c = pool.empty(600, "u1"), pool.empty(3), pool.empty(1000, "u2")
        places = [array.address - pool._address for array in (a, b_, c)]
        assert places == [0, 1024, 1536] and pool.used == 3584
        view = b_[1:]
        del b_
        gc.collect()
        assert pool.used == 3584 and view[0] == view[0]
        del view
        assert pool.used == 3072
        d = pool.empty(100, "u4")
        assert d.address - pool._address == 1024
        with pytest.raises(weft.OutOfMemory) as failure:
            pool.empty(1537, "u1")
        assert str(failure.value) == (
            "the pool has no 2048 bytes in one place: 1536 of its 5120 bytes are free, at most "
            "1536 in one place. Delete arrays, or make a larger pool by job.pool()")
        e = pool.empty(1536, "u1")
        a.free()
        del c
        with pytest.raises(weft.InvalidFree, match="has been freed"):
            job.put(a, np.zeros(600, "u1"), to=0)
        assert pool.used == 512 + 1536
        with pytest.raises(weft.InvalidFree, match="2 allocations that are alive: number 3 of 400 "
                                                   "bytes, number 4 of 1536 bytes"):
            pool.free()
        del d, e
    job.barrier()
    assert pool.used == 0
    pool.free()
    for call in (pool.free, lambda: pool.empty(1)):
        with pytest.raises(weft.InvalidFree, match="pool has been freed"):
            call()
    assert job._pools == []


@at_pes(2)
def test_sequences_that_differ_name_both_allocations(job):
    pool, me, other = job.pool("1M", kind="host"), job.rank, 1 - job.rank
    same = pool.zeros(7, "u1")
    odd = pool.zeros(100 + 100 * me, "u1")
    job.barrier()
    job.put(same, np.arange(7, dtype="u1"), to=other)
    sizes = [100, 200]
    want = (f"allocation 1 of the pool has {sizes[me]} bytes at PE {me}, and {sizes[other]} bytes "
            f"at PE {other}: make and delete the same arrays in the same order at every PE")
    part = odd[:50]
    for call in (lambda: job.put(part, np.zeros(50, "u1"), to=other),
                 lambda: job.get(np.zeros(50, "u1"), part, of=other),
                 lambda: job.allreduce(part, part), lambda: part.peer(other),
                 lambda: pool.check(part)):
        with pytest.raises(weft.Mismatch) as failure:
            call()
        assert str(failure.value) == want and failure.value.pe == other
    # At this PE itself there is no other sequence.
    job.put(part, np.full(50, 3, "u1"), to=me)
    assert (odd[:50] == 3).all()
    job.barrier()


@at_pes(2)
def test_every_operation_compares(job):
    pool, other = job.pool("1M", kind="host"), 1 - job.rank
    same, odd = pool.zeros(8, "u8"), pool.zeros(8 + job.rank, "u8")
    whole, x = odd[:8], job.zeros(8, "u8")
    both = whole.reshape(2, 4)
    job.barrier()
    old, file = np.zeros(1, "u8"), job.open(__file__)
    calls = {
        "put": lambda: job.put(whole, x, to=other), "get": lambda: job.get(x, whole, of=other),
        "put_nbi": lambda: job.put_nbi(whole, x, to=other),
        "get_nbi": lambda: job.get_nbi(x, whole, of=other),
        "put on a stream": lambda: job.put(whole, x, to=other, stream=0),
        "put_many": lambda: job.put_many(both, x.reshape(2, 4), to=[job.rank, other]),
        "iput": lambda: job.iput(whole[::2], x[::2], to=other),
        "iget": lambda: job.iget(x[::2], whole[::2], of=other),
        "p": lambda: job.p(whole, 1, to=other), "g": lambda: job.g(whole, of=other),
        "put_signal": lambda: job.put_signal(whole, x, same, to=other),
        "put_signal to that signal": lambda: job.put_signal(same, x, whole, to=other),
        "put_signal_nbi": lambda: job.put_signal_nbi(same, x, whole, to=other),
        "signal": lambda: job.signal(whole, to=other),
        "atomic_add": lambda: job.atomic_add(whole, 1, to=other),
        "atomic_fetch": lambda: job.atomic_fetch(whole, of=other),
        "atomic_nbi": lambda: job.atomic_nbi("fetch", whole, to=other, fetched=old),
        "broadcast": lambda: job.broadcast(whole, x), "collect": lambda: job.collect(whole, x),
        "source": lambda: job.allreduce(x, whole), "alltoalls": lambda: job.alltoalls(whole, x),
        "read_file": lambda: job.read_file(None, whole),
        "read": lambda: file.read(whole, pe=other), "write": lambda: file.write(whole, pe=other),
        "read_many": lambda: file.read_many([(x, 0), (whole, 0, other)]),
        "peer": lambda: whole.peer(other),
    }
    for name, call in calls.items():
        with pytest.raises(weft.Mismatch, match="allocation 1 of the pool has"):
            call()
            raise AssertionError(name)
    # None of these has begun.
    file.close()
    job.barrier()
    assert not odd.any() and not same.any()


@at_pes(2)
def test_an_allocation_that_another_pe_has_not_made(job):
    pool = job.pool("1M", kind="host")
    pool.zeros(33, "u1")
    kept = pool.zeros(44, "u1")
    job.barrier()
    if job.rank == 0:
        x = pool.zeros(55, "u1")
        with pytest.raises(weft.Mismatch) as failure:
            job.put(x, np.zeros(55, "u1"), to=1)
        assert str(failure.value) == (
            "allocation 2 of the pool has 55 bytes at PE 0, and PE 1 has made 2 allocations, the "
            "last (number 1) of 44 bytes: call barrier() between an allocation and its first use "
            "by another PE")
        job.barrier()
    else:
        job.barrier()
        time.sleep(0.2)
        x = pool.zeros(55, "u1")
    # A collective waits for the PE that is late.
    x[...] = job.rank + 4
    job.allreduce(x, x)
    assert (x == 9).all()
    job.barrier()
    if job.rank == 0:
        del kept
        pool.used  # noqa: B018
    job.barrier()
    if job.rank == 1:
        with pytest.raises(weft.Mismatch, match="PE 0, which has made 3 allocations, has freed "
                                                "its own"):
            job.get(np.zeros(44, "u1"), kept, of=0)
    job.barrier()


@at_pes(2)
def test_the_same_sizes_at_other_places(job):
    pool = job.pool("1M", kind="host")
    arrays = [pool.zeros(512, "u1") for _ in range(3)]
    del arrays[job.rank]
    pool.used  # noqa: B018
    x = pool.zeros(512, "u1")
    job.barrier()
    with pytest.raises(weft.Mismatch) as failure:
        job.put(x, np.zeros(512, "u1"), to=1 - job.rank)
    at = [0, 512]
    assert str(failure.value).startswith(
        f"allocation 3 of the pool has 512 bytes at PE {job.rank} at byte {at[job.rank]}, and 512 "
        f"bytes at PE {1 - job.rank} at byte {at[1 - job.rank]}: ")
    job.barrier()


@at_pes(4)
def test_numbers_of_pes_are_those_of_the_team(job):
    pool = job.pool("64K", kind="host")
    # PE 0 differs; the team is of the PEs 3 and 1.
    x = pool.zeros(3 if job.rank else 4, "i4")
    job.barrier()
    team = job.split(3, -2, 2)
    if team is not None:
        x[...] = job.rank
        team.allreduce(x, x)
        assert x.tolist() == [4, 4, 4]
        team.barrier()
        with team.context() as context:
            assert context.team.size == 2 and context.team.rank == team.rank
            context.put(x, np.full(3, team.rank, "i4"), to=1 - team.rank)
            context.quiet()
        team.barrier()
        assert x.tolist() == [1 - team.rank] * 3
    elif job.rank == 2:
        with pytest.raises(weft.Mismatch, match="16 bytes at PE 0"):
            job.put(x, np.zeros(3, "i4"), to=0)
    job.barrier()


def test_a_dead_pe_ends_the_wait_for_its_allocation():
    def body(job):
        pool = job.pool("64K", kind="host")
        if job.rank == 1:
            raise SystemExit(3)
        x = pool.zeros(3)
        with pytest.raises(weft.PeerDead, match="PE 1"):
            job.allreduce(x, x)

    begun = time.monotonic()
    with pytest.raises(weft.PEsFailed) as failure:
        weft.spawn(body, 2)
    assert list(failure.value.failures) == [1] and time.monotonic() - begun < 20


@at_pes(1)
def test_slots_and_wrong_arguments(job):
    pool = job.pool("600K", kind="host")
    kept = [pool.empty(1, "u1") for _ in range(1024)]
    with pytest.raises(weft.OutOfMemory, match="1024 allocations, the most for its 614400 bytes"):
        pool.empty(1, "u1")
    del kept[5:7]
    assert pool.empty(1024, "u1").address == kept[4].address + 512
    with pytest.raises(weft.InvalidArgument, match="pool of 511 bytes: give at least 512"):
        job.pool(511, kind="host")
    with pytest.raises(weft.NotSymmetric, match="is not in this pool"):
        pool.check(job.zeros(3))
    with pytest.raises(weft.InvalidArgument, match="is not a whole array"):
        job.realloc(kept[0], 7)
    with pytest.raises(weft.OutOfMemory):
        job.pool("1T", kind="host")
    with pool:
        with pytest.raises(weft.InvalidArgument, match="in use by another"), pool:
            pass
        with pytest.raises(weft.InvalidFree, match="end it first"):
            pool.free()


@at_pes(1)
def test_threads_allocate_at_once(job):
    pool = job.pool("4M", kind="host")
    found = [[] for _ in range(4)]

    def work(mine):
        for i in range(300):
            array = pool.empty(i % 7 + 1, "i8")
            array[...] = i
            mine.append(array)
            if i % 3 == 0:
                mine.pop(0)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alive = [array for mine in found for array in mine]
    assert len({array.address for array in alive}) == len(alive) == 800
    assert all((array == array[0]).all() for array in alive)
    assert pool.used == 800 * 512


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 99)), max_size=60))
def test_places_never_overlap(steps):
    space, live = Space(40), []
    for gives, size, which in steps:
        if gives and live:
            space.give(*live.pop(which % len(live)))
            continue
        offset = space.take(size)
        if offset is None:
            assert all(free < size for _, free in space.places)
        else:
            live.append((offset, size))
        ranges = sorted(live + space.places)
        assert sum(size for _, size in ranges) == 40
        assert all(a + n == b for (a, n), (b, _) in zip(ranges, ranges[1:]))
    free = space.places
    assert all(a + n < b for (a, n), (b, _) in zip(free, free[1:])), "neighbours are joined"


def stand_in_of_torch(calls):
    """A module with the functions of torch that a pool uses. `calls` gets what it does."""
    allocate_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int,
                                     ctypes.c_void_p)
    free_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int,
                                 ctypes.c_void_p)

    class OutOfMemoryError(RuntimeError):
        pass

    class MemPool:
        def __init__(self, allocator):
            self.allocate, self.free = allocate_type(allocator[0]), free_type(allocator[1])

        def malloc(self, nbytes, device=0):
            address = self.allocate(nbytes, device, None)
            if not address:
                raise OutOfMemoryError("CUDA out of memory")
            return address

    @contextlib.contextmanager
    def use_mem_pool(pool):
        calls.append(pool)
        yield
        calls.append("end")

    cuda = types.SimpleNamespace(MemPool=MemPool, use_mem_pool=use_mem_pool,
                                 is_available=lambda: True,
                                 empty_cache=lambda: calls.append("empty_cache"))
    module = types.ModuleType("torch")
    module.cuda = cuda
    module._C = types.SimpleNamespace(_cuda_customAllocator=lambda *functions: functions)
    return module


@at_pes(1)
def test_the_functions_that_torch_calls(job):
    """The C functions of the allocator; torch itself is in tests/gpu/python.py."""
    pool, did = job.pool("64K", kind="host"), []
    pool.kind, job._ordinal = 1, 2
    sys.modules["torch"] = stand_in_of_torch(did)
    with pool:
        torch_pool = did[-1]
        first, second = torch_pool.malloc(1000, 2), torch_pool.malloc(2000, 2)
        assert first == pool._address and second == first + 1024 and pool.used == 1024 + 2048
        torch_pool.free(first, 1000, 2, None)
        assert pool.used == 2048
    assert did[-1] == "end" and pool.used == 2048
    with pytest.raises(weft.OutOfMemory, match="no 70144 bytes in one place: 63488 of its 65536") \
            as failure, pool:
        did[-1].malloc(70000, 2)
    assert "CUDA out of memory" in str(failure.value.__cause__)
    with pytest.raises(RuntimeError, match="CUDA out of memory"), pool:
        did[-1].malloc(10, 1)
    torch_pool.free(second, 2000, 2, None)
    pool.free()
    assert did[-1] == "empty_cache"
    assert torch_pool.allocate(1000, 2, None) is None
    torch_pool.free(second, 2000, 2, None)


@at_pes(1)
def test_the_functions_that_cupy_calls(job):
    """As above, for CuPy."""
    pool = job.pool("64K", kind="host")
    pool.kind, job._ordinal = 1, 0
    held = []

    class MemoryPool:
        def __init__(self, malloc):
            self.malloc, self.cached = malloc, []

        def free_all_blocks(self):
            for address in self.cached:
                pool._cupy_free(address)
            self.cached.clear()

    def python_function_allocator(malloc, free):
        pool._cupy_free = lambda address: free(address, 0)
        return types.SimpleNamespace(malloc=lambda size: malloc(size, 0))

    @contextlib.contextmanager
    def using_allocator(malloc):
        held.append(malloc)
        yield
        held.append(None)

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(MemoryPool=MemoryPool, using_allocator=using_allocator,
                                      PythonFunctionAllocator=python_function_allocator)
    sys.modules["cupy"] = cupy
    with pool:
        first, second = held[-1](40000), held[-1](20000)
        assert second == first + 40448
        pool._cupy.cached.append(first)
        # What CuPy keeps for itself is used when the window is full.
        assert held[-1](30000) == first
    assert held[-1] is None
    for address in (first, second):
        pool._cupy_free(address)
    pool.free()
