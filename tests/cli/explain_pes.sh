#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft explain --job PID PE PE` on running jobs: a default one, one whose first path fails its path
# test, one with GPU memory that cannot be accessed; and the messages for jobs and PEs that do not
# exist.
#   explain_pes.sh WEFT HANGING_PROGRAM JSON_GET FAKE_CUDA_FOLDER
set -u
weft=$1 program=$2 json_get=$3 standins=$4
folder=$(mktemp -d)
launcher=
end_job() {
    [ -n "$launcher" ] && kill "$launcher" 2> /dev/null
    wait 2> /dev/null
    launcher=
}
trap 'end_job; rm -rf "$folder"' EXIT
failures=0
fail() {
    printf 'FAILED: %s\n' "$1"
    cat "$folder/out"
    failures=$((failures + 1))
}
# Starts a job of n PEs and waits until PE 0 has joined: start N [NAME=VALUE...] [-- ARGUMENT]
start() {
    local n=$1 settings=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    : > "$folder/pid"
    env WEFT_HEAP_SIZE=16M "${settings[@]}" "$weft" run -n "$n" "$program" "${@:2}" > "$folder/pid" \
        2> "$folder/errors" &
    launcher=$!
    for attempt in {1..400}; do
        [ -s "$folder/pid" ] && break
        sleep 0.05
    done
    pid=$(head -n 1 "$folder/pid")
    [ -n "$pid" ] || { cat "$folder/errors" && exit 1; }
}
# expected status, expected words, arguments
expect() {
    local status=$1 words=$2
    shift 2
    "$@" > "$folder/out" 2>&1
    [ $? -eq "$status" ] && grep -qF -- "$words" "$folder/out" || fail "$*: wanted $status and \"$words\""
}
# expected line
line() {
    grep -qE -- "$1" "$folder/out" || fail "no line \"$1\""
}
# paths, expected values
json() {
    local seen
    seen=$("$json_get" $1 < "$folder/out")
    [[ $seen == $2 ]] || fail "JSON: $1 is $seen"
}

