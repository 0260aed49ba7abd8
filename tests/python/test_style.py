# SPDX-License-Identifier: Apache-2.0
"""The package and its tests have types and style, and are Python 3.9."""

import ast
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["python", "python/weft", "python/weft/experts", "python/weft/torch", "tests/python",
           "bench/python", "bench/compare", "examples/python", "examples/torch"]
FILES = sorted([ROOT / "tools/python_bindings.py", ROOT / "tests/gpu/python.py",
                ROOT / "tests/gpu/deep_ep.py", ROOT / "tests/gpu/torch_group.py",
                ROOT / "tests/gpu/torch_symm.py",
                *(file for folder in FOLDERS for file in (ROOT / folder).glob("*.py"))])


def run_tool(name, *arguments):
    """Runs a tool of this Python or of PATH at the top of the source; its findings fail the test.
    Debian and Ubuntu have mypy, so that CI has it; they have no ruff."""
    if importlib.util.find_spec(name) is not None:
        command = [sys.executable, "-m", name]
    elif shutil.which(name):
        command = [name]
    else:
        assert name != "mypy" or not os.environ.get("CI"), "CI has no mypy: apt-get install mypy"
        pytest.skip(f"no {name} here: pip install {name}")
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types():
    run_tool("mypy", "--config-file", "python/mypy.ini", "--cache-dir", os.devnull,
             "python/weft")


def test_style():
    run_tool("ruff", "check", "--no-cache", "--config", "python/ruff.toml",
             *(str(file.relative_to(ROOT)) for file in FILES))


def annotations_of(tree):
    """Yields the annotations of variables, parameters and results, which 3.9 evaluates."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            yield node.returns


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_syntax_of_python_3_9(file):
    tree = ast.parse(file.read_text(), str(file), feature_version=(3, 9))
    for annotation in annotations_of(tree):
        for node in ast.walk(annotation):
            assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)), \
                f"{file.name}:{node.lineno}: X | Y is Python 3.10: write Union or Optional"
