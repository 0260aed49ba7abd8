# SPDX-License-Identifier: Apache-2.0
"""One-sided operations and collectives, of every type and form, against numpy."""

import array
import asyncio
import gc

import numpy as np
import pytest

import weft
from test_arrays import at_pes

INTEGERS = ["i4", "u4", "i8", "u8"]


@at_pes(3)
def test_put_and_get(job):
    right, left = (job.rank + 1) % job.size, (job.rank - 1) % job.size
    for dtype in ["i1", "i2", "f2", "f4", "f8", "c16", "bool"]:
        for n in (0, 1, 7, 1000):
            x, y = job.zeros(n, dtype), job.zeros(n, dtype)
            x[...] = (np.arange(n) * 7 + job.rank) % 113
            job.put(y, x, to=right)
            job.barrier()
            assert (y == ((np.arange(n) * 7 + left) % 113).astype(dtype)).all()
            z = np.empty(n, dtype)
            job.get(z, x, of=left)
            assert (z == y).all()
            job.barrier()
    # Any buffer is a source or a destination.
    x = job.zeros(6, "u1")
    job.put(x, bytes(range(job.rank, job.rank + 6)), to=right)
    job.barrier()
    got = bytearray(6)
    job.get(got, x, of=job.rank)
    assert got == bytes(range(left, left + 6))
    y = job.zeros(3, "f8")
    job.put(y, array.array("d", [1, 2, job.rank]), to=right)
    job.barrier()
    assert y.tolist() == [1, 2, left]


@at_pes(2)
def test_non_blocking(job):
    x, y = job.full(1000, job.rank + 1, "f4"), job.zeros(1000, "f4")
    handle = job.put_nbi(y, x, to=1 - job.rank)
    assert not handle.done
    handle.wait()
    assert handle.done
    job.barrier()
    assert (y == 2 - job.rank).all()
    z = np.zeros(1000, "f4")
    handle = job.get_nbi(z, x, of=1 - job.rank)

    async def wait():
        await handle
        await job.put_signal_nbi(y, x, signal, to=1 - job.rank, value=3)

    signal = job.zeros(2, "u8")
    asyncio.run(wait())
    assert handle.done and (z == 2 - job.rank).all()
    assert job.signal_wait(signal, "==", 3) == 3


@at_pes(3)
def test_put_many(job):
    rows = 50
    x, y = job.zeros((job.size, rows, 3), "i4"), job.zeros((rows, 3), "i4")
    y[...] = np.arange(rows * 3).reshape(rows, 3) + 1000 * job.rank
    to = [(i + job.rank) % job.size for i in range(rows)]
    job.put_many(x[job.rank], y, to=np.array(to, "i4") if job.rank else to)
    job.barrier()
    for source in range(job.size):
        for i in range(rows):
            here = (i + source) % job.size == job.rank
            assert x[source, i].tolist() == ([3 * i + k + 1000 * source for k in range(3)] if here
                                             else [0, 0, 0])
    with pytest.raises(weft.OutOfRange, match="3 PEs for 50 rows"):
        job.put_many(x[0], y, to=[0, 1, 2])
    with pytest.raises(weft.InvalidPE, match="7"):
        job.put_many(x[0], y, to=[7] * rows)


