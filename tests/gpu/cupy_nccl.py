# SPDX-License-Identifier: Apache-2.0
"""CuPy's module of NCCL over libweft-nccl: collectives and messages of processes, which may share
a GPU. LD_PRELOAD=libweft-nccl.so python tests/gpu/cupy_nccl.py RANKS"""
import multiprocessing
import sys
from typing import Any, List

N = 1000


def body(rank: int, n: int, ids: List[Any]) -> None:
    import cupy
    from cupy.cuda import nccl

    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    if rank == 0:
        unique = nccl.get_unique_id()
        for queue in ids:
            queue.put(unique)
    comm = nccl.NcclCommunicator(n, ids[rank].get(), rank)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        ramp = cupy.arange(N, dtype=cupy.float32)
        mine, total = ramp * (rank + 1), cupy.empty_like(ramp)
        gathered = cupy.empty((n, N), dtype=cupy.float32)
        given = cupy.full(77, rank, dtype=cupy.int32)
        got = cupy.empty_like(given)
        comm.allReduce(mine.data.ptr, total.data.ptr, N, nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                       stream.ptr)
        comm.allGather(mine.data.ptr, gathered.data.ptr, N, nccl.NCCL_FLOAT32, stream.ptr)
        nccl.groupStart()
        comm.send(given.data.ptr, 77, nccl.NCCL_INT32, (rank + 1) % n, stream.ptr)
        comm.recv(got.data.ptr, 77, nccl.NCCL_INT32, (rank - 1) % n, stream.ptr)
        nccl.groupEnd()
        comm.bcast(given.data.ptr, 77, nccl.NCCL_INT32, n - 1, stream.ptr)
        stream.synchronize()
        assert (total == ramp * (n * (n + 1) // 2)).all()
        assert all((gathered[i] == ramp * (i + 1)).all() for i in range(n))
        assert (got == (rank - 1) % n).all() and (given == n - 1).all()
    comm.destroy()
    print(f"rank {rank} of {n}: NCCL {nccl.get_version()}: ok", flush=True)


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    context = multiprocessing.get_context("spawn")
    queues = [context.Queue() for _ in range(ranks)]
    processes = [context.Process(target=body, args=(r, ranks, queues)) for r in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    sys.exit(any(process.exitcode != 0 for process in processes))
