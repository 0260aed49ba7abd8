#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_scale.sh WEFT short|all: `weft bench scale`. The launcher has exactly as many frames in the
# simulation as in the same job in real processes, every PE gets what the others sent, and wrong
# options are named. No time is checked. The short form measures 5 PEs alone, and has a table of 64
# without --measure.
set -u
weft=$1 form=$2 failures=0
export BENCH_SCALE_TEST=$$ # tells this test's processes from those of another one at the same time

fail() {
    echo "bench_scale.sh: $*"
    failures=$((failures + 1))
}

# value NAME ROW: the last value of that name, which is the measured one where there are two.
value() {
    grep -o "\"$1\":[^,}]*" <<<"$2" | sed -n "${3:-1}p" | cut -d: -f2
}

# The values of the whole job come after those of the steps.
rows=0 measured_pes=5
[ "$form" = short ] || measured_pes=1,5
while read -r row; do
    rows=$((rows + 1))
    pes=$(value pes "$row")
    [ "$(value right "$row")" = true ] || fail "$pes PEs: not right"
    for name in frames_to_launcher frames_of_launcher; do
        simulated=$(sed 's/"collectives_by_node".*//; s/.*"steps":{.*}},//' <<<"$row")
        measured=$(sed 's/.*"measured"//' <<<"$row")
        [ "$(value $name "$simulated")" = "$(value $name "$measured")" ] ||
            fail "$pes PEs: $name is $(value $name "$simulated"), measured $(value $name "$measured")"
    done
done < <("$weft" bench scale --pes $measured_pes --per-host 2 --fan-out 2 --measure --json)
[ $rows = $(((${#measured_pes} + 1) / 2)) ] || fail "$rows rows for $measured_pes PEs"

# What an exchange takes by design: each PE sends a part and gets an answer, each host a frame in each direction.
row=$("$weft" bench scale --pes 800 --json)
barrier=$(grep -o '"barrier":{[^}]*}' <<<"$row")
[ "$(value frames "$barrier")" = $((2 * 800 + 2 * 100)) ] || fail "frames of a barrier: $barrier"
[ "$(value frames_to_launcher "$barrier")$(value frames_of_launcher "$barrier")" = 3232 ] || fail "frames of the launcher: $barrier"
[ "$(value rounds "$barrier")" = 6 ] || fail "rounds of a barrier: $barrier"
[ "$(value levels "$row")" = 2 ] || fail "levels: $(value levels "$row")"

# Collectives by node: 125 leaders with radix 8 send 7 + 7 + 1 flags each, and their neighbours one each way.
row=$("$weft" bench scale --pes 1000,1001 --elements 777 --json)
sync=$(grep -o '"sync":{[^}]*}' <<<"$row" | head -n 1)
[ "$(value between_nodes "$sync")" = 1875 ] || fail "sync between nodes: $sync"
[ "$(value in_nodes "$sync")" = 1750 ] || fail "sync in nodes: $sync"
[ "$(grep -o '"right_bits":true' <<<"$row" | wc -l)" = 12 ] || fail "bits of collectives: $row"
grep -q '"right":false' <<<"$row" && fail "not right: $row"
"$weft" bench scale --pes 20 --per-host 1 --json | grep -q '"collectives_by_node":{}' || fail "one PE per host: not left out"

# Of 8 GPUs for each of 65 nodes and one node of 5: 5 rails have the same rank at all nodes. A slice
# passes 6 times between 7 groups of 10 nodes, with 3 messages. The first node of a group gets from
# all members of the others, which takes a report and a result for each of 59 nodes.
row=$("$weft" bench scale --pes 525 --gpus --elements 331 --json) || fail "GPUs: status $?"
[ "$(grep -o '"right_bits":true' <<<"$row" | wc -l)" = 6 ] || fail "bits of collectives on GPUs: $row"
for name in allreduce allreduce_avg allreduce_min; do
    part=$(grep -o "\"$name\":{[^}]*}" <<<"$row")
    [ "$(value off_rail "$part")" = $((5 * (58 * 7 + 4))) ] || fail "$name leaves its rail: $part"
    [ "$(value between_nodes "$part")" = $((5 * (6 * 3 + 58 * 8 + 5 + 2 * 59))) ] || fail "$name between nodes: $part"
done
[ "$(value gpu "$row")" -lt $((525 * 256)) ] || fail "tables for GPU memory: $row"

pes=64
[ "$form" = short ] || pes=64,700
text=$("$weft" bench scale --pes $pes --elements 100) || fail "table: status $?"
awk 'length > 80 { exit 1 }' <<<"$text" || fail "a line of more than 80 columns"

if [ "$form" = all ]; then
    # Each number of PEs is predicted, measured and compared, and no process is left.
    text=$("$weft" bench scale --pes 2 --per-host 4 --elements 100 --measure) || fail "table with --measure: status $?"
    for row in "2 barriers" "2 exchanges"; do
        grep -qE "^ *$row in a row: predicted [0-9.]+ [mu]?s, measured [0-9.]+ [mu]?s \([0-9.]+ [mu]?s to [0-9.]+ [mu]?s\), ratio [0-9.]+$" <<<"$text" ||
            fail "$row: $text"
    done
    awk 'length > 100 { exit 1 }' <<<"$text" || fail "a line of more than 100 columns"
fi
for pid in $(pgrep -f "$weft bench scale --as-"); do
    grep -qzx "BENCH_SCALE_TEST=$$" "/proc/$pid/environ" 2>/dev/null && fail "process $pid is left"
done

for words in "--pes=0" "--pes=100000" "--pes=8,x" "--pes=" "--per-host=0" "--fan-out=0" "--bytes=-1" "--cpus=x"; do
    text=$("$weft" bench scale "$words" 2>&1)
    [ $? = 2 ] || fail "$words: not status 2"
    grep -qE "^weft bench scale: .*expected" <<<"$text" || fail "$words: $text"
done
[ $failures = 0 ]
