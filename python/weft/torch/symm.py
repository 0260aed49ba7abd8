# SPDX-License-Identifier: Apache-2.0
"""Symmetric memory with the names of torch.distributed._symmetric_memory, for tensors of GPUs and
of the CPU.

    import weft.torch.symm as symm

    x = symm.empty(1024, dtype=torch.float32, device="cuda")    # or "cpu"
    handle = symm.rendezvous(x)
    handle.barrier()
    theirs = handle.get_buffer((rank + 1) % size, x.shape, x.dtype)

The tensors are in windows of symmetric memory, which the first empty() or reserve() makes: that
call is collective over torch's default group, which may have any backend. Later allocations are
not. rendezvous() is collective over its group.

Calls for CPU tensors act at once. Those for CUDA tensors are queued on torch's current stream.

The memory of a tensor lives as long as the tensor, a view of it, its handle, or a view of a peer's
memory that get_buffer() gave. It is used again when this holds at no member of its groups any more:
a member that has released its own tensor does not change what another still reads.

register() makes Weft a backend of torch's own symmetric memory, with torch 2.11 and newer.
"""

import ctypes
import math
import threading
import time
from importlib import import_module
from typing import Any, List, Optional, Tuple, Union

from .. import _bindings as b
from .._array import Block, RawArray, contiguous, memory_of, shape_of
from .._dtypes import dtype_of
from .._job import _bytes_of
from .._library import calls, check
from .._stream import stream_of
from ..errors import InvalidArgument, NotSymmetric, OutOfRange, Timeout, Unsupported
from ._window import Allocation, Place, add_window, allocate, find

__all__ = ["SymmetricMemory", "empty", "register", "rendezvous", "reserve"]

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
_c10d: Any = dist.distributed_c10d

_BARRIER, _SIGNAL = 0, 1  # the signals of a channel and a peer
_MINUS_1 = 2**64 - 1
_LATE = 2**32  # more than a signal counts
_BYTE = dtype_of("uint8")


class _Part(Block):
    """Memory within a window, of this rank or a peer: keeps an allocation, and frees nothing."""

    def __init__(self, of: Allocation, address: int, nbytes: int) -> None:
        super().__init__(of.job, of.kind, address, nbytes, -1)
        self.of = of

    def __del__(self) -> None:
        pass


def _tensor_of(block: Block, address: int, sizes: Tuple[int, ...], dtype: Any) -> Any:
    """Returns the memory at `address` as a tensor, which keeps the block."""
    nbytes = math.prod(sizes) * _itemsize(dtype)
    plain = RawArray(block, _BYTE, (nbytes,), address).torch()
    return plain.view(dtype).view(sizes)


def _itemsize(dtype: Any) -> int:
    return int(torch.empty(0, dtype=dtype).element_size())


def _device_of(device: Any) -> Any:
    """Returns torch's device that an argument names; a GPU with its number."""
    if device is None:
        device = torch.empty(0).device
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return device


def reserve(nbytes: Union[int, str], device: Any = None) -> None:
    """Reserves one more window of symmetric memory at every rank, in which empty() allocates.

    Without it the first empty() reserves 4 GiB of addresses on the CPU, whose memory is taken from
    the system when it is first written, or 1 GiB of GPU memory.
    nbytes: a number, or "8G"; the same at every rank. An allocation needs about 45 KiB besides its
    buffer (five times torch's signal pad). device: "cpu" or a GPU, as in empty(). Collective over
    torch's default group. The memory is kept until the process ends.
    Raises OutOfMemory, Mismatch, InvalidArgument, Unsupported (no GPU).
    """
    add_window(_device_of(device), _bytes_of(nbytes))


