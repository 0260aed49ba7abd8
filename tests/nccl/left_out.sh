#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: left_out.sh SOURCE host CC | here CXX | cuda CLANG
# Fails unless every use of a name that nccl_device/left_out.h leaves out, of a multicast address,
# and of an action or memory that ncclGin does not have, is an error with a sentence: in host code
# of C, in C++ on simt, or in a kernel that clang compiles for sm_90.
set -u
source=$1
header=$source/include/weft/nccl/nccl_device/left_out.h
names() { # list
    sed -n "/define WEFT_NCCL_$1_LEFT_OUT/,/[^\\\\]\$/s/^ *X(\\([A-Za-z0-9_]*\\),.*/\\1/p" "$header"
}
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT

case $2 in
host) ending=c qualifier='' parameters=void compile="$3 -std=gnu11 -c" ;;
here) ending=cc qualifier='' compile="$3 -std=c++17 -DWEFT_NCCL_KERNELS=1 -c" ;;
cuda) ending=cu qualifier=__device__
      compile="$3 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_90
               -Wno-unknown-cuda-version -fdeclspec -std=c++17 -S" ;;
esac
case $3 in *clang*) compile="$compile -ferror-limit=0" ;; esac
[ "$2" = host ] || parameters='const ncclDevComm &comm, ncclWindow_t window'
echo '#include <nccl_device.h>' > "$folder/probe.$ending"
n=0
: > "$folder/words"
stops() { # WORDS STATEMENTS
    n=$((n + 1))
    echo "$1" >> "$folder/words"
    echo "$qualifier void probe$n($parameters) { $2; }" >> "$folder/probe.$ending"
}

for name in $(names HOST); do
    stops "$name is left out: " "$name(0)"
done
if [ "$2" != host ]; then
    for name in $(names KERNELS); do
        stops "$name is left out: " "$name(comm, 0)"
    done
    for name in $(names SESSIONS); do
        stops "$name is left out: " "$name<ncclCoopCta> session"
    done
    [ $n -gt 50 ] || exit 2
    put='ncclGin(comm, 0).put(ncclTeamWorld(comm), 0, window, 0, window, 0, 8'
    stops "lsaMultimemPtr is left out: " 'ncclSymPtr<int>(window).lsaMultimemPtr(comm)'
    stops "no remote action of Weft" "$put, ncclGin_CounterInc{0})"
    stops "no local action of Weft" "$put, ncclGin_None(), ncclGin_SignalInc{0})"
    stops "give ncclGin_SegmentDevice" "$put, ncclGin_None(), ncclGin_None(), ncclCoopThread(),
        ncclGin_None(), cuda::thread_scope_thread, cuda::thread_scope_device, 0,
        ncclGin_SegmentHostNuma())"
    stops "1, 2, 4 or 8 bytes" 'struct three { char c[3]; } value = {};
        ncclGin(comm, 0).putValue(ncclTeamWorld(comm), 0, window, 0, value)'
    stops "has NCCL_NET_DEVICE_GIN_PROXY alone" \
        'ncclGin_BackendOne<NCCL_NET_DEVICE_GIN_GDAKI> gin(comm, 0)'
    stops "power of 2, up to 32" 'ncclCoopTile<24> tile'
fi
[ $n -gt 5 ] || exit 2
# shellcheck disable=SC2086  # words of a command
if $compile -I "$source/include" -I "$source/include/weft/nccl" "$folder/probe.$ending" \
    -o "$folder/probe.o" > "$folder/said" 2>&1; then
    echo "all of it compiles" >&2
    exit 1
fi
status=0
while read -r words; do
    grep "error" "$folder/said" | grep -q -- "$words" && continue
    echo "no error says \"$words\"" >&2
    status=1
done < "$folder/words"
exit $status
