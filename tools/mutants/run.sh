#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Seeds faults and sees whether the tests notice; see README.md beside this. From the repository's
# root: tools/mutants/run.sh [--short] [--keep-going] [REGEX of names]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

short=0 only=.
while [ $# -gt 0 ]; do
    case $1 in
    --short) short=1 ;;
    -*) echo "usage: tools/mutants/run.sh [--short] [REGEX]" >&2 && exit 2 ;;
    *) only=$1 ;;
    esac
    shift
done

root=$PWD
folder=$root/build-mutants
tree=$folder/tree
build=$folder/build
cores=$(nproc)
limit=${MUTANT_LIMIT:-90} # seconds that the tests of one fault may take: a hang is seen too
mkdir -p "$folder"

fail() {
    echo "mutants: $*" >&2
    exit 2
}

seed() {
    cc -O1 -D_GNU_SOURCE -o "$folder/seed" tools/mutants/seed.c || fail "cannot build seed.c"
    git ls-files -co --exclude-standard >"$folder/files"
    "$folder/seed" "$root" "$tree" tools/mutants/faults/*.txt <"$folder/files" >"$folder/list" ||
        fail "entries above no longer fit the source"
    # What has gone from the source goes from the copy.
    (cd "$tree" && find . -type f | sed 's,^\./,,') | sort >"$folder/have"
    sort "$folder/files" | comm -13 - "$folder/have" | (cd "$tree" && xargs -r -d '\n' rm -f)
}

choose() {
    awk -F '\t' -v short="$short" -v only="$only" \
        '(!short || $3 == "short") && $2 ~ only' "$folder/list" >"$folder/chosen"
    [ -s "$folder/chosen" ] || fail "no fault has that name"
}

# Numbers and names of the tests that concern the chosen faults. Each expression by itself: ctest
# takes no expression with more than 32 parentheses.
concerned() {
    cut -f5 "$folder/chosen" | sort -u | while read -r tests; do
        ctest --test-dir "$build" -N -R "$tests" | sed -n 's/^ *Test *#\([0-9]*\): /\1 /p' |
            grep . || fail "no test is called $tests"
    done | sort -un
}

# The programs that these tests run, as names of what the build makes.
programs() {
    cut -d ' ' -f 2 "$folder/concerned" >"$folder/names"
    find "$build" -name CTestTestfile.cmake -exec cat {} + |
        awk -v build="$build/" '
            NR == FNR { wanted[$1]; next }
            match($0, /^add_test\(\[=\[[^]]*/) && substr($0, 13, RLENGTH - 12) in wanted {
                for (rest = $0; match(rest, build "(bin|lib)/[A-Za-z0-9_.-]+");
                     rest = substr(rest, RSTART + RLENGTH))
                    print substr(rest, RSTART + length(build), RLENGTH - length(build))
            }' "$folder/names" - | sort -u
}

construct() {
    cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=ON \
        -DWEFT_WERROR=OFF -DWEFT_NVCC=OFF -DWEFT_GPU_KERNELS=OFF >"$folder/log" 2>&1 ||
        fail "configuring failed; see $folder/log"
    concerned >"$folder/concerned"
    programs >"$folder/programs"
    # shellcheck disable=SC2046 # names without spaces
    nice ninja -k 0 -C "$build" bin/weft fakecuda $(cat "$folder/programs") >>"$folder/log" 2>&1 ||
        fail "the build failed; see $folder/log"
}

run_tests() {
    timeout "$limit" ctest --test-dir "$build" "$@" -j "$cores" --stop-on-failure \
        --no-tests=error >"$folder/log.tests" 2>&1 </dev/null
}

seed
choose
construct
limit=1800 run_tests -I "0,0,1,$(cut -d ' ' -f 1 "$folder/concerned" | paste -sd ,)" || {
    tail -20 "$folder/log.tests"
    fail "the tests fail without a fault"
}
echo "$(wc -l <"$folder/concerned") tests pass without a fault"

: >"$folder/results"
total=0 caught=0 lost=0 explained=0
while IFS=$'\t' read -r number name _ expected tests; do
    total=$((total + 1)) since=$SECONDS verdict=survives
    if ! MUTANT=$number run_tests -R "$tests"; then
        caught=$((caught + 1)) verdict=caught
        [ "$expected" != survives ] || echo "caught, though its entry says that it survives: $name"
    elif [ "$expected" = survives ]; then
        explained=$((explained + 1))
        echo "survives, as its entry explains: $name"
    else
        lost=$((lost + 1))
        echo "SURVIVES: $name ($tests)"
    fi
    echo "$name $verdict $((SECONDS - since)) s" >>"$folder/results"
done <"$folder/chosen"
echo "$total faults: $caught caught, $((lost + explained)) survive, $explained of them explained"
[ "$lost" = 0 ]
