#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The committed PTX text of src/gpu/kernels.cu. A build without nvcc embeds it, and the driver
# compiles it on the machine with the GPU.
#   cmake/gpu_ptx.sh          writes src/gpu/kernels.ptx anew (needs nvcc)
#   cmake/gpu_ptx.sh --check  exit 1 when it is not made from the present source
# PTX ISA 6.4 and sm_70 are named because nothing newer is used: old drivers accept it then.
set -euo pipefail
cd "$(dirname "$0")/.."
source=src/gpu/kernels.cu
result=src/gpu/kernels.ptx
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}

# The source and all of the project's headers that it includes, however deep, each once.
sources() {
    local todo=$source seen= file header
    while [ -n "$todo" ]; do
        file=${todo%%$'\n'*}
        todo=${todo#"$file"}
        todo=${todo#$'\n'}
        case "$seen" in *"|$file|"*) continue ;; esac
        seen="$seen|$file|"
        echo "$file"
        while read -r header; do
            for header in "include/$header" "src/gpu/$header"; do
                [ ! -f "$header" ] || todo="${todo:+$todo$'\n'}$header"
            done
        done < <(sed -nE 's/^ *# *include ["<]([^">]+)[">].*/\1/p' "$file")
    done
}
# Comments and white space do not change what is compiled.
fingerprint() {
    sources | sort | xargs cat | "${CC:-cc}" -fpreprocessed -dD -E -P -x c - 2>/dev/null | tr -d '[:space:]' |
        sha256sum | cut -c1-16
}

generate() {
    local folder
    folder=$(mktemp -d)
    "$nvcc" -x cu -std=c++17 -ptx -arch="${WEFT_PTX_ARCH:-compute_75}" -Iinclude -Isrc/gpu \
        "$source" -o "$folder/k.ptx"
    echo "// SPDX-License-Identifier: Apache-2.0"
    echo "// Made by cmake/gpu_ptx.sh from kernels.cu; fingerprint of the source:" \
         "$(fingerprint)"
    sed -e '/^\/\//d' -e 's/^\.version .*/.version 6.4/' -e 's/^\.target .*/.target sm_70/' \
        "$folder/k.ptx"
    rm -r "$folder"
}

if [ "${1:-}" != --check ]; then
    generate > "$result.new"
    mv "$result.new" "$result"
    exit
fi
if grep -q "fingerprint of the source: $(fingerprint)" "$result"; then
    exit 0
fi
echo "src/gpu/kernels.ptx is not made from the present kernels.cu; run cmake/gpu_ptx.sh" >&2
exit 1
