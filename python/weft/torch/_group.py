# SPDX-License-Identifier: Apache-2.0
"""The process group: what torch calls, checks of the arguments, and the choice between host and
stream."""

import time
import weakref
from importlib import import_module
from typing import Any, Callable, List, Optional, Sequence

from .. import _bindings as b
from .._job import Job, join, unique_id
from .._library import calls, check
from ..errors import InvalidArgument, Timeout, Unsupported
from ._buffers import Buffers
from ._messages import Messages
from ._reduction import reduction_of
from ._stream_messages import StreamMessages
from ._streams import Streams
from ._work import DONE, Order, caller_of, done, same_type

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")
_Group: Any = dist.ProcessGroup

def _uneven(tensors: Sequence[Any]) -> bool:
    return len({tensor.shape for tensor in tensors}) > 1


def _names(each: Sequence[Any]) -> List[str]:
    """Returns the reduction's name, of arguments that end with it."""
    return [arguments[-1].name for arguments in each[:1]]


def _end_job(job: Job, streams: Streams, messages: Optional[StreamMessages]) -> None:
    """Ends the job of a group, which is given no more operations. Its memory is free when all
    members have ended theirs."""
    streams.wait()
    if messages is not None:
        messages.wait()
    job._finalize_later()


class ProcessGroup(_Group):  # type: ignore[misc]
    """A group of torch.distributed whose members are the PEs of a job of their own.

    A method that torch calls for an operation checks the arguments, and returns a Work. The
    operation is made at once where the caller waits for it; else the host's are made by a thread,
    and those of GPU tensors on a stream of the group.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = None) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._name = self._words = ""
        if rank == 0:
            store.set("weft", unique_id())
        id_ = store.get("weft")
        memory = Buffers.nbytes + Messages.nbytes(size)
        own_limit = timeout is not None and timeout != dist.distributed_c10d.default_pg_timeout
        self._job = join(memory + (8 << 20), bytes(id_), rank, size,
                         limit_s=timeout.total_seconds() if own_limit else 0)
        self._team = self._job._handle_team
        self._memory = self._job.empty(memory, "u1")
        address = self._memory.address
        self._buffers = Buffers(self._team, rank, size, address)
        self._messages = Messages(self._job, address + Buffers.nbytes)
        self._streams = Streams(self._job, self._team)
        self._order = Order()
        self._stream_messages = self._open_gpu()
        self._timeout = timeout or dist.distributed_c10d.default_pg_timeout
        self._monitored = 0  # calls of monitored_barrier()
        self._detail = dist.get_debug_level() == dist.DebugLevel.DETAIL
        # Operations that are pending refer to the group. Groups that the program keeps end with it.
        self._end = weakref.finalize(self, _end_job, self._job, self._streams,
                                     self._stream_messages)
        self._end.atexit = False

    def _open_gpu(self) -> Optional[StreamMessages]:
        """Prepares messages of GPU tensors, where every member has chosen its GPU."""
        chosen = torch.cuda.is_available() and torch.cuda.is_initialized()
        if not self._buffers.number(chosen, b.WEFT_MIN):
            return None
        gpu = torch.cuda.current_device()
        self._streams.open(gpu, self._buffers)
        return StreamMessages(self._job, gpu) if self._streams.usable[gpu] else None

    def getBackendName(self) -> str:
        return "weft"

    _get_backend_name = name = getBackendName

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    # torch 2 finds a group by its name. Its C++ code calls the methods, or it looks for the name in
    # backends of its own: torch's Python code sets and gets it by the other names.
    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, words: str) -> None:
        self._words = words

    def getGroupDesc(self) -> str:
        return self._words

    _set_group_name, group_name = setGroupName, property(getGroupName)
    _set_group_desc, group_desc = setGroupDesc, property(getGroupDesc)

    def shutdown(self) -> None:
        """Ends the job. torch calls it in destroy_process_group(); where it does not, as 2.5, the
        job ends when the program drops the group."""
        self._order.wait()
        self._end()

    # --------------------------------------------------------------- the order of operations

    def _compare(self, words: str, tensors: Sequence[Any], *arguments: Any) -> None:
        """With TORCH_DISTRIBUTED_DEBUG=DETAIL: raises Mismatch unless all members make this
        call."""
        shapes = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in tensors[:4])
        rest = ", ".join(str(argument) for argument in arguments)
        mine = f"{words}({shapes}{', ' if rest else ''}{rest})".encode()
        self._make(lambda: self._buffers.compare(mine))

    def _make(self, operation: Callable[[], None]) -> None:
        """The host makes an operation after all that were given before."""
        def make() -> None:
            self._streams.wait()
            operation()

        self._order.make(make if self._streams.usable else operation)

    def _on_stream(self, gpu: int) -> bool:
        """Whether collectives of that GPU's tensors run on streams: the same at every member."""
        if gpu not in self._streams.usable:
            self._make(lambda: self._streams.open(gpu, self._buffers))
        return self._streams.usable[gpu]

    def _begin(self, goes_on: Optional[bool], words: str, each: Sequence[Any],
               tensors: Sequence[Any], value: Any) -> Any:
        """Makes or queues a collective: the method `words` of Streams, or else of Buffers, with
        each of the arguments. Returns its Work.
        goes_on: as caller_of() returns it; tensors: all that it reads and writes."""
        gpu = tensors[0].get_device() if tensors else -1
        if gpu >= 0 and self._on_stream(gpu):
            self._order.wait()  # what the host was given comes first
            return self._streams.begin(gpu, getattr(self._streams, words), each, tensors, value,
                                       goes_on is False)
        operation = getattr(self._buffers, words)

        def host() -> None:
            for arguments in each:
                operation(*arguments)

        if not goes_on:
            self._make(host)
            return DONE if goes_on is False else done(value)
        return self._order.give(self._after_stream(tensors, host), value)

    def _after_stream(self, tensors: Sequence[Any], host: Callable[[], None]) -> Any:
        """Returns what a thread makes: host(), after what the caller's stream has been given."""
        gpus = sorted({tensor.device.index for tensor in tensors if tensor.is_cuda})
        events = [torch.cuda.current_stream(gpu).record_event() for gpu in gpus]

        def make() -> None:
            self._streams.wait()
            for event in events:
                event.synchronize()
            host()
            for gpu in gpus:
                torch.cuda.current_stream(gpu).synchronize()

        return make

    # ------------------------------------------------------------------- checks of arguments

    def _check_list(self, words: str, tensors: Sequence[Any]) -> None:
        if len(tensors) != self._size:
            raise InvalidArgument(f"{words}: a list of {len(tensors)} tensors, and the group has "
                                  f"{self._size} ranks: give one for each")

    @staticmethod
    def _check_size(words: str, one: Any, other: Any, times: int = 1) -> None:
        if one.numel() != other.numel() * times:
            raise InvalidArgument(f"{words}: tensors of {one.numel()} and {other.numel()} elements;"
                                  f" the first one needs {other.numel() * times}")

    def _rows(self, tensor: Any, splits: Sequence[int]) -> List[int]:
        """Returns how many rows of a tensor belong to each rank."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits and rows % self._size:
            raise InvalidArgument(f"all_to_all_single: {rows} rows are no {self._size} equal parts:"
                                  " give splits")
        sizes = list(splits) or [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise InvalidArgument(f"all_to_all_single: splits {sizes} of a tensor of {rows} rows "
                                  f"and {self._size} ranks")
        return sizes

    # ---------------------------------------------------------------------------- collectives

    def allreduce(self, tensors: List[Any], opts: Any = None) -> Any:
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        each = [(tensor, reduction_of(op, tensor)) for tensor in tensors]
        if self._detail:
            self._compare("allreduce", tensors, *_names(each))
        return self._begin(caller_of(opts), "allreduce", each, tensors, tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: List[Any], opts: Any) -> Any:
        op, root = opts.reduceOp, opts.rootRank
        each = [(tensor, root, reduction_of(op, tensor)) for tensor in tensors]
        if self._detail:
            self._compare("reduce", tensors, *_names(each), f"root {root}")
        return self._begin(caller_of(opts), "reduce", each, tensors, tensors)

    def broadcast(self, tensors: List[Any], opts: Any) -> Any:
        root = opts.rootRank
        if self._detail:
            self._compare("broadcast", tensors, f"root {root}")
        each = [(tensor, root) for tensor in tensors]
        return self._begin(caller_of(opts), "broadcast", each, tensors, tensors)

    def allgather(self, output_lists: List[List[Any]], inputs: List[Any], opts: Any = None) -> Any:
        return self._allgather(output_lists, inputs, caller_of(opts))

    def _allgather(self, output_lists: List[List[Any]], inputs: List[Any],
                   goes_on: Optional[bool]) -> Any:
        if self._detail:
            uneven = any(_uneven(outputs) for outputs in output_lists)
            self._compare("allgather", [] if uneven else inputs)
        each = list(zip(output_lists, inputs))
        for outputs, source in each:
            self._check_list("allgather", outputs)
            same_type([source, *outputs])
            self._check_size("allgather", outputs[self._rank], source)
        return self._begin(goes_on, "allgather", each, [*inputs, *sum(output_lists, [])],
                           output_lists)

    def allgather_coalesced(self, output_lists: List[List[Any]], inputs: List[Any],
                            opts: Any = None) -> Any:
        by_tensor = [list(outputs) for outputs in zip(*output_lists)]
        return self._allgather(by_tensor, inputs, caller_of(opts))

    def allgather_into_tensor_coalesced(self, outputs: List[Any], inputs: List[Any],
                                        opts: Any = None) -> Any:
        return self._allgather_flat(outputs, inputs, caller_of(opts))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def _allgather_base(self, output: Any, source: Any, opts: Any = None) -> Any:
        return self._allgather_flat([output], [source], caller_of(opts))

    all_gather_single = _allgather_base

    def _allgather_flat(self, outputs: List[Any], inputs: List[Any],
                        goes_on: Optional[bool]) -> Any:
        if self._detail:
            self._compare("all_gather_into_tensor", inputs)
        each = list(zip(outputs, inputs))
        for both in each:
            same_type(both)
            self._check_size("all_gather_into_tensor", *both, self._size)
        return self._begin(goes_on, "allgather_flat", each, [*inputs, *outputs], outputs)

    def gather(self, output_lists: List[List[Any]], inputs: List[Any], opts: Any) -> Any:
        root = opts.rootRank
        if self._detail:
            self._compare("gather", inputs, f"root {root}")
        lists = output_lists if self._rank == root else [[] for _ in inputs]
        for outputs, source in zip(lists, inputs):
            if self._rank == root:
                self._check_list("gather", outputs)
            same_type([source, *outputs])
            for output in outputs:
                self._check_size("gather", output, source)
        each = [(outputs, source, root) for outputs, source in zip(lists, inputs)]
        return self._begin(caller_of(opts), "gather", each, [*inputs, *sum(lists, [])],
                           output_lists)

    def scatter(self, outputs: List[Any], input_lists: List[List[Any]], opts: Any) -> Any:
        root = opts.rootRank
        if self._detail:
            self._compare("scatter", outputs, f"root {root}")
        lists = input_lists if self._rank == root else [[] for _ in outputs]
        for output, sources in zip(outputs, lists):
            if self._rank == root:
                self._check_list("scatter", sources)
            same_type([output, *sources])
            for source in sources:
                self._check_size("scatter", source, output)
        each = [(output, sources, root) for output, sources in zip(outputs, lists)]
        return self._begin(caller_of(opts), "scatter", each, [*outputs, *sum(lists, [])], outputs)

    def reduce_scatter(self, outputs: List[Any], input_lists: List[List[Any]], opts: Any) -> Any:
        op = opts.reduceOp
        each = [(output, sources, reduction_of(op, output, *sources))
                for output, sources in zip(outputs, input_lists)]
        if self._detail:
            self._compare("reduce_scatter", input_lists[0] if input_lists else [], *_names(each))
        for output, sources, _ in each:
            self._check_list("reduce_scatter", sources)
            self._check_size("reduce_scatter", output, sources[self._rank])
        return self._begin(caller_of(opts), "reduce_scatter", each,
                           [*outputs, *sum(input_lists, [])], outputs)

    def reduce_scatter_tensor_coalesced(self, outputs: List[Any], inputs: List[Any],
                                        opts: Any) -> Any:
        return self._reduce_scatter_flat(outputs, inputs, opts, caller_of(opts))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _reduce_scatter_base(self, output: Any, source: Any, opts: Any) -> Any:
        return self._reduce_scatter_flat([output], [source], opts, caller_of(opts))

    reduce_scatter_single = _reduce_scatter_base

    def _reduce_scatter_flat(self, outputs: List[Any], inputs: List[Any], opts: Any,
                             goes_on: Optional[bool]) -> Any:
        op = opts.reduceOp
        each = [(output, source, reduction_of(op, output, source))
                for output, source in zip(outputs, inputs)]
        if self._detail:
            self._compare("reduce_scatter_tensor", inputs, *_names(each))
        for output, source, _ in each:
            self._check_size("reduce_scatter_tensor", source, output, self._size)
        return self._begin(goes_on, "reduce_scatter_flat", each, [*inputs, *outputs], outputs)

    def alltoall(self, outputs: List[Any], inputs: List[Any], opts: Any = None) -> Any:
        if self._detail:
            self._compare("all_to_all", [])
        self._check_list("all_to_all", outputs)
        self._check_list("all_to_all", inputs)
        same_type([*outputs, *inputs])
        return self._begin(caller_of(opts), "alltoall", [(outputs, inputs)], [*inputs, *outputs],
                           outputs)

    def alltoall_base(self, output: Any, source: Any, output_splits: List[int],
                      input_splits: List[int], opts: Any = None) -> Any:
        even = not output_splits and not input_splits
        if self._detail:
            self._compare("all_to_all_single", [source] if even else [])
        same_type([output, source])
        takes, sends = self._rows(output, output_splits), self._rows(source, input_splits)
        if even:
            self._check_size("all_to_all_single", output, source)
            return self._begin(caller_of(opts), "alltoall_flat", [(output, source)],
                               [source, output], [output])
        return self._begin(caller_of(opts), "alltoall_rows", [(output, takes, source, sends)],
                           [source, output], [output])

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Any:
        goes_on = caller_of(opts)
        if self._detail:
            self._compare("barrier", [])

        def host() -> None:
            check(calls.barrier(self._team))

        if not goes_on:
            self._make(host)
            return DONE
        return self._order.give(self._after_stream([], host), [])

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Returns when all ranks have called it. If one has not within `timeout` (a timedelta;
        None: that of the group), rank 0 raises Timeout with the rank, or with wait_all_ranks with
        all that are missing; other ranks raise Timeout without them. On the host; operations that
        are pending go on. (torch.distributed.monitored_barrier() calls gloo's alone.)"""
        seconds = (timeout or self._timeout).total_seconds()
        ends = time.monotonic() + seconds
        self._monitored += 1
        tag = -self._monitored  # of no message of the program
        empty = torch.empty(0, dtype=torch.uint8)

        def came(work: Any) -> bool:
            while not work.is_completed():
                if time.monotonic() > ends:
                    return False
                time.sleep(0.0005)
            work.wait()
            return True

        if self._rank > 0:
            self._messages.send([empty], 0, tag)
            answer = self._messages.recv([empty], 0, tag)
            if not came(answer):
                error = Timeout(f"monitored_barrier: rank 0 has not answered rank {self._rank} "
                                f"within {seconds} s; it names the ranks that are missing")
                self._messages.cancel(answer, error)
                raise error
            return
        works = {peer: self._messages.recv([empty], peer, tag) for peer in range(1, self._size)}
        missing: List[int] = []
        for peer, work in works.items():
            if (wait_all_ranks or not missing) and not came(work):
                missing.append(peer)
        if missing:
            error = Timeout("monitored_barrier: rank" + "s" * (len(missing) > 1) + " "
                            + ", ".join(map(str, missing)) + f" did not call it within {seconds} s")
            for work in works.values():
                self._messages.cancel(work, error)
            raise error
        for peer in works:
            self._messages.send([empty], peer, tag)

    # ---------------------------------------------------------------------------- coalescing

    # Operations between the two are given as they come.
    def _start_coalescing(self, device: Any) -> None:
        pass

    def _end_coalescing(self, device: Any) -> Any:
        """Returns a Work of all collectives that were given before."""
        gpu = device.index if device.type == "cuda" else None
        if gpu is not None and self._streams.usable.get(gpu):
            return self._streams.begin(gpu, self._streams.allreduce, [], [], [], False)
        return self._order.give(lambda: None, [])

    # ------------------------------------------------------------------------------ messages

    def _by_stream(self, words: str, tensors: List[Any], tag: int) -> Optional[StreamMessages]:
        """Returns what moves a message by streams: one of a GPU tensor without a tag. None: the
        host moves it, and matches tags."""
        if not tensors[0].is_cuda:
            return None
        if tag == 0 and self._stream_messages is not None:
            return self._stream_messages
        if torch.cuda.is_current_stream_capturing():
            why = f"tag {tag}" if tag else "a group that was made before each rank chose its GPU"
            raise Unsupported(f"{words} with {why} in a CUDA graph: it goes through the host; use "
                              "tag 0, after torch.cuda.set_device() and dist.new_group()")
        return None

    def send(self, tensors: List[Any], dst: int, tag: int = 0) -> Any:
        by_stream = self._by_stream("send", tensors, tag)
        if by_stream is None:
            return self._messages.send(tensors, dst, tag)
        return by_stream.send(self._messages.check_peer("send", dst, tensors), dst)

    def recv(self, tensors: List[Any], src: int, tag: int = 0) -> Any:
        by_stream = self._by_stream("recv", tensors, tag)
        if by_stream is None:
            return self._messages.recv(tensors, src, tag)
        return by_stream.recv(self._messages.check_peer("recv", src, tensors), src)

    def recv_anysource(self, tensors: List[Any], tag: int = 0) -> Any:
        if self._by_stream("recv", tensors, tag) is not None:
            raise Unsupported("recv of a GPU tensor from any rank without a tag: name the rank, or "
                              "give both calls a tag, with which it goes through the host")
        return self._messages.recv_anysource(tensors, tag)
