#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft bench evaluation`: every program over every path, with the requested blocks, sizes and PEs;
# all data is right; and the page with the results.
#   bench_evaluation.sh WEFT JSON_GET
set -u
weft=$1 json_get=$2
export WEFT_HEAP_SIZE=32M WEFT_WAIT_LIMIT=20s
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
timeout 100 "$weft" bench evaluation --paths p2p,staged --target simt --threads 32 --ctas 1,3 --pes 2 \
    --sizes 8,60 --iters 2 --repetitions 1 --json --html "$folder/page" > "$folder/rows" || fail "status $?"
"$json_get" path bench pes ctas bytes verified < "$folder/rows" | sort > "$folder/seen"
for path in p2p staged; do
    for ctas in 1 3; do
        printf "$path %s true\n" "put 2 $ctas 8" "put 2 $ctas 60" "p 2 $ctas 8" "p_scattered 2 $ctas 8"
    done
    for pes in 1 2; do
        printf "$path %s true\n" "jacobi_values $pes 1 0" "jacobi_rows $pes 1 0"
    done
    printf "$path %s true\n" "alltoall 2 1 8" "alltoall 2 1 60"
done | sed '/ [pj][^ ]* 1 1 0/s/^staged/self/; /jacobi.* 1 1 0/s/^p2p/self/' | sort > "$folder/expected"
diff "$folder/expected" "$folder/seen" || fail 'the rows are not those asked for'
page() { # times, text
    [ "$(grep -cF -- "$2" "$folder/page")" -eq "$1" ] || fail "the page has not $1 times $2"
}
page 4 '<h2>'
page 5 '<svg viewBox='              # of puts one for each path
page 2 '>3 blocks</text>'           # a line in each of these
page 1 '>staged, p_scattered</text>'
page 1 '>p2p, jacobi_rows</text>'
page 1 '<title>staged, alltoall, 60 B: '
page 1 '<title>p2p, jacobi_values, 2: '
page 1 '</body></html>'
timeout 60 "$weft" bench evaluation --ctas 1,0 2> "$folder/words"
[ $? -eq 2 ] && grep -q -- '--ctas 0' "$folder/words" || fail "a grid of no blocks: $(cat "$folder/words")"
exit $((failures > 0))
