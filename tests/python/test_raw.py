# SPDX-License-Identifier: Apache-2.0
"""Raw arrays: of GPU memory, and of host memory without numpy. Here host memory stands for both."""

import ctypes
import gc

import numpy as np
import pytest

import weft
from test_arrays import TYPES, at_pes
from weft._array import RawArray
from weft._dtypes import bits_of, dtype_of, value_of


def raw(job, shape, dtype="f4"):
    """A raw array in host memory."""
    array = job.zeros(shape, dtype)
    result = RawArray(array._block, dtype_of(dtype), array.shape, array.address)
    return result


@at_pes(1)
def test_exceptions_pass_exported_memory(job):
    """An exception on whose way a consumer's tensor is deleted arrives, and the memory is free."""
    def fail():
        raise KeyError("the exception")

    block = raw(job, 4)._block
    for _ in range(3):
        with pytest.raises(KeyError, match="the exception"):
            print(np.from_dlpack(RawArray(block, dtype_of("f4"), (4,), block.address)), fail())
        with pytest.raises(KeyError, match="the exception"):
            print(RawArray(block, dtype_of("f4"), (4,), block.address).__dlpack__(), fail())
    gc.collect()
    assert not block.exports


@at_pes(1)
def test_indexing_is_numpys(job):
    x = raw(job, (4, 5, 3), "i4")
    x[...] = np.arange(60).reshape(4, 5, 3).tolist()
    y = np.arange(60, dtype="i4").reshape(4, 5, 3)
    keys = [0, -1, slice(None), slice(1, 3), (2, 3), (slice(None), 2), (..., 1), (1, ..., 2),
            (slice(3, None, -1), slice(0, 5, 2)), (0, 0, 0), (slice(2, 2), 1), ()]
    for key in keys:
        got, want = x[key], y[key]
        if np.ndim(want) == 0:
            assert got == want
            continue
        assert got.shape == want.shape and got.tolist() == want.tolist()
        assert got.strides == want.strides or not want.size
        assert got.numpy().tolist() == want.tolist() and got.tobytes() == want.tobytes()
        assert len(got) == len(want)
    for key in (4, (0, 5), (0, 0, 0, 0), -5):
        with pytest.raises(weft.OutOfRange):
            x[key]
    with pytest.raises(weft.InvalidType, match=".numpy"):
        x[[0, 1]]
    x[1, :, 2] = 7
    y[1, :, 2] = 7
    x[::2, 0] = y[::2, 1].tolist()
    y[::2, 0] = y[::2, 1]
    assert x.tolist() == y.tolist()
    assert x.reshape(6, -1).tolist() == y.reshape(6, -1).tolist()
    assert x.view("u1").shape == (4, 5, 12) and list(x[0, 0]) == y[0, 0].tolist()
    with pytest.raises(weft.InvalidArgument, match="contiguous"):
        x[:, 1].reshape(12)
    with pytest.raises(weft.InvalidArgument, match="do not fill"):
        x.reshape(7, 9)
    assert "weft.Array(" in repr(x) and str(x[0, 0]) == str(y[0, 0].tolist())


@at_pes(2)
def test_every_type(job):
    for name in [*TYPES, "bfloat16", "float8_e4m3fn", "float8_e5m2"]:
        dtype = dtype_of(name)
        x = raw(job, 6, name) if "float8" not in name and name != "bfloat16" else \
            job.zeros(6, name)
        assert x.itemsize == dtype.itemsize and x.nbytes == 6 * dtype.itemsize
        if dtype.code or name == "bfloat16":
            x[2:4] = 1
            assert x.tolist() == [0, 0, 1, 1, 0, 0]
    x, y = job.zeros(3, "bfloat16"), job.zeros(3, "bfloat16")
    x[...] = [1.5, -2, 0.25 + job.rank]
    job.allreduce(y, x)
    assert y.tolist() == [3.0, -4.0, 1.5]
    job.barrier()
    job.p(y, 3.25, to=1 - job.rank, index=1)
    job.barrier()
    assert y[1] == 3.25


def test_rounding_of_bfloat16():
    dtype = dtype_of("bfloat16")
    for value, want in [(1.0, 0x3F80), (1 + 2**-8, 0x3F80), (1 + 3 * 2**-8, 0x3F82), (-0.0, 0x8000),
                        (float("inf"), 0x7F80), (3.4e38, 0x7F80)]:
        assert bits_of(dtype, value) == want
    assert value_of(dtype, 0x3F82) == 1.015625


@at_pes(1)
def test_dlpack(job):
    new = int(np.__version__.split(".")[0]) >= 2
    # numpy 1 knows neither booleans in DLPack nor that the memory may be written.
    for name in [t for t in TYPES if new or t != "bool"]:
        x = raw(job, (3, 4), name)
        for view in (x, x[1], x[:, 1:3], x[::2]):
            y = np.from_dlpack(view)
            assert y.shape == view.shape and y.dtype == np.dtype(name)
            assert y.__array_interface__["data"][0] == view._address
        y = np.from_dlpack(x)
        x[1, 2] = 1
        assert y[1, 2] == 1 and y.sum() == 1
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), x.__dlpack__(max_version=(0, 8))]
    assert [("versioned" in repr(c)) for c in capsules] == [False, True, False]
    block = x._block
    assert len(block.exports) == 3 + 1
    del capsules, y
    gc.collect()
    assert not block.exports
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="DLPack device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="copy"):
        x.__dlpack__(copy=True)


@at_pes(1)
def test_an_export_keeps_the_memory(job):
    x = raw(job, 5)
    number = x._block.number
    y = np.from_dlpack(x)
    with pytest.raises(weft.InvalidFree, match=r"DLPack export of shape \(5,\)"):
        x.free()
    del x
    gc.collect()
    assert number not in job._released
    x = y
    del y
    gc.collect()
    assert number not in job._released
    del x
    gc.collect()
    assert number in job._released


@at_pes(2)
def test_operations_and_buffers(job):
    x, y = raw(job, 4), raw(job, 4)
    x[...] = [1, 2, 3, job.rank]
    job.put(y, x, to=1 - job.rank)
    job.barrier()
    assert y.tolist() == [1, 2, 3, 1 - job.rank]
    assert y.peer(1 - job.rank).tolist() == [1, 2, 3, job.rank]
    job.barrier()
    with pytest.raises(weft.InvalidArgument, match="not contiguous"):
        job.put(y[::2], x[:2], to=0)
    view = y.memoryview()
    assert view.tolist() == y.tolist() and view.format == "f"
    view[0] = 9
    assert y[0] == 9
    assert ctypes.c_float.from_buffer(view).value == 9
    with pytest.raises(AttributeError, match="host memory"):
        _ = y.__cuda_array_interface__
    assert np.asarray(y).tolist() == y.tolist()
