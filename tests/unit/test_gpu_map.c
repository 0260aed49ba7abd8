/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of GPU memory in the CPU's addresses: what of them is mapped at the first use, what is given up, and the small
 * windows that move where the GPU has no room for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "counted.h"
#include "fake_map.h"

static struct gpu_map *map;
static weft_status tested; /* what the test of a mapping finds */
static int tests;          /* how many were made */

weft_status __wrap_map_test(struct gpu_map *of, int slot);
weft_status __wrap_map_test(struct gpu_map *of, int slot)
{
    tests++;
    assert_ptr_equal(of, map);
    gpu_map_test_area(of, slot)[GPU_MAP_TEST_BYTES - 1] = 't'; /* it is mapped */
    return tested ? base_fail(tested, "nothing arrives") : WEFT_OK;
}

weft_status __wrap_gpu_export_dmabuf(struct gpu *by, CUdeviceptr at, size_t bytes, int *fd);
weft_status __wrap_gpu_export_dmabuf(struct gpu *by, CUdeviceptr at, size_t bytes, int *fd)
{
    *fd = dup(fake.fd);
    note("E%zu+%zu ", ((uintptr_t)at - (uintptr_t)fake.device) / MIB, bytes / MIB);
    return WEFT_OK;
}

static bool rm_works;
static int rm_closed, rm_abandoned, rm_released;
static weft_status rm_answer;

weft_status __wrap_rm_open(struct rm **rm);
weft_status __wrap_rm_open(struct rm **rm)
{
    if (!rm_works)
        return base_fail(WEFT_ERR_UNSUPPORTED, "no such device");
    *rm = (struct rm *)&rm_works;
    return WEFT_OK;
}

void __wrap_rm_close(struct rm *rm);
void __wrap_rm_close(struct rm *rm)
{
    rm_closed++;
}

void __wrap_rm_abandon(struct rm *rm);
void __wrap_rm_abandon(struct rm *rm)
{
    rm_abandoned++;
}

weft_status __wrap_rm_import(struct rm *rm, const char *bus_id, int fd, struct rm_memory *memory);
weft_status __wrap_rm_import(struct rm *rm, const char *bus_id, int fd, struct rm_memory *memory)
{
    assert_ptr_equal(rm, &rm_works);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    note("I%s ", bus_id);
    memory->handle = 9;
    return WEFT_OK;
}

weft_status __wrap_rm_map(struct rm *rm, const struct rm_memory *memory, size_t offset,
                          size_t bytes, void *address, struct rm_mapping *mapping);
weft_status __wrap_rm_map(struct rm *rm, const struct rm_memory *memory, size_t offset,
                          size_t bytes, void *address, struct rm_mapping *mapping)
{
    assert_int_equal(memory->handle, 9);
    note("R%zu+%zu ", offset / MIB, bytes / MIB);
    if (rm_answer)
        return base_fail(rm_answer, "no");
    assert_ptr_equal(
        mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fake.fd, 0), address);
    mapping->bytes = bytes;
    fake.mapped++;
    return WEFT_OK;
}

void __wrap_rm_unmap(struct rm *rm, struct rm_mapping *mapping, bool reserve);
void __wrap_rm_unmap(struct rm *rm, struct rm_mapping *mapping, bool reserve)
{
    assert_true(reserve);
    note("u%zu ", mapping->bytes / MIB);
    fake.mapped--;
}

void __wrap_rm_release(struct rm *rm, struct rm_memory *memory);
void __wrap_rm_release(struct rm *rm, struct rm_memory *memory)
{
    rm_released += memory->handle != 0;
    memory->handle = 0;
}

static CUresult export_answer;
static int last_export;

