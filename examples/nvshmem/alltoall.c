/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's interface: an all-to-all by block puts and a barrier, by the block collective, and on a
 * stream. The three results must be equal. */
#include <nvshmem.h>
#include <nvshmemx.h>

enum { BLOCK_BYTES = 3000, BLOCK_FLOATS = BLOCK_BYTES / 4 };

WEFT_KERNEL(by_puts, (float *, to), (const float *, from))
{
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    for (int i = 0; i < n; i++) {
        int pe = (me + i) % n;
        nvshmemx_float_put_nbi_block(to + me * BLOCK_FLOATS, from + pe * BLOCK_FLOATS, BLOCK_FLOATS,
                                     pe);
    }
    nvshmemx_barrier_all_block();
}

WEFT_KERNEL(by_collective, (float *, to), (const float *, from))
{
    nvshmemx_float_alltoall_block(NVSHMEM_TEAM_WORLD, to, from, BLOCK_FLOATS);
}

#if WEFT_HOST_CODE
#include <stdio.h>
#include <stdlib.h>

static int check(const char *how, const float *to, int me, int n)
{
    size_t bytes = (size_t)n * BLOCK_FLOATS * sizeof(float);
    float *host = malloc(bytes);
    int wrong = !host;
    if (host) {
        nvshmem_getmem(host, to, bytes, me);
        for (int pe = 0; pe < n; pe++)
            for (int i = 0; i < BLOCK_FLOATS; i++)
                wrong += host[pe * BLOCK_FLOATS + i] != (float)(pe * 1000 + me * 10000 + i % 100);
    }
    free(host);
    if (wrong)
        fprintf(stderr, "PE %d: %d wrong values %s\n", me, wrong, how);
    nvshmem_barrier_all();
    return wrong;
}

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0;
    size_t bytes = (size_t)n * BLOCK_FLOATS * sizeof(float);
    float *from = nvshmem_malloc(bytes), *to[3], *values = malloc(bytes);
    for (int i = 0; i < 3; i++)
        to[i] = nvshmem_calloc(bytes, 1);
    for (int pe = 0; values && pe < n; pe++)
        for (int i = 0; i < BLOCK_FLOATS; i++)
            values[pe * BLOCK_FLOATS + i] = (float)(me * 1000 + pe * 10000 + i % 100);
    nvshmem_putmem(from, values, bytes, me);
    nvshmem_barrier_all();
    if (WEFT_LAUNCH(by_puts, 1, 256, 0, NULL, to[0], from) ||
        WEFT_LAUNCH(by_collective, 1, 256, 0, NULL, to[1], from) || weft_stream_synchronize(NULL)) {
        fprintf(stderr, "PE %d: %s\n", me, weft_last_error());
        return 1;
    }
    wrong += check("by puts", to[0], me, n);
    wrong += check("by the collective", to[1], me, n);
    weft_stream stream;
    if (weft_stream_create(&stream) ||
        nvshmemx_float_alltoall_on_stream(NVSHMEM_TEAM_WORLD, to[2], from, BLOCK_FLOATS, stream) ||
        weft_stream_synchronize(stream)) {
        fprintf(stderr, "PE %d: %s\n", me, weft_last_error());
        return 1;
    }
    weft_stream_destroy(stream);
    wrong += check("on a stream", to[2], me, n);
    if (me == 0 && !wrong)
        printf("%d PEs, %d bytes for each pair: three methods, one result\n", n, BLOCK_BYTES);
    free(values);
    nvshmem_finalize();
    return wrong != 0;
}
#endif
