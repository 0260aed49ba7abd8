/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how the program's own memory is registered in the windows of the GPU heap: which memory is
 * accepted, where it is mapped, and what is undone when a step fails at this PE or at another. This
 * PE is PE 5, the second of three on its node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "counted.h"
#include "gpu/register.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 3, OWN = 1, MIB = 1 << 20, GRANULE = 2 * MIB, START = 0x40000000, BYTES = 6 * MIB };

static struct gpu_api driver;
static struct gpu_device device = {.driver = &driver, .device = 7, .ordinal = 3};
static int local_pes[SLOTS] = {2, 5, 9};
static struct boot boot;
static struct gpu_heap heap;
static char text[512];   /* log of the calls */
static int retained;     /* handles held by the registration */
static int calls, fails; /* number of steps so far; number of the step that fails */
static int agreed_fails; /* number of the agreement at which another PE has failed */
static int agreements;
static CUmemAllocationProp properties;
static int descriptors[64], descriptor_count;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
}

static void expect(const char *wanted)
{
    assert_string_equal(text, wanted);
    text[0] = '\0';
}

static int step(void)
{
    return ++calls == fails;
}

static CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
    *handle = 99;
    if (step())
        return CUDA_ERROR_INVALID_VALUE;
    retained++;
    *handle = 33;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    assert_int_equal(handle, 33);
    retained--;
    return CUDA_SUCCESS;
}

