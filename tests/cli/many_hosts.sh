#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# many_hosts.sh WEFT EXCHANGE HOSTS: `weft run --hosts` with many hosts, whose remote shell runs the agent here.
# The agents are a tree. Few files are open; a host that is not reached is named, and nothing is left.
set -u
weft=$1 exchange=$2 hosts=$3 failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WEFT_RSH=$folder/shell FOLDER=$folder PACE_MS=$((hosts > 200 ? 12 : 0))
cat >"$folder/shell" <<'END'
#!/bin/sh
# Notes the host. The host BAD is not reached. Hosts answer one after the other, since they share the CPUs of this
# machine, which they would not: an agent that gets no CPU for 5 s cannot authenticate itself in time.
host=$1
shift
ms=$((${host#node} * PACE_MS))
[ $ms = 0 ] || sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
[ "$host" != "$BAD" ] || { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
[ "$(ulimit -n)" = "${LIMIT:-$(ulimit -n)}" ] || echo "limit of open files: $(ulimit -n)" >&2
echo "$host" >>"$FOLDER/begun"
exec sh -c "$*"
END
chmod +x "$folder/shell"

fail() {
    echo "many_hosts.sh: $*"
    failures=$((failures + 1))
}

list=$(seq -s, -f 'node%g' 1 "$hosts")
# A soft limit of 256 is raised to the hard one, but not for the PEs.
(
    ulimit -S -n 256
    LIMIT=256 timeout 250 "$weft" run --hosts "$list" --prefix sh -c 'echo "$WEFT_PE on $WEFT_BOOT_HOST, $(ulimit -n) files"'
) >"$folder/out" 2>&1 || fail "$hosts hosts: status $?: $(tail -n 3 "$folder/out")"
[ "$(sort -u "$folder/begun" | wc -l)" = "$hosts" ] || fail "not every host was started"
[ "$(grep -cE '^\[node[0-9]+ [0-9]+\] [0-9]+ on node[0-9]+, 256 files$' "$folder/out")" = "$hosts" ] ||
    fail "$(grep -vE '256 files$' "$folder/out" | head -n 3)"
grep -q "dropped" "$folder/out" && fail "agents were dropped: $(grep -m1 dropped "$folder/out")"

# The launcher starts all of them.
timeout 250 "$weft" run --fan-out 4000 --hosts "$list" "$exchange" 2 144 >"$folder/out" 2>&1 ||
    fail "exchange: status $?: $(tail -n 3 "$folder/out")"
grep -q "dropped" "$folder/out" && fail "agents were dropped: $(grep -m1 dropped "$folder/out")"
cat "$folder/out"

# One of the last is not reached.
: >"$folder/begun"
BAD=node$((hosts - 3)) timeout 250 "$weft" run --hosts "$list" sleep 60 >"$folder/out" 2>&1 && fail "a host that is not reached: status 0"
grep -q "^weft run: host node$((hosts - 3)): .* ended with status 255 before weft started there" "$folder/out" ||
    fail "what was said of that host: $(tail -n 3 "$folder/out")"
# Processes of this test are known by their environment: other tests have agents too.
for _ in $(seq 200); do
    left=$(env -u FOLDER -u WEFT_RSH sh -c 'grep -lFs "$1/shell" /proc/[0-9]*/environ | wc -l' - "$folder")
    [ "$left" = 0 ] && break
    sleep 0.1
done
[ "$left" = 0 ] || fail "$left processes are left"

# Too few files for the children of one process.
(
    ulimit -n 64
    timeout 250 "$weft" run --hosts "$list" true
) >"$folder/out" 2>&1 && fail "64 open files: status 0"
grep -q "open files; raise the limit of open files (ulimit -n)" "$folder/out" || fail "64 open files: $(tail -n 3 "$folder/out")"
[ $failures = 0 ]
