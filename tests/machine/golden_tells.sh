#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: golden_tells.sh CMAKE. The comparison with golden files passes what is equal, and nothing else:
# not what differs, not what is missing, and not what it has just written itself.
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
