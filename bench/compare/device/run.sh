#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures device operations with Weft and with the peers that are installed here, in turn, one
# process per GPU, the same loops for all, and prints both figures of each row and their ratio.
#   bench/compare/device/run.sh [BUILD_FOLDER]
# NVSHMEM_HOME, NCCL_HOME: folders with include/ and lib/, where the search does not find them: it looks
# into the virtual environment of VIRTUAL_ENV and where python3 finds its packages.
# Every process is ended after LIMIT seconds (60): waits inside a peer library have no bound.
set -u
cd "$(dirname "$0")/../../.."
build=${1:-build-gpu}
limit=${LIMIT:-60}
mkdir -p "$build"
out=${OUT:-$build}
work=$build/compare-device
mkdir -p "$work" "$out"
started=$SECONDS
unset CUDA_VISIBLE_DEVICES WEFT_GPU

gpus=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
pes=${PES:-$((gpus > 0 ? gpus : 2))}
for folder in /usr/local/cuda/bin ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin"}; do
    [ -d "$folder" ] && PATH=$PATH:$folder
done
nvcc=$(command -v nvcc)
cuda=${nvcc%/bin/nvcc}
# Multicast is wanted of nobody; there is no network between the PEs of one machine.
export NVSHMEM_DISABLE_NVLS=1 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
export NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP=UID NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo
export NVSHMEM_SYMMETRIC_SIZE=2G NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1

# A package that pip has installed, or that stands in the usual places: the folder with include/ and
# lib/ in which the named header is.
find_package() {
    local header=$1 folder
    shift
    for folder in "$@"; do
        [ -e "$folder/include/$header" ] && { echo "$folder"; return; }
    done
}
sites=(${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python3*/site-packages/nvidia}
    $(python3 -c "import nvidia; print(*nvidia.__path__)" 2>/dev/null) /usr/lib/python3*/site-packages/nvidia)
