# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python in docs/python*.md, as programs.

A section (##) is one program: its ```python blocks, in order, after the block of the page that is
marked "before each section". It runs at 2 PEs, and the ```text block that follows a block is what
PE 0 printed, then PE 1. A comment in the line before a block changes this:
  <!-- before each section -->     the block begins every other section of the page
  <!-- alone -->                   the block is a program of its own, without a launcher
  <!-- run -n 4 -->                the block is a program under `python -m weft run -n 4`; the lines
                                   of all PEs are sorted
  <!-- run -n 2 with NAME=1 -->    the same, with a variable of the environment
  <!-- gpu -->                     the block needs a GPU: tests/gpu/python.py runs it
"""

import ast
import contextlib
import importlib.util
import io
import pathlib
import re
from typing import NamedTuple, Optional

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```python\n(?P<text>.*?)^```$"
                   r"(?:\n+^```text\n(?P<output>.*?)^```$)?", re.M | re.S)


class Block(NamedTuple):
    page: str
    mark: Optional[str]
    text: str  # empty lines come first: its line numbers are those of the page
    output: Optional[str]

    @property
    def line(self):
        return len(self.text) - len(self.text.lstrip("\n"))

    def tree(self):
        """Returns the block as Python 3.9 parses it."""
        return ast.parse(self.text, self.page, feature_version=(3, 9))

    def packages(self):
        """Returns the packages that the block imports."""
        names = set()
        for node in ast.walk(self.tree()):
            if isinstance(node, ast.Import):
                names.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.split(".")[0])
        return sorted(names)

    def missing(self):
        """Returns those that are not installed."""
        return [name for name in self.packages() if importlib.util.find_spec(name) is None]


class Section(NamedTuple):
    title: str
    blocks: list

    def marked(self, mark):
        return [block for block in self.blocks if block.mark == mark]


def sections_of(path):
    """Returns the sections of a page that have blocks."""
    page = path.read_text()
    heads = [(m.start(), m[1]) for m in re.finditer(r"^#{1,2} (.*)$", page, re.M)
             if page[:m.start()].count("\n```") % 2 == 0]
    sections = []
    for (start, title), (end, _) in zip(heads, heads[1:] + [(len(page), "")]):
        blocks = [Block(path.name, found["mark"],
                        "\n" * page[:start + found.start("text")].count("\n") + found["text"],
                        found["output"])
                  for found in BLOCK.finditer(page[start:end])]
        if blocks:
            sections.append(Section(title, blocks))
    return sections


PAGES = {path: sections_of(path) for path in sorted(DOCS.glob("python*.md"))}


def first_of(path):
    """Returns the block that begins every section of a page, in a list."""
    return [block for section in PAGES[path] for block in section.marked("before each section")]


def run_blocks(blocks, folder=None):
    """Runs blocks in one namespace. Returns what each printed. Each is a file in `folder`, if one
    is given: compilers of kernels read the source of a function."""
    names, printed = {"__name__": "__main__"}, []
    for block in blocks:
        file = block.page
        if folder is not None:
            file = pathlib.Path(folder, f"{block.page}.{block.line}.py")
            file.write_text(block.text)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block.text, str(file), "exec"), names)
        printed.append(out.getvalue())
    return printed


def check_output(block, printed):
    """Compares what a block printed with the page; "..." there stands for any text."""
    expected = block.output or ""
    pattern = re.escape(expected).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, printed, re.S), \
        f"{block.page}:{block.line}: the block printed\n{printed}and not\n{expected}"
