#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Weft without its optional packages and measures device operations on all GPUs of this machine:
# a table on stdout, JSON lines in $OUT/device-bench.jsonl (or in the build folder).
#   bench/device/run.sh [BUILD_FOLDER] [weft_device_bench's options]
# PES=N: that many PEs in place of one per GPU. Without a GPU: the stand-in, two PEs.
set -u
cd "$(dirname "$0")/../.."
build=build-gpu
case ${1:-} in '' | -*) ;; *) build=$1; shift ;; esac
mkdir -p "$build"
logs=${OUT:-$build}
mkdir -p "$logs"
started=$SECONDS
unset CUDA_VISIBLE_DEVICES WEFT_GPU
# Multicast is not wanted of anybody here.
export NVSHMEM_DISABLE_NVLS=1 NCCL_NVLS_ENABLE=0

gpus=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
pes=${PES:-$((gpus > 0 ? gpus : 2))}
for folder in /usr/local/cuda/bin ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin"}; do
    [ -d "$folder" ] && PATH=$PATH:$folder
done
generator=$(command -v ninja > /dev/null && echo "Ninja" || echo "Unix Makefiles")
cmake -S . -B "$build" -G "$generator" -DWEFT_REDUCED=ON > "$logs/bench-configure.log" 2>&1 &&
    cmake --build "$build" -j "${JOBS:-$(nproc)}" --target weft_command weft_device_bench \
        > "$logs/bench-build.log" 2>&1 || {
    tail -n 30 "$logs/bench-configure.log" "$logs/bench-build.log"
    echo "the build failed"
    exit 1
}
printf 'built in %d s; %d GPUs%s\n' $((SECONDS - started)) "$gpus" \
    "$(sed -n 's/.* \([0-9]\{3\}\.[0-9.]*\) .*/; driver \1/p' /proc/driver/nvidia/version \
        2>/dev/null | head -n 1)"

# Waits end after 4 s, in kernels as on the host; the host needs some of it while GPUs are set up.
export WEFT_HEAP_SIZE=64M WEFT_WAIT_LIMIT=${WEFT_WAIT_LIMIT:-4s} WEFT_LOG=${WEFT_LOG:-warn}
[ "$gpus" -gt 0 ] && export WEFT_TARGET=${WEFT_TARGET:-cuda} || export WEFT_WAIT_LIMIT=30s
rm -f "$logs/device-bench.jsonl"
timeout -k 5 80 "$build/bin/weft" run -n "$pes" "$build/bin/weft_device_bench" \
    --log "$logs/device-bench.jsonl" "$@"
status=$?
[ "$status" -eq 124 ] && echo "ran past 80 s"
printf 'took %d s; exit %d; JSON lines in %s\n' $((SECONDS - started)) "$status" \
    "$logs/device-bench.jsonl"
exit "$status"
