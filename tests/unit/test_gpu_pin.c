/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how host memory is pinned for the GPU, how kinds of memory are told apart, and what NICs
 * need of GPU memory. The driver is a table of functions that record what is registered; each can
 * fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "counted.h"
#include "gpu/gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 32, MIB = 1 << 20, MOVED = 0x1000000, HOST = 3, IOMEMORY = 4 };

static struct {
    char *at;
    size_t bytes;
    unsigned flags;
} registered[MOST]; /* registered and not unregistered */
static int count, calls, unregistered, fail_at, entered;
static CUresult failure, io_answer, seen_answer, push_answer;
static unsigned pointer_type;
static CUresult pointer_answer;
static int asked; /* number of queries of the memory type */
static int attributes[128];
static CUresult attribute_answer, flush_answer, export_answer;
static struct gpu gpu;
static struct boot boot;

static CUresult push(CUcontext context)
{
    if (!push_answer)
        entered++;
    return push_answer;
}

static CUresult pop(CUcontext *context)
{
    entered--;
    return CUDA_SUCCESS;
}

static CUresult host_register(void *address, size_t bytes, unsigned flags)
{
    assert_int_equal(entered, 1);
    if (++calls == fail_at)
        return failure;
    if (flags & IOMEMORY && io_answer)
        return io_answer;
    registered[count].at = address;
    registered[count].bytes = bytes;
    registered[count++].flags = flags;
    return CUDA_SUCCESS;
}

