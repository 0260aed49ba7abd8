# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Weft.

    import torch.distributed as dist
    import weft.torch

    dist.init_process_group("weft")     # under torchrun, or with a store, rank and world_size

Each process group is a job of its own, whose PEs meet by the group's store. Collectives of CPU
tensors go through symmetric memory, and are complete when the call returns, also with
async_op=True. Those of GPU tensors run on torch's current stream; uneven ones, gather, scatter and
messages are copied to the host and back. Messages between two members go through a ring in the
receiver's memory: a thread for each receiver sends what does not fit, and one takes what arrives
for receives for which the program does not wait. Reductions combine elements in the order of ranks:
every rank gets the same bits.

Waits end after WEFT_WAIT_LIMIT, and when a peer dies: weft.Timeout and weft.PeerDead name it. With
TORCH_DISTRIBUTED_DEBUG=DETAIL the members compare operation, shapes, types, reduction and root
before a collective; a difference raises weft.Mismatch with the arguments of two ranks.
"""

import ctypes
import queue
import struct
import threading
import time
from array import array
from collections import deque
from importlib import import_module
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _bindings as b
from ._dtypes import DType, dtype_of
from ._job import join, unique_id
from ._library import calls, check
from .errors import InvalidArgument, InvalidOperation, Mismatch, WeftError

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
_c10d: Any = torch._C._distributed_c10d
_Work: Any = _c10d.Work
_Group: Any = dist.ProcessGroup

# They end with the process, when a rank that is late needs no other any more.
_jobs_of_groups: List[Any] = []

_STAGE = 4 << 20  # bytes of each of the four buffers for collectives
_RING = 256 << 10  # bytes of the messages of one sender that are on their way
_HEAD = struct.Struct("<qQ")  # of a message: tag, bytes
_RECORD = 256  # bytes of a call that members compare

_OPERATIONS = {"SUM": b.WEFT_SUM, "AVG": b.WEFT_AVG, "PRODUCT": b.WEFT_PROD, "MIN": b.WEFT_MIN,
               "MAX": b.WEFT_MAX, "BAND": b.WEFT_AND, "BOR": b.WEFT_OR, "BXOR": b.WEFT_XOR}


_NAMES = {operation: name for name, operation in _OPERATIONS.items()}


def _operation_of(op: Any) -> int:
    for name, operation in _OPERATIONS.items():
        if op == getattr(dist.ReduceOp, name):
            return operation
    raise InvalidOperation(f"reduction {op}: the group \"weft\" has {', '.join(_OPERATIONS)}")


def _done(value: Any) -> Any:
    """Returns the Work of an operation that is complete."""
    future: Any = torch.futures.Future()
    future.set_result(value)
    return _c10d._create_work_from_future(future)


class _Host:
    """A contiguous tensor in host memory that stands for a tensor: itself, or a copy."""

    __slots__ = ("tensor", "host", "address", "nbytes")

    def __init__(self, tensor: Any, reads: bool = True) -> None:
        self.tensor = tensor
        if tensor.device.type == "cpu" and tensor.is_contiguous():
            self.host = tensor.detach()
        elif reads:
            self.host = tensor.detach().cpu().contiguous()
        else:
            self.host = torch.empty(tensor.shape, dtype=tensor.dtype)
        self.address = self.host.data_ptr()
        self.nbytes = self.host.numel() * self.host.element_size()

    def write_back(self) -> None:
        """Gives the tensor what the copy has got."""
        if self.host.data_ptr() != self.tensor.data_ptr() or self.tensor.device.type != "cpu":
            with torch.no_grad():
                self.tensor.copy_(self.host)


def _check_type(tensors: Sequence[Any]) -> Any:
    """Returns torch's element type of tensors, which is the same."""
    found = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != found:
            raise InvalidArgument(f"tensors of {found} and {tensor.dtype} in one collective: "
                                  "convert one of them")
        if tensor.is_sparse:
            raise InvalidArgument("a sparse tensor: use its to_dense()")
    return found


def _one_type(tensors: Sequence[Any]) -> DType:
    """As _check_type(), for tensors that are reduced."""
    return dtype_of(_check_type(tensors))


class _Message(_Work):  # type: ignore[misc]
    """A message between two members, which may be on its way."""

    def __init__(self, group: "ProcessGroup", tensor: Any, peer: int, tag: int) -> None:
        super().__init__()
        self.group, self.tensor, self.peer, self.tag = group, tensor, peer, tag
        self.ended = threading.Event()
        self.error: Optional[BaseException] = None

    def end(self, error: Optional[BaseException] = None) -> None:
        self.error = error
        self.ended.set()

    def is_completed(self) -> bool:
        if not self.ended.is_set():
            self.group._progress(self, False)
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
            self.group._progress(self, True)
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


