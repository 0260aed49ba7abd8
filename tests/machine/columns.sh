#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No line that topo, explain, doctor or a what-if prints has more than $COLUMNS (100) columns, on any machine
# file; --full prints the same text in lines of any length.
#   columns.sh WEFT FOLDER_OF_MACHINES [FILE...]      default: all files
set -u
weft=$(realpath "$1")
cd "$2" || exit 1
shift 2
[ $# -gt 0 ] || set -- *.json
machines=("$@")
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
failures=0
# Adds what a command prints to what is looked at.
add() {
    printf '\n$ weft %s\n' "$(echo "$*" | cut -c 1-80)" >>"$out"
    "$weft" "$@" >>"$out" 2>/dev/null
}
# Its lines, counted in characters; the command that printed one stands above it.
look() {
    LC_ALL=C.UTF-8 awk -v most="${COLUMNS:-100}" '/^\$ weft/ { if (NR > 2 && !printed) { print "prints nothing: " command; bad = 1 }
                                    command = $0; printed = 0; next }
                       NF { printed = 1 }
                       length($0) > most { print command ": " length($0) " columns: " $0; bad = 1 }
                       / $/ { print command ": a space at the end: " $0; bad = 1 }
                       END { exit bad }' "$out" || failures=$((failures + 1))
    : >"$out"
}
described=("2 socket, 4 gpu each, nvlink hybrid-cube-mesh, 1 nic per 2 gpu"
    "8 h200, nvswitch, flat vm, nic per gpu, 2 disk" "2 geforce, 2 gpu per pcie-switch, acs on, iommu on"
    "24 b200, nvswitch, nic per gpu" "48 p100, 1 nic per 4 gpu"
    "2 node, 2 socket, 4 gpu each, h100, nvswitch, nic per gpu")
for machine in "${machines[@]}" "${described[@]}"; do
    for form in "" --tree --links --routes --assign; do
        case $form:$machine in --routes:*" "*) continue ;; esac
        add topo --machine "$machine" $form
    done
    add doctor --machine "$machine" --all
    add topo --machine "$machine" --what-if "set iommu translated"
    look
done
for machine in "${machines[@]}"; do
    add doctor --machine "$machine"
    gpus=$("$weft" topo --machine "$machine" | grep -c '^gpu[0-9]')
    for b in gpu1 gpu7 mlx5_0 mlx5_3 bnxt_re3 nvme0n1 /raid/x /data/x; do
        "$weft" explain gpu0 "$b" --machine "$machine" >>"$out" 2>/dev/null
    done
    [ "$gpus" -eq 0 ] || add explain host gpu0 --machine "$machine"
    look
done
add topo --machine dgx-1v.json --what-if "lose nvlink 0:3 all; move nic mlx5_3 under gpu0"
add topo --machine dgx-2.json --what-if "lose nvlink 0:switch; set links[0].active no"
for code in $("$weft" explain --codes | awk '/^[A-Z][A-Z0-9]*(-[A-Z0-9]+)+/ { print $1 }'); do
    add explain "$code"
done
add explain --codes
add explain coll broadcast 64M 4
add explain coll reduce 1G 64
add explain experts --tokens 128
add explain experts --pes 64 --per-node 8
add doctor --machine container-2-of-8.json --against dgx-a100.json
look
# Nothing is lost by folding: the words are those of --full.
for machine in "${machines[@]}"; do
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
