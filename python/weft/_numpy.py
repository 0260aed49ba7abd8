# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays in host memory as numpy arrays."""

from typing import Any, Optional, Union

import numpy

from ._array import Array, Block, Memory, PeerMemory, Shape, _numpy_dtype, contiguous
from ._dtypes import DType, dtype_of


class NumpyArray(Array, numpy.ndarray):
    """A numpy array whose memory is symmetric. Slices are symmetric, results of computations
    not."""

    def __array_finalize__(self, template: Any) -> None:
        block = _holder_of(self)
        if isinstance(block, Block):
            block.views[id(self)] = self

    # numpy calls this for results of functions: they are plain arrays and numbers.
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:
            return array
        plain = array.view(numpy.ndarray)
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def __getattr__(self, name: str) -> Any:
        # These are computed once, by the first operation.
        if name in ("_address", "_nbytes") and self._block is None:
            raise AttributeError(name)  # a copy, or another PE's: memory as of any numpy array
        if name == "_address":
            self._require_block()
            self._address = self.ctypes.data
            return self._address
        if name == "_nbytes" and self._require_block().pool is None:
            if not self.flags.c_contiguous:
                contiguous(self._memory(), self)
            self._nbytes = self.nbytes
            return self._nbytes
        if name == "_element":
            from ._operations import Element

            self._element = Element(self)
            return self._element
        raise AttributeError(name)

    @property
    def _block(self) -> Optional[Block]:  # type: ignore[override]
        holder = _holder_of(self)
        return holder if isinstance(holder, Block) else None

    @property
    def _dtype(self) -> DType:  # type: ignore[override]
        return dtype_of(self.dtype)

    def _memory(self) -> Memory:
        return Memory(self.ctypes.data, self.nbytes, dtype_of(self.dtype), self.shape,
                      None if self.flags.c_contiguous else self.strides, None)

    def _at(self, memory: PeerMemory) -> Any:
        offset = self.ctypes.data - memory.block.address
        whole = numpy.asarray(memory).view(NumpyArray)
        if not self.nbytes:
            return whole[:0].view(self.dtype).reshape(self.shape)
        # By strides, because the view may have any.
        first = whole[offset:offset + self.itemsize].view(self.dtype)
        return numpy.lib.stride_tricks.as_strided(first, self.shape, self.strides, subok=True)

    def _forget(self) -> None:
        self.__dict__.pop("_address", None)
        self.__dict__.pop("_nbytes", None)
        self.__dict__.pop("_element", None)

    def numpy(self) -> Any:
        """Returns a plain numpy array of the same memory."""
        return self.view(numpy.ndarray)

    def torch(self) -> Any:
        """Returns a torch tensor of the same memory."""
        import torch

        library: Any = torch
        return library.from_numpy(self.view(numpy.ndarray))

    def jax(self) -> Any:
        """Returns a JAX array of the same memory."""
        import jax.dlpack

        return jax.dlpack.from_dlpack(self.view(numpy.ndarray))


def _holder_of(array: Any) -> Union[Block, PeerMemory, None]:
    """Returns what holds the memory of an array: the last object of its chain of bases."""
    base = array.base
    while base is not None and not isinstance(base, (Block, PeerMemory)):
        base = getattr(base, "base", None)
    return base


def array_of(block: Block, dtype: DType, shape: Shape) -> NumpyArray:
    """Returns the array of a block."""
    size = dtype.itemsize
    for count in shape:
        size *= count
    plain = numpy.asarray(block)[:size].view(_numpy_dtype(dtype)).reshape(shape)
    array: NumpyArray = plain.view(NumpyArray)
    return array
