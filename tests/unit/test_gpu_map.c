/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how windows of GPU memory are mapped for the CPU: what the first use maps, when mapping is
 * given up, and how sliding BAR windows serve memory that does not fit into BAR1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "counted.h"
#include "fake_map.h"

static struct gpu_map *map;

static int set_up(void **state)
{
    counted_begin();
    setenv("WEFT_MAP", "auto", 1);
    map = fake_make(&fake_way);
    return 0;
}

static int tear_down(void **state)
{
    if (gpu.heap.map)
        fake_destroy();
    return counted_end(state);
}

static size_t ready(int slot)
{
    size_t n = 0;
    for (size_t i = 0; i <= WINDOW / GRANULE; i++)
        n += map->windows[slot].ready[i];
    return n;
}

static void addresses_lie_in_windows(void **state)
{
    static const struct {
        size_t at;
        int slot;
        size_t offset;
    } rows[] = {
        {0, 0, 0},
        {WINDOW - 1, 0, WINDOW - 1},
        {WINDOW, 1, 0},
        {2 * (size_t)WINDOW - 1, 1, WINDOW - 1},
        {2 * (size_t)WINDOW, 2, 0},
        {3 * (size_t)WINDOW - 1, 2, WINDOW - 1},
    };
    int slot;
    size_t offset;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(gpu_map_locate(&gpu, fake.device + rows[i].at, &slot, &offset));
        assert_int_equal(slot, rows[i].slot);
        assert_int_equal(offset, rows[i].offset);
    }
    assert_false(gpu_map_locate(&gpu, fake.device - 1, &slot, &offset));
    assert_false(gpu_map_locate(&gpu, fake.device + 3 * (size_t)WINDOW, &slot, &offset));
    gpu.heap.size = 0; /* there is no heap yet */
    assert_false(gpu_map_locate(&gpu, fake.device, &slot, &offset));
    gpu.heap.size = WINDOW;
}

static void memory_is_known_by_slot_and_offset(void **state)
{
    static const struct {
        int slot;
        size_t offset, start; /* start: 1 = none */
    } rows[] = {{0, 0, 0},
                {0, 64 * MIB - 1, 0},
                {0, 64 * MIB, 64 * MIB},
                {0, 96 * MIB - 1, 64 * MIB},
                {0, 96 * MIB, 1},
                {1, 0, 1},
                {1, 32 * MIB, 32 * MIB},
                {2, 0, 1}};
    fake_chunk(0, 0, 64 * MIB, -1);
    fake_chunk(0, 64 * MIB, 32 * MIB, -1);
    fake_chunk(1, 32 * MIB, 32 * MIB, -1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct map_memory *memory = map_memory_at(map, rows[i].slot, rows[i].offset);
        if (rows[i].start == 1) {
            assert_null(memory);
            continue;
        }
        assert_int_equal(memory->offset, rows[i].start);
        assert_int_equal(memory->address, heap_windows[rows[i].slot].base + rows[i].start);
        assert_int_equal(memory->handle, 11 + rows[i].slot);
        assert_ptr_equal(memory->bus_id, heap_windows[rows[i].slot].gpu.bus_id);
        assert_true(memory->dmabuf == -1 && memory->pending_fd == -1);
    }
    expect(""); /* own memory is exported when it is mapped */
    fake_chunk(2, 0, 64 * MIB, fake.fd);
    expect("L2:0 ");
    assert_int_equal(map->memories->handle, 0);
}

static void the_first_use_maps_a_part_and_tests_it(void **state)
{
    fake_chunk(OWN, 0, 200 * MIB, -1);
    assert_non_null(fake_at(OWN, 9 * MIB, 8));
    expect("M256+64 ");
    assert_int_equal(fake.tests, 1);
    assert_int_equal(ready(OWN), 32);
    assert_non_null(fake_at(OWN, 0, 64 * MIB));
    expect("");
    assert_non_null(fake_at(OWN, 64 * MIB - 4, 5)); /* the range ends in the next part */
    expect("M320+64 ");
    assert_int_equal(ready(OWN), 64);
    /* The last part is as long as the allocation. */
    assert_non_null(fake_at(OWN, 127 * MIB, 10 * MIB));
    expect("M384+64 ");
    assert_non_null(fake_at(OWN, 199 * MIB, MIB));
    expect("M448+8 ");
    assert_int_equal(ready(OWN), 100);
    assert_int_equal(fake.tests, 1);
    assert_null(fake_at(OWN, 199 * MIB, MIB + 1));
    assert_non_null(strstr(base_last_error(), "PE 5 has no known memory at offset 209715200"));
    assert_false(map->bar1_full);
    assert_non_null(fake_at(OWN, 199 * MIB, MIB)); /* mapped parts stay usable */
    fake.device[WINDOW + 66 * (size_t)MIB] = 'x';
    assert_int_equal(*fake_at(OWN, 66 * MIB, 1), 'x');
    assert_int_equal(fake.device[WINDOW + TEST_AT + 6 * GPU_MAP_TEST_BYTES - 1], 't');
}