def empty(*size: Any, dtype: Any = None, device: Any = None) -> Any:
    """Returns a tensor of any contents in symmetric memory, for rendezvous().

    size: numbers, or one sequence of them; dtype: torch's default if None; device: "cpu", "cuda" or
    a device of torch; torch's default if None. The first call is collective over torch's default
    group, as reserve(); later ones are not.
    Raises OutOfMemory, InvalidArgument.
    """
    sizes = shape_of(size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    made = allocate(_device_of(device), math.prod(sizes) * _itemsize(dtype))
    return _tensor_of(made, made.address, sizes, dtype)


def _members_of(group: Any) -> Tuple[int, ...]:
    """Returns the global ranks of a group's members, in the order of the group."""
    if isinstance(group, str):
        if not hasattr(_c10d, "_resolve_process_group"):
            raise InvalidArgument(f"group {group!r}: groups have no names before torch 2.1. Give "
                                  "the group")
        try:
            group = _c10d._resolve_process_group(group)
        except RuntimeError:
            raise InvalidArgument(f"no process group has the name {group!r}: make the group by "
                                  "init_process_group() or new_group()") from None
    elif group is None:
        group = _c10d._get_default_group()
    elif group == getattr(dist.GroupMember, "NON_GROUP_MEMBER", None):
        raise InvalidArgument(f"rank {dist.get_rank()} is not a member of the group: only members "
                              "call rendezvous()")
    try:
        members = tuple(int(rank) for rank in dist.get_process_group_ranks(group))
    except (AttributeError, KeyError, TypeError):
        raise InvalidArgument(f"{group!r} is no process group, or has been destroyed: make one by "
                              "torch.distributed.new_group()") from None
    if dist.get_rank() not in members:
        raise InvalidArgument(f"rank {dist.get_rank()} is not a member of the group of ranks "
                              f"{members}: only members call rendezvous()")
    return members


def rendezvous(tensor: Any, group: Any = None) -> "SymmetricMemory":
    """Returns the handle by which the members of a group use each other's memory.

    tensor: of empty(), or a view of one; the same number of bytes at every member. group: a process
    group, its name (torch 2), or None for the default group. Collective over the group at the first
    call for a tensor and a group; later ones return at once.
    Raises NotSymmetric, Mismatch (sizes or groups differ), InvalidArgument (not a member),
    PeerDead, Timeout (a member does not come within WEFT_WAIT_LIMIT).
    """
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return _rendezvous(storage.data_ptr(), group)


def _rendezvous(address: int, group: Any) -> "SymmetricMemory":
    found = find(address)
    if found is None:
        raise NotSymmetric("the tensor is not in symmetric memory: make it by "
                           "weft.torch.symm.empty() and copy into it")
    if not found.window.is_current():
        raise NotSymmetric("the tensor belongs to a default group that has been destroyed: make "
                           "another by weft.torch.symm.empty()")
    members = _members_of(found.group_name if group is None else group)
    places = found.window.windows[0].exchange(found, members)
    return SymmetricMemory(found, members, places, address - found.address)


class SymmetricMemory:
    """The memory of one tensor at all members of a group; rendezvous() makes it.

    Ranks are those of the group. channel: 0 ... signal_pad_size / (4 * world_size) - 1; channels do
    not affect each other: each of several streams or threads uses its own. Groups of one tensor
    share its signals, as in torch: the program uses one of them at a time.
    timeout_ms: milliseconds that a call for a CPU tensor waits before it raises Timeout; 0:
    WEFT_WAIT_LIMIT. For a CUDA tensor the stream waits, for at most WEFT_WAIT_LIMIT, and a later
    call raises Timeout; another limit is Unsupported there.
    """

    def __init__(self, allocation: Allocation, members: Tuple[int, ...], places: List[Place],
                 offset: int) -> None:
        self._allocation = allocation
        self._job = allocation.job
        self._members, self._places = members, places
        self._windows = [allocation.window.windows[place.window] for place in places]
        self._rank = members.index(self._job.rank)
        self._ctx = allocation.window.ctx  # for signals of this rank's own
        self._mine = places[self._rank]
        self._offset = offset
        gpu = allocation.kind == b.WEFT_GPU
        self._device = torch.device("cuda", self._job._gpu_ordinal()) if gpu else \
            torch.device("cpu")
        here = [window.addresses[pe] for window, pe in zip(self._windows, members)]
        self._buffers = [base and base + place.offset for base, place in zip(here, places)]
        self._pads = [base and base + place.pad_offset
                      for base, place in zip(self._buffers, places)]
        self._on_device: Any = None

    def __repr__(self) -> str:
        return (f"weft.torch.symm.SymmetricMemory(rank={self.rank}, world_size={self.world_size}, "
                f"buffer_size={self.buffer_size}, device={self.device})")

    # ---------------------------------------------------------------------------- properties

    @property
    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of members of the group."""
        return len(self._members)

    @property
    def global_ranks(self) -> List[int]:
        """The members' ranks in torch's default group, by their rank in this group."""
        return list(self._members)

    @property
    def device(self) -> Any:
        """torch's device of the memory."""
        return self._device

    @property
    def buffer_size(self) -> int:
        """Bytes of each member's buffer."""
        return self._mine.nbytes

    @property
    def signal_pad_size(self) -> int:
        """Bytes of each member's signal pad."""
        return self._mine.pad

    @property
    def offset(self) -> int:
        """Bytes from the buffer's begin to the storage of the tensor."""
        return self._offset

    @property
    def buffer_ptrs(self) -> List[int]:
        """Addresses of the members' buffers here; 0: this rank cannot load and store it."""
        return list(self._buffers)

    @property
    def signal_pad_ptrs(self) -> List[int]:
        """Addresses of the members' signal pads here; 0: this rank cannot load and store it."""
        return list(self._pads)

    def _table(self, row: int) -> int:
        if self._on_device is None:
            self._on_device = torch.tensor([self._buffers, self._pads], dtype=torch.int64,
                                           device=self._device)
        return int(self._on_device[row].data_ptr())

    @property
    def buffer_ptrs_dev(self) -> int:
        """Address, on the device, of an array of buffer_ptrs. It lives as long as the handle."""
        return self._table(0)

    @property
    def signal_pad_ptrs_dev(self) -> int:
        """Address, on the device, of an array of signal_pad_ptrs. It lives as long as the
        handle."""
        return self._table(1)

    @property
    def multicast_ptr(self) -> int:
        """0: Weft gives no multicast address."""
        return 0

    @staticmethod
    def has_multicast_support(device_type: Any = None, device_idx: int = 0) -> bool:
        """Returns False: Weft gives no multicast address. device_type, device_idx: of any GPU."""
        del device_type, device_idx
        return False

    @property
    def world_within_direct_access(self) -> bool:
        """Whether this rank can load and store the buffers of all members."""
        return all(self._buffers)

    # --------------------------------------------------------------------------------- views

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.world_size:
            raise InvalidArgument(f"rank {rank}: the group has the ranks 0 to "
                                  f"{self.world_size - 1}")

    def _view(self, words: str, starts: List[int], limit: int, rank: int, sizes: Any, dtype: Any,
              offset: int) -> Any:
        """Returns a part of a member's buffer or pad. limit: its bytes; offset: in bytes."""
        self._check_rank(rank)
        shape = shape_of(sizes)
        end = offset + math.prod(shape) * _itemsize(dtype)
        if offset < 0 or end > limit:
            raise OutOfRange(f"bytes {offset} to {end} of a {words} of {limit} bytes: shape "
                             f"{shape} of {dtype} does not fit")
        if not starts[rank]:
            pe = self._members[rank]
            path = self._windows[rank].job.path(pe, "host" if self._device.type == "cpu" else "gpu")
            raise Unsupported(f"rank {rank}'s {words} cannot be loaded and stored from here: path "
                              f"{path['name']} ({path['reason']}). Use get() and put() of the "
                              "handle", pe)
        part = _Part(self._allocation, starts[rank], limit)
        return _tensor_of(part, starts[rank] + offset, shape, dtype)

    def get_buffer(self, rank: int, sizes: Any, dtype: Any, storage_offset: int = 0) -> Any:
        """Returns a member's buffer, or a part of it, as a tensor of that memory.

        rank: of the member; sizes: the shape; dtype: the element type; storage_offset: elements
        before the first one. Raises OutOfRange, InvalidArgument (no such rank), Unsupported (this
        rank cannot load and store that member's memory).
        """
        return self._view("buffer", self._buffers, self.buffer_size, rank, sizes, dtype,
                          storage_offset * _itemsize(dtype))

    def get_remote_tensor(self, peer: int, sizes: Any, dtype: Any) -> Any:
        """Returns the counterpart of the tensor that rendezvous() got, at rank `peer`, as
        get_buffer()."""
        return self._view("buffer", self._buffers, self.buffer_size, peer, sizes, dtype,
                          self._offset)

    def get_signal_pad(self, rank: int, sizes: Any = (), dtype: Any = None,
                       storage_offset: int = 0) -> Any:
        """Returns a member's signal pad, or a part of it, as a tensor of that memory.

        It is zero when the tensor is made, and is the program's: barrier(), put_signal() and
        wait_signal() use other memory. sizes: the shape; all from storage_offset on if empty;
        dtype: uint32 if None (int32 before torch 2.3). Else as get_buffer().
        """
        if dtype is None:
            dtype = getattr(torch, "uint32", torch.int32)
        itemsize = _itemsize(dtype)
        if len(shape_of(sizes)) == 0:
            sizes = (max(self.signal_pad_size // itemsize - storage_offset, 0),)
        return self._view("signal pad", self._pads, self.signal_pad_size, rank, sizes, dtype,
                          storage_offset * itemsize)

    # -------------------------------------------------------------------------------- copies

    def put(self, dst_rank: int, src: Any, storage_offset: int = 0) -> None:
        """Copies a tensor into a member's buffer, over any path, also to other hosts.

        src: a contiguous tensor; storage_offset: elements of its type before the first one in the
        buffer. The member has the data after a later put_signal() or barrier(). Raises OutOfRange.
        """
        self._copy("put", dst_rank, src, storage_offset)

    def get(self, src_rank: int, dst: Any, storage_offset: int = 0) -> None:
        """Copies from a member's buffer into a tensor, over any path.

        dst: a contiguous tensor; storage_offset: elements of its type before the first one in the
        buffer. Raises OutOfRange.
        """
        self._copy("get", src_rank, dst, storage_offset)

    def _copy(self, name: str, rank: int, tensor: Any, storage_offset: int) -> None:
        self._check_rank(rank)
        memory = contiguous(memory_of(tensor), tensor)
        at = storage_offset * tensor.element_size()
        if at < 0 or at + memory.nbytes > self.buffer_size:
            raise OutOfRange(f"{name}: bytes {at} to {at + memory.nbytes} of a buffer of "
                             f"{self.buffer_size} bytes")
        window = self._windows[rank]
        theirs = window.base + self._places[rank].offset + at
        ends = (theirs, memory.address) if name == "put" else (memory.address, theirs)
        pe = self._members[rank]
        if self._device.type == "cpu":
            check(getattr(calls, name)(window.ctx, *ends, memory.nbytes, pe))
        else:
            check(getattr(calls, name + "_on_stream")(window.ctx, *ends, memory.nbytes, pe,
                                                      stream_of("torch", self._job)))

    # ------------------------------------------------------------------------------- signals

    # A signal counts: put adds 1 at the peer, wait takes 1 away. The operations are the same each
    # time, which a CUDA graph needs, and all signals are 0 between uses.

    def _signal_at(self, rank: int, channel: int, kind: int, source: int) -> int:
        """Returns the address, in this rank's part of a window, of a signal of member `rank`."""
        self._check_rank(rank)
        self._check_rank(source)
        place = self._places[rank]
        return (self._windows[rank].base + place.offset + place.signals +
                8 * (2 * (channel * self.world_size + source) + kind))

    def _add(self, signal: int, value: int, rank: int, stream: Optional[int]) -> None:
        pe, ctx = self._members[rank], self._windows[rank].ctx
        if stream is None:
            check(calls.signal(ctx, signal, value, b.WEFT_SIGNAL_ADD, pe))
        else:
            check(calls.signal_on_stream(ctx, signal, value, b.WEFT_SIGNAL_ADD, pe, stream))

    def _take(self, words: str, source: int, channel: int, kind: int, deadline: Optional[float],
              stream: Optional[int]) -> None:
        """Waits for a signal of member `source`, and takes it."""
        signal = self._signal_at(self._rank, channel, kind, source)
        if stream is not None:
            check(calls.signal_wait_on_stream(self._ctx, signal, b.WEFT_GE, 1, stream))
        else:
            try:
                self._wait(signal, deadline)
            except Timeout as error:
                raise Timeout(f"{words} on channel {channel}: rank {self._rank} got no signal of "
                              f"rank {source} ({error})", self._members[source]) from None
        self._add(signal, _MINUS_1, self._rank, stream)

    def _wait(self, signal: int, deadline: Optional[float]) -> None:
        """Waits for a signal, until `deadline` of time.monotonic() if it is not None. At that time
        a timer adds _LATE to the signal, which ends the library's wait: a loop here would not
        notice a peer that dies."""
        if deadline is None:
            check(calls.signal_wait(self._ctx, signal, b.WEFT_GE, 1, None))
            return
        seen, left = ctypes.c_uint64(), deadline - time.monotonic()
        check(calls.signal_fetch(self._ctx, signal, ctypes.byref(seen)))
        if not seen.value and left > 0:
            me, late = self._job.rank, threading.Event()

            def end() -> None:
                late.set()
                calls.signal(self._ctx, signal, _LATE, b.WEFT_SIGNAL_ADD, me)

            timer = threading.Timer(left, end)
            timer.start()
            try:
                check(calls.signal_wait(self._ctx, signal, b.WEFT_GE, 1, None))
            finally:
                timer.cancel()
                timer.join()
                if late.is_set():
                    calls.signal(self._ctx, signal, 2**64 - _LATE, b.WEFT_SIGNAL_ADD, me)
            check(calls.signal_fetch(self._ctx, signal, ctypes.byref(seen)))
        if not seen.value:
            raise Timeout("timeout_ms has passed")

    def _begin(self, channel: int, timeout_ms: int) -> Tuple[Optional[float], Optional[int]]:
        """Returns the deadline of a call, or None, and its stream, or None for the CPU."""
        most = self.signal_pad_size // (4 * self.world_size)
        if not 0 <= channel < most:
            raise InvalidArgument(f"channel {channel}: a group of {self.world_size} ranks has the "
                                  f"channels 0 to {most - 1}")
        if timeout_ms < 0:
            raise InvalidArgument(f"timeout_ms {timeout_ms}: give milliseconds, or 0 for "
                                  "WEFT_WAIT_LIMIT")
        if self._device.type == "cpu":
            return (time.monotonic() + timeout_ms / 1000 if timeout_ms else None), None
        if timeout_ms:
            raise Unsupported(f"timeout_ms {timeout_ms}: a stream waits for WEFT_WAIT_LIMIT. Give "
                              "0, and set WEFT_WAIT_LIMIT")
        return None, stream_of("torch", self._job)

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Waits until every member has called it. What members have stored and put before is then
        visible to all.

        channel, timeout_ms: see the class. Raises Timeout, PeerDead, InvalidArgument. After a
        Timeout members may have different numbers of barriers on the channel: use another.
        """
        deadline, stream = self._begin(channel, timeout_ms)
        others = [rank for rank in range(self.world_size) if rank != self._rank]
        signals = [self._signal_at(rank, channel, _BARRIER, self._rank) for rank in others]
        if stream is None:
            self._quiet()
        for rank, signal in zip(others, signals):
            self._add(signal, 1, rank, stream)
        if stream is None:
            self._quiet()  # a wait in one window's job completes nothing in another's
        for rank in others:
            self._take("barrier", rank, channel, _BARRIER, deadline, stream)

    def _quiet(self) -> None:
        for window in set(self._windows):
            check(calls.quiet(window.ctx))

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Sends a signal to rank `dst_rank`. What this rank has stored and put there before is then
        visible to that rank. Signals are counted: the call does not wait for the peer to take
        earlier ones, and does not use timeout_ms.

        channel: see the class. Raises PeerDead, InvalidArgument.
        """
        del timeout_ms
        stream = self._begin(channel, 0)[1]
        signal = self._signal_at(dst_rank, channel, _SIGNAL, self._rank)
        ctx = self._windows[dst_rank].ctx
        if stream is None:
            check(calls.fence(ctx))
        self._add(signal, 1, dst_rank, stream)
        if stream is None:
            check(calls.quiet(ctx))  # the program may not call Weft for long

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Waits for a signal of rank `src_rank`, and takes it.

        channel, timeout_ms: see the class. Raises Timeout, PeerDead, InvalidArgument.
        """
        deadline, stream = self._begin(channel, timeout_ms)
        self._take("wait_signal", src_rank, channel, _SIGNAL, deadline, stream)


def register() -> None:
    """Makes Weft a backend of torch.distributed._symmetric_memory, by the name "WEFT".

    CPU tensors have this backend from then on; for CUDA tensors call
    torch.distributed._symmetric_memory.set_backend("WEFT") before the first allocation. The first
    call after an installation compiles a C++ source with torch's headers, in about a minute; the
    result is kept in torch's extension cache. Raises Unsupported (a torch before 2.11, no compiler
    or no ninja).
    """
    from ._adapter import register as register_adapter

    register_adapter()
