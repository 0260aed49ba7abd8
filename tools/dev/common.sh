# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev: saying what is done, keeping the log, configuring and building.

log=build/log
cores=$(nproc)
mkdir -p build
: >"$log"

say() {
    printf '%s\n' "$*"
}

fail() {
    printf './dev: %s\n' "$*" >&2
    exit 1
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
    printf -- '---- the end of its output; all of it is in %s\n' "$log"
    tail -c "+$((from + 1))" "$log" | tail -n 40
    printf -- '----\n'
    return 1
}

# Warnings are errors with the compilers that the project is checked with; another compiler's new
# warning shall not stop somebody who only wants to see Weft run.
werror() {
    case $("$1" -dumpversion 2>/dev/null) in
    12 | 12.* | 14.0.*) echo ON ;;
    *) echo OFF ;;
    esac
}

# build PRESET TARGET...
build() {
    local preset=$1 folder=build compiler=cc
    shift
    [ "$preset" = default ] || folder=build-$preset
    [ "$preset" != clang ] || compiler=clang
    step "configuring $folder" cmake --preset "$preset" -DWEFT_WERROR="$(werror "$compiler")" ||
        exit 1
    step "building $folder ($cores at a time)" \
        nice cmake --build "$folder" -j "$cores" --target "$@" || exit 1
}
