# SPDX-License-Identifier: Apache-2.0
"""Files and symmetric memory: reads and writes between a file and memory of the host or GPU of any
PE."""

import ctypes
from typing import TYPE_CHECKING, Any, Dict, Generator, List, NamedTuple, Optional, Sequence, Tuple

from . import _bindings as b
from ._array import Memory, contiguous, memory_of
from ._library import calls, check
from ._operations import raise_error
from ._stream import stream_of
from .errors import InvalidArgument

if TYPE_CHECKING:
    from ._collectives import Collectives
    from ._job import Job

Part = Tuple[Any, ...]

_MODES = {
    "r": b.WEFT_FILE_READ,
    "w": b.WEFT_FILE_WRITE | b.WEFT_FILE_CREATE | b.WEFT_FILE_TRUNCATE,
    "x": b.WEFT_FILE_WRITE | b.WEFT_FILE_CREATE | b.WEFT_FILE_EXCLUSIVE,
    "r+": b.WEFT_FILE_READ | b.WEFT_FILE_WRITE,
    "w+": b.WEFT_FILE_READ | b.WEFT_FILE_WRITE | b.WEFT_FILE_CREATE | b.WEFT_FILE_TRUNCATE,
}


class FileResult(NamedTuple):
    """Result of a transfer: bytes from its start that are moved, and their CRC-32C where the file
    was opened with checksum=True, else 0."""

    done: int
    crc32c: int


class FileHandle:
    """A transfer that may still run. Its memory belongs to the library until wait() returns."""

    def __init__(self, file: "File", array: Any, result: Any) -> None:
        self._file, self._array, self._result = file, array, result
        self._ended = False

    def test(self) -> bool:
        """Whether wait() would return at once: this and all other transfers of the file have
        ended."""
        return self._ended or self._file.test()

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


class FileHandles:
    """Several transfers that may still run. Their memory belongs to the library until wait()
    returns."""

    def __init__(self, handles: List[FileHandle]) -> None:
        self._handles = handles

    def test(self) -> bool:
        """Whether wait() would return at once."""
        return all(handle.test() for handle in self._handles)

    def wait(self) -> List[FileResult]:
        """Waits for these and all other transfers of the file. Returns the result of each of
        these."""
        return [handle.wait() for handle in self._handles]

    def __await__(self) -> Generator[Any, None, List[FileResult]]:
        import asyncio

        result = yield from asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()
        return result


def join_checksums(first: int, second: int, second_bytes: int) -> int:
    """Returns the CRC-32C of two adjacent ranges of a file, from that of the `first`, that of the
    `second`, and the length of the second in bytes (`second_bytes`)."""
    return int(calls.file_join_checksums(first, second, second_bytes))


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

    def _memory_at(self, array: Any, pe: Optional[int]) -> Memory:
        """Returns the memory of an array of this process, or of a symmetric one at PE `pe`."""
        memory = contiguous(memory_of(array), array)
        if pe is not None:
            self._job._check_pool(pe, memory.address)
        return memory

    def _move(self, call: Any, array: Any, offset: int, pe: Optional[int], *more: Any) -> Any:
        memory = self._memory_at(array, pe)
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

    def _move_many(self, call: Any, parts: Sequence[Any]) -> List[FileHandle]:
        """Calls one of the vector forms. Returns a handle for each part."""
        size = ctypes.sizeof(b.weft_file_part)
        listed = bytearray(size * max(len(parts), 1))
        handles = []
        for i, (array, offset, *pe) in enumerate(parts):
            one = b.weft_file_part.from_buffer(listed, i * size)
            memory = self._memory_at(array, pe[0] if pe else None)
            result = b.weft_file_result()
            one.address, one.bytes, one.offset = memory.address, memory.nbytes, offset
            one.pe = pe[0] if pe and pe[0] is not None else self._job.rank
            one.result = ctypes.addressof(result)
            handles.append(FileHandle(self, array, result))
        first = ctypes.c_char.from_buffer(listed)
        status = call(self._require(), ctypes.addressof(first), len(parts))
        if status:
            raise_error(status, self._job, *[part[0] for part in parts if len(part) > 2])
        return handles

    @staticmethod
    def _results(handles: List[FileHandle]) -> List[FileResult]:
        return [FileResult(handle._result.done, handle._result.crc32c) for handle in handles]

    def read_many(self, parts: Sequence[Part]) -> List[FileResult]:
        """Reads several parts in one call: (array, offset), or (array, offset, pe) with a symmetric
        array. They have no order among each other. Returns the result of each."""
        return self._results(self._move_many(calls.file_read_vector, parts))

    def write_many(self, parts: Sequence[Part]) -> List[FileResult]:
        """Writes several parts in one call; see read_many()."""
        return self._results(self._move_many(calls.file_write_vector, parts))

    def read_many_nbi(self, parts: Sequence[Part]) -> FileHandles:
        """As read_many(), without waiting."""
        return FileHandles(self._move_many(calls.file_read_vector_nbi, parts))

    def write_many_nbi(self, parts: Sequence[Part]) -> FileHandles:
        """As write_many(), without waiting."""
        return FileHandles(self._move_many(calls.file_write_vector_nbi, parts))

    def test(self) -> bool:
        """Whether every transfer without waiting has ended."""
        ended = ctypes.c_int()
        check(calls.file_test(self._require(), ctypes.byref(ended)))
        return bool(ended.value)

    def read_on_stream(self, array: Any, stream: Any, offset: int = 0, *,
                       pe: Optional[int] = None) -> Any:
        """As read(), in the order of a stream. The object that it returns must be kept until the
        stream has passed the transfer."""
        return self._move(calls.file_read_on_stream, array, offset, pe,
                          stream_of(stream, self._job))

    def write_on_stream(self, array: Any, stream: Any, offset: int = 0, *,
                        pe: Optional[int] = None) -> Any:
        """As write(), in the order of a stream; see read_on_stream()."""
        return self._move(calls.file_write_on_stream, array, offset, pe,
                          stream_of(stream, self._job))

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
    team._check_pools(memory)
    status = getattr(calls, name)(team._handle_team, file._require() if file is not None else None,
                                  memory.address, memory.nbytes, offset, None)
    if status:
        raise_error(status, team._job, array)
