# SPDX-License-Identifier: Apache-2.0
"""Operations that a group was given: in the order of the calls, complete or not."""

import sys
import threading
from collections import deque
from importlib import import_module
from typing import Any, Callable, Deque, Optional, Sequence

from ..errors import InvalidArgument, Timeout

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
_c10d: Any = torch._C._distributed_c10d
_Work: Any = _c10d.Work

_PYTHON_OF_TORCH = "torch.distributed.distributed_c10d"


def done(value: Any) -> Any:
    """Returns the Work of an operation that is complete."""
    future: Any = torch.futures.Future()
    future.set_result(value)
    return _c10d._create_work_from_future(future)


# That of operations for which torch's Python functions wait, and of which they return none.
DONE = done([])


def caller_of(opts: Any) -> Optional[bool]:
    """Whether torch's Python function that calls a method of the group goes on without waiting: in
    the options, or its variable async_op with torch before 2.8. None: the caller is another, such
    as torch's C++ code. For methods that torch calls."""
    frame = sys._getframe(1).f_back  # None: a thread of torch's autograd
    if frame is None or frame.f_globals.get("__name__") != _PYTHON_OF_TORCH:
        return None
    try:
        return bool(opts.asyncOp)
    except AttributeError:
        variables = frame.f_locals
    return bool(variables.get("async_op", variables.get("async_ops", False)))


class Host:
    """A contiguous tensor in host memory that stands for a tensor: itself, or a copy."""

    __slots__ = ("tensor", "host", "address", "nbytes")

    def __init__(self, tensor: Any, reads: bool = True) -> None:
        self.tensor = tensor
        if tensor.is_cpu and tensor.is_contiguous():
            self.host = tensor
        elif reads:
            self.host = tensor.detach().cpu().contiguous()
        else:
            self.host = torch.empty(tensor.shape, dtype=tensor.dtype)
        self.address = self.host.data_ptr()
        self.nbytes = self.host.numel() * self.host.element_size()

    def write_back(self) -> None:
        """Gives the tensor what the copy has got."""
        if self.host is not self.tensor:
            with torch.no_grad():
                self.tensor.copy_(self.host)


class Given(_Work):  # type: ignore[misc]
    """An operation that a thread makes."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value
        self._ended = threading.Event()
        self._error: Optional[BaseException] = None
        self._future: Any = None
        self._lock = threading.Lock()

    def end(self, error: Optional[BaseException] = None) -> None:
        """The operation has ended; error: what it raised."""
        with self._lock:
            self._error = error
            self._ended.set()
            future = self._future
        if future is not None:
            self._complete(future)

    def _complete(self, future: Any) -> None:
        if self._error is None:
            future.set_result(self._value)
        else:
            future.set_exception(self._error)

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> Any:
        return self._error

    def result(self) -> Any:
        return self._value

    def wait(self, timeout: Any = None) -> bool:
        seconds = timeout.total_seconds() if timeout else None
        if not self._ended.wait(seconds):
            raise Timeout(f"the operation has not ended after {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    synchronize = wait

    def get_future(self) -> Any:
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
                if self._ended.is_set():
                    self._complete(self._future)
            return self._future


class OnStream(_Work):  # type: ignore[misc]
    """Operations on a stream of the group, for which the caller's stream waits."""

    def __init__(self, value: Any, stream: Any) -> None:
        super().__init__()
        self._value, self._stream = value, stream
        self._event = stream.record_event()

    def is_completed(self) -> bool:
        return bool(self._event.query())

    is_success = is_completed

    def exception(self) -> Any:
        return None

    def result(self) -> Any:
        return self._value

    def wait(self, timeout: Any = None) -> bool:
        torch.cuda.current_stream(self._stream.device).wait_event(self._event)
        return True

    synchronize = wait

    def get_future(self) -> Any:
        future: Any = torch.futures.Future(devices=[self._stream.device])
        with torch.cuda.stream(self._stream):
            future.set_result(self._value)
        return future


class Order:
    """Makes the operations of a group one at a time, in the order in which they are given."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # held while an operation is made
        self._pending: Deque[Any] = deque()  # (operation, its Given); the first one may be running
        self._given = threading.Semaphore(0)
        self._thread: Optional[threading.Thread] = None

    def wait(self) -> None:
        """Returns when no operation is pending."""
        if self._pending:
            self.make(lambda: None)

    def make(self, operation: Callable[[], None]) -> None:
        """Makes an operation, and returns when it has ended."""
        with self._turn:
            if not self._pending:
                operation()
                return
        self.give(operation, None).wait()

    def give(self, operation: Callable[[], None], value: Any) -> Given:
        """Returns at once; a thread makes the operation. value: the result of its Work."""
        work = Given(value)
        self._pending.append((operation, work))
        if self._thread is None:
            self._thread = threading.Thread(target=self._make_pending, daemon=True,
                                            name="weft collectives")
            self._thread.start()
        self._given.release()
        return work

    def _make_pending(self) -> None:
        while True:
            self._given.acquire()
            error: Optional[BaseException] = None
            with self._turn:
                operation, work = self._pending[0]
                try:
                    operation()
                except BaseException as raised:
                    error = raised
                self._pending.popleft()
            work.end(error)
            del operation, work  # the tensors are free before the next operation comes


def same_type(tensors: Sequence[Any]) -> Any:
    """Returns torch's element type of tensors, which is the same."""
    found = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != found:
            raise InvalidArgument(f"tensors of {found} and {tensor.dtype} in one collective: "
                                  "convert one of them")
        if tensor.is_sparse:
            raise InvalidArgument("a sparse tensor: use its to_dense()")
    return found


def rows_of(tensor: Any, sizes: Sequence[int]) -> Sequence[Any]:
    """Returns the parts of a tensor with that many rows each; a scalar is a row."""
    whole: Any = tensor.detach() if tensor.dim() else tensor.detach().view(1)
    parts: Sequence[Any] = torch.split(whole, list(sizes))
    return parts


def dense_of(tensor: Any) -> Any:
    """Returns a contiguous tensor with the same elements: itself, or a copy."""
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()
