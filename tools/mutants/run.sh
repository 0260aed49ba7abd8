#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Seeds faults and sees whether the tests notice; see README.md beside this. From the repository's
# root: tools/mutants/run.sh [--short] [--resume] [REGEX of names], or
# tools/mutants/run.sh --random N --seed S [--budget SECONDS] [--tests REGEX] [FOLDER...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ "${1:-}" = --random ]; then
    if [[ ! ${2:-} =~ ^[0-9]+$ || ${3:-} != --seed || ! ${4:-} =~ ^[0-9]+$ ]]; then
        echo "usage: ./dev mutants --random N --seed S [--budget SECONDS] [--tests REGEX] [FOLDER...]" >&2
        exit 2
    fi
    exec tools/mutants/random.sh "$2" "$4" "${@:5}"
fi

short=0 resume=0 only=.
while [ $# -gt 0 ]; do
    case $1 in
    --short) short=1 ;;
    --resume) resume=1 ;;
    -*) echo "usage: tools/mutants/run.sh [--short] [--resume] [REGEX]" >&2 && exit 2 ;;
    *) only=$1 ;;
    esac
    shift
done

root=$PWD
# The short form has a build of its own: it takes less time to make.
folder=$root/build-mutants
[ "$short" = 0 ] || folder=$root/build-mutants/short
tree=$folder/tree
build=$folder/build
results=$folder/results
cores=$(nproc)
mkdir -p "$folder" "$results"

fail() {
    echo "mutants: $*" >&2
    exit 2
}

seed() {
    cc -O1 -D_GNU_SOURCE -o "$folder/seed" tools/mutants/seed.c || fail "cannot build seed.c"
    git ls-files -co --exclude-standard >"$folder/files" 2>/dev/null ||
        find . -type f -not -path './build*' -not -path './.git/*' -printf '%P\n' >"$folder/files"
    # The short form seeds its own entries alone, and so ends for no other one.
    cat tools/mutants/faults/*.txt |
        awk -v RS= -v ORS='\n\n' -v short="$short" '!short || /\nshort\n/' >"$folder/faults"
    "$folder/seed" "$root" "$tree" "$folder/faults" <"$folder/files" >"$folder/list" ||
        fail "entries above no longer fit the source"
    # What has gone from the source goes from the copy.
    (cd "$tree" && find . -type f | sed 's,^\./,,') | sort >"$folder/have"
    sort "$folder/files" | comm -13 - "$folder/have" | (cd "$tree" && xargs -r -d '\n' rm -f)
}

choose() {
    awk -F '\t' -v only="$only" '$3 ~ only' "$folder/list" >"$folder/chosen"
    [ -s "$folder/chosen" ] || fail "no fault has that name"
}

# Names of the tests that concern the chosen faults. Each expression by itself: ctest takes no
# expression with more than 32 parentheses.
concerned() {
    cut -f6 "$folder/chosen" | sort -u | while read -r tests; do
        ctest --test-dir "$build" -N -R "$tests" | sed -n 's/^ *Test *#[0-9]*: //p' | grep . ||
            fail "no test is called $tests"
    done | sort -u
}

# The programs that these tests run, as names of what the build makes.
programs() {
    find "$build" -name CTestTestfile.cmake -exec cat {} + |
        awk -v build="$build/" '
            NR == FNR { wanted[$1]; next }
            match($0, /^add_test\(\[=\[[^]]*/) && substr($0, 13, RLENGTH - 12) in wanted {
                for (rest = $0; match(rest, build "(bin|lib)/[A-Za-z0-9_.-]+");
                     rest = substr(rest, RSTART + RLENGTH))
                    print substr(rest, RSTART + length(build), RLENGTH - length(build))
            }' "$folder/concerned" - | sort -u
}

construct() {
    # What the short form needs it compiles quickly: it runs for a moment only.
    local flags=(-DCMAKE_BUILD_TYPE=RelWithDebInfo)
    [ "$short" = 0 ] ||
        flags=(-DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O0 -DWEFT_REDUCED=ON -DWEFT_SHORT=ON)
    cmake -S "$tree" -B "$build" -G Ninja "${flags[@]}" -DBUILD_TESTING=ON \
        -DWEFT_WERROR=OFF -DWEFT_KERNEL_COMPILER=none -DWEFT_GPU_KERNELS=OFF >"$folder/log" 2>&1 ||
        fail "configuring failed; see $folder/log"
    concerned >"$folder/concerned"
    programs >"$folder/programs"
    # Stand-ins are found by name, as far as this machine has what they are built from; tests of the short form need none.
    local standin
    for standin in fakecuda fakehip fakenvml fakefabric fakecufile fakegdr fakerm weft_hca; do
        [ "$short" = 1 ] || ! ninja -C "$build" -t query "$standin" >/dev/null 2>&1 ||
            echo "$standin" >>"$folder/programs"
    done
    nice xargs -a "$folder/programs" ninja -k 0 -C "$build" -j "$cores" >>"$folder/log" 2>&1 ||
        fail "the build failed; see $folder/log"
}

# The faults that still have to be judged: with --resume, those whose entry has changed since, that
# were not to be judged then, or that have no result.
remaining() {
    local number sum name rest before verdict
    while IFS=$'\t' read -r number sum name rest; do
        before='' verdict=''
        [ "$resume" = 0 ] || IFS=$'\t' read -r before verdict _ 2>/dev/null <"$results/$name" || true
        [ "$before" = "$sum" ] && [ "$verdict" != unsure ] ||
            printf '%s\t%s\t%s\t%s\n' "$number" "$sum" "$name" "$rest"
    done <"$folder/chosen"
}

# As many at once as there are CPUs, each with one test at a time: tests of faults wait a lot.
judge_all() {
    remaining >"$folder/remaining"
    [ "$(wc -l <"$folder/remaining")" != 0 ] || return 0
    while IFS=$'\t' read -r _ _ name _; do rm -f "$results/$name"; done <"$folder/remaining"
    rm -rf "$folder"/lane-*
    [ "$resume" = 1 ] || rm -f "$folder/times"
    FOLDER=$folder xargs -a "$folder/remaining" -d '\n' -P "$cores" -n 1 --process-slot-var=LANE \
        nice tools/mutants/judge.sh || fail "a fault could not be judged"
}

report() {
    local name expected tests verdict what total=0 caught=0 survive=0 explained=0 unsure=0
    while IFS=$'\t' read -r _ _ name _ expected tests; do
        IFS=$'\t' read -r _ verdict what _ <"$results/$name" || fail "no result of $name"
        total=$((total + 1))
        case $verdict in
        caught | hangs)
            caught=$((caught + 1))
            [ "$expected" != survives ] || echo "caught, though its entry says that it survives: $name"
            ;;
        survives)
            survive=$((survive + 1))
            if [ "$expected" = survives ]; then
                explained=$((explained + 1))
                echo "survives, as its entry explains: $name"
            else
                echo "SURVIVES: $name ($tests)"
            fi
            ;;
        *)
            unsure=$((unsure + 1))
            echo "UNSURE: $name: $what fails without the fault too"
            ;;
        esac
    done <"$folder/chosen"
    echo "$total faults: $caught caught, $survive survive, $explained of them explained;" \
        "$unsure not judged, by $SECONDS s"
    [ $((survive - explained + unsure)) = 0 ]
}

seed
choose
construct
echo "$(wc -l <"$folder/chosen") faults, concerned are $(wc -l <"$folder/concerned") tests; built after $SECONDS s"
judge_all
report
