#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with NVIDIA GPUs: runs topo, doctor and explain, prints the time of each, and
# compares distances and peer access with the output of nvidia-smi. Exits with 1 on a difference or
# if a command reports a fault.
#   tests/gpu/probe.sh [WEFT]      WEFT: the command, build/bin/weft
# Keeps the outputs in $OUT, or in the folder probe-logs.
set -u
weft=${1:-build/bin/weft}
logs=${OUT:-.}/probe-logs
bad=0
[ -x "$weft" ] || { echo "there is no $weft"; exit 1; }
mkdir -p "$logs"

# name of the output, then the command; prints its output
timed() {
    local name=$1 begun status
    shift
    begun=$(date +%s%N)
    timeout 120 "$@" > "$logs/$name.log" 2> "$logs/$name.err"
    status=$?
    printf '### %s: exit status %d, %d ms\n' "$*" "$status" $((($(date +%s%N) - begun) / 1000000))
    cat "$logs/$name.log" "$logs/$name.err"
    [ "$status" -eq 0 ] || bad=1
}
timed doctor-quick "$weft" doctor --quick
timed topo "$weft" topo --full
timed topo-measure "$weft" topo --measure
timed doctor "$weft" doctor
timed explain "$weft" explain --measure gpu0 gpu1
timed explain-host "$weft" explain --measure gpu0 host
timed record "$weft" topo --measure --record "$logs/machine.json" --anonymous

gpus=$(grep -c '^gpu[0-9]* .* GiB, ' "$logs/topo.log")
# Cells "row column word" of the matrix of `weft topo` under a title, GPUs only.
ours() {
    awk -v title="$1" -v n="$gpus" 'index($0, title) == 1 { on = 1; next }
        on && /^gpu[0-9]/ { row = substr($1, 4) + 0
            for (c = 0; c < n; c++) if (c != row) print row, c, $(c + 2) }
        on && /^$/ { exit }' "$logs/topo.log"
}
# The same of a matrix of nvidia-smi.
theirs() {
    sed -e 's/\x1b\[[0-9;]*m//g' "$1" |
        awk -v n="$gpus" '$1 ~ /^GPU[0-9]+$/ && ($2 !~ /^GPU/) { row = substr($1, 4) + 0
            for (c = 0; c < n; c++) if (c != row) print row, c, $(c + 2) }'
}
compare() { # title, file of ours, file of theirs
    if [ ! -s "$3" ]; then
        echo "$1: nvidia-smi told nothing"
    elif diff "$2" "$3" > "$logs/difference"; then
        echo "$1: equal to nvidia-smi, $(wc -l < "$2") pairs"
    else
        echo "$1: DIFFERS (row column word; < weft, > nvidia-smi)"
        head -n 20 "$logs/difference"
        bad=1
    fi
}
if [ "$gpus" -gt 1 ] && command -v nvidia-smi > /dev/null; then
    nvidia-smi topo -m > "$logs/smi-m" 2>&1
    ours "Distance" > "$logs/ours-m"
    theirs "$logs/smi-m" > "$logs/theirs-m"
    compare "distance (topo -m)" "$logs/ours-m" "$logs/theirs-m"
    place=1
    for letter in r w a; do
        nvidia-smi topo -p2p "$letter" > "$logs/smi-$letter" 2>&1
        ours "Peer access by the driver" |
            awk -v p="$place" '{ print $1, $2, substr($3, p, 1) == "-" ? "no" : "OK" }' \
                > "$logs/ours-$letter"
        theirs "$logs/smi-$letter" | awk '{ print $1, $2, $3 == "OK" ? "OK" : "no" }' \
            > "$logs/theirs-$letter"
        compare "peer access (topo -p2p $letter)" "$logs/ours-$letter" "$logs/theirs-$letter"
        place=$((place + 1))
    done
fi
[ "$bad" -eq 0 ] && echo "all good" || echo "something differs or is at fault"
exit "$bad"
