# SPDX-License-Identifier: Apache-2.0
"""Arrays of GPU memory shared with torch, CuPy and JAX, their streams, and kernels of CuPy, Triton
and Numba that communicate; then the blocks of docs/python*.md that need a GPU. Not a test of the
build: it needs a GPU; what is not installed is skipped.

    python -m weft run -n 2 tests/gpu/python.py       # PEs may share a GPU
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import traceback

os.environ.setdefault("WEFT_TARGET", "cuda")
os.environ.setdefault("WEFT_WAIT_LIMIT", "60s")
# PEs that share a GPU must leave each other some of it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import pages  # noqa: E402
import weft  # noqa: E402

job = weft.init()
right, left = (job.rank + 1) % job.size, (job.rank - 1) % job.size
failures = 0


def part(*needs):
    """Runs a function at every PE where the packages are installed, and prints its outcome."""
    def run(function):
        global failures
        missing = [name for name in needs if importlib.util.find_spec(name) is None]
        word = "ok"
        if missing:
            word = "skipped: no " + ", ".join(missing)
        else:
            try:
                function()
                job.barrier()
            except BaseException:
                failures += 1
                word = "FAILED\n" + traceback.format_exc()
                print(f"PE {job.rank}: {function.__name__}: {word}", flush=True)
                raise SystemExit(1) from None
        if job.rank == 0:
            print(f"{function.__name__:32} {word}", flush=True)
        return function
    return run


@part()
def arrays_of_the_gpu():
    for dtype in ("i4", "f4", "f8", "u1", "bfloat16", "bool"):
        x = job.zeros((3, 5), dtype, kind="gpu")
        assert x.kind == "gpu" and x.tolist() == [[0] * 5] * 3
        x[1, 2:4] = 1
        x[2] = [1, 0, 1, 0, 1]
        assert x.tolist() == [[0] * 5, [0, 0, 1, 1, 0], [1, 0, 1, 0, 1]]
        assert x[1, 2] == 1 and x[:, 1].tolist() == [0, 0, 0]
    y = job.full(1000, job.rank + 1, "i8", kind="gpu")
    z = job.zeros(1000, "i8", kind="gpu")
    job.put(z, y, to=right)
    job.barrier()
    assert z.tolist() == [left + 1] * 1000
    job.allreduce(z, y)
    assert z.tolist() == [job.size * (job.size + 1) // 2] * 1000
    host = job.zeros(1000, "i8")
    job.get(host, y, of=right)
    assert (host == right + 1).all() if hasattr(host, "all") else host[3] == right + 1
    assert y.peer(right).tolist() == [right + 1] * 1000
    assert "name" in job.gpu() and job.path(right, "gpu")["name"]


@part("torch")
def torch_shares_memory():
    import torch

    assert torch.cuda.current_device() == job.gpu()["ordinal"]  # the first array made it current
    x = job.zeros((4, 6), "f4", kind="gpu")
    t = x.torch()
    assert t.is_cuda and t.data_ptr() == x.address and t.shape == (4, 6)
    t += job.rank + 1
    torch.cuda.synchronize()
    assert x.tolist() == [[job.rank + 1.0] * 6] * 4
    assert x[1:3, ::2].torch().stride() == (6, 2)
    y = job.zeros((4, 6), "f4", kind="gpu")
    plain = torch.full((4, 6), 10.0 + job.rank, device="cuda")
    torch.cuda.synchronize()
    job.put(y, plain, to=right)
    job.barrier()
    assert y.tolist() == [[10.0 + left] * 6] * 4
    bf = job.asarray(torch.arange(8, device="cuda", dtype=torch.bfloat16))
    assert bf.torch().dtype == torch.bfloat16 and bf.torch().tolist() == list(range(8))
    try:
        x.free()
        raise AssertionError("freed while torch has it")
    except weft.InvalidFree as error:
        assert "DLPack" in str(error)


@part("torch")
def streams_of_torch():
    import torch

    x, y = job.zeros(1 << 20, "f4", kind="gpu"), job.zeros(1 << 20, "f4", kind="gpu")
    signal = job.zeros(1, "u8", kind="gpu")
    tx, ty = x.torch(), y.torch()
    # "torch" is torch's stream of the job's GPU, whichever GPU torch has as its current one.
    with torch.cuda.device(0):
        tx.fill_(job.rank - 7)
        job.put_signal(y, x, signal, to=right, value=1, stream="torch")
        job.signal_wait(signal, ">=", 1, stream="torch")
    assert ty.sum().item() == (left - 7) * float(1 << 20)
    job.barrier()  # before the next PE changes y
    stream = torch.cuda.Stream()
    for turn in range(2, 20):
        with torch.cuda.stream(stream):
            tx.fill_(turn * 100 + job.rank)
            job.put_signal(y, x, signal, to=right, value=turn, stream="torch")
            job.signal_wait(signal, ">=", turn, stream="torch")
            total = ty.sum()
            job.allreduce(x, y, "max", stream=stream)
            job.barrier(stream=stream)
        stream.synchronize()
        assert total.item() == (turn * 100 + left) * float(1 << 20)
        assert tx[77].item() == turn * 100 + job.size - 1


@part("cupy")
def cupy_shares_memory():
    import cupy

    x = job.full(100, job.rank, "i4", kind="gpu")
    c = x.cupy()
    assert c.data.ptr == x.address
    c *= 3
    cupy.cuda.Device().synchronize()
    assert x.tolist() == [job.rank * 3] * 100
    assert cupy.asarray(x).data.ptr == x.address  # by __cuda_array_interface__
    y = job.zeros(100, "i4", kind="gpu")
    source = cupy.arange(100, dtype="i4") + job.rank
    cupy.cuda.Device().synchronize()
    job.put(y, source, to=right)
    job.barrier()
    assert y.tolist() == [i + left for i in range(100)]
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        c.fill(job.rank + 5)
        job.put(y, x, to=right, stream="cupy")
        job.barrier(stream=stream)
    stream.synchronize()
    assert y.tolist() == [left + 5] * 100


def check_pool(pool, zeros, full, values):
    """What torch's and CuPy's allocators make in a pool is symmetric. zeros(bytes) and full(n,
    value) allocate by the library; values(array) waits for it and returns the elements."""
    with pool:
        x, y = full(1000, job.rank + 1), full(1000, 0)
        assert values(x) == [job.rank + 1] * 1000 and values(y) == [0] * 1000
    assert pool.used > 0
    outside = full(1000, 0)
    job.barrier()
    job.put(y, x, to=right)
    job.barrier()
    assert values(y) == [left + 1] * 1000
    if job.size > 1:
        try:
            job.put(outside, x, to=right)
            raise AssertionError("an array outside of the pool is symmetric")
        except weft.NotSymmetric:
            pass
    job.barrier()
    job.allreduce(y, x, "max")
    assert values(y) == [job.size] * 1000
    try:
        with pool:
            zeros(pool.size)
        raise AssertionError("a full pool has memory")
    except weft.OutOfMemory as error:
        assert "the pool has no" in str(error) and str(pool.size) in str(error), error
    with pool:
        z = zeros((12 + 4 * job.rank) << 20)
    job.barrier()
    if job.size > 1:
        try:
            job.put(z[:16], z[16:32], to=right)
            raise AssertionError("allocations of different sizes are taken for the same")
        except weft.Mismatch as error:
            assert error.pe == right and f"at PE {job.rank}" in str(error), error
    job.barrier()


@part("torch")
def pool_of_torch():
    import gc

    import torch

    pool = job.pool("64M")
    check_pool(pool, lambda n: torch.zeros(n, dtype=torch.uint8, device="cuda"),
               lambda n, value: torch.full((n,), value, dtype=torch.int64, device="cuda"),
               lambda tensor: tensor.tolist())
    # The memory of check_pool()'s tensors, which differed, goes back.
    gc.collect()
    torch.cuda.empty_cache()
    with pool:
        x = torch.arange(8.0, device="cuda")
        job.allreduce(x, x, stream="torch")
        assert (x * 2).tolist() == [2.0 * i * job.size for i in range(8)]
    del x
    gc.collect()
    torch.cuda.empty_cache()
    assert pool.used == 0, pool
    pool.free()


@part("cupy")
def pool_of_cupy():
    import gc

    import cupy

    pool = job.pool("64M")
    check_pool(pool, lambda n: cupy.zeros(n, "u1"), lambda n, value: cupy.full(n, value, "i8"),
               lambda array: array.tolist())
    gc.collect()
    with pool:
        pass
    assert pool.used == 0, pool
    pool.free()


@part("numpy")
def maps_copies_and_registered_memory():
    import numpy

    x, y = job.zeros(1000, "i4", kind="gpu"), numpy.zeros(1000, "i4")
    source = numpy.arange(1000, dtype="i4") + job.rank
    with job.register(source):
        job.copy(x, source, flush=True)
        job.barrier()
        job.put(x[10:20], source[:10], to=right)
        job.barrier()
    job.copy(y, x)
    assert y[20:].tolist() == source[20:].tolist()
    assert y[10:20].tolist() == [i + left for i in range(10)]
    try:
        with job.map(x) as mapping:
            mapping.numpy()[3] = 77
            mapping.flush()
        assert x[3] == 77 and job.map_info()["works"]
    except weft.Unsupported as error:
        assert not job.map_info()["works"] and str(error)
    z = job.realloc(x, 1500)
    assert z.tolist()[20:1000] == source[20:].tolist()
    old = job.zeros(2, "u8", kind="gpu")
    counter = job.full(1, 5, "u8", kind="gpu")
    job.barrier()
    job.atomic_nbi("fetch_add", counter, 2, to=right, fetched=old[:1]).wait()
    job.barrier()
    assert counter.tolist() == [7] and old.tolist() == [5, 0]


@part("jax")
def jax_reads_memory():
    import jax
    import jax.numpy as jnp

    x = job.full((8, 16), job.rank + 2, "f4", kind="gpu")
    j = x.jax()
    assert j.shape == (8, 16) and float(jnp.sum(j)) == 128.0 * (job.rank + 2)
    y = job.zeros((8, 16), "f4", kind="gpu")
    source = jnp.full((8, 16), 7.0 + job.rank, device=jax.devices()[job.gpu()["ordinal"]])
    source.block_until_ready()
    if next(iter(source.devices())).platform == "gpu":
        job.put(y, source, to=right)
        job.barrier()
        assert y.tolist() == [[7.0 + left] * 16] * 8
    del jax


@part("cupy")
def kernel_of_cupy():
    import cupy
    import numpy

    cupy.cuda.Device(job.gpu()["ordinal"]).use()  # JAX has made GPU 0 current
    module = cupy.RawModule(options=("-std=c++17", "-I" + weft.include()), code=r"""
    #include <weft_device.h>
    WEFT_KERNEL(shift, (uint64_t *, to), (const uint64_t *, from), (uint64_t *, flag))
    {
        int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
        weft_block_put_signal(to, from, 8 * 1000, flag, 1, WEFT_SIGNAL_SET, next);
        weft_block_signal_wait(flag, WEFT_GE, 1);
    }""")
    job.module_init(module)
    x, y = job.full(1000, job.rank + 3, "u8", kind="gpu"), job.zeros(1000, "u8", kind="gpu")
    flag = job.zeros(1, "u8", kind="gpu")
    shift = module.get_function("weft_cuda_kernel_shift")
    shift((1,), (128,), tuple(numpy.uint64(a.address) for a in (y, x, flag)))
    cupy.cuda.Device().synchronize()
    job.device_check()
    assert y.tolist() == [left + 3] * 1000


@part("triton", "torch")
def kernel_of_triton():
    import torch
    import triton
    import triton.language as tl

    import weft.triton as wt

    @triton.jit(do_not_specialize=["state", "pe"])
    def shift(state, x, y, flag, status, pe, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(x + at, tl.load(x + at) * 2)
        wt.put_signal(state, y, x, 8 * n, flag, 1, pe)
        failed = wt.signal_wait(state, flag, 1)
        tl.store(y + at, tl.load(y + at) + 1)
        # By plain loads and stores over the peer's pointer.
        other = wt.peer_ptr(state, x, pe)
        tl.store(status, failed + tl.where(other.to(tl.int64) == 0, 100, 0))

    x, y = job.full(1024, job.rank + 3, "i8", kind="gpu"), job.zeros(1024, "i8", kind="gpu")
    flag, status = job.zeros(1, "i8", kind="gpu"), job.full(1, 9, "i4", kind="gpu")
    shift[(1,)](job.device_state(), x.torch(), y.torch(), flag.torch(), status.torch(), right, 1024,
                extern_libs=wt.extern_libs(), num_warps=4)
    torch.cuda.synchronize()
    job.device_check()
    assert status.tolist() == [0] and y.tolist() == [(left + 3) * 2 + 1] * 1024


@part("numba")
def kernel_of_numba():
    import numpy
    from numba import cuda

    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack  # numba-cuda 0.30 asks for it
    import weft.numba as wn

    put_signal, signal_wait = wn.block_put_signal, wn.block_signal_wait

    @cuda.jit
    def shift(state, y, x, flag, pe):
        put_signal(state, y, x, 8000, flag, 1, 0, pe)
        signal_wait(state, flag, 5, 1)

    x, y = job.full(1000, job.rank + 4, "u8", kind="gpu"), job.zeros(1000, "u8", kind="gpu")
    flag = job.zeros(1, "u8", kind="gpu")
    shift[1, 128](job.device_state(), y.address, x.address, flag.address, right)
    cuda.synchronize()
    job.device_check()
    assert y.tolist() == [left + 4] * 1000


def expected_sums(x, idx, experts):
    """Each PE that owns an expert of a token returns the token times its rank + 1."""
    import torch

    factors = torch.zeros(x.shape[0], 1, device="cuda")
    for pe in range(job.size):
        begin, end = pe * experts // job.size, (pe + 1) * experts // job.size
        factors += ((idx >= begin) & (idx < end)).any(1, keepdim=True) * (pe + 1)
    return factors


@part("torch")
def experts_of_torch():
    import torch

    torch.manual_seed(job.rank)
    tokens, hidden, count, top = 300 + job.rank, 512, 37, 5
    x = torch.randint(-8, 8, (tokens, hidden), device="cuda").to(torch.bfloat16)
    idx = torch.rand(tokens, count, device="cuda").topk(top).indices
    idx[::7, 2] = -1
    weights = torch.rand(tokens, top, device="cuda")
    want = (x.float() * expected_sums(x, idx, count)).to(torch.bfloat16)
    with job.experts(310, hidden, count, top) as experts:
        for _ in range(20):
            rows = experts.dispatch(x, idx, weights)
            y, back = experts.combine(rows.x * (job.rank + 1), rows, weights=rows.topk_weights)
            assert torch.equal(y, want) and torch.equal(back, weights * (idx >= 0))
        assert rows.x.shape == (rows.n, hidden) and int(rows.n_tokens.sum()) == \
            int((rows.topk_idx >= 0).sum())
        rows = experts.dispatch(x, idx, weights, stream="torch")
        assert rows.n is None and rows.x.shape[0] == experts.rows
        y = experts.combine(rows.x * (job.rank + 1), rows, stream="torch")
        torch.cuda.synchronize()
        assert torch.equal(y, want)
        # A graph: other tokens of the same experts, and other experts, at each replay.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            rows = experts.dispatch(x, idx, weights, in_place=True, stream="torch")
            y = experts.combine(rows.x.torch() * (job.rank + 1), rows, stream="torch")
        for _ in range(20):
            x.copy_(torch.randint(-8, 8, (tokens, hidden), device="cuda"))
            idx.copy_(torch.rand(tokens, count, device="cuda").topk(top).indices)
            graph.replay()
            want = (x.float() * expected_sums(x, idx, count)).to(torch.bfloat16)
            assert torch.equal(y, want)
        torch.cuda.synchronize()
        experts.check()
        del rows
    with job.experts(310, hidden, count, top, dtype="float8_e4m3fn", result_dtype="float32",
                     scales=hidden // 128) as experts:
        x = torch.randint(-8, 8, (tokens, hidden), device="cuda").to(torch.float8_e4m3fn)
        scales = torch.rand(tokens, hidden // 128, device="cuda")
        rows = experts.dispatch(x, idx, scales=scales)
        wide = rows.x.float().view(rows.n, -1, 128) * rows.scales.unsqueeze(2)
        y = experts.combine((wide.view(rows.n, hidden) * (job.rank + 1)).contiguous(), rows)
        mine = (x.float().view(tokens, -1, 128) * scales.unsqueeze(2)).view(tokens, hidden)
        assert torch.allclose(y, mine * expected_sums(x, idx, count), rtol=1e-6)
        try:
            experts.dispatch(x, idx + count, scales=scales)
            raise AssertionError("experts that do not exist")
        except weft.OutOfRange as error:
            assert " names expert " in str(error)
        try:
            experts.dispatch(x.cpu(), idx, scales=scales)
            raise AssertionError("tokens in host memory")
        except weft.InvalidArgument as error:
            assert "is in host memory, and kernels run on the GPU" in str(error)


def run_section(path, section):
    """Runs the blocks of a section of docs/ that need a GPU, and those for an interpreter of
    kernels, which run on a GPU as well."""
    programs = [block for block in section.blocks if " with " in (block.mark or "")]
    gpu = section.marked("gpu")

    def of_docs():
        with tempfile.TemporaryDirectory() as folder:
            pages.run_blocks(pages.first_of(path) + gpu if gpu else [], folder)
            for block in programs:
                printed, = pages.run_blocks([block], folder)
                if job.size == 2:
                    assert printed == block.output.splitlines(keepends=True)[job.rank]

    if gpu or programs:
        of_docs.__name__ = f"{path.stem}: {section.title}"
        part(*{name for block in gpu + programs for name in block.packages()})(of_docs)


for path, sections in pages.PAGES.items():
    for section in sections:
        run_section(path, section)


raise SystemExit(failures)
