# SPDX-License-Identifier: Apache-2.0
"""Symmetric arrays: the same memory at the same place of every PE.

Array is what all of them have in common. Arrays in host memory are numpy arrays as well (_numpy.py)
where numpy is installed; RawArray serves GPU memory, and host memory without numpy.
"""

import array
import ctypes
import math
import struct
import sys
import weakref
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from . import _bindings as b
from ._dtypes import DType, DTypeLike, bits_of, dtype_of
from ._library import calls, check
from .errors import InvalidArgument, InvalidFree, InvalidType, NotSymmetric, OutOfRange, Unsupported

if TYPE_CHECKING:
    from ._job import Job
    from ._pool import Pool

Shape = Tuple[int, ...]
ShapeLike = Union[int, Tuple[int, ...], List[int]]

_KINDS = {b.WEFT_HOST: "host", b.WEFT_GPU: "gpu"}


def shape_of(shape: ShapeLike) -> Shape:
    """Returns a shape as a tuple. Raises InvalidArgument for what is none."""
    try:
        given: Any = shape
        sizes = (given,) if hasattr(given, "__index__") else tuple(given)
        result = tuple(int(size.__index__()) for size in sizes)
    except (TypeError, AttributeError):
        raise InvalidArgument(f"{shape!r} is no shape: give a number or a tuple of "
                              "numbers") from None
    if any(size < 0 for size in result):
        raise InvalidArgument(f"the shape {result} has a negative size")
    return result


def contiguous_strides(shape: Shape, itemsize: int) -> Tuple[int, ...]:
    """Returns the strides, in bytes, of a C-contiguous array."""
    strides = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class Block:
    """A symmetric allocation. Every view of it refers to this object; the last one releases it."""

    pool: "Optional[Pool]" = None  # of which it is a part

    def __init__(self, job: "Job", kind: int, address: int, nbytes: int, number: int) -> None:
        self.job = job
        self.kind = kind
        self.address = address
        self.nbytes = nbytes
        self.number = number  # of the job's allocations; the same at every PE
        self.freed = False
        # By id().
        self.views: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
        self.exports: Dict[int, str] = {}  # DLPack capsules that are alive

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1",
                "data": (self.address, False)}

    def give_back(self) -> None:
        """Frees the memory, of which the caller has the only view. Collective."""
        self.job._free(self)

    def __del__(self) -> None:
        if not self.freed:
            self.job._release(self.number)


# Of any length: a type for each length would be a reference cycle.
_Bytes = ctypes.c_ubyte * 2**46


def view_of(address: int, nbytes: int, owner: Any) -> memoryview:
    """Returns a memoryview of `nbytes` bytes at `address`, which keeps `owner`."""
    raw = _Bytes.from_address(address)
    raw._owner = owner  # type: ignore[attr-defined]
    return memoryview(raw).cast("B")[:nbytes]


def describe(array: Any) -> str:
    """Returns an array in a few words, for messages."""
    shape = getattr(array, "shape", None)
    words = type(array).__module__.split(".")[0] + "." + type(array).__name__
    return words if shape is None else f"{words} of shape {tuple(shape)}"


