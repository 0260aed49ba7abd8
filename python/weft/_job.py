# SPDX-License-Identifier: Apache-2.0
"""Jobs, teams and contexts."""

import array
import atexit
import ctypes
import itertools
import math
import os
import sys
import threading
import weakref
from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Deque,
    Dict,
    Generator,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)

from . import _bindings as b
from ._array import Array, Block, RawArray, ShapeLike, contiguous, describe, memory_of, shape_of
from ._collectives import Collectives
from ._dtypes import DType, DTypeLike, dtype_of
from ._library import calls, check, interrupts
from ._operations import Operations
from .errors import InvalidArgument, InvalidPE, OutOfMemory, Unsupported

if TYPE_CHECKING:
    from ._experts import Experts
    from ._files import File
    from ._memory import Mapping, Registration
    from ._messages import Messages
    from ._pool import Pool

_KIND_OF = {"host": b.WEFT_HOST, "gpu": b.WEFT_GPU}
_QUEUE_MODES = {"shared": b.WEFT_QUEUES_SHARED, "exclusive": b.WEFT_QUEUES_EXCLUSIVE,
                "single": b.WEFT_QUEUES_SINGLE}
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _kind(words: str) -> int:
    if words not in _KIND_OF:
        raise InvalidArgument(f"kind {words!r}: use \"host\" or \"gpu\"")
    return _KIND_OF[words]


def _bytes_of(size: Union[int, str]) -> int:
    """Returns a size in bytes: a number, or "64M"."""
    if isinstance(size, str):
        text = size.strip().upper()
        unit = text[-1:] if text[-1:] in _UNITS else ""
        if not text[:len(text) - len(unit)].isdigit():
            raise InvalidArgument(f"size {size!r}: write a number of bytes, or 512M, 4G")
        return int(text[:len(text) - len(unit)]) * _UNITS[unit]
    return int(size)


def _structure(kind: Any) -> Any:
    info = kind()
    info.size = ctypes.sizeof(kind)
    return info


