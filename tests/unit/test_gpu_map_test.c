/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the path test of a mapping of GPU memory, with the copy engine or with tags that the owner
 * has written. Shows also up to which size the CPU is faster than the copy engine; the doubles set
 * the time of each copy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "counted.h"
#include "fake_map.h"
#include "gpu/test/cache.h"

/* AREA: offset of PE 5's area in each window. */
enum { EXTRA = 700 * MIB, AREA = TEST_AT + 5 * GPU_MAP_TEST_BYTES };

static struct gpu_map *map;
/* Number of copies so far; number of the copy that changes a byte. */
static int engine_copies, wrong_copy;
static size_t wrong_byte;
static weft_status copy_answer;
static bool traced, lost; /* CPU stores are lost */
static int stores, loads;
static uint64_t now_ns, engine_ns[2][2]; /* ns of a copy: [pinned][into the GPU] */
static char *pinned;
static bool no_pinned;
static int pinned_live, reserved, created, extra_mapped, extra_calls, extra_fails, places_asked;
static enum gpu_place place;
static int marks, marks_fail;

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

static bool in_gpu(const void *at)
{
    return (uintptr_t)at - (uintptr_t)fake.device < (size_t)SLOTS * WINDOW;
}

static bool is_pinned(const void *at)
{
    return pinned && (uintptr_t)at - (uintptr_t)pinned < GPU_MAP_MOST;
}

/* Of eleven attempts the last one is the fastest. */
static uint64_t late(int copies)
{
    return copies % 11 == 10 ? 0 : 5;
}

weft_status __wrap_gpu_copy(struct gpu *by, unsigned lane, void *dst, const void *src, size_t bytes,
                            enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *by, unsigned lane, void *dst, const void *src, size_t bytes,
                            enum gpu_copy_mode manner)
{
    bool in = in_gpu(dst);
    assert_int_equal(lane, 0);
    assert_int_equal(manner, GPU_DONE);
    memcpy(dst, src, bytes);
    if (traced)
        note("%c%zu+%zu ", in ? 'w' : 'r',
             (size_t)((in ? (char *)dst : (const char *)src) - fake.device) % WINDOW - AREA, bytes);
    else
        now_ns += engine_ns[is_pinned(in ? src : dst)][in] +
                  (engine_copies < 40 ? 0 : late(engine_copies - 40));
    if (++engine_copies == wrong_copy)
        ((char *)dst)[wrong_byte] ^= 0x10;
    return copy_answer;
}

void __real_wc_store(void *to, const void *from, size_t bytes);
void __wrap_wc_store(void *to, const void *from, size_t bytes);
void __wrap_wc_store(void *to, const void *from, size_t bytes)
{
    if (!lost)
        __real_wc_store(to, from, bytes);
    now_ns += bytes + late(stores++);
}

void __real_wc_load(void *to, const void *from, size_t bytes);
void __wrap_wc_load(void *to, const void *from, size_t bytes);
void __wrap_wc_load(void *to, const void *from, size_t bytes)
{
    __real_wc_load(to, from, bytes);
    now_ns += 4 * bytes + late(loads++);
}

enum gpu_place __wrap_gpu_place_of(struct gpu *by, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *by, const void *address)
{
    places_asked++;
    return place;
}

/* The cache of earlier measurements. */
static struct {
    bool known;
    size_t numbers[4];
    int kept;
} cache;

bool __wrap_proof_cache_load_numbers(const char *what, const CUuuid *of, int driver_version,
                                     size_t *numbers, int count);
bool __wrap_proof_cache_load_numbers(const char *what, const CUuuid *of, int driver_version,
                                     size_t *numbers, int count)
{
    assert_string_equal(what, "gpu-copies");
    assert_true(count == 4 && driver_version == 12345 && of == &gpu.device.uuid);
    memcpy(numbers, cache.numbers, sizeof cache.numbers);
    return cache.known;
}

void __wrap_proof_cache_store_numbers(const char *what, const CUuuid *of, int driver_version,
                                      const size_t *numbers, int count);
