# SPDX-License-Identifier: Apache-2.0
"""Pools: windows of symmetric memory in which allocations are local.

The window is allocated once, by all PEs together. An allocation in it takes the first free place
that is large enough, so PEs that make the same allocations in the same order get the same places.
A table in symmetric host memory has an entry for each live allocation: its sequence number, place
and size. Before the first use of an allocation at another PE, an operation reads that PE's entry
and compares.
"""

import array
import bisect
import contextlib
import ctypes
import os
import sys
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Set, Tuple

from . import _bindings as b
from ._array import Block, ShapeLike, describe, memory_of, shape_of
from ._dtypes import DTypeLike, dtype_of
from ._library import calls, check
from ._operations import known
from .errors import InvalidArgument, InvalidFree, Mismatch, NotSymmetric, OutOfMemory

if TYPE_CHECKING:
    from ._collectives import Collectives
    from ._job import Job

ALIGNMENT = 512  # bytes; CuPy and torch rely on it
# Words of the table before its entries: the number of allocations so far, whether another PE waits
# for the next one, and a signal for this PE's own waits.
_COUNT, _AWAITED, _WAKE, _HEAD = 0, 1, 2, 3
_WORDS = 3  # of an entry: sequence number + 1 (0: free), offset, bytes


class Allocation:
    """An allocation of this PE in a pool."""

    __slots__ = ("number", "offset", "nbytes", "slot", "checked")

    def __init__(self, number: int, offset: int, nbytes: int, slot: int) -> None:
        self.number = number  # of this PE's allocations in the pool
        self.offset = offset
        self.nbytes = nbytes
        self.slot = slot  # of the table
        self.checked: Set[int] = set()  # PEs whose entry was the same


class PoolBlock(Block):
    """An allocation of Pool.empty(). The last view releases it."""

    def __init__(self, pool: "Pool", allocation: Allocation) -> None:
        super().__init__(pool.job, pool.kind, pool._address + allocation.offset, allocation.nbytes,
                         allocation.number)
        self.pool = pool

    def give_back(self) -> None:
        assert self.pool is not None
        self.pool._released.append(self.address)
        self.freed = True

    def __del__(self) -> None:
        if not self.freed and self.pool is not None:
            self.pool._released.append(self.address)


