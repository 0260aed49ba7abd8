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

# What `./dev test` runs in the folders beside build/: short forms of `./dev asan` and `./dev tsan`,
# and how it builds them: of the command what starts jobs, and without instruments what the tests do
# not run. Each expression leaves out what others under AddressSanitizer, or the same test in build/,
# show too; ./dev asan runs all. (Groups are spelled out by the shell: CMake's expressions know nine.)
without_asan=(
    # Device code makes large programs, and its lanes use the host's memory only through the library.
    '^device\.' simt.{video,offload,train,experts} train_gradient
    # The software adapter and machine files are under AddressSanitizer in the fuzz targets.
    gda hca verbs machine bench '^job\.dc'
    # Scripts that compile programs of their own, without the instruments, and what looks at the tree.
    install coverage reference demo checkpoint jacobi solver layout pages documented attach
    # Other numbers of PEs, paths and orders touch the same code.
    '\.[3-9]$' '[0-9][0-9]$' '\.weak' '^job.*\.p2p\.1$'
    '\.slow' delayed reordered placed last_way leftovers limits reduce_typed reduce_values amo_typed
    team.staged gpu_relay.{near,far,pcie,two,none,slow} gpu_rma.relay gpu_stripe
    gpu_coll_strided.{packets,direct,scratch,engines,host} gpu_coll_stream.{copies,host}
    gpu_staged.{untold,mapped} gpu_map.{by_staged,dmabuf_alone}
    gpu_net gpu_late_room paths.long_reason '\.amd$' coll_dead
    # Long computations, whose values matter and not their addresses.
    '^job\.'{file_disks,reducescatter,net.keys,net.reads} '^unit\.proxy' gpu_coll_scratch
    boot_exchange.rank
)
asan_covered=$(grep -v '^#' tools/dev/asan_covered.txt | sed 's/\./\\./g' | paste -sd '|')
short_asan=(-L '^(unit|job|gpu|simt)$' -LE '^(long|cli)$'
    -E "$(IFS='|' && echo "${without_asan[*]}")|^($asan_covered)\$")
short_sanitizer=(-DWEFT_RUN_ONLY=ON -DWEFT_UNITY=ON)
short_tsan=(-R '^unit\.(group|heap|config|wire|simt_(spin|warp|memory)|proxy)|^job\.threads\.(p2p|slow|staged|net_tcp)|^device\.signal\.1$|^device\.packet\.weak\.2$')

# The short form of `./dev arm`: atomics, what goes over the wire, allocation, the contexts of lanes,
# packets; jobs of two PEs, one of them over the network.
short_arm=(-R '^unit\.(alloc|heap|handshake|net_message|reduce_arithmetic|siphash|simt_(warp|memory))$|^job\.((rma|atomic)\.p2p|atomic\.net_tcp)\.2$|^device\.packet\.weak\.2$')

# prepare PRESET TARGET... | prepare PRESET ctest-selection... | prepare site | prepare faults: configures,
# and builds the targets, or all that the selected tests run; makes the site; or seeds a dozen faults.
prepare() {
    local preset=$1 folder
    if [ "$preset" = site ]; then
        nice -n 15 tools/site.sh build
        return
    fi
    if [ "$preset" = faults ]; then
        tools/mutants/run.sh --short
        return
    fi
    folder=$(folder_of "$1")
    shift
    configure "$preset" ${short_form[@]+"${short_form[@]}"} || return
    case $1 in
    -*)
        # What starts jobs is this machine's own where the tests are of another architecture.
        nice -n 15 ninja -C "$folder" -j "$cores" $([ "$preset" = arm-short ] || echo weft_command) \
            $(targets_of "$folder" "$@" | grep -vx bin/weft)
        ;;
    *) nice -n 15 ninja -C "$folder" -j "$cores" "$@" ;;
    esac
}

