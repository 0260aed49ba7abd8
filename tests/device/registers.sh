#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: registers.sh SOURCE PTXAS NVCC CLANG [FLAG...]
# A kernel of p with path gda compiled in takes at most 64 registers for sm_90, by nvcc and by clang.
# Other versions of the compilers choose other registers, so only nvcc 13.0 and clang 19, with ptxas
# 13.0, are judged. A compiler that is OFF is left out. Exit status 77: no compiler was judged.
set -eu
most=64
source=$1 ptxas=$2 nvcc=$3 clang=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/p.cu" <<'END_OF_KERNEL'
#define WEFT_KERNEL_THREADS 256
#include <weft/device/gda.h>
WEFT_KERNEL(p, (uint64_t *, to), (uint64_t, value), (int, pe))
{
    weft_thread_p64(to + weft_dev_thread_x(), value, pe);
}
END_OF_KERNEL

status=77
release() { "$1" --version | grep -q 'release 13\.0,'; }
# judge COMPILER: by what ptxas says of the kernel in $folder/words.
judge() {
    registers=$(sed -nE 's/.*Used ([0-9]+) registers.*/\1/p' "$folder/words")
    [ -n "$registers" ] || { cat "$folder/words" >&2; exit 1; }
    echo "p with path gda, by $1: $registers registers, at most $most"
    [ "$registers" -le "$most" ] || status=1
    [ $status = 1 ] || status=0
}
if [ "$nvcc" != OFF ] && release "$nvcc"; then
    "$nvcc" -arch=sm_90 -O3 -I"$source/include" -cubin -Xptxas -v -o "$folder/p.cubin" "$folder/p.cu" \
        >"$folder/words" 2>&1 || { cat "$folder/words" >&2; exit 1; }
    judge nvcc
fi
if [ "$clang" != OFF ] && [ "$ptxas" != OFF ] && release "$ptxas" && "$clang" --version | grep -q 'version 19\.'; then
    "$clang" "$@" -I"$source/include" -include weft/device/cuda_clang.h -o "$folder/p.ptx" "$folder/p.cu"
    sed -i -e 's/^\.version .*/.version 7.8/' -e 's/^\.target .*/.target sm_90/' "$folder/p.ptx"
    "$ptxas" -arch=sm_90 -v -o "$folder/p.cubin" "$folder/p.ptx" >"$folder/words" 2>&1 ||
        { cat "$folder/words" >&2; exit 1; }
    judge clang
fi
[ $status != 77 ] || echo "skipped: neither nvcc 13.0 nor clang 19 with ptxas 13.0 is here"
exit $status
