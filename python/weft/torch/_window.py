# SPDX-License-Identifier: Apache-2.0
"""Windows of symmetric memory in which each rank allocates by itself.

A window is one symmetric array of a job whose PEs are the ranks of torch's default group: PE number
and global rank are the same. An allocation takes a place in a window of this rank, of any offset. A
rendezvous exchanges the places among the members of a group, by a mailbox in the first window's job
that each PE has for each other one.

A place has the buffer, the signal pad of torch (32-bit words, which kernels of torch use) and
Weft's own signals (64-bit words). It is free again when this rank has no tensor, view or handle of
it, and every other member of its groups has none: each member then adds 1 to a counter at the
owner.
"""

import ctypes
import struct
import threading
import weakref
import zlib
from collections import deque
from importlib import import_module
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Tuple

from .. import _bindings as b
from .._array import Block
from .._job import join, unique_id
from .._library import calls, check
from .._pool import ALIGNMENT, Space
from ..errors import InvalidArgument, Mismatch, OutOfMemory, Timeout, WeftError

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
_c10d: Any = dist.distributed_c10d

Members = Tuple[int, ...]

# Bytes of a window that the program has not reserved. Host memory is taken from the system when it
# is first written, GPU memory at once.
DEFAULT = {"cpu": 4 << 30, "cuda": 1 << 30}
_SLOTS = 16384  # allocations of a window that may be alive at once
_RECORD = struct.Struct("<IQQIII")  # a Place, CRC of the members
_PAD = 32 * 72 * 4  # bytes of a signal pad, as torch 2.11 has


def pad_bytes() -> int:
    """Returns the bytes of the signal pad of a new allocation: torch's setting, where it has
    one."""
    known = getattr(torch._C, "_distributed_c10d", None)
    size = getattr(getattr(known, "_SymmetricMemory", None), "signal_pad_size", _PAD)
    return size if isinstance(size, int) else _PAD  # in torch 2.5 a property of handles