class Array:
    """An array that every PE of the job has at the same symmetric address.

    Its attributes shape, strides (in bytes), dtype, size, itemsize, nbytes and ndim are those of
    numpy. Slices are symmetric, too. The memory lives as long as any view of it: slices, numpy
    arrays, tensors that torch, CuPy or JAX made from it without a copy.
    """

    __slots__ = ()

    _block: Optional[Block]
    _dtype: DType

    @property
    def job(self) -> "Job":
        """The job that the array belongs to."""
        return self._require_block().job

    @property
    def kind(self) -> str:
        """Where the memory is: "host" or "gpu"."""
        return _KINDS[self._require_block().kind]

    @property
    def address(self) -> int:
        """Address of the first element in this process."""
        if self._block is None:
            return int(self._memory().address)  # type: ignore[attr-defined]
        return int(self._address)  # type: ignore[attr-defined]

    def _require_block(self) -> Block:
        if self._block is None:
            raise NotSymmetric(
                f"{describe(self)} is not symmetric: it is the result of a computation or a copy. "
                "Make an array with job.zeros() or job.empty() and assign to it: y[...] = values")
        if self._block.freed:
            raise InvalidFree("the memory of this array has been freed by free()")
        return self._block

    def peer(self, pe: int) -> "Array":
        """Returns the same array at PE `pe`, where this PE can load and store its memory.

        The result shares the memory of that PE; ordering is the program's. Raises InvalidPE, and
        Unsupported where the path to that PE has no address, with the path and its reason.
        """
        block = self._require_block()
        if block.pool is not None:
            block.pool._check_address(block.address, pe)
        found = calls.ptr(block.job._handle, block.address, pe)
        if not found:
            block.job._check_pe(pe)
            path = block.job.path(pe, self.kind)
            raise Unsupported(f"PE {pe}'s array cannot be loaded and stored from here: path "
                              f"{path['name']} ({path['reason']}). Use job.get() and job.put()", pe)
        return self._at(PeerMemory(block, found))

    def _at(self, memory: "PeerMemory") -> "Array":
        raise NotImplementedError

    def free(self) -> None:
        """Frees the memory now. Collective: every PE frees the same array.

        Without it the memory is freed at an allocation after the last view has gone at every PE.
        Raises InvalidFree while other views of it are alive, and names them.
        """
        self._require_alone().give_back()
        self._forget()

    def _require_alone(self) -> Block:
        """Returns the block, of which this array is the only view."""
        block = self._require_block()
        views = [describe(view) for view in block.views.values() if view is not self]
        views += list(block.exports.values())
        # This function's variable, the argument of getrefcount() and the array itself.
        others = sys.getrefcount(block) - 3 - (len(views) - len(block.exports))
        if others > 0 and not views:
            views.append(f"{others} numpy arrays or buffers")
        if views:
            raise InvalidFree(f"{describe(self)} has {len(views)} other views: {', '.join(views)}. "
                              "Delete them first, or leave the memory to be freed after the last "
                              "one")
        return block

    def _forget(self) -> None:
        pass


class PeerMemory:
    """Memory of another PE, mapped here: lives as long as the block of the same number here."""

    pool = None

    def __init__(self, block: Block, address: int) -> None:
        self.block = block
        self.address = address

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": (self.block.nbytes,), "typestr": "|u1",
                "data": (self.address, False)}


class Memory(NamedTuple):
    """What an operation needs to know of an array."""

    address: int
    nbytes: int
    dtype: Optional[DType]
    shape: Shape
    strides: Optional[Tuple[int, ...]]  # in bytes; None: C-contiguous
    gpu: Optional[str]  # the library whose GPU array it is; "" = of Weft; None = host memory


def _of_interface(array: Any, interface: Dict[str, Any], gpu: Optional[str]) -> Memory:
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    try:
        dtype: Optional[DType] = dtype_of(interface["typestr"])
        itemsize = dtype.itemsize if dtype else 1
    except InvalidType:
        # numpy has no names for bfloat16 and FP8; their own dtype does.
        dtype = None
        itemsize = int(interface["typestr"][2:])
        if hasattr(array, "dtype"):
            dtype = dtype_of(array.dtype)
    if strides is not None and tuple(strides) == contiguous_strides(shape, itemsize):
        strides = None
    return Memory(interface["data"][0] or 0, math.prod(shape) * itemsize, dtype, shape,
                  None if strides is None else tuple(strides), gpu)


class _Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("rest", ctypes.c_byte * 64)]


