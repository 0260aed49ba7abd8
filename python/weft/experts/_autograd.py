# SPDX-License-Identifier: Apache-2.0
"""Dispatch and combine of which torch computes gradients."""

from importlib import import_module
from typing import Any, Tuple

from ._buffer import Buffer
from ._exchange import Exchange, Handle

torch: Any = import_module("torch")
_Function: Any = torch.autograd.Function


class _Dispatch(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any, weights: Any, idx: Any, exchange: Exchange, experts: int,
                alignment: int) -> Any:
        received, handle, _ = exchange.dispatch(x, idx, weights, experts, 0, None, False,
                                                alignment=alignment, zero=True)
        ctx.exchange, ctx.handle = exchange, handle
        expanded, rows = handle.expanded, handle.rows
        if expanded is not None:
            ctx.mark_non_differentiable(expanded.experts)
            return received, expanded.experts, expanded.weights, handle
        ctx.mark_non_differentiable(rows.topk_idx)
        return received, rows.topk_idx, rows.topk_weights, handle

    @staticmethod
    def backward(ctx: Any, of_rows: Any, of_idx: Any, of_weights: Any, of_handle: Any) -> Any:
        # The weight of another rank's expert is 0 here, and no input of this rank.
        if ctx.handle.expanded is None:
            of_weights = of_weights.masked_fill(ctx.handle.rows.topk_idx < 0, 0)
        of_x, back, _ = ctx.exchange.combine(of_rows, ctx.handle, of_weights, None, None, False)
        return of_x, back, None, None, None, None


class _Combine(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any, handle: Handle, exchange: Exchange) -> Any:
        ctx.exchange, ctx.handle = exchange, handle
        return exchange.combine(x, handle, None, None, None, False)[0]

    @staticmethod
    def backward(ctx: Any, of_sums: Any) -> Any:
        of_rows, _ = ctx.exchange.dispatch_again(of_sums, ctx.handle, None, False, True)
        return of_rows, None, None


def moe_dispatch(buffer: Buffer, x: Any, topk_idx: Any, topk_weights: Any, num_experts: int,
                 expert_alignment: int = 0) -> Tuple[Any, Any, Any, Any]:
    """Dispatches tokens, differentiable in x and topk_weights.

    buffer: a Buffer, ElasticBuffer or EPBuffer; x: [tokens, hidden] of bfloat16, float16 or
    float32; topk_idx: [tokens, top] int64; topk_weights: [tokens, top] float32; num_experts: of all
    ranks. expert_alignment: above 0: rows are in the expanded layout, as with do_expand of
    ElasticBuffer, each expert's from a multiple of it on, and padding is 0. Every rank's backward
    pass reaches the call, also that of a rank that received nothing.

    Returns recv_x, recv_topk_idx, recv_topk_weights, handle, as Buffer.dispatch(); in the expanded
    layout the second is the own expert of each row, int32, -1 in padding, and the third has one
    dimension.
    """
    exchange = buffer._exchange.require()
    made = _Dispatch.apply(x, topk_weights, topk_idx, exchange, num_experts, expert_alignment)
    return made  # type: ignore[no-any-return]


def moe_combine(buffer: Buffer, x: Any, handle: Any) -> Any:
    """Combines results, differentiable in x.

    buffer: that of the dispatch; x: a row for each that was received; handle: of moe_dispatch().
    Returns the sums, [tokens, hidden].
    """
    return _Combine.apply(x, handle, buffer._exchange.require())
