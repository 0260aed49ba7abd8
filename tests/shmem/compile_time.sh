#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: compile_time.sh BIN
# Prints how long a program with a handful of OpenSHMEM calls takes to compile beside an empty one
# (best of five); a person judges: at most 0.3 s more. Nothing is asserted but that both compile.
set -eu
bin=$1
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
echo 'int main(void) { return 0; }' > "$made/empty.c"
cat > "$made/few.c" <<'PROGRAM'
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
cp "$made/few.c" "$made/few.cpp"
sed -i 's/shmem_p(.*/shmem_long_p(\&cell[0], shmem_long_g(\&cell[1], 0), 0);/' "$made/few.cpp"
cp "$made/empty.c" "$made/empty.cpp"

best() {
    least=999999999999
    for i in 1 2 3 4 5; do
        start=$(date +%s%N)
        "$@"
        took=$(($(date +%s%N) - start))
        [ $took -lt $least ] && least=$took
    done
    echo $((least / 1000000))
}
for level in -O0 -O2; do
    for language in c cpp; do
        wrapper=oshcc
        [ $language = c ] || wrapper=oshc++
        empty=$(best "$bin/$wrapper" $level -c -o "$made/o" "$made/empty.$language")
        few=$(best "$bin/$wrapper" $level -c -o "$made/o" "$made/few.$language")
        echo "$language $level: empty $empty ms, with OpenSHMEM $few ms, $((few - empty)) ms more"
    done
done
