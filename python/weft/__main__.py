# SPDX-License-Identifier: Apache-2.0
"""`python -m weft ...` and the script `weft`: the command weft of this package.

`weft run` starts a program that ends in .py by this Python.
"""

import os
import sys
from typing import List, NoReturn

from ._library import tool

# Options of `weft run` that take a value, before the program.
_WITH_VALUE = {"-n", "--np", "--hosts", "-H", "--hostfile", "--fan-out"}


def _with_python(arguments: List[str]) -> List[str]:
    """Puts this Python before a program of `weft run` that ends in .py."""
    if not arguments or arguments[0] != "run":
        return arguments
    for i, argument in enumerate(arguments[1:], 1):
        if argument.endswith(".py") and os.path.exists(argument) and \
                arguments[i - 1] not in _WITH_VALUE:
            return arguments[:i] + [sys.executable] + arguments[i:]
        if argument == sys.executable or os.path.basename(argument).startswith("python"):
            break
    return arguments


def main() -> NoReturn:
    """Runs the command with the arguments of this process."""
    path = tool()
    os.execv(path, [path, *_with_python(sys.argv[1:])])


if __name__ == "__main__":
    main()
