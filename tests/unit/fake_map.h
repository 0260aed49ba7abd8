/* SPDX-License-Identifier: Apache-2.0 */
/* A mapping backend whose GPU memory is a file. It logs what is mapped and can fail. Include
 * cmocka.h first. */
#ifndef WEFT_TESTS_UNIT_FAKE_MAP_H
#define WEFT_TESTS_UNIT_FAKE_MAP_H

#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/map/backend.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MIB = 1 << 20,
    GRANULE = 2 * MIB,
    WINDOW = 256 * MIB,
    SLOTS = 3,
    OWN = 1, /* slot of this PE */
    TEST_AT = 6 * MIB,
};

static struct {
    int fd;
    char *device;    /* GPU address of the memory */
    char text[4096]; /* log of the calls */
    /* Number of calls of map; number of the first that fails; how many fail. */
    int calls, fail_at, fail_count;
    weft_status failure;
    int mapped, forgotten, closed;
    weft_status tested; /* result of map_test() in tests that wrap it */
    int tests;
} fake;

static struct gpu gpu;
static struct gpu_window heap_windows[SLOTS];
static int local_pes[SLOTS] = {2, 5, 9};
static struct boot boot = {
    .pe = 5, .npes = 11, .local_pe = OWN, .local_npes = SLOTS, .local_pes = local_pes};

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t used = strlen(fake.text);
    va_list args;
    va_start(args, format);
    vsnprintf(fake.text + used, sizeof fake.text - used, format, args);
    va_end(args);
}

static void expect(const char *text)
{
    assert_string_equal(fake.text, text);
    fake.text[0] = '\0';
}

static weft_status fake_learn(struct gpu_map *map, struct map_memory *memory, int fd)
{
    note("L%d:%zu ", memory->slot, memory->offset / MIB);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    return WEFT_OK;
}

static void fake_forget(struct gpu_map *map, struct map_memory *memory)
{
    fake.forgotten++;
}

/* The log has MiB of the device's memory. */
static weft_status fake_do_map(struct gpu_map *map, struct map_memory *memory, size_t offset,
                               size_t bytes, char *at, struct map_piece *piece)
{
    size_t from = (size_t)memory->address - (uintptr_t)fake.device + offset;
    fake.calls++;
    if (fake.fail_at && fake.calls >= fake.fail_at && fake.calls < fake.fail_at + fake.fail_count)
        return base_fail(fake.failure, "no room");
    assert_true(offset + bytes <= memory->bytes);
    assert_int_equal(from % 65536, 0);
    if (from % MIB || bytes % MIB)
        note("M%zu+%zuK ", from >> 10, bytes >> 10);
    else
        note("M%zu+%zu ", from / MIB, bytes / MIB);
    assert_ptr_equal(
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fake.fd, (off_t)from), at);
    piece->at = at;
    piece->bytes = bytes;
    fake.mapped++;
    return WEFT_OK;
}

static void fake_unmap(struct gpu_map *map, struct map_piece *piece)
{
    note("U%zu ", piece->bytes / MIB);
    map_unmap_to_reserved(piece->at, piece->bytes);
    fake.mapped--;
}

static void fake_close(struct gpu_map *map)
{
    fake.closed++;
}

static const struct map_backend fake_way = {.name = "fake",
                                            .what = "a file",
                                            .import = fake_learn,
                                            .forget = fake_forget,
                                            .map = fake_do_map,
                                            .unmap = fake_unmap,
                                            .close = fake_close};

static int fake_open(void **state)
{
    size_t bytes = (size_t)SLOTS * WINDOW;
    fake.fd = memfd_create("weft-test-gpu", MFD_CLOEXEC);
    if (fake.fd < 0 || ftruncate(fake.fd, (off_t)bytes))
        return -1;
    char *at = mmap(NULL, bytes + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    at += GRANULE - (uintptr_t)at % GRANULE;
    fake.device = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fake.fd, 0);
    return fake.device == MAP_FAILED ? -1 : 0;
}

static int fake_end(void **state)
{
    munmap(fake.device, (size_t)SLOTS * WINDOW);
    return close(fake.fd);
}

/* Makes a GPU with windows of 256 MiB and nothing mapped; `way` is the chosen backend. */
static struct gpu_map *fake_make(const struct map_backend *way)
{
    memset(&gpu, 0, sizeof gpu);
    memset(heap_windows, 0, sizeof heap_windows);
    fake.text[0] = '\0';
    fake.calls = fake.fail_at = fake.mapped = fake.forgotten = fake.closed = 0;
    fake.fail_count = 1;
    fake.tested = WEFT_OK;
    fake.tests = 0;
    fake.failure = WEFT_ERR_NO_MEMORY;
    gpu.boot = &boot;
    static struct gpu_pinned pinned;
    gpu.pinned = &pinned;
    gpu.device.driver = &gpu.driver;
    snprintf(gpu.device.bus_id, sizeof gpu.device.bus_id, "0000:0d:00.0");
    gpu.layout.map_test_offset = TEST_AT;
    gpu.heap.device = &gpu.device;
    gpu.heap.boot = &boot;
    gpu.heap.size = WINDOW;
    gpu.heap.granularity = GRANULE;
    gpu.heap.reservation = (uintptr_t)fake.device;
    gpu.heap.reserved_bytes = (size_t)SLOTS * WINDOW;
    gpu.heap.windows = heap_windows;
    for (int slot = 0; slot < SLOTS; slot++) {
        heap_windows[slot].base = gpu.heap.reservation + (size_t)slot * WINDOW;
        heap_windows[slot].mapped = true;
    }
    assert_int_equal(gpu_map_create(&gpu), WEFT_OK);
    gpu.heap.map->backend = way;
    gpu.heap.map->started = true;
    return gpu.heap.map;
}

weft_status __wrap_map_test(struct gpu_map *of, int slot);
weft_status __wrap_map_test(struct gpu_map *of, int slot)
{
    fake.tests++;
    assert_ptr_equal(of, gpu.heap.map);
    gpu_map_test_area(of, slot)[GPU_MAP_TEST_BYTES - 1] = 't'; /* fails if the area is not mapped */
    return fake.tested ? base_fail(fake.tested, "nothing arrives") : WEFT_OK;
}

/* Returns the CPU address of a part of a window; NULL: it is not mapped. */
static inline const char *fake_at(int slot, size_t offset, size_t bytes)
{
    const char *where = gpu_map_at(gpu.heap.map, slot, offset, bytes);
    if (where)
        assert_ptr_equal(where, gpu.heap.map->windows[slot].base + offset);
    return where;
}

/* Adds an allocation of a window; fd -1: it is this PE's own. */
static void fake_chunk(int slot, size_t offset, size_t bytes, int fd)
{
    CUmemGenericAllocationHandle handles[SLOTS] = {11, 12, 13};
    gpu_map_add_memory(gpu.heap.map, slot,
                       &(struct gpu_chunk){.offset = offset, .bytes = bytes, .handles = handles},
                       fd);
}

static void fake_destroy(void)
{
    gpu_map_destroy(&gpu);
    assert_null(gpu.heap.map);
    assert_int_equal(fake.mapped, 0);
}

#endif
