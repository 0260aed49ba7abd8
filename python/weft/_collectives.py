# SPDX-License-Identifier: Apache-2.0
"""Collective operations of a team."""

import array
import ctypes
import operator
from typing import Any, List, Optional, Sequence

from . import _bindings as b
from ._array import Memory, contiguous, describe, memory_of
from ._dtypes import DType
from ._library import calls, check
from ._operations import OfJob, raise_error, strided
from ._stream import stream_of
from .errors import InvalidArgument, InvalidOperation, InvalidType, OutOfRange

_OPERATIONS = {
    "and": b.WEFT_AND, "or": b.WEFT_OR, "xor": b.WEFT_XOR, "min": b.WEFT_MIN, "max": b.WEFT_MAX,
    "sum": b.WEFT_SUM, "prod": b.WEFT_PROD, "avg": b.WEFT_AVG,
}


def operation_of(words: str) -> int:
    """Returns the C library's reduction for "sum", "prod", "min", "max", "avg", "and", "or",
    "xor"."""
    if words not in _OPERATIONS:
        raise InvalidOperation(f"reduction {words!r}: use one of {', '.join(_OPERATIONS)}")
    return _OPERATIONS[words]


class Collectives(OfJob):
    """Collective operations. A Job has them over all its PEs, a Team over its members.

    Every member calls them in the same order, with the same shapes, types and roots. Arrays are
    symmetric and contiguous. On return `dst` is complete and `src` may be reused; with stream=S the
    operation runs in the order of that stream (as for put()), and arrays may be of any GPU memory.
    Reductions combine elements in the order of the team: every member gets the same bits.

    They raise NotSymmetric, OutOfRange (sizes that do not fit), InvalidType, InvalidPE (a root that
    is no member), PeerDead and Timeout; Mismatch with WEFT_CHECK=1, where the calls differ.
    """

    _handle_team: int

    @property
    def size(self) -> int:
        """Number of PEs."""
        return int(calls.team_n_pes(self._handle_team))

    @property
    def rank(self) -> int:
        """Number of this PE, 0 ... size - 1."""
        return int(calls.team_my_pe(self._handle_team))

    def barrier(self, *, stream: Any = None) -> None:
        """Returns when all members have called it and all their operations before are complete."""
        if stream is None:
            check(calls.barrier(self._handle_team))
        else:
            check(calls.barrier_on_stream(self._handle_team, stream_of(stream, self._job)))

    def sync(self, *, stream: Any = None) -> None:
        """Returns when all members have called it; completes no operation."""
        if stream is None:
            check(calls.sync(self._handle_team))
        else:
            check(calls.sync_on_stream(self._handle_team, stream_of(stream, self._job)))

    def broadcast(self, dst: Any, src: Any, root: int = 0, *, stream: Any = None) -> None:
        """Copies `src` of member `root` to `dst` at every member."""
        to, source = self._two(dst, src, 1, 1)
        self._call("broadcast", stream, (dst, src), to.address, source.address, to.nbytes, root)

    def allgather(self, dst: Any, src: Any, *, stream: Any = None) -> None:
        """Joins the members' `src` in `dst` at every member; `dst` has size times its elements."""
        to, source = self._two(dst, src, self.size, 1)
        self._call("allgather", stream, (dst, src), to.address, source.address, source.nbytes)

    def collect(self, dst: Any, src: Any, *, stream: Any = None) -> None:
        """As allgather(); the members' `src` may have different sizes, and `dst` has all of
        them."""
        to, source = self._types(dst, src)
        self._call("collect", stream, (dst, src), to.address, source.address, source.nbytes)

    def alltoall(self, dst: Any, src: Any, *, stream: Any = None) -> None:
        """Part i of `src` goes to member i, as part `rank` of its `dst`."""
        to, source = self._two(dst, src, 1, 1)
        if to.nbytes % self.size:
            raise OutOfRange(f"{to.nbytes} bytes of {describe(dst)} are no {self.size} equal parts")
        self._call("alltoall", stream, (dst, src), to.address, source.address,
                   to.nbytes // self.size)

    def alltoallv(self, dst: Any, src: Any, send_counts: Sequence[int], recv_counts: Sequence[int],
                  *,
                  send_offsets: Optional[Sequence[int]] = None,
                  recv_offsets: Optional[Sequence[int]] = None) -> None:
        """Sends send_counts[i] elements of `src` to member i, and receives at most recv_counts[i]
        of member i in `dst`. Offsets (send_offsets, recv_offsets) are in elements; without them the
        parts follow each other."""
        to, source = self._types(dst, src)
        assert to.dtype is not None
        arrays = []
        for words, counts, offsets, memory in (("recv", recv_counts, recv_offsets, to),
                                               ("send", send_counts, send_offsets, source)):
            if len(counts) != self.size or (offsets is not None and len(offsets) != self.size):
                raise InvalidArgument(f"{words}_counts and {words}_offsets have one number for "
                                      f"each of the {self.size} members")
            numbers = [int(count) for count in counts]
            starts = [sum(numbers[:i]) for i in range(self.size)] if offsets is None else \
                [int(offset) for offset in offsets]
            for count, start in zip(numbers, starts):
                if count < 0 or start < 0 or (start + count) * to.dtype.itemsize > memory.nbytes:
                    raise OutOfRange(f"{words}: {count} elements at {start} are outside the array")
            for values in (numbers, starts):
                arrays.append(array.array("Q", [value * to.dtype.itemsize for value in values]))
        pointers = [bytes_.buffer_info()[0] for bytes_ in arrays]
        status = calls.alltoallv(self._handle_team, to.address, to.nbytes, pointers[0], pointers[1],
                                 source.address, pointers[2], pointers[3])
        if status:
            raise_error(status, self._job, dst)

    def alltoallv_on_stream(self, dst: Any, src: Any, send_bytes: Any, send_at: Any,
                            recv_bytes: Any,
                            recv_at: Any, stream: Any) -> None:
        """As alltoallv(), in the order of a stream. Four arrays have one uint64 for each member, in
        bytes, in memory that the GPU can access: sizes and places of the parts in `src`
        (send_bytes, send_at) and `dst` (recv_bytes, recv_at). The GPU reads them when the stream
        reaches the call, so kernels may write them."""
        to, source = self._types(dst, src)
        pointers = []
        for words, given in (("send_bytes", send_bytes), ("send_at", send_at),
                             ("recv_bytes", recv_bytes), ("recv_at", recv_at)):
            memory = contiguous(memory_of(given), given)
            if memory.dtype is None or memory.dtype.name != "uint64" or \
                    memory.nbytes != 8 * self.size:
                raise InvalidType(f"{words}={describe(given)} has not one uint64 for each of the "
                                  f"{self.size} members")
            pointers.append(memory.address)
        status = calls.alltoallv_on_stream(
            self._handle_team, to.address, to.nbytes, pointers[2], pointers[3], source.address,
            pointers[0], pointers[1], stream_of(stream, self._job))
        if status:
            raise_error(status, self._job, dst)

    def alltoalls(self, dst: Any, src: Any, *, stream: Any = None) -> None:
        """As alltoall(), for arrays of one dimension with any distance between their elements."""
        to, source, steps, size = strided(dst, src)
        self._check_pools(to, source)
        if to.shape[0] % self.size:
            raise OutOfRange(f"{to.shape[0]} elements of {describe(dst)} are no {self.size} equal "
                             "parts")
        self._call("alltoalls", stream, (dst, src), to.address, source.address, *steps, size,
                   to.shape[0] // self.size)

    def gather(self, dst: Any, src: Any, root: int = 0, *, stream: Any = None) -> None:
        """Joins the members' `src` in `dst` of member `root`; every member passes `dst`."""
        to, source = self._two(dst, src, self.size, 1)
        self._call("gather", stream, (dst, src), to.address, source.address, source.nbytes, root)

    def scatter(self, dst: Any, src: Any, root: int = 0, *, stream: Any = None) -> None:
        """Part i of `src` of member `root` goes to `dst` at member i."""
        to, source = self._two(dst, src, 1, self.size)
        self._call("scatter", stream, (dst, src), to.address, source.address, to.nbytes, root)

    def allreduce(self, dst: Any, src: Any, op: str = "sum", *, scale: Optional[float] = None,
                  weight: Optional[float] = None, stream: Any = None) -> None:
        """`dst` at every member becomes the members' `src`, combined element by element.

        op: "sum", "prod", "min", "max", "avg", "and", "or", "xor". scale: multiplies every element
        first, the same number at every member; weight: as scale, but each member's own. Both go
        with op="sum"; for integer types they are integers. `dst` may be `src`.
        """
        to, source = self._two(dst, src, 1, 1)
        self._reduce("allreduce", to, source, _count(source), op, scale, weight, (), stream, dst,
                     src)

    def reduce(self, dst: Any, src: Any, op: str = "sum", root: int = 0, *,
               scale: Optional[float] = None, weight: Optional[float] = None,
               stream: Any = None) -> None:
        """As allreduce(), but only member `root` gets the result."""
        to, source = self._two(dst, src, 1, 1)
        self._reduce("reduce", to, source, _count(source), op, scale, weight, (root,), stream, dst,
                     src)

    def reducescatter(self, dst: Any, src: Any, op: str = "sum", *, scale: Optional[float] = None,
                      weight: Optional[float] = None, stream: Any = None) -> None:
        """As allreduce(), but `dst` at member i becomes part i of the result."""
        to, source = self._two(dst, src, 1, self.size)
        self._reduce("reducescatter", to, source, _count(to), op, scale, weight, (), stream, dst,
                     src)

    def read_file(self, file: Any, dst: Any, offset: int = 0) -> None:
        """Part i of a file, from `offset` on, goes to `dst` at member i. `file` is None at members
        that cannot reach it; at least one has it."""
        from ._files import spread

        spread("file_scatter", self, file, dst, offset)

    def write_file(self, file: Any, src: Any, offset: int = 0) -> None:
        """`src` of member i becomes part i of a file, from `offset` on; see read_file()."""
        from ._files import spread

        spread("file_gather", self, file, src, offset)

    # ------------------------------------------------------------------------------- insides

    def _check_pools(self, *memories: Memory) -> None:
        """Compares the allocations of pools in which the memories lie with those of all members."""
        for pool in self._job._pools:
            for memory in memories:
                pool._check_members(memory.address, self)

    def _types(self, dst: Any, src: Any) -> List[Memory]:
        pair = [contiguous(memory_of(dst), dst), contiguous(memory_of(src), src)]
        if pair[0].dtype is None or pair[0].dtype != pair[1].dtype:
            names = [memory.dtype.name if memory.dtype else "bytes" for memory in pair]
            raise InvalidType(f"the destination has {names[0]} and the source {names[1]}: "
                              "give arrays of one element type")
        self._check_pools(*pair)
        return pair

    def _two(self, dst: Any, src: Any, of_dst: int, of_src: int) -> List[Memory]:
        """Returns the memories, whose sizes are as of_dst to of_src."""
        to, source = self._types(dst, src)
        if to.nbytes * of_src != source.nbytes * of_dst:
            times = max(of_dst, of_src)
            raise OutOfRange(
                f"the destination has {to.nbytes} bytes and the source {source.nbytes}: " +
                ("they must be the same" if times == 1 else
                 f"the {'destination' if of_dst > 1 else 'source'} must be {times} times the "
                 "other"))
        return [to, source]

    def _call(self, name: str, stream: Any, arrays: Sequence[Any], *arguments: Any) -> None:
        if stream is None:
            status = getattr(calls, name)(self._handle_team, *arguments)
        else:
            status = getattr(calls, name + "_on_stream")(self._handle_team, *arguments,
                                                         stream_of(stream, self._job))
        if status:
            raise_error(status, self._job, *arrays)

    def _reduce(self, name: str, to: Memory, source: Memory, count: int, op: str,
                scale: Optional[float], weight: Optional[float], root: Sequence[int], stream: Any,
                dst: Any, src: Any) -> None:
        dtype = source.dtype
        assert dtype is not None
        if scale is None and weight is None:
            self._call(name, stream, (dst, src), to.address, source.address, count, dtype.weft,
                       operation_of(op), *root)
            return
        if op != "sum" or (scale is not None and weight is not None):
            raise InvalidOperation("scale or weight, one of them, goes with op=\"sum\"")
        form = "_scaled" if scale is not None else "_weighted"
        factor = _factor(dtype, scale if scale is not None else weight)
        self._call(name + form, stream, (dst, src), to.address, source.address, count, dtype.weft,
                   ctypes.addressof(factor), *root)


def _factor(dtype: DType, number: Any) -> Any:
    if dtype.weft <= b.WEFT_UINT64:
        return ctypes.c_uint64(operator.index(number))
    return ctypes.c_double(number) if dtype.name in ("float64", "complex128") else \
        ctypes.c_float(number)


def _count(memory: Memory) -> int:
    assert memory.dtype is not None
    return memory.nbytes // memory.dtype.itemsize
