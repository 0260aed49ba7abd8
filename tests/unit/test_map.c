/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of GPU memory for the program, and copies by the CPU: which memory is mapped where, when
 * the CPU or a copy engine copies, and which calls are rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/map_calls.h"

static void *gpu_at(size_t offset)
{
    return (void *)(uintptr_t)(OPS_GPU + (int)offset);
}

static void *own_gpu(size_t offset)
{
    return (void *)(uintptr_t)(OPS_OWN_GPU + (int)offset);
}

static weft_status map_it(void *address, size_t bytes, int pe, void **at)
{
    *at = &beneath;
    return weft_map(&ops.job, address, bytes, pe, at);
}

/* ------------------------------------------------------------------------------------- mappings */

static void gpu_memory_is_mapped_in_the_window_of_its_pe(void **state)
{
    (void)state;
    void *at;
    for (int pe = 0; pe < OPS_PES; pe++) {
        assert_int_equal(map_it(gpu_at(OPS_GPU_SYSTEM + 16), 100, pe, &at), WEFT_OK);
        assert_ptr_equal(at, cpu[pe] + OPS_GPU_SYSTEM + 16);
        assert_int_equal(beneath.more_offset, OPS_GPU_SYSTEM + 16);
        assert_int_equal(beneath.more_bytes, 100);
    }
    assert_int_equal(beneath.mores, 3);
    assert_int_equal(callocs.memory, 3);
}

static void host_memory_is_mapped_already(void **state)
{
    (void)state;
    void *at;
    assert_int_equal(map_it(ops_heaps[OPS_PE] + 24, 100, OPS_PE, &at), WEFT_OK);
    assert_ptr_equal(at, ops_heaps[OPS_PE] + 24);
    assert_int_equal(map_it(ops_heaps[OPS_PE] + 24, 100, 2, &at), WEFT_OK);
    assert_ptr_equal(at, ops_heaps[2] + 24);
    ops.path.direct = false;
    assert_int_equal(map_it(ops_heaps[OPS_PE] + 24, 100, 2, &at), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(), "host memory of PE 2 is not mapped"));
    assert_null(at);
    assert_int_equal(callocs.memory, 2);
    assert_int_equal(beneath.mores, 0);
}

static struct gpu_registration outer = {.base = OPS_OWN_GPU + 0x1000,
                                        .bytes = 0x100,
                                        .device = true},
                               plain = {.bytes = sizeof some_memory, .next = &outer};

