#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collectives on GPU memory with Weft, NVSHMEM and NCCL (plain memory, and registered as symmetric), one process per
# GPU, in turn: in a replayed graph, on a stream, and called by the host. Each row is checked; its figure is the slowest
# process's least of five, in microseconds. The last column says how many times Weft's time the best peer takes.
#   bench/compare/coll/run.sh [BUILD_FOLDER]
# PES: processes (as many as there are GPUs). SIDES: some of weft nvshmem nccl nccl-symmetric. COLL_SIZES, COLL_OPS: fewer
# rows, comma-separated. LIMIT: seconds a side may take (75). NVSHMEM_HOME, NCCL_HOME, VIRTUAL_ENV: as for ../device/run.sh.
set -u
cd "$(dirname "$0")/../../.." || exit 1
build=${1:-build-gpu}
limit=${LIMIT:-75}
work=$build/compare-coll
out=${OUT:-$work}
mkdir -p "$work" "$out"
unset CUDA_VISIBLE_DEVICES WEFT_GPU
gpus=$(ls /dev/nvidia[0-9]* 2> /dev/null | wc -l)
pes=${PES:-$((gpus > 0 ? gpus : 2))}
for folder in /usr/local/cuda/bin ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin"}; do
    [ -d "$folder" ] && PATH=$PATH:$folder
done
nvcc=$(command -v nvcc)
cuda=${nvcc%/bin/nvcc}
# Multicast is wanted of nobody; there is no network between the PEs of one machine.
export NVSHMEM_DISABLE_NVLS=1 NCCL_NVLS_ENABLE=0 NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP=UID
export NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NVSHMEM_SYMMETRIC_SIZE=${NVSHMEM_SYMMETRIC_SIZE:-2G}

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
first_error() { grep -m1 -i error "$1" 2> /dev/null || tail -n 1 "$1" 2> /dev/null; }

