#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench file`: rows for every block size, depth and number of threads, by every method
# available, for host memory and for GPU memory over the CUDA stand-in; usage errors; no file is
# left in the folder.
#   bench_file.sh WEFT FOLDER_OF_THE_CUDA_STAND-IN FOLDER_OF_THE_CUFILE_STAND-IN
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
[ "$(grep -cE '^\{"bench": "file", "direction": "read", "memory": "gpu", .*"weft_gbytes_per_s": [0-9.]+, "plain_gbytes_per_s": null' <<< "$rows")" = 8 ] ||
    fail "gpu: not eight rows: $rows"
# Several folders: a PE for each, of host memory and of two GPUs; alone and at once, and all of them.
mkdir one two
for memory in host gpu; do
    table=$(LD_LIBRARY_PATH=$stand_in "$weft" bench file --folders one,two --size 4M --blocks 64K --depths 2 --repetitions 2 \
        --methods weft,plain --memory $memory) || fail "folders, $memory: status $?"
    [ "$(grep -cE "^ +64K +2 +1 +(0|1|all)( +$figure){4}( +-){4}$" <<< "$table")" = 3 ] ||
        fail "folders, $memory: not a row for each PE and all: $table"
    for pe in "0, one" "1, two"; do
        grep -qE "^PE $pe: .* on .*; weft by (uring|threads) (direct|buffered)$([ $memory = host ] || echo ", pinned")$" <<< "$table" ||
            fail "folders, $memory: not told by what PE $pe moves its file: $table"
    done
    [ -z "$(ls -A one two | grep -v :)" ] || fail "left behind in a folder: $(ls -A one two)"
done
rows=$("$weft" bench file --folders one,two,one --write --size 1M --blocks 64K --depths 2 --repetitions 1 --methods weft --json) ||
    fail "folders, JSON: status $?"
for pe in '0, "folder": "one"' '1, "folder": "two"' '2, "folder": "one"' 'null, "folder": null'; do
    for at_once in true false; do
        [ "$(grep -cE "\"direction\": \"write\".*\"weft_gbytes_per_s\": [0-9.]+, .*\"pes\": 3, \"pe\": $pe, \"at_once\": $at_once}" <<< "$rows")" = 1 ] ||
            fail "folders, JSON: no row of PE $pe, at once $at_once: $rows"
    done
done
rmdir one two
"$weft" bench file --folders .,nothing --size 1M > /dev/null 2> words && fail "a folder that is not there: no fault"
grep -q "^weft bench: --folders: nothing: No such file" words || fail "a folder that is not there: $(cat words)"
"$weft" run -n 2 "$weft" bench file --size 1M > /dev/null 2> words
grep -q "has 2 PEs, but --folders needs 1" words || fail "a job of two PEs without folders: $(cat words)"
rm -f words
# A file that is too short, or is not there, is refused by all methods alike, and stays as it is.
head -c 100000 /dev/urandom > short
cp short as_it_was
"$weft" bench file --file ./short --size 1M --blocks 64K --depths 2 > words 2>&1 && fail "a file that is too short: no fault"
grep -q "^weft bench: --size: ./short has 100000 bytes, fewer than the 1048576" words || fail "a file that is too short: $(cat words)"
cmp short as_it_was || fail "a file that is too short was changed"
"$weft" bench file --file ./nothing --size 1M --blocks 64K --depths 2 > words 2>&1 && fail "a file that is not there: no fault"
[ "$(wc -l < words)" = 1 ] && grep -q "^weft bench: .*No such file" words || fail "a file that is not there: $(cat words)"
[ ! -e nothing ] || fail "a file that was not there was made"
rm -f short as_it_was words
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
    told=$(WEFT_FILE_BACKEND=$backend "$weft" explain --full host ./some |
        sed -n 's/^  file  *\([a-z]* [a-z]*\), [0-9]* requests of up to [0-9]* bytes in flight; \(.*\)/\1 \2/p')
    [ -n "$query" ] && [ "$query" = "$told" ] || fail "$backend: the job says \"$query\", explain \"$told\""
done
# ... and why a job would not open it.
mkfifo pipe
mkdir folder
while read -r name words; do
    told=$("$weft" explain --full host "./$name") || fail "explain $name: status $?"
    grep -qE "^  file  .*$words" <<< "$told" || fail "explain $name does not say why: $told"
    "$weft" explain host "./$name" --json | grep -qE "\"file_refused\": *\".*$words" || fail "explain $name --json does not say why"
done << 'EOF'
pipe is a pipe
folder is a directory
nothing open of /.*/nothing: No such file
folder/nothing open of /.*/folder/nothing: No such file
EOF
"$weft" explain host ./some --json | grep -qE '"file_refused": *null' || fail "explain some --json: refused"
rmdir folder
rm -f some pipe
for wrong in "--blocks 5000" "--depths 257" "--memory disk" "put" "--file x --write" "--repetitions 0" "--folders ,x" "--folders x --file y"; do
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
