# SPDX-License-Identifier: Apache-2.0
"""Registers Weft as a backend of torch's symmetric memory: compiles adapter.cpp, and is the Python
object that it calls."""

import ctypes
import os
import sys
import zlib
from importlib import import_module
from typing import Any, Dict, Optional, Tuple

from .._library import load
from ..errors import InvalidFree, Unsupported
from . import _operators, symm
from ._window import Allocation, allocate, find

# Of any type: torch declares less than it has.
torch: Any = import_module("torch")

_HEADER = "torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp"
_OLDEST = (2, 11)
_registered: Any = None


class _Backend:
    """What adapter.cpp calls. Addresses are those that torch's allocator interface hands out."""

    def __init__(self) -> None:
        self._kept: Dict[int, Allocation] = {}  # until torch frees them

    def alloc(self, nbytes: int, device: str, index: int, group_name: Optional[str]) -> int:
        place = torch.device(device, index) if device != "cpu" and index >= 0 else device
        made = allocate(symm._device_of(place), nbytes, group_name)
        self._kept[made.address] = made
        return made.address

    def free(self, address: int) -> None:
        del self._kept[address]

    def size(self, address: int) -> int:
        if address not in self._kept:
            raise InvalidFree(f"{address:#x} is not the address of a tensor of symm_mem.empty()")
        return self._kept[address].nbytes

    def has(self, address: int) -> bool:
        return find(address) is not None

    def rendezvous(self, address: int, group_name: Optional[str]) -> symm.SymmetricMemory:
        return symm._rendezvous(address, group_name)


def version() -> Tuple[int, int]:
    """Returns torch's version, major and minor."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def compile_adapter() -> str:
    """Returns the path of the compiled adapter.cpp in torch's extension cache. Compiles it where it
    is not there. Raises Unsupported."""
    if version() < _OLDEST:
        raise Unsupported(f"torch {torch.__version__} has no symmetric memory for which Weft can "
                          "be a backend: use torch 2.11 or newer, or weft.torch.symm without "
                          "register()")
    extension: Any = import_module("torch.utils.cpp_extension")
    if not any(os.path.exists(os.path.join(path, _HEADER)) for path in extension.include_paths()):
        raise Unsupported(f"torch {torch.__version__} is installed without the header {_HEADER}: "
                          "install torch from PyPI, or use weft.torch.symm without register()")
    source = os.path.join(os.path.dirname(__file__), "adapter.cpp")
    with open(source, "rb") as file:
        crc = zlib.crc32(file.read())
    words = f"weft_symm_{sys.implementation.cache_tag}_{torch.__version__}_{crc:08x}"
    name = "".join(c if c.isalnum() else "_" for c in words)
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or extension.get_default_build_root()
    folder = os.path.join(root, name)
    path = os.path.join(folder, name + ".so")
    # torch has a file "lock" there while it compiles.
    if not os.path.exists(path) or os.path.exists(os.path.join(folder, "lock")):
        try:
            os.makedirs(folder, exist_ok=True)
            extension.load(name, [source], build_directory=folder, with_cuda=False,
                           is_python_module=False)
        except (OSError, RuntimeError) as error:
            raise Unsupported("torch could not compile Weft's adapter, which needs a C++ compiler "
                              f"and ninja on PATH (pip install ninja): {error}") from error
    return path


def register() -> None:
    """Registers Weft once; see symm.register()."""
    global _registered
    if _registered is not None:
        return
    load()
    library = ctypes.PyDLL(compile_adapter())
    library.weft_register_symm.argtypes = [ctypes.py_object, ctypes.c_int]
    library.weft_register_symm.restype = None
    library.weft_register_symm(_Backend(), torch.cuda.is_available())
    _registered = _operators.register()
