# SPDX-License-Identifier: Apache-2.0
"""One-sided operations of a context: put, get, single values, signals, atomics, waits, order."""

import array
import ctypes
from typing import TYPE_CHECKING, Any, Generator, List, Optional, Sequence, Tuple, cast

from . import _bindings as b
from ._array import Array, Memory, contiguous, describe, memory_of
from ._dtypes import DType, bits_of, value_of
from ._library import calls, check, error_of_call, function
from ._stream import stream_of
from .errors import InvalidArgument, InvalidOperation, InvalidType, NotSymmetric, OutOfRange

if TYPE_CHECKING:
    from ._job import Job

_COMPARISONS = {
    "==": b.WEFT_EQ, "!=": b.WEFT_NE, ">": b.WEFT_GT, "<=": b.WEFT_LE, "<": b.WEFT_LT,
    ">=": b.WEFT_GE,
}
_SIGNALS = {"set": b.WEFT_SIGNAL_SET, "add": b.WEFT_SIGNAL_ADD}
_INTEGERS = {b.WEFT_INT16, b.WEFT_INT32, b.WEFT_INT64, b.WEFT_UINT16, b.WEFT_UINT32, b.WEFT_UINT64}
_AMOS = {
    "set": b.WEFT_AMO_SET, "add": b.WEFT_AMO_ADD, "and": b.WEFT_AMO_AND, "or": b.WEFT_AMO_OR,
    "xor": b.WEFT_AMO_XOR, "fetch": b.WEFT_AMO_FETCH, "swap": b.WEFT_AMO_SWAP,
    "cswap": b.WEFT_AMO_CSWAP, "fetch_add": b.WEFT_AMO_FETCH_ADD,
    "fetch_and": b.WEFT_AMO_FETCH_AND, "fetch_or": b.WEFT_AMO_FETCH_OR,
    "fetch_xor": b.WEFT_AMO_FETCH_XOR,
}
_MASK64 = 2**64 - 1


def comparison_of(words: str) -> int:
    """Returns the C library's comparison for "==", "!=", ">", "<=", "<" or ">="."""
    if words not in _COMPARISONS:
        raise InvalidOperation(f"comparison {words!r}: use one of {' '.join(_COMPARISONS)}")
    return _COMPARISONS[words]


def signal_operation_of(words: str) -> int:
    """Returns the C library's signal operation for "set" or "add"."""
    if words not in _SIGNALS:
        raise InvalidOperation(f"signal operation {words!r}: use \"set\" or \"add\"")
    return _SIGNALS[words]


def raise_error(status: int, job: "Job", *arrays: Any) -> None:
    """Raises the exception of a status; adds what Python knows of the arrays."""
    error = error_of_call(status)
    if isinstance(error, NotSymmetric):
        for array in arrays:
            if isinstance(array, Array) and array._block is not None:
                if array._block.job is not job:
                    raise NotSymmetric(f"{describe(array)} belongs to another job. "
                                       f"{error}") from None
            elif array is not None and not isinstance(array, int):
                raise NotSymmetric(
                    f"{describe(array)} is not symmetric: make it with job.zeros() or "
                    f"job.asarray(). {error}") from None
    raise error


class Handle:
    """A non-blocking operation. Its arrays belong to the library until wait() returns."""

    def __init__(self, context: "Operations", *arrays: Any) -> None:
        self._context: Optional[Operations] = context
        self._arrays = arrays

    @property
    def done(self) -> bool:
        """Whether wait() has returned."""
        return self._context is None

    def wait(self) -> None:
        """Waits until the operation, and all others of its context, are complete."""
        if self._context is not None:
            self._context.quiet()
            self._context = None
            self._arrays = ()

    def __await__(self) -> Generator[Any, None, None]:
        import asyncio

        if self._context is not None:
            yield from asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()


def _pair(dst: Any, src: Any) -> Tuple[int, int, int]:
    """Returns the addresses of a destination and a source of the same size and type, and their size
    in bytes."""
    try:
        nbytes: int = src._nbytes
        if nbytes == dst._nbytes and dst.dtype is src.dtype:
            return dst._address, src._address, nbytes
    except AttributeError:
        pass
    to, source = _memories(dst, src)
    return to.address, source.address, to.nbytes


