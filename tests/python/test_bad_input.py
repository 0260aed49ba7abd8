# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: each exception has its sentence, which names the value and the remedy."""

import gc
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import weft
from test_arrays import at_pes
from weft._library import library_path

SENTENCE = (r"0x[0-9a-f]+ is not a symmetric address: the heap of PE \d is 0x[0-9a-f]+ \.\.\. "
            r"0x[0-9a-f]+; memory for remote use comes from weft_alloc\(\)")


class Stream:
    """A stream of torch or CuPy on a GPU."""

    def __init__(self, gpu, **attributes):
        self.__dict__.update(attributes)
        self.device_index = gpu

    def __repr__(self):
        return "<torch.cuda.Stream>"


def check(job, cases):
    for kind, sentence, call in cases:
        with pytest.raises(kind) as failure:
            call()
        text = str(failure.value)
        assert re.fullmatch(sentence, text, re.S), f"{text}\n  is not\n{sentence}"
        assert isinstance(failure.value, weft.WeftError)


@at_pes(2)
def test_arrays_that_are_not_symmetric(job):
    x, plain, words = job.zeros(4, "f4"), np.zeros(4, "f4"), np.zeros(2, "u8")
    make = r"make it with job.zeros\(\) or job.asarray\(\). "
    end = SENTENCE
    what = rf"numpy.ndarray of shape \(4,\) is not symmetric: {make}"
    of_two = what.replace("4,", "2,")
    check(job, [
        (weft.NotSymmetric, what + "weft_put: " + end, lambda: job.put(plain, x, to=1)),
        (weft.NotSymmetric, what + "weft_get: " + end, lambda: job.get(x, plain, of=1)),
        (weft.NotSymmetric, what + "weft_put_nbi: " + end, lambda: job.put_nbi(plain, x, to=1)),
        (weft.NotSymmetric, what + "weft_p32: " + end, lambda: job.p(plain, 1.5, to=1)),
        (weft.NotSymmetric, what + "weft_g32: " + end, lambda: job.g(plain, of=1)),
        (weft.NotSymmetric, what + "weft_iput: " + end, lambda: job.iput(plain, x, to=1)),
        (weft.NotSymmetric, what + "weft_iget: " + end, lambda: job.iget(x, plain, of=1)),
        (weft.NotSymmetric, what + "argument dst: weft_allreduce: " + end,
         lambda: job.allreduce(plain, x)),
        (weft.NotSymmetric, of_two + "weft_signal: " + end, lambda: job.signal(words, to=1)),
        (weft.NotSymmetric, of_two + "weft_wait_until_all: " + end,
         lambda: job.wait(words, "==", 1)),
        (weft.NotSymmetric, of_two + "weft_atomic_fetch_add64: " + end,
         lambda: job.atomic_fetch_add(words, 1, to=1)),
        (weft.NotSymmetric,
         r"weft.NumpyArray of shape \(4,\) is not symmetric: " + make + "weft_put: " + end,
         lambda: job.put(x.copy(), plain, to=1)),
        (weft.NotSymmetric,
         r"weft.NumpyArray of shape \(4,\) is not symmetric: it is the result of a computation or "
         r"a copy. Make an array with job.zeros\(\) or job.empty\(\) and assign to it: "
         r"y\[...\] = values", lambda: x.copy().kind),
    ])
    # As the other array of an operation all of these are right.
    copy = x.copy()
    copy[:] = 2
    job.barrier()
    job.put(x, copy, to=1 - job.rank)
    job.barrier()
    job.get(plain, x, of=job.rank)
    assert plain.tolist() == [2] * 4


@at_pes(2)
def test_arrays_that_are_not_contiguous(job):
    x, plain = job.zeros((4, 6), "f4"), np.zeros(3, "f4")
    remedy = (r"\(strides \(8,\) bytes\): copy it first, or use iput\(\) and iget\(\) for one "
              r"dimension")
    here = r"weft.NumpyArray of shape \(3,\) is not contiguous " + remedy
    there = r"numpy.ndarray of shape \(3,\) is not contiguous " + remedy
    check(job, [
        (weft.InvalidArgument, here, lambda: job.put(x[1, ::2], plain, to=1)),
        (weft.InvalidArgument, here, lambda: job.get(plain, x[1, ::2], of=1)),
        (weft.InvalidArgument, there, lambda: job.put(x[1, :3], np.zeros(6, "f4")[::2], to=1)),
        (weft.InvalidArgument, here, lambda: job.allreduce(x[1, ::2], x[1, ::2])),
        (weft.InvalidArgument, "strides of -4 and 4 bytes: they must be positive multiples of the "
                               "element's 4", lambda: job.iput(x[1, 2::-1], plain, to=1)),
        (weft.InvalidArgument, r"the buffer builtins.memoryview of shape \(3,\) is not contiguous: "
                               r"copy it first, bytes\(view\)",
         lambda: job.put(x[1, :3].view("u1")[:3], memoryview(bytes(6))[::2], to=1)),
    ])


