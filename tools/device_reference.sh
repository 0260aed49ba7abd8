#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the page of all operations of <weft_device.h>: each with its prototype, as the compiler sees it
# after the scopes' and types' lists are expanded, so that each name is found by a text search.
set -eu
cd "$(dirname "$0")/.."

# One line per function whose name begins with weft_ and a scope or form, or is of the job and its
# teams.
prototypes() {
    echo '#include <weft_device.h>' | "${CC:-cc}" -std=gnu11 -E -P -Iinclude -x c - |
        tr '\n' ' ' |
        sed 's/__attribute__((unused))//g' |
        grep -oE 'static inline +[A-Za-z0-9_ ]+[ *]+(weft_(thread|warp|block|grid|blocks)_[a-z0-9_]+|weft_dev_(my_pe|n_pes|ptr|team_my_pe|team_n_pes|team_translate)|weft_packet_bytes)\([^)]*\) *\{' |
        sed -E 's/^static inline +//; s/ *\{$/;/; s/ +/ /g; s/\( /(/g; s/ \)/)/g; s/\* +/*/g'
}

all=$(prototypes)

# title, pattern of the name after its scope
section() {
    printf '\n## %s\n\n```c\n' "$1"
    printf '%s\n' "$all" | grep -E "$2" || true
    printf '```\n'
}

scoped='weft_(thread|warp|block)_'
cat <<'END'
# Device operations by name

Made by `tools/device_reference.sh` from `<weft_device.h>`; what each function promises is said in the
header that the section names, and in [the guide](device.md).
END
section 'The job (device/access.h, device/collective.h)' 'weft_dev_'
section 'Single values (device/rma.h)' "weft_thread_(p|g)(_f|[0-9])"
section 'Put and get (device/rma.h)' "$scoped(put|get|iput|iget)(_nbi)?\("
section 'Signals (device/rma.h)' "$scoped(put_signal(_nbi)?|signal|signal_fetch)\("
section 'Atomics (device/atomics.h)' "weft_thread_atomic_"
section 'Order (device/order.h)' "$scoped(fence|quiet)\("
section 'Waits and tests (device/wait.h)' "$scoped(wait|signal_wait|test)"
section 'Packets (device/packet.h)' "packet"
section 'Collectives (device/collective.h, sized.h, reduce.h)' \
        "$scoped(meet|sync|barrier|broadcast|allgather|collect|alltoall[sv]?|gather|scatter|(allreduce|reduce|reducescatter)(_scaled|_weighted)?)\("
section 'Collectives of several blocks (device/grid.h)' "weft_(grid|blocks)_"
