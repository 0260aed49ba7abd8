# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules of raw arrays, in both forms of the standard (dlpack.h 0.8 and 1.0)."""

import ctypes
import functools
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ._array import contiguous_strides
from ._library import load
from .errors import Unsupported

if TYPE_CHECKING:
    from ._array import RawArray

CPU, CUDA, ROCM = 1, 2, 10


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32),
        # Of int64; ctypes.cast() to a typed pointer would be a reference cycle.
        ("dtype", _DataType), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


@functools.lru_cache(maxsize=None)
def _numbers(count: int) -> Any:
    """Returns the type of a C array of int64. It is kept, because a type is a reference cycle."""
    return ctypes.c_int64 * max(count, 1)


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]


# What each capsule's consumer holds: the structure, its shape, and the array. By address.
_held: Dict[int, Any] = {}

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_is_valid = ctypes.PyDLL(None).PyCapsule_IsValid
_is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_pointer_of = ctypes.PyDLL(None).PyCapsule_GetPointer
_pointer_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_pointer_of.restype = ctypes.c_void_p


def _delete_held(address: int) -> None:
    held = _held.pop(address, None)
    if held is not None:
        held[2]._block.exports.pop(address, None)


def _delete_untaken(capsule: int) -> None:
    # A consumer renames the capsule that it has taken; one that nobody took is deleted here.
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):
            _delete_held(_pointer_of(capsule, name))


class _Python(ctypes.Structure):
    """struct weft_python of src/ops/setup/python.c."""

    _fields_ = [(name, ctypes.c_void_p) for name in (
        "is_initialized", "lock", "unlock", "take_error", "set_error", "tensor_deleted",
        "capsule_deleted")]


# Called by libweft, which sets aside the exception that Python may be about to raise.
_callbacks = _Destructor(_delete_held), _Destructor(_delete_untaken)


@functools.lru_cache(maxsize=None)
def _destructors() -> Tuple[int, int]:
    """Returns the addresses of libweft's destructors of a tensor and of a capsule."""
    used = (_api.Py_IsInitialized, _api.PyGILState_Ensure, _api.PyGILState_Release,
            _api.PyErr_Fetch, _api.PyErr_Restore, *_callbacks)
    library = load()
    library.weft_python_set.argtypes = [ctypes.c_void_p]
    library.weft_python_set.restype = None
    library.weft_python_set(ctypes.byref(_Python(
        *(ctypes.cast(function, ctypes.c_void_p).value for function in used))))
    names = "weft_python_delete_tensor", "weft_python_delete_capsule"
    first, second = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names)
    return first or 0, second or 0


def device_of(array: "RawArray") -> Tuple[int, int]:
    """Returns the device of an array as DLPack numbers it."""
    if not array._is_gpu():
        return CPU, 0
    return (ROCM if array.job._is_hip() else CUDA), array.job._gpu_ordinal() or 0


def capsule_of(array: "RawArray", stream: Any, max_version: Optional[Tuple[int, int]],
               dl_device: Optional[Tuple[int, int]], copy: Optional[bool]) -> Any:
    """Returns a capsule of an array's memory.

    stream: the consumer's stream. It need not wait: operations of Weft without a stream are
    complete when they return, and those on a stream are ordered by it. -1: the same.
    Raises Unsupported (another device, a copy).
    """
    del stream
    device = device_of(array)
    if dl_device is not None and tuple(dl_device) != device:
        raise BufferError(f"the array is on DLPack device {device}, not on {tuple(dl_device)}: "
                          "copy it by .numpy() or by the other library")
    if copy:
        raise BufferError("a DLPack copy is not made here: copy the result, for example by "
                          ".clone()")
    if array._block is None:
        raise Unsupported("memory of another PE has no DLPack form: get() it first")
    shape = _numbers(array.ndim)(*array.shape)
    full = contiguous_strides(array.shape, 1)
    steps = [stride // array.itemsize for stride in array.strides] if array.size else full
    strides = _numbers(array.ndim)(*steps)
    versioned = max_version is not None and max_version[0] >= 1
    managed = _ManagedVersioned() if versioned else _Managed()
    tensor = managed.tensor
    tensor.data = array._address if array.size else None
    tensor.device = _Device(*device)
    tensor.ndim = array.ndim
    tensor.dtype = _DataType(array.dtype.dlpack, array.itemsize * 8, 1)
    tensor.shape = ctypes.addressof(shape)
    tensor.strides = ctypes.addressof(strides)
    if versioned:
        managed.major, managed.minor, managed.flags = 1, 0, 0
    managed.deleter, capsule_gone = _destructors()
    address = ctypes.addressof(managed)
    _held[address] = (managed, (shape, strides), array)
    array._block.exports[address] = f"a DLPack export of shape {array.shape}"
    name = b"dltensor_versioned" if versioned else b"dltensor"
    return _api.PyCapsule_New(address, name, capsule_gone)


