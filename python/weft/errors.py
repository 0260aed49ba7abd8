# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Weft: one for each status of the C library, below WeftError."""

import re
from typing import Dict, Optional, Tuple, Type

from . import _bindings as b


class WeftError(Exception):
    """A call of Weft failed.

    status: the name of the C library's status for this kind of error ("WEFT_ERR_PE"), or "".
    pe: number of the PE that the sentence is about, or None.
    """

    status = ""

    def __init__(self, sentence: str, pe: Optional[int] = None) -> None:
        super().__init__(sentence)
        self.pe = pe


class LibraryError(WeftError, OSError):
    """libweft or a program of Weft is absent, or has another version than this package."""


class InvalidArgument(WeftError, ValueError):
    """An argument is null or out of its range."""


class InvalidPE(WeftError, ValueError):
    """No such PE in this job, team or context."""


class NotSymmetric(WeftError, ValueError):
    """The memory is not symmetric, or not of this job."""


class OutOfRange(WeftError, IndexError):
    """The transfer runs past the end of its memory."""


class InvalidType(WeftError, TypeError):
    """The element type is unknown or not valid for this operation."""


class InvalidOperation(WeftError, ValueError):
    """The operation or comparison is unknown."""


class InvalidConfig(WeftError, ValueError):
    """A configuration variable is unknown or has a bad value."""


class OutOfMemory(WeftError, MemoryError):
    """The symmetric heap or the system has no memory of that size left."""


class SystemRefused(WeftError, OSError):
    """The operating system refused a call."""


class Mismatch(WeftError):
    """The PEs called a collective function with different arguments."""


class Unsupported(WeftError, NotImplementedError):
    """Not supported here."""


class InvalidFree(WeftError, ValueError):
    """Not the start of an allocated block, or memory that is still in use."""


class NotMember(WeftError, ValueError):
    """This PE is not a member of the team."""


class Misaligned(WeftError, ValueError):
    """The address is not aligned for its type."""


class KernelError(WeftError):
    """A kernel could not be started, or was ended for a fault in it."""


class Interrupted(WeftError, RuntimeError):
    """A wait was ended because of an exception in another thread, for example of another local
    PE."""


class PeerDead(WeftError, ConnectionError):
    """A PE of the job has ended; `pe` is its number."""


class Timeout(WeftError, TimeoutError):
    """The wait limit passed without progress."""


class NoPath(WeftError, ConnectionError):
    """There is no usable path to that PE."""


class PathFailed(WeftError, ConnectionError):
    """The path to that PE failed."""


class Finalized(WeftError, RuntimeError):
    """The job has been finalized."""


class BootFailed(WeftError, ConnectionError):
    """The PEs of the job could not find each other."""


class JobFailed(WeftError, RuntimeError):
    """The job has failed."""


class VersionMismatch(WeftError, RuntimeError):
    """The PEs run different versions of Weft."""


class PEsFailed(WeftError, RuntimeError):
    """The function raised an exception at one PE or more (weft.local, weft.spawn).

    failures: the exception of each PE that failed, by its number; the text has their tracebacks.
    """

    def __init__(self, failures: Dict[int, BaseException], texts: Dict[int, str]) -> None:
        self.failures = failures
        lines = [f"{len(failures)} PE{'s' * (len(failures) > 1)} failed"]
        lines += [f"PE {pe}: {texts[pe].rstrip()}" for pe in sorted(texts)]
        super().__init__("\n".join(lines), min(failures) if failures else None)


_CLASSES: Dict[str, Type[WeftError]] = {
    "WEFT_ERR_ARGUMENT": InvalidArgument,
    "WEFT_ERR_PE": InvalidPE,
    "WEFT_ERR_ADDRESS": NotSymmetric,
    "WEFT_ERR_RANGE": OutOfRange,
    "WEFT_ERR_TYPE": InvalidType,
    "WEFT_ERR_OP": InvalidOperation,
    "WEFT_ERR_CONFIG": InvalidConfig,
    "WEFT_ERR_NO_MEMORY": OutOfMemory,
    "WEFT_ERR_SYSTEM": SystemRefused,
    "WEFT_ERR_MISMATCH": Mismatch,
    "WEFT_ERR_UNSUPPORTED": Unsupported,
    "WEFT_ERR_FREE": InvalidFree,
    "WEFT_ERR_NOT_MEMBER": NotMember,
    "WEFT_ERR_ALIGNMENT": Misaligned,
    "WEFT_ERR_KERNEL": KernelError,
    "WEFT_ERR_INTERRUPTED": Interrupted,
    "WEFT_ERR_PEER_DEAD": PeerDead,
    "WEFT_ERR_TIMEOUT": Timeout,
    "WEFT_ERR_NO_PATH": NoPath,
    "WEFT_ERR_PATH": PathFailed,
    "WEFT_ERR_FINALIZED": Finalized,
    "WEFT_ERR_BOOT": BootFailed,
    "WEFT_ERR_JOB": JobFailed,
    "WEFT_ERR_VERSION": VersionMismatch,
}
_NAMES: Dict[int, Tuple[str, str]] = {
    value: (name, text) for name, (value, text) in b.STATUSES.items()
}

for _name, _class in _CLASSES.items():
    _class.status = _name


def error_of(status: int, sentence: str) -> WeftError:
    """Returns the exception of a status of the C library with that sentence."""
    name, text = _NAMES.get(status, ("", f"unknown status {status}"))
    pe = re.search(r"\bPE (\d+)", sentence)
    return _CLASSES.get(name, WeftError)(sentence or text, int(pe[1]) if pe else None)
