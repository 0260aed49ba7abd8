/* SPDX-License-Identifier: Apache-2.0 */
/* The host waits for a queue of path gda in host memory, whose completions the test writes. Also
 * tested: the message for a failed queue, and the thread that rings doorbells for a GPU. */
#include "path/gda/gda.h"

#include "base/status.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { QUEUES = 3, QUEUE = 2, PE = 5 };

static int pauses;
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time, (void)left;
    pauses++;
    sched_yield();
    return 0;
}

static uint64_t page[2]; /* the end of the completion entry */
static uint64_t entries[8];
static int steps, ends, fails_at;
static struct path_wait waited;
static uint64_t seen_first;

static weft_status step(struct path_wait *wait, uint64_t seen)
{
    if (!steps)
        seen_first = seen;
    waited = *wait;
    page[1] = entries[steps < 7 ? steps : 7];
    return ++steps == fails_at ? base_fail(WEFT_ERR_PEER_DEAD, "PE 5 has ended") : WEFT_OK;
}

static void end(struct path_wait *wait)
{
    (void)wait;
    ends++;
}

/* The same as in test_gda_far.c. */
static uint64_t entry(unsigned opcode, unsigned index)
{
    return (uint64_t)opcode << 60 | (uint64_t)(index & 0xff) << 40 | (uint64_t)(index >> 8) << 32;
}

static struct weft_dev_gda_queue queues[QUEUES];

static weft_status await(uint64_t first, uint64_t target)
{
    static struct gda_qp links[QUEUES];
    static struct gda_adapter adapter = {.name = "the adapter"};
    static struct path_world world = {.wait_step = step, .wait_end = end};
    struct gda gda = {.world = &world, .queues = queues, .qps = links};
    links[QUEUE].adapter = &adapter;
    queues[QUEUE] = (struct weft_dev_gda_queue){.completion = &page[1], .number = 0x1234};
    page[0] = 0;
    page[1] = first;
    steps = ends = pauses = 0;
    return gda_await(&gda, &queues[QUEUE], PE, target, BOX_OP_FENCE);
}

static void until_it_is_complete(void **state)
{
    (void)state;
    fails_at = 0;
    assert_int_equal(await(entry(WEFT_DEV_GDA_CQE_OK, 9), 10), WEFT_OK);
    assert_int_equal(steps + ends, 0);
    entries[0] = entry(WEFT_DEV_GDA_CQE_OK, 8);
    entries[1] = entry(WEFT_DEV_GDA_CQE_OK, 9);
    assert_int_equal(await(entry(WEFT_DEV_GDA_CQE_OK, 3), 10), WEFT_OK);
    assert_int_equal(steps, 2);
    assert_int_equal(ends, 1);
    assert_int_equal(seen_first, 4);
    assert_int_equal(waited.pe, PE);
    assert_int_equal(waited.operation, BOX_OP_FENCE);
    assert_int_equal(waited.expected, 10);
}

/* The wait gives the launcher half a second to report a dead PE. */
static void until_it_fails(void **state)
{
    (void)state;
    fails_at = 0;
    for (int i = 0; i < 8; i++)
        entries[i] = entry(WEFT_DEV_GDA_CQE_ERROR, 2);
    page[0] = 0;
    assert_int_equal(await(entry(WEFT_DEV_GDA_CQE_OK, 1), 10), WEFT_ERR_PATH);
    assert_int_equal(steps, 26);
    assert_int_equal(pauses, 25);
    assert_int_equal(ends, 1);
    assert_non_null(strstr(base_last_error(), "the host's queue to PE 5 (queue pair 0x1234 of the "
                                              "adapter, port "));
    assert_non_null(strstr(base_last_error(), "has failed: "));
    fails_at = 3;
    assert_int_equal(await(entry(WEFT_DEV_GDA_CQE_OK, 1), 10), WEFT_ERR_PEER_DEAD);
    assert_string_equal(base_last_error(), "PE 5 has ended");
    assert_int_equal(steps, 3);
    assert_int_equal(pauses, 1);
    fails_at = 1;
    for (int i = 0; i < 8; i++)
        entries[i] = entry(WEFT_DEV_GDA_CQE_OK, 2);
    assert_int_equal(await(entry(WEFT_DEV_GDA_CQE_OK, 1), 10), WEFT_ERR_PEER_DEAD);
    assert_int_equal(steps, 1);
    assert_int_equal(ends, 1);
}

static void one_adapter_that_may_reorder(void **state)
{
    static struct gda_adapters adapters;
    struct gda gda = {.adapters = &adapters, .count = 2};
    (void)state;
    adapters.one[2].may_reorder = true; /* an adapter that is not used */
    assert_int_equal(gda_order_flags(&gda), 0);
    adapters.one[0].may_reorder = true;
    assert_int_equal(gda_order_flags(&gda), WEFT_DEV_GDA_ORDERED);
    adapters.one[0].may_reorder = false;
    adapters.one[1].may_reorder = true;
    assert_int_equal(gda_order_flags(&gda), WEFT_DEV_GDA_ORDERED);
}

static void expect_rung(const uint64_t *doorbell, uint64_t value)
{
    time_t until = time(NULL) + 60;
    while (__atomic_load_n(doorbell, __ATOMIC_ACQUIRE) != value && time(NULL) < until)
        sched_yield();
    assert_int_equal(__atomic_load_n(doorbell, __ATOMIC_ACQUIRE), value);
}

/* Each change of a word is written to the word's own doorbell register, also for words added
 * later. */
static void doorbells_are_passed_on(void **state)
{
    static uint64_t words[3], doorbells[3] = {1, 1, 1};
    struct gda_doorbell_thread *bell;
    (void)state;
    assert_int_equal(gda_doorbell_start(&bell, 3), WEFT_OK);
    gda_doorbell_add(bell, &words[0], &doorbells[0]);
    for (uint64_t value = 7; value < 10; value++) {
        __atomic_store_n(&words[0], value, __ATOMIC_RELEASE);
        expect_rung(&doorbells[0], value);
    }
    gda_doorbell_add(bell, &words[1], &doorbells[1]);
    gda_doorbell_add(bell, &words[2], &doorbells[2]);
    __atomic_store_n(&words[2], 77, __ATOMIC_RELEASE);
    expect_rung(&doorbells[2], 77);
    assert_int_equal(doorbells[1], 1); /* an unchanged word is not written */
    doorbells[0] = 1;
    __atomic_store_n(&words[1], 78, __ATOMIC_RELEASE);
    expect_rung(&doorbells[1], 78);
    assert_int_equal(doorbells[0], 1);
    gda_doorbell_stop(bell);
    gda_doorbell_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_it_is_complete),
        cmocka_unit_test(until_it_fails),
        cmocka_unit_test(one_adapter_that_may_reorder),
        cmocka_unit_test(doorbells_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
