# SPDX-License-Identifier: Apache-2.0
# Sourced, after net.sh. The checks of a case: exit status, output, and that nothing is left. The
# script sets `case`, `out` (a file) and `leftover` (names of programs that must have ended).
bad=0 skipped=0

fail() {
    echo "FAILED: $case: $*"
    sed 's/^/    /' "$out"
    bad=1
}

# run STATUS COMMAND...: what it says goes to $out. STATUS: "0", or any of "137|143".
run() {
    local wanted=$1 status
    shift
    timeout -k 5 "${RUN_LIMIT:-100}" "$@" >"$out" 2>&1
    status=$?
    [[ "|$wanted|" = *"|$status|"* ]] || fail "status $status in place of $wanted: $*"
    gone
}

says() { grep -qE -- "$1" "$out" || fail "nobody says: $1"; }
says_not() { ! grep -qE -- "$1" "$out" || fail "somebody says: $1"; }
# shellcheck disable=SC2086  # names, a word each
nothing_left() { [ -z "$(left $leftover)" ]; }
gone() {
    # shellcheck disable=SC2086
    await 10 nothing_left || {
        fail "left behind: $(left $leftover)"
        ps -eo pid,ppid,stat,args
    }
}

# verdict WORDS...: ends the script.
verdict() {
    [ -z "${HOSTS_SHOW:-}" ] || cat "$out"
    [ $bad = 0 ] || exit 1
    [ $skipped = 0 ] || exit 77
    echo "hosts: $* passed"
    exit 0
}
