#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: old_style.sh BUILD
# Like a user: installs Weft, moves the folder, and builds programs with only its oshcc and oshc++.
# The old-style programs must print the text of old_style.N.txt, where N is the number of PEs; those
# texts come from another OpenSHMEM library (Open MPI 4.1.4).
set -u
sources=$(dirname "$(readlink -f "$0")")
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
cmake --install "$1" --prefix "$made/first" >"$made/log" 2>&1 || { cat "$made/log"; exit 1; }
mv "$made/first" "$made/weft here" || exit 2
bin="$made/weft here/bin"
cd "$made" || exit 2
status=0
for options in "-O2" "-O0 -std=gnu99" "-O1 -static-pie"; do
    "$bin/oshcc" $options -Wall -Wextra -Werror -o old "$sources/old_style.c" 2>log ||
        { cat log; exit 1; }
    for wanted in "$sources"/old_style.*.txt; do
        n=${wanted%.txt}
        n=${n##*.}
        "$bin/oshrun" --timeout=60 -np "$n" ./old >out 2>error
        code=$?
        if [ $code -ne 0 ] || [ -s error ] || ! diff "$wanted" out >differences; then
            echo "$options, $n PEs: exit status $code" >&2
            cat error differences >&2
            status=1
        fi
    done
done
"$bin/oshc++" -O2 -std=c++11 -Wall -Wextra -o cxx "$sources/cxx.cpp" && "$bin/oshrun" -np 3 ./cxx ||
    status=1
exit $status
