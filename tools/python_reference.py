#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the page of all names of the Python package, from its annotations and docstrings:

    tools/python_reference.py

The source is parsed and not run, so neither libweft nor another package is needed. A docstring
names every parameter of its function, or refers to the function whose parameters it has: "As
put()". tests/python/test_reference.py holds the package to it.
"""

import ast
import pathlib
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python/weft"

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

# Modules in the order of the page; _private names in them are left out.
CLASSES = [
    ("_job", "Job"), ("_operations", "Operations"), ("_collectives", "Collectives"),
    ("_job", "Team"), ("_job", "Context"), ("_operations", "Handle"), ("_array", "Array"),
    ("_array", "RawArray"), ("_dtypes", "DType"), ("_pool", "Pool"), ("_memory", "Registration"),
    ("_memory", "Mapping"), ("_files", "File"), ("_files", "FileResult"), ("_files", "FileHandle"),
    ("_files", "FileHandles"), ("_experts", "Experts"), ("_experts", "Received"),
    ("_messages", "Messages"),
    ("_local", "Local"), ("_machine", "Report"), ("experts/_buffer", "Buffer"),
    ("experts/_buffer", "Config"), ("experts/_elastic", "ElasticBuffer"),
    ("experts/_elastic", "EPBuffer"), ("experts/_elastic", "EPHandle"),
    ("experts/_event", "EventOverlap"), ("experts/_event", "EventHandle"),
]
FUNCTIONS = [
    ("_job", "init"), ("_job", "unique_id"), ("_local", "spawn"), ("_local", "local"),
    ("_machine", "topo"), ("_machine", "explain"), ("_machine", "doctor"), ("_machine", "bench"),
    ("_machine", "include"), ("_machine", "version"), ("_files", "join_checksums"),
    ("experts/__init__", "as_deep_ep"), ("experts/_autograd", "moe_dispatch"),
    ("experts/_autograd", "moe_combine"),
]
KERNELS = ["triton", "numba"]


class Name(NamedTuple):
    """A public name of the package."""

    owner: str  # class or module
    name: str
    node: ast.AST
    doc: Optional[str]

    def parameters(self) -> List[str]:
        """Returns the names of the parameters of a function."""
        if not isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return []
        given = self.node.args
        names = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        names += [star for star in (given.vararg, given.kwarg) if star is not None]
        return [name.arg for name in names if name.arg != "self"]


def parsed(module: str) -> ast.Module:
    """Returns a module of the package."""
    return ast.parse((PACKAGE / f"{module}.py").read_text())


def definition(module: str, name: str) -> ast.AST:
    """Returns a class or function of a module."""
    for node in parsed(module).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return node
    raise LookupError(f"{module}.py has no {name}")


def members(tree: Union[ast.Module, ast.ClassDef]) -> Iterator[Function]:
    """Yields the public functions of a class or module."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[0] != "_":
            yield node


def doc_of(node: ast.AST) -> Optional[str]:
    """Returns a docstring without the indentation of its code."""
    doc = ast.get_docstring(node, clean=False)  # type: ignore[arg-type]
    indent = " " * (getattr(node, "col_offset", -4) + 4)
    return doc and re.sub(f"(?m)^{indent}", "", doc).strip()


def class_names(module: str, name: str) -> List[Name]:
    """Returns a class and its public members; __init__() is what makes one."""
    node = definition(module, name)
    assert isinstance(node, ast.ClassDef)
    found = [Name(name, name, node, doc_of(node))]
    return found + [Name(name, member.name, member, doc_of(member)) for member in members(node)]


def exceptions() -> List[Name]:
    return [Name("errors", node.name, node, doc_of(node)) for node in parsed("errors").body
            if isinstance(node, ast.ClassDef)]


def kernel_names(module: str) -> List[Name]:
    tree = parsed(module)
    found = [Name(f"weft.{module}", f"weft.{module}", tree, doc_of(tree))]
    return found + [Name(f"weft.{module}", node.name, node, doc_of(node)) for node in members(tree)]


def public() -> List[Name]:
    """Returns all public names."""
    found = [Name("weft", name, definition(module, name), doc_of(definition(module, name)))
             for module, name in FUNCTIONS]
    for module, name in CLASSES:
        found += class_names(module, name)
    found += exceptions()
    for module in KERNELS:
        found += kernel_names(module)
    return found


def is_property(node: ast.AST) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "property"
               for decorator in getattr(node, "decorator_list", []))


def type_of(annotation: Optional[ast.expr]) -> str:
    """Returns an annotation as text; "" where any type is meant."""
    if annotation is None:
        return ""
    text = ast.unparse(annotation)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        text = annotation.value
    text = re.sub(r"'(\w+)'", r"\1", text).replace("os.PathLike[str]", "PathLike")
    return "" if text == "Any" else text


def with_type(argument: ast.arg, default: Optional[ast.expr], star: str = "") -> str:
    text, words = star + argument.arg, type_of(argument.annotation)
    if words:
        text += f": {words}"
    if default is not None:
        text += (" = " if words else "=") + ast.unparse(default)
    return text


