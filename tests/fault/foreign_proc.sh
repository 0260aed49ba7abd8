#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# foreign_proc.sh WEFT PROGRAM: finding A2. `weft run` in a PID namespace with the /proc of its
# parent (as in `unshare --pid --fork`, and in containers that keep it), where process IDs in /proc
# are not those of kill(). It ends all processes that its PEs left behind and no others, at the end
# of a job and after kill -9 of the launcher. PROGRAM joins a job and ends.
set -u
if [ -z "${FOREIGN_PROC:-}" ]; then
    enter=(unshare --pid --fork --kill-child)
    "${enter[@]}" true 2>/dev/null || enter=(unshare --user --map-root-user --pid --fork --kill-child)
    "${enter[@]}" true 2>/dev/null || {
        echo "skipped: no PID namespace may be made here (root, or user namespaces)"
        exit 77
    }
    FOREIGN_PROC=$(mktemp -d /tmp/weft-test-foreign.XXXXXX)
    export FOREIGN_PROC
    "${enter[@]}" bash "$0" "$@"
    status=$?
    rm -rf "$FOREIGN_PROC"
    exit $status
fi
weft=$1 program=$2 failures=0 dir=$FOREIGN_PROC
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}
# Processes of others, whose numbers here are those of other processes in /proc.
others=()
begin_others() {
    for _ in $(seq 40); do
        setsid sleep 60 &
        others+=($!)
    done
}
count_others() {
    local pid lost=0
    for pid in "${others[@]}"; do
        kill -0 "$pid" 2>/dev/null || lost=$((lost + 1))
    done
    [ $lost = 0 ] || fail "$lost processes of others were ended: $1"
}
# A helper that a PE leaves in a session of its own; it writes its number here.
helper='setsid sleep 61 </dev/null >/dev/null 2>&1 & echo $! >"$0/helper.$WEFT_PE"'
helpers_gone() {
    local pid
    for pid in $(cat "$dir"/helper.*); do
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || continue 2
            sleep 0.05
        done
        fail "helper $pid of a PE is left: $1"
    done
    rm -f "$dir"/helper.*
}

# The launcher is the first process that is started: number 2, which in the /proc of a machine is the parent
# of all threads of the kernel, and these have the numbers of our processes.
# shellcheck disable=SC2016
"$weft" run -n 2 --timeout 20s sh -c "$helper; until [ -e \"\$0/go\" ]; do sleep 0.05; done; exec \"\$1\"" \
    "$dir" "$program" &
launcher=$!
begin_others
[ "$(readlink /proc/self)" != "$BASHPID" ] || fail "this /proc is of the namespace itself: nothing is tested"
touch "$dir/go"
wait $launcher || fail "weft run ends with $?"
count_others "at the end of a job"
helpers_gone "at the end of a job"

# shellcheck disable=SC2016
"$weft" run -n 2 sh -c "$helper; exec sleep 62" "$dir" &
launcher=$!
for _ in $(seq 200); do
    [ -s "$dir/helper.0" ] && [ -s "$dir/helper.1" ] && break
    sleep 0.05
done
kill -9 $launcher
wait $launcher 2>/dev/null
helpers_gone "after the launcher's death"
count_others "after the launcher's death"
kill "${others[@]}" 2>/dev/null
echo "$failures failures"
[ $failures = 0 ]
