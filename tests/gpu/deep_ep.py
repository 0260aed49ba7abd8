# SPDX-License-Identifier: Apache-2.0
"""DeepEP's names (weft.experts) with GPU tensors: normal and low-latency calls in bfloat16 and FP8,
asynchronous, with hooks, and captured into CUDA graphs. Not a test of the build: it needs a GPU and
torch 2.1.

    torchrun --nproc-per-node 2 tests/gpu/deep_ep.py     # ranks may share a GPU
"""

import weft.experts

deep_ep = weft.experts.as_deep_ep()  # before the first job: kernels run on the GPU

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import weft.torch  # noqa: E402, F401
from weft.experts import _rows  # noqa: E402

dist.init_process_group("weft")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank % torch.cuda.device_count())
device = torch.device("cuda", torch.cuda.current_device())
TOKENS, HIDDEN, OWN, TOP = 61, 1024, 4, 3
COUNT = OWN * size


class Case:
    """Tokens of one rank, small numbers whose sums are exact in bfloat16."""

    def __init__(self, member, seed):
        made = torch.Generator().manual_seed(100 * seed + member)
        self.x = torch.randint(-4, 5, (TOKENS, HIDDEN), generator=made).to(device).bfloat16()
        idx = torch.stack([torch.randperm(COUNT, generator=made)[:TOP] for _ in range(TOKENS)])
        idx[torch.rand(idx.shape, generator=made) < 0.2] = -1
        self.idx = idx.to(device)
        self.weights = (torch.randint(1, 5, idx.shape, generator=made) / 4).to(device)
        owner = torch.where(idx < 0, -1, idx // OWN)
        self.goes = torch.stack([(owner == r).any(1) for r in range(size)], 1).to(device)

    def fp8(self):
        return self.x.to(torch.float8_e4m3fn), self.x[:, :HIDDEN // 128].float() + 0.5

    def sums(self):
        """Each rank's result is the token times its rank + 1."""
        factors = (self.goes * torch.arange(1, size + 1, device=device)).sum(1, keepdim=True)
        return self.x * factors

    def weighted(self):
        """Each expert's result is the token times its number in its rank + 1."""
        factors = torch.where(self.idx < 0, 0, self.idx % OWN + 1) * self.weights
        return (self.x.float() * factors.sum(1, keepdim=True)).bfloat16()


cases = {seed: [Case(member, seed) for member in range(size)] for seed in range(4)}


def rows_of(seed, of=lambda case: case.x):
    return torch.cat([of(case)[case.goes[:, rank]] for case in cases[seed]])


def layout_of(buffer, case):
    per_rank, per_node, per_expert, in_rank, _ = buffer.get_dispatch_layout(case.idx, COUNT)
    assert torch.equal(in_rank, case.goes)
    return {"num_tokens_per_rank": per_rank, "num_tokens_per_rdma_rank": per_node,
            "is_token_in_rank": in_rank, "num_tokens_per_expert": per_expert,
            "topk_idx": case.idx, "topk_weights": case.weights}


def check_normal(buffer):
    for seed in range(3):
        mine = cases[seed][rank]
        layout = layout_of(buffer, mine)
        for is_async in (False, True):
            before = deep_ep.Buffer.capture() if is_async else None
            x, idx, weights, counts, handle, event = buffer.dispatch(
                mine.x, **layout, previous_event=before, async_finish=is_async, expert_alignment=8)
            event.current_stream_wait()
            assert torch.equal(x, rows_of(seed)), f"rows of seed {seed}"
            assert counts == [(int((idx == e).sum()) + 7) // 8 * 8 for e in range(OWN)]
            y, back, event = buffer.combine(x * (rank + 1), handle, topk_weights=weights,
                                            async_finish=is_async)
            event.current_stream_wait()
            assert torch.equal(y, mine.sums())
            assert torch.equal(back, mine.weights.masked_fill(mine.idx < 0, 0))
            again = buffer.dispatch(mine.x * 2, handle=handle)[0]
            assert torch.equal(again, x * 2)
        (values, scales), _, _, _, handle, _ = buffer.dispatch(mine.fp8(), **layout)
        assert torch.equal(values.float(), rows_of(seed).float())
        assert torch.equal(scales, rows_of(seed, lambda case: case.fp8()[1]))
        y, _, _ = buffer.combine(values.bfloat16() * (rank + 1), handle,
                                 bias=torch.ones_like(mine.x))
        assert torch.equal(y, mine.sums() + 1)


def captured(body):
    """Runs body() twice, then captures it. Returns the graph and what body() returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = body()
    return graph, results


def replay(graph, source, seed):
    """Replays with the tokens of another seed."""
    new = cases[seed][rank]
    for to, of in ((source.x, new.x), (source.idx, new.idx), (source.weights, new.weights)):
        to.copy_(of)
    graph.replay()
    torch.cuda.synchronize()
    return new


def check_normal_graph(buffer):
    source = Case(rank, 0)
    most = TOKENS * size

    def body():
        layout = layout_of_graph(buffer, source)
        x, idx, _, counts, handle, _ = buffer.dispatch(source.x, **layout, num_worst_tokens=most)
        assert x.shape == (most, HIDDEN) and counts == []
        return x, idx, buffer.combine(x * (rank + 1), handle)[0]

    graph, (x, idx, y) = captured(body)
    for seed in (0, 1, 2, 1):
        new = replay(graph, source, seed)
        wanted = rows_of(seed)
        assert torch.equal(x[:len(wanted)], wanted), f"replayed rows of seed {seed}"
        assert (idx[len(wanted):] == -1).all() and torch.equal(y, new.sums())
    buffer.check()


def layout_of_graph(buffer, case):
    per_expert = buffer.get_dispatch_layout(case.idx, COUNT)[2]
    return {"num_tokens_per_expert": per_expert, "topk_idx": case.idx,
            "topk_weights": case.weights}


def check_blocks(seed, values, scales, counts):
    """Compares the blocks of this rank's experts with the tokens that name them."""
    for local in range(OWN):
        named = [(case.idx == rank * OWN + local).any(1) for case in cases[seed]]
        wanted = torch.cat([case.x[which] for case, which in zip(cases[seed], named)])
        assert int(counts[local]) == len(wanted)
        got = values[local, :len(wanted)].float()
        if scales is not None:
            factors = scales[local, :len(wanted)].repeat_interleave(128, 1)
            assert ((got * factors - wanted.float()).abs() <= wanted.float().abs() / 16).all()
        else:
            assert torch.equal(got, wanted.float())


def low_latency(buffer, case, fp8, hooks=False):
    """Returns the received blocks, and the sums of results that are exact: FP8 rows are rounded to
    the whole numbers that were sent."""
    received, counts, handle, event, hook = buffer.low_latency_dispatch(
        case.x, case.idx, TOKENS, COUNT, use_fp8=fp8, return_recv_hook=hooks)
    if hooks:
        hook()
    values, scales = received if fp8 else (received, None)
    rows = values.float()
    if fp8:
        rows = (rows * scales.repeat_interleave(128, 2)).round()
    factors = torch.arange(1, OWN + 1, device=device)[:, None, None]
    y, event, hook = buffer.low_latency_combine(
        (rows * factors).bfloat16(), case.idx, case.weights, handle, return_recv_hook=hooks)
    if hooks:
        hook()
    return values, scales, counts, y


def check_low_latency(buffer, fp8):
    for seed in range(3):
        for hooks in (False, True):
            values, scales, counts, y = low_latency(buffer, cases[seed][rank], fp8, hooks)
            check_blocks(seed, values, scales, counts)
            assert torch.equal(y, cases[seed][rank].weighted()), (seed, hooks, fp8)
    # Two dispatches in progress, and a computation between.
    made = [buffer.low_latency_dispatch(cases[seed][rank].x, cases[seed][rank].idx, TOKENS, COUNT,
                                        use_fp8=fp8, return_recv_hook=True) for seed in (0, 1)]
    torch.ones(512, 512, device=device) @ torch.ones(512, 512, device=device)
    for seed in (1, 0):
        made[seed][4]()
        values, scales = made[seed][0] if fp8 else (made[seed][0], None)
        check_blocks(seed, values, scales, made[seed][1])
        rows = torch.zeros(values.shape, device=device).bfloat16()
        y = buffer.low_latency_combine(rows, cases[seed][rank].idx, cases[seed][rank].weights,
                                       made[seed][2])[0]
        assert not y.any()


def check_low_latency_graph(buffer, fp8, hooks):
    source = Case(rank, 0)
    graph, (values, scales, counts, y) = captured(
        lambda: low_latency(buffer, source, fp8, hooks))
    for seed in (0, 1, 2, 1):
        new = replay(graph, source, seed)
        check_blocks(seed, values, scales, counts)
        assert torch.equal(y, new.weighted()), f"replayed sums of seed {seed}"


def check_gradients(buffer):
    mine = cases[0][rank]
    x, weights = mine.x.float().requires_grad_(), mine.weights.clone().requires_grad_()
    rows, idx, of_rows, handle = weft.experts.moe_dispatch(buffer, x, mine.idx, weights, COUNT)
    y = weft.experts.moe_combine(buffer, rows * of_rows.sum(1, keepdim=True), handle)
    y.sum().backward()
    of_token = mine.weights.masked_fill(mine.idx < 0, 0)
    assert torch.equal(x.grad, of_token.sum(1, keepdim=True).expand_as(x))
    wanted = mine.x.float().sum(1, keepdim=True).expand_as(weights).masked_fill(mine.idx < 0, 0)
    assert torch.allclose(weights.grad, wanted)


def check_expanded(buffer):
    """A row for each expert of a token, ordered by expert, each expert's rows padded to 8."""
    alignment = 8
    for seed, zero in ((1, False), (2, True)):
        mine, wanted, counts = cases[seed][rank], [], []
        for e in range(rank * OWN, (rank + 1) * OWN):
            rows = torch.cat([case.x[(case.idx == e).any(1)] for case in cases[seed]])
            counts.append(len(rows))
            wanted += [rows, rows.new_zeros(-len(rows) % alignment, HIDDEN)]
        used = torch.cat([torch.arange(len(part), device=device) < n for part, n in
                          zip((torch.cat(wanted[i:i + 2]) for i in range(0, 2 * OWN, 2)), counts)])
        wanted = torch.cat(wanted)
        x, idx, weights, handle, _ = buffer.dispatch(
            mine.x, mine.idx, mine.weights, num_experts=COUNT, do_expand=True,
            expert_alignment=alignment, do_zero_padding=zero, emit_expert_ids=True)
        assert idx is None and x.shape == wanted.shape
        assert torch.equal(x if zero else x[used], wanted if zero else wanted[used])
        assert handle.num_unaligned_recv_tokens_per_expert.tolist() == counts
        ids = handle.recv_expert_ids
        assert torch.equal(ids >= 0, used) and (weights[~used] == 0).all()
        y, back, _ = buffer.combine((x.float() * weights[:, None] * (ids + 1)[:, None]).bfloat16()
                                    .masked_fill(~used[:, None], float("nan")), handle,
                                    topk_weights=weights)
        assert torch.equal(y, mine.weighted()), f"sums of seed {seed}"
        assert torch.equal(back, mine.weights.masked_fill(mine.idx < 0, 0))


def microseconds(call, times=50):
    call()
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    for _ in range(times):
        call()
    ended.record()
    torch.cuda.synchronize()
    return begun.elapsed_time(ended) * 1000 / times


def show_limited_sms():
    """The same bits on fewer SMs, and what that costs: 2048 tokens of 7168."""
    x = torch.randn(2048, 7168, device=device).bfloat16()
    idx = torch.stack([torch.randperm(COUNT)[:TOP] for _ in range(len(x))]).to(device)
    weights, given, wanted = torch.ones(idx.shape, device=device), deep_ep.Buffer.num_sms, None
    for sms in (132, 24, 4):
        deep_ep.Buffer.set_num_sms(sms)
        buffer = deep_ep.Buffer(dist.group.WORLD, explicitly_destroy=True)
        layout = buffer.get_dispatch_layout(idx, COUNT)

        def body():
            rows, _, _, _, handle, _ = buffer.dispatch(
                x, topk_idx=idx, topk_weights=weights, num_tokens_per_rank=layout[0],
                num_tokens_per_expert=layout[2], is_token_in_rank=layout[3],
                num_worst_tokens=len(x) * size)
            return buffer.combine(rows, handle)[0]

        graph, y = captured(body)
        spent = microseconds(graph.replay)
        assert wanted is None or torch.equal(y, wanted), f"other bits on {sms} SMs"
        wanted = y.clone()
        if rank == 0:
            print(f"dispatch and combine of {len(x)} tokens on at most {sms} SMs: {spent:.0f} us")
        graph.reset()
        buffer.destroy()
    deep_ep.Buffer.set_num_sms(given)


def show_times(buffer):
    """128 tokens of 7168, 8 of 256 experts or as many as there are."""
    count, tokens, top = 256 // size * size, 128, 8
    x = torch.randn(tokens, 7168, device=device).bfloat16()
    idx = torch.stack([torch.randperm(count)[:top] for _ in range(tokens)]).to(device)
    weights = torch.ones(tokens, top, device=device)
    for fp8 in (False, True):
        def body(fp8=fp8):
            made = buffer.low_latency_dispatch(x, idx, tokens, count, use_fp8=fp8)
            results = buffer.get_next_low_latency_combine_buffer(made[2])
            buffer.low_latency_combine(results, idx, weights, made[2])
        graph, _ = captured(body)
        both = microseconds(body), microseconds(graph.replay)
        if rank == 0:
            print(f"low latency, {tokens} tokens, {'FP8' if fp8 else 'bfloat16'}: dispatch and "
                  f"combine {both[0]:.0f} us, from a graph {both[1]:.0f} us, "
                  f"{'with' if _rows._found else 'without'} triton")


buffer = deep_ep.Buffer(dist.group.WORLD, explicitly_destroy=True)
assert buffer.get_comm_stream().device == device
check_normal(buffer)
check_normal_graph(buffer)
other = deep_ep.Buffer(dist.group.WORLD, low_latency_mode=True)  # shares the job
for fp8 in (False, True):
    check_low_latency(other, fp8)
    for hooks in (False, True):
        check_low_latency_graph(other, fp8, hooks)
check_gradients(buffer)
elastic = deep_ep.ElasticBuffer(dist.group.WORLD, num_max_tokens_per_rank=TOKENS)
for wait in (True, False):
    x, idx, weights, handle, event = elastic.dispatch(
        cases[1][rank].x, cases[1][rank].idx, cases[1][rank].weights, num_experts=COUNT,
        do_cpu_sync=wait, async_with_compute_stream=True)
    event.current_stream_wait()
    assert torch.equal(x[:len(rows_of(1))], rows_of(1))
    y, _, _ = elastic.combine(x * (rank + 1), handle)
    assert torch.equal(y, cases[1][rank].sums())
by_expert = deep_ep.EPBuffer(dist.group.WORLD, num_max_tokens_per_rank=TOKENS)
check_expanded(by_expert)
elastic.barrier(with_cpu_sync=True)
show_times(other)
show_limited_sms()
for one in (by_expert, elastic, other, buffer):
    one.destroy()
dist.barrier()
print(f"rank {rank} of {size}: ok", flush=True)
dist.destroy_process_group()
