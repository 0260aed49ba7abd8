# SPDX-License-Identifier: Apache-2.0
"""Every function of weft.triton and weft.numba, in the interpreter of Triton and the simulator of
Numba, at 2 PEs; and the kernels of weft.experts. Both replace their compilers in the whole process,
so each is one of its own."""

import importlib.util
import os
import subprocess
import sys

import pytest

COMMON = """
import numpy as np
import weft
job = weft.init()
me, other = job.rank, 1 - job.rank
x, y, z = (job.full(5, 10 * me + i, "i8") for i in range(3))
flag, out = job.zeros(2, "u8"), job.full(6, -1, "i8")
job.barrier()
"""

TRITON = """
import triton
import triton.language as tl
import weft.triton as wt
from weft import _interpreted

assert wt.INTERPRETED and wt.extern_libs() == {}

@triton.jit
def kernel(state, x, y, z, flag, out):
    me, other = wt.my_pe(state), 1 - wt.my_pe(state)
    int64 = tl.pointer_type(tl.int64)
    x, y, z, out = x.to(int64), y.to(int64), z.to(int64), out.to(int64)
    status = wt.put(state, y + 1, x, 8 * 2, other)          # y[1:3] of the other
    wt.fence(state)
    status += wt.quiet(state)
    status += wt.barrier(state)
    status += wt.get(state, z + 3, y, 8 * 2, other)         # z[3:5] of mine
    status += wt.put_signal(state, out, x + 4, 8, flag, 7, other)
    status += wt.put_signal(state, out + 1, x + 4, 8, flag + 8, 3, other, add=1)
    status += wt.signal_wait(state, flag, 7)
    status += wt.signal_wait(state, flag + 8, 3)
    tl.store(out + 2, wt.n_pes(state))
    tl.store(out + 3, status)
    there = wt.peer_ptr(state, out + 4, other)
    tl.atomic_add(there, 5, sem="acq_rel", scope="sys")
    tl.store(out + 5, (there.to(tl.int64) != 0).to(tl.int64))

kernel[(1,)](wt.state(job), *(a.address for a in (x, y, z, flag, out)))
job.barrier()
theirs = 10 * other
assert x.tolist() == [10 * me] * 5
assert y.tolist() == [10 * me + 1] + [theirs] * 2 + [10 * me + 1] * 2
assert z.tolist() == [10 * me + 2] * 3 + [theirs + 1, 10 * me]
assert out.tolist() == [theirs, theirs, 2, 0, 4, 1], out
assert flag.tolist() == [7, 3]

@triton.jit
def wrong(state, x, pe):
    x = x.to(tl.pointer_type(tl.int64))
    wt.put(state, x, x, 8, pe)

@triton.jit
def wrong_team(state):
    wt.barrier(state, 3)

for launch, word in ((lambda: wrong[(1,)](wt.state(job), x.address, 9), "PE 9"),
                     (lambda: wrong_team[(1,)](wt.state(job)), "team 3")):
    try:
        launch()
    except Exception as error:
        assert word in str(error), error
    else:
        raise SystemExit(f"no exception that names {word}")
"""

