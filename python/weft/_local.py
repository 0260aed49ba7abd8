# SPDX-License-Identifier: Apache-2.0
"""PEs without a launcher: threads of this process (local), or processes that it forks (spawn)."""

import atexit
import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._job import Job, _Check, init, unique_id
from ._library import calls, check, interrupts
from .errors import Interrupted, InvalidArgument, JobFailed, PeerDead, PEsFailed, WeftError


def _check_count(n: int) -> None:
    if not 1 <= n <= 4096:
        raise InvalidArgument(f"{n} PEs: give a number from 1 to 4096")


_open: "weakref.WeakSet[Local]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for pes in list(_open):
        pes.close()


class Local:
    """PEs that are threads of this process. For notebooks and tests.

        pes = weft.local(4)
        pes.run(lambda job: job.rank)      # [0, 1, 2, 3]
    """

    def __init__(self, n: int) -> None:
        _check_count(n)
        group = ctypes.c_void_p()
        check(calls.group_create(n, ctypes.byref(group)))
        self._group = group.value
        self._queues: List["queue.Queue[Any]"] = [queue.Queue() for _ in range(n)]
        self._failed: Optional[str] = None  # which PE has raised an exception
        self._stopped = False  # a wait was ended because of it: collectives are unfinished
        self._check = _Check(self._ends_wait)
        self._results: "queue.Queue[Tuple[int, Any, Optional[BaseException], str]]" = queue.Queue()
        self._threads = [threading.Thread(target=self._serve, args=(pe,), daemon=True,
                                          name=f"weft PE {pe}") for pe in range(n)]
        for thread in self._threads:
            thread.start()
        self._gather()
        _open.add(self)

    def __len__(self) -> int:
        return len(self._threads)

    def _serve(self, pe: int) -> None:
        work: Any = None
        try:
            job = init(group=self._group, rank=pe)
            check(calls.set_interrupt(job._handle, self._check, None))
            self._results.put((pe, None, None, ""))
        except BaseException as error:
            self._results.put((pe, None, error, traceback.format_exc()))
            return
        while True:
            work = self._queues[pe].get()
            if work is None:
                if not self._stopped:
                    job.finalize()
                self._results.put((pe, None, None, ""))
                return
            function, arguments = work
            try:
                self._results.put((pe, function(job, *arguments), None, ""))
            except BaseException as error:
                self._failed = self._failed or f"PE {pe} raised {type(error).__name__}: {error}"
                self._results.put((pe, None, error, traceback.format_exc()))
            del work, function, arguments

    def _ends_wait(self, _: Any) -> int:
        """Ends the waits of the other PEs after an exception at one."""
        if self._failed is None:
            return 0
        self._stopped = True
        interrupts.error = Interrupted(f"the wait ended because {self._failed}")
        return 1

    def _gather(self) -> List[Any]:
        results: List[Any] = [None] * len(self._threads)
        failures: Dict[int, BaseException] = {}
        texts: Dict[int, str] = {}
        for _ in self._threads:
            pe, value, error, text = self._results.get()
            results[pe] = value
            if error is not None:
                failures[pe], texts[pe] = error, text
        if failures:
            raise PEsFailed(failures, texts)
        return results

    def run(self, function: Callable[..., Any], *arguments: Any) -> List[Any]:
        """Calls function(job, *arguments) at every PE at once. Returns the results by PE. Raises
        PEsFailed with the traceback of each PE that failed."""
        if self._group is None:
            raise InvalidArgument("these PEs have been closed: make others by weft.local()")
        if self._stopped:
            raise InvalidArgument(f"these PEs ended in the middle of an operation because "
                                  f"{self._failed}: make others by weft.local()")
        self._failed = None
        for waiting in self._queues:
            waiting.put((function, arguments))
        return self._gather()

    def close(self) -> None:
        """Finalizes every PE and ends the threads."""
        if self._group is None:
            return
        for waiting in self._queues:
            waiting.put(None)
        self._gather()
        for thread in self._threads:
            thread.join()
        if not self._stopped:
            calls.group_destroy(self._group)
        self._group = None

    def __enter__(self) -> "Local":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()


def local(n: int) -> Local:
    """Starts `n` PEs as threads of this process."""
    return Local(n)


def _die_with_parent(parent: int) -> None:
    """Has the kernel end this process when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _pe_process(function: Callable[..., Any], arguments: Tuple[Any, ...], id_: bytes, pe: int,
                n: int,
                pipe: int, parent: int) -> None:
    """The forked process of one PE. Does not return."""
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = 1
    try:
        job: Job = init(unique_id=id_, rank=pe, size=n)
        value = function(job, *arguments)
        try:
            job.finalize()
        except (JobFailed, PeerDead):
            pass  # the PE that failed reports it
        answer = pickle.dumps((value, None, ""))
        status = 0
    except BaseException as error:
        text = traceback.format_exc()
        try:
            answer = pickle.dumps((None, error, text))
        except Exception:
            answer = pickle.dumps((None, WeftError(f"{type(error).__name__}: {error}"), text))
    with os.fdopen(pipe, "wb") as out:
        out.write(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def spawn(function: Callable[..., Any], n: int, *arguments: Any) -> List[Any]:
    """Calls function(job, *arguments) in `n` new processes, each one PE of a new job. Returns the
    results by PE, which pickle can carry.

    The processes are forks of this one: the function may be any, also of a notebook. This process
    must not have used a GPU before. Raises PEsFailed with the traceback of each PE that failed, or
    by which signal it ended. No process outlives the call, nor this process.
    """
    _check_count(n)
    id_ = unique_id()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    children: Dict[int, Tuple[int, int]] = {}
    try:
        for pe in range(n):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                for other, _ in children.values():
                    os.close(other)
                _pe_process(function, arguments, id_, pe, n, writing, parent)
            os.close(writing)
            children[pe] = (reading, pid)
        return _results_of(children)
    finally:
        for reading, pid in children.values():
            os.close(reading)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def _results_of(children: Dict[int, Tuple[int, int]]) -> List[Any]:
    import select

    parts: Dict[int, bytes] = {pe: b"" for pe in children}
    by_file = {reading: pe for pe, (reading, _) in children.items()}
    poll = select.poll()
    for reading in by_file:
        poll.register(reading, select.POLLIN)
    open_ = set(by_file)
    while open_:
        for reading, _ in poll.poll():
            data = os.read(reading, 1 << 16)
            parts[by_file[reading]] += data
            if not data:
                poll.unregister(reading)
                open_.discard(reading)
    results: List[Any] = []
    failures: Dict[int, BaseException] = {}
    texts: Dict[int, str] = {}
    for pe, (_, pid) in children.items():
        status = os.waitpid(pid, 0)[1]
        if parts[pe]:
            value, error, text = pickle.loads(parts[pe])
        else:
            value, text = None, f"ended by signal {status & 0x7F}" if status & 0x7F else \
                f"exited with status {status >> 8}"
            error = WeftError(f"PE {pe} {text}", pe)
        results.append(value)
        if error is not None:
            failures[pe], texts[pe] = error, text
    if failures:
        raise PEsFailed(failures, texts)
    return results
