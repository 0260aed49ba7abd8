#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# explain_experts.sh WEFT JSON_GET: the model of dispatch and combine that `weft explain experts` prints: where tokens go
# and which bytes cross, computed again by awk; forms, relays and parts; that terms add up; wrong values.
set -u
weft=$1 json_get=$2 failed=0
export WEFT_COLL_RATES=off
fail() { echo "$*" && failed=1; }

says() { # STATUS TEXT OPTION...
    local wanted=$1 text=$2 out status
    shift 2
    out=$("$weft" explain experts "$@" 2>&1)
    status=$?
    { [ $status = "$wanted" ] && grep -q -- "$text" <<< "$out"; } || fail "weft explain experts $*: status $status (wanted $wanted), without \"$text\": $out"
}

# near VALUE EXPECTED WHAT: equal in six digits
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d * d <= 1e-12 * b * b) }' || fail "$3: $1, not $2"; }
get() { "$json_get" "$1" <<< "$answer"; } # PATH
ask() { answer=$("$weft" explain experts --json "$@") || fail "weft explain experts $*"; }
term() { # STEP NAME KEY
    local i n
    n=$(get "$1.terms.#")
    for ((i = 0; i < n; i++)); do
        [ "$(get "$1.terms.$i.term")" != "$2" ] || { get "$1.terms.$i.$3"; return; }
    done
    fail "$1 has no term \"$2\""
}
# share EXPERTS TOP OWNED: probability that a token has one of the OWNED experts, by counting what it leaves out
share() { awk -v e="$1" -v k="$2" -v own="$3" 'BEGIN { for (none = 1; i < k; i++) none *= (e - own - i) / (e - i); print 1 - none }' OFMT=%.12g; }
compute() { awk "BEGIN { printf \"%.12g\", $1 }"; }

# Four and eight GPUs: a token goes to n - 1 others with equal probability; 14336 bytes and 64 of choices.
for n in 2 4 8; do
    ask --pes $n
    p=$(share 256 8 $((256 / n)))
    near "$(get probability_of_pe)" "$p" "probability with $n PEs"
    near "$(get pes_of_token)" "$(compute "$n * $p")" "PEs of a token of $n"
    near "$(get other_pes_of_token)" "$(compute "($n - 1) * $p")" "other PEs of a token of $n"
    near "$(term dispatch rows link_bytes)" "$(compute "4096 * 14400 * ($n - 1) * $p")" "rows of $n PEs"
    near "$(term combine results link_bytes)" "$(compute "4096 * 14336 * ($n - 1) * $p")" "results of $n PEs"
    near "$(term dispatch rows us)" "$(compute "$(get kernel_us) + 4096 * 14400 * ($n - 1) * $p / 283e3")" "time of rows of $n PEs"
    near "$(term dispatch rows hbm_bytes)" "$(compute "4096 * 14400 * (1 + $n * $p)")" "memory for rows of $n PEs"
    near "$(term combine 'sum of the last part' hbm_bytes)" "$(compute "4096 * 14336 * ($n * $p + 1) / 4")" "memory for sums of $n PEs"
    [ "$(get parts)" = 4 ] || fail "$n PEs: $(get parts) parts"
done
# A token that has all experts goes to all PEs; with one expert to one.
ask --experts 8 --pes 4
near "$(get pes_of_token)" 4 'all experts'
ask --top 1 --pes 4
near "$(get pes_of_token)" 1 'one expert'
near "$(get other_pes_of_token)" 0.75 'one expert'
# Uneven owners: PE 2 of 3 has two of four experts, and sends to the others least.
ask --experts 4 --top 1 --pes 3
near "$(get probability_of_pe)" 0.5 'the PE with most experts'
near "$(term dispatch rows link_bytes)" "$(compute '4096 * (14336 + 8) * 2 * 0.5')" 'rows into the PE with most experts'
# One PE: nothing crosses, and no one is waited for.
ask --pes 1
[ "$(get dispatch.terms.#) $(get combine.terms.#)" = '3 1' ] || fail 'terms of one PE'
near "$(term dispatch rows link_bytes)" 0 'rows of one PE'
ask --pes 1 --hbm 1000
near "$(term combine sum us)" "$(compute "$(get kernel_us) + 4096 * 14336 * 2 / 1e6")" 'sum with another rate of memory'

