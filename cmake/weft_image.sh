#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weft_image.sh SOURCE PTX IMAGE [LZ4]: writes IMAGE, the C file that makes the PTX of a source a part
# of a program (<weft/device/image.h>); packed, if the program lz4 is named. weft_kernels() of the
# CMake package and `weft cc` call it.
set -eu
source=$1 ptx=$2 image=$3 lz4=${4:-}
kernels=$(sed -nE 's/.*\.entry weft_cuda_kernel_([A-Za-z0-9_]+).*/\1/p' "$ptx")
state=$(grep -c '^[^/]*\.const .* weft_dev_state\[' "$ptx" || true)
if [ -n "$lz4" ] && [ "$lz4" != WEFT_LZ4-NOTFOUND ]; then
    "$lz4" -9 -f -q --content-size "$ptx" "$ptx.lz4"
    ptx=$ptx.lz4
fi
{
    echo "/* Made from $source. */"
    echo "#include <weft/device/image.h>"
    echo
    echo "WEFT_IMAGE(\"$source\", \"$ptx\")"
    [ "$state" = 0 ] || echo "WEFT_IMAGE_STATE"
    for kernel in $kernels; do
        echo "WEFT_IMAGE_KERNEL($kernel)"
    done
} >"$image"
