#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# killed.sh BUILD: scripts of this folder are killed with SIGKILL during their jobs. Nothing of
# theirs is left on this machine: no process, file, network namespace or interface; and the host
# name is unchanged.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1 bad=0 own=$(mktemp -d) mark=HOSTS_KILLED_MARK
out=$own/said
trap 'rm -rf --one-file-system "$own"' EXIT
export TMPDIR=$own/tmp
mkdir "$TMPDIR"

# Those that a script has started, and itself.
marked() {
    local environment
    for environment in /proc/[0-9]*/environ; do
        grep -qs "$mark=$$" "$environment" && echo "${environment//[!0-9]/}"
    done
}

state() {
    hostname
    ip -o link 2>/dev/null | cut -d: -f2
    ip netns list 2>/dev/null
    ls -A "$TMPDIR"
}

runs() { marked | xargs -r ps -o comm= -p 2>/dev/null | grep -qx "$1"; }

# kill_script PROGRAM SCRIPT...: when PROGRAM runs
kill_script() {
    local program=$1 before tries script
    shift
    before=$(state)
    env "$mark=$$" "$@" >"$out" 2>&1 &
    script=$!
    for ((tries = 0; tries < 600; tries++)); do
        runs "$program" && break
        if ! kill -0 $script 2>/dev/null; then
            wait $script
            [ $? != 77 ] || { cat "$out" && exit 77; }
            tries=600
        fi
        sleep 0.05
    done
    [ $tries -lt 600 ] || { echo "FAILED: $program did not start" && cat "$out" && bad=1; }
    kill -9 $script
    wait $script 2>/dev/null
    for ((tries = 0; tries < 200; tries++)); do
        [ -n "$(marked)" ] || break
        sleep 0.05
    done
    if [ -n "$(marked)" ]; then
        echo "FAILED: processes are left: $(marked | xargs ps -o args= -p)"
        bad=1
        marked | xargs -r kill -9
    fi
    [ "$(state)" = "$before" ] || { echo "FAILED: left behind by $*:" && diff <(echo "$before") <(state) && bad=1; }
}

kill_script steady "$here/hosts.sh" "$build" stay
command -v mpirun >/dev/null && kill_script steady "$here/launchers.sh" "$build" mpirun stay
[ $bad = 0 ] && echo "hosts: scripts that were killed left nothing"
exit $bad
