/* SPDX-License-Identifier: Apache-2.0 */
/* Gets of the host into GPU memory over path gda need a flush in quiet, also if several threads use
 * one context (finding A7 for src/path/gda/gda.c). The test forces the schedules: the actions of
 * another thread happen inside a flush. No adapter runs: the test writes the completion. */
#include "gpu/gpu.h"
#include "path/gda/gda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

extern const struct path_ops path_gda;
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
weft_status __wrap_gpu_flush_nic_writes(struct gpu *gpu);

enum { DEPTH = 128, UNIT_BITS = 12, UNITS = 4 };

static _Alignas(4096) char window[UNITS << UNIT_BITS]; /* emulates this PE's GPU memory */
static unsigned flushes;
static void (*meanwhile)(void);

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)window;
    (void)gpu;
    return offset < sizeof window ? GPU_PLACE_DEVICE : GPU_PLACE_PLAIN;
}

weft_status __wrap_gpu_flush_nic_writes(struct gpu *gpu)
{
    (void)gpu;
    flushes++;
    void (*act)(void) = meanwhile;
    meanwhile = NULL;
    if (act)
        act();
    return WEFT_OK;
}

/* PE 0 of two, with one queue of the host to PE 1. */
static struct gpu gpu;
static struct gda gda;
static struct path_world world;
static struct peer peer = {.world = &world, .pe = 1};
static struct path_state *state_;
static uint64_t completion = ~UINT64_C(0), doorbell;
static uint32_t record;

static int setup(void **state)
{
    static _Alignas(64) char blocks[DEPTH * WEFT_DEV_GDA_BLOCK];
    static struct weft_dev_gda_queue queues[4];
    static uint64_t marks[DEPTH / WEFT_DEV_GDA_MARKS], fillers[DEPTH / WEFT_DEV_GDA_MARKS],
        bases[2], segment_bases[2 * SEG_COUNT];
    static uint32_t local_keys[UNITS] = {1, 1, 1, 1}, no_keys[4], busy[DEPTH];
    static const uint32_t *keys[UNITS] = {no_keys, no_keys, no_keys, no_keys};
    static struct gda_gpu side = {.unit_bits = UNIT_BITS,
                                  .units = UNITS,
                                  .flushed = true,
                                  .bases = bases,
                                  .local_keys = local_keys,
                                  .keys = keys};
    static char *maps[2][SEG_COUNT];
    static atomic_uchar links[2] = {GDA_LINK_UP, GDA_LINK_UP};
    (void)state;
    bases[0] = (uintptr_t)window;
    world = (struct path_world){.pe = 0, .npes = 2, .gpu = &gpu, .map = maps};
    world.common[PATH_GDA] = (struct path_common *)(void *)&gda;
    gda = (struct gda){.world = &world,
                       .count = 1,
                       .queues_per_pe = 1,
                       .depth = DEPTH,
                       .queues = queues,
                       .links = links,
                       .gpu = &side,
                       .bases = segment_bases};
    struct weft_dev_gda_queue *q = &queues[gda_queue_index(&gda, 1, 1)];
    weft_dev_gda_ring_set(&q->ring, blocks, DEPTH, 0x77);
    q->ring.record = &record;
    q->ring.doorbell = &doorbell;
    q->completion = &completion;
    q->marks = marks;
    q->fillers = fillers;
    q->busy = busy;
    q->turns = WEFT_DEV_GDA_UNUSED;
    q->done = 0;
    completion = ~UINT64_C(0);
    assert_int_equal(path_gda.open(&world, &state_), WEFT_OK);
    peer.state = state_;
    flushes = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    path_gda.close(state_);
    return 0;
}

/* Marks the first `count` requests as completed by the adapter. */
static void complete(unsigned count)
{
    unsigned index = count - 1;
    completion = (uint64_t)WEFT_DEV_GDA_CQE_OK << 60 | (uint64_t)(index & 0xff) << 40 |
                 (uint64_t)(index >> 8) << 32;
}

static void get(size_t at, bool nbi)
{
    struct remote from = {.peer = &peer, .segment = SEG_GPU, .offset = 0};
    assert_int_equal(path_gda.get(from, window + at, 200, nbi), WEFT_OK);
}

static void quiet(void)
{
    assert_int_equal(path_gda.quiet(state_), WEFT_OK);
}

static void a_quiet_flushes_gets(void **state)
{
    (void)state;
    get(0, true);
    complete(1);
    quiet();
    assert_int_equal(flushes, 1);
    quiet();
    assert_int_equal(flushes, 1);
}

static unsigned seen_by_other;

static void other_quiets(void)
{
    unsigned before = flushes;
    quiet();
    seen_by_other = flushes - before;
}

static void a_second_quiet_does_not_return_before_the_flush(void **state)
{
    (void)state;
    get(0, true);
    complete(1);
    meanwhile = other_quiets;
    quiet();
    assert_int_equal(seen_by_other, 1);
}

/* The nonblocking get of another thread is still in progress while this thread's blocking get
 * flushes. The quiet of the other thread flushes again. */
static void a_blocking_get_leaves_the_others_open(void **state)
{
    (void)state;
    complete(2);
    get(0, true);
    get(512, false);
    assert_int_equal(flushes, 1);
    quiet();
    assert_int_equal(flushes, 2);
}

/* The world has no wait_step(): a wait would crash. */
static void a_quiet_does_not_await_a_forgotten_pe(void **state)
{
    (void)state;
    get(0, true);
    path_gda.forget(state_, 1);
    quiet();
    get(0, true);
    complete(2);
    quiet();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_quiet_flushes_gets, setup, teardown),
        cmocka_unit_test_setup_teardown(a_quiet_does_not_await_a_forgotten_pe, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_quiet_does_not_return_before_the_flush, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_blocking_get_leaves_the_others_open, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
