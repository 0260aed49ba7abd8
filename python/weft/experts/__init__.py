# SPDX-License-Identifier: Apache-2.0
"""Dispatch and combine of a mixture of experts with the names of DeepEP.

    import weft.experts

    weft.experts.as_deep_ep()           # `import deep_ep` now gives this module
    buffer = weft.experts.Buffer(group)

It runs on GPUs, and on CPU tensors without one: its import sets WEFT_TARGET=cuda where torch has a
GPU, unless it is set, and so comes before the first job or group. Buffer has DeepEP's first
interface, ElasticBuffer and EPBuffer dispatch and combine of the second. moe_dispatch() and
moe_combine() have gradients.
"""

import importlib.machinery
import sys
import types
from typing import Any

from ..errors import InvalidArgument
from ._autograd import moe_combine, moe_dispatch
from ._buffer import Buffer, Config, topk_idx_t
from ._elastic import ElasticBuffer, EPBuffer, EPHandle
from ._event import EventHandle, EventOverlap
from ._members import choose_target

__all__ = ["Buffer", "Config", "EPBuffer", "EPHandle", "ElasticBuffer", "EventHandle",
           "EventOverlap", "as_deep_ep", "moe_combine", "moe_dispatch", "topk_idx_t"]

choose_target()

_NAMES = ("deep_ep", "deep_ep.buffer", "deep_ep.utils")


def as_deep_ep() -> Any:
    """Makes `import deep_ep` give the names of this module, which it returns as that module. Called
    before the program imports deep_ep. Raises InvalidArgument where another one has been
    imported."""
    for name in _NAMES:
        found = sys.modules.get(name)
        if found is not None and not hasattr(found, "_is_weft"):
            raise InvalidArgument(f"{name} has been imported from "
                                  f"{getattr(found, '__file__', 'elsewhere')}: call "
                                  "weft.experts.as_deep_ep() before it is")
    for name in _NAMES:
        if name not in sys.modules:
            module: Any = types.ModuleType(name, __doc__)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            module.__path__ = []
            module._is_weft = True
            vars(module).update({other: globals()[other] for other in __all__})
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, module)
    return sys.modules["deep_ep"]
