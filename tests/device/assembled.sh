#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: assembled.sh BUILD PTXAS
# PTXAS takes the PTX of every program of the build, as the driver does at a program's first launch.
# Not optimized: that takes a fifth of the time. Exit status 77: the programs have no PTX.
set -eu
ptxas=$2
files=$(find "$1" -path '*.cuda/*.ptx')
[ -n "$files" ] || { echo "skipped: clang made no kernels of programs"; exit 77; }
status=0
for file in $files; do
    "$ptxas" -O0 -arch=sm_90 "$file" -o /dev/null || { echo "$file" >&2; status=1; }
done
exit $status
