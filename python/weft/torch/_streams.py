# SPDX-License-Identifier: Apache-2.0
"""Collectives of GPU tensors, on streams and on the tensors themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Sequence

from .. import _bindings as b
from .._library import calls, check
from ..errors import InvalidArgument, WeftError
from ._reduction import Reduction
from ._work import DONE, OnStream, dense_of, rows_of

if TYPE_CHECKING:
    from .._job import Job
    from ._buffers import Buffers

torch: Any = import_module("torch")

_MOST = 64  # members of a team whose collectives on streams are kernels


def _nbytes(tensor: Any) -> int:
    nbytes: int = tensor.numel() * tensor.element_size()
    return nbytes


def _starts(numbers: Sequence[int]) -> List[int]:
    """Returns where each of some adjacent parts begins."""
    return [sum(numbers[:i]) for i in range(len(numbers))]


class Streams:
    """The collectives of one member on streams of its GPU.

    Those for which the caller waits are on torch's current stream, others on a stream of the group.
    """

    def __init__(self, job: "Job", team: Any) -> None:
        self._job, self._team, self._rank, self._size = job, team, job.rank, job.size
        self.usable: Dict[int, bool] = {}  # by GPU: whether its collectives run on streams
        self._own: Dict[int, Any] = {}  # by GPU: the stream of the group
        self._last: Any = None  # the stream of the last collective
        self._last_handle = 0
        self._memory: Any = None
        self._captured: List[Any] = []

    def open(self, gpu: int, buffers: "Buffers") -> None:
        """Sets usable[gpu]: every member's tensors are on the GPU that its PE uses, and streams can
        do its collectives. Collective."""
        try:
            if self._memory is None:
                self._memory = self._job.zeros(16, "u1", kind="gpu")
            good = self._size <= _MOST and int(self._job.gpu()["ordinal"]) == gpu
            for rank in range(self._size):
                good = good and bool(self._job.gpu_pair(rank)["usable"])
        except WeftError:
            good = False
        self.usable[gpu] = bool(buffers.number(good, b.WEFT_MIN))

    def wait(self) -> None:
        """Waits for the collectives on streams: the host, or another stream, makes the next one."""
        if self._last is not None:
            self._last.synchronize()

    def _follow(self, stream: Any) -> None:
        """Makes a stream wait for the team's last collective, which another one has."""
        last, self._last, self._last_handle = self._last, stream, stream.cuda_stream
        if last is None or last == stream:
            return
        with torch.cuda.stream(last):
            if torch.cuda.is_current_stream_capturing():
                stream.wait_stream(last)
                return
        with torch.cuda.stream(stream):
            # What a capture began after has been synchronised with.
            if not torch.cuda.is_current_stream_capturing():
                stream.wait_stream(last)

    def begin(self, gpu: int, operation: Callable[..., None], each: Sequence[Any],
              tensors: Sequence[Any], value: Any, waits: bool) -> Any:
        """Queues operation(*arguments, stream) for each of the arguments, and returns its Work.
        waits: the caller waits for it."""
        for tensor in tensors:
            if tensor.get_device() != gpu:
                raise InvalidArgument(f"a tensor on {tensor.device}, and the first one is on GPU "
                                      f"{gpu}: give tensors of one GPU")
        if waits:
            handle = torch._C._cuda_getCurrentRawStream(gpu)
            if self._last is None or handle != self._last_handle:
                self._follow(torch.cuda.current_stream(gpu))
            for arguments in each:
                operation(*arguments, handle)
            return DONE
        if gpu not in self._own:
            self._own[gpu] = torch.cuda.Stream(gpu)
        own = self._own[gpu]
        own.wait_stream(torch.cuda.current_stream(gpu))
        with torch.cuda.stream(own):
            self._follow(own)
            for arguments in each:
                operation(*arguments, own.cuda_stream)
            for tensor in tensors:
                tensor.record_stream(own)
            return OnStream(value, own)

    def allreduce(self, tensor: Any, reduction: Reduction, stream: int) -> None:
        dense = dense_of(tensor)
        address = dense.data_ptr()
        check(reduction.all(self._team, address, address, dense.numel(), stream))
        self._write_back(tensor, dense)

    @staticmethod
    def _write_back(tensor: Any, dense: Any) -> None:
        """Gives a tensor the result that a contiguous copy has got."""
        if dense is not tensor:
            tensor.detach().copy_(dense)

    def reduce(self, tensor: Any, root: int, reduction: Reduction, stream: int) -> None:
        dense = dense_of(tensor)
        is_root = self._rank == root
        result = dense if is_root else torch.empty_like(dense)
        check(reduction.one(self._team, result.data_ptr(), dense.data_ptr(), dense.numel(), root,
                            stream))
        if is_root:
            self._write_back(tensor, dense)

    def broadcast(self, tensor: Any, root: int, stream: int) -> None:
        dense = dense_of(tensor)
        address = dense.data_ptr()
        check(calls.broadcast_on_stream(self._team, address, address, _nbytes(dense), root, stream))
        if self._rank != root:
            self._write_back(tensor, dense)

    def allgather_flat(self, output: Any, source: Any, stream: int) -> None:
        """output: the members' tensors, one after the other."""
        dense, result = dense_of(source), dense_of(output)
        check(calls.allgather_on_stream(self._team, result.data_ptr(), dense.data_ptr(),
                                        _nbytes(dense), stream))
        self._write_back(output, result)

    def allgather(self, outputs: List[Any], source: Any, stream: int) -> None:
        """outputs: one for each member, of sizes that every member knows."""
        if len({output.numel() for output in outputs}) > 1:
            self._alltoallv(outputs, source.detach().reshape(-1), [_nbytes(source)] * self._size,
                            [0] * self._size, stream)
            return
        flat = torch.empty((self._size, *source.shape), dtype=source.dtype, device=source.device)
        self.allgather_flat(flat, source, stream)
        for output, part in zip(outputs, flat):
            output.detach().copy_(part.view(output.shape))

    def gather(self, outputs: List[Any], source: Any, root: int, stream: int) -> None:
        dense = dense_of(source)
        rows = self._size if self._rank == root else 1  # elsewhere memory of the same kind
        flat = torch.empty((rows, *source.shape), dtype=source.dtype, device=source.device)
        check(calls.gather_on_stream(self._team, flat.data_ptr(), dense.data_ptr(), _nbytes(dense),
                                     root, stream))
        for output, part in zip(outputs, flat):
            output.detach().copy_(part.view(output.shape))

    def scatter(self, output: Any, sources: List[Any], root: int, stream: int) -> None:
        result = dense_of(output)
        flat = torch.stack(sources).contiguous() if self._rank == root else result
        check(calls.scatter_on_stream(self._team, result.data_ptr(), flat.data_ptr(),
                                      _nbytes(result), root, stream))
        self._write_back(output, result)

    def reduce_scatter_flat(self, output: Any, source: Any, reduction: Reduction,
                            stream: int) -> None:
        """source: a part for each member, one after the other."""
        dense, result = dense_of(source), dense_of(output)
        check(reduction.scatter(self._team, result.data_ptr(), dense.data_ptr(), result.numel(),
                                stream))
        self._write_back(output, result)

    def reduce_scatter(self, output: Any, sources: Sequence[Any], reduction: Reduction,
                       stream: int) -> None:
        if len({source.numel() for source in sources}) == 1:
            flat = torch.cat([source.detach().reshape(-1) for source in sources])
            self.reduce_scatter_flat(output, flat, reduction, stream)
            return
        for root, source in enumerate(sources):
            dense = dense_of(source)
            result = dense_of(output) if root == self._rank \
                else torch.empty_like(dense)
            check(reduction.one(self._team, result.data_ptr(), dense.data_ptr(), dense.numel(),
                                root, stream))
            if root == self._rank:
                self._write_back(output, result)

    def alltoall_flat(self, output: Any, source: Any, stream: int) -> None:
        """Equal parts for each member, one after the other."""
        dense, result = dense_of(source), dense_of(output)
        check(calls.alltoall_on_stream(self._team, result.data_ptr(), dense.data_ptr(),
                                       _nbytes(dense) // self._size, stream))
        self._write_back(output, result)

    def alltoall(self, outputs: Sequence[Any], sources: Sequence[Any], stream: int) -> None:
        """Sends sources[r] to member r, and receives outputs[r] from it."""
        sizes = [_nbytes(source) for source in sources]
        flat = torch.cat([source.detach().reshape(-1) for source in sources])
        self._alltoallv(outputs, flat, sizes, _starts(sizes), stream)

    def alltoall_rows(self, output: Any, takes: Sequence[int], source: Any, sends: Sequence[int],
                      stream: int) -> None:
        """Sends sends[r] rows to member r, and receives takes[r] rows from it."""
        self.alltoall(rows_of(output, takes), rows_of(source, sends), stream)

    def _alltoallv(self, outputs: Sequence[Any], flat: Any, sizes: Sequence[int],
                   starts: Sequence[int], stream: int) -> None:
        """Sends sizes[r] bytes at starts[r] of `flat` to member r."""
        room = [_nbytes(output) for output in outputs]
        result = torch.empty(max(sum(room), 1), dtype=torch.uint8, device=flat.device)
        source = flat if flat.numel() else result
        numbers = self._on_gpu([room, _starts(room), sizes, starts], flat.device)
        check(calls.alltoallv_on_stream(self._team, result.data_ptr(), result.numel(),
                                        numbers[0].data_ptr(), numbers[1].data_ptr(),
                                        source.data_ptr(), numbers[2].data_ptr(),
                                        numbers[3].data_ptr(), stream))
        for output, start, nbytes in zip(outputs, _starts(room), room):
            if nbytes:
                part = result[start:start + nbytes].view(output.dtype)
                output.detach().copy_(part.view(output.shape))

    def _on_gpu(self, rows: List[Sequence[int]], device: Any) -> Any:
        """Returns numbers in GPU memory, [rows, members], in the order of the current stream."""
        numbers = torch.tensor([list(row) for row in rows], dtype=torch.int64).pin_memory()
        if torch.cuda.is_current_stream_capturing():
            self._captured.append(numbers)  # a graph copies them at each replay
        return numbers.to(device, non_blocking=True)
