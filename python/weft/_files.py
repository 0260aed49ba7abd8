# SPDX-License-Identifier: Apache-2.0
"""Files and symmetric memory: reads and writes between a file and memory of the host or GPU of any
PE."""

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Generator, NamedTuple, Optional

from . import _bindings as b
from ._array import contiguous, memory_of
from ._library import calls, check
from ._operations import raise_error
from ._stream import stream_of
from .errors import InvalidArgument

if TYPE_CHECKING:
    from ._collectives import Collectives
    from ._job import Job

_MODES = {
    "r": b.WEFT_FILE_READ,
    "w": b.WEFT_FILE_WRITE | b.WEFT_FILE_CREATE | b.WEFT_FILE_TRUNCATE,
    "x": b.WEFT_FILE_WRITE | b.WEFT_FILE_CREATE | b.WEFT_FILE_EXCLUSIVE,
    "r+": b.WEFT_FILE_READ | b.WEFT_FILE_WRITE,
    "w+": b.WEFT_FILE_READ | b.WEFT_FILE_WRITE | b.WEFT_FILE_CREATE | b.WEFT_FILE_TRUNCATE,
}


class FileResult(NamedTuple):
    """Result of a transfer: bytes from its start that are moved, and their CRC-32C where the file was
    opened with checksum=True, else 0."""

    done: int
    crc32c: int


class FileHandle:
    """A transfer that may still run. Its memory belongs to the library until wait() returns."""

    def __init__(self, file: "File", array: Any, result: Any) -> None:
        self._file, self._array, self._result = file, array, result
        self._ended = False

    def wait(self) -> FileResult:
        """Waits for this and all other transfers of the file. Returns the result of this one."""
        if not self._ended:
            status = calls.file_quiet(self._file._require())
            self._ended, self._array = True, None
            # Another transfer's failure is that one's own.
            check(self._result.status)
            if status and not self._result.done:
                check(status)
        return FileResult(self._result.done, self._result.crc32c)

    def __await__(self) -> Generator[Any, None, FileResult]:
        import asyncio

        result = yield from asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()
        return result


class File:
    """An open file of one PE; job.open() makes it. Offsets are in bytes and may be any."""

    def __init__(self, job: "Job", path: str, mode: str, checksum: bool, buffered: bool, depth: int,
                 chunk: int) -> None:
        self._handle: Optional[int] = None
        if mode not in _MODES:
            raise InvalidArgument(f"mode {mode!r}: use one of {', '.join(_MODES)}")
        attr = b.weft_file_attr()
        attr.size = ctypes.sizeof(attr)
        attr.depth, attr.chunk_bytes = depth, chunk
        flags = _MODES[mode] | b.WEFT_FILE_CHECKSUM * checksum | b.WEFT_FILE_BUFFERED * buffered
        handle = ctypes.c_void_p()
        check(calls.file_open(job._handle, path.encode(), flags, ctypes.byref(attr),
                              ctypes.byref(handle)))
        self._job, self._handle, self.name = job, handle.value, path

    def _require(self) -> int:
        if self._handle is None:
            raise InvalidArgument("the file is closed")
        return self._handle

    def close(self) -> None:
        """Waits for transfers and closes the file."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            check(calls.file_close(handle))

    def __enter__(self) -> "File":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        size = ctypes.c_uint64()
        check(calls.file_size(self._require(), ctypes.byref(size)))
        return size.value

    def resize(self, size: int) -> None:
        """Sets the size of the file in bytes: cuts its end off, or appends zeros."""
        check(calls.file_resize(self._require(), size))

    def _move(self, call: Any, array: Any, offset: int, pe: Optional[int], *more: Any) -> Any:
        memory = contiguous(memory_of(array), array)
        result = b.weft_file_result()
        status = call(self._require(), memory.address, memory.nbytes, offset,
                      self._job.rank if pe is None else pe, ctypes.addressof(result), *more)
        if status:
            raise_error(status, self._job, *([] if pe is None else [array]))
        return result

    def read(self, array: Any, offset: int = 0, *, pe: Optional[int] = None) -> FileResult:
        """Reads the bytes at `offset` into `array`: any array of this process, or, with `pe`, the
        symmetric array at PE `pe`. Raises OutOfRange past the end of the file."""
        result = self._move(calls.file_read, array, offset, pe)
        return FileResult(result.done, result.crc32c)

    def write(self, array: Any, offset: int = 0, *, pe: Optional[int] = None) -> FileResult:
        """Writes `array`, or with `pe` the symmetric array at PE `pe`, at `offset`."""
        result = self._move(calls.file_write, array, offset, pe)
        return FileResult(result.done, result.crc32c)

    def read_nbi(self, array: Any, offset: int = 0, *, pe: Optional[int] = None) -> FileHandle:
        """As read(), without waiting."""
        return FileHandle(self, array, self._move(calls.file_read_nbi, array, offset, pe))

    def write_nbi(self, array: Any, offset: int = 0, *, pe: Optional[int] = None) -> FileHandle:
        """As write(), without waiting."""
        return FileHandle(self, array, self._move(calls.file_write_nbi, array, offset, pe))

    def read_on_stream(self, array: Any, stream: Any, offset: int = 0, *,
                       pe: Optional[int] = None) -> Any:
        """As read(), in the order of a stream. The object that it returns must be kept until the
        stream has passed the transfer."""
        return self._move(calls.file_read_on_stream, array, offset, pe, stream_of(stream))

    def write_on_stream(self, array: Any, stream: Any, offset: int = 0, *,
                        pe: Optional[int] = None) -> Any:
        """As write(), in the order of a stream; see read_on_stream()."""
        return self._move(calls.file_write_on_stream, array, offset, pe, stream_of(stream))

    def sync(self) -> None:
        """Waits until everything written survives a loss of power."""
        check(calls.file_sync(self._require()))

    def info(self) -> Dict[str, Any]:
        """Returns how the file is read and written, and why no faster method is used."""
        from ._job import _fields, _structure

        info = _structure(b.weft_file_info)
        check(calls.file_query(self._require(), ctypes.byref(info)))
        return _fields(info)


def spread(name: str, team: "Collectives", file: Optional[File], array: Any, offset: int) -> None:
    """Calls weft_file_scatter or weft_file_gather."""
    memory = contiguous(memory_of(array), array)
    status = getattr(calls, name)(team._handle_team, file._require() if file is not None else None,
                                  memory.address, memory.nbytes, offset, None)
    if status:
        raise_error(status, team._of_job(), array)
