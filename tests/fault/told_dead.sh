#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# told_dead.sh WEFT PROGRAM: of three PEs whose kernels depend on each other the second is killed. The others are told which PE
# it was and by what, their kernels end, and so do they, with nothing of theirs left running or in /dev/shm.
set -u
weft=$1 program=$2 failed=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
timeout 100 "$weft" run --grace=20s -n 3 "$program" 2>"$said"
status=$?
cat "$said"
check() {
    "${@:2}" && return
    echo "FAILED: $1"
    failed=1
}
told() {
    grep -qE "^PE $1 was told after .*: WEFT_ERR_PEER_DEAD: PE 1 \(pid [0-9]+\) was killed by signal 9 \(Killed\)(; PE $1 was in [a-z]+ of team 0)?; its kernel ended .*: WEFT_ERR_(PEER_DEAD|PATH)" "$said"
}
nothing_of() {
    [ ! -e "/proc/$1" ] && ! ls /dev/shm | grep -qw "$1"
}
check "the exit status is $status, which is not 137" [ "$status" = 137 ]
check "PE 0 was not told" told 0
check "PE 2 was not told" told 2
check "not three processes" [ "$(grep -c '^process' "$said")" = 3 ]
while read -r _ process; do
    check "something of process $process is left" nothing_of "$process"
done < <(grep '^process' "$said")
exit $failed
