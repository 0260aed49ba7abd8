#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench file`: rows for every block, depth and number of threads, by every method that is here, of host memory
# and of GPU memory over the stand-in of the driver; usage; and nothing is left in the folder.
#   bench_file.sh WEFT FOLDER_OF_THE_DRIVER'S_STAND-IN FOLDER_OF_CUFILE'S
set -u
weft=$1 stand_in=$2 cufile=$3
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
export WEFT_HEAP_SIZE=64M WEFT_GPU_HEAP_SIZE=1G
folder=$(mktemp -d "$PWD/bench_file.XXXXXX") && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
figure='[0-9]+\.[0-9]{2}'
options=(--size 8M --blocks 64K,128K --depths 2,4 --threads 1,2 --repetitions 1)
for direction in "" --write; do
    table=$("$weft" bench file "${options[@]}" --methods weft,plain $direction) || fail "host $direction: status $?"
    [ "$(grep -cE "^ +(64|128)K +[24] +[12] +$figure +$figure +- +-$" <<< "$table")" = 8 ] ||
        fail "host $direction: not eight rows with two figures: $table"
done
rows=$(LD_LIBRARY_PATH=$stand_in "$weft" bench file "${options[@]}" --methods weft --memory gpu --json) ||
    fail "gpu: status $?"
[ "$(grep -cE '^\{"bench": "file", "direction": "read", "memory": "gpu", .*"weft_gbps": [0-9.]+, "plain_gbps": null' <<< "$rows")" = 8 ] ||
    fail "gpu: not eight rows: $rows"
# cuFile, over its stand-in; without a list of modules the real one would never return, and is not called.
table=$(LD_LIBRARY_PATH=$stand_in:$cufile "$weft" bench file "${options[@]}" --threads 1 --repetitions 3 --methods weft,cufile --memory gpu 2>&1) ||
    fail "cufile: status $?"
if [ -r /proc/modules ]; then
    wanted="^ +(64|128)K +[24] +1 +$figure +- +- +$figure$"
    grep -q "^cufile: compatibility mode allowed" <<< "$table" || fail "cufile: its mode is not told: $table"
    [ "$(grep -cE "$wanted" <<< "$table")" = 4 ] || fail "cufile: not four rows: $table"
else
    grep -q "^weft bench: cufile: no /proc/modules" <<< "$table" || fail "cufile: not told why not: $table"
fi
# `weft explain` tells of a file by what a job moves it, forced or not: as weft_file_query() does.
head -c 100000 /dev/urandom > some
for backend in auto threads; do
    query=$(WEFT_FILE_BACKEND=$backend "$weft" bench file --file some --size 64K --blocks 64K --depths 1 --threads 1 \
        --repetitions 1 --methods weft | sed -n 's/^read, \(.*\) on \(.*\); weft by \(uring\|threads\) \([a-z]*\).*/\3 \4 \1 on \2/p')
    told=$(WEFT_FILE_BACKEND=$backend "$weft" explain host ./some |
        sed -n 's/^  file      \([a-z]* [a-z]*\), [0-9]* requests of up to [0-9]* bytes at once; \(.*\)/\1 \2/p')
    [ -n "$query" ] && [ "$query" = "$told" ] || fail "$backend: the job says \"$query\", explain \"$told\""
done
rm -f some
for wrong in "--blocks 5000" "--depths 257" "--memory disk" "put" "--file x --write" "--repetitions 0"; do
    "$weft" bench file $wrong > /dev/null 2> words
    [ $? = 2 ] || fail "$wrong: not refused as usage"
    [ -s words ] || fail "$wrong: no words"
    rm -f words
done
"$weft" bench file --file ./nothing > /dev/null 2> words && fail "a file that is not there: no fault"
grep -q "No such file" words || fail "a file that is not there: $(cat words)"
rm -f words
[ -z "$(ls -A)" ] || fail "left behind: $(ls -A)"
cd ..
[ $failures = 0 ]
