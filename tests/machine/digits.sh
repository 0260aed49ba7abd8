#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts one wrong digit after another of digits.txt into a copy of a table of facts, every EVERYth of
# them, and checks that test_facts.c, which has a second table, detects each. From CMake: digits.sh
# EVERY FOLDER CC FLAGS LIBRARY...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$here/../../src
every=$1 folder=$2 cc=$3 flags=$4
shift 4
rm -rf "$folder"
mkdir -p "$folder"
options=(-D_GNU_SOURCE -std=gnu11 -O0 -w "-DMACHINES=\"$here/machines\"")

# compile FILE OBJECT: with what is in the folder in place of the source's headers.
compile() {
    # shellcheck disable=SC2086
    $cc $flags "${options[@]}" -I"$folder/over" -I"$source" -I"$source/../include" -c "$1" -o "$2"
}
# The test, with what is in the folder in place of the source: headers it sees first, objects are linked first.
build_and_run() {
    local objects=() test=$folder/test_facts.o
    for file in "$folder"/over/machine/*.c; do
        [ -e "$file" ] || continue
        compile "$file" "$folder/$(basename "$file").o"
        objects+=("$folder/$(basename "$file").o")
    done
    if [ -n "$(find "$folder/over" -name '*.h')" ]; then
        test=$folder/test_other.o
        compile "$here/test_facts.c" "$test"
    fi
    # shellcheck disable=SC2086
    $cc $flags "$test" "${objects[@]}" -o "$folder/test" "${libraries[@]}"
    "$folder/test" >"$folder/log" 2>&1
}

libraries=("$@")
mkdir -p "$folder/over/machine"
compile "$here/test_facts.c" "$folder/test_facts.o"
build_and_run || { cat "$folder/log"; echo "the test fails without a wrong digit"; exit 1; }

lines=0 tried=0 missed=0
while IFS='|' read -r file text wrong; do
    [[ $file = \#* ]] && continue
    lines=$((lines + 1))
    [ $((lines % every)) = 0 ] || continue
    rm -rf "$folder/over" && mkdir -p "$folder/over/machine"
    content=$(cat "$source/../$file")
    if [ "${content/"$text"/}" = "$content" ]; then
        echo "digits.txt: $file has no \"$text\" any more" && exit 1
    fi
    printf '%s\n' "${content/"$text"/"$wrong"}" >"$folder/over/machine/$(basename "$file")"
    tried=$((tried + 1))
    if build_and_run; then
        echo "not noticed: $file: $wrong"
        missed=$((missed + 1))
    fi
done <"$here/digits.txt"
rm -rf "$folder"
echo "$tried of $lines wrong digits, $missed not noticed"
[ "$lines" -ge 20 ] && [ "$missed" = 0 ]