# The folders beside build/ are built while the tests of build/ run: those wait more than they compute.
prepare_in_background() {
    rm -f build/prepared-*
    (
        # Each in a process group of its own, so that all of it can be ended.
        set -m
        trap 'kill -- "-$building" 2>/dev/null; exit 1' TERM
        for preset in asan tsan arm-short clang site faults; do
            [ $preset != arm-short ] || [ -z "$(arm_missing)" ] || continue
            case $preset in
            asan) selection=("${short_asan[@]}") short_form=("${short_sanitizer[@]}") ;;
            tsan) selection=("${short_tsan[@]}") short_form=("${short_sanitizer[@]}") ;;
            arm-short) selection=("${short_arm[@]}") short_form=() ;;
            clang) selection=(fuzz_targets) short_form=(-DWEFT_UNITY=ON) ;;
            site | faults) selection=() ;;
            esac
            prepare "$preset" "${selection[@]}" >"build/prepare-$preset.log" 2>&1 </dev/null &
            building=$!
            wait $building && echo 0 >"build/prepared-$preset" || echo 1 >"build/prepared-$preset"
        done
    ) &
    preparing=$!
    trap 'kill $preparing 2>/dev/null || true' EXIT
}

# The outcome of building PRESET in the background, or else by building it now.
prepared() {
    local preset=$1
    if [ -n "${preparing:-}" ]; then
        while [ ! -e "build/prepared-$preset" ] && kill -0 "$preparing" 2>/dev/null; do
            sleep 0.2
        done
        cat "build/prepare-$preset.log" 2>/dev/null
        [ "$(cat "build/prepared-$preset" 2>/dev/null)" = 0 ]
    else
        prepare "$@"
    fi
}

check_prepared() {
    step "building build-$1" prepared "$@" && return
    failed+=("building with preset $1")
    return 1
}

# What a test needs that is not installed by ./dev: named, so that nobody takes its absence for a pass.
note_absent() {
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] ||
        skip "programs with CUDA C++, cubins: no nvcc and no ptxas here (CUDA toolkit)"
    [ -e /dev/nvidiactl ] || skip "tests on a GPU: none here; kernels ran on the stand-in"
}

# tests FOLDER WORDS COMMAND...: COMMAND is ctest with what selects the tests, perhaps under another.
# Three at a time for each CPU: they wait, for each other and for time to pass, more than they compute.
tests() {
    local folder=$1 words=$2 name
    shift 2
    check "$words" "$@" --test-dir "$folder" --output-on-failure --no-tests=error \
        -j $((3 * cores)) --output-log "$folder/tests.log"
    sed -nE 's/^[0-9]+% tests passed.* out of ([0-9]+)$/    \1 tests/p' "$folder/tests.log"
    # Tests that skipped themselves (exit status 77).
    while read -r name; do
        skipped+=("$words: $name")
    done < <(sed -nE 's/.*[0-9]+ - ([^ ]+) \((Skipped|Disabled)\)$/\1/p' "$folder/tests.log")
}

