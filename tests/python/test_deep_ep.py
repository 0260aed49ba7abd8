# SPDX-License-Identifier: Apache-2.0
"""DeepEP's names (weft.experts) on CPU tensors, compared with loops over the tokens of all
ranks."""

import random
import sys
import time
import types

import pytest

import weft

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

import weft.torch  # noqa: E402, F401
from weft.experts import (  # noqa: E402
    Buffer,
    Config,
    ElasticBuffer,
    EPBuffer,
    EPHandle,
    EventOverlap,
    _exchange,
    as_deep_ep,
    moe_combine,
    moe_dispatch,
    topk_idx_t,
)

HAS_FP8 = hasattr(torch, "float8_e4m3fn")


def at_ranks(size, tmp_path, body, *arguments, backend="weft"):
    """Runs body(group, *arguments) in processes that have made the group."""
    store = tmp_path / f"store{random.random()}"

    def at_pe(job):
        torch.set_num_threads(1)
        dist.init_process_group(backend, init_method=f"file://{store}", rank=job.rank,
                                world_size=size)
        result = body(dist.group.WORLD, *arguments)
        dist.barrier()
        dist.destroy_process_group()
        return result

    return weft.spawn(at_pe, size)


class Choice:
    """Tokens and experts of one rank, which every rank can compute. Sums of the numbers are
    exact."""

    def __init__(self, rank, seed, hidden, experts, top, dtype=torch.float32, most=7):
        made = torch.Generator().manual_seed(seed * 100 + rank)

        def integers(low, high, *shape):
            return torch.randint(low, high, shape, generator=made)

        self.tokens = 0 if seed % 3 == rank else int(integers(1, most + 1, 1))
        self.x = integers(-8, 9, self.tokens, hidden).to(dtype)
        self.idx = torch.stack([torch.randperm(experts, generator=made)[:top]
                                for _ in range(self.tokens)] or [torch.zeros(top)]).long()
        self.idx = self.idx[:self.tokens]
        self.idx[integers(0, 4, self.tokens, top) == 0] = -1
        self.weights = integers(1, 9, self.tokens, top).float() / 8


