#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train.sh TRAIN WEFT FOLDER TEXT short|all: the training example: the loss decreases; with 1, 2 and
# 4 PEs, and with numbers that do not divide the micro-batches, with and without shares of the
# optimizer's state, in buckets of three sizes, in one run and in several, the parameters are equal
# in every bit; invalid use. Files go below FOLDER, on a file system other than tmpfs. The short
# form has one bucket for each number of PEs, and one path.
set -u
train=$1 weft=$2 text=$4 form=$5 bad=0
mkdir -p "$3"
folder=$(mktemp -d "$3/train.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# run STATUS OPTION...: with $pes PEs
pes=1
run() {
    local status start=()
    [ $pes = 1 ] || start=("$weft" run -n "$pes")
    timeout 60 "${start[@]}" "$train" --width 24 --heads 3 --context 12 "${@:2}" >out 2>&1
    status=$?
    [ $status = "$1" ] || { echo "status $status in place of $1: $pes PEs, ${*:2}" && sed 's/^/    /' out && bad=1; }
}
says() { grep -qE -- "$1" out || { echo "nobody says: $1" && sed 's/^/    /' out && bad=1; }; }
sum() { sed -n 's/^parameters: CRC-32C \([0-9a-f]*\).*/\1/p' out; }
same() { [ "$(sum)" = "$expected" ] || { echo "$*: $(sum) in place of $expected" && bad=1; }; }

run 0 --steps 40 --rate 0.01 "$text"
sed -n 's/^step.*loss //p' out | sed -n '1p;$p' | tr '\n' ' ' | awk '{ exit !($1 > 3.5 && $2 < 0.75 * $1) }' ||
    { echo "it has learned nothing" && cat out && bad=1; }

for _ in {1..20}; do printf 'abcdefghijklmnopqrstuvwxyz '; done >letters
if [ "$form" = all ]; then
    pes=2 && run 0 --steps 80 --rate 0.01 --say 46 letters
    says '^abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz $'
    pes=1
fi
run 0 --steps 6 --check "$text"
says '^check: identical in every bit to one PE alone from step 1 to 6$'
says '^one PE alone: [0-9]+ tokens/s; 1 PE: [0-9.]+ times that$'
expected=$(sum)
[ -n "$expected" ] || { echo "no checksum" && bad=1; }
grep '^step' out >steps
run 0 --steps 6 --seed 2 "$text"
[ "$(sum)" != "$expected" ] || { echo "another seed gives the same parameters" && bad=1; }
run 0 --steps 6 --blocks 7 --bucket 1 "$text" # of the least that there is
same "7 blocks"
says '; gradients in 1118 buckets$'

# A bucket of 4 KiB ends within most matrices; 10,000 bytes are rounded up; 1M holds everything.
for pes in 2 4; do
    buckets="4K 10000 1M"
    [ "$form" = all ] || buckets=$((pes == 2 ? 10000 : 4096))
    for bucket in $buckets; do
        run 0 --steps 6 --bucket "$bucket" "$text"
        same "$pes PEs, buckets of $bucket"
        says "at every PE$"
        [ "$(grep '^step' out)" = "$(cat steps)" ] || { echo "$pes PEs, $bucket: other losses" && cat out && bad=1; }
        run 0 --steps 6 --bucket "$bucket" --shard --check "$text"
        same "$pes PEs, shares, buckets of $bucket"
        says '^check: identical in every bit'
    done
    says '^exchanges took .* ms a step, .* with nothing else running; the model.s kernels waited .* ms for .*: [0-9]+ % overlapped'
done
# Over paths that delay and reorder, and that copy twice.
pes=2
paths="weak staged" shares=no
[ "$form" = all ] || paths=weak shares=
for path in $paths; do
    for shard in $shares --shard; do
        [ $shard != no ] || shard=
        # shellcheck disable=SC2086 # no option, or one
        WEFT_PATH=$path run 0 --steps 6 $shard --bucket 4K "$text"
        same "path $path $shard"
    done
done
# One PE has no micro-batch in the second round, or in any round.
idle="3 5"
[ "$form" = all ] || idle=5
for pes in $idle; do
    run 0 --steps 6 --shard --bucket 4K "$text"
    same "$pes PEs"
    says "^4 micro-batches for $pes PEs: $((pes == 3 ? 2 : 1)) of them idle in the last round of a step$"
done

# Stopped, and continued by another number of PEs.
pes=4 && run 0 --steps 2 --shard --bucket 4K --save state "$text"
pes=3 && run 0 --steps 1 --resume state --save state "$text"
says '^resumes after step 2 of state$'
pes=1 && run 0 --steps 1 --resume state --save state "$text"
pes=2 && run 0 --steps 2 --shard --resume state --check "$text"
says '^resumes after step 4 of state$'
says '^check: identical in every bit to one PE alone from step 1 to 6$'
same "in four runs"
[ "$(grep '^step 6' steps)" = "$(grep '^step 6' out)" ] || { echo "other losses after a resume" && cat out steps && bad=1; }

# refused WORDS OPTION...
pes=1
refused() {
    run 2 "${@:2}"
    says "^train: $1"
}
refused 'state is of a run with --micro 4, not 2: resume with the same settings' --micro 2 --resume state "$text"
refused 'state is of a run with --rate 0.003, not 0.01: resume' --rate 0.01 --resume state "$text"
refused '.*state holds array 2x24 context 12 .*, the program has 1x24 context 12 .*: start it with' --layers 1 --resume state "$text"
refused '--resume nothing: there is no such file' --resume nothing "$text"
refused 'nothing: No such file or directory' nothing
printf 'only thirteen' >short
refused 'short has 13 characters; at least 14 are needed, 2 more than --context' short
refused '--heads 5: expected a number that divides --width 24' --heads 5 "$text"
refused '--bucket 4Q: expected a size as 4096, 64K, 4M or 1G' --bucket 4Q "$text"
refused '--rate nan: expected a number above 0, at most 1' --rate nan "$text"
refused '--micro 0: expected a whole number from 1 to 65536' --micro 0 "$text"
refused 'expected a TEXT to learn from, such as LICENSE; see --help'
refused 'unexpected operand short; see --help' "$text" short
run 2 --no-such
says '^usage: train'
run 0 --help
says '--shard .*share of the parameters'
pes=3
run 2 --layers 1 --resume state "$text"
[ "$(grep -c '^train:' out)" = 1 ] || { echo "not said once" && cat out && bad=1; }
run 1 --steps 1 --save nowhere/state "$text"
says '^train: PE 0: .*nowhere/state.*No such file or directory'
exit $bad
