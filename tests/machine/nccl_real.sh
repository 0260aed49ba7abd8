#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real NCCL accepts the topology file of every machine file and of some descriptions, when it
# creates a communicator of one GPU of this machine; it refuses a truncated file, which shows that
# it reads the files.
#   nccl_real.sh WEFT NCCL_LOAD LIBNCCL FOLDER_OF_MACHINES
# Exit status 77: no GPU here, or no such library.
set -u
weft=$1 load=$2 library=$3 machines=$4
folder=$(mktemp -d "${TMPDIR:-/tmp}/weft-test-nccl.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
export NCCL_DEBUG=WARN NCCL_TOPO_FILE=$folder/topology.xml
unset NCCL_TOPO_DUMP_FILE NCCL_GRAPH_FILE
timeout -k 5 60 env -u NCCL_TOPO_FILE "$load" "$library" > "$folder/words" 2>&1
status=$?
[ $status = 0 ] || { cat "$folder/words"; exit $status; } # what NCCL cannot do here without a file either
failures=0 taken=0 of_rccl=0
try() { # name of the machine
    "$weft" topo --machine "$2" --nccl="$NCCL_TOPO_FILE" > "$folder/words" 2>&1 || { echo "FAILED: $1: $(cat "$folder/words")"; failures=$((failures + 1)); return; }
    # RCCL's files have a version of their own, which NCCL says that it refuses.
    if grep -q '<system version="2">' "$NCCL_TOPO_FILE"; then
        timeout -k 5 60 "$load" "$library" > "$folder/words" 2>&1
        grep -q "wrong version 2" "$folder/words" && of_rccl=$((of_rccl + 1)) && return
        echo "FAILED: $1: NCCL did not tell that this is a file for RCCL: $(tail -n 3 "$folder/words" | tr '\n' ' ')"
        failures=$((failures + 1))
    elif timeout -k 5 60 "$load" "$library" > "$folder/words" 2>&1 && ! grep -q "NCCL WARN" "$folder/words"; then
        taken=$((taken + 1))
    else
        echo "FAILED: $1: $(tail -n 3 "$folder/words" | tr '\n' ' ')"
        failures=$((failures + 1))
    fi
}
for file in "$machines"/*.json; do try "${file##*/}" "$file"; done
for shape in "4 mi250x" "8 h200, nvswitch, nic per gpu" "2 l40s, no pcie-switch" "4 gb200"; do try "$shape" "$shape"; done
# The last one is of NVIDIA GPUs, so that it is refused for its end alone.
head -c 300 "$NCCL_TOPO_FILE" > "$folder/cut" && mv "$folder/cut" "$NCCL_TOPO_FILE"
timeout -k 5 60 "$load" "$library" > "$folder/words" 2>&1 && { echo "FAILED: NCCL took a file that is cut off: does it read them?"; failures=$((failures + 1)); }
echo "NCCL took $taken topology files, and told of $of_rccl that they are for RCCL"
[ $failures = 0 ]