static CUresult get_properties(CUmemAllocationProp *of, CUmemGenericAllocationHandle handle)
{
    assert_int_equal(handle, 33);
    *of = properties;
    return step() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult attribute(void *value, int which, CUdeviceptr at)
{
    if (which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)value = START;
    else
        *(size_t *)value = BYTES;
    return step() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

static int descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    descriptors[descriptor_count++] = fd;
    return fd;
}

weft_status __wrap_boot_agree(struct boot *of, weft_status status);
weft_status __wrap_boot_agree(struct boot *of, weft_status status)
{
    note(status ? "failed " : "agree ");
    if (++agreements == agreed_fails && !status)
        return base_fail(WEFT_ERR_PATH, "PE 9: no");
    return status;
}

weft_status __wrap_gpu_heap_map(const struct gpu_heap *of, int slot, struct gpu_chunk *chunk,
                                CUmemGenericAllocationHandle handle);
weft_status __wrap_gpu_heap_map(const struct gpu_heap *of, int slot, struct gpu_chunk *chunk,
                                CUmemGenericAllocationHandle handle)
{
    note("map%d@%zu+%zu ", slot, chunk->offset / MIB, chunk->bytes / MIB);
    assert_int_equal(handle, 33);
    assert_true(of->growing);
    if (step())
        return base_fail(WEFT_ERR_SYSTEM, "no map");
    chunk->handles[slot] = handle;
    return WEFT_OK;
}

weft_status __wrap_gpu_heap_export(const struct gpu_heap *of, const struct gpu_chunk *chunk,
                                   int *fd);
weft_status __wrap_gpu_heap_export(const struct gpu_heap *of, const struct gpu_chunk *chunk,
                                   int *fd)
{
    note("export ");
    if (step())
        return base_fail(WEFT_ERR_SYSTEM, "no export");
    *fd = descriptor();
    return WEFT_OK;
}

weft_status __wrap_gpu_heap_import(const struct gpu_heap *of, int slot, struct gpu_chunk *chunk,
                                   int fd);
weft_status __wrap_gpu_heap_import(const struct gpu_heap *of, int slot, struct gpu_chunk *chunk,
                                   int fd)
{
    note("import%d ", slot);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    return step() ? base_fail(WEFT_ERR_UNSUPPORTED, "no import") : WEFT_OK;
}

void __wrap_gpu_heap_unmap(const struct gpu_heap *of, int slot, struct gpu_chunk *chunk);
void __wrap_gpu_heap_unmap(const struct gpu_heap *of, int slot, struct gpu_chunk *chunk)
{
    note("unmap%d ", slot);
    if (chunk->handles[slot] == 33)
        retained--;
}

static weft_status share_fd(struct boot *of, int from, int fd, int *taken)
{
    note("share%d ", from);
    if (step())
        return base_fail(WEFT_ERR_PEER_DEAD, "PE 9 is gone");
    *taken = from == 5 ? fd : descriptor();
    return WEFT_OK;
}

static const struct boot_ops ops = {.share_fd = share_fd};

static int set_up(void **state)
{
    driver = (struct gpu_api){.MemRetainAllocationHandle = retain,
                              .MemRelease = release,
                              .MemGetAllocationPropertiesFromHandle = get_properties,
                              .PointerGetAttribute = attribute,
                              .GetErrorName = error_text,
                              .GetErrorString = error_text};
    boot = (struct boot){.ops = &ops,
                         .pe = 5,
                         .npes = 11,
                         .local_pe = OWN,
                         .local_npes = SLOTS,
                         .local_pes = local_pes};
    heap = (struct gpu_heap){.device = &device,
                             .boot = &boot,
                             .size = 64 * MIB,
                             .backed = 10 * MIB,
                             .granularity = GRANULE,
                             .unit = GRANULE,
                             .reservation = 0x10000000,
                             .reserved_bytes = 3 * 64 * MIB};
    properties = (CUmemAllocationProp){.requestedHandleTypes = 1, .location = {1, 7}};
    pthread_mutex_init(&heap.chunks_lock, NULL);
    pthread_mutex_init(&heap.opening_lock, NULL);
    retained = calls = fails = agreed_fails = agreements = descriptor_count = 0;
    text[0] = '\0';
    counted_begin();
    return 0;
}

static int tear_down(void **state)
{
    while (heap.registered)
        gpu_unregister_memory(&heap, heap.registered);
    assert_int_equal(retained, 0);
    assert_false(heap.growing);
    for (int i = 0; i < descriptor_count; i++)
        assert_int_equal(fcntl(descriptors[i], F_GETFD), -1);
    return counted_end(state);
}

/* ------------------------------------------------------------------------ one PE's memory */

static void look(uintptr_t at, size_t bytes, weft_status status, const char *why)
{
    struct gpu_own_memory own = {.handle = 1, .bytes = 2, .lead = 3};
    assert_int_equal(gpu_inspect_memory(&heap, (void *)at, bytes, &own), status);
    if (status && !strstr(base_last_error(), why))
        fail_msg("%s", base_last_error());
    assert_int_equal(retained, status ? 0 : 1);
    assert_int_equal(own.handle, status ? 0 : 33);
    if (!status) {
        assert_int_equal(own.bytes, BYTES);
        assert_int_equal(own.lead, at - START);
        gpu_release_memory(&heap, &own);
        assert_int_equal(own.handle, 0);
        gpu_release_memory(&heap, &own);
        assert_int_equal(retained, 0);
    }
}

static void memory_that_peers_can_map_is_accepted(void **state)
{
    look(START, BYTES, WEFT_OK, "");
    look(START + 100, BYTES - 100, WEFT_OK, "");
    look(START + 100, BYTES - 99, WEFT_ERR_ADDRESS,
         "the allocation there has 6291456 bytes, 6291356 of them from that address on");
    look(heap.reservation, 1, WEFT_ERR_ADDRESS, "is symmetric already");
    look(heap.reservation + heap.reserved_bytes - 1, 1, WEFT_ERR_ADDRESS, "is symmetric already");
    heap.reservation = START - heap.reserved_bytes;
    look(START, 1, WEFT_OK, "");
    heap.reservation = START + 1;
    look(START, 1, WEFT_OK, "");
    static const char *const why[] = {"cuMemRetainAllocationHandle: error 1",
                                      "cuMemGetAllocationPropertiesFromHandle",
                                      "cuPointerGetAttribute", "cuPointerGetAttribute"};
    for (int i = 0; i < 4; i++) {
        calls = 0;
        fails = i + 1;
        look(START, 1, i ? WEFT_ERR_SYSTEM : WEFT_ERR_ADDRESS, why[i]);
        assert_int_equal(calls, i + 1);
    }
}

static void memory_of_another_place_is_refused(void **state)
{
    driver.vendor = GPU_VENDOR_AMD;
    look(START, 1, WEFT_ERR_UNSUPPORTED,
         "is memory that other GPUs see between kernels only: create it with "
         "hipMemAllocationTypeUncached");
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    look(START, 1, WEFT_OK, "");
    driver.vendor = GPU_VENDOR_NVIDIA;
    properties.location.id = 6;
    look(START, 1, WEFT_ERR_UNSUPPORTED,
         "is memory of location 6, type 1, but this PE's heap is on GPU 3");
    properties.location = (CUmemLocation){2, 7};
    look(START, 1, WEFT_ERR_UNSUPPORTED, "is memory of location 7, type 2");
    properties.location.type = 1;
    properties.requestedHandleTypes = 2;
    look(START, 1, WEFT_ERR_UNSUPPORTED, "was created with handle types 0x2");
    properties.requestedHandleTypes = 3;
    look(START, 1, WEFT_OK, "");
    properties.requestedHandleTypes = 0;
    boot.local_npes = 1; /* without local peers no descriptor is needed */
    look(START, 1, WEFT_OK, "");
}

/* -------------------------------------------------------------------------------- all windows */

static struct gpu_registered *adopt(size_t bytes)
{
    struct gpu_own_memory own = {.handle = 33, .bytes = bytes, .lead = 24};
    struct gpu_registered *adopted = (void *)1;
    retained++;
    weft_status status = gpu_register_memory(&heap, &own, &adopted);
    assert_int_equal(status == WEFT_OK, adopted != NULL);
    assert_false(heap.growing);
    return adopted;
}

static void memory_is_mapped_in_all_windows(void **state)
{
    struct gpu_registered *adopted = adopt(5 * MIB);
    expect("agree map1@58+5 export agree share2 import0 share5 import1 share9 import2 agree ");
    assert_int_equal(adopted->chunk.offset, 58 * MIB);
    assert_int_equal(adopted->chunk.bytes, 5 * MIB);
    assert_int_equal(adopted->lead, 24);
    assert_int_equal(retained, 1);
    assert_ptr_equal(gpu_registered_find(&heap, 58 * MIB + 24), adopted);
    assert_null(gpu_registered_find(&heap, 58 * MIB));
    static const struct {
        size_t offset, bytes;
        bool holds;
    } rows[] = {{58 * MIB, 5 * MIB, true}, {58 * MIB, 5 * MIB + 1, false}, {58 * MIB - 1, 1, false},
                {63 * MIB - 1, 1, true},   {63 * MIB - 1, 2, false},       {63 * MIB, 0, false}};
    struct gpu_registered *second = adopt(MIB);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(gpu_registered_holds(&heap, rows[i].offset, rows[i].bytes), rows[i].holds);
    assert_true(gpu_registered_holds(&heap, 56 * MIB, MIB));
    assert_ptr_equal(gpu_registered_find(&heap, 56 * MIB + 24), second);
    text[0] = '\0';
    gpu_unregister_memory(&heap, adopted);
    expect("unmap0 unmap1 unmap2 ");
    assert_ptr_equal(heap.registered, second);
    assert_false(gpu_registered_holds(&heap, 58 * MIB, 1));
    gpu_unregister_memory(&heap, second);
    assert_null(heap.registered);
    boot.local_npes = 1, boot.local_pe = 0;
    text[0] = '\0';
    adopted = adopt(MIB);
    expect("agree map0@62+1 agree agree ");
}

/* A registration takes the highest free range of the window. */
static void stretches_are_used_again(void **state)
{
    struct gpu_registered *first = adopt(8 * MIB), *second = adopt(3 * MIB),
                          *third = adopt(2 * MIB), *last;
    assert_int_equal(first->chunk.offset, 56 * MIB);
    assert_int_equal(second->chunk.offset, 52 * MIB);
    assert_int_equal(third->chunk.offset, 50 * MIB);
    gpu_unregister_memory(&heap, second);
    last = adopt(5 * MIB); /* too large for the gap of 4 MiB */
    assert_int_equal(last->chunk.offset, 44 * MIB);
    second = adopt(4 * MIB);
    assert_int_equal(second->chunk.offset, 52 * MIB);
    assert_ptr_equal(heap.registered, first);
    assert_ptr_equal(first->next, second);
    assert_ptr_equal(second->next, third);
    assert_ptr_equal(third->next, last);
    assert_int_equal(gpu_heap_limit(&heap), 44 * MIB);
    gpu_unregister_memory(&heap, first);
    first = adopt(7 * MIB);
    assert_int_equal(first->chunk.offset, 56 * MIB);
    assert_ptr_equal(heap.registered, first);
    last = adopt(34 * MIB); /* down to the end of the heap's own memory */
    assert_int_equal(last->chunk.offset, 10 * MIB);
    gpu_unregister_memory(&heap, last);
    agreements = 0;
    assert_null(adopt(34 * MIB + 1));
    assert_non_null(strstr(base_last_error(),
                           "36 MiB more do not fit into the GPU heap's windows of 64 MiB. The heap "
                           "uses the first 10 MiB and registered memory the rest from 44 MiB on"));
    assert_int_equal(agreements, 1);
    heap.backed = 46 * MIB; /* the heap has grown */
    assert_null(adopt(MIB));
}

/* A failure at this PE or at another leaves nothing. Each PE still takes part in each exchange. */
static void a_step_that_fails_leaves_nothing(void **state)
{
#define OWN_MAPPED "agree map1@58+6 export "
#define ONE_SHARED OWN_MAPPED "agree share2 import0 share5 "
#define UNDONE     "unmap0 unmap1 unmap2 "
    static const struct {
        int fails, agreed_fails;
        const char *calls;
    } rows[] = {
        {0, 1, "agree "},
        {1, 0, "agree map1@58+6 failed " UNDONE},
        {2, 0, OWN_MAPPED "failed " UNDONE},
        {0, 2, OWN_MAPPED "agree " UNDONE},
        {3, 0, OWN_MAPPED "agree share2 " UNDONE},
        {4, 0, ONE_SHARED "share9 failed " UNDONE},
        {6, 0, ONE_SHARED "import1 share9 failed " UNDONE},
        {0, 3, ONE_SHARED "import1 share9 import2 agree " UNDONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        calls = agreements = 0;
        fails = rows[i].fails;
        agreed_fails = rows[i].agreed_fails;
        assert_null(adopt(BYTES));
        expect(rows[i].calls);
        assert_int_equal(retained, 0);
        assert_null(heap.registered);
    }
    for (int i = 0; i < 2; i++) {
        counted.fail_in = i;
        assert_null(adopt(BYTES));
        assert_int_equal(retained, 0);
        assert_non_null(strstr(base_last_error(), "no private memory for a registration"));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_that_peers_can_map_is_accepted), TEST(memory_of_another_place_is_refused),
        TEST(memory_is_mapped_in_all_windows),       TEST(stretches_are_used_again),
        TEST(a_step_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
