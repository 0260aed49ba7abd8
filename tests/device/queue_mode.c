/* SPDX-License-Identifier: Apache-2.0 */
/* weft_device_queue_mode(): in each mode every operation of blocks with and without queues of their
 * own arrives once, and the queues are used as the mode says.
 *   queue_mode          all modes, JOB_ROUNDS (20) in each
 *   queue_mode few      too few queues for mode WEFT_QUEUES_EXCLUSIVE
 *   queue_mode violated two kernels use the same exclusive queues at once */
#include "device_test.h"

enum { WORDS = 41, PARTS = 7, PART_WORDS = 42, BLOCKS_MOST = 16, QUEUES_MOST = 16 };

/* What a block sends to the same block of the next PE in a round. */
struct mail {
    uint64_t data[WORDS]; /* by a block's put */
    uint64_t one;         /* by p */
    uint64_t lanes[32];   /* by p of the lanes of a warp */
    /* by nbi puts of multiples of 16 bytes */
    uint64_t parts[PARTS][PART_WORDS] __attribute__((aligned(16)));
    uint64_t signalled[WORDS]; /* by a put with signal */
};

WEFT_DEVICE uint64_t value_of(unsigned block, uint64_t round, uint64_t i, int pe)
{
    return (round * 1000003 + i * 7919 + block * 104729u + (uint64_t)pe) * 0x9e3779b97f4a7c15u;
}

WEFT_DEVICE uint64_t wrong_words(const uint64_t *words, unsigned n, unsigned block, uint64_t round,
                                 uint64_t first, int pe)
{
    uint64_t wrong = 0;
    for (unsigned i = weft_dev_thread_rank(); i < n; i += weft_dev_block_threads())
        wrong += words[i] != value_of(block, round, first + i, pe);
    return wrong;
}

