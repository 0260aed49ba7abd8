#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: readme_program.sh README
# Extracts from README the program of the section "In a program" and the lines that build and run
# it, runs these lines unchanged in a new folder, and compares the output; then builds the same
# program as a CMake project, with the section's lines for that. PATH and PKG_CONFIG_PATH are the
# caller's; the script sets no other variable for it.
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

# is_right: what the program said, whose PEs print in any order.
for pe in 0 1 2 3; do
    echo "PE $pe was given $((100 + (pe + 3) % 4))"
done >wanted
is_right() {
    sort said | diff wanted -
}

cat lines
timeout 120 sh -e lines >said
is_right

find=$(section | grep -oE 'find_package\([^`]*\)')
link=$(section | grep -oE 'target_link_libraries\([^`]*\)')
static=$(section | grep -oE 'weft::weft_static')
for library in weft::weft "$static"; do
    {
        echo 'cmake_minimum_required(VERSION 3.25)'
        echo 'project(ring LANGUAGES C)'
        echo "$find"
        echo 'add_executable(ring ring.c)'
        echo "$link" | sed "s/weft::weft/$library/"
    } >CMakeLists.txt
    rm -rf build
    cmake -G Ninja -B build >log 2>&1 && cmake --build build >>log 2>&1 || { cat log; exit 1; }
    timeout 120 weft run -n 4 build/ring >said
    is_right
done
echo "the README's program is built by the README's lines, and right"
