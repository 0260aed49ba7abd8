/* SPDX-License-Identifier: Apache-2.0 */
/* The host waits for a queue of path gda that is in GPU memory. It copies the completion entry from
 * the GPU until all operations are complete or the queue fails. No device code runs here: the test
 * writes the entries. */
#include "gpu/gpu.h"
#include "path/gda/gda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { EACH = 2, QUEUE = 3, STEPS_MOST = 8 };

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner);

/* The entry at each copy; its last word holds opcode and index. */
static uint64_t entries[STEPS_MOST][2];
static int looks, steps, ends, fails_at, copy_fails_at;
static uint64_t page[2];

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner)
{
    assert_ptr_equal(src, page);
    assert_int_equal(bytes, sizeof page);
    assert_in_range(looks, 0, STEPS_MOST - 1);
    memcpy(dst, entries[looks++], bytes);
    return looks == copy_fails_at ? WEFT_ERR_SYSTEM : WEFT_OK;
}

static weft_status step(struct path_wait *wait, uint64_t seen)
{
    assert_int_equal(wait->pe, QUEUE / EACH);
    return ++steps == fails_at ? WEFT_ERR_TIMEOUT : WEFT_OK;
}

static void end(struct path_wait *wait)
{
    ends++;
}

/* Makes the last word of an entry: the opcode in the highest four bits, and the index from bit 32
 * on, high byte first. */
static uint64_t entry(unsigned opcode, unsigned index)
{
    return (uint64_t)opcode << 60 | (uint64_t)(index & 0xff) << 40 | (uint64_t)(index >> 8) << 32;
}

static weft_status await(uint64_t known, uint64_t target)
{
    static struct weft_dev_gda_queue queues[2 * EACH], there[2 * EACH];
    static struct gda_qp links[2 * EACH];
    static struct gda_adapter adapter = {.name = "the adapter"};
    struct path_world world = {.npes = 2, .wait_step = step, .wait_end = end};
    struct gda_gpu_queues far = {.qps = links, .queues = there};
    struct gda gda = {.world = &world, .queues_per_pe = EACH, .queues = queues, .gpu_queues = &far};
    links[QUEUE].adapter = &adapter;
    there[QUEUE].completion = &page[1];
    queues[QUEUE].done = known;
    looks = steps = ends = 0;
    weft_status status = gda_await_gpu_queue(&gda, QUEUE, target);
    assert_int_equal(ends, 1);
    return status;
}

static void until_all_is_complete(void **state)
{
    fails_at = 0;
    entries[0][1] = entry(WEFT_DEV_GDA_CQE_NONE, 0);
    entries[1][1] = entry(WEFT_DEV_GDA_CQE_OK, 4);
    entries[2][1] = entry(WEFT_DEV_GDA_CQE_OK, 8);
    entries[3][1] = entry(WEFT_DEV_GDA_CQE_OK, 9);
    assert_int_equal(await(0, 10), WEFT_OK);
    assert_int_equal(looks, 4);
    /* The index wraps around after 16 bits. */
    for (int i = 0; i < 3; i++)
        entries[i][1] = entry(WEFT_DEV_GDA_CQE_OK, i < 2 ? 65535 : 1);
    assert_int_equal(await(65530, 65538), WEFT_OK);
    assert_int_equal(looks, 3);
}

static void until_it_fails(void **state)
{
    fails_at = 0;
    entries[0][1] = entry(WEFT_DEV_GDA_CQE_OK, 1);
    entries[1][1] = entry(WEFT_DEV_GDA_CQE_ERROR, 2);
    entries[1][0] = 0x1388ull << 48;
    assert_int_equal(await(0, 10), WEFT_ERR_PATH);
    assert_int_equal(looks, 2);
    assert_non_null(strstr(weft_last_error(), "queue 1 of device code to PE 1"));
    assert_non_null(strstr(weft_last_error(), "the adapter"));
    assert_non_null(strstr(weft_last_error(), "syndrome 0x13, vendor 0x88"));
}

static void until_the_wait_ends(void **state)
{
    fails_at = 2;
    for (int i = 0; i < STEPS_MOST; i++)
        entries[i][1] = entry(WEFT_DEV_GDA_CQE_NONE, 0);
    assert_int_equal(await(0, 10), WEFT_ERR_TIMEOUT);
    assert_int_equal(looks, 2);
}

/* A failed copy ends the wait, even if it delivers the awaited entry. */
static void until_the_gpu_fails(void **state)
{
    fails_at = 0;
    for (copy_fails_at = 1; copy_fails_at <= 3; copy_fails_at++)
        for (int done = 0; done <= 1; done++) {
            for (int i = 0; i < STEPS_MOST; i++)
                entries[i][1] = entry(WEFT_DEV_GDA_CQE_NONE, 0);
            if (done)
                entries[copy_fails_at - 1][1] = entry(WEFT_DEV_GDA_CQE_OK, 9);
            assert_int_equal(await(0, 10), WEFT_ERR_SYSTEM);
            assert_int_equal(looks, copy_fails_at);
        }
    copy_fails_at = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_all_is_complete),
        cmocka_unit_test(until_it_fails),
        cmocka_unit_test(until_the_wait_ends),
        cmocka_unit_test(until_the_gpu_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
