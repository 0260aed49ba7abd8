# SPDX-License-Identifier: Apache-2.0
"""The process group: its collectives, over symmetric memory and over streams of GPUs."""

import ctypes
import struct
from importlib import import_module
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import _bindings as b
from .._dtypes import DType, dtype_of
from .._job import join, unique_id
from .._library import calls, check
from ..errors import InvalidArgument, InvalidOperation, Mismatch, WeftError
from ._messages import Host, Messages, done

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
_Group: Any = dist.ProcessGroup

# They end with the process, when a rank that is late needs no other any more.
_jobs_of_groups: List[Any] = []

_STAGE = 4 << 20  # bytes of each of the four buffers for collectives
_RECORD = 256  # bytes of a call that members compare

_OPERATIONS = {"SUM": b.WEFT_SUM, "AVG": b.WEFT_AVG, "PRODUCT": b.WEFT_PROD, "MIN": b.WEFT_MIN,
               "MAX": b.WEFT_MAX, "BAND": b.WEFT_AND, "BOR": b.WEFT_OR, "BXOR": b.WEFT_XOR}
_NAMES = {operation: name for name, operation in _OPERATIONS.items()}


def _operation_of(op: Any) -> int:
    for name, operation in _OPERATIONS.items():
        if op == getattr(dist.ReduceOp, name):
            return operation
    raise InvalidOperation(f"reduction {op}: the group \"weft\" has {', '.join(_OPERATIONS)}")


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


