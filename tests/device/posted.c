/* SPDX-License-Identifier: Apache-2.0 */
/* put_signal_nbi of device code over path gda posts data and signal to the queue and returns,
 * whatever the peer does (finding A6). PE 1 is stopped while PE 0 calls it, and continues when PE
 * 0's kernel has ended. Quiet then completes the operations, and no signal arrives before its data.
 * Data and signal are one reservation of two blocks. */
#include "device_test.h"

#include <signal.h>
#include <unistd.h>

enum { CALLS = 64, WORDS = 500 };

WEFT_DEVICE uint64_t word_of(unsigned call, unsigned i)
{
    return (uint64_t)call << 32 | (i * 7 + 3);
}

/* In every scope, with SET and ADD in turn. */
WEFT_KERNEL(give, (uint64_t *, data), (const uint64_t *, mine), (uint64_t *, signals),
            (uint64_t *, blocks))
{
    struct weft_dev_gda_queue *q = weft_dev_gda_own_queue(1, 0);
    uint64_t before = weft_dev_gda_head(q);
    for (unsigned call = 0; call < CALLS; call++) {
        uint64_t *to = data + call * WORDS, *signal = signals + call;
        const uint64_t *from = mine + call * WORDS;
        weft_signal_op op = call / 3 % 2 ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET;
        if (call % 3 == 0)
            weft_block_put_signal_nbi(to, from, WORDS * 8, signal, call + 1, op, 1);
        else if (call % 3 == 1 && weft_dev_warp() == 0)
            weft_warp_put_signal_nbi(to, from, WORDS * 8, signal, call + 1, op, 1);
        else if (call % 3 == 2 && weft_dev_thread_rank() == 0)
            weft_thread_put_signal_nbi(to, from, WORDS * 8, signal, call + 1, op, 1);
    }
    if (weft_dev_thread_rank() == 0)
        *blocks = weft_dev_gda_head(q) - before;
}

WEFT_KERNEL(finish, (int, pe))
{
    (void)pe;
    weft_block_quiet();
}

/* Checks the data of each call when its signal has arrived. */
WEFT_KERNEL(look, (const uint64_t *, data), (const uint64_t *, signals), (uint64_t *, wrong))
{
    unsigned rank = weft_dev_thread_rank(), n = weft_dev_block_threads();
    for (unsigned call = 0; call < CALLS; call++) {
        if (weft_block_signal_wait(signals + call, WEFT_EQ, call + 1))
            return;
        for (unsigned i = rank; i < WORDS; i += n)
            if (data[call * WORDS + i] != word_of(call, i))
                weft_dev_atomic_add_u64(wrong, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
    }
    if (rank == 0)
        weft_dev_atomic_add_u64(wrong + 1, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

#if WEFT_HOST_CODE
/* Returns when the process is stopped. */
static void stop(pid_t pid)
{
    char path[64], line[512] = "", *end;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    CHECK(kill(pid, SIGSTOP) == 0);
    do {
        FILE *file = fopen(path, "r");
        CHECK(file && fgets(line, sizeof line, file));
        fclose(file);
        end = strrchr(line, ')');
    } while (!end || end[2] != 'T');
}

int main(void)
{
    device_begin();
    const size_t bytes = CALLS * WORDS * sizeof(uint64_t);
    uint64_t *data = symmetric(bytes), *mine = symmetric(bytes);
    uint64_t *signals = symmetric(CALLS * sizeof *signals), *results = symmetric(3 * 8), seen[3];
    uint64_t *pids = symmetric(2 * sizeof *pids), pid = (uint64_t)getpid(), other;
    uint64_t *host = malloc(bytes);
    for (unsigned i = 0; i < CALLS * WORDS; i++)
        host[i] = word_of(i / WORDS, i % WORDS);
    store(mine, host, bytes);
    free(host);
    store(&pids[me], &pid, sizeof pid);
    barrier();
    if (me == 0) {
        OK(weft_get(ctx, &other, &pids[1], sizeof other, 1));
        stop((pid_t)other);
        LAUNCH(give, 1, 64, 0, NULL, data, mine, signals, results + 2);
        CHECK(kill((pid_t)other, SIGCONT) == 0);
        LAUNCH(finish, 1, 64, 0, NULL, 1);
        fetch(seen, results, sizeof seen);
        CHECK(seen[2] == 2 * CALLS);
    } else {
        LAUNCH(look, 1, 64, 0, NULL, data, signals, results);
        fetch(seen, results, sizeof seen);
        CHECK(seen[0] == 0 && seen[1] == 1);
    }
    barrier();
    device_end();
    return 0;
}
#endif
