# SPDX-License-Identifier: Apache-2.0
"""DeepEP's second interface: ElasticBuffer, and EPBuffer."""

import ctypes
from importlib import import_module
from typing import Any, List, Optional, Tuple

from .. import _bindings as b
from .._library import calls, check
from ..errors import InvalidArgument, Unsupported
from ._buffer import Buffer
from ._event import EventHandle, EventOverlap
from ._exchange import Exchange, Handle
from ._options import aligned, local_size, refuse

torch: Any = import_module("torch")


class EPHandle:
    """What a dispatch returns for combine() and for further dispatches.

    do_expand, num_experts, expert_alignment, num_max_tokens_per_rank, topk_idx: of the dispatch;
    num_recv_tokens_per_expert_list: tokens of each own expert, rounded up to the alignment; empty
    where no host waited; num_unaligned_recv_tokens_per_expert: the same as a tensor, not rounded;
    recv_expert_ids: with do_expand the own expert of each row, int32, -1 in padding.
    """

    def __init__(self, handle: Handle, num_experts: int, expert_alignment: int,
                 num_max_tokens_per_rank: int, topk_idx: Any) -> None:
        self._handle, expanded = handle, handle.expanded
        self.do_expand = expanded is not None
        self.num_experts, self.expert_alignment = num_experts, expert_alignment
        self.num_max_tokens_per_rank, self.topk_idx = num_max_tokens_per_rank, topk_idx
        self.recv_expert_ids = None if expanded is None else expanded.experts
        counts = handle.rows.n_tokens if expanded is None else expanded.counts
        self.num_unaligned_recv_tokens_per_expert = counts
        self.num_recv_tokens_per_expert_list: List[int] = []
        if not handle.worst:
            self.num_recv_tokens_per_expert_list = [
                aligned(n, expert_alignment) for n in counts.tolist()]

    @property
    def psum_num_recv_tokens_per_expert(self) -> Any:
        """[own experts] int32: with do_expand the row after the last one of each, else the sum of
        the rounded numbers up to each."""
        if self._handle.expanded is not None:
            return self._handle.expanded.ends
        step = self.expert_alignment
        rounded = (self.num_unaligned_recv_tokens_per_expert + (step - 1)) // step * step
        return rounded.cumsum(0, dtype=torch.int32)


def _handle_of(handle: Any) -> Any:
    return handle._handle if isinstance(handle, EPHandle) else handle