static CUresult host_unregister(void *address)
{
    unregistered++;
    for (int i = 0; i < count; i++)
        if (registered[i].at == address) {
            registered[i] = registered[--count];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_pointer(CUdeviceptr *seen, void *address, unsigned flags)
{
    assert_int_equal(flags, 0);
    assert_int_equal(entered, 1);
    *seen = (uintptr_t)address + MOVED;
    return seen_answer;
}

static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr address)
{
    assert_int_equal(attribute, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    asked++;
    *(unsigned *)value = pointer_type;
    return pointer_answer;
}

static CUresult device_attribute(int *value, int attribute, CUdevice device)
{
    assert_int_equal(device, 7);
    *value = attributes[attribute];
    return attribute_answer;
}

static CUresult flush(int target, int scope)
{
    assert_int_equal(entered, 1);
    assert_int_equal(target, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
    assert_int_equal(scope, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    return flush_answer;
}

static CUresult range_handle(void *handle, CUdeviceptr at, size_t bytes, int type,
                             unsigned long long flags)
{
    assert_int_equal(entered, 1);
    assert_int_equal(type, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
    assert_true(at == 0x40000 && bytes == 8192 && flags == 0);
    *(int *)handle = export_answer ? -1 : 77;
    return export_answer;
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

static int set_up(void **state)
{
    memset(&gpu, 0, sizeof gpu);
    memset(attributes, 0, sizeof attributes);
    counted_begin();
    count = calls = unregistered = fail_at = entered = asked = 0;
    failure = CUDA_ERROR_UNKNOWN;
    io_answer = seen_answer = push_answer = attribute_answer = flush_answer = export_answer =
        CUDA_SUCCESS;
    pointer_type = CU_MEMORYTYPE_HOST;
    pointer_answer = CUDA_ERROR_INVALID_VALUE; /* plain memory, which the driver does not know */
    gpu.driver = (struct gpu_api){.CtxPushCurrent = push,
                                  .CtxPopCurrent = pop,
                                  .MemHostRegister = host_register,
                                  .MemHostUnregister = host_unregister,
                                  .MemHostGetDevicePointer = device_pointer,
                                  .PointerGetAttribute = pointer_attribute,
                                  .DeviceGetAttribute = device_attribute,
                                  .FlushGPUDirectRDMAWrites = flush,
                                  .MemGetHandleForAddressRange = range_handle,
                                  .GetErrorName = error_text,
                                  .GetErrorString = error_text};
    gpu.device = (struct gpu_device){.driver = &gpu.driver, .device = 7, .ordinal = 3};
    gpu.boot = &boot;
    pthread_mutex_init(&gpu.registered.lock, NULL);
    pthread_mutex_init(&gpu.heap.chunks_lock, NULL);
    return 0;
}

/* ---------------------------------------------------------------------------------- the host heap
 * */

static char *const slots = (char *)0x7000000000;
static const size_t STRIDE = 96 * (size_t)MIB;

static void pin(size_t size, size_t end)
{
    gpu_pin_heap(&gpu, slots, STRIDE, size, HOST, end);
    assert_int_equal(entered, 0);
}

static void the_heap_is_pinned_in_steps_that_double(void **state)
{
    static const struct {
        size_t end, size, to; /* MiB; `to`: the end of the pinned part then */
    } rows[] = {{1, 90, 4},   {4, 90, 4},   {5, 90, 8},  {9, 90, 16},
                {45, 90, 48}, {49, 90, 90}, {90, 90, 90}};
    size_t done = 0;
    int n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t to = rows[i].to * MIB;
        pin(rows[i].size * MIB, rows[i].end * MIB);
        if (to > done) {
            for (int slot = 0; slot < HOST; slot++, n++) {
                assert_ptr_equal(registered[n].at, slots + (size_t)slot * STRIDE + done);
                assert_int_equal(registered[n].bytes, to - done);
                assert_int_equal(registered[n].flags,
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
            }
        }
        assert_int_equal(count, n);
        assert_int_equal(calls, n);
        done = to;
        assert_true(gpu_heap_pinned(&gpu, done - 9, 9));
        assert_false(gpu_heap_pinned(&gpu, done - 9, 10));
        assert_false(gpu_heap_pinned(&gpu, done, 0));
    }
    assert_int_equal(gpu.registered.pins.size, 90 * (size_t)MIB);
    char box;
    gpu.registered_box = &box;
    registered[count++].at = &box;
    gpu_unpin_heap(&gpu);
    assert_int_equal(count, 0);
    assert_int_equal(unregistered, n + 1);
    assert_null(gpu.registered_box);
    assert_int_equal(gpu.registered.pins.count, 0);
    gpu_unpin_heap(&gpu); /* nothing is left to unpin */
    assert_int_equal(unregistered, n + 1);
}

/* A heap that does not end at a page boundary is pinned to the end of its last page. */
static void the_last_step_ends_with_the_heap(void **state)
{
    pin(2 * MIB + 5, 3);
    assert_int_equal(registered[0].bytes, 2 * MIB + 4096);
    gpu_unpin_heap(&gpu);
    pin(2 * MIB + 4096, 3);
    assert_int_equal(registered[0].bytes, 2 * MIB + 4096);
    gpu_unpin_heap(&gpu);
    assert_int_equal(count, 0);
}

/* Memory that another PE of the process has registered counts as pinned. That PE unregisters it. */
static void memory_of_another_thread_is_its_own_to_unpin(void **state)
{
    failure = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    fail_at = 2;
    pin(90 * (size_t)MIB, MIB);
    assert_int_equal(gpu.registered.pins.count, 1);
    assert_false(gpu.registered.pins.refused);
    gpu_unpin_heap(&gpu);
    assert_int_equal(unregistered, 2);
    assert_int_equal(count, 0);
}

/* After a failure no further attempt is made, and what was pinned before stays pinned. */
static void a_heap_that_is_refused_is_not_tried_again(void **state)
{
    pin(90 * (size_t)MIB, MIB);
    fail_at = calls + 2;
    pin(90 * (size_t)MIB, 5 * (size_t)MIB);
    assert_true(gpu.registered.pins.refused);
    assert_non_null(strstr(base_last_error(), "of 4096 KiB of the host heap"));
    assert_int_equal(gpu.registered.pins.count, 1);
    assert_false(gpu_heap_pinned(&gpu, 4 * (size_t)MIB, 1));
    int before = calls;
    pin(90 * (size_t)MIB, 50 * (size_t)MIB);
    assert_int_equal(calls, before);
    gpu_unpin_heap(&gpu);
    assert_int_equal(count, 0);
    assert_int_equal(unregistered, 4);
    counted.fail_in = 0;
    pin(90 * (size_t)MIB, MIB);
    assert_true(gpu.registered.pins.refused);
    gpu.registered.pins.refused = false;
    gpu_pin_heap(&gpu, NULL, STRIDE, 90 * (size_t)MIB, HOST, MIB); /* there is no host heap */
    push_answer = CUDA_ERROR_UNKNOWN;
    pin(90 * (size_t)MIB, MIB);
    assert_int_equal(calls, before);
}

static void a_copy_ends_where_a_registration_does(void **state)
{
    static const struct {
        size_t slot, offset, bytes, run;
    } rows[] = {
        {0, 0, 100, 100},
        {0, 4 * (size_t)MIB - 7, 7, 7},
        {0, 4 * (size_t)MIB - 7, 8, 7},
        {0, 4 * (size_t)MIB, 5 * (size_t)MIB, 4 * (size_t)MIB},
        {2, 8 * (size_t)MIB - 1, 9, 1},
        {2, 8 * (size_t)MIB, 2 * (size_t)MIB, 2 * (size_t)MIB}, /* not pinned */
        {3, 1, 5 * (size_t)MIB, 5 * (size_t)MIB},               /* after the heap */
    };
    struct gpu side = {.owner = &gpu};
    assert_int_equal(gpu_pinned_run_bytes(&gpu, slots, 5 * (size_t)MIB), 5 * (size_t)MIB);
    pin(90 * (size_t)MIB, MIB);
    pin(90 * (size_t)MIB, 5 * (size_t)MIB);
    gpu.registered.pins.ends[2] = 9 * (size_t)MIB; /* left by an earlier heap */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = slots + rows[i].slot * STRIDE + rows[i].offset;
        assert_int_equal(gpu_pinned_run_bytes(&gpu, at, rows[i].bytes), rows[i].run);
        assert_int_equal(gpu_pinned_run_bytes(&side, at, rows[i].bytes), rows[i].run);
    }
    assert_int_equal(gpu_pinned_run_bytes(&gpu, slots - 1, 5 * (size_t)MIB), 5 * (size_t)MIB);
    gpu_unpin_heap(&gpu);
}

/* ------------------------------------------------------------------------------------- ranges */

static void ranges_are_unpinned_by_where_they_begin(void **state)
{
    char *const base = (char *)0x500000;
    static const size_t offsets[] = {0, 4096, 8192, 12288};
    for (int i = 0; i < 4; i++)
        assert_int_equal(gpu_pin_range(&gpu, base + offsets[i], 4096), WEFT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(registered[3].bytes, 4096);
    assert_int_equal(registered[3].flags,
                     CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    gpu_unpin_range(&gpu, base + 4096, 8192); /* the two ranges in the middle */
    assert_int_equal(unregistered, 2);
    assert_int_equal(gpu.registered.range_count, 2);
    for (int i = 0; i < count; i++)
        assert_true(registered[i].at == base || registered[i].at == base + 12288);
    gpu_unpin_range(&gpu, base + 1, 12287);
    assert_int_equal(count, 2);
    push_answer = CUDA_ERROR_UNKNOWN;
    gpu_unpin_range(&gpu, base, MIB);
    assert_int_equal(count, 2);
    push_answer = CUDA_SUCCESS;
    gpu_unpin_range(&gpu, base, 12289);
    assert_int_equal(count, 0);
    assert_null(gpu.registered.ranges);
    assert_int_equal(gpu.registered.range_count, 0);
    assert_int_equal(entered, 0);
}

static void a_range_that_is_refused_is_not_noted(void **state)
{
    fail_at = 1;
    assert_int_equal(gpu_pin_range(&gpu, slots, 8192), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "cuMemHostRegister of 8 KiB"));
    fail_at = 2;
    /* Another PE has registered it and will unregister it. */
    failure = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    assert_int_equal(gpu_pin_range(&gpu, slots, 8192), WEFT_OK);
    assert_int_equal(gpu.registered.range_count, 0);
    assert_int_equal(unregistered, 0);
    counted.fail_in = 0;
    assert_int_equal(gpu_pin_range(&gpu, slots, 8192), WEFT_ERR_NO_MEMORY);
    assert_int_equal(count, 0);
    assert_int_equal(unregistered, 1);
    push_answer = CUDA_ERROR_UNKNOWN;
    assert_int_not_equal(gpu_pin_range(&gpu, slots, 8192), WEFT_OK);
    assert_int_equal(calls, 3);
    assert_int_equal(entered, 0);
}

static void pinned_memory_is_found_by_kernels(void **state)
{
    CUdeviceptr seen = 0;
    assert_int_equal(gpu_device_pointer(&gpu, slots, &seen), WEFT_OK);
    assert_int_equal(seen, (uintptr_t)slots + MOVED);
    seen_answer = CUDA_ERROR_UNKNOWN;
    assert_int_equal(gpu_device_pointer(&gpu, slots, &seen), WEFT_ERR_SYSTEM);
    assert_int_equal(entered, 0);
    push_answer = CUDA_ERROR_UNKNOWN;
    seen_answer = CUDA_SUCCESS;
    assert_int_not_equal(gpu_device_pointer(&gpu, slots, &seen), WEFT_OK);
}

static void registers_differ_from_memory(void **state)
{
    static const struct {
        /* Results: registering it as I/O memory, then as memory; the query of its device
         * address. */
        CUresult io, plain, seen;
        unsigned type; /* memory type that the driver reports */
        weft_status status;
        enum gpu_register_kind kind;
        int calls, noted;
    } rows[] = {
        {0, 0, 0, 0, WEFT_OK, GPU_REGISTER_DEVICE, 1, 1},
        {CUDA_ERROR_INVALID_VALUE, 0, 0, 0, WEFT_OK, GPU_REGISTER_MEMORY, 2, 1},
        {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 0, 0, 0, WEFT_OK, GPU_REGISTER_DEVICE, 1, 0},
        {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 0, 0, WEFT_OK,
         GPU_REGISTER_MEMORY, 2, 0},
        {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED, 0, 0, WEFT_ERR_UNSUPPORTED,
         GPU_REGISTER_MEMORY, 2, 0},
        {0, 0, CUDA_ERROR_NOT_SUPPORTED, 0, WEFT_ERR_UNSUPPORTED, GPU_REGISTER_DEVICE, 1, 1},
        {0, 0, 0, CU_MEMORYTYPE_DEVICE, WEFT_OK, GPU_REGISTER_MEMORY, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CUdeviceptr seen = 0;
        enum gpu_register_kind kind = 9;
        set_up(state);
        pointer_answer = rows[i].type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        pointer_type = rows[i].type;
        io_answer = rows[i].io;
        failure = rows[i].plain;
        fail_at = rows[i].plain ? 2 : 0;
        seen_answer = rows[i].seen;
        assert_int_equal(gpu_map_register(&gpu, slots, 64, &seen, &kind), rows[i].status);
        assert_int_equal(kind, rows[i].kind);
        if (!rows[i].status)
            assert_int_equal(seen, (uintptr_t)slots + (rows[i].type ? 0 : MOVED));
        assert_int_equal(calls, rows[i].calls);
        assert_int_equal(gpu.registered.range_count, rows[i].noted);
        assert_int_equal(entered, 0);
        if (rows[i].noted) {
            assert_int_equal(registered[0].bytes, 64);
            assert_int_equal(registered[0].flags, CU_MEMHOSTREGISTER_PORTABLE |
                                                      CU_MEMHOSTREGISTER_DEVICEMAP |
                                                      (rows[i].io ? 0 : IOMEMORY));
        }
        gpu_unpin_range(&gpu, slots, 1);
        assert_int_equal(count, 0);
    }
    CUdeviceptr seen;
    enum gpu_register_kind kind;
    set_up(state);
    push_answer = CUDA_ERROR_UNKNOWN;
    assert_int_not_equal(gpu_map_register(&gpu, slots, 64, &seen, &kind), WEFT_OK);
    assert_int_equal(calls, 0);
}

static void the_black_box_is_pinned(void **state)
{
    char box[256] = "";
    gpu.wait_limit_ns = 12345;
    fail_at = 1;
    assert_int_equal(gpu_attach_box(&gpu, box, 200, (void *)(box + 64)), WEFT_ERR_SYSTEM);
    assert_null(gpu.registered_box);
    assert_null(gpu.reporting.box);
    assert_int_equal(gpu_attach_box(&gpu, box, 200, (void *)(box + 64)), WEFT_OK);
    assert_ptr_equal(registered[0].at, box);
    assert_int_equal(registered[0].bytes, 200);
    assert_int_equal(registered[0].flags,
                     CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    assert_ptr_equal(gpu.registered_box, box);
    assert_int_equal((uintptr_t)gpu.reporting.box, (uintptr_t)box + 64 + MOVED);
    assert_int_equal(gpu.reporting.limit_ns, 12345);
    gpu_unpin_heap(&gpu);
    assert_int_equal(count, 0);
    seen_answer = CUDA_ERROR_UNKNOWN;
    gpu.reporting.box = NULL;
    assert_int_equal(gpu_attach_box(&gpu, box, 200, (void *)(box + 64)), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "the black box (200 bytes)"));
    assert_null(gpu.reporting.box);
    gpu_unpin_heap(&gpu); /* this unpins the box too */
    assert_int_equal(count, 0);
    push_answer = CUDA_ERROR_UNKNOWN;
    assert_int_not_equal(gpu_attach_box(&gpu, box, 200, (void *)(box + 64)), WEFT_OK);
    assert_int_equal(entered, 0);
}

/* ------------------------------------------------------------------------------ kinds of memory */

static void kinds_of_memory(void **state)
{
    struct gpu_registration second = {.base = 0x30000, .bytes = 16, .device = true};
    struct gpu_registration first = {.base = 0x20000, .bytes = 16, .next = &second};
    struct gpu side = {.owner = &gpu};
    static const struct {
        uintptr_t at;
        enum gpu_place place;
        bool known; /* no query of the driver */
    } rows[] = {
        {0x10000 - 1, GPU_PLACE_PLAIN, false},  {0x10000, GPU_PLACE_DEVICE, true},
        {0x10000 + 99, GPU_PLACE_DEVICE, true}, {0x10000 + 100, GPU_PLACE_PLAIN, false},
        {0x20000 - 1, GPU_PLACE_PLAIN, false},  {0x20000, GPU_PLACE_PINNED, true},
        {0x20000 + 15, GPU_PLACE_PINNED, true}, {0x20000 + 16, GPU_PLACE_PLAIN, false},
        {0x30000, GPU_PLACE_DEVICE, true},      {0x30000 + 15, GPU_PLACE_DEVICE, true},
        {0x30000 + 16, GPU_PLACE_PLAIN, false},
    };
    gpu.heap.reservation = 0x10000;
    gpu.heap.reserved_bytes = 100;
    gpu.registered.list = &first;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        asked = 0;
        assert_int_equal(gpu_place_of(&gpu, (void *)rows[i].at), rows[i].place);
        assert_int_equal(asked, rows[i].known ? 0 : 1);
        assert_int_equal(gpu_place_of(&side, (void *)rows[i].at), rows[i].place);
    }
    pointer_answer = CUDA_SUCCESS;
    assert_int_equal(gpu_place_of(&gpu, slots), GPU_PLACE_PINNED);
    pointer_type = CU_MEMORYTYPE_DEVICE;
    assert_int_equal(gpu_place_of(&gpu, slots), GPU_PLACE_DEVICE);
}

/* The driver double reports all memory as GPU memory, so any other result was found without it. */
static void the_programs_own_memory_needs_no_driver(void **state)
{
    static char data[] = "data";
    char stack[64] = "", *grown = sbrk(4096);
    uintptr_t under = (uintptr_t)stack - 100000; /* below the used part of the stack */
    pointer_answer = CUDA_SUCCESS;
    pointer_type = CU_MEMORYTYPE_DEVICE;
    gpu.registered.pins = (struct gpu_pins){.slots = slots, .stride = 4096, .slot_count = 3};
    assert_int_equal(gpu_place_for_cpu(&gpu, data), GPU_PLACE_PLAIN);
    assert_int_equal(gpu_place_for_cpu(&gpu, grown), GPU_PLACE_PLAIN);
    assert_int_equal(gpu_place_for_cpu(&gpu, stack), GPU_PLACE_PLAIN);
    assert_int_equal(gpu_place_for_cpu(&gpu, slots), GPU_PLACE_PINNED);
    assert_int_equal(gpu_place_for_cpu(&gpu, slots + 3 * 4096 - 1), GPU_PLACE_PINNED);
    assert_int_equal(asked, 0);
    assert_int_equal(gpu_place_for_cpu(&gpu, slots + 3 * 4096), GPU_PLACE_DEVICE);
    assert_int_equal(gpu_place_for_cpu(&gpu, slots - 1), GPU_PLACE_DEVICE);
    assert_int_equal(gpu_place_for_cpu(&gpu, (void *)16), GPU_PLACE_DEVICE);
    assert_int_equal(gpu_place_for_cpu(&gpu, (char *)sbrk(0)), GPU_PLACE_DEVICE);
    assert_int_equal(gpu_place_for_cpu(&gpu, (void *)under), GPU_PLACE_DEVICE);
    assert_int_equal(asked, 5);
}

static void *own_stack(void *other)
{
    char here[64] = "";
    enum gpu_place own = gpu_place_for_cpu(&gpu, here), others = gpu_place_for_cpu(&gpu, other);
    return own == GPU_PLACE_PLAIN && others == GPU_PLACE_DEVICE ? other : NULL;
}

static void a_thread_knows_its_own_stack(void **state)
{
    pthread_t thread;
    void *knows = NULL;
    char here[64] = "";
    pointer_answer = CUDA_SUCCESS;
    pointer_type = CU_MEMORYTYPE_DEVICE;
    assert_int_equal(pthread_create(&thread, NULL, own_stack, here), 0);
    pthread_join(thread, &knows);
    assert_ptr_equal(knows, here);
    assert_int_equal(asked, 1);
}

/* ----------------------------------------------------------------------------------- for NICs */

static void allocations_are_listed(void **state)
{
    struct gpu_chunk chunks[] = {
        {.offset = 0, .bytes = 100}, {.offset = 100, .bytes = 60}, {.offset = 160, .bytes = 9}};
    struct gpu_registered last = {.chunk = {.offset = 700, .bytes = 10}};
    struct gpu_registered adopted = {.chunk = {.offset = 800, .bytes = 20}, .next = &last};
    static const struct {
        size_t offset, start, bytes;
    } rows[] = {{0, 0, 100},    {99, 0, 100}, {100, 100, 60},
                {159, 100, 60}, {160, 0, 0},  {800, 0, 0}};
    static const struct gpu_extent all[] = {{0, 100}, {100, 60}, {800, 20}, {700, 10}};
    struct gpu_extent list[5];
    gpu.heap.chunks = chunks;
    gpu.heap.chunk_count = 2; /* the third chunk does not exist any more */
    gpu.heap.registered = &adopted;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t start = 9, bytes = 9;
        assert_int_equal(gpu_find_chunk(&gpu, rows[i].offset, &start, &bytes), rows[i].bytes > 0);
        if (rows[i].bytes) {
            assert_int_equal(start, rows[i].start);
            assert_int_equal(bytes, rows[i].bytes);
        }
    }
    for (size_t most = 0; most <= 5; most++) {
        memset(list, 0xff, sizeof list);
        assert_int_equal(gpu_list_extents(&gpu, list, most), 4);
        assert_memory_equal(list, all, (most < 4 ? most : 4) * sizeof all[0]);
        if (most < 5)
            assert_int_equal(list[most].offset, SIZE_MAX);
    }
}

static void a_dmabuf_is_exported(void **state)
{
    int fd = 5;
    assert_int_equal(gpu_export_dmabuf(&gpu, 0x40000, 8192, &fd), WEFT_OK);
    assert_int_equal(fd, 77);
    export_answer = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(gpu_export_dmabuf(&gpu, 0x40000, 8192, &fd), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(base_last_error(), "cuMemGetHandleForAddressRange of 8 KiB"));
    export_answer = CUDA_SUCCESS;
    push_answer = CUDA_ERROR_UNKNOWN;
    assert_int_not_equal(gpu_export_dmabuf(&gpu, 0x40000, 8192, &fd), WEFT_OK);
    push_answer = CUDA_SUCCESS;
    fd = 5;
    gpu.driver.MemGetHandleForAddressRange = NULL;
    assert_int_equal(gpu_export_dmabuf(&gpu, 0x40000, 8192, &fd), WEFT_ERR_UNSUPPORTED);
    assert_int_equal(fd, -1);
    assert_int_equal(entered, 0);
}

static void writes_of_nics_are_ordered_or_flushed(void **state)
{
    int *ordering = &attributes[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING];
    int *options = &attributes[CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS];
    static const struct {
        int ordering, options;
        CUresult answer;
        enum gpu_nic_writes writes;
        bool sees;
    } rows[] = {
        {200, 0, 0, GPU_NIC_WRITES_ORDERED, true},   {199, 1, 0, GPU_NIC_WRITES_FLUSHED, true},
        {199, 2, 0, GPU_NIC_WRITES_UNORDERED, true}, {100, 3, 0, GPU_NIC_WRITES_FLUSHED, true},
        {99, 0, 0, GPU_NIC_WRITES_UNORDERED, false}, {200, 1, 1, GPU_NIC_WRITES_UNORDERED, false},
        {201, 1, 0, GPU_NIC_WRITES_ORDERED, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *ordering = rows[i].ordering;
        *options = rows[i].options;
        attribute_answer = rows[i].answer;
        assert_int_equal(gpu_nic_writes(&gpu), rows[i].writes);
        assert_int_equal(gpu_sees_nic_writes(&gpu), rows[i].sees);
    }
    attribute_answer = CUDA_SUCCESS;
    *ordering = 0;
    gpu.driver.FlushGPUDirectRDMAWrites = NULL;
    assert_int_equal(gpu_nic_writes(&gpu), GPU_NIC_WRITES_UNORDERED);
    gpu.driver.FlushGPUDirectRDMAWrites = flush;
    assert_int_equal(gpu_flush_nic_writes(&gpu), WEFT_OK);
    flush_answer = CUDA_ERROR_UNKNOWN;
    assert_int_equal(gpu_flush_nic_writes(&gpu), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "on GPU 3"));
    flush_answer = CUDA_SUCCESS;
    push_answer = CUDA_ERROR_UNKNOWN;
    assert_int_not_equal(gpu_flush_nic_writes(&gpu), WEFT_OK);
    assert_int_equal(entered, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, counted_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_heap_is_pinned_in_steps_that_double),
        TEST(the_last_step_ends_with_the_heap),
        TEST(memory_of_another_thread_is_its_own_to_unpin),
        TEST(a_heap_that_is_refused_is_not_tried_again),
        TEST(a_copy_ends_where_a_registration_does),
        TEST(ranges_are_unpinned_by_where_they_begin),
        TEST(a_range_that_is_refused_is_not_noted),
        TEST(pinned_memory_is_found_by_kernels),
        TEST(registers_differ_from_memory),
        TEST(the_black_box_is_pinned),
        TEST(kinds_of_memory),
        TEST(the_programs_own_memory_needs_no_driver),
        TEST(a_thread_knows_its_own_stack),
        TEST(allocations_are_listed),
        TEST(a_dmabuf_is_exported),
        TEST(writes_of_nics_are_ordered_or_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
