# SPDX-License-Identifier: Apache-2.0
"""Options of calls."""

import os
from typing import Any, Optional

from ..errors import Unsupported


def refuse(**given: Any) -> None:
    """Raises Unsupported for options that are given and not done."""
    for name, value in given.items():
        if value:
            raise Unsupported(f"{name}={value!r} is not supported by weft.experts: leave it out")


def aligned(number: int, alignment: Optional[int]) -> int:
    """Returns a number rounded up to a multiple of alignment, if there is one."""
    step = alignment or 1
    return (number + step - 1) // step * step


def local_size() -> int:
    """Returns the number of ranks on this machine, which torchrun gives; 0: unknown."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", 0))
