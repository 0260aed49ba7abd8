#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: wheel.sh FOLDER
# Installs the wheel of FOLDER, by each CPython that is at hand, in an environment that has no other
# package, and runs what a user types there: six lines on four PEs, the command, the software
# adapter, the folder of headers.
set -euo pipefail
wheel=$(realpath "$(ls "$1"/weft-*-py3-none-manylinux_2_28_*.whl)")
pythons=$("$(dirname "$0")/../../tools/pythons.sh" list)
[ -n "$pythons" ] || { echo "no CPython from 3.9 was found"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH LIBWEFT
cd "$folder"
cat >six.py <<'END'
import weft
job = weft.init()
x, y = job.full(4, job.rank, dtype="f4"), job.zeros(4, dtype="f4")   # the same arrays at every PE
job.put(y, x, to=(job.rank + 1) % job.size)                          # my x into the next PE's y
job.barrier()
print(f"{job.rank} {y}\n", end="")                                   # a numpy array, where numpy is
END
expected="0 [3.0, 3.0, 3.0, 3.0]
1 [0.0, 0.0, 0.0, 0.0]
2 [1.0, 1.0, 1.0, 1.0]
3 [2.0, 2.0, 2.0, 2.0]"
check() {
    [ "$2" = "$3" ] || { printf '%s:\n%s\nand not\n%s\n' "$1" "$2" "$3"; exit 1; }
}
try() { # PYTHON
    rm -rf env
    "$1" -m venv env
    env/bin/pip install -q --no-index --disable-pip-version-check "$wheel"
    check "six lines" "$(env/bin/python -m weft run -n 4 six.py | sort)" "$expected"
    check "six lines by the script" "$(env/bin/weft run -n 4 six.py | sort)" "$expected"
    check "over the software adapter" \
        "$(WEFT_HCA=soft WEFT_PATH=gda env/bin/weft run -n 4 six.py | sort)" "$expected"
    check "the library" "$(env/bin/python -c 'import weft._library as l; print(l.library_path())')" \
        "$(ls -d env/lib/python3*/site-packages | sed "s,^,$folder/,")/weft/lib/libweft.so.0"
    check "NCCL by its name" "$(LD_PRELOAD=$(ls env/lib/python3*/site-packages/weft/lib/libweft-nccl.so) \
        env/bin/python -c 'import ctypes; print(ctypes.CDLL("libnccl.so.2").ncclGetUniqueId(None))')" 4
    [ -e "$(env/bin/weft include)/weft_device.h" ]
    [ -e "$(env/bin/python -c 'import weft; print(weft.include())')/weft_device.h" ]
    env/bin/weft topo >/dev/null
    env/bin/pip uninstall -q -y weft
    [ -z "$(find env/lib/python3*/site-packages -iname '*weft*')" ] || {
        echo "files of the wheel are left"
        exit 1
    }
    [ ! -e env/bin/weft ]
}
for python in $pythons; do
    try "$python"
    echo "good with $("$python" -VV)"
done
