# SPDX-License-Identifier: Apache-2.0
"""Messages: sends and receives between the members of a team."""

import ctypes
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Tuple

from . import _bindings as b
from ._array import Memory, contiguous, describe, memory_of
from ._library import calls, check
from ._stream import stream_of
from .errors import InvalidArgument

if TYPE_CHECKING:
    from ._collectives import Collectives

Pairs = Iterable[Tuple[Any, int]]


class Messages:
    """Sends and receives between the members of a team; job.messages() makes it.

        messages = job.messages()
        messages.exchange(send=[(x, right)], receive=[(y, left)], stream="torch")

    Messages from one member to another match in the order of their lists and of the calls. Both
    ends have the same number of bytes; an array of 0 bytes is no message, and has none at the other
    end. Arrays are contiguous, of torch, CuPy, numpy or Weft, on this PE's GPU where the job has
    set up its GPUs (an array with kind="gpu", or WEFT_TARGET=cuda), else in host memory. They need
    not be symmetric.
    """

    def __init__(self, team: "Collectives", room: int) -> None:
        self._team, self._job = team, team._job
        self._handle: Optional[int] = None
        handle = ctypes.c_void_p()
        check(calls.messages_create(team._handle_team, room, ctypes.byref(handle)))
        self._handle = handle.value
        self._on_gpu = self._job._gpu_ordinal() is not None
        if self._on_gpu:
            self._job._make_current()
        #: Bytes of symmetric memory at each PE for messages on their way.
        self.room = room

    def __repr__(self) -> str:
        return f"weft.Messages(room={self.room})"

    def _require(self) -> int:
        if self._handle is None:
            raise InvalidArgument("the messages object has been destroyed")
        return self._handle

    def exchange(self, send: Pairs = (), receive: Pairs = (), *, stream: Any = None) -> None:
        """Sends and receives arrays, all at the same time: one whose other end is late delays no
        other one.

        send: pairs of an array and the member that receives it; receive: pairs of an array and the
        member that has sent it, which may be this PE itself. A member's number is its rank in the
        team. Together at most 65535.
        stream: the messages follow what is on the stream (as for put()), and what is put on it
        later follows them; the call returns at once, and a CUDA graph may capture it. The caller
        keeps the arrays until the stream has passed the call. Calls with messages to or from the
        same member are on one stream, or in an order by events. Without a stream, arrays are of
        torch or CuPy, whose current stream is used, or in host memory, and the call returns when
        sources may be reused and destinations have their values.

        Raises InvalidArgument (not contiguous, too many), InvalidPE (no such member), NotSymmetric
        (memory that the GPU cannot access); then nothing has been sent. Timeout, where the other
        end does not come within WEFT_WAIT_LIMIT, and Mismatch, where kernels find that sizes
        differ, end the job: with a stream the next call raises them.
        """
        handle, entries = self._require(), _entries(send, False) + _entries(receive, True)
        given = (b.weft_message * len(entries))()
        for one, (memory, _, member, receives) in zip(given, entries):
            one.address, one.bytes = memory.address, memory.nbytes
            one.member, one.receives = member, receives
        library = self._library(entries) if stream is None else None
        where = stream_of(library or 0 if stream is None else stream, self._job)
        check(calls.messages_on_stream(handle, given, len(entries), where))
        if stream is None:
            self._wait(library)

    def _library(self, entries: List[Tuple[Memory, Any, int, bool]]) -> Optional[str]:
        """Returns the library whose current stream a call without a stream uses; None: the arrays
        are in host memory."""
        if not self._on_gpu or not entries:
            return None
        for memory, _, _, _ in entries:
            if memory.gpu in ("torch", "cupy"):
                return memory.gpu
        raise InvalidArgument(f"{describe(entries[0][1])} is not of torch or CuPy, so no stream is "
                              "known: give stream=")

    def _wait(self, library: Optional[str]) -> None:
        """Waits for the stream of a call without one."""
        if library == "torch":
            import torch

            torch.cuda.current_stream(self._job._gpu_ordinal()).synchronize()
        elif library == "cupy":
            import cupy

            cupy.cuda.get_current_stream().synchronize()
        elif not self._on_gpu:
            check(calls.stream_synchronize(0))
        self._job.check()

    def destroy(self) -> None:
        """Frees the object's memory. Collective over the job; its calls have ended on their
        streams."""
        handle, self._handle = self._require(), None
        check(calls.messages_destroy(handle))

    def __enter__(self) -> "Messages":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.destroy()


def _entries(pairs: Pairs, receives: bool) -> List[Tuple[Memory, Any, int, bool]]:
    """Returns the memory, the array, the member and the direction of each message."""
    made = []
    for pair in pairs:
        try:
            array, member = pair
            number = member.__index__()
        except (TypeError, ValueError, AttributeError):
            words = "receive" if receives else "send"
            raise InvalidArgument(f"{words} has {pair!r}: give pairs of an array and the number "
                                  "of a member") from None
        if not -2**31 <= number < 2**31:
            number = -1  # the C library reports that there is no such member
        made.append((contiguous(memory_of(array), array), array, number, receives))
    return made
