#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Usage: wheel_arm.sh FOLDER
# The wheel for 64-bit Arm of FOLDER, by qemu-user: the command, and a program on two PEs in a Python
# from Debian's packages, unpacked. PEs are started by rank variables, because qemu-user lacks what
# `weft run` needs.
set -euo pipefail
wheel=$(realpath "$(ls "$1"/weft-*-py3-none-manylinux_2_28_aarch64.whl)")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
version=$(apt-cache depends python3-minimal | sed -nE 's/.*Depends: python(3\.[0-9]+)-minimal.*/\1/p')
(cd "$folder" && apt-get download -qq "python$version-minimal:arm64" \
    "libpython$version-minimal:arm64" "libpython$version-stdlib:arm64" libffi8:arm64 zlib1g:arm64 \
    libexpat1:arm64 libc6:arm64 libssl3:arm64)
for package in "$folder"/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
done
mkdir "$folder/site"
python3 -m zipfile -e "$wheel" "$folder/site"
cat >"$folder/two.py" <<'END'
import os
import weft
job = weft.init()
x, y = job.full(4, job.rank + 1, dtype="f4"), job.zeros(4, dtype="f4")
job.put(y, x, to=(job.rank + 1) % job.size)
job.barrier()
print(f"{job.rank} {y} {os.uname().machine}\n", end="")
END
chmod +x "$folder/site/weft/bin/weft"
run() { qemu-aarch64-static -L "$folder/root" "$@"; }
python=$(find "$folder/root" -name "python$version" -type f -perm -u+x | head -n 1)
run "$folder/site/weft/bin/weft" version
run "$folder/site/weft/bin/weft" topo --machine tests/machine/machines/gh200.json |
    grep '^gpu0 .*memory NUMA 1$'
for rank in 0 1; do
    env RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=$((20000 + $$ % 10000)) PYTHONPATH="$folder/site" PYTHONDONTWRITEBYTECODE=1 \
        PYTHONHOME="$(dirname "$(dirname "$python")")" timeout 100 \
        qemu-aarch64-static -L "$folder/root" "$python" "$folder/two.py" &
done | sort >"$folder/out"
cat "$folder/out"
[ "$(cat "$folder/out")" = "0 [2.0, 2.0, 2.0, 2.0] aarch64
1 [1.0, 1.0, 1.0, 1.0] aarch64" ]