static CUresult export_handle(void *handle, CUmemGenericAllocationHandle of, int type,
                              unsigned long long flags)
{
    assert_int_equal(type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    note("X%llu ", of);
    *(int *)handle = last_export = dup(fake.fd);
    return export_answer;
}

static int set_up(void **state)
{
    tested = WEFT_OK;
    tests = rm_closed = rm_abandoned = rm_released = 0;
    rm_works = false;
    rm_answer = WEFT_OK;
    export_answer = CUDA_SUCCESS;
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

static const char *at(int slot, size_t offset, size_t bytes)
{
    const char *where = gpu_map_at(map, slot, offset, bytes);
    if (where)
        assert_ptr_equal(where, map->windows[slot].base + offset);
    return where;
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
        assert_true(gpu_map_place(&gpu, fake.device + rows[i].at, &slot, &offset));
        assert_int_equal(slot, rows[i].slot);
        assert_int_equal(offset, rows[i].offset);
    }
    assert_false(gpu_map_place(&gpu, fake.device - 1, &slot, &offset));
    assert_false(gpu_map_place(&gpu, fake.device + 3 * (size_t)WINDOW, &slot, &offset));
    gpu.heap.size = 0; /* there is no heap yet */
    assert_false(gpu_map_place(&gpu, fake.device, &slot, &offset));
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
        assert_true(memory->dmabuf == -1 && memory->offer == -1);
    }
    expect(""); /* own parts are exported when they are mapped */
    fake_chunk(2, 0, 64 * MIB, fake.fd);
    expect("L2:0 ");
    assert_int_equal(map->memories->handle, 0);
}

static void the_first_use_maps_a_pane_and_tests_it(void **state)
{
    fake_chunk(OWN, 0, 200 * MIB, -1);
    assert_non_null(at(OWN, 9 * MIB, 8));
    expect("M256+64 ");
    assert_int_equal(tests, 1);
    assert_int_equal(ready(OWN), 32);
    assert_non_null(at(OWN, 0, 64 * MIB));
    expect("");
    assert_non_null(at(OWN, 64 * MIB - 4, 5)); /* ends in the next one */
    expect("M320+64 ");
    assert_int_equal(ready(OWN), 64);
    assert_non_null(at(OWN, 127 * MIB, 10 * MIB)); /* the last is as long as the allocation */
    expect("M384+64 ");
    assert_non_null(at(OWN, 199 * MIB, MIB));
    expect("M448+8 ");
    assert_int_equal(ready(OWN), 100);
    assert_int_equal(tests, 1);
    assert_null(at(OWN, 199 * MIB, MIB + 1));
    assert_non_null(strstr(base_last_error(), "no memory of PE 5 is known at offset 209715200"));
    assert_false(map->scarce);
    assert_non_null(at(OWN, 199 * MIB, MIB)); /* what there is serves on */
    fake.device[WINDOW + 66 * (size_t)MIB] = 'x';
    assert_int_equal(*at(OWN, 66 * MIB, 1), 'x');
    assert_int_equal(fake.device[WINDOW + TEST_AT + 6 * GPU_MAP_TEST_BYTES - 1], 't');
}

static void a_pane_ends_where_an_allocation_does(void **state)
{
    fake_chunk(2, 0, 10 * MIB, fake.fd);
    fake_chunk(2, 10 * MIB, 20 * MIB, fake.fd);
    fake_chunk(2, 70 * MIB, 4 * MIB, fake.fd);
    expect("L2:0 L2:10 L2:70 ");
    assert_non_null(at(2, 9 * MIB, 2 * MIB));
    expect("M512+10 M522+20 ");
    assert_non_null(at(2, 71 * MIB, MIB));
    expect("M582+4 ");
    assert_int_equal(ready(2), 17);
    assert_null(at(2, 29 * MIB, 2 * MIB));
    assert_int_equal(map->windows[0].ready == NULL, 1);
}

static void a_window_that_fails_its_test_is_not_tried_again(void **state)
{
    fake_chunk(0, 0, 64 * MIB, -1);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    tested = WEFT_ERR_PATH;
    assert_null(at(0, 0, 8));
    assert_string_equal(map->windows[0].why, "nothing arrives");
    assert_true(map->windows[0].refused);
    tested = WEFT_OK;
    assert_null(at(0, 0, 8));
    assert_int_equal(tests, 1);
    assert_non_null(at(OWN, 0, 8));
    assert_false(map->windows[OWN].refused);
    map->way = NULL;
    assert_null(at(OWN, 0, 8));
    map->way = &fake_way;
    assert_null(gpu_map_at(NULL, OWN, 0, 8));
    assert_string_equal(gpu_map_way_text(map), "a file");
}

