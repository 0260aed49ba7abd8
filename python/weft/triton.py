# SPDX-License-Identifier: Apache-2.0
"""Operations for kernels of Triton, which all threads of a program call together.

    import weft.triton as wt

    @triton.jit(do_not_specialize=["state", "pe"])
    def shift(state, x, y, flag, pe):
        wt.put_signal(state, y, x, 4096, flag, 1, pe)
        wt.signal_wait(state, flag, 1)

    shift[(1,)](job.device_state(), x.torch(), y.torch(), flag.torch(), pe,
                extern_libs=wt.extern_libs())

The state of the job is an argument, so no module has to be initialised. Addresses are pointers or
numbers; sizes are in bytes; `dst` of a put, `src` of a get and `signal` are symmetric arrays of GPU
memory. Every operation stands in the order of the program: a barrier of its threads comes before it.
"""

from pathlib import Path
from typing import Any, Dict

import triton
import triton.language as tl
from triton.language import core

from ._machine import _run

_I32, _I64 = core.dtype("int32"), core.dtype("int64")


def extern_libs() -> Dict[str, str]:
    """Returns the argument `extern_libs` of a launch: Weft's device functions as LLVM bitcode."""
    package = Path(__file__).resolve().parent
    for path in (package / "share/weft/weft_device.bc",
                 package.parents[1] / "build/share/weft/weft_device.bc"):
        if path.exists():
            return {"weft": str(path)}
    return {"weft": _run(["include", "--bitcode"]).strip()}


def _call(name: str, arguments: Any, types: Any, result: Any, semantic: Any) -> Any:
    return core.extern_elementwise("", "", arguments, {types: (name, result)}, is_pure=False,
                                   _semantic=semantic)


@core.extern
def _put(state, dst, src, nbytes, pe, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_put", [state, dst, src, nbytes, pe], (_I64, _I64, _I64, _I64, _I32),
                 _I32, _semantic)


@core.extern
def _get(state, dst, src, nbytes, pe, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_get", [state, dst, src, nbytes, pe], (_I64, _I64, _I64, _I64, _I32),
                 _I32, _semantic)


@core.extern
def _put_signal(state, dst, src, nbytes, signal, value, op, pe, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_put_signal", [state, dst, src, nbytes, signal, value, op, pe],
                 (_I64, _I64, _I64, _I64, _I64, _I64, _I32, _I32), _I32, _semantic)


@core.extern
def _signal_wait(state, signal, cmp, value, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_signal_wait", [state, signal, cmp, value], (_I64, _I64, _I32, _I64),
                 _I32, _semantic)


@core.extern
def _barrier(state, team, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_barrier", [state, team], (_I64, _I32), _I32, _semantic)


@core.extern
def _quiet(state, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_quiet", [state], (_I64,), _I32, _semantic)


@core.extern
def _fence(state, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_block_fence", [state], (_I64,), _I32, _semantic)


@core.extern
def _my_pe(state, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_my_pe", [state], (_I64,), _I32, _semantic)


@core.extern
def _n_pes(state, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_n_pes", [state], (_I64,), _I32, _semantic)


@core.extern
def _ptr(state, address, pe, _semantic=None):  # type: ignore[no-untyped-def]
    return _call("weft_state_ptr", [state, address, pe], (_I64, _I64, _I32), _I64, _semantic)


@triton.jit
def _int64(value):  # type: ignore[no-untyped-def]
    return tl.full((), 0, tl.int64) + value


@triton.jit
def put(state, dst, src, nbytes, pe):  # type: ignore[no-untyped-def]
    """Copies `nbytes` bytes from `src` to `dst` of PE `pe`; `src` may be reused after it."""
    tl.debug_barrier()
    return _put(state, dst.to(tl.int64), src.to(tl.int64), _int64(nbytes), pe)


@triton.jit
def get(state, dst, src, nbytes, pe):  # type: ignore[no-untyped-def]
    """Copies `nbytes` bytes from `src` of PE `pe` to `dst`."""
    tl.debug_barrier()
    status = _get(state, dst.to(tl.int64), src.to(tl.int64), _int64(nbytes), pe)
    tl.debug_barrier()
    return status


@triton.jit
def put_signal(state, dst, src, nbytes, signal, value, pe, add: tl.constexpr = 0):  # type: ignore[no-untyped-def]
    """Copies as put(), then sets `signal` of PE `pe` to `value`, or adds it (add=1)."""
    tl.debug_barrier()
    return _put_signal(state, dst.to(tl.int64), src.to(tl.int64), _int64(nbytes), signal.to(tl.int64),
                       _int64(value), tl.full((), add, tl.int32), pe)


@triton.jit
def signal_wait(state, signal, value):  # type: ignore[no-untyped-def]
    """Waits until `signal` of this PE is at least `value`. Returns 0, or the status of a failure."""
    status = _signal_wait(state, signal.to(tl.int64), tl.full((), 5, tl.int32), _int64(value))
    tl.debug_barrier()
    return status


@triton.jit
def barrier(state, team=0):  # type: ignore[no-untyped-def]
    """Waits for the same program of all PEs, and completes all operations. One program at a time."""
    tl.debug_barrier()
    return _barrier(state, tl.full((), 0, tl.int32) + team)


@triton.jit
def quiet(state):  # type: ignore[no-untyped-def]
    """Waits until all operations are complete."""
    tl.debug_barrier()
    return _quiet(state)


@triton.jit
def fence(state):  # type: ignore[no-untyped-def]
    """Orders operations before it, to each PE, before those after it."""
    tl.debug_barrier()
    return _fence(state)


@triton.jit
def my_pe(state):  # type: ignore[no-untyped-def]
    """Number of this PE."""
    return _my_pe(state)


@triton.jit
def n_pes(state):  # type: ignore[no-untyped-def]
    """Number of PEs in the job."""
    return _n_pes(state)


@triton.jit
def peer_ptr(state, pointer, pe):  # type: ignore[no-untyped-def]
    """Returns the pointer to the same place at PE `pe`, for loads, stores and atomics of Triton; null
    where this GPU has no address of that memory."""
    return _ptr(state, pointer.to(tl.int64), pe).to(pointer.dtype)
