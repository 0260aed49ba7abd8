#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh MODEL.pml holds|holds_large|broken [-DX ...]: exhaustive search by Spin; exits with 77 without
# Spin.
model=$(realpath "$1"); expected=$2; shift 2
# To compile takes longer than most searches. clang compiles without optimization in half the time of gcc.
if [ "$expected" = holds_large ]; then
    compile="${CC:-cc} -O1 -DCOLLAPSE"
else
    compile="${CC:-$(command -v clang || echo cc)} -O0"
fi
command -v spin >/dev/null || { echo "skipped: spin is not installed"; exit 77; }
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && cd "$dir" || exit 1
spin "$@" -a "$model" >spin.log 2>&1 &&
    $compile -w -DSAFETY -DVECTORSZ=4096 -o pan pan.c || { cat spin.log; exit 1; }
./pan -m200000 -w22 >pan.log 2>&1
grep -E 'errors:|States|states, stored' pan.log
errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
grep -q 'max search depth too small' pan.log && { echo "search was cut off"; exit 1; }
case $expected in
holds*) [ "$errors" = 0 ] ;;
broken) [ -n "$errors" ] && [ "$errors" != 0 ] ;;
esac
