#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many instructions of a GPU the steps of one put of 8 bytes over path gda have, as compiled for sm_90: all
# that stand in the text of a step, its rare ways included, and how many of them are atomics, fences, loads and
# stores. Needs nvcc and nvdisasm (of the CUDA toolkit; NVDISASM names another place).   tools/gda_instructions.sh
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
nvdisasm=${NVDISASM:-$(command -v nvdisasm || echo /usr/local/cuda/bin/nvdisasm)}
for tool in "$nvcc" "$nvdisasm"; do
    [ -x "$tool" ] || { echo "tools/gda_instructions.sh: there is no $tool" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# step NAME BODY: prints the counts of a kernel of that body.
step() {
    cat >"$folder/step.cu" <<KERNEL
#include <weft/device/gda_queue.h>
extern "C" __global__ void step(struct weft_dev_gda_queue *q, struct weft_dev_gda_place at, uint64_t value,
                                uint64_t base, uint64_t *out)
{
    $2
}
KERNEL
    "$nvcc" -arch=sm_90 -O3 -Iinclude -cubin -o "$folder/cubin" "$folder/step.cu"
    "$nvdisasm" -c "$folder/cubin" | awk -v name="$1" '
        /^ *\/\*[0-9a-f][0-9a-f][0-9a-f][0-9a-f]\*\// {
            sub(/^ *\/\*[0-9a-f]*\*\/ */, ""); sub(/^@!?U?P[0-9T]+ */, "")
            # What fills the text up behind the end.
            if ($1 ~ /^NOP/ || ($1 == "BRA" && last == "BRA" && ended)) next
            ended = $1 ~ /^(EXIT|RET)/ || (ended && $1 == "BRA"); last = $1
            all++
            if ($1 ~ /^(ATOM|ATOMG|RED)\./) atomics++
            else if ($1 ~ /^(MEMBAR|FENCE)/) fences++
            else if ($1 ~ /^(LD|LDG)\./) loads++
            else if ($1 ~ /^(ST|STG)\./) stores++
        }
        END { printf "%-34s %6d %9d %7d %6d %7d\n", name, all, atomics, fences, loads, stores }'
}

printf '%-34s %6s %9s %7s %6s %7s\n' step all atomics fences loads stores
step 'nothing' ''
step 'slot reserved' 'out[0] = weft_dev_gda_reserve(q, 1);'
step 'room looked for' 'out[0] = weft_dev_gda_room(q, base + 1);'
step 'request written' 'weft_dev_gda_value(&q->ring, base, at, value, 8, WEFT_DEV_GDA_SIGNALED);'
step 'published, no mark found' 'out[0] = weft_dev_gda_advance(q, base, base + 1);'
step 'doorbell record' 'weft_dev_gda_record_end(q, base + 1);'
step 'doorbell' 'weft_dev_gda_bell(q, base + 1);'
step 'ringing ended' 'out[0] = weft_dev_gda_stop_ringing(q, base + 1);'
