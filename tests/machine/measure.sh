#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands that measure, over the stand-ins of CUDA and NVML: their output and exit status.
#   measure.sh WEFT FOLDER_OF_THE_STAND-INS
set -u
weft=$1
export LD_LIBRARY_PATH=$2 FAKE_CUDA_MEMORY=128
XDG_RUNTIME_DIR=$(mktemp -d)
export XDG_RUNTIME_DIR
trap 'rm -r "$XDG_RUNTIME_DIR"' EXIT
failures=0
# expected status, text that must be in the output, command
expect() {
    local text=$2
    wanted=$1
    shift 2
    command=$*
    output=$("$@" 2>&1)
    got=$?
    also "$text"
}
# text that must be in the output, too
also() {
    [ "$got" = "$wanted" ] && grep -qF -- "$1" <<<"$output" && return
    printf 'FAILED: %s\nstatus %d, expected %d and "%s" in\n%s\n' "$command" "$got" "$wanted" "$1" "$output"
    failures=$((failures + 1))
}
expect 0 'gpu0             X  400/396 101%' "$weft" topo --measure --full
also 'gpu1  0.63/0.63 100%               X'
expect 0 '1 pair NV18, 396 GB/s, 0.63 us: 18x NVLink 4 through NVSwitch; measured 400' "$weft" topo --measure
also 'verified      2 of 2 directions between GPUs'
FAKE_CUDA_SLOW=1-0 expect 0 '(degraded); gpu1->gpu0' "$weft" topo --measure
FAKE_CUDA_LIE=1 expect 0 '; BAD: test failed' "$weft" topo --measure
FAKE_CUDA_REFUSE=1 expect 0 '; OFF: the driver refuses' "$weft" topo --measure
expect 0 '"both_gbytes_per_s": 800' "$weft" topo --measure --json
expect 0 'measured   400 of 396 GB/s, normal for NVLink 4' "$weft" explain --measure gpu0 gpu1
expect 0 'measured   55.0 GB/s' sh -c "'$weft' explain --measure gpu1 host; true"
also 'MAP-REFUSED'
mapped() { LD_PRELOAD=$LD_LIBRARY_PATH/libfakerm.so ASAN_OPTIONS=verify_asan_link_order=0 "$weft" explain --measure gpu1 host; true; }
expect 0 'mapping    proven: mapped by' mapped
FAKE_RM_LIE=1 expect 0 'MAP-PROOF' mapped
FAKE_RM_FAIL=4e:1 expect 0 'refuses with status 0x56' mapped
WEFT_MAP=none expect 0 'MAP-OFF' mapped
expect 2 'nearest' "$weft" explain --measure gpu0 gpu7
quiet() { "$weft" doctor "$@" | grep -A 30 'peer access between GPUs' | grep -B 30 'NICs and'; }
FAKE_CUDA_SLOW=1-0 expect 0 'gpu1 gpu0: 200.0 of 395.9 GB/s over 18x NVLink 4 through NVSwitch' quiet
also 'P2P-ONE-WAY'
FAKE_CUDA_LIE=1 expect 0 'P2P-PROOF' quiet
FAKE_CUDA_REFUSE=1 expect 0 'P2P-REFUSED' quiet
FAKE_CUDA_PEER=0 expect 0 'cuDeviceCanAccessPeer(gpu0, gpu1): no' quiet
all() { "$weft" doctor "$@" || true; }
FAKE_CUDA_LIE=1 expect 0 'no test result is recorded' all --quick
also 'NVLS, if the driver offers multicast (not known)'
FAKE_NVML_GROW=2 FAKE_CUDA_MULTICAST=0 expect 0 'gpu1 link 3 crc data +' all
also 'no NVLS: the driver offers no multicast for gpu0'
expect 0 'ok            peer access between GPUs' all
also 'NVLS: the driver offers multicast'
FAKE_CUDA_INIT=999 expect 0 'no test result is recorded' quiet
FAKE_CUDA_LIE=1 expect 1 'BAD' sh -c "'$weft' topo --measure; '$weft' doctor > /dev/null"
# Without --measure NVML alone is asked: CUDA takes seconds to start.
if LD_DEBUG=files "$weft" topo 2>&1 | grep -q 'calling init.*libcuda'; then
    echo 'FAILED: topo without --measure starts CUDA'
    failures=$((failures + 1))
fi
LD_DEBUG=files "$weft" topo 2>&1 | grep -q 'calling init.*libnvidia-ml' || {
    echo 'FAILED: topo does not ask NVML'
    failures=$((failures + 1))
}
exit $((failures > 0))
