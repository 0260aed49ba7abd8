#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: bitcode.sh WEFT CLANG SOURCE [PTXAS]
# weft_device.bc has every operation that one thread, warp or block calls, in both forms; clang links
# kernels with it, which then need the state by address or as a symbol and nothing else.
# weft_device.ptx has those with the address. PTXAS assembles both.
# Exit status 77: this build has no bitcode.
set -eu
weft=$1 clang=$2 source=$3 ptxas=${4-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fault() {
    echo "$*" >&2
    exit 1
}
bitcode=$("$weft" include --bitcode) || { echo "skipped: this build has no bitcode"; exit 77; }

# ---------------------------------------------------------------------------- functions
sh "$source/tools/device_reference.sh" |
    grep -oE '\bweft_((thread|warp|block)_[a-z0-9_]+|dev_(my_pe|n_pes|ptr|team_my_pe|team_n_pes|team_translate))\(' |
    tr -d '(' | sort -u >"$folder/operations"
[ "$(wc -l <"$folder/operations")" -gt 150 ] || fault "the reference names only $(wc -l <"$folder/operations") operations"
{
    cat "$folder/operations"
    sed -E 's/^weft_(dev_)?/weft_state_/' "$folder/operations"
    echo weft_state_version
} | sort >"$folder/wanted"
nvptx="--target=nvptx64-nvidia-cuda -x ir"
# shellcheck disable=SC2086
"$clang" $nvptx -S -emit-llvm -Xclang -disable-llvm-passes "$bitcode" -o "$folder/text.ll"
sed -nE 's/^define [^@]*@(weft_[a-z0-9_]+)\(.*/\1/p' "$folder/text.ll" | sort >"$folder/there"
diff "$folder/wanted" "$folder/there" || fault "other functions in $bitcode (>) than operations (<)"
# Triton refuses a module with flags of its own, and inlines no function with attributes of a target.
! grep -nE '^!llvm\.module\.flags|llvm\.compiler\.used|"(target-(cpu|features)|no-builtins|frame-pointer)"' \
    "$folder/text.ll" || fault "the bitcode has flags or attributes of its compilation"
sed -nE 's/^\.visible .*[ )](weft_[a-z0-9_]+)\(\)?$/\1/p' "${bitcode%.bc}.ptx" | sort >"$folder/ptx"
grep '^weft_state_' "$folder/wanted" | grep -vE 'broadcast|gather|scatter|alltoall|collect|reduce' |
    diff - "$folder/ptx" || fault "other functions in the PTX (>) than in the bitcode (<)"

# ------------------------------------------------------------------------------ kernels
cat >"$folder/kernels.cu" <<'END'
#define DEVICE extern "C" __attribute__((device))
#define KERNEL extern "C" __attribute__((global)) void
typedef unsigned long u64;
DEVICE int weft_state_block_put_signal(u64, u64, u64, u64, u64, u64, int, int);
DEVICE int weft_state_thread_signal_wait(u64, u64, int, u64);
DEVICE int weft_block_put_signal(u64, u64, u64, u64, u64, int, int);
DEVICE int weft_thread_signal_wait(u64, int, u64);
KERNEL address(u64 state, u64 data, u64 flag, int *status)
{
    weft_state_block_put_signal(state, data, data + 4096, 512, flag, 7, 0, 1);
    *status = weft_state_thread_signal_wait(state, flag, 0, 7);
}
KERNEL symbol(u64 data, u64 flag, int *status)
{
    weft_block_put_signal(data, data + 4096, 512, flag, 7, 0, 1);
    *status = weft_thread_signal_wait(flag, 0, 7);
}
END
"$clang" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_90 -S -O3 \
    -Wno-unknown-cuda-version -Xclang -mlink-builtin-bitcode -Xclang "$bitcode" \
    "$folder/kernels.cu" -o "$folder/kernels.ptx"
for name in address symbol; do
    sed -n "/\.entry $name(/,/^}/p" "$folder/kernels.ptx" >"$folder/$name"
    [ -s "$folder/$name" ] || fault "no kernel $name"
done
! grep -E '\.extern' "$folder/kernels.ptx" || fault "not linked"
! grep -E 'call.*weft_(state|block|thread)_[a-z_]+,' "$folder/kernels.ptx" || fault "not inlined"
! grep -q weft_dev_state "$folder/address" || fault "address: weft_dev_state is there"
grep -q weft_dev_state "$folder/symbol" || fault "symbol: no weft_dev_state"
grep -q '\.const .*weft_dev_state\[' "$folder/kernels.ptx" || fault "weft_dev_state is not constant"
[ -z "$ptxas" ] || "$ptxas" -arch=sm_90 "$folder/kernels.ptx" -o "$folder/kernels.cubin"
[ -z "$ptxas" ] || "$ptxas" -arch=sm_75 -c "${bitcode%.bc}.ptx" -o "$folder/ptx.cubin"