static void registered_memory_is_mapped_here_alone(void **state)
{
    (void)state;
    void *at;
    plain.base = (uintptr_t)some_memory;
    ops.gpu.registered.list = &plain;
    assert_int_equal(map_it(some_memory, sizeof some_memory, OPS_PE, &at), WEFT_OK);
    assert_ptr_equal(at, some_memory);
    assert_int_equal(map_it(own_gpu(0x1040), 0xc0, OPS_PE, &at), WEFT_OK);
    assert_ptr_equal(at, some_memory + 8);
    assert_int_equal(beneath.owns, 1);
    assert_int_equal(map_it(own_gpu(0x1040), 0xc1, OPS_PE, &at), WEFT_ERR_ADDRESS);
    assert_non_null(strstr(base_last_error(), "193 bytes at"));
    assert_int_equal(map_it(own_gpu(0x1100), 1, OPS_PE, &at), WEFT_ERR_ADDRESS);
    assert_int_equal(map_it(own_gpu(0xfff), 1, OPS_PE, &at), WEFT_ERR_ADDRESS);
    assert_int_equal(map_it(some_memory + 1, sizeof some_memory, OPS_PE, &at), WEFT_ERR_ADDRESS);
    assert_int_equal(map_it(some_memory, 8, 2, &at), WEFT_ERR_ADDRESS);
    assert_non_null(strstr(base_last_error(), "PE 2 has none there"));
    beneath.no_own = true;
    assert_int_equal(map_it(own_gpu(0x1040), 8, OPS_PE, &at), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(base_last_error(), "weft_map: BAR1 is full");
    map.backend = NULL;
    beneath.owns = 0;
    assert_int_equal(map_it(own_gpu(0x1040), 8, OPS_PE, &at), WEFT_ERR_UNSUPPORTED);
    assert_string_equal(base_last_error(), "weft_map: GPU memory cannot be mapped here: is new");
    assert_int_equal(beneath.owns, 0);
    ops.job.gpu = NULL;
    assert_int_equal(map_it(some_memory, 8, OPS_PE, &at), WEFT_ERR_ADDRESS);
    assert_int_equal(callocs.memory, 2);
    assert_null(at);
}

static void a_window_that_cannot_be_mapped_says_why(void **state)
{
    (void)state;
    void *at;
    beneath.no_more = true;
    base_fail(WEFT_ERR_SYSTEM, "BAR1 is full");
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "weft_map: GPU memory of PE 2: BAR1 is full");
    windows[2].refused = true;
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(), "of PE 2 cannot be mapped: PE refused it"));
    ops.slot_of[2] = -1;
    beneath.mores = 0;
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(), "PE 2 is on another node"));
    ops.gpu.heap.map = NULL;
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(base_last_error(), "WEFT_MAP=none"));
    assert_int_equal(beneath.mores, 0);
    assert_int_equal(callocs.memory, 0);
    ops.gpu.heap.map = &map;
    ops.slot_of[2] = 0; /* slot 0 is a valid slot */
    beneath.no_more = false;
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_OK);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    void *at;
    assert_int_equal(weft_map(NULL, gpu_at(0x800), 8, 2, &at), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(), "weft_map: job is null");
    assert_int_equal(map_it(NULL, 8, 2, &at), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(), "weft_map: address is null");
    assert_int_equal(weft_map(&ops.job, gpu_at(0x800), 8, 2, NULL), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(), "weft_map: mapped is null");
    assert_int_equal(map_it(gpu_at(0x800), 0, 2, &at), WEFT_ERR_ARGUMENT);
    assert_null(at);
    assert_int_equal(map_it(gpu_at(0x800), 8, -1, &at), WEFT_ERR_PE);
    assert_int_equal(map_it(gpu_at(0x800), 8, OPS_PES, &at), WEFT_ERR_PE);
    assert_non_null(strstr(base_last_error(), "PEs here are 0 ... 2"));
    /* The range begins in symmetric memory and ends beyond it. */
    assert_int_equal(map_it(gpu_at(OPS_GPU_BYTES - 1), 2, 2, &at), WEFT_ERR_RANGE);
    callocs.left = 0;
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_ERR_NO_MEMORY);
    callocs.left = -1;
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_ERR_FINALIZED);
    assert_int_equal(weft_unmap(&ops.job, some_memory), WEFT_ERR_FINALIZED);
    assert_int_equal(beneath.mores, 0);
    assert_int_equal(callocs.memory, 0);
}

static void a_mapping_is_ended_once(void **state)
{
    (void)state;
    void *at[3];
    ops.gpu.registered.list = &outer;
    for (int i = 0; i < 3; i++)
        assert_int_equal(map_it(i == 1 ? own_gpu(0x1000) : gpu_at(0x800 + (size_t)i * 64), 8,
                                i == 1 ? OPS_PE : 2, &at[i]),
                         WEFT_OK);
    assert_int_equal(weft_unmap(&ops.job, (char *)at[1] + 1), WEFT_ERR_ADDRESS);
    assert_int_equal(beneath.own_ends, 0);
    assert_int_equal(weft_unmap(&ops.job, at[1]), WEFT_OK); /* the middle one of the mappings */
    assert_int_equal(beneath.own_ends, 1);
    assert_ptr_equal(beneath.ended, some_memory + 8);
    assert_int_equal(weft_unmap(&ops.job, at[1]), WEFT_ERR_ADDRESS);
    assert_int_equal(callocs.memory, 2);
    assert_int_equal(weft_unmap(&ops.job, at[0]), WEFT_OK);
    assert_null(beneath.ended);
    assert_int_equal(weft_unmap(&ops.job, NULL), WEFT_ERR_ARGUMENT);
    ops.job.modules.end_mappings(
        &ops.job); /* the job ends the remaining mappings when its GPU is closed */
    assert_int_equal(callocs.memory, 0);
    assert_int_equal(beneath.own_ends, 3);
    assert_int_equal(map_it(ops_heaps[OPS_PE], 8, OPS_PE, &at[0]), WEFT_OK);
    ops.job.gpu = NULL;
    assert_int_equal(weft_unmap(&ops.job, at[0]), WEFT_OK);
}

