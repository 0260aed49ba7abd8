#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: surface.sh SOURCE
# Fails unless the headers define exactly the functions that surface.awk lists.
set -u
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
awk -v names=1 -f "$1/tests/nvshmem/surface.awk" | sort > "$folder/promised"
sh "$1/tests/nvshmem/functions.sh" "$1" | cut -f3 | sort > "$folder/defined"
[ -s "$folder/promised" ] && diff "$folder/promised" "$folder/defined"
