#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: build_and_run.sh BIN PES SOURCE WANTED-STATUS [COMPILER-OPTION...]
# Builds SOURCE with the wrapper for its language (BIN/oshcc or BIN/oshc++) and these options, and
# runs it with BIN/oshrun. Exits with 77 if the installed tools cannot build with such options.
set -u
bin=$1 pes=$2 source=$3 wanted=$4
shift 4
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
case $source in
*.cpp) wrapper=oshc++ ;;
*) wrapper=oshcc ;;
esac

echo 'int main(void) { return 0; }' > "$made/empty.${source##*.}"
compiler=cc
[ $wrapper = oshcc ] || compiler=c++
options=$(for option; do case $option in --*) ;; *) echo "$option" ;; esac; done)
if ! $compiler $options -o "$made/empty" "$made/empty.${source##*.}" 2>"$made/log" || ! "$made/empty"; then
    echo "the compiler does not take: $options"
    exit 77
fi

"$bin/$wrapper" -Wall -Wextra -Werror -Wno-unused-parameter -g "$@" -o "$made/program" "$source" \
    -lpthread || exit 1
"$bin/oshrun" --timeout=60 -np "$pes" "$made/program"
status=$?
[ $status -eq "$wanted" ] && exit 0
echo "exit status $status, $wanted was wanted" >&2
exit 1