def signature(name: str, node: Function) -> str:
    """Returns the declaration of a function in lines of at most 80 columns."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parts = [with_type(*pair) for pair in zip(plain, defaults) if pair[0].arg != "self"]
    if given.vararg:
        parts.append(with_type(given.vararg, None, "*"))
    elif given.kwonlyargs:
        parts.append("*")
    parts += [with_type(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults)]
    result = type_of(node.returns)
    end = f") -> {result}" if result else ")"
    lines = [name + "("]
    for i, part in enumerate(parts):
        part += ", " if i + 1 < len(parts) else end
        if len(lines[-1] + part.rstrip()) > 80 and lines[-1].strip():
            lines.append(" " * (len(name) + 1))
        lines[-1] += part
    if not parts:
        lines[-1] += end
    return "\n".join(line.rstrip() for line in lines)


def text_of(doc: Optional[str], parameters: Sequence[str] = ()) -> str:
    """Returns a docstring as Markdown: what is indented is code, the rest is text, and a parameter
    before a colon is bold."""
    def bold(found: "re.Match[str]") -> str:
        names = found[1].split(", ")
        return ", ".join(f"**{name}**" for name in names) + ":" if {*names} <= {*parameters} else \
            found[0]

    lines, code = [], False
    for line in (doc or "").split("\n"):
        inside = line.startswith("    ") or (code and not line.strip())
        if inside != code:
            lines.append("")
        code = inside
        if not code:
            # Outside of ``, what Markdown would take for its own.
            line = re.sub(r"([*<]|(?<![\w`])_)(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\\\1", line)
            line = re.sub(r"\b(\w+(?:, \w+)*):(?= |$)", bold, line)
        lines.append(line)
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def print_member(found: Name) -> None:
    node = found.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if is_property(node):
        words = type_of(node.returns)
        words = f"{found.name}: {words}" if words else found.name
        print(f"\n### {found.name}\n\n```python\n{words}\n```\n")
    else:
        print(f"\n### {found.name}()\n\n```python\n{signature(found.name, node)}\n```\n")
    print(text_of(found.doc, found.parameters()))


def bases_of(node: ast.ClassDef) -> List[str]:
    return [ast.unparse(base) for base in node.bases]


def print_class(module: str, name: str, known: List[str]) -> None:
    found = class_names(module, name)
    print(f"\n## {name}\n\n{text_of(found[0].doc)}")
    node = found[0].node
    assert isinstance(node, ast.ClassDef)
    links = [f"[{base}](#{base.lower()})" for base in bases_of(node) if base in known]
    if links:
        print(f"\nIt has also all of {' and '.join(links)}.")
    for member in found[1:]:
        print_member(member)


def statuses() -> Dict[str, str]:
    """Returns the C library's status of each exception."""
    for node in parsed("errors").body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_CLASSES":
            assert isinstance(node.value, ast.Dict)
            return {ast.unparse(value): ast.literal_eval(key)  # type: ignore[arg-type]
                    for key, value in zip(node.value.keys, node.value.values)}
    raise LookupError("errors.py has no _CLASSES")


def print_exceptions() -> None:
    status = statuses()
    print("\n## Errors\n\n| exception | also a | of the C library | meaning |\n"
          "| --- | --- | --- | --- |")
    for found in exceptions():
        assert isinstance(found.node, ast.ClassDef)
        also = [base for base in bases_of(found.node) if base not in ("WeftError", "Exception")]
        code = status.get(found.name)
        meaning = " ".join((found.doc or "").split())
        print(f"| {found.name} | {', '.join(also)} | {f'`{code}`' if code else ''} | {meaning} |")


def print_kernels(module: str) -> None:
    found = kernel_names(module)
    print(f"\n## {found[0].name}\n\n{text_of(found[0].doc)}")
    for member in found[1:]:
        print_member(member)
    if module == "numba":
        print("\nThe arguments after the state are those of the [functions in C]"
              "(device-reference.md).\n\n| function | result and arguments |\n| --- | --- |")
        for names, types in device_functions():
            print(f"| {names} | `{types}` |")


def device_functions() -> Iterator[Tuple[str, str]]:
    """Yields the names and types of the functions in the tables of numba.py."""
    for node in parsed("numba").body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            scopes = ["thread_", "warp_", "block_"] \
                if ast.unparse(node.target) == "_SCOPED" else [""]
            for name, types in ast.literal_eval(node.value).items():
                yield ", ".join(f"`{scope}{name}`" for scope in scopes), types


def main() -> None:
    """Prints the page."""
    known = [name for _, name in CLASSES]
    print("# Reference of the Python package\n\nMade by `./dev docs` from `python/weft`. "
          "[The tutorial](python.md) shows how\nthe names are used. A parameter without a type "
          "takes an array of any library, or what its text says.")
    print("\n## Functions")
    for module, name in FUNCTIONS:
        node = definition(module, name)
        print_member(Name("weft", name, node, doc_of(node)))
    for module, name in CLASSES:
        print_class(module, name, known)
    print_exceptions()
    for module in KERNELS:
        print_kernels(module)


if __name__ == "__main__":
    main()
