#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench` detects every planted fault: the row is WRONG, the JSON has "verified":false, the
# exit status is 1; without the fault the same row is right.
#   bench_faults.sh WEFT_PLANTED FOLDER_OF_THE_STAND-INS short|all
# short: tests only two of five faults, alternately in the table and in the JSON.
set -u
weft=$1 form=$3
export WEFT_HEAP_SIZE=256M WEFT_WAIT_LIMIT=20s
failures=0 seen=0
# fault, benchmark that must see it, more options: its rows are WRONG, and right without the fault
sees() {
    local fault=$1 name=$2
    shift 2
    seen=$((seen + 1))
    [ "$form" = short ] && [ $((seen % 5)) -ne 0 ] || sees_table "$@"
    [ "$form" = short ] && [ $((seen % 5)) -ne 2 ] || sees_json "$@"
}
sees_table() {
    local status out
    out=$(PLANT_FAULT=$fault timeout 60 "$weft" bench "$name" --iters 2 --repetitions 1 --sizes 1000 "$@" 2>&1)
    status=$?
    if [ $status -ne 1 ] || ! grep -q "^$name .* WRONG$" <<< "$out" ||
        grep -q "^$name .* right$" <<< "$out" || ! grep -q 'received data is wrong' <<< "$out"; then
        printf 'FAILED: fault %s in %s %s: status %d\n%s\n' "$fault" "$name" "$*" $status "$out"
        failures=$((failures + 1))
    fi
}
sees_json() {
    local status out
    out=$(PLANT_FAULT=$fault timeout 60 "$weft" bench "$name" --iters 2 --repetitions 1 --sizes 1000 --json "$@" 2> /dev/null)
    status=$?
    out=$(grep "^{\"bench\":\"$name\"," <<< "$out")
    if [ $status -ne 1 ] || ! grep -q '"verified":false' <<< "$out" || grep -q '"verified":true' <<< "$out"; then
        printf 'FAILED: fault %s in %s --json %s\n%s\n' "$fault" "$name" "$*" "$out"
        failures=$((failures + 1))
    fi
}
# options: all is right without a fault
good() {
    local out status
    out=$(timeout 120 "$weft" bench all --iters 2 --repetitions 1 --sizes 1000 "$@" 2>&1)
    status=$?
    if [ $status -ne 0 ] || grep -q WRONG <<< "$out" || ! grep -q ' right$' <<< "$out"; then
        printf 'FAILED: bench all %s: status %d\n%s\n' "$*" $status "$out"
        failures=$((failures + 1))
    fi
}
good --pes 2
for name in put get p g broadcast allgather collect alltoall allreduce; do
    sees $name $name
done
for name in fetch_add add swap cswap set fetch fetch_and fetch_or fetch_xor and or xor; do
    sees atomic_$name atomic_$name
done
sees put_signal latency_signal
sees signal_wait latency_signal
sees wait latency
sees barrier barrier
sees sync sync
sees alltoall alltoall --pes 3
sees put put --pes 3 --pair 2,1
# Kernels count what is wrong; the last of several blocks is as good a witness as the first.
for name in g latency latency_signal latency_packet barrier sync; do
    sees kernel_wrong $name --scope thread --target simt
done
sees kernel_wrong g --scope thread --target simt --ctas 3
for scope in thread warp block stream; do
    sees count_wrong put --scope $scope --target simt
    sees count_wrong get --scope $scope --target simt
done
sees count_wrong p --scope thread --target simt
sees count_wrong p_scattered --scope thread --target simt
sees count_wrong alltoall --scope block --target simt --pes 3
sees get jacobi_values --scope block --target simt
sees get jacobi_rows --scope block --target simt --pes 3
sees count_wrong barrier --scope stream --target simt

# Host-initiated operations on GPU memory, over the stand-in of the driver.
export LD_LIBRARY_PATH=$2
good --memory gpu --pes 3
for name in put p atomic_add atomic_fetch_xor atomic_cswap; do
    sees $name $name --memory gpu
done
sees wait latency --memory gpu
sees barrier barrier --memory gpu
sees sync sync --memory gpu
unset LD_LIBRARY_PATH

# A kernel that failed is a failure of the bench, not a figure.
out=$(PLANT_FAULT=kernel_status timeout 60 "$weft" bench put --scope block --target simt --sizes 64 2>&1)
[ $? -eq 1 ] && ! grep -q ' right$' <<< "$out" || {
    printf 'FAILED: the status of a kernel\n%s\n' "$out"
    failures=$((failures + 1))
}
# Without checking, nothing is called right or wrong.
out=$(PLANT_FAULT=put timeout 60 "$weft" bench put --iters 2 --repetitions 1 --sizes 1000 --no-verify 2>&1)
[ $? -eq 0 ] && grep -q '^put .* no$' <<< "$out" || {
    printf 'FAILED: --no-verify\n%s\n' "$out"
    failures=$((failures + 1))
}
exit $((failures > 0))