void __wrap_proof_cache_store_numbers(const char *what, const CUuuid *of, int driver_version,
                                      const size_t *numbers, int count)
{
    assert_string_equal(what, "gpu-copies");
    assert_true(count == 4 && driver_version == 12345 && of == &gpu.device.uuid);
    memcpy(cache.numbers, numbers, sizeof cache.numbers);
    cache.kept++;
}

static int entered;
static bool push_fails;

static CUresult push(CUcontext context)
{
    if (push_fails)
        return CUDA_ERROR_UNKNOWN;
    entered++;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    entered--;
    return CUDA_SUCCESS;
}

static CUresult extra_call(void)
{
    return ++extra_calls == extra_fails ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = extra_call();
    assert_int_equal(bytes % GRANULE + flags, 0);
    *handle = 55;
    created += !result;
    return result;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    assert_int_equal(handle, 55);
    created--;
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags)
{
    CUresult result = extra_call();
    assert_true(alignment == 0 && wish == 0 && flags == 0);
    *at = (uintptr_t)fake.device + EXTRA;
    reserved += !result;
    return result;
}

static CUresult unreserve(CUdeviceptr at, size_t bytes)
{
    assert_true(at == (uintptr_t)fake.device + EXTRA && bytes % GRANULE == 0);
    reserved--;
    return CUDA_SUCCESS;
}

static CUresult mem_map(CUdeviceptr at, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult result = extra_call();
    assert_true(at == (uintptr_t)fake.device + EXTRA && offset == 0 && handle == 55 && !flags);
    extra_mapped += !result;
    return result;
}

static CUresult mem_unmap(CUdeviceptr at, size_t bytes)
{
    extra_mapped--;
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    assert_true(n == 1 && access->location.id == 7 &&
                access->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return extra_call();
}

static CUresult attribute(void *value, int which, CUdeviceptr address)
{
    if (which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)value = (uintptr_t)fake.device + EXTRA;
    else if (which == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)value = GRANULE;
    else
        *(int *)value = 0;
    return extra_call();
}

static CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
    *handle = 55;
    created++;
    return CUDA_SUCCESS;
}

static CUresult host_alloc(void **address, size_t bytes, unsigned flags)
{
    assert_int_equal(bytes, GPU_MAP_MOST);
    *address = (void *)1;
    if (no_pinned)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pinned_live++;
    *address = pinned = __real_malloc(bytes);
    memset(pinned, 2, bytes);
    return CUDA_SUCCESS;
}

static CUresult free_host(void *address)
{
    assert_ptr_equal(address, pinned);
    __real_free(pinned);
    pinned = NULL;
    pinned_live--;
    return CUDA_SUCCESS;
}

static CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    assert_ptr_equal(stream, &marks);
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return ++marks == marks_fail ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
    assert_ptr_equal(stream, &marks);
    return ++marks == marks_fail ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

static int set_up(void **state)
{
    engine_copies = wrong_copy = stores = loads = 0;
    wrong_byte = 0;
    copy_answer = WEFT_OK;
    lost = no_pinned = push_fails = false;
    traced = true;
    pinned_live = reserved = created = extra_mapped = extra_calls = extra_fails = places_asked = 0;
    marks = marks_fail = 0;
    memset(&cache, 0, sizeof cache);
    memset(fake.device + AREA, 0, GPU_MAP_TEST_BYTES);
    unsetenv("WEFT_PROVE");
    counted_begin();
    map = fake_make(&fake_way);
    gpu.device.device = 7;
    gpu.driver = (struct gpu_api){.CtxPushCurrent = push,
                                  .CtxPopCurrent = pop,
                                  .MemCreate = create,
                                  .MemRelease = release,
                                  .MemAddressReserve = reserve,
                                  .MemAddressFree = unreserve,
                                  .MemMap = mem_map,
                                  .MemUnmap = mem_unmap,
                                  .MemSetAccess = set_access,
                                  .PointerGetAttribute = attribute,
                                  .MemRetainAllocationHandle = retain,
                                  .MemHostAlloc = host_alloc,
                                  .MemFreeHost = free_host,
                                  .MemcpyAsync = copy_async,
                                  .StreamSynchronize = synchronize,
                                  .GetErrorName = error_text,
                                  .GetErrorString = error_text,
                                  .driver_version = 12345};
    return 0;
}

