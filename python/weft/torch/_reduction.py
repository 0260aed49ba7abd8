# SPDX-License-Identifier: Apache-2.0
"""Reductions: torch's operators as those of the C library."""

import ctypes
from importlib import import_module
from typing import Any, Dict, Optional, Tuple

from .. import _bindings as b
from .._dtypes import dtype_of
from .._library import calls
from ..errors import InvalidOperation
from ._work import same_type

torch: Any = import_module("torch")
_ReduceOp: Any = torch.distributed.ReduceOp

_CODES = {"SUM": b.WEFT_SUM, "AVG": b.WEFT_AVG, "PRODUCT": b.WEFT_PROD, "MIN": b.WEFT_MIN,
          "MAX": b.WEFT_MAX, "BAND": b.WEFT_AND, "BOR": b.WEFT_OR, "BXOR": b.WEFT_XOR}
# Of False and True as bytes 0 and 1, of which the result is 0 or 1.
_OF_BOOL = {"SUM": b.WEFT_MAX, "PRODUCT": b.WEFT_MIN, "MIN": b.WEFT_MIN, "MAX": b.WEFT_MAX,
            "BAND": b.WEFT_AND, "BOR": b.WEFT_OR, "BXOR": b.WEFT_XOR}


class Reduction:
    """An operator of torch for elements of one type.

    itemsize: bytes of an element of which `count()` counts; name: torch's.
    """

    def __init__(self, op: Any, tensor: Any) -> None:
        """op: a ReduceOp; tensor: what is reduced. Raises InvalidOperation and InvalidType."""
        found = tensor.dtype
        dtype = dtype_of(found)
        self._type, self.itemsize = dtype.weft, dtype.itemsize
        self.plain = True  # without a factor
        self._operator = 0  # the C library's operator, or the address of the factor
        self._kept: Any = None
        if op == getattr(_ReduceOp, "PREMUL_SUM", None):
            self.name = "PREMUL_SUM"
            if not (found.is_floating_point or found.is_complex):
                raise InvalidOperation(f"PREMUL_SUM of {found}: it multiplies by a factor, and is "
                                       "for real and complex types: convert the tensor")
            state = op.__getstate__()
            if not isinstance(state, tuple):
                raise InvalidOperation(f"PREMUL_SUM: torch {torch.__version__} does not tell a "
                                       "group the factor; multiply the tensor, or use torch 2")
            self.plain = False
            self._set_factor(state[1], tensor, found)
            self._find_calls("_weighted")
            return
        name = next((name for name in _CODES if op == getattr(_ReduceOp, name)), None)
        if name is None:
            raise InvalidOperation(f"reduction {op}: the group \"weft\" has {', '.join(_CODES)} "
                                   "and PREMUL_SUM")
        self.name, self._operator = name, _CODES[name]
        if found == torch.bool:
            if name not in _OF_BOOL:
                raise InvalidOperation(f"{name} of torch.bool: convert the tensor to a type of "
                                       "numbers")
            self._operator = _OF_BOOL[name]
        self._find_calls("")

    def _find_calls(self, kind: str) -> None:
        self._all = getattr(calls, "allreduce" + kind)
        self._all_on_stream = getattr(calls, f"allreduce{kind}_on_stream")
        self._one = getattr(calls, "reduce" + kind)
        self._one_on_stream = getattr(calls, f"reduce{kind}_on_stream")
        self._scatter = getattr(calls, "reducescatter" + kind)
        self._scatter_on_stream = getattr(calls, f"reducescatter{kind}_on_stream")

    def _set_factor(self, factor: Any, tensor: Any, found: Any) -> None:
        """factor: a number, or a tensor of one element."""
        wide = found in (torch.float64, torch.complex128)
        if torch.is_tensor(factor) and factor.is_cuda and tensor.is_cuda:
            self._kept = factor.to(tensor.device, torch.float64 if wide else torch.float32)
            self._operator = self._kept.data_ptr()
            return
        self._kept = (ctypes.c_double if wide else ctypes.c_float)(float(factor))
        self._operator = ctypes.addressof(self._kept)

    def count(self, nbytes: int) -> int:
        """Returns the elements in that many bytes."""
        return nbytes // self.itemsize

    def all(self, team: Any, dst: int, src: int, count: int, stream: Optional[int] = None) -> int:
        """Reduces to all members. stream: None: the host does. Returns the status."""
        if stream is None:
            status: int = self._all(team, dst, src, count, self._type, self._operator)
        else:
            status = self._all_on_stream(team, dst, src, count, self._type, self._operator, stream)
        return status

    def one(self, team: Any, dst: int, src: int, count: int, root: int,
            stream: Optional[int] = None) -> int:
        """Reduces to the root."""
        if stream is None:
            status: int = self._one(team, dst, src, count, self._type, self._operator, root)
        else:
            status = self._one_on_stream(team, dst, src, count, self._type, self._operator, root,
                                         stream)
        return status

    def scatter(self, team: Any, dst: int, src: int, count: int,
                stream: Optional[int] = None) -> int:
        """Reduces part r, of `count` elements, to member r."""
        if stream is None:
            status: int = self._scatter(team, dst, src, count, self._type, self._operator)
        else:
            status = self._scatter_on_stream(team, dst, src, count, self._type, self._operator,
                                             stream)
        return status


_made: Dict[Tuple[int, Any], Reduction] = {}  # by torch's number of the operator, and type


def reduction_of(op: Any, tensor: Any, *others: Any) -> Reduction:
    """Returns the reduction by an operator of torch of tensors of one type."""
    number, found = hash(op), tensor.dtype
    if others or tensor.is_sparse:
        same_type([tensor, *others])
    known = _made.get((number, found))
    if known is None:
        known = Reduction(op, tensor)
        if known.plain:
            _made[number, found] = known
    return known