class ProcessGroup(_Group):  # type: ignore[misc]
    """A group of torch.distributed whose members are the PEs of a job of their own."""

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = None) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._name = self._words = ""
        if rank == 0:
            store.set("weft", unique_id())
        id_ = store.get("weft")
        memory = 4 * _STAGE + Messages.nbytes(size)
        self._job = join(memory + (8 << 20), bytes(id_), rank, size)
        _jobs_of_groups.append(self._job)
        self._team, self._ctx = self._job._handle_team, self._job._handle_ctx
        self._memory = self._job.zeros(memory, "u1")
        # Source and destination of a collective, and those of the next one: a member that is ahead
        # must not change what another one still copies.
        self._src = self._memory.address
        self._dst = self._src + _STAGE
        self._next = self._dst + _STAGE, self._dst + 2 * _STAGE
        self._messages = Messages(self._job, self._src + 4 * _STAGE)
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

    def _put_parts(self, parts: Sequence[Host], at: int, size: int) -> None:
        """Copies what the parts have from `at` on into the source, `size` bytes apart."""
        for rank, part in enumerate(parts):
            theirs = min(size, max(part.nbytes - at, 0))
            if theirs:
                ctypes.memmove(self._src + rank * size, part.address + at, theirs)

    def _take_parts(self, parts: Sequence[Host], at: int, size: int) -> None:
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
        host = Host(tensor)
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
        return done(tensors)

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
            host = Host(tensor)
            for at, size in self._pieces(host.nbytes, 1, dtype.itemsize, True):
                ctypes.memmove(self._src, host.address + at, size)
                check(calls.reduce(self._team, self._dst, self._src, size // dtype.itemsize,
                                   dtype.weft, op, opts.rootRank))
                if self._rank == opts.rootRank:
                    ctypes.memmove(host.address + at, self._dst, size)
            if self._rank == opts.rootRank:
                host.write_back()
        return done(tensors)

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
            host = Host(tensor, is_root)
            for at, size in self._pieces(host.nbytes, 1, 1, True):
                if is_root:
                    ctypes.memmove(self._src, host.address + at, size)
                check(calls.broadcast(self._team, self._dst, self._src, size, opts.rootRank))
                if not is_root:
                    ctypes.memmove(host.address + at, self._dst, size)
            if not is_root:
                host.write_back()
        return done(tensors)

    def _gather_all(self, parts: List[Host], mine: Host) -> None:
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
            self._gather_all([Host(output, False) for output in outputs], Host(source))
        return done(output_lists)

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

    def _split(self, host: Host) -> List[Host]:
        """Returns the equal parts of a tensor, one for each rank."""
        flat = host.host.reshape(-1)
        step = flat.numel() // self._size
        return [Host(flat[rank * step:(rank + 1) * step]) for rank in range(self._size)]

    def _allgather_base(self, output: Any, source: Any, opts: Any = None) -> Any:
        self._compare("all_gather_into_tensor", [source])
        _check_type([output, source])
        self._check_size("all_gather_into_tensor", output, source, self._size)
        stream = self._stream(output, source)
        if stream is not None:
            check(calls.allgather_on_stream(self._team, output.data_ptr(), source.data_ptr(),
                                            source.numel() * source.element_size(), stream))
            return done([output])
        host = Host(output, False)
        self._gather_all(self._split(host), Host(source))
        host.write_back()
        return done([output])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: List[Any], inputs: List[Any],
                                        opts: Any = None) -> Any:
        for output, source in zip(outputs, inputs):
            self._allgather_base(output, source, opts)
        return done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather_coalesced(self, output_lists: List[List[Any]], inputs: List[Any],
                            opts: Any = None) -> Any:
        by_tensor = [list(outputs) for outputs in zip(*output_lists)]
        return self.allgather(by_tensor, inputs, opts)

    def gather(self, output_lists: List[List[Any]], inputs: List[Any], opts: Any) -> Any:
        self._compare("gather", inputs, f"root {opts.rootRank}")
        for i, source in enumerate(inputs):
            is_root = self._rank == opts.rootRank
            mine = Host(source)
            parts: List[Host] = []
            if is_root:
                self._check_list("gather", output_lists[i])
                _check_type([source, *output_lists[i]])
                for output in output_lists[i]:
                    self._check_size("gather", output, source)
                parts = [Host(output, False) for output in output_lists[i]]
            for at, size in self._pieces(mine.nbytes, self._size, 1, True):
                self._put_parts([mine], at, size)
                check(calls.gather(self._team, self._dst, self._src, size, opts.rootRank))
                self._take_parts(parts, at, size)
            for part in parts:
                part.write_back()
        return done(output_lists)

    def scatter(self, outputs: List[Any], input_lists: List[List[Any]], opts: Any) -> Any:
        self._compare("scatter", outputs, f"root {opts.rootRank}")
        for i, output in enumerate(outputs):
            is_root = self._rank == opts.rootRank
            mine = Host(output, False)
            parts: List[Host] = []
            if is_root:
                self._check_list("scatter", input_lists[i])
                _check_type([output, *input_lists[i]])
                for source in input_lists[i]:
                    self._check_size("scatter", source, output)
                parts = [Host(source) for source in input_lists[i]]
            for at, size in self._pieces(mine.nbytes, self._size, 1, True):
                self._put_parts(parts, at, size)
                check(calls.scatter(self._team, self._dst, self._src, size, opts.rootRank))
                self._take_parts([mine], at, size)
            mine.write_back()
        return done(outputs)

    def _reduce_parts(self, output: Host, parts: List[Host], dtype: DType, op: int) -> None:
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
            self._reduce_parts(Host(output, False), [Host(part) for part in inputs],
                               _one_type([output, *inputs]), op)
        return done(outputs)

    def _reduce_scatter_base(self, output: Any, source: Any, opts: Any) -> Any:
        op = _operation_of(opts.reduceOp)
        self._compare("reduce_scatter_tensor", [source], _NAMES[op])
        self._check_size("reduce_scatter_tensor", source, output, self._size)
        stream = self._stream(output, source)
        if stream is not None:
            check(calls.reducescatter_on_stream(self._team, output.data_ptr(), source.data_ptr(),
                                                output.numel(), _one_type([output, source]).weft,
                                                op, stream))
            return done([output])
        self._reduce_parts(Host(output, False), self._split(Host(source)),
                           _one_type([output, source]), op)
        return done([output])

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: List[Any], inputs: List[Any],
                                        opts: Any) -> Any:
        for output, source in zip(outputs, inputs):
            self._reduce_scatter_base(output, source, opts)
        return done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _exchange(self, outputs: List[Host], inputs: List[Host], even: bool) -> None:
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
        self._exchange([Host(output, False) for output in outputs],
                       [Host(source) for source in inputs], False)
        return done(outputs)

    def _by_splits(self, host: Host, splits: List[int]) -> List[Host]:
        """Returns the parts of a tensor along its first dimension, one for each rank."""
        rows = host.host.shape[0] if host.host.dim() else 1
        if not splits and rows % self._size:
            raise InvalidArgument(f"all_to_all_single: {rows} rows are no {self._size} equal parts:"
                                  " give splits")
        sizes = splits or [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise InvalidArgument(f"all_to_all_single: splits {sizes} of a tensor of {rows} rows "
                                  f"and {self._size} ranks")
        return [Host(part) for part in torch.split(host.host, sizes)]

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
                return done([output])
        host = Host(output, False)
        self._exchange(self._by_splits(host, output_splits),
                       self._by_splits(Host(source), input_splits), even)
        host.write_back()
        return done([output])

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Any:
        self._compare("barrier", [])
        check(calls.barrier(self._team))
        return done([])

    # ---------------------------------------------------------------------------- messages

    def send(self, tensors: List[Any], dst: int, tag: int = 0) -> Any:
        return self._messages.send(tensors, dst, tag)

    def recv(self, tensors: List[Any], src: int, tag: int = 0) -> Any:
        return self._messages.recv(tensors, src, tag)

    def recv_anysource(self, tensors: List[Any], tag: int = 0) -> Any:
        return self._messages.recv_anysource(tensors, tag)
