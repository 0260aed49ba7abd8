# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: saying what is done, keeping the log, configuring and building.

log=build/log
cores=$(nproc)
# Where ccache is installed, clones of one commit share what it keeps, wherever they lie.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() {
    printf '%s\n' "$*"
}

fail() {
    printf './dev: %s\n' "$*" >&2
    exit 1
}

# The part of an output that tells of a failure: of ctest, the end of what each failed test said;
# of all else, the end.
important() {
    awk '
        function show(    i) {
            for (i = n > 26 ? n - 24 : 2; bad && i <= n; i++) print "  " block[i]
            n = bad = 0
        }
        { line[NR] = $0 }
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
            show()
            if (/\*\*\*/ && !/\*\*\*(Skipped|Not Run .Disabled)/) { bad = found = 1; print "  " $0 }
        }
        /^ +Start +[0-9]+: / || /tests passed,/ { show() }
        { block[++n] = $0 }
        END { show(); if (!found) for (i = NR > 40 ? NR - 39 : 1; i <= NR; i++) print "  " line[i] }'
}

# step WORDS COMMAND...: a line with the words and the time it took. The command's output goes to
# the log; when it fails, the end of it is shown.
step() {
    local words=$1 began=$SECONDS from
    shift
    [ ! -t 1 ] || printf '%s ...' "$words"
    printf '\n== %s\n$ %s\n' "$words" "$*" >>"$log"
    from=$(wc -c <"$log")
    if "$@" >>"$log" 2>&1 </dev/null; then
        [ ! -t 1 ] || printf '\r\033[K'
        printf '%s: %d s\n' "$words" $((SECONDS - began))
        return 0
    fi
    [ ! -t 1 ] || printf '\r\033[K'
    printf '%s: FAILED after %d s\n' "$words" $((SECONDS - began))
    printf -- '---- what it said; all of it is in %s\n' "$log"
    tail -c "+$((from + 1))" "$log" | important
    printf -- '----\n'
    return 1
}

# Warnings are errors with the compilers and the kinds of build that the project is checked with;
# another's shall not stop somebody who only wants to see Weft run. (The instruments of a sanitizer
# make gcc see uninitialised variables where there are none.)
werror() {
    case $1:$("$2" -dumpversion 2>/dev/null) in
    default:12* | clang:14.0.*) echo ON ;;
    *) echo OFF ;;
    esac
}

folder_of() {
    [ "$1" = default ] && echo build || echo "build-$1"
}

# configure PRESET [option of cmake ...]: with the tests where what they need is here; ./dev test sees to that.
configure() {
    local preset=$1 compiler=cc testing=OFF launcher= all=ON kernels=()
    shift
    ! pkg-config --exists cmocka || testing=ON
    # gcc takes half as long again for instruments.
    case $preset in clang | asan) compiler=clang ;; esac
    ! command -v ccache >/dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
    # Where no GPU runs them, a few programs show that kernels compile. ./dev test optimises them
    # less, assembles no PTX, and compiles none for AMD GPUs, of weft bench, or of NVSHMEM programs;
    # ./dev long does all that.
    [ -e /dev/nvidiactl ] || [ -n "${all_kernels:-}" ] || all=OFF
    # What an earlier demo or test has chosen.
    [ "$preset" != default ] ||
        kernels=(-DWEFT_GPU_KERNELS=ON -UWEFT_HIP_KERNELS -UWEFT_KERNEL_COMPILER -UWEFT_GPU_ARCHITECTURES -UWEFT_NVCC_FLAGS
            -UWEFT_CUDA_GENCODE -UWEFT_CLANG_FLAGS -UWEFT_BENCH_KERNELS -UCMAKE_EXE_LINKER_FLAGS)
    if [ -n "${demo_kernels:-}" ] && [ -e /dev/nvidiactl ]; then
        # The driver compiles them in seconds.
        kernels+=(-DWEFT_GPU_ARCHITECTURES=)
    elif [ -n "${demo_kernels:-}" ]; then
        kernels+=(-DWEFT_GPU_KERNELS=OFF -DWEFT_KERNEL_COMPILER=none)
    elif [ $all = OFF ] && [ -n "${quick_kernels:-}" ]; then
        kernels+=('-DWEFT_NVCC_FLAGS=-Xcicc;-O1;-Xptxas;-O0' -DWEFT_GPU_ARCHITECTURES= -DWEFT_HIP_KERNELS=OFF
            -DWEFT_CUDA_GENCODE=-gencode=arch=compute_75,code=compute_75 -DWEFT_CLANG_FLAGS=-O1
            -DWEFT_BENCH_KERNELS=OFF)
    fi
    # lld links in half the time: programs with instruments, and the hundreds that tests run. Ninja
    # starts one for each CPU, so threads of its own only cost.
    case $preset:${quick_kernels:-} in
    asan:* | tsan:* | default:1)
        ! command -v ld.lld >/dev/null ||
            kernels+=("-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -Wl,--threads=1")
        ;;
    esac
    cmake --preset "$preset" -DBUILD_TESTING=$testing -DWEFT_ALL_KERNELS=$all $launcher \
        -DWEFT_WERROR="$(werror "$preset" "$compiler")" -DWEFT_RUN_ONLY=OFF -DWEFT_UNITY=OFF \
        ${kernels[@]+"${kernels[@]}"} "$@"
}

# build PRESET TARGET...
build() {
    local preset=$1 folder
    folder=$(folder_of "$preset")
    shift
    step "configuring $folder" configure "$preset" &&
        step "building $folder ($cores at a time)" \
            nice cmake --build "$folder" -j "$cores" --target "$@"
}

# targets_of FOLDER [ctest selection]: what those tests run or load, as targets of ninja. A test that
# gets the build folder itself needs all; one that gets its bin, what a user's program needs. The
# library finds the software adapter by itself.
targets_of() {
    local folder=$1
    shift
    # What ctest itself would tell leaves out the programs that are not there yet.
    ctest --test-dir "$folder" -N "$@" | sed -nE 's/^ *Test +#[0-9]+: ([^ ]+).*/\1/p' |
        awk 'NR == FNR { wanted[$1] = 1; next }
             /^(add_test|set_tests_properties)\(/ {
                 name = $1
                 gsub(/^[a-z_]*\((\[=*\[)?|\]=*\]$/, "", name)
                 sub(/_BACKTRACE_TRIPLES.*/, "")
                 if (name in wanted) print
             }' - $(find "$folder" -name CTestTestfile.cmake) |
        sed "/gda\\|hca\\|verbs/s,\$, $PWD/$folder/lib/weft-hca," |
        { grep -oE "$PWD/$folder(/[^\" ;:]+)?" || true; } | sort -u | sed "s,^$PWD/$folder/*,," |
        awk 'NR == FNR { rule[substr($1, 1, length($1) - 1)] = $2; next }
             $0 == "" { print "all"; next }
             $0 == "bin" { print "weft\nweft_static\nweft_command"; next }
             $0 in rule && rule[$0] != "phony" { print; next }
             { for (t in rule)
                   if (index(t, $0 "/") == 1 && rule[t] ~ /^C_.*(LINKER|COMPILER)/) print t }' \
            <(ninja -C "$folder" -t targets all) - | sort -u
}
