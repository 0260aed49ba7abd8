#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: golden_tells.sh CMAKE. The comparison with golden files accepts equal output and nothing
# else: not different output, not a missing file, not a file that the comparison has just written,
# and no output that contradicts the truths file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset WEFT_GOLDEN_UPDATE

# golden FILE: compares what `echo right` prints with FILE.
golden() {
    "$1" "-DCOMMAND=echo;right" -DPLAIN=ON "-DGOLDEN=$folder/$2" "-DACTUAL=$folder/actual" \
        "-DDIRECTORY=$folder" -P "$here/golden.cmake" >"$folder/log" 2>&1
}
must() { "$@" || { echo "does not pass: $*"; cat "$folder/log"; exit 1; }; }
must_not() { ! "$@" || { echo "passes: $*"; exit 1; }; }

echo right >"$folder/right"
echo wrong >"$folder/wrong"
must golden "$1" right
must_not golden "$1" wrong
must_not golden "$1" missing
[ ! -e "$folder/missing" ] && grep -q wrong "$folder/wrong" || { echo "a golden file was written unasked"; exit 1; }
export WEFT_GOLDEN_UPDATE=1
must golden "$1" right
must_not golden "$1" wrong
must_not golden "$1" missing
unset WEFT_GOLDEN_UPDATE
must golden "$1" wrong
must golden "$1" missing

# A file that is equal, or that is to be written anew, does not pass with a lie.
truth() { printf '%s\n' "$@" >"$folder/told.truths"; }
cp "$folder/right" "$folder/told.txt"
truth '# what is right' right '! wrong'
must golden "$1" told.txt
truth left
must_not golden "$1" told.txt
grep -q 'must be printed: left' "$folder/log" || { echo "a missing truth is not named"; exit 1; }
truth '! right'
must_not golden "$1" told.txt
echo wrong >"$folder/told.txt"
truth left
WEFT_GOLDEN_UPDATE=1
export WEFT_GOLDEN_UPDATE
must_not golden "$1" told.txt
grep -q wrong "$folder/told.txt" || { echo "a lie was written into a golden file"; exit 1; }

# Every golden file has its truths, of which one at least must be printed.
for file in "$here"/golden/*.txt; do
    grep -q '^[^#!]' "${file%.txt}.truths" 2>/dev/null ||
        { echo "$file has no truths beside it: write lines that you have checked by hand into ${file%.txt}.truths"; exit 1; }
done
