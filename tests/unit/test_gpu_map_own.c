/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how a PE maps its program's GPU memory for the CPU: which mapping serves which range, which
 * mappings are kept for reuse, and when each is unmapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "counted.h"
#include "fake_map.h"

enum { PAGE = 65536, LEAD = 8192 };

/* Allocations that the driver knows: by cuMemCreate(); by cudaMalloc(), not at the start of a page;
 * on another GPU. */
static struct allocation {
    size_t start, bytes;
    int ordinal;
    CUmemGenericAllocationHandle handle;
    unsigned long long number;
} allocations[] = {
    {16 * MIB, 96 * MIB, 3, 21, 0},
    {128 * MIB + LEAD, 200000, 3, 0, 31},
    {140 * MIB, MIB, 4, 22, 0},
    {150 * MIB, 100 * MIB, 3, 23, 0},
};
enum { ALLOCATIONS = sizeof allocations / sizeof allocations[0] };

static struct gpu_map *map;
static int held;           /* handles retained and not released */
static int refused;        /* the driver rejects a query of this attribute */
static int copies, differ; /* copies so far; number of copies that differ from what the CPU loads */
static weft_status copy_answer;
static const char *resource; /* `resource` file of the PCI device */

static CUresult attribute(void *value, int which, CUdeviceptr address)
{
    size_t at = (uintptr_t)address - (uintptr_t)fake.device;
    if (which == refused)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < ALLOCATIONS; i++) {
        const struct allocation *a = &allocations[i];
        if (at - a->start > a->bytes) /* the address after the last byte still counts */
            continue;
        if (which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
            *(CUdeviceptr *)value = (uintptr_t)fake.device + a->start;
        else if (which == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
            *(size_t *)value = a->bytes;
        else if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)value = a->ordinal;
        else
            *(unsigned long long *)value = a->number;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
    size_t at = (size_t)((char *)address - fake.device);
    *handle = 99;
    for (int i = 0; i < ALLOCATIONS; i++)
        if (at - allocations[i].start <= allocations[i].bytes && allocations[i].handle) {
            *handle = allocations[i].handle;
            held++;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    assert_true(handle >= 21 && handle <= 23);
    held--;
    return CUDA_SUCCESS;
}

weft_status __wrap_gpu_copy(struct gpu *by, unsigned lane, void *dst, const void *src, size_t bytes,
                            enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *by, unsigned lane, void *dst, const void *src, size_t bytes,
                            enum gpu_copy_mode manner)
{
    assert_int_equal(manner, GPU_DONE);
    assert_true(bytes <= 64);
    memcpy(dst, src, bytes);
    note("c%zu+%zu ", (size_t)((const char *)src - fake.device) % MIB, bytes);
    if (copies++ < differ)
        ((char *)dst)[bytes - 1] ^= 1;
    return copy_answer;
}

FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode)
{
    assert_string_equal(name, "/sys/bus/pci/devices/0000:0d:00.0/resource");
    return resource ? fmemopen((void *)(uintptr_t)resource, strlen(resource), "r") : NULL;
}

static int set_up(void **state)
{
    held = refused = copies = differ = 0;
    copy_answer = WEFT_OK;
    resource = NULL;
    allocations[0].handle = 21;
    allocations[1].number = 31;
    counted_begin();
    map = fake_make(&fake_way);
    gpu.device.ordinal = 3;
    gpu.driver.PointerGetAttribute = attribute;
    gpu.driver.MemRetainAllocationHandle = retain;
    gpu.driver.MemRelease = release;
    return 0;
}

static int tear_down(void **state)
{
    fake_destroy();
    assert_int_equal(held, 0);
    return counted_end(state);
}

static struct gpu_map_user map_own(size_t at, size_t bytes)
{
    struct gpu_map_user user = {0};
    assert_int_equal(gpu_map_own(map, fake.device + at, bytes, &user), WEFT_OK);
    assert_int_equal(user.address, (uintptr_t)fake.device + at);
    assert_int_equal(user.bytes, bytes);
    fake.device[at] = 'a';
    fake.device[at + bytes - 1] = 'z';
    assert_int_equal(user.at[bytes - 1], 'z');
    assert_int_equal(user.at[0], bytes > 1 ? 'a' : 'z');
    return user;
}

static void end(struct gpu_map_user *user)
{
    gpu_map_own_end(map, user);
    assert_null(user->memory);
    gpu_map_own_end(map, user); /* a second end does nothing */
}

static void fails(size_t at, size_t bytes, weft_status status, const char *why)
{
    struct gpu_map_user user = {0};
    assert_int_equal(gpu_map_own(map, fake.device + at, bytes, &user), status);
    if (!strstr(base_last_error(), why))
        fail_msg("%s", base_last_error());
    assert_null(user.memory);
}

static void whole_pages_are_mapped(void **state)
{
    static const struct {
        size_t at, bytes;
        const char *calls;
    } rows[] = {
        {16 * MIB, 1, "M16384+64K "},
        {16 * MIB + PAGE - 1, 1, "M16384+64K "},
        {16 * MIB + PAGE - 1, 2, "M16384+128K "},
        {16 * MIB + PAGE, PAGE, "M16448+64K "},
        {16 * MIB + 3 * PAGE + 5, 2 * PAGE, "M16576+192K "},
        {112 * MIB - 7, 7, "M114624+64K "},
        {128 * MIB + LEAD, 65, "M131072+64K c8192+65 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] - 1; i++) {
        struct gpu_map_user user = map_own(rows[i].at, rows[i].bytes);
        expect(rows[i].calls);
        assert_int_equal(held, 1); /* held as long as the mapping exists */
        end(&user);
        gpu_map_own_forget(map, fake.device + 16 * MIB, 1);
        fake.text[0] = '\0';
        assert_null(map->own);
        assert_int_equal(held, 0);
        assert_int_equal(fake.mapped, 0);
    }
    assert_int_equal(fake.forgotten, 6);
}

/* The ends of memory of cudaMalloc() are compared with what the GPU reads. */
static void plain_memory_is_compared(void **state)
{
    struct gpu_map_user users[4];
    users[0] = map_own(128 * MIB + LEAD, 64);
    expect("M131072+64K c8192+64 ");
    users[1] = map_own(128 * MIB + LEAD + 70000, 65);
    expect("M131136+64K c78192+64 c78193+64 ");
    users[2] = map_own(128 * MIB + LEAD + 199999, 1);
    expect("M131264+64K c208191+1 ");
    /* This range lies in the first mapping, which has been compared. */
    users[3] = map_own(128 * MIB + LEAD + 10, 100);
    expect("");
    assert_int_equal(held, 0);
    assert_int_equal(map->own->number, 31);
    assert_int_equal(map->own->bytes, 4 * PAGE);
    assert_int_equal(map->own->start - map->own->address, LEAD);
    for (int i = 0; i < 4; i++)
        end(&users[i]);
    gpu_map_own_forget(map, fake.device + 128 * MIB, 1);
    fake.text[0] = '\0';
    copies = 0;
    differ = 7; /* a kernel is writing there */
    users[0] = map_own(128 * MIB + LEAD, 8);
    assert_int_equal(copies, 8);
    end(&users[0]);
    gpu_map_own_forget(map, fake.device + 128 * MIB, 1);
    copies = 0;
    differ = 8;
    fails(128 * MIB + LEAD, 8, WEFT_ERR_UNSUPPORTED,
          "differ from what the CPU loads from their mapping");
    assert_int_equal(copies, 8);
    assert_int_equal(fake.mapped, 0);
    assert_null(map->own);
    copy_answer = WEFT_ERR_SYSTEM;
    fails(128 * MIB + LEAD, 8, WEFT_ERR_SYSTEM, "");
    assert_int_equal(copies, 9);
    assert_null(map->own);
}

static void a_mapping_serves_all_who_ask(void **state)
{
    struct gpu_map_user first = map_own(16 * MIB + PAGE, 2 * PAGE), second, third;
    expect("M16448+128K ");
    second = map_own(16 * MIB + 2 * PAGE, PAGE);
    third = map_own(16 * MIB + PAGE, PAGE + 1);
    expect("");
    assert_ptr_equal(second.at, first.at + PAGE);
    assert_ptr_equal(third.piece, first.piece);
    assert_int_equal(held, 1);
    end(&first);
    end(&second);
    assert_int_equal(map->idle_count, 0);
    end(&third);
    assert_int_equal(map->idle_count, 1);
    assert_int_equal(map->idle_bytes, 2 * PAGE);
    expect("");
    first = map_own(16 * MIB + 2 * PAGE + 1, 5); /* the mapping was kept */
    expect("");
    assert_int_equal(map->idle_count, 0);
    assert_int_equal(map->idle_bytes, 0);
    second = map_own(16 * MIB, PAGE + 1);           /* begins before it */
    third = map_own(16 * MIB + 2 * PAGE, PAGE + 1); /* ends after it */
    expect("M16384+128K M16512+128K ");
    end(&first);
    end(&second);
    end(&third);
    assert_int_equal(map->idle_count, 3);
    assert_int_equal(map->idle_bytes, 6 * PAGE);
    assert_true(map_own_trim(map, 4 * PAGE)); /* unmaps the mapping that was ended first */
    expect("U0 ");
    assert_int_equal(map->idle_bytes, 4 * PAGE);
    first = map_own(16 * MIB + PAGE, 1);
    expect("");
    end(&first);
    assert_false(map_own_trim(map, 4 * PAGE));
    assert_true(map_own_trim(map, 4 * PAGE - 1));
    first = map_own(16 * MIB + PAGE, 1); /* used later than the other mapping */
    expect("U0 ");
    end(&first);
}

static void memory_at_the_same_address_may_be_another(void **state)
{
    struct gpu_map_user first = map_own(16 * MIB, 8), second;
    end(&first);
    expect("M16384+64K ");
    allocations[0].handle = 23;
    first = map_own(16 * MIB, 8);
    expect("M16384+64K ");
    end(&first);
    first = map_own(128 * MIB + LEAD, 8);
    end(&first);
    fake.text[0] = '\0';
    allocations[1].number = 32;
    second = map_own(128 * MIB + LEAD, 8);
    expect("M131072+64K c8192+8 ");
    end(&second);
    /* With an old driver the buffer id identifies the memory. */
    gpu.driver.MemRetainAllocationHandle = NULL;
    allocations[0].number = 77;
    first = map_own(16 * MIB, 8);
    allocations[0].number = 0;
    expect("M16384+64K c0+8 ");
    end(&first);
}

static void as_much_is_kept_as_bar1_is_good_for(void **state)
{
    static const struct {
        const char *resource;
        size_t most;
    } rows[] = {
        {NULL, 64 * (size_t)MIB},
        {"", 64 * (size_t)MIB},
        {"0x0 0x0 0x0\n", 64 * (size_t)MIB},
        {"0x10 0x20 0x0\n0x1000 0x1000 0x0\n", 64 * (size_t)MIB},
        {"0x10 0xfffffff 0x0\n0x100000000 0x1ffffffff 0x14\n0x0 0xfffffffff 0x0\n",
         512 * (size_t)MIB},
        {"0x0 0x0 0x0\n0x100000000 0x10fffffff 0x14\n", 32 * (size_t)MIB},
        {"0x0 0x0 0x0\n0x0 0x3ffffffff 0x14\n", 1 << 30},
        {"0x0 0x0 0x0\nnothing\n", 64 * (size_t)MIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gpu_map_user user = map_own(16 * MIB, 8);
        map->idle_most = 0;
        resource = rows[i].resource;
        end(&user);
        assert_int_equal(map->idle_most, rows[i].most);
    }
    gpu_map_own_forget(map, fake.device + 16 * MIB, 1);
    map->idle_most = 3 * PAGE;
    fake.text[0] = '\0';
    struct gpu_map_user users[3];
    for (size_t i = 0; i < 3; i++)
        users[i] = map_own(16 * MIB + 4 * i * PAGE, 2 * PAGE - i * PAGE / 2);
    expect("M16384+128K M16640+128K M16896+64K ");
    end(&users[1]);
    end(&users[2]);
    expect(""); /* exactly the limit */
    end(&users[0]);
    expect("U0 "); /* unmaps the second, which was used least recently */
    assert_int_equal(map->idle_bytes, 3 * PAGE);
    users[1] = map_own(16 * MIB + 4 * PAGE, 1);
    expect("M16640+64K ");
    end(&users[1]);
}

static void so_many_mappings_are_kept(void **state)
{
    struct gpu_map_user user;
    for (size_t i = 0; i < 65; i++) {
        user = map_own(16 * MIB + i * PAGE, 1);
        end(&user);
        assert_int_equal(map->idle_count, i < 64 ? i + 1 : 64);
    }
    fake.text[0] = '\0';
    user = map_own(16 * MIB + PAGE, 1);
    expect("");
    end(&user);
    user = map_own(16 * MIB, 1);
    expect("M16384+64K ");
    end(&user);
}

static void what_is_forgotten_is_not_kept(void **state)
{
    static const struct {
        size_t at, bytes;
        bool hit;
    } rows[] = {
        {15 * MIB, MIB, false},   {15 * MIB, MIB + 1, true},    {112 * MIB, MIB, false},
        {112 * MIB - 1, 1, true}, {128 * MIB + PAGE, 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gpu_map_user user = map_own(16 * MIB + PAGE, 1);
        end(&user);
        fake.text[0] = '\0';
        gpu_map_own_forget(map, fake.device + rows[i].at, rows[i].bytes);
        assert_int_equal(map->idle_count, !rows[i].hit);
        assert_int_equal(held, !rows[i].hit);
        expect(rows[i].hit ? "U0 " : "");
    }
    gpu_map_own_forget(map, fake.device + 16 * MIB, 1);
    struct gpu_map_user first = map_own(16 * MIB, 1), second = map_own(16 * MIB + PAGE, 1), third;
    end(&second);
    fake.text[0] = '\0';
    gpu_map_own_forget(map, fake.device + 16 * MIB, 1); /* one is still in use */
    expect("U0 ");
    assert_int_equal(first.at[0], 'z');
    third = map_own(16 * MIB, 1); /* it may be other memory now */
    expect("M16384+64K ");
    assert_ptr_not_equal(third.piece, first.piece);
    end(&first);
    expect("U0 ");
    end(&third);
    expect("");
    assert_int_equal(map->idle_count, 1);
    map->backend = NULL;
    gpu_map_own_forget(map, fake.device + 16 * MIB, 1);
    gpu_map_own_forget(NULL, fake.device + 16 * MIB, 1);
    map->backend = &fake_way;
    assert_int_equal(map->idle_count, 1);
}

static void what_cannot_be_mapped_is_refused(void **state)
{
    fails(112 * MIB - 8, 9, WEFT_ERR_RANGE,
          "the allocation there has 100663296 bytes, 8 of them from that address on");
    fails(112 * MIB, 1, WEFT_ERR_RANGE, "0 of them");
    fails(140 * MIB, 8, WEFT_ERR_UNSUPPORTED,
          "is memory of GPU 4, but this PE maps only memory of its own GPU 3");
    fails(400 * (size_t)MIB, 8, WEFT_ERR_SYSTEM, "cuPointerGetAttribute");
    for (int i = 0; i < 3; i++) {
        refused = (int[]){CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                          CU_POINTER_ATTRIBUTE_BUFFER_ID}[i];
        fails(128 * MIB + LEAD, 8, WEFT_ERR_UNSUPPORTED, "cuPointerGetAttribute");
    }
    refused = 0;
    fake.fail_at = 1;
    fake.failure = WEFT_ERR_PATH;
    fails(16 * MIB, 8, WEFT_ERR_UNSUPPORTED, "a file: no room");
    fake.fail_at = fake.calls + 1;
    fake.failure = WEFT_ERR_NO_MEMORY;
    fails(16 * MIB, 8, WEFT_ERR_NO_MEMORY, "no room");
    for (int i = 0; i < 2; i++) {
        counted.fail_in = i;
        fails(16 * MIB, 8, WEFT_ERR_NO_MEMORY, "");
        assert_null(map->own);
    }
    counted.fail_in = -1;
    assert_int_equal(held, 0);
    struct gpu_map_user user = map_own(16 * MIB, 96 * MIB);
    end(&user);
}

/* Kept mappings are unmapped when a new mapping needs space in BAR1, also of the same memory. */
static void kept_mappings_make_room(void **state)
{
    struct gpu_map_user first = map_own(16 * MIB, 1), second = map_own(128 * MIB + LEAD, 1);
    end(&first);
    fake.text[0] = '\0';
    fake.fail_at = fake.calls + 1;
    first = map_own(16 * MIB + PAGE, 1);
    expect("U0 M16448+64K ");
    assert_int_equal(map->idle_count, 0);
    end(&first);
    fake.fail_at = fake.calls + 1;
    fake.fail_count = 2;
    fails(16 * MIB, 1, WEFT_ERR_NO_MEMORY, "no room");
    expect("U0 ");
    fake.fail_at = fake.calls + 1; /* nothing is kept, so there is no second attempt */
    int before = fake.calls;
    fails(16 * MIB, 1, WEFT_ERR_NO_MEMORY, "no room");
    assert_int_equal(fake.calls, before + 1);
    fake.fail_at = 0;
    end(&second);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    map->windows[OWN].tested = true;
    fake.text[0] = '\0';
    fake.failure = WEFT_ERR_UNSUPPORTED;
    fake.fail_at = fake.calls + 1;
    fails(16 * MIB, 1, WEFT_ERR_UNSUPPORTED, "no room"); /* for another error, kept mappings stay */
    expect("");
    assert_int_equal(map->idle_count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_pages_are_mapped),
        TEST(plain_memory_is_compared),
        TEST(a_mapping_serves_all_who_ask),
        TEST(memory_at_the_same_address_may_be_another),
        TEST(as_much_is_kept_as_bar1_is_good_for),
        TEST(so_many_mappings_are_kept),
        TEST(what_is_forgotten_is_not_kept),
        TEST(what_cannot_be_mapped_is_refused),
        TEST(kept_mappings_make_room),
    };
    return cmocka_run_group_tests(tests, fake_open, fake_end);
}
