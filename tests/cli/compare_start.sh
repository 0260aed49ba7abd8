#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/compare/start.sh over the CUDA stand-in: a row with four times for each number of PEs and
# each operation, and the name of each absent library.
#   compare_start.sh SOURCES BUILD
set -u
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
ls /dev/nvidia[0-9]* > /dev/null 2>&1 && exit 77 # on GPUs it is run by hand
out=$(RUNS=1 PES="1 2" bash "$1/bench/compare/start.sh" "$2" 2>&1) || { echo "status $?: $out"; exit 1; }
for what in put sum; do
    for n in 1 2; do
        grep -qE "^ +$n $what +weft +[0-9]+ +[0-9]+ +[0-9]+ +[1-9][0-9]*$" <<< "$out" || { echo "no row of $what, $n: $out"; exit 1; }
    done
done
grep -q "^absent: nvshmem, nccl" <<< "$out" || { echo "not told what is absent: $out"; exit 1; }
