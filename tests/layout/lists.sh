#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test that a list of tests names exists: those for ./dev long, and those that the short form of
# ./dev asan leaves out.
#   lists.sh SOURCE_FOLDER BUILD_FOLDER
set -u
lists="$1/tests/long.txt $1/tools/dev/asan_covered.txt"
tests=$(ctest --test-dir "$2" -N | sed -n 's/^ *Test *#[0-9]*: //p' | sort)
[ -n "$tests" ] || { echo "ctest lists no tests in $2"; exit 1; }
# shellcheck disable=SC2086  # two files
gone=$(grep -h '^[a-z]' $lists | sort -u | comm -23 - <(echo "$tests"))
[ -z "$gone" ] || { printf 'no test has this name, which is in %s:\n%s\n' "$lists" "$gone"; exit 1; }
