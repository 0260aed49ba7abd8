#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# calls.sh COMMAND FILE: runs `weft` with the arguments of each line of a file and prints the line,
# the output and the exit status: many small cases in one test.
set -u
unset WEFT_GOLDEN_UPDATE # no variable of Weft: `weft run` would refuse it
while IFS= read -r line; do
    case $line in '' | '#'*) continue ;; esac
    printf '$ weft %s\n' "$line"
    # Arguments may be quoted, as in a shell.
    eval "\"$1\" $line" 2>&1 </dev/null
    status=$?
    [ "$status" = 0 ] || printf 'exit status %s\n' "$status"
done <"$2"