@at_pes(2)
def test_types_and_devices_that_do_not_fit(job):
    x, y = job.zeros(4, "f4"), job.zeros(4, "i4")
    known = (r"int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, "
             r"float64, complex64, complex128, bfloat16, float8_e4m3fn, float8_e5m2, bool, of "
             r"this machine's byte order")
    check(job, [
        (weft.InvalidType, r"the destination has float32 and the source int32: convert one of "
                           r"them, for example by .astype\(\)", lambda: job.put(x, y, to=1)),
        (weft.InvalidType, "the destination has float32 and the source int32: give arrays of one "
                           "element type", lambda: job.allreduce(x, y)),
        (weft.InvalidType, "dtype 'f3' is none of Weft's: use one of " + known,
         lambda: job.zeros(4, "f3")),
        (weft.InvalidType, "dtype '>f4' is none of Weft's: use one of " + known,
         lambda: job.zeros(4, ">f4")),
        (weft.InvalidType, "a signal is an array of uint64, not of int32: job.zeros"
                           r"\(n, dtype=\"uint64\"\)", lambda: job.signal(y, to=1)),
        (weft.InvalidType, "3.5 is not a value of int32", lambda: job.p(y, 3.5, to=1)),
        (weft.InvalidType, "waits take integers of 2, 4 or 8 bytes, not weft.NumpyArray of shape "
                           r"\(4,\) of float32", lambda: job.wait(x, "==", 1)),
        (weft.InvalidArgument, "kind 'tpu': use \"host\" or \"gpu\"",
         lambda: job.zeros(4, kind="tpu")),
        (weft.InvalidArgument, r"builtins.str has no memory that Weft can use: give an array of "
                               "Weft, numpy, torch, CuPy or JAX, or a buffer",
         lambda: job.put(x, "four", to=1)),
    ])
    check(job, [(weft.InvalidType, r"dtype dtype\('>f4'\) is none of Weft's: use one of " + known,
                 lambda: job.put(x, np.zeros(4, ">f4"), to=1))])


def test_arrays_of_another_job():
    with weft.local(1) as first, weft.local(1) as second:
        x = second.run(lambda job: job.zeros(4, "f4"))[0]

        def body(job):
            plain = np.zeros(4, "f4")
            sentence = r"weft.NumpyArray of shape \(4,\) belongs to another job. %s: " + SENTENCE
            check(job, [
                (weft.NotSymmetric, sentence % "weft_put", lambda: job.put(x, plain, to=0)),
                (weft.NotSymmetric, sentence % "weft_get", lambda: job.get(plain, x, of=0)),
                (weft.NotSymmetric, sentence % "argument dst: weft_allreduce",
                 lambda: job.allreduce(x, x)),
                (weft.InvalidArgument, r"weft.NumpyArray of shape \(4,\) is not a whole array of "
                 r"this job's zeros\(\), empty\(\), full\(\) or asarray\(\): only these can be "
                 r"resized",
                 lambda: job.realloc(x, 7)),
            ])

        first.run(body)


@at_pes(2)
def test_storage_that_has_been_freed(job):
    x = job.zeros(4, "f4")
    view = x[1:3]
    check(job, [
        (weft.InvalidFree, r"weft.NumpyArray of shape \(4,\) has 1 other views: weft.NumpyArray of "
                           r"shape \(2,\). Delete them first, or leave the memory to be freed "
                           r"after the last one", x.free)])
    del view
    gc.collect()
    x.free()
    gone = r"the memory of this array has been freed by free\(\)"
    check(job, [(weft.InvalidFree, gone, call) for call in (
        x.free, lambda: job.put(x, np.zeros(4, "f4"), to=1), lambda: job.p(x, 1, to=1),
        lambda: job.g(x, of=1), lambda: job.get(x, x, of=1), lambda: job.allreduce(x, x),
        lambda: x.peer(1), lambda: job.realloc(x, 3), lambda: x.kind)])
    pool = job.pool("64K", kind="host")
    pool.free()
    check(job, [(weft.InvalidFree, r"the memory of this pool has been freed by free\(\)",
                 lambda: pool.empty(3))])