/* Rounds base + 1 to last; base: rounds of earlier launches. */
WEFT_KERNEL(run_rounds, (struct mail *, mails), (struct mail *, sources), (uint64_t *, signals),
            (uint64_t *, back), (uint64_t *, sum), (uint64_t, base), (uint64_t, last),
            (uint64_t *, wrong))
{
    unsigned block = weft_dev_block_rank(), thread = weft_dev_thread_rank();
    int pe = weft_dev_my_pe(), n = weft_dev_n_pes(), to = (pe + 1) % n, from = (pe + n - 1) % n;
    struct mail *mail = mails + block, *source = sources + block;
    uint64_t bad = 0;
    for (uint64_t round = base + 1; round <= last; round++) {
        for (unsigned i = thread; i < WORDS; i += weft_dev_block_threads())
            source->data[i] = value_of(block, round, i, pe);
        for (unsigned i = thread; i < PARTS * PART_WORDS; i += weft_dev_block_threads())
            source->parts[0][i] = value_of(block, round, 1000 + i, pe);
        for (unsigned i = thread; i < WORDS; i += weft_dev_block_threads())
            source->signalled[i] = value_of(block, round, 2000 + i, pe);
        weft_dev_sync_block();
        weft_block_put(mail->data, source->data, sizeof mail->data, to);
        if (thread < 32) /* while the block puts */
            weft_thread_p64(&mail->lanes[thread], value_of(block, round, 500 + thread, pe), to);
        if (thread == 40)
            weft_thread_p64(&mail->one, value_of(block, round, 700, pe), to);
        for (int part = 0; part < PARTS; part++)
            weft_block_put_nbi(mail->parts[part], source->parts[part], sizeof mail->parts[part],
                               to);
        if (thread == 0)
            weft_thread_atomic_add64(sum, round, to);
        weft_block_put_signal(mail->signalled, source->signalled, sizeof mail->signalled,
                              signals + BLOCKS_MOST + block, round, WEFT_SIGNAL_SET, to);
        weft_block_fence();
        if (thread == 0)
            weft_thread_signal(signals + block, round, WEFT_SIGNAL_SET, to);
        weft_block_signal_wait(signals + BLOCKS_MOST + block, WEFT_GE, round);
        bad += wrong_words(mail->signalled, WORDS, block, round, 2000, from);
        weft_block_signal_wait(signals + block, WEFT_GE, round);
        weft_block_get(source->parts[0], mail->data, sizeof mail->data, to);
        bad += wrong_words(mail->data, WORDS, block, round, 0, from);
        bad += wrong_words(mail->lanes, 32, block, round, 500, from);
        bad += wrong_words(&mail->one, 1, block, round, 700, from);
        bad += wrong_words(mail->parts[0], PARTS * PART_WORDS, block, round, 1000, from);
        weft_dev_sync_block();
        if (thread == 0)
            weft_thread_p64(back + block, round, from);
        weft_block_signal_wait(back + block, WEFT_GE, round);
        weft_thread_quiet();
        weft_dev_sync_block();
    }
    weft_dev_atomic_add_u64(wrong, bad, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
}

/* Which queues to the next PE operations of one block use: one bit each. used[0]: of a put,
 * used[1]: of an atomic on a word. used[2]: queues that are not complete after the quiet. */
WEFT_KERNEL(watch, (uint32_t, acting), (uint64_t *, word), (uint64_t *, used))
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    uint64_t before[2][QUEUES_MOST];
    int pe = (weft_dev_my_pe() + 1) % weft_dev_n_pes();
    if (weft_dev_thread_rank() || weft_dev_block_rank() != acting)
        return;
    struct weft_dev_gda_queue *queues = weft_dev_gda_queues_to(gda, pe);
    for (uint32_t k = 0; k < gda->each && k < QUEUES_MOST; k++)
        before[0][k] = weft_dev_gda_head(queues + k);
    weft_thread_p64(word, 7, pe);
    for (uint32_t k = 0; k < gda->each && k < QUEUES_MOST; k++)
        before[1][k] = weft_dev_gda_head(queues + k);
    weft_thread_atomic_add64(word + 1, 1, pe);
    for (uint32_t k = 0; k < gda->each && k < QUEUES_MOST; k++) {
        used[0] |= (uint64_t)(before[1][k] != before[0][k]) << k;
        used[1] |= (uint64_t)(weft_dev_gda_head(queues + k) != before[1][k]) << k;
    }
    weft_thread_quiet();
    for (uint32_t k = 0; k < gda->each && k < QUEUES_MOST; k++)
        used[2] |= (uint64_t)!weft_dev_gda_reached(queues + k, weft_dev_gda_head(queues + k)) << k;
}

/* Many values by one thread. */
WEFT_KERNEL(hammer, (uint64_t *, words), (uint32_t, n))
{
    for (uint32_t i = 0; i < n; i++)
        weft_thread_p64(words + weft_dev_block_rank(), i,
                        (weft_dev_my_pe() + 1) % weft_dev_n_pes());
}

#if WEFT_HOST_CODE
static const struct weft_dev_gda_sharing *sharing_of(uint32_t *each, uint32_t *nics)
{
    const struct weft_dev_gda *gda = &weft_dev_state.gda;
    *each = gda->each;
    *nics = gda->adapters;
    return &gda->sharing;
}

static void check_queues(weft_queue_mode mode, uint64_t *word, uint64_t *used)
{
    uint32_t each, nics;
    uint64_t none[3] = {0, 0, 0}, seen[3];
    const struct weft_dev_gda_sharing *sharing = sharing_of(&each, &nics);
    CHECK(sharing->shared_from % nics == 0 && sharing->shared >= nics);
    CHECK(mode != WEFT_QUEUES_EXCLUSIVE || sharing->exclusive == (each / nics - 1) * nics);
    for (uint32_t block = 0; block < BLOCKS_MOST; block++) {
        store(used, none, sizeof none);
        LAUNCH(watch, BLOCKS_MOST, 1, 0, NULL, block, word, used);
        fetch(seen, used, sizeof seen);
        uint32_t own = mode == WEFT_QUEUES_SHARED   ? block % each
                       : mode == WEFT_QUEUES_SINGLE ? block % nics
                       : block < sharing->exclusive
                           ? block
                           : sharing->shared_from + block % sharing->shared;
        CHECK(seen[0] == (uint64_t)1 << own);
        CHECK(__builtin_popcountll(seen[1]) == 1);
        CHECK(!seen[2]);
        CHECK(seen[1] >> sharing->shared_from != 0); /* no exclusive queue */
        CHECK(mode != WEFT_QUEUES_SINGLE || seen[1] < (uint64_t)1 << nics);
    }
}

