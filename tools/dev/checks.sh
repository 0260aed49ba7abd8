# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: the verbs that check the source. Each check passes, fails, or is named as
# skipped with the reason; a failure does not keep the others from running, and all end in one list.

passed=()
failed=()
skipped=()

# check WORDS COMMAND...: a step whose outcome stands in the summary.
check() {
    if step "$@"; then
        passed+=("$1")
    else
        failed+=("$1")
    fi
}

skip() {
    say "skipped: $*"
    skipped+=("$*")
}

summary() {
    local line
    for line in ${skipped[@]+"${skipped[@]}"}; do
        say "  skipped: $line"
    done
    for line in ${failed[@]+"${failed[@]}"}; do
        say "  FAILED: $line"
    done
    say "${#passed[@]} checks passed, ${#failed[@]} failed, ${#skipped[@]} skipped," \
        "in $((SECONDS / 60)) min $((SECONDS % 60)) s; the log is $log"
    [ ${#failed[@]} -eq 0 ]
}

# check_build PRESET TARGET...: false, and a failed check, when it cannot be built.
check_build() {
    build "$@" && return
    failed+=("building with preset $1")
    return 1
}

# What a test needs that is not installed by ./dev: named, so that nobody takes its absence for a pass.
note_absent() {
    command -v mpirun >/dev/null ||
        skip "starting under PMIx: no mpirun here (packages openmpi-bin and libpmix-dev)"
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
        skip "compiling kernels for a GPU: no nvcc here (CUDA toolkit)"
    [ -e /dev/nvidiactl ] || skip "tests on a GPU: none here; kernels ran on the stand-in"
}

# tests FOLDER WORDS COMMAND...: COMMAND is ctest with what selects the tests, perhaps under another.
tests() {
    local folder=$1 words=$2 name
    shift 2
    check "$words" "$@" --test-dir "$folder" --output-on-failure --no-tests=error \
        --output-log "$folder/tests.log"
    sed -nE 's/^[0-9]+% tests passed.* out of ([0-9]+)$/    \1 tests/p' "$folder/tests.log"
    # Tests that skipped themselves (exit status 77).
    while read -r name; do
        skipped+=("$words: $name")
    done < <(sed -nE 's/.*[0-9]+ - ([^ ]+) \((Skipped|Disabled)\)$/\1/p' "$folder/tests.log")
}

# run_asan [ctest selection]: without one, the tests that neither kill PEs on purpose nor look at
# things in which instruments find nothing.
run_asan() {
    [ $# -gt 0 ] || set -- -L 'unit|job|simt|shmem|device|gpu'
    check_build asan all || return 0
    # What libraries of the system leave behind is not ours; to know theirs, stacks must be whole.
    local options="suppressions=$PWD/tools/dev/leaks.txt:print_suppressions=0"
    tests build-asan "tests under AddressSanitizer" \
        env LSAN_OPTIONS="$options" ASAN_OPTIONS=fast_unwind_on_malloc=0 ctest "$@"
}

# run_tsan [ctest selection]: it sees races within one process only, so without a selection only the
# tests whose PEs or lanes are threads.
run_tsan() {
    [ $# -gt 0 ] || set -- -R '^(unit|simt|device)\.|threads'
    check_build tsan all || return 0
    # ThreadSanitizer cannot map its shadow where the kernel spreads addresses too widely.
    local fixed=(setarch "$(uname -m)" -R)
    "${fixed[@]}" true 2>/dev/null || fixed=()
    tests build-tsan "tests under ThreadSanitizer" ${fixed[@]+"${fixed[@]}"} ctest "$@"
}

run_fuzz() {
    local seconds=$1 target name seeds found
    check_build clang all || return 0
    for target in build-clang/bin/fuzz_*; do
        name=${target##*/fuzz_}
        seeds=tests/fuzz/corpus/$name
        found=build-clang/tests/fuzz/found/$name
        mkdir -p "$found"
        check "fuzzing $name" "$target" -max_total_time="$seconds" -max_len=4096 \
            -rss_limit_mb=1024 -artifact_prefix="build-clang/crash-$name-" "$found" \
            $([ ! -d "$seeds" ] || echo "$seeds")
    done
}

# sources NAME...: the files of that name in the folders that hold our own code.
rooms=(include src standin cli examples bench tests tools)

sources() {
    local room
    for room in "${rooms[@]}"; do
        [ ! -d "$room" ] || find "$room" -name "$@" -type f
    done | sort
}

check_format() {
    local tool
    if tool=$(find_tool clang-format 14); then
        sources '*.[ch]' -o -name '*.cu' >build/sources
        check "format" xargs -a build/sources "$tool" --dry-run -Werror
    else
        skip "format: clang-format 14 is not here (package clang-format-14)"
    fi
}

verb_test() {
    need_packages build test docs fuzz format
    build default all || exit 1
    tests build "tests" ctest -LE fuzz
    note_absent
    # A short form of `./dev asan` and `./dev tsan`, which run everything they can.
    run_asan -L '^(unit|job|shmem)$' -E 'machine|bench|demo|install|package'
    run_tsan -R '^unit\.(group|heap|config|wire|simt)|^job\.threads'
    run_fuzz 5
    check_format
    summary
}

verb_asan() {
    need_packages build test
    run_asan ${1:+-R "$1"}
    summary
}

verb_tsan() {
    need_packages build test
    run_tsan ${1:+-R "$1"}
    summary
}

verb_fuzz() {
    need_packages build test fuzz
    run_fuzz "${1:-60}"
    summary
}

verb_soak() {
    need_packages build test
    build default all || exit 1
    local end=$((SECONDS + ${1:-10} * 60)) round=0
    while [ $SECONDS -lt $end ]; do
        round=$((round + 1))
        step "round $round" ctest --test-dir build --output-on-failure -L 'job|litmus|fault' ||
            fail "a test failed in round $round; the log is $log"
    done
    say "$round rounds, no failure"
}

verb_format() {
    need_packages format
    sources '*.[ch]' -o -name '*.cu' | xargs "$(find_tool clang-format 14)" -i
    say "formatted; see git diff"
}

verb_lint() {
    need_packages build test format lint
    build default all || exit 1
    check_format
    # Only what this machine's configuration compiles: the others have no command to check with.
    sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/compile_commands.json |
        grep -E '\.c$' | grep -v /tests/ | sort -u >build/sources
    check "clang-tidy" xargs -a build/sources -P "$cores" -n 8 \
        "$(find_tool clang-tidy 14)" -p build --quiet --warnings-as-errors='*'
    check "cppcheck" cppcheck --quiet --error-exitcode=1 --inline-suppr -j "$cores" \
        --enable=warning,performance,portability \
        --suppressions-list=tools/dev/cppcheck.txt -Iinclude -Isrc -Icli src cli examples
    summary
}
