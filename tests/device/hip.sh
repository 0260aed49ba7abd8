#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: hip.sh short|all SOURCE BUILD CLANG FLAG...
# Device code for AMD GPUs: the library's code objects have its kernels, and a program with operations
# of each kind, also over path gda and by DC, compiles for gfx90a and gfx942. No AMD GPU runs any of it.
# Exit status 77: clang cannot make such code here.
set -eu
form=$1 source=$2 build=$3 clang=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fault() {
    echo "$*" >&2
    exit 1
}
lld=$("$clang" -print-prog-name=lld)
[ -x "$lld" ] || { echo "skipped: $clang finds no lld"; exit 77; }

# A kernel is an entry of the ELF file's table of names, and its descriptor another one.
has_kernel() { # FILE NAME
    tr '\0' '\n' <"$1" | grep -axq "$2\.kd" || fault "$1 has no kernel $2"
}
for arch in gfx90a gfx942; do
    [ -e "$build/src/gpu/coll_kernels.$arch" ] || { echo "no kernels of the library here"; break; }
    grep -o '^weft_[a-z_]*' "$source/tests/gpu/kernels.txt" | while read -r kernel; do
        file=coll_kernels
        case $kernel in
        weft_kernel_*) file=kernels ;;
        weft_experts_*) file=ops_experts_kernels ;;
        weft_nv_*) continue ;; # none for AMD GPUs
        esac
        has_kernel "$build/src/gpu/$file.$arch" "$kernel"
    done
done

cat >"$folder/all.c" <<'END'
#include <math.h>
#include <weft_device.h>
WEFT_KERNEL(all, (uint64_t *, slot), (const uint64_t *, from), (uint64_t *, flag), (char *, packets),
            (float *, sum), (int *, status))
{
    int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
    weft_block_put_signal(slot, from, 8192, flag, 1, WEFT_SIGNAL_SET, next);
    *status = weft_block_signal_wait(flag, WEFT_GE, 1);
    weft_block_put_packet(packets, from, 100, 7, next);
    *status |= weft_block_take_packet(slot, packets, 100, 7);
    weft_thread_p64(slot + weft_dev_grid_rank(), 1, next);
    *sum += expf((float)weft_thread_atomic_fetch_add64(flag, 1, next));
    *status |= weft_block_barrier(WEFT_DEV_WORLD);
#ifndef SHORT /* half of the time */
    *status |= weft_block_allreduce(WEFT_DEV_WORLD, sum, sum, 100, WEFT_FLOAT, WEFT_SUM);
#endif
}
END
compile() { # FLAG...
    "$clang" "$@" -O1 -I"$source/include" "$folder/all.c" -o "$folder/code"
    has_kernel "$folder/code" weft_cuda_kernel_all
    tr '\0' '\n' <"$folder/code" | grep -axq weft_dev_state || fault "$*: the code has no weft_dev_state"
}
if [ "$form" = short ]; then
    compile "$@" --offload-arch=gfx942 -DSHORT
    "$clang" "$@" -O1 --offload-arch=gfx942 -I"$source/include" -I"$source/src" "$source/src/gpu/kernels.cu" \
        -o "$folder/kernels"
    has_kernel "$folder/kernels" weft_kernel_copy
    exit
fi
compile "$@" --offload-arch=gfx90a
compile "$@" --offload-arch=gfx942 -DWEFT_DEVICE_DC
