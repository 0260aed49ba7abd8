#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench coll`: a verified row for every operation, size and applicable algorithm, over the
# CUDA stand-in and on simt; usage errors; --tune and its file, which is read, printed, refused, and
# ignored where PEs have different ones.
# The short form leaves out what another operation, or another file, shows as well.
#   bench_coll.sh WEFT FOLDER_OF_THE_CUDA_STAND-IN JSON_GET WEFT_PLANTED short|all
set -u
weft=$1 stand_in=$2 json_get=$3 planted=$4 form=$5
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
folder=$(mktemp -d "$PWD/bench_coll.XXXXXX") && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
export WEFT_HEAP_SIZE=64M WEFT_GPU_HEAP_SIZE=1G WEFT_PROVE=off WEFT_WAIT_LIMIT=20s XDG_CACHE_HOME=$folder/cache
export FAKE_CUDA_DEVICES=3 # a GPU for each PE
unset WEFT_COLL_RATES
on_gpus() { LD_LIBRARY_PATH=$stand_in "$weft" bench coll --target cuda -i 1 --repetitions 1 "$@"; }
figure='[0-9]+(\.[0-9]+)?'

# On simt: the host's functions in stream order, twelve operations.
table=$("$weft" bench coll --pes 3 --target simt --sizes 5,4K -i 2 --repetitions 2) || fail "simt: status $?"
[ "$(grep -cE " auto +- +$figure +$figure +.* right$" <<< "$table")" = 24 ] || fail "simt: not 24 right rows: $table"
grep -q "^figures of the stand-in" <<< "$table" || fail "simt: not told: $table"

# By kernels: every way that can serve, in a graph too.
rows=$(on_gpus --pes 3 --sizes 8,4K --json) || fail "gpu: status $?"
count() { grep -c "$1" <<< "$rows"; }
[ "$(count '"verified":true')" = "$(count .)" ] || fail "gpu: not all rows are right: $rows"
for way in auto:24 packets:18 two:1 direct:22 scratch:24 engines:10 copies:24; do
    [ "$(count "\"way\":\"${way%:*}\"")" = "${way#*:}" ] || fail "gpu: not ${way#*:} rows of ${way%:*}: $rows"
done
for key in '"graph_us":[0-9]' '"stream_us":[0-9]' '"host_us":[0-9]' '"model_us":[0-9]' '"floor_us":[0-9]' '"gbytes_per_s":[0-9]'; do
    [ "$(grep -v '"way":"copies"' <<< "$rows" | grep -c "$key")" = 99 ] || fail "gpu: rows without $key: $rows"
done
row=$(grep '"op":"alltoall","bytes":4096,"way":"direct"' <<< "$rows")
read -r us gbps least <<< "$("$json_get" graph_us gbytes_per_s floor_us <<< "$row")"
awk -v us="$us" -v gbps="$gbps" -v least="$least" 'BEGIN {
    wanted = 2 * 4096 / us / 1000
    exit !(gbps > 0.999 * wanted && gbps < 1.001 * wanted && least > 2.826 && least < 2.827) }' ||
    fail "gpu: GB/s are not what leaves a PE, or the floor is another: $row"
# Elements that lie apart have the floor of those that do not; the busiest GPU of a skewed exchange, that of a uniform one.
for op in alltoalls alltoallv_skew; do
    read -r least <<< "$("$json_get" floor_us <<< "$(grep "\"op\":\"$op\",\"bytes\":4096,\"way\":\"direct\"" <<< "$rows")")"
    awk -v least="$least" 'BEGIN { exit !(least > 2.826 && least < 2.827) }' || fail "gpu: the floor of $op is $least"
done
# Lines where they were proven, and by no PE where one stores them in parts.
rows=$(WEFT_PROVE=always on_gpus --pes 3 --sizes 8,8K --ways lines,twolines --json) || fail "lines: status $?"
[ "$(count '"verified":true')" = "$(count .)" ] && [ "$(count '"way":"lines","taken":"lines"')" = 16 ] &&
    [ "$(count '"way":"twolines","taken":"twolines"')" = 1 ] || fail "lines: $rows"