static int tear_down(void **state)
{
    fake_destroy();
    assert_int_equal(created, 0);
    assert_int_equal(reserved, 0);
    assert_int_equal(extra_mapped, 0);
    assert_int_equal(pinned_live, 0);
    assert_int_equal(entered, 0);
    return counted_end(state);
}

/* ------------------------------------------------------------------------------------ path test */

static void both_directions_are_tested(void **state)
{
    fake_chunk(0, 0, 64 * MIB, -1);
    assert_non_null(gpu_map_at(map, 0, 0, 8));
    expect("M0+64 r0+8 w0+8 r1+1 w1+1 r12+4 w12+4 r3+200 w3+200 r64+64 w64+64 r77+1001 w77+1001 "
           "r0+2048 w0+2048 ");
    assert_int_equal(stores, 7);
    unsigned char last[GPU_MAP_TEST_BYTES];
    memcpy(last, fake.device + AREA, sizeof last);
    assert_int_equal(map_test(map, 0), WEFT_OK);
    assert_memory_not_equal(last, fake.device + AREA, sizeof last); /* each test uses other data */
    assert_memory_not_equal(last, last + 1000, 1000);
}

static void a_byte_that_differs_is_named(void **state)
{
    static const struct {
        int copy;
        size_t lead, byte;
        const char *why;
    } rows[] = {
        {1, 0, 7, "8 bytes stored by the CPU and read by the GPU: byte 7 is "},
        {4, 1, 0, "1 bytes written by the GPU and loaded by the CPU: byte 0 is "},
        {7, 3, 199, "200 bytes stored by the CPU and read by the GPU: byte 199 is "},
        {14, 0, 2047, "2048 bytes written by the GPU and loaded by the CPU: byte 2047 is "},
    };
    fake_chunk(0, 0, 64 * MIB, -1);
    assert_non_null(gpu_map_at(map, 0, 0, 8));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned is, should;
        engine_copies = 0;
        wrong_copy = rows[i].copy;
        wrong_byte = rows[i].byte;
        assert_int_equal(map_test(map, 0), WEFT_ERR_PATH);
        assert_memory_equal(base_last_error(), rows[i].why, strlen(rows[i].why));
        assert_int_equal(
            sscanf(base_last_error() + strlen(rows[i].why), "%x and should be %x", &is, &should),
            2);
        assert_int_equal(is ^ should, 0x10);
        assert_int_equal((unsigned char)fake.device[AREA + rows[i].lead + rows[i].byte],
                         rows[i].copy % 2 ? should : is);
        assert_int_equal(engine_copies, rows[i].copy);
    }
    wrong_copy = 0;
    copy_answer = WEFT_ERR_TIMEOUT;
    engine_copies = 0;
    assert_int_equal(map_test(map, 0), WEFT_ERR_TIMEOUT);
    assert_int_equal(engine_copies, 1);
    assert_int_equal(map_test_load(&gpu, map->windows[0].base, heap_windows[0].base, 64),
                     WEFT_ERR_TIMEOUT);
}