NUMBA = """
from numba import cuda
import weft.numba as wn

assert wn.SIMULATED
names = [f"{scope}_{name}" for scope in ("thread", "block") for name in
         ("put", "put_nbi", "get", "get_nbi", "put_signal", "signal_wait", "quiet", "fence",
          "barrier")]
names += ["thread_p32", "thread_p64", "thread_g32", "thread_g64", "thread_signal"]
functions = {name: getattr(wn, name) for name in [*names, "my_pe", "n_pes", "ptr"]}
SCOPES = ("thread", "block")
DO = {scope: {name: functions[f"{scope}_{name}"] for name in
      ("put", "put_nbi", "get", "get_nbi", "put_signal", "signal_wait", "quiet", "fence",
       "barrier")} for scope in SCOPES}

def use(do, state, x, y, z, flag, out, other):
    do["put"](state, y + 8, x, 8, other)
    do["fence"](state)
    do["put_nbi"](state, y + 16, x, 8, other)
    do["quiet"](state)
    do["barrier"](state, 0)
    do["get"](state, z + 24, y, 8, other)
    do["get_nbi"](state, z + 32, y + 8, 8, other)
    do["quiet"](state)
    do["put_signal"](state, out, x + 32, 8, flag, 7, 1, other)
    do["signal_wait"](state, flag, 5, 7)

@cuda.jit
def by_block(state, x, y, z, flag, out, other):
    use(DO["block"], state, x, y, z, flag, out, other)

@cuda.jit
def by_thread(state, x, y, z, flag, out, other, elements):
    if cuda.threadIdx.x == 0:
        use(DO["thread"], state, x, y, z, flag, out, other)
        functions["thread_p64"](state, out + 8, 11, other)
        functions["thread_p32"](state, out + 16, 12, other)
        functions["thread_signal"](state, flag + 8, 5, 0, other)
        functions["thread_signal_wait"](state, flag + 8, 0, 5)
        elements[3] = functions["thread_g64"](state, x, other)
        elements[4] = functions["thread_g32"](state, x, other)
        elements[5] = functions["n_pes"](state) * 10 + functions["my_pe"](state) + \
            (functions["ptr"](state, x, functions["my_pe"](state)) == x) * 100

def check(sum_of_flag):
    job.barrier()
    theirs = 10 * other
    assert y.tolist() == [10 * me + 1] + [theirs] * 2 + [10 * me + 1] * 2, y
    assert z.tolist() == [10 * me + 2] * 3 + [theirs + 1, 10 * me], z
    assert out[0] == theirs and flag[0] == sum_of_flag, (out, flag)

addresses = [a.address for a in (x, y, z, flag, out)]
by_block[1, 3](wn.state(job), *addresses, other)
check(7)                                            # one put_signal, not one by each thread
for array, i in ((y, 1), (z, 2)):
    array[...] = 10 * me + i
out[0] = flag[0] = 0
job.barrier()
by_thread[1, 2](wn.state(job), *addresses, other, wn.array(out))
check(7)
assert out.tolist()[1:] == [11, (-1 << 32) + 12, 10 * other, 10 * other, 120 + me], out
assert flag.tolist() == [7, 5]
for name, word in (("warp_put", "synchronise warps"), ("block_wish", "no attribute")):
    try:
        getattr(wn, name)
    except AttributeError as error:
        assert word in str(error), error
    else:
        raise SystemExit(f"weft.numba has {name}")

@cuda.jit
def wrong(state, x):
    DO["block"]["put"](state, x, x, 8, 9)

try:
    wrong[1, 2](wn.state(job), x.address)
except Exception as error:
    assert "PE 9" in str(error), error
else:
    raise SystemExit("no exception that names PE 9")
"""


@pytest.mark.parametrize("package, variable, text", [
    ("triton", "TRITON_INTERPRET", TRITON), ("numba", "NUMBA_ENABLE_CUDASIM", NUMBA)],
    ids=["triton", "numba"])
def test_interpreted(package, variable, text, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package} here: pip install {package}")
    program = tmp_path / "x.py"
    program.write_text(COMMON + text)
    done = subprocess.run([sys.executable, "-m", "weft", "run", "-n", "2", str(program)],
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, variable: "1"})
    assert done.returncode == 0, done.stderr


# Next to the operations of torch.
EXPERTS = """
import torch
from weft.experts import _kernels, _rows

n, top = torch.tensor([7], dtype=torch.int32), 3
for dtype in (torch.bfloat16, torch.float32):
    for hidden in (16, 1040, 2056):
        source = torch.randn(11, hidden).to(dtype)
        places = torch.randperm(20)[:11]
        places[7:] = 20
        got, want = torch.zeros(21, hidden, dtype=dtype), torch.zeros(21, hidden, dtype=dtype)
        _kernels.scatter(_rows._words(got), places, _rows._words(source), n)
        _rows.scatter(want, places, source, n)
        assert torch.equal(got[:20], want[:20]) and torch.equal(got[places[:7]], source[:7])
        assert not got[20].any()
        back = torch.zeros(11, hidden, dtype=dtype)
        _kernels.gather(_rows._words(back), _rows._words(want[:20]), places, n)
        assert torch.equal(back[:7], source[:7]) and not back[7:].any()
        assert torch.equal(_rows.gather(want[:20], places, n)[:7], source[:7])
        idx = torch.randint(-1, 3, (5, top))
        weights, results = torch.rand(5, top), torch.randn(5 * top, hidden).to(dtype)
        got, want = torch.zeros(5, hidden, dtype=dtype), torch.zeros(5, hidden, dtype=dtype)
        _kernels.weigh(got, results, weights, idx)
        _rows.weigh(want, results, weights, idx)
        assert torch.allclose(got.float(), want.float(), rtol=1e-2, atol=1e-2)
        serial = sum(float(weights[0, k]) * results[k].float() for k in range(top)
                     if idx[0, k] >= 0) + torch.zeros(hidden)
        assert torch.allclose(want[0].float(), serial, rtol=1e-2, atol=1e-2)
"""


def test_experts_in_triton(tmp_path):
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package} here: pip install {package}")
    program = tmp_path / "x.py"
    program.write_text(EXPERTS)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr
