#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: global_exit.sh BIN
# shmem_global_exit(0) ends the job successfully: exit status 0, the output of the calling PE, and
# no text on standard error, although the others wait for a value that never arrives. Another exit
# code is reported once.
set -u
bin=$1
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
"$bin/oshcc" -O2 -o "$made/program" "$(dirname "$0")/global_exit.c" || exit 1
fault=0
for round in 1 2 3; do
    "$bin/oshrun" --timeout=60 -np 4 "$made/program" 0 >"$made/out" 2>"$made/error"
    status=$?
    if [ $status -ne 0 ] || [ -s "$made/error" ] || [ "$(cat "$made/out")" != leaving ]; then
        echo "code 0: exit status $status, \"$(cat "$made/out")\", \"$(cat "$made/error")\"" >&2
        fault=1
    fi
done
"$bin/oshrun" --timeout=60 -np 4 "$made/program" 9 >"$made/out" 2>"$made/error"
status=$?
if [ $status -ne 9 ] || [ "$(grep -c '^weft run: .*aborted the job with code 9' "$made/error")" -ne 1 ]; then
    echo "code 9: exit status $status, \"$(cat "$made/error")\"" >&2
    fault=1
fi
exit $fault
