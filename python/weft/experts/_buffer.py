# SPDX-License-Identifier: Apache-2.0
"""DeepEP's first interface: Buffer."""

import ctypes
from importlib import import_module
from typing import Any, List, Optional, Tuple

from .. import _bindings as b
from .._library import calls, check
from ..errors import InvalidArgument, Unsupported
from ._event import EventHandle, EventOverlap
from ._exchange import Exchange, Objects
from ._low_latency import LowLatency, check_numbers, sizes_of
from ._options import aligned, refuse

torch: Any = import_module("torch")

#: Element type of topk_idx.
topk_idx_t = torch.int64

_NODE_RANKS = 8  # of what DeepEP calls an RDMA rank


class Config:
    """Numbers by which DeepEP divides transfers: num_sms, num_max_nvl_chunked_send_tokens,
    num_max_nvl_chunked_recv_tokens, num_max_rdma_chunked_send_tokens,
    num_max_rdma_chunked_recv_tokens. They are kept and have no effect: Weft's kernels choose their
    own."""

    def __init__(self, num_sms: int = 20, num_max_nvl_chunked_send_tokens: int = 6,
                 num_max_nvl_chunked_recv_tokens: int = 256,
                 num_max_rdma_chunked_send_tokens: int = 6,
                 num_max_rdma_chunked_recv_tokens: int = 256) -> None:
        self.num_sms = num_sms
        self.num_max_nvl_chunked_send_tokens = num_max_nvl_chunked_send_tokens
        self.num_max_nvl_chunked_recv_tokens = num_max_nvl_chunked_recv_tokens
        self.num_max_rdma_chunked_send_tokens = num_max_rdma_chunked_send_tokens
        self.num_max_rdma_chunked_recv_tokens = num_max_rdma_chunked_recv_tokens

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """Returns 0: memory is taken by the first dispatch, which says what is needed.
        hidden_bytes: of a token; num_ranks: of the group."""
        return 0

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """As get_nvl_buffer_size_hint()."""
        return 0