on_gpus --pes 3 --ops allreduce --sizes 8 --ways lines > rows 2> words || fail "lines without a proof: status $?"
grep -q "allreduce of 8 bytes cannot use lines" words || fail "lines without a proof: $(cat words)"
csv=$(on_gpus --pes 2 --team 2 --ops allreduce,allgather --sizes 64K --ways packets,direct --sms 5 --csv) || fail "csv: status $?"
[ "$(grep -cE '^(allreduce|allgather),65536,(packets|direct),[a-z]+,[124],2,cuda,5,([0-9.e+-]+,){11}right$' <<< "$csv")" = 4 ] || fail "csv: not four rows: $csv"
[ "$(head -n 1 <<< "$csv" | tr , '\n' | wc -l)" = "$(tail -n 1 <<< "$csv" | tr , '\n' | wc -l)" ] || fail "csv: heading: $csv"
on_gpus --pes 4 --team 3 --ops alltoallv --sizes 4K > rows || fail "team: status $?"
grep -q "over 3 PEs" rows || fail "team: $(cat rows)"
on_gpus --ops allgather --sizes 8 --ways two > rows 2> words || fail "a way that cannot: status $?"
grep -q "allgather of 8 bytes cannot use two" words || fail "a way that cannot: $(cat words)"
grep -q "^allgather" rows && fail "a way that cannot has a row: $(cat rows)"
# Without --ops all operations are measured, with --ops those that are named.
all=$(on_gpus --pes 1 --sizes 8 --ways auto -i 1 --repetitions 1 --csv | sed 1d | cut -d, -f1 | sort -u | tr '\n' ' ')
[ "$(wc -w <<< "$all")" = 12 ] || fail "operations without --ops: $all"
some=$(on_gpus --pes 1 --sizes 8 --ops collect,gather --ways auto -i 1 --repetitions 1 --csv | sed 1d | cut -d, -f1 | sort -u | tr '\n' ' ')
[ "$some" = "collect gather " ] || fail "operations with --ops: $some"

# A bit that is wrong at one PE is seen.
faulty=(alltoallv_skew)
[ "$form" = short ] || faulty=(broadcast allgather collect alltoall alltoalls alltoallv alltoallv_skew)
for op in "${faulty[@]}"; do
    out=$(PLANT_FAULT=${op%_*} "$planted" bench coll --target simt --pes 3 --ops "$op" --sizes 1000 -i 1 --repetitions 1 2>&1)
    [ $? = 1 ] && grep -q "^$op .* WRONG$" <<< "$out" && grep -q "received data is wrong" <<< "$out" || fail "fault in $op: $out"
done
cat > one << 'END'
[ "$WEFT_PE" = 1 ] && export "$THERE"
exec "$@"
END
for wrong in "--ops sum" "--ways quick" "--sizes 0" "--sms 65" "--target gpu" "--team 3 --pes 2" "allreduce" "--iters x" "--repetitions 102"; do
    on_gpus $wrong > /dev/null 2> words
    [ $? = 2 ] || fail "$wrong: not refused as usage"
    [ -s words ] || fail "$wrong: no words"
done
on_gpus --ops allgather,reduce_to > /dev/null 2> words
grep -q '"reduce_to"; it is now called reduce$' words || fail "an operation of 0.1: $(cat words)"
"$weft" bench put,fcollect > /dev/null 2> words
[ $? = 2 ] && grep -q '"fcollect"; it is now called allgather$' words || fail "a benchmark of 0.1: $(cat words)"
FAKE_CUDA_DEVICES=2 on_gpus --pes 3 --tune > /dev/null 2> words && fail "--tune with a GPU of two PEs: no fault"
grep -q "PEs share a GPU" words || fail "--tune with a GPU of two PEs: $(cat words)"
grep -q "^PEs share a GPU" <<< "$(FAKE_CUDA_DEVICES=2 on_gpus --pes 3 --sizes 8 --ops allreduce --ways auto)" || fail "a shared GPU is not told"
grep -q "^PEs share a GPU" <<< "$(on_gpus --pes 2 --sizes 8 --ops allreduce --ways auto)" && fail "three GPUs are told to be fewer"
one=$(on_gpus --pes 1 --sizes 8 --ops allreduce --ways auto --json)
grep -q '"floor_us":null.*"model_us":null' <<< "$one" || fail "one PE has the floor of a link: $one"
"$weft" bench coll --target simt --tune > /dev/null 2> words && fail "--tune on simt: no fault"
grep -q "kernels cannot run" words || fail "--tune on simt: $(cat words)"

