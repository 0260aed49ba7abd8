# SPDX-License-Identifier: Apache-2.0
"""Time of a call from Python that queues 8 bytes on a stream, which it does not wait for: a put by
Weft and by nvshmem4py, and a sum over all PEs by Weft, nvshmem4py and nccl4py. One PE for each GPU;
what is not installed is left out, with the reason. By the median of 11 rounds of 200 calls.

    python -m weft run -n 2 bench/compare/python.py        # needs torch

The peers' own programs start by mpirun with mpi4py; here Weft starts them and sends their ids.
"""

import statistics
import timeit

import torch

import weft

job = weft.init()
x, y = job.zeros(2, "f4", kind="gpu"), job.zeros(2, "f4", kind="gpu")
other = (job.rank + 1) % job.size
stream = torch.cuda.Stream()
torch.cuda.set_stream(stream)
number = stream.cuda_stream


def call_us(call, calls=200):
    timer = timeit.Timer(call, setup=torch.cuda.synchronize)
    return statistics.median(timer.repeat(11, calls)) / calls * 1e6


def row(words, call, reset=torch.cuda.synchronize):
    call()
    job.barrier()
    us = call_us(call)
    reset()
    job.barrier()
    if job.rank == 0:
        print(f"{words:52} {us:8.2f} us", flush=True)


def send_to_all(made):
    """Returns PE 0's bytes at every PE."""
    data = job.zeros(len(made), "u1")
    if job.rank == 0:
        data[:] = list(made)
    job.broadcast(data, data, root=0)
    return bytes(data)


def by_weft():
    row("put: weft, the stream as a number", lambda: job.put(y, x, to=other, stream=number))
    row("put: weft, stream=\"torch\"", lambda: job.put(y, x, to=other, stream="torch"))
    row("allreduce: weft, the stream as a number", lambda: job.allreduce(y, x, stream=number))


def by_nvshmem4py():
    import numpy
    import nvshmem.core as nvshmem
    from cuda.core import Device

    device = Device(job.gpu()["ordinal"])
    device.set_current()
    uid = nvshmem.get_unique_id(empty=job.rank != 0)
    view = uid._data.view(numpy.uint8)
    view[...] = numpy.frombuffer(send_to_all(view.tobytes()), "u1").reshape(view.shape)
    nvshmem.init(device=device, uid=uid, rank=job.rank, nranks=job.size, initializer_method="uid")
    theirs = device.create_stream()
    a, b = nvshmem.tensor((2,)), nvshmem.tensor((2,))
    row("put: nvshmem4py, a stream of cuda.core",
        lambda: nvshmem.put(b, a, remote_pe=other, stream=theirs), theirs.sync)
    row("allreduce: nvshmem4py, a stream of cuda.core",
        lambda: nvshmem.reduce(nvshmem.Teams.TEAM_WORLD, b, a, "sum", stream=theirs), theirs.sync)


def by_nccl4py():
    import nccl.core as nccl

    made = bytes(nccl.get_unique_id()) if job.rank == 0 else bytes(128)
    communicator = nccl.Communicator.init(job.size, job.rank,
                                          nccl.UniqueId.from_bytes(send_to_all(made)))
    a, b = torch.zeros(2, device="cuda"), torch.zeros(2, device="cuda")
    row("allreduce: nccl4py, the stream as a number",
        lambda: communicator.allreduce(a, b, nccl.SUM, stream=number))


for side in (by_weft, by_nvshmem4py, by_nccl4py):
    try:
        side()
    except Exception as error:  # of whatever kind, and at every PE: the other rows follow
        if job.rank == 0:
            print(f"{side.__name__}: not measured: {type(error).__name__}: {error}", flush=True)