def _fields(info: Any) -> Dict[str, Any]:
    """Returns a structure of the C library as a dictionary."""
    result = {}
    for name, _ in info._fields_:
        value = getattr(info, name)
        result[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    result.pop("size")
    return result


class _Held(NamedTuple):
    """What the job has of a block: its views may all be gone here, and alive at another PE."""

    address: int
    free: Callable[[int, int], int]  # collective: weft_free, or weft_unregister_symmetric
    kept: Any  # the program's array whose memory it is


class Team(Collectives):
    """An ordered set of PEs of a job."""

    def __init__(self, job: "Optional[Job]", handle: int) -> None:
        self._owner = job
        self._handle_team = handle

    def __repr__(self) -> str:
        return f"weft.Team(size={self.size}, rank={self.rank})"

    def translate(self, pe: int, to: Optional["Collectives"] = None) -> Optional[int]:
        """Returns the number in team `to` (the job, if None) of the PE with number `pe` here, or
        None where it is not a member."""
        other = to._handle_team if to is not None else self._job._handle_team
        number = int(calls.team_translate(self._handle_team, pe, other))
        return None if number < 0 else number

    def split(self, start: int, stride: int, size: int) -> Optional["Team"]:
        """Makes a team of `size` members: start, start + stride, ... Collective over this team.
        Returns None at PEs that are not in it. Raises InvalidPE, InvalidArgument."""
        handle = ctypes.c_void_p()
        check(calls.team_split_strided(self._handle_team, start, stride, size,
                                       ctypes.byref(handle)))
        return Team(self._job, handle.value) if handle.value else None

    def split_2d(self, columns: int) -> Tuple["Team", "Team"]:
        """Lays the members out in rows of `columns` PEs. Returns the teams of this PE's row and
        column. Collective over this team."""
        row, column = ctypes.c_void_p(), ctypes.c_void_p()
        check(calls.team_split_2d(self._handle_team, columns, ctypes.byref(row),
                                  ctypes.byref(column)))
        return Team(self._job, row.value or 0), Team(self._job, column.value or 0)

    def context(self, *, serialized: bool = False, private: bool = False,
                nostore: bool = False) -> "Context":
        """Makes a context over the team. Not collective.

        serialized: one thread at a time uses it; private: only this thread uses it; nostore: its
        fence() and quiet() need not order stores by the program itself. Raises OutOfMemory.
        """
        options = b.WEFT_CTX_SERIALIZED * serialized + b.WEFT_CTX_PRIVATE * private + \
            b.WEFT_CTX_NOSTORE * nostore
        handle = ctypes.c_void_p()
        check(calls.ctx_create(self._handle_team, options, ctypes.byref(handle)))
        return Context(self._job, handle.value or 0)

    def experts(self, tokens: int, hidden: int, experts: int, top: int, *,
                dtype: DTypeLike = "bfloat16", result_dtype: Optional[DTypeLike] = None,
                rows: int = 0, scales: int = 0, sms: int = 0) -> "Experts":
        """Makes an object for dispatch and combine of a mixture of experts among the team's
        members. Collective over the job, each PE with its own team and the same arguments.

        tokens: of a PE in one dispatch, at most; hidden: elements of a token; experts: of all
        members; top: experts of a token; dtype: of tokens ("bfloat16", "float16", "float32",
        "float8_e4m3fn", "float8_e5m2"); result_dtype: of results (one of the first three; the
        dtype of tokens, if None); rows: that a PE can receive (0: enough for any choice); scales:
        float32 scale factors that go with a token, a multiple of 4; sms: SMs of the GPU that
        kernels which move or add rows take at most, so that kernels of other streams have the rest
        (0: all).
        """
        from ._experts import make_experts

        return make_experts(self, tokens, hidden, experts, top, dtype, result_dtype, rows, scales,
                            sms)

    def messages(self, room: Union[int, str] = "8M") -> "Messages":
        """Makes an object for sends and receives between the team's members. Collective over the
        job, each PE with its own team of equally many members, and the same room.

        room: bytes ("8M") of symmetric memory at each PE for messages on their way: at least 4 KiB
        for each member; more than 8 MiB for each is not used. Raises InvalidArgument, Mismatch,
        OutOfMemory.
        """
        from ._messages import Messages

        return Messages(self, _bytes_of(room))

    def limit_sms(self, sms: int) -> None:
        """Limits the team's collectives on GPU memory to `sms` SMs each: 0: copy engines; -1: as
        configured (WEFT_COLL_SMS). Collective over the team."""
        check(calls.team_limit_sms(self._handle_team, sms))

    def destroy(self) -> None:
        """Ends a team that split() made. Collective over the team."""
        check(calls.team_destroy(self._handle_team))


class Context(Operations):
    """A stream of operations, ordered and completed apart from those of other contexts. PE numbers
    are those of the team that it was made over."""

    def __init__(self, job: "Job", handle: int) -> None:
        self._owner = job
        self._handle_ctx = handle

    @property
    def team(self) -> Team:
        """The team that the context was made over."""
        return Team(self._job, calls.ctx_team(self._handle_ctx))

    def _pe_of_job(self, pe: int) -> int:
        team = calls.ctx_team(self._handle_ctx)
        return int(calls.team_translate(team, pe, self._job._handle_team))

    def destroy(self) -> None:
        """Completes the operations of the context and ends it."""
        check(calls.ctx_destroy(self._handle_ctx))

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.destroy()


class Job(Operations, Team):
    """This PE's part in a job: symmetric memory, operations on it, collectives over all PEs.

        with weft.init() as job:
            x = job.full(4, job.rank, dtype="f4")
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        Team.__init__(self, None, calls.team_world(handle))
        self._handle_ctx = calls.default_ctx(handle)
        self._size, self._rank = int(calls.n_pes(handle)), int(calls.my_pe(handle))
        self._pid = os.getpid()
        self._number = next(_numbers)  # of the jobs of this process
        self._blocks: Dict[int, _Held] = {}  # by number
        self._pools: "List[Pool]" = []
        self._ordinal: Optional[int] = None
        self._next_block = 0
        self._released: Deque[int] = deque()  # numbers of blocks without views here
        self._since_collect = [0, 0]  # allocations and bytes since blocks were last collected
        self._in_use = 0  # blocks after they were last collected
        self._bits: Optional[Block] = None
        self._finalized: bool = False

    def __repr__(self) -> str:
        return f"weft.Job(rank={self._rank}, size={self._size})"

    @property
    def size(self) -> int:
        """Number of PEs in the job."""
        return self._size

    @property
    def rank(self) -> int:
        """Number of this PE, 0 ... size - 1."""
        return self._rank

    @property
    def node(self) -> Team:
        """The team of the PEs on this host."""
        return Team(self, calls.team_node(self._handle))

    @property
    def world(self) -> Team:
        """The team of all PEs."""
        return Team(self, self._handle_team)

    def destroy(self) -> None:
        """The team of all PEs ends with finalize()."""
        raise InvalidArgument("the team of all PEs cannot be destroyed: call finalize()")

    # ------------------------------------------------------------------------------- arrays

    def empty(self, shape: ShapeLike, dtype: DTypeLike = "float64", *, kind: str = "host") -> Any:
        """Allocates a symmetric array of any contents. Collective, with the same arguments.

        shape: a number or a tuple; dtype: as for numpy; kind: "host" (a numpy array, where numpy is
        installed) or "gpu" (memory of this PE's GPU, which becomes the calling thread's current one
        if that has none). Peers may use the array at once.
        The memory is freed when no view of it is left at any PE (at a later allocation), or by its
        free(). Raises OutOfMemory, Mismatch (names both calls), Unsupported (no GPU).
        """
        return self._allocate(shape, dtype, kind, 0)

    def zeros(self, shape: ShapeLike, dtype: DTypeLike = "float64", *, kind: str = "host") -> Any:
        """As empty(), with zeros."""
        return self._allocate(shape, dtype, kind, b.WEFT_ALLOC_ZERO)

    def full(self, shape: ShapeLike, value: Any, dtype: Optional[DTypeLike] = None, *,
             kind: str = "host") -> Any:
        """As empty(), with `value` in every element, which may differ at each PE. Without a dtype
        Python's type of the value decides, which must be the same at every PE."""
        made = self._allocate(shape, type(value) if dtype is None else dtype, kind, 0)
        made[...] = value
        self.barrier()
        return made

    def asarray(self, values: Any, dtype: Optional[DTypeLike] = None, *,
                kind: Optional[str] = None) -> Any:
        """Copies `values`, an array or nested lists, into a new symmetric array of the same shape.
        Collective:
        shapes and types are the same at every PE. Arrays of a GPU go to GPU memory, others to host
        memory, unless `kind` says otherwise. Returns a symmetric array of this job as it is."""
        if isinstance(values, Array) and dtype is None and values._block is not None and \
                values._block.job is self and kind in (None, values.kind):
            return values
        memory = None
        if hasattr(values, "shape") or hasattr(values, "__array_interface__"):
            memory = memory_of(values)
        if memory is not None and memory.dtype is not None and memory.strides is None and \
                (dtype is None or dtype_of(dtype) == memory.dtype):
            where = kind or ("gpu" if memory.gpu is not None else "host")
            array = self._allocate(memory.shape, memory.dtype, where, 0)
            if memory.nbytes:
                if where == "gpu" or memory.gpu is not None:
                    copy = calls.copy_to if where == "gpu" else calls.copy_from
                    check(copy(self._handle, array.address, memory.address, memory.nbytes))
                else:
                    ctypes.memmove(array.address, memory.address, memory.nbytes)
        else:
            shape, found = _shape_of_values(values)
            array = self._allocate(shape, found if dtype is None else dtype, kind or "host", 0)
            given: Any = values
            if hasattr(given, "get") and memory is not None and memory.gpu:
                given = given.get()  # CuPy
            elif hasattr(given, "cpu"):
                given = given.detach().cpu().numpy()
            array[...] = given
        self.barrier()
        return array

    def _allocate(self, shape: ShapeLike, dtype: DTypeLike, kind: str, flags: int) -> Any:
        sizes, element, where = shape_of(shape), dtype_of(dtype), _kind(kind)
        nbytes = element.itemsize
        for size in sizes:
            nbytes *= size
        self._since_collect[0] += 1
        self._since_collect[1] += nbytes
        if self._since_collect[0] > max(64, self._in_use) or self._since_collect[1] > 2**28:
            self._collect()
        address = ctypes.c_void_p()
        # An array of no elements has a place, too.
        request = (self._handle, where, max(nbytes, 1), 0, flags, ctypes.byref(address))
        try:
            check(calls.alloc(*request))
        except OutOfMemory:
            # The allocators of all PEs fail at the same call.
            if not self._collect():
                raise
            check(calls.alloc(*request))
        if where == b.WEFT_GPU:
            self._make_current()
        return self._array_of(self._block(where, address.value or 0, max(nbytes, 1)), element,
                              sizes)

    def _block(self, kind: int, address: int, nbytes: int, free: Any = calls.free,
               kept: Any = None) -> Block:
        """Returns a new block, with the next number."""
        block = Block(self, kind, address, nbytes, self._next_block)
        self._blocks[block.number] = _Held(address, free, kept)
        self._next_block += 1
        return block

    @staticmethod
    def _array_of(block: Block, dtype: DType, shape: Tuple[int, ...]) -> Any:
        if block.kind == b.WEFT_HOST and _numpy_is_here():
            try:
                from ._numpy import array_of

                return array_of(block, dtype, shape)
            except (ImportError, Unsupported):
                pass  # numpy cannot be loaded, or lacks the type
        return RawArray(block, dtype, shape, block.address)

    def _release(self, number: int) -> None:
        """Notes that no view of a block is left here. Any thread, also within a garbage
        collection."""
        self._released.append(number)

    def _collect(self) -> int:
        """Frees the blocks that no PE has views of. Collective. Returns their number."""
        self._since_collect = [0, 0]
        numbers = sorted(self._blocks)
        words = (len(numbers) + 63) // 64
        if not words:
            return 0
        # The bits of one call: of this PE, then of all.
        need = 16 * words
        if self._bits is None or self._bits.nbytes < need:
            address = ctypes.c_void_p()
            if self._bits is not None:
                check(calls.free(self._handle, self._bits.address))
                self._bits = None
            status = calls.alloc(self._handle, b.WEFT_HOST, 2 * need, 0, 0, ctypes.byref(address))
            if status:
                return 0  # at every PE
            self._bits = Block(self, b.WEFT_HOST, address.value or 0, 2 * need, -1)
            self._bits.freed = True  # not one of the program's
        released = set(self._released)
        bits = array.array("Q", bytes(8 * words))
        for i, number in enumerate(numbers):
            if number in released:
                bits[i // 64] |= 1 << i % 64
        ctypes.memmove(self._bits.address, bits.buffer_info()[0], 8 * words)
        check(calls.allreduce(self._handle_team, self._bits.address + 8 * words, self._bits.address,
                              words, b.WEFT_UINT64, b.WEFT_AND))
        ctypes.memmove(bits.buffer_info()[0], self._bits.address + 8 * words, 8 * words)
        free = [number for i, number in enumerate(numbers) if bits[i // 64] >> i % 64 & 1]
        for number in free:
            held = self._blocks.pop(number)
            check(held.free(self._handle, held.address))
        self._in_use = len(self._blocks)
        gone = set(free)
        for _ in range(len(self._released)):
            number = self._released.popleft()
            if number not in gone and number in self._blocks:
                self._released.append(number)
        return len(free)

    def _free(self, block: Block) -> None:
        check(self._blocks[block.number].free(self._handle, block.address))
        block.freed = True
        del self._blocks[block.number]

    def realloc(self, array: Any, shape: ShapeLike) -> Any:
        """Resizes an array to another shape, and returns it: a new array, which has the elements of
        `array` in C order up to the smaller size. Collective, with the same shape at every PE.
        `array` must have no other view and cannot be used afterwards. Raises InvalidFree,
        OutOfMemory, Mismatch."""
        sizes = shape_of(shape)
        block, dtype = array._require_alone(), array._dtype
        if block.job is not self or block.pool is not None or \
                self._blocks[block.number].kept is not None or array.address != block.address:
            raise InvalidArgument(f"{describe(array)} is not a whole array of this job's zeros(), "
                                  "empty(), full() or asarray(): only these can be resized")
        nbytes = max(dtype.itemsize * math.prod(sizes), 1)
        address = ctypes.c_void_p()
        check(calls.realloc(self._handle, block.address, nbytes, ctypes.byref(address)))
        block.freed = True
        del self._blocks[block.number]
        array._forget()
        return self._array_of(self._block(block.kind, address.value or 0, nbytes), dtype, sizes)

    def pool(self, size: Union[int, str], kind: str = "gpu") -> "Pool":
        """Reserves a window of `size` bytes ("1G") of symmetric memory, in which allocations are
        local: by torch and CuPy inside `with`, and by the pool's empty() and zeros(). kind: "gpu"
        or "host". Collective, with the same arguments. Raises OutOfMemory, Mismatch, Unsupported
        (no GPU)."""
        from ._pool import Pool

        made = Pool(self, _bytes_of(size), _kind(kind))
        self._pools.append(made)
        return made

    def register(self, array: Any) -> "Registration":
        """Registers `array`, memory of the program on the host or this PE's GPU: as source or
        destination of an operation it then needs no question to the driver, and host memory no
        staging buffer.
        Not collective; not needed. The job must have set up its GPUs. Use it with `with`, or
        close() what it returns before the memory is freed."""
        from ._memory import Registration

        return Registration(self, array)

    def register_symmetric(self, array: Any) -> RawArray:
        """Makes GPU memory of the program symmetric: `array` begins one cuMemCreate() allocation of
        this PE's GPU. Returns a symmetric array of the same memory. Collective, with the same size
        at every PE. free(), or the end of the last view at every PE, ends it. Raises NotSymmetric,
        Unsupported, Mismatch."""
        memory = contiguous(memory_of(array), array)
        address = ctypes.c_void_p()
        check(calls.register_symmetric(self._handle, memory.address, memory.nbytes,
                                       ctypes.byref(address)))
        block = self._block(b.WEFT_GPU, address.value or 0, memory.nbytes,
                            calls.unregister_symmetric, array)
        dtype = memory.dtype or dtype_of("uint8")
        return RawArray(block, dtype, memory.shape, block.address)

    def map(self, array: Any, pe: Optional[int] = None) -> "Mapping":
        """Maps an array's memory at PE `pe` (this PE, if None) for loads and stores of the CPU. Not
        collective. The array is symmetric, in GPU or host memory; at this PE it may also be
        registered memory. Raises Unsupported, which names each way and why it failed."""
        from ._memory import Mapping

        if pe is None:
            pe = self._rank
        else:
            self._check_pe(pe)
        return Mapping(self, array, pe)

    def copy(self, dst: Any, src: Any, *, flush: bool = False) -> None:
        """Copies `src` to `dst`, of as many bytes, between host memory and any GPU memory of this
        PE, without a stream: small sizes by the CPU. Kernels and copies that write `src` must be
        complete. On return `src` may be reused and this thread's launches see the data; with
        flush=True every reader does."""
        from ._memory import copy

        copy(self, dst, src, flush)

    def accessible(self, array: Any, pe: int) -> bool:
        """Returns whether the array is symmetric and this PE reaches its counterpart at PE `pe`."""
        return bool(calls.accessible(self._handle, memory_of(array).address, pe))

    def open(self, path: "Union[str, os.PathLike[str]]", mode: str = "r", *, checksum: bool = False,
             buffered: bool = False, depth: int = 0, chunk: Union[int, str] = 0) -> "File":
        """Opens the file `path` for this PE, to be read into and written from arrays of any PE.

        mode: "r", "w" (made empty), "x" (must not exist), "r+", "w+"; checksum: results have the
        CRC-32C; buffered: by the page cache; depth: requests in flight, 1 to 256; chunk: bytes of a
        request. 0: as configured. Raises SystemRefused (the system's reason), InvalidArgument.
        """
        from ._files import File

        return File(self, os.fspath(path), mode, checksum, buffered, depth, _bytes_of(chunk))

    # ------------------------------------------------------------------------------ machine

    def _check_pe(self, pe: int) -> None:
        if not 0 <= pe < self._size:
            raise InvalidPE(f"PE {pe}: this job has the PEs 0 to {self._size - 1}")

    def path(self, pe: int, kind: str = "host") -> Dict[str, Any]:
        """Returns how this PE reaches memory of PE `pe`: name, reason, whether it was tested
        (proven), and what has been moved (operations, bytes). kind: of the memory, "host" or
        "gpu". Raises InvalidPE."""
        self._check_pe(pe)
        info = _structure(b.weft_path_info)
        info.kind = _kind(kind)
        check(calls.path_query(self._handle, pe, ctypes.byref(info)))
        found = _fields(info)
        found["kind"] = kind
        return found

    def prove(self) -> None:
        """Tests every path of the job. Collective; no other operation may be in progress."""
        check(calls.prove(self._handle))

    def gpu(self) -> Dict[str, Any]:
        """Returns the GPU that this PE uses, once the job has set up its GPUs (by the first array
        of kind "gpu"). Raises Unsupported before."""
        info = _structure(b.weft_gpu_info)
        check(calls.gpu_query(self._handle, ctypes.byref(info)))
        return _fields(info)

    def _gpu_ordinal(self) -> Optional[int]:
        """Returns the number of this PE's GPU, or None while the job has set up none."""
        if self._ordinal is None:
            try:
                self._ordinal = int(self.gpu()["ordinal"])
            except Unsupported:
                pass
        return self._ordinal

    def _make_current(self) -> None:
        """After the job has set up its GPUs: makes this PE's GPU the current one of the calling
        thread, if that has none. torch, CuPy, Triton and Numba then use it."""
        if self._ordinal is None and self._gpu_ordinal() is not None and not self._is_hip():
            driver = ctypes.CDLL("libcuda.so.1")
            device, context = ctypes.c_int(), ctypes.c_void_p()
            driver.cuCtxGetCurrent(ctypes.byref(context))
            if (context.value is None and driver.cuDeviceGet(ctypes.byref(device),
                                                             self._ordinal) == 0
                    and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0):
                driver.cuCtxSetCurrent(context)

    def gpu_pair(self, pe: int) -> Dict[str, Any]:
        """Returns whether this PE can access the GPU memory of PE `pe` (usable), and the
        evidence."""
        self._check_pe(pe)
        info = _structure(b.weft_gpu_pair)
        check(calls.gpu_pair_query(self._handle, pe, ctypes.byref(info)))
        return _fields(info)

    def map_info(self, pe: Optional[int] = None) -> Dict[str, Any]:
        """Returns whether and how GPU memory of PE `pe` (this PE, if None) can be mapped, and the
        sizes in bytes up to which the CPU copies. Measures them when first called, in about 60
        ms."""
        info = _structure(b.weft_map_info)
        check(calls.map_query(self._handle, self._rank if pe is None else pe, ctypes.byref(info)))
        return _fields(info)

    @property
    def target(self) -> str:
        """Where kernels run: "cuda" or "simt"."""
        return str(calls.target_name(calls.target_get()).decode())

    def queue_mode(self, mode: str) -> int:
        """Chooses how the blocks of this PE's kernels share the queues of network adapters, by
        `mode`: "shared", "exclusive" or "single". No kernel may run. Returns the number of blocks
        with queues of their own."""
        if mode not in _QUEUE_MODES:
            raise InvalidArgument(f"queue mode {mode!r}: use one of {', '.join(_QUEUE_MODES)}")
        blocks = ctypes.c_int()
        check(calls.device_queue_mode(self._handle, _QUEUE_MODES[mode], ctypes.byref(blocks)))
        return blocks.value

    def device_state(self) -> int:
        """Returns the address of the job's state for kernels, to be passed as an argument.
        Collective when first called: it sets the job up for device code. Raises Unsupported (no
        usable GPU)."""
        check(calls.device_start(self._handle))
        state = ctypes.c_void_p()
        check(calls.device_state(self._handle, b.WEFT_DEV_VERSION, ctypes.byref(state)))
        return state.value or 0

    def module_init(self, module: Any) -> None:
        """Gives the state of the job to a module whose source includes <weft_device.h>: a RawModule
        of CuPy, or a CUmodule as a number."""
        check(calls.device_start(self._handle))
        handle = getattr(getattr(module, "module", module), "ptr", module)
        check(calls.module_init(self._handle, int(handle)))

    def device_check(self) -> None:
        """Raises the exception of a failure that device code has recorded."""
        check(calls.device_check(self._handle))

    def _is_hip(self) -> bool:
        return str(self.gpu()["uuid"]).startswith("AMD-")

    # ---------------------------------------------------------------------------------- end

    def abort(self, code: int = 1) -> None:
        """Ends the whole job at once with that exit code. Does not return."""
        calls.abort(self._handle, code)

    def cancel(self, why: str = "") -> None:
        """Fails the job without ending a process: waits of all PEs, and later calls, raise
        JobFailed with this PE and `why`. finalize() then waits for no PE. Any thread may call
        it."""
        check(calls.cancel(self._handle, why.encode() or None))

    def check(self) -> None:
        """Raises the exception with which the job has failed, if it has. Does not wait."""
        check(calls.job_status(self._handle))

    def finalize(self) -> None:
        """Ends this PE's part in the job. Collective. Arrays must not be used any more.

        Called at the end of a program that did not fail, and by the end of `with`.
        """
        if self._finalized or self._pid != os.getpid():
            return
        self._finalized = True
        _jobs.discard(self)
        self._pools.clear()
        handle, self._handle = self._handle, 0
        check(calls.finalize(handle))

    def _finalize_later(self) -> None:
        """As finalize(), in a thread: the other PEs may come later."""
        thread = threading.Thread(target=self.finalize, daemon=True, name="weft finalize")
        _ending.append(thread)
        thread.start()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # After an exception this PE ends without finalize(). The others then see that it has ended,
        # and do not wait for it.
        if error is None:
            self.finalize()
        else:
            _jobs.discard(self)


_Check = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_check_signals = ctypes.pythonapi.PyErr_CheckSignals


def _signals() -> Generator[int, None, None]:
    """Runs the handlers of signals that came while the main thread waits in the C library; yields 1
    after one has raised an exception. A generator, because Python runs handlers before the first
    statement of a function, where no handler catches what they raise."""
    ends = 0
    while True:
        try:
            yield ends
            ends = 0
            _check_signals()
        except GeneratorExit:
            return
        except BaseException as error:
            interrupts.error = error
            ends = 1


_signal_handlers = _signals()
next(_signal_handlers)
_handle_signals = _Check(_signal_handlers.send)


_jobs: "weakref.WeakSet[Job]" = weakref.WeakSet()
_ending: List[threading.Thread] = []
_numbers = itertools.count()
_here = threading.local()


def init(*, heap: Union[int, str] = 0, unique_id: Optional[bytes] = None, rank: int = 0,
         size: int = 0,
         group: Any = None) -> Job:
    """Joins the job that the launcher started; without a launcher makes a job of one PE. A second
    call returns the job that exists. Collective.

    heap: bytes of each PE's host heap ("4G"), the same at every PE; 0 = WEFT_HEAP_SIZE.
    unique_id, rank, size: connect by the bytes of weft.unique_id() in place of a launcher (`weft
    run`, mpirun, srun, torchrun). group: the PEs of weft.local(), which passes it.
    Raises BootFailed, InvalidConfig, Timeout, PeerDead, VersionMismatch.
    """
    running = getattr(_here, "job", None)
    if running is not None and not running._finalized and running._pid == os.getpid():
        return running  # type: ignore[no-any-return]
    job = join(heap, unique_id, rank, size, group)
    _here.job = job
    return job


def join(heap: Union[int, str], unique_id: Optional[bytes], rank: int, size: int,
         group: Any = None, limit_s: float = 0) -> Job:
    """As init(), for one more job of this process. limit_s: seconds without progress after which a
    wait fails, in place of WEFT_WAIT_LIMIT."""
    attr = b.weft_init_attr()
    attr.size = ctypes.sizeof(attr)
    attr.thread = b.WEFT_THREAD_MULTIPLE
    attr.heap_bytes = _bytes_of(heap)
    attr.wait_limit_ns = round(limit_s * 1e9)
    id_ = None
    if unique_id is not None:
        if len(unique_id) != ctypes.sizeof(b.weft_unique_id):
            raise InvalidArgument(f"unique_id has {len(unique_id)} bytes, not "
                                  f"{ctypes.sizeof(b.weft_unique_id)}: pass what weft.unique_id() "
                                  "gave")
        id_ = b.weft_unique_id.from_buffer_copy(unique_id)
        attr.unique_id = ctypes.addressof(id_)
        attr.unique_id_pe, attr.unique_id_npes = rank, size
    if group is not None:
        attr.group, attr.group_pe = group, rank
    handle = ctypes.c_void_p()
    if threading.current_thread() is threading.main_thread():
        # For the waits of init() itself, and those of the job.
        check(calls.set_interrupt(None, _handle_signals, None))
    check(calls.init(ctypes.byref(handle), ctypes.byref(attr)))
    job = Job(handle.value or 0)
    if group is None:
        _jobs.add(job)
    return job


def unique_id() -> bytes:
    """Returns the bytes that identify a new job, for init(unique_id=...). The caller runs on the
    machine of PE 0."""
    made = b.weft_unique_id()
    check(calls.unique_id_get(ctypes.byref(made)))
    return bytes(made.bytes)


def _numpy_is_here() -> bool:
    if "numpy" in sys.modules:
        return sys.modules["numpy"] is not None
    import importlib.util

    return importlib.util.find_spec("numpy") is not None


def _types_of(values: Any) -> Iterator[type]:
    """Yields the types of the elements of nested lists."""
    if isinstance(values, (list, tuple)):
        for part in values:
            yield from _types_of(part)
    else:
        yield type(values)


def _shape_of_values(values: Any) -> Tuple[Tuple[int, ...], Any]:
    """Returns the shape of nested lists, and a type that holds their elements."""
    if hasattr(values, "shape") and hasattr(values, "dtype"):
        return tuple(values.shape), values.dtype
    shape: List[int] = []
    inner = values
    while isinstance(inner, (list, tuple)):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    kinds = set(_types_of(values))
    for kind in (complex, float, int, bool):
        if kind in kinds:
            return tuple(shape), kind
    if not kinds:
        return tuple(shape), float
    raise InvalidArgument(f"{type(inner).__name__} is no number: give nested lists of numbers or "
                          "an array")


_failed = False


def _note_failure(kind: Any, error: Any, trace: Any) -> None:
    global _failed
    _failed = True
    _hook(kind, error, trace)


_hook = sys.excepthook
sys.excepthook = _note_failure


@atexit.register
def _at_exit() -> None:
    # A program that failed ends without finalize(): the other PEs see that it has ended.
    if _failed:
        return
    for thread in _ending:
        thread.join()
    # The newest first: jobs that share processes end in the same order everywhere.
    for job in sorted(_jobs, key=lambda job: -job._number):
        job.finalize()