class Buffer:
    """Dispatch and combine with the names of DeepEP, for CPU tensors and those of a GPU.

    The members of the group own the experts in order: with num_experts a multiple of their number,
    the same number each. Every member makes the same calls in the same order, hooks included.
    Tensors are of this process's GPU, where torch has one (or WEFT_TARGET=cuda is set), else in
    host memory.

    Calls on GPU tensors run on a stream of their own (get_comm_stream()), after what torch's
    current stream has been given, or after previous_event. With async_finish=True the current
    stream does not wait for them; the returned event does, at its current_stream_wait().

    They raise InvalidArgument, InvalidType, Unsupported (an option that is not done), OutOfRange,
    OutOfMemory, Mismatch, PeerDead and Timeout.
    """

    num_sms = 20

    def __init__(self, group: Any, num_nvl_bytes: int = 0, num_rdma_bytes: int = 0,
                 low_latency_mode: bool = False, num_qps_per_rank: int = 24,
                 allow_nvlink_for_low_latency_mode: bool = True, allow_mnnvl: bool = False,
                 explicitly_destroy: bool = False, enable_shrink: bool = False,
                 comm: Any = None) -> None:
        """Collective over the group.

        group: of torch.distributed, of any backend; or None, with comm: a communicator of mpi4py.
        num_nvl_bytes, num_rdma_bytes: the host heap reserves at least their sum (WEFT_HEAP_SIZE,
        4 GiB, if that is more). explicitly_destroy: whether the program calls destroy(); without it
        memory is kept until the process ends. enable_shrink: the low-latency calls may mask ranks
        (low_latency_update_mask_buffer()). The others have no effect.
        """
        self.group, self.low_latency_mode = group, low_latency_mode
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.explicitly_destroy = explicitly_destroy
        self._exchange = Exchange(group, comm, num_nvl_bytes + num_rdma_bytes)
        self._low_latency = LowLatency(self._exchange)
        if enable_shrink:
            comm = self._exchange.comm
            self._low_latency.mask = torch.zeros(self._exchange.size, dtype=torch.int32,
                                                 device="cpu" if comm is None else comm.device)
        self._scratch: Any = None
        self.rank, self.group_size = self._exchange.rank, self._exchange.size

    def __repr__(self) -> str:
        return f"weft.experts.Buffer(rank={self.rank}, size={self.group_size})"

    def destroy(self) -> None:
        """Frees the memory and ends the buffer's job. Collective. Raises OutOfRange for an error of
        a call that no host waited for (check())."""
        self._exchange.destroy()

    def check(self) -> None:
        """Waits for the calls that were made, and raises OutOfRange for the first error that their
        kernels found: an expert that does not exist, more rows than num_worst_tokens. For calls
        that no host waits for; Weft's own addition."""
        self._exchange.require().check()

    # ------------------------------------------------------------------- what is constant

    @staticmethod
    def is_sm90_compiled() -> bool:
        """Returns True: kernels are compiled for the GPU at hand."""
        return True

    @staticmethod
    def set_num_sms(new_num_sms: int) -> None:
        """Limits the kernels of later calls to new_num_sms SMs of the GPU, an even number, the same
        at every rank; before the first call they take what they can use. A limit that was not there
        before takes memory as the first call of a type of tokens does."""
        if new_num_sms % 2 or new_num_sms <= 0:
            raise InvalidArgument(f"new_num_sms is {new_num_sms}: give an even number above 0")
        Buffer.num_sms = Objects.sms = new_num_sms

    @staticmethod
    def capture() -> EventOverlap:
        """Returns an event of what torch's current stream has been given so far."""
        return EventOverlap(EventHandle())

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank: int, hidden: int,
                                       num_ranks: int, num_experts: int) -> int:
        """Returns the bytes that the low-latency calls take at a rank, for tokens of 8 bfloat16
        experts: num_max_dispatch_tokens_per_rank tokens of hidden elements, num_ranks ranks and
        num_experts experts."""
        check_numbers(num_experts, num_max_dispatch_tokens_per_rank, num_ranks)
        attr, size = b.weft_experts_attr(), b.weft_experts_size()
        attr.size = ctypes.sizeof(attr)
        attr.hidden, attr.experts, attr.top, attr.tokens, attr.rows = sizes_of(
            num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts, min(8, num_experts))
        attr.type = attr.result_type = b.WEFT_BFLOAT16
        check(calls.experts_sizes(num_ranks, ctypes.byref(attr), ctypes.byref(size)))
        return 2 * int(size.symmetric)

    @staticmethod
    def get_dispatch_config(num_ranks: int) -> Config:
        """Returns a Config for num_ranks ranks."""
        return Config(Buffer.num_sms)

    @staticmethod
    def get_combine_config(num_ranks: int) -> Config:
        """As get_dispatch_config()."""
        return Config(Buffer.num_sms)

    def get_comm_stream(self) -> Any:
        """Returns the stream on which calls run, of torch.cuda; None on CPU tensors, which have no
        streams (torch.cuda.stream(None) does nothing)."""
        return self._exchange.require().comm

    def get_local_buffer_tensor(self, dtype: Any, size: Any = None, offset: int = 0,
                                use_rdma_buffer: bool = False) -> Any:
        """Returns memory for the program's own use, of dtype, from byte offset on: of shape size,
        or to the end. It has num_nvl_bytes bytes, or num_rdma_bytes with use_rdma_buffer, and is
        apart from the memory of transfers."""
        nbytes = self.num_rdma_bytes if use_rdma_buffer else self.num_nvl_bytes
        if self._scratch is None:
            self._scratch = {}
        if use_rdma_buffer not in self._scratch:
            comm = self._exchange.require().comm
            self._scratch[use_rdma_buffer] = torch.empty(
                nbytes, dtype=torch.uint8, device="cpu" if comm is None else comm.device)
        step = torch.empty(0, dtype=dtype).element_size()
        flat = self._scratch[use_rdma_buffer][offset:]
        flat = flat[:len(flat) // step * step].view(dtype)
        if size is None:
            return flat
        n = torch.Size(size).numel()
        if n > len(flat):
            raise InvalidArgument(f"size {tuple(size)} of {dtype} from byte {offset} on: the "
                                  f"buffer has {nbytes} bytes")
        return flat[:n].view(size)

    # ------------------------------------------------------------------------ normal mode

    def get_dispatch_layout(self, topk_idx: Any, num_experts: int,
                            previous_event: Optional[EventOverlap] = None,
                            async_finish: bool = False, allocate_on_comm_stream: bool = False
                            ) -> Tuple[Any, Any, Any, Any, EventOverlap]:
        """Counts where tokens go.

        topk_idx: [tokens, top] int64, -1: none; num_experts: of all ranks; previous_event: is
        waited for; async_finish, allocate_on_comm_stream: no effect, the counts are computed on
        torch's current stream.
        Returns num_tokens_per_rank [ranks] int32, num_tokens_per_rdma_rank (None up to 8 ranks),
        num_tokens_per_expert [num_experts] int32, is_token_in_rank [tokens, ranks] bool, event.
        """
        size = self._exchange.require().size
        if previous_event is not None:
            previous_event.current_stream_wait()
        device, tokens = topk_idx.device, topk_idx.shape[0]
        chosen = torch.where((topk_idx >= 0) & (topk_idx < num_experts), topk_idx,
                             torch.full_like(topk_idx, num_experts))
        # Rank p owns experts from floor(p * num_experts / size) on; `size` owns none.
        owners = torch.div((chosen + 1) * size - 1, num_experts, rounding_mode="floor")
        in_rank = torch.zeros(tokens, size + 1, dtype=torch.bool, device=device)
        in_rank = in_rank.scatter_(1, owners.clamp(max=size), True)[:, :size].contiguous()
        flat = chosen.reshape(-1)
        of_expert = torch.zeros(num_experts + 1, dtype=torch.int32, device=device)
        of_expert.scatter_add_(0, flat, torch.ones_like(flat, dtype=torch.int32))
        of_node = None
        if size > _NODE_RANKS and size % _NODE_RANKS == 0:
            of_node = in_rank.view(tokens, -1, _NODE_RANKS).any(2).sum(0, dtype=torch.int32)
        event = EventOverlap(EventHandle()) if async_finish else EventOverlap()
        return in_rank.sum(0, dtype=torch.int32), of_node, of_expert[:num_experts], in_rank, event

    def dispatch(self, x: Any, handle: Any = None, num_tokens_per_rank: Any = None,
                 num_tokens_per_rdma_rank: Any = None, is_token_in_rank: Any = None,
                 num_tokens_per_expert: Any = None, topk_idx: Any = None, topk_weights: Any = None,
                 expert_alignment: int = 1, num_worst_tokens: int = 0,
                 config: Optional[Config] = None, previous_event: Optional[EventOverlap] = None,
                 async_finish: bool = False, allocate_on_comm_stream: bool = False
                 ) -> Tuple[Any, Any, Any, Optional[List[int]], Any, EventOverlap]:
        """Sends each token to the ranks that own its experts, and receives tokens: in the order of
        ranks and of their tokens.

        x: [tokens, hidden] of bfloat16, float16, float32 or FP8, or (x, scales) with scales
        [tokens, n] of 4 bytes. handle: of an earlier dispatch, whose tokens have the same experts:
        only x is sent then, and no host waits. num_tokens_per_expert: of get_dispatch_layout(), for
        its number of experts; num_tokens_per_rank, num_tokens_per_rdma_rank, is_token_in_rank:
        computed again. topk_idx: [tokens, top] int64; topk_weights: [tokens, top] float32, or None.
        expert_alignment: the counts are rounded up to it. num_worst_tokens: the result has this
        number of rows, and no host waits after the first call with it; unused rows have topk_idx
        -1. config, allocate_on_comm_stream: no effect. previous_event, async_finish: see Buffer.

        Returns recv_x, recv_topk_idx (counted from this rank's first expert, -1: not own),
        recv_topk_weights, the number of tokens of each own expert (a list; empty with
        num_worst_tokens), handle, event. With a handle, the middle four are None.
        """
        exchange = self._exchange.require()
        if handle is not None:
            if topk_idx is not None or topk_weights is not None:
                raise InvalidArgument("handle is given with topk_idx or topk_weights: the experts "
                                      "are those of the first dispatch; leave them out")
            received, event = exchange.dispatch_again(x, handle, previous_event, async_finish)
            return received, None, None, None, None, event
        if num_tokens_per_expert is None:
            raise InvalidArgument("num_tokens_per_expert is missing: pass that of "
                                  "get_dispatch_layout()")
        received, made, event = exchange.dispatch(
            x, topk_idx, topk_weights, int(num_tokens_per_expert.shape[0]), num_worst_tokens,
            previous_event, async_finish)
        rows, counts = made.rows, []
        if not num_worst_tokens:
            counts = [aligned(n, expert_alignment) for n in rows.n_tokens.tolist()]
        weights = None if topk_weights is None else rows.topk_weights
        return received, rows.topk_idx, weights, counts, made, event

    def combine(self, x: Any, handle: Any, topk_weights: Any = None, bias: Any = None,
                config: Optional[Config] = None, previous_event: Optional[EventOverlap] = None,
                async_finish: bool = False, allocate_on_comm_stream: bool = False
                ) -> Tuple[Any, Any, EventOverlap]:
        """Returns the results of the experts to the tokens' ranks and adds them, in the order of
        ranks.

        x: a row for each that was received, in bfloat16, float16 or float32 as dispatched, bfloat16
        after FP8; handle: of the dispatch; topk_weights: [rows, top] float32, added likewise. bias:
        [tokens, hidden], or a pair of them, added to the sums. config, allocate_on_comm_stream: no
        effect. previous_event, async_finish: see Buffer.
        Returns sums [tokens, hidden], those of the weights [tokens, top] or None, event.
        """
        return self._exchange.require().combine(x, handle, topk_weights, bias, previous_event,
                                                async_finish)

    internode_dispatch = dispatch
    internode_combine = combine

    # ------------------------------------------------------------------------ low latency

    def low_latency_dispatch(self, x: Any, topk_idx: Any, num_max_dispatch_tokens_per_rank: int,
                             num_experts: int, cumulative_local_expert_recv_stats: Any = None,
                             dispatch_wait_recv_cost_stats: Any = None, use_fp8: bool = True,
                             round_scale: bool = False, use_ue8m0: bool = False,
                             async_finish: bool = False, return_recv_hook: bool = False
                             ) -> Tuple[Any, Any, Any, EventOverlap, Any]:
        """Sends tokens to their experts, each with a block of its own; no host waits, and a CUDA
        graph may capture it after a first call with the same sizes.

        x: [tokens, hidden] bfloat16; topk_idx: [tokens, top] int64, -1: none, an expert once;
        num_max_dispatch_tokens_per_rank: tokens of a rank, at most, the same at every rank;
        num_experts: a multiple of the ranks; cumulative_local_expert_recv_stats: [own experts]
        int32, to which the counts are added; dispatch_wait_recv_cost_stats: refused. use_fp8:
        tokens go in float8_e4m3fn with a scale for each 128 channels; round_scale: scales are
        powers of two; use_ue8m0: they are packed in int32, four exponents each. async_finish: see
        Buffer. return_recv_hook: the call sends, and the returned hook receives; at most two
        dispatches are in progress.

        Returns recv_x [own experts, num_max_dispatch_tokens_per_rank * ranks, hidden], or (recv_x,
        scales [own experts, rows, hidden / 128], column-major); recv_count [own experts] int32:
        rows in use of each block, in the order of ranks and tokens; handle, event, hook.
        """
        refuse(dispatch_wait_recv_cost_stats=dispatch_wait_recv_cost_stats is not None)
        made = self._low_latency.dispatch(
            x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts,
            cumulative_local_expert_recv_stats, use_fp8, round_scale, use_ue8m0, async_finish,
            return_recv_hook)
        return made

    def low_latency_combine(self, x: Any, topk_idx: Any, topk_weights: Any, handle: Any,
                            use_logfmt: bool = False, zero_copy: bool = False,
                            async_finish: bool = False, return_recv_hook: bool = False,
                            out: Any = None, combine_wait_recv_cost_stats: Any = None
                            ) -> Tuple[Any, EventOverlap, Any]:
        """Returns the results to the tokens' ranks, and adds them with their weights.

        x: [own experts, rows, hidden] bfloat16, as received; topk_idx, topk_weights: [tokens, top]
        of this rank's tokens, int64 and float32; handle: of the dispatch; use_logfmt: refused;
        zero_copy: no effect, x may be that of get_next_low_latency_combine_buffer(); async_finish,
        return_recv_hook: as low_latency_dispatch(); out: [tokens, hidden], for the sums;
        combine_wait_recv_cost_stats: refused.
        Returns sums [tokens, hidden] bfloat16, added in float32; event; hook.
        """
        refuse(use_logfmt=use_logfmt,
               combine_wait_recv_cost_stats=combine_wait_recv_cost_stats is not None)
        return self._low_latency.combine(x, topk_idx, topk_weights, handle, async_finish,
                                         return_recv_hook, out)

    def get_next_low_latency_combine_buffer(self, handle: Any) -> Any:
        """Returns a tensor for the results of handle's tokens: [own experts, rows, hidden]
        bfloat16."""
        return self._low_latency.combine_buffer(handle)

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank: int, hidden: int,
                                 num_experts: int) -> None:
        """Does nothing: calls need no memory that was cleaned.
        num_max_dispatch_tokens_per_rank, hidden, num_experts: as in low_latency_dispatch()."""
        check_numbers(num_experts, num_max_dispatch_tokens_per_rank, self._exchange.require().size)

    def low_latency_update_mask_buffer(self, rank_to_mask: int, mask: bool = False) -> None:
        """Masks a rank for this rank's low-latency calls, or with mask=False no longer: from the
        next call on this rank sends it no tokens, and its results count as 0. No host waits. Every
        rank masks for itself, and a masked rank makes the same calls as before: its tokens still
        come, and if it dies, PeerDead is raised, as without masks. Raises InvalidArgument for a
        rank_to_mask that is none, and Unsupported without enable_shrink."""
        masks = self._low_latency.mask
        if masks is None:
            raise Unsupported(f"rank {rank_to_mask} cannot be masked: make the Buffer with "
                              "enable_shrink=True")
        if not 0 <= rank_to_mask < len(masks):
            raise InvalidArgument(f"rank_to_mask is {rank_to_mask}: the ranks are 0 to "
                                  f"{len(masks) - 1}")
        masks[rank_to_mask] = int(mask)

    def low_latency_query_mask_buffer(self, mask_status: Any) -> None:
        """Sets mask_status, [ranks] int32, to 1 for each rank that is masked, else to 0."""
        if self._low_latency.mask is None:
            mask_status.zero_()
        else:
            mask_status.copy_(self._low_latency.mask)

    def low_latency_clean_mask_buffer(self) -> None:
        """Masks no rank any more."""
        if self._low_latency.mask is not None:
            self._low_latency.mask.zero_()