/* This PE's GPU does not reach the memory, so PE 2 has written tags there. */
static void marks_of_the_owner_are_found(void **state)
{
    CUstream stream = (CUstream)&marks;
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    fake.text[0] = '\0';
    heap_windows[0].mapped = false;
    heap_windows[0].gpu.job_tag = 0x123456789;
    boot.local_pe = 0, boot.pe = 2;
    assert_int_equal(gpu_map_write_tags(&gpu, stream), CUDA_SUCCESS);
    assert_int_equal(marks, 2 * SLOTS);
    for (int fails = 1; fails <= 2 * SLOTS; fails++) {
        marks = 0;
        marks_fail = fails;
        assert_int_equal(gpu_map_write_tags(&gpu, stream), CUDA_ERROR_UNKNOWN);
        assert_int_equal(marks, fails);
    }
    gpu.heap.map = NULL;
    marks = 0;
    assert_int_equal(gpu_map_write_tags(&gpu, stream), CUDA_SUCCESS);
    assert_int_equal(marks, 0);
    gpu.heap.map = map;
    boot.local_pe = OWN, boot.pe = 5;
    const uint64_t *left = (void *)(fake.device + AREA);
    for (int i = 0; i < 8; i++) {
        assert_int_not_equal(left[i], 0);
        assert_int_not_equal(left[i], left[(i + 1) % 8]);
        assert_int_not_equal(left[i], left[i + GPU_MAP_TEST_BYTES / 8 * 4]); /* tags for PE 9 */
    }
    assert_int_equal(left[8], 0);
    for (int i = 0; i < 3; i++) {
        char saved[64];
        memcpy(saved, left, sizeof saved);
        fake.device[AREA + (i == 1 ? 63 : 0)] ^= i < 2; /* a wrong tag */
        lost = i == 2;
        assert_null(gpu_map_at(map, 0, 0, 8));
        assert_string_equal(
            map->windows[0].why,
            i < 2 ? "the tag that PE 2 wrote into its memory is not found in its mapping"
                  : "data stored into memory of PE 2 is not found there");
        map->windows[0].refused = lost = false;
        memcpy(fake.device + AREA, saved, sizeof saved);
    }
    fake.text[0] = '\0';
    assert_non_null(gpu_map_at(map, 0, 0, 8));
    expect(""); /* the engine makes no copy */
}

/* -------------------------------------------------------------------------------- measured
 * sizes */

static void sizes_are_measured_once(void **state)
{
    traced = false;
    for (int i = 0; i < 3; i++) {
        engine_ns[0][1] = 4096;                  /* 1 ns a byte: equally fast at 4 KiB */
        engine_ns[0][0] = 4 * 65536 - 1;         /* 4 ns a byte: the engine is faster at 64 KiB */
        engine_ns[1][1] = i == 1 ? 511 : 100000; /* a copy of pinned memory */
        engine_ns[1][0] = UINT32_MAX;            /* the engine is never faster */
        engine_copies = stores = loads = 0;
        map->measured = false;
        map->limits = (struct gpu_map_limits){0};
        cache.known = i == 2;
        const struct gpu_map_limits *limits = gpu_map_limits(map);
        assert_int_equal(limits->store_plain, 4096);
        assert_int_equal(limits->load_plain, 32768);
        assert_int_equal(limits->store_pinned, i ? 0 : 65536);
        assert_int_equal(limits->load_pinned, MIB);
        assert_int_equal(cache.kept, i < 2 ? i + 1 : 2);
        if (i == 0) {
            assert_int_equal(engine_copies, 4 * 40 + 11 * (5 + 8 + 9 + 12));
            assert_int_equal(stores, 11 * (5 + 9));
            assert_int_equal(loads, 11 * (8 + 12));
            assert_memory_equal(cache.numbers, ((size_t[]){4096, 65536, 32768, MIB}), 32);
        }
        if (i == 2)
            assert_int_equal(engine_copies, 0);
        now_ns = 0;
        assert_ptr_equal(gpu_map_limits(map), limits);
        assert_int_equal(now_ns, 0);
        assert_int_equal(map->idle_count, 0); /* the memory for the measurement is not kept */
    }
    setenv("WEFT_PROVE", "always", 1);
    config_reset();
    map->measured = false;
    no_pinned = true;
    assert_int_equal(gpu_map_limits(map)->store_plain, 4096);
    assert_int_equal(gpu_map_limits(map)->store_pinned, 0);
    assert_int_equal(gpu_map_limits(map)->load_pinned, 0);
    assert_int_equal(cache.kept, 3);
}

