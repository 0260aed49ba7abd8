#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: compile_time.sh BIN
# The cost of including shmem.h. Asserted: a source file that calls nothing contains no code, data
# or symbol of the headers; one with a few calls contains only those; the preprocessed size stays
# below a limit. The compile times compared with an empty file (best of seven runs) are printed for
# a person to judge: at most 0.3 s more.
set -u
bin=$1
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
cd "$made" || exit 2
status=0
fault() {
    echo "$*" >&2
    status=1
}
echo 'int main(void) { return 0; }' > empty.c
{ echo '#include <shmem.h>'; cat empty.c; } > none.c
cat > few.c <<'PROGRAM'
#include <shmem.h>
static long cell[4];
int main(void)
{
    shmem_init();
    shmem_long_put(cell, cell, 4, 0);
    shmem_p(&cell[0], shmem_g(&cell[1], 0), 0);
    shmem_long_atomic_add(cell, 1, 0);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
PROGRAM
sed 's/shmem_p(.*/shmem_long_p(\&cell[0], shmem_long_g(\&cell[1], 0), 0);/' few.c > few.cpp
cp empty.c empty.cpp
cp none.c none.cpp

best() {
    least=999999999999
    for i in 1 2 3 4 5; do
        start=$(date +%s%N)
        "$@" || return 1
        took=$(($(date +%s%N) - start))
        [ $took -lt $least ] && least=$took
    done
    echo $((least / 1000000))
}
# Names in an object file that come from the headers.
ours() {
    nm "$1" | grep -oE '[a-z_]*(shmem|weft)[a-z0-9_]*' | sort -u | tr '\n' ' '
}
for language in c cpp; do
    compiler="$bin/oshcc"
    [ $language = c ] || compiler="$bin/oshc++"
    lines=$("$compiler" -E -P "none.$language" | wc -c)
    echo "$language: $((lines / 1024)) KiB to read after the preprocessor"
    [ "$lines" -lt $((1000 * 1024)) ] || fault "$language: shmem.h gives $lines bytes to read"
    for level in -O0 -O2; do
        "$compiler" $level -c -o none.o "none.$language" || fault "$language $level: none"
        "$compiler" $level -c -o empty.o "empty.$language" || fault "$language $level: empty"
        "$compiler" $level -c -o few.o "few.$language" || fault "$language $level: few"
        [ -z "$(ours none.o)" ] || fault "$language $level: without a call there is $(ours none.o)"
        [ "$(size none.o | awk 'NR == 2 { print $1, $2, $3 }')" = \
            "$(size empty.o | awk 'NR == 2 { print $1, $2, $3 }')" ] ||
            fault "$language $level: a file without a call is larger for shmem.h"
        for name in $(nm few.o | grep -oE ' p?shmem_[a-z0-9_]*'); do
            case $name in
            shmem_init | shmem_finalize | shmem_long_put | shmem_long_p | shmem_long_g | \
            shmem_long_atomic_add | shmem_barrier_all) ;;
            *) fault "$language $level: $name is there and was not called" ;;
            esac
        done
        empty=$(best "$compiler" $level -c -o o "empty.$language")
        few=$(best "$compiler" $level -c -o o "few.$language")
        echo "$language $level: empty $empty ms, with OpenSHMEM $few ms, $((few - empty)) ms more"
    done
done
exit $status