def _round_up(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Place(NamedTuple):
    """Where an allocation of a rank is in its window: what members exchange."""

    window: int  # number among the windows of its kind of device
    offset: int
    nbytes: int  # of the buffer
    pad: int  # bytes of the signal pad
    slot: int  # of the counter of members that have released it

    @property
    def pad_offset(self) -> int:
        """Offset of the signal pad from the buffer, in bytes."""
        return _round_up(self.nbytes)

    @property
    def signals(self) -> int:
        """Offset of Weft's signals from the buffer, in bytes: four times the bytes of the pad."""
        return _round_up(self.pad_offset + self.pad)

    @property
    def size(self) -> int:
        """Bytes of the window that it takes."""
        return _round_up(self.signals + 4 * self.pad)


class Allocation(Block):
    """An allocation of this rank. Its last tensor, view or handle releases it."""

    def __init__(self, window: "Window", place: Place, group_name: Optional[str]) -> None:
        super().__init__(window.job, window.kind, window.base + place.offset, place.nbytes,
                         place.slot)
        self.window = window
        self.place = place
        self.group_name = group_name  # that torch gave it
        self.places: Dict[Members, List[Place]] = {}  # of the members of its groups, by rank

    def __del__(self) -> None:
        # In any thread, also within a garbage collection: Weft is not called here.
        self.window.released.append((self.place, self.places))


class Window:
    """Symmetric memory of all ranks of the default group, on one kind of device. Collective.
    windows: those of this kind, to which it is added; number: of the process's windows."""

    def __init__(self, device: str, nbytes: int, windows: "List[Window]", number: int) -> None:
        self._world = weakref.ref(_c10d._get_default_group())
        self.windows, self.number = windows, len(windows)
        self.device = device
        self.kind = b.WEFT_HOST if device == "cpu" else b.WEFT_GPU
        self.size = _round_up(nbytes)  # in bytes
        me, size = dist.get_rank(), dist.get_world_size()
        store = _c10d._get_default_store()
        key = f"weft_symm/{number}"
        if me == 0:
            store.set(key, unique_id())
        heap = (16 << 20) + 256 * size + (self.size if device == "cpu" else 0)
        self.job = join(heap, bytes(store.get(key)), me, size)
        self._handle, self.ctx = self.job._handle, self.job._handle_ctx
        self._memory = self.job.empty(self.size, "u1", kind="host" if device == "cpu" else "gpu")
        self.base = int(self._memory.address)
        # For each PE: the number of records that it has sent, and the last two of them.
        self._mailbox = self.job.zeros(size * (8 + 2 * _RECORD.size), "u1")
        self._counters = self.job.zeros(_SLOTS, "u8")  # of members that have released a place
        self._exchanged = [0] * size  # records, by PE
        self._space = Space(self.size)
        self._slots = list(range(_SLOTS))
        # Places whose last use here has ended, with the members' places of each group.
        self.released: Deque[Tuple[Place, Dict[Members, List[Place]]]] = deque()
        self._awaited: List[Tuple[Place, int]] = []  # with the number of members to release them
        self._lock = threading.RLock()
        # Where this rank loads and stores the windows of all ranks; 0: not at all.
        self.addresses = [self.base if pe == me else int(calls.ptr(self._handle, self.base, pe)
                                                         or 0) for pe in range(size)]
        windows.append(self)

    def is_current(self) -> bool:
        """Whether torch's default group is the one that the window was made for."""
        return dist.is_initialized() and self._world() is _c10d._get_default_group()

    # --------------------------------------------------------------------------- allocations

    def allocate(self, nbytes: int, group_name: Optional[str], waits: bool) -> Optional[Allocation]:
        """Allocates a buffer of `nbytes` bytes, or returns None where there is no place for it. Not
        collective. waits: for places that other members still use."""
        place = Place(self.number, 0, nbytes, pad_bytes(), 0)
        with self._lock:
            self._take_back()
            offset = self._space.take(place.size) if self._slots else None
            while offset is None and waits and self._awaited:
                self._await_members(*self._awaited[0])
                self._take_back()
                offset = self._space.take(place.size) if self._slots else None
            if offset is None:
                return None
            place = place._replace(offset=offset, slot=self._slots.pop())
        at, zeros = self.base + offset + place.pad_offset, place.size - place.pad_offset
        if self.device == "cpu":
            ctypes.memset(at, 0, zeros)
        else:
            check(calls.copy_to(self._handle, at, bytes(zeros), zeros))
            check(calls.copy_flush(self._handle, at))
        return Allocation(self, place, group_name)

    def _counter(self, slot: int) -> int:
        return int(self._counters.address) + 8 * slot

    def _take_back(self) -> None:
        """Reports the places that this rank has released to the members that own the other parts,
        and makes the places free that all members have released."""
        if self.released and self.device != "cpu":
            torch.cuda.synchronize(self.job._gpu_ordinal())  # work that still uses them
        reports = bool(self.released)
        while self.released:
            place, groups = self.released.popleft()
            for members, places in groups.items():
                for pe, theirs in zip(members, places):
                    if pe != self.job.rank:
                        # A PE that has ended needs its memory no more: no status is an error here.
                        window = self.windows[theirs.window]
                        calls.signal(window.ctx, window._counter(theirs.slot), 1,
                                     b.WEFT_SIGNAL_ADD, pe)
            self._awaited.append((place, sum(len(members) - 1 for members in groups)))
        for window in self.windows if reports else []:
            calls.quiet(window.ctx)
        seen = ctypes.c_uint64()
        for place, users in list(self._awaited):
            counter = self._counter(place.slot)
            check(calls.signal_fetch(self.ctx, counter, ctypes.byref(seen)))
            if seen.value >= users:
                ctypes.c_uint64.from_address(counter).value = 0
                self._awaited.remove((place, users))
                self._space.give(place.offset, place.size)
                self._slots.append(place.slot)

    def _await_members(self, place: Place, users: int) -> None:
        try:
            check(calls.signal_wait(self.ctx, self._counter(place.slot), b.WEFT_GE, users, None))
        except WeftError as error:
            raise OutOfMemory(f"symmetric memory is full, and other ranks still use {place.nbytes} "
                              f"bytes that this rank has released ({error}). Delete tensors and "
                              "handles at every rank, or call weft.torch.symm.reserve()") from None

    # ---------------------------------------------------------------------------- rendezvous

    def exchange(self, mine: Allocation, members: Members) -> List[Place]:
        """Returns the places of all members, in the order of the group. Collective over the group,
        of the first window. Raises Mismatch where sizes or groups differ."""
        with self._lock:
            if members not in mine.places:
                mine.places[members] = self._exchange(mine.place, members)
            return mine.places[members]

    def _exchange(self, mine: Place, members: Members) -> List[Place]:
        me, group = self.job.rank, zlib.crc32(repr(members).encode())
        record = ctypes.create_string_buffer(_RECORD.pack(*mine, group), _RECORD.size)
        mailbox = int(self._mailbox.address)
        records = mailbox + 8 * self.job.size
        # This rank ends an exchange after every member has begun it. It is ahead of a member by one
        # record at most: with two slots it does not replace one that is not read yet.
        for pe in members:
            if pe != me:
                slot = 2 * me + self._exchanged[pe] % 2
                check(calls.put_signal(self.ctx, records + slot * _RECORD.size,
                                       ctypes.addressof(record), _RECORD.size, mailbox + 8 * me, 1,
                                       b.WEFT_SIGNAL_ADD, pe))
        found, wrong = [], ""
        for pe in members:
            if pe == me:
                found.append(mine)
                continue
            try:
                check(calls.signal_wait(self.ctx, mailbox + 8 * pe, b.WEFT_GE,
                                        self._exchanged[pe] + 1, None))
            except Timeout as error:
                raise Timeout(f"rendezvous of ranks {', '.join(map(str, members))}: rank {pe} did "
                              f"not come ({error})", pe) from None
            slot = 2 * pe + self._exchanged[pe] % 2
            self._exchanged[pe] += 1
            *fields, their_group = _RECORD.unpack(ctypes.string_at(records + slot * _RECORD.size,
                                                                   _RECORD.size))
            theirs = Place(*fields)
            found.append(theirs)
            if their_group != group:
                wrong = f"rank {pe} calls the rendezvous of another group"
            elif (theirs.nbytes, theirs.pad) != (mine.nbytes, mine.pad):
                wrong = f"rank {pe}'s has {theirs.nbytes} bytes and a signal pad of {theirs.pad}"
        check(calls.quiet(self.ctx))
        if wrong:
            raise Mismatch(f"rendezvous of ranks {', '.join(map(str, members))}: rank {me}'s "
                           f"tensor has {mine.nbytes} bytes and a signal pad of {mine.pad}, and "
                           f"{wrong}. All members call rendezvous() in one order, with tensors of "
                           "the same size")
        return found


# The windows of a kind of device, of the newest default group. They end with the process.
_windows: Dict[str, List[Window]] = {}
_count = 0  # of windows that this process has made
_live: "weakref.WeakValueDictionary[int, Allocation]" = weakref.WeakValueDictionary()
_lock = threading.RLock()


def windows_of(device: Any) -> List[Window]:
    """Returns the windows of torch's device: the PE's GPU, or the CPU."""
    if device.type not in DEFAULT:
        raise InvalidArgument(f"device {device}: symmetric memory of Weft is on \"cpu\" or "
                              "\"cuda\"")
    if not dist.is_initialized():
        raise InvalidArgument("symmetric memory needs torch's default group: call "
                              "torch.distributed.init_process_group() first")
    found = _windows.setdefault(device.type, [])
    if found and not found[0].is_current():
        found = _windows[device.type] = []
    if found and device.type == "cuda":
        gpu = found[0].job._gpu_ordinal()
        if device.index not in (None, gpu):
            raise InvalidArgument(f"device {device}: this rank's symmetric memory is on GPU {gpu}. "
                                  f"Use \"cuda:{gpu}\", or call torch.cuda.set_device() before the "
                                  "first allocation")
    return found


def add_window(device: Any, nbytes: int) -> Window:
    """Makes one more window of `nbytes` bytes at every rank. Collective over the default group."""
    global _count
    with _lock:
        found = windows_of(device)
        number, _count = _count, _count + 1
        if device.type == "cpu":
            return Window("cpu", nbytes, found, number)
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # makes the context that the job then uses
            return Window("cuda", nbytes, found, number)


def allocate(device: Any, nbytes: int, group_name: Optional[str] = None) -> Allocation:
    """Allocates `nbytes` bytes on torch's device. The first call makes a window, which is
    collective over the default group. Raises OutOfMemory."""
    with _lock:
        windows = windows_of(device) or add_window(device, DEFAULT[device.type]).windows
        for waits in (False, True):
            for window in windows:
                made = window.allocate(max(nbytes, 1), group_name, waits)
                if made is not None:
                    _live[made.address] = made
                    return made
    raise OutOfMemory(f"symmetric memory on {device} has no {nbytes} bytes in one place: this rank "
                      f"has {sum(window.size for window in windows)} bytes of it. Delete tensors "
                      "and handles, or call weft.torch.symm.reserve() at every rank")


def find(address: int) -> Optional[Allocation]:
    """Returns the allocation in which an address lies, or None."""
    exact = _live.get(address)
    if exact is not None:
        return exact
    for found in list(_live.values()):
        if 0 <= address - found.address < found.nbytes:
            return found
    return None
