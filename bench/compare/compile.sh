#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How long ten programs with NVSHMEM's names take to compile and link, with Weft's headers and with
# NVIDIA's, by turns: CPU seconds, the median of ROUNDS (3).
#   bench/compare/compile.sh INCLUDE_FOLDER LIBRARY_FOLDER       of Weft; NVSHMEM_HOME: the other's
# Each is shaped like a test of NVSHMEM's perftest: a kernel that repeats one operation, and its host.
set -eu
weft_include=$1 weft_lib=$2 home=${NVSHMEM_HOME:-} rounds=${ROUNDS:-3}
[ -n "$home" ] || home=$(python3 -c 'import nvidia.nvshmem as n; print(list(n.__path__)[0])' 2>/dev/null || true)
host=$(ls "$home"/lib/libnvshmem_host.so* 2>/dev/null | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# program NAME PARAMETERS: a kernel of these parameters whose body is standard input.
program() {
    {
        printf '#include <nvshmem.h>\n#include <nvshmemx.h>\n#include <stdio.h>\n#include <stdlib.h>\n'
        printf '__global__ void repeat(%s, int n, int peer)\n{\n' "$2"
        cat
        printf '}\nint main()\n{\n    nvshmem_init();\n'
        printf '    int me = nvshmem_my_pe(), pes = nvshmem_n_pes(), n = 100, peer = (me + 1) %% pes;\n'
        printf '    char *data = (char *)nvshmem_malloc(1 << 20);\n    uint64_t *flag = (uint64_t *)nvshmem_calloc(8, 8);\n'
        printf '    void *args[] = {&data, &flag, &n, &peer};\n    nvshmem_barrier_all();\n'
        printf '    nvshmemx_collective_launch((const void *)repeat, 1, 256, args, 0, 0);\n'
        printf '    if (cudaDeviceSynchronize() != cudaSuccess)\n        exit(1);\n'
        printf '    printf("%%d of %%d\\n", me, pes);\n    nvshmem_free(data);\n    nvshmem_free(flag);\n    nvshmem_finalize();\n    return 0;\n}\n'
    } >"$work/$1.cu"
}
both='char *data, uint64_t *flag'
program p_latency "$both" <<'K'
    for (int i = 0; i < n; i++) {
        nvshmem_int_p((int *)data, i, peer);
        nvshmem_quiet();
    }
K
program g_latency "$both" <<'K'
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += nvshmem_long_g((long *)data + i, peer);
    *flag = sum;
K
program put_bandwidth "$both" <<'K'
    for (int i = 0; i < n; i++)
        nvshmemx_double_put_nbi_block((double *)data, (double *)data + 4096, 4096, peer);
    nvshmem_quiet();
K
program get_bandwidth "$both" <<'K'
    for (int i = 0; i < n; i++)
        nvshmemx_float_get_warp((float *)data, (float *)data + 4096, 1024, peer);
K
program put_signal "$both" <<'K'
    for (int i = 1; i <= n; i++) {
        nvshmemx_putmem_signal_block(data, data + 4096, 4096, flag, i, NVSHMEM_SIGNAL_SET, peer);
        if (threadIdx.x == 0)
            nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, i);
        __syncthreads();
    }
K
program ping_pong "$both" <<'K'
    for (int i = 1; i <= n; i++) {
        nvshmem_uint64_p(flag, i, peer);
        nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, i);
    }
K
program atomic_add "$both" <<'K'
    for (int i = 0; i < n; i++)
        nvshmem_uint64_atomic_add(flag, 1, peer);
    nvshmem_quiet();
K
program atomics "$both" <<'K'
    unsigned seen = 0, *word = (unsigned *)data;
    unsigned long long *wide = (unsigned long long *)flag;
    for (int i = 0; i < n; i++) {
        seen += nvshmem_uint_atomic_fetch_add(word, 1, peer);
        seen += nvshmem_uint_atomic_fetch_inc(word + 1, peer);
        seen += nvshmem_uint_atomic_swap(word + 2, i, peer);
        seen += nvshmem_uint_atomic_compare_swap(word + 3, i, i + 1, peer);
        nvshmem_uint_atomic_and(word + 4, i, peer);
        nvshmem_uint_atomic_or(word + 5, i, peer);
        nvshmem_uint_atomic_xor(word + 6, i, peer);
        nvshmem_uint_atomic_set(word + 7, i, peer);
        wide[2] += nvshmem_ulonglong_atomic_fetch_add(wide, 1, peer);
        wide[2] += nvshmem_ulonglong_atomic_swap(wide, i, peer);
        wide[2] += nvshmem_ulonglong_atomic_compare_swap(wide, i, i + 1, peer);
        nvshmem_ulonglong_atomic_inc(wide + 1, peer);
    }
    word[9] = seen;
K
program barrier "$both" <<'K'
    for (int i = 0; i < n; i++) {
        nvshmemx_barrier_all_block();
        nvshmemx_sync_all_block();
    }
K
program collectives "$both" <<'K'
    for (int i = 0; i < n; i++) {
        nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, (float *)data, (float *)data + 4096, 1024);
        nvshmemx_int_fcollect_block(NVSHMEM_TEAM_WORLD, (int *)data, (int *)data + 8192, 64);
        nvshmemx_int_broadcast_block(NVSHMEM_TEAM_WORLD, (int *)data, (int *)data + 8192, 64, 0);
    }
K

# seconds COMMAND...: CPU seconds; the command must succeed.
TIMEFORMAT='%U %S'
seconds() {
    local spent
    spent=$({ time "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }; } 2>&1) || { echo "$spent" >&2; return 1; }
    awk '{ printf "%.2f\n", $1 + $2 }' <<<"$spent"
}
ours() { nvcc -std=c++17 -O3 -arch=sm_90 -I"$weft_include" "$work/$1.cu" -o "$work/ours" -L"$weft_lib" -lweft; }
theirs() {
    nvcc -rdc=true -std=c++17 -O3 -arch=sm_90 -I"$home/include" "$work/$1.cu" -o "$work/theirs" \
        -L"$home/lib" -lnvshmem_device -Xlinker "$host"
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

nvcc --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1, CPU seconds to compile and link/p'
printf '%-16s %8s %8s %8s\n' program Weft NVSHMEM ratio
for file in "$work"/*.cu; do
    name=$(basename "$file" .cu)
    rm -f "$work"/ours.s "$work"/theirs.s
    for ((round = 0; round < rounds; round++)); do
        seconds ours "$name" >>"$work/ours.s"
        [ -z "$host" ] || seconds theirs "$name" >>"$work/theirs.s"
    done
    a=$(median <"$work/ours.s") b=-
    [ -z "$host" ] || b=$(median <"$work/theirs.s")
    awk -v n="$name" -v a="$a" -v b="$b" 'BEGIN { printf "%-16s %8.2f %8s %8s\n", n, a, b, b == "-" ? "-" : sprintf("%.2f", a / b) }'
done
