# SPDX-License-Identifier: Apache-2.0
"""Weft: symmetric memory over all GPUs and hosts of a job, and one-sided operations on it.

    import weft

    job = weft.init()
    x, y = job.full(4, job.rank, dtype="f4"), job.zeros(4, dtype="f4")  # at every PE
    job.put(y, x, to=(job.rank + 1) % job.size)                         # into the next PE's y
    job.barrier()
    print(job.rank, y)

Start it by `python -m weft run -n 4 program.py`, mpirun, srun or torchrun.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from . import errors as errors
    from ._array import Array as Array
    from ._experts import Experts as Experts
    from ._experts import Received as Received
    from ._files import File as File
    from ._files import FileResult as FileResult
    from ._files import join_checksums as join_checksums
    from ._job import Context as Context
    from ._job import Job as Job
    from ._job import Team as Team
    from ._job import init as init
    from ._job import unique_id as unique_id
    from ._local import local as local
    from ._local import spawn as spawn
    from ._machine import bench as bench
    from ._machine import doctor as doctor
    from ._machine import explain as explain
    from ._machine import include as include
    from ._machine import topo as topo
    from ._machine import version as version
    from ._memory import Mapping as Mapping
    from ._memory import Registration as Registration
    from ._messages import Messages as Messages
    from ._operations import Handle as Handle
    from ._pool import Pool as Pool
    from .errors import *  # noqa: F403

__version__ = "0.2.0"

_FROM = {
    "init": "_job", "Job": "_job", "Team": "_job", "Context": "_job", "unique_id": "_job",
    "Array": "_array", "Handle": "_operations", "Pool": "_pool", "Mapping": "_memory",
    "Registration": "_memory",
    "local": "_local", "spawn": "_local",
    "Experts": "_experts", "Received": "_experts", "Messages": "_messages",
    "File": "_files", "FileResult": "_files", "join_checksums": "_files",
    "include": "_machine", "topo": "_machine", "explain": "_machine", "doctor": "_machine",
    "bench": "_machine", "version": "_machine",
}


def __getattr__(name: str) -> Any:
    # Modules are loaded when they are first used: `import weft` itself costs little.
    if name in _FROM:
        value = getattr(import_module("." + _FROM[name], __name__), name)
    else:
        value = _exceptions().get(name)
        if value is None:
            raise AttributeError(f"module 'weft' has no attribute {name!r}")
    globals()[name] = value
    return value


def _exceptions() -> Dict[str, Any]:
    errors = import_module(".errors", __name__)
    return {name: value for name, value in vars(errors).items()
            if isinstance(value, type) and issubclass(value, Exception) and name[0] != "_"}


def __dir__() -> List[str]:
    return sorted([*_FROM, "__version__", "errors", *_exceptions()])
