/* SPDX-License-Identifier: Apache-2.0 */
/* WEFT_PROXY_SLOTS: a ring of that size carries operations; a size that no ring can have is refused when
 * the job starts, by its value and with what it takes. */
#include "device_test.h"

WEFT_KERNEL(put_all, (uint64_t *, words), (int, n), (int, pe))
{
    for (int i = (int)weft_dev_thread_rank(); i < n; i += (int)weft_dev_block_threads())
        weft_thread_p64(words + i, (uint64_t)i * 0x0101010101010101u, pe);
    weft_block_quiet();
}

#if WEFT_HOST_CODE

/* What holds device code starts it with the job. */
static void refused(const char *slots)
{
    char text[80];
    snprintf(text, sizeof text, "WEFT_PROXY_SLOTS is %s; it takes a power of two from 2 to 1048576",
             slots);
    FAILS(weft_init(&job, NULL), WEFT_ERR_CONFIG, text);
    CHECK(job == NULL);
    fprintf(stderr, "seen: %s\n", weft_last_error());
}

static void carried(void)
{
    enum { N = 100 };
    uint64_t seen[N];
    device_begin();
    uint64_t *words = symmetric(N * sizeof *words);
    barrier();
    LAUNCH(put_all, 1, 64, 0, NULL, words, N, (me + 1) % n_pes);
    barrier();
    fetch(seen, words, sizeof seen);
    for (uint64_t i = 0; i < N; i++)
        CHECK(seen[i] == i * 0x0101010101010101u);
    device_end();
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "refused") == 0)
        refused(argv[2]);
    else
        carried();
    return 0;
}
#endif
