# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/python.md run, and print what the page says that they print.

A section (##) is one program: its ```python blocks, in order, after the block that is marked
"before each section". It runs at 2 PEs by weft.spawn, and the ```text block that follows a block is
what PE 0 printed, then PE 1. A comment in the line before a block changes this:
  <!-- before each section -->  the block begins every other section
  <!-- alone -->                the block is a program of its own, without a launcher
  <!-- run -n 4 -->             the block is a program under `python -m weft run -n 4`; the lines
                                of all PEs are sorted
  <!-- not run -->              it is only compiled
"""

import ast
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

import weft

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"
BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```python\n(?P<text>.*?)^```$"
                   r"(?:\n+^```text\n(?P<output>.*?)^```$)?", re.M | re.S)
MARKS = {None, "before each section", "alone", "not run"}
TIMEOUT_S = 60


class Block(NamedTuple):
    mark: str
    text: str  # empty lines come first: its line numbers are those of the page
    output: str


def sections_of(page):
    """Returns the blocks of each section by its heading."""
    sections = {}
    heads = [(m.start(), m[1]) for m in re.finditer(r"^#{1,2} (.*)$", page, re.M)
             if page[:m.start()].count("\n```") % 2 == 0]
    for (start, title), (end, _) in zip(heads, heads[1:] + [(len(page), "")]):
        sections[title] = [
            Block(found["mark"],
                  "\n" * page[:start + found.start("text")].count("\n") + found["text"],
                  found["output"])
            for found in BLOCK.finditer(page[start:end])]
    return sections


SECTIONS = sections_of(PAGE.read_text())
ALL = [block for blocks in SECTIONS.values() for block in blocks]
FIRST = [block for block in ALL if block.mark == "before each section"]


def run_blocks(blocks):
    """Runs blocks in one namespace. Returns what each printed."""
    names, printed = {"__name__": "__main__"}, []
    for block in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block.text, str(PAGE), "exec"), names)
        printed.append(out.getvalue())
    return printed


def run_program(block, command, folder):
    """Runs a block as a program. Returns what it printed."""
    program = folder / "x.py"
    program.write_text(block.text)
    # Unbuffered, the lines of PEs could mix.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([*command, str(program)], cwd=folder, capture_output=True, text=True,
                          timeout=TIMEOUT_S, env=environment)
    assert done.returncode == 0 and done.stderr == "", \
        f"{done.stderr}\n(the lines of {program} are those of {PAGE})"
    return done.stdout


def check_output(block, printed):
    """Compares what a block printed with the page; "..." there stands for any text."""
    expected = block.output or ""
    pattern = re.escape(expected).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, printed, re.S), \
        f"{PAGE}:{block.text.count(chr(10))}: the block printed\n{printed}and not\n{expected}"


@pytest.mark.parametrize("title", [title for title, blocks in SECTIONS.items() if blocks])
def test_section(title, tmp_path):
    for block in SECTIONS[title]:
        ast.parse(block.text, str(PAGE), feature_version=(3, 9))
        count = re.fullmatch(r"run -n (\d+)", block.mark or "")
        assert count or block.mark in MARKS, f"unknown mark {block.mark!r}"
        if block.mark == "alone":
            check_output(block, run_program(block, [sys.executable], tmp_path))
        elif count:
            command = [sys.executable, "-m", "weft", "run", "-n", count[1]]
            printed = run_program(block, command, tmp_path)
            check_output(block, "".join(sorted(printed.splitlines(keepends=True))))
    shared = [block for block in SECTIONS[title] if block.mark is None]
    begin = FIRST if shared or any(block in FIRST for block in SECTIONS[title]) else []

    def body(job):
        os.chdir(tmp_path)
        return run_blocks(begin + shared)

    if begin:
        printed = weft.spawn(body, 2)
        for block, *of_pes in zip(begin + shared, *printed):
            check_output(block, "".join(of_pes))


def test_the_page_is_read():
    assert len(FIRST) == 1
    # Every block of Python is found, with its mark and its output.
    page = PAGE.read_text()
    assert len(ALL) == page.count("```python\n") and len(ALL) > 15
    assert sum(block.output is not None for block in ALL) == page.count("```text\n")
    assert sum(block.mark is not None for block in ALL) == page.count("<!-- ")
    assert [line for line in page.splitlines() if len(line) > 100 and line[0] != "|"] == []
