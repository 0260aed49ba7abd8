#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# offload.sh OFFLOAD WEFT FOLDER short|all: the offload example: with memory for two layers, three,
# four and all of them, in one run and in several, the model's file equals byte for byte that of a
# run in memory, with one PE and with several; invalid use. Files go below FOLDER, on a file system
# other than tmpfs. The short form has fewer sizes of memory, and of several PEs only three.
set -u
offload=$1 weft=$2 form=$4 bad=0
mkdir -p "$3"
folder=$(mktemp -d "$3/offload.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# run STATUS OPTION...: with $pes PEs
pes=1 batch=7
run() {
    local status start=()
    [ $pes = 1 ] || start=("$weft" run -n "$pes")
    timeout 60 "${start[@]}" "$offload" --layers 5 --width 60 --batch $batch "${@:2}" >out 2>&1
    status=$?
    [ $status = "$1" ] || { echo "status $status in place of $1: ${*:2}" && sed 's/^/    /' out && bad=1; }
}
says() { grep -qE -- "$1" out || { echo "nobody says: $1" && sed 's/^/    /' out && bad=1; }; }
same() { cmp "$1" expected || { echo "$1 is not the model of the run in memory" && bad=1; }; }

run 0 --steps 9 --in-memory expected
says 'in memory: 5 of the layers'
grep '^step' out >steps
run 0 --steps 100 --batch 32 --in-memory learned
sed -n 's/^step.*loss //p' out | sed -n '1p;$p' | tr '\n' ' ' | awk '{ exit !($2 < 0.6 * $1) }' ||
    { echo "it has learned nothing" && cat out && bad=1; }

# A layer has 43,920 bytes, activations 13,440.
slots_of="2 3 4 9" pes_of="2 3 5" memory_of="190K 230K 1M"
[ "$form" = all ] || slots_of="2 4" pes_of=3 memory_of="190K 1M"
for slots in $slots_of; do
    run 0 --steps 9 --memory $((13440 + slots * 43920 + 100)) model.$slots
    says "in memory: $((slots < 5 ? slots : 5)) of the layers"
    says '^its transfers alone take .* ms a step; no kernel ran for .* ms: [0-9]+ % of the transfers overlapped'
    [ "$(grep '^step' out)" = "$(cat steps)" ] || { echo "$slots slots: other losses" && cat out && bad=1; }
    same model.$slots
done
run 0 --steps 9 --memory 101K --one-by-one model
same model
# Stopped and continued, once in memory; created again over an existing file.
run 0 --steps 4 --memory 101K --new model
run 0 --steps 1 --in-memory model
says '^resumes after step 4$'
run 0 --steps 4 --memory 200K model
says '^resumes after step 5$'
same model
run 0 --steps 9 --memory 101K --seed 2 --new model
! cmp -s model expected || { echo "another seed gives the same model" && bad=1; }

# refused WORDS OPTION...
refused() {
    run 2 "${@:2}"
    says "^offload: $1"
}
refused '--memory 100352 is too small: two layers of 43920 bytes and 13440 of activations need 101280 \(--memory 99K\)' \
    --memory 98K model
refused 'model holds another model: 5 layers of width 60 with seed 2, not 5 of 60 with 1; give' model
refused 'model holds another model: 5 layers of width 60 with seed 2, not 4 of 60 with 2; give' --layers 4 --seed 2 model
head -c 4095 expected >short
refused 'short is damaged or truncated; --new replaces it' short
printf 'WEFTCKP and more than that, so that it is as long as a header of this program would be' >other
refused 'other is not a model of this program' other
refused '.*nowhere/model.*No such file or directory' nowhere/model
refused '.*directory' .
refused '--memory 4Q: expected a size as 65536, 512K, 4M or 1G' --memory 4Q model
refused '--width 0: expected a whole number from 1 to 16384' --width 0 model

# Several PEs: each reads and writes its share of every layer. 60 * 61 floats are 14,640 bytes: 2
# PEs store them in two pages each, 4 PEs in one each; with 5 PEs the last one has no share.
batch=60
run 0 --steps 4 --in-memory expected --new
sed -n 's/^step.*loss //p' out >alone
for pes in $pes_of; do
    run 0 --steps 4 --in-memory --new expected
    says "; $pes PEs, each with its share of every layer$"
    grep '^step' out >steps
    # The result of one PE with all samples, except for the order of the sums.
    sed 's/.*loss //' steps | paste - alone |
        awk '{ d = $1 - $2; if (NF != 2 || d > 1e-4 * $2 || -d > 1e-4 * $2) bad = 1 } END { exit bad || !NR }' ||
        { echo "$pes PEs learn something else" && paste steps alone && bad=1; }
    for memory in $memory_of; do
        run 0 --steps 4 --memory "$memory" --new model
        says '^file: 0\.[0-9]+ GB read, 0\.[0-9]+ GB written'
        says '^its transfers alone take .* ms a step; no kernel ran for .* ms: [0-9]+ % of the transfers overlapped'
        [ "$(grep '^step' out)" = "$(cat steps)" ] || { echo "$pes PEs, $memory: other losses" && cat out && bad=1; }
        same model
    done
    run 0 --steps 4 --memory 190K --one-by-one --new model
    same model
    run 0 --steps 1 --memory 190K --new model
    run 0 --steps 3 --memory 230K model
    says '^resumes after step 1$'
    same model
done
# The file does not depend on the number of PEs.
pes=3 && run 0 --steps 2 --memory 190K --new model
pes=2 && run 0 --steps 1 --memory 230K model
pes=1 && run 0 --steps 1 --memory 230K model
says '^resumes after step 3$'
sed -n 's/^step 4: loss //p' out | paste - <(tail -n 1 alone) | awk '{ d = $1 - $2; exit d > 1e-4 * $2 || -d > 1e-4 * $2 }' ||
    { echo "with other numbers of PEs it learns something else" && tail -n 1 out alone && bad=1; }
pes=2
refused '--memory 65536 is too small: two layers of .* and of a gathered layer, at each PE, need [0-9]+ ' --memory 64K model
[ "$(grep -c '^offload:' out)" = 1 ] || { echo "not said once" && cat out && bad=1; }
pes=7
refused '--batch 60 is no multiple of the 7 PEs' model
# A fault of the file that PE 0 finds ends all PEs, and is reported once.
pes=3
refused 'other is not a model of this program' other
[ "$(grep -c '^offload:' out)" = 1 ] || { echo "not said once" && cat out && bad=1; }

# Killed during steps: reported, and not continued.
"$offload" --steps 100000 --memory 3M killed >out 2>&1 &
for _ in $(seq 100); do
    ! grep -q '^step 1:' out || break
    sleep 0.05
done
kill -9 $!
wait $! 2>/dev/null
timeout 60 "$offload" killed >out 2>&1 && bad=1
says '^offload: killed was left in the middle of a step by a killed run; --new replaces it'
exit $bad
