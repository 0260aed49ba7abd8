# SPDX-License-Identifier: Apache-2.0
"""The generated bindings are those of the headers, and every function of them is in the library."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import weft
from weft import _bindings as b
from weft import _library
from weft.errors import _CLASSES

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_bindings_are_fresh():
    clang = os.environ.get("CLANG_OF_WEFT") or shutil.which("clang") or \
        shutil.which("clang-19") or shutil.which("clang-18")
    if not clang or not os.path.exists(clang):
        pytest.skip("no clang here")
    done = subprocess.run([sys.executable, str(ROOT / "tools/python_bindings.py"), "--check",
                           clang],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_function_is_in_the_library():
    for name in b.FUNCTIONS:
        assert _library.function(name)


def test_every_status_has_an_exception():
    assert set(_CLASSES) == set(b.STATUSES) - {"WEFT_OK"}
    for name, kind in _CLASSES.items():
        assert kind.status == name and issubclass(kind, weft.WeftError)
        value, text = b.STATUSES[name]
        error = weft.errors.error_of(value, "")
        assert type(error) is kind and str(error) == text
    assert weft.errors.error_of(-100, "PE 3 has ended").pe == 3
    assert str(weft.errors.error_of(-77, "")) == "unknown status -77"


def test_version_and_names():
    assert weft.version() == weft.__version__
    assert (pathlib.Path(weft.include()) / "weft_device.h").exists()
    for name in dir(weft):
        assert getattr(weft, name) is not None
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = weft.nothing_such


def test_import_is_quick():
    # Nothing but the standard library, and of that no more than needed.
    text = "import sys; before = set(sys.modules); import weft; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert set(done.stdout.split()) <= {
        "weft", "importlib", "typing", "collections", "re", "sre_compile", "functools",
        "contextlib",
        "operator", "warnings"} or \
        not any(name.startswith(("numpy", "ctypes")) for name in done.stdout.split())


def test_the_machine():
    topo = weft.topo()
    assert topo["system"]["hostname"] and topo._repr_svg_().startswith("<svg")
    assert topo._repr_html_().startswith("<pre>")
    assert "checks" in weft.doctor()
    rows = weft.bench("put", "-n", "2", "--sizes", "8", "--repetitions", "1", "--iters",
                      "10")["rows"]
    assert rows[0]["bench"] == "put" and rows[0]["verified"]
    with pytest.raises(weft.WeftError, match="gpu77"):
        weft.explain("gpu77", "gpu78")