/* Where there is no room for a pane, the test is made with as little as possible. */
static void the_test_needs_no_more_than_a_granule(void **state)
{
    fake_chunk(0, 0, 64 * MIB, -1);
    fake.fail_at = 1;
    assert_non_null(at(0, TEST_AT, 8));
    expect("M6+2 ");
    assert_int_equal(ready(0), 1);
    fake.fail_at = fake.calls + 1;
    fake.fail_count = 2;
    assert_null(at(0, 0, 8)); /* it has been tested */
    expect("");
    assert_int_equal(fake.calls, 3);
    assert_true(map->scarce);
    assert_false(map->windows[0].refused);
    assert_non_null(at(0, TEST_AT, 8));
    assert_null(at(0, 0, 8)); /* without a further try */
    assert_int_equal(fake.calls, 3);
}

static void what_is_refused_for_another_reason_is_tried_again(void **state)
{
    fake_chunk(0, 0, 128 * MIB, -1);
    assert_non_null(at(0, 0, 8));
    fake.fail_at = fake.calls + 1;
    fake.failure = WEFT_ERR_UNSUPPORTED;
    assert_null(at(0, 70 * MIB, 8));
    assert_false(map->scarce);
    assert_non_null(at(0, 70 * MIB, 8));
    expect("M0+64 M64+64 ");
}

static void memory_that_is_gone_is_unmapped(void **state)
{
    struct gpu_chunk first = {.offset = 0}, second = {.offset = 64 * MIB}, none = {.offset = MIB};
    fake_chunk(OWN, 0, 64 * MIB, -1);
    fake_chunk(OWN, 64 * MIB, 64 * MIB, -1);
    fake_chunk(0, 0, 64 * MIB, -1);
    assert_non_null(at(OWN, 0, 65 * MIB));
    expect("M256+64 M320+64 ");
    gpu_map_forget(map, OWN, &none);
    gpu_map_forget(map, 2, &first);
    expect("");
    gpu_map_forget(map, OWN, &first);
    expect("U64 ");
    assert_int_equal(ready(OWN), 32);
    assert_null(at(OWN, 0, 8));
    assert_non_null(at(OWN, 64 * MIB, 8));
    assert_non_null(map_memory_at(map, 0, 0));
    gpu_map_forget(map, OWN, &second);
    expect("U64 ");
    assert_int_equal(ready(OWN), 0);
    assert_null(map->pieces);
    gpu_map_forget(NULL, OWN, &second);
    gpu_map_learn(NULL, OWN, &second, -1);
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
    assert_false(gpu_peek(&gpu, (uintptr_t)fake.device + 4096, 8, &value)); /* not known */
    map->way = NULL;
    assert_false(gpu_peek(&gpu, (uintptr_t)fake.device + WINDOW + 4096, 8, &value));
    map->way = &fake_way;
}

/* ------------------------------------------------------------------------- windows that move */

/* From here on there is room for single granules only, and for so many of them. */
static void be_scarce(void)
{
    fake_chunk(0, 0, 128 * MIB, -1);
    fake_chunk(OWN, 0, 128 * MIB, -1);
    assert_non_null(at(0, 0, 8));
    assert_non_null(at(OWN, 0, 8));
    map->scarce = true;
    expect("M0+64 M256+64 ");
}

static void small_windows_move(void **state)
{
    char sent[100], came[100], is[100];
    be_scarce();
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = is[i] = (char)(i + 1);
    map->scarce = false; /* there is room */
    assert_false(gpu_map_rove(map, 0, 70 * MIB, sent, sizeof sent, true));
    map->scarce = true;
    assert_true(gpu_map_store(map, 0, 70 * MIB + 5, sent, sizeof sent));
    expect("M70+2 ");
    assert_memory_equal(fake.device + 70 * (size_t)MIB + 5, is, sizeof is);
    assert_int_equal(fake.device[70 * (size_t)MIB + 4], 0);
    assert_true(gpu_map_load(map, 0, 70 * MIB + 5, came, sizeof came));
    assert_memory_equal(came, sent, sizeof sent);
    expect("");                                                          /* it is there */
    assert_true(gpu_map_send(map, 0, 74 * MIB - 50, sent, sizeof sent)); /* into two granules */
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
    fake.fail_at = fake.calls + 1; /* the first of two parts */
    fake.failure = WEFT_ERR_UNSUPPORTED;
    assert_false(gpu_map_store(map, OWN, 92 * MIB - 4, sent, 8));
    expect("");
    counted.fail_in = 0;
    assert_false(gpu_map_store(map, OWN, 94 * MIB, sent, 8));
    assert_false(gpu_map_store(map, 0, 128 * MIB, sent, 8));
    assert_non_null(strstr(base_last_error(), "no memory is known at offset 134217728"));
    fake_chunk(2, 0, 64 * MIB, -1);
    assert_false(gpu_map_store(map, 2, 0, sent, 8)); /* not tested */
    expect("");
    map->way = NULL;
    assert_false(gpu_map_rove(map, 0, 70 * MIB, sent, sizeof sent, true));
    map->way = &fake_way;
}

