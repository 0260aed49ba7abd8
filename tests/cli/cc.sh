#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `weft cc`: a program of two files with kernels, in one step and by objects, runs on simt; its PTX is
# in it where clang is; what it cannot compile is named.
# The short form leaves out --simt, code for AMD GPUs (device.hip.short has it) and ptxas.
#   cc.sh WEFT short|all
set -u
weft=$1 form=$2
failures=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}
folder=$(mktemp -d "$PWD/cc.XXXXXX") && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
cat > main.c << 'END'
#include <stdio.h>
#include <weft_device.h>
#include "given.h"
WEFT_KERNEL_DECLARE(twice, (uint64_t *, words), (int, n));
WEFT_KERNEL(shift, (uint64_t *, slot))
{
    int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
    if (weft_dev_grid_rank() == 0)
        weft_thread_p64(slot, (uint64_t)weft_dev_my_pe() + GIVEN, next);
    weft_block_quiet();
}
#if WEFT_HOST_CODE
int main(void)
{
    weft_job *job;
    void *slot;
    uint64_t seen = 0;
    if (weft_init(&job, NULL) || weft_alloc(job, weft_device_kind(job), 8, 0, WEFT_ALLOC_ZERO, &slot) ||
        WEFT_LAUNCH(shift, 1, 64, 0, NULL, slot) || weft_stream_synchronize(NULL) ||
        weft_barrier(weft_team_world(job)) || WEFT_LAUNCH(twice, 1, 32, 0, NULL, slot, 1) ||
        weft_stream_synchronize(NULL) || weft_get(weft_default_ctx(job), &seen, slot, 8, weft_my_pe(job)))
        return 1;
    printf("PE %d: %llu\n", weft_my_pe(job), (unsigned long long)seen);
    return weft_finalize(job) != WEFT_OK;
}
#endif
END
cat > twice.c << 'END'
#include <weft_device.h>
WEFT_KERNEL(twice, (uint64_t *, words), (int, n))
{
    int i = (int)weft_dev_grid_rank();
    if (i < n)
        words[i] *= 2;
}
END
mkdir given && echo '#define GIVEN 20' > given/given.h
clang=yes
words=$("$weft" cc -Igiven main.c twice.c -o whole 2>&1) || fail "status $?: $words"
case $words in
'') ;;
*"run on simt alone: "*"clang-19"*) clang=no ;;
*) fail "unexpected words: $words" ;;
esac
wanted="PE 0: 42
PE 1: 40"
seen=$(WEFT_TARGET=simt "$weft" run -n 2 ./whole | sort)
[ "$seen" = "$wanted" ] || fail "whole: $seen"
"$weft" cc -c -Igiven main.c 2> words || fail "-c main.c: status $? $(cat words)"
"$weft" cc -c -O1 twice.c 2> words || fail "-c twice.c: status $? $(cat words)"
"$weft" cc main.o twice.o -o parts || fail "linking: status $?"
seen=$(WEFT_TARGET=simt "$weft" run -n 2 ./parts | sort)
[ "$seen" = "$wanted" ] || fail "parts: $seen"
if [ $clang = yes ]; then
    for program in whole parts; do
        for kernel in shift twice; do
            nm $program | grep -q " weft_kernel_cuda_$kernel\$" || fail "$program has no $kernel for GPUs"
        done
    done
fi
if [ "$form" = all ]; then
    "$weft" cc --simt -Igiven main.c twice.c -o simt 2> words || fail "--simt: status $?"
    [ ! -s words ] && ! nm simt | grep -q "[DdRr] weft_kernel_cuda_shift" || fail "--simt: $(cat words)"
fi

# Code for AMD GPUs, where clang finds lld; test device.hip has a larger program.
if [ "$form" = short ]; then
    true
