# SPDX-License-Identifier: Apache-2.0
"""Messages between the members of a group of torch.distributed (_group.py).

Each member has a ring for each sender, into which the sender puts; two counters say what it has put
and what the receiver has taken. A thread for each receiver sends what does not fit. A receive takes
messages where the program waits for it, by tag, and one thread takes what arrives for the others.
"""

import ctypes
import queue
import struct
import threading
import time
from array import array
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Sequence, Tuple

from .. import _bindings as b
from .._library import calls, check
from ..errors import InvalidArgument
from ._work import Host, done

if TYPE_CHECKING:
    from .._job import Job

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
_c10d: Any = torch._C._distributed_c10d
_Work: Any = _c10d.Work

_RING = 256 << 10  # bytes of the messages of one sender that are on their way
_HEAD = struct.Struct("<qQ")  # of a message: tag, bytes


class _Message(_Work):  # type: ignore[misc]
    """A message between two members, which may be on its way."""

    def __init__(self, group: "Messages", tensor: Any, peer: int, tag: int) -> None:
        super().__init__()
        self.group, self.tensor, self.peer, self.tag = group, tensor, peer, tag
        self.ended = threading.Event()
        self.error: Optional[BaseException] = None
        # What the program gave to the GPU before comes before what arrives.
        self.ready = torch.cuda.current_stream(tensor.device).record_event() if tensor.is_cuda \
            else None

    def write_back(self, host: Host) -> None:
        """Gives the tensor what a copy has got."""
        if self.ready is not None:
            self.ready.synchronize()
        host.write_back()

    def end(self, error: Optional[BaseException] = None) -> None:
        self.error = error
        self.ended.set()

    def is_completed(self) -> bool:
        if not self.ended.is_set():
            self.group.progress(self, False)
        return self.ended.is_set()

    def is_success(self) -> bool:
        return self.ended.is_set() and self.error is None

    def exception(self) -> Any:
        return self.error

    def source_rank(self) -> int:
        return self.peer

    _source_rank = source_rank

    def result(self) -> Any:
        return [self.tensor]

    def wait(self, timeout: Any = None) -> bool:
        while not self.ended.is_set():
            self.group.progress(self, True)
        if self.error is not None:
            raise self.error
        return True

    synchronize = wait

    def get_future(self) -> Any:
        self.wait()
        future: Any = torch.futures.Future()
        future.set_result([self.tensor])
        return future


class _Sent(_Message):
    """A message that a thread sends."""


