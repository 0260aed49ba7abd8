# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Weft.

    import torch.distributed as dist
    import weft.torch

    dist.init_process_group("weft", init_method="weft://")  # under `weft run`, torchrun, srun, ...

Without init_method torch finds the ranks as for other backends: by torchrun's variables, or by
store, rank and world_size. "weft://" takes them from the launcher of the job that weft.init()
returns, and makes the store at PE 0.

Each process group is a job of its own, whose PEs meet by the group's store. Collectives of CPU
tensors go through symmetric memory. Those of GPU tensors run on streams, on the tensors themselves:
on torch's current stream where the program waits, else on one of the group. Messages of GPU tensors
are copied to the host and back. Reductions combine elements in the order of ranks: every rank gets
the same bits.

A wait in which nothing moves ends after the group's timeout, or after WEFT_WAIT_LIMIT if that is
torch's default, and each when a peer dies: weft.Timeout and weft.PeerDead name it. With
TORCH_DISTRIBUTED_DEBUG=DETAIL the members compare operation, shapes, types, reduction and root
before a collective; a difference raises weft.Mismatch with the arguments of two ranks.
"""

import socket
from importlib import import_module
from typing import Any, Iterator, Tuple

from .._job import init
from ._group import ProcessGroup

__all__ = ["ProcessGroup", "register"]

_dist: Any = import_module("torch.distributed")


def _create(store: Any, rank: int, size: int, timeout: Any = None) -> ProcessGroup:
    return ProcessGroup(store, rank, size, timeout)


def _meet(url: str, timeout: Any = None, **rest: Any) -> Iterator[Tuple[Any, int, int]]:
    """Yields a store, and rank and size of the job that the launcher started."""
    job = init()
    where = job.zeros(256, "u1")
    store = None
    if job.rank == 0:
        host = "127.0.0.1" if job.node.size == job.size else socket.gethostname()
        store = _dist.TCPStore(host, 0, job.size, True, wait_for_workers=False)
        where[:] = list(f"{host} {store.port}".encode().ljust(256))
    job.broadcast(where, where)
    if store is None:
        host, port = bytes(where.tolist()).decode().split()
        store = _dist.TCPStore(host, int(port), job.size, False, wait_for_workers=False)
    yield store, job.rank, job.size


def register() -> None:
    """Makes the backend "weft" and the rendezvous "weft://" known to torch.distributed.
    `import weft.torch` does it."""
    try:
        _dist.register_rendezvous_handler("weft", _meet)
    except RuntimeError:
        pass  # known already
    if not hasattr(_dist.Backend, "WEFT"):
        try:
            _dist.Backend.register_backend("weft", _create, devices=["cpu", "cuda"])
        except TypeError:  # before torch 2.0
            _dist.Backend.register_backend("weft", _create)


register()
