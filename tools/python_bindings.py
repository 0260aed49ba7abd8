#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python/weft/_bindings.py: the functions, structures and constants of Weft's headers.

    tools/python_bindings.py [--check] [CLANG]

clang parses the headers and prints their declarations as JSON. --check writes nothing, and exits
with 1 if the file differs from what the headers say. The file is in git, so that a user of the
package needs no compiler.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "python/weft/_bindings.py"
HEADERS = ["weft.h", "weft/launch.h", "weft/stream.h", "weft/gpu.h", "weft/map.h", "weft_file.h",
           "weft_experts.h"]
# Functions of <weft/device/control.h>, which is for device code besides.
CONTROL = {"weft_module_init", "weft_device_start", "weft_device_state", "weft_device_check",
           "weft_device_queue_mode"}
ENUMS = ["weft_status", "weft_type", "weft_op", "weft_cmp", "weft_signal_op", "weft_kind",
         "weft_amo", "weft_thread", "weft_target", "weft_queue_mode"]
STRUCTS = ["weft_unique_id", "weft_init_attr", "weft_path_info", "weft_gpu_info", "weft_gpu_pair",
           "weft_map_info", "weft_file_result", "weft_file_attr", "weft_file_part",
           "weft_file_info", "weft_experts_attr", "weft_experts_size", "weft_experts_tokens",
           "weft_experts_rows", "weft_message"]

# One letter for each C type of a parameter or a result; what is not here is a pointer.
LETTERS = {
    "void": "v", "int": "i", "unsigned int": "u", "size_t": "z", "ptrdiff_t": "d",
    "uint8_t": "B", "uint16_t": "H", "uint32_t": "I", "uint64_t": "Q", "const char *": "s",
}
NAMES = {"v": "None", "i": "c_int", "u": "c_uint", "z": "c_size_t", "d": "c_ssize_t",
         "B": "c_uint8", "H": "c_uint16", "I": "c_uint32", "Q": "c_uint64", "s": "c_char_p",
         "p": "c_void_p", "c": "c_char", "C": "c_ubyte"}


def read_declarations(clang, macros):
    """Returns the declarations of the headers as clang's JSON, or their macros as text."""
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    text += "#include <weft/device/control.h>\n"
    command = [clang, "-I", str(ROOT / "include"), "-x", "c", "-"]
    command += ["-E", "-dM"] if macros else ["-fsyntax-only", "-Xclang", "-ast-dump=json"]
    output = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return output.stdout if macros else json.loads(output.stdout)["inner"]


def letter_of(ctype):
    """Returns the letter of a C type as clang spells it."""
    ctype = ctype.replace("const ", "") if ctype != "const char *" else ctype
    if ctype in ENUMS:
        return "i"
    if ctype in LETTERS:
        return LETTERS[ctype]
    if ctype.endswith("*") or ctype in ("weft_stream", "weft_event") or "(*)" in ctype:
        return "p"
    raise SystemExit(f"tools/python_bindings.py: no letter for the type \"{ctype}\"")


def field_type(ctype):
    """Returns the ctypes expression for the type of a field."""
    array = re.fullmatch(r"(.*?)\s*\[(\d+)\]", ctype)
    if array:
        element = {"char": "c_char", "unsigned char": "c_ubyte"}[array[1]]
        return f"{element} * {array[2]}"
    return NAMES[letter_of(ctype)]


def enum_values(declaration):
    """Yields (name, value) of each enumerator."""
    value = -1
    for constant in declaration.get("inner", []):
        if constant["kind"] != "EnumConstantDecl":
            continue
        value += 1
        for inner in constant.get("inner", []):
            if "value" in inner:
                value = int(inner["value"])
        yield constant["name"], value