static void test_mode(weft_queue_mode mode, uint64_t base, uint64_t last, uint64_t *word)
{
    uint64_t *wrong = symmetric(sizeof *wrong), *used = symmetric(3 * sizeof *used);
    uint64_t *sum = symmetric(sizeof *sum), seen, wanted = 0;
    uint64_t *signals = symmetric(2 * BLOCKS_MOST * sizeof *signals);
    uint64_t *back = symmetric(BLOCKS_MOST * sizeof *back);
    struct mail *mails = symmetric(BLOCKS_MOST * sizeof *mails);
    struct mail *sources = symmetric(BLOCKS_MOST * sizeof *sources);
    int blocks = -1;
    OK(weft_device_queue_mode(job, mode, &blocks));
    CHECK(mode == WEFT_QUEUES_EXCLUSIVE ? blocks > 0 : blocks == 0);
    barrier();
    LAUNCH(run_rounds, (unsigned)blocks + 3, 64, 0, NULL, mails, sources, signals, back, sum, base,
           last, wrong);
    barrier();
    fetch(&seen, wrong, sizeof seen);
    CHECK(!seen);
    for (uint64_t round = base + 1; round <= last; round++)
        wanted += round * ((uint64_t)blocks + 3);
    fetch(&seen, sum, sizeof seen);
    CHECK(seen == wanted);
    barrier();
    if (weft_target_get() == WEFT_SIMT)
        check_queues(mode, word, used);
    barrier();
}

static void test_violation(void)
{
    uint64_t *words = symmetric(2 * sizeof *words);
    weft_stream streams[2];
    weft_status status = WEFT_OK;
    OK(weft_device_queue_mode(job, WEFT_QUEUES_EXCLUSIVE, NULL));
    for (int i = 0; i < 2; i++)
        OK(weft_stream_create(&streams[i]));
    for (int tries = 0; tries < 200 && !status; tries++) {
        for (int i = 0; i < 2 && !status; i++)
            status = WEFT_LAUNCH(hammer, 1, 1, 0, streams[i], words, 2000);
        for (int i = 0; i < 2; i++)
            weft_stream_synchronize(streams[i]);
        status = weft_device_check(job);
    }
    printf("seen: %s\n", weft_last_error());
    exit(status != WEFT_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    static const weft_queue_mode modes[] = {WEFT_QUEUES_SHARED, WEFT_QUEUES_EXCLUSIVE,
                                            WEFT_QUEUES_SINGLE, WEFT_QUEUES_EXCLUSIVE,
                                            WEFT_QUEUES_SHARED};
    device_begin();
    uint64_t *word = symmetric(2 * sizeof *word);
    if (argc > 1 && strcmp(argv[1], "violated") == 0)
        test_violation();
    if (argc > 1 && strcmp(argv[1], "few") == 0) {
        FAILS(weft_device_queue_mode(job, WEFT_QUEUES_EXCLUSIVE, NULL), WEFT_ERR_CONFIG,
              "set it to 4 for one block");
        device_end();
        return 0;
    }
    FAILS(weft_device_queue_mode(NULL, WEFT_QUEUES_SHARED, NULL), WEFT_ERR_ARGUMENT, "null");
    FAILS(weft_device_queue_mode(job, (weft_queue_mode)3, NULL), WEFT_ERR_ARGUMENT, "mode 3");
    const char *given = getenv("JOB_ROUNDS");
    uint64_t rounds = given ? strtoull(given, NULL, 10) : 20;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        test_mode(modes[i], i * rounds, (i + 1) * rounds, word);
    device_end();
    return 0;
}
#endif
