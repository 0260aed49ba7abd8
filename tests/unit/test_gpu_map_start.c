/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how GPU memory is mapped for the CPU: which backend is chosen and why others are not, how
 * descriptors wait for that choice, and that nothing is left after the close. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "counted.h"
#include "fake_map.h"

static struct gpu_map *map;

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
    rm_closed = rm_abandoned = rm_released = 0;
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

/* Returns whether the CPU can read at the address. */
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
    assert_non_null(fake_at(OWN, 0, 8));
    assert_true(readable(map->windows[OWN].base));
    gpu_map_remove_memory(map, OWN, &(struct gpu_chunk){.offset = 0});
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
    assert_int_equal(map->memories->pending_fd, 0);
    gpu_map_remove_memory(map, 0, &(struct gpu_chunk){.offset = 0});
    assert_int_equal(fcntl(0, F_GETFD), -1);
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    map->backend = &map_backend_rm;
    rm_works = true;
    setenv("WEFT_MAP", "rm", 1);
    config_reset();
    gpu_map_start(&gpu);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    expect("I ");
    map->backend = &fake_way;
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
    for (int i = 0; i < 2; i++) { /* for the table of mapped granules, then for the mapping */
        counted.fail_in = i;
        assert_null(fake_at(OWN, 0, 8));
        assert_true(map->windows[OWN].refused);
        map->windows[OWN].refused = map->bar1_full = false;
        assert_int_equal(fake.mapped, 0);
    }
    counted.fail_in = -1;
    assert_non_null(fake_at(OWN, 0, 8));
    counted.fail_in = 0;
    fake_chunk(OWN, 64 * MIB, 64 * MIB, -1);
    assert_null(map_memory_at(map, OWN, 64 * MIB));
    map->backend = &fake_way;
    fake_destroy();
    for (int i = 0; i < 2; i++) {
        counted.fail_in = i;
        assert_int_equal(gpu_map_create(&gpu), WEFT_ERR_NO_MEMORY);
        assert_null(gpu.heap.map);
    }
}

/* With the driver's resource interface, peers' memory is imported by its descriptor, and own memory
 * is exported first. */
static void memory_is_imported_by_the_resource_interface(void **state)
{
    map->started = false;
    map->backend = NULL;
    rm_works = true;
    gpu.driver.MemExportToShareableHandle = export_handle;
    for (int slot = 0; slot < SLOTS; slot++)
        snprintf(heap_windows[slot].gpu.bus_id, 20, "gpu%d", slot);
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    gpu_map_start(&gpu);
    assert_string_equal(gpu_map_backend_text(map), "the GPU driver's resource interface");
    expect("X12 Igpu1 R0+64 Igpu0 ");
    assert_int_equal(fcntl(last_export, F_GETFD), -1);
    assert_non_null(fake_at(0, 0, 8));
    expect("R0+64 ");
    fake_chunk(2, 0, 64 * MIB, fake.fd);
    expect("Igpu2 ");
    rm_answer = WEFT_ERR_UNSUPPORTED;
    assert_null(fake_at(2, 0, 8));
    fake.text[0] = '\0';
    rm_answer = WEFT_OK;
    gpu_map_remove_memory(map, OWN, &(struct gpu_chunk){.offset = 0});
    expect("u64 ");
    assert_int_equal(rm_released, 1);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    export_answer = CUDA_ERROR_INVALID_VALUE;
    assert_null(fake_at(OWN, 0, 8));
    expect("X12 ");
    close(last_export);
    map_memory_at(map, OWN, 0)->handle = 0;
    assert_null(fake_at(OWN, 0, 8));
    assert_non_null(
        strstr(base_last_error(), "the memory was not imported while its descriptor was open"));
}

static void descriptors_wait_until_the_way_is_chosen(void **state)
{
    int offer;
    map->started = false;
    map->backend = NULL;
    fake_chunk(0, 0, 64 * MIB, fake.fd);
    fake_chunk(OWN, 0, 64 * MIB, -1);
    offer = map_memory_at(map, 0, 0)->pending_fd;
    assert_true(offer >= 0 && offer != fake.fd);
    assert_int_equal(fcntl(offer, F_GETFD), FD_CLOEXEC);
    gpu.driver.driver_version = 13030;
    gpu_map_start(&gpu);
    assert_true(map->started);
    assert_string_equal(gpu_map_backend_text(map), "mmap of a dma-buf");
    expect("E256+64 ");
    assert_true(map->windows[OWN].tested);
    assert_false(map->windows[0].tested);
    assert_int_equal(map_memory_at(map, 0, 0)->pending_fd, -1);
    assert_int_equal(fcntl(offer, F_GETFD), -1);
    offer = map_memory_at(map, OWN, 0)->dmabuf;
    assert_true(fcntl(offer, F_GETFD) >= 0);
    gpu_map_remove_memory(map, OWN, &(struct gpu_chunk){.offset = 0});
    assert_int_equal(fcntl(offer, F_GETFD), -1);
}