class Messages:
    """The messages of one member."""

    def __init__(self, job: "Job", address: int) -> None:
        """address: symmetric memory of nbytes(size) bytes. Collective."""
        self._rank, self._size, self._ctx = job.rank, job.size, job._handle_ctx
        size = job.size
        self._rings = address  # [sender]
        self._heads = self._rings + size * _RING  # [sender] bytes that it has put into its ring
        self._tails = self._heads + size * 8  # [receiver] bytes that it has taken from this PE
        ctypes.memset(self._heads, 0, size * 16)
        check(calls.sync(job._handle_team))  # before another member puts there
        self._put, self._taken = [0] * size, [0] * size
        self._posted: List[Deque[_Message]] = [deque() for _ in range(size)]
        self._posted_any: Deque[_Message] = deque()  # receives from any rank
        self._unexpected: List[Deque[Tuple[int, Any]]] = [deque() for _ in range(size)]
        self._lock = threading.RLock()  # of what receives use
        self._receives = threading.Semaphore(0)  # posted ones that the thread has not seen
        self._receiver: Optional[threading.Thread] = None
        self._sending = [threading.Lock() for _ in range(size)]
        self._queues: Dict[int, "queue.SimpleQueue[Tuple[_Sent, bytes, Any]]"] = {}
        self._queued = [0] * size

    @staticmethod
    def nbytes(size: int) -> int:
        """Returns the bytes of symmetric memory for a group of `size` members."""
        return size * (_RING + 16)

    def check_peer(self, words: str, peer: int, tensors: List[Any]) -> Any:
        """Returns the only tensor, for a message with another member."""
        if len(tensors) != 1:
            raise InvalidArgument(f"{words}: {len(tensors)} tensors; give one")
        if not 0 <= peer < self._size or peer == self._rank:
            raise InvalidArgument(f"{words}: rank {peer}; the group has ranks 0 to "
                                  f"{self._size - 1}, and this is {self._rank}")
        return tensors[0]

    def _value(self, signal: int) -> int:
        value = ctypes.c_uint64()
        check(calls.signal_fetch(self._ctx, signal, ctypes.byref(value)))
        return value.value

    def _room(self, peer: int) -> int:
        """Bytes that fit the ring at the receiver."""
        return _RING - (self._put[peer] - self._value(self._tails + peer * 8))

    def _store(self, peer: int, address: int, nbytes: int) -> None:
        """Puts bytes into the ring at the receiver, which has room for them."""
        begin = self._put[peer] % _RING
        first = min(nbytes, _RING - begin)
        ring = self._rings + self._rank * _RING
        check(calls.put(self._ctx, ring + begin, address, first, peer))
        if nbytes > first:
            check(calls.put(self._ctx, ring, address + first, nbytes - first, peer))
        self._put[peer] += nbytes

    def _announce(self, peer: int) -> None:
        check(calls.fence(self._ctx))
        check(calls.signal(self._ctx, self._heads + self._rank * 8, self._put[peer],
                           b.WEFT_SIGNAL_SET, peer))

    def _send_all(self, peer: int, head: bytes, host: Host) -> None:
        """Sends a message piece by piece, as the receiver takes it."""
        kept = ctypes.create_string_buffer(head, len(head))
        for address, nbytes in ((ctypes.addressof(kept), len(head)), (host.address, host.nbytes)):
            moved = 0
            while moved < nbytes:
                room = self._room(peer)
                if room == 0:
                    self._wait(self._tails + peer * 8, self._put[peer] - _RING + 1)
                    continue
                size = min(room, nbytes - moved)
                self._store(peer, address + moved, size)
                self._announce(peer)
                moved += size

    def _wait(self, signal: int, value: int) -> None:
        """Waits until the signal is at least that value."""
        check(calls.signal_wait(self._ctx, signal, b.WEFT_GE, value, None))

    def send(self, tensors: List[Any], dst: int, tag: int = 0) -> Any:
        tensor = self.check_peer("send", dst, tensors)
        host = Host(tensor)
        head = _HEAD.pack(tag, host.nbytes)
        with self._sending[dst]:
            if not self._queued[dst] and self._room(dst) >= len(head) + host.nbytes:
                kept = ctypes.create_string_buffer(head, len(head))
                self._store(dst, ctypes.addressof(kept), len(head))
                if host.nbytes:
                    self._store(dst, host.address, host.nbytes)
                self._announce(dst)
                return done([tensor])
            work = _Sent(self, tensor, dst, tag)
            self._queued[dst] += 1
            if dst not in self._queues:
                self._queues[dst] = queue.SimpleQueue()
                threading.Thread(target=self._send_queued, args=(dst,), daemon=True,
                                 name=f"weft sender to {dst}").start()
            self._queues[dst].put((work, head, host))
        return work

    def _send_queued(self, dst: int) -> None:
        """The thread that sends messages for which there was no room."""
        while True:
            work, head, host = self._queues[dst].get()
            error: Optional[BaseException] = None
            try:
                self._send_all(dst, head, host)
            except BaseException as raised:
                error = raised
            with self._sending[dst]:
                self._queued[dst] -= 1
            work.end(error)

    def _receive_posted(self) -> None:
        """The thread that takes what arrives for receives for which the program does not wait: a
        sender may wait for room while this rank does something else."""
        while True:
            self._receives.acquire()
            time.sleep(0.001)  # most are waited for at once
            while self._posted_any or any(self._posted):
                for src in range(self._size):
                    self._take_arrived(src)
                time.sleep(0.0005)

    def _take_arrived(self, src: int) -> None:
        """Takes the next message of a sender, if it has arrived and a receive waits."""
        with self._lock:
            waiting = self._posted[src] or self._posted_any
            if not waiting:
                return
            work = waiting[0]
            try:
                if self._arrived(src) >= _HEAD.size:
                    self._take_message(src)
            except BaseException as error:
                self.cancel(work, error)

    def cancel(self, work: _Message, error: BaseException) -> None:
        """Ends a receive with an error, unless it has ended."""
        with self._lock:
            for posted in (self._posted_any, *self._posted):
                if work in posted:
                    posted.remove(work)
            if not work.ended.is_set():
                work.end(error)

    def recv(self, tensors: List[Any], src: int, tag: int = 0) -> Any:
        return self._post(_Message(self, self.check_peer("recv", src, tensors), src, tag), [src],
                          self._posted[src])

    def recv_anysource(self, tensors: List[Any], tag: int = 0) -> Any:
        return self._post(_Message(self, tensors[0], -1, tag), range(self._size), self._posted_any)

    def _post(self, work: _Message, sources: Sequence[int], posted: Deque[_Message]) -> Any:
        """Ends a receive with a message that has come, or appends it to those that wait."""
        with self._lock:
            for src in sources:
                for i, (tag, data) in enumerate(self._unexpected[src]):
                    if tag == work.tag:
                        del self._unexpected[src][i]
                        work.peer = src
                        self._deliver(work, data)
                        return work
            posted.append(work)
            if self._receiver is None:
                self._receiver = threading.Thread(target=self._receive_posted, daemon=True,
                                                  name="weft receiver")
                self._receiver.start()
        self._receives.release()
        return work

    def _arrived(self, src: int) -> int:
        """Bytes in the ring that were not taken yet."""
        return self._value(self._heads + src * 8) - self._taken[src]

    def _load(self, src: int, address: int, nbytes: int) -> None:
        """Takes bytes out of the ring, as they arrive."""
        moved = 0
        while moved < nbytes:
            there = self._arrived(src)
            if there == 0:
                self._wait(self._heads + src * 8, self._taken[src] + 1)
                continue
            begin = self._taken[src] % _RING
            size = min(there, nbytes - moved, _RING - begin)
            ctypes.memmove(address + moved, self._rings + src * _RING + begin, size)
            self._taken[src] += size
            moved += size
            check(calls.signal(self._ctx, self._tails + self._rank * 8, self._taken[src],
                               b.WEFT_SIGNAL_SET, src))

    def _take_message(self, src: int) -> None:
        """Takes the next message of a sender: into the first receive that waits for its tag, else
        into memory until one does."""
        head = ctypes.create_string_buffer(_HEAD.size)
        self._load(src, ctypes.addressof(head), _HEAD.size)
        tag, nbytes = _HEAD.unpack(head.raw)
        work = next((work for work in (*self._posted[src], *self._posted_any) if work.tag == tag),
                    None)
        host = None if work is None else Host(work.tensor, False)
        if work is not None and host is not None and host.nbytes == nbytes:
            self._load(src, host.address, nbytes)
            self._unpost(work, src)
            work.write_back(host)
            work.end()
            return
        data = torch.empty(nbytes, dtype=torch.uint8)
        self._load(src, data.data_ptr(), nbytes)
        if work is None:
            self._unexpected[src].append((tag, data))
        else:
            self._unpost(work, src)
            self._deliver(work, data)

    def _unpost(self, work: _Message, src: int) -> None:
        """Takes a receive off those that wait: it has got the message of a sender."""
        (self._posted[src] if work.peer == src else self._posted_any).remove(work)
        work.peer = src

    def _deliver(self, work: _Message, data: Any) -> None:
        """Ends a receive with the bytes of a message."""
        host = Host(work.tensor, False)
        if host.nbytes != data.numel():
            work.end(InvalidArgument(
                f"recv: rank {work.peer} sent {data.numel()} bytes, and the tensor has "
                f"{host.nbytes}"))
            return
        ctypes.memmove(host.address, data.data_ptr(), data.numel())
        work.write_back(host)
        work.end()

    def progress(self, work: _Message, waits: bool) -> None:
        """Receives what has arrived from the peer of a receive. waits: until something has."""
        if isinstance(work, _Sent):
            if waits:
                work.ended.wait()
            return
        for src in range(self._size) if work.peer < 0 else [work.peer]:
            self._take_arrived(src)
        with self._lock:
            if not waits or work.ended.is_set():
                return
            peer, wanted = work.peer, [taken + _HEAD.size for taken in self._taken]
        # Without the lock: other receives go on.
        try:
            if peer >= 0:
                self._wait(self._heads + peer * 8, wanted[peer])
            else:
                values, which = array("Q", wanted), ctypes.c_size_t()
                check(calls.wait_until_any_vector(
                    self._ctx, b.WEFT_UINT64, self._heads, self._size, None, b.WEFT_GE,
                    values.buffer_info()[0], ctypes.byref(which)))
        except BaseException as error:
            self.cancel(work, error)
