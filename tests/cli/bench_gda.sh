#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench gda`: device code and the CPU post requests to the software HCA; all data is right,
# and --trace prints eight steps.
#   bench_gda.sh WEFT JSON_GET rows|trace
set -u
weft=$1 json_get=$2 part=$3
export WEFT_HEAP_SIZE=32M WEFT_WAIT_LIMIT=20s WEFT_HCA=soft
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
if [ "$part" = rows ]; then
    quick='--target simt --threads 32 --ctas 1,2 --iters 3 --repetitions 1'
    timeout 100 "$weft" bench gda $quick --json > "$folder/rows" || fail "status $?"
    "$json_get" side bench ctas path verified < "$folder/rows" | sort -u > "$folder/seen"
    for side in gda:auto gda:cpu; do
        for ctas in 1 2; do
            printf "$side %s gda true\n" "put $ctas" "p $ctas" "p_scattered $ctas"
        done
        printf "$side %s 1 gda true\n" put_quiet g atomic_add atomic_fetch_add latency latency_signal latency_packet
    done | sort > "$folder/expected"
    diff "$folder/expected" "$folder/seen" || fail 'the rows are not those expected'
    exit $((failures > 0))
fi

WEFT_PATH=gda timeout 60 "$weft" bench gda --trace --target simt --json > "$folder/trace" || fail "--trace: status $?"
[ "$(grep -o '"since_call_us"' "$folder/trace" | wc -l)" = 8 ] || fail "--trace: not eight steps: $(cat "$folder/trace")"
# The adapter's own time may be before a slow look at the clock behind the doorbell.
grep -o '"since_call_us":[^,}]*' "$folder/trace" | cut -d: -f2 | sed 7d |
    awk '$1 < last { exit 1 } { last = $1 }' || fail "--trace: steps run backwards: $(cat "$folder/trace")"
timeout 60 "$weft" bench gda --trace --target simt --pes 1 > /dev/null 2> "$folder/words"
[ $? != 0 ] || fail "--trace without path gda is not refused"
exit $((failures > 0))