elif [ $clang = yes ] && "$weft" cc --hip=gfx942 -c twice.c -o amd.o 2> words; then
    nm amd.o | grep -q " weft_image_gfx942_end\$" || fail "--hip=gfx942: $(nm amd.o)"
    nm amd.o | grep -q gfx90a && fail "--hip=gfx942: gfx90a is there, too"
    "$weft" cc main.o amd.o -o amd || fail "linking amd.o: status $?"
    seen=$(WEFT_TARGET=simt "$weft" run -n 2 ./amd | sort)
    [ "$seen" = "$wanted" ] || fail "amd: $seen"
elif [ $clang = yes ]; then
    grep -qE "^weft cc: --hip: .* (finds no lld|has no back end amdgcn)" words || fail "--hip: $(cat words)"
fi

# Cubins by ptxas, or what stands for it here.
printf '#!/bin/sh\nprintf "%%s %%s" "$1" "$(grep -c "^.visible .entry" "$2")" > "$4"\n' > assemble && chmod +x assemble
if [ $clang = yes ]; then
    WEFT_PTXAS=$PWD/assemble "$weft" cc --cubin=80,90 -c twice.c -o cubin.o 2> words || fail "--cubin: $(cat words)"
    for arch in sm_80 sm_90; do
        nm cubin.o | grep -q " weft_image_${arch}_end\$" || fail "--cubin: no $arch: $(nm cubin.o)"
    done
    if [ "$form" = all ] && command -v ptxas > /dev/null; then
        "$weft" cc --cubin=90 -c twice.c -o cubin.o 2> words || fail "--cubin by ptxas: $(cat words)"
    fi
    "$weft" cc main.o cubin.o -o cubin || fail "linking cubin.o: status $?"
    seen=$(WEFT_TARGET=simt "$weft" run -n 2 ./cubin | sort)
    [ "$seen" = "$wanted" ] || fail "cubin: $seen"
fi

# WORDS STATUS argument...: the command fails with it.
refuses() {
    local text=$1 wanted=$2 status=0
    shift 2
    "$weft" cc "$@" > words 2>&1 || status=$?
    [ $status = "$wanted" ] && grep -q -- "$text" words || fail "$*: status $status: $(cat words)"
}
refuses "none.c cannot be read" 2 none.c
refuses "kernels in CUDA C++" 2 some.cu
refuses "-o names no file" 2 twice.c -o
refuses "2 sources for one file" 2 -c main.c twice.c -o both.o
refuses "usage: weft cc" 2
refuses "-E makes no program" 2 -E twice.c
printf '#!/bin/sh\necho 14.0.6\n' > old && chmod +x old
WEFT_CLANG=$PWD/old refuses "old is version 14.0.6; device code needs clang 18 or newer" 0 -c twice.c -o old.o
refuses "--hip=gfx1100: Weft's device code is for AMD GPUs gfx90a and gfx942" 2 --hip=gfx90a,gfx1100 twice.c
refuses "--cubin=sm_90: name compute capabilities from 70 on, as 80,90,100" 2 --cubin=80,sm_90 twice.c
if [ $clang = yes ]; then
    WEFT_PTXAS=$PWD/none refuses "--cubin: there is no $PWD/none; install the CUDA toolkit" 1 --cubin=90 -c twice.c
fi
WEFT_CLANG=$PWD/old refuses "--cubin: .*old is version 14.0.6" 1 --cubin=90 -c twice.c
cat > odd << 'END'
#!/bin/sh
case $1 in
-dumpversion) echo 19.1.0 ;;
--print-targets) printf '%s\n' nvptx64 $ODD ;;
-print-prog-name=lld) echo lld ;;
esac
END
chmod +x odd
ODD=amdgcn WEFT_CLANG=$PWD/odd refuses "--hip: .*odd finds no lld" 1 --hip -c twice.c
WEFT_CLANG=$PWD/odd refuses "--hip: .*odd has no back end amdgcn" 1 --hip -c twice.c
WEFT_CLANG=$PWD/old refuses "--hip: .*old is version 14.0.6" 1 --hip -c twice.c
[ ! -e a.out ] || fail "a.out was left behind"
[ $failures = 0 ]
