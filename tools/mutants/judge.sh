#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One fault: runs its tests one after another, with it and without it, until one tells them apart.
# Called by run.sh, with the fault's line of the list; writes results/NAME: sum, verdict, test, seconds.
set -euo pipefail
IFS=$'\t' read -r number sum name _ _ tests <<<"$1"
since=$SECONDS
# shellcheck disable=SC2153 # by xargs
lane=$FOLDER/lane-$LANE
mark=MUTANT_RUN=$$
times=$FOLDER/times # a test and the seconds that it takes without a fault, a line each
longest=300         # seconds, for a test without a fault

# Two runs of ctest in one folder would write the same files.
mkdir -p "$lane"
echo "subdirs(\"$FOLDER/build\")" >"$lane/CTestTestfile.cmake"

# What a test left running, of those started here alone.
end_left() {
    local process
    for process in $(grep -lzx "$mark" /proc/[0-9]*/environ 2>/dev/null | tr -cd '0-9\n'); do
        kill -9 "$process" 2>/dev/null || true
    done
}

# run FAULT LIMIT TEST: 0 passes, 124 or 137 time is up, else it fails.
run() {
    local status=0
    env "$mark" "MUTANT=$1" timeout -k 5 "$2" ctest --test-dir "$lane" -R "^${3//./\\.}\$" \
        --no-tests=error >"$lane/log" 2>&1 </dev/null || status=$?
    end_left
    return $status
}

time_of() {
    awk -v test="$1" '$1 == test { s = $2 } END { print s }' "$times" 2>/dev/null
}

# So long is a hang; when it was the machine that hung, the test without the fault tells.
limit_of() {
    echo $((10 + 3 * $(time_of "$1")))
}

end() {
    printf '%s\t%s\t%s\t%s\n' "$sum" "$1" "$2" $((SECONDS - since)) >"$FOLDER/results/$name.new"
    mv "$FOLDER/results/$name.new" "$FOLDER/results/$name"
    printf '%-40s %-9s %s (%s s)\n' "$name" "$1" "$2" $((SECONDS - since))
    exit 0
}

# The tests, those that are known first, the quickest of them first, so that little is spent on what
# others tell as well.
in_order() {
    ctest --test-dir "$lane" -N -R "$tests" | sed -n 's/^ *Test *#[0-9]*: //p' | while read -r test; do
        seconds=$(time_of "$test")
        echo "${seconds:-1000} $test"
    done | sort -sn | cut -d ' ' -f 2
}

learn_time() {
    local before=$SECONDS
    [ -z "$(time_of "$1")" ] || return 0
    run 0 $longest "$1" || end unsure "$1"
    echo "$1 $((SECONDS - before))" >>"$times"
}

for test in $(in_order); do
    learn_time "$test"
    for _ in 1 2 3; do
        status=0
        run "$number" "$(limit_of "$test")" "$test" || status=$?
        [ $status != 0 ] || continue 2
        verdict=caught limit=$longest
        case $status in 124 | 137) verdict=hangs limit=$(limit_of "$test") ;; esac
        # Only a test that passes without the fault, and a hang only if in the same time, tells of it.
        ! run 0 "$limit" "$test" || end $verdict "$test"
    done
    cp "$lane/log" "$FOLDER/results/$name.log"
    end unsure "$test"
done
end survives -
