/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of the program's own memory, from cudaMalloc() and from several adjacent allocations,
 * and the cache of removed mappings: used for the same memory and not for other memory, with a
 * limit, and not after weft_unregister(). The first argument: "works", or text of the reason why
 * cudaMalloc() memory is refused; the second, "scarce": BAR1 has no room for all. */
#include "gpu_test.h"
#include "own_memory.h"

#include <dlfcn.h>
#include <weft/gpu.h>
#include <weft/map.h>

enum { MIB = 1 << 20, SMALL = 5000, SMALLS = 6 };

static weft_job *job;
static int me;
static struct gpu_api driver;
static int ordinal;

/* tests/fakerm counts its objects; a driver does not. */
static void (*fake_counts)(unsigned *maps, size_t *bytes, int *memories);

struct counts {
    unsigned maps;
    size_t bytes;
    int memories;
};

static struct counts counts(void)
{
    struct counts now = {0};
    if (fake_counts)
        fake_counts(&now.maps, &now.bytes, &now.memories);
    return now;
}

static void make_bytes(unsigned char *data, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (unsigned char)(seed >> 24);
    }
}

static void write_by_gpu(CUdeviceptr to, const void *from, size_t bytes)
{
    CHECK(!driver.MemcpyHtoD(to, from, bytes));
    CHECK(!driver.StreamSynchronize(NULL)); /* the copy may return before the data has arrived */
}

/* Writes by the CPU and reads by the GPU, then the other way round. */
static void both_ways(CUdeviceptr at, char *mapped, size_t bytes, unsigned seed)
{
    unsigned char *sent = malloc(bytes), *came = calloc(1, bytes);
    CHECK(sent && came);
    make_bytes(sent, bytes, seed);
    memcpy(mapped, sent, bytes);
    OK(weft_map_flush(job, mapped));
    CHECK(!driver.MemcpyDtoH(came, at, bytes));
    CHECK(memcmp(sent, came, bytes) == 0);
    make_bytes(sent, bytes, seed + 1);
    write_by_gpu(at, sent, bytes);
    OK(weft_copy_from(job, came, (void *)(uintptr_t)at, bytes)); /* the CPU copies small sizes */
    CHECK(memcmp(sent, came, bytes) == 0);
    size_t some = bytes < 300 ? bytes : 300;
    for (size_t i = 0; i < some; i++)
        CHECK(((volatile unsigned char *)mapped)[bytes - some + i] == sent[bytes - some + i]);
    free(sent);
    free(came);
}

/* ------------------------------------------------------------------------------- cudaMalloc()'s */

static void plain_memory(void)
{
    CUdeviceptr large, small[SMALLS];
    char *mapped[SMALLS], *window;
    CHECK(!driver.MemAlloc(&large, 5 * MIB));
    void *at = (void *)(uintptr_t)large;
    OK(weft_register(job, at, 5 * MIB));
    OK(weft_map(job, at, 5 * MIB, me, (void **)&window));
    both_ways(large, window, 5 * MIB, 3);
    OK(weft_unmap(job, window));
    for (size_t lead = 1; lead < 4 * MIB; lead = lead * 7 + 5) {
        OK(weft_map(job, (char *)at + lead, 70000, me, (void **)&window));
        both_ways(large + lead, window, 70000, (unsigned)lead);
        OK(weft_unmap(job, window));
    }
    FAILS(weft_map(job, (char *)at + 3 * MIB, 3 * MIB, me, (void **)&window), WEFT_ERR_ADDRESS,
          "nor registered");
    OK(weft_unregister(job, at));
    CHECK(!driver.MemFree(large));
    for (int i = 0; i < SMALLS; i++) { /* several in one block of the driver */
        CHECK(!driver.MemAlloc(&small[i], SMALL));
        OK(weft_register(job, (void *)(uintptr_t)small[i], SMALL));
        OK(weft_map(job, (void *)(uintptr_t)small[i], SMALL, me, (void **)&mapped[i]));
    }
    for (int i = 0; i < SMALLS; i++)
        both_ways(small[i], mapped[i], SMALL, (unsigned)i * 2 + 50);
    for (int i = 0; i < SMALLS;
         i++) { /* the last data is what the GPU wrote there, not a neighbour's data */
        unsigned char wanted[SMALL];
        make_bytes(wanted, SMALL, (unsigned)i * 2 + 51);
        CHECK(memcmp(mapped[i], wanted, SMALL) == 0);
        OK(weft_unmap(job, mapped[i]));
        OK(weft_unregister(job, (void *)(uintptr_t)small[i]));
        CHECK(!driver.MemFree(small[i]));
    }
}

static void plain_is_refused(const char *words)
{
    CUdeviceptr at;
    void *mapped;
    CHECK(!driver.MemAlloc(&at, MIB));
    OK(weft_register(job, (void *)(uintptr_t)at, MIB));
    for (int i = 0; i < 2; i++)
        FAILS(weft_map(job, (void *)(uintptr_t)at, MIB, me, &mapped), WEFT_ERR_UNSUPPORTED, words);
    unsigned char here[100], there[100] = {0};
    make_bytes(here, sizeof here, 9);
    OK(weft_copy_to(job, (void *)(uintptr_t)at, here, sizeof here)); /* by the copy engine */
    OK(weft_copy_from(job, there, (void *)(uintptr_t)at, sizeof there));
    CHECK(memcmp(here, there, sizeof here) == 0);
    OK(weft_unregister(job, (void *)(uintptr_t)at));
    CHECK(!driver.MemFree(at));
}