static void every_way_that_is_refused_says_why(void **state)
{
    static const struct {
        const char *wanted;
        int driver;
        const char *why;
        enum gpu_vendor vendor;
    } rows[] = {
        {"auto", 13020,
         "mmap of a dma-buf: this driver (CUDA 13.2) cannot map a dma-buf; drivers from 610 "
         "(CUDA 13.3) can; the GPU driver's resource interface: no such device; gdrdrv: ",
         GPU_VENDOR_NVIDIA},
        {"dmabuf", 13030, "mmap of a dma-buf: nothing arrives", GPU_VENDOR_NVIDIA},
        {"rm", 13030, "the GPU driver's resource interface: no such device", GPU_VENDOR_NVIDIA},
        {"auto", 70200000, "HIP has no call that maps a GPU's memory for the CPU", GPU_VENDOR_AMD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_destroy();
        setenv("WEFT_MAP", rows[i].wanted, 1);
        config_reset();
        map = fake_make(NULL);
        fake.tested = WEFT_ERR_PATH;
        map->started = false;
        fake_chunk(OWN, 0, 64 * MIB, -1);
        fake_chunk(0, 0, 64 * MIB, fake.fd);
        gpu.driver.MemExportToShareableHandle = export_handle;
        gpu.driver.driver_version = rows[i].driver;
        gpu.driver.vendor = rows[i].vendor;
        gpu_map_start(&gpu);
        assert_null(map->backend);
        assert_true(map->started);
        assert_false(map->windows[OWN].tested);
        assert_null(map->pieces);
        if (i)
            assert_string_equal(map->why, rows[i].why);
        else
            assert_memory_equal(map->why, rows[i].why, strlen(rows[i].why));
        assert_string_equal(gpu_map_backend_text(map), "");
        assert_int_equal(map_memory_at(map, 0, 0)->pending_fd, -1);
        assert_false(gpu_map_works(map));
    }
    fake_destroy();
    setenv("WEFT_MAP", "none", 1);
    config_reset();
    assert_int_equal(gpu_map_create(&gpu), WEFT_OK);
    assert_null(gpu.heap.map);
    gpu_map_start(&gpu);
    gpu_map_destroy(&gpu);
    gpu_map_abandon(NULL);
    assert_false(gpu_map_works(NULL));
}

static void the_end_leaves_nothing(void **state)
{
    char byte;
    unsigned char there;
    fake_chunk(0, 0, 128 * MIB, -1);
    fake_chunk(OWN, 0, 128 * MIB, -1);
    assert_non_null(fake_at(0, 0, 8));
    assert_non_null(fake_at(OWN, 0, 8));
    map->bar1_full = true;
    fake_chunk(2, 0, 64 * MIB, fake.fd);
    assert_true(gpu_map_load(map, 0, 64 * MIB, &byte, 1));
    char *rover = map->sliding[0].at, *base = map->windows[0].base, *own = map->windows[OWN].base;
    map->memories->pending_fd = dup(fake.fd); /* the backend has not imported it */
    int offer = map->memories->pending_fd;
    fake_destroy();
    assert_int_equal(fake.closed, 1);
    assert_int_equal(rm_closed, 1);
    assert_int_equal(fcntl(offer, F_GETFD), -1);
    /* The addresses are not reserved any more. */
    assert_int_equal(mincore(rover, GRANULE, &there), -1);
    assert_int_equal(mincore(base, 4096, &there), -1);
    assert_int_equal(mincore(base + WINDOW - 4096, 4096, &there), -1);
    assert_int_equal(mincore(own, 4096, &there), -1);
}

static void a_child_forgets_the_way(void **state)
{
    gpu_map_abandon(map);
    assert_int_equal(rm_abandoned, 1);
    assert_false(gpu_map_works(map));
    map->backend = &fake_way;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(addresses_stay_reserved),
        TEST(descriptor_zero_is_one),
        TEST(without_memory_nothing_is_mapped),
        TEST(memory_is_imported_by_the_resource_interface),
        TEST(descriptors_wait_until_the_way_is_chosen),
        TEST(every_way_that_is_refused_says_why),
        TEST(the_end_leaves_nothing),
        TEST(a_child_forgets_the_way),
    };
    return cmocka_run_group_tests(tests, fake_open, fake_end);
}
