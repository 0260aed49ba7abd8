/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what the kernel of the path test of a pair of GPUs finds on links that deliver some stores
 * and lose others. Two blocks of one thread run the kernel's own source. On a faulty link PE 1
 * writes into a decoy of PE 0's area, and a third thread copies what that link delivers. */
#include "../fakecuda/primitives.h"

#include "gpu/kernels.cu"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 3 };

/* Nothing is held back in this test. */
void fake_release(void)
{
}

/* What the link from PE 1 to PE 0 delivers. */
struct link {
    bool decoy, flags, acks;
    int words; /* number of data words, from the first */
};

static struct prove_area areas[2], decoy; /* areas of PE 0 and of PE 1 */
static struct prove_report reports[2];
static struct link link;
static _Atomic bool over;
static uint64_t limit_ns;

static void *prove(void *argument)
{
    uint64_t me = *(uint64_t *)argument;
    struct prove_pair pair = {&areas[me], link.decoy && me == 1 ? &decoy : &areas[1 - me], me,
                              1 - me, ROUNDS};
    weft_kernel_prove(&pair, limit_ns, &reports[me]);
    return NULL;
}

/* Copies the data before the flag, as an ordered link does. */
static void *pass_on(void *nothing)
{
    while (!atomic_load(&over)) {
        uint64_t flag = __atomic_load_n(&decoy.flag, __ATOMIC_SEQ_CST);
        uint64_t ack = __atomic_load_n(&decoy.ack, __ATOMIC_SEQ_CST);
        for (int i = 0; i < link.words; i++)
            __atomic_store_n(&areas[0].data[i], __atomic_load_n(&decoy.data[i], __ATOMIC_RELAXED),
                             __ATOMIC_RELAXED);
        if (link.flags)
            __atomic_store_n(&areas[0].flag, flag, __ATOMIC_SEQ_CST);
        if (link.acks)
            __atomic_store_n(&areas[0].ack, ack, __ATOMIC_SEQ_CST);
        sched_yield();
    }
    return nothing;
}

/* limit_ms: long if all stores arrive, short if some never arrive. */
static void run(struct link which, uint64_t limit_ms)
{
    uint64_t numbers[2] = {0, 1};
    pthread_t provers[2], passing;
    memset(areas, 0, sizeof areas);
    memset(&decoy, 0, sizeof decoy);
    memset(reports, 0, sizeof reports);
    link = which;
    limit_ns = limit_ms * 1000000;
    atomic_store(&over, false);
    if (link.decoy)
        assert_int_equal(pthread_create(&passing, NULL, pass_on, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&provers[i], NULL, prove, &numbers[i]), 0);
    pthread_join(provers[0], NULL);
    if (reports[0].stage != PROVE_GOOD) { /* releases PE 1, which would wait up to the limit */
        __atomic_store_n(&areas[1].ack, UINT64_MAX, __ATOMIC_SEQ_CST);
        __atomic_store_n(&areas[1].flag, UINT64_MAX, __ATOMIC_SEQ_CST);
    }
    pthread_join(provers[1], NULL);
    atomic_store(&over, true);
    if (link.decoy)
        pthread_join(passing, NULL);
}

enum { LONG_MS = 60000, SHORT_MS = 50 };

static void a_good_link_is_proven(void **state)
{
    run((struct link){.decoy = false}, LONG_MS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(reports[i].stage, PROVE_GOOD);
}

static void expect_stale(int words)
{
    run((struct link){.decoy = true, .flags = true, .acks = true, .words = words}, LONG_MS);
    assert_int_equal(reports[0].stage, PROVE_STALE);
    assert_int_equal(reports[0].round, 1);
    assert_int_equal(reports[0].index, words);
    assert_int_equal(reports[0].seen, 0);
    assert_int_equal(reports[0].expected, pattern(1, 1, (uint64_t)words));
}

static void a_flag_without_its_data_is_seen(void **state)
{
    expect_stale(0);
    expect_stale(PROVE_WORDS - 1);
}

static void lost_atomics_are_seen(void **state)
{
    run((struct link){.decoy = true, .flags = true, .acks = true, .words = PROVE_WORDS}, LONG_MS);
    assert_int_equal(reports[0].stage, PROVE_COUNT);
    assert_int_equal(2 * reports[0].seen, reports[0].expected);
}

static void what_never_comes_ends_by_the_limit(void **state)
{
    run((struct link){.decoy = true, .acks = true, .words = PROVE_WORDS}, SHORT_MS);
    assert_int_equal(reports[0].stage, PROVE_NO_FLAG);
    assert_int_equal(reports[0].expected, 1);
    run((struct link){.decoy = true, .flags = true, .words = PROVE_WORDS}, SHORT_MS);
    assert_true(reports[0].stage == PROVE_NO_ACK || reports[0].stage == PROVE_NO_FLAG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_link_is_proven),
        cmocka_unit_test(a_flag_without_its_data_is_seen),
        cmocka_unit_test(lost_atomics_are_seen),
        cmocka_unit_test(what_never_comes_ends_by_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