def owner_of(experts, size):
    return [rank for rank in range(size)
            for _ in range(rank * experts // size, (rank + 1) * experts // size)]


def rows_of(choices, owners, rank):
    """Returns (member, token) of each row that this rank receives."""
    return [(member, token) for member, choice in enumerate(choices)
            for token in range(choice.tokens)
            if any(e >= 0 and owners[e] == rank for e in choice.idx[token].tolist())]


def compare_rows(choices, owners, rank, x, idx, weights):
    """Compares received rows with the tokens. Returns how many name each own expert."""
    first = owners.index(rank) if rank in owners else 0
    counts = [0] * owners.count(rank)
    for row, (member, token) in enumerate(rows_of(choices, owners, rank)):
        theirs = choices[member]
        assert torch.equal(x[row], theirs.x[token]), (row, member, token)
        for k, expert in enumerate(theirs.idx[token].tolist()):
            own = expert >= 0 and owners[expert] == rank
            assert int(idx[row, k]) == (expert - first if own else -1)
            assert float(weights[row, k]) == (float(theirs.weights[token, k]) if own else 0)
            if own:
                counts[expert - first] += 1
    return counts


def sums_of(mine, owners, size):
    """Each rank's result is the token times its rank + 1."""
    out = torch.zeros(mine.x.shape)
    for token in range(mine.tokens):
        for rank in range(size):
            if any(e >= 0 and owners[e] == rank for e in mine.idx[token].tolist()):
                out[token] += mine.x[token].float() * (rank + 1)
    return out


def normal(group, seeds, dtypes):
    rank, size = group.rank(), group.size()
    buffer = Buffer(group, 1 << 20, explicitly_destroy=True)
    hidden, count, top = 16, 7, 3
    owners, limits = owner_of(count, size), []
    for seed in seeds:
        for dtype in dtypes:
            choices = [Choice(member, seed, hidden, count, top, dtype) for member in range(size)]
            mine = choices[rank]
            per_rank, per_node, per_expert, in_rank, _ = buffer.get_dispatch_layout(mine.idx, count)
            assert per_node is None and per_rank.dtype == per_expert.dtype == torch.int32
            for token in range(mine.tokens):
                to = {owners[e] for e in mine.idx[token].tolist() if e >= 0}
                assert in_rank[token].tolist() == [r in to for r in range(size)]
            assert per_rank.tolist() == in_rank.sum(0).tolist()
            assert per_expert.tolist() == [int((mine.idx == e).sum()) for e in range(count)]
            layout = {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank,
                      "num_tokens_per_expert": per_expert, "topk_idx": mine.idx,
                      "topk_weights": mine.weights}
            wanted = rows_of(choices, owners, rank)
            x, idx, weights, counts, handle, event = buffer.dispatch(
                mine.x, **layout, expert_alignment=4, async_finish=True)
            event.current_stream_wait()
            assert x.shape == (len(wanted), hidden) and x.dtype == dtype
            found = compare_rows(choices, owners, rank, x, idx, weights)
            assert counts == [(n + 3) // 4 * 4 for n in found]
            want = sums_of(mine, owners, size)
            y, back, event = buffer.combine(x * (rank + 1), handle, topk_weights=weights,
                                            previous_event=event)
            assert torch.equal(y, want.to(dtype))
            assert torch.equal(back, mine.weights.masked_fill(mine.idx < 0, 0))
            # Bias: one, or a pair.
            one, two = torch.full_like(mine.x, 2), torch.full_like(mine.x, 3)
            y, back, _ = buffer.combine(x * (rank + 1), handle, bias=one)
            assert torch.equal(y, (want + 2).to(dtype)) and back is None
            y, _, _ = buffer.internode_combine(x * (rank + 1), handle, bias=(one, two))
            assert torch.equal(y, (want + 5).to(dtype))
            # The backward pass of combine: the same rows of other values.
            again = buffer.dispatch(mine.x * 2, handle=handle)
            assert again[1:5] == (None,) * 4 and torch.equal(again[0], x * 2)
            # No host waits for the number of rows. The second limit is less than could come.
            limit = max(len(rows_of(choices, owners, peer)) for peer in range(size)) or 1
            while limit in limits:
                limit += 1
            limits.append(limit)
            for most in (7 * size + 2, limit):
                x2, idx2, weights2, counts2, handle2, _ = buffer.internode_dispatch(
                    mine.x, **layout, num_worst_tokens=most)
                assert x2.shape == (most, hidden) and counts2 == []
                assert torch.equal(x2[:len(wanted)], x) and torch.equal(idx2[:len(wanted)], idx)
                assert (idx2[len(wanted):] == -1).all() and not weights2[len(wanted):].any()
                y, back, _ = buffer.combine(x2 * (rank + 1), handle2, topk_weights=weights2)
                assert torch.equal(y, want.to(dtype))
                assert torch.equal(back, mine.weights.masked_fill(mine.idx < 0, 0))
                again = buffer.dispatch(mine.x * 2, handle=handle2)[0]
                assert again.shape == x2.shape and torch.equal(again[:len(wanted)], x * 2)
            buffer.check()
    buffer.destroy()


@pytest.mark.parametrize("size, backend", [(1, "weft"), (3, "weft"), (2, "gloo")])
def test_normal(tmp_path, size, backend):
    at_ranks(size, tmp_path, normal, range(3), [torch.float32, torch.bfloat16, torch.float16],
             backend=backend)


def normal_fp8(group):
    rank, size = group.rank(), group.size()
    buffer = Buffer(group)
    hidden, count, top = 256, 4, 2
    owners = owner_of(count, size)
    choices = [Choice(member, 5, hidden, count, top) for member in range(size)]
    assert all(rows_of(choices, owners, peer) for peer in range(size))
    for choice in choices:
        choice.values = choice.x.to(torch.float8_e4m3fn)
        choice.scales = choice.x[:, :2] + 0.5
    mine = choices[rank]
    per_expert = buffer.get_dispatch_layout(mine.idx, count)[2]
    for form in (lambda s: s, lambda s: s.t().contiguous().t(), lambda s: s[:, 0],
                 lambda s: s.to(torch.int32)):
        x, idx, weights, _, handle, _ = buffer.dispatch(
            (mine.values, form(mine.scales)), num_tokens_per_expert=per_expert, topk_idx=mine.idx,
            topk_weights=mine.weights)
        values, scales = x
        compare_rows(choices, owners, rank, values.float(), idx, weights)
        assert scales.dtype == form(mine.scales).dtype
        for row, (member, token) in enumerate(rows_of(choices, owners, rank)):
            assert torch.equal(scales[row], form(choices[member].scales)[token])
        y, _, _ = buffer.combine(values.to(torch.bfloat16) * (rank + 1), handle)
        assert torch.equal(y.float(), sums_of(mine, owners, size))
        # Gradients in another type, by the same layout.
        again = buffer.dispatch(mine.x.bfloat16() * 2, handle=handle)[0]
        assert torch.equal(again.float(), values.float() * 2)
    buffer.destroy()


if HAS_FP8:  # no test that is skipped: the others of the file would count as skipped

    def test_normal_fp8(tmp_path):
        at_ranks(2, tmp_path, normal_fp8)


def fp8_of(x, round_scale):
    """Returns x in FP8 with the scales of 128 channels, by plain loops."""
    values, scales = torch.zeros(x.shape), torch.zeros(x.shape[0], x.shape[1] // 128)
    for token in range(x.shape[0]):
        for part in range(scales.shape[1]):
            of = slice(128 * part, 128 * (part + 1))
            scale = max(float(x[token, of].float().abs().max()), 1e-4) / 448
            if round_scale:
                power = -40
                while 2.0 ** power < scale:
                    power += 1
                scale = 2.0 ** power
            scales[token, part] = scale
            values[token, of] = (x[token, of].float() / scales[token, part]).to(
                torch.float8_e4m3fn).float()
    return values, scales


def low_latency(group, fp8):
    rank, size = group.rank(), group.size()
    most, hidden, count, top = 5, 1024 if fp8 else 128, 3 * size, 3
    nbytes = Buffer.get_low_latency_rdma_size_hint(most, hidden, size, count)
    assert nbytes > 2 * most * size * hidden * 2
    buffer = Buffer(group, 0, nbytes, low_latency_mode=True, num_qps_per_rank=count // size)
    buffer.clean_low_latency_buffer(most, hidden, count)
    own, stats = count // size, torch.zeros(count // size, dtype=torch.int32)
    total = torch.zeros(own, dtype=torch.int32)
    options = [{}]
    if fp8:
        options += [{"round_scale": True}, {"round_scale": True, "use_ue8m0": True}]

    def dispatch(choices, option, hook):
        mine = choices[rank]
        return buffer.low_latency_dispatch(
            mine.x, mine.idx, most, count, cumulative_local_expert_recv_stats=stats, use_fp8=fp8,
            return_recv_hook=hook, **option)

    def compare(choices, option, made):
        x, counts, handle, event, _ = made
        assert isinstance(event, EventOverlap) and counts.dtype == torch.int32
        values, scales = x if fp8 else (x, None)
        assert values.shape == (own, most * size, hidden)
        results = buffer.get_next_low_latency_combine_buffer(handle)
        assert results.shape == values.shape and results.dtype == torch.bfloat16
        for local in range(own):
            expert = rank * own + local
            rows = [(choice, token) for choice in choices for token in range(choice.tokens)
                    if expert in choice.idx[token].tolist()]
            assert int(counts[local]) == len(rows)
            total[local] += len(rows)
            for row, (choice, token) in enumerate(rows):
                got = values[local, row]
                if fp8:
                    want, factors = fp8_of(choice.x[token:token + 1], "round_scale" in option)
                    assert torch.equal(got.float(), want[0])
                    factor = scales[local, row]
                    if "use_ue8m0" in option:
                        assert scales.shape == (own, most * size, hidden // 512)
                        numbers = [int(n) >> 8 * i & 255 for n in factor for i in range(4)]
                        factor = torch.tensor([2.0 ** (n - 127) for n in numbers])
                    else:
                        assert scales.stride(1) == 1 and scales.dtype == torch.float32
                    assert torch.allclose(factor, factors[0], rtol=1e-6)
                else:
                    assert torch.equal(got, choice.x[token])
                results[local, row] = choice.x[token] * (expert + 1)
        return results

    def wanted(mine):
        out = torch.zeros(mine.tokens, hidden)
        for token in range(mine.tokens):
            for k, expert in enumerate(mine.idx[token].tolist()):
                if expert >= 0:
                    out[token] += mine.x[token].float() * (expert + 1) * mine.weights[token, k]
        return out.bfloat16()

    def combine(choices, results, handle, hook, **named):
        mine = choices[rank]
        return buffer.low_latency_combine(results, mine.idx, mine.weights, handle,
                                          return_recv_hook=hook, **named)

    for seed in range(3):
        cases = [[Choice(member, seed + turn, hidden, count, top, torch.bfloat16, most)
                  for member in range(size)] for turn in range(2)]
        for choice in cases[0] + cases[1]:  # parts of different sizes, whose sums are exact
            choice.x *= 2.0 ** (torch.arange(hidden) // 128)
        for option in options:
            # Without hooks, then with two dispatches in progress and either order of the rest.
            made = dispatch(cases[0], option, False)
            assert made[4] is None
            results = compare(cases[0], option, made)
            y, _, hook = combine(cases[0], results, made[2], False, zero_copy=True)
            assert hook is None and torch.equal(y, wanted(cases[0][rank]))
            y, _, _ = combine(cases[0], results * 2, made[2], False)
            assert torch.equal(y, wanted(cases[0][rank]) * 2)
            for order in ((0, 1), (1, 0)):
                made = [dispatch(case, option, True) for case in cases]
                for turn in order:
                    made[turn][4]()
                results = [compare(*both) for both in zip(cases, (option,) * 2, made)]
                outs = [torch.ones(case[rank].tokens, hidden, dtype=torch.bfloat16)
                        for case in cases]
                hooks = {}
                for turn in order:
                    y, _, hooks[turn] = combine(cases[turn], results[turn], made[turn][2], True,
                                                out=outs[turn])
                    assert y is outs[turn]
                for turn in reversed(order):
                    hooks[turn]()
                for case, out in zip(cases, outs):
                    assert torch.equal(out, wanted(case[rank]))
    assert torch.equal(stats, total)
    status = torch.ones(size, dtype=torch.int32)
    buffer.low_latency_query_mask_buffer(status)
    buffer.low_latency_clean_mask_buffer()
    assert not status.any()
    buffer.destroy()


@pytest.mark.parametrize("size, fp8", [(1, False), (3, False), (2, True)][:2 + HAS_FP8])
def test_low_latency(tmp_path, size, fp8):
    at_ranks(size, tmp_path, low_latency, fp8)


def masks(group):
    """Rank r masks the next one: for dispatch and combine, for combine alone, and no longer."""
    rank, size = group.rank(), group.size()
    most, hidden, count, top = 5, 128, 2 * size, 3
    buffer = Buffer(group, low_latency_mode=True, enable_shrink=True)
    owners, masked = owner_of(count, size), [(member + 1) % size for member in range(size)]
    status = torch.empty(size, dtype=torch.int32)
    for seed, first, then in ((1, True, True), (2, False, True), (4, True, False),
                              (5, False, False)):
        choices = [Choice(member, seed, hidden, count, top, torch.bfloat16, most)
                   for member in range(size)]
        mine, want = choices[rank], torch.zeros(choices[rank].tokens, hidden)
        for token in range(mine.tokens):
            for k, e in enumerate(mine.idx[token].tolist()):
                if e >= 0 and not ((first or then) and owners[e] == masked[rank]):
                    want[token] += mine.x[token].float() * (e + 1) * mine.weights[token, k]
        for hooks in (False, True):
            buffer.low_latency_update_mask_buffer(masked[rank], first)
            x, counts, handle, _, hook = buffer.low_latency_dispatch(
                mine.x, mine.idx, most, count, use_fp8=False, return_recv_hook=hooks)
            if hooks:
                hook()
            assert counts.tolist() == [
                sum(e in chosen for member, choice in enumerate(choices)
                    for chosen in choice.idx.tolist() if not first or masked[member] != rank)
                for e in range(count) if owners[e] == rank]
            for local, n in enumerate(counts.tolist()):
                x[local, :n] *= owners.index(rank) + local + 1
            buffer.low_latency_update_mask_buffer(masked[rank], then)
            buffer.low_latency_query_mask_buffer(status)
            assert status.tolist() == [int(then and member == masked[rank])
                                       for member in range(size)]
            y, _, hook = buffer.low_latency_combine(x, mine.idx, mine.weights, handle,
                                                    return_recv_hook=hooks)
            if hooks:
                hook()
            assert torch.equal(y, want.bfloat16())
            buffer.low_latency_clean_mask_buffer()
            buffer.low_latency_query_mask_buffer(status)
            assert not status.any()
    buffer.destroy()


def test_masks(tmp_path):
    at_ranks(3, tmp_path, masks)


def dispatch_of(buffer, x, idx, count, **named):
    per_expert = buffer.get_dispatch_layout(idx, count)[2]
    return buffer.dispatch(x, num_tokens_per_expert=per_expert, topk_idx=idx,
                           topk_weights=torch.ones(idx.shape), **named)


class Communicator:
    """What a Buffer calls of a communicator of mpi4py."""

    def __init__(self, group):
        self.group = group

    def Get_rank(self):  # noqa: N802
        return self.group.rank()

    def allgather(self, mine):
        given = [None] * self.group.size()
        dist.all_gather_object(given, mine, group=self.group)
        return given


def groups(group):
    """Groups of some ranks, of which each has a job, and a communicator."""
    rank = group.rank()
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    mine = pairs[rank % 2]
    buffer, other = Buffer(mine), Buffer(None, comm=Communicator(mine))
    assert buffer._exchange.members is other._exchange.members
    x = torch.full((2, 8), float(rank))
    for which in (buffer, other):
        rows, _, _, _, handle, _ = dispatch_of(which, x, torch.tensor([[0], [1]]), 2)
        assert rows[:, 0].tolist() == [rank % 2, rank % 2 + 2]
        assert torch.equal(which.combine(rows, handle)[0], x)
    if rank < 2:  # a process has one job with kernels
        with pytest.raises(weft.Unsupported, match="share a job; destroy"):
            Buffer(None, comm=Alone())
    buffer.destroy()
    assert torch.equal(other.combine(rows, handle)[0], x)
    other.destroy()
    whole = Buffer(group)
    rows = dispatch_of(whole, x, torch.tensor([[3], [-1]]), 4)[0]
    assert rows[:, 0].tolist() == ([0, 1, 2, 3] if rank == 3 else [])
    whole.destroy()


class Alone:
    """A communicator of this process."""

    def Get_rank(self):  # noqa: N802
        return 0

    def allgather(self, mine):
        return [mine]


def test_groups(tmp_path):
    at_ranks(4, tmp_path, groups)


def growth(group):
    """A later dispatch needs more memory, at one rank alone; earlier handles stay valid."""
    rank, size = group.rank(), group.size()
    buffer, other = Buffer(group), Buffer(group)
    kept = []
    for turn, tokens in enumerate((2, 3, 40, 5, 200)):
        tokens = tokens if rank == size - 1 else 1
        x = torch.full((tokens, 8), float(10 * turn + rank))
        idx = torch.arange(tokens)[:, None] % size
        for which in (buffer, other):
            received, _, _, _, handle, _ = dispatch_of(which, x, idx, size)
            kept.append((which, x, received, handle))
        for which, sent, rows, handle in kept:
            assert torch.equal(which.combine(rows * 2, handle)[0], sent * 2)
            assert torch.equal(which.dispatch(sent, handle=handle)[0], rows)
        if turn == 3:
            before = [len(which._exchange._all) for which in (buffer, other)]
            # The handles go at one rank only, then everywhere.
            del which, handle
            held, kept = [one for one in kept if one[0] is other and rank == 0], []
    for turn in range(30):
        if rank == turn % size:
            time.sleep(0.002)
        for n in range(20):
            assert buffer._exchange.members.agree(n * (rank + 1), -n - rank) == [n * size, -n]
    assert len(held) == (0 if rank else 4)
    assert before == [3, 3]
    assert len(buffer._exchange._all) == 1 and len(other._exchange._all) == 4
    assert buffer._exchange.nbytes() < other._exchange.nbytes()
    other.destroy()
    assert torch.equal(dispatch_of(buffer, x, idx, size)[0], received)
    # Another size of a token, and of the choice.
    for hidden, count, top in ((16, size, 1), (8, 4, 2)):
        x = torch.full((3, hidden), rank + 1.0)
        idx = torch.arange(3 * top).view(3, top) % count
        rows, _, _, _, handle, _ = dispatch_of(buffer, x, idx, count)
        assert torch.equal(buffer.combine(rows, handle)[0] > 0, x > 0)
    buffer.destroy()


def test_growth_and_several_buffers(tmp_path):
    at_ranks(2, tmp_path, growth)


def version_2(group):
    rank, size = group.rank(), group.size()
    hidden, count, top, most = 16, 6, 2, 7
    assert ElasticBuffer.get_buffer_size_hint(group, most, hidden, top) > 0
    owners = owner_of(count, size)
    for cls in (ElasticBuffer, EPBuffer):
        buffer = cls(group, num_max_tokens_per_rank=most, hidden=hidden, num_topk=top,
                     explicitly_destroy=True)
        assert buffer.get_logical_domain_size() == (1, size)
        assert buffer.get_physical_domain_size() == (1, size)
        choices = [Choice(member, 1, hidden, count, top) for member in range(size)]
        mine = choices[rank]
        stats = torch.zeros(count // size, dtype=torch.int32)
        wanted = len(rows_of(choices, owners, rank))
        for wait in (None, True, False):
            x, idx, weights, handle, event = buffer.dispatch(
                mine.x, mine.idx, mine.weights, stats, num_experts=count, expert_alignment=4,
                do_cpu_sync=wait, async_with_compute_stream=True)
            with event:
                pass
            assert x.shape[0] == (most * size if wait is False else wanted)
            found = compare_rows(choices, owners, rank, x, idx, weights)
            assert isinstance(handle, EPHandle) and torch.equal(handle.topk_idx, mine.idx)
            assert handle.num_unaligned_recv_tokens_per_expert.tolist() == found
            assert handle.num_recv_tokens_per_expert_list == \
                ([] if wait is False else [(n + 3) // 4 * 4 for n in found])
            y, back, _ = buffer.combine(x * (rank + 1), handle, topk_weights=weights)
            assert torch.equal(y, sums_of(mine, owners, size))
            assert torch.equal(back, mine.weights.masked_fill(mine.idx < 0, 0))
            again, idx2, none, handle2, _ = buffer.dispatch(mine.x * 2, handle=handle)
            assert torch.equal(again[:wanted], x[:wanted] * 2) and none is None
            assert idx2 is idx and handle2 is handle
        assert stats.tolist() == [3 * n for n in found]
        buffer.barrier(with_cpu_sync=True)
        padded = [(n + 3) // 4 * 4 for n in found]
        assert handle.psum_num_recv_tokens_per_expert.tolist() == \
            [sum(padded[:i + 1]) for i in range(len(padded))]
        for call, given in ((buffer.pp_send, {}), (buffer.engram_fetch, {}), (buffer.dispatch, {
                "num_experts": count, "use_tma_aligned_col_major_sf": True})):
            with pytest.raises(weft.Unsupported, match="not supported by weft.experts"):
                call(mine.x, mine.idx, **given)
        buffer.destroy()


def test_version_2(tmp_path):
    at_ranks(2, tmp_path, version_2)


class Layout:
    """The expanded layout of a rank: rows: (member, token, k) or None; own: the own expert of each,
    or None; ends: the row after the last one of each own expert."""

    def __init__(self, choices, owners, rank, alignment):
        self.choices, self.rows, self.ends = choices, [], []
        self.first = owners.index(rank) if rank in owners else 0
        for expert in (e for e, owner in enumerate(owners) if owner == rank):
            for member, choice in enumerate(choices):
                for token, chosen in enumerate(choice.idx.tolist()):
                    self.rows += [(member, token, k) for k, e in enumerate(chosen) if e == expert]
            self.ends.append(len(self.rows))
            self.rows += [None] * (-len(self.rows) % alignment)
        self.own = [None if row is None else int(choices[row[0]].idx[row[1], row[2]]) - self.first
                    for row in self.rows]
        self.counts = [self.own.count(e) for e in range(len(self.ends))]

    def compare(self, x, factor, zero):
        """x: rows, with any number of unused ones at the end; zero: padding is 0."""
        for i in range(len(x)):
            row = self.rows[i] if i < len(self.rows) else None
            if row is not None:
                assert torch.equal(x[i], self.choices[row[0]].x[row[1]] * factor), (i, row)
            elif zero:
                assert not x[i].any()

    def results_of(self, x):
        """What experts make of the rows; sums of it are exact, and padding must not be read."""
        out = x.new_full(x.shape, float("nan"))
        for i, e in enumerate(self.own):
            if e is not None:
                out[i] = x[i] * (e + self.first + 1)
        return out

    def compare_weights(self, weights, ids):
        for i in range(len(weights)):
            row = self.rows[i] if i < len(self.rows) else None
            assert int(ids[i]) == (-1 if row is None else self.own[i])
            assert float(weights[i]) == (
                0 if row is None else float(self.choices[row[0]].weights[row[1], row[2]]))


def expanded(group):
    rank, size = group.rank(), group.size()
    hidden, top, most = 16, 3, 7
    buffer = EPBuffer(group, num_max_tokens_per_rank=most, explicitly_destroy=True)
    # A number of experts that the ranks share unevenly; fewer than ranks: one owns none.
    for seed, count, alignment in ((1, 7, 4), (2, 7, 1), (3, 4, 8), (0, size - 1 or 3, 2)):
        choices = [Choice(member, seed, hidden, count, min(top, count)) for member in range(size)]
        mine, layout = choices[rank], Layout(choices, owner_of(count, size), rank, alignment)
        want = torch.zeros(mine.tokens, hidden)
        for token, chosen in enumerate(mine.idx.tolist()):
            for e in chosen:
                want[token] += mine.x[token] * (e + 1) if e >= 0 else 0
        for wait, zero in ((True, False), (True, True), (False, False), (False, True)):
            stats = torch.zeros(len(layout.ends), dtype=torch.int32)
            x, idx, weights, handle, _ = buffer.dispatch(
                mine.x, mine.idx, mine.weights, stats, num_experts=count, do_expand=True,
                expert_alignment=alignment, do_cpu_sync=wait, do_zero_padding=zero,
                emit_expert_ids=True)
            assert idx is None and handle.do_expand and stats.tolist() == layout.counts
            assert len(x) == len(weights) == len(handle.recv_expert_ids)
            assert len(x) == len(layout.rows) if wait else len(x) >= len(layout.rows)
            layout.compare(x, 1, zero)
            layout.compare_weights(weights, handle.recv_expert_ids)
            assert handle.psum_num_recv_tokens_per_expert.tolist() == layout.ends
            assert handle.num_unaligned_recv_tokens_per_expert.tolist() == layout.counts
            padded = [(n + alignment - 1) // alignment * alignment for n in layout.counts]
            assert handle.num_recv_tokens_per_expert_list == (padded if wait else [])
            y, back, _ = buffer.combine(layout.results_of(x), handle, topk_weights=weights)
            assert torch.equal(y, want)
            assert torch.equal(back, mine.weights.masked_fill(mine.idx < 0, 0))
            # The backward pass of combine.
            again, _, none, same, _ = buffer.dispatch(
                mine.x * 2, handle=handle, do_expand=True, do_zero_padding=zero)
            assert again.shape == x.shape and none is None and same is handle
            layout.compare(again, 2, zero)
            assert torch.equal(buffer.combine(layout.results_of(again), handle)[0], want * 2)
    x = torch.ones(1, hidden)
    one = {"num_experts": size, "do_expand": True}
    x8, _, _, handle, _ = buffer.dispatch(x, torch.zeros(1, 1).long(), **one)
    for words, call in (
            ("do_zero_padding is given without", lambda: buffer.dispatch(
                x, handle=handle, do_zero_padding=True)),
            ("do_expand is False, and in the dispatch of handle it was True",
             lambda: buffer.dispatch(x, handle=handle)),
            ("emit_expert_ids is given without do_expand",
             lambda: buffer.dispatch(x, handle=handle, emit_expert_ids=True)),
            (r"x has shape \(99, 16\)", lambda: buffer.combine(torch.ones(99, hidden), handle)),
            (r"topk_weights has shape \(99,\)",
             lambda: buffer.combine(x8, handle, torch.ones(99)))):
        with pytest.raises(weft.InvalidArgument, match=words):
            call()
    # Results of a token at one rank are added before they are rounded.
    if size == 1:
        mine = torch.tensor([[0, 1, 2]])
        x = torch.ones(1, hidden, dtype=torch.bfloat16)
        rows, _, _, handle, _ = buffer.dispatch(x, mine, num_experts=3, do_expand=True)
        parts = torch.tensor([[256.0], [1.0], [1.0]]).expand(3, hidden).bfloat16()
        assert (buffer.combine(parts, handle)[0] == 258).all()
        # A token that names an expert twice has two rows of it.
        rows, _, weights, handle, _ = buffer.dispatch(
            x, torch.tensor([[1, 0, 1]]), torch.tensor([[1.0, 2, 4]]), num_experts=3,
            do_expand=True)
        assert weights.tolist() == [2, 1, 4]
        assert handle.num_recv_tokens_per_expert_list == [1, 2, 0]
        assert (buffer.combine(rows, handle)[0] == 3).all()
    buffer.destroy()


@pytest.mark.parametrize("size", [1, 3])
def test_expanded(tmp_path, size):
    at_ranks(size, tmp_path, expanded)


def expanded_fp8(group):
    rank, size = group.rank(), group.size()
    hidden, count, top = 256, 4, 2
    buffer = ElasticBuffer(group)
    choices = [Choice(member, 5, hidden, count, top) for member in range(size)]
    mine = choices[rank]
    scales = mine.x[:, :2] + 0.5
    rows = Layout(choices, owner_of(count, size), rank, 4).rows
    (values, factors), _, _, handle, _ = buffer.dispatch(
        (mine.x.to(torch.float8_e4m3fn), scales), mine.idx, num_experts=count, do_expand=True,
        expert_alignment=4, do_zero_padding=True)
    assert values.dtype == torch.float8_e4m3fn and len(values) == len(factors) == len(rows)
    for i, row in enumerate(rows):
        want = torch.zeros(hidden) if row is None else choices[row[0]].x[row[1]]
        assert torch.equal(values[i].float(), want)
        assert torch.equal(factors[i], torch.zeros(2) if row is None else want[:2] + 0.5)
    y = buffer.combine(values.bfloat16(), handle)[0]
    assert torch.equal(y.float(), mine.x * (mine.idx >= 0).sum(1, keepdim=True))
    buffer.destroy()


if HAS_FP8:

    def test_expanded_fp8(tmp_path):
        at_ranks(2, tmp_path, expanded_fp8)


def gradients(group):
    rank, size = group.rank(), group.size()
    buffer = Buffer(group)
    hidden, count, top = 4, 3, 2
    idx = torch.tensor([[0, 2], [1, -1], [2, 1]]) if rank == 0 else \
        torch.tensor([[2, 0], [-1, -1], [0, 1]])
    made = torch.Generator().manual_seed(rank)
    x = torch.randn(3, hidden, generator=made).requires_grad_()
    weights = torch.rand(3, top, generator=made).requires_grad_()

    def layer(x, weights):
        rows, local, of_rows, handle = moe_dispatch(buffer, x, idx, weights, count)
        factors = (of_rows * (local + 2.0)).sum(1, keepdim=True)
        return moe_combine(buffer, rows * rows * factors, handle)

    # What a rank gets depends on its own tokens alone; experts are counted from each rank's first.
    firsts = [member * count // size for member in range(size)]
    owners = owner_of(count, size)
    want = torch.zeros(3, hidden)
    for token in range(3):
        for k, expert in enumerate(idx[token].tolist()):
            if expert >= 0:
                factor = weights[token, k] * (expert - firsts[owners[expert]] + 2.0)
                want[token] += (x[token] * x[token] * factor).detach()
    assert torch.allclose(layer(x, weights), want, rtol=1e-5)
    settings = {"eps": 1e-2, "atol": 2e-2, "rtol": 1e-2, "nondet_tol": 0.0}
    assert torch.autograd.gradcheck(layer, (x, weights), **settings)
    if size == 1:
        # Alone the calls have no gradients of other ranks.
        assert torch.autograd.gradcheck(
            lambda x, weights: moe_dispatch(buffer, x, idx, weights, count)[::2], (x, weights),
            **settings)
        rows, _, _, handle = moe_dispatch(buffer, x, idx, weights, count)
        assert torch.autograd.gradcheck(lambda rows: moe_combine(buffer, rows, handle),
                                        rows.detach().requires_grad_(), **settings)
    # The expanded layout gives the same, forward and backward.
    def expanded_layer(x, weights):
        rows, own, of_rows, handle = moe_dispatch(buffer, x, idx, weights, count, 4)
        assert len(rows) % 4 == 0 and not rows[own < 0].any() and not of_rows[own < 0].any()
        rows.register_hook(lambda of_rows: grads.append(of_rows))
        results = rows * rows * (of_rows * (own + 2.0))[:, None]
        results.register_hook(lambda of_rows: padding.append(of_rows[own < 0]))
        return moe_combine(buffer, results, handle)

    grads, padding = [], []
    assert torch.allclose(expanded_layer(x, weights), want, rtol=1e-5)
    found = []
    for run in (layer, expanded_layer):
        x.grad = weights.grad = None
        (run(x, weights) * torch.arange(hidden)).sum().backward()
        found.append((x.grad, weights.grad))
    for plain, other in zip(*found):
        assert torch.allclose(plain, other, rtol=1e-5, atol=1e-6) and plain.any()
    assert len(grads) == len(padding) == 1 and not padding[0].any()
    x.grad = weights.grad = None
    # Against a serial layer of all ranks' tokens.
    rows, local, of_rows, handle = moe_dispatch(buffer, x, idx, weights, count)
    (rows.sum() * (rank + 1) + (of_rows * (local + 1)).sum()).backward()
    for token in range(3):
        chosen = {owners[e] for e in idx[token].tolist() if e >= 0}
        assert (x.grad[token] == sum(member + 1 for member in chosen)).all()
        for k, expert in enumerate(idx[token].tolist()):
            want = 0 if expert < 0 else expert - firsts[owners[expert]] + 1
            assert float(weights.grad[token, k]) == want
    buffer.destroy()


@pytest.mark.filterwarnings("ignore:.*double precision floating point")
@pytest.mark.parametrize("size", [1, 2])
def test_gradients(tmp_path, size):
    at_ranks(size, tmp_path, gradients)


def test_as_deep_ep(tmp_path):
    def body(group):
        other = sys.modules["deep_ep"] = types.ModuleType("deep_ep")
        other.__file__ = "/opt/deep_ep.py"
        with pytest.raises(weft.InvalidArgument, match="imported from /opt/deep_ep.py"):
            as_deep_ep()
        del sys.modules["deep_ep"]
        module = as_deep_ep()
        import importlib.util

        import deep_ep
        from deep_ep.utils import EventHandle
        assert deep_ep is module is as_deep_ep() and deep_ep.Buffer is Buffer
        assert importlib.util.find_spec("deep_ep") is not None
        assert deep_ep.topk_idx_t == topk_idx_t == torch.int64
        EventHandle().current_stream_wait()
        # As engines begin.
        hints = 0
        for config in (deep_ep.Buffer.get_dispatch_config(1), Buffer.get_combine_config(1)):
            assert isinstance(config, Config)
            hints = max(hints, config.get_nvl_buffer_size_hint(4096, 1),
                        config.get_rdma_buffer_size_hint(4096, 1))
        deep_ep.Buffer.set_num_sms(24)
        assert Buffer.num_sms == _exchange.Objects.sms == 24
        buffer = deep_ep.Buffer(group, 1024, hints, num_qps_per_rank=1)
        assert buffer.get_local_buffer_tensor(torch.float32, (8, 4), 64).shape == (8, 4)
        assert buffer.get_local_buffer_tensor(torch.int32).numel() == 256
        with torch.cuda.stream(buffer.get_comm_stream()), deep_ep.Buffer.capture():
            pass
        ran = []
        event = EventOverlap()
        event.register_hook_after_wait(lambda: ran.append(1))
        event.current_stream_wait()
        event.current_stream_wait()
        assert ran == [1]
        buffer.destroy()

    at_ranks(1, tmp_path, body)


def bad_input(group):
    buffer = Buffer(group)
    x, idx = torch.ones(2, 256, dtype=torch.bfloat16), torch.tensor([[0], [1]])
    weights = torch.ones(2, 1)
    experts = torch.zeros(2, dtype=torch.int32)
    given = {"num_tokens_per_expert": experts, "topk_idx": idx}
    handle = buffer.dispatch(x, **given)[4]
    latent = buffer.low_latency_dispatch(x, idx, 2, 2, use_fp8=False)
    pending = buffer.low_latency_dispatch(x, idx, 2, 2, use_fp8=False, return_recv_hook=True)
    blocks = latent[0]
    other, masking = Buffer(group), Buffer(group, enable_shrink=True)
    for kind, words, call in (
            (weft.InvalidArgument, "num_tokens_per_expert is missing",
             lambda: buffer.dispatch(x, topk_idx=idx)),
            (weft.InvalidArgument, r"topk_idx is None: give \[2, top\]",
             lambda: buffer.dispatch(x, num_tokens_per_expert=experts)),
            (weft.InvalidArgument, r"topk_idx is of shape \(1, 1\)",
             lambda: buffer.dispatch(x, num_tokens_per_expert=experts, topk_idx=idx[:1])),
            (weft.InvalidType, "topk_idx is of int32: int64",
             lambda: buffer.dispatch(x, num_tokens_per_expert=experts, topk_idx=idx.int())),
            (weft.InvalidArgument, "x is torch.float64 of shape",
             lambda: buffer.dispatch(x.double(), **given)),
            (weft.InvalidArgument, "a tensor is on meta, and kernels of this PE run on cpu",
             lambda: buffer.dispatch(x.to("meta"), **given)),
            (weft.InvalidArgument, "x is a tuple of 3",
             lambda: buffer.dispatch((x, x, x), **given)),
            (weft.InvalidArgument, "scales are torch.float64", lambda: buffer.dispatch(
                (x, weights.double()), **given)),
            (weft.OutOfRange, "names expert 6, and the experts are 0 to 1",
             lambda: buffer.dispatch(x, num_tokens_per_expert=experts, topk_idx=idx + 6)),
            (weft.OutOfRange, "2 rows were sent to PE 0, and rows is 1",
             lambda: buffer.dispatch(x, **given, num_worst_tokens=1)),
            (weft.InvalidArgument, "handle is given with topk_idx",
             lambda: buffer.dispatch(x, handle=handle, topk_idx=idx)),
            (weft.InvalidArgument, r"x has shape \(1, 256\), and the dispatch of handle had",
             lambda: buffer.dispatch(x[:1], handle=handle)),
            (weft.InvalidArgument, "handle is a tuple and not one of this buffer",
             lambda: buffer.combine(x, ())),
            (weft.InvalidArgument, "handle is a Handle and not one of this buffer",
             lambda: other.combine(x, handle)),
            (weft.InvalidType, "x is of torch.float32, and the results of this dispatch are of "
             "bfloat16", lambda: buffer.combine(x.float(), handle)),
            (weft.InvalidArgument, r"results has shape \(1, 256\)",
             lambda: buffer.combine(x[:1], handle)),
            (weft.InvalidArgument, r"bias has shape \(1, 256\)",
             lambda: buffer.combine(x, handle, bias=x[:1])),
            (weft.InvalidArgument, "at most 1 tokens",
             lambda: buffer.low_latency_dispatch(x, idx, 1, 2, use_fp8=False)),
            (weft.InvalidType, "x is torch.float32", lambda: buffer.low_latency_dispatch(
                x.float(), idx, 2, 2, use_fp8=False)),
            (weft.InvalidArgument, "use_ue8m0 needs", lambda: buffer.low_latency_dispatch(
                x, idx, 2, 2, use_ue8m0=True)),
            (weft.InvalidArgument, "choose one", lambda: buffer.low_latency_dispatch(
                x, idx, 2, 2, use_fp8=False, async_finish=True, return_recv_hook=True)),
            (weft.Unsupported, "dispatch_wait_recv_cost_stats", lambda: buffer.low_latency_dispatch(
                x, idx, 2, 2, dispatch_wait_recv_cost_stats=x)),
            (weft.Unsupported, "use_logfmt", lambda: buffer.low_latency_combine(
                blocks, idx, weights, latent[2], use_logfmt=True)),
            (weft.InvalidArgument, r"x is torch.bfloat16 of shape \(2, 256\)",
             lambda: buffer.low_latency_combine(x, idx, weights, latent[2])),
            (weft.InvalidArgument, "topk_weights", lambda: buffer.low_latency_combine(
                blocks, idx, weights[:1], latent[2])),
            (weft.InvalidArgument, "call the hook", lambda: buffer.low_latency_combine(
                blocks, idx, weights, pending[2])),
            (weft.InvalidArgument, "handle is a Handle: pass", lambda: buffer.low_latency_combine(
                blocks, idx, weights, handle)),
            (weft.Unsupported, "rank 0 cannot be masked",
             lambda: buffer.low_latency_update_mask_buffer(0, True)),
            (weft.InvalidArgument, "rank_to_mask is 1: the ranks are 0 to 0",
             lambda: masking.low_latency_update_mask_buffer(1, True)),
            (weft.InvalidArgument, "neither group nor comm", lambda: Buffer(None)),
            (weft.InvalidArgument, "give an even number", lambda: Buffer.set_num_sms(3))):
        with pytest.raises(kind, match=words):
            call()
    pending[4]()
    x3 = torch.ones(3, 256, dtype=torch.bfloat16)
    idx3 = torch.tensor([[0], [1], [1]])
    buffer.dispatch(x, **given, num_worst_tokens=2)
    with pytest.raises(weft.InvalidArgument, match="3 tokens, and the members agreed on 2 with"):
        buffer.dispatch(x3, num_tokens_per_expert=experts, topk_idx=idx3, num_worst_tokens=2)
    if not HAS_FP8:
        with pytest.raises(weft.Unsupported, match="has no float8_e4m3fn: pass use_fp8=False"):
            buffer.low_latency_dispatch(x, idx, 2, 2)
    # Nothing that failed has left anything behind.
    assert torch.equal(buffer.combine(buffer.dispatch(x, **given)[0], handle)[0], x)
    y = buffer.low_latency_combine(blocks, idx, weights, latent[2])[0]
    assert torch.equal(y, x)
    buffer.destroy()
    with pytest.raises(weft.InvalidArgument, match="the buffer has been destroyed"):
        buffer.dispatch(x, **given)
    with pytest.raises(weft.OutOfMemory, match="no memory for dispatch and combine of 8388608 "
                                               "tokens of 256 bfloat16.*Raise WEFT_HEAP_SIZE"):
        many = torch.empty(1, 256, dtype=torch.bfloat16).expand(1 << 23, 256)
        other._exchange._objects((256, 2, 1, "bfloat16"), len(many), 0, 0).get("bfloat16", 0)
    other.destroy()
    masking.destroy()


def test_bad_input(tmp_path):
    at_ranks(1, tmp_path, bad_input)


def differ(group):
    buffer = Buffer(group)
    x = torch.ones(2, 8 * (group.rank() + 1))
    with pytest.raises(weft.Mismatch, match=f"rank {group.rank()} calls dispatch with .* elements"):
        dispatch_of(buffer, x, torch.zeros(2, 1, dtype=torch.int64), 2)
    dispatch_of(buffer, x[:, :8].contiguous(), torch.zeros(2, 1, dtype=torch.int64), 2)
    buffer.destroy()


def test_ranks_that_differ(tmp_path):
    at_ranks(2, tmp_path, differ)
