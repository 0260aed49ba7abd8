/* SPDX-License-Identifier: Apache-2.0 */
/* Quiet of mapped copies (src/path/local/mapped.c) on a context that several threads use (finding
 * A7). The test forces the schedule: while one quiet is in its load-back, it calls another
 * quiet. */
#include "gpu/gpu.h"
#include "gpu/map/map.h"
#include "path/local/mapped.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 3, BYTES = 4096 };

char *__wrap_gpu_map_test_area(const struct gpu_map *map, int slot);

static _Alignas(64) char memory[SLOTS][BYTES];
static unsigned loads[SLOTS]; /* load-backs that have begun */
static struct mapped *other;  /* context that another thread quiets during a load-back */
static unsigned loads_of_other;

char *__wrap_gpu_map_test_area(const struct gpu_map *map, int slot)
{
    (void)map;
    loads[slot]++;
    struct mapped *m = other;
    other = NULL;
    if (m) {
        unsigned before = loads[slot];
        mapped_flush(m);
        loads_of_other = loads[slot] - before;
    }
    return memory[slot];
}

/* Two PEs in slots 1 and 2 of a node with three slots. */
static struct gpu gpu;
static struct gpu_map map = {.gpu = &gpu, .shift = 12};
static struct gpu_map_window windows[SLOTS];
static _Atomic unsigned char ready[SLOTS][1];
static struct boot boot = {.local_npes = SLOTS};
static int slot_of[2] = {1, 2};
static struct path_world world = {.gpu = &gpu};
static struct peer peers[2] = {{.world = &world, .pe = 0}, {.world = &world, .pe = 1}};
static struct mapped context;

static void store(int pe, uint64_t value)
{
    struct remote to = {.peer = &peers[pe], .segment = SEG_GPU, .offset = 64};
    assert_true(mapped_store(&context, to, &value, sizeof value));
}

static int setup(void **state)
{
    (void)state;
    static char way;
    map.backend = (const struct map_backend *)(const void *)&way;
    map.windows = windows;
    gpu.boot = &boot;
    gpu.slot_of = slot_of;
    gpu.heap.map = &map;
    for (int i = 0; i < SLOTS; i++) {
        atomic_store(&ready[i][0], 1);
        windows[i].base = memory[i];
        windows[i].ready = ready[i];
        atomic_store(&windows[i].tested, true);
    }
    memset(loads, 0, sizeof loads);
    memset(&context, 0, sizeof context);
    mapped_open(&context, &world);
    return 0;
}

static void quiet_loads_back_what_was_stored(void **state)
{
    (void)state;
    store(1, 7);
    mapped_flush(&context);
    assert_int_equal(loads[2], 1);
    assert_int_equal(loads[1], 0);
    mapped_flush(&context); /* no store is pending */
    assert_int_equal(loads[2], 1);
    store(1, 7);
    mapped_flush(&context);
    assert_int_equal(loads[2], 2);
    store(0, 8);
    store(0, 9);
    mapped_flush(&context);
    assert_int_equal(loads[1], 1);
    assert_int_equal(loads[2], 2);
}

static void a_second_quiet_does_not_return_before_the_load_back(void **state)
{
    (void)state;
    store(1, 7);
    other = &context;
    mapped_flush(&context);
    assert_int_equal(loads_of_other, 1);
}

/* A load-back does not complete a store that was made between its beginning and its end. */
static void what_comes_meanwhile_is_left(void **state)
{
    uint64_t upto;
    (void)state;
    store(1, 7);
    assert_true(epoch_is_open(&context.stores[2], &upto));
    store(1, 8);
    epoch_close(&context.stores[2], upto);
    mapped_flush(&context);
    assert_int_equal(loads[2], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(quiet_loads_back_what_was_stored, setup),
        cmocka_unit_test_setup(a_second_quiet_does_not_return_before_the_load_back, setup),
        cmocka_unit_test_setup(what_comes_meanwhile_is_left, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
