#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many instructions of a GPU one put of 8 bytes over path gda executes, compiled for sm_90, where nothing is in its
# way: of all ways through the machine code that reserve by an atomic, store the request's three segments, the doorbell
# record and the doorbell, and pass the turn on by another atomic, the shortest. So it assumes that the queue has been
# used before, has room, that nobody else gives a request at the same time, and that no loop goes round. Needs nvcc and
# nvdisasm (of the CUDA toolkit, or PyPI's nvidia-cuda-nvdisasm; NVDISASM says where).   tools/gda_instructions.sh
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
nvdisasm=${NVDISASM:-$(command -v nvdisasm || echo /usr/local/cuda/bin/nvdisasm)}
for tool in "$nvcc" "$nvdisasm"; do
    [ -x "$tool" ] || { echo "tools/gda_instructions.sh: there is no $tool" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The way is searched breadth first. A place on it is an instruction, the calls to return from, and how many of the
# required stores and atomics have been met.
cat >"$folder/way.awk" <<'AWK'
/^ *\/\*[0-9a-f]+\*\// {
    at = $0; sub(/^ *\/\*/, "", at); sub(/\*\/.*/, "", at)
    text = $0; sub(/^ *\/\*[0-9a-f]*\*\/ */, "", text); sub(/ *;.*/, "", text)
    line[++n] = text
    for (i in waiting) { place[i] = n; delete waiting[i] }
    next
}
/^[.$].*:/ { label = $1; sub(/:$/, "", label); waiting[label]; if (label == ".text.step") first = n + 1 }
function kind(op) {
    if (op ~ /^ATOMG?\.E\.ADD\.64/) return "atomic"
    if (op ~ /^STG?\.E\.128/) return "segment"
    if (op ~ /^STG?\.E\.64\.STRONG\.SYS/) return "doorbell"
    if (op ~ /^STG?\.E\.STRONG\.SYS/) return "record"
    if (op ~ /^MEMBAR/) return "fence"
    if (op ~ /^(ERRBAR|CGAERRBAR)/) return "barrier"
    return "rest"
}
function go(pc, calls, met, from,    key) {
    key = pc SUBSEP calls SUBSEP met
    if (pc > n || key in seen) return
    seen[key] = from
    queue[++last] = key
}
END {
    split("atomic segment segment segment record doorbell atomic", wanted, " ")
    go(first, "", bare ? 8 : 1, "")
    for (now = 1; now <= last && !end; now++) {
        split(queue[now], q, SUBSEP)
        text = line[q[1]]; predicate = sub(/^@!?U?P[0-9T]+ */, "", text)
        op = text; sub(/ .*/, "", op); target = text; sub(/.*`\(/, "", target); sub(/\).*/, "", target)
        met = q[3] + (kind(op) == wanted[q[3]])
        goes_on = predicate
        if (op == "EXIT" && met > 7) end = queue[now]
        else if (op ~ /^BRA/) { goes_on = goes_on || text ~ /^BRA[.A-Z]* !?U?P[0-9]/; go(place[target], q[2], met, queue[now]) }
        else if (op ~ /^CALL/) go(place[target], q[1] + 1 " " q[2], met, queue[now])
        else if (op ~ /^RET/) { rest = q[2]; back = rest; sub(/ .*/, "", back); sub(/^[0-9]+ /, "", rest); go(back, rest, met, queue[now]) }
        else if (op != "EXIT") goes_on = 1
        if (goes_on) go(q[1] + 1, q[2], met, queue[now])
    }
    if (!end) { print "no way"; exit 1 }
    for (key = end; key != ""; key = seen[key]) {
        split(key, q, SUBSEP); text = line[q[1]]; sub(/^@!?U?P[0-9T]+ */, "", text); sub(/ .*/, "", text)
        all++; count[kind(text)]++
    }
    printf "%d %d %d %d %d\n", all, count["segment"], count["atomic"], count["fence"], count["barrier"]
}
AWK

# count BODY [bare]: of a kernel of that body behind what brings its arguments; bare: which gives no request.
count() {
    cat >"$folder/step.cu" <<KERNEL
#define WEFT_DEVICE_GDA
#include <weft_device.h>
extern "C" __global__ void step(struct weft_dev_gda_queue **queues, struct weft_dev_gda_place *places,
                                struct weft_dev_request *requests, int pe)
{
    struct weft_dev_gda_queue *q = queues[threadIdx.x];
    struct weft_dev_gda_place at = places[threadIdx.x];
    struct weft_dev_request *r = requests + threadIdx.x;
    uint64_t value = r->value;
    $1
}
KERNEL
    "$nvcc" -arch=sm_90 -O3 -Iinclude -cubin -o "$folder/cubin" "$folder/step.cu" 2>"$folder/words" ||
        { cat "$folder/words" >&2; exit 1; }
    "$nvdisasm" -c "$folder/cubin" | awk -v bare="${2:+1}" -f "$folder/way.awk"
}

show() {
    local name=$1
    shift
    local all=$(($1 - kernel)) rest=$(($1 - kernel - $2 - $5))
    printf '%-32s %6d %9d %8d %7d %10d %6d\n' "$name" "$all" "$2" "$3" "$4" "$5" "$rest"
}
read -r kernel _ < <(count '*(uint64_t *)q = at.address ^ at.key ^ value;' bare)
kernel=$((kernel - 3)) # which use up what was loaded
echo "Instructions of a put of 8 bytes that nothing is in the way of, for sm_90. Behind each fence the assembler"
echo "puts barriers for errors of memory; rest: all but those and the stores of the request's three segments."
printf '%-32s %6s %9s %8s %7s %10s %6s\n' '' all segments atomics fences 'barriers' rest
show 'queue, place and value known' $(count 'weft_dev_gda_p_one(q, weft_dev_gda_requested(r), at, value, 8);')
