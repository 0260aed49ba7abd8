# SPDX-License-Identifier: Apache-2.0
"""Collectives of the host: tensors go through symmetric memory, in fragments."""

import ctypes
import struct
from typing import Any, Iterator, List, Sequence, Tuple

from .. import _bindings as b
from .._library import calls, check
from ..errors import Mismatch
from ._reduction import Reduction
from ._work import Host, rows_of

_STAGE = 512 << 10  # bytes of each of the four buffers, which fit a CPU's cache
_RECORD = 256  # bytes of a call that members compare


class Buffers:
    """Symmetric memory of one member, and the collectives over it."""

    nbytes = 4 * _STAGE

    def __init__(self, team: Any, rank: int, size: int, address: int) -> None:
        """address: symmetric memory of `nbytes` bytes."""
        self._team, self._rank, self._size = team, rank, size
        # Source and destination of a collective, and those of the next one: a member that is ahead
        # must not change what another one still copies.
        self._src = address
        self._dst = self._src + _STAGE
        self._next = self._dst + _STAGE, self._dst + 2 * _STAGE

    def compare(self, mine: bytes) -> None:
        """Raises Mismatch unless all members make the call that `mine` describes."""
        mine = mine[:_RECORD].rstrip()
        ctypes.memmove(self._src, mine.ljust(_RECORD), _RECORD)
        check(calls.allgather(self._team, self._dst, self._src, _RECORD))
        everyone = ctypes.string_at(self._dst, _RECORD * self._size)
        check(calls.sync(self._team))  # before the next call changes what others read
        for rank in range(self._size):
            theirs = everyone[rank * _RECORD:(rank + 1) * _RECORD].rstrip()
            if theirs != mine:
                raise Mismatch(f"rank {self._rank} calls {mine.decode()}, and rank {rank} calls "
                               f"{theirs.decode()}")

    def number(self, value: int, op: int) -> int:
        """Returns the members' numbers, below 2^64, combined."""
        for _ in self._fragments(8, 1, 8):
            ctypes.memmove(self._src, struct.pack("<Q", value), 8)
            check(calls.allreduce(self._team, self._src, self._src, 1, b.WEFT_UINT64, op))
            value, = struct.unpack("<Q", ctypes.string_at(self._src, 8))
        return value

    def _fragments(self, nbytes: int, parts: int, itemsize: int,
                   rooted: bool = False) -> Iterator[Tuple[int, int]]:
        """Yields offset and size of the fragments of `nbytes` bytes of which `parts` fit a buffer.
        rooted: members do not wait for all others in the collective."""
        step = _STAGE // (parts * itemsize) * itemsize
        for at in range(0, nbytes, step):
            now = self._src, self._dst
            (self._src, self._dst), self._next = self._next, now
            yield at, min(step, nbytes - at)
            if rooted:
                # The root, or another member, does not wait for all: it could be two ahead.
                check(calls.sync(self._team))

    def _put_parts(self, parts: Sequence[Host], at: int, size: int) -> None:
        """Copies what the parts have from `at` on into the source, `size` bytes apart."""
        for rank, part in enumerate(parts):
            theirs = min(size, max(part.nbytes - at, 0))
            if theirs:
                ctypes.memmove(self._src + rank * size, part.address + at, theirs)

    def _take_parts(self, parts: Sequence[Host], at: int, size: int) -> None:
        """The reverse, out of the destination."""
        for rank, part in enumerate(parts):
            theirs = min(size, max(part.nbytes - at, 0))
            if theirs:
                ctypes.memmove(part.address + at, self._dst + rank * size, theirs)

    def allreduce(self, tensor: Any, reduction: Reduction) -> None:
        host = Host(tensor)
        for at, size in self._fragments(host.nbytes, 1, reduction.itemsize):
            ctypes.memmove(self._src, host.address + at, size)
            check(reduction.all(self._team, self._src, self._src, reduction.count(size)))
            ctypes.memmove(host.address + at, self._src, size)
        host.write_back()

    def reduce(self, tensor: Any, root: int, reduction: Reduction) -> None:
        host = Host(tensor)
        for at, size in self._fragments(host.nbytes, 1, reduction.itemsize, True):
            ctypes.memmove(self._src, host.address + at, size)
            check(reduction.one(self._team, self._dst, self._src, reduction.count(size), root))
            if self._rank == root:
                ctypes.memmove(host.address + at, self._dst, size)
        if self._rank == root:
            host.write_back()

    def broadcast(self, tensor: Any, root: int) -> None:
        is_root = self._rank == root
        host = Host(tensor, is_root)
        for at, size in self._fragments(host.nbytes, 1, 1, True):
            if is_root:
                ctypes.memmove(self._src, host.address + at, size)
            check(calls.broadcast(self._team, self._dst, self._src, size, root))
            if not is_root:
                ctypes.memmove(host.address + at, self._dst, size)
        if not is_root:
            host.write_back()

    def allgather(self, outputs: Sequence[Any], source: Any) -> None:
        """outputs: one for each member, of sizes that every member knows."""
        parts, mine = [Host(output, False) for output in outputs], [Host(source)]
        for at, size in self._fragments(max(part.nbytes for part in parts), self._size, 1):
            self._put_parts(mine, at, size)
            check(calls.allgather(self._team, self._dst, self._src, size))
            self._take_parts(parts, at, size)
        for part in parts:
            part.write_back()

    def _equal_parts(self, host: Any) -> Sequence[Any]:
        """Returns the parts of a contiguous tensor, one for each member."""
        flat = host.detach().view(-1)
        step = flat.numel() // self._size
        return [flat[rank * step:(rank + 1) * step] for rank in range(self._size)]

    def allgather_flat(self, output: Any, source: Any) -> None:
        """output: the members' tensors, one after the other."""
        whole = Host(output, False)
        if 0 < whole.nbytes <= _STAGE:
            mine = Host(source)
            for _, size in self._fragments(mine.nbytes, self._size, 1):
                ctypes.memmove(self._src, mine.address, size)
                check(calls.allgather(self._team, self._dst, self._src, size))
                ctypes.memmove(whole.address, self._dst, whole.nbytes)
        else:
            self.allgather(self._equal_parts(whole.host), source)
        whole.write_back()

    def gather(self, outputs: List[Any], source: Any, root: int) -> None:
        """outputs: at the root one for each member, elsewhere none."""
        mine, parts = Host(source), [Host(output, False) for output in outputs]
        for at, size in self._fragments(mine.nbytes, self._size, 1, True):
            self._put_parts([mine], at, size)
            check(calls.gather(self._team, self._dst, self._src, size, root))
            self._take_parts(parts, at, size)
        for part in parts:
            part.write_back()

    def scatter(self, output: Any, sources: List[Any], root: int) -> None:
        """sources: at the root one for each member, elsewhere none."""
        mine, parts = Host(output, False), [Host(source) for source in sources]
        for at, size in self._fragments(mine.nbytes, self._size, 1, True):
            self._put_parts(parts, at, size)
            check(calls.scatter(self._team, self._dst, self._src, size, root))
            self._take_parts([mine], at, size)
        mine.write_back()

    def reduce_scatter(self, output: Any, sources: Sequence[Any], reduction: Reduction) -> None:
        """Reduces sources[r] of all members to member r; sizes may differ by r."""
        result, parts = Host(output, False), [Host(source) for source in sources]
        most = max(part.nbytes for part in parts)
        for at, size in self._fragments(most, self._size, reduction.itemsize):
            self._put_parts(parts, at, size)
            check(reduction.scatter(self._team, self._dst, self._src, reduction.count(size)))
            self._take_parts([result], at, size)
        result.write_back()

    def reduce_scatter_flat(self, output: Any, source: Any, reduction: Reduction) -> None:
        """source: a part for each member, one after the other."""
        whole = Host(source)
        if not 0 < whole.nbytes <= _STAGE:
            self.reduce_scatter(output, self._equal_parts(whole.host), reduction)
            return
        result = Host(output, False)
        for _, size in self._fragments(result.nbytes, self._size, reduction.itemsize):
            ctypes.memmove(self._src, whole.address, whole.nbytes)
            check(reduction.scatter(self._team, self._dst, self._src, reduction.count(size)))
            ctypes.memmove(result.address, self._dst, size)
        result.write_back()

    def alltoall(self, outputs: Sequence[Any], sources: Sequence[Any], even: bool = False) -> None:
        """Sends sources[r] to member r, and receives outputs[r] from it. even: all have the same
        size at every member."""
        results = [Host(output, False) for output in outputs]
        parts = [Host(source) for source in sources]
        most = max(part.nbytes for part in [*results, *parts])
        if not even:
            most = self.number(most, b.WEFT_MAX)
        for at, size in self._fragments(most, self._size, 1):
            self._put_parts(parts, at, size)
            check(calls.alltoall(self._team, self._dst, self._src, size))
            self._take_parts(results, at, size)
        for result in results:
            result.write_back()

    def alltoall_flat(self, output: Any, source: Any) -> None:
        """Equal parts for each member, one after the other."""
        whole, mine = Host(output, False), Host(source)
        if 0 < mine.nbytes <= _STAGE:
            for _, size in self._fragments(mine.nbytes // self._size, self._size, 1):
                ctypes.memmove(self._src, mine.address, mine.nbytes)
                check(calls.alltoall(self._team, self._dst, self._src, size))
                ctypes.memmove(whole.address, self._dst, mine.nbytes)
        else:
            self.alltoall(self._equal_parts(whole.host), self._equal_parts(mine.host), True)
        whole.write_back()

    def alltoall_rows(self, output: Any, takes: Sequence[int], source: Any,
                      sends: Sequence[int]) -> None:
        """Sends sends[r] rows to member r, and receives takes[r] rows from it."""
        whole = Host(output, False)
        self.alltoall(rows_of(whole.host, takes), rows_of(Host(source).host, sends))
        whole.write_back()
