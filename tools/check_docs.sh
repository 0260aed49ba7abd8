#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: check_docs.sh SOURCE LIBWEFT.SO
# A fault unless docs/reference.md is what the header gives, every public weft_ function of the
# library stands in it and in the NAME line of a man page, and every function that they name exists.
set -u
cd "$1" || exit 2
status=0
fault() {
    echo "$*" >&2
    status=1
}

awk -f tools/reference.awk include/weft.h | diff docs/reference.md - >/dev/null ||
    fault "docs/reference.md is not what include/weft.h gives; run ./dev docs"

library=$(nm -D --defined-only "$2" | sed -nE 's/^[^ ]+ T (weft_[a-z0-9_]+)(@.*)?$/\1/p' | sort -u)
[ -n "$library" ] || fault "nm found no weft_ function in $2"
reference=$(sed -nE 's/^- `(weft_[a-z0-9_]+)`.*/\1/p' docs/reference.md | sort -u)
pages=$(sed -nE '/^# NAME/{n;n;s/ - .*//;s/, /\n/g;p}' docs/man/weft_*.3.scd | sort -u)

for name in $library; do
    echo "$reference" | grep -qx "$name" || fault "$name is in the library, not in docs/reference.md"
    echo "$pages" | grep -qx "$name" || fault "$name is in the library, but in no man page's NAME"
done
for name in $reference; do
    echo "$library" | grep -qx "$name" || fault "$name is in the header, but not in the library"
done
exit $status
