/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM: the first put, or with argument "sum" the first collective, on GPU memory, verified. */
#include "start.h"

#include "pes.h"

#include <nvshmem.h>
#include <nvshmemx.h>

static void join(void)
{
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (me == 0 && nvshmemx_get_uniqueid(&id))
        exit(1);
    share_id(&id, sizeof id);
    nvshmemx_set_attr_uniqueid_args(me, n_pes, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr))
        exit(1);
}

int main(int argc, char **argv)
{
    start_ms = now_ms();
    int sums = argc > 1 && strcmp(argv[1], "sum") == 0;
    float words[WORDS];
    read_rank();
    join();
    double set_up = since_start();
    float *src = (float *)nvshmem_malloc(sizeof words),
          *dst = (float *)nvshmem_malloc(sizeof words);
    if (!src || !dst)
        return 1;
    double memory = since_start();
    fill_words(words, me);
    CUDA(cudaMemcpy(src, words, sizeof words, cudaMemcpyHostToDevice));
    if (sums) {
        nvshmem_barrier_all();
        nvshmem_float_sum_reduce(NVSHMEM_TEAM_WORLD, dst, src, WORDS);
    } else {
        nvshmem_putmem(dst, src, sizeof words, (me + 1) % n_pes);
        nvshmem_barrier_all();
    }
    CUDA(cudaMemcpy(words, dst, sizeof words, cudaMemcpyDeviceToHost));
    if (sums)
        check_sums("nvshmem", words, n_pes);
    else
        check_words("nvshmem", words, (me + n_pes - 1) % n_pes);
    print_line("nvshmem", sums ? "sum" : "put", me, n_pes, set_up, memory, since_start());
    nvshmem_finalize();
    return 0;
}
