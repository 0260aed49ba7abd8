# SPDX-License-Identifier: Apache-2.0
"""Dispatch and combine in a group: objects of the sizes that calls need, and the calls."""

import weakref
import zlib
from importlib import import_module
from typing import Any, Dict, List, Optional, Tuple

from .._dtypes import dtype_of
from .._experts import Experts, Received
from .._library import calls, check
from ..errors import InvalidArgument, InvalidType, Mismatch, OutOfMemory
from . import _scales
from ._event import EventOverlap, Transfer
from ._expand import Expanded
from ._members import Members, members_of

torch: Any = import_module("torch")

_RESULTS = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32",
            "float8_e4m3fn": "bfloat16", "float8_e5m2": "bfloat16"}


class Objects:
    """Experts objects of one size, made when they are first needed: one for each type of tokens and
    limit of SMs. The layout of a dispatch by one is valid for all."""

    sms = 0  # of objects made from now on, as in job.experts()

    def __init__(self, members: Members, hidden: int, experts: int, top: int, tokens: int,
                 rows: int, result: str) -> None:
        self.members, self.hidden, self.experts, self.top = members, hidden, experts, top
        self.tokens, self.rows, self.result = tokens, rows, result
        self.handles: "weakref.WeakSet[Handle]" = weakref.WeakSet()
        self.permanent = False  # until destroy(): a CUDA graph uses them
        self._made: Dict[Tuple[Any, ...], Experts] = {}

    def get(self, dtype: Any, scales: int) -> Experts:
        """Returns the object for tokens of this type. Collective when it is made."""
        members = self.members
        self.permanent = self.permanent or members.capturing()
        key = (dtype, scales, Objects.sms)
        if key not in self._made:
            members.check_not_capturing()
            members.settle()
            try:
                self._made[key] = members.job.experts(
                    max(self.tokens, 1), self.hidden, self.experts, self.top, dtype=dtype,
                    result_dtype=self.result, rows=self.rows, scales=scales, sms=key[2])
            except OutOfMemory as error:
                raise OutOfMemory(f"no memory for dispatch and combine of {self.tokens} tokens of "
                                  f"{self.hidden} {dtype}, {self.experts} experts, top {self.top}: "
                                  f"{error}. Raise WEFT_HEAP_SIZE, or num_nvl_bytes of the Buffer, "
                                  "or send fewer tokens in a call") from None
        return self._made[key]

    def all(self) -> List[Experts]:
        """The objects that have been made."""
        return list(self._made.values())

    def destroy(self) -> None:
        """Collective."""
        made, self._made = self._made, {}
        for experts in made.values():
            experts.destroy()


class Handle:
    """The layout of a dispatch, for combine() and for further dispatches of tokens with the same
    experts. expanded: how received rows are laid out for the program; None: as they came."""

    def __init__(self, exchange: "Exchange", objects: Objects, experts: Experts, rows: Received,
                 worst: int, expanded: Optional[Expanded] = None) -> None:
        self.exchange, self.objects, self.rows, self.worst = exchange, objects, rows, worst
        self._experts, self.expanded = experts, expanded
        objects.handles.add(self)

    def __repr__(self) -> str:
        return f"weft.experts.Handle({self.rows})"


