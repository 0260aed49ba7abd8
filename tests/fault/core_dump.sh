#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# core_dump.sh WEFT PROGRAM: finding A19. The core file of a PE with a large heap contains all pages
# that were touched and hardly more; the reported signal is the one that killed the PE.
set -u
weft=$1 program=$2 failures=0
case $(cat /proc/sys/kernel/core_pattern) in
'|'* | */*)
    echo "skipped: cores do not go to the working directory here (/proc/sys/kernel/core_pattern)"
    exit 77
    ;;
esac
dir=$(mktemp -d /tmp/weft-test-core.XXXXXX) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
fail() {
    echo "$how: $*"
    failures=$((failures + 1))
}
for how in abort fault raise; do
    case $how in
    abort) signal='signal 6' ;;
    fault) signal='signal 11' ;;
    raise) signal='signal 8' ;;
    esac
    "$weft" run -n 2 "$program" 1024 $how >out 2>&1
    [ $? != 77 ] || { echo "skipped: the limit of cores cannot be raised here"; exit 77; }
    grep -q "PE 1 .* was killed by $signal .*core dumped" out || fail "is told as: $(cat out)"
    core=$(ls core* 2>/dev/null | head -n 1)
    [ -n "$core" ] || { fail "no core"; continue; }
    bytes=$(stat -c %s "$core")
    [ "$bytes" -le $((5 << 20)) ] || fail "the core has $bytes bytes"
    for page in first last; do
        grep -q "weft was in the $page page" "$core" || fail "the core lacks the $page page"
    done
    rm -f core*
done
echo "$failures failures"
[ $failures = 0 ]
