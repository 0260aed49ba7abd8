#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults made by rule at random lines that the default tests execute; see README.md beside this. From the
# repository's root: tools/mutants/random.sh N SEED [--budget SECONDS] [--tests REGEX] FOLDER...
# FOLDER is the beginning of paths of source files: src/path/net takes all of path net. N faults of each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

count=$1 seed=$2
shift 2
budget=90 tests=.
while [[ "${1:-}" == --* ]]; do
    case $1 in
    --budget) budget=$2 ;;
    --tests) tests=$2 ;;
    *) echo "mutants: unknown option $1 (--budget SECONDS, --tests REGEX)" >&2 && exit 2 ;;
    esac
    shift 2
done
groups=(src/path/net src/path/staged "src/path/local/relay src/path/local/mapped" src/file
    "src/path/gda include/weft/device/gda" src/gpu src/ops src/boot src/machine cli standin/hca)
[ $# -gt 0 ] || set -- "${groups[@]}"

root=$PWD folder=$PWD/build-mutants/random
tree=$folder/tree build=$folder/build
cores=$(nproc)
mkdir -p "$folder" "$tree"

fail() {
    echo "mutants: $*" >&2
    exit 2
}

# Mutated code may signal or remove anything: it runs in namespaces of its own, with a /dev/shm of its own.
if [ -z "${MUTANTS_APART:-}" ]; then
    apart=(unshare --mount --pid --fork --kill-child --mount-proc)
    "${apart[@]}" true 2>/dev/null || apart=(unshare --user --map-root-user "${apart[@]:1}")
    "${apart[@]}" true 2>/dev/null || fail "no PID namespace may be made here (root, or user namespaces)"
    export MUTANTS_APART=1
    exec "${apart[@]}" bash -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' - "$0" "$count" "$seed" \
        --budget "$budget" --tests "$tests" "$@"
fi

# ------------------------------------------------------------------------------ one build of all faults

# Files that have faults. What acts on other processes or removes files of others has none.
seeded_files() {
    local prefix
    for prefix in $1; do
        git ls-files -- "$prefix*.c" "$prefix*.h" "$prefix/*.c" "$prefix/*.h"
    done | sort -u | grep -vE 'run/orphans|net/leftovers|gpu/coll/|gpu/kernel|absent' || true
}

# copy_tree [FILE]: all, but the files that FILE lists.
copy_tree() {
    grep -vxFf "${1:-/dev/null}" <(git ls-files -co --exclude-standard) | tar -cf - -T - | tar -xf - -C "$tree"
}

seed_tree() {
    "$folder/sites" "$root" "$tree" "$tree/tools/mutants/record.h" "$folder/left_out" <"$folder/seeded" >"$folder/list"
}

configure() {
    cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS_RELWITHDEBINFO='-O1 -g1' \
        -DBUILD_TESTING=ON -DWEFT_WERROR=OFF -DWEFT_KERNEL_COMPILER=none -DWEFT_GPU_KERNELS=OFF -DCMAKE_C_FLAGS='-w -Wint-conversion -Wincompatible-pointer-types' \
        $(command -v ccache >/dev/null && echo -DCMAKE_C_COMPILER_LAUNCHER=ccache) >"$folder/log" 2>&1 ||
        fail "configuring failed; see $folder/log"
}

# What does not compile is left out, file by file and line by line, until all does.
construct() {
    local round before=0 now
    for round in 1 2 3 4 5 6 7 8; do
        seed_tree
        if nice ninja -k 0 -C "$build" -j "$cores" >"$folder/log" 2>&1 && ! grep -q 'warning:' "$folder/log"; then
            return
        fi
        sed -nE "s,^.*$tree/([^:]+):([0-9]+):[0-9]+: (error|warning).*,\1:\2,p; s,^\.\./tree/([^:]+):([0-9]+):[0-9]+: (error|warning).*,\1:\2,p" \
            "$folder/log" | sort -u >"$folder/refused"
        # Of a statement over several lines the compiler names any.
        awk -F '[:\t]' 'NR == FNR { for (d = -2; d <= 2; d++) bad[$1 ":" $2 + d]; next }
            ($2 ":" $3) in bad { print $1 }' "$folder/refused" "$folder/list" >>"$folder/left_out"
        sort -un "$folder/left_out" -o "$folder/left_out"
        now=$(wc -l <"$folder/left_out")
        echo "round $round: $now places do not compile as faults"
        [ "$now" != "$before" ] || fail "the build failed for another reason; see $folder/log"
        before=$now
    done
    fail "after 8 rounds the copy still does not compile; see $folder/log"
}

# ---------------------------------------------------------------------------------- what executes what

# Each test in a file of its own for ctest, which takes 0.5 s to read all of them.
single_tests() {
    rm -rf "$folder/single"
    mkdir -p "$folder/single"
    find "$build" -name CTestTestfile.cmake -print0 | xargs -0 cat | awk -v folder="$folder/single" '
        /^add_test\(/ { close(file); name = $0; sub(/^add_test\(\[=*\[/, "", name); sub(/\]=*\].*/, "", name); file = folder "/" name }
        /^(subdirs\(|#|$)/ && !inside { next }
        file { print >file }
        /^set_tests_properties\(/ { inside = 1 }
        /\)$/ && !/\[$/ { inside = 0 }'
}

# run_test LANE_FOLDER NAME SECONDS
run_test() {
    cp "$folder/single/$2" "$1/CTestTestfile.cmake"
    timeout -k 5 "$3" ctest --test-dir "$1" --no-tests=error
}

# Each default test once, without a fault: whether it passes, how long it takes, and which places it comes to.
record() {
    local name=$1 began status=0 raw=$folder/seen/$1.raw
    truncate -s 2000000 "$raw"
    began=$(date +%s.%N)
    mkdir -p "$folder/record-$LANE"
    MUTANT=0 MUTANT_SEEN=$raw run_test "$folder/record-$LANE" "$name" 300 \
        >"$folder/record-$LANE/log" 2>&1 </dev/null || status=$?
    ! grep -q 'Skipped' "$folder/record-$LANE/log" || status=77
    # The numbers of the places, one a line.
    LC_ALL=C grep -obUaP '\x01' "$raw" | cut -d: -f1 >"$folder/seen/$name.new" || true
    rm -f "$raw"
    mv "$folder/seen/$name.new" "$folder/seen/$name"
    printf '%s\t%s\t%s\n' "$name" "$status" \
        "$(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')" >"$folder/seen/$name.test"
}

# Tests without a record, or whose program has been linked again since.
unrecorded() {
    local name program
    while read -r name; do
        [ -e "$folder/seen/$name.test" ] || { echo "$name" && continue; }
        for program in $(grep -oE "$build/bin/[^\"]+" "$folder/single/$name" | sort -u); do
            [ ! "$program" -nt "$folder/seen/$name.test" ] || { echo "$name" && break; }
        done
    done <"$folder/tests"
}

record_all() {
    rm -rf "$folder"/record-*
    mkdir -p "$folder/seen"
    ctest --test-dir "$build" -N -R "$tests" -LE 'fuzz|hosts|^long$' | sed -nE 's/^ *Test *#[0-9]+: ([^ ]+).*/\1/p' >"$folder/tests"
    export -f record run_test
    export folder build
    single_tests
    unrecorded | nice xargs -r -P "$cores" -n 1 --process-slot-var=LANE bash -c 'record "$@"' -
    while read -r name; do cat "$folder/seen/$name.test"; done <"$folder/tests" >"$folder/recorded"
    echo "$(wc -l <"$folder/recorded") default tests, $(awk -F '\t' '$2 == 0' "$folder/recorded" | wc -l) of them pass without a fault"
}

# ------------------------------------------------------------------------------------------- the faults

# N of the places that a test which passes comes to, by a sum over seed and place.
choose() {
    seeded_files "$1" >"$folder/of_group"
    awk -F '\t' -v seed="$seed" 'FILENAME == ARGV[1] { wanted[$1]; next } FILENAME == ARGV[2] { reached[$1]; next }
        ($2 in wanted) && ($1 in reached) {
            x = (seed * 7919 + 12345) % 2147483647
            for (i = 0; i < 3; i++) x = (x * 16807 + $1 * 48271 % 2147483647) % 2147483647
            print x "\t" $0 }' "$folder/of_group" "$folder/reached" "$folder/list" | sort -n | awk -v n="$count" 'NR <= n' | cut -f 2-
}

# The tests that come to the place, those that take the least time first.
judge() {
    local number=$1 lane=$folder/judge-$LANE name seconds limit status began=$SECONDS ran=0
    mkdir -p "$lane"
    while IFS=$'\t' read -r name seconds; do
        [ $((SECONDS - began)) -lt "$budget" ] || break
        ran=$((ran + 1)) status=0
        limit=$(awk -v s="$seconds" 'BEGIN { print int(10 + 3 * s) }')
        MUTANT=$number run_test "$lane" "$name" "$limit" >"$lane/log" 2>&1 </dev/null || status=$?
        [ $status != 0 ] || continue
        # Only a test that passes without the fault tells of it.
        if MUTANT=0 run_test "$lane" "$name" "$limit" >/dev/null 2>&1 </dev/null; then
            printf '%s\t%s\t%s\t%s\n' "$number" caught "$name" "$ran" >"$folder/results/$number"
            return
        fi
    done < <(awk -F '\t' -v n="$number" 'FILENAME == ARGV[1] { time[$1] = $3; next }
                $1 == n { print $2 "\t" time[$2] }' "$folder/recorded" "$folder/by_place" | sort -t "$(printf '\t')" -gk 2)
    name=$(awk -F '\t' -v n="$number" '$1 == n' "$folder/by_place" | wc -l)
    printf '%s\t%s\t%s\t%s\n' "$number" "$([ "$ran" = "$name" ] && echo survives || echo survives_so_far)" \
        "$ran of $name tests" "$ran" >"$folder/results/$number"
}

report() {
    local group=$1 caught
    awk -F '\t' 'FILENAME == ARGV[1] { verdict[$1] = $2; what[$1] = $3; next }
        $1 in verdict && verdict[$1] != "caught" { printf "%s: %s:%s: %s: %s (%s)\n", verdict[$1], $2, $3, $4, $5, what[$1] }' \
        <(cat "$folder"/results/*) "$folder/chosen"
    caught=$(cat "$folder"/results/* | awk -F '\t' '$2 == "caught"' | wc -l)
    echo "$group: $caught of $(wc -l <"$folder/chosen") faults are noticed (seed $seed), by $SECONDS s"
}

cc -O1 -D_GNU_SOURCE -o "$folder/sites" tools/mutants/sites.c || fail "cannot build sites.c"
cp tools/mutants/record.h "$folder/"
# One build serves every folder and seed.
for group in "${groups[@]}" "$@"; do seeded_files "$group"; done | sort -u >"$folder/seeded"
# Of the same faults over the same sources what is known is kept. Where only tests have changed, those programs are
# built again, and their tests recorded.
sum_of() {
    xargs -d '\n' sha256sum 2>/dev/null | sha256sum
}
git ls-files -co --exclude-standard | grep -v '^tools/mutants/.*sh$' >"$folder/files"
sum=$(cat "$folder/seeded" <(grep -E '^(src|include|standin|cli|bench|cmake|tools/mutants)/' "$folder/files") | sum_of)
rest=$(sum_of <"$folder/files")$tests
if [ "$(cat "$folder/sum" 2>/dev/null)" != "$sum" ]; then
    rm -rf "$folder/sum" "$folder/seen"
    : >"$folder/left_out"
    copy_tree
    configure
    construct
    echo "$(wc -l <"$folder/list") places in $(wc -l <"$folder/seeded") files, $(wc -l <"$folder/left_out") of them no faults; built after $SECONDS s"
    record_all
    echo "$sum" >"$folder/sum"
elif [ "$(cat "$folder/rest" 2>/dev/null)" != "$rest" ]; then
    copy_tree "$folder/seeded"
    configure
    nice ninja -C "$build" -j "$cores" >"$folder/log" 2>&1 || fail "the build failed; see $folder/log"
    record_all
fi
echo "$rest" >"$folder/rest"
awk -F '\t' '$2 == 0 { print $1 }' "$folder/recorded" | while read -r test; do
    awk -v t="$test" '{ print $1 "\t" t }' "$folder/seen/$test"
done >"$folder/by_place"
cut -f 1 "$folder/by_place" | sort -un >"$folder/reached"
export -f judge run_test
export folder build budget
survivors=0
for group in "$@"; do
    rm -rf "$folder/results"
    mkdir -p "$folder/results"
    choose "$group" >"$folder/chosen"
    cut -f 1 "$folder/chosen" | nice xargs -r -P "$cores" -n 1 --process-slot-var=LANE bash -c 'judge "$@"' -
    report "$group"
    survivors=$((survivors + $(cat "$folder"/results/* | awk -F '\t' '$2 != "caught"' | wc -l)))
done
[ $survivors = 0 ]
