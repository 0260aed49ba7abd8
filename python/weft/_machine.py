# SPDX-License-Identifier: Apache-2.0
"""The machine and its paths: what the command weft reports, as dictionaries."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from . import _library
from .errors import InvalidArgument, WeftError


def version() -> str:
    """Returns the version of the loaded library."""
    return str(_library.calls.version().decode())


def include() -> str:
    """Returns the folder of Weft's headers, for CuPy's RawModule, cuda-python, NVRTC and compilers:
    `-I` + weft.include()."""
    package = Path(__file__).resolve().parent
    for folder in (package / "include", package.parents[1] / "include"):
        if (folder / "weft_device.h").exists():
            return str(folder)
    return _run(["include"]).strip()


def _run(arguments: Sequence[str]) -> str:
    command = [_library.tool(), *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "NO_COLOR": "1"})
    # 1: a fault was found, which the output describes.
    if result.returncode not in (0, 1) or not result.stdout:
        try:
            words = json.loads(result.stdout or result.stderr)["error"]
        except (ValueError, KeyError, TypeError):
            words = (result.stderr or result.stdout).strip()
        kind = InvalidArgument if result.returncode == 2 else WeftError
        raise kind(f"{' '.join(command)} ended with status {result.returncode}: {words}")
    return result.stdout


class Report(Dict[str, Any]):
    """What a subcommand of weft reports, as a dictionary that prints, and draws in a notebook, as
    the command does."""

    def __init__(self, values: Dict[str, Any], arguments: Sequence[str],
                 picture: Optional[Sequence[str]] = None) -> None:
        super().__init__(values)
        self._arguments = list(arguments)
        self._picture = picture

    def text(self) -> str:
        """Returns the command's output for people."""
        return _run(self._arguments)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.text())}</pre>"

    def _repr_svg_(self) -> Optional[str]:
        return _run(self._picture) if self._picture else None


def _report(arguments: Sequence[str], picture: Optional[Sequence[str]] = None) -> Report:
    return Report(json.loads(_run([*arguments, "--json"])), arguments, picture)


def topo(machine: Optional[str] = None) -> Report:
    """Returns the GPUs, NICs and links of this machine, or of a machine file. Draws the machine in
    a notebook."""
    named = ["--machine=" + machine] if machine else []
    return _report(["topo", *named], ["topo", *named, "--svg=-"])


def explain(*devices: str) -> Report:
    """Returns the path between two devices ("gpu0", "gpu1", "mlx5_0", "0"), each rejected one, the
    evidence, and who can fix it."""
    return _report(["explain", *devices])


def doctor() -> Report:
    """Returns the findings about this machine, each with its remedy."""
    return _report(["doctor"])


def bench(name: str, *options: str) -> Report:
    """Runs the benchmark `name` of `weft bench` with further `options` of that command, and returns
    its figures: weft.bench("put", "-n", "2")["rows"] has a dictionary for each row. Times are in
    us. Raises InvalidArgument for an unknown name or option."""
    arguments = ["bench", name, *options]
    lines = _run([*arguments, "--json"]).splitlines()
    return Report({"rows": [json.loads(line) for line in lines if line.startswith("{")]}, arguments)
