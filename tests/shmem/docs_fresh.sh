#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: docs_fresh.sh REFERENCE-PROGRAM SOURCE OBJECT-LIST [write]
# Fails unless docs/shmem-reference.md and docs/shmem-coverage.md match the headers and tests; with
# `write`, writes them. OBJECT-LIST: the tests' object files, one in each line.
set -u
made=$(mktemp) || exit 2
trap 'rm -f "$made"' EXIT
status=0
symbols() {
    sort "$3" | while read -r object; do
        nm "$object" | awk -v test="$(basename "$object" .o)" 'NF == 2 { print test, $2 }'
    done
}
for page in reference coverage; do
    symbols "$@" | "$1" "$2" $page > "$made" || status=1
    if [ "${4-}" = write ]; then
        cp "$made" "$2/docs/shmem-$page.md"
    elif ! cmp -s "$made" "$2/docs/shmem-$page.md"; then
        echo "docs/shmem-$page.md is not what the headers give; run ./dev docs" >&2
        status=1
    fi
done
exit $status