def write_bindings(clang):
    """Returns the text of _bindings.py."""
    functions, constants, records = {}, {}, {}
    for node in read_declarations(clang, macros=False):
        name = node.get("name", "")
        if node["kind"] == "FunctionDecl" and name.startswith("weft_") and not node.get("inline"):
            header = node.get("loc", {})
            arguments = [p["type"]["qualType"] for p in node.get("inner", [])
                         if p["kind"] == "ParmVarDecl"]
            result = node["type"]["qualType"].split("(")[0].strip()
            functions[name] = (result, arguments, header)
        elif node["kind"] == "RecordDecl" and node.get("completeDefinition"):
            records[name] = [(f["name"], f["type"]["qualType"]) for f in node["inner"]
                             if f["kind"] == "FieldDecl"]
        elif node["kind"] == "EnumDecl" and name in ENUMS:
            constants[name] = list(enum_values(node))
    public = public_functions()
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        '"""Functions, structures and constants of Weft\'s headers. Written by',
        'tools/python_bindings.py; do not edit."""',
        "",
        "from ctypes import (",
    ]
    body = []
    for name in STRUCTS:
        body += ["", "", f"class {name}(Structure):", "    _fields_ = ["]
        body += [f'        ("{field}", {field_type(ctype)}),' for field, ctype in records[name]]
        body += ["    ]"]
    for name in ENUMS:
        body += [""]
        if name != "weft_status":
            body += [f"# enum {name}"]
            body += [f"{constant} = {value}" for constant, value in constants[name]]
    macros = read_declarations(clang, macros=True)
    body += ["# Macros with a number"]
    for name, value in sorted(re.findall(r"^#define (WEFT_\w+) +(\d+)u?$", macros, re.M)):
        if re.match(r"WEFT_(VERSION|ALLOC|CTX|INIT|FILE)_?", name) and not name.endswith("_H"):
            body += [f"{name} = {value}"]
    texts = dict(re.findall(r'X\((WEFT_\w+), -?\d+, +"([^"]+)"\)',
                            (ROOT / "include/weft/types.h").read_text()))
    version = re.search(r"WEFT_DEV_VERSION = (\d+)",
                        (ROOT / "include/weft/device/state.h").read_text())
    body += ["", "# Version of the device state", f"WEFT_DEV_VERSION = {version[1]}"]
    body += ["", "# name: (value, meaning)", "STATUSES = {"]
    body += [f'    "{constant}": ({value}, "{texts[constant]}"),'
             for constant, value in constants["weft_status"]]
    body += ["}", ""]
    body += [
        "# name: the type of the result, then those of the arguments: v nothing, i int, u "
        "unsigned,",
        "# z size_t, d ptrdiff_t, B H I Q unsigned integers of 1, 2, 4 and 8 bytes, s const char "
        "*,",
        "# p any other pointer.",
        "FUNCTIONS = {",
    ]
    for name in sorted(functions):
        if name in public:
            result, arguments, _ = functions[name]
            letters = letter_of(result) + "".join(letter_of(a) for a in arguments)
            body += [f'    "{name}": "{letters}",']
    body += ["}"]
    used = ["Structure"] + sorted(set(re.findall(r"\bc_\w+", "\n".join(body))))
    lines += [f"    {name}," for name in used] + [")"]
    return "\n".join(lines + body) + "\n"


def public_functions():
    """Returns the names that the headers for programs declare, without those of macros' insides."""
    names = set(CONTROL)
    for header in HEADERS:
        text = (ROOT / "include" / header).read_text()
        text = text.split("what the macros below are made of")[0]
        names |= set(re.findall(r"\b(weft_\w+)\(", text))
        for operation in re.findall(r"\b(weft_atomic_\w+)##width", text):
            names |= {operation + "32", operation + "64"}
    return names


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    clang = ([a for a in arguments if a != "--check"] or ["clang"])[0]
    text = write_bindings(clang)
    if not check:
        OUTPUT.write_text(text)
    elif not OUTPUT.exists() or OUTPUT.read_text() != text:
        sys.exit(f"{OUTPUT.relative_to(ROOT)} is not what the headers say: "
                 "run tools/python_bindings.py")


if __name__ == "__main__":
    main()
