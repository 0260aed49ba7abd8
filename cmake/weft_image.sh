#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weft_image.sh SOURCE PTX IMAGE LZ4 [ARCH=FILE]...: writes IMAGE, the C file that makes the PTX of a
# source, and its code for some GPUs (gfx942, sm_90), a part of a program (<weft/device/image.h>);
# packed by the program LZ4, unless that is empty. weft_kernels() and `weft cc` call it.
set -eu
source=$1 ptx=$2 image=$3 lz4=${4:-}
if [ $# -gt 4 ]; then shift 4; else shift $#; fi
kernels=$(sed -nE 's/.*\.entry weft_cuda_kernel_([A-Za-z0-9_]+).*/\1/p' "$ptx")
transports=$(sed -nE 's/^[^/]*\.const .* weft_dev_carriers = ([0-9]+);.*/\1/p' "$ptx")
state=$(grep -c '^[^/]*\.const .* weft_dev_state\[' "$ptx" || true)
pack() { # FILE: sets packed
    packed=$1
    if [ -n "$lz4" ] && [ "$lz4" != WEFT_LZ4-NOTFOUND ]; then
        "$lz4" -9 -f -q --content-size "$1" "$1.lz4"
        packed=$1.lz4
    fi
}
{
    echo "/* Made from $source. */"
    echo "#include <weft/device/image.h>"
    echo
    pack "$ptx"
    echo "WEFT_IMAGE(\"$source\", \"$packed\")"
    for code; do
        pack "${code#*=}"
        echo "WEFT_IMAGE_CODE(${code%%=*}, \"$packed\")"
    done
    [ "$state" = 0 ] || echo "WEFT_IMAGE_STATE(${transports:-0})"
    for kernel in $kernels; do
        echo "WEFT_IMAGE_KERNEL($kernel)"
    done
} >"$image"
