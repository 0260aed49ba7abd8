#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench proxy`: data that kernels put through the proxy's ring arrives, over paths with direct
# addresses and over one without; --trace prints ten steps, none of which ends before its
# predecessor.
#   bench_proxy.sh WEFT
set -u
weft=$1
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
quick='--target simt --iters 20 --repetitions 1 --json'
for options in '--pes 1' '--pes 2' '--pes 2 --ctas 3 --threads 40'; do
    for path in p2p,self weak,self; do
        right=$(WEFT_PATH=$path timeout 60 "$weft" bench proxy $quick $options | grep -c '"verified":true')
        [ "$right" = 6 ] || fail "$path $options: $right of 6 rows are right"
    done
done
for pes in 1 2; do
    row=$(timeout 60 "$weft" bench proxy --trace --target simt --json --pes $pes)
    times=$(grep -o '"since_call_us":[^,}]*' <<< "$row" | cut -d: -f2)
    [ "$(wc -w <<< "$times")" = 10 ] || fail "--trace: not ten steps in $row"
    awk '$1 < last { exit 1 } { last = $1 }' <<< "$times" || fail "--trace: steps run backwards in $row"
done
timeout 60 "$weft" bench put --trace > /dev/null 2>&1
[ $? = 2 ] || fail "--trace of another benchmark is not refused"
timeout 60 "$weft" bench --list | grep -q '^proxy_trip ' || fail "--list has no proxy_trip"
[ $failures = 0 ]