def _of_buffer(data: Any) -> Memory:
    """Returns the memory of bytes, bytearray, memoryview, array.array, ctypes and mmap objects. It
    stays valid while the caller holds `data`."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise InvalidArgument(f"the buffer {describe(data)} is not contiguous: copy it first, "
                              "bytes(view)")
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(buffer), 0)
    address = buffer.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    dtype = None
    try:
        dtype = dtype_of(view.format) if view.itemsize > 1 else None
    except InvalidType:
        pass
    return Memory(address, view.nbytes, dtype, view.shape or (), None, None)


def memory_of(array: Any) -> Memory:
    """Returns the memory of any array: of Weft, numpy, torch, CuPy, JAX, Numba, or a buffer. Raises
    InvalidArgument for what has none."""
    if isinstance(array, Array):
        if array._block is not None:
            array._require_block()
        return array._memory()  # type: ignore[attr-defined,no-any-return]
    module = type(array).__module__.split(".")[0]
    if module == "torch" and hasattr(array, "data_ptr"):
        dtype = dtype_of(array.dtype)
        shape = tuple(array.shape)
        if array.requires_grad:
            array = array.detach()
        return Memory(array.data_ptr(), array.numel() * dtype.itemsize, dtype, shape,
                      None if array.is_contiguous() else
                      tuple(step * dtype.itemsize for step in array.stride()),
                      "torch" if array.is_cuda else None)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(array, interface, module)
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _of_interface(array, interface, None)
    if module in ("jax", "jaxlib") and hasattr(array, "unsafe_buffer_pointer"):
        dtype = dtype_of(array.dtype)
        gpu = "jax" if next(iter(array.devices())).platform in ("gpu", "cuda", "rocm") else None
        return Memory(array.unsafe_buffer_pointer(), array.nbytes, dtype, tuple(array.shape), None,
                      gpu)
    try:
        return _of_buffer(array)
    except TypeError:
        raise InvalidArgument(f"{describe(array)} has no memory that Weft can use: give an array "
                              "of Weft, numpy, torch, CuPy or JAX, or a buffer") from None


def contiguous(memory: Memory, array: Any) -> Memory:
    """Returns the memory if its elements are contiguous, else raises InvalidArgument."""
    if memory.strides is not None:
        raise InvalidArgument(f"{describe(array)} is not contiguous (strides {memory.strides} "
                              "bytes): copy it first, or use iput() and iget() for one dimension")
    return memory


def _index_item(index: Any, size: int, axis: int) -> int:
    position = int(index.__index__())
    if not -size <= position < size:
        raise OutOfRange(f"index {position} is outside axis {axis} of {size} elements")
    return position % size


class RawArray(Array):
    """A symmetric array in GPU memory, or in host memory without numpy.

    Indexing by numbers, slices and ... gives views; one element gives its value. It hands its
    memory to other libraries by DLPack, __cuda_array_interface__ (GPU) and __array_interface__
    (host).
    """

    __slots__ = ("_dtype", "_address", "_nbytes", "_element", "_holder", "_contiguous",
                 "shape", "strides", "__weakref__")

    def __init__(self, holder: Union[Block, PeerMemory], dtype: DType, shape: Shape, address: int,
                 strides: Optional[Tuple[int, ...]] = None) -> None:
        self._holder = holder
        self._dtype = dtype
        self.shape = shape
        full = contiguous_strides(shape, dtype.itemsize)
        self.strides = full if strides is None else strides
        self._address = address
        self._contiguous = self.strides == full or math.prod(shape) == 0
        if self._contiguous and holder.pool is None:
            self._nbytes = math.prod(shape) * dtype.itemsize
        if isinstance(holder, Block):
            holder.views[id(self)] = self

    @property
    def _block(self) -> Optional[Block]:  # type: ignore[override]
        return self._holder if isinstance(self._holder, Block) else None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    def _is_gpu(self) -> bool:
        holder = self._holder
        return (holder.kind if isinstance(holder, Block) else holder.block.kind) == b.WEFT_GPU

    def _memory(self) -> Memory:
        strides = None if self._contiguous else self.strides
        return Memory(self._address, self.nbytes, self._dtype, self.shape, strides,
                      "" if self._is_gpu() else None)

    def _at(self, memory: PeerMemory) -> "RawArray":
        offset = self._address - memory.block.address
        return RawArray(memory, self._dtype, self.shape, memory.address + offset, self.strides)

    def _forget(self) -> None:
        for name in ("_address", "_nbytes", "_element"):
            try:
                delattr(self, name)
            except AttributeError:
                pass  # not used so far

    def __getattr__(self, name: str) -> Any:
        if name == "_element":
            from ._operations import Element

            self._element = Element(self)
            return self._element
        # The two are absent where they must not be used; the second also in a pool, whose arrays
        # are compared with those of the PE by the longer path of an operation.
        if name in ("_address", "_nbytes") and self._require_block().pool is None and \
                not self._contiguous:
            contiguous(self._memory(), self)
        # Also where a property raised AttributeError, whose words are lost.
        raise AttributeError(f"{type(self).__name__} of {'GPU' if self._is_gpu() else 'host'} "
                             f"memory has no {name}")

    # -------------------------------------------------------------------------------- views

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidType("an array of no dimensions has no length")
        return self.shape[0]

    def _select(self, key: Any) -> "RawArray":
        """Returns the view of basic indexing: numbers, slices and one ... ."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if keys.count(Ellipsis) > 1:
            raise InvalidArgument("an index has at most one ...")
        missing = self.ndim - len(keys) + keys.count(Ellipsis)
        if missing < 0:
            raise OutOfRange(f"{len(keys)} indices for an array of {self.ndim} dimensions")
        at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
        keys[at:at + 1] = [slice(None)] * missing
        address, shape, strides = self._address, [], []
        for axis, (item, size, stride) in enumerate(zip(keys, self.shape, self.strides)):
            if isinstance(item, slice):
                start, stop, step = item.indices(size)
                count = len(range(start, stop, step))
                address += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            elif hasattr(item, "__index__"):
                address += _index_item(item, size, axis) * stride
            else:
                raise InvalidType(f"index {item!r}: use numbers, slices and ... here, or .numpy(), "
                                  ".torch() or .cupy() first")
        return RawArray(self._holder, self._dtype, tuple(shape), address, tuple(strides))

    def __getitem__(self, key: Any) -> Any:
        view = self._select(key)
        return view.item() if view.shape == () else view

    def __setitem__(self, key: Any, value: Any) -> None:
        self._select(key).fill_from(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def reshape(self, *shape: Any) -> "RawArray":
        """Returns a view of a contiguous array with another shape; one size may be -1."""
        sizes = list(shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape)
        if sizes.count(-1) == 1:
            rest = -math.prod(sizes)
            sizes[sizes.index(-1)] = self.size // rest if rest else 0
        wanted = shape_of(tuple(sizes))
        if math.prod(wanted) != self.size:
            raise InvalidArgument(f"{self.size} elements of shape {self.shape} do not fill the "
                                  f"shape {wanted}")
        contiguous(self._memory(), self)
        return RawArray(self._holder, self._dtype, wanted, self._address)

    def view(self, dtype: DTypeLike) -> "RawArray":
        """Returns the bytes of a contiguous array as elements of another type, `dtype`. Raises
        InvalidType where they are no whole number of such elements."""
        wanted = dtype_of(dtype)
        contiguous(self._memory(), self)
        last = (self.shape[-1] if self.shape else 1) * self.itemsize
        if last % wanted.itemsize:
            raise InvalidType(f"{last} bytes of the last axis are no whole elements of "
                              f"{wanted.name}")
        shape = self.shape[:-1] + (last // wanted.itemsize,)
        return RawArray(self._holder, wanted, shape, self._address)

    # ------------------------------------------------------------------------------- values

    def _split(self) -> int:
        """Returns the axis from which on the elements are contiguous."""
        full = contiguous_strides(self.shape, self.itemsize)
        axis = self.ndim
        while axis > 0 and self.strides[axis - 1] == full[axis - 1]:
            axis -= 1
        return axis

    def _runs(self) -> Tuple[int, Iterator[int]]:
        """Returns the bytes of a contiguous run, and the addresses of all runs in C order."""
        split = self._split()
        return (math.prod(self.shape[split:]) * self.itemsize,
                _walk(self._address, self.shape[:split], self.strides))

    def tobytes(self) -> bytes:
        """Returns a copy of the elements in C order."""
        if not self.size:
            return b""
        run, addresses = self._runs()
        handle = self._job_handle()
        parts = []
        for address in addresses:
            if self._is_gpu():
                part = array.array("B", bytes(run))
                check(calls.copy_from(handle, part.buffer_info()[0], address, run))
                parts.append(part.tobytes())
            else:
                parts.append(ctypes.string_at(address, run))
        return b"".join(parts)

    def _job_handle(self) -> int:
        holder = self._holder
        return (holder if isinstance(holder, Block) else holder.block).job._handle

    def frombytes(self, data: bytes) -> None:
        """Stores the bytes `data`, as many as the array has, into the elements in C order."""
        if len(data) != self.nbytes:
            raise InvalidArgument(f"{len(data)} bytes do not fill {describe(self)} of "
                                  f"{self.nbytes}")
        if not data:
            return
        run, addresses = self._runs()
        handle = self._job_handle()
        for i, address in enumerate(addresses):
            part = data[i * run:(i + 1) * run]
            if self._is_gpu():
                check(calls.copy_to(handle, address, part, run))
            else:
                ctypes.memmove(address, part, run)

    def fill_from(self, value: Any) -> None:
        """Stores a number into every element, or the elements of an array of the same shape."""
        if isinstance(value, (int, float, complex)) or not hasattr(value, "__len__"):
            if value == 0:
                element = bytes(self.itemsize)
            else:
                element = bits_of(self._dtype, value).to_bytes(self.itemsize, sys.byteorder)
            self.frombytes(element * self.size)
            return
        if isinstance(value, RawArray) and value.dtype == self.dtype and value.shape == self.shape:
            self.frombytes(value.tobytes())
            return
        flat = list(_flatten(value, self.shape))
        self.frombytes(b"".join(bits_of(self._dtype, item).to_bytes(self.itemsize, sys.byteorder)
                                for item in flat))

    def item(self) -> Any:
        """Returns the value of an array of one element."""
        if self.size != 1:
            raise InvalidArgument(f"{describe(self)} has {self.size} elements, not 1")
        return self._values()[0]

    def _values(self) -> List[Any]:
        from ._dtypes import value_of

        data = self.tobytes()
        if self._dtype.code:
            return list(struct.unpack(f"={self.size}{self._dtype.code}", data))
        size = self.itemsize
        return [value_of(self._dtype, int.from_bytes(data[i:i + size], sys.byteorder))
                for i in range(0, len(data), size)]

    def tolist(self) -> Any:
        """Returns the elements as nested lists."""
        return _nest(iter(self._values()), self.shape)

    def __repr__(self) -> str:
        where = "gpu" if self._is_gpu() else "host"
        if self.size > 1000:
            return f"weft.Array(shape={self.shape}, dtype={self._dtype.name}, kind={where})"
        try:
            return f"weft.Array({self.tolist()}, dtype={self._dtype.name}, kind={where})"
        except InvalidType:
            return f"weft.Array(shape={self.shape}, dtype={self._dtype.name}, kind={where})"

    def __str__(self) -> str:
        try:
            return str(self.tolist()) if self.size <= 1000 else repr(self)
        except InvalidType:
            return repr(self)

    # ---------------------------------------------------------------------- other libraries

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if not self._is_gpu():
            raise AttributeError("__cuda_array_interface__: this array is in host memory")
        if "V" in self._dtype.typestr:
            raise AttributeError(f"__cuda_array_interface__ has no {self._dtype.name}")
        return {"version": 3, "shape": self.shape, "typestr": self._dtype.typestr,
                "data": (self._address, False), "stream": None,
                "strides": None if self._contiguous else self.strides}

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if self._is_gpu():
            raise AttributeError("__array_interface__: this array is in GPU memory; .numpy() "
                                 "copies it")
        return {"version": 3, "shape": self.shape, "typestr": self._dtype.typestr,
                "data": (self._address, False),
                "strides": None if self._contiguous else self.strides}

    def __dlpack_device__(self) -> Tuple[int, int]:
        from . import _dlpack

        return _dlpack.device_of(self)

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        from . import _dlpack

        return _dlpack.capsule_of(self, stream, max_version, dl_device, copy)

    def __buffer__(self, flags: int) -> memoryview:
        return self.memoryview()

    def memoryview(self) -> memoryview:
        """Returns a memoryview of a contiguous array in host memory."""
        if self._is_gpu():
            raise Unsupported("this array is in GPU memory, which has no buffer: .numpy() copies "
                              "it")
        contiguous(self._memory(), self)
        view = view_of(self._address, self.nbytes, self)
        code: Any = self._dtype.code
        return view.cast(code, self.shape) if code and self.size else view

    def numpy(self) -> Any:
        """Returns a numpy array: of the same memory (host), or a copy (GPU)."""
        import numpy

        if self._is_gpu():
            return numpy.frombuffer(self.tobytes(), _numpy_dtype(self._dtype)).reshape(self.shape)
        return numpy.asarray(self)

    def torch(self) -> Any:
        """Returns a torch tensor of the same memory."""
        import torch

        library: Any = torch
        return library.from_dlpack(self)

    def cupy(self) -> Any:
        """Returns a CuPy array of the same memory."""
        import cupy

        return cupy.from_dlpack(self)

    def jax(self) -> Any:
        """Returns a JAX array of the same memory."""
        import jax.dlpack

        return jax.dlpack.from_dlpack(self)


# Not functions within functions: one that calls itself is a reference cycle.


def _walk(address: int, shape: Shape, strides: Tuple[int, ...]) -> Iterator[int]:
    """Yields the addresses of the elements in C order."""
    if not shape:
        yield address
        return
    for i in range(shape[0]):
        yield from _walk(address + i * strides[0], shape[1:], strides[1:])


def _nest(values: Iterator[Any], shape: Shape) -> Any:
    """Returns the values as nested lists of that shape."""
    if not shape:
        return next(values)
    return [_nest(values, shape[1:]) for _ in range(shape[0])]


def _numpy_dtype(dtype: DType) -> Any:
    """Returns numpy's dtype, or that of ml_dtypes for bfloat16 and FP8."""
    import numpy

    if "V" not in dtype.typestr:
        return numpy.dtype(dtype.typestr)
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(f"numpy has no {dtype.name}: install ml_dtypes (pip install ml_dtypes), "
                          "or use .torch()") from None
    return numpy.dtype(getattr(ml_dtypes, dtype.name))


def _flatten(values: Any, shape: Shape) -> Iterator[Any]:
    """Yields the elements of nested sequences of that shape; one sequence may stand for all."""
    if not shape:
        yield values.item() if hasattr(values, "item") else values
        return
    if not hasattr(values, "__len__") or len(values) != shape[0]:
        raise InvalidArgument(f"the values do not have the shape {shape}")
    for inner in values:
        yield from _flatten(inner, shape[1:])