def _memories(dst: Any, src: Any) -> Tuple[Memory, Memory]:
    """Returns the memories of a destination and a source of the same size and type."""
    to, source = contiguous(memory_of(dst), dst), contiguous(memory_of(src), src)
    if to.dtype and source.dtype and to.dtype != source.dtype:
        raise InvalidType(f"the destination has {to.dtype.name} and the source "
                          f"{source.dtype.name}: convert one of them, for example by .astype()")
    if to.nbytes != source.nbytes:
        raise OutOfRange(f"the destination has {to.nbytes} bytes and the source {source.nbytes}: "
                         "give slices of the same size")
    return to, source


def _element(array: Any, index: Any) -> Tuple[int, DType]:
    """Returns the address and type of one element of an array."""
    try:
        element = array._element
        if index == 0 or (index.__class__ is int and 0 < index < element.count):
            return element.address + index * element.size, element.dtype
    except AttributeError:
        pass
    memory = memory_of(array)
    if memory.dtype is None:
        raise InvalidType(f"{describe(array)} has no element type")
    if not isinstance(index, tuple):
        index = (index,) if memory.shape or index != 0 else ()
    if len(index) != len(memory.shape):
        if index == (0,):
            index = (0,) * len(memory.shape)
        else:
            raise OutOfRange(f"index {index} of {describe(array)}: give one number per dimension")
    from ._array import contiguous_strides

    strides = memory.strides or contiguous_strides(memory.shape, memory.dtype.itemsize)
    address = memory.address
    for axis, (position, size, stride) in enumerate(zip(index, memory.shape, strides)):
        if not -size <= position < size:
            raise OutOfRange(f"index {position} is outside axis {axis} of {size} elements")
        address += (position % size) * stride
    return address, memory.dtype


class Element:
    """What p and g need to know of an array's first element; an array keeps it from its first
    use."""

    __slots__ = ("address", "count", "size", "dtype", "put", "get", "pack", "out")

    def __init__(self, array: Any) -> None:
        memory = memory_of(array)
        dtype = memory.dtype
        if dtype is None or dtype.itemsize not in _P or not memory.nbytes or memory.strides or \
                (array._block is not None and array._block.pool is not None):
            raise AttributeError("_element: p() and g() resolve this array at each call")
        self.address, self.size, self.dtype = memory.address, dtype.itemsize, dtype
        self.count = memory.nbytes // dtype.itemsize if len(memory.shape) == 1 else 1
        self.put, self.get = _P[dtype.itemsize], _G[dtype.itemsize]
        self.out = _OUTPUTS.get(dtype.name)
        self.pack = _packer(dtype)


def _packer(dtype: DType) -> Any:
    """Returns the function from a value to its bit pattern."""
    if dtype.weft in _INTEGERS or dtype.itemsize == 1:
        bits = 8 * dtype.itemsize
        half = 2**(bits - 1)
        least, most = (0, 2 * half - 1) if dtype.name[0] == "u" else (-half, half - 1)

        def pack(value: Any) -> Any:
            # ctypes keeps the lower bits of a negative number.
            if value.__class__ is int and least <= value <= most and dtype.code != "?":
                return value
            return bits_of(dtype, value)

        return pack
    return lambda value: bits_of(dtype, value)


class _Known:
    """What operations need to know of this process."""

    pool = False  # it has made a pool; without one no allocation is compared


known = _Known()


class OfJob:
    """A job, or what belongs to one: a team, a context."""

    _owner: Optional["Job"] = None  # None: the job itself, which does not refer to itself

    @property
    def _job(self) -> "Job":
        return cast("Job", self) if self._owner is None else self._owner


