# SPDX-License-Identifier: Apache-2.0
"""Device functions for kernels of Numba (numba-cuda).

    from numba import cuda
    import weft.numba as wn

    @cuda.jit(link=[])
    def shift(state, y, x, flag, pe):
        wn.block_put_signal(state, y, x, 4096, flag, 1, 0, pe)
        wn.block_signal_wait(state, flag, 5, 1)

Every function has the state of the job (job.device_state()) as its first argument. Addresses and sizes
are uint64 (array.address), PEs and codes int32: signal operations 0 = set, 1 = add; comparisons 0 ==,
1 !=, 2 >, 3 <=, 4 <, 5 >=. They return 0 or a status. All threads of a block call block_..., one
thread calls thread_....
"""

from pathlib import Path
from typing import Any, Dict

from numba import cuda

from ._machine import _run

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


def __getattr__(name: str) -> Any:
    scope, _, operation = name.partition("_")
    signature = _OTHERS.get(name)
    if signature is None and scope in ("thread", "warp", "block"):
        signature = _SCOPED.get(operation)
    if signature is None:
        raise AttributeError(f"module 'weft.numba' has no attribute {name!r}")
    found = cuda.declare_device("weft_state_" + name, signature, link=library(), abi="c")
    globals()[name] = found
    return found