class ElasticBuffer:
    """Dispatch and combine with the names of DeepEP's version 2. Owners, tensors, streams and
    errors are those of Buffer; sums are always deterministic."""

    def __init__(self, group: Any, num_bytes: Optional[int] = None, num_cpu_bytes: int = 0,
                 num_max_tokens_per_rank: int = 0, hidden: int = 0, num_topk: int = 0,
                 use_fp8_dispatch: bool = False, deterministic: bool = False,
                 allow_hybrid_mode: bool = True, allow_multiple_reduction: bool = True,
                 prefer_overlap_with_compute: bool = True, sl_idx: Optional[int] = 3,
                 num_allocated_qps: int = 0, num_cpu_timeout_secs: int = 300,
                 num_gpu_timeout_secs: int = 100, explicitly_destroy: bool = False) -> None:
        """Collective over the group.

        group: of torch.distributed, of any backend. num_bytes: the host heap reserves at least as
        many. num_max_tokens_per_rank: tokens of a rank in one dispatch, for calls that do not say.
        explicitly_destroy: whether the program calls destroy(). num_cpu_bytes: above 0 is refused.
        num_cpu_timeout_secs, num_gpu_timeout_secs: no effect, WEFT_WAIT_LIMIT holds. hidden,
        num_topk, use_fp8_dispatch, deterministic, allow_hybrid_mode, allow_multiple_reduction,
        prefer_overlap_with_compute, sl_idx, num_allocated_qps: no effect.
        """
        refuse(num_cpu_bytes=num_cpu_bytes)
        self.group, self.num_max_tokens_per_rank = group, num_max_tokens_per_rank
        self.num_allocated_qps, self.explicitly_destroy = num_allocated_qps, explicitly_destroy
        self._exchange = Exchange(group, None, num_bytes or 0)
        self.rank_idx, self.num_ranks = self._exchange.rank, self._exchange.size

    def destroy(self) -> None:
        """As Buffer.destroy()."""
        self._exchange.destroy()

    def check(self) -> None:
        """As Buffer.check()."""
        self._exchange.require().check()

    @staticmethod
    def get_buffer_size_hint(group: Any, num_max_tokens_per_rank: int, hidden: int,
                             num_topk: int = 0, use_fp8_dispatch: bool = False,
                             **options: Any) -> int:
        """Returns the bytes that dispatch and combine of num_max_tokens_per_rank tokens of hidden
        elements take at a rank of the group. num_topk: experts of a token (0: 8);
        use_fp8_dispatch: tokens go in FP8; options: no effect. torchrun says how many ranks are on
        a node; else all are on one."""
        attr, size = b.weft_experts_attr(), b.weft_experts_size()
        attr.size, attr.tokens, attr.hidden = ctypes.sizeof(attr), num_max_tokens_per_rank, hidden
        attr.top = num_topk or 8
        attr.experts = max(256, group.size())
        attr.scales = aligned(hidden // 128, 4) if use_fp8_dispatch else 0
        attr.type = b.WEFT_FP8_E4M3 if use_fp8_dispatch else b.WEFT_BFLOAT16
        attr.result_type = b.WEFT_BFLOAT16
        attr.node_members = local_size()
        check(calls.experts_sizes(group.size(), ctypes.byref(attr), ctypes.byref(size)))
        return int(size.symmetric)

    def barrier(self, use_comm_stream: bool = True, with_cpu_sync: bool = False,
                sequential: bool = False) -> None:
        """Waits until every rank has come here: the communication stream, or the host with
        with_cpu_sync=True and on CPU tensors. use_comm_stream: False: torch's current stream waits,
        too; sequential: no effect."""
        exchange = self._exchange.require()
        comm = exchange.comm
        if comm is not None:
            comm.wait_stream(torch.cuda.current_stream())
            exchange.members.job.barrier(stream=comm)
            if not use_comm_stream:
                torch.cuda.current_stream().wait_stream(comm)
        if comm is None or with_cpu_sync:
            exchange.members.settle()
            exchange.members.agree()

    @staticmethod
    def capture() -> EventOverlap:
        """As Buffer.capture()."""
        return EventOverlap(EventHandle())

    def get_comm_stream(self) -> Any:
        """As Buffer.get_comm_stream()."""
        return self._exchange.require().comm

    def get_physical_domain_size(self) -> Tuple[int, int]:
        """Returns the number of nodes, and of this node's ranks."""
        node = self._exchange.require().members.job.node.size
        return self.num_ranks // node, node

    def get_logical_domain_size(self) -> Tuple[int, int]:
        """Returns 1 and the number of ranks: tokens go straight to each."""
        return 1, self.num_ranks

    def get_theoretical_num_sms(self, num_experts: int, num_topk: int, **options: Any) -> int:
        """Returns Buffer.num_sms, which has no effect. num_experts, num_topk, options: no
        effect."""
        return Buffer.num_sms

    def get_theoretical_num_qps(self, num_sms: int) -> int:
        """Returns the num_allocated_qps of the constructor. num_sms: no effect."""
        return self.num_allocated_qps

    def dispatch(self, x: Any, topk_idx: Any = None, topk_weights: Any = None,
                 cumulative_local_expert_recv_stats: Any = None, num_experts: Optional[int] = None,
                 num_max_tokens_per_rank: Optional[int] = None,
                 expert_alignment: Optional[int] = None, num_sms: int = 0, num_qps: int = 0,
                 previous_event: Any = None, previous_event_before_epilogue: Any = None,
                 async_with_compute_stream: bool = False, allocate_on_comm_stream: bool = False,
                 handle: Any = None, do_handle_copy: bool = True,
                 do_cpu_sync: Optional[bool] = None, do_expand: bool = False,
                 do_zero_padding: bool = False, use_tma_aligned_col_major_sf: bool = False
                 ) -> Tuple[Any, Any, Any, EPHandle, EventOverlap]:
        """Sends each token to the ranks that own its experts, and receives tokens: in the order of
        ranks and of their tokens.

        x, topk_idx, topk_weights: as Buffer.dispatch(). cumulative_local_expert_recv_stats: [own
        experts] int32, to which the tokens of each are added. num_experts: of all ranks.
        num_max_tokens_per_rank: tokens of a rank at most, the same at every rank; 0 and None: that
        of the constructor; without one the ranks agree, and the host waits for them.
        expert_alignment: the list of counts is rounded up to it. handle: of an earlier dispatch
        whose tokens have the same experts: only x is sent. do_handle_copy: the handle has a copy of
        topk_idx. do_cpu_sync: False: no host waits, and the result has num_max_tokens_per_rank *
        ranks rows, with topk_idx -1 in those not in use; None: True. do_expand: the result has a
        row for each own expert of a token: those of an expert follow each other from a multiple of
        expert_alignment on, in the order of ranks and of their tokens, and recv_topk_weights has
        one dimension. Without do_cpu_sync it has as many rows as could come where a token names an
        expert once. With a handle do_expand is as in its dispatch. do_zero_padding: with do_expand,
        rows that hold no token are 0, else they have any contents. async_with_compute_stream: as
        async_finish of Buffer; previous_event: is waited for in place of the current stream.
        num_sms, num_qps, allocate_on_comm_stream: no effect. previous_event_before_epilogue,
        use_tma_aligned_col_major_sf: refused.

        Returns recv_x, recv_topk_idx (None with do_expand), recv_topk_weights (None where none were
        sent), handle, event.
        """
        refuse(previous_event_before_epilogue=previous_event_before_epilogue,
               use_tma_aligned_col_major_sf=use_tma_aligned_col_major_sf)
        if do_zero_padding and not do_expand:
            raise InvalidArgument("do_zero_padding is given without do_expand: there is no padding")
        exchange, stats = self._exchange.require(), cumulative_local_expert_recv_stats
        most = num_max_tokens_per_rank or self.num_max_tokens_per_rank
        if handle is not None:
            if topk_idx is not None or topk_weights is not None or do_cpu_sync:
                raise InvalidArgument("handle is given with topk_idx, topk_weights or do_cpu_sync: "
                                      "the experts are those of the first dispatch; leave them out")
            inner = _handle_of(handle)
            if do_expand != (getattr(inner, "expanded", None) is not None):
                raise InvalidArgument(f"do_expand is {do_expand}, and in the dispatch of handle it "
                                      f"was {not do_expand}: give the same")
            received, event = exchange.dispatch_again(
                x, inner, previous_event, async_with_compute_stream, do_zero_padding)
            weights, made = None, handle
        else:
            if not num_experts:
                raise InvalidArgument("num_experts is missing: give the experts of all ranks")
            worst = most * exchange.size if do_cpu_sync is False else 0
            if do_cpu_sync is False and not most:
                raise InvalidArgument("do_cpu_sync=False needs num_max_tokens_per_rank: give it "
                                      "here or to the constructor")
            received, inner, event = exchange.dispatch(
                x, topk_idx, topk_weights, num_experts, worst, previous_event,
                async_with_compute_stream, most, (expert_alignment or 1) if do_expand else 0,
                do_zero_padding)
            made = EPHandle(inner, num_experts, expert_alignment or 1, most,
                            topk_idx.clone() if do_handle_copy else topk_idx)
            if topk_weights is None:
                weights = None
            elif inner.expanded is None:
                weights = inner.rows.topk_weights
            else:
                weights = inner.expanded.weights
        if stats is not None:
            event.current_stream_wait()
            stats += made.num_unaligned_recv_tokens_per_expert
        return received, None if do_expand else inner.rows.topk_idx, weights, made, event

    def combine(self, x: Any, handle: Any, topk_weights: Any = None, bias: Any = None,
                num_sms: int = 0, num_qps: int = 0, previous_event: Any = None,
                previous_event_before_epilogue: Any = None,
                async_with_compute_stream: bool = False, allocate_on_comm_stream: bool = False
                ) -> Tuple[Any, Any, EventOverlap]:
        """As Buffer.combine(), with async_with_compute_stream for its async_finish. After a
        dispatch with do_expand x has its rows, and topk_weights one dimension; the results of a
        token at this rank are added in float32, in the order of its experts, and rounded once
        before they go. num_sms, num_qps, allocate_on_comm_stream: no effect;
        previous_event_before_epilogue: refused."""
        refuse(previous_event_before_epilogue=previous_event_before_epilogue)
        return self._exchange.require().combine(x, _handle_of(handle), topk_weights, bias,
                                                previous_event, async_with_compute_stream)


class EPBuffer(ElasticBuffer):
    """Dispatch and combine with the names of DeepEP's version 2.5; see ElasticBuffer."""

    def __init__(self, group: Any, num_bytes: Optional[int] = None,
                 num_max_tokens_per_rank: int = 0, hidden: int = 0, num_topk: int = 0,
                 use_fp8_dispatch: bool = False, deterministic: bool = False,
                 allow_hybrid_mode: bool = True, allow_multiple_reduction: bool = True,
                 prefer_overlap_with_compute: bool = True, sl_idx: Optional[int] = None,
                 num_allocated_qps: int = 0, num_cpu_timeout_secs: int = 300,
                 num_gpu_timeout_secs: int = 100, explicitly_destroy: bool = False,
                 lb_allocation_plan_or_num_bytes: Any = 0) -> None:
        """As ElasticBuffer, without num_cpu_bytes. lb_allocation_plan_or_num_bytes: refused.
        Parameters: group, num_bytes, num_max_tokens_per_rank, hidden, num_topk, use_fp8_dispatch,
        deterministic, allow_hybrid_mode, allow_multiple_reduction, prefer_overlap_with_compute,
        sl_idx, num_allocated_qps, num_cpu_timeout_secs, num_gpu_timeout_secs,
        explicitly_destroy."""
        refuse(lb_allocation_plan_or_num_bytes=lb_allocation_plan_or_num_bytes)
        super().__init__(group, num_bytes, 0, num_max_tokens_per_rank,
                         num_allocated_qps=num_allocated_qps,
                         explicitly_destroy=explicitly_destroy)

    def dispatch(self, x: Any, topk_idx: Any = None,  # type: ignore[override]
                 topk_weights: Any = None, cumulative_local_expert_recv_stats: Any = None,
                 num_experts: Optional[int] = None, num_max_tokens_per_rank: Optional[int] = None,
                 expert_alignment: Optional[int] = None, num_sms: int = 0, num_qps: int = 0,
                 previous_event: Any = None, async_with_compute_stream: bool = False,
                 allocate_on_comm_stream: bool = False, handle: Any = None,
                 do_handle_copy: bool = False, do_cpu_sync: Optional[bool] = None,
                 do_expand: bool = False, do_zero_padding: bool = False,
                 use_tma_aligned_col_major_sf: bool = False, emit_expert_ids: bool = False,
                 defer_epilogue: bool = False) -> Tuple[Any, Any, Any, EPHandle, EventOverlap]:
        """As ElasticBuffer.dispatch(). emit_expert_ids: needs do_expand and no handle; the handle
        has recv_expert_ids in any case. do_handle_copy: True is refused; defer_epilogue:
        refused."""
        refuse(do_handle_copy=do_handle_copy, defer_epilogue=defer_epilogue)
        if emit_expert_ids and (not do_expand or handle is not None):
            raise InvalidArgument("emit_expert_ids is given without do_expand, or with handle: it "
                                  "is for the first dispatch with do_expand")
        return super().dispatch(
            x, topk_idx, topk_weights, cumulative_local_expert_recv_stats, num_experts,
            num_max_tokens_per_rank, expert_alignment, num_sms, num_qps, previous_event, None,
            async_with_compute_stream, allocate_on_comm_stream, handle, False, do_cpu_sync,
            do_expand, do_zero_padding, use_tma_aligned_col_major_sf)

    def combine(self, x: Any, handle: Any, topk_weights: Any = None,  # type: ignore[override]
                bias: Any = None, num_sms: int = 0, num_qps: int = 0, previous_event: Any = None,
                async_with_compute_stream: bool = False, allocate_on_comm_stream: bool = False,
                defer_epilogue: bool = False) -> Tuple[Any, Any, EventOverlap]:
        """As ElasticBuffer.combine(). defer_epilogue: refused."""
        refuse(defer_epilogue=defer_epilogue)
        return super().combine(x, handle, topk_weights, bias, num_sms, num_qps, previous_event,
                               None, async_with_compute_stream, allocate_on_comm_stream)


def _refuse_method(cls: Any, name: str, words: str) -> None:
    def method(self: Any, *arguments: Any, **named: Any) -> None:
        raise Unsupported(f"{cls.__name__}.{name}() is not supported by weft.experts: {words}")

    method.__name__, method.__doc__ = name, f"Raises Unsupported: {words}."
    setattr(cls, name, method)


for _name in ("engram_write", "engram_fetch"):
    _refuse_method(ElasticBuffer, _name, "use job.get() of a symmetric array")
for _name in ("pp_send", "pp_recv", "pp_set_config"):
    _refuse_method(ElasticBuffer, _name, "use send and recv of the group \"weft\" (weft.torch)")
for _name in ("all_gather", "agrs_get_inplace_tensor", "create_agrs_session",
              "destroy_agrs_session", "agrs_set_config"):
    _refuse_method(ElasticBuffer, _name, "use all_gather of the group \"weft\" (weft.torch)")
for _name in ("lb_prefetch_weights", "lb_reduce_grads"):
    _refuse_method(EPBuffer, _name, "use put and get of symmetric arrays")
