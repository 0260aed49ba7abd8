/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's interface: a message goes from PE to PE in chunks. Each block handles its own chunks: a
 * chunk arrives with a signal, is processed, and is sent on by put_signal while the next one
 * arrives. */
#include <nvshmem.h>
#include <nvshmemx.h>

enum { BLOCKS = 4, CHUNK = 1024, CHUNKS = 12 };

WEFT_KERNEL(pipeline, (int *, message), (uint64_t *, arrived))
{
    int me = nvshmem_my_pe(), last = nvshmem_n_pes() - 1;
    unsigned threads = weft_dev_block_threads();
    for (unsigned chunk = weft_dev_block_rank(); chunk < CHUNKS; chunk += BLOCKS) {
        int *data = message + chunk * CHUNK;
        if (me > 0) {
            if (weft_dev_thread_rank() == 0)
                nvshmem_signal_wait_until(arrived + chunk, NVSHMEM_CMP_EQ, 1);
            weft_dev_sync_block();
        }
        for (unsigned i = weft_dev_thread_rank(); i < CHUNK; i += threads)
            data[i] += me + 1;
        if (me < last)
            nvshmemx_int_put_signal_nbi_block(data, data, CHUNK, arrived + chunk, 1,
                                              NVSHMEM_SIGNAL_SET, me + 1);
    }
}

#if WEFT_HOST_CODE
#include <stdio.h>

int main(void)
{
    static int got[CHUNKS * CHUNK];
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0;
    int *message = nvshmem_calloc(CHUNKS * CHUNK, sizeof *message);
    uint64_t *arrived = nvshmem_calloc(CHUNKS, sizeof *arrived);
    if (WEFT_LAUNCH(pipeline, BLOCKS, 128, 0, NULL, message, arrived) ||
        weft_stream_synchronize(NULL)) {
        fprintf(stderr, "PE %d: %s\n", me, weft_last_error());
        return 1;
    }
    nvshmem_barrier_all();
    nvshmem_int_get(got, message, CHUNKS * CHUNK, n - 1);
    for (int i = 0; i < CHUNKS * CHUNK; i++)
        wrong += got[i] != n * (n + 1) / 2;
    if (me == 0)
        printf("%d chunks through %d PEs: %d wrong values\n", CHUNKS, n, wrong);
    nvshmem_finalize();
    return wrong != 0;
}
#endif
