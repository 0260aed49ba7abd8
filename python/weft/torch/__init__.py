# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Weft.

    import torch.distributed as dist
    import weft.torch

    dist.init_process_group("weft")     # under torchrun, or with a store, rank and world_size

Each process group is a job of its own, whose PEs meet by the group's store. Collectives of CPU
tensors go through symmetric memory, and are complete when the call returns, also with
async_op=True. Those of GPU tensors run on torch's current stream; uneven ones, gather, scatter and
messages are copied to the host and back. Reductions combine elements in the
order of ranks: every rank gets the same bits.

Waits end after WEFT_WAIT_LIMIT, and when a peer dies: weft.Timeout and weft.PeerDead name it. With
TORCH_DISTRIBUTED_DEBUG=DETAIL the members compare operation, shapes, types, reduction and root
before a collective; a difference raises weft.Mismatch with the arguments of two ranks.
"""

from importlib import import_module
from typing import Any

from ._group import ProcessGroup

__all__ = ["ProcessGroup", "register"]

_dist: Any = import_module("torch.distributed")


def _create(store: Any, rank: int, size: int, timeout: Any = None) -> ProcessGroup:
    return ProcessGroup(store, rank, size, timeout)


def register() -> None:
    """Makes the backend "weft" known to torch.distributed. `import weft.torch` does it."""
    if not hasattr(_dist.Backend, "WEFT"):
        try:
            _dist.Backend.register_backend("weft", _create, devices=["cpu", "cuda"])
        except TypeError:  # before torch 2.0
            _dist.Backend.register_backend("weft", _create)


register()