@at_pes(1)
def test_streams_of_another_gpu(job):
    x = job.zeros(4, "f4")
    remedy = "make the stream on GPU 1, for example after torch.cuda.set_device\\(1\\)"
    job._ordinal = 1
    sentence = f"<torch.cuda.Stream> is of GPU 3, and this PE uses GPU 1: {remedy}"
    check(job, [(weft.InvalidArgument, sentence, call) for call in (
        lambda: job.put(x, x, to=0, stream=Stream(3, cuda_stream=7)),
        lambda: job.allreduce(x, x, stream=Stream(3, cuda_stream=7)),
        lambda: job.barrier(stream=Stream(3, __cuda_stream__=lambda: (0, 7))),
        lambda: job.quiet(stream=Stream(3, cuda_stream=7)))])
    check(job, [
        (weft.InvalidArgument, "<torch.cuda.Stream> has version 4 of __cuda_stream__, and Weft "
                               "knows 0: give the stream's number instead",
         lambda: job.put(x, x, to=0, stream=Stream(1, __cuda_stream__=lambda: (4, 7)))),
        (weft.InvalidArgument, "2.5 is no stream: give a number, a stream of torch or CuPy, an "
                               "object with __cuda_stream__, or \"torch\" or \"cupy\"",
         lambda: job.put(x, x, to=0, stream=2.5)),
    ])
    # The default stream of this PE's GPU.
    x[...] = 3
    job.put(x, x, to=0, stream=Stream(1, cuda_stream=0))


def error_with_library(path):
    """Returns what the package says when LIBWEFT is another file."""
    text = "import weft\ntry:\n    weft.init()\nexcept weft.LibraryError as e:\n    print(e)\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                          env={**os.environ, "LIBWEFT": str(path)})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.rstrip("\n")


def changed_library(tmp_path, pattern, replacement):
    """Returns a copy of libweft in which a text of the same length is changed."""
    with open(library_path(), "rb") as file:
        data = file.read()
    assert data.count(pattern) >= 1 and len(pattern) == len(replacement)
    path = tmp_path / "libweft.so.0"
    path.write_bytes(data.replace(pattern, replacement))
    return path


def test_libweft_of_another_version(tmp_path):
    version = weft.__version__.encode()
    path = changed_library(tmp_path, version + b"\0", b"9" + version[1:] + b"\0")
    assert error_with_library(path) == (
        f"{path} is version 9{weft.__version__[1:]} of Weft, and this Python package is "
        f"{weft.__version__}. Install both of one version, or set LIBWEFT to the other "
        "libweft.so.0.")


def test_an_old_glibc(tmp_path):
    with open(library_path(), "rb") as file:
        versions = set(re.findall(rb"\0GLIBC_(2\.\d+)\0", file.read()))
    newest = max(versions, key=lambda text: int(text[2:]))
    path = changed_library(tmp_path, b"\0GLIBC_" + newest + b"\0",
                           b"\0GLIBC_9" + newest[1:] + b"\0")
    here = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    wanted = "9" + newest[1:].decode()
    assert error_with_library(path) == (
        f"libweft.so.0 cannot be loaded ({path} needs glibc {wanted}, and this system has {here}: "
        "use a newer system or an older wheel, or build Weft here (./dev build)). Install Weft "
        "(pip install weft, or apt-get install libweft0), or set LIBWEFT.")


def test_no_libweft(tmp_path):
    path = tmp_path / "none.so"
    assert error_with_library(path) == (
        f"libweft.so.0 cannot be loaded ({path}: {path}: cannot open shared object file: No such "
        "file or directory). Install Weft (pip install weft, or apt-get install libweft0), or set "
        "LIBWEFT.")
    assert error_with_library("libm.so.6") == \
        "libm.so.6 is not libweft: it has no weft_version"
