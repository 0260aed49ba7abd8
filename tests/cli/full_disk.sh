#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# full_disk.sh WEFT: finding A17. A command whose output cannot be written reports it and does not
# exit with 0.
set -u
weft=$1 failures=0
dir=$(mktemp -d /tmp/weft-test-full.XXXXXX) && trap 'rm -rf "$dir"' EXIT
export WEFT_HEAP_SIZE=8M

# In a file, since the commands below are split at spaces, as a description would be.
"$weft" topo --machine '4 gpu' --record "$dir/machine" || exit 1
commands=("topo" "topo --json" "doctor --quick" "doctor --quick --json" "explain gpu0 gpu1 --machine $dir/machine" "env"
    "env --json" "version" "--version" "--help" "topo --help" "run --help" "bench --list"
    "bench put -n 2 --sizes 8 --iters 100 --repetitions 1" "explain NIC-NONE" "run -n 2 $weft version" "run --prefix -n 2 $weft version")
for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    timeout 60 "$weft" $command >"$dir/good" 2>"$dir/error"
    [ -s "$dir/good" ] || {
        echo "weft $command prints nothing: the test tests nothing"
        failures=$((failures + 1))
    }
    # shellcheck disable=SC2086
    timeout 60 "$weft" $command >/dev/full 2>"$dir/error"
    status=$?
    if [ $status = 0 ] || ! grep -qE 'standard output|No space left on device' "$dir/error"; then
        echo "weft $command >/dev/full: status $status, \"$(tail -n 1 "$dir/error")\""
        failures=$((failures + 1))
    fi
done
echo "$failures failures"
[ $failures = 0 ]
