#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# leftovers.sh WEFT PROGRAM: files in /dev/shm that killed processes have left behind from
# libfabric's provider shm. The next job removes files without an owner, also where a PE has the
# process ID of one. It keeps files that a process has open or whose process lives, and files that
# only look similar.
set -u
weft=$1 program=$2 bad=0
dead=999999901 held=999999902 folder=/dev/shm
other="$folder/999999903:0:0:x" word="$folder/weft-$$:0:0"
trap 'rm -f "$folder/$dead:0:0" "$folder/$held:0:1" "$folder/$$:0:0" "$other" "$word"' EXIT
for file in "$folder/$dead:0:0" "$folder/$held:0:1" "$folder/$$:0:0" "$other" "$word"; do
    truncate -s 64K "$file" || exit 77
done
exec 9<>"$folder/$held:0:1"
# shellcheck disable=SC2016
WEFT_PATH=net WEFT_FABRIC_PROVIDER=shm WEFT_WAIT_LIMIT=20s WEFT_HEAP_SIZE=4M timeout 60 \
    "$weft" run -n 2 sh -c 'truncate -s 1M "/dev/shm/$$:0:0" && exec "$0"' "$program" || {
    echo "FAILED: a job beside them"
    bad=1
}
[ ! -e "$folder/$dead:0:0" ] || {
    echo "FAILED: what nobody needs is still there"
    bad=1
}
for file in "$folder/$held:0:1" "$folder/$$:0:0" "$other" "$word"; do
    [ -e "$file" ] || {
        echo "FAILED: $file is gone"
        bad=1
    }
done
exit $bad
