#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: left_out.sh SOURCE [names|cuda NVCC]
# Fails unless every use of a name that left_out.h leaves out stops the compilation with a message
# that contains the name and the man page; in C, in C++, or with nvcc in a kernel. Tiles have a name
# for each group of threads (finding D).
set -u
source=$1
header=$source/include/weft/nvshmem/left_out.h
names=$(sed -n 's/^#define \(nvshmemx*_[A-Za-z0-9_]*\)(\.\.\.).*/\1/p' "$header")
tiles=$(sed -n 's/^WEFT_NV_TILE(\(tile_[a-z_]*\))$/nvshmemx::\1/p' "$header")
if [ "${2-}" = names ]; then
    echo "$names" "$tiles"
    exit 0
fi
[ -n "$names" ] && [ -n "$tiles" ] || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
status=0

# CALL INCLUDE COMPILER...
stops() {
    call=$1 include=$2
    shift 2
    printf '#include <%s>\n%s int probe(void) { return %s(0, 0), 0; }\n' "$include" "$side" "$call" \
        > "$folder/probe.$ending"
    if "$@" -I "$source/include" -c "$folder/probe.$ending" -o "$folder/probe.o" \
        > "$folder/said" 2>&1; then
        echo "$call compiles ($*)" >&2
        status=1
    elif ! grep -q "$call is left out: .*; see man 7 weft-nvshmem" "$folder/said"; then
        echo "the message about $call does not say what is left out and where to read on ($*):" >&2
        grep error "$folder/said" | head -3 >&2
        status=1
    fi
}

if [ "${2-}" = cuda ]; then
    ending=cu side=__device__
    stops nvshmemx_half_atomic_add nvshmem.h "$3" -std=c++17
    stops nvshmemx::tile_put nvshmem.h "$3" -std=c++17
    exit $status
fi
side=
for name in $names; do
    ending=c
    stops "$name" weft/nvshmem/left_out.h "${CC:-cc}" -std=gnu11
    ending=cc
    stops "$name" weft/nvshmem/left_out.h "${CXX:-c++}" -std=c++17
done
for name in $tiles; do
    stops "$name" weft/nvshmem/left_out.h "${CXX:-c++}" -std=c++17
done
for group in warp warpgroup block; do
    stops "nvshmemx::tile_sum_reduce_$group" weft/nvshmem/left_out.h "${CXX:-c++}" -std=c++17
    stops "nvshmemx::tile_put_$group" weft/nvshmem/left_out.h "${CXX:-c++}" -std=c++17
done
ending=c
stops nvshmemx_half_atomic_add nvshmem.h "${CC:-cc}" -std=c11
exit $status