/* --------------------------------------------------------------------------------------- copies */

static weft_status copy(bool in, void *device, void *host, size_t bytes)
{
    beneath.sends = beneath.loads = beneath.copies = beneath.roves = beneath.asked = 0;
    return in ? weft_copy_to(&ops.job, device, host, bytes)
              : weft_copy_from(&ops.job, host, device, bytes);
}

static void the_cpu_copies_what_is_small_and_mapped(void **state)
{
    (void)state;
    for (int in = 0; in < 2; in++) {
        char *device = ops_at(2, SEG_GPU, 0x840);
        assert_int_equal(copy(in, device, some_memory, GPU_MAP_ALWAYS), WEFT_OK);
        assert_int_equal(in ? beneath.sends : beneath.loads, 1);
        assert_int_equal(beneath.copies, 0);
        assert_ptr_equal(in ? beneath.to : beneath.from, cpu[2] + 0x840);
        assert_ptr_equal(in ? beneath.from : beneath.to, some_memory);
        assert_int_equal(beneath.bytes, GPU_MAP_ALWAYS);
        for (int pays = 0; pays < 2; pays++) {
            beneath.pays = pays;
            assert_int_equal(copy(in, device, some_memory, 600), WEFT_OK);
            assert_int_equal(beneath.sends + beneath.loads, pays);
            assert_int_equal(beneath.copies, !pays);
            assert_int_equal(beneath.asked, 1);
            assert_int_equal(beneath.in, in);
        }
        /* Memory that is not mapped: a sliding BAR window or a copy engine copies. */
        map.bar1_full = true;
        ready[2][0] = 0;
        assert_int_equal(copy(in, device, some_memory, 100), WEFT_OK);
        assert_int_equal(beneath.roves, 1);
        assert_int_equal(beneath.in, in);
        assert_int_equal(beneath.rove_offset, 0x840);
        assert_int_equal(beneath.copies + beneath.sends + beneath.loads, 0);
        beneath.no_rove = true;
        assert_int_equal(copy(in, device, some_memory, 100), WEFT_OK);
        assert_int_equal(beneath.copies, 1);
        assert_ptr_equal(beneath.to, in ? device : some_memory);
        assert_ptr_equal(beneath.from, in ? some_memory : device);
        assert_int_equal(beneath.bytes, 100);
        map.bar1_full = false;
        beneath.no_rove = false;
        ready[2][0] = 1;
        /* From GPU to GPU, and without a mapping backend. */
        assert_int_equal(copy(in, device, own_gpu(0), 100), WEFT_OK);
        assert_int_equal(beneath.copies, 1);
        map.backend = NULL;
        assert_int_equal(copy(in, device, some_memory, 100), WEFT_OK);
        assert_int_equal(beneath.copies, 1);
        beneath.no_copy = true;
        assert_int_equal(copy(in, device, some_memory, 100), WEFT_ERR_SYSTEM);
        beneath.no_copy = false;
        map.backend = (const struct map_backend *)&map;
    }
}

