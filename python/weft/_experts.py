# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism: dispatch of tokens to the PEs of their experts, and combine of the
results."""

import ctypes
from typing import TYPE_CHECKING, Any, Optional, Tuple

from . import _bindings as b
from ._array import Block, Memory, contiguous, describe, memory_of
from ._dtypes import DType, DTypeLike, dtype_of
from ._library import calls, check
from ._stream import stream_of
from .errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from ._collectives import Collectives


class _Own(Block):
    """Memory of an Experts object, which its views keep."""

    def __init__(self, experts: "Experts", address: int, nbytes: int) -> None:
        kind = b.WEFT_GPU if experts._on_gpu else b.WEFT_HOST
        super().__init__(experts._job, kind, address, nbytes, -1)
        self.experts = experts

    def __del__(self) -> None:
        pass  # the C library frees it


class _Framework:
    """Makes arrays of the library that an array of the program belongs to: torch, CuPy or numpy."""

    def __init__(self, like: Any, memory: Memory) -> None:
        self.gpu = memory.gpu
        if type(like).__module__.split(".")[0] == "torch":
            import torch

            self.library: Any = torch
            self.where = {"device": like.device}
        elif memory.gpu == "cupy":
            import cupy

            self.library, self.where = cupy, {}
        elif memory.gpu is None:
            import numpy

            self.library, self.where = numpy, {}
        else:
            raise InvalidArgument(f"{describe(like)}: results are arrays of torch, CuPy or numpy; "
                                  "give one of these (x.torch(), x.cupy())")

    def empty(self, shape: Tuple[int, ...], dtype: DType) -> Any:
        if not hasattr(self.library, dtype.name) and self.library.__name__ != "torch":
            raise InvalidType(f"{self.library.__name__} has no {dtype.name}: give tensors of torch")
        return self.library.empty(shape, dtype=getattr(self.library, dtype.name), **self.where)

    def stream(self) -> Any:
        """The current stream of the library, for operations that the caller waits for."""
        return 0 if self.gpu is None else self.library.__name__

    def wait(self) -> None:
        """Waits for the work that stream() names."""
        if self.gpu is None:
            check(calls.stream_synchronize(0))
        elif self.library.__name__ == "torch":
            self.library.cuda.current_stream().synchronize()
        else:
            self.library.cuda.get_current_stream().synchronize()


class Received:
    """The rows that a dispatch brought to this PE: a token of some PE each, by the order of PEs and
    of their tokens.

    x: [rows, hidden]; scales: [rows, scales] or None; topk_idx: [rows, top], the token's experts
    counted from this PE's first one, -1 where another PE owns it; topk_weights: [rows, top], 0
    there; n_tokens: [own experts], rows that name each expert. n: number of rows, of which the
    arrays have as many; with a stream it is None (unless the layout is that of a dispatch that
    waited), n_rows is an array of one element with it, and the arrays have Experts.rows rows. After
    a dispatch with a known layout topk_idx and topk_weights are those of the first one.
    """

    def __init__(self) -> None:
        self.x: Any = None
        self.scales: Any = None
        self.topk_idx: Any = None
        self.topk_weights: Any = None
        self.n_tokens: Any = None
        self.n_rows: Any = None
        self.n: Optional[int] = None
        self._layout: Any = None
        self._known: Optional[Received] = None  # the dispatch whose layout this one has
        self._capacity = 0  # rows that the arrays have
        self._sources: Any = None  # of the transfer in progress
        self._tokens = 0
        self._framework: Any = None

    def __repr__(self) -> str:
        rows = "rows known to the GPU alone" if self.n is None else f"{self.n} rows"
        return f"weft.Received({rows})"


class Experts:
    """Dispatch and combine for a mixture of experts over the members of a team; job.experts() makes
    it.

        experts = job.experts(tokens=4096, hidden=7168, experts=256, top=8, dtype="bfloat16")
        rows = experts.dispatch(x, topk_idx, topk_weights)
        y = experts.combine(mine(rows.x, rows.topk_idx, rows.topk_weights), rows)

    Member p owns the experts from floor(p * experts / size) to before that of p + 1. A token is
    sent once to each PE that owns one of its experts, and each of these returns one result, which
    combine() adds in the order of the members: the same bits each time. Between nodes a token
    crosses once, and one sum of the node's results returns. Every member makes the same calls in
    the same order.

    Arrays are of torch, CuPy or numpy, on this PE's GPU where kernels run there (WEFT_TARGET=cuda),
    else in host memory; results are new arrays of the same library. With stream=S operations run in
    the order of that stream (as for put()), no host waits, and a CUDA graph may capture them.
    Without it they run on the library's current stream, and the call returns when they have ended.

    They raise InvalidArgument, InvalidType, OutOfRange (an expert that does not exist, more rows
    than the object has room for; with a stream check() raises it), PeerDead and Timeout.
    """

    def __init__(self, team: "Collectives", attr: Any, dtype: DType, result_dtype: DType) -> None:
        self._team, self._job = team, team._job
        self._handle: Optional[int] = None
        size = b.weft_experts_size()
        handle = ctypes.c_void_p()
        check(calls.experts_create(team._handle_team, ctypes.byref(attr), ctypes.byref(handle)))
        self._handle = handle.value
        check(calls.experts_query(self._handle, ctypes.byref(size)))
        self._layout_words = (size.layout + 3) // 4
        self._on_gpu = self._job.target == "cuda"
        if self._on_gpu:
            self._job._make_current()
        self._dtype, self._result_dtype = dtype, result_dtype
        first, n = ctypes.c_uint32(), ctypes.c_uint32()
        check(calls.experts_range(self._handle, team.rank, ctypes.byref(first), ctypes.byref(n)))
        #: Bytes of symmetric memory that the object has at each PE.
        self.nbytes = int(size.symmetric)
        #: This PE's first expert.
        self.first = int(first.value)
        #: Number of this PE's experts.
        self.own = int(n.value)
        #: Tokens of a PE in one dispatch, at most.
        self.tokens = int(attr.tokens)
        #: Elements of a token.
        self.hidden = int(attr.hidden)
        #: Experts of a token.
        self.top = int(attr.top)
        #: Scale factors of a token.
        self.scales = int(attr.scales)
        #: Rows that a PE can receive.
        self.rows = min(int(attr.rows) or 2**32, self.tokens * team.size)

    def __repr__(self) -> str:
        return f"weft.Experts(first={self.first}, own={self.own}, rows={self.rows})"

    def _require(self) -> int:
        if self._handle is None:
            raise InvalidArgument("the experts object has been destroyed")
        return self._handle

    def _memory(self, words: str, array: Any, shape: Tuple[int, ...], dtype: DType) -> Memory:
        """Returns the memory of an argument of that shape and type."""
        memory = contiguous(memory_of(array), array)
        if memory.dtype != dtype:
            found = memory.dtype.name if memory.dtype else "bytes"
            raise InvalidType(f"{words} is of {found}: {dtype.name} is needed")
        if memory.shape != shape:
            raise InvalidArgument(f"{words} has shape {memory.shape}: {shape} is needed")
        if (memory.gpu is not None) != self._on_gpu:
            where = ("host memory, and kernels run on the GPU (WEFT_TARGET=cuda)" if self._on_gpu
                     else "GPU memory, and kernels run on CPU threads (set WEFT_TARGET=cuda before "
                     "weft.init())")
            raise InvalidArgument(f"{words}: {describe(array)} is in {where}")
        return memory

    def _view(self, address: Optional[int], shape: Tuple[int, ...], dtype: DType) -> Any:
        """Returns an array over the object's own memory."""
        block = _Own(self, address or 0, max(1, shape[0] * shape[1] * dtype.itemsize))
        return self._job._array_of(block, dtype, shape)

    def dispatch(self, x: Any, topk_idx: Any, topk_weights: Any = None, *, scales: Any = None,
                 in_place: bool = False, stream: Any = None, capacity: int = 0) -> Received:
        """Sends each token to the PEs that own its experts, and receives rows.

        x: [tokens, hidden], with the dtype of the object; topk_idx: [tokens, top] experts, int64,
        -1: none; or the Received of an earlier dispatch, whose tokens have the same experts: only
        values and scales are sent then. topk_weights: [tokens, top], float32; without it each is 1.
        scales: [tokens, scales], float32, where the object has scales.
        in_place: x and scales of the result are symmetric arrays over the object's memory, which
        the next dispatch overwrites, instead of copies.
        capacity: with a stream and a new layout the rows of the arrays, in place of Experts.rows,
        where the caller knows that no more arrive.
        """
        rows, given = self._given(x, topk_idx, topk_weights, scales)
        wanted = self._wanted(rows, in_place, stream is None, capacity)
        where = stream_of(rows._framework.stream() if stream is None else stream, self._job)
        layout = memory_of(rows._layout).address
        check(calls.experts_dispatch_on_stream(self._require(), ctypes.byref(wanted), layout,
                                               ctypes.byref(given), where))
        rows._sources = (x, scales, topk_idx, topk_weights)
        return self._received(rows, in_place, stream is None, where)

    def dispatch_send(self, x: Any, topk_idx: Any, topk_weights: Any = None, *, scales: Any = None,
                      stream: Any = None) -> Received:
        """The first half of dispatch(), which starts the transfer and waits for nothing. Parameters
        as dispatch(). Returns rows that dispatch_receive() fills. Until then sources do not change,
        and the object starts no other operation."""
        rows, given = self._given(x, topk_idx, topk_weights, scales)
        where = stream_of(rows._framework.stream() if stream is None else stream, self._job)
        layout = memory_of(rows._layout).address
        check(calls.experts_dispatch_send_on_stream(self._require(), layout, ctypes.byref(given),
                                                    where))
        rows._sources = (x, scales, topk_idx, topk_weights)
        return rows

    def dispatch_receive(self, rows: Received, *, in_place: bool = False, stream: Any = None,
                         capacity: int = 0) -> Received:
        """The second half of dispatch(): waits for rows and fills `rows`, which it returns.

        rows: what dispatch_send() returned; in_place, stream, capacity: as dispatch().
        """
        wanted = self._wanted(rows, in_place, stream is None, capacity)
        where = stream_of(rows._framework.stream() if stream is None else stream, self._job)
        layout = memory_of(rows._layout).address
        check(calls.experts_dispatch_receive_on_stream(self._require(), ctypes.byref(wanted),
                                                       layout, where))
        return self._received(rows, in_place, stream is None, where)

    def _given(self, x: Any, topk_idx: Any, topk_weights: Any, scales: Any) -> Tuple[Received, Any]:
        """Returns rows that have a layout, and the C library's description of the tokens."""
        known = topk_idx if isinstance(topk_idx, Received) else None
        memory = memory_of(x)
        tokens = memory.shape[0] if memory.shape else 0
        memory = self._memory("x", x, (tokens, self.hidden), self._dtype)
        framework = _Framework(x, memory)
        given = b.weft_experts_tokens()
        given.size, given.tokens, given.x = ctypes.sizeof(given), tokens, memory.address
        if self.scales:
            if scales is None:
                raise InvalidArgument(f"scales is missing: the object has {self.scales} of a token")
            given.scales = self._memory("scales", scales, (tokens, self.scales),
                                        dtype_of("float32")).address
        elif scales is not None:
            raise InvalidArgument("scales is given, and the object has none: job.experts(scales=N)")
        rows = Received()
        if known is not None:
            if topk_weights is not None:
                raise InvalidArgument("topk_weights is not sent with a known layout: leave it out")
            given.known = 1
            rows._known = known
            rows._layout, rows.topk_idx, rows.topk_weights = (known._layout, known.topk_idx,
                                                              known.topk_weights)
        else:
            given.topk_idx = self._memory("topk_idx", topk_idx, (tokens, self.top),
                                          dtype_of("int64")).address
            if topk_weights is not None:
                given.topk_weights = self._memory("topk_weights", topk_weights, (tokens, self.top),
                                                  dtype_of("float32")).address
            rows._layout = framework.empty((self._layout_words,), dtype_of("int32"))
        rows._tokens, rows._framework = tokens, framework
        return rows, given

    def _wanted(self, rows: Received, in_place: bool, wait: bool, capacity: int) -> Any:
        """Makes the arrays of `rows`, and returns the C library's description of them."""
        framework, known = rows._framework, rows._known
        wanted = b.weft_experts_rows()
        wanted.size = ctypes.sizeof(wanted)
        int32, float32 = dtype_of("int32"), dtype_of("float32")
        most = capacity or self.rows
        if known is not None:
            rows.n, most = known.n, known._capacity
        rows._capacity = most
        rows.n_rows = framework.empty((1,), int32)
        rows.n_tokens = framework.empty((self.own,), int32)
        wanted.n_rows = memory_of(rows.n_rows).address
        wanted.n_tokens = memory_of(rows.n_tokens).address if self.own else None
        if known is None:
            rows.topk_idx = framework.empty((most, self.top), dtype_of("int64"))
            rows.topk_weights = framework.empty((most, self.top), float32)
            wanted.topk_idx = memory_of(rows.topk_idx).address
            wanted.topk_weights = memory_of(rows.topk_weights).address
        # Arrays are made now, unless the number of rows becomes known by waiting.
        if not in_place and (not wait or rows.n is not None):
            rows.x = framework.empty((most, self.hidden), self._dtype)
            wanted.x = memory_of(rows.x).address or None
            if self.scales:
                rows.scales = framework.empty((most, self.scales), float32)
                wanted.scales = memory_of(rows.scales).address or None
        return wanted

    def _received(self, rows: Received, in_place: bool, wait: bool, stream: int) -> Received:
        """Completes `rows` after the call that receives them."""
        if wait:
            rows._framework.wait()
            self.check()
            rows.n = rows._capacity = int(rows.n_rows[0])
            if rows._known is None:
                rows.topk_idx = rows.topk_idx[:rows.n]
                rows.topk_weights = rows.topk_weights[:rows.n]
        if wait or self._on_gpu:
            rows._sources = None  # memory of a GPU is freed in stream order
        if rows.x is None:
            self._take(rows, in_place, stream)
        return rows

    def _take(self, rows: Received, in_place: bool, stream: int) -> None:
        """Sets x and scales of rows whose number is known, or that stay in place."""
        x, scales = ctypes.c_void_p(), ctypes.c_void_p()
        check(calls.experts_received(self._require(), ctypes.byref(x), ctypes.byref(scales)))
        n = rows._capacity
        float32 = dtype_of("float32")
        parts = [("x", x.value, (n, self.hidden), self._dtype)]
        if self.scales:
            parts.append(("scales", scales.value, (n, self.scales), float32))
        for name, address, shape, dtype in parts:
            if in_place:
                setattr(rows, name, self._view(address, shape, dtype))
                continue
            made = rows._framework.empty(shape, dtype)
            memory = memory_of(made)
            setattr(rows, name, made)
            if memory.nbytes and self._on_gpu:
                check(calls.get_on_stream(self._job._handle_ctx, memory.address, address,
                                          memory.nbytes, self._job.rank, stream))
            elif memory.nbytes:
                ctypes.memmove(memory.address, address or 0, memory.nbytes)

    def combine(self, results: Any, rows: Received, *, weights: Any = None, out: Any = None,
                stream: Any = None) -> Any:
        """Returns the results of the experts to the tokens' PEs, and adds them: [tokens, hidden].

        results: one row for each of rows.x, [rows, hidden], with result_dtype; weights: [rows, top]
        float32, returned too: then the result is (sums, weights), with weights of [tokens, top].
        out: array for the sums. A token that was sent nowhere gets 0.
        """
        sent = self._results(results, rows, weights)
        out, sums, stored = self._sums(rows, out, weights is not None)
        where = stream_of(rows._framework.stream() if stream is None else stream, self._job)
        check(calls.experts_combine_on_stream(self._require(), *stored, *sent,
                                              memory_of(rows._layout).address, where))
        rows._sources = (results, weights)
        return self._combined(rows, out, sums, stream is None)

    def combine_send(self, results: Any, rows: Received, *, weights: Any = None,
                     stream: Any = None) -> None:
        """The first half of combine(), which starts the transfer and waits for nothing. Parameters
        as combine(). Until combine_receive() sources do not change, and the object starts no other
        operation."""
        sent = self._results(results, rows, weights)
        where = stream_of(rows._framework.stream() if stream is None else stream, self._job)
        check(calls.experts_combine_send_on_stream(self._require(), *sent,
                                                   memory_of(rows._layout).address, where))
        rows._sources = (results, weights)

    def combine_receive(self, rows: Received, *, out: Any = None, stream: Any = None) -> Any:
        """The second half of combine(). rows: those of combine_send(); out, stream, and the result:
        as combine()."""
        weighted = rows._sources is not None and rows._sources[1] is not None
        out, sums, stored = self._sums(rows, out, weighted)
        where = stream_of(rows._framework.stream() if stream is None else stream, self._job)
        check(calls.experts_combine_receive_on_stream(self._require(), *stored,
                                                      memory_of(rows._layout).address, where))
        return self._combined(rows, out, sums, stream is None)

    def _results(self, results: Any, rows: Received,
                 weights: Any) -> Tuple[Optional[int], Optional[int]]:
        """Returns the addresses of results and weights that are returned. An empty array has no
        address: that of the layout stands for it."""
        n, layout = rows._capacity, memory_of(rows._layout).address
        memory = self._memory("results", results, (n, self.hidden), self._result_dtype)
        back = None
        if weights is not None:
            back = self._memory("weights", weights, (n, self.top),
                                dtype_of("float32")).address or layout
        return memory.address or layout, back

    def _sums(self, rows: Received, out: Any,
              weighted: bool) -> Tuple[Any, Any, Tuple[Optional[int], Optional[int]]]:
        """Returns the arrays of sums and of the weights' sums, which are made, and their
        addresses, as _results() does."""
        framework, tokens, sums, to_sums = rows._framework, rows._tokens, None, None
        layout = memory_of(rows._layout).address
        if weighted:
            sums = framework.empty((tokens, self.top), dtype_of("float32"))
            to_sums = memory_of(sums).address or layout
        if out is None:
            out = framework.empty((tokens, self.hidden), self._result_dtype)
        to = self._memory("out", out, (tokens, self.hidden), self._result_dtype)
        return out, sums, (to.address or layout, to_sums)

    def _combined(self, rows: Received, out: Any, sums: Any, wait: bool) -> Any:
        """Returns the sums after the call that stores them."""
        if wait:
            rows._framework.wait()
        if wait or self._on_gpu:
            rows._sources = None
        return out if sums is None else (out, sums)

    def check(self) -> None:
        """Raises OutOfRange for the first error that kernels found: an expert that does not exist,
        more rows than the object has room for. For calls with a stream, after it was waited for."""
        check(calls.experts_check(self._require()))

    def destroy(self) -> None:
        """Frees the object's memory. Collective over the job; streams are idle."""
        handle, self._handle = self._require(), None
        check(calls.experts_destroy(handle))

    def __enter__(self) -> "Experts":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.destroy()


def make_experts(team: "Collectives", tokens: int, hidden: int, experts: int, top: int,
                 dtype: DTypeLike, result_dtype: Optional[DTypeLike], rows: int, scales: int,
                 sms: int) -> Experts:
    """Makes an object for dispatch and combine; see Team.experts()."""
    element = dtype_of(dtype)
    result = element if result_dtype is None else dtype_of(result_dtype)
    attr = b.weft_experts_attr()
    attr.size = ctypes.sizeof(attr)
    for name, value in (("tokens", tokens), ("hidden", hidden), ("experts", experts), ("top", top),
                        ("rows", rows), ("scales", scales), ("sms", sms)):
        if not 0 <= int(value) < 2**32:
            raise InvalidArgument(f"{name} is {value}: a number from 0 to {2**32 - 1} is needed")
        setattr(attr, name, int(value))
    attr.type, attr.result_type = element.weft, result.weft
    return Experts(team, attr, element, result)
