#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft attach` on a running job whose program has a hostile name: its output for people, its JSON
# output (which must be valid), and its messages about processes that are no PEs.
#   attach.sh WEFT HANGING_PROGRAM JSON_GET
set -u
weft=$1 json_get=$3
folder=$(mktemp -d)
trap 'kill "$launcher" 2> /dev/null; wait 2> /dev/null; rm -rf "$folder"' EXIT
failures=0
fail() {
    printf 'FAILED: %s\n' "$1"
    failures=$((failures + 1))
}
name=$folder/$(printf 'h\033[31m\374ng')
cp "$2" "$name"
WEFT_HEAP_SIZE=16M "$weft" run -n 3 "$name" > "$folder/pid" 2> "$folder/errors" &
launcher=$!
for attempt in {1..200}; do
    sleep 0.05
    pid=$(head -n 1 "$folder/pid")
    [ -n "$pid" ] && "$weft" attach "$pid" > "$folder/text" 2>&1 &&
        grep -q 'PE 1 --barrier-->' "$folder/text" && break
done
grep -q "^PE 0  pid $pid  .*h?\[31m?ng  running for " "$folder/text" || fail "PE 0's line"
grep -qE '^    waiting [0-9.]+ s in barrier for PE [02]: awaits step [0-9]+ of team 0' "$folder/text" || fail "the wait"
grep -qE '^1 of 3 PEs wait, directly or through others, for PE [02] \(pid [0-9]+\), which is not waiting' \
    "$folder/text" || fail "the diagnosis"
LC_ALL=C grep -q "$(printf '[\001-\011\013-\037\177-\377]')" "$folder/text" &&
    fail "bytes that are not printable"
"$weft" attach --json "$pid" > "$folder/json" || fail "status of --json"
# paths, expected values
json() {
    local seen
    seen=$("$json_get" $1 < "$folder/json")
    [[ $seen == $2 ]] || fail "JSON: $1 is $seen"
}
json 'keys pes.#' 'pes,diagnosis,communicators 3'
json 'pes.0.pe pes.1.pe pes.2.pe pes.0.pid' "0 1 2 $pid"
json 'pes.0.program' '*h\?\[31m\?ng'
json 'pes.0.state pes.1.state pes.0.waits.# pes.1.waits.#' 'running running 0 1'
json 'pes.1.waits.0.operation' 'barrier'
json 'pes.1.waits.0.peer' '[02]'
json 'diagnosis' '1 of 3 PEs wait*'
"$weft" attach --history 0 "$pid" | grep -q 'last operations' && fail "--history 0 shows some"
# expected status, expected words, arguments
expect() {
    local status=$1 words=$2 said
    shift 2
    said=$("$weft" attach "$@" 2>&1)
    [ $? -eq "$status" ] && grep -qF -- "$words" <<< "$said" || fail "attach $*: $said"
}
sleep 30 &
expect 1 'is not a PE of a Weft job' $!
kill $!
"$weft" attach "$launcher" | grep -q "^PE 0  pid $pid " || fail "the PID of the launcher is refused"
expect 1 'there is no process 4194305' 4194305
expect 2 'is not a process id' nobody
expect 2 'the PID of a PE is missing'
expect 2 'not a number from 0 to' --history 65 "$pid"
[ $failures -eq 0 ] || cat "$folder/text" "$folder/json" "$folder/errors"
exit $((failures > 0))
