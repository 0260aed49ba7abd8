#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft demo` on machines with GPUs, over the stand-ins of their drivers: it prints links, path
# tests and puts between GPU memories; it says what it skips, and a failed path test is a fault.
#   demo_gpu.sh WEFT FOLDER_OF_THE_STAND-INS JSON_GET short|all
set -u
export WEFT_TARGET=simt # the stand-in runs the library's kernels, and not those of programs
weft=$1 json_get=$3 form=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LD_LIBRARY_PATH=$2 FAKE_CUDA_MEMORY=512 XDG_RUNTIME_DIR=$folder WEFT_HEAP_SIZE=256M
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    cat "$folder/out" "$folder/errors"
    failures=$((failures + 1))
}
grey=$(dirname "$0")/../job/grey.png # little to mend
# expected status, environment
demo() {
    local status=$1
    shift
    env "$@" timeout 120 "$weft" demo --image "$grey" --output "$folder" $options > "$folder/out" 2> "$folder/errors"
    [ $? -eq "$status" ] || fail "$*: exit status is not $status"
}
has() {
    grep -qE -- "$1" "$folder/out" || fail "no \"$1\""
}
json() {
    local seen
    seen=$("$json_get" $1 < "$folder/out")
    [ "$seen" = "$2" ] || fail "$1: $seen, not $2"
}
options=
demo 0 FAKE_CUDA_DEVICES=2
has '2 GPUs \(Stand-in GPU\)\.$'
has '^    gpu0  gpu1  18x NVLink 4 through NVSwitch +396 GB/s +400 GB/s +0.63 us +passed$'
has 'Kernels on both ends tested 1 of 1 pair:'
has '^       0   1  0, 1 +[0-9.]+ [num]?s +[0-9.]+ GB/s'
has 'Every path passed its test and every result was right'
[ "$form" = all ] || exit $((failures > 0))
options=--json
demo 1 FAKE_CUDA_LIE=1
json 'gpus.machine.pairs.0.proof good' 'failed false'
demo 0 FAKE_CUDA_DEVICES=2
json 'gpus.used gpus.machine.gpus.# gpus.paths.# gpus.paths.0.right good' '2 2 1 true true'
json 'gpus.machine.pairs.0.from gpus.machine.pairs.0.measured_gbytes_per_s gpus.machine.pairs.0.proof' 'gpu0 400.0 proven'
demo 0 FAKE_CUDA_DEVICES=3
json 'pes gpus.machine.pairs.# gpus.paths.#' '3 3 3'
demo 0 FAKE_CUDA_DEVICES=1 # two PEs share it
json 'pes gpus.used gpus.machine.pairs.# gpus.paths.#' '2 1 0 1'
options=
demo 1 FAKE_CUDA_LIE=1
has '^    gpu0  gpu1 .* failed$'
has 'NOT shown on GPUs: .*gpu|NOT shown on GPUs: .*PE'
demo 0 FAKE_CUDA_DEVICES=0
has 'no GPU that can be used'
has 'ran here on CPU threads: .*all PEs, and their$'
has '^data arrived unchanged'
demo 0 FAKE_CUDA_INIT=999
has 'no GPU that can be used \(.*cuInit'
options=--json
demo 0 FAKE_CUDA_DEVICES=0
json 'gpus.used gpus.kernels_on gpus.paths.0.right gpus.paths.0.kernel_us gpus.picture.identical' '0 simt true null true'
exit $((failures > 0))
