#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: environment.sh BIN
# The environment variables of OpenSHMEM 1.5, section 8, and their SMA_ forms.
set -u
bin=$1
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT
status=0
fault() {
    echo "$*" >&2
    status=1
}
unset SHMEM_VERSION SHMEM_INFO SHMEM_SYMMETRIC_SIZE SHMEM_DEBUG
unset SMA_VERSION SMA_INFO SMA_SYMMETRIC_SIZE SMA_DEBUG

cat > "$made/size.c" <<'PROGRAM'
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
/* Whether so many bytes can be had, and not twice as many. */
int main(int argc, char **argv)
{
    shmem_init();
    size_t bytes = strtoull(argv[1], NULL, 10);
    void *all = shmem_malloc(bytes), *more = shmem_malloc(bytes / 2);
    if (shmem_my_pe() == 0)
        printf("%s %s\n", all ? "fits" : "none", more ? "more" : "full");
    shmem_finalize();
    return 0;
}
PROGRAM
"$bin/oshcc" -o "$made/size" "$made/size.c" || exit 1
run() {
    "$bin/oshrun" -np 2 "$made/size" "$@" 2>&1
}

# variable, value, bytes that fit
for row in "SHMEM_SYMMETRIC_SIZE 1048576 1048576" "SHMEM_SYMMETRIC_SIZE 20m 20971520" \
    "SHMEM_SYMMETRIC_SIZE 3.1M 3250586" "SHMEM_SYMMETRIC_SIZE 512K 524288" \
    "SHMEM_SYMMETRIC_SIZE 0.5g 536870912" "SMA_SYMMETRIC_SIZE 2m 2097152"; do
    set -- $row
    export "$1=$2"
    case $(run "$3") in
    *"fits full"*) ;;
    *) fault "$1=$2: $3 bytes: $(run "$3")" ;;
    esac
    unset "$1"
done
export SHMEM_SYMMETRIC_SIZE=1m SMA_SYMMETRIC_SIZE=8m
case $(run 4000000) in
*none*) ;;
*) fault "SHMEM_SYMMETRIC_SIZE does not go before SMA_SYMMETRIC_SIZE" ;;
esac
unset SMA_SYMMETRIC_SIZE
for bad in 20kk 5x -1 0 "" k 1e400; do
    export SHMEM_SYMMETRIC_SIZE="$bad"
    if out=$(run 64); then
        fault "SHMEM_SYMMETRIC_SIZE=\"$bad\" was taken"
    else
        case $out in
        *"SHMEM_SYMMETRIC_SIZE is \"$bad\""*) ;;
        *) fault "SHMEM_SYMMETRIC_SIZE=\"$bad\": $out" ;;
        esac
    fi
done
unset SHMEM_SYMMETRIC_SIZE

[ "$(SHMEM_VERSION=1 run 64 | grep -c 'OpenSHMEM 1.5')" = 1 ] || fault "SHMEM_VERSION: once, by PE 0"
[ "$(SMA_VERSION=1 run 64 | grep -c 'OpenSHMEM 1.5')" = 1 ] || fault "SMA_VERSION: once, by PE 0"
for name in SHMEM_VERSION SHMEM_INFO SHMEM_SYMMETRIC_SIZE SHMEM_DEBUG; do
    SHMEM_INFO=1 run 64 | grep -q "^$name" || fault "SHMEM_INFO does not tell of $name"
done
[ -z "$(run 64 | grep -v fits)" ] || fault "without variables nothing is printed"

# A program that calls no finalize and fails, and one that exits with its own code.
printf '#include <shmem.h>\n#include <stdlib.h>\nint main(void){shmem_init();shmem_barrier_all();if(shmem_my_pe()==1)exit(9);shmem_barrier_all();return 0;}\n' > "$made/fail.c"
"$bin/oshcc" -o "$made/fail" "$made/fail.c" || exit 1
"$bin/oshrun" -np 2 "$made/fail" >"$made/out" 2>&1
[ $? -eq 9 ] || fault "the code of a failed PE is the job's: $(cat "$made/out")"
exit $status
