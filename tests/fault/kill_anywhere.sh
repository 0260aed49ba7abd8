#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill_anywhere.sh WEFT TORTURE ROUNDS: kills a random PE with SIGKILL at a random moment. Each time
# the job must end within two seconds with the killed PE named, no survivor may report anything but
# the death, and no process may be left.
set -u
weft=$1 torture=$2 rounds=$3 failures=0
RANDOM=${SEED:-$$}
log=$(mktemp) && trap 'rm -f "$log"' EXIT
say() { echo "round $round: $*"; sed 's/^/    /' "$log"; failures=$((failures + 1)); }

for ((round = 1; round <= rounds; round++)); do
    pes=$((2 + RANDOM % 4))
    WEFT_HEAP_SIZE=4M WEFT_WAIT_LIMIT=30s timeout -k 1 20 "$weft" run -n $pes "$torture" >"$log" 2>&1 &
    runner=$!
    sleep 0.0$((RANDOM % 10))$((RANDOM % 10))
    # the PEs are the grandchildren of `timeout`
    launcher=$(pgrep -P "$runner" 2>/dev/null | head -n 1)
    victims=($(pgrep -P "${launcher:-1}" -f "^$torture" 2>/dev/null))
    if [ ${#victims[@]} = 0 ]; then # too early: nobody is there yet
        [ -n "$launcher" ] && kill -TERM "$launcher"
        wait $runner
        continue
    fi
    victim=${victims[RANDOM % ${#victims[@]}]}
    kill -KILL "$victim" 2>/dev/null || { wait $runner; continue; }
    start=$(date +%s%N)
    wait $runner
    status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ $status = 137 ] || say "exit status $status, not 137"
    [ $took -lt 2000 ] || say "took $took ms to end"
    grep -q "pid $victim) was killed by signal 9" "$log" || say "does not name the killed PE"
    grep 'torture: ' "$log" | grep -vqE 'WEFT_ERR_(PEER_DEAD|BOOT)' && say "a survivor reports something else"
    pgrep -f "^$torture" >/dev/null && say "left behind: $(pgrep -f "^$torture")"
done
echo "$rounds rounds, $failures failures"
[ $failures = 0 ]
