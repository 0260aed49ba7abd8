# SPDX-License-Identifier: Apache-2.0
"""Streams: which of them an argument names."""

from typing import Any

from .errors import InvalidArgument


def stream_of(stream: Any) -> int:
    """Returns a stream as a number: of an integer, of an object with __cuda_stream__, of a stream of
    torch or CuPy, or the current stream of the library "torch" or "cupy"."""
    if stream.__class__ is int:
        number: int = stream
        return number
    if stream == "torch":
        import torch

        try:
            # What torch's own compilers use: without an object of a stream.
            return int(torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice()))
        except AttributeError:
            return int(torch.cuda.current_stream().cuda_stream)
    if stream == "cupy":
        import cupy

        return int(cupy.cuda.get_current_stream().ptr)
    if hasattr(stream, "__cuda_stream__"):
        method = stream.__cuda_stream__
        version, handle = method() if callable(method) else method
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