static void memory_of_its_own_is_copied_through_its_mapping(void **state)
{
    (void)state;
    void *at;
    for (int in = 0; in < 2; in++) {
        assert_int_equal(copy(in, own_gpu(0x1010), some_memory, 16), WEFT_OK);
        assert_int_equal(beneath.copies, !in); /* nothing is mapped yet */
        ops.gpu.registered.list = &outer;
        if (!in) {
            assert_int_equal(map_it(gpu_at(0x900), 8, 2, &at), WEFT_OK);
            assert_int_equal(map_it(own_gpu(0x1000), 0x80, OPS_PE, &at), WEFT_OK);
            assert_int_equal(map_it(gpu_at(0x800), 8, 2, &at), WEFT_OK);
        }
        static const struct {
            size_t offset, bytes;
            bool mapped;
        } rows[] = {{0x1000, 16, true}, {0x1010, 0x70, true}, {0x1010, 0x71, false},
                    {0xfff, 1, false},  {0x1080, 1, false},   {0x107f, 1, true}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            assert_int_equal(copy(in, own_gpu(rows[i].offset), some_memory, rows[i].bytes),
                             WEFT_OK);
            assert_int_equal(beneath.sends + beneath.loads, rows[i].mapped);
            assert_int_equal(beneath.copies, !rows[i].mapped);
            if (!rows[i].mapped)
                continue;
            assert_ptr_equal(in ? beneath.to : beneath.from,
                             some_memory + 8 + (rows[i].offset - 0x1000));
            assert_ptr_equal(in ? beneath.from : beneath.to, some_memory);
            assert_int_equal(beneath.bytes, rows[i].bytes);
        }
        if (!in) {
            ops.job.modules.end_mappings(&ops.job);
            assert_int_equal(map_it(own_gpu(0x1000), 0x80, OPS_PE, &at), WEFT_OK);
        }
    }
}

static void copies_stay_within_the_memory_of_the_heap(void **state)
{
    (void)state;
    for (int in = 0; in < 2; in++) {
        const size_t backed = OPS_GPU_BYTES / 2;
        assert_int_equal(copy(in, ops_at(2, SEG_GPU, backed - 8), some_memory, 8), WEFT_OK);
        assert_int_equal(copy(in, ops_at(2, SEG_GPU, backed - 8), some_memory, 9), WEFT_ERR_RANGE);
        assert_non_null(strstr(base_last_error(), in ? "weft_copy_to: 9 bytes at 0x11007ff8 run "
                                                       "past the end of PE 2's GPU heap, which has "
                                                       "32768 bytes, 8 of them"
                                                     : "weft_copy_from: 9 bytes"));
        assert_int_equal(beneath.adopt_offset, backed - 8);
        assert_int_equal(beneath.adopt_bytes, 9);
        assert_int_equal(copy(in, ops_at(2, SEG_GPU, backed), some_memory, 1), WEFT_ERR_RANGE);
        assert_non_null(strstr(base_last_error(), "32768 bytes, 0 of them"));
        assert_int_equal(copy(in, ops_at(2, SEG_GPU, backed + 9), some_memory, 1), WEFT_ERR_RANGE);
        assert_non_null(strstr(base_last_error(), "32768 bytes, 0 of them"));
        beneath.adopted = true;
        assert_int_equal(copy(in, ops_at(2, SEG_GPU, backed), some_memory, 1), WEFT_OK);
        beneath.adopted = false;
        /* Symmetric host memory. */
        assert_int_equal(copy(in, ops_heaps[OPS_PE] + OPS_HEAP - 8, some_memory, 8), WEFT_OK);
        assert_int_equal(copy(in, ops_heaps[OPS_PE] + OPS_HEAP - 8, some_memory, 9),
                         WEFT_ERR_RANGE);
        assert_int_equal(copy(in, ops_heaps[OPS_PE] + OPS_HEAP - 1, some_memory, 9),
                         WEFT_ERR_RANGE);
        assert_int_equal(beneath.copies, 0);
    }
}