static void the_window_used_least_lately_moves(void **state)
{
    char byte = 7;
    be_scarce();
    for (size_t i = 0; i < GPU_MAP_ROVERS; i++)
        assert_true(gpu_map_load(map, 0, (64 + 2 * i) * MIB, &byte, 1));
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1)); /* the first is used again */
    expect("M64+2 M66+2 M68+2 M70+2 M72+2 M74+2 M76+2 M78+2 ");
    assert_true(gpu_map_load(map, 0, 100 * MIB, &byte, 1)); /* in place of the second */
    expect("U2 M100+2 ");
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1));
    expect("");
    assert_true(gpu_map_load(map, 0, 66 * MIB, &byte, 1));
    expect("U2 M66+2 ");
    assert_true(gpu_map_load(map, 0, 70 * MIB, &byte, 1));
    expect("");
    assert_int_equal(fake.mapped, 2 + GPU_MAP_ROVERS);
}

/* Their places serve the one that is needed. */
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
    gpu_map_forget(map, OWN, &(struct gpu_chunk){.offset = 0});
    expect("M72+2 U64 ");
    gpu_map_forget(map, 0, &(struct gpu_chunk){.offset = 0}); /* with the window that is there */
    expect("U2 U64 ");
    assert_false(gpu_map_load(map, 0, 72 * MIB, &byte, 1));
    fake_chunk(OWN, 0, 96 * MIB, -1);
    fake_chunk(2, 0, 68 * MIB, -1);
    map->scarce = false;
    assert_non_null(at(2, 0, 8));
    map->scarce = true;
    for (size_t i = 0; i < GPU_MAP_ROVERS; i++)
        assert_true(i < 7 ? gpu_map_load(map, OWN, 2 * i * MIB, &byte, 1)
                          : gpu_map_load(map, 2, 64 * MIB, &byte, 1));
    gpu_map_forget(map, 2, &(struct gpu_chunk){.offset = 0}); /* the window used last */
    fake.text[0] = '\0';
    assert_true(gpu_map_load(map, OWN, 40 * MIB, &byte, 1)); /* none has to leave for it */
    expect("M296+2 ");
}

/* ------------------------------------------------------------------------------- life time */

/* Whether the CPU can read there. */
static bool readable(const char *address)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    ssize_t n = write(ends[1], address, 1);
    close(ends[0]);
    close(ends[1]);
    return n == 1;
}

