# SPDX-License-Identifier: Apache-2.0
"""Messages of GPU tensors between the members of a group of torch.distributed, on streams.

Each member has a ring of slots for each sender, in GPU memory. A stream for each peer and direction
moves messages slot by slot: that of the sender waits until a slot is free, puts, and signals; that
of the receiver waits for the signal, copies, and signals that the slot is free. So a message for
which its receiver is late holds up no other one, and the host waits for none.

A slot has a word at each end: `full` at the receiver, 1 from the put to the copy, and `busy` at the
sender, 1 until the receiver has copied. The end that has waited for its word sets it for the next
time, and the peer cannot set it meanwhile. The operations of a slot are the same each time,
and a CUDA graph may repeat them.
"""

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict

from .. import _bindings as b
from .._library import calls, check
from ..errors import InvalidArgument
from ._work import OnStream, dense_of

if TYPE_CHECKING:
    from .._job import Job

torch: Any = import_module("torch")

_SLOTS = 4  # for each sender
_SLOT_MOST = 2 << 20  # bytes
_ROOM = 32 << 20  # bytes of all rings of a member


class StreamMessages:
    """The messages of one member. Of two members, they are matched in the order of the calls."""

    def __init__(self, job: "Job", gpu: int) -> None:
        """gpu: of all tensors. Collective."""
        self._rank, self._size, self._gpu, self._ctx = job.rank, job.size, gpu, job._handle_ctx
        self.slot_bytes = min(_SLOT_MOST, _ROOM // (_SLOTS * self._size) // 256 * 256)
        ring = _SLOTS * self.slot_bytes
        self._memory = job.zeros(self._size * (ring + 16 * _SLOTS), "u1", kind="gpu")
        self._rings: int = self._memory.address  # [sender][slot]
        self._full = self._rings + self._size * ring  # [sender][slot]
        self._busy = self._full + self._size * _SLOTS * 8  # [receiver][slot]
        # Slots, as calls were made. A graph uses those of its capture at each replay.
        self._sent, self._taken = [0] * self._size, [0] * self._size
        self._to: Dict[int, Any] = {}  # streams by peer
        self._from: Dict[int, Any] = {}
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Waits for all messages."""
        for stream in (*self._to.values(), *self._from.values()):
            stream.synchronize()

    def _stream(self, words: str, streams: Dict[int, Any], peer: int, tensor: Any) -> Any:
        """Returns the stream of a peer, which waits for what the program has queued."""
        if tensor.get_device() != self._gpu:
            raise InvalidArgument(f"{words}: a tensor on {tensor.device}, and messages of GPU "
                                  f"tensors of this group are on GPU {self._gpu}: copy it there")
        if peer not in streams:
            streams[peer] = torch.cuda.Stream(self._gpu)
        streams[peer].wait_stream(torch.cuda.current_stream(self._gpu))
        return streams[peer]

    def _set(self, word: int, value: int, rank: int, stream: int) -> None:
        check(calls.signal_on_stream(self._ctx, word, value, b.WEFT_SIGNAL_SET, rank, stream))

    def _wait(self, word: int, value: int, stream: int) -> None:
        """Waits for a word of this member, and sets it to its other value."""
        check(calls.signal_wait_on_stream(self._ctx, word, b.WEFT_EQ, value, stream))
        self._set(word, 1 - value, self._rank, stream)

    def send(self, tensor: Any, peer: int) -> Any:
        """Returns its Work, complete when the receiver has got the last slot."""
        with self._lock, torch.no_grad():
            dense = dense_of(tensor)
            stream = self._stream("send", self._to, peer, dense)
            dense.record_stream(stream)
            handle, address = stream.cuda_stream, dense.data_ptr()
            nbytes = dense.numel() * dense.element_size()
            for begin in range(0, max(nbytes, 1), self.slot_bytes):
                at, mine = self._sent[peer] % _SLOTS, self._rank * _SLOTS
                self._wait(self._busy + (peer * _SLOTS + at) * 8, 0, handle)
                check(calls.put_signal_on_stream(
                    self._ctx, self._rings + (mine + at) * self.slot_bytes, address + begin,
                    min(self.slot_bytes, nbytes - begin), self._full + (mine + at) * 8, 1,
                    b.WEFT_SIGNAL_SET, peer, handle))
                self._sent[peer] += 1
            return OnStream([tensor], stream)

    def recv(self, tensor: Any, peer: int) -> Any:
        """Returns its Work, complete when the tensor has the message."""
        with self._lock, torch.no_grad():
            result = tensor if tensor.is_contiguous() else \
                torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
            stream = self._stream("recv", self._from, peer, tensor)
            handle, address = stream.cuda_stream, result.data_ptr()
            nbytes = result.numel() * result.element_size()
            for begin in range(0, max(nbytes, 1), self.slot_bytes):
                slot = peer * _SLOTS + self._taken[peer] % _SLOTS
                self._wait(self._full + slot * 8, 1, handle)
                part = min(self.slot_bytes, nbytes - begin)
                if part:
                    check(calls.get_on_stream(self._ctx, address + begin,
                                              self._rings + slot * self.slot_bytes, part,
                                              self._rank, handle))
                busy = self._busy + (self._rank * _SLOTS + self._taken[peer] % _SLOTS) * 8
                self._set(busy, 0, peer, handle)
                self._taken[peer] += 1
            tensor.record_stream(stream)
            if result is not tensor:
                with torch.cuda.stream(stream):
                    tensor.copy_(result)
                result.record_stream(stream)
            return OnStream([tensor], stream)
