# SPDX-License-Identifier: Apache-2.0
"""Device functions for kernels of Numba (numba-cuda).

    from numba import cuda
    import weft.numba as wn

    put_signal, signal_wait = wn.block_put_signal, wn.block_signal_wait

    @cuda.jit
    def shift(state, y, x, flag, pe):
        put_signal(state, y, x, 4096, flag, 1, 0, pe)
        signal_wait(state, flag, 5, 1)

    shift[1, 128](wn.state(job), y.address, x.address, flag.address, pe)

Every function has the state of the job as its first argument. Addresses and sizes in bytes are
uint64 (array.address), PEs and codes int32: signal operations 0 = set, 1 = add; comparisons 0 ==,
1 !=, 2 >, 3 <=, 4 <, 5 >=. They return 0 or a status, and job.device_check() raises the exception
of a failure. All threads of a block call block_..., of a warp warp_..., one thread calls
thread_....

Each function has two forms. Compiled, it is Weft's device function, by PTX, on GPU memory. With
NUMBA_ENABLE_CUDASIM=1 Numba's simulator runs kernels without a GPU, on arrays of host memory: the
functions of a thread and a block then call libweft, and a failure raises its exception at once.
Blocks run one after another there, so none can wait for another of the same PE. The simulator does
not synchronise warps, so it has no warp_....
"""

# Numba's own types lack what its CUDA target has.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict

from numba import cuda
from numba.core import config

from . import _interpreted
from ._machine import _run

if TYPE_CHECKING:
    from ._job import Job

SIMULATED: bool = bool(config.ENABLE_CUDASIM)
"""Whether Numba's simulator runs kernels (NUMBA_ENABLE_CUDASIM=1), on arrays of kind="host"."""

_SCOPED: Dict[str, str] = {
    "put": "int32(uint64, uint64, uint64, uint64, int32)",
    "put_nbi": "int32(uint64, uint64, uint64, uint64, int32)",
    "get": "int32(uint64, uint64, uint64, uint64, int32)",
    "get_nbi": "int32(uint64, uint64, uint64, uint64, int32)",
    "put_signal": "int32(uint64, uint64, uint64, uint64, uint64, uint64, int32, int32)",
    "signal_wait": "int32(uint64, uint64, int32, uint64)",
    "quiet": "int32(uint64)",
    "fence": "int32(uint64)",
    "barrier": "int32(uint64, int32)",
}
_OTHERS: Dict[str, str] = {
    "thread_p32": "int32(uint64, uint64, uint32, int32)",
    "thread_p64": "int32(uint64, uint64, uint64, int32)",
    "thread_g32": "uint32(uint64, uint64, int32)",
    "thread_g64": "uint64(uint64, uint64, int32)",
    "thread_signal": "int32(uint64, uint64, uint64, int32, int32)",
    "my_pe": "int32(uint64)",
    "n_pes": "int32(uint64)",
    "ptr": "uint64(uint64, uint64, int32)",
}


def library() -> str:
    """Returns the file that Numba links: the device functions as PTX."""
    package = Path(__file__).resolve().parent
    for path in (package / "share/weft/weft_device.ptx",
                 package.parents[1] / "build/share/weft/weft_device.ptx"):
        if path.exists():
            return str(path)
    return str(Path(_run(["include", "--bitcode"]).strip()).with_suffix(".ptx"))


def state(job: "Job") -> int:
    """Returns the state of `job`, the first argument of a kernel: an address. Collective when first
    called. Raises Unsupported where no GPU is usable and Numba does not simulate one."""
    return _interpreted.state_of(job) if SIMULATED else job.device_state()


def array(values: Any) -> Any:
    """Returns the argument of a kernel for `values`, an array of Weft, whose elements the kernel
    loads and stores. (The simulator would give the kernel a copy.)"""
    if not SIMULATED:
        return values
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

    return FakeCUDAArray(values.numpy())


def _simulated(scope: str, operation: str) -> Any:
    """Returns a function of the simulator. The thread, or the first of the block, executes it."""
    if scope != "block":
        return lambda *arguments: _interpreted.run(operation, *map(int, arguments))

    @cuda.jit(device=True)
    def together(*arguments: Any) -> int:
        cuda.syncthreads()
        if cuda.threadIdx.x == cuda.threadIdx.y == cuda.threadIdx.z == 0:
            _interpreted.run(operation, *map(int, arguments))
        cuda.syncthreads()
        return 0

    return together


def __getattr__(name: str) -> Any:
    scope, _, operation = name.partition("_")
    signature = _OTHERS.get(name)
    if signature is None and scope in ("thread", "warp", "block"):
        signature = _SCOPED.get(operation)
    if signature is None:
        raise AttributeError(f"module 'weft.numba' has no attribute {name!r}")
    if not SIMULATED:
        found = cuda.declare_device("weft_state_" + name, signature, link=library(), abi="c")
    elif scope == "warp":
        raise AttributeError(f"weft.numba.{name}: the simulator does not synchronise warps: use "
                             f"block_{operation} or thread_{operation}")
    else:
        found = _simulated(scope, operation if scope in ("thread", "block") else name)
    globals()[name] = found
    return found
