#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No line that topo, explain, doctor or a what-if prints has more than 100 columns, on any machine
# file; --full says the same in lines of any length.   columns.sh WEFT FOLDER_OF_MACHINES
set -u
weft=$(realpath "$1")
cd "$2" || exit 1
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
failures=0
# A command whose lines are counted in characters.
fits() {
    "$weft" "$@" >"$out" 2>/dev/null
    [ -s "$out" ] || { echo "FAILED: prints nothing: $*"; failures=$((failures + 1)); }
    if LC_ALL=C.UTF-8 awk 'length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns: " $0; bad = 1 }
                           / $/ { print FNR ": a space at the end: " $0; bad = 1 }
                           END { exit bad }' "$out"; then
        return
    fi
    echo "FAILED: $*"
    failures=$((failures + 1))
}
described=("2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic per 2 gpu"
    "8 h200, nvswitch, flat vm, nic per gpu, 2 disk" "2 geforce, 2 gpu per pcie-switch, acs on, iommu on"
    "64 b200, nvswitch, nic per gpu" "48 p100, 1 nic per 4 gpu"
    "2 node, 2 socket, 4 gpu each, h100, nvswitch, nic per gpu")
for machine in *.json "${described[@]}"; do
    for form in "" --tree --links --routes --assign; do
        case $form:$machine in --routes:no-gpu.json | --routes:*" "*) continue ;; esac
        fits topo --machine "$machine" $form
    done
    fits doctor --machine "$machine"
    fits doctor --machine "$machine" --all
    fits topo --machine "$machine" --what-if "set iommu translated"
    for a in gpu0 gpu1 host; do
        for b in gpu1 gpu3 gpu7 mlx5_0 mlx5_3 mlx5_9 bnxt_re3 nvme0n1 nvme3n1 /raid/x /data/x /; do
            "$weft" explain "$a" "$b" --machine "$machine" >/dev/null 2>&1
            [ $? -eq 2 ] || fits explain "$a" "$b" --machine "$machine"
        done
    done
done
fits topo --machine dgx-1v.json --what-if "lose nvlink 0:3 all; move nic mlx5_3 under gpu0"
fits topo --machine dgx-2.json --what-if "lose nvlink 0:switch; set links[0].active no"
for code in $("$weft" explain --codes | awk '/^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+/ { print $1 }'); do
    fits explain "$code"
done
fits explain --codes
fits doctor --machine container-2-of-8.json --against dgx-a100.json
# Nothing is lost by folding: the words are those of --full.
for machine in *.json; do
    for what in "doctor --all" "topo --tree" "topo --links"; do
        # shellcheck disable=SC2086
        if ! diff <("$weft" $what --machine "$machine" | tr -s ' \n' '\n\n') \
            <("$weft" $what --machine "$machine" --full | tr -s ' \n' '\n\n') >"$out"; then
            echo "FAILED: $what --machine $machine: not the words of --full"
            head -n 5 "$out"
            failures=$((failures + 1))
        fi
    done
done
exit $((failures > 0))