class Exchange:
    """Dispatch and combine of one buffer. nbytes: of the heap, at least."""

    def __init__(self, group: Any, comm: Any, nbytes: int) -> None:
        self.members = members_of(group, comm, nbytes)
        self.rank, self.size = self.members.rank, self.members.size
        self._destroyed = False
        self._current: Dict[Tuple[Any, ...], Objects] = {}
        # With the tokens on which members agreed for a num_worst_tokens.
        self._worst: Dict[Tuple[Any, ...], Tuple[Objects, int]] = {}
        self._all: List[Objects] = []

    @property
    def comm(self) -> Any:
        """The communication stream; None: on CPU tensors."""
        return self.members.comm

    def require(self) -> "Exchange":
        """Raises InvalidArgument after destroy()."""
        if self._destroyed:
            raise InvalidArgument("the buffer has been destroyed: make another one")
        return self

    # ---------------------------------------------------------------------------- objects

    def add(self, *sizes: Any) -> Objects:
        """Makes objects of that size."""
        self._all.append(Objects(self.members, *sizes))
        return self._all[-1]

    def _objects(self, key: Tuple[Any, ...], tokens: int, most: int, worst: int) -> Objects:
        """Returns objects with memory for the tokens of every member.

        key: hidden, experts, top, results' type; most: tokens of a member, the same everywhere, or
        0: the members agree; worst: rows of the result, or 0.
        """
        if worst and not most and key + (worst,) in self._worst:
            found, most = self._worst[key + (worst,)]
            self._check_number(tokens, most, f"the members agreed on {most} with num_worst_tokens="
                               f"{worst}: pass another one, by which they agree again")
            return found
        if most:
            self._check_number(tokens, most, f"num_max_tokens_per_rank is {most}: raise it")
        else:
            most = max(worst // self.size, self._agree_on_tokens(key + (worst,), tokens))
        # Fewer rows than could come are a limit, which the kernels watch.
        rows = worst if worst < most * self.size else 0
        current = self._current.get(key + (rows,))
        if current is None or current.tokens < most:
            self.members.check_not_capturing()
            self._worst = {k: v for k, v in self._worst.items() if v[0] is not current}
            self._current.pop(key + (rows,), None)
            self._free_unused()
            current = self._current[key + (rows,)] = self.add(*key[:3], most, rows, key[3])
        if worst:
            self._worst[key + (worst,)] = current, most
        return current

    @staticmethod
    def _check_number(tokens: int, most: int, words: str) -> None:
        if tokens > most:
            raise InvalidArgument(f"{tokens} tokens, and {words}")

    def _agree_on_tokens(self, key: Tuple[Any, ...], tokens: int) -> int:
        """Returns the largest number of tokens of the members, which call with the same key."""
        self.members.check_not_capturing()
        kind = zlib.crc32(repr(key).encode())
        most, largest, negative = self.members.agree(tokens, kind, -kind)
        if largest != -negative:
            hidden, experts, top, result, worst = key
            raise Mismatch(f"rank {self.rank} calls dispatch with {hidden} elements of a token, "
                           f"{experts} experts, top {top}, results of {result} and "
                           f"num_worst_tokens={worst}, and another rank with others")
        return most

    def _free_unused(self) -> None:
        """Frees objects that were too small, if no member has a handle of theirs. Collective."""
        in_use = {id(objects) for objects in self._current.values()}
        for objects in list(self._all):
            if id(objects) not in in_use and self.members.agree(
                    objects.permanent or len(objects.handles) > 0)[0] == 0:
                self.members.settle()
                objects.destroy()
                self._all.remove(objects)

    def nbytes(self) -> int:
        """Bytes of symmetric memory that the objects have here."""
        return sum(experts.nbytes for objects in self._all for experts in objects.all())

    def check(self) -> None:
        """Waits, and raises OutOfRange for the first error that kernels found."""
        self.members.settle()
        for objects in self._all:
            for experts in objects.all():
                experts.check()

    def destroy(self) -> None:
        """Frees the memory and ends the job. Collective."""
        self.require()
        self.members.settle()
        self._destroyed = True
        fault: Optional[Exception] = None
        for objects in self._all:
            for experts in objects.all():
                try:
                    experts.check()
                except Exception as error:
                    fault = fault or error
            objects.destroy()
        self._all.clear()
        self.members.leave()
        if fault is not None:
            raise fault

    # ---------------------------------------------------------------- dispatch and combine

    def dispatch(self, x: Any, topk_idx: Any, topk_weights: Any, experts: int, worst: int,
                 previous: Any, is_async: bool, most: int = 0, alignment: int = 0,
                 zero: bool = False) -> Tuple[Any, Handle, EventOverlap]:
        """Returns received tokens, their layout and the event. worst: 0: the host waits for the
        number of rows; otherwise that of the received ones; most: tokens of a member, if that is
        known; alignment: of each expert's rows in the expanded layout; 0: tokens are as they came;
        zero: its padding is 0."""
        values, scales = _scales.split(x)
        self._check_tokens(values)
        if topk_idx is None or topk_idx.dim() != 2 or topk_idx.shape[0] != values.shape[0]:
            raise InvalidArgument(f"topk_idx is {'None' if topk_idx is None else 'of shape '}"
                                  f"{'' if topk_idx is None else tuple(topk_idx.shape)}: give "
                                  f"[{values.shape[0]}, top], the experts of each token")
        tokens, hidden = values.shape
        name = dtype_of(values.dtype).name
        objects = self._objects((hidden, experts, topk_idx.shape[1], _RESULTS[name]), tokens, most,
                                worst)
        made = objects.get(name, scales.n_sent)
        with Transfer(self.comm, previous, is_async) as transfer:
            stream = transfer.stream if worst else None
            transfer.keep(values, topk_idx, topk_weights, scales.given)
            rows = made.dispatch(_contiguous(values), topk_idx.contiguous(),
                                 _contiguous(topk_weights), scales=scales.to_send(),
                                 stream=stream, capacity=worst)
            if worst:
                _clear_unused(rows)
            received, expanded = self._received(transfer, rows, scales), None
            if alignment:
                capacity = worst * min(made.own, made.top) + made.own * (alignment - 1)
                expanded = Expanded(rows.topk_idx, rows.topk_weights, made.own, alignment,
                                    capacity if worst else None)
                received = expanded.spread(received, zero)
                transfer.keep(*_parts(received), expanded.counts, expanded.ends, expanded.experts,
                              expanded.weights)
            transfer.keep(rows.topk_idx, rows.topk_weights, rows.n_tokens)
        self._finish(made, rows, worst)
        return received, Handle(self, objects, made, rows, worst, expanded), transfer.event()

    def dispatch_again(self, x: Any, handle: Handle, previous: Any, is_async: bool,
                       zero: bool = False) -> Tuple[Any, EventOverlap]:
        """Returns received tokens of the layout of `handle`, and the event. zero: as dispatch()."""
        objects = self._objects_of(handle)
        values, scales = _scales.split(x)
        self._check_tokens(values)
        if tuple(values.shape) != (handle.rows._tokens, objects.hidden):
            raise InvalidArgument(f"x has shape {tuple(values.shape)}, and the dispatch of handle "
                                  f"had {(handle.rows._tokens, objects.hidden)}: give as many "
                                  "tokens")
        made = objects.get(dtype_of(values.dtype).name, scales.n_sent)
        with Transfer(self.comm, previous, is_async) as transfer:
            transfer.keep(values, scales.given)
            rows = made.dispatch(_contiguous(values), handle.rows, scales=scales.to_send(),
                                 stream=transfer.stream)
            received = self._received(transfer, rows, scales)
            if handle.expanded is not None:
                if self.comm is None:
                    self.members.settle()
                received = handle.expanded.spread(received, zero)
                transfer.keep(*_parts(received))
        self._finish(made, rows, handle.worst)
        return received, transfer.event()

    def combine(self, x: Any, handle: Handle, weights: Any, bias: Any, previous: Any,
                is_async: bool) -> Tuple[Any, Any, EventOverlap]:
        """Returns the sums, those of the weights or None, and the event."""
        objects, made, rows = self._objects_of(handle), handle._experts, handle.rows
        if dtype_of(x.dtype).name != objects.result:
            raise InvalidType(f"x is of {x.dtype}, and the results of this dispatch are of "
                              f"{objects.result}: convert x")
        expanded = handle.expanded
        if expanded is not None:
            _check_shape("x", x, (expanded.n, objects.hidden))
            if weights is not None:
                _check_shape("topk_weights", weights, (expanded.n,))
        biases = () if bias is None else bias if isinstance(bias, (tuple, list)) else (bias,)
        for part in biases:
            if part is not None:
                _check_shape("bias", part, (rows._tokens, objects.hidden))
        with Transfer(self.comm, previous, is_async) as transfer:
            transfer.keep(x, weights, *biases)
            if expanded is not None:
                x = expanded.collect(x)
                weights = None if weights is None else expanded.collect_weights(weights)
            out = made.combine(_contiguous(x), rows, weights=_contiguous(weights),
                               stream=transfer.stream)
            sums, back = out if weights is not None else (out, None)
            if self.comm is None:
                self.members.settle()
            for part in biases:
                if part is not None:
                    sums = (sums.float() + part.float()).to(sums.dtype)
            transfer.keep(sums, back)
        rows._sources = None
        return sums, back, transfer.event()

    def _check_tokens(self, values: Any) -> None:
        self.members.check_device(values)
        name = str(values.dtype).replace("torch.", "")
        if values.dim() != 2 or name not in _RESULTS:
            raise InvalidArgument(f"x is {values.dtype} of shape {tuple(values.shape)}: give "
                                  f"[tokens, hidden] of {', '.join(_RESULTS)}")

    def _objects_of(self, handle: Any) -> Objects:
        if not isinstance(handle, Handle) or handle.exchange is not self:
            raise InvalidArgument(f"handle is a {type(handle).__name__} and not one of this buffer:"
                                  " pass what its dispatch() returned")
        return handle.objects

    @staticmethod
    def _received(transfer: Transfer, rows: Received, scales: _scales.Scales) -> Any:
        """Returns received tokens, as those of the call: a tensor, or (values, scales)."""
        x, rows.x, sent, rows.scales = rows.x, None, rows.scales, None
        received = scales.with_values(x, sent)
        transfer.keep(*_parts(received))
        return received

    def _finish(self, made: Experts, rows: Received, worst: int) -> None:
        """After a call that was given to a stream: on CPU tensors it is complete."""
        if self.comm is None:
            rows._sources = None
            if worst:
                made.check()


def _parts(x: Any) -> Any:
    """Returns the tensors of tokens: one, or values and scales."""
    return x if isinstance(x, tuple) else (x,)


def _check_shape(words: str, x: Any, shape: Tuple[int, ...]) -> None:
    if tuple(x.shape) != shape:
        raise InvalidArgument(f"{words} has shape {tuple(x.shape)}: {shape} is needed")


def _contiguous(x: Any) -> Any:
    return None if x is None else x.contiguous()


def _clear_unused(rows: Received) -> None:
    """Makes the choices of rows beyond the received ones -1, and their weights 0."""
    if rows._framework.gpu is None:
        check(calls.stream_synchronize(0))
    unused = torch.arange(rows._capacity, device=rows.topk_idx.device) >= rows.n_rows
    rows.topk_idx.masked_fill_(unused[:, None], -1)
    rows.topk_weights.masked_fill_(unused[:, None], 0)