absent=()
here=(-O2 -I. -Ibench/compare/coll)
runtime=(-I"$cuda/include" -L"$cuda/lib64" -L"$cuda/targets/x86_64-linux/lib" -lcudart_static -ldl -lrt -lpthread -lstdc++)
build_weft() {
    local file
    file=$(ls "$build"/lib/libweft.so "$build"/src/libweft.so "$build"/libweft.so 2> /dev/null | head -n 1)
    [ -n "$file" ] || { absent+=("weft: no libweft.so in $build"); return 1; }
    cc "${here[@]}" -Iinclude bench/compare/coll/side_weft.c -o "$work/coll_weft" "$file" "${runtime[@]}" \
        "-Wl,-rpath,$(realpath "${file%/*}")" > "$work/weft.log" 2>&1 ||
        { absent+=("weft: does not build: $(first_error "$work/weft.log")"); return 1; }
}
build_nvshmem() {
    local host
    [ -n "$nvshmem" ] && [ -n "$nvcc" ] || { absent+=("nvshmem: no nvshmem.h (NVSHMEM_HOME) or no nvcc"); return 1; }
    host=$(library "$nvshmem" 'libnvshmem_host.so*')
    nvcc -rdc=true -std=c++17 -gencode=arch=compute_90,code=sm_90 "${here[@]}" -I"$nvshmem/include" \
        bench/compare/coll/side_nvshmem.cu -o "$work/coll_nvshmem" -L"${host%/*}" -lnvshmem_device -Xlinker "$host" \
        -Xlinker "-rpath=$(realpath "${host%/*}")" > "$work/nvshmem.log" 2>&1 ||
        { absent+=("nvshmem: does not build: $(first_error "$work/nvshmem.log")"); return 1; }
    export LD_LIBRARY_PATH=$(realpath "${host%/*}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
build_nccl() {
    local file
    [ -n "$nccl" ] && [ -n "$nvcc" ] || { absent+=("nccl: no nccl.h (NCCL_HOME), or no CUDA"); return 1; }
    file=$(library "$nccl" 'libnccl.so*')
    cc "${here[@]}" -I"$nccl/include" bench/compare/coll/side_nccl.c -o "$work/coll_nccl" "$file" "${runtime[@]}" \
        "-Wl,-rpath,$(realpath "${file%/*}")" > "$work/nccl.log" 2>&1 ||
        { absent+=("nccl: does not build: $(first_error "$work/nccl.log")"); return 1; }
    export LD_LIBRARY_PATH=$(realpath "${file%/*}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# One process per PE; a peer's id goes through a new file.
run_side() {
    local side=$1 program=$2 pids=() status=0 pe pid
    rm -f "$out/coll-$side"-*.jsonl "$work/$side.id" "$work/$side.id.partial"
    for ((pe = 0; pe < pes; pe++)); do
        PEER_RANK=$pe PEER_PES=$pes PEER_FILE=$work/$side.id timeout -k 5 "$limit" "$program" \
            > "$out/coll-$side-$pe.jsonl" 2> "$out/coll-$side-$pe.log" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    [ "$status" -eq 0 ] || absent+=("$side: status $status: $(cat "$out/coll-$side"-*.log | grep -v '^$' | tail -n 1 | cut -c1-200)")
}
run_weft() {
    rm -f "$out"/coll-weft-*.jsonl
    timeout -k 5 "$limit" "$(command -v weft || echo "$build/bin/weft")" run -n "$pes" "$work/coll_weft" \
        > "$out/coll-weft-0.jsonl" 2> "$out/coll-weft-0.log" ||
        absent+=("weft: $(grep -v '^$' "$out/coll-weft-0.log" | tail -n 1 | cut -c1-200)")
}
[ "$gpus" -gt 0 ] || absent+=("nvshmem, nccl: there is no GPU here")
for side in ${SIDES:-weft nvshmem nccl nccl-symmetric}; do
    case $side in
    weft) build_weft && run_weft ;;
    nvshmem) [ "$gpus" -eq 0 ] || { build_nvshmem && run_side nvshmem "$work/coll_nvshmem"; } ;;
    nccl) [ "$gpus" -eq 0 ] || { build_nccl && run_side nccl "$work/coll_nccl"; } ;;
    nccl-symmetric) [ "$gpus" -eq 0 ] || { build_nccl && COLL_SYMMETRIC=1 run_side nccl-symmetric "$work/coll_nccl"; } ;;
    *) absent+=("$side: there is no such side: weft nvshmem nccl nccl-symmetric") ;;
    esac
done

cat "$out"/coll-*.jsonl 2> /dev/null | awk -v pes="$pes" '
function field(name,   at, rest) {
    at = index($0, "\"" name "\": ")
    if (!at) return ""
    rest = substr($0, at + length(name) + 4)
    if (substr(rest, 1, 1) == "\"") { rest = substr(rest, 2); sub(/".*/, "", rest) } else sub(/[,}].*/, "", rest)
    return rest
}
{
    key = field("how") " " field("op") " " field("bytes")
    side = field("side"); us = field("us") + 0
    if (!(key in order)) { order[key] = ++rows; at[rows] = key }
    if (us > time[key, side]) time[key, side] = us
}
function cell(key, side) { return (key, side) in time ? sprintf("%10.2f", time[key, side]) : sprintf("%10s", "-") }
END {
    n = split("weft nvshmem nccl nccl-symmetric", sides, " ")
    for (h = split("graph stream host", hows, " "); h >= 1; h--) list[4 - h] = hows[4 - h]
    for (h = 1; h <= 3; h++) {
        printf "\n%s, %d PEs, us\n%-14s %10s %10s %10s %10s %10s %8s\n", list[h], pes, "collective", "bytes", "weft", "nvshmem",
               "nccl", "nccl-sym", "ratio"
        for (r = 1; r <= rows; r++) {
            split(at[r], part, " ")
            if (part[1] != list[h]) continue
            best = 0
            for (s = 2; s <= n; s++)
                if ((at[r], sides[s]) in time && (!best || time[at[r], sides[s]] < best)) best = time[at[r], sides[s]]
            own = time[at[r], "weft"]
            printf "%-14s %10d %s %s %s %s %8s\n", part[2], part[3], cell(at[r], "weft"), cell(at[r], "nvshmem"),
                   cell(at[r], "nccl"), cell(at[r], "nccl-symmetric"), own && best ? sprintf("%.2f", best / own) : "-"
        }
    }
}'
status=0
for line in "${absent[@]+"${absent[@]}"}"; do
    echo "not measured: $line"
    status=1
done
exit $status
