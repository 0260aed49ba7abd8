#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: reference.sh SOURCE [write]
# Fails unless docs/nvshmem-reference.md matches the headers and weft-nvshmem(7) names everything
# that left_out.h leaves out; with `write`, writes the page.
set -u
page=$1/docs/nvshmem-reference.md
made=$(mktemp) || exit 2
trap 'rm -f "$made"' EXIT
sh "$1/tests/nvshmem/functions.sh" "$1" | awk -f "$1/tests/nvshmem/reference.awk" > "$made" || exit 1
if [ "${2-}" = write ]; then
    cp "$made" "$page"
elif ! cmp -s "$made" "$page"; then
    echo "docs/nvshmem-reference.md is not what the headers give; run ./dev docs" >&2
    exit 1
fi
status=0
man=$(tr -d '\\' < "$1/docs/man/weft-nvshmem.7.scd")
for name in $(sh "$1/tests/nvshmem/left_out.sh" "$1" names); do
    case $man in
    *"*$name*"*) ;;
    *)
        echo "$name is left out, but not in weft-nvshmem(7)" >&2
        status=1
        ;;
    esac
done
exit $status