@at_pes(2)
def test_single_values(job):
    values = {"i1": -3, "u1": 200, "i2": -300, "u2": 60000, "i4": -70000, "u4": 4000000000,
              "i8": -2**40, "u8": 2**63 + 5, "f2": 1.5, "f4": -2.25, "f8": 1e300, "c8": 1 - 2j,
              "bool": True}
    for dtype, value in values.items():
        x = job.zeros((2, 3), dtype)
        job.p(x, value, to=1 - job.rank, index=(1, 2))
        job.p(x[0], value, to=1 - job.rank)
        job.barrier()
        assert x[1, 2] == value and x[0, 0] == value and np.count_nonzero(x) == 2
        assert job.g(x, of=1 - job.rank, index=(-1, -1)) == value
        job.barrier()
    wide = job.zeros((4, 6), "i4")
    job.p(wide[:, 3], 5, to=1 - job.rank, index=2)
    job.p(wide[1:, ::2], 6, to=1 - job.rank, index=(0, 1))
    job.barrier()
    assert wide[2, 3] == 5 and wide[1, 2] == 6 and np.count_nonzero(wide) == 2
    assert job.g(wide[::-1], of=1 - job.rank, index=(1, 3)) == 5
    job.barrier()
    x = job.zeros(3, "i2")
    for wrong in (40000, 1.5, "a", None):
        with pytest.raises(weft.InvalidType, match="int16"):
            job.p(x, wrong, to=0)
    with pytest.raises(weft.OutOfRange, match="index 3"):
        job.p(x, 1, to=0, index=3)
    with pytest.raises(weft.InvalidPE):
        job.p(x, 1, to=2)
    with pytest.raises(weft.InvalidType, match="array of one element"):
        job.g(job.zeros(1, "c16"), of=0)


@at_pes(2)
def test_signals(job):
    other = 1 - job.rank
    data, signal = job.zeros(100, "i8"), job.zeros(3, "u8")
    for i in range(1, 50):
        job.put_signal(data, np.full(100, i, "i8"), signal, to=other, value=i, index=2)
        assert job.signal_wait(signal, "==", i, index=2) == i
        assert (data == i).all()
        job.barrier()
    job.signal(signal, to=other, value=5, op="add")
    job.signal(signal, to=other, value=7, op="add")
    assert job.signal_wait(signal, ">=", 12) == 12
    assert job.signal_fetch(signal) == 12
    with pytest.raises(weft.InvalidType, match="uint64"):
        job.signal(data, to=other)
    with pytest.raises(weft.InvalidOperation, match='"set" or "add"'):
        job.signal(signal, to=other, op="mul")
    with pytest.raises(weft.InvalidOperation, match="== != >"):
        job.signal_wait(signal, "=", 1)


@at_pes(3)
def test_atomics(job):
    for dtype in INTEGERS:
        x = job.zeros(4, dtype)
        olds = [job.atomic_fetch_add(x, 2, to=0, index=1) for _ in range(20)]
        job.atomic_add(x, 1, to=0, index=1)
        assert all(old % 2 in (0, 1) for old in olds)
        job.barrier()
        assert job.atomic_fetch(x, of=0, index=1) == 3 * 41
        job.barrier()
        if job.rank == 0:
            assert job.atomic_swap(x, 6, to=0) == 0
            assert job.atomic_cswap(x, 5, 9, to=0) == 6 and x[0] == 6
            assert job.atomic_cswap(x, 6, 9, to=0) == 6 and x[0] == 9
            job.atomic_and(x, 8, to=0)
            job.atomic_or(x, 3, to=0)
            assert job.atomic_fetch_xor(x, 1, to=0) == 11
            assert job.atomic_fetch_and(x, 6, to=0) == 10
            assert job.atomic_fetch_or(x, 1, to=0) == 2
            job.atomic_xor(x, 7, to=0)
            job.atomic_set(x, 77, to=0, index=3)
            assert x.tolist() == [4, 123, 0, 77]
        job.barrier()
    negative = job.zeros(1, "i8")
    if job.rank == 0:
        job.atomic_add(negative, -5, to=0)
        assert negative[0] == -5 and job.atomic_fetch_add(negative, 1, to=0) == -5
    real = job.zeros(1, "f8")
    if job.rank == 0:
        assert job.atomic_swap(real, 2.5, to=0) == 0.0 and job.atomic_fetch(real, of=0) == 2.5
    with pytest.raises(weft.InvalidType, match="atomic_cswap"):
        job.atomic_add(real, 1.0, to=0)
    with pytest.raises(weft.InvalidType, match="4 or 8 bytes"):
        job.atomic_add(job.zeros(1, "i2"), 1, to=0)