# Terms add up to the total.
for options in '' '--tokens 16' '--pes 32 --per-node 8' '--pes 3 --per-node 2 --top 2' '--pes 5 --type fp8 --hidden 2048'; do
    # shellcheck disable=SC2086  # several words
    ask $options
    for step in dispatch combine; do
        sum=0
        for ((i = $(get $step.terms.#) - 1; i >= 0; i--)); do sum=$(compute "$sum + $(get $step.terms.$i.us)"); done
        near "$(get $step.us)" "$sum" "$step with $options"
    done
done

# The form is that of the library: 2 MiB of tokens, one node, WEFT_TEST_EXPERTS.
says 0 'dispatch, short form, one kernel$' --tokens 146
says 0 'as two calls, send and receive: ' --tokens 146
says 0 'dispatch, long form$' --tokens 147
says 0 'dispatch, short form, one kernel$' --tokens 73 --type float
says 0 'dispatch, long form$' --tokens 74 --type float
says 0 'dispatch, long form$' --tokens 16 --pes 1
says 0 'dispatch, long form with relays$' --tokens 16 --per-node 4
says 0 'dispatch, long form$' --tokens 16 --per-node 4 --top 1
WEFT_TEST_EXPERTS=long says 0 'dispatch, long form$' --tokens 16
WEFT_TEST_EXPERTS=short says 0 'combine, short form' --tokens 512
says 0 'combine, long form, results in 4 parts$' --tokens 4096
says 0 'combine, long form$' --tokens 512
ask --tokens 128 --pes 4
near "$(term dispatch 'rows in lines' us)" "$(compute "(128 * 14400 * 3 * $(share 256 8 64) + 3 * 3 * 480) / 172e3")" 'rows in lines'
short=$(get long_dispatch_us)
answer=$(WEFT_TEST_EXPERTS=long "$weft" explain experts --json --tokens 128 --pes 4)
near "$(get dispatch.us)" "$short" 'the long form'

# Between nodes: with relays a token crosses once to each node, else once to each PE there.
ask --pes 8 --per-node 4 --gbit 80 --latency 7
near "$(get other_nodes_of_token)" "$(share 256 8 128)" 'other nodes'
near "$(term dispatch 'rows, also to relays' nic_bytes)" "$(compute "4096 * 14400 * $(share 256 8 128)")" 'rows to relays'
near "$(term dispatch 'rows, also to relays' us)" "$(compute "$(get kernel_us) + 4096 * 14400 * $(share 256 8 128) / 10e3")" 'time of rows to relays'
near "$(term dispatch 'rows by relays' link_bytes)" "$(compute "4096 * 14400 * 3 * $(share 256 8 32)")" 'rows by relays'
near "$(term dispatch barrier us)" 11 'barrier between nodes'
near "$(term combine 'sums by relays' nic_bytes)" "$(compute "4096 * 14336 * $(share 256 8 128)")" 'sums by relays'
answer=$(WEFT_TEST_EXPERTS=direct "$weft" explain experts --json --pes 8 --per-node 4)
near "$(term dispatch rows nic_bytes)" "$(compute "4096 * 14400 * 4 * $(share 256 8 32)")" 'rows without relays'
near "$(term dispatch rows link_bytes)" "$(compute "4096 * 14400 * 3 * $(share 256 8 32)")" 'rows in the node'

# FP8: 7168 bytes, 56 scales, choices; results of bf16.
ask --type fp8 --pes 2 --tokens 1000
near "$(term dispatch rows link_bytes)" "$(compute "1000 * (7168 + 224 + 64) * $(share 256 8 128)")" 'rows of FP8'
near "$(term combine results link_bytes)" "$(compute "1000 * 14336 * $(share 256 8 128)")" 'results of FP8'

says 2 'explain experts: tokens is 0; from 1 to 16777216 are allowed' --tokens 0
says 2 'explain experts: members is 0; from 1 to 1024 are allowed' --pes 0
says 2 'explain experts: 1025 members; at most 1024 are supported' --pes 1025
says 2 'explain experts: top is 9; from 1 to 8 are allowed' --experts 8 --top 9
says 2 'explain experts: hidden is 12; tokens of 24 and results of 24 bytes are not multiples of 16' --hidden 12
says 2 '--tokens many: expected a whole number such as 8' --tokens many
says 2 '--pes -1: expected a whole number' --pes -1
says 2 '--top 4294967296: expected a whole number' --top 4294967296
says 2 '--type int8: expected bf16, half, float or fp8' --type int8
says 2 '--gbit 0: expected Gbit/s such as 400' --gbit 0
says 2 '--latency nan: expected microseconds such as 5' --latency nan
says 2 '--hbm : expected GB/s such as 3350' --hbm ''
says 2 'unexpected "4096"; weft explain experts has options only' 4096
says 0 '--per-node=N' --help

# No line is longer than a terminal, unless all are wanted.
for options in '' '--tokens 64' '--pes 64 --per-node 8'; do
    # shellcheck disable=SC2086  # several words
    "$weft" explain experts $options | awk 'length($0) > 100 { exit 1 }' || fail "$options: over 100 columns"
done
"$weft" explain experts --full | awk 'length($0) > 100 { long = 1 } END { exit !long }' || fail '--full folds'
exit $failed
