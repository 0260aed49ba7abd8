# SPDX-License-Identifier: Apache-2.0
"""JAX's collectives over libweft-nccl: a process for each rank; ranks share GPUs where there are
fewer. LD_PRELOAD=libweft-nccl.so python tests/gpu/jax_nccl.py RANKS"""
import os
import subprocess
import sys

N = 4096


def start(ranks: int) -> int:
    command = [sys.executable, __file__]
    processes = [subprocess.Popen(command + [str(rank), str(ranks)]) for rank in range(ranks)]
    try:
        return max(process.wait(120) != 0 for process in processes)
    finally:
        for process in processes:
            process.kill()


def body(rank: int, n: int) -> None:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    gpus = len(subprocess.check_output(["nvidia-smi", "-L"]).splitlines())
    jax.distributed.initialize("127.0.0.1:29571", n, rank, local_device_ids=[rank % gpus])
    mesh, part = Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x")

    def collectives(v):  # type: ignore[no-untyped-def]
        around = [(i, (i + 1) % n) for i in range(n)]
        exchanged = jax.lax.all_to_all(v.reshape(n, -1), "x", 0, 0)
        return (jax.lax.psum(v, "x"), jax.lax.ppermute(v, "x", around), exchanged.reshape(-1))

    ramp = np.arange(N, dtype=np.float32)
    mine = jax.make_array_from_process_local_data(NamedSharding(mesh, part), ramp * (rank + 1),
                                                  (N * n,))
    run = jax.jit(jax.shard_map(collectives, mesh=mesh, in_specs=part,
                                out_specs=(PartitionSpec(), part, part)))
    total, moved, exchanged = (np.asarray(a.addressable_shards[0].data) for a in run(mine))
    own = ramp.reshape(n, -1)[rank]
    assert np.array_equal(total, ramp * (n * (n + 1) // 2))
    assert np.array_equal(moved, ramp * ((rank - 1) % n + 1))
    assert np.array_equal(exchanged, np.concatenate([own * (i + 1) for i in range(n)]))
    jax.distributed.shutdown()
    print(f"rank {rank} of {n}: JAX {jax.__version__}: ok", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(start(int(sys.argv[1])))
    body(int(sys.argv[1]), int(sys.argv[2]))