@at_pes(2)
def test_atomics_without_waiting(job):
    other = 1 - job.rank
    for dtype in [*INTEGERS, "f4", "f8"]:
        x, olds = job.full(4, 6, dtype), np.zeros(8, dtype)
        integer = dtype[0] != "f"
        job.barrier()
        job.atomic_nbi("set", x, 5 + job.rank, to=other, index=3)
        handles = [job.atomic_nbi("fetch", x, to=other, fetched=olds[:1]),
                   job.atomic_nbi("swap", x, 7, to=other, index=1, fetched=olds[1:2]),
                   job.atomic_nbi("cswap", x, 9, to=other, index=2, expected=6, fetched=olds[2:3])]
        assert not handles[0].done
        handles[0].wait()
        assert handles[0].done and olds[:3].tolist() == [6, 6, 6]
        job.barrier()
        assert x.tolist() == [6, 7, 9, 5 + other]
        job.barrier()
        if not integer:
            with pytest.raises(weft.InvalidType,
                               match="atomic fetch_xor takes integers, not float"):
                job.atomic_nbi("fetch_xor", x, 1, to=other, fetched=olds[:1])
            continue
        for at, (op, value, want) in enumerate([
                ("fetch_add", 3, 9), ("fetch_and", 12, 8), ("fetch_or", 3, 11),
                ("fetch_xor", 6, 13)]):
            job.atomic_nbi(op, x, value, to=other, fetched=olds[at:at + 1]).wait()
            assert job.atomic_fetch(x, of=other) == want
        assert olds[:4].tolist() == [6, 9, 8, 11]
        for op, value, want in [("add", 3, 10), ("and", 14, 10), ("or", 5, 15), ("xor", 1, 14)]:
            job.atomic_nbi(op, x, value, to=other, index=1)
            job.quiet()
            assert job.g(x, of=other, index=1) == want
        job.barrier()

    async def fetch():
        old = np.zeros(1, "i8")
        await job.atomic_nbi("fetch_add", words, 2, to=other, fetched=old)
        return old[0]

    words = job.full(1, -5, "i8")
    assert asyncio.run(fetch()) == -5
    job.barrier()
    assert words[0] == -3
    for arguments, kind, text in [
            ({"op": "nand"}, weft.InvalidOperation, "atomic 'nand': use one of set, add,"),
            ({"op": "swap"}, weft.InvalidArgument, r'fetched=numpy.empty\(1, "int64"\)'),
            ({"op": "swap", "fetched": np.zeros(2, "i8")}, weft.InvalidType, "not one element"),
            ({"op": "swap", "fetched": np.zeros(1, "u8")}, weft.InvalidType, "not one element"),
            ({"op": "add", "to": 2}, weft.InvalidPE, "PE 2")]:
        with pytest.raises(kind, match=text):
            job.atomic_nbi(**{"dst": words, "value": 1, "to": other, **arguments})
    with pytest.raises(weft.InvalidType, match="4 or 8 bytes, not int16"):
        job.atomic_nbi("add", job.zeros(1, "i2"), 1, to=0)


@at_pes(2)
def test_waits_and_tests(job):
    for dtype in ["i2", "u2", "i4", "u4", "i8", "u8"]:
        x = job.zeros(5, dtype)
        assert job.test(x, "==", 0) and not job.test(x, ">", 0)
        assert job.test_any(x, "!=", 0) is None and job.test_some(x, "!=", 0) == []
        job.barrier()
        job.p(x, 3, to=1 - job.rank, index=2)
        job.p(x, 4, to=1 - job.rank, index=4)
        job.quiet()
        assert job.wait_any(x, "==", 4) == 4
        assert job.wait_any(x, "==", np.array([9, 9, 3, 9, 9], dtype)) == 2
        job.wait(x[2:], "!=", np.array([9, 9, 9], dtype))
        assert job.wait_some(x, ">", 2) == [2, 4]
        assert job.test_some(x, ">=", 3) == [2, 4]
        job.barrier()
        if dtype[0] == "i":
            x[0] = -7
            assert job.test(x[:1], "==", -7) and job.test(x[:1], "<", 0)
    with pytest.raises(weft.InvalidType, match="float32"):
        job.wait(job.zeros(1, "f4"), "==", 0)
    with pytest.raises(weft.InvalidType, match="5 elements"):
        job.wait(x, "==", np.zeros(4, "u8"))


