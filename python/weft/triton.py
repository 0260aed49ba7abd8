# SPDX-License-Identifier: Apache-2.0
"""Operations for kernels of Triton, which all threads of a program call together.

    import weft.triton as wt

    @triton.jit(do_not_specialize=["state", "pe"])
    def shift(state, x, y, flag, pe):
        wt.put_signal(state, y, x, 4096, flag, 1, pe)
        wt.signal_wait(state, flag, 1)

    shift[(1,)](wt.state(job), x.torch(), y.torch(), flag.torch(), pe,
                extern_libs=wt.extern_libs())

The state of the job is an argument, so no module has to be initialised. Addresses are pointers or
numbers; sizes are in bytes; `dst` of a put, `src` of a get and `signal` are symmetric arrays. Every
operation stands in the order of the program: a barrier of its threads comes before it. A function
returns 0 or a status; job.device_check() raises the exception of a failure.

Each function has two forms. Compiled, it is Weft's device function, by LLVM bitcode, on GPU memory.
With TRITON_INTERPRET=1 it calls libweft on host memory, needs no GPU, and a failure raises its
exception at once; the programs of a grid then run one after another, so none can wait for another
of the same PE. Loads, stores and atomics of Triton on peer_ptr() work in both.
"""

# Where triton is absent, pyright takes this file for it. Arguments of kernels are constants there.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict

import triton
import triton.language as tl
from triton.language import core

from . import _interpreted
from ._machine import _run

if TYPE_CHECKING:
    from ._job import Job

_I32, _I64 = core.dtype("int32"), core.dtype("int64")


@triton.jit
def _int64(value):
    return tl.full((), 0, tl.int64) + value


INTERPRETED: bool = not isinstance(_int64, triton.JITFunction)
"""Whether Triton interprets kernels (TRITON_INTERPRET=1): arrays are then of kind="host"."""


def extern_libs() -> Dict[str, str]:
    """Returns the argument `extern_libs` of a launch: Weft's device functions as LLVM bitcode.
    Empty in the interpreter. Raises WeftError where Weft was built without device code."""
    if INTERPRETED:
        return {}
    package = Path(__file__).resolve().parent
    for path in (package / "share/weft/weft_device.bc",
                 package.parents[1] / "build/share/weft/weft_device.bc"):
        if path.exists():
            return {"weft": str(path)}
    return {"weft": _run(["include", "--bitcode"]).strip()}


def state(job: "Job") -> int:
    """Returns the state of `job`, the first argument of a kernel: an address. Collective when first
    called. Raises Unsupported where no GPU is usable and Triton does not interpret."""
    return _interpreted.state_of(job) if INTERPRETED else job.device_state()


def _operation(name: str, types: Any, result: Any, scope: str = "block_") -> Any:
    """Returns the function of a kernel for a device function with these types of arguments."""

    def interpreted(*arguments: Any) -> int:
        return _interpreted.run(name, *map(operator.index, arguments))

    @core.extern
    def compiled(*arguments: Any, _semantic: Any = None) -> Any:
        symbols = {types: (f"weft_state_{scope}{name}", result)}
        return core.extern_elementwise("", "", list(arguments), symbols, is_pure=False,
                                       _semantic=_semantic)

    return interpreted if INTERPRETED else compiled


_put = _operation("put", (_I64, _I64, _I64, _I64, _I32), _I32)
_get = _operation("get", (_I64, _I64, _I64, _I64, _I32), _I32)
_put_signal = _operation("put_signal", (_I64, _I64, _I64, _I64, _I64, _I64, _I32, _I32), _I32)
_signal_wait = _operation("signal_wait", (_I64, _I64, _I32, _I64), _I32)
_barrier = _operation("barrier", (_I64, _I32), _I32)
_quiet = _operation("quiet", (_I64,), _I32)
_fence = _operation("fence", (_I64,), _I32)
_my_pe = _operation("my_pe", (_I64,), _I32, scope="")
_n_pes = _operation("n_pes", (_I64,), _I32, scope="")
_ptr = _operation("ptr", (_I64, _I64, _I32), _I64, scope="")


@triton.jit
def put(state, dst, src, nbytes, pe):
    """Copies `nbytes` bytes from `src` to `dst` of PE `pe`; `src` may be reused after it."""
    tl.debug_barrier()
    return _put(state, dst.to(tl.int64), src.to(tl.int64), _int64(nbytes), pe)


@triton.jit
def get(state, dst, src, nbytes, pe):
    """Copies `nbytes` bytes from `src` of PE `pe` to `dst`, which has them after it."""
    tl.debug_barrier()
    status = _get(state, dst.to(tl.int64), src.to(tl.int64), _int64(nbytes), pe)
    tl.debug_barrier()
    return status


@triton.jit
def put_signal(state, dst, src, nbytes, signal, value, pe, add: tl.constexpr = 0):
    """Copies as put(), then sets `signal` of PE `pe`, an element of 8 bytes, to `value`, or adds it
    (add=1). The signal is never visible before the data."""
    tl.debug_barrier()
    return _put_signal(state, dst.to(tl.int64), src.to(tl.int64), _int64(nbytes),
                       signal.to(tl.int64), _int64(value), tl.full((), add, tl.int32), pe)


@triton.jit
def signal_wait(state, signal, value):
    """Waits until `signal` of this PE, an element of 8 bytes, is at least `value`."""
    status = _signal_wait(state, signal.to(tl.int64), tl.full((), 5, tl.int32), _int64(value))
    tl.debug_barrier()
    return status


@triton.jit
def barrier(state, team=0):
    """Waits for the same program of all PEs of `team` (0: of the job), and completes all
    operations. One program at a time. The interpreter has team 0 only."""
    tl.debug_barrier()
    return _barrier(state, tl.full((), 0, tl.int32) + team)


@triton.jit
def quiet(state):
    """Waits until all operations are complete."""
    tl.debug_barrier()
    return _quiet(state)


@triton.jit
def fence(state):
    """Orders operations before it, to each PE, before those after it."""
    tl.debug_barrier()
    return _fence(state)


@triton.jit
def my_pe(state):
    """Returns the number of this PE."""
    return _my_pe(state)


@triton.jit
def n_pes(state):
    """Returns the number of PEs in the job."""
    return _n_pes(state)


@triton.jit
def peer_ptr(state, pointer, pe):
    """Returns the pointer to the same place as `pointer` at PE `pe`, for loads, stores and atomics
    of Triton; null where this PE has no address of that memory."""
    return _int64(_ptr(state, pointer.to(tl.int64), pe)).to(pointer.dtype)