static void a_part_ends_where_an_allocation_does(void **state)
{
    fake_chunk(2, 0, 10 * MIB, fake.fd);
    fake_chunk(2, 10 * MIB, 20 * MIB, fake.fd);
    fake_chunk(2, 70 * MIB, 4 * MIB, fake.fd);
    expect("L2:0 L2:10 L2:70 ");
    assert_non_null(fake_at(2, 9 * MIB, 2 * MIB));
    expect("M512+10 M522+20 ");
    assert_non_null(fake_at(2, 71 * MIB, MIB));
    expect("M582+4 ");
    assert_int_equal(ready(2), 17);
    assert_null(fake_at(2, 29 * MIB, 2 * MIB));
    assert_int_equal(map->windows[0].ready == NULL, 1);
}

static void a_window_that_fails_its_test_is_not_tried_again(void **state)
{
    fake_chunk(0, 0, 64 * MIB, -1);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    fake.tested = WEFT_ERR_PATH;
    assert_null(fake_at(0, 0, 8));
    assert_string_equal(map->windows[0].why, "nothing arrives");
    assert_true(map->windows[0].refused);
    fake.tested = WEFT_OK;
    assert_null(fake_at(0, 0, 8));
    assert_int_equal(fake.tests, 1);
    assert_non_null(fake_at(OWN, 0, 8));
    assert_false(map->windows[OWN].refused);
    map->backend = NULL;
    assert_null(fake_at(OWN, 0, 8));
    map->backend = &fake_way;
    assert_null(gpu_map_at(NULL, OWN, 0, 8));
    assert_string_equal(gpu_map_backend_text(map), "a file");
}

/* If BAR1 has no space for more, the test maps as little as possible. */
static void the_test_needs_no_more_than_a_granule(void **state)
{
    fake_chunk(0, 0, 64 * MIB, -1);
    fake.fail_at = 1;
    assert_non_null(fake_at(0, TEST_AT, 8));
    expect("M6+2 ");
    assert_int_equal(ready(0), 1);
    fake.fail_at = fake.calls + 1;
    fake.fail_count = 2;
    assert_null(fake_at(0, 0, 8)); /* the window has been tested already */
    expect("");
    assert_int_equal(fake.calls, 3);
    assert_true(map->bar1_full);
    assert_false(map->windows[0].refused);
    assert_non_null(fake_at(0, TEST_AT, 8));
    assert_null(fake_at(0, 0, 8)); /* no further attempt is made */
    assert_int_equal(fake.calls, 3);
}

static void what_is_refused_for_another_reason_is_tried_again(void **state)
{
    fake_chunk(0, 0, 128 * MIB, -1);
    assert_non_null(fake_at(0, 0, 8));
    fake.fail_at = fake.calls + 1;
    fake.failure = WEFT_ERR_UNSUPPORTED;
    assert_null(fake_at(0, 70 * MIB, 8));
    assert_false(map->bar1_full);
    assert_non_null(fake_at(0, 70 * MIB, 8));
    expect("M0+64 M64+64 ");
}

