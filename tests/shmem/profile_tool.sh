#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: profile_tool.sh BIN SOURCES
# A profiling tool counts the calls of a program compiled without it: as an object file, from an
# archive, as a shared library that is linked, and as one that is preloaded.
set -u
bin=$1 sources=$2
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
status=0
cd "$made" || exit 2
osh() {
    "$bin/oshcc" -Wall -Wextra -Werror -I"$sources" "$@" || exit 1
}
run() {
    what=$1
    shift
    "$bin/oshrun" --timeout=60 -np 3 "$@" && return
    echo "the tool $what does not see what it should" >&2
    status=1
}
for level in -O0 -O2; do
    osh $level -c -o program.o "$sources/profile_program.c"
    osh $level -fPIC -c -o tool.o "$sources/profile_tool.c"
    osh -shared -o libtool.so tool.o
    ar rc tool.a tool.o
    osh -o object program.o tool.o
    run "as an object, $level" ./object
    osh -o archive program.o tool.a
    run "from an archive, $level" ./archive
    osh -static -o static program.o tool.o 2>/dev/null
    run "in a static program, $level" ./static
    osh -o shared program.o -L. -ltool -Wl,-rpath,"$made"
    run "as a shared library, $level" ./shared
done
# Preloaded: the program needs its own tool_seen() to link, which the tool's replaces.
echo '#include "profile_tool.h"
struct tool_counts tool_seen(void) { return (struct tool_counts){0}; }' > none.c
osh -O2 -o preloaded program.o none.c -rdynamic
"$bin/oshrun" -np 2 ./preloaded 2>/dev/null && { echo "seen without a tool" >&2; status=1; }
osh -O2 -fPIC -shared -o libnone.so none.c
osh -O2 -o preloaded program.o -L. -lnone -Wl,-rpath,"$made"
run "preloaded" env LD_PRELOAD="$made/libtool.so" ./preloaded
exit $status