static void addresses_stay_reserved(void **state)
{
    fake_chunk(OWN, 0, 64 * MIB, -1);
    assert_non_null(at(OWN, 0, 8));
    assert_true(readable(map->windows[OWN].base));
    gpu_map_forget(map, OWN, &(struct gpu_chunk){.offset = 0});
    assert_false(readable(map->windows[OWN].base));
    assert_ptr_not_equal(mmap(map->windows[OWN].base, 4096, PROT_READ,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                         map->windows[OWN].base);
}

static void descriptor_zero_is_one(void **state)
{
    int input = dup(0);
    close(0);
    map->started = false;
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    assert_int_equal(map->memories->offer, 0);
    gpu_map_forget(map, 0, &(struct gpu_chunk){.offset = 0});
    assert_int_equal(fcntl(0, F_GETFD), -1);
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    map->way = &map_way_rm;
    rm_works = true;
    setenv("WEFT_MAP", "rm", 1);
    config_reset();
    gpu_map_start(&gpu);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    expect("I ");
    map->way = &fake_way;
    dup2(fake.fd, 0);
    fake_chunk(0, 64 * MIB, 64 * MIB, 0);
    expect("L0:64 ");
    assert_int_equal(map->memories->handle, 0);
    dup2(input, 0);
    close(input);
}

static void without_memory_nothing_is_mapped(void **state)
{
    fake_chunk(OWN, 0, 64 * MIB, -1);
    for (int i = 0; i < 2; i++) { /* of what is ready, of the mapping */
        counted.fail_in = i;
        assert_null(at(OWN, 0, 8));
        assert_true(map->windows[OWN].refused);
        map->windows[OWN].refused = map->scarce = false;
        assert_int_equal(fake.mapped, 0);
    }
    counted.fail_in = -1;
    assert_non_null(at(OWN, 0, 8));
    counted.fail_in = 0;
    fake_chunk(OWN, 64 * MIB, 64 * MIB, -1);
    assert_null(map_memory_at(map, OWN, 64 * MIB));
    map->way = &fake_way;
    fake_destroy();
    for (int i = 0; i < 2; i++) {
        counted.fail_in = i;
        assert_int_equal(gpu_map_create(&gpu), WEFT_ERR_NO_MEMORY);
        assert_null(gpu.heap.map);
    }
}

/* The driver's resource interface: peers' memory is imported by its descriptor, own memory is exported. */
static void memory_is_imported_by_the_resource_interface(void **state)
{
    map->started = false;
    map->way = NULL;
    rm_works = true;
    gpu.cuda.MemExportToShareableHandle = export_handle;
    for (int slot = 0; slot < SLOTS; slot++)
        snprintf(heap_windows[slot].gpu.bus_id, 20, "gpu%d", slot);
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    gpu_map_start(&gpu);
    assert_string_equal(gpu_map_way_text(map), "the GPU driver's resource interface");
    expect("X12 Igpu1 R0+64 Igpu0 ");
    assert_int_equal(fcntl(last_export, F_GETFD), -1);
    assert_non_null(at(0, 0, 8));
    expect("R0+64 ");
    fake_chunk(2, 0, 64 * MIB, fake.fd);
    expect("Igpu2 ");
    rm_answer = WEFT_ERR_UNSUPPORTED;
    assert_null(at(2, 0, 8));
    fake.text[0] = '\0';
    rm_answer = WEFT_OK;
    gpu_map_forget(map, OWN, &(struct gpu_chunk){.offset = 0});
    expect("u64 ");
    assert_int_equal(rm_released, 1);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    export_answer = CUDA_ERROR_INVALID_VALUE;
    assert_null(at(OWN, 0, 8));
    expect("X12 ");
    close(last_export);
    map_memory_at(map, OWN, 0)->handle = 0;
    assert_null(at(OWN, 0, 8));
    assert_non_null(strstr(base_last_error(), "the memory was not imported when it came"));
}

static void descriptors_wait_until_the_way_is_chosen(void **state)
{
    int offer;
    map->started = false;
    map->way = NULL;
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    offer = map_memory_at(map, 0, 0)->offer;
    assert_true(offer >= 0 && offer != fake.fd);
    assert_int_equal(fcntl(offer, F_GETFD), FD_CLOEXEC);
    gpu.cuda.driver_version = 13030;
    gpu_map_start(&gpu);
    assert_true(map->started);
    assert_string_equal(gpu_map_way_text(map), "mmap of a dma-buf");
    expect("E256+64 ");
    assert_true(map->windows[OWN].tested);
    assert_false(map->windows[0].tested);
    assert_int_equal(map_memory_at(map, 0, 0)->offer, -1);
    assert_int_equal(fcntl(offer, F_GETFD), -1);
    offer = map_memory_at(map, OWN, 0)->dmabuf;
    assert_true(fcntl(offer, F_GETFD) >= 0);
    gpu_map_forget(map, OWN, &(struct gpu_chunk){.offset = 0});
    assert_int_equal(fcntl(offer, F_GETFD), -1);
}

static void every_way_that_is_refused_says_why(void **state)
{
    static const struct {
        const char *wanted;
        int driver;
        const char *why;
    } rows[] = {
        {"auto", 13020,
         "mmap of a dma-buf: this driver (CUDA 13.2) maps no dma-buf; drivers from 610 (CUDA 13.3) "
         "do; the GPU driver's resource interface: no such device; gdrdrv: "},
        {"dmabuf", 13030, "mmap of a dma-buf: nothing arrives"},
        {"rm", 13030, "the GPU driver's resource interface: no such device"},
    };
    tested = WEFT_ERR_PATH;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_destroy();
        setenv("WEFT_MAP", rows[i].wanted, 1);
        config_reset();
        map = fake_make(NULL);
        map->started = false;
        fake_chunk(OWN, 0, 64 * MIB, -1);
        fake_chunk(0, 0, 64 * MIB, fake.fd);
        gpu.cuda.MemExportToShareableHandle = export_handle;
        gpu.cuda.driver_version = rows[i].driver;
        gpu_map_start(&gpu);
        assert_null(map->way);
        assert_true(map->started);
        assert_false(map->windows[OWN].tested);
        assert_null(map->pieces);
        if (i)
            assert_string_equal(map->why, rows[i].why);
        else
            assert_memory_equal(map->why, rows[i].why, strlen(rows[i].why));
        assert_string_equal(gpu_map_way_text(map), "");
        assert_int_equal(map_memory_at(map, 0, 0)->offer, -1);
        assert_false(gpu_map_works(map));
    }
    fake_destroy();
    setenv("WEFT_MAP", "none", 1);
    config_reset();
    assert_int_equal(gpu_map_create(&gpu), WEFT_OK);
    assert_null(gpu.heap.map);
    gpu_map_start(&gpu);
    gpu_map_destroy(&gpu);
    gpu_map_forget_all(NULL);
    assert_false(gpu_map_works(NULL));
}

