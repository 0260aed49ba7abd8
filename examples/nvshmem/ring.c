/* SPDX-License-Identifier: Apache-2.0 */
/* NVSHMEM's interface, one source for GPUs and for CPU threads: every PE passes a value around the
 * ring and adds its number; the value that returns to PE 0 is known. Device side: p, wait_until,
 * one thread. */
#include <nvshmem.h>
#include <nvshmemx.h>

WEFT_KERNEL(ring, (int *, mailbox))
{
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), next = (me + 1) % n;
    if (me == 0)
        nvshmem_int_p(mailbox, 1, next);
    nvshmem_int_wait_until(mailbox, NVSHMEM_CMP_NE, 0);
    if (me != 0)
        nvshmem_int_p(mailbox, *mailbox + me, next);
}

#if WEFT_HOST_CODE
#include <stdio.h>

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), got = 0;
    int *mailbox = nvshmem_calloc(1, sizeof *mailbox);
    if (!mailbox || WEFT_LAUNCH(ring, 1, 1, 0, NULL, mailbox) || weft_stream_synchronize(NULL)) {
        fprintf(stderr, "PE %d: %s\n", me, weft_last_error());
        return 1;
    }
    nvshmem_barrier_all();
    nvshmem_getmem(&got, mailbox, sizeof got, 0);
    int wanted = 1 + n * (n - 1) / 2;
    if (me == 0)
        printf("the value passed around %d PEs is %d\n", n, got);
    nvshmem_free(mailbox);
    nvshmem_finalize();
    return got == wanted ? 0 : 1;
}
#endif