static void memory_that_is_gone_is_unmapped(void **state)
{
    struct gpu_chunk first = {.offset = 0}, second = {.offset = 64 * MIB}, none = {.offset = MIB};
    fake_chunk(OWN, 0, 64 * MIB, -1);
    fake_chunk(OWN, 64 * MIB, 64 * MIB, -1);
    fake_chunk(0, 0, 64 * MIB, -1);
    assert_non_null(fake_at(OWN, 0, 65 * MIB));
    expect("M256+64 M320+64 ");
    gpu_map_remove_memory(map, OWN, &none);
    gpu_map_remove_memory(map, 2, &first);
    expect("");
    gpu_map_remove_memory(map, OWN, &first);
    expect("U64 ");
    assert_int_equal(ready(OWN), 32);
    assert_null(fake_at(OWN, 0, 8));
    assert_non_null(fake_at(OWN, 64 * MIB, 8));
    assert_non_null(map_memory_at(map, 0, 0));
    gpu_map_remove_memory(map, OWN, &second);
    expect("U64 ");
    assert_int_equal(ready(OWN), 0);
    assert_null(map->pieces);
    gpu_map_remove_memory(NULL, OWN, &second);
    gpu_map_add_memory(NULL, OWN, &second, -1);
}

static void values_are_peeked(void **state)
{
    uint64_t value = 5, wanted = 0x1122334455667788u;
    fake_chunk(OWN, 0, 64 * MIB, -1);
    memcpy(fake.device + WINDOW + 4096, &wanted, 8);
    assert_true(gpu_peek(&gpu, (uintptr_t)fake.device + WINDOW + 4096, 8, &value));
    assert_int_equal(value, wanted);
    value = UINT64_MAX;
    assert_true(gpu_peek(&gpu, (uintptr_t)fake.device + WINDOW + 4096, 2, &value));
    assert_int_equal(value, 0x7788);
    assert_false(gpu_peek(&gpu, (uintptr_t)fake.device - 8, 8, &value));
    /* No memory is known there. */
    assert_false(gpu_peek(&gpu, (uintptr_t)fake.device + 4096, 8, &value));
    map->backend = NULL;
    assert_false(gpu_peek(&gpu, (uintptr_t)fake.device + WINDOW + 4096, 8, &value));
    map->backend = &fake_way;
}

/* ----------------------------------------------------------------------------- sliding windows */

/* From here on BAR1 has space only for the sliding windows of one granule each. */
static void be_scarce(void)
{
    fake_chunk(0, 0, 128 * MIB, -1);
    fake_chunk(OWN, 0, 128 * MIB, -1);
    assert_non_null(fake_at(0, 0, 8));
    assert_non_null(fake_at(OWN, 0, 8));
    map->bar1_full = true;
    expect("M0+64 M256+64 ");
}

static void small_windows_move(void **state)
{
    char sent[100], came[100], is[100];
    be_scarce();
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = is[i] = (char)(i + 1);
    map->bar1_full = false; /* BAR1 has space */
    assert_false(gpu_map_copy_sliding(map, 0, 70 * MIB, sent, sizeof sent, true));
    map->bar1_full = true;
    assert_true(gpu_map_store(map, 0, 70 * MIB + 5, sent, sizeof sent));
    expect("M70+2 ");
    assert_memory_equal(fake.device + 70 * (size_t)MIB + 5, is, sizeof is);
    assert_int_equal(fake.device[70 * (size_t)MIB + 4], 0);
    assert_true(gpu_map_load(map, 0, 70 * MIB + 5, came, sizeof came));
    assert_memory_equal(came, sent, sizeof sent);
    expect(""); /* the granule is mapped already */
    assert_true(gpu_map_send(map, 0, 74 * MIB - 50, sent, sizeof sent)); /* spans two granules */
    expect("M72+2 M74+2 ");
    assert_memory_equal(fake.device + 74 * (size_t)MIB - 50, sent, sizeof sent);
    memset(came, 0, sizeof came);
    assert_true(gpu_map_load(map, 0, 74 * MIB - 50, came, sizeof came));
    assert_memory_equal(came, sent, sizeof sent);
    assert_true(gpu_map_store(map, OWN, 70 * MIB, sent, 8)); /* the same offset of another PE */
    expect("M326+2 ");
    assert_memory_equal(fake.device + WINDOW + 70 * (size_t)MIB, is, 8);
    assert_true(gpu_map_store(map, OWN, 70 * MIB, sent + 8, 8));
    expect("");
    assert_memory_equal(fake.device + WINDOW + 70 * (size_t)MIB, is + 8, 8);
    fake.fail_at = fake.calls + 1; /* the first of two parts fails */
    fake.failure = WEFT_ERR_UNSUPPORTED;
    assert_false(gpu_map_store(map, OWN, 92 * MIB - 4, sent, 8));
    expect("");
    counted.fail_in = 0;
    assert_false(gpu_map_store(map, OWN, 94 * MIB, sent, 8));
    assert_false(gpu_map_store(map, 0, 128 * MIB, sent, 8));
    assert_non_null(strstr(base_last_error(), "no memory is known at offset 134217728"));
    fake_chunk(2, 0, 64 * MIB, -1);
    assert_false(gpu_map_store(map, 2, 0, sent, 8)); /* the window is not tested */
    expect("");
    map->backend = NULL;
    assert_false(gpu_map_copy_sliding(map, 0, 70 * MIB, sent, sizeof sent, true));
    map->backend = &fake_way;
}

