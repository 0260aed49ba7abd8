#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVSHMEM's own InfiniBand transports over the software HCA: two PEs whose memory is not mapped at
# each other compare every transfer, atomic and signal. Needs two GPUs, nvcc and NVSHMEM
# (NVSHMEM_HOME, or a package in VIRTUAL_ENV).
#   tests/gpu/nvshmem_over_hca/run.sh FOLDER_OF_THE_HCA [WORK_FOLDER]
set -u
here=$(cd "$(dirname "$0")" && pwd)
hca=$(realpath "$1")
work=${2:-$(mktemp -d)}
mkdir -p "$work"
export PATH=$PATH:/usr/local/cuda/bin
for folder in "${NVSHMEM_HOME:-}" ${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python3*/site-packages/nvidia/nvshmem} \
    /usr/lib/python3*/site-packages/nvidia/nvshmem /usr/local/nvshmem; do
    [ -e "$folder/include/nvshmem.h" ] && { nvshmem=$folder; break; }
done
[ -n "${nvshmem:-}" ] || { echo "no nvshmem.h found (NVSHMEM_HOME)"; exit 77; }
[ -e "$hca/libibverbs.so.1" ] || { echo "$hca has no libibverbs.so.1"; exit 1; }
host=$(ls "$nvshmem"/lib/libnvshmem_host.so* | head -n 1)
# Reuses a program that was built before.
[ -x "$work/program" ] && [ -e "$work/preload.so" ] || {
    nvcc -rdc=true -std=c++17 -O2 -gencode=arch=compute_90,code=sm_90 -I"$nvshmem/include" "$here/program.cu" \
        -o "$work/program" -L"$nvshmem/lib" -lnvshmem_device -Xlinker "$host" -Xlinker "-rpath=$nvshmem/lib" &&
        cc -O2 -shared -fPIC -D_GNU_SOURCE "$here/preload.c" -o "$work/preload.so" -ldl
} || exit 1

export NVSHMEM_BOOTSTRAP=UID NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo NVSHMEM_SYMMETRIC_SIZE=64M
export NVSHMEM_DISABLE_P2P=1 NVSHMEM_DISABLE_MNNVL=1 NVSHMEM_DISABLE_NVLS=1 NVSHMEM_DISABLE_DATA_DIRECT=1
export NVSHMEM_HCA_LIST=mlx5_soft0 NVSHMEM_DEBUG=WARN
export SOFT_HCA_LOG=${SOFT_HCA_LOG:-errors}
failures=0
transport() { # name, environment
    local name=$1 pids=() status=0 pe pid
    shift
    rm -f "$work/$name.id"
    for pe in 0 1; do
        env "$@" LD_LIBRARY_PATH="$hca:$nvshmem/lib:${LD_LIBRARY_PATH:-}" LD_PRELOAD="$work/preload.so" \
            PEER_RANK=$pe PEER_FILE="$work/$name.id" timeout -k 5 "${LIMIT:-60}" "$work/program" \
            > "$work/$name-$pe.log" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    if [ $status = 0 ] && ! grep -q WRONG "$work/$name"-*.log; then
        local rings=
        case $name in
        ibgda_cpu*) rings=", a CPU rings doorbells" ;;
        ibgda*) rings=", the GPU rings doorbells" ;;
        esac
        ! grep -q 'need to enter the CPU fallback path' "$work/$name"-*.log || rings=", a CPU rings doorbells"
        echo "$name: good ($(grep -h ' right$' "$work/$name"-*.log | wc -l) times right$rings)"
        return
    fi
    failures=$((failures + 1))
    echo "$name: FAILED ($status)"
    for pe in 0 1; do
        grep -v "bootstrap_uid\|^$" "$work/$name-$pe.log" | tail -n 12 | cut -c1-300
    done
}
transport ibrc NVSHMEM_REMOTE_TRANSPORT=ibrc PEER_ADDS_ALONE=1
for handler in cpu_host_memory auto; do
    transport "ibgda_$handler" NVSHMEM_REMOTE_TRANSPORT=ibrc NVSHMEM_IB_ENABLE_IBGDA=1 \
        NVSHMEM_IBGDA_NIC_HANDLER=$handler NVSHMEM_IBGDA_FORCE_NIC_BUF_MEMTYPE=hostmem
done
exit $((failures > 0))
