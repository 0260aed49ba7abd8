# SPDX-License-Identifier: Apache-2.0
"""Every public function of the C headers is called by the package, or left out for a reason."""

import ast
import pathlib
import re

from weft import _bindings as b

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = [ROOT / "include/weft.h", *sorted((ROOT / "include").glob("weft_*.h")),
           *sorted(set((ROOT / "include/weft").glob("*.h")) -
                   # The executor of kernels on the CPU, which weft/launch.h is made of.
                   {ROOT / "include/weft/simt_executor.h"}),
           ROOT / "include/weft/device/control.h"]

OTHERS_HAVE_IT = "torch, CuPy and cuda-python have streams, events and launches"
FOR_KERNELS = "for kernels in C, which a program in C launches"
LEFT_OUT = {
    **{f"weft_stream_{name}": OTHERS_HAVE_IT
       for name in ("create", "destroy", "query", "host_call")},
    **{f"weft_event_{name}": OTHERS_HAVE_IT
       for name in ("create", "destroy", "record", "wait", "synchronize", "elapsed")},
    **dict.fromkeys(["weft_cuda_register", "weft_resident_blocks", "weft_launch",
                     "weft_device_register", "weft_device_unregister", "weft_device_kind",
                     "weft_team_device"], FOR_KERNELS),
    "weft_status_name": "the bindings have the table: weft.errors",
    "weft_status_text": "the bindings have the table: weft.errors",
    "weft_query_thread": "init() always asks for WEFT_THREAD_MULTIPLE",
    "weft_wait_until": "wait() of an array of one element",
    "weft_test": "test() of an array of one element",
    "weft_team_use_sms": "limit_sms(); NCCL's configurations of single calls use it",
    "weft_coll_plan_query": "`weft explain coll` estimates collectives",
    "weft_experts_sizes": "an Experts has its own, weft_experts_query()",
}
# What a helper appends to the name that it is given.
FORMS = {
    "_call": ["", "_on_stream"],
    "_reduce": ["", "_on_stream", "_scaled", "_scaled_on_stream", "_weighted",
                "_weighted_on_stream"],
    "_compare": ["", "_vector"],
    "_some": ["", "_vector"],
    "_atomic": ["32", "64"],
    "spread": [""],
    "function": [""],
}


def declared():
    """Returns the functions that the headers declare."""
    names = set()
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.S)
        for atomic in re.findall(r"\b(weft_atomic_\w+)##width", text):
            names |= {atomic + "32", atomic + "64"}
        text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)
        names |= set(re.findall(r"\b(weft_\w+)\([^;{}]*\)(?:\s*__attribute__\(\(\w+\)\))?;",
                                re.sub(r"\{[^{}]*\}", "{}", text.replace('extern "C" {', ""))))
    return names


def called():
    """Returns the functions that the package calls, by the names in its source."""
    names = set()
    for file in (ROOT / "python/weft").glob("*.py"):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and \
                    ast.unparse(node.value) in ("calls", "_library.calls"):
                names.add("weft_" + node.attr)
            elif isinstance(node, ast.Call) and node.args:
                helper = node.func.attr if isinstance(node.func, ast.Attribute) else \
                    getattr(node.func, "id", "")
                name = ast.literal_eval(node.args[0]) if isinstance(node.args[0], ast.Constant) \
                    else None
                if helper in FORMS and isinstance(name, str):
                    name = name if name.startswith("weft_") else \
                        f"weft_{'atomic_' * (helper == '_atomic')}{name}"
                    names |= {name + form for form in FORMS[helper]}
    # function(f"weft_p{size * 8}") and the same of g.
    names |= {f"weft_{letter}{bits}" for letter in "pg" for bits in (8, 16, 32, 64)}
    return names


def test_every_function_is_called_or_left_out():
    there = declared()
    assert len(there) > 190 and {"weft_init", "weft_atomic_cswap64", "weft_map"} <= there
    here = called()
    assert sorted(there - here - set(LEFT_OUT)) == [], "neither called nor left out"
    assert sorted(here & set(LEFT_OUT)) == [], "called, and in the list of those left out"
    assert sorted(set(LEFT_OUT) - there) == [], "left out, and not declared"
    # What the package calls has its types from the headers, except macros' insides.
    assert sorted((here & there) - set(b.FUNCTIONS)) == []
