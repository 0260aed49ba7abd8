#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How long a program takes from the begin of main to its first verified operation over GPU memory, with Weft, NVSHMEM and
# NCCL, in turn, one process per GPU: a put to the next PE (with NCCL send and receive), and a sum over all. Of each
# the medians of RUNS runs (5) of the slowest PE, behind one run that nobody counts, and the time of the whole run.
#   bench/compare/start.sh [BUILD_FOLDER]
# PES ("1 2 4" as far as there are GPUs): how many processes. NVSHMEM_HOME, NCCL_HOME: as for device/run.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build-gpu}
runs=${RUNS:-5} limit=${LIMIT:-60}
work=$build/compare-start
mkdir -p "$work"
unset CUDA_VISIBLE_DEVICES WEFT_GPU
gpus=$(ls /dev/nvidia[0-9]* 2> /dev/null | wc -l)
most=$((gpus > 0 ? gpus : 2))
counts=${PES:-$(for n in 1 2 4 8; do [ "$n" -le "$most" ] && echo "$n"; done)}
for folder in /usr/local/cuda/bin ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin"}; do
    [ -d "$folder" ] && PATH=$PATH:$folder
done
nvcc=$(command -v nvcc)
cuda=${nvcc%/bin/nvcc}
export NVSHMEM_DISABLE_NVLS=1 NCCL_NVLS_ENABLE=0 NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP=UID
export NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1

find_package() {
    local header=$1 folder
    shift
    for folder in "$@"; do
        [ -e "$folder/include/$header" ] && { echo "$folder"; return; }
    done
}
sites=(${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python3*/site-packages/nvidia}
    $(python3 -c "import nvidia; print(*nvidia.__path__)" 2> /dev/null) /usr/lib/python3*/site-packages/nvidia)