@at_pes(3)
def test_collectives(job):
    n, me = job.size, job.rank
    for dtype in ["i4", "f4", "f8", "u1", "c8"]:
        x = job.zeros(12, dtype)
        x[...] = np.arange(12) + me
        y, all_ = job.zeros(12, dtype), job.zeros((n, 12), dtype)
        job.broadcast(y, x, root=2)
        assert (y == np.arange(12) + 2).all()
        job.allgather(all_, x)
        assert (all_ == np.arange(12) + np.arange(n)[:, None]).all()
        job.alltoall(y, x)
        assert (y == np.concatenate([np.arange(4 * me, 4 * me + 4) + pe for pe in range(n)])).all()
        job.allreduce(y, x)
        assert (y == 3 * np.arange(12) + 3).all()
        if dtype != "c8":
            job.allreduce(y, x, "max")
            assert (y == np.arange(12) + 2).all()
        job.barrier()
        job.reducescatter(y[:4], x)
        assert (y[:4] == 3 * np.arange(4 * me, 4 * me + 4) + 3).all()
        job.reduce(y, x, "prod", root=1)
        if me == 1:
            i = np.arange(12)
            assert (y == (i * (i + 1) * (i + 2)).astype(dtype)).all()
        job.gather(all_, x, root=1)
        job.scatter(y, all_, root=1)
        assert (y == np.arange(12) + me).all()
        job.barrier()


@at_pes(3)
def test_sizes_that_differ(job):
    me = job.rank
    sizes = [3, 0, 5]
    source = job.zeros(5, "i8")
    source[...] = me + 1
    y = job.zeros(8, "i8")
    job.collect(y, source[:sizes[me]])
    assert y.tolist() == [1, 1, 1, 3, 3, 3, 3, 3]
    # PE p sends p + q elements to PE q.
    sent = job.zeros(12, "i4")
    counts = [me + q for q in range(3)]
    sent[:sum(counts)] = np.repeat([10 * me + q for q in range(3)], counts)
    got = job.zeros(12, "i4")
    job.alltoallv(got, sent, counts, counts)
    assert got[:sum(counts)].tolist() == np.repeat([10 * q + me for q in range(3)], counts).tolist()
    with pytest.raises(weft.OutOfRange, match="recv: 9 elements at 4"):
        job.alltoallv(got, sent, [0, 0, 0], [0, 4, 9])
    job.barrier()


@at_pes(3)
def test_alltoall_with_strides(job):
    me, n = job.rank, job.size
    for dtype in ["i1", "f2", "f4", "f8", "c16"]:
        x, y = job.zeros(3 * 2 * n, dtype), job.full(2 * 2 * n, 99, dtype)
        x[::3] = np.arange(2 * n) + 20 * me
        job.alltoalls(y[::2], x[::3])
        want = np.concatenate([np.arange(2 * me, 2 * me + 2) + 20 * pe for pe in range(n)])
        assert (y[::2] == want).all() and (y[1::2] == 99).all()
    with pytest.raises(weft.OutOfRange, match="4 elements of .* are no 3 equal parts"):
        job.alltoalls(y[:4], x[:4])
    with pytest.raises(weft.InvalidArgument, match="positive multiples"):
        job.alltoalls(y[:6][::-1], x[:6])
    with pytest.raises(weft.OutOfRange, match="one dimension"):
        job.alltoalls(y[:6].reshape(2, 3), x[:6].reshape(2, 3))
    job.barrier()


