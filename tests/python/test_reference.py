# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package has a docstring that names its parameters, and stands in the
page that tools/python_reference.py makes."""

import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import weft

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import python_reference as reference  # noqa: E402

NAMES = reference.public()
CLASS_DOCS = {name.owner: name.doc or "" for name in NAMES if name.owner == name.name}
REFERS = re.compile(r"\b(?:[Aa]s|see) (?:\w+\.)?(\w+)\(\)")


def text_of(name, seen=()):
    """Returns a docstring with those that it refers to."""
    text = name.doc or ""
    for found in REFERS.finditer(text):
        for other in NAMES:
            if other.name == found[1] and other is not name and other not in seen:
                text += " " + text_of(other, (*seen, name))
    return text


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.owner}.{name.name}")
def test_docstring(name):
    assert name.doc, f"{name.owner}.{name.name} has no docstring"
    text = text_of(name) + " " + CLASS_DOCS.get(name.owner, "")
    for parameter in name.parameters():
        assert re.search(rf"\b{parameter}\b", text), \
            f"the docstring of {name.owner}.{name.name} does not name {parameter}"


def public_members(cls):
    return {name for name, value in vars(cls).items() if name[0] != "_" and
            (inspect.isfunction(value) or isinstance(value, (property, staticmethod)))}


def test_every_name_is_found():
    """What a program can import is among the names that are looked at, and so are their members."""
    known = {name.name for name in NAMES if name.owner in ("weft", "errors", name.name)}
    assert {name for name in dir(weft) if name[0] != "_" and name != "errors"} <= known
    classes = [getattr(weft, name) for name in CLASS_DOCS if hasattr(weft, name)]
    for cls in {base for found in classes for base in found.__mro__}:
        if cls.__module__.startswith("weft.") and cls.__name__ in CLASS_DOCS:
            assert public_members(cls) <= {name.name for name in NAMES
                                           if name.owner == cls.__name__}, cls


def test_the_page():
    """Each name has a heading and its parameters."""
    page = subprocess.run([sys.executable, str(ROOT / "tools/python_reference.py")], check=True,
                          capture_output=True, text=True).stdout
    headings = re.findall(r"^#{2,3} (.*)$", page, re.M)
    for name in NAMES:
        if name.owner == "errors":
            assert f"| {name.name} |" in page
        elif reference.is_property(name.node) or name.owner == name.name:
            assert name.name in headings, name.name
        else:
            assert f"{name.name}()" in headings, name.name
    assert "put_signal(dst, src, signal, to: int, *, value: int = 1, op: str = 'set'," in page
    assert "**heap**: bytes of each PE's host heap" in page
    assert page.count("\n```") == 2 * page.count("\n```python\n") > 2 * 100