nvshmem=${NVSHMEM_HOME:-$(find_package nvshmem.h "${sites[@]/%//nvshmem}" /usr/local/nvshmem /opt/nvshmem)}
nccl=${NCCL_HOME:-$(find_package nccl.h "${sites[@]/%//nccl}" "$cuda" /usr/local /usr)}
library() { ls "$1"/lib/$2 "$1"/lib64/$2 "$1"/lib/*/$2 2> /dev/null | head -n 1; }

sides=() absent=()
includes=(-Ibench/compare/start -Ibench/compare/device)
build_weft() {
    local file
    file=$(ls "$build"/lib/libweft.so "$build"/src/libweft.so "$build"/libweft.so 2> /dev/null | head -n 1)
    [ -n "$file" ] && cc -O2 "${includes[@]}" -Iinclude bench/compare/start/weft.c -o "$work/start_weft" "$file" \
        "-Wl,-rpath,$(realpath "${file%/*}")" > "$work/weft.log" 2>&1 && sides+=(weft) && return
    absent+=("weft: does not build: $(grep -m1 -i error "$work/weft.log" 2> /dev/null || echo "no libweft.so in $build")")
}
build_nvshmem() {
    local host
    [ -n "$nvshmem" ] && [ -n "$nvcc" ] || { absent+=("nvshmem: no nvshmem.h (NVSHMEM_HOME) or no nvcc"); return; }
    host=$(library "$nvshmem" 'libnvshmem_host.so*')
    nvcc -rdc=true -std=c++17 -O2 -gencode=arch=compute_90,code=sm_90 "${includes[@]}" -I"$nvshmem/include" \
        bench/compare/start/nvshmem.cu -o "$work/start_nvshmem" -L"${host%/*}" -lnvshmem_device -Xlinker "$host" \
        -Xlinker "-rpath=$(realpath "${host%/*}")" > "$work/nvshmem.log" 2>&1 && sides+=(nvshmem) &&
        export LD_LIBRARY_PATH=$(realpath "${host%/*}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} && return
    absent+=("nvshmem: does not build: $(grep -m1 -i error "$work/nvshmem.log")")
}
build_nccl() {
    local file
    [ -n "$nccl" ] && [ -n "$nvcc" ] || { absent+=("nccl: no nccl.h (NCCL_HOME), or no CUDA"); return; }
    file=$(library "$nccl" 'libnccl.so*')
    cc -O2 "${includes[@]}" -I"$cuda/include" -I"$nccl/include" bench/compare/start/nccl.c -o "$work/start_nccl" \
        "$file" -L"$cuda/lib64" -L"$cuda/targets/x86_64-linux/lib" -lcudart_static -ldl -lrt -lpthread -lstdc++ \
        "-Wl,-rpath,$(realpath "${file%/*}")" > "$work/nccl.log" 2>&1 && sides+=(nccl) && return
    absent+=("nccl: does not build: $(grep -m1 -i error "$work/nccl.log")")
}
build_weft
if [ "$gpus" -gt 0 ] || [ -n "${BUILD_ALL:-}" ]; then
    build_nvshmem
    build_nccl
else
    absent+=("nvshmem, nccl: there is no GPU here; Weft's figures are of its stand-in of the driver")
    export LD_LIBRARY_PATH=$(realpath "$build")/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} WEFT_GPU_HEAP_SIZE=1G
fi

# One run: "set up, memory, verified, whole" of the slowest PE, into the file of its row.
run_once() {
    local side=$1 what=$2 n=$3 out=$work/run.out begin end status=0 pids=() pe
    rm -f "$work/id" "$work/id.partial"
    begin=$(date +%s%N)
    if [ "$side" = weft ]; then
        timeout -k 5 "$limit" "$build/bin/weft" run -n "$n" "$work/start_weft" "$what" > "$out" 2>&1 || status=$?
    else
        : > "$out"
        for ((pe = 0; pe < n; pe++)); do
            PEER_RANK=$pe PEER_PES=$n PEER_FILE=$work/id timeout -k 5 "$limit" "$work/start_$side" "$what" >> "$out" 2>&1 &
            pids+=($!)
        done
        for pe in "${pids[@]}"; do wait "$pe" || status=$?; done
    fi
    end=$(date +%s%N)
    if [ "$status" != 0 ] || [ "$(grep -c "^start $side" "$out")" != "$n" ]; then
        absent+=("$side, $what, $n: status $status: $(grep -v '^start' "$out" | tail -n 1 | cut -c1-160)")
        return 1
    fi
    sed -n 's/^start .*: set up \([0-9.]*\), memory \([0-9.]*\), verified \([0-9.]*\) ms/\1 \2 \3/p' "$out" |
        awk -v whole=$(((end - begin) / 1000000)) '{ for (i = 1; i <= 3; i++) if ($i > m[i]) m[i] = $i }
            END { print m[1], m[2], m[3], whole }' >> "$work/$side.$what.$n"
}

rm -f "$work"/*.put.* "$work"/*.sum.*
for ((run = 0; run <= runs; run++)); do
    for n in $counts; do for what in put sum; do for side in "${sides[@]}"; do
        [ -e "$work/$side.$what.$n.failed" ] && continue
        run_once "$side" "$what" "$n" || touch "$work/$side.$what.$n.failed"
        [ "$run" = 0 ] && rm -f "$work/$side.$what.$n"
    done; done; done
done
median() { cut -d' ' -f"$2" "$1" | sort -n | awk '{ v[NR] = $1 } END { printf "%.0f", v[int((NR + 1) / 2)] }'; }
printf '%4s %-5s %-8s %8s %8s %10s %10s   ms, medians of %d, slowest PE\n' PEs what side "set up" memory verified "whole run" "$runs"
for n in $counts; do for what in put sum; do for side in "${sides[@]}"; do
    row=$work/$side.$what.$n
    [ -s "$row" ] && printf '%4d %-5s %-8s %8s %8s %10s %10s\n' "$n" "$what" "$side" "$(median "$row" 1)" "$(median "$row" 2)" \
        "$(median "$row" 3)" "$(median "$row" 4)"
done; done; done
for line in "${absent[@]}"; do echo "absent: $line"; done
