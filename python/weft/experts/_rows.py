# SPDX-License-Identifier: Apache-2.0
"""Rows into the blocks of their experts and back, and sums with weights: by kernels of Triton on
GPU tensors, where triton is installed, else by operations of torch."""

from importlib import import_module
from typing import Any

torch: Any = import_module("torch")

_found: Any = None


def _kernels(tensor: Any) -> Any:
    """Returns the module of kernels, or None: operations of torch are used."""
    global _found
    if not tensor.is_cuda:
        return None
    if _found is None:
        try:
            _found = import_module("._kernels", __package__)
        except ImportError:
            _found = False
    return _found or None


def _words(x: Any) -> Any:
    """Returns rows, whose bytes are a multiple of 16, as rows of int32."""
    return x.view(torch.int32)


def scatter(to: Any, places: Any, source: Any, n_rows: Any) -> None:
    """Copies row i of source to row places[i] of `to`, for i below n_rows[0]. places of other rows
    are the last row of `to`, which may get any of them."""
    kernels = _kernels(to)
    if kernels is not None:
        kernels.scatter(_words(to), places, _words(source), n_rows)
    else:
        _words(to).index_copy_(0, places, _words(source))


def gather(source: Any, places: Any, n_rows: Any) -> Any:
    """Returns rows of which row i is row places[i] of source, for i below n_rows[0]. Other rows are
    of any contents."""
    kernels = _kernels(source)
    if kernels is None:
        return source.index_select(0, places.clamp(max=len(source) - 1))
    to = torch.empty(len(places), source.shape[1], dtype=source.dtype, device=source.device)
    kernels.gather(_words(to), _words(source), places, n_rows)
    return to


def weigh(out: Any, results: Any, weights: Any, idx: Any) -> None:
    """Sets out[t] to the sum over k of weights[t, k] * results[t * top + k], in binary32, where
    idx[t, k] is not negative."""
    kernels = _kernels(out)
    if kernels is not None and out.is_contiguous():
        kernels.weigh(out, results, weights.contiguous(), idx.contiguous())
        return
    weights = weights.masked_fill(idx < 0, 0)
    total = torch.zeros(out.shape, device=out.device)
    for k in range(idx.shape[1]):
        total.addcmul_(results[k::idx.shape[1]].float(), weights[:, k:k + 1])
    out.copy_(total)