/* If nothing can be measured, the values of another machine are used and not stored. */
static void what_cannot_be_measured_is_assumed(void **state)
{
    traced = false;
    gpu_map_limits(map);
    cache.kept = 0;
    for (int i = 1; i <= 6; i++) {
        map->measured = false;
        map->limits = (struct gpu_map_limits){0};
        extra_calls = 0;
        extra_fails = i < 6 ? i : 0;
        push_fails = i == 6;
        const struct gpu_map_limits *limits = gpu_map_limits(map);
        assert_true(limits->store_plain == 65536 && limits->store_pinned == 65536);
        assert_true(limits->load_plain == 4096 && limits->load_pinned == 4096);
        assert_int_equal(created, 0);
        assert_int_equal(reserved, 0);
        assert_int_equal(pinned_live, 0);
    }
    push_fails = false;
    map->measured = false;
    counted.fail_in = 0;
    assert_int_equal(gpu_map_limits(map)->store_plain, 65536);
    assert_int_equal(cache.kept, 0);
}

static void extra_memory_is_whole_granules(void **state)
{
    struct gpu_map_extra extra;
    assert_int_equal(gpu_map_extra_make(&gpu, GRANULE + 1, &extra), WEFT_OK);
    assert_int_equal(extra.bytes, 2 * GRANULE);
    assert_true(created == 1 && reserved == 1 && extra_mapped == 1);
    gpu_map_extra_free(&gpu, &extra);
    assert_int_equal(gpu_map_extra_make(&gpu, GRANULE, &extra), WEFT_OK);
    assert_int_equal(extra.bytes, GRANULE);
    gpu_map_extra_free(&gpu, &extra);
    for (int i = 1; i <= 4; i++) {
        extra_calls = 0;
        extra_fails = i;
        assert_int_equal(gpu_map_extra_make(&gpu, 5, &extra), WEFT_ERR_NO_MEMORY);
        assert_non_null(strstr(base_last_error(), "5 bytes to measure with"));
        assert_true(created == 0 && reserved == 0 && extra_mapped == 0);
    }
}

static void the_driver_is_asked_where_that_decides(void **state)
{
    static const struct {
        size_t bytes;
        bool in;
        enum gpu_place place;
        bool pays, asked;
    } rows[] = {
        {600, true, GPU_PLACE_PLAIN, true, false},    {1000, true, GPU_PLACE_PLAIN, true, false},
        {1001, true, GPU_PLACE_PLAIN, false, true},   {1001, true, GPU_PLACE_PINNED, true, true},
        {3000, true, GPU_PLACE_PINNED, true, true},   {3001, true, GPU_PLACE_PINNED, false, false},
        {2000, false, GPU_PLACE_PINNED, true, false}, {2001, false, GPU_PLACE_PINNED, false, true},
        {2001, false, GPU_PLACE_PLAIN, true, true},   {5000, false, GPU_PLACE_PLAIN, true, true},
        {5001, false, GPU_PLACE_PLAIN, false, false},
    };
    map->measured = true;
    map->limits = (struct gpu_map_limits){1000, 3000, 5000, 2000};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        places_asked = 0;
        place = rows[i].place;
        assert_int_equal(gpu_map_is_faster(map, &place, rows[i].bytes, rows[i].in), rows[i].pays);
        assert_int_equal(places_asked, rows[i].asked);
    }
    map->limits = (struct gpu_map_limits){0};
    assert_true(gpu_map_is_faster(map, &place, 512, true));
    assert_false(gpu_map_is_faster(map, &place, 513, true));
    map->limits.store_plain = map->limits.store_pinned = 4 * (size_t)MIB;
    assert_true(gpu_map_is_faster(map, &place, MIB, true));
    assert_false(gpu_map_is_faster(map, &place, MIB + 1, true));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_directions_are_tested),
        TEST(a_byte_that_differs_is_named),
        TEST(marks_of_the_owner_are_found),
        TEST(sizes_are_measured_once),
        TEST(what_cannot_be_measured_is_assumed),
        TEST(extra_memory_is_whole_granules),
        TEST(the_driver_is_asked_where_that_decides),
    };
    return cmocka_run_group_tests(tests, fake_open, fake_end);
}
