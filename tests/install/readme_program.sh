#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: readme_program.sh README
# Takes the program of the section "In a program" and the lines that build and run it out of README, runs
# those lines as they stand in a folder of its own, and compares what the program prints. PATH and
# PKG_CONFIG_PATH are the caller's; nothing else is set for it.
set -eu
readme=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

section() {
    awk '/^## / { inside = ($0 == "## In a program") } inside' "$readme"
}
section | awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' >ring.c
section | sed -nE 's/^    (cc ring\.c .*)/\1/p' >lines
[ -s ring.c ] && [ "$(wc -l <lines)" = 1 ] || { echo "$readme has not one program and one line for it"; exit 1; }
unset LD_LIBRARY_PATH
cat lines
timeout 120 sh -e lines >said
for pe in 0 1 2 3; do
    echo "PE $pe was given $((100 + (pe + 3) % 4))"
done >wanted
sort said | diff wanted -
echo "the README's program is built by the README's line, and right"