@at_pes(2)
def test_resize(job):
    for dtype in ["u1", "f4", "c8"]:
        x = job.zeros((3, 4), dtype)
        x[...] = np.arange(12).reshape(3, 4) + job.rank
        kept = x.copy()
        larger = job.realloc(x, (7, 5))
        assert larger.shape == (7, 5) and larger.dtype == np.dtype(dtype)
        assert (larger.reshape(35)[:12] == kept.reshape(12)).all()
        with pytest.raises(weft.InvalidFree, match="has been freed"):
            job.put(x, kept, to=0)
        job.p(larger, 5, to=1 - job.rank, index=(6, 4))
        job.barrier()
        assert larger[6, 4] == 5
        smaller = job.realloc(larger, 5)
        assert smaller.tolist() == kept.reshape(12)[:5].tolist()
        view = smaller[1:]
        with pytest.raises(weft.InvalidFree, match="1 other views"):
            job.realloc(smaller, 9)
        number = len(job._blocks)
        del smaller, view
        gc.collect()  # the exception has references
        job._collect()
        assert len(job._blocks) < number


@at_pes(2)
def test_what_a_pe_reaches(job):
    x = job.zeros(3)
    assert job.accessible(x, 1 - job.rank) and not job.accessible(np.zeros(3), 0)
    assert not job.accessible(x, 2)
    with job.context() as context:
        assert context.team.size == 2 and context.team.rank == job.rank
    assert job.target == "simt"
    with pytest.raises(weft.InvalidArgument, match="shared, exclusive, single"):
        job.queue_mode("both")