static void without_a_gpu_side_the_cpu_moves_bytes(void **state)
{
    (void)state;
    ops.job.gpu = NULL;
    char there[16] = "0123456789abcde", here[16] = "";
    assert_int_equal(copy(false, there, here, 10), WEFT_OK);
    assert_memory_equal(here, "0123456789\0\0", 12);
    assert_int_equal(copy(true, there + 2, there, 8), WEFT_OK); /* overlapping ranges */
    assert_memory_equal(there, "0101234567abcde", 15);
    assert_int_equal(copy(false, there, there + 1, 8), WEFT_OK);
    assert_memory_equal(there, "00101234567", 9);
    assert_int_equal(copy(true, ops_heaps[OPS_PE] + OPS_HEAP - 8, here, 9), WEFT_ERR_RANGE);
    assert_int_equal(beneath.copies, 0);
}

static void wrong_copies_are_refused(void **state)
{
    (void)state;
    for (int in = 0; in < 2; in++) {
        assert_int_equal(copy(in, NULL, NULL, 0), WEFT_OK);
        assert_int_equal(copy(in, NULL, some_memory, 8), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), in ? "dst is null" : "src is null"));
        assert_int_equal(copy(in, gpu_at(0x800), NULL, 8), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), in ? "src is null" : "dst is null"));
        ops.job.state = JOB_FINALIZED;
        assert_int_equal(copy(in, gpu_at(0x800), some_memory, 8), WEFT_ERR_FINALIZED);
        assert_int_equal(copy(in, gpu_at(0x800), some_memory, 0), WEFT_ERR_FINALIZED);
        ops.job.state = JOB_RUNNING;
        assert_int_equal(beneath.copies + beneath.sends + beneath.loads, 0);
    }
    assert_int_equal(weft_copy_to(NULL, some_memory, some_memory, 8), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_copy_from(NULL, some_memory, some_memory, 8), WEFT_ERR_ARGUMENT);
}

static void a_flush_reads_back_through_the_mapping(void **state)
{
    (void)state;
    void *at;
    assert_int_equal(weft_copy_flush(&ops.job, ops_at(2, SEG_GPU, 0x800)), WEFT_OK);
    assert_ptr_equal(beneath.settled_at, cpu[2]);
    assert_int_equal(beneath.settled, 1);
    assert_int_equal(weft_copy_flush(&ops.job, own_gpu(0x1010)), WEFT_OK);
    windows[2].tested = false;
    assert_int_equal(weft_copy_flush(&ops.job, ops_at(2, SEG_GPU, 0x800)), WEFT_OK);
    windows[2].tested = true;
    map.backend = NULL;
    assert_int_equal(weft_copy_flush(&ops.job, ops_at(2, SEG_GPU, 0x800)), WEFT_OK);
    assert_int_equal(beneath.settled, 1);
    map.backend = (const struct map_backend *)&map;
    ops.gpu.registered.list = &outer;
    assert_int_equal(map_it(own_gpu(0x1000), 0x80, OPS_PE, &at), WEFT_OK);
    assert_int_equal(weft_copy_flush(&ops.job, own_gpu(0x1010)), WEFT_OK);
    assert_ptr_equal(beneath.settled_at, some_memory + 8 + 0x10);
    assert_int_equal(weft_copy_flush(&ops.job, own_gpu(0x107f)), WEFT_OK);
    assert_int_equal(beneath.settled, 3);
    assert_int_equal(weft_map_flush(&ops.job, cpu[1] + 3), WEFT_OK);
    assert_ptr_equal(beneath.settled_at, cpu[1] + 3);
    assert_int_equal(weft_map_flush(&ops.job, NULL), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_copy_flush(&ops.job, NULL), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_copy_flush(NULL, cpu), WEFT_ERR_ARGUMENT);
    assert_int_equal(beneath.settled, 4);
    ops.job.modules.end_mappings(&ops.job);
    ops.job.gpu = NULL;
    assert_int_equal(weft_copy_flush(&ops.job, cpu), WEFT_OK);
    assert_int_equal(beneath.settled, 4);
}

/* -------------------------------------------------------------------------------------- queries */

