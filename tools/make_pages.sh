#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every page that is made and committed, in one place.
#   tools/make_pages.sh BUILD            writes all anew
#   tools/make_pages.sh BUILD --check    exit 1, naming each that is not what the source gives
# BUILD has the command and, for the pages that name tests, what the target shmem-docs is made from.
set -u
cd "$(dirname "$0")/.."
build=$1 check=${2:-}
status=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# page FILE COMMAND...: FILE is what COMMAND prints.
page() {
    file=$1
    shift
    if ! "$@" >"$scratch/page" || [ ! -s "$scratch/page" ]; then
        echo "$file cannot be made: $*" >&2
        status=1
    elif [ -z "$check" ]; then
        cmp -s "$scratch/page" "$file" || cp "$scratch/page" "$file"
    elif ! cmp -s "$scratch/page" "$file"; then
        echo "$file is not what the source gives; run ./dev docs" >&2
        status=1
    fi
}
# of SCRIPT...: one that knows its own pages.
of() {
    "$@" || status=1
}

page docs/reference.md awk -f tools/reference.awk include/weft.h
page docs/reasons.md "$build/bin/weft" explain --codes=md
page docs/man/weft-reasons.7.scd "$build/bin/weft" explain --codes=man
if [ -z "$check" ]; then
    of tools/device_reference.sh
    of sh tests/nvshmem/reference.sh "$PWD" write
    of tests/shmem/docs_fresh.sh "$build/bin/shmem_reference" "$PWD" "$build/tests/shmem/objects.txt" write
else
    of tools/device_reference.sh --check
    of sh tests/nvshmem/reference.sh "$PWD"
    of tests/shmem/docs_fresh.sh "$build/bin/shmem_reference" "$PWD" "$build/tests/shmem/objects.txt"
fi
exit $status
