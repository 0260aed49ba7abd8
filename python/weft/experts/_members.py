# SPDX-License-Identifier: Apache-2.0
"""The job of the processes of a group, which their buffers share."""

import os
from importlib import import_module
from typing import Any, Dict, List, Tuple

from .._job import join, unique_id
from .._library import calls, check
from ..errors import InvalidArgument, Unsupported

torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")

_ids: Dict[int, bytes] = {}  # of this process, by pid: a fork is another process
_jobs: "Dict[Tuple[bytes, ...], Members]" = {}  # by the ids of the members


def choose_target() -> None:
    """Kernels run on the GPU where torch has one, unless WEFT_TARGET says otherwise: libweft sees
    no kernel in a Python program."""
    if torch.cuda.device_count() > 0:  # which does not begin CUDA: a fork may still use it
        os.environ.setdefault("WEFT_TARGET", "cuda")


def _gather(group: Any, comm: Any, mine: Any) -> Tuple[int, List[Any]]:
    """Returns this process's rank in the group, and what each member gives."""
    if group is None and comm is None:
        raise InvalidArgument("neither group nor comm is given: pass a group of torch.distributed, "
                              "or a communicator of mpi4py")
    if group is None:
        return int(comm.Get_rank()), list(comm.allgather(mine))
    given: List[Any] = [None] * int(group.size())
    dist.all_gather_object(given, mine, group=group)
    return int(group.rank()), given


def members_of(group: Any, comm: Any, nbytes: int) -> "Members":
    """Returns the members of a group, with a job of theirs that has a heap of at least that many
    bytes if it is new. Collective."""
    mine = _ids.setdefault(os.getpid(), os.urandom(16))
    rank, given = _gather(group, comm, mine)
    key = tuple(given)
    found = _jobs.get(key)
    if found is None:
        _, given = _gather(group, comm, unique_id() if rank == 0 else b"")
        found = _jobs[key] = Members(key, rank, given[0], nbytes)
    found.users += 1
    return found


class Members:
    """The processes of a group. A process has one job with kernels at a time: all buffers of the
    same members use it, and its stream."""

    def __init__(self, key: Tuple[bytes, ...], rank: int, id_: bytes, nbytes: int) -> None:
        self._key, self.users = key, 0
        self.rank, self.size = rank, len(key)
        # The configured heap, if it is as large: addresses alone are reserved.
        self.job = join(nbytes if nbytes > 4 << 30 else 0, id_, self.rank, self.size)
        try:
            check(calls.device_start(self.job._handle))
        except Unsupported as error:
            self.job.finalize()
            raise Unsupported(f"{error}. Buffers of the same processes share a job; destroy() "
                              "those of other groups first") from None
        self.job._make_current()
        # Exchanges of the host must not mix with the job's collectives on streams.
        self._team: Any = self.job.split(0, 1, self.size)
        self._numbers = [self.job.zeros(8, "i8"), self.job.zeros(8, "i8")]
        self.comm: Any = None
        if self.job.target == "cuda":
            self.comm = torch.cuda.Stream(self.job._gpu_ordinal())

    def leave(self) -> None:
        """Ends the job with its last buffer. Collective."""
        self.users -= 1
        if self.users == 0:
            del _jobs[self._key]
            self.job.finalize()

    def agree(self, *numbers: int) -> List[int]:
        """Returns the members' largest of each number. Collective; the host waits."""
        mine, all_ = self._numbers
        for i, number in enumerate(numbers):
            mine[i] = number
        self._team.allreduce(all_, mine, "max")
        found = [int(all_[i]) for i in range(len(numbers))]
        self._team.sync()  # before the next exchange changes what others read
        return found

    def settle(self) -> None:
        """Waits for what streams have been given: the communication stream, and graphs on
        others."""
        if self.comm is not None:
            torch.cuda.synchronize(self.comm.device)
        else:
            check(calls.stream_synchronize(0))

    def capturing(self) -> bool:
        """Whether torch's current stream is captured into a CUDA graph."""
        return self.comm is not None and bool(torch.cuda.is_current_stream_capturing())

    def check_not_capturing(self) -> None:
        """Raises InvalidArgument while a CUDA graph is being captured."""
        if self.capturing():
            raise InvalidArgument("a CUDA graph is being captured, and this call allocates memory "
                                  "or waits for other ranks: make it once before the capture, with "
                                  "the same sizes")

    def check_device(self, tensor: Any) -> None:
        """Raises InvalidArgument for a tensor that is not where kernels run."""
        device = torch.device("cpu") if self.comm is None else self.comm.device
        if tensor.device == device:
            return
        if self.comm is None:
            remedy = ("call weft.experts.as_deep_ep(), or set WEFT_TARGET=cuda, before the first "
                      "job or group \"weft\" of the process")
        elif not tensor.is_cuda:
            remedy = "set WEFT_TARGET=simt for tensors in host memory, or move it to the GPU"
        else:
            remedy = f"call torch.cuda.set_device({device.index}) first, or set WEFT_GPU"
        raise InvalidArgument(f"a tensor is on {tensor.device}, and kernels of this PE run on "
                              f"{device}: {remedy}")
