# SPDX-License-Identifier: Apache-2.0
"""Device operations carried out by the CPU, for kernels that an interpreter runs: Triton's, and the
simulator of Numba. There the state of a job is the address of the job, and arrays are in host
memory.
"""

import ctypes
from typing import TYPE_CHECKING

from ._library import calls, check
from .errors import Unsupported

if TYPE_CHECKING:
    from ._job import Job


def state_of(job: "Job") -> int:
    """Returns the state of a job for interpreted kernels."""
    return job._handle


def run(name: str, state: int, *arguments: int) -> int:
    """Carries out the device operation `weft_state_block_NAME`. Returns its value, or 0. A failure
    raises its exception: in an interpreter no kernel has to be ended."""
    context = calls.default_ctx(state)
    if name in ("my_pe", "n_pes"):
        return int(getattr(calls, name)(state))
    if name == "ptr":
        return int(calls.ptr(state, *arguments) or 0)
    if name in ("g32", "g64"):
        value = ctypes.c_uint32() if name == "g32" else ctypes.c_uint64()
        address, pe = arguments
        check(getattr(calls, name)(context, address, ctypes.byref(value), pe))
        return int(value.value)
    if name == "barrier":
        if arguments[0] != 0:
            raise Unsupported(f"team {arguments[0]}: interpreted kernels have the barrier of all "
                              "PEs only, team 0")
        check(calls.barrier(calls.team_world(state)))
    elif name == "signal_wait":
        check(calls.signal_wait(context, *arguments, None))
    else:
        check(getattr(calls, name)(context, *arguments))
    return 0
