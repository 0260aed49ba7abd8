# SPDX-License-Identifier: Apache-2.0
"""Memory of the program that Weft is to know (registered), and GPU memory that the CPU loads and
stores (mapped)."""

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional

from ._array import Memory, _numpy_dtype, contiguous, describe, memory_of, view_of
from ._library import calls, check
from .errors import InvalidArgument, InvalidFree

if TYPE_CHECKING:
    from ._job import Job


class Registration:
    """Memory of the program that is registered, until close(), the end of `with`, or finalize()."""

    def __init__(self, job: "Job", array: Any) -> None:
        memory = contiguous(memory_of(array), array)
        check(calls.register(job._handle, memory.address, memory.nbytes))
        self._job, self._array, self._address = job, array, memory.address

    def close(self) -> None:
        """Unregisters the memory, when operations that use it are complete."""
        if self._array is not None:
            self._array = None
            check(calls.unregister(self._job._handle, self._address))

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()


class _Mapped:
    """A mapping, which ends with its last user."""

    def __init__(self, job: "Job", memory: Memory, pe: int, array: Any) -> None:
        address = ctypes.c_void_p()
        check(calls.map(job._handle, memory.address, memory.nbytes, pe, ctypes.byref(address)))
        self.job = job
        self.array = array  # which keeps the memory
        self.address = address.value or 0
        self.nbytes = memory.nbytes

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1",
                "data": (self.address, False)}

    def __del__(self) -> None:
        if hasattr(self, "address") and not self.job._finalized:
            calls.unmap(self.job._handle, self.address)


class Mapping:
    """Memory of a GPU, or of another PE, that the CPU of this PE loads and stores; job.map() makes
    it.

    The memory of a GPU is write-combined: stores are not in order until flush(), and each load is a
    round trip over PCIe.
    """

    def __init__(self, job: "Job", array: Any, pe: int) -> None:
        memory = contiguous(memory_of(array), array)
        self._dtype, self._shape = memory.dtype, memory.shape
        self._mapped: Optional[_Mapped] = _Mapped(job, memory, pe, array)

    def _require(self) -> _Mapped:
        if self._mapped is None:
            raise InvalidArgument("the mapping is closed: make another by job.map()")
        return self._mapped

    @property
    def address(self) -> int:
        """The address at which the CPU accesses the memory."""
        return self._require().address

    def numpy(self) -> Any:
        """Returns a numpy array of the mapped memory."""
        import numpy

        plain = numpy.asarray(self._require())
        return plain if self._dtype is None else \
            plain.view(_numpy_dtype(self._dtype)).reshape(self._shape)

    def memoryview(self) -> memoryview:
        """Returns a memoryview of the bytes of the mapped memory."""
        mapped = self._require()
        return view_of(mapped.address, mapped.nbytes, mapped)

    def flush(self) -> None:
        """Returns when every reader sees what this thread has stored through mappings of the
        memory."""
        mapped = self._require()
        check(calls.map_flush(mapped.job._handle, mapped.address))

    def close(self) -> None:
        """Removes the mapping. Raises InvalidFree while arrays or buffers of it are alive."""
        if self._mapped is None:
            return
        # This object and the argument of getrefcount().
        others = sys.getrefcount(self._mapped) - 2
        if others:
            raise InvalidFree(f"the mapping has {others} arrays or buffers that are alive: delete "
                              "them first, or leave the mapping to end with the last one")
        self._mapped = None

    def __enter__(self) -> "Mapping":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()


def copy(job: "Job", dst: Any, src: Any, flush: bool) -> None:
    """Copies between host and GPU memory of this PE; see Job.copy()."""
    to, source = contiguous(memory_of(dst), dst), contiguous(memory_of(src), src)
    if to.nbytes != source.nbytes:
        raise InvalidArgument(f"the destination has {to.nbytes} bytes and the source "
                              f"{source.nbytes}: give slices of the same size")
    if to.gpu is not None and source.gpu is not None:
        raise InvalidArgument(f"{describe(dst)} and {describe(src)} are both GPU memory: use "
                              "put(..., to=job.rank), or the library that they are of")
    call = calls.copy_from if source.gpu is not None else calls.copy_to
    check(call(job._handle, to.address, source.address, to.nbytes))
    if flush:
        check(calls.copy_flush(job._handle, to.address))
