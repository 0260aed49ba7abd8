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
    def forward(ctx: Any, x: Any, weights: Any, idx: Any, exchange: Exchange, experts: int) -> Any:
        received, handle, _ = exchange.dispatch(x, idx, weights, experts, 0, None, False)
        ctx.exchange, ctx.handle = exchange, handle
        ctx.mark_non_differentiable(handle.rows.topk_idx)
        return received, handle.rows.topk_idx, handle.rows.topk_weights, handle

    @staticmethod
    def backward(ctx: Any, of_rows: Any, of_idx: Any, of_weights: Any, of_handle: Any) -> Any:
        # The weight of another rank's expert is 0 here, and no input of this rank.
        of_weights = of_weights.masked_fill(ctx.handle.rows.topk_idx < 0, 0)
        of_x, back, _ = ctx.exchange.combine(of_rows, ctx.handle, of_weights, None, None, False)
        return of_x, back, None, None, None


class _Combine(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any, handle: Handle, exchange: Exchange) -> Any:
        ctx.exchange, ctx.handle = exchange, handle
        return exchange.combine(x, handle, None, None, None, False)[0]

    @staticmethod
    def backward(ctx: Any, of_sums: Any) -> Any:
        return ctx.exchange.dispatch_again(of_sums, ctx.handle, None, False)[0], None, None


def moe_dispatch(buffer: Buffer, x: Any, topk_idx: Any, topk_weights: Any,
                 num_experts: int) -> Tuple[Any, Any, Any, Any]:
    """Dispatches tokens, differentiable in x and topk_weights.

    buffer: a Buffer, ElasticBuffer or EPBuffer; x: [tokens, hidden] of bfloat16, float16 or
    float32; topk_idx: [tokens, top] int64; topk_weights: [tokens, top] float32; num_experts: of all
    ranks. Every rank's backward pass reaches the call, also that of a rank that received nothing.

    Returns recv_x, recv_topk_idx, recv_topk_weights, handle, as Buffer.dispatch().
    """
    exchange = buffer._exchange.require()
    made = _Dispatch.apply(x, topk_weights, topk_idx, exchange, num_experts)
    return made  # type: ignore[no-any-return]


def moe_combine(buffer: Buffer, x: Any, handle: Any) -> Any:
    """Combines results, differentiable in x.

    buffer: that of the dispatch; x: a row for each that was received; handle: of moe_dispatch().
    Returns the sums, [tokens, hidden].
    """
    return _Combine.apply(x, handle, buffer._exchange.require())
