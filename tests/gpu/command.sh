#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every part of the command on a machine with GPUs: an installed one, or a packed build. Prints
# one line for each call: exit status, time, result. Every call has a limit, and all of them
# together end within COMMAND_SECONDS (220). Exits with 1 if a call failed.
#   tests/gpu/command.sh [WEFT]      (weft in PATH without it)
# Output of each call: $OUT/command-logs, or a folder in /tmp.
set -u
weft=${1:-$(command -v weft)}
[ -x "$weft" ] || { echo "there is no command weft; name it: command.sh WEFT"; exit 2; }
weft=$(realpath "$weft")
logs=${OUT:-$(mktemp -d)}/command-logs
mkdir -p "$logs"
export XDG_RUNTIME_DIR=$logs WEFT_WAIT_LIMIT=20s
ends=$((SECONDS + ${COMMAND_SECONDS:-220}))
failures=0 rows=0

# name, limit in seconds, accepted statuses ("0" or "0 1"), command. `seen` prints the result from
# the log.
seen=tail_of
run() {
    local name=$1 limit=$2 good=$3 status begun word=good left=$((ends - SECONDS))
    shift 3
    local log=$logs/$(tr -c 'A-Za-z0-9.\n-' _ <<< "$name").log
    rows=$((rows + 1))
    if [ $left -lt 3 ]; then
        printf '%-40s         NOT RUN: the time is over\n' "$name"
        failures=$((failures + 1))
        return
    fi
    begun=$(date +%s%N)
    timeout -k 3 $((limit < left ? limit : left)) "$@" > "$log" 2>&1 < /dev/null
    status=$?
    [[ " $good " == *" $status "* ]] || { word=FAILED; failures=$((failures + 1)); }
    [ $status -ne 124 ] || word="FAILED (no end within ${limit} s)"
    printf '%-40s %4d %6d ms  %s: %s\n' "$name" $status \
        $((($(date +%s%N) - begun) / 1000000)) "$word" "$($seen "$log" | cut -c1-150)"
}
tail_of() {
    grep -v '^ *$' "$1" | tail -n 1 | sed 's/  */ /g'
}
# From `weft bench --json`: rows, correct rows, target and memory, and one figure.
bench_of() {
    local all right
    all=$(grep -c '^{"bench"' "$1")
    right=$(grep -c '"verified":true' "$1")
    if [ "$all" -gt 0 ]; then
        printf '%d rows, %d right, %s; %s' "$all" "$right" \
            "$(grep -o '"memory":"[a-z]*","scope":"[a-z]*","target":"[a-z]*"' "$1" | head -n 1 | tr -d '"')" \
            "$(grep '^{"bench"' "$1" | tail -n 1 | sed -E 's/^\{"bench":"([^"]*)".*"bytes":([0-9]*).*"us":([^,]*),.*"gbytes_per_s":([^,]*),.*/\1 \2 B \3 us \4 GB\/s/')"
    else
        tail_of "$1"
    fi
}

gpus=$(ls /dev/nvidia[0-9]* 2> /dev/null | wc -l)
printf '%s on %d GPUs, %d CPUs\n' "$("$weft" version)" "$gpus" "$(nproc)"

# --- the machine
run 'topo' 20 0 "$weft" topo
run 'topo --links' 20 0 "$weft" topo --links
run 'topo --tree' 20 0 "$weft" topo --tree
run 'topo --nccl' 20 0 "$weft" topo --nccl
run 'topo --record' 20 0 "$weft" topo --record "$logs/machine.json"
run 'topo --measure' 40 0 "$weft" topo --measure
run 'topo --watch' 10 '0 1' "$weft" topo --watch=0.2 --times 3
run 'explain gpu0 gpu1' 20 '0 1' "$weft" explain gpu0 gpu1
run 'explain --measure gpu0 gpu1' 40 '0 1' "$weft" explain --measure gpu0 gpu1
run 'explain gpu0 host' 20 '0 1' "$weft" explain gpu0 host
run 'doctor' 40 '0 1' "$weft" doctor
run 'env' 10 0 "$weft" env

# --- benchmarks: every scope and memory, contents checked, few iterations
seen=bench_of
short=(--json --iters 10 --repetitions 3 --sizes 8,64K)
run 'bench, host, host memory' 30 0 "$weft" bench all "${short[@]}"
run 'bench, host, GPU memory' 60 0 "$weft" bench all --memory gpu "${short[@]}"
run 'bench, host, GPU memory, 4 PEs' 60 0 "$weft" bench put,get,barrier,allreduce --pes 4 --memory gpu "${short[@]}"
for scope in thread warp block; do
    run "bench, $scope" 40 0 "$weft" bench all --scope $scope --json --iters 10 --repetitions 3 --sizes 8,8K
done
run 'bench, block, 16 blocks' 30 0 "$weft" bench put,get --scope block --ctas 16 "${short[@]}"
run 'bench, block, host memory' 30 0 "$weft" bench put,latency --scope block --memory host "${short[@]}"
run 'bench, block, simt' 30 0 "$weft" bench put,barrier --scope block --target simt "${short[@]}"
run 'bench, stream' 30 0 "$weft" bench all --scope stream "${short[@]}"
run 'bench, sizes and counts unasked' 60 0 "$weft" bench put,latency_packet --scope thread --json
run 'bench, counts unasked, GPU memory' 60 0 "$weft" bench put,p,barrier --memory gpu --json --sizes 8,4M
run 'bench coll' 90 0 "$weft" bench coll --target cuda --json --iters 10 --repetitions 3 --sizes 8,64K
run 'bench coll --tune' 60 0 env WEFT_COLL_RATES="$logs/rates" "$weft" bench coll --target cuda --tune --iters 10 \
    --repetitions 3 --sizes 4M
run 'bench --html' 30 0 "$weft" bench put --iters 10 --html "$logs/page.html"

# --- two PEs on one GPU; other launchers
run 'bench, one GPU for two PEs' 40 0 env WEFT_GPU=0,0 "$weft" bench put,get,barrier --memory gpu "${short[@]}"
run 'bench, block, one GPU for two PEs' 60 0 env WEFT_GPU=0,0 "$weft" bench put --scope block "${short[@]}"
if command -v mpirun > /dev/null; then
    run 'bench under mpirun' 40 0 mpirun --allow-run-as-root --oversubscribe -n 2 "$weft" bench put --memory gpu "${short[@]}"
else
    printf '%-40s         absent\n' 'bench under mpirun'
fi
# Two processes as torchrun starts them.
torch() {
    local port=$((20000 + RANDOM % 20000)) other
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
    RANK=1 LOCAL_RANK=1 "$weft" bench put --memory gpu "${short[@]}" &
    other=$!
    RANK=0 LOCAL_RANK=0 "$weft" bench put --memory gpu "${short[@]}" && wait $other
}
export -f torch
export weft
run "bench with torchrun's variables" 40 0 bash -c "short=(${short[*]}); torch"

# --- many short runs end by themselves
many() {
    for i in 1 2 3 4 5 6 7 8 9 10; do
        timeout 15 "$weft" bench put --memory gpu --iters 2 --repetitions 1 --sizes 8 --json || return $?
    done
}
export -f many
run 'ten in a row' 60 0 bash -c many

# --- the demo
seen=tail_of
run 'demo' 100 0 "$weft" demo --output "$logs/demo"
sed 's/^/    /' "$logs/demo.log"
run 'demo --json' 100 0 "$weft" demo --json --output "$logs/demo"
printf '%d of %d good; logs in %s\n' $((rows - failures)) $rows "$logs"
exit $((failures > 0))
