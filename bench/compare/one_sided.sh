#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One-sided operations by Weft's path net and by Open MPI's MPI-3 over the same provider of libfabric on the
# loopback interface, by turns; then Weft beside plain libfabric (compare_net).
#
#   bench/compare/one_sided.sh [-r ROUNDS] [-b BUILD] [-p PROVIDER]
#     -r  rounds (5)    -b  Weft's build folder (build)    -p  provider ("tcp;ofi_rxm")
#
# Open MPI's side is osc/pt2pt over mtl/ofi: its osc/rdma refuses the window over btl/ofi with this provider
# (4.1.4, MPI_ERR_WIN).
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=5 build=build provider="tcp;ofi_rxm"
while getopts r:b:p: option; do
    case $option in
    r) rounds=$OPTARG ;;
    b) build=$OPTARG ;;
    p) provider=$OPTARG ;;
    *) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FI_TCP_IFACE=lo WEFT_PATH=net WEFT_FABRIC_INTERFACE=lo
export WEFT_FABRIC_PROVIDER=$provider

[ -x "$build/bin/compare_one_sided" ] || { echo "$build/bin/compare_one_sided is not there; build Weft first" >&2; exit 1; }
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
    echo "mpicc and mpirun are not here (libopenmpi-dev, openmpi-bin)" >&2
    exit 1
fi
mpicc -O3 -DOVER_MPI -o "$work/mpi" bench/compare/one_sided.c

weft() { timeout 120 "$build/bin/weft" run -n 2 "$build/bin/compare_one_sided"; }
mpi() {
    timeout 120 mpirun --allow-run-as-root -np 2 --bind-to core -x FI_TCP_IFACE -mca pml cm -mca mtl ofi \
        -mca mtl_ofi_provider_include "$provider" -mca osc pt2pt "$work/mpi"
}
for ((round = 0; round < rounds; round++)); do
    for side in weft mpi; do
        "$side" >>"$work/$side.out" 2>"$work/err" || { echo "$side failed:" >&2; cat "$work/err" >&2; exit 1; }
    done
done

# median FILE NAME, and the best: the least time, the highest rate
both() {
    local order=-g
    [ "${2##*.}" = us ] || order=-gr
    grep "^$2 " "$work/$1.out" | cut -d' ' -f2 | sort $order |
        awk '{v[NR] = $1} END {printf "%10.3f %10.3f", v[int((NR + 1) / 2)], v[1]}'
}
printf '%s, %d rounds by turns; medians and best\n%-18s %10s %10s %12s %10s\n' "$provider" "$rounds" "" Weft best "Open MPI" best
cut -d' ' -f1 "$work/weft.out" | awk '!seen[$1]++' | while read -r name; do
    printf '%-18s %s   %s\n' "$name" "$(both weft "$name")" "$(both mpi "$name")"
done
echo
timeout 300 "$build/bin/weft" run -n 2 "$build/bin/compare_net" "$rounds"
