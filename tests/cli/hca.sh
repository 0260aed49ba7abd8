#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft hca` for a program with two queues, of which one has failed; for a program that was killed;
# and without any program.
#   hca.sh WEFT PROGRAM
set -u
weft=$1 program=$2
folder=$(mktemp -d)
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
mkfifo "$folder/in" "$folder/out"
SOFT_HCA_LOG=none "$program" < "$folder/in" > "$folder/out" &
pid=$!
trap 'kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
exec 3> "$folder/in"
read -r -t 20 word < "$folder/out"
[ "$word" = ready ] || fail "the program says: $word"

timeout 20 "$weft" hca --json $pid > "$folder/json" || fail "--json: status $?"
has() { grep -qE -- "$1" "$folder/$2" || fail "$2 has no $1: $(cat "$folder/$2")"; }
has "^\[\{\"pid\":$pid,\"program\":\"hca_shown\",\"device\":\"mlx5_soft0\",\"lid\":[1-9][0-9]*,\"link\":\"ib\",\"mode\":\"strict\"," json
has '"requests":4,' json
[ -z "${HCA_CLIENT_GPU-}" ] || has '"by_gpu":3,' json
has '"state":"ERROR","peer":"LID [0-9]+","peer_qpn":[1-9][0-9]*,"posted":4,"waiting_blocks":0,"in_flight":0,"completed":3,"received":0,"bytes":32,"errors":1,"retries":0' json
has '"bytes":65536,"pd":[0-9]+,"access":"lwra"' json
has '"keys_in_all":2,' json
has '"log":\["QP [^"]*outside the key.s memory' json

timeout 20 "$weft" hca -k $pid > "$folder/text" || fail "status $?"
has "^mlx5_soft0 of process $pid \(hca_shown\): LID [0-9]+, InfiniBand, strict; 2 queues, 2 keys, [1-9] doorbells, 4 requests, " text
has '^  0x[0-9a-f]+ +RC +ERROR +LID [0-9]+ 0x[0-9a-f]+ +4 +3 +0 +0 +1 +0$' text
has '^  key +address +bytes domain access' text
has '^  0x[0-9a-f]+ +0x[0-9a-f]+ +65536 +[0-9]+ lwra$' text
has '^  ! QP 0x.*ended with syndrome 0x13' text
timeout 20 "$weft" hca -s $pid > "$folder/short" || fail "-s: status $?"
has '^mlx5_soft0 of process' short
grep -qE '^  0x' "$folder/short" && fail "-s shows queues or keys: $(cat "$folder/short")"
timeout 20 "$weft" hca > "$folder/all" && has "process $pid " all

kill -9 $pid
wait $pid 2> /dev/null
timeout 20 "$weft" hca $pid > "$folder/gone" 2> "$folder/words"
[ $? = 1 ] && has "process $pid has no software adapter" words
[ ! -s "$folder/gone" ] || fail "a killed process is shown: $(cat "$folder/gone")"
for bad in x1 1x 0 "1 1"; do
    timeout 20 "$weft" hca $bad > /dev/null 2>&1 < /dev/null
    [ $? = 2 ] || fail "the process number $bad is taken"
done
exit $((failures > 0))
