# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays: what they are made of, their views, and when their memory is freed."""

import gc
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "bool"]


def at_pes(n):
    """A test that is a function of the job, called at each of n PEs."""
    def decorate(function):
        def test():
            weft.spawn(function, n)
        test.__name__ = function.__name__
        test.__doc__ = function.__doc__
        return test
    return decorate


@at_pes(2)
def test_contents_of_every_type(job):
    for dtype in TYPES:
        for shape in [(), 3, (2, 3), (0,), (3, 0, 2), [4, 1]]:
            x, y, z = job.zeros(shape, dtype), job.empty(shape, dtype), job.full(shape, 1, dtype)
            sizes = (shape,) if isinstance(shape, int) else tuple(shape)
            for array in (x, y, z):
                assert isinstance(array, np.ndarray) and isinstance(array, weft.Array)
                assert array.shape == sizes and array.dtype == np.dtype(dtype)
                assert array.kind == "host" and array.job is job
            assert (x == 0).all() and (z == 1).all()
            y[...] = z
            assert (y == z).all()


@at_pes(3)
def test_addresses_are_symmetric(job):
    shapes = [(5,), (3, 7), (1,), (1000,), ()]
    arrays = [job.zeros(shape, "f4") for shape in shapes]
    for array in arrays:
        array[...] = job.rank + 1
    job.barrier()
    for array in arrays:
        got = np.empty(array.shape, "f4")
        job.get(got, array, of=(job.rank + 1) % job.size)
        assert (got == (job.rank + 1) % job.size + 1).all()


@at_pes(2)
def test_slices_are_symmetric(job):
    x = job.zeros((4, 6), "i4")
    row = x[2]
    part = x[1, 2:5]
    assert isinstance(part, weft.Array) and part.job is job
    job.put(row, np.arange(6, dtype="i4") + 10 * job.rank, to=1 - job.rank)
    job.put(part, np.array([7, 8, 9], "i4"), to=1 - job.rank)
    job.barrier()
    expected = np.zeros((4, 6), "i4")
    expected[2] = np.arange(6) + 10 * (1 - job.rank)
    expected[1, 2:5] = [7, 8, 9]
    assert (x == expected).all()
    assert x.reshape(24)[12:18].tolist() == expected[2].tolist()


@at_pes(2)
def test_peer_is_the_other_pes_memory(job):
    x = job.full((3, 4), job.rank + 5, "i8")
    other = x.peer(1 - job.rank)
    assert other.shape == (3, 4) and (other == 1 - job.rank + 5).all()
    job.barrier()
    other[1, 2] = 99
    tail = x[1:, ::2].peer(1 - job.rank)
    assert tail.tolist() == other[1:, ::2].tolist()
    job.barrier()
    assert x[1, 2] == 99
    with pytest.raises(weft.InvalidPE, match="PE 2: this job has the PEs 0 to 1"):
        x.peer(2)


@at_pes(1)
def test_results_are_plain_arrays(job):
    x = job.full(4, 2, "f8")
    for result in (x + 1, x * x, x.copy(), np.sin(x), x.astype("f4"), x[[0, 2]], x.sum(axis=0)):
        if isinstance(result, weft.Array):
            with pytest.raises(weft.NotSymmetric, match="job.zeros"):
                job.put(result, np.zeros_like(result), to=0)
    assert type(x + 1) is np.ndarray and type(x.sum()) is np.float64
    x += 3
    assert isinstance(x, weft.Array) and (x == 5).all()
    assert x.job is job
    copy = pickle.loads(pickle.dumps(x))
    assert (copy == x).all()


@at_pes(2)
def test_memory_is_freed_after_the_last_view(job):
    address = job.zeros(1000, "u1").address
    gc.collect()
    seen = set()
    for i in range(400):
        x = job.zeros(1000, "u1")
        seen.add(x.address)
        # One PE keeps views for a while: the memory must not be used again before.
        if job.rank == 0 and i % 7 == 0:
            kept = x[3:5].numpy()
            kept[...] = i % 251
        if job.rank == 0:
            assert (kept == i // 7 * 7 % 251).all()
        del x
    assert address in seen and len(seen) < 200
    assert len(job._blocks) < 200


@at_pes(1)
def test_an_allocation_that_needs_memory_of_dead_arrays(job):
    for _ in range(40):
        job.zeros(8 << 20, "u1")
    x = job.zeros(20 << 20, "u1")
    with pytest.raises(weft.OutOfMemory, match="free"):
        job.zeros(1 << 40, "u1")
    assert (x == 0).all()


@at_pes(2)
def test_free(job):
    x = job.zeros(10, "f4")
    view = x[2:4]
    with pytest.raises(weft.InvalidFree, match=r"1 other view.*NumpyArray of shape \(2,\)"):
        x.free()
    plain = np.asarray(view)
    del view
    with pytest.raises(weft.InvalidFree, match="view"):
        x.free()
    del plain
    x.free()
    with pytest.raises(weft.InvalidFree, match="has been freed"):
        job.put(x, np.zeros(10, "f4"), to=0)
    with pytest.raises(weft.InvalidFree, match="has been freed"):
        x.free()


@at_pes(2)
def test_asarray(job):
    values = [[1, 2, 3], [4, 5, 6 + job.rank]]
    for source, dtype in [(values, "i8"), (np.array(values, "i2"), "i2"),
                          (np.array(values, "f4").T, "f4"),
                          (memoryview(np.array(values, "u4")), None)]:
        x = job.asarray(source)
        assert x.tolist() == np.asarray(source).tolist()
        assert dtype is None or x.dtype == np.dtype(dtype)
        assert job.asarray(x) is x
    assert job.asarray([1.5, 2]).dtype == np.float64
    assert job.asarray([True, False]).dtype == np.bool_
    assert job.asarray(values, "f4").dtype == np.float32
    with pytest.raises(weft.InvalidArgument, match="numbers"):
        job.asarray(["a", "b"])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_view_moves_the_right_bytes(data):
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    some = st.sampled_from([1, 1, 2, -1])
    steps = [data.draw(st.tuples(st.integers(0, s), st.integers(0, s), some)) for s in shape]
    key = tuple(slice(a, b, c) for a, b, c in steps)
    pes = _pes()

    def body(job):
        x = job.zeros(shape, "i4")
        expected = np.zeros(shape, "i4")
        view = x[key]
        values = np.arange(view.size, dtype="i4").reshape(view.shape) + 1
        if view.flags.c_contiguous:
            job.put(view, values, to=(job.rank + 1) % job.size)
            expected[key] = values
        elif view.ndim == 1 and view.strides[0] > 0:
            job.iput(view, values, to=(job.rank + 1) % job.size)
            expected[key] = values
        else:
            with pytest.raises(weft.InvalidArgument, match="contiguous"):
                job.put(view, values, to=0)
        job.barrier()
        assert (x == expected).all()
        job.barrier()
    pes.run(body)


_kept = []


def _pes():
    if not _kept:
        _kept.append(weft.local(2))
    return _kept[0]


def teardown_module():
    for pes in _kept:
        pes.close()
