# SPDX-License-Identifier: Apache-2.0
"""Dispatch and combine of experts, compared with loops over the tokens of all PEs."""

import numpy
import pytest

import weft

TYPES = ["float32", "float16"]


class Choice:
    """Tokens and experts of one PE, which every PE can compute."""

    def __init__(self, rank, seed, hidden, experts, top, dtype):
        random = numpy.random.default_rng([seed, rank])
        self.tokens = int(random.integers(0, 9)) if rank else 8
        self.x = random.standard_normal((self.tokens, hidden)).astype(dtype)
        self.idx = numpy.array([random.permutation(experts)[:top] for _ in range(self.tokens)],
                               dtype="int64").reshape(self.tokens, top)
        self.idx[random.random(self.idx.shape) < 0.2] = -1
        self.weights = random.random((self.tokens, top)).astype("float32")
        self.scales = random.random((self.tokens, 4)).astype("float32")


def owners(experts, size):
    firsts = [member * experts // size for member in range(size + 1)]
    return list(zip(firsts, firsts[1:]))


def rows_of(choices, first, end):
    """Yields (member, token) of each row that the owner of these experts receives."""
    for member, choice in enumerate(choices):
        for token in range(choice.tokens):
            if any(first <= expert < end for expert in choice.idx[token]):
                yield member, token


def compare(job, seed, dtype, like=lambda array: array, back=lambda array: array, stream=None):
    hidden, count, top = 24, 7, 3
    choices = [Choice(rank, seed, hidden, count, top, dtype) for rank in range(job.size)]
    mine = choices[job.rank]
    first, end = owners(count, job.size)[job.rank]
    with job.experts(8, hidden, count, top, dtype=dtype, result_dtype="float32",
                     scales=4) as experts:
        assert (experts.first, experts.own) == (first, end - first)
        rows = experts.dispatch(like(mine.x), like(mine.idx), like(mine.weights),
                                scales=like(mine.scales))
        wanted = list(rows_of(choices, first, end))
        assert rows.n == len(wanted) == int(rows.n_rows[0])
        tokens = numpy.zeros(end - first, dtype="int64")
        for row, (member, token) in enumerate(wanted):
            theirs = choices[member]
            idx = theirs.idx[token] - first
            own = (idx >= 0) & (idx < end - first)
            assert (back(rows.x[row]) == theirs.x[token]).all()
            assert (back(rows.scales[row]) == theirs.scales[token]).all()
            assert (back(rows.topk_idx[row]) == numpy.where(own, idx, -1)).all()
            weights = numpy.where(own, theirs.weights[token], 0)
            assert (back(rows.topk_weights[row]) == weights).all()
            numpy.add.at(tokens, idx[own], 1)
        assert (back(rows.n_tokens) == tokens).all()
        # Every PE's result is the token times its rank + 1.
        results = back(rows.x).astype("float32") * (job.rank + 1)
        y, weights = experts.combine(like(results), rows, weights=rows.topk_weights)
        for token in range(mine.tokens):
            total = numpy.zeros(hidden, dtype="float32")
            for rank, (begin, stop) in enumerate(owners(count, job.size)):
                if any(begin <= expert < stop for expert in mine.idx[token]):
                    total += mine.x[token].astype("float32") * numpy.float32(rank + 1)
            assert (back(y[token]) == total).all()
        assert (back(weights) == numpy.where(mine.idx < 0, 0, mine.weights)).all()
        # Other values for the same experts, and rows in place.
        again = experts.dispatch(like(mine.x * 2), rows, scales=like(mine.scales), in_place=True)
        assert again.n == rows.n and again.topk_idx is rows.topk_idx
        for row, (member, token) in enumerate(wanted):
            assert (numpy.asarray(again.x[row]) == choices[member].x[token] * 2).all()
        out = like(numpy.ones((mine.tokens, hidden), dtype="float32"))
        assert experts.combine(like(results), again, out=out) is out
        assert (back(out) == back(y)).all()
        del again


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1, 3])
def test_numpy(size, dtype):
    def at_pe(job):
        for seed in range(5):
            compare(job, seed, dtype)

    weft.spawn(at_pe, size)


def test_team():
    def at_pe(job):
        team = None
        for start in (0, 1):
            made = job.split(start, 2, 2)
            team = made or team
        with team.experts(2, 4, 2, 1, dtype="float32") as experts:
            x = numpy.full((2, 4), job.rank + 1, dtype="float32")
            rows = experts.dispatch(x, numpy.array([[0], [1]]))
            assert sorted(rows.x[:, 0]) == [job.rank % 2 + 1, job.rank % 2 + 3]
            assert (experts.combine(rows.x * 2, rows) == x * 2).all()

    weft.spawn(at_pe, 4)


@pytest.mark.parametrize("stream", [None, 0])
def test_halves(stream):
    """Two objects' operations are in progress at the same time, and end in another order."""
    def at_pe(job):
        x = numpy.arange(12, dtype="float32").reshape(3, 4) + 100 * job.rank
        idx = numpy.array([[0, 1], [-1, 0], [-1, -1]])
        two = [job.experts(3, 4, 2, 2, dtype="float32") for _ in range(2)]
        sent = [experts.dispatch_send(x * (i + 1), idx, stream=stream)
                for i, experts in enumerate(two)]
        for i in (1, 0):
            rows = two[i].dispatch_receive(sent[i], stream=stream, capacity=5)
            assert rows is sent[i] and len(rows.x) == (5 if stream == 0 else rows.n)
        for experts, rows in zip(two, sent):
            experts.combine_send(rows.x, rows, stream=stream)
        raises(weft.InvalidArgument, "a combine is in flight", two[0].dispatch_send, x,
               idx, stream=stream)
        out = [two[i].combine_receive(sent[i], stream=stream) for i in (1, 0)]
        for experts in two:
            rows = experts.dispatch(x, idx)  # waits for the stream
            again = experts.dispatch(x * 3, rows, stream=stream)
            assert again.n == rows.n == len(again.x)
            experts.combine(again.x, again)
            assert (again.x == rows.x * 3).all()
        assert (out[1] == x * [[2], [1], [0]]).all() and (out[0] == 2 * out[1]).all()

    weft.spawn(at_pe, 2)


def test_rows_of_a_stream_are_worst_case():
    def at_pe(job):
        with job.experts(3, 4, 2, 2, dtype="float32") as experts:
            x = numpy.arange(12, dtype="float32").reshape(3, 4)
            idx = numpy.array([[0, 1], [-1, 0], [-1, -1]])
            rows = experts.dispatch(x, idx, stream=0)
            y = experts.combine(rows.x, rows, stream=0)
            experts.combine(rows.x, rows)  # waits for the stream
            assert rows.n is None and rows.x.shape == (6, 4) and rows.topk_idx.shape == (6, 2)
            assert int(rows.n_rows[0]) == (4 if job.rank == 0 else 2)
            assert (y == x * [[2], [1], [0]]).all()
            experts.check()

    weft.spawn(at_pe, 2)


def raises(kind, words, call, *args, **named):
    with pytest.raises(kind) as caught:
        call(*args, **named)
    assert words in str(caught.value), str(caught.value)


def test_bad_input():
    def at_pe(job):
        for words, kind, given in (
                ("top is 3; from 1 to 2 are allowed", weft.InvalidArgument, (2, 4, 2, 3)),
                ("hidden is 3; tokens of 12", weft.InvalidArgument, (2, 3, 2, 1)),
                ("tokens is -1: a number from 0", weft.InvalidArgument, (-1, 4, 2, 1))):
            raises(kind, words, job.experts, *given, dtype="float32")
        raises(weft.InvalidArgument, "type 2; use WEFT_BFLOAT16", job.experts, 2, 4, 2, 1,
               dtype="int32")
        experts = job.experts(2, 4, 2, 1, dtype="float32")
        x, idx = numpy.ones((2, 4), dtype="float32"), numpy.zeros((2, 1), dtype="int64")
        wide = numpy.ones((2, 8), dtype="float32")
        for words, kind, given, named in (
                ("x has shape (2, 8): (2, 4) is needed", weft.InvalidArgument, (wide, idx), {}),
                ("is not contiguous", weft.InvalidArgument, (wide[:, ::2], idx), {}),
                ("x is of float64: float32 is needed", weft.InvalidType, (x.astype("f8"), idx), {}),
                ("topk_idx is of int32: int64", weft.InvalidType, (x, idx.astype("i4")), {}),
                ("topk_idx has shape (1, 1): (2, 1)", weft.InvalidArgument, (x, idx[:1]), {}),
                ("topk_weights is of float64", weft.InvalidType, (x, idx, numpy.ones((2, 1))), {}),
                ("scales is given, and the object has none", weft.InvalidArgument, (x, idx),
                 {"scales": x}),
                ("3 tokens, and the object was created for 2", weft.InvalidArgument,
                 (numpy.ones((3, 4), dtype="float32"), numpy.zeros((3, 1), dtype="int64")), {})):
            raises(kind, words, experts.dispatch, *given, **named)
        raises(weft.OutOfRange, "topk_idx of token 1 names expert 2, and the experts are 0 to 1",
               experts.dispatch, x, numpy.array([[0], [2]]))
        rows = experts.dispatch(x, idx)
        raises(weft.InvalidArgument, f"results has shape ({rows.n}, 8): ({rows.n}, 4) is needed",
               experts.combine, wide[:rows.n], rows)
        raises(weft.InvalidArgument, "topk_weights is not sent with a known layout",
               experts.dispatch, x, rows, x)
        assert (experts.combine(rows.x, rows) == x).all()
        experts.destroy()
        raises(weft.InvalidArgument, "the experts object has been destroyed", experts.dispatch, x,
               idx)
        few = job.experts(2, 4, 2, 1, dtype="float32", rows=1)
        raises(weft.OutOfRange, "2 rows were sent to PE 0, and rows is 1", few.dispatch, x, idx)

    weft.spawn(at_pe, 1)