static void the_end_leaves_nothing(void **state)
{
    char byte;
    unsigned char there;
    be_scarce();
    fake_chunk(2, 0, 64 * MIB, fake.fd);
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1));
    char *rover = map->rovers[0].at, *base = map->windows[0].base, *own = map->windows[OWN].base;
    map->memories->offer = dup(fake.fd); /* nobody has taken it */
    int offer = map->memories->offer;
    fake_destroy();
    assert_int_equal(fake.closed, 1);
    assert_int_equal(rm_closed, 1);
    assert_int_equal(fcntl(offer, F_GETFD), -1);
    assert_int_equal(mincore(rover, GRANULE, &there), -1); /* the addresses are given up */
    assert_int_equal(mincore(base, 4096, &there), -1);
    assert_int_equal(mincore(base + WINDOW - 4096, 4096, &there), -1);
    assert_int_equal(mincore(own, 4096, &there), -1);
}

static void a_child_forgets_the_way(void **state)
{
    gpu_map_forget_all(map);
    assert_int_equal(rm_abandoned, 1);
    assert_false(gpu_map_works(map));
    map->way = &fake_way;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests_of_map[] = {
        TEST(addresses_lie_in_windows),
        TEST(memory_is_known_by_slot_and_offset),
        TEST(the_first_use_maps_a_pane_and_tests_it),
        TEST(a_pane_ends_where_an_allocation_does),
        TEST(a_window_that_fails_its_test_is_not_tried_again),
        TEST(the_test_needs_no_more_than_a_granule),
        TEST(what_is_refused_for_another_reason_is_tried_again),
        TEST(memory_that_is_gone_is_unmapped),
        TEST(values_are_peeked),
        TEST(small_windows_move),
        TEST(the_window_used_least_lately_moves),
        TEST(windows_leave_where_there_is_no_room),
        TEST(addresses_stay_reserved),
        TEST(descriptor_zero_is_one),
        TEST(without_memory_nothing_is_mapped),
        TEST(memory_is_imported_by_the_resource_interface),
        TEST(descriptors_wait_until_the_way_is_chosen),
        TEST(every_way_that_is_refused_says_why),
        TEST(the_end_leaves_nothing),
        TEST(a_child_forgets_the_way),
    };
    return cmocka_run_group_tests(tests_of_map, fake_open, fake_end);
}
