#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench latency --paths p2p,staged --pair all`: every pair of PEs, with the figures of both
# paths in one row, for host memory and for GPU memory over the CUDA stand-in; the data is checked.
#   bench_pairs.sh WEFT FOLDER_OF_THE_STAND-INS
set -u
weft=$1
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
export WEFT_HEAP_SIZE=16M WEFT_GPU_HEAP_SIZE=1G WEFT_WAIT_LIMIT=20s
bench() { # memory, options
    local memory=$1
    shift
    timeout 120 env LD_LIBRARY_PATH="$stand_in" "$weft" bench latency --paths p2p,staged --pair all --pes 3 --iters 3 \
        --repetitions 1 --sizes 8 --memory "$memory" "$@"
}
stand_in=
for memory in host gpu; do
    [ $memory = gpu ] && stand_in=$2
    table=$(bench $memory)
    for pair in "0 to PE 1" "0 to PE 2" "1 to PE 2"; do
        grep -q "^PE $pair of 3$" <<< "$table" || fail "$memory: no pair PE $pair in: $table"
    done
    [ "$(grep -c '^benchmark .* p2p .* staged .* staged/p2p$' <<< "$table")" = 3 ] ||
        fail "$memory: not three tables of two columns: $table"
    # Both times, and how many times the first the second is: no dash in the place of a figure.
    time='[0-9.]+ [nmu]?s' rate='[0-9.]+'
    [ "$(grep -cE "^latency +3 +8 B +$time +- +$rate +$time +- +$rate +$rate$" <<< "$table")" = 3 ] ||
        fail "$memory: not three rows of latency: $table"
    rows=$(bench $memory --json | grep '"bench":"latency"')
    for pair in 0,1 0,2 1,2; do
        for path in p2p staged; do
            count=$(grep "\"path\":\"$path\"" <<< "$rows" | grep '"verified":true' |
                grep -c "\"from\":${pair%,*},\"to\":${pair#*,},")
            [ "$count" = 1 ] || fail "$memory: $count rows of $path between $pair"
        done
    done
done
timeout 60 "$weft" bench latency --paths p2p,nowhere --pair all --pes 2 > /dev/null 2>&1 &&
    fail "a path that does not exist is no fault"
[ $failures = 0 ]