static void a_query_tells_what_is_mapped_and_from_which_sizes(void **state)
{
    (void)state;
    weft_map_info info = {.size = sizeof info};
    assert_int_equal(weft_map_query(&ops.job, 2, &info), WEFT_OK);
    assert_int_equal(info.works, 1);
    assert_string_equal(info.way, "some way");
    assert_string_equal(info.by, "AVX2");
    assert_string_equal(info.why, "is new");
    assert_int_equal(info.to_from_plain, 11);
    assert_int_equal(info.to_from_pinned, 22);
    assert_int_equal(info.from_to_plain, 33);
    assert_int_equal(info.from_to_pinned, 44);
    assert_int_equal(info.threads, 3);
    assert_int_equal(info.to_by_threads, 55);
    assert_int_equal(info.from_by_threads, 66);
    assert_int_equal(info.size, sizeof info);
    ready[2][TEST_AREA >> SHIFT] = 0;
    beneath.no_more = true;
    assert_int_equal(weft_map_query(&ops.job, 2, &info), WEFT_OK);
    assert_int_equal(info.works, 0);
    assert_string_equal(info.why, "PE refused it");
    assert_int_equal(beneath.more_offset, TEST_AREA);
    assert_int_equal(beneath.more_bytes, 1);
    ops.slot_of[2] = -1;
    assert_int_equal(weft_map_query(&ops.job, 2, &info), WEFT_OK);
    assert_int_equal(info.works, 0);
    assert_string_equal(info.why, "PE 2 is on another node");
    assert_string_equal(info.way, "");
    assert_int_equal(info.to_from_plain, 0);
    map.backend = NULL;
    assert_int_equal(weft_map_query(&ops.job, 2, &info), WEFT_OK);
    assert_string_equal(info.why, "is new");
    assert_string_equal(info.way, "");
    ops.gpu.heap.map = NULL;
    assert_int_equal(weft_map_query(&ops.job, 2, &info), WEFT_OK);
    assert_string_equal(info.why, "WEFT_MAP=none");
    assert_int_equal(info.threads, 3);
}

static void a_query_of_an_older_program_gets_what_it_knows(void **state)
{
    (void)state;
    weft_map_info info;
    memset(&info, 0x77, sizeof info);
    info.size = offsetof(weft_map_info, why);
    assert_int_equal(weft_map_query(&ops.job, 0, &info), WEFT_OK);
    assert_string_equal(info.way, "some way");
    assert_int_equal(info.why[0], 0x77);
    assert_int_equal(info.threads, 0x77777777);
    info.size = offsetof(weft_map_info, way);
    assert_int_equal(weft_map_query(&ops.job, 0, &info), WEFT_OK);
    info.size--;
    assert_int_not_equal(weft_map_query(&ops.job, 0, &info), WEFT_OK);
    info.size = sizeof info;
    assert_int_equal(weft_map_query(&ops.job, -1, &info), WEFT_ERR_PE);
    assert_int_equal(weft_map_query(&ops.job, OPS_PES, &info), WEFT_ERR_PE);
    assert_non_null(strstr(base_last_error(), "PEs here are 0 ... 2"));
    assert_int_equal(weft_map_query(&ops.job, 0, NULL), WEFT_ERR_ARGUMENT);
    ops.job.gpu = NULL;
    assert_int_equal(weft_map_query(&ops.job, 0, &info), WEFT_ERR_UNSUPPORTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(gpu_memory_is_mapped_in_the_window_of_its_pe),
        TEST(host_memory_is_mapped_already),
        TEST(registered_memory_is_mapped_here_alone),
        TEST(a_window_that_cannot_be_mapped_says_why),
        TEST(wrong_arguments_are_refused),
        TEST(a_mapping_is_ended_once),
        TEST(the_cpu_copies_what_is_small_and_mapped),
        TEST(memory_of_its_own_is_copied_through_its_mapping),
        TEST(copies_stay_within_the_memory_of_the_heap),
        TEST(without_a_gpu_side_the_cpu_moves_bytes),
        TEST(wrong_copies_are_refused),
        TEST(a_flush_reads_back_through_the_mapping),
        TEST(a_query_tells_what_is_mapped_and_from_which_sizes),
        TEST(a_query_of_an_older_program_gets_what_it_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