class ProcessGroup(_Group):  # type: ignore[misc]
    """A group of torch.distributed whose members are the PEs of a job of their own."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = None) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._name = self._words = ""
        if rank == 0:
            store.set("weft", unique_id())
        id_ = store.get("weft")
        rings = (_RING + 4096) * size
        self._job = join(4 * _STAGE + rings + (8 << 20), bytes(id_), rank, size)
        _jobs_of_groups.append(self._job)
        self._team, self._ctx = self._job._handle_team, self._job._handle_ctx
        self._memory = self._job.zeros(4 * _STAGE + size * (_RING + 16), "u1")
        # Source and destination of a collective, and those of the next one: a member that is ahead
        # must not change what another one still copies.
        self._src = self._memory.address
        self._dst = self._src + _STAGE
        self._next = self._dst + _STAGE, self._dst + 2 * _STAGE
        self._rings = self._src + 4 * _STAGE  # [sender]
        self._heads = self._rings + size * _RING  # [sender] bytes that it has put into its ring
        self._tails = self._heads + size * 8  # [receiver] bytes that it has taken from this PE
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
        self._on_gpu: Dict[int, bool] = {}  # by GPU: whether collectives run on its streams
        self._gpu_memory: Any = None
        self._detail = dist.get_debug_level() == dist.DebugLevel.DETAIL

    def getBackendName(self) -> str:
        return "weft"

    _get_backend_name = name = getBackendName

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    # torch 2 finds a group by its name.
    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, words: str) -> None:
        self._words = words

    def getGroupDesc(self) -> str:
        return self._words

    # ------------------------------------------------------------------------- collectives

    def _compare(self, words: str, tensors: Sequence[Any], *arguments: Any) -> None:
        """With TORCH_DISTRIBUTED_DEBUG=DETAIL: raises Mismatch unless all members make this
        call."""
        if not self._detail:
            return
        shapes = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in tensors[:4])
        rest = ", ".join(str(argument) for argument in arguments)
        mine = f"{words}({shapes}{', ' if rest else ''}{rest})".encode()[:_RECORD]
        ctypes.memmove(self._src, mine.ljust(_RECORD), _RECORD)
        check(calls.allgather(self._team, self._dst, self._src, _RECORD))
        everyone = ctypes.string_at(self._dst, _RECORD * self._size)
        check(calls.sync(self._team))  # before the next call changes what others read
        for rank in range(self._size):
            theirs = everyone[rank * _RECORD:(rank + 1) * _RECORD].rstrip()
            if theirs != mine:
                raise Mismatch(f"rank {self._rank} calls {mine.decode()}, and rank {rank} calls "
                               f"{theirs.decode()}")

    def _pieces(self, nbytes: int, parts: int, itemsize: int,
                rooted: bool = False) -> Iterator[Tuple[int, int]]:
        """Yields offset and size of the pieces of `nbytes` bytes of which `parts` fit a buffer.
        rooted: members do not wait for all others in the collective."""
        step = _STAGE // (parts * itemsize) * itemsize
        for at in range(0, nbytes, step):
            now = self._src, self._dst
            (self._src, self._dst), self._next = self._next, now
            yield at, min(step, nbytes - at)
            if rooted:
                # The root, or another member, does not wait for all: it could be two ahead.
                check(calls.sync(self._team))

    def _put_parts(self, parts: Sequence[_Host], at: int, size: int) -> None:
        """Copies what the parts have from `at` on into the source, `size` bytes apart."""
        for rank, part in enumerate(parts):
            theirs = min(size, max(part.nbytes - at, 0))
            if theirs:
                ctypes.memmove(self._src + rank * size, part.address + at, theirs)

    def _take_parts(self, parts: Sequence[_Host], at: int, size: int) -> None:
        """The reverse, out of the destination."""
        for rank, part in enumerate(parts):
            theirs = min(size, max(part.nbytes - at, 0))
            if theirs:
                ctypes.memmove(part.address + at, self._dst + rank * size, theirs)

    def _stream(self, *tensors: Any) -> Optional[int]:
        """Returns torch's current stream of the GPU of tensors whose collective runs there, else
        None: they go through the host. The same at every member."""
        if not tensors[0].is_cuda:
            return None
        gpu = tensors[0].device.index
        if gpu not in self._on_gpu:
            self._on_gpu[gpu] = self._open_gpu(gpu)
        if not self._on_gpu[gpu]:
            return None
        for tensor in tensors:
            if not tensor.is_cuda or tensor.device.index != gpu or not tensor.is_contiguous():
                raise InvalidArgument(f"a tensor on {tensor.device} with strides "
                                      f"{tuple(tensor.stride())}, and the first one is on GPU "
                                      f"{gpu}: give contiguous tensors of one GPU")
        return int(torch.cuda.current_stream(gpu).cuda_stream)

    def _open_gpu(self, gpu: int) -> bool:
        """Whether every member's tensors are on the GPU that its PE uses, and streams can do its
        collectives. Collective."""
        try:
            if self._gpu_memory is None:
                self._gpu_memory = self._job.zeros(16, "u1", kind="gpu")
            # Collectives of larger teams on streams are host functions.
            good = self._size <= 64 and int(self._job.gpu()["ordinal"]) == gpu
            for rank in range(self._size):
                good = good and bool(self._job.gpu_pair(rank)["usable"])
        except WeftError:
            good = False
        for _ in self._pieces(8, 1, 8):
            ctypes.memmove(self._src, struct.pack("<Q", good), 8)
            check(calls.allreduce(self._team, self._src, self._src, 1, b.WEFT_UINT64, b.WEFT_MIN))
            good = ctypes.string_at(self._src, 1) == b"\1"
        return good

    def _reduce_all(self, tensor: Any, op: int) -> None:
        dtype = _one_type([tensor])
        stream = self._stream(tensor)
        if stream is not None:
            check(calls.allreduce_on_stream(self._team, tensor.data_ptr(), tensor.data_ptr(),
                                            tensor.numel(), dtype.weft, op, stream))
            return
        host = _Host(tensor)
        for at, size in self._pieces(host.nbytes, 1, dtype.itemsize):
            ctypes.memmove(self._src, host.address + at, size)
            check(calls.allreduce(self._team, self._src, self._src, size // dtype.itemsize,
                                  dtype.weft, op))
            ctypes.memmove(host.address + at, self._src, size)
        host.write_back()

    def allreduce(self, tensors: List[Any], opts: Any = None) -> Any:
        op = _operation_of(opts.reduceOp if opts is not None else dist.ReduceOp.SUM)
        self._compare("allreduce", tensors, _NAMES[op])
        for tensor in tensors:
            self._reduce_all(tensor, op)
        return _done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: List[Any], opts: Any) -> Any:
        op = _operation_of(opts.reduceOp)
        self._compare("reduce", tensors, _NAMES[op], f"root {opts.rootRank}")
        for tensor in tensors:
            dtype = _one_type([tensor])
            stream = self._stream(tensor)
            if stream is not None:
                result = tensor if self._rank == opts.rootRank else torch.empty_like(tensor)
                check(calls.reduce_on_stream(self._team, result.data_ptr(), tensor.data_ptr(),
                                             tensor.numel(), dtype.weft, op, opts.rootRank, stream))
                continue
            host = _Host(tensor)
            for at, size in self._pieces(host.nbytes, 1, dtype.itemsize, True):
                ctypes.memmove(self._src, host.address + at, size)
                check(calls.reduce(self._team, self._dst, self._src, size // dtype.itemsize,
                                   dtype.weft, op, opts.rootRank))
                if self._rank == opts.rootRank:
                    ctypes.memmove(host.address + at, self._dst, size)
            if self._rank == opts.rootRank:
                host.write_back()
        return _done(tensors)

    def broadcast(self, tensors: List[Any], opts: Any) -> Any:
        self._compare("broadcast", tensors, f"root {opts.rootRank}")
        is_root = self._rank == opts.rootRank
        for tensor in tensors:
            stream = self._stream(tensor)
            if stream is not None:
                check(calls.broadcast_on_stream(self._team, tensor.data_ptr(), tensor.data_ptr(),
                                                tensor.numel() * tensor.element_size(),
                                                opts.rootRank, stream))
                continue
            host = _Host(tensor, is_root)
            for at, size in self._pieces(host.nbytes, 1, 1, True):
                if is_root:
                    ctypes.memmove(self._src, host.address + at, size)
                check(calls.broadcast(self._team, self._dst, self._src, size, opts.rootRank))
                if not is_root:
                    ctypes.memmove(host.address + at, self._dst, size)
            if not is_root:
                host.write_back()
        return _done(tensors)

    def _gather_all(self, parts: List[_Host], mine: _Host) -> None:
        """Joins the members' tensors, of sizes that every member knows."""
        most = max(part.nbytes for part in parts)
        for at, size in self._pieces(most, self._size, 1):
            self._put_parts([mine], at, size)
            check(calls.allgather(self._team, self._dst, self._src, size))
            self._take_parts(parts, at, size)
        for part in parts:
            part.write_back()

    def allgather(self, output_lists: List[List[Any]], inputs: List[Any], opts: Any = None) -> Any:
        uneven = self._uneven(output_lists)
        self._compare("allgather", [] if uneven else inputs)
        for outputs, source in zip(output_lists, inputs):
            self._check_list("allgather", outputs)
            _check_type([source, *outputs])
            self._check_size("allgather", outputs[self._rank], source)
            if not uneven and source.is_cuda and self._stream(source) is not None:
                flat = torch.empty((self._size, *source.shape), dtype=source.dtype,
                                   device=source.device)
                self._allgather_base(flat, source)
                for output, part in zip(outputs, flat):
                    output.detach().copy_(part)
                continue
            self._gather_all([_Host(output, False) for output in outputs], _Host(source))
        return _done(output_lists)

    @staticmethod
    def _uneven(lists: List[List[Any]]) -> bool:
        return any(len({tensor.shape for tensor in tensors}) > 1 for tensors in lists)

    def _check_list(self, words: str, tensors: List[Any]) -> None:
        if len(tensors) != self._size:
            raise InvalidArgument(f"{words}: a list of {len(tensors)} tensors, and the group has "
                                  f"{self._size} ranks: give one for each")

    @staticmethod
    def _check_size(words: str, one: Any, other: Any, times: int = 1) -> None:
        if one.numel() != other.numel() * times:
            raise InvalidArgument(f"{words}: tensors of {one.numel()} and {other.numel()} elements;"
                                  f" the first one needs {other.numel() * times}")

    def _split(self, host: _Host) -> List[_Host]:
        """Returns the equal parts of a tensor, one for each rank."""
        flat = host.host.reshape(-1)
        step = flat.numel() // self._size
        return [_Host(flat[rank * step:(rank + 1) * step]) for rank in range(self._size)]

    def _allgather_base(self, output: Any, source: Any, opts: Any = None) -> Any:
        self._compare("all_gather_into_tensor", [source])
        _check_type([output, source])
        self._check_size("all_gather_into_tensor", output, source, self._size)
        stream = self._stream(output, source)
        if stream is not None:
            check(calls.allgather_on_stream(self._team, output.data_ptr(), source.data_ptr(),
                                            source.numel() * source.element_size(), stream))
            return _done([output])
        host = _Host(output, False)
        self._gather_all(self._split(host), _Host(source))
        host.write_back()
        return _done([output])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: List[Any], inputs: List[Any],
                                        opts: Any = None) -> Any:
        for output, source in zip(outputs, inputs):
            self._allgather_base(output, source, opts)
        return _done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, output_lists: List[List[Any]], inputs: List[Any],
                            opts: Any = None) -> Any:
        by_tensor = [list(outputs) for outputs in zip(*output_lists)]
        return self.allgather(by_tensor, inputs, opts)

    def gather(self, output_lists: List[List[Any]], inputs: List[Any], opts: Any) -> Any:
        self._compare("gather", inputs, f"root {opts.rootRank}")
        for i, source in enumerate(inputs):
            is_root = self._rank == opts.rootRank
            mine = _Host(source)
            parts: List[_Host] = []
            if is_root:
                self._check_list("gather", output_lists[i])
                _check_type([source, *output_lists[i]])
                for output in output_lists[i]:
                    self._check_size("gather", output, source)
                parts = [_Host(output, False) for output in output_lists[i]]
            for at, size in self._pieces(mine.nbytes, self._size, 1, True):
                self._put_parts([mine], at, size)
                check(calls.gather(self._team, self._dst, self._src, size, opts.rootRank))
                self._take_parts(parts, at, size)
            for part in parts:
                part.write_back()
        return _done(output_lists)

    def scatter(self, outputs: List[Any], input_lists: List[List[Any]], opts: Any) -> Any:
        self._compare("scatter", outputs, f"root {opts.rootRank}")
        for i, output in enumerate(outputs):
            is_root = self._rank == opts.rootRank
            mine = _Host(output, False)
            parts: List[_Host] = []
            if is_root:
                self._check_list("scatter", input_lists[i])
                _check_type([output, *input_lists[i]])
                for source in input_lists[i]:
                    self._check_size("scatter", source, output)
                parts = [_Host(source) for source in input_lists[i]]
            for at, size in self._pieces(mine.nbytes, self._size, 1, True):
                self._put_parts(parts, at, size)
                check(calls.scatter(self._team, self._dst, self._src, size, opts.rootRank))
                self._take_parts([mine], at, size)
            mine.write_back()
        return _done(outputs)

    def _reduce_parts(self, output: _Host, parts: List[_Host], dtype: DType, op: int) -> None:
        """Reduces part r of all members to member r; sizes may differ by r."""
        most = max(part.nbytes for part in parts)
        for at, size in self._pieces(most, self._size, dtype.itemsize):
            self._put_parts(parts, at, size)
            check(calls.reducescatter(self._team, self._dst, self._src, size // dtype.itemsize,
                                      dtype.weft, op))
            self._take_parts([output], at, size)
        output.write_back()

    def reduce_scatter(self, outputs: List[Any], input_lists: List[List[Any]], opts: Any) -> Any:
        op = _operation_of(opts.reduceOp)
        self._compare("reduce_scatter", input_lists[0] if input_lists else [],
                      _NAMES[op])
        for output, inputs in zip(outputs, input_lists):
            self._check_list("reduce_scatter", inputs)
            self._check_size("reduce_scatter", output, inputs[self._rank])
            if not self._uneven([inputs]) and output.is_cuda and self._stream(output) is not None:
                self._reduce_scatter_base(output, torch.stack(list(inputs)), opts)
                continue
            self._reduce_parts(_Host(output, False), [_Host(part) for part in inputs],
                               _one_type([output, *inputs]), op)
        return _done(outputs)

    def _reduce_scatter_base(self, output: Any, source: Any, opts: Any) -> Any:
        op = _operation_of(opts.reduceOp)
        self._compare("reduce_scatter_tensor", [source], _NAMES[op])
        self._check_size("reduce_scatter_tensor", source, output, self._size)
        stream = self._stream(output, source)
        if stream is not None:
            check(calls.reducescatter_on_stream(self._team, output.data_ptr(), source.data_ptr(),
                                                output.numel(), _one_type([output, source]).weft,
                                                op, stream))
            return _done([output])
        self._reduce_parts(_Host(output, False), self._split(_Host(source)),
                           _one_type([output, source]), op)
        return _done([output])

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: List[Any], inputs: List[Any],
                                        opts: Any) -> Any:
        for output, source in zip(outputs, inputs):
            self._reduce_scatter_base(output, source, opts)
        return _done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _exchange(self, outputs: List[_Host], inputs: List[_Host], even: bool) -> None:
        """Sends inputs[r] to member r, and receives outputs[r] from it."""
        most = max(part.nbytes for part in [*outputs, *inputs])
        for _ in self._pieces(0 if even else 1, 1, 1):
            ctypes.memmove(self._src, struct.pack("<Q", most), 8)
            check(calls.allreduce(self._team, self._src, self._src, 1, b.WEFT_UINT64, b.WEFT_MAX))
            most, = struct.unpack("<Q", ctypes.string_at(self._src, 8))
        for at, size in self._pieces(most, self._size, 1):
            self._put_parts(inputs, at, size)
            check(calls.alltoall(self._team, self._dst, self._src, size))
            self._take_parts(outputs, at, size)
        for part in outputs:
            part.write_back()

    def alltoall(self, outputs: List[Any], inputs: List[Any], opts: Any = None) -> Any:
        self._compare("all_to_all", [])
        self._check_list("all_to_all", outputs)
        self._check_list("all_to_all", inputs)
        _check_type([*outputs, *inputs])
        self._exchange([_Host(output, False) for output in outputs],
                       [_Host(source) for source in inputs], False)
        return _done(outputs)

    def _by_splits(self, host: _Host, splits: List[int]) -> List[_Host]:
        """Returns the parts of a tensor along its first dimension, one for each rank."""
        rows = host.host.shape[0] if host.host.dim() else 1
        if not splits and rows % self._size:
            raise InvalidArgument(f"all_to_all_single: {rows} rows are no {self._size} equal parts:"
                                  " give splits")
        sizes = splits or [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise InvalidArgument(f"all_to_all_single: splits {sizes} of a tensor of {rows} rows "
                                  f"and {self._size} ranks")
        return [_Host(part) for part in torch.split(host.host, sizes)]

    def alltoall_base(self, output: Any, source: Any, output_splits: List[int],
                      input_splits: List[int], opts: Any = None) -> Any:
        even = not output_splits and not input_splits
        self._compare("all_to_all_single", [source] if even else [])
        _check_type([output, source])
        if even:
            self._check_size("all_to_all_single", output, source)
            stream = self._stream(output, source) if source.shape[0] % self._size == 0 else None
            if stream is not None:
                check(calls.alltoall_on_stream(
                    self._team, output.data_ptr(), source.data_ptr(),
                    source.numel() // self._size * source.element_size(), stream))
                return _done([output])
        host = _Host(output, False)
        self._exchange(self._by_splits(host, output_splits),
                       self._by_splits(_Host(source), input_splits), even)
        host.write_back()
        return _done([output])

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Any:
        self._compare("barrier", [])
        check(calls.barrier(self._team))
        return _done([])

    # ---------------------------------------------------------------------------- messages

    def _check_peer(self, words: str, peer: int, tensors: List[Any]) -> Any:
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

    def _send_all(self, peer: int, head: bytes, host: _Host) -> None:
        """Sends a message piece by piece, as the receiver takes it."""
        kept = ctypes.create_string_buffer(head, len(head))
        for address, nbytes in ((ctypes.addressof(kept), len(head)), (host.address, host.nbytes)):
            done = 0
            while done < nbytes:
                room = self._room(peer)
                if room == 0:
                    self._wait(self._tails + peer * 8, self._put[peer] - _RING + 1)
                    continue
                size = min(room, nbytes - done)
                self._store(peer, address + done, size)
                self._announce(peer)
                done += size

    def _wait(self, signal: int, value: int) -> None:
        """Waits until the signal is at least that value."""
        check(calls.signal_wait(self._ctx, signal, b.WEFT_GE, value, None))

    def send(self, tensors: List[Any], dst: int, tag: int = 0) -> Any:
        tensor = self._check_peer("send", dst, tensors)
        host = _Host(tensor)
        head = _HEAD.pack(tag, host.nbytes)
        with self._sending[dst]:
            if not self._queued[dst] and self._room(dst) >= len(head) + host.nbytes:
                kept = ctypes.create_string_buffer(head, len(head))
                self._store(dst, ctypes.addressof(kept), len(head))
                if host.nbytes:
                    self._store(dst, host.address, host.nbytes)
                self._announce(dst)
                return _done([tensor])
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
                self._fail(work, error)

    def _fail(self, work: _Message, error: BaseException) -> None:
        """Ends a receive with an error, unless it has ended."""
        with self._lock:
            for posted in (self._posted_any, *self._posted):
                if work in posted:
                    posted.remove(work)
            if not work.ended.is_set():
                work.end(error)

    def recv(self, tensors: List[Any], src: int, tag: int = 0) -> Any:
        return self._post(_Message(self, self._check_peer("recv", src, tensors), src, tag), [src],
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
        done = 0
        while done < nbytes:
            there = self._arrived(src)
            if there == 0:
                self._wait(self._heads + src * 8, self._taken[src] + 1)
                continue
            begin = self._taken[src] % _RING
            size = min(there, nbytes - done, _RING - begin)
            ctypes.memmove(address + done, self._rings + src * _RING + begin, size)
            self._taken[src] += size
            done += size
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
        host = None if work is None else _Host(work.tensor, False)
        if work is not None and host is not None and host.nbytes == nbytes:
            self._load(src, host.address, nbytes)
            self._unpost(work, src)
            host.write_back()
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
        host = _Host(work.tensor, False)
        if host.nbytes != data.numel():
            work.end(InvalidArgument(
                f"recv: rank {work.peer} sent {data.numel()} bytes, and the tensor has "
                f"{host.nbytes}"))
            return
        ctypes.memmove(host.address, data.data_ptr(), data.numel())
        host.write_back()
        work.end()

    def _progress(self, work: _Message, waits: bool) -> None:
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
            self._fail(work, error)


def _create(store: Any, rank: int, size: int, timeout: Any = None) -> ProcessGroup:
    return ProcessGroup(store, rank, size, timeout)


def register() -> None:
    """Makes the backend "weft" known to torch.distributed. `import weft.torch` does it."""
    if not hasattr(dist.Backend, "WEFT"):
        try:
            dist.Backend.register_backend("weft", _create, devices=["cpu", "cuda"])
        except TypeError:  # before torch 2.0
            dist.Backend.register_backend("weft", _create)


register()
