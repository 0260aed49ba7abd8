/* SPDX-License-Identifier: Apache-2.0 */
/* A program of host code only: the headers include no device state and no device function. */
#define NVSHMEM_HOSTLIB_ONLY
#include <nvshmem.h>
#include <nvshmemx.h>

#ifdef WEFT_DEVICE_H
#error "NVSHMEM_HOSTLIB_ONLY brings device code"
#endif

/* Names of device code are free. */
static int nvshmem_int_test(void)
{
    return 7;
}

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), sum = 0, wrong = nvshmem_int_test() != 7;
    int *to = nvshmem_calloc((size_t)n + 1, sizeof *to), *from = to + 1;
    nvshmem_int_p(from, me + 1, me);
    nvshmem_barrier_all();
    wrong += nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, to, from, 1) != 0;
    nvshmem_barrier_all();
    nvshmem_int_get(&sum, to, 1, (me + 1) % n);
    wrong += sum != n * (n + 1) / 2;
    nvshmem_barrier_all();
    /* A reduction that needs a kernel: on simt the library has it. */
    for (int i = 0; i < n; i++)
        nvshmem_int_p(&from[i], (me + 1) * (i + 2), me);
    nvshmem_barrier_all();
    wrong += nvshmem_int_sum_reducescatter(NVSHMEM_TEAM_WORLD, to, from, 1) != 0;
    wrong += *to != (me + 2) * (n * (n + 1) / 2);
    nvshmem_finalize();
    return wrong;
}
