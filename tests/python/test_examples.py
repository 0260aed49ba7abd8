# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python and examples/torch run and print what they must: on a GPU, or
without one on CPU tensors or in the interpreter of their compiler."""

import importlib.metadata
import importlib.util
import os
import pathlib
import runpy
import subprocess
import sys

import pytest

import weft

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
TIMEOUT_S = 120


def run_example(name, pes, *packages, **variables):
    """Runs an example. Returns the lines that it printed, sorted."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package} here: pip install {package}")
    command = [sys.executable, "-m", "weft", "run", "-n", str(pes), str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def around(numbers, pes):
    return [f"PE {pe}: {numbers} numbers passed {pes} PEs" for pe in range(pes)]


def test_six():
    assert run_example("six.py", 4) == [f"{pe} {[(pe - 1) % 4 + 0.0] * 4}" for pe in range(4)]


def test_cupy():
    if not os.path.exists("/dev/nvidiactl"):
        pytest.skip("no GPU here")
    assert run_example("cupy_ring.py", 2, "cupy", WEFT_TARGET="cuda") == around(1000, 2)


@pytest.mark.parametrize("pes", [1, 3])
def test_triton(pes):
    assert run_example("triton_ring.py", pes, "triton", TRITON_INTERPRET="1") == around(1024, pes)


@pytest.mark.parametrize("pes", [1, 3])
def test_numba(pes):
    assert run_example("numba_ring.py", pes, "numba", NUMBA_ENABLE_CUDASIM="1") == around(1000, pes)


def run_torch(capfd, pes, name, *arguments):
    """Runs a program of examples/torch in processes that have loaded torch. Returns its lines."""
    file = EXAMPLES.parent / "torch" / name

    def body(job):
        sys.path.insert(0, str(file.parent))
        sys.argv = [str(file), *map(str, arguments)]
        runpy.run_path(str(file), run_name="__main__")
        sys.stdout.flush()

    capfd.readouterr()
    weft.spawn(body, pes)
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("served", [2, pytest.param(4, marks=pytest.mark.long)])
def test_torch_ddp_and_serve(tmp_path, capfd, served):
    """Ranks with a batch each lose what one rank with all batches loses; what they have learnt
    writes the same text on any number of ranks."""
    pytest.importorskip("torch")
    model = tmp_path / "model"
    alone = run_torch(capfd, 1, "ddp.py", "--steps", 5, "--batches", 2)
    both = run_torch(capfd, 2, "ddp.py", "--steps", 5, "--save", model)
    assert alone == both and len(both) == 5 and both[0].startswith("step 1: loss 4.")
    assert float(both[-1].split()[-1]) < float(both[0].split()[-1]) - 0.3
    texts = [run_torch(capfd, pes, "serve.py", model, "--prompt", "def ", "--tokens", 24)
             for pes in (1, served)]
    assert texts[0] == texts[1] and texts[0][0].startswith("def ")


def test_fully_shard(capfd):
    """Ranks with a part of the parameters each lose what one rank with all of them loses."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch here")
    version = importlib.metadata.version("torch")  # without importing it, which takes seconds
    if tuple(map(int, version.split(".")[:2])) < (2, 6):
        pytest.skip(f"torch {version} has no fully_shard: 2.6 or newer")
    alone = run_torch(capfd, 1, "ddp.py", "--steps", 4, "--batches", 2)
    assert run_torch(capfd, 2, "ddp.py", "--steps", 4, "--fsdp") == alone and len(alone) == 4


@pytest.mark.long
def test_torch_moe(capfd):
    """Experts on two ranks learn what they learn on one."""
    pytest.importorskip("torch")
    runs = [[float(line.split()[-1])
             for line in run_torch(capfd, pes, "moe.py", "--steps", 5, "--batches", 2)]
            for pes in (1, 2)]
    assert len(runs[0]) == 5 and runs[0][-1] < runs[0][0] - 0.3
    assert all(abs(mine - theirs) < 1e-4 for mine, theirs in zip(*runs)), runs


def test_every_example_has_a_test():
    tests = {name.removeprefix("test_") for name in globals()}
    assert {path.stem.split("_")[0] for path in EXAMPLES.glob("*.py")} <= tests
    words = "_".join(tests).split("_")
    programs = {path.stem for path in (EXAMPLES.parent / "torch").glob("*.py")}
    assert programs - {"text_model"} <= set(words)
