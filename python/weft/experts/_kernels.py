# SPDX-License-Identifier: Apache-2.0
"""The operations of _rows.py on GPU tensors, in Triton: their cost is that of the rows in use,
whose number the host does not know. Importing it raises ImportError where there is no triton."""

from typing import Any

import triton
import triton.language as tl

_PROGRAMS = 528  # that share the rows
_COLUMNS = 1024  # that a program copies at a time


@triton.jit
def _scatter(to, places, source, n_rows, WORDS: tl.constexpr, COLUMNS: tl.constexpr):
    row, n = tl.program_id(0).to(tl.int64), tl.load(n_rows)
    while row < n:
        place = tl.load(places + row)
        for begin in range(0, WORDS, COLUMNS):
            at = begin + tl.arange(0, COLUMNS)
            values = tl.load(source + row * WORDS + at, at < WORDS)
            tl.store(to + place * WORDS + at, values, at < WORDS)
        row += tl.num_programs(0)


@triton.jit
def _gather(to, source, places, n_rows, WORDS: tl.constexpr, COLUMNS: tl.constexpr):
    row, n = tl.program_id(0).to(tl.int64), tl.load(n_rows)
    while row < n:
        place = tl.load(places + row)
        for begin in range(0, WORDS, COLUMNS):
            at = begin + tl.arange(0, COLUMNS)
            values = tl.load(source + place * WORDS + at, at < WORDS)
            tl.store(to + row * WORDS + at, values, at < WORDS)
        row += tl.num_programs(0)


@triton.jit
def _weigh(out, results, weights, idx, hidden, TOP: tl.constexpr, COLUMNS: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for k in tl.static_range(TOP):
        choice = token * TOP + k
        weight = tl.where(tl.load(idx + choice) < 0, 0.0, tl.load(weights + choice))
        total += weight * tl.load(results + choice * hidden + at, at < hidden).to(tl.float32)
    tl.store(out + token * hidden + at, total.to(out.dtype.element_ty), at < hidden)


def scatter(to: Any, places: Any, source: Any, n_rows: Any) -> None:
    """As _rows.scatter()."""
    _scatter[(min(_PROGRAMS, len(source)),)](to, places, source, n_rows, WORDS=to.shape[1],
                                             COLUMNS=_COLUMNS)


def gather(to: Any, source: Any, places: Any, n_rows: Any) -> None:
    """As _rows.gather()."""
    _gather[(min(_PROGRAMS, len(to)),)](to, source, places, n_rows, WORDS=to.shape[1],
                                        COLUMNS=_COLUMNS)


def weigh(out: Any, results: Any, weights: Any, idx: Any) -> None:
    """As _rows.weigh()."""
    if len(out):
        _weigh[(len(out), triton.cdiv(out.shape[1], _COLUMNS))](
            out, results, weights, idx, out.shape[1], TOP=idx.shape[1], COLUMNS=_COLUMNS)