static void the_window_used_least_lately_moves(void **state)
{
    char byte = 7;
    be_scarce();
    for (size_t i = 0; i < GPU_SLIDING_WINDOWS; i++)
        assert_true(gpu_map_load(map, 0, (64 + 2 * i) * MIB, &byte, 1));
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1)); /* the first window is used again */
    expect("M64+2 M66+2 M68+2 M70+2 M72+2 M74+2 M76+2 M78+2 ");
    assert_true(gpu_map_load(map, 0, 100 * MIB, &byte, 1)); /* replaces the second window */
    expect("U2 M100+2 ");
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1));
    expect("");
    assert_true(gpu_map_load(map, 0, 66 * MIB, &byte, 1));
    expect("U2 M66+2 ");
    assert_true(gpu_map_load(map, 0, 70 * MIB, &byte, 1));
    expect("");
    assert_int_equal(fake.mapped, 2 + GPU_SLIDING_WINDOWS);
}

/* If BAR1 is full, the sliding windows are unmapped to make space. */
static void windows_leave_where_there_is_no_room(void **state)
{
    char byte = 7;
    be_scarce();
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1));
    assert_true(gpu_map_load(map, 0, 66 * MIB, &byte, 1));
    fake.text[0] = '\0';
    fake.fail_at = fake.calls + 1;
    assert_true(gpu_map_load(map, 0, 70 * MIB, &byte, 1));
    expect("U2 U2 M70+2 ");
    fake.fail_at = fake.calls + 1;
    fake.fail_count = 2;
    assert_false(gpu_map_load(map, 0, 72 * MIB, &byte, 1));
    expect("U2 ");
    assert_true(gpu_map_load(map, 0, 72 * MIB, &byte, 1));
    gpu_map_remove_memory(map, OWN, &(struct gpu_chunk){.offset = 0});
    expect("M72+2 U64 ");
    /* its sliding window is unmapped too */
    gpu_map_remove_memory(map, 0, &(struct gpu_chunk){.offset = 0});
    expect("U2 U64 ");
    assert_false(gpu_map_load(map, 0, 72 * MIB, &byte, 1));
    fake_chunk(OWN, 0, 96 * MIB, -1);
    fake_chunk(2, 0, 68 * MIB, -1);
    map->bar1_full = false;
    assert_non_null(fake_at(2, 0, 8));
    map->bar1_full = true;
    for (size_t i = 0; i < GPU_SLIDING_WINDOWS; i++)
        assert_true(i < 7 ? gpu_map_load(map, OWN, 2 * i * MIB, &byte, 1)
                          : gpu_map_load(map, 2, 64 * MIB, &byte, 1));
    /* Unmaps the window used last. */
    gpu_map_remove_memory(map, 2, &(struct gpu_chunk){.offset = 0});
    fake.text[0] = '\0';
    assert_true(gpu_map_load(map, OWN, 40 * MIB, &byte, 1)); /* no window has to be unmapped */
    expect("M296+2 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(addresses_lie_in_windows),
        TEST(memory_is_known_by_slot_and_offset),
        TEST(the_first_use_maps_a_part_and_tests_it),
        TEST(a_part_ends_where_an_allocation_does),
        TEST(a_window_that_fails_its_test_is_not_tried_again),
        TEST(the_test_needs_no_more_than_a_granule),
        TEST(what_is_refused_for_another_reason_is_tried_again),
        TEST(memory_that_is_gone_is_unmapped),
        TEST(values_are_peeked),
        TEST(small_windows_move),
        TEST(the_window_used_least_lately_moves),
        TEST(windows_leave_where_there_is_no_room),
    };
    return cmocka_run_group_tests(tests, fake_open, fake_end);
}