# run_asan [ctest selection]: without one, the tests that neither kill PEs on purpose nor look at
# things in which instruments find nothing.
run_asan() {
    [ $# -gt 0 ] || set -- -L 'unit|job|simt|shmem|device|gpu|cli|nvshmem|hca'
    check_prepared asan "$@" || return 0
    # What libraries of the system leave behind is not ours; to know theirs, stacks must be whole.
    local options="suppressions=$PWD/tools/dev/leaks.txt:print_suppressions=0"
    tests build-asan "tests under AddressSanitizer" \
        env LSAN_OPTIONS="$options" ASAN_OPTIONS=fast_unwind_on_malloc=0 ctest "$@"
}

# run_tsan [ctest selection]: it sees races within one process only, so without a selection only the
# tests whose PEs or lanes are threads.
run_tsan() {
    [ $# -gt 0 ] || set -- -R '^(unit|simt|device)\.|threads'
    check_prepared tsan "$@" || return 0
    # ThreadSanitizer cannot map its shadow where the kernel spreads addresses too widely.
    local fixed=(setarch "$(uname -m)" -R)
    "${fixed[@]}" true 2>/dev/null || fixed=()
    tests build-tsan "tests under ThreadSanitizer" ${fixed[@]+"${fixed[@]}"} ctest "$@"
}

# What the short form for 64-bit Arm needs and this machine lacks.
arm_missing() {
    missing_packages cross arm_test
    [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || echo "qemu-aarch64, registered with the kernel"
}

# Jobs of Arm processes are started by this machine's own launcher, because qemu-user has no
# clone(CLONE_PIDFD).
run_arm_short() {
    local missing
    missing=$(arm_missing | paste -sd ' ')
    if [ -n "$missing" ]; then
        skip "tests on 64-bit Arm by qemu-user: not here: $missing (./dev arm short installs it)"
        return
    fi
    check_prepared arm-short "${short_arm[@]}" || return 0
    mkdir -p build-arm-short/bin && cp build/bin/weft build-arm-short/bin/weft
    tests build-arm-short "tests on 64-bit Arm" ctest "${short_arm[@]}"
}

# fuzz_one SECONDS TARGET
fuzz_one() {
    local name=${2##*/fuzz_} folders status=0
    folders=build-clang/tests/fuzz/found/$name
    mkdir -p "$folders"
    [ ! -d "tests/fuzz/corpus/$name" ] || folders="$folders tests/fuzz/corpus/$name"
    # Not by a signal: the handler of libFuzzer prints and allocates, and now and then never ends.
    # shellcheck disable=SC2086  # folders without spaces
    timeout -k 10 "$(($1 + 120))" "$2" -max_total_time="$1" -max_len=4096 -rss_limit_mb=1024 \
        -artifact_prefix="build-clang/crash-$name-" $folders >"build-clang/fuzz-$name.log" 2>&1 || status=$?
    [ $status != 0 ] || return 0
    echo "the fuzz target $name ended with status $status:"
    tail -n 60 "build-clang/fuzz-$name.log"
    return 1
}

# run_fuzz SECONDS: all targets, two at once for each CPU (each ends up to a second late).
run_fuzz() {
    check_prepared clang fuzz_targets || return 0
    export -f fuzz_one
    check "fuzzing $(ls build-clang/bin/fuzz_* | wc -l) parsers for $1 s each" \
        bash -c "ls build-clang/bin/fuzz_* | xargs -P $((2 * cores)) -I{} bash -c 'fuzz_one $1 {}'"
}

# sources NAME...: the files of that name in the folders that hold our own code.
modules=(include src standin cli examples bench tests tools)

sources() {
    local module
    for module in "${modules[@]}"; do
        [ ! -d "$module" ] || find "$module" -name "$@" -type f
    done | sort
}

check_format() {
    local tool
    if tool=$(find_tool clang-format 14); then
        sources '*.[ch]' -o -name '*.cu' >build/sources
        check "format" xargs -a build/sources -P "$cores" -n 50 "$tool" --dry-run -Werror
    else
        skip "format: clang-format 14 is not here (package clang-format-14)"
    fi
}

# Every source that gcc compiled is without a warning under clang, too; but those under PATTERN.
check_clang() {
    # shellcheck disable=SC2016  # for the shell that xargs starts
    sed -nE 's/^ *"command": "(.*)",?$/\1/p' build/compile_commands.json | sed 's/\\\(.\)/\1/g' |
        grep -vE "$1" |
        sed -E 's/^(ccache |[^ ]*ccache )?[^ ]+ /clang -fsyntax-only -Wno-unknown-warning-option /; s/ -o [^ ]+ -c / /; s/ -O[0-3]//g' \
            >build/clang-commands
    check "warnings of clang" xargs -a build/clang-commands -d '\n' -P "$cores" -n 1 sh -c
}

# tidy_units folders|files REGEX EXCEPT: makes build/tidy, what clang-tidy is to look at: of the sources of
# build/ whose path matches the first expression, but not the second, those of one folder and one
# command in one unit, which takes a third of the time, or each alone: the analyzer looks at no
# function of an included file. Only what this machine's configuration
# compiles: the others have no command to check with.
tidy_units() {
    rm -rf build/tidy && mkdir build/tidy
    awk -v way="$1" -v regex="$2" -v except="$3" -v root="$PWD" '
        BEGIN { print "[" }
        /^ *"command": / { command = $0; sub(/ -o [^ ]+ -c [^ ]+",?$/, "", command) }
        /^ *"file": / {
            file = $0
            gsub(/^ *"file": "|",?$/, "", file)
            if (file !~ regex || file ~ except || seen[file]++) next
            folder = file
            sub(/\/[^\/]*$/, "", folder)
            # The routines of OpenSHMEM include their own inline forms in different ways, and
            # src/tool/scale_*.c give the functions of a header other names.
            alone = way == "files" || index(folder, root "/src/") != 1 && index(folder, root "/cli") != 1 || folder ~ /shmem/ || file ~ /tool\/scale_/
            key = alone ? file : folder command
            if (!(key in unit)) {
                unit[key] = alone ? file : sprintf("%s/build/tidy/%d.c", root, units)
                print unit[key] > (root "/build/tidy/list")
                printf "%s{ \"directory\": \"%s/build\",\n%s -c %s\",\n  \"file\": \"%s\" }", \
                    units++ ? ",\n" : "", root, command, unit[key], unit[key]
            }
            if (!alone) printf "#include \"%s\"\n", file > unit[key]
            n++
        }
        END { print "\n]"; print n > (root "/build/tidy/files") }' build/compile_commands.json >build/tidy/compile_commands.json
}

# check_tidy folders|files REGEX EXCEPT [option ...]: clang-tidy of the sources that tidy_units chooses.
check_tidy() {
    local tool
    if ! tool=$(find_tool clang-tidy 14); then
        skip "clang-tidy: version 14 is not here (package clang-tidy-14)"
        return
    fi
    tidy_units "$1" "$2" "$3"
    shift 3
    check "clang-tidy of $(cat build/tidy/files) files" xargs -a build/tidy/list -P "$cores" -n 4 \
        "$tool" -p build/tidy --config-file=.clang-tidy --quiet --warnings-as-errors='*' "$@"
}

verb_test() {
    # shellcheck disable=SC2034  # for configure
    quick_kernels=1
    build default all || exit 1
    prepare_in_background
    tests build "tests" ctest -LE 'fuzz|hosts|^long$'
    note_absent
    check_format
    run_asan "${short_asan[@]}"
    run_tsan "${short_tsan[@]}"
    run_arm_short
    run_fuzz 1
    check "a dozen faults on purpose" prepared faults
    # With what clang itself warns of. ./dev lint has the analyzer, which takes ten times as long, and
    # the other sources.
    check_tidy folders '/(src|cli)/.*\.c$' '/tests/' --checks='-clang-analyzer-*,clang-diagnostic-*'
    check "site of the documentation" prepared site
    summary
}

# near_tests NAME < names: the five names that share most runs of three letters with NAME.
near_tests() {
    awk -v name="$1" '
        BEGIN { for (i = 1; i <= length(name) - 2; i++) run[substr(name, i, 3)] }
        { n = 0; for (i = 1; i <= length($0) - 2; i++) n += substr($0, i, 3) in run
          if (n) printf "%d %d %s\n", n, length($0), $0 }' |
        sort -k1,1nr -k2,2n | head -n 5 | cut -d' ' -f3-
}

# ./dev check NAME: a test, or all whose names begin with "NAME.".
verb_check() {
    [ $# = 1 ] || {
        say "./dev check takes the name of a test (all: ctest --test-dir build -N)" >&2
        exit 2
    }
    if ! grep -qs '^BUILD_TESTING:.*=ON' build/CMakeCache.txt; then
        # shellcheck disable=SC2034  # for configure
        quick_kernels=1
        step "configuring build" configure default || exit 1
    fi
    # What a changed CMakeLists.txt has added.
    step "renewing the list of tests" nice ninja -C build build.ninja || exit 1
    local names name regex
    names=$(ctest --test-dir build -N | sed -nE 's/^ *Test +#[0-9]+: ([^ ]+).*/\1/p')
    for name in "$1" "$1."; do
        regex="^$(sed 's/[][\.*^$()+?{|]/\\&/g' <<<"$name")"
        [ "$name" = "$1." ] || regex+='$'
        ! grep -qE "$regex" <<<"$names" || break
        [ "$name" = "$1" ] || {
            say "./dev: no test is called \"$1\"; near:" $(near_tests "$1" <<<"$names") >&2
            exit 2
        }
    done
    local targets
    targets=$(targets_of build -R "$regex" | paste -sd ' ')
    # shellcheck disable=SC2086  # one word a target
    [ -z "$targets" ] ||
        step "building what $1 needs" nice ninja -C build -j "$cores" $targets || exit 1
    exec ctest --test-dir build -R "$regex" --output-on-failure -j "$cores"
}

verb_asan() {
    run_asan ${1:+-R "$1"}
    summary
}

verb_tsan() {
    run_tsan ${1:+-R "$1"}
    summary
}

verb_fuzz() {
    run_fuzz "${1:-60}"
    summary
}

verb_soak() {
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
    sources '*.[ch]' -o -name '*.cu' | xargs "$(find_tool clang-format 14)" -i
    say "formatted; see git diff"
}

verb_lint() {
    build default all || exit 1
    check_format
    check_clang 'tests/nvshmem/surface\.c' # each inline function twice
    check_tidy files '\.c$' '/tests/'
    check "cppcheck" cppcheck --quiet --error-exitcode=1 --inline-suppr -j "$cores" \
        --enable=warning,performance,portability \
        --suppressions-list=tools/dev/cppcheck.txt -Iinclude -Isrc -Icli src cli examples
    tests/layout/places_to_look.sh .
    summary
}

# All but the fuzz targets and the hosts, which have their own verbs.
verb_long() {
    # shellcheck disable=SC2034  # for configure
    all_kernels=1
    build default all || exit 1
    tests build "every test" ctest -LE 'fuzz|hosts'
    summary
}

# The tests whose name tells the path that they force.
verb_paths() {
    build default all || exit 1
    local path
    for path in p2p weak slow staged relay net_tcp net_shm net_nodes net_verbs gda; do
        tests build "tests over the path $path" ctest -R "\\.$path(\\.|\$)"
    done
    summary
}

# Hosts are network namespaces: needs root, or user namespaces.
verb_hosts() {
    build default all || exit 1
    tests build "jobs over several hosts" ctest -R '^hosts\.'
    summary
}

# Programs of Arm start each other, so the kernel must know who runs them (binfmt_misc).
register_arm() {
    local folder=/proc/sys/fs/binfmt_misc
    [ -e $folder/register ] || mount -t binfmt_misc none $folder
    [ -e $folder/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$folder/register
}

register_arm_step() {
    [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] ||
        step "registering qemu-aarch64 (as root)" register_arm
}

# Of the tests those are left out that need what qemu-user lacks (file systems' names, tracing,
# io_uring), count threads, of which it has one of its own, or run a script.
verb_arm() {
    build default weft_command || exit 1
    register_arm_step || exit 1
    if [ "${1:-}" = short ]; then
        run_arm_short
        summary
        return
    fi
    step "configuring build-arm" cmake -S . -B build-arm -G Ninja --toolchain cmake/aarch64.cmake \
        -DCMAKE_BUILD_TYPE=Release -DWEFT_GPU_KERNELS=OFF -DWEFT_KERNEL_COMPILER=none -DWEFT_WERROR=OFF || exit 1
    step "building build-arm" nice ninja -C build-arm -j "$cores" || exit 1
    cp build/bin/weft build-arm/bin/weft
    tests build-arm "tests on 64-bit Arm" ctest -L '^(unit|job|shmem|simt|device|litmus)$' -LE long \
        -E 'unit.(file_drive|file_faults|gpu_peers|gpu_relay|wire|install|layout|pages|man_|documented|release|dev)|file_disks|threadless' \
        ${1:+-R "$1"}
    summary
}

# Foreign calls that fail, ports that others hold, PEs that are killed: ROUNDS of the last, under weft run
# and by rank variables; a tenth of them under mpirun, which takes a second to start.
verb_faults() {
    build default all || exit 1
    tests build "faults on purpose" ctest -R '^fault\.|^unit\.gpu|faults'
    local launcher rounds=${1:-200}
    for launcher in run rank mpirun; do
        [ $launcher != mpirun ] || rounds=$((rounds / 10 + 1))
        check "killing PEs $rounds times ($launcher)" \
            build/bin/random_kills $launcher build/bin/weft build/bin/torture "$rounds"
    done
    summary
}

verb_coverage() {
    build coverage all || exit 1
    find build-coverage -name '*.gcda' -delete
    # The counters lie in the program's data, which these tests replace while threads run.
    tests build-coverage "tests, counting lines" ctest -LE fuzz -E globals_threads
    check "lines by folder" tools/coverage.sh build-coverage
    sed -n '/^lines by folder/,$p' build-coverage/coverage.txt
    summary
}
