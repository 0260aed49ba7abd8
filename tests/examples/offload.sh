#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# offload.sh OFFLOAD WEFT FOLDER: the offload example: with memory for two layers, three, four and all of them,
# in one run and in several, the model's file is byte for byte that of a run in memory; what is refused. Files go
# below FOLDER, on a file system that is no tmpfs.
set -u
offload=$1 weft=$2 bad=0
mkdir -p "$3"
folder=$(mktemp -d "$3/offload.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# run STATUS OPTION...
run() {
    local status
    timeout 60 "$offload" --layers 5 --width 60 --batch 7 "${@:2}" >out 2>&1
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
for slots in 2 3 4 9; do
    run 0 --steps 9 --memory $((13440 + slots * 43920 + 100)) model.$slots
    says "in memory: $((slots < 5 ? slots : 5)) of the layers"
    says '^its transfers alone take .* ms a step; no kernel ran for .* ms: [0-9]+ % of the transfers was hidden'
    [ "$(grep '^step' out)" = "$(cat steps)" ] || { echo "$slots slots: other losses" && cat out && bad=1; }
    same model.$slots
done
run 0 --steps 9 --memory 101K --one-by-one model
same model
# Stopped and gone on, once in memory; made anew over what is there.
run 0 --steps 4 --memory 101K --new model
run 0 --steps 1 --in-memory model
says '^goes on after step 4$'
run 0 --steps 4 --memory 200K model
says '^goes on after step 5$'
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
refused 'model is of another model: 5 layers of width 60 with seed 2, not 5 of 60 with 1; say' model
refused 'model is of another model: 5 layers of width 60 with seed 2, not 4 of 60 with 2; say' --layers 4 --seed 2 model
head -c 4095 expected >short
refused 'short is damaged or cut short; --new makes it anew' short
printf 'WEFTCKP and more than that, so that it is as long as a header of this program would be' >other
refused 'other is no model of this program' other
refused '.*nowhere/model.*No such file or directory' nowhere/model
refused '.*directory' .
refused '--memory 4Q: a size as 65536, 512K, 4M or 1G is wanted' --memory 4Q model
refused '--width 0: a whole number from 1 to 16384 is wanted' --width 0 model
timeout 60 "$weft" run -n 2 "$offload" model >out 2>&1 && bad=1
says '^offload: it trains on one PE; start it as one, not 2'

# Killed in the midst of steps: told, not gone on with.
"$offload" --steps 100000 --memory 3M killed >out 2>&1 &
for _ in $(seq 100); do
    ! grep -q '^step 1:' out || break
    sleep 0.05
done
kill -9 $!
wait $! 2>/dev/null
timeout 60 "$offload" killed >out 2>&1 && bad=1
says '^offload: killed was left in the midst of a step by a run that was killed; --new makes it anew'
exit $bad
