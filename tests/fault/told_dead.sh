#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# told_dead.sh WEFT PROGRAM: the kernels of three PEs depend on each other, and PE 1 is killed. The
# status of the other PEs names PE 1 and the signal; their kernels and processes end, and no process
# or file in /dev/shm is left.
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
