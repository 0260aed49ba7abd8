# SPDX-License-Identifier: Apache-2.0
"""Events of calls, and the stream on which a Buffer communicates."""

from importlib import import_module
from typing import Any, Callable, List, Optional, Tuple

from .._library import calls, check

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")


def on_gpu() -> bool:
    """Whether this process uses a GPU by torch."""
    return bool(torch.cuda.is_initialized())


class EventHandle:
    """What torch's current stream has been given so far. Without a GPU it is empty: operations on
    CPU tensors are complete when their call returns."""

    def __init__(self) -> None:
        self.event: Any = None
        if on_gpu():
            self.event = torch.cuda.Event()
            self.event.record()

    def current_stream_wait(self) -> None:
        """Work that torch's current stream is given from now on waits for the event."""
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """The end of a call's communication; what a call returns as its event.

        with event:
            compute()       # overlaps with the communication
                            # the current stream waits for it here

    event: an EventHandle, or None: nothing is waited for; extra_tensors: kept until the object is
    freed.
    """

    def __init__(self, event: Optional[EventHandle] = None,
                 extra_tensors: Optional[Tuple[Any, ...]] = None) -> None:
        self.event, self.extra_tensors = event, extra_tensors
        self._hooks: List[Callable[[], Any]] = []

    def current_stream_wait(self) -> None:
        """Work that torch's current stream is given from now on waits for the event. Then the hooks
        run."""
        if self.event is not None:
            self.event.current_stream_wait()
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook()

    def register_hook_after_wait(self, hook: Callable[[], Any]) -> None:
        """hook() is called once, by the next current_stream_wait()."""
        self._hooks.append(hook)

    def __enter__(self) -> "EventOverlap":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.current_stream_wait()


class Transfer:
    """One call's communication: in its `with` operations are given to the communication stream.

    comm: that stream; None: on CPU tensors, where leaving the `with` waits for the operations.
    previous: an event that it waits for in place of torch's current stream; is_async: the current
    stream does not wait for the end; wait: False: on CPU tensors the operations go on.
    """

    def __init__(self, comm: Any, previous: Any = None, is_async: bool = False,
                 wait: bool = True) -> None:
        self._comm, self._previous, self._async, self._wait = comm, previous, is_async, wait
        #: For operations that no host waits for.
        self.stream: Any = 0 if comm is None else comm
        self._handle: Optional[EventHandle] = None

    def __enter__(self) -> "Transfer":
        if self._comm is not None:
            self._caller = torch.cuda.current_stream(self._comm.device)
            self._context = torch.cuda.stream(self._comm)
            self._context.__enter__()
            event = getattr(self._previous, "event", None)
            while isinstance(event, EventHandle):  # of an EventOverlap
                event = event.event
            if event is None:
                self._comm.wait_stream(self._caller)
            else:
                self._comm.wait_event(event)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._comm is not None:
            if error is None:
                self._handle = EventHandle()
            self._context.__exit__(kind, error, trace)
            if error is None and not self._async:
                self._handle.current_stream_wait()  # type: ignore[union-attr]
        elif error is None and self._wait:
            check(calls.stream_synchronize(0))

    def keep(self, *tensors: Any) -> None:
        """Keeps the memory of tensors, which two streams use, until both have ended."""
        if self._comm is None:
            return
        for tensor in tensors:
            if tensor is not None and tensor.is_cuda:
                tensor.record_stream(self._comm)
                tensor.record_stream(self._caller)

    def event(self) -> EventOverlap:
        """The end of the call, for the caller."""
        return EventOverlap(self._handle if self._async else None)
