#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: check_docs.sh SOURCE LIBWEFT.SO
# A fault unless every function that weft.h declares is exported by the library, stands in the page that
# tools/reference.awk makes and in the NAME line of a man page; every subcommand has a page; every page has
# its names in one line; and weft-nvshmem(7) names every function of NVSHMEM that is left out.
set -u
cd "$1" || exit 2
status=0
fault() {
    echo "$*" >&2
    status=1
}

# What the compiler sees, so that those made by a list macro are among them.
declared=$(${CC:-cc} -E -P -Iinclude include/weft.h | grep -oE '\bweft_[a-z0-9_]+\(' | tr -d '(' | sort -u)
[ -n "$declared" ] || fault "no function was found in include/weft.h"
library=$(nm -D --defined-only "$2" | sed -nE 's/^[^ ]+ T (weft_[a-z0-9_]+)(@.*)?$/\1/p' | sort -u)
reference=$(awk -f tools/reference.awk include/weft.h include/weft/types.h | sed -nE 's/^- `(weft_[a-z0-9_]+)`.*/\1/p' | sort -u)
pages=$(sed -nE '/^# NAME/{n;n;s/ - .*//;s/, /\n/g;p}' docs/man/weft_*.3.scd | sort -u)

for name in $declared; do
    echo "$library" | grep -qx "$name" || fault "$name is in weft.h, but not in $2"
    echo "$reference" | grep -qx "$name" || fault "$name is in weft.h, not in what tools/reference.awk prints"
    echo "$pages" | grep -qx "$name" || fault "$name is in weft.h, but in no man page's NAME"
done
for name in $reference; do
    echo "$declared" | grep -qx "$name" || fault "tools/reference.awk prints $name, which is not in weft.h"
done
# Every subcommand has a page and stands in weft(1).
for name in $(sed -nE 's/^ *\{"([a-z]+)", cmd_.*/\1/p' cli/main.c); do
    [ -e "docs/man/weft-$name.1.scd" ] || fault "weft $name has no page docs/man/weft-$name.1.scd"
    grep -q "^\*$name\*$" docs/man/weft.1.scd || fault "weft $name is not in docs/man/weft.1.scd"
done
# docs/CMakeLists.txt and tools/site.sh read names and words from the line after "# NAME".
for page in docs/man/*.scd; do
    sed -n '/^# NAME/{n;n;p;q}' "$page" | grep -qE '^[A-Za-z0-9_+-]+(, [A-Za-z0-9_+-]+)* - ' ||
        fault "$page: the line after # NAME is not \"name, name - words\""
    ! grep -q '^[|[]' "$page" || fault "$page: a table needs the preprocessor tbl, which lintian has not"
done
left_out=$(sh tests/nvshmem/left_out.sh "$PWD" names)
[ -n "$left_out" ] || fault "tests/nvshmem/left_out.sh names nothing"
nvshmem=$(tr -d '\\' <docs/man/weft-nvshmem.7.scd)
for name in $left_out; do
    case $nvshmem in
    *"*$name*"*) ;;
    *) fault "$name is left out, but not in weft-nvshmem(7)" ;;
    esac
done
exit $status
