# SPDX-License-Identifier: Apache-2.0
"""Streams: which of them an argument names."""

from typing import TYPE_CHECKING, Any

from .errors import InvalidArgument

if TYPE_CHECKING:
    from ._job import Job


def stream_of(stream: Any, job: "Job") -> int:
    """Returns a stream of the job's GPU as a number: of an integer, of an object with
    __cuda_stream__, of a stream of torch or CuPy, or the library's current stream: "torch", of the
    job's GPU, or "cupy", of CuPy's current GPU."""
    if stream.__class__ is int:
        number: int = stream
        return number
    if stream == "torch":
        return _current_of_torch(job)
    if stream == "cupy":
        import cupy

        stream = cupy.cuda.get_current_stream()
        _check_gpu(cupy.cuda.runtime.getDevice(), "CuPy's current stream", job)
        return int(stream.ptr)
    for name in ("device_index", "device_id"):  # torch, CuPy
        gpu = getattr(stream, name, -1)
        if hasattr(gpu, "__index__"):
            _check_gpu(gpu.__index__(), stream, job)
    if hasattr(stream, "__cuda_stream__"):
        method: Any = stream.__cuda_stream__
        given: Any = method() if callable(method) else method
        version, handle = given
        if version != 0:
            raise InvalidArgument(f"{stream!r} has version {version} of __cuda_stream__, and Weft "
                                  "knows 0: give the stream's number instead")
        return int(handle)
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None and hasattr(value, "__int__"):
            return int(value)
    if hasattr(stream, "__index__") and not isinstance(stream, bool):
        return int(stream.__index__())
    raise InvalidArgument(f"{stream!r} is no stream: give a number, a stream of torch or CuPy, an "
                          "object with __cuda_stream__, or \"torch\" or \"cupy\"")


def _current_of_torch(job: "Job") -> int:
    """Returns torch's current stream of the job's GPU: that of the work that torch gives to arrays
    of this job, whichever GPU is torch's current one."""
    import torch

    library: Any = torch
    mine = job._gpu_ordinal()
    try:
        # What torch's own compilers use: without an object of a stream.
        gpu = library._C._cuda_getDevice() if mine is None else mine
        return int(library._C._cuda_getCurrentRawStream(gpu))
    except AttributeError:
        return int(library.cuda.current_stream(mine).cuda_stream)


def _check_gpu(gpu: int, stream: Any, job: "Job") -> None:
    """Raises InvalidArgument for a stream of another GPU. gpu: -1: the stream names none;
    stream: the stream or its description."""
    mine = job._gpu_ordinal()
    if gpu >= 0 and mine is not None and gpu != mine:
        words = stream if isinstance(stream, str) else repr(stream)
        raise InvalidArgument(f"{words} is of GPU {gpu}, and this PE uses GPU {mine}: make the "
                              f"stream on GPU {mine}, for example after "
                              f"torch.cuda.set_device({mine})")
