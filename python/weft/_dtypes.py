# SPDX-License-Identifier: Apache-2.0
"""Element types: Weft's, and their names in numpy, torch, CuPy, JAX and DLPack."""

import struct
import sys
from typing import Any, Dict, NamedTuple, Optional, Union

from . import _bindings as b
from .errors import InvalidType


class DType(NamedTuple):
    """An element type.

    name: as numpy spells it ("float32"); itemsize: bytes of an element; typestr: of the array
    interface ("<f4"), or "<V2" where numpy has no such type; weft: the C library's type; dlpack:
    code of DLPack; code: of the struct module, or "" where it has none.
    """

    name: str
    itemsize: int
    typestr: str
    weft: int
    dlpack: int
    code: str


DTypeLike = Union[DType, str, type, Any]

_ALL = [
    DType("int8", 1, "|i1", b.WEFT_INT8, 0, "b"),
    DType("int16", 2, "<i2", b.WEFT_INT16, 0, "h"),
    DType("int32", 4, "<i4", b.WEFT_INT32, 0, "i"),
    DType("int64", 8, "<i8", b.WEFT_INT64, 0, "q"),
    DType("uint8", 1, "|u1", b.WEFT_UINT8, 1, "B"),
    DType("uint16", 2, "<u2", b.WEFT_UINT16, 1, "H"),
    DType("uint32", 4, "<u4", b.WEFT_UINT32, 1, "I"),
    DType("uint64", 8, "<u8", b.WEFT_UINT64, 1, "Q"),
    DType("float16", 2, "<f2", b.WEFT_HALF, 2, "e"),
    DType("float32", 4, "<f4", b.WEFT_FLOAT, 2, "f"),
    DType("float64", 8, "<f8", b.WEFT_DOUBLE, 2, "d"),
    DType("complex64", 8, "<c8", b.WEFT_COMPLEX_FLOAT, 5, ""),
    DType("complex128", 16, "<c16", b.WEFT_COMPLEX_DOUBLE, 5, ""),
    DType("bfloat16", 2, "<V2", b.WEFT_BFLOAT16, 4, ""),
    DType("float8_e4m3fn", 1, "|V1", b.WEFT_FP8_E4M3, 10, ""),
    DType("float8_e5m2", 1, "|V1", b.WEFT_FP8_E5M2, 12, ""),
    # Reductions treat False and True as 0 and 1 of an unsigned byte.
    DType("bool", 1, "|b1", b.WEFT_UINT8, 6, "?"),
]
_BY_NAME: Dict[Any, DType] = {d.name: d for d in _ALL}
_BY_NAME.update({d.typestr: d for d in _ALL if "V" not in d.typestr})
_BY_NAME.update({d.typestr[1:]: d for d in _ALL if "V" not in d.typestr})
_BY_NAME.update({bool: _BY_NAME["bool"], int: _BY_NAME["int64"], float: _BY_NAME["float64"],
                 complex: _BY_NAME["complex128"], "float": _BY_NAME["float64"],
                 "int": _BY_NAME["int64"], "double": _BY_NAME["float64"],
                 "half": _BY_NAME["float16"]})
# Characters of numpy and of the struct module.
for _code, _name in {
    "b": "int8", "h": "int16", "i": "int32", "l": "int64", "q": "int64", "B": "uint8",
    "H": "uint16", "I": "uint32", "L": "uint64", "Q": "uint64", "e": "float16", "f": "float32",
    "d": "float64", "F": "complex64", "D": "complex128", "?": "bool",
}.items():
    _BY_NAME[_code] = _BY_NAME[_name]

# Integer types by the size of an element, for atomics and waits.
WIDTHS = {2: "H", 4: "I", 8: "Q"}


def dtype_of(dtype: DTypeLike) -> DType:
    """Returns the element type that `dtype` names: a string, a type of Python, or a dtype of numpy,
    torch, CuPy, JAX or ml_dtypes. Raises InvalidType."""
    if isinstance(dtype, DType):
        return dtype
    found: Optional[DType] = None
    try:
        found = _BY_NAME.get(dtype)
    except TypeError:
        pass
    if found is None:
        # torch.float32 prints as itself; dtypes of numpy and ml_dtypes have names.
        name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
        found = _BY_NAME.get(str(name).replace("torch.", ""))
        if found is not None and getattr(dtype, "byteorder", "=") == ">":
            found = None
    if found is None:
        raise InvalidType(f"dtype {dtype!r} is none of Weft's: use one of "
                          f"{', '.join(d.name for d in _ALL)}, of this machine's byte order")
    return found


def bits_of(dtype: DType, value: Any) -> int:
    """Returns the bit pattern of a value of that type, as an unsigned integer."""
    if dtype.code:
        try:
            return int.from_bytes(struct.pack("=" + dtype.code, value), sys.byteorder)
        except (struct.error, OverflowError):
            raise InvalidType(f"{value!r} is not a value of {dtype.name}") from None
    if dtype.name == "bfloat16":
        bits = int.from_bytes(struct.pack("=f", value), sys.byteorder)
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if value == value else 0x7FC0
    if dtype.name in ("complex64", "complex128"):
        value = complex(value)
        code = "=ff" if dtype.itemsize == 8 else "=dd"
        return int.from_bytes(struct.pack(code, value.real, value.imag), sys.byteorder)
    raise InvalidType(f"{dtype.name} has no single values here: put an array of one element")


def value_of(dtype: DType, bits: int) -> Any:
    """Returns the value with that bit pattern."""
    data = bits.to_bytes(dtype.itemsize, sys.byteorder)
    if dtype.code:
        return struct.unpack("=" + dtype.code, data)[0]
    if dtype.name == "bfloat16":
        return struct.unpack("=f", (bits << 16).to_bytes(4, sys.byteorder))[0]
    if dtype.name in ("complex64", "complex128"):
        return complex(*struct.unpack("=ff" if dtype.itemsize == 8 else "=dd", data))
    raise InvalidType(f"{dtype.name} has no single values here: get an array of one element")
