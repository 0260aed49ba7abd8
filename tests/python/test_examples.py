# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python run and print what they must: on a GPU, or in the interpreter of
their compiler without one. Each checks its own result."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

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


def test_every_example_has_a_test():
    tests = {name.removeprefix("test_") for name in globals()}
    assert {path.stem.split("_")[0] for path in EXAMPLES.glob("*.py")} <= tests