class Operations(OfJob):
    """One-sided operations. A Job has them on its default context, a Context on its own.

    `dst` of a put and `src` of a get are symmetric arrays and name the same memory at PE `to` or
    `of`; the other array is any array of this process. Both have the same bytes and element type,
    and are contiguous. Operations with stream=S run in the order of that stream: an integer, a
    stream of torch, CuPy or any object with __cuda_stream__, or "torch" or "cupy" for the current
    one of these libraries; without it the call returns when the operation has the guarantees below.
    `index` is a number, or a tuple with one for each dimension.

    Operations raise InvalidPE, NotSymmetric, OutOfRange (sizes that differ, or run past the end),
    InvalidType, InvalidArgument (not contiguous, or not a stream of this GPU), PeerDead, NoPath and
    PathFailed; waits also Timeout, when nothing has changed for WEFT_WAIT_LIMIT.
    """

    _handle_ctx: int

    def _pe_of_job(self, pe: int) -> int:
        """Returns the job's number of a PE, or -1."""
        return pe

    def _check_pool(self, pe: int, *addresses: int) -> None:
        """Compares the allocations of pools in which the addresses lie with those of the PE."""
        there = self._pe_of_job(pe)
        for pool in self._job._pools:
            for address in addresses:
                pool._check_address(address, there)

    # -------------------------------------------------------------------------- put and get

    def put(self, dst: Any, src: Any, to: int, *, stream: Any = None) -> None:
        """Copies `src` into `dst` of PE `to`.

        Returns when the source may be reused; the data is at the peer after quiet() or barrier().
        """
        try:
            n = src._nbytes
            if stream is None and n == dst._nbytes and dst.dtype is src.dtype:
                status = _put(self._handle_ctx, dst._address, src._address, n, to)
                if not status:
                    return
                raise_error(status, self._job, dst)
        except AttributeError:
            pass  # not two arrays of Weft that are ready for use
        self._copy(_put, dst, src, dst, to, stream, calls.put_on_stream)

    def get(self, dst: Any, src: Any, of: int, *, stream: Any = None) -> None:
        """Copies `src` of PE `of` into `dst`. Returns when `dst` has the data."""
        try:
            n = dst._nbytes
            if stream is None and n == src._nbytes and dst.dtype is src.dtype:
                status = _get(self._handle_ctx, dst._address, src._address, n, of)
                if not status:
                    return
                raise_error(status, self._job, src)
        except AttributeError:
            pass
        self._copy(_get, dst, src, src, of, stream, calls.get_on_stream)

    def put_nbi(self, dst: Any, src: Any, to: int) -> Handle:
        """As put(), but may return at once; the source belongs to the library until the handle's
        wait() or quiet() returns."""
        self._copy(calls.put_nbi, dst, src, dst, to)
        return Handle(self, dst, src)

    def get_nbi(self, dst: Any, src: Any, of: int) -> Handle:
        """As get(), but may return at once; `dst` has the data when the handle's wait() or quiet()
        has returned."""
        self._copy(calls.get_nbi, dst, src, src, of)
        return Handle(self, dst, src)

    def _copy(self, call: Any, dst: Any, src: Any, symmetric: Any, pe: int, stream: Any = None,
              on_stream: Any = None) -> None:
        """Calls a form of weft_put or weft_get; `symmetric` is the array of PE `pe`."""
        to, source, nbytes = _pair(dst, src)
        if known.pool:
            self._check_pool(pe, to if symmetric is dst else source)
        if stream is None:
            status = call(self._handle_ctx, to, source, nbytes, pe)
        else:
            status = on_stream(self._handle_ctx, to, source, nbytes, pe,
                               stream_of(stream, self._job))
        if status:
            raise_error(status, self._job, symmetric)

    def put_many(self, dst: Any, src: Any, to: Sequence[int]) -> None:
        """Puts row i of `src` into row i of `dst` of PE to[i], for every i, at the rate of C.

        `to` is an array of int32 (numpy), or any sequence of numbers. Returns when the source may
        be reused. At a failure the rows before the failed one have been put.
        """
        target, source = _memories(dst, src)
        rows = target.shape[0] if target.shape else 0
        if rows != len(to) or source.shape[:1] != target.shape[:1]:
            raise OutOfRange(f"{len(to)} PEs for {rows} rows of the destination and "
                             f"{source.shape[0] if source.shape else 0} of the source")
        if known.pool:
            for pe in set(to):
                self._check_pool(int(pe), target.address)
        pes, kept = int_array(to)
        row = target.nbytes // rows if rows else 0
        done = ctypes.c_size_t()
        status = calls.put_vector(self._handle_ctx, target.address, source.address, row, row, row,
                                  rows, pes, ctypes.byref(done))
        del kept
        if status:
            raise_error(status, self._job, dst)

    def iput(self, dst: Any, src: Any, to: int) -> None:
        """As put(), for arrays of one dimension with any distance between their elements."""
        self._strided(calls.iput, dst, src, dst, to)

    def iget(self, dst: Any, src: Any, of: int) -> None:
        """As get(), for arrays of one dimension with any distance between their elements."""
        self._strided(calls.iget, dst, src, src, of)

    def _strided(self, call: Any, dst: Any, src: Any, symmetric: Any, pe: int) -> None:
        to, source, steps, size = strided(dst, src)
        if known.pool:
            self._check_pool(pe, (to if symmetric is dst else source).address)
        status = call(self._handle_ctx, to.address, source.address, *steps, size, to.shape[0], pe)
        if status:
            raise_error(status, self._job, symmetric)

    # ------------------------------------------------------------------------ single values

    def _element(self, array: Any, index: Any, pe: int) -> Tuple[int, DType]:
        """Returns the address and type of an element of PE `pe`."""
        address, dtype = _element(array, index)
        if known.pool:
            self._check_pool(pe, address)
        return address, dtype

    def p(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> None:
        """Stores `value` into element `index` of `dst` at PE `to`, as one access."""
        try:
            element = dst._element
            if index == 0 or (index.__class__ is int and 0 < index < element.count):
                status = element.put(self._handle_ctx, element.address + index * element.size,
                                     element.pack(value), to)
                if not status:
                    return
                raise_error(status, self._job, dst)
        except AttributeError:
            pass
        address, dtype = self._element(dst, index, to)
        call = _P.get(dtype.itemsize)
        if call is None:
            raise InvalidType(f"{dtype.name} has no single values: put an array of one element")
        status = call(self._handle_ctx, address, bits_of(dtype, value), to)
        if status:
            raise_error(status, self._job, dst)

    def g(self, src: Any, of: int, *, index: Any = 0) -> Any:
        """Returns element `index` of `src` at PE `of`, read as one access."""
        try:
            element = src._element
            if element.out is not None and (
                    index == 0 or (index.__class__ is int and 0 < index < element.count)):
                out = element.out()
                status = element.get(self._handle_ctx, element.address + index * element.size,
                                     _byref(out), of)
                if not status:
                    return out.value
                raise_error(status, self._job, src)
        except AttributeError:
            pass
        address, dtype = self._element(src, index, of)
        call = _G.get(dtype.itemsize)
        if call is None:
            raise InvalidType(f"{dtype.name} has no single values: get an array of one element")
        bits = _UNSIGNED[dtype.itemsize]()
        status = call(self._handle_ctx, address, ctypes.byref(bits), of)
        if status:
            raise_error(status, self._job, src)
        return value_of(dtype, bits.value)

    # ------------------------------------------------------------------------------ signals

    def put_signal(self, dst: Any, src: Any, signal: Any, to: int, *, value: int = 1,
                   op: str = "set", index: Any = 0, stream: Any = None) -> None:
        """Puts `src` into `dst` at PE `to`, then sets element `index` of `signal` there to `value`,
        or adds it (op="add"). The signal is never visible before the data. `signal` is a symmetric
        array of uint64."""
        self._put_signal(calls.put_signal, dst, src, signal, to, value, op, index, stream)

    def put_signal_nbi(self, dst: Any, src: Any, signal: Any, to: int, *, value: int = 1,
                       op: str = "set", index: Any = 0) -> Handle:
        """As put_signal(), but may return at once, as put_nbi()."""
        self._put_signal(calls.put_signal_nbi, dst, src, signal, to, value, op, index, None)
        return Handle(self, dst, src, signal)

    def _put_signal(self, call: Any, dst: Any, src: Any, signal: Any, to: int, value: int, op: str,
                    index: Any, stream: Any) -> None:
        target, source, nbytes = _pair(dst, src)
        word = _signal(signal, index)
        operation = signal_operation_of(op)
        if known.pool:
            self._check_pool(to, target, word)
        if stream is None:
            status = call(self._handle_ctx, target, source, nbytes, word, value, operation, to)
        else:
            status = calls.put_signal_on_stream(self._handle_ctx, target, source, nbytes, word,
                                                value, operation, to,
                                                stream_of(stream, self._job))
        if status:
            raise_error(status, self._job, dst, signal)

    def signal(self, signal: Any, to: int, *, value: int = 1, op: str = "set", index: Any = 0,
               stream: Any = None) -> None:
        """Sets element `index` of `signal` at PE `to` to `value`, or adds it (op="add")."""
        word, operation = _signal(signal, index), signal_operation_of(op)
        if known.pool:
            self._check_pool(to, word)
        if stream is None:
            status = calls.signal(self._handle_ctx, word, value, operation, to)
        else:
            status = calls.signal_on_stream(self._handle_ctx, word, value, operation, to,
                                            stream_of(stream, self._job))
        if status:
            raise_error(status, self._job, signal)

    def signal_wait(self, signal: Any, cmp: str, value: int, *, index: Any = 0,
                    stream: Any = None) -> Optional[int]:
        """Waits until element `index` of this PE's `signal` compares true with `value`, by `cmp`:
        "==", "!=", ">", "<=", "<" or ">=". Returns the
        value that ended the wait, or None in the order of a stream."""
        word, comparison = _signal(signal, index), comparison_of(cmp)
        if stream is not None:
            check(calls.signal_wait_on_stream(self._handle_ctx, word, comparison, value,
                                              stream_of(stream, self._job)))
            return None
        seen = ctypes.c_uint64()
        status = calls.signal_wait(self._handle_ctx, word, comparison, value, ctypes.byref(seen))
        if status:
            raise_error(status, self._job, signal)
        return seen.value

    def signal_fetch(self, signal: Any, *, index: Any = 0) -> int:
        """Returns element `index` of this PE's `signal`."""
        value = ctypes.c_uint64()
        status = calls.signal_fetch(self._handle_ctx, _signal(signal, index), ctypes.byref(value))
        if status:
            raise_error(status, self._job, signal)
        return value.value

    # ------------------------------------------------------------------------------ atomics

    def atomic_set(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> None:
        """Sets element `index` of `dst` at PE `to` to `value`. Atomics take elements of 4 or 8
        bytes; add, and, or and xor integers. They are atomic with each other, with signals and with
        waits."""
        self._atomic("set", dst, value, to, index)

    def atomic_add(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> None:
        """Adds `value` to element `index` of `dst` at PE `to`."""
        self._atomic("add", dst, value, to, index)

    def atomic_and(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> None:
        """Combines element `index` of `dst` at PE `to` with `value` by and."""
        self._atomic("and", dst, value, to, index)

    def atomic_or(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> None:
        """Combines element `index` of `dst` at PE `to` with `value` by or."""
        self._atomic("or", dst, value, to, index)

    def atomic_xor(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> None:
        """Combines element `index` of `dst` at PE `to` with `value` by exclusive or."""
        self._atomic("xor", dst, value, to, index)

    def atomic_fetch(self, src: Any, of: int, *, index: Any = 0) -> Any:
        """Returns element `index` of `src` at PE `of`."""
        return self._atomic("fetch", src, None, of, index)

    def atomic_swap(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> Any:
        """Sets element `index` of `dst` at PE `to`, and returns its value before."""
        return self._atomic("swap", dst, value, to, index)

    def atomic_fetch_add(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> Any:
        """As atomic_add(), and returns the value before."""
        return self._atomic("fetch_add", dst, value, to, index)

    def atomic_fetch_and(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> Any:
        """As atomic_and(), and returns the value before."""
        return self._atomic("fetch_and", dst, value, to, index)

    def atomic_fetch_or(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> Any:
        """As atomic_or(), and returns the value before."""
        return self._atomic("fetch_or", dst, value, to, index)

    def atomic_fetch_xor(self, dst: Any, value: Any, to: int, *, index: Any = 0) -> Any:
        """As atomic_xor(), and returns the value before."""
        return self._atomic("fetch_xor", dst, value, to, index)

    def atomic_cswap(self, dst: Any, expected: Any, value: Any, to: int, *, index: Any = 0) -> Any:
        """Sets element `index` of `dst` at PE `to` to `value` if it is `expected`; returns its
        value before in any case."""
        return self._atomic("cswap", dst, value, to, index, expected)

    def atomic_nbi(self, op: str, dst: Any, value: Any = 0, *, to: int, index: Any = 0,
                   expected: Any = 0, fetched: Any = None) -> Handle:
        """Does an atomic operation on element `index` of `dst` at PE `to`, but may return at once.

        op: "set", "add", "and", "or", "xor", "fetch", "swap", "cswap" (which uses `expected`),
        "fetch_add", "fetch_and", "fetch_or", "fetch_xor". The forms that fetch store the value
        before in `fetched`: an array of one element of the same type, which has it when the
        handle's wait() or quiet() has returned.
        """
        if op not in _AMOS:
            raise InvalidOperation(f"atomic {op!r}: use one of {', '.join(_AMOS)}")
        address, dtype = self._atomic_element(op, dst, index, to)
        place = None
        if _fetches(op):
            if fetched is None:
                raise InvalidArgument(f"atomic {op} needs an array for the value before: "
                                      f"fetched=numpy.empty(1, \"{dtype.name}\")")
            place = contiguous(memory_of(fetched), fetched)
            if place.dtype != dtype or place.nbytes != dtype.itemsize:
                raise InvalidType(f"fetched={describe(fetched)} is not one element of {dtype.name}")
        status = calls.atomic_nbi(self._handle_ctx, _AMOS[op], dtype.itemsize, address,
                                  bits_of(dtype, expected), bits_of(dtype, value),
                                  place and place.address, to)
        if status:
            raise_error(status, self._job, dst)
        return Handle(self, dst, fetched)

    def _atomic_element(self, name: str, array: Any, index: Any, pe: int) -> Tuple[int, DType]:
        """Returns the address and type of an element on which atomic `name` works."""
        address, dtype = self._element(array, index, pe)
        if dtype.itemsize not in (4, 8):
            raise InvalidType(f"atomics take elements of 4 or 8 bytes, not {dtype.name}")
        if name.split("_")[-1] in ("add", "and", "or", "xor") and dtype.weft not in _INTEGERS:
            raise InvalidType(f"atomic {name} takes integers, not {dtype.name}: use atomic_cswap()")
        return address, dtype

    def _atomic(self, name: str, array: Any, value: Any, pe: int, index: Any,
                expected: Any = None) -> Any:
        address, dtype = self._atomic_element(name, array, index, pe)
        arguments: List[Any] = [bits_of(dtype, given) for given in (expected, value)
                                if given is not None]
        old = _UNSIGNED[dtype.itemsize]()
        if _fetches(name):
            arguments.append(ctypes.byref(old))
        call = getattr(calls, f"atomic_{name}{dtype.itemsize * 8}")
        status = call(self._handle_ctx, address, *arguments, pe)
        if status:
            raise_error(status, self._job, array)
        return value_of(dtype, old.value) if _fetches(name) else None

    # -------------------------------------------------------------------------------- waits

    def wait(self, array: Any, cmp: str, value: Any) -> None:
        """Waits until every element of this PE's `array` compares true with `value`: a number, or
        an array of as many elements. cmp: "==", "!=", ">", "<=", "<" or ">=". The elements are
        integers of 2, 4 or 8 bytes. Raises PeerDead, Timeout."""
        self._compare("wait_until_all", array, cmp, value, [])

    def wait_any(self, array: Any, cmp: str, value: Any) -> int:
        """As wait(), until one element compares true. Returns its index in C order."""
        index = ctypes.c_size_t()
        self._compare("wait_until_any", array, cmp, value, [ctypes.byref(index)])
        return index.value

    def wait_some(self, array: Any, cmp: str, value: Any) -> List[int]:
        """As wait(), until an element compares true. Returns the indices of all that do."""
        return self._some("wait_until_some", array, cmp, value)

    def test(self, array: Any, cmp: str, value: Any) -> bool:
        """Returns whether every element compares true now; arguments as wait()."""
        result = ctypes.c_int()
        self._compare("test_all", array, cmp, value, [ctypes.byref(result)])
        return bool(result.value)

    def test_any(self, array: Any, cmp: str, value: Any) -> Optional[int]:
        """Returns the index of an element that compares true now, or None; arguments as wait()."""
        index = ctypes.c_size_t()
        self._compare("test_any", array, cmp, value, [ctypes.byref(index)])
        return None if index.value == _MASK64 else index.value

    def test_some(self, array: Any, cmp: str, value: Any) -> List[int]:
        """Returns the indices of all elements that compare true now; arguments as wait()."""
        return self._some("test_some", array, cmp, value)

    def _some(self, name: str, of: Any, cmp: str, value: Any) -> List[int]:
        indices = array.array("Q", bytes(8 * max(memory_of(of).nbytes // 2, 1)))
        count = ctypes.c_size_t()
        self._compare(name, of, cmp, value, [ctypes.byref(count)], indices.buffer_info()[0])
        return list(indices[:count.value])

    def _compare(self, name: str, array: Any, cmp: str, value: Any, results: List[Any],
                 indices: Optional[int] = None) -> None:
        memory = contiguous(memory_of(array), array)
        dtype = memory.dtype
        if dtype is None or dtype.weft not in _INTEGERS:
            raise InvalidType(f"waits take integers of 2, 4 or 8 bytes, not {describe(array)} of "
                              f"{dtype.name if dtype else 'bytes'}")
        comparison = comparison_of(cmp)
        count = memory.nbytes // dtype.itemsize
        first: List[Any] = [self._handle_ctx, dtype.weft, memory.address, count]
        if indices is not None:
            first.append(indices)
        kept = None
        if hasattr(value, "__len__"):
            values = contiguous(memory_of(value), value)
            if values.dtype != dtype or values.nbytes != memory.nbytes:
                raise InvalidType(f"{describe(value)} does not have {count} elements of "
                                  f"{dtype.name}")
            kept = values.address
            call = getattr(calls, name + "_vector")
        else:
            call = getattr(calls, name)
        if kept is None:
            bits = bits_of(dtype, value)
            if dtype.name.startswith("int") and value < 0:
                bits = int(value) & _MASK64
            status = call(*first, None, comparison, bits, *results)
        else:
            status = call(*first, None, comparison, kept, *results)
        if status:
            raise_error(status, self._job, array)

    # ------------------------------------------------------------------------------- order

    def fence(self) -> None:
        """Orders: puts, atomics and signals before it reach each PE before those after it."""
        check(calls.fence(self._handle_ctx))

    def quiet(self, *, stream: Any = None) -> None:
        """Waits until all operations of the context are complete and visible to every PE."""
        if stream is None:
            check(calls.quiet(self._handle_ctx))
        else:
            check(calls.quiet_on_stream(self._handle_ctx, stream_of(stream, self._job)))


_byref = ctypes.byref
_OUTPUTS = {
    "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64, "float32": ctypes.c_float, "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}
_UNSIGNED = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
_put = function("weft_put")
_get = function("weft_get")
_P = {size: function(f"weft_p{size * 8}") for size in _UNSIGNED}
_G = {size: function(f"weft_g{size * 8}") for size in _UNSIGNED}


def _fetches(atomic: str) -> bool:
    return atomic.startswith(("fetch", "swap", "cswap"))


def strided(dst: Any, src: Any) -> Tuple[Memory, Memory, Tuple[int, int], int]:
    """Returns the memories of two arrays of one dimension and the same size, their strides in
    elements, and the bytes of an element."""
    to, source = memory_of(dst), memory_of(src)
    if to.dtype is None or to.dtype != source.dtype:
        raise InvalidType(f"{describe(dst)} and {describe(src)} have different element types")
    if len(to.shape) != 1 or to.shape != source.shape:
        raise OutOfRange(f"shapes {to.shape} and {source.shape}: give two arrays of one "
                         "dimension and the same size")
    size = to.dtype.itemsize
    steps = [(memory.strides[0] if memory.strides else size) for memory in (to, source)]
    if any(step % size or step < size for step in steps):
        raise InvalidArgument(f"strides of {steps[0]} and {steps[1]} bytes: they must be positive "
                              f"multiples of the element's {size}")
    return to, source, (steps[0] // size, steps[1] // size), size


def _signal(signal: Any, index: Any) -> int:
    address, dtype = _element(signal, index)
    if dtype.name != "uint64":
        raise InvalidType(f"a signal is an array of uint64, not of {dtype.name}: "
                          "job.zeros(n, dtype=\"uint64\")")
    return address


def int_array(values: Sequence[int]) -> Tuple[int, Any]:
    """Returns the address of the numbers as int32, and what keeps it valid."""
    memory = None
    if not isinstance(values, (list, tuple, range)):
        memory = memory_of(values)
    if memory is not None and memory.dtype is not None and memory.dtype.name == "int32" and \
            memory.strides is None and memory.gpu is None:
        return memory.address, values
    made = array.array("i", [int(value) for value in values])
    return made.buffer_info()[0], made
