#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The results of `weft bench` for known times: median, minimum and maximum, rates, half a round
# trip, the mean over the PEs; the default number of repetitions; the keys of --json, the rows, the
# page.
#   bench_times.sh WEFT_PLANTED JSON_GET [short]
set -u
weft=$1 json_get=$2
export WEFT_HEAP_SIZE=256M WEFT_WAIT_LIMIT=20s
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
# costs, expected values of $keys, benchmark and options
keys='us us_min us_max gbytes_per_s mops iterations repetitions'
figures() {
    local costs=$1 expected=$2 seen
    shift 2
    seen=$(PLANT_COSTS=$costs timeout 60 "$weft" bench "$@" --json 2>&1 | "$json_get" $keys | tail -n 1)
    [ "$seen" = "$expected" ] || fail "$costs, bench $*: $keys are $seen, not $expected"
}
fixed='--iters 100 --sizes 1000 --no-verify'

figures put=250,spread=10 '0.29 0.25 0.33 3.44828 3.44828 100 9' put $fixed
figures put=250,spread=10 '0.29 0.25 0.33 3.44828 3.44828 100 9' put --iters 100 --sizes 1000
figures get=500,quiet=700 '0.5 0.5 0.5 2.0 2.0 100 9' get $fixed
figures put=250,quiet=700 '0.257 0.257 0.257 3.89105 3.89105 100 9' put $fixed
figures put=250 '0.5 0.5 0.5 2.0 2.0 100 9' put $fixed --pair 1,0 # what PE 1 does takes twice as long
[ "${3:-}" != short ] || exit $((failures > 0))
figures p=40,quiet=1000 '0.05 0.05 0.05 0.16 20.0 100 9' p $fixed
figures g=80 '0.08 0.08 0.08 0.1 12.5 100 3' g $fixed --repetitions 3
figures atomic_fetch_add=125 '0.125 0.125 0.125 0.0 8.0 100 9' atomic_fetch_add $fixed
PLANT_COSTS=put=250,wait=500 timeout 60 "$weft" bench latency $fixed --json 2>&1 |
    "$json_get" bench us gbytes_per_s mops | grep -qx 'latency 0.375 0.0 2.66667' || fail 'half of a round trip'
figures put_signal=300,signal_wait=100 '0.2 0.2 0.2 5.0 5.0 100 9' latency_signal $fixed
# The mean over the PEs: PE 1 takes twice as long as PE 0, PE 2 three times.
figures barrier=1000 '1.5 1.5 1.5 0.0 0.666667 100 9' barrier $fixed
figures sync=1000 '2.0 2.0 2.0 0.0 0.5 100 9' sync $fixed --pes 3
figures broadcast=1000 '1.5 1.5 1.5 0.666667 0.666667 100 9' broadcast $fixed
figures allreduce=1000 '1.5 1.5 1.5 0.666667 0.666667 100 9' allreduce $fixed
for name in alltoall allgather collect; do # bytes from every PE
    figures $name=1000 '1.5 1.5 1.5 1.33333 0.666667 100 9' $name $fixed
    figures $name=1000 '2.0 2.0 2.0 1.5 0.5 100 9' $name $fixed --pes 3
done

# Unasked: repetitions of about 15 ms, a point of at most about 0.4 s, at least three repetitions.
keys='us iterations repetitions'
auto='--sizes 8 --no-verify'
figures put=250 '0.25 60000 9' put $auto
figures put=10000000 '10000.0 1 9' put $auto
figures put=100000000 '100000.0 1 4' put $auto
figures put=1000000000 '1000000.0 1 3' put $auto
figures put=100000000 '100000.0 1 2' put $auto --repetitions 2
figures barrier=1000 '1.5 10000 9' barrier $auto