# The rates of this machine.
rates() { LD_LIBRARY_PATH=$stand_in "$weft" env | sed -n 's/^    rates: //p'; }
[ "$(rates)" = "built in" ] || fail "before: $(rates)"
on_gpus --pes 3 --sizes 64K --tune > table || fail "--tune: status $?"
WEFT_PROVE=always on_gpus --pes 3 --sizes 64K --tune > proven || fail "--tune with lines: status $?"
grep -qE "^  block_lines_gbps +2.1 " proven || fail "--tune with lines: $(cat proven)"
file=$(echo "$folder"/cache/weft/coll-rates-*)
grep -qE "^  lines_us .*  an estimate, not measured$" table || fail "--tune without lines: $(cat table)"
grep -qE "^  scratch_gbps +196 " table || fail "--tune without scratch: $(cat table)"
grep -qE "^  lines_us .*estimate" proven && fail "--tune with lines: not measured: $(cat proven)"
grep -q "saved in $file" table || fail "--tune: $(cat table)"
[ "$(grep -cE "^  [a-z_]+ +$figure +[0-9.e+-]+(  (the built-in value: .*|an estimate, not measured))?$" table)" = 20 ] || fail "--tune: not twenty rates: $(cat table)"
[[ $(rates) =~ ^"of $file, measured 20"[0-9-]{8}" by 3 PEs on 3 Stand-in GPU"$ ]] || fail "kept, and env says $(rates)"
explained=$(LD_LIBRARY_PATH=$stand_in "$weft" explain coll allreduce 1M 4 --full)
grep -q "rates: of $file, measured" <<< "$explained" || fail "explain does not tell of the file: $explained"
grep -qE "^  estimated rates: " <<< "$explained" && ! grep -qE "estimated rates: .*two_trips_us" <<< "$explained" ||
    fail "explain does not tell of estimates: $explained"
on_gpus --ops allreduce --sizes 8 --ways auto > rows || fail "with rates: status $?"
grep -q "from rates of $file" rows || fail "a job does not take it: $(cat rows)"
explained=$(LD_LIBRARY_PATH=$stand_in WEFT_COLL_RATES=off "$weft" explain coll allreduce 8)
grep -q "rates: built in$" <<< "$explained" || fail "off is not off: $explained"

# A file that is damaged is refused in words, and the job goes on.
cp "$file" whole
head -c 200 whole > "$file"
on_gpus --ops allreduce --sizes 8 --ways auto > rows 2> words || fail "cut off: status $?"
[ "$(grep -c "cut off or was changed; measure again" words)" = 1 ] || fail "cut off: $(cat words)"
grep -q "right" rows || fail "cut off: $(cat rows)"
case $(rates) in "built in: $file: it is cut off"*) ;; *) fail "cut off, and env says $(rates)" ;; esac
cp whole "$file"
[ "$(WEFT_COLL_RATES=$file "$weft" explain coll allreduce 8 --full | sed -n 's/^  rates: //p' | cut -d, -f1)" = "of $file" ] ||
    fail "a file that is named is not taken without a driver"

if [ "$form" = all ]; then
    # PEs with different rates choose by those built in, and say so.
    THERE=WEFT_COLL_RATES=off LD_LIBRARY_PATH=$stand_in "$weft" run -n 2 bash ./one "$weft" bench coll --target cuda --ops allreduce,allgather --sizes 8,64K,1M -i 2 --repetitions 1 > rows 2> words ||
        fail "different rates: status $?: $(cat words)"
    grep -q "have different rates of collectives, so the built-in rates are used" words || fail "different rates: not reported: $(cat words)"
    grep -q "from rates built in, since the PEs have different ones" rows || fail "different rates: $(head -n 2 rows)"
    grep -qE "^allreduce +8 B auto .* 4\.00  right, takes packets" rows || fail "different rates: not those built in: $(cat rows)"
    # One PE whose data is wrong, and one whose GPU stores lines in parts.
    out=$(THERE=PLANT_FAULT=allgather "$weft" run -n 3 bash ./one "$planted" bench coll --target simt --ops allgather --sizes 1000 -i 1 --repetitions 1 2>&1)
    [ $? = 1 ] && grep -q "^allgather .* WRONG$" <<< "$out" || fail "fault at PE 1 alone: $out"
    cat > torn << 'END'
[ "$WEFT_PE" = 1 ] && export FAKE_CUDA_TORN=1
exec "$@"
END
    WEFT_COLL_RATES=off WEFT_PROVE=always LD_LIBRARY_PATH=$stand_in "$weft" run -n 3 bash ./torn "$weft" bench coll --target cuda -i 1 \
        --repetitions 1 --ops allreduce,allgather --sizes 8 --ways auto,lines > rows 2> words || fail "torn lines: status $? $(cat words)"
    [ "$(grep -c "cannot use lines" words)" = 2 ] && [ "$(grep -c "right, takes packets" rows)" = 2 ] || fail "torn lines: $(cat rows words)"
fi
cd ..
[ $failures = 0 ]
