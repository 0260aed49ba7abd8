# SPDX-License-Identifier: Apache-2.0
"""GPU memory over the stand-in of the CUDA driver, which the dynamic linker finds through
LD_LIBRARY_PATH: arrays, pools, maps, copies and registered memory. tests/gpu/python.py is the same
on a GPU."""

import ctypes
import gc
import os

import numpy as np
import pytest

import weft
from test_arrays import TYPES, at_pes
from weft._dtypes import dtype_of

cuda = None


def setup_module():
    global cuda
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no libcuda.so.1 here: LD_LIBRARY_PATH=build/fakecuda has the stand-in")
    os.environ["FAKE_CUDA_REGISTER"] = "1"


class ForeignArray:
    """GPU memory of another library: one cuMemCreate() allocation, mapped from its start."""

    def __init__(self, shape, typestr, device=0):
        class Prop(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("where", ctypes.c_int),
                        ("id", ctypes.c_int), ("win32", ctypes.c_void_p),
                        ("flags", ctypes.c_ubyte * 8)]

        class Access(ctypes.Structure):
            _fields_ = [("where", ctypes.c_int), ("id", ctypes.c_int), ("flags", ctypes.c_int)]

        prop, handle, address = Prop(1, 1, 1, device), ctypes.c_uint64(), ctypes.c_uint64()
        access = Access(1, device, 3)
        size = 2 << 20
        assert cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(prop),
                                ctypes.c_ulonglong(0)) == 0
        assert cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(size),
                                        ctypes.c_size_t(0), ctypes.c_uint64(0),
                                        ctypes.c_ulonglong(0)) == 0
        assert cuda.cuMemMap(address, ctypes.c_size_t(size), ctypes.c_size_t(0), handle,
                             ctypes.c_ulonglong(0)) == 0
        assert cuda.cuMemSetAccess(address, ctypes.c_size_t(size), ctypes.byref(access),
                                   ctypes.c_size_t(1)) == 0
        self.__cuda_array_interface__ = {"version": 3, "shape": shape, "typestr": typestr,
                                         "data": (address.value, False), "strides": None}


@at_pes(2)
def test_arrays_of_every_type(job):
    other = 1 - job.rank
    for name in [*TYPES, "bfloat16"]:
        dtype = dtype_of(name)
        x, y = job.zeros((2, 3), name, kind="gpu"), job.zeros((2, 3), name, kind="gpu")
        assert x.kind == "gpu" and x.dtype is dtype and not x.tobytes().strip(b"\0")
        x[1, 1:] = 1 + job.rank if name != "bool" else 1
        job.put(y, x, to=other)
        job.barrier()
        want = 1 + other if name != "bool" else 1
        assert y.tolist() == [[0, 0, 0], [0, want, want]]
        got = job.zeros((2, 3), name)
        job.get(got, x, of=other)
        assert got.tolist() == y.tolist()
        job.barrier()


def current_gpu():
    """Returns the number of the calling thread's current GPU; None if it has none."""
    context, device = ctypes.c_void_p(), ctypes.c_int()
    assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0
    if context.value is None:
        return None
    assert cuda.cuCtxGetDevice(ctypes.byref(device)) == 0
    return device.value


@pytest.mark.parametrize("make", [lambda job: job.zeros(3, kind="gpu"),
                                  lambda job: job.pool("1M")])
def test_the_gpu_becomes_current(make):
    def at_pe(job):
        job.zeros(3)
        assert cuda.cuInit(0) == 0 and current_gpu() is None
        made = make(job)
        assert current_gpu() == job.gpu()["ordinal"]
        if job.rank == 1:
            cuda.cuCtxSetCurrent(None)
        again = make(job)
        assert current_gpu() == (None if job.rank == 1 else job.gpu()["ordinal"])
        return made is again

    assert weft.spawn(at_pe, 2) == [False, False]


@at_pes(2)
def test_pools(job):
    pool, other = job.pool("1M"), 1 - job.rank
    for name in TYPES:
        x, y = pool.empty(5, name), pool.zeros(5, name)
        assert x.kind == "gpu" and x.job is job and x.address % 512 == 0
        x[...] = [job.rank, 1, 0, 1, 1]
        job.barrier()
        job.put(y[1:4], x[:3], to=other)
        job.p(y, 1, to=other, index=4) if dtype_of(name).code else None
        job.barrier()
        assert y.tolist()[:4] == [0, other, 1, 0]
        assert x.__cuda_array_interface__["data"][0] == x.address
        job.barrier()
    y = pool.zeros(600 + job.rank, "u1")
    job.barrier()
    with pytest.raises(weft.Mismatch, match=f"{600 + job.rank} bytes at PE {job.rank}, and "):
        job.put(y[:5], y[:5], to=other)
    view = y[3:]
    with pytest.raises(weft.InvalidFree, match="1 other views"):
        y.free()
    del view
    y.free()
    del x
    gc.collect()
    assert pool.used == 0
    pool.free()