@at_pes(2)
def test_reductions_with_factors(job):
    x, y = job.full(6, job.rank + 1, "f4"), job.zeros(6, "f4")
    job.allreduce(y, x, "avg")
    assert (y == 1.5).all()
    job.allreduce(y, x, scale=0.5)
    assert (y == 1.5).all()
    job.allreduce(y, x, weight=10.0 ** job.rank)
    assert (y == 21).all()
    z = job.full(4, job.rank + 1, "f8")
    part = z[2 * job.rank:2 * job.rank + 2]
    job.reducescatter(part, z, scale=0.25)
    assert (part == 0.75).all()
    with pytest.raises(weft.InvalidOperation, match='op="sum"'):
        job.allreduce(y, x, "max", scale=2)
    with pytest.raises(weft.InvalidOperation, match="sum, prod"):
        job.allreduce(y, x, "median")
    for dtype in "i1", "u2", "i4", "i8":
        i, k = job.full(3, 7 - 2 * job.rank, dtype), job.zeros(3, dtype)
        job.allreduce(k, i, "avg")
        assert (k == int(np.sum(7 - 2 * np.arange(job.size)).astype(dtype)) // job.size).all()
        job.allreduce(k, i, weight=job.rank + 1)
        assert (k == sum((7 - 2 * r) * (r + 1) for r in range(job.size))).all()


@at_pes(4)
def test_teams_and_contexts(job):
    even = job.split(0, 2, 2)
    assert (even is None) == bool(job.rank % 2)
    row, column = job.split_2d(2)
    assert row.size == column.size == 2
    assert row.rank == job.rank % 2 and column.rank == job.rank // 2
    assert row.translate(0) == job.rank // 2 * 2 and job.translate(job.rank, row) == row.rank
    assert column.translate(1, row) == (row.rank if job.rank // 2 == 1 else None)
    x, y = job.full(3, job.rank, "i4"), job.zeros(3, "i4")
    row.allreduce(y, x)
    assert (y == 4 * (job.rank // 2) + 1).all()
    job.barrier()
    with column.context(private=True) as context:
        context.put(y, x, to=1 - column.rank)
        context.quiet()
        column.barrier()
    assert (y == (job.rank + 2) % 4).all()
    assert job.node.size == 4 and job.world.size == 4
    row.destroy()
    with pytest.raises(weft.InvalidArgument, match="finalize"):
        job.destroy()


@at_pes(2)
def test_bad_arguments(job):
    x, y = job.zeros(4, "f4"), job.zeros(4, "f8")
    plain = np.zeros(4, "f4")
    with pytest.raises(weft.NotSymmetric, match=r"numpy.ndarray of shape \(4,\).*job.zeros"):
        job.put(plain, x, to=0)
    with pytest.raises(weft.NotSymmetric):
        job.get(plain, np.zeros(4, "f4"), of=0)
    with pytest.raises(weft.InvalidType, match="float32.*float64"):
        job.put(x, y, to=0)
    with pytest.raises(weft.OutOfRange, match="16 bytes.*12"):
        job.put(x, x[:3], to=0)
    with pytest.raises(weft.InvalidArgument, match="not contiguous"):
        job.put(x[::2], plain[:2], to=0)
    with pytest.raises(weft.InvalidPE, match="2"):
        job.put(x, plain, to=2)
    with pytest.raises(weft.InvalidPE):
        job.put(x, plain, to=-1)
    with pytest.raises(weft.InvalidArgument, match="str has no memory"):
        job.put(x, "abc", to=0)
    with pytest.raises(weft.InvalidArgument, match="no stream"):
        job.put(x, plain, to=0, stream=object())
    with pytest.raises(weft.InvalidType, match="'f3'"):
        job.zeros(1, "f3")
    with pytest.raises(weft.InvalidType):
        job.zeros(1, ">f4")
    with pytest.raises(weft.InvalidArgument, match="negative"):
        job.zeros((2, -1))
    with pytest.raises(weft.InvalidArgument, match='"host" or "gpu"'):
        job.zeros(1, kind="tpu")
    with pytest.raises(weft.OutOfRange, match="must be 2 times"):
        job.allgather(x, plain)


@at_pes(2)
def test_mismatch_names_both_calls(job):
    with pytest.raises(weft.Mismatch) as failure:
        job.zeros(10 + job.rank)
    assert "80" in str(failure.value) and "88" in str(failure.value)


def test_another_jobs_array():
    pes = [weft.local(1), weft.local(1)]
    arrays = [p.run(lambda job: job.zeros(3))[0] for p in pes]
    with pytest.raises(weft.PEsFailed, match="belongs to another job"):
        pes[0].run(lambda job: job.put(arrays[1], np.zeros(3), to=0))
    for p in pes:
        p.close()


@at_pes(2)
def test_streams_of_the_stand_in(job):
    import ctypes

    from weft._library import calls

    stream = ctypes.c_void_p()
    calls.stream_create(ctypes.byref(stream))

    class Stream:
        def __cuda_stream__(self):
            return 0, stream.value

    x, y = job.full(8, job.rank + 1, "f4"), job.zeros(8, "f4")
    signal = job.zeros(1, "u8")
    job.put_signal(y, x, signal, to=1 - job.rank, stream=Stream())
    job.signal_wait(signal, "==", 1, stream=stream.value)
    job.barrier(stream=Stream())
    calls.stream_synchronize(stream)
    assert (y == 2 - job.rank).all()
    job.put(y, x, to=job.rank, stream=Stream())
    job.quiet(stream=Stream())
    job.allreduce(x, y, stream=Stream())
    calls.stream_synchronize(stream)
    assert (x == 3).all()
    # PE p sends p + q + 1 elements to PE q.
    sent, got = job.zeros(9, "i4"), job.zeros(9, "i4")
    sizes = [job.rank + q + 1 for q in range(2)]
    sent[:sum(sizes)] = np.repeat([10 * job.rank + q for q in range(2)], sizes)
    counts = 4 * np.array(sizes, "u8")
    starts = 4 * np.array([0, sizes[0]], "u8")
    rows = job.zeros(8, "i4")
    job.alltoallv_on_stream(got, sent, counts, starts, counts, starts, Stream())
    job.alltoalls(rows[::2], sent[:4], stream=Stream())
    calls.stream_synchronize(stream)
    assert got[:sum(sizes)].tolist() == np.repeat([10 * q + job.rank for q in range(2)],
                                                  sizes).tolist()
    of_pes = [[0, 1, 1, 0], [10, 10, 11, 11]]
    assert rows.tolist() == [v for pe in range(2) for e in of_pes[pe][2 * job.rank:2 * job.rank + 2]
                             for v in (e, 0)]
    with pytest.raises(weft.InvalidType, match="send_at=.* has not one uint64 for each of the 2"):
        job.alltoallv_on_stream(got, sent, counts, starts[:1], counts, starts, Stream())
    calls.stream_destroy(stream)
