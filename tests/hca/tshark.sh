#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tshark.sh PROGRAM: two processes of PROGRAM (talk.c) over the software HCA, which captures the
# packets. tshark, an independent decoder, reads the capture.
# Exit 77: tshark is not installed.
set -u
command -v tshark >/dev/null || { echo "skipped: there is no tshark (package tshark)"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=lo SOFT_HCA_LOG=none SOFT_HCA_CAPTURE=$out/wire
port=$((20000 + $$ % 20000))
"$1" mlx5_soft0 1 $port >"$out/server" 2>&1 &
"$1" mlx5_soft0 1 $port 127.0.0.1 || { cat "$out/server"; exit 1; }
wait $! || { cat "$out/server"; exit 1; }
# Of one end, which has seen both directions.
file=$(ls "$out"/wire.*.pcap | head -n 1)
tshark -r "$file" -T fields -e infiniband.bth.opcode -e infiniband.aeth.syndrome.error_code -e _ws.malformed \
    >"$out/read" 2>/dev/null
[ "$(wc -l <"$out/read")" -gt 500 ] || { echo "only $(wc -l <"$out/read") packets were read"; exit 1; }
! grep -n -v '^[0-9]' "$out/read" | head -n 5 | grep . || { echo "these are no RoCE to tshark"; exit 1; }
# Data may look like something to it that they are not; what has none may not be malformed.
! grep -E '^(12|17|18|19|20)\b.*Malformed' "$out/read" | head -n 5 | grep . || { echo "tshark finds these malformed"; exit 1; }
# Write first, middle, last, only; last with immediate; send; read and its data; ACK, atomics and their value.
for opcode in 6 7 8 10 9 4 5 12 13 14 15 16 17 18 19 20; do
    cut -f 1 "$out/read" | grep -qx $opcode || { echo "no packet of opcode $opcode"; exit 1; }
done
# The last write was refused: remote access error.
cut -f 2 "$out/read" | grep -qx 2 || { echo "no NAK of an access that was refused"; exit 1; }