@at_pes(2)
def test_copies_without_a_stream(job):
    x, y = job.zeros(1000, "i4", kind="gpu"), np.zeros(1000, "i4")
    source = np.arange(1000, dtype="i4") + job.rank
    job.copy(x, source)
    job.copy(y, x)
    assert (y == source).all()
    job.copy(x[10:15], source[:5], flush=True)
    assert x.tolist()[10:15] == source[:5].tolist()
    host = np.zeros(3, "i4")
    job.copy(host, source[:3])
    assert host.tolist() == source[:3].tolist()
    with pytest.raises(weft.InvalidArgument, match="20 bytes and the source 16: give slices"):
        job.copy(x[:5], source[:4])
    with pytest.raises(weft.InvalidArgument, match="both GPU memory"):
        job.copy(x[:5], x[5:10])


@at_pes(2)
def test_maps(job):
    other = 1 - job.rank
    x = job.full((3, 4), job.rank + 5, "i4")
    with job.map(x[1], other) as mapping:
        there = mapping.numpy()
        assert there.dtype == np.int32 and there.shape == (4,) and (there == other + 5).all()
        there[2] = 77
        mapping.flush()
        view = mapping.memoryview()
        assert view.nbytes == 16 and mapping.address
        with pytest.raises(weft.InvalidFree, match="the mapping has 2 arrays or buffers"):
            mapping.close()
        del there, view
        gc.collect()
    with pytest.raises(weft.InvalidArgument, match="closed: make another by job.map"):
        mapping.numpy()
    mapping.close()
    job.barrier()
    assert x[1].tolist() == [job.rank + 5] * 2 + [77, job.rank + 5]
    with pytest.raises(weft.InvalidPE, match="PE 2"):
        job.map(x, 2)
    with pytest.raises(weft.NotSymmetric):
        job.map(np.zeros(3), other)
    # The stand-in offers no way to GPU memory; the sentence names those that were tried.
    y = job.zeros(10, "i4", kind="gpu")
    try:
        mapping = job.map(y)
    except weft.Unsupported as error:
        assert "map" in str(error) and not job.map_info()["works"]
    else:
        mapping.numpy()[3] = 9
        mapping.flush()
        assert y[3] == 9 and job.map_info()["works"]
    assert job.gpu_pair(other)["usable"] == 1 and job.gpu_pair(other)["evidence"]


@at_pes(2)
def test_registered_memory(job):
    host = np.arange(5000, dtype="f8")
    with pytest.raises(weft.Unsupported, match="GPU"):
        job.register(host)
    x = job.zeros(5000, "f8", kind="gpu")
    with job.register(host) as registration:
        job.put(x, host, to=1 - job.rank)
        job.barrier()
        assert x.tolist() == host.tolist()
        with pytest.raises(weft.InvalidArgument, match="overlap"):
            job.register(host[10:])
    registration.close()
    job.register(host[1:]).close()
    with pytest.raises(weft.InvalidArgument, match="contiguous"):
        job.register(host[::2])


@at_pes(2)
def test_memory_of_another_library_becomes_symmetric(job):
    other, number = 1 - job.rank, len(job._blocks)
    job.zeros(1, kind="gpu")
    for typestr in ("<i4", "<f8", "|u1"):
        foreign = ForeignArray((3, 5), typestr, job.gpu()["ordinal"])
        x = job.register_symmetric(foreign)
        assert x.shape == (3, 5) and x.dtype.typestr == typestr and x.kind == "gpu"
        values = (np.arange(15).reshape(3, 5) + job.rank).astype(typestr)
        job.put(x[1:], values[1:], to=other)
        job.barrier()
        same = np.zeros((3, 5), typestr)
        job.copy(same, foreign)
        assert (same[1:] == values[1:] - job.rank + other).all()
        with pytest.raises(weft.InvalidArgument, match="is not a whole array of this job's zeros"):
            job.realloc(x, 7)
        view = x[1]
        with pytest.raises(weft.InvalidFree, match="1 other views"):
            x.free()
        del view
        x.free()
        with pytest.raises(weft.InvalidFree, match="has been freed"):
            job.put(x, values, to=other)
    # Without free() it ends after the last view at every PE.
    x = job.register_symmetric(foreign)
    del x, foreign
    gc.collect()
    job._collect()
    assert len(job._blocks) <= number + 1
    with pytest.raises(weft.Unsupported, match="memory of location 1, type 1, but this PE's heap "
                                               "is on GPU 0|PE 0 failed: not supported here"):
        job.register_symmetric(ForeignArray((7,), "|u1", 1))
    with pytest.raises(weft.NotSymmetric, match="cuMemCreate"):
        job.register_symmetric(np.zeros(4))


@at_pes(2)
def test_resize(job):
    x = job.zeros(6, "i4", kind="gpu")
    x[...] = [1, 2, 3, 4, 5, job.rank]
    y = job.realloc(x, (3, 3))
    assert y.reshape(9).tolist()[:6] == [1, 2, 3, 4, 5, job.rank] and y.kind == "gpu"
    part = y[1:]
    del y
    with pytest.raises(weft.InvalidArgument, match="is not a whole array of this job's zeros"):
        job.realloc(part, 4)


@at_pes(2)
def test_atomics_fetch_into_gpu_memory(job):
    counter = job.full(1, 5, "u8", kind="gpu")
    old = job.zeros(3, "u8", kind="gpu")
    if job.rank == 0:
        job.atomic_nbi("fetch_add", counter, 3, to=1, fetched=old[1:2]).wait()
        assert old.tolist() == [0, 5, 0]
    job.barrier()
    assert counter.tolist() == [5 + 3 * job.rank]
