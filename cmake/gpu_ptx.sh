#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The committed PTX text of src/gpu/kernels.cu and src/gpu/coll/kernels.cu, and of the
# software HCA's standin/hca/gpu/engine.cu, in generated/. A build without nvcc embeds it, and the driver
# compiles it on the machine with the GPU.
#   cmake/gpu_ptx.sh          writes each .ptx anew (needs nvcc)
#   cmake/gpu_ptx.sh --check  exit 1 when one is not made from the present source
# PTX ISA 6.4 and sm_70 are named because nothing newer is used, but for hints, which are left out: old drivers accept
# it then. What is written is assembled once, since a driver that refuses it is met on a machine with a GPU only.
set -euo pipefail
cd "$(dirname "$0")/.."
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
            for header in "include/$header" "src/$header" "standin/hca/$header"; do
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
    "$nvcc" -x cu -std=c++17 -ptx -DWEFT_OLD_PTX -arch="${WEFT_PTX_ARCH:-compute_75}" -Iinclude -Isrc -Istandin/hca "$source" -o "$folder/k.ptx"
    echo "// SPDX-License-Identifier: Apache-2.0"
    echo "// Made by cmake/gpu_ptx.sh from $source; fingerprint of the source:" \
         "$(fingerprint)"
    sed -e '/^\/\//d' -e '/\.pragma "used_bytes_mask/d' -e 's/^\.version .*/.version 6.4/' -e 's/^\.target .*/.target sm_70/' \
        "$folder/k.ptx"
    rm -r "$folder"
}

while read -r source result; do
    if [ "${1:-}" != --check ]; then
        generate > "$result.new"
        "$(dirname "$(readlink -f "$nvcc")")/ptxas" -arch=sm_90 "$result.new" -o /dev/null
        mv "$result.new" "$result"
    elif ! grep -q "fingerprint of the source: $(fingerprint)" "$result"; then
        echo "$result is not made from the present $source; run cmake/gpu_ptx.sh" >&2
        exit 1
    fi
done <<'END'
src/gpu/kernels.cu generated/kernels.ptx
src/gpu/coll/kernels.cu generated/coll_kernels.ptx
standin/hca/gpu/engine.cu generated/hca_gpu_engine.ptx
END