[ -n "${PEER_SITE:-}" ] && sites=("$PEER_SITE" "${sites[@]}")
nvshmem=${NVSHMEM_HOME:-$(find_package nvshmem.h "${sites[@]/%//nvshmem}" /usr/local/nvshmem /opt/nvshmem)}
nccl=${NCCL_HOME:-$(find_package nccl.h "${sites[@]/%//nccl}" /usr/local /usr)}
library() { ls "$1"/lib/$2 "$1"/lib64/$2 "$1"/lib/*/$2 2>/dev/null | head -n 1; } # $2: a pattern

absent=()
build_nvshmem() {
    local host folder
    [ -n "$nvshmem" ] || { absent+=("nvshmem: no nvshmem.h found (NVSHMEM_HOME)"); return 1; }
    [ -n "$nvcc" ] || { absent+=("nvshmem: no nvcc"); return 1; }
    host=$(library "$nvshmem" 'libnvshmem_host.so*')
    [ -n "$host" ] || { absent+=("nvshmem: no libnvshmem_host.so in $nvshmem"); return 1; }
    folder=${host%/*}
    cc -O2 -I. -c bench/device/report.c -o "$work/report.o" &&
        nvcc -rdc=true -std=c++17 -O3 -gencode=arch=compute_90,code=sm_90 -I. \
            -Ibench/compare/device -I"$nvshmem/include" bench/compare/device/nvshmem_bench.cu \
            "$work/report.o" -o "$work/nvshmem_bench" -L"$folder" -lnvshmem_device \
            -Xlinker "$host" -Xlinker "-rpath=$(realpath "$folder")" \
            > "$work/nvshmem-build.log" 2>&1 || {
        absent+=("nvshmem: does not build: $(grep -m1 -i error "$work/nvshmem-build.log")")
        return 1
    }
    export LD_LIBRARY_PATH=$(realpath "$folder"):${LD_LIBRARY_PATH:-}
}

build_nccl() {
    local file
    [ -n "$nccl" ] || { absent+=("nccl: no nccl.h found (NCCL_HOME)"); return 1; }
    file=$(library "$nccl" 'libnccl.so*')
    [ -n "$file" ] || { absent+=("nccl: no libnccl.so in $nccl"); return 1; }
    cc -O2 -I. -I"$cuda/include" -I"$nccl/include" bench/compare/device/nccl_bench.c \
        bench/device/report.c -o "$work/nccl_bench" "$file" -L"$cuda/lib64" \
        -L"$cuda/targets/x86_64-linux/lib" -lcudart_static -ldl -lrt -lpthread -lstdc++ "-Wl,-rpath,$(realpath "${file%/*}")" \
        > "$work/nccl-build.log" 2>&1 || {
        absent+=("nccl: does not build: $(grep -m1 -i error "$work/nccl-build.log")")
        return 1
    }
}

# One process per PE; the id goes through a new file.
start_peer() {
    local name=$1 pids=() status=0 pe pid
    rm -f "$work/$name.id" "$work/$name.id.partial" "$out/device-$name.jsonl"
    for ((pe = 0; pe < pes; pe++)); do
        PEER_RANK=$pe PEER_PES=$pes PEER_FILE=$work/$name.id PEER_LOG=$out/device-$name.jsonl \
            timeout -k 5 "$limit" "$work/${name}_bench" > "$out/device-$name-$pe.log" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    [ "$status" -eq 0 ] && return
    absent+=("$name: ended with status $status after some rows: $(cat "$out/device-$name"-*.log |
        grep -v '^row\|^[a-z_0-9.]* *\(us\|s\|GB/s\|G/s\|ratio\) ' | tail -n 1 | cut -c1-200)")
}

build_nvshmem && with_nvshmem=1
build_nccl && with_nccl=1
OUT=$out bench/device/run.sh "$build" > "$out/device-weft.log" 2>&1 || {
    tail -n 5 "$out/device-weft.log"
    absent+=("weft: weft_device_bench failed: see $out/device-weft.log")
}
mv "$out/device-bench.jsonl" "$out/device-weft.jsonl" 2>/dev/null
if [ "$gpus" -eq 0 ]; then
    with_nvshmem= with_nccl=
    absent+=("nvshmem, nccl: there is no GPU here; the figures are of Weft's stand-in")
fi
rm -f "$out"/device-nvshmem.jsonl "$out"/device-nccl.jsonl
[ -n "${with_nvshmem:-}" ] && start_peer nvshmem
[ -n "${with_nccl:-}" ] && start_peer nccl

# The ratio says how much better Weft is: above 1 is better, in time as in rate.
awk '
function field(name,   at, rest) {
    at = index($0, "\"" name "\":")
    if (!at) return ""
    rest = substr($0, at + length(name) + 3)
    if (substr(rest, 1, 1) == "\"") { rest = substr(rest, 2); sub(/".*/, "", rest) }
    else sub(/[,}].*/, "", rest)
    return rest
}
function show(value) { return value == "" ? "-" : sprintf("%.4g", value) }
function better(row, side,   mine, theirs) {
    mine = figure[row, "weft"]; theirs = figure[row, side]
    if (mine == "" || theirs == "" || mine + 0 == 0 || theirs + 0 == 0) return "-"
    return sprintf("%.2f", unit[row] == "us" || unit[row] == "s" ? theirs / mine : mine / theirs)
}
{
    row = field("row"); side = field("side")
    if (!(row in unit)) order[++rows] = row
    unit[row] = field("unit"); figure[row, side] = field("value")
    if (side == "weft") { floor[row] = field("floor"); aim[row] = field("aim") }
}
END {
    printf "%-26s %-5s %10s %10s %6s %10s %6s %8s %8s\n", "row", "unit", "weft", "nvshmem", "ratio",
        "nccl", "ratio", "floor", "aim"
    for (i = 1; i <= rows; i++) {
        row = order[i]
        printf "%-26s %-5s %10s %10s %6s %10s %6s %8s %8s\n", row, unit[row],
            show(figure[row, "weft"]), show(figure[row, "nvshmem"]), better(row, "nvshmem"),
            show(figure[row, "nccl"]), better(row, "nccl"), show(floor[row]), show(aim[row])
    }
}' $(ls "$out"/device-weft.jsonl "$out"/device-nvshmem.jsonl "$out"/device-nccl.jsonl 2>/dev/null) \
    < /dev/null
for line in "${absent[@]}"; do
    echo "absent: $line"
done
head -n 1 "$out/device-weft.log"
printf 'ratio: above 1 Weft is better; took %d s; JSON lines and logs in %s\n' \
    $((SECONDS - started)) "$out"
