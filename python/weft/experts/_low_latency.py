# SPDX-License-Identifier: Apache-2.0
"""The low-latency calls: rows in blocks of experts, of a size that no host needs to know."""

from importlib import import_module
from typing import Any, Dict, List, Tuple

from .._experts import Experts, Received
from .._library import calls, check
from ..errors import InvalidArgument, InvalidType, OutOfRange
from . import _rows, _scales
from ._event import EventOverlap, Transfer
from ._exchange import Exchange, Objects
from ._options import aligned

torch: Any = import_module("torch")


class LowLatencyHandle:
    """The layout of a low_latency_dispatch(), for low_latency_combine()."""

    def __init__(self, experts: Experts, rows: Received, tokens: int, top: int, block: int) -> None:
        self.experts, self.rows = experts, rows
        self.tokens, self.top = tokens, top
        self.block = block  # rows of an expert
        self.places: Any = None  # [rows] in the blocks; the last: the row is not in use
        self.buffer: Any = None  # of get_next_low_latency_combine_buffer()

    def __repr__(self) -> str:
        return f"weft.experts.LowLatencyHandle({self.tokens} tokens, top {self.top})"


def check_numbers(experts: int, tokens: int, size: int) -> None:
    """Raises InvalidArgument for sizes that cannot be."""
    if tokens < 1 or experts < 1:
        raise InvalidArgument(f"num_max_dispatch_tokens_per_rank is {tokens} and num_experts "
                              f"{experts}: both are 1 or more")
    if experts % size:
        raise InvalidArgument(f"num_experts is {experts}, and the group has {size} ranks: the "
                              "low-latency calls need as many experts at each rank")


