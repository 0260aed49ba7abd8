# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/python*.md run, and print what the pages say that they print (pages.py)."""

import os
import re
import subprocess
import sys

import numpy  # noqa: F401  # once: PEs are forks, and importing takes longer than most sections
import pytest

import weft
from pages import DOCS, PAGES, check_output, first_of, run_blocks

TIMEOUT_S = 60
MARKS = {None, "before each section", "alone", "gpu"}
RUN = re.compile(r"run -n (\d+)(?: with (\w+)=(\w+))?")
SECTIONS = [(path, section) for path, sections in PAGES.items() for section in sections]


def run_program(block, command, folder, variables=()):
    """Runs a block as a program. Returns what it printed."""
    program = folder / "x.py"
    program.write_text(block.text)
    # Unbuffered, the lines of PEs could mix.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment.update(variables, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([*command, str(program)], cwd=folder, capture_output=True, text=True,
                          timeout=TIMEOUT_S, env=environment)
    assert done.returncode == 0 and done.stderr == "", \
        f"{done.stderr}\n(the lines of {program} are those of {block.page})"
    return done.stdout


def run_launched(block, folder):
    """Runs a block marked "run -n N" under the launcher."""
    count, name, value = RUN.fullmatch(block.mark).groups()
    printed = run_program(block, [sys.executable, "-m", "weft", "run", "-n", count], folder,
                          {name: value} if name else {})
    check_output(block, "".join(sorted(printed.splitlines(keepends=True))))


@pytest.mark.parametrize("path, section", SECTIONS,
                         ids=[f"{path.stem}: {section.title}" for path, section in SECTIONS])
def test_section(path, section, tmp_path):
    launched = [block for block in section.blocks if RUN.fullmatch(block.mark or "")]
    for block in section.blocks:
        block.tree()
        assert block in launched or block.mark in MARKS, f"unknown mark {block.mark!r}"
    for block in section.marked("alone"):
        check_output(block, run_program(block, [sys.executable], tmp_path))
    shared = section.marked(None)
    begin = first_of(path) if shared or section.marked("before each section") else []

    def body(job):
        os.chdir(tmp_path)
        return run_blocks(begin + shared)

    if begin:
        printed = weft.spawn(body, 2)
        for block, *of_pes in zip(begin + shared, *printed):
            check_output(block, "".join(of_pes))
    missing = sorted({name for block in launched for name in block.missing()})
    if missing:
        pytest.skip(f"{path.name}, {section.title}: no {', '.join(missing)} here")
    for block in launched:
        run_launched(block, tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_is_read(path):
    """Every block of Python is found, with its mark and its output."""
    page = path.read_text()
    blocks = [block for section in PAGES[path] for block in section.blocks]
    assert len(blocks) == page.count("```python\n") > 2
    assert sum(block.output is not None for block in blocks) == page.count("```text\n")
    assert sum(block.mark is not None for block in blocks) == page.count("<!-- ")
    assert len(first_of(path)) <= 1
    assert [line for line in page.splitlines() if len(line) > 100 and line[0] != "|"] == []


def test_the_pages_are_linked():
    """The first page lists the others."""
    start = (DOCS / "python.md").read_text()
    assert len(PAGES) == 11
    for path in PAGES:
        assert path.name == "python.md" or f"({path.name})" in start, path
