/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels without transports (<weft/device/p2p.h>): puts, atomics, signals, waits and a barrier
 * reach the next PE by loads and stores. With the argument "refused", over a path without direct
 * addresses, an operation is refused, the job fails, and a warning has named the PE. */
#include <weft/device/p2p.h>

#include "device_test.h"

enum { WORDS = 37 };

WEFT_KERNEL(pass_on, (uint64_t *, box), (uint64_t *, flag), (uint64_t *, count), (int *, result))
{
    int next = (weft_dev_my_pe() + 1) % weft_dev_n_pes(), status;
    weft_block_put_signal(box, box + WORDS, 8 * WORDS, flag, 3, WEFT_SIGNAL_SET, next);
    weft_thread_atomic_add64(count, weft_dev_thread_rank() + 1, next);
    status = weft_block_signal_wait(flag, WEFT_EQ, 3);
    if (!status)
        status = weft_block_barrier(0);
    if (weft_dev_thread_rank() == 5)
        *result = status;
}

WEFT_KERNEL(p_to_next, (uint64_t *, word))
{
    if (weft_dev_thread_rank() == 6)
        weft_thread_p64(word, 77, (weft_dev_my_pe() + 1) % weft_dev_n_pes());
}

#if WEFT_HOST_CODE

static void reaches(void)
{
    enum { THREADS = 64 };
    uint64_t *box = symmetric(2 * 8 * WORDS), *flag = symmetric(16), mine[WORDS], seen[WORDS];
    int *result = symmetric(sizeof *result), status = -1;
    for (uint64_t i = 0; i < WORDS; i++)
        mine[i] = (uint64_t)me << 40 | i * i;
    store(box + WORDS, mine, sizeof mine);
    store(result, &status, sizeof status);
    barrier();
    LAUNCH(pass_on, 1, THREADS, 0, NULL, box, flag, flag + 1, result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    fetch(seen, box, sizeof seen);
    for (uint64_t i = 0; i < WORDS; i++)
        CHECK(seen[i] == ((uint64_t)((me + n_pes - 1) % n_pes) << 40 | i * i));
    fetch(seen, flag, 16);
    CHECK(seen[0] == 3 && seen[1] == THREADS * (THREADS + 1) / 2);
}

static void refused(void)
{
    uint64_t *word = symmetric(8);
    OK(WEFT_LAUNCH(p_to_next, 1, 32, 0, NULL, word));
    CHECK(weft_stream_synchronize(NULL) != WEFT_OK);
    FAILS(weft_device_check(job), WEFT_ERR_NO_PATH, "block 0 thread 6: p:");
    fprintf(stderr, "%s\n", weft_last_error());
    exit(0); /* the job has failed */
}

int main(int argc, char **argv)
{
    device_begin();
    if (argc > 1 && strcmp(argv[1], "refused") == 0)
        refused();
    reaches();
    device_end();
    return 0;
}

#endif