/* ----------------------------------------------------------------------------- cached mappings */

static void kept(void)
{
    struct piece piece =
        make_piece(&driver, 16 * MIB, ordinal, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    char *own = (char *)(uintptr_t)piece.base, *first, *second, *third;
    struct counts before = counts();
    OK(weft_register(job, own, 16 * MIB));
    for (int i = 0; i < 20; i++) { /* mapped once; mappings of parts are parts of it */
        OK(weft_map(job, own, 8 * MIB, me, (void **)&first));
        OK(weft_map(job, own + 100 * i + 70000, 999, me, (void **)&second));
        CHECK(second == first + 100 * i + 70000);
        OK(weft_unmap(job, first));
        both_ways(piece.base + 70000 + 100 * (unsigned)i, second, 999, (unsigned)i);
        OK(weft_unmap(job, second));
    }
    struct counts now = counts();
    CHECK(!fake_counts || (now.maps == before.maps + 1 && now.memories == before.memories + 1 &&
                           now.bytes > before.bytes));
    /* Unregistered while mapped: the mapping is removed with its last use. */
    OK(weft_map(job, own, 8 * MIB, me, (void **)&first));
    OK(weft_map(job, own + 12 * MIB, 100, me, (void **)&third));
    OK(weft_unregister(job, own));
    both_ways(piece.base, first, MIB, 77);
    OK(weft_unmap(job, first));
    both_ways(piece.base + 12 * MIB, third, 100, 78);
    OK(weft_unmap(job, third));
    now = counts();
    CHECK(now.memories == before.memories && now.bytes == before.bytes);
    /* A cached mapping is removed when the memory is unregistered. */
    OK(weft_register(job, own, 16 * MIB));
    OK(weft_map(job, own, MIB, me, (void **)&first));
    OK(weft_unmap(job, first));
    OK(weft_unregister(job, own));
    now = counts();
    CHECK(now.memories == before.memories && now.bytes == before.bytes);
    drop_piece(&driver, piece);
}

/* Another allocation at the same address, without notice: the cached mapping is not used for it. */
static void not_for_other_memory(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal}};
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    struct piece piece =
        make_piece(&driver, 2 * MIB, ordinal, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    void *own = (void *)(uintptr_t)piece.base;
    struct counts before = counts();
    char *mapped;
    OK(weft_register(job, own, 2 * MIB));
    for (unsigned i = 0; i < 5; i++) {
        CUmemGenericAllocationHandle handle;
        OK(weft_map(job, own, 2 * MIB, me, (void **)&mapped));
        both_ways(piece.base, mapped, 2 * MIB, i);
        OK(weft_unmap(job, mapped));
        CHECK(!driver.MemUnmap(piece.base, piece.bytes));
        CHECK(!driver.MemCreate(&handle, piece.bytes, &properties, 0));
        CHECK(!driver.MemMap(piece.base, piece.bytes, 0, handle, 0));
        CHECK(!driver.MemSetAccess(piece.base, piece.bytes, &access, 1));
        CHECK(!driver.MemRelease(handle));
    }
    OK(weft_unregister(job, own));
    struct counts now = counts();
    CHECK(now.memories == before.memories && now.bytes == before.bytes);
    drop_piece(&driver, piece);
}

static void within_bounds(void)
{
    enum {
        WINDOW = 8 * MIB,
        WINDOWS = 24,
        MOST = 80 * MIB
    }; /* 64 MiB where the size of BAR1 is unknown */
    struct piece piece = make_piece(&driver, (size_t)WINDOW * WINDOWS, ordinal,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    char *own = (char *)(uintptr_t)piece.base, *mapped;
    struct counts before = counts();
    OK(weft_register(job, own, piece.bytes));
    for (size_t i = 0; i < WINDOWS; i++) {
        OK(weft_map(job, own + i * WINDOW, WINDOW, me, (void **)&mapped));
        both_ways(piece.base + i * WINDOW + 5, mapped + 5, 400, (unsigned)i);
        OK(weft_unmap(job, mapped));
        CHECK(counts().bytes <= before.bytes + MOST);
    }
    struct counts now = counts();
    CHECK(!fake_counts || now.bytes > before.bytes);
    OK(weft_unregister(job, own));
    drop_piece(&driver, piece);
    CHECK(counts().bytes == before.bytes);
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "works";
    CUcontext context;
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    char *heap = gpu_alloc(job, 4096, 0);
    fake_counts = (void (*)(unsigned *, size_t *, int *))dlsym(RTLD_DEFAULT, "fake_rm_counts");
    OK(gpu_api_open(&driver));
    CHECK(!driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      (uintptr_t)heap));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, ordinal) && !driver.CtxPushCurrent(context));
    weft_map_info info = {.size = sizeof info};
    OK(weft_map_query(job, me, &info));
    CHECK(info.works);
    if (strcmp(wanted, "works") == 0)
        plain_memory();
    else
        plain_is_refused(wanted);
    if (argc <= 2)
        kept();
    not_for_other_memory();
    within_bounds();
    CHECK(!driver.CtxPopCurrent(&context));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_finalize(job));
    printf("PE %d: good\n", me);
    return 0;
}
