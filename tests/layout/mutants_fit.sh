#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the text of every entry of tools/mutants/faults still stands in the source, so that a renaming does not
# lose a fault unseen.
#   mutants_fit.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"
folder=$(mktemp -d "${TMPDIR:-/tmp}/weft-test-mutants.XXXXXX")
trap 'rm -rf "$folder"' EXIT
"${CC:-cc}" -O1 -D_GNU_SOURCE -o "$folder/seed" tools/mutants/seed.c
mkdir "$folder/tree"
find include src standin cli examples bench tools tests -type f | sort >"$folder/files"
awk -v RS= -v ORS='\n\n' 1 tools/mutants/faults/*.txt >"$folder/faults"
"$folder/seed" "$PWD" "$folder/tree" "$folder/faults" <"$folder/files" >"$folder/list"
echo "$(wc -l <"$folder/list") faults fit the sources"