# Kernels' times: from the start of the first block to the end of the last.
keys='us gbytes_per_s mops ctas threads scope target'
kernels() {
    PLANT_FAULT=kernel_times figures '' "$@" --target simt --no-verify --sizes 1000
}
kernels '1.0 2.0 2.0 2 64 block simt' put --scope block --ctas 2 --iters 12
kernels '1.0 4.0 4.0 2 64 warp simt' get --scope warp --ctas 2 --iters 12
kernels '1.0 128.0 128.0 2 64 thread simt' put --scope thread --ctas 2 --iters 12
kernels '1.0 3.0 3.0 1 96 warp simt' put --scope warp --threads 96 --iters 11
kernels '0.5 2.0 2.0 1 64 block simt' latency_signal --scope block --iters 11
kernels '1.0 0.0 1.0 1 64 block simt' barrier --scope block --iters 11
kernels '1.0 0.512 64.0 1 64 thread simt' p --scope thread --iters 11

# Every key of --json, and what belongs together.
PLANT_COSTS=put=250,spread=10 timeout 60 "$weft" bench put $fixed --json > "$folder/json" || fail 'status'
"$json_get" keys < "$folder/json" | grep -qx "bench,path,memory,scope,target,pes,bytes,from,to,ctas,\
threads,us,us_min,us_max,gbytes_per_s,mops,iterations,repetitions,verified,floor,floor_us,ratio,memcpy_us,\
one_line_us,two_lines_us,store_us,load_us,atomic_us" || fail "keys: $("$json_get" keys < "$folder/json")"
"$json_get" bench path memory scope target pes bytes from to verified floor < "$folder/json" |
    grep -qx 'put p2p host host host 2 1000 0 1 null memcpy' || fail 'conditions'
"$json_get" us floor_us ratio memcpy_us < "$folder/json" |
    awk '{ r = $1 / $2 / $3; exit !(r > 0.999 && r < 1.001 && $2 == $4 && $2 > 0) }' || fail 'the ratio'

# Rows for people, and the page.
PLANT_COSTS=put=250,spread=10,barrier=4000 timeout 60 "$weft" bench put,barrier --sizes 1000,64K --iters 100 \
    --html "$folder/page" > "$folder/table" || fail 'status of the table'
row() {
    grep -qE "^$1" "$folder/table" || fail "no row $1"
}
row 'put                  1000 B    290 ns    250 ns    330 ns     3.45     3.45 +[0-9.]+ +[0-9.]+ .s +[0-9.]+  right$'
row 'put                  64 KiB    290 ns    250 ns    330 ns      226     3.45 '
row 'barrier                   -   6.06 us   6.00 us   6.12 us        -    0.165        - '
row '2 PEs, PE 0 to PE 1 over p2p, host memory, scope host, target host, [0-9]+ CPUs?$'
grep -q 'Do not trust' "$folder/table" && fail 'steady figures are called unsteady'
PLANT_COSTS=put=100,spread=100 timeout 60 "$weft" bench put --iters 10 --sizes 8,64,1K |
    grep -q 'In 3 of 3 rows the slowest repetition took more than twice the fastest' || fail 'unsteady'
page() {
    [ "$(grep -cF -- "$2" "$folder/page")" -eq "$1" ] || fail "the page has not $1 times $2"
}
page 1 '<title>1000 B: 0.29 us</title>'
page 1 '<title>1000 B: 3.448 GB/s</title>'
page 1 '<title>64 KiB: 0.29 us</title>'
page 1 '<title>64 KiB: 226 GB/s</title>'
page 1 '2 PEs; PE 0 to PE 1 over p2p; host memory, scope host, target host.'
page 2 '<svg viewBox='
page 1 '<svg class="wide"'
page 1 'text-anchor="end">barrier</text>'
page 1 '</body></html>'
page 1 '<tr><td>put</td><td>1000 B</td><td>290 ns</td><td>250 ns</td><td>330 ns</td><td>3.45</td><td>3.45</td>'
page 1 '<tr><td>barrier</td><td>-</td><td>6.06 us</td><td>6.00 us</td><td>6.12 us</td><td>-</td><td>0.165</td>'
# Both sizes at the same time: the line is level, from the left end to the right.
grep -E 'class="value c0"' "$folder/page" | head -n 1 |
    grep -qE 'points="62\.0,([0-9.]+) 434\.0,\1 "' || fail 'the line of times is not level'
timeout 60 "$weft" bench put --iters 2 --sizes 8 --html /nowhere/page > "$folder/out" 2>&1
[ $? -eq 1 ] && grep -q '/nowhere/page' "$folder/out" || fail 'a page that cannot be written'
exit $((failures > 0))