def sizes_of(tokens: int, hidden: int, size: int, experts: int, top: int) -> Tuple[Any, ...]:
    """Returns hidden, experts, top, tokens and rows of the objects: each choice of a token is sent
    as a token of its own."""
    rows = min(tokens * top, experts // size * tokens) * size
    return hidden, experts, 1, tokens * top, rows


class LowLatency:
    """Low-latency dispatch and combine. There are two objects, which dispatches use in turn: the
    next dispatch may begin before the previous one's tokens are combined."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._pairs: Dict[Tuple[Any, ...], List[Objects]] = {}
        self.mask: Any = None  # [ranks] int32, not 0: masked; None: no rank can be

    def _unmasked(self, idx: Any, own: int) -> Any:
        """Returns choices without the experts of masked ranks. own: experts of a rank."""
        if self.mask is None:
            return idx
        ranks = torch.div(idx, own, rounding_mode="floor").clamp(0, len(self.mask) - 1)
        masked = self.mask.index_select(0, ranks.reshape(-1)).view(idx.shape) != 0
        return idx.masked_fill(masked, -1)

    def _next(self, dtype: str, scales: int, *sizes: Any) -> Experts:
        """Returns the object of the next dispatch. The first call makes both."""
        if sizes not in self._pairs:
            self._pairs[sizes] = [self._exchange.add(*sizes, "bfloat16") for _ in range(2)]
            for objects in self._pairs[sizes]:
                objects.permanent = True
        pair = self._pairs[sizes]
        pair.reverse()
        return [objects.get(dtype, scales) for objects in pair][0]

    def dispatch(self, x: Any, topk_idx: Any, most: int, experts: int, stats: Any, use_fp8: bool,
                 round_scale: bool, use_ue8m0: bool, is_async: bool,
                 return_hook: bool) -> Tuple[Any, Any, Any, EventOverlap, Any]:
        exchange = self._exchange.require()
        check_numbers(experts, most, exchange.size)
        if x.dim() != 2 or x.dtype != torch.bfloat16:
            raise InvalidType(f"x is {x.dtype} of shape {tuple(x.shape)}: give bfloat16 of "
                              "[tokens, hidden]")
        exchange.members.check_device(x)
        tokens, hidden = x.shape
        if topk_idx.dim() != 2 or topk_idx.shape[0] != tokens or tokens > most:
            raise InvalidArgument(f"topk_idx has shape {tuple(topk_idx.shape)} for {tokens} tokens:"
                                  f" give [{tokens}, top], and at most {most} tokens "
                                  "(num_max_dispatch_tokens_per_rank)")
        if use_ue8m0 and (not use_fp8 or not round_scale or hidden % (4 * _scales.CHANNELS)):
            raise InvalidArgument(f"use_ue8m0 needs use_fp8, round_scale and hidden {hidden} to be "
                                  "a multiple of 512")
        if is_async and return_hook:
            raise InvalidArgument("async_finish and return_recv_hook are both given: choose one")
        if use_fp8:
            _scales.check_fp8(hidden)
        top, own, block = topk_idx.shape[1], experts // exchange.size, most * exchange.size
        scales = hidden // _scales.CHANNELS if use_fp8 else 0
        made = self._next("float8_e4m3fn" if use_fp8 else "bfloat16", aligned(scales, 4),
                          *sizes_of(most, hidden, exchange.size, experts, top))
        # Results: complete when the tokens have been received.
        kind = torch.float8_e4m3fn if use_fp8 else torch.bfloat16
        blocks = torch.empty(own * block + 1, hidden, dtype=kind, device=x.device)
        of_scales = torch.empty(own, scales // 4 if use_ue8m0 else scales, block, device=x.device,
                                dtype=torch.int32 if use_ue8m0 else torch.float32)
        counts = torch.empty(own, dtype=torch.int32, device=x.device)

        with Transfer(exchange.comm, None, is_async, wait=not return_hook) as turn:
            topk_idx = self._unmasked(topk_idx, own)
            values, factors = _scales.to_fp8(x, round_scale) if use_fp8 else (x, None)
            if factors is not None:
                factors = _repeat(torch.nn.functional.pad(factors, (0, -scales % 4)), top)
            start: Any = made.dispatch_send if return_hook else made.dispatch
            rows = start(_repeat(_bytes(values), top).view(values.dtype),
                         topk_idx.reshape(-1, 1).contiguous(), scales=factors, stream=turn.stream)
            turn.keep(x, topk_idx)
            handle = LowLatencyHandle(made, rows, tokens, top, block)
            if not return_hook:
                self._place(turn, handle, blocks, of_scales, counts, stats)
        if not return_hook:
            self._finish(handle)

        def receive() -> None:
            with Transfer(exchange.comm) as turn:
                made.dispatch_receive(rows, stream=turn.stream)
                self._place(turn, handle, blocks, of_scales, counts, stats)
            self._finish(handle)

        recv_x: Any = blocks[:-1].view(own, block, hidden)
        if use_fp8:
            recv_x = recv_x, of_scales.transpose(1, 2)
        return recv_x, counts, handle, turn.event(), receive if return_hook else None

    def _place(self, turn: Transfer, handle: LowLatencyHandle, blocks: Any, of_scales: Any,
               counts: Any, stats: Any) -> None:
        """Copies received rows into the blocks of their experts."""
        made, rows, block = handle.experts, handle.rows, handle.block
        if self._exchange.comm is None:
            check(calls.stream_synchronize(0))
        experts = rows.topk_idx[:, 0]
        used = torch.arange(len(experts), device=experts.device) < rows.n_rows
        mine = used & (experts == torch.arange(made.own, device=experts.device)[:, None])
        # Along rows: torch's sums along columns take many times as long.
        so_far = mine.cumsum(1, dtype=torch.int32)
        # The place of a row among those of its expert. Unused rows have any numbers.
        order = so_far.gather(0, experts.clamp(0, made.own - 1)[None])[0] - 1
        places = experts * block + order
        if self._exchange.comm is None and bool((order >= block).masked_fill(~used, False).any()):
            raise OutOfRange(f"more than {block} rows came for an expert: a token names an expert "
                             "once")
        handle.places = torch.where(used & (order < block), places,
                                    torch.full_like(places, made.own * block))
        _rows.scatter(blocks, handle.places, rows.x, rows.n_rows)
        if made.scales:
            flat = torch.empty(made.own * block + 1, made.scales, device=blocks.device)
            _rows.scatter(flat, handle.places, rows.scales, rows.n_rows)
            factors = flat[:-1].view(made.own, block, -1)
            if of_scales.dtype == torch.int32:
                factors = _scales.to_ue8m0(factors)
            of_scales.copy_(factors.transpose(1, 2)[:, :of_scales.shape[1]])
        counts.copy_(so_far[:, -1])
        if stats is not None:
            stats += counts
        turn.keep(blocks, of_scales, counts, stats)
        rows.x = rows.scales = rows.topk_weights = rows.topk_idx = None

    def _finish(self, handle: LowLatencyHandle) -> None:
        if self._exchange.comm is None:
            handle.rows._sources = None
            handle.experts.check()

    def combine(self, x: Any, topk_idx: Any, topk_weights: Any, handle: Any, is_async: bool,
                return_hook: bool, out: Any) -> Tuple[Any, EventOverlap, Any]:
        exchange = self._exchange.require()
        if not isinstance(handle, LowLatencyHandle):
            raise InvalidArgument(f"handle is a {type(handle).__name__}: pass what "
                                  "low_latency_dispatch() of this buffer returned")
        made, rows, hidden = handle.experts, handle.rows, handle.experts.hidden
        if handle.places is None:
            raise InvalidArgument("the tokens of handle have not been received: call the hook of "
                                  "its low_latency_dispatch() first")
        shape = made.own, handle.block, hidden
        if tuple(x.shape) != shape or x.dtype != torch.bfloat16:
            raise InvalidArgument(f"x is {x.dtype} of shape {tuple(x.shape)}: bfloat16 of {shape} "
                                  "is needed, a result for each received row")
        choices = handle.tokens, handle.top
        if tuple(topk_idx.shape) != choices or tuple(topk_weights.shape) != choices:
            raise InvalidArgument(f"topk_idx has shape {tuple(topk_idx.shape)} and topk_weights "
                                  f"{tuple(topk_weights.shape)}: {choices} is needed, as in the "
                                  "dispatch")
        if is_async and return_hook:
            raise InvalidArgument("async_finish and return_recv_hook are both given: choose one")
        if out is None:
            out = torch.empty(handle.tokens, hidden, dtype=torch.bfloat16, device=x.device)
        elif tuple(out.shape) != (handle.tokens, hidden) or out.dtype != torch.bfloat16:
            raise InvalidArgument(f"out is {out.dtype} of shape {tuple(out.shape)}: bfloat16 of "
                                  f"{(handle.tokens, hidden)} is needed")

        def weigh(turn: Transfer, results: Any) -> None:
            if exchange.comm is None:
                check(calls.stream_synchronize(0))
            _rows.weigh(out, results, topk_weights.float(), self._unmasked(topk_idx, made.own))
            turn.keep(topk_weights, topk_idx, out)

        with Transfer(exchange.comm, None, is_async, wait=not return_hook) as turn:
            sent = _rows.gather(x.reshape(-1, hidden), handle.places, rows.n_rows)
            if return_hook:
                made.combine_send(sent, rows, stream=turn.stream)
            else:
                weigh(turn, made.combine(sent, rows, stream=turn.stream))
            turn.keep(x)

        def hook() -> None:
            with Transfer(exchange.comm) as turn:
                weigh(turn, made.combine_receive(rows, stream=turn.stream))

        return out, turn.event(), hook if return_hook else None

    def combine_buffer(self, handle: LowLatencyHandle) -> Any:
        made = handle.experts
        if handle.buffer is None:
            handle.buffer = torch.empty(made.own, handle.block, made.hidden, dtype=torch.bfloat16,
                                        device=handle.rows._layout.device)
        return handle.buffer


def _bytes(x: Any) -> Any:
    """FP8 as bytes: torch has few operations on it."""
    return x.view(torch.uint8) if x.element_size() == 1 else x


def _repeat(x: Any, times: int) -> Any:
    """Returns each row that many times."""
    return x[:, None].expand(-1, times, -1).reshape(-1, x.shape[1]).contiguous()
