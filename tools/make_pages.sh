#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the pages that list what the sources have, into BUILD/docs; none is in the repository.
#   tools/make_pages.sh BUILD
# BUILD has the command. The table of the tests of OpenSHMEM's routines needs the object files of
# tests/shmem.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$1
mkdir -p "$build/docs/man"
status=0 made=
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# page FILE COMMAND...: FILE is what COMMAND prints.
page() {
    file=$build/docs/$1
    made="$made $1"
    shift
    if ! "$@" >"$scratch/page" || [ ! -s "$scratch/page" ]; then
        echo "$file cannot be made: $*" >&2
        status=1
    else
        cmp -s "$scratch/page" "$file" || cp "$scratch/page" "$file"
    fi
}
nvshmem() {
    sh tests/nvshmem/functions.sh "$PWD" | awk -f tests/nvshmem/reference.awk
}
# Each test of OpenSHMEM and the symbols that it refers to.
shmem_symbols() {
    sort "$build/tests/shmem/objects.txt" | tr '\n' '\0' | xargs -0 nm -Au | awk '
        { symbol = $NF; sub(/\.o:[^:]*$/, ""); sub(/.*\//, ""); print $0, symbol }'
}
# The configuration variables with their defaults: those for users, then the others.
variables() {
    env -i "$build/bin/weft" env >"$scratch/users" || return
    env -i "$build/bin/weft" env --all >"$scratch/all" || return
    awk '
        function heading(text) {
            print "\n## " text "\n\n| variable | default | meaning |\n| --- | --- | --- |"
        }
        BEGIN {
            print "# Configuration variables\n"
            print "Made by `./dev docs` from what weft-env(1) prints."
        }
        /^WEFT_/ {
            name = $1
            value = $3 == "\"\"" ? "" : $3
            if (FNR == NR) users[name] = 1
            if (FNR == 1)
                heading(FNR == NR ? "For users" : "Switches for tests, and what weft run sets")
            next
        }
        name != "" && (FNR == NR || !(name in users)) {
            sub(/^ +/, "")
            gsub(/\|/, ", ")
            print "| `" name "` | " value " | " $0 " |"
        }
        { name = "" }' "$scratch/users" "$scratch/all"
}
coverage() {
    shmem_symbols | "$scratch/shmem" "$PWD" coverage
}

page reference.md awk -f tools/reference.awk include/weft.h include/weft/types.h
page device-reference.md tools/device_reference.sh
page nvshmem-reference.md nvshmem
page variables.md variables
page python-reference.md python3 tools/python_reference.py
page man/weft-reasons.7.scd "$build/bin/weft" explain --codes=man
if ${CC:-cc} -Iinclude tests/shmem/reference.c -o "$scratch/shmem"; then
    page shmem-reference.md "$scratch/shmem" "$PWD" reference
    [ ! -e "$build/tests/shmem/objects.txt" ] || page shmem-coverage.md coverage
else
    status=1
fi
# Pages of an older version.
for file in "$build"/docs/*.md; do
    case "$made " in
    *" ${file##*/} "*) ;;
    *) rm -f "$file" ;;
    esac
done
exit $status
