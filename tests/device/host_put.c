/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that sees the host's signal also sees the data put with it, and the host sees the
 * kernel's answer, whatever path such small transfers take. Each PE's host puts runs of words to
 * the next PE, whose kernel compares them all before it answers. Every fourth round uses a put, a
 * fence and a value. */
#include "device_test.h"

enum { ROUNDS = 6000, MOST_WORDS = 160 };

struct seen {
    uint64_t rounds, bad_round, bad_index, bad_word;
};

/* For host and kernel. */
#define WORDS_OF(round)   (1 + (round)*7 % MOST_WORDS)
#define WORD_OF(round, i) (((round) << 20) + (i)*3 + 1)

WEFT_KERNEL(compare, (const uint64_t *, data), (uint64_t *, signal), (uint64_t *, answer),
            (struct seen *, seen), (uint64_t, rounds))
{
    int previous = (weft_dev_my_pe() + weft_dev_n_pes() - 1) % weft_dev_n_pes();
    for (uint64_t round = 1; round <= rounds && !weft_dev_job_failed(0); round++) {
        weft_thread_signal_wait(signal, WEFT_GE, round);
        for (uint64_t i = 0; i < WORDS_OF(round); i++) {
            uint64_t word = weft_dev_load_u64(data + i, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
            if (word != WORD_OF(round, i) && !seen->bad_round) {
                seen->bad_index = i;
                seen->bad_word = word;
                seen->bad_round = round;
            }
        }
        seen->rounds = round;
        weft_thread_signal(answer, round, WEFT_SIGNAL_SET, previous);
    }
}

#if WEFT_HOST_CODE
int main(void)
{
    device_begin();
    int next = (me + 1) % n_pes;
    uint64_t rounds = rounds_or(ROUNDS);
    uint64_t *data = symmetric(MOST_WORDS * sizeof *data), *signal = symmetric(64),
             *answer = symmetric(64);
    struct seen *seen = symmetric(sizeof *seen), found;
    barrier();
    OK(WEFT_LAUNCH(compare, 1, 1, 0, NULL, data, signal, answer, seen, rounds));
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t words[MOST_WORDS], n = WORDS_OF(round);
        for (uint64_t i = 0; i < n; i++)
            words[i] = WORD_OF(round, i);
        if (round % 4) {
            OK(weft_put_signal(ctx, data, words, n * 8, signal, round, WEFT_SIGNAL_SET, next));
        } else {
            OK(weft_put(ctx, data, words, n * 8, next));
            OK(weft_fence(ctx));
            OK(weft_p64(ctx, signal, round, next));
        }
        OK(weft_signal_wait(ctx, answer, WEFT_GE, round, NULL));
    }
    OK(weft_stream_synchronize(NULL));
    fetch(&found, seen, sizeof found);
    if (found.bad_round)
        fprintf(stderr, "PE %d: round %llu: word %llu of %llu is %llx and should be %llx\n", me,
                (unsigned long long)found.bad_round, (unsigned long long)found.bad_index,
                (unsigned long long)WORDS_OF(found.bad_round), (unsigned long long)found.bad_word,
                (unsigned long long)WORD_OF(found.bad_round, found.bad_index));
    CHECK(found.rounds == rounds && !found.bad_round);
    barrier();
    device_end();
    return 0;
}
#endif