class Space:
    """The free places of a window, by offset; neighbours are joined."""

    def __init__(self, size: int) -> None:
        self.places: List[Tuple[int, int]] = [(0, size)]

    def take(self, size: int) -> Optional[int]:
        """Returns the offset of the first place of that size, or None."""
        for i, (offset, free) in enumerate(self.places):
            if free >= size:
                self.places[i:i + 1] = [(offset + size, free - size)] if free > size else []
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Makes a place free again."""
        i = bisect.bisect(self.places, (offset, 0))
        self.places.insert(i, (offset, size))
        for at in (i, i - 1):
            if 0 <= at < len(self.places) - 1 and sum(self.places[at]) == self.places[at + 1][0]:
                first, after = self.places[at:at + 2]
                self.places[at:at + 2] = [(first[0], first[1] + after[1])]


class Pool:
    """A window of symmetric memory; job.pool() makes it.

        with job.pool("1G"):
            x = torch.zeros(1000, device="cuda")    # symmetric: job.put(x, ...) works

    Inside `with`, torch and CuPy, where the program has imported them, allocate GPU memory of this
    thread in the window. empty() and zeros() allocate at any time. No allocation is collective.
    """

    def __init__(self, job: "Job", size: int, kind: int) -> None:
        if size < ALIGNMENT:
            raise InvalidArgument(f"a pool of {size} bytes: give at least {ALIGNMENT}, for example "
                                  "job.pool(\"1G\")")
        known.pool = True
        self.job = job
        self.kind = kind
        self.size = size // ALIGNMENT * ALIGNMENT  # bytes of the window
        self.slots = max(1024, min(size // 4096, 65536))  # allocations that may be alive at once
        words = _HEAD + _WORDS * self.slots
        self._address = self._allocate(kind, self.size)
        try:
            self._table = self._allocate(b.WEFT_HOST, 8 * words)
        except OutOfMemory:
            check(calls.free(job._handle, self._address))
            raise
        self._space = Space(self.size)
        self._live: Dict[int, Allocation] = {}  # by offset
        self._offsets: List[int] = []  # of the live allocations, ascending
        self._free_slots: List[int] = list(range(self.slots))  # ascending
        self._count = 0
        self._released: Deque[int] = deque()  # addresses; any thread appends, also a collection
        self._lock = threading.RLock()
        self._inside: Optional[contextlib.ExitStack] = None
        self._failure: Optional[OutOfMemory] = None  # of an allocation by torch
        self._torch: Any = None
        self._cupy: Any = None
        self._freed = False

    def __repr__(self) -> str:
        return f"weft.Pool(size={self.size}, used={self.used}, allocations={len(self._live)})"

    def _allocate(self, kind: int, nbytes: int) -> int:
        address = ctypes.c_void_p()
        check(calls.alloc(self.job._handle, kind, nbytes, ALIGNMENT, b.WEFT_ALLOC_ZERO,
                          ctypes.byref(address)))
        if kind == b.WEFT_GPU:
            self.job._make_current()
        return address.value or 0

    # --------------------------------------------------------------------------- allocations

    @property
    def used(self) -> int:
        """Bytes of the window in allocations."""
        self._take_back()
        return self.size - sum(free for _, free in self._space.places)

    def empty(self, shape: ShapeLike, dtype: DTypeLike = "float64") -> Any:
        """Allocates an array in the window, as job.empty(). Not collective; every PE makes the same
        allocations in the same order. Raises OutOfMemory."""
        sizes, element = shape_of(shape), dtype_of(dtype)
        nbytes = element.itemsize
        for size in sizes:
            nbytes *= size
        block = PoolBlock(self, self._new(max(nbytes, 1)))
        return self.job._array_of(block, element, sizes)

    def zeros(self, shape: ShapeLike, dtype: DTypeLike = "float64") -> Any:
        """As empty(), with zeros."""
        made = self.empty(shape, dtype)
        made[...] = 0
        return made

    def _new(self, nbytes: int) -> Allocation:
        rounded = -(-nbytes // ALIGNMENT) * ALIGNMENT
        with self._lock:
            if self._freed:
                raise InvalidFree("the memory of this pool has been freed by free()")
            self._take_back()
            offset = self._space.take(rounded)
            if offset is None and self._cupy is not None:
                self._cupy.free_all_blocks()
                self._take_back()
                offset = self._space.take(rounded)
            if offset is None:
                free = [size for _, size in self._space.places]
                raise OutOfMemory(
                    f"the pool has no {rounded} bytes in one place: {sum(free)} of its {self.size} "
                    f"bytes are free, at most {max(free, default=0)} in one place. Delete arrays, "
                    f"or make a larger pool by job.pool()")
            if not self._free_slots:
                self._space.give(offset, rounded)
                raise OutOfMemory(f"the pool has {self.slots} allocations, the most for its "
                                  f"{self.size} bytes. Delete arrays, or make a larger pool by "
                                  "job.pool()")
            allocation = Allocation(self._count, offset, nbytes, self._free_slots.pop(0))
            self._live[offset] = allocation
            bisect.insort(self._offsets, offset)
            self._count += 1
            self._publish(allocation.slot, (self._count, offset, nbytes))
            return allocation

    def _publish(self, slot: int, entry: Tuple[int, int, int]) -> None:
        """Stores an entry and after it the number of allocations, and wakes PEs that wait for
        it."""
        at = _HEAD + _WORDS * slot
        for i, word in enumerate(entry):
            ctypes.c_uint64.from_address(self._table + 8 * (at + i)).value = word
        handle, me = self.job._handle_ctx, self.job.rank
        check(calls.fence(handle))
        check(calls.p64(handle, self._table + 8 * _COUNT, self._count, me))
        if self._swap(_AWAITED, 0, me):
            for pe in range(self.job.size):
                check(calls.signal(handle, self._table + 8 * _WAKE, 1, b.WEFT_SIGNAL_ADD, pe))

    def _swap(self, word: int, value: int, pe: int) -> int:
        old = ctypes.c_uint64()
        check(calls.atomic_swap64(self.job._handle_ctx, self._table + 8 * word, value,
                                  ctypes.byref(old), pe))
        return old.value

    def _take_back(self) -> None:
        """Makes the memory of released allocations free."""
        with self._lock:
            while self._released:
                offset = self._released.popleft() - self._address
                allocation = self._live.pop(offset)
                self._offsets.remove(offset)
                bisect.insort(self._free_slots, allocation.slot)
                self._space.give(offset, -(-allocation.nbytes // ALIGNMENT) * ALIGNMENT)
                self._publish(allocation.slot, (0, 0, 0))

    # -------------------------------------------------------------------------------- checks

    def check(self, of: Any) -> None:
        """Compares the allocation of an array with that of every other PE, and waits for PEs that
        have not made it yet. For arrays that kernels use at other PEs; operations compare by
        themselves. Raises Mismatch, which names the allocations of both PEs."""
        memory = memory_of(of)
        if not 0 <= memory.address - self._address < self.size:
            raise NotSymmetric(f"{describe(of)} is not in this pool")
        self._check_members(memory.address, self.job)

    def _find(self, address: int) -> Allocation:
        self._take_back()
        offset = address - self._address
        i = bisect.bisect(self._offsets, offset) - 1
        found = self._live[self._offsets[i]] if i >= 0 else None
        if found is None or offset > found.offset + found.nbytes:
            raise InvalidFree(f"byte {offset} of the pool is in no allocation: the memory of this "
                              "array has been freed")
        return found

    def _check_address(self, address: int, pe: int) -> None:
        """Compares the allocation of an address with that of PE `pe`, at its first use there."""
        if 0 <= address - self._address < self.size and 0 <= pe < self.job.size:
            self._compare(self._find(address), pe, waits=False)

    def _check_members(self, address: int, team: "Collectives") -> None:
        """As _check_address(), for all members of a team; waits for those that are late, as the
        collective does."""
        if not 0 <= address - self._address < self.size:
            return
        found = self._find(address)
        if len(found.checked) < self.job.size - 1:
            for member in range(team.size):
                there = calls.team_translate(team._handle_team, member, self.job._handle_team)
                self._compare(found, int(there), waits=True)

    def _read(self, pe: int, word: int, count: int) -> List[int]:
        values = array.array("Q", bytes(8 * count))
        check(calls.get(self.job._handle_ctx, values.buffer_info()[0], self._table + 8 * word,
                        8 * count, pe))
        return list(values)

    def _compare(self, mine: Allocation, pe: int, waits: bool) -> None:
        if pe in mine.checked or pe == self.job.rank:
            return
        # The number of allocations first: the entries of those before it are there.
        while self._read(pe, _COUNT, 1)[0] <= mine.number:
            if not waits:
                raise self._mismatch(mine, pe)
            self._await_allocation(mine, pe)
        entry = self._read(pe, _HEAD + _WORDS * mine.slot, _WORDS)
        if entry != [mine.number + 1, mine.offset, mine.nbytes]:
            raise self._mismatch(mine, pe)
        mine.checked.add(pe)

    def _await_allocation(self, mine: Allocation, pe: int) -> None:
        """Waits until PE `pe` has made another allocation."""
        seen = ctypes.c_uint64.from_address(self._table + 8 * _WAKE).value
        self._swap(_AWAITED, 1, pe)
        if self._read(pe, _COUNT, 1)[0] > mine.number:
            return
        status = calls.signal_wait(self.job._handle_ctx, self._table + 8 * _WAKE, b.WEFT_NE, seen,
                                   None)
        if status == b.STATUSES["WEFT_ERR_TIMEOUT"][0]:
            raise self._mismatch(mine, pe)
        check(status)

    def _mismatch(self, mine: Allocation, pe: int) -> Mismatch:
        """Returns an exception that names the allocations of both PEs."""
        words = self._read(pe, 0, _HEAD + _WORDS * self.slots)
        theirs = [words[i:i + _WORDS] for i in range(_HEAD, len(words), _WORDS)]
        same = [entry for entry in theirs if entry[0] == mine.number + 1]
        here = f"allocation {mine.number} of the pool has {mine.nbytes} bytes at PE {self.job.rank}"
        if words[_COUNT] <= mine.number:
            there = f"PE {pe} has made {words[_COUNT]} allocations"
            live = [entry for entry in theirs if entry[0] == words[_COUNT] > 0]
            if live:
                there += f", the last (number {words[_COUNT] - 1}) of {live[0][2]} bytes"
            remedy = "call barrier() between an allocation and its first use by another PE"
        elif not same:
            there = f"PE {pe}, which has made {words[_COUNT]} allocations, has freed its own"
            remedy = "keep an array until no other PE uses it"
        else:
            there = f"{same[0][2]} bytes at PE {pe}"
            if same[0][2] == mine.nbytes:
                here += f" at byte {mine.offset}"
                there += f" at byte {same[0][1]}"
            remedy = "make and delete the same arrays in the same order at every PE"
        return Mismatch(f"{here}, and {there}: {remedy}", pe)

    # ------------------------------------------------------------------------ other libraries

    def __enter__(self) -> "Pool":
        if self._freed or self._inside is not None:
            raise InvalidArgument("this pool is in use by another `with`" if not self._freed else
                                  "the memory of this pool has been freed by free()")
        self._failure = None
        with contextlib.ExitStack() as stack:
            if self.kind == b.WEFT_GPU:
                self._enter_torch(stack)
                self._enter_cupy(stack)
            self._inside = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        inside, self._inside = self._inside, None
        if inside is not None:
            inside.close()
        if self._cupy is not None:
            self._cupy.free_all_blocks()
        failure, self._failure = self._failure, None
        # torch knows that the allocation failed, but not why.
        if failure is not None and error is not None and kind.__name__ == "OutOfMemoryError":
            raise failure from error

    def _enter_torch(self, stack: contextlib.ExitStack) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return
        if self._torch is None:
            allocate, free = _functions_of_torch(self)
            self._torch = torch._C._cuda_customAllocator(
                *(ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, free)))
            # torch calls them as long as a tensor exists.
            _kept.append((allocate, free, self._torch))
        # A torch pool of its own for each `with`: its end returns what no tensor uses.
        stack.enter_context(torch.cuda.use_mem_pool(torch.cuda.MemPool(self._torch)))

    def _enter_cupy(self, stack: contextlib.ExitStack) -> None:
        cupy = sys.modules.get("cupy")
        if cupy is None:
            return
        if self._cupy is None:
            allocator = cupy.cuda.PythonFunctionAllocator(self._allocate_for, self._free_for)
            self._cupy = cupy.cuda.MemoryPool(allocator.malloc)
        stack.enter_context(cupy.cuda.using_allocator(self._cupy.malloc))

    def _allocate_for(self, nbytes: int, device: int) -> int:
        """Allocates for another library on its GPU `device`."""
        mine = self.job._gpu_ordinal()
        if device != mine:
            raise InvalidArgument(f"the pool is memory of GPU {mine}, and the current GPU is "
                                  f"{device}: select GPU {mine}, which job.gpu() names")
        return self._address + self._new(nbytes).offset

    def _free_for(self, address: int, device: int) -> None:
        del device
        if not self._freed:
            self._released.append(address)

    # ----------------------------------------------------------------------------------- end

    def free(self) -> None:
        """Frees the window. Collective: every PE frees the same pool. Raises InvalidFree where
        arrays of the pool are alive."""
        if self._freed:
            raise InvalidFree("the memory of this pool has been freed by free()")
        if self._inside is not None:
            raise InvalidFree("the pool is in use by a `with`: end it first")
        if self._cupy is not None:
            self._cupy.free_all_blocks()
        if self._torch is not None:
            sys.modules["torch"].cuda.empty_cache()
        self._take_back()
        if self._live:
            sizes = ", ".join(f"number {a.number} of {a.nbytes} bytes"
                              for a in list(self._live.values())[:5])
            raise InvalidFree(f"the pool has {len(self._live)} allocations that are alive: "
                              f"{sizes}. Delete the arrays first")
        self._freed = True
        self._cupy = None
        self.job._pools.remove(self)
        for address in (self._table, self._address):
            check(calls.free(self.job._handle, address))


_kept: List[Any] = []  # functions and allocators that torch may call until this process ends

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


def _functions_of_torch(pool: Pool) -> Tuple[Any, Any]:
    """Returns the two functions that torch's allocator calls, as functions of C. They do not keep
    the
    pool: its job may have ended."""
    known = weakref.ref(pool)

    def allocate(nbytes: int, device: int, stream: Any) -> int:
        del stream
        here = known()
        if here is None or here._freed:
            return 0
        try:
            return here._allocate_for(nbytes, device)
        except OutOfMemory as error:
            here._failure = error
        except Exception as error:
            os.write(2, f"weft: {error}\n".encode())
        return 0  # torch raises its OutOfMemoryError

    def free(address: int, nbytes: int, device: int, stream: Any) -> None:
        del nbytes, stream
        here = known()
        if here is not None:
            here._free_for(address, device)

    return _Allocate(allocate), _Free(free)
