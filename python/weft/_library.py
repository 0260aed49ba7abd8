# SPDX-License-Identifier: Apache-2.0
"""Loads libweft, and calls its functions."""

import ctypes
import os
import re
import threading
from typing import Any, List, Optional, Tuple

from . import _bindings as b
from .errors import LibraryError, error_of

_TYPES = {
    "v": None,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "z": ctypes.c_size_t,
    "d": ctypes.c_ssize_t,
    "B": ctypes.c_uint8,
    "H": ctypes.c_uint16,
    "I": ctypes.c_uint32,
    "Q": ctypes.c_uint64,
    "s": ctypes.c_char_p,
    "p": ctypes.c_void_p,
}

# Of this package, and of the source that it may lie in. (pathlib takes 4 ms to import.)
_package = os.path.dirname(os.path.realpath(__file__))
_source = os.path.dirname(os.path.dirname(_package))

_library: Optional[ctypes.CDLL] = None


def _candidates() -> List[str]:
    """Returns where libweft may be: LIBWEFT alone, or the wheel, the build, the system."""
    named = os.environ.get("LIBWEFT")
    if named:
        return [named]
    files = (_package + "/lib/libweft.so.0", _source + "/build/lib/libweft.so.0")
    return [path for path in files if os.path.exists(path)] + ["libweft.so.0"]


def _versions() -> Tuple[str, str]:
    """Returns the versions of this package and of the loaded library."""
    mine = f"{b.WEFT_VERSION_MAJOR}.{b.WEFT_VERSION_MINOR}.{b.WEFT_VERSION_PATCH}"
    try:
        return mine, function("weft_version")().decode()
    except AttributeError:
        return mine, "none"


def _is_main_interpreter() -> bool:
    """Whether this is the interpreter that the process began with."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = api.PyInterpreterState_Main.restype = ctypes.c_void_p
    return bool(api.PyInterpreterState_Get() == api.PyInterpreterState_Main())


def _why_not_loaded(name: str, error: str) -> str:
    """Returns why a library could not be loaded; names both versions where the C library is too
    old."""
    wanted = re.search(r"version `GLIBC_([0-9.]+)' not found", error)
    if not wanted:
        return f"{name}: {error}"
    here = (os.confstr("CS_GNU_LIBC_VERSION") or "another C library").replace("glibc ", "")
    return (f"{name} needs glibc {wanted[1]}, and this system has {here}: use a newer system or "
            "an older wheel, or build Weft here (./dev build)")


def load() -> ctypes.CDLL:
    """Loads libweft once. Raises LibraryError if it is absent, or of another version."""
    global _library
    if _library is not None:
        return _library
    if not _is_main_interpreter():
        raise LibraryError("weft works in the main interpreter of a process, and this is a "
                           "sub-interpreter: its signals and callbacks would run in the other. Use "
                           "weft in the main interpreter, or start processes by weft.spawn()")
    tried = []
    for name in _candidates():
        try:
            loaded = ctypes.CDLL(name)
        except OSError as error:
            tried.append(_why_not_loaded(name, str(error)))
            continue
        _library = loaded
        mine, theirs = _versions()
        if mine != theirs:
            _library = None
            if theirs == "none":
                raise LibraryError(f"{name} is not libweft: it has no weft_version")
            raise LibraryError(
                f"{name} is version {theirs} of Weft, and this Python package is {mine}. "
                "Install both of one version, or set LIBWEFT to the other libweft.so.0.")
        return loaded
    raise LibraryError(
        f"libweft.so.0 cannot be loaded ({'; '.join(tried)}). "
        "Install Weft (pip install weft, or apt-get install libweft0), or set LIBWEFT.")


def library_path() -> str:
    """Returns the path or name by which libweft was loaded."""
    return str(load()._name)


def function(name: str) -> Any:
    """Returns a function of libweft with the types of its arguments and result."""
    letters = b.FUNCTIONS[name]
    found = getattr(load(), name)
    found.restype = _TYPES[letters[0]]
    found.argtypes = [_TYPES[letter] for letter in letters[1:]]
    return found


class _Calls:
    """The functions of libweft by name, without `weft_`; each gets its types when first used."""

    def __getattr__(self, name: str) -> Any:
        try:
            found = function("weft_" + name)
        except KeyError:
            raise AttributeError(f"Weft has no function weft_{name}") from None
        setattr(self, name, found)
        return found


calls = _Calls()


class _Interrupts(threading.local):
    """The exception that ended this thread's wait."""

    error: Optional[BaseException] = None


interrupts = _Interrupts()


def error_of_call(status: int) -> BaseException:
    """Returns the exception of a status, with the sentence of the calling thread's last error; or
    that of a signal handler, which ended the wait."""
    error, interrupts.error = interrupts.error, None
    if error is not None and status == b.STATUSES["WEFT_ERR_INTERRUPTED"][0]:
        return error
    return error_of(status, calls.last_error().decode(errors="replace"))


def check(status: int) -> None:
    """Raises the exception of a status."""
    if status:
        raise error_of_call(status)


def _is_binary(path: str) -> bool:
    """Whether a file is an executable, and not the script of this package, which looks for one."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def tool(name: str = "weft") -> str:
    """Returns the path of a program of Weft: of the wheel, of the build, or on PATH."""
    folders = [_package + "/bin", _source + "/build/bin"]
    if os.environ.get("LIBWEFT"):
        lib = os.path.dirname(os.path.realpath(os.environ["LIBWEFT"]))
        folders.insert(0, os.path.dirname(lib) + "/bin")
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path) and _is_binary(path):
            return path
    raise LibraryError(f"there is no program \"{name}\": install Weft (pip install weft), "
                       "or add its folder to PATH")