# --- as it comes
start 3
expect 0 "PE 0 (pid $pid, cli_hang) -> PE 2" "$weft" explain --job "$pid" 0 pe2
line '^PE 2 \(pid [0-9]+, cli_hang\) -> PE 0$'
[ "$(grep -c '^$' "$folder/out")" -eq 1 ] || fail 'one empty line between the two ways'
[ "$(grep -c "^  host      p2p: the peer's memory is mapped$" "$folder/out")" -eq 2 ] || fail 'both ways'
line '^  path test passed$'
line '^  not used  self: another PE$'
line '^            slow: used only if WEFT_PATH names it$'
line '^  gpu       not in use$'
awk 'length($0) > 100 { exit 1 }' "$folder/out" || fail "more than 100 columns: $(cat "$folder/out")"
words=$(tr -s ' \n' '  ' < "$folder/out")
expect 0 "cli_hang) -> PE 2" "$weft" explain --job "$pid" 0 2 --full
[ "$(tr -s ' \n' '  ' < "$folder/out")" = "$words" ] || fail "--full has other words"
expect 0 'PE 1 (pid' "$weft" explain --job "$launcher" 1 1 # what has started the PEs will do
line '^  host      self: the same PE$'
line '^  not used  p2p: the same PE$'
[ "$(grep -c '>' "$folder/out")" -eq 1 ] || fail 'one way to itself'
expect 0 '"job"' "$weft" explain --job "$pid" 1 2 --json
json 'keys job ways.#' "job,ways $pid 2"
json 'ways.0.from ways.0.to ways.1.from ways.1.to' '1 2 2 1'
json 'ways.0.program' cli_hang
json 'ways.0.memories.# ways.0.memories.0.kind ways.0.memories.0.path ways.0.memories.0.proof' '2 host p2p proven'
json 'ways.0.memories.0.not_taken.0.path ways.0.memories.0.not_taken.0.failed' 'self false'
json 'ways.0.memories.0.not_taken.# ways.0.memories.0.not_taken.2.path ways.0.memories.0.not_taken.6.path' '7 staged slow'
json 'ways.0.memories.1.kind ways.0.memories.1.in_use ways.0.memories.1.path' 'gpu false null'

# --- wrong input
expect 2 "PE 3: the job of process $pid has the PEs 0 ... 2" "$weft" explain --job "$pid" 0 3
expect 2 'PE 99: the job of' "$weft" explain --job "$pid" 99 0
expect 2 'there is no process 4194305' "$weft" explain --job 4194305 0 1
sleep 60 &
stranger=$!
# Without two PEs: all pairs, and what went over their paths (finding E6: it wanted a GPU).
expect 0 'host      p2p: every PE to every other, tested; ' "$weft" explain --job "$pid"
line '^job of process [0-9]+: 3 PEs, 3 on this machine \(cli_hang\)$'
line '^  host      self: every PE to itself, '
line '^  PE 1      no operation yet$'
expect 0 'PE 2      ' "$weft" explain --job "$launcher"
expect 0 '"pairs"' "$weft" explain --job "$pid" --json
json 'pairs.0.count operations.2.pe gpus' '3 2 *'
expect 2 "process $stranger is not a PE of a Weft job" "$weft" explain --job "$stranger" 0 1
kill "$stranger"
expect 2 'name two PEs of the job' "$weft" explain --job "$pid" 0
expect 2 'with --job name PEs such as 0 or pe0, not "gpu0"' "$weft" explain --job "$pid" gpu0 gpu1
expect 2 'with --job name PEs such as 0 or pe0, not "-1"' "$weft" explain --job "$pid" -- 0 -1
expect 2 'not "99999999999999999999"' "$weft" explain --job "$pid" 0 99999999999999999999
expect 2 'takes a process id, not "12x"' "$weft" explain --job 12x 0 1
expect 2 'do not go with PEs' "$weft" explain --job "$pid" 0 1 --measure
if [ "$(id -u)" -eq 0 ]; then # somebody else
    cp "$weft" "$folder/weft" && chmod 755 "$folder" "$folder/weft"
    expect 2 'run as its user or as root' \
        setpriv --reuid 65534 --clear-groups --inh-caps=-all "$folder/weft" explain --job "$pid" 0 1
fi
end_job
expect 2 "there is no process $pid" "$weft" explain --job "$pid" 0 1

# --- what was put
start 3 WEFT_PATH=staged -- put
expect 0 'host      staged: every PE to every other, tested; ' "$weft" explain --job "$pid"
line '^  PE 2      staged [1-9][0-9]* operations, [1-9][0-9]+ bytes$' # the library's own among them
end_job

# --- PEs of two machines
if /sbin/ldconfig -p | grep -q 'libfabric\.so\.1'; then
    start 2 WEFT_TEST_NODE_PES=1 WEFT_FABRIC_PROVIDER=tcp WEFT_FABRIC_INTERFACE=lo
    expect 0 'host      net: provider tcp' "$weft" explain --job "$pid" 0 1
    line '^weft explain: PE 1 of the job of process [0-9]+ is on another machine'
    [ "$(grep -c -- '-> PE' "$folder/out")" -eq 1 ] || fail 'the way from here, and no other'
    expect 2 'is on another machine' "$weft" explain --job "$pid" 1 1
    end_job
fi

# --- a path that lies
start 2 WEFT_PATH=slow,weak WEFT_TEST_SLOW=lie=1
expect 1 'host      weak: chosen by WEFT_PATH' "$weft" explain --job "$pid" 0 1
line '^            slow: its path test failed: PE 0 read word [0-9]+ back from PE 1 as 0x[0-9a-f]+;'
line '^            p2p: WEFT_PATH does not name it$'
expect 1 '"failed": true' "$weft" explain --job "$pid" 0 1 --json
json 'ways.1.memories.0.path' 'weak'
grep -A 2 '"path": "slow"' "$folder/out" | grep -q '"failed": true' || fail 'that slow failed'
end_job

# --- GPU memory, of PEs that can access each other's and of PEs that cannot
start 2 LD_LIBRARY_PATH="$standins" FAKE_CUDA_DEVICES=2 FAKE_CUDA_MEMORY=128 -- gpu
expect 0 "gpu       p2p: the peer's memory is mapped" "$weft" explain --job "$pid" 0 1
[ "$(grep -c '^  path test passed$' "$folder/out")" -eq 4 ] || fail 'four proofs'
end_job
start 2 LD_LIBRARY_PATH="$standins" FAKE_CUDA_DEVICES=2 FAKE_CUDA_MEMORY=128 FAKE_CUDA_PEER=0 -- gpu
expect 0 'gpu       staged: through host memory that both PEs map' "$weft" explain --job "$pid" 0 1
line '^            p2p: .*cuDeviceCanAccessPeer'
line "^  host      p2p: the peer's memory is mapped$"
[ "$(grep -c '^  path test passed$' "$folder/out")" -eq 4 ] || fail 'four proofs'
expect 0 '"ways"' "$weft" explain --job "$pid" 0 1 --json
json 'ways.0.memories.1.path ways.0.memories.1.in_use ways.0.memories.1.proof' 'staged true proven'
end_job
start 2 LD_LIBRARY_PATH="$standins" FAKE_CUDA_DEVICES=3 FAKE_CUDA_MEMORY=128 FAKE_CUDA_NO_PEER=0-1 -- gpu
expect 0 'gpu       relay: over GPU 2 (0000:12:00.0), which reaches both by NVLink' "$weft" explain --job "$pid" 0 1
line '^            p2p: cuDeviceCanAccessPeer.*: no;'
line '^            staged: another path has priority$'
end_job

exit $((failures > 0))
