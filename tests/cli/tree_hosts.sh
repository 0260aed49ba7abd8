#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tree_hosts.sh WEFT EXCHANGE short|all: `weft run --hosts` whose agents are a tree of several
# levels, on this machine: exchanges are whole, failures at any depth are named, exit statuses are
# those of one level, and nothing is left. The short form leaves out what a job on one host, or
# another of its failures, shows as well.
set -u
weft=$1 exchange=$2 form=$3 failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WEFT_RSH=$folder/shell FOLDER=$folder
cat >"$folder/shell" <<'END_OF_SHELL'
#!/bin/sh
# Notes the host, the agent and its parent. The host BAD is not reached.
host=$1
shift
[ "$host" != "${BAD:-}" ] || { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
echo "$host $$ $PPID" >>"$FOLDER/begun"
exec "$@"
END_OF_SHELL
chmod +x "$folder/shell"
hosts=40
list=$(seq -s, -f 'node%g:2' 1 "$hosts")

fail() {
    echo "tree_hosts.sh: $*"
    failures=$((failures + 1))
}

# Processes of this test are known by their environment: other tests have agents too.
nothing_left() {
    local left
    for _ in $(seq 200); do
        left=$(env -u FOLDER -u WEFT_RSH sh -c 'grep -lFs "$1/shell" /proc/[0-9]*/environ | wc -l' - "$folder")
        [ "$left" = 0 ] && return
        sleep 0.1
    done
    fail "$1: $left processes are left"
}

# run NAME STATUS [OPTION...] COMMAND...: checks the exit status; the output is in out.
run() {
    local name=$1 status=$2 got
    shift 2
    : >"$folder/begun"
    timeout 120 "$weft" run --hosts "$list" --fan-out 3 "$@" >"$folder/out" 2>&1
    got=$?
    [ "$got" = "$status" ] || fail "$name: status $got: $(tail -n 5 "$folder/out")"
}

says() {
    grep -qE "$2" "$folder/out" || fail "$1: $(tail -n 8 "$folder/out")"
}

run "exchange" 0 "$exchange" 3 5000
says "exchange" '^80 PEs on 40 nodes, '
[ "$(sort -u "$folder/begun" | wc -l)" = $hosts ] || fail "not every host was started"
[ "$(cut -d' ' -f3 "$folder/begun" | sort | uniq -c | sort -rn | head -n 1 | awk '{ print $1 }')" -le 3 ] ||
    fail "a process started more than 3 hosts"
nothing_left "exchange"

# One level is the same job.
timeout 120 "$weft" run --hosts "$list" --fan-out 100 "$exchange" 3 5000 >"$folder/out" 2>&1 || fail "one level: status $?"
says "one level" '^80 PEs on 40 nodes, '

run "prefix" 0 --prefix sh -c 'echo "$WEFT_PE at $WEFT_BOOT_HOST"; echo error >&2'
[ "$(grep -cE '^\[node([0-9]+) ([0-9]+)\] \2 at node\1$' "$folder/out")" = 80 ] || fail "prefix: $(head -n 3 "$folder/out")"
[ "$(grep -cE '^\[node[0-9]+ [0-9]+\] error$' "$folder/out")" = 80 ] || fail "prefix of errors: $(head -n 3 "$folder/out")"
if [ "$form" = all ]; then
    echo "for PE 0" | run "input" 0 sh -c 'cat'
    says "input" '^for PE 0$'
    LOCAL=here run "variables" 0 --env OTHER=there --env LOCAL sh -c '[ "$OTHER$LOCAL" = therehere ]'

    run "status" 7 sh -c '[ $WEFT_PE != 51 ] || exit 7; sleep 60'
    says "status" '^weft run: PE 51 \(pid [0-9]+ on node26\) exited with status 7'
    run "no program" 127 "$folder/absent"
    says "no program" 'absent: there is no such program'
fi
run "signal" 137 "$exchange" 2 8 dies 77
says "signal" '^weft run: PE 77 \(pid [0-9]+ on node39\) was killed by signal 9'
WEFT_WAIT_LIMIT=2 run "missing" 1 "$exchange" 2 8 sleeps 61
says "missing" 'PE 61 did not reach the exchange within WEFT_WAIT_LIMIT'
! grep -E '[0-9], [0-9]+.* did not reach' "$folder/out" || fail "missing: parts of others were held"
if [ "$form" = all ]; then
    run "other size" 1 "$exchange" 2 8 differs 61
    says "other size" '(PE 61 exchanges 9 bytes where others exchange 8|PE [0-9]+ exchanges 8 bytes where others exchange 9)'
fi
nothing_left "failures"

BAD=node37 run "not reached" 1 sleep 60
says "not reached" '^weft run: host node37: .* ended with status 255 before weft started there'
[ "$(grep -c '^weft run' "$folder/out")" = 1 ] || fail "not reached: said more: $(cat "$folder/out")"
nothing_left "not reached"

# agent HOST: waits until all PEs run, then prints the pid of its agent.
agent() {
    for _ in $(seq 300); do
        [ "$(ls "$folder/alive" | wc -l)" = 80 ] && break
        sleep 0.1
    done
    awk -v host="$1" '$1 == host { print $2 }' "$folder/begun"
}

# An agent with others below it, one without, and the launcher.
victims="node15 node40 launcher"
[ "$form" = all ] || victims="node15 launcher"
for victim in $victims; do
    rm -rf "$folder/alive"
    mkdir "$folder/alive"
    : >"$folder/begun"
    "$weft" run --hosts "$list" --fan-out 3 sh -c 'touch "$FOLDER/alive/$WEFT_PE"; sleep 60' >"$folder/out" 2>&1 &
    launcher=$!
    pid=$(agent "$victim")
    kill -9 "${pid:-$launcher}"
    wait $launcher 2>/dev/null
    got=$?
    case $victim in
    node15)
        [ $got = 1 ] || fail "agent killed: status $got"
        says "agent killed" '^weft run: host node15 \([^ ]*\) with PEs 28 to 29 is lost: .*; so are the 3 hosts that it had started, from node16 to node18; ending'
        ;;
    node40) says "agent killed" '^weft run: host node40 \([^ ]*\) with PEs 78 to 79 is lost: [^;]*; ending the job$' ;;
    esac
    nothing_left "$victim killed"
done

# The user ends the job.
rm -rf "$folder/alive"
mkdir "$folder/alive"
: >"$folder/begun"
"$weft" run --hosts "$list" --fan-out 3 sh -c 'touch "$FOLDER/alive/$WEFT_PE"; exec sleep 60' >"$folder/out" 2>&1 &
launcher=$!
agent node1 >/dev/null
kill -TERM $launcher
wait $launcher
got=$?
[ $got = 143 ] || fail "SIGTERM: status $got: $(tail -n 3 "$folder/out")"
nothing_left "SIGTERM"

run "bad option" 2 --fan-out 0 true
says "bad option" 'fan-out 0: expected a number of hosts from 1 to '
[ $failures = 0 ]
