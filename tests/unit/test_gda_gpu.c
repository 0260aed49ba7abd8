/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory over path gda: its registration, the keys that PE 1 of two exchanges, queues in GPU
 * memory, and the tables that device code reads. Host memory emulates GPU memory, and no adapter
 * runs. */
#include "gpu/gpu.h"
#include "gpu/sparse.h"
#include "path/gda/gda.h"
#include "unit/own_memory.h"

#include "base/config.h"
#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    PES = 2,
    ME = 1,
    ADAPTERS = 2,
    EACH = 3,
    COUNT = PES * EACH,
    DEPTH = 128,
    CHUNKS = 3,
    UNITS = 8,
    OPEN = 15,
    RELAXED = IBV_ACCESS_RELAXED_ORDERING
};
#define UNIT   ((size_t)1 << 21)
#define WINDOW ((uint64_t)0x700000000000)
#define THEIRS ((uint64_t)0x600000000000)

/* ------------------------------------------------------------------------------------- the GPU */

/* Calls of the library and of the GPU by this PE; the number of the call that fails. */
static int calls, fails_at;
static bool fails(void)
{
    if (++calls != fails_at)
        return false;
    errno = ENOMEM;
    return true;
}

static int allocated;
weft_status __wrap_gpu_alloc(struct gpu *gpu, size_t bytes, CUdeviceptr *address);
weft_status __wrap_gpu_alloc(struct gpu *gpu, size_t bytes, CUdeviceptr *address)
{
    (void)gpu;
    if (fails())
        return base_fail(WEFT_ERR_NO_MEMORY, "no GPU memory");
    *address = (uintptr_t)__real_calloc(1, bytes + 64);
    allocated++;
    return WEFT_OK;
}

/* The content of such memory is not known. */
weft_status __wrap_gpu_alloc_unset(struct gpu *gpu, size_t bytes, CUdeviceptr *address);
weft_status __wrap_gpu_alloc_unset(struct gpu *gpu, size_t bytes, CUdeviceptr *address)
{
    weft_status status = __wrap_gpu_alloc(gpu, bytes, address);
    if (!status)
        memset((void *)(uintptr_t)*address, 0x5a, bytes);
    return status;
}

void __wrap_gpu_free(struct gpu *gpu, CUdeviceptr address);
void __wrap_gpu_free(struct gpu *gpu, CUdeviceptr address)
{
    (void)gpu;
    allocated -= address != 0;
    __real_free((void *)(uintptr_t)address);
}

weft_status __wrap_gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes);
weft_status __wrap_gpu_fill(struct gpu *gpu, void *address, unsigned char value, size_t bytes)
{
    (void)gpu;
    if (fails())
        return base_fail(WEFT_ERR_TIMEOUT, "the GPU fills nothing");
    memset(address, value, bytes);
    return WEFT_OK;
}

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner)
{
    (void)gpu, (void)lane;
    assert_int_equal(manner, GPU_DONE);
    if (fails())
        return base_fail(WEFT_ERR_TIMEOUT, "the GPU copies nothing");
    memcpy(dst, src, bytes);
    return WEFT_OK;
}

/* The driver's functions for an address range, some pages of which have memory. */
enum { PAGE = 4096 };
static int ranges, live_pages, mapped_pages;

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish,
                        unsigned long long flags)
{
    void *range =
        fails() ? MAP_FAILED : mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ranges++;
    *at = (uintptr_t)range;
    return CUDA_SUCCESS;
}

static CUresult release_range(CUdeviceptr at, size_t bytes)
{
    ranges--;
    assert_int_equal(munmap((void *)(uintptr_t)at, bytes), 0);
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *properties, unsigned long long flags)
{
    assert_int_equal(bytes, PAGE);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = 7;
    live_pages++;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    assert_int_equal(handle, 7);
    live_pages--;
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapped_pages++;
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t bytes)
{
    mapped_pages--;
    return mprotect((void *)(uintptr_t)at, bytes, PROT_NONE) ? CUDA_ERROR_INVALID_VALUE
                                                             : CUDA_SUCCESS;
}

/* What is in new memory is not known. */
static CUresult allow(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(mprotect((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE), 0);
    memset((void *)(uintptr_t)at, 0x5a, bytes);
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    return fails() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    return CUDA_SUCCESS;
}

static bool no_dmabuf;
static int exported[64], export_count;
weft_status __wrap_gpu_export_dmabuf(struct gpu *gpu, CUdeviceptr at, size_t bytes, int *fd);
weft_status __wrap_gpu_export_dmabuf(struct gpu *gpu, CUdeviceptr at, size_t bytes, int *fd)
{
    (void)gpu, (void)at, (void)bytes;
    if (no_dmabuf)
        return base_fail(WEFT_ERR_UNSUPPORTED, "the driver exports nothing");
    *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    exported[export_count++ % 64] = *fd;
    return WEFT_OK;
}

static bool peermem;
bool __wrap_gpu_peermem_is_loaded(void);
bool __wrap_gpu_peermem_is_loaded(void)
{
    return peermem;
}

static enum gpu_nic_writes order;
static bool sees;
static int flushes;
enum gpu_nic_writes __wrap_gpu_nic_writes(struct gpu *gpu);
enum gpu_nic_writes __wrap_gpu_nic_writes(struct gpu *gpu)
{
    (void)gpu;
    return order;
}

bool __wrap_gpu_sees_nic_writes(struct gpu *gpu);
bool __wrap_gpu_sees_nic_writes(struct gpu *gpu)
{
    (void)gpu;
    return sees;
}

weft_status __wrap_gpu_flush_nic_writes(struct gpu *gpu);
weft_status __wrap_gpu_flush_nic_writes(struct gpu *gpu)
{
    (void)gpu;
    return base_fail(WEFT_ERR_TIMEOUT, "flush %d", ++flushes);
}

static struct gpu_extent extents[8];
static size_t extent_count;
size_t __wrap_gpu_list_extents(struct gpu *gpu, struct gpu_extent *list, size_t most);
size_t __wrap_gpu_list_extents(struct gpu *gpu, struct gpu_extent *list, size_t most)
{
    (void)gpu;
    for (size_t i = 0; i < extent_count && i < most; i++)
        list[i] = extents[i];
    return extent_count;
}

static bool doorbells_of_device;
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    (void)gpu, (void)address;
    return doorbells_of_device ? GPU_PLACE_DEVICE : GPU_PLACE_PINNED;
}

/* ------------------------------------------------------------------ pinning, doorbells, threads */

static int pinned, bells, refused_from;
static uintptr_t moved; /* distance between the host's and the GPU's address of host memory */
static enum gpu_register_kind kind;

weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *address, size_t bytes);
static struct {
    char *at;
    size_t bytes;
} pins[8];
weft_status __wrap_gpu_pin_range(struct gpu *gpu, void *address, size_t bytes)
{
    (void)gpu;
    if (fails())
        return base_fail(WEFT_ERR_TIMEOUT, "nothing can be pinned");
    pins[pinned % 8].at = address;
    pins[pinned++ % 8].bytes = bytes;
    return WEFT_OK;
}

static uint64_t registers[COUNT];
static int unpinned_registers, unpinned_areas;
void __wrap_gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes);
void __wrap_gpu_unpin_range(struct gpu *gpu, const void *address, size_t bytes)
{
    (void)gpu;
    if (bytes == 8 && (const uint64_t *)address >= registers &&
        (const uint64_t *)address < registers + COUNT)
        unpinned_registers++;
    else
        unpinned_areas++;
}

weft_status __wrap_gpu_device_pointer(struct gpu *gpu, void *address, CUdeviceptr *seen);
weft_status __wrap_gpu_device_pointer(struct gpu *gpu, void *address, CUdeviceptr *seen)
{
    (void)gpu;
    if (fails())
        return base_fail(WEFT_ERR_TIMEOUT, "the GPU sees nothing");
    *seen = (uintptr_t)address + moved;
    return WEFT_OK;
}

static int mapped;
weft_status __wrap_gpu_map_register(struct gpu *gpu, void *address, size_t bytes, CUdeviceptr *seen,
                                    enum gpu_register_kind *found);
weft_status __wrap_gpu_map_register(struct gpu *gpu, void *address, size_t bytes, CUdeviceptr *seen,
                                    enum gpu_register_kind *found)
{
    (void)gpu;
    assert_int_equal(bytes, 8);
    if (mapped++ >= refused_from)
        return base_fail(WEFT_ERR_UNSUPPORTED, "register %d is refused", mapped - 1);
    *seen = 0x5000 + (CUdeviceptr)((uint64_t *)address - registers);
    *found = kind;
    return WEFT_OK;
}

static struct {
    const uint64_t *word;
    uint64_t *doorbell;
} rung[COUNT];
static int rung_count;
static uint32_t bell_lines;
weft_status __wrap_gda_doorbell_start(struct gda_doorbell_thread **bell, uint32_t count);
weft_status __wrap_gda_doorbell_start(struct gda_doorbell_thread **bell, uint32_t count)
{
    if (fails())
        return base_fail(WEFT_ERR_SYSTEM, "no thread");
    *bell = (struct gda_doorbell_thread *)(void *)&bells;
    bells++;
    bell_lines = count;
    return WEFT_OK;
}

void __wrap_gda_doorbell_add(struct gda_doorbell_thread *bell, const uint64_t *word,
                             uint64_t *doorbell);
void __wrap_gda_doorbell_add(struct gda_doorbell_thread *bell, const uint64_t *word,
                             uint64_t *doorbell)
{
    assert_ptr_equal(bell, &bells);
    assert_int_equal(*word, 0);
    rung[rung_count].word = word;
    rung[rung_count++].doorbell = doorbell;
}

void __wrap_gda_doorbell_stop(struct gda_doorbell_thread *bell);
void __wrap_gda_doorbell_stop(struct gda_doorbell_thread *bell)
{
    bells -= bell != NULL;
}

/* ------------------------------------------------------------------------------- the adapters */

static struct region {
    struct ibv_mr mr;
    struct ibv_pd *pd;
    uint64_t address;
    int access;
    bool dmabuf, gone;
} regions[64];
static int region_count, live_regions, live_umems, live_links;
static bool no_address;

static struct ibv_mr *add_region(struct ibv_pd *pd, uint64_t at, size_t bytes, int access,
                                 bool dmabuf)
{
    if (fails())
        return NULL;
    struct region *made = &regions[region_count];
    uint32_t number = (uint32_t)++region_count;
    *made = (struct region){{.length = bytes, .lkey = 0x1100 + number, .rkey = 0xab2200 + number},
                            pd,
                            at,
                            access,
                            dmabuf,
                            false};
    live_regions++;
    return &made->mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
    errno = EFAULT;
    return no_address ? NULL : add_region(pd, (uintptr_t)at, bytes, access, false);
}

static bool refuses_dmabuf;
static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t at,
                                    int fd, int access)
{
    assert_int_equal(offset, 0);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    errno = EOPNOTSUPP;
    return refuses_dmabuf ? NULL : add_region(pd, at, bytes, access, true);
}

static int dereg_mr(struct ibv_mr *mr)
{
    struct region *region = (struct region *)(void *)mr;
    assert_false(region->gone);
    region->gone = true;
    live_regions--;
    return 0;
}

static struct mlx5dv_devx_umem umems[ADAPTERS] = {{.umem_id = 0x501}, {.umem_id = 0x502}};
static struct gda_adapters adapters;
static int umems_by_dmabuf;
static bool refuses_umem;
static int adapter_at(const struct ibv_context *context)
{
    return (int)(((uintptr_t)context - 0x1000) / 16);
}

static struct mlx5dv_devx_umem *umem_reg(struct ibv_context *context, void *at, size_t bytes,
                                         uint32_t access)
{
    (void)at;
    assert_int_equal(bytes % (2 << 20), 0);
    assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE);
    errno = EFAULT;
    if (refuses_umem || fails())
        return NULL;
    live_umems++;
    return &umems[adapter_at(context)];
}

static struct mlx5dv_devx_umem *umem_reg_ex(struct ibv_context *context,
                                            struct mlx5dv_devx_umem_in *in)
{
    assert_int_equal(in->comp_mask, MLX5DV_UMEM_MASK_DMABUF);
    assert_int_equal(in->pgsz_bitmap, ~(uint64_t)4095);
    assert_true(fcntl(in->dmabuf_fd, F_GETFD) >= 0);
    struct mlx5dv_devx_umem *umem = umem_reg(context, in->addr, in->size, in->access);
    umems_by_dmabuf += umem != NULL;
    return umem;
}

static int umem_dereg(struct mlx5dv_devx_umem *umem)
{
    (void)umem;
    live_umems--;
    return 0;
}

static struct {
    struct gda_qp *link;
    struct gda_layout at;
    char *area;
} made[COUNT];
static int made_count;
weft_status __wrap_gda_create_queue(struct gda *gda, struct gda_qp *link,
                                    struct weft_dev_gda_queue *q, const struct gda_layout *at,
                                    char *area);
weft_status __wrap_gda_create_queue(struct gda *gda, struct gda_qp *link,
                                    struct weft_dev_gda_queue *q, const struct gda_layout *at,
                                    char *area)
{
    (void)gda;
    for (size_t i = at->completions; i < at->page; i++)
        assert_int_equal((unsigned char)area[i], 0xff); /* no completion entry is valid yet */
    assert_int_equal(area[at->page], 0);
    if (fails())
        return base_fail(WEFT_ERR_SYSTEM, "no queue");
    made[made_count].link = link;
    made[made_count].at = *at;
    made[made_count].area = area;
    q->number = 0x7000 + (uint32_t)made_count;
    q->ring.doorbell = &registers[made_count++];
    live_links++;
    return WEFT_OK;
}

void __wrap_gda_destroy_qp(struct gda_qp *link);
void __wrap_gda_destroy_qp(struct gda_qp *link)
{
    for (int i = 0; i < made_count; i++) {
        live_links -= made[i].link == link;
        made[i].link = made[i].link == link ? NULL : made[i].link;
    }
}

static struct {
    struct gda_connection ends;
    const struct gda_address *peer;
} connected[COUNT];
static int connected_count, connect_fails_at;
weft_status __wrap_gda_connect_qp(const struct gda_qp *link, const struct gda_connection *ends,
                                  const struct gda_address *peer);
weft_status __wrap_gda_connect_qp(const struct gda_qp *link, const struct gda_connection *ends,
                                  const struct gda_address *peer)
{
    assert_ptr_equal(link, made[connected_count].link);
    connected[connected_count].ends = *ends;
    connected[connected_count++].peer = peer;
    return connected_count == connect_fails_at ? base_fail(WEFT_ERR_SYSTEM, "not connected")
                                               : WEFT_OK;
}

/* --------------------------------------------------------------------------------- the other PE */

static int agreements, disagrees_at, gathers, gather_fails_at, key_gathers;
static uint64_t their_base;
/* Whether the queues exist, then for each connected PE its number and those of the queues. */
enum { LINK = 1 + EACH, ROW = 1 + PES * LINK, SHORT_ROW = 1 + LINK };
static uint32_t their_row[ROW], my_row[ROW], my_count;

static uint32_t number_at(uint32_t queue)
{
    return 1 + queue / EACH * LINK + 1 + queue % EACH;
}

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    if (++agreements == disagrees_at && !status)
        return base_fail(WEFT_ERR_PEER_DEAD, "another PE has failed");
    return status;
}

static uint32_t their_key(int gather, int relaxed, int adapter)
{
    return 0xd0000000u + (uint32_t)(gather << 16 | relaxed << 8 | adapter);
}

static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    (void)boot;
    if (++gathers == gather_fails_at)
        return base_fail(WEFT_ERR_TIMEOUT, "the other does not come");
    memcpy((char *)all + bytes, mine, bytes);
    if (bytes == sizeof their_base) {
        memcpy(all, &their_base, bytes);
    } else if (bytes == sizeof my_count) {
        my_count = *(const uint32_t *)mine;
        *(uint32_t *)all = 1; /* itself */
    } else if (bytes == sizeof their_row || bytes == SHORT_ROW * sizeof *their_row) {
        memcpy(all, their_row, bytes);
        memcpy(my_row, mine, bytes);
    } else {
        uint32_t keys[2][GDA_ADAPTERS_MOST] = {{0}};
        assert_int_equal(bytes, sizeof keys);
        for (int k = 0; k < 2; k++)
            for (int a = 0; a < ADAPTERS; a++)
                keys[k][a] = their_key(key_gathers, k, a);
        memcpy(all, keys, bytes);
        key_gathers++;
    }
    return WEFT_OK;
}

static const struct boot_ops ops = {.allgather = gather};
static struct boot boot = {.ops = &ops, .pe = ME, .npes = PES};
static struct gpu gpu;
static struct gpu_window window = {.base = WINDOW};
static char *maps[PES][SEG_COUNT];
static struct path_world world = {.pe = ME, .npes = PES, .boot = &boot, .gpu = &gpu, .map = maps};
static struct gda gda;
static struct weft_dev_gda_queue queues[COUNT + PES * ADAPTERS];
static struct gda_qp links[COUNT + PES * ADAPTERS];
static struct gda_address addresses[PES * ADAPTERS];
static uint64_t seeds[PES] = {5, 77}, host_bases[PES * SEG_COUNT];
static uint32_t host_local[ADAPTERS * CHUNKS], host_remote[2 * ADAPTERS * PES * CHUNKS];
_Alignas(GDA_PAGE) static char area[COUNT * GDA_PAGE];

/* Queues in GPU memory; NONE or FAKE in tests of the keys alone. */
static enum { NONE, FAKE, REAL } far_queues;
static struct gda_gpu_queues fake_far;
weft_status __real_gda_open_gpu_queues(struct gda *of, char *lacks, size_t bytes);
weft_status __wrap_gda_open_gpu_queues(struct gda *of, char *lacks, size_t bytes);
weft_status __wrap_gda_open_gpu_queues(struct gda *of, char *lacks, size_t bytes)
{
    memset(lacks, 'x', bytes);
    if (far_queues == REAL)
        return __real_gda_open_gpu_queues(of, lacks, bytes);
    snprintf(lacks, bytes, "none in this test");
    of->gpu_queues = far_queues == FAKE ? &fake_far : NULL;
    return WEFT_OK;
}

void __real_gda_close_gpu_queues(struct gda *of);
void __wrap_gda_close_gpu_queues(struct gda *of);
void __wrap_gda_close_gpu_queues(struct gda *of)
{
    if (of->gpu_queues == &fake_far)
        of->gpu_queues = NULL;
    __real_gda_close_gpu_queues(of);
}

static bool device_code;
weft_status __real_gda_open_cuda(struct gda *of, char *lacks, size_t bytes);
weft_status __wrap_gda_open_cuda(struct gda *of, char *lacks, size_t bytes);
weft_status __wrap_gda_open_cuda(struct gda *of, char *lacks, size_t bytes)
{
    memset(lacks, 'x', bytes);
    if (device_code)
        return __real_gda_open_cuda(of, lacks, bytes);
    snprintf(lacks, bytes, "no device code in this test");
    return WEFT_OK;
}

static weft_status begin(void)
{
    return gda_gpu_memory((struct path_common *)(void *)&gda);
}

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {"WEFT_TEST_GDA_INITIATOR", "WEFT_GDA_DOORBELL",
                                        "WEFT_TEST_GDA_QUEUE_MEMORY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("WEFT_LOG", "none", 1);
    config_reset();
    gpu.driver = (struct gpu_api){.MemAddressReserve = reserve,
                                  .MemAddressFree = release_range,
                                  .MemCreate = create,
                                  .MemRelease = release,
                                  .MemMap = map,
                                  .MemUnmap = unmap,
                                  .MemSetAccess = allow,
                                  .CtxPushCurrent = push,
                                  .CtxPopCurrent = pop};
    gpu.device.driver = &gpu.driver;
    gpu.device.ordinal = 3;
    gpu.heap.boot = &boot;
    gpu.heap.granularity = PAGE;
    gpu.heap.unit = UNIT;
    gpu.heap.size = UNITS * UNIT;
    gpu.heap.windows = &window;
    calls = fails_at = allocated = export_count = region_count = made_count = connected_count = 0;
    live_regions = live_umems = live_links = pinned = bells = unpinned_registers = mapped = 0;
    agreements = disagrees_at = gathers = gather_fails_at = key_gathers = unpinned_areas = 0;
    connect_fails_at = rung_count = umems_by_dmabuf = flushes = 0;
    no_dmabuf = no_address = refuses_dmabuf = refuses_umem = doorbells_of_device = false;
    peermem = device_code = false;
    order = GPU_NIC_WRITES_ORDERED;
    sees = true;
    refused_from = COUNT;
    kind = GPU_REGISTER_DEVICE;
    moved = 0;
    far_queues = NONE;
    their_base = THEIRS;
    extents[0] = (struct gpu_extent){0, 2 * UNIT};
    extents[1] = (struct gpu_extent){3 * UNIT, UNIT};
    extent_count = 2;
    their_row[0] = 1;
    for (uint32_t i = 0; i < COUNT; i++)
        their_row[number_at(i)] = 0x9000 + i;
    for (uint32_t pe = 0; pe < PES; pe++)
        their_row[1 + pe * LINK] = pe;
    adapters = (struct gda_adapters){
        .lib = {.verbs = {.reg_mr = reg_mr, .reg_dmabuf_mr = reg_dmabuf_mr, .dereg_mr = dereg_mr},
                .dv = {.umem_reg = umem_reg, .umem_reg_ex = umem_reg_ex, .umem_dereg = umem_dereg}},
        .count = ADAPTERS};
    for (int a = 0; a < ADAPTERS; a++) {
        adapters.one[a] = (struct gda_adapter){.lib = &adapters.lib,
                                               .context = (void *)(uintptr_t)(0x1000 + 16 * a),
                                               .pd = (void *)(uintptr_t)(0x2000 + 16 * a)};
        snprintf(adapters.one[a].name, GDA_NAME_BYTES, "mlx5_%d", a);
    }
    gda = (struct gda){.world = &world,
                       .adapters = &adapters,
                       .count = ADAPTERS,
                       .eager = true,
                       .queues_per_pe = EACH,
                       .depth = DEPTH,
                       .area = area,
                       .area_bytes = sizeof area,
                       .queues = queues,
                       .qps = links,
                       .addresses = addresses,
                       .seeds = seeds,
                       .bases = host_bases,
                       .chunks = CHUNKS,
                       .chunk_bits = 16,
                       .first = {0, 2, 2},
                       .local_keys = host_local,
                       .remote_keys = host_remote,
                       .data_keys = host_remote};
    memset(queues, 0, sizeof queues);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t at = gda_device_queue_index(&gda, i);
        queues[at].ring.record = (uint32_t *)(void *)(area + i * GDA_PAGE + 4);
        queues[at].ring.doorbell = &registers[i];
        queues[at].done = 9; /* of the host's queue */
        links[at].adapter = &adapters.one[i % EACH % ADAPTERS];
    }
    for (uint32_t i = 0; i < ADAPTERS * CHUNKS; i++)
        host_local[i] = 0x100 + i;
    for (uint32_t i = 0; i < 2 * ADAPTERS * PES * CHUNKS; i++)
        host_remote[i] = 0x200 + i;
    for (uint32_t i = 0; i < PES * SEG_COUNT; i++)
        host_bases[i] = 0x10000 * ((uint64_t)i + 1);
    maps[ME][SEG_HEAP] = area + 64;
    live_memory = memory_calls = memory_fails_at = 0;
    return 0;
}

/* Closes everything and checks that nothing is left. */
static void end(void)
{
    gda_close_cuda(&gda);
    gda_close_gpu_queues(&gda);
    gda_free_gpu(&gda);
    gda_free_gpu(&gda);
    assert_null(gda.gpu);
    assert_int_equal(live_memory, 0);
    assert_int_equal(live_regions | live_umems | live_links | allocated | bells, 0);
    assert_int_equal(ranges | live_pages | mapped_pages, 0);
    for (int i = 0; i < export_count && i < 64; i++)
        assert_int_equal(fcntl(exported[i], F_GETFD), -1);
}

/* ----------------------------------------------------------------------------------------- keys */

/* Key of a unit at a PE, for strictly ordered access or for data. */
static uint32_t remote_key(uint32_t unit, int data, uint32_t adapter, uint32_t pe)
{
    const uint32_t *keys = gda.gpu->keys[unit];
    return keys ? keys[((uint32_t)data * ADAPTERS + adapter) * PES + pe] : 0;
}

/* All units of a region have its key, and no other unit has a key. */
static void allocations_have_keys(void **state)
{
    static const int region_of[UNITS] = {0, 0, -1, 1, -1, -1, -1, -1};
    for (int relaxed = 0; relaxed <= 1; relaxed++) {
        setup(state);
        far_queues = relaxed ? FAKE : NONE;
        assert_int_equal(begin(), WEFT_OK);
        assert_int_equal(region_count, 2 * ADAPTERS * (1 + relaxed));
        const struct gda_gpu *made_gpu = gda.gpu;
        assert_int_equal(made_gpu->unit_bits, 21);
        assert_int_equal(made_gpu->units, UNITS);
        assert_int_equal(made_gpu->bases[0], THEIRS);
        assert_int_equal(made_gpu->bases[1], WINDOW);
        assert_int_equal(made_gpu->region_count, 2);
        assert_false(made_gpu->by_address);
        for (int e = 0; e < 2; e++)
            for (int again = 0; again <= relaxed; again++)
                for (int a = 0; a < ADAPTERS; a++) {
                    const struct region *r = &regions[(e * (1 + relaxed) + again) * ADAPTERS + a];
                    assert_true(r->dmabuf);
                    assert_ptr_equal(r->pd, adapters.one[a].pd);
                    assert_int_equal(r->address, WINDOW + extents[e].offset);
                    assert_int_equal(r->mr.length, extents[e].bytes);
                    assert_int_equal(r->access, again ? OPEN | RELAXED : OPEN);
                }
        for (int unit = 0; unit < UNITS; unit++)
            for (int a = 0; a < ADAPTERS; a++) {
                int e = region_of[unit], first = e * (1 + relaxed) * ADAPTERS + a;
                const uint32_t u = (uint32_t)unit, n = (uint32_t)a;
                const struct region *strict = &regions[e < 0 ? 0 : first];
                const struct region *data = &regions[e < 0 ? 0 : first + relaxed * ADAPTERS];
                assert_int_equal(made_gpu->local_keys[a * UNITS + unit],
                                 e < 0 ? 0 : htobe32(data->mr.lkey));
                assert_int_equal(remote_key(u, 0, n, ME), e < 0 ? 0 : htobe32(strict->mr.rkey));
                assert_int_equal(remote_key(u, 1, n, ME), e < 0 ? 0 : htobe32(data->mr.rkey));
                /* A PE without a second key sends the first key twice. */
                if (relaxed)
                    assert_int_equal(remote_key(u, 0, n, 0), e < 0 ? 0 : their_key(e, 0, a));
                assert_int_equal(remote_key(u, 1, n, 0), e < 0 ? 0 : their_key(e, 1, a));
            }
        end();
    }
}

/* Regions that are registered are kept. Freed allocations lose their keys, and new allocations get
 * keys. */
static void allocations_come_and_go(void **state)
{
    (void)state;
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(region_count, 4);
    extents[0] = (struct gpu_extent){3 * UNIT, UNIT};
    extents[1] = (struct gpu_extent){6 * UNIT, 2 * UNIT};
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(region_count, 6);
    assert_int_equal(live_regions, 4);
    assert_true(regions[0].gone && regions[1].gone && !regions[2].gone);
    for (int a = 0; a < ADAPTERS; a++)
        for (uint32_t unit = 0; unit < UNITS; unit++) {
            const bool there = unit == 3 || unit == 6 || unit == 7;
            assert_int_equal(gda.gpu->local_keys[(uint32_t)a * UNITS + unit] != 0, there);
            assert_int_equal(remote_key(unit, 0, (uint32_t)a, ME) != 0, there);
        }
    /* The new allocations have taken the keys of the freed ones; each has its own. */
    assert_ptr_equal(gda.gpu->keys[6], gda.gpu->keys[7]);
    assert_ptr_not_equal(gda.gpu->keys[3], gda.gpu->keys[6]);
    assert_null(gda.gpu->all_keys->next->next);
    extents[0].bytes = 2 * UNIT; /* at the same address, but longer */
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(region_count, 8);
    assert_int_equal(live_regions, 4);
    extent_count = 0;
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(live_regions, 0);
    assert_int_equal(gda.gpu->region_count, 0);
    end();
    world.gpu = NULL; /* a job without GPU memory */
    calls = agreements = 0;
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(agreements, 0);
    assert_null(gda.gpu);
    world.gpu = &gpu;
}

static void registered_by_address(void **state)
{
    char found[200] = "";
    (void)state;
    world.common[PATH_GDA] = (struct path_common *)(void *)&gda;
    assert_int_equal(gda_refine(&world, WEFT_GPU, 0, found, sizeof found), WEFT_OK);
    assert_string_equal(found, "");
    for (int way = 0; way < 3; way++) {
        setup(state);
        refuses_dmabuf = way == 0;
        no_dmabuf = way == 1;
        if (way == 2)
            adapters.lib.verbs.reg_dmabuf_mr = NULL;
        assert_int_equal(begin(), WEFT_OK);
        assert_true(gda.gpu->by_address);
        assert_int_equal(region_count, 4);
        assert_false(regions[0].dmabuf);
        assert_int_equal(regions[3].address, WINDOW + 3 * UNIT);
        assert_int_equal(regions[3].mr.length, UNIT);
        assert_int_equal(regions[3].access, OPEN);
        gda_refine(&world, WEFT_GPU, 0, found, sizeof found);
        assert_string_equal(found, "GPU memory by address (peermem); device code goes through the "
                                   "proxy: no device code in this test");
        end();
    }
    static const char *const causes[] = {"ibv_reg_dmabuf_mr: Operation not supported",
                                         "the driver exports nothing (needs NVIDIA's open modules)",
                                         "libibverbs has no ibv_reg_dmabuf_mr"};
    for (int way = 0; way < 6; way++) {
        char why[300];
        setup(state);
        no_address = true;
        peermem = way >= 3;
        refuses_dmabuf = way % 3 == 0;
        no_dmabuf = way % 3 == 1;
        if (way % 3 == 2)
            adapters.lib.verbs.reg_dmabuf_mr = NULL;
        snprintf(why, sizeof why,
                 "path gda: mlx5_0 cannot register 4 MiB of GPU memory, by dma-buf (%s) or by "
                 "address (ibv_reg_mr: Bad address%s)",
                 causes[way % 3], peermem ? "" : " (load nvidia-peermem)");
        assert_int_equal(begin(), WEFT_ERR_NO_PATH);
        assert_string_equal(base_last_error(), why);
        end();
    }
    setup(state);
    assert_int_equal(begin(), WEFT_OK);
    gda_refine(&world, WEFT_GPU, 0, found, sizeof found);
    assert_string_equal(found, "GPU memory by dma-buf; device code goes through the proxy: no "
                               "device code in this test");
    snprintf(found, sizeof found, "as before");
    gda_refine(&world, WEFT_HOST, 0, found, sizeof found);
    assert_string_equal(found, "as before");
    world.common[PATH_GDA] = NULL;
    gda_refine(&world, WEFT_GPU, 0, found, sizeof found);
    assert_string_equal(found, "as before");
    end();
}

/* Each registration fails once: then the GPU memory has no keys. */
static void every_registration_fails(void **state)
{
    for (int i = 1; i <= 2 * 2 * ADAPTERS; i++) {
        setup(state);
        far_queues = FAKE;
        no_address = true;
        fails_at = i;
        assert_int_equal(begin(), WEFT_ERR_NO_PATH);
        assert_int_equal(calls, (i - 1) / (2 * ADAPTERS) * 2 * ADAPTERS + (i - 1) % 4 + 1);
        assert_null(gda.gpu); /* GPU memory takes another path */
        assert_int_equal(live_regions | live_memory, 0);
        end();
    }
}

/* Each allocation fails once: the PE reports it, or puts its queues elsewhere, and frees
 * everything. */
static void memory_is_missing(void **state)
{
    for (int way = 0; way < 2; way++)
        for (int call = 1;; call++) {
            setup(state);
            far_queues = REAL;
            device_code = way == 1;
            memory_fails_at = call;
            weft_status status = begin();
            if (!status && gda.cuda)
                status = gda_write_cuda_table(&gda, &(struct weft_dev){0});
            bool ended = memory_calls < call;
            if (!ended)
                assert_true(status == WEFT_ERR_NO_MEMORY ||
                            (!status && (gda.gpu->why_host[0] || gda.gpu->why_proxy[0])));
            memory_fails_at = 0;
            end();
            if (ended)
                break;
            assert_in_range(call, 1, 40);
        }
}

/* Whether the GPU needs a flush to see the adapters' writes in order. */
static void writes_are_flushed(void **state)
{
    (void)state;
    assert_int_equal(gda_flush_gpu_writes(&gda), WEFT_OK); /* there is no GPU memory */
    assert_int_equal(begin(), WEFT_OK);
    assert_false(gda.gpu->flushed);
    assert_false(gda.gpu->dumps);
    assert_int_equal(gda_flush_gpu_writes(&gda), WEFT_OK);
    assert_int_equal(flushes, 0);
    end();
    setup(state);
    order = GPU_NIC_WRITES_FLUSHED;
    sees = false;
    assert_int_equal(begin(), WEFT_OK);
    assert_true(gda.gpu->dumps);
    assert_int_equal(gda_flush_gpu_writes(&gda), WEFT_ERR_TIMEOUT);
    assert_int_equal(flushes, 1);
    end();
    setup(state);
    order = GPU_NIC_WRITES_UNORDERED;
    assert_int_equal(begin(), WEFT_ERR_NO_PATH);
    assert_string_equal(base_last_error(), "path gda: GPU 3 does not order the writes of adapters, "
                                           "and its driver cannot flush them");
    end();
}

static void the_other_pe_fails(void **state)
{
    (void)state;
    their_base = 0;
    assert_int_equal(begin(), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(),
                        "path gda: PE 0 sent an invalid exchange record: invalid memory addresses");
    end();
    setup(state);
    assert_int_equal(begin(), WEFT_OK);
    const int steps = agreements, gathered = gathers;
    end();
    assert_int_equal(steps, 8); /* start 2, heap 1, each allocation 2, end 1 */
    assert_int_equal(gathered, 3);
    for (int i = 1; i <= steps; i++) {
        setup(state);
        disagrees_at = i;
        assert_int_equal(begin(), WEFT_ERR_PEER_DEAD);
        end();
    }
    for (int i = 1; i <= gathered; i++) {
        setup(state);
        gather_fails_at = i;
        assert_int_equal(begin(), WEFT_ERR_TIMEOUT);
        end();
    }
}

/* ------------------------------------------------------------------------- queues in GPU memory */

static void queues_in_gpu_memory(void **state)
{
    (void)state;
    far_queues = REAL;
    assert_int_equal(begin(), WEFT_OK);
    const struct gda_gpu_queues *far = gda.gpu_queues;
    assert_non_null(far);
    assert_string_equal(gda.gpu->why_host, "");
    const struct gda_gpu_slab *slab = far->slabs;
    assert_null(slab->next);
    assert_int_equal(slab->used, PES);
    assert_int_equal(slab->bytes, 2 << 20);
    assert_int_equal(made_count, COUNT);
    assert_int_equal(umems_by_dmabuf, ADAPTERS);
    assert_int_equal(connected_count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t pe = i / EACH, k = i % EACH, a = k % ADAPTERS;
        struct gda_layout at = gda_layout_of(&gda, i);
        assert_ptr_equal(made[i].link, &far->qps[i]);
        assert_memory_equal(&made[i].at, &at, sizeof at);
        assert_ptr_equal(made[i].area, (void *)(uintptr_t)slab->area);
        assert_ptr_equal(far->qps[i].adapter, &adapters.one[a]);
        assert_int_equal(far->qps[i].umem, umems[a].umem_id);
        assert_int_equal(far->queues[i].name, k);
        assert_int_equal(far->queues[i].results_key, htobe32(slab->regions[a]->lkey));
        assert_int_equal(far->queues[i].done | far->queues[i].turns, 0);
        assert_int_equal(my_row[number_at(i)], far->queues[i].number);
        assert_int_equal(my_row[1 + pe * LINK], pe);
        uint32_t its = pe == ME ? far->queues[ME * EACH + k].number : 0x9000 + ME * EACH + k;
        struct gda_connection ends = gda_connection_of(&gda, far->queues[i].number, (int)pe, its);
        assert_memory_equal(&connected[i].ends, &ends, sizeof ends);
        assert_ptr_equal(connected[i].peer, &addresses[pe * ADAPTERS + a]);
    }
    assert_int_equal(my_row[0], 1);
    assert_int_equal(agreements, 10);
    for (int a = 0; a < ADAPTERS; a++) {
        assert_true(regions[a].dmabuf);
        assert_int_equal(regions[a].address, slab->area);
        assert_int_equal(regions[a].mr.length, slab->bytes);
        assert_int_equal(regions[a].access, IBV_ACCESS_LOCAL_WRITE);
        assert_ptr_equal(regions[a].pd, adapters.one[a].pd);
    }
    assert_true(gda.gpu->relaxed);
    end();
    assert_null(gda.gpu_queues);
    setup(state); /* registered by address if dma-bufs are missing */
    far_queues = REAL;
    no_dmabuf = true;
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(umems_by_dmabuf, 0);
    assert_false(regions[0].dmabuf);
    assert_int_equal(regions[1].address, gda.gpu_queues->slabs->area);
    assert_int_equal(regions[1].access, IBV_ACCESS_LOCAL_WRITE);
    end();
    setup(state);
    far_queues = REAL;
    adapters.lib.dv.umem_reg_ex = NULL;
    adapters.lib.verbs.reg_dmabuf_mr = NULL;
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(umems_by_dmabuf, 0);
    assert_false(regions[0].dmabuf);
    end();
}

/* If one PE cannot have queues in GPU memory, no PE has them, and each reports the reason. If they
 * are required, this is an error. */
static void no_queues_in_gpu_memory(void **state)
{
    static const struct {
        const char *name, *value;
        bool here, there, umem, place;
        const char *lacks;
    } rows[] = {
        {"WEFT_TEST_GDA_INITIATOR", "cpu", true, true, true, false,
         "WEFT_TEST_GDA_INITIATOR is cpu"},
        {"WEFT_TEST_GDA_QUEUE_MEMORY", "host", true, true, true, false,
         "WEFT_TEST_GDA_QUEUE_MEMORY is host"},
        {"WEFT_TEST_GDA_QUEUE_MEMORY", "auto", true, false, true, false,
         "another PE cannot have its queues in GPU memory"},
        {"WEFT_TEST_GDA_QUEUE_MEMORY", "gpu", true, false, true, false,
         "another PE cannot have its queues in GPU memory"},
        {"WEFT_TEST_GDA_QUEUE_MEMORY", "gpu", false, true, false, false,
         "mlx5_0 does not support queues in GPU memory (mlx5dv_devx_umem_reg: Bad address)"},
        {"WEFT_GDA_DOORBELL", "cpu", false, true, true, true,
         "a thread cannot ring the doorbells of mlx5_0"},
        {"WEFT_TEST_GDA_QUEUE_MEMORY", "auto", false, true, false, false,
         "mlx5_0 does not support queues in GPU memory (mlx5dv_devx_umem_reg: Bad address)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool wanted = strcmp(rows[i].value, "gpu") == 0;
        char why[200];
        setup(state);
        setenv(rows[i].name, rows[i].value, 1);
        config_reset();
        far_queues = REAL;
        refuses_umem = !rows[i].umem;
        doorbells_of_device = rows[i].place;
        their_row[0] = rows[i].there;
        assert_int_equal(begin(), wanted ? WEFT_ERR_CONFIG : WEFT_OK);
        assert_null(gda.gpu_queues);
        assert_int_equal(connected_count, 0);
        assert_int_equal(gda.gpu == NULL, wanted);
        if (!wanted) {
            assert_string_equal(gda.gpu->why_host, rows[i].lacks);
            assert_false(gda.gpu->relaxed);
        }
        snprintf(why, sizeof why, "path gda: WEFT_TEST_GDA_QUEUE_MEMORY is gpu, but %s",
                 rows[i].lacks);
        if (wanted)
            assert_string_equal(base_last_error(), why);
        else if (my_row[0] && rows[i].there)
            fail_msg("row %zu told of queues", i);
        end();
    }
    setup(state); /* the GPU itself rings doorbells of another device */
    far_queues = REAL;
    doorbells_of_device = true;
    assert_int_equal(begin(), WEFT_OK);
    assert_non_null(gda.gpu_queues);
    end();
    setup(state); /* a thread can ring the doorbell */
    setenv("WEFT_GDA_DOORBELL", "cpu", 1);
    config_reset();
    far_queues = REAL;
    assert_int_equal(begin(), WEFT_OK);
    assert_non_null(gda.gpu_queues);
    end();
    setup(state);
    far_queues = REAL;
    their_row[ROW - 1] = 0; /* the last number */
    assert_int_equal(begin(), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(),
                        "path gda: PE 0 sent an invalid exchange record: invalid QP number");
    end();
    for (int i = 1; i <= COUNT; i++) {
        setup(state);
        far_queues = REAL;
        connect_fails_at = i;
        assert_int_equal(begin(), WEFT_ERR_SYSTEM);
        assert_int_equal(connected_count, i);
        end();
    }
}

/* Each step of making queues fails once: the queues are then in host memory, and nothing is left of
 * those in GPU memory. */
static void making_queues_fails(void **state)
{
    int failed = 0;
    for (int call = 1;; call++) {
        setup(state);
        far_queues = REAL;
        extent_count = 0;
        fails_at = call;
        assert_int_equal(begin(), WEFT_OK);
        bool ended = calls < call;
        if (!gda.gpu_queues) {
            failed++;
            assert_int_not_equal(gda.gpu->why_host[0], '\0');
            assert_int_equal(live_regions | live_umems | live_links | allocated, 0);
        }
        end();
        if (ended)
            break;
    }
    assert_int_equal(failed,
                     1 + 2 * COUNT); /* memory, completions, queues; the rest has alternatives */
    setup(state);
    far_queues = REAL;
    extent_count = 0;
    no_dmabuf = true;
    no_address = true;
    assert_int_equal(begin(), WEFT_OK);
    assert_string_equal(gda.gpu->why_host, "mlx5_0 does not support results in GPU memory (Bad "
                                           "address)");
    end();
}

/* ------------------------------------------------------------------------ tables of device code */

static struct weft_dev dev = {.segment = {[WEFT_DEV_HEAP] = {.base = WINDOW + 5 * UNIT},
                                          [WEFT_DEV_AREAS] = {.base = WINDOW + 7 * UNIT}}};

/* Marks, fillers and busy words of a queue are zero, and those of the queues to one PE follow each
 * other. */
static void expect_marks(const struct weft_dev_gda *table, uint32_t i)
{
    const struct weft_dev_gda_queue *q = &table->queues[i], *first = &table->queues[i - i % EACH];
    assert_ptr_equal(q->marks, first->marks + i % EACH * 2);
    assert_ptr_equal(q->fillers, first->marks + (EACH + i % EACH) * 2);
    assert_ptr_equal(q->busy, (uint32_t *)(void *)(first->marks + 2 * EACH * 2) + i % EACH * DEPTH);
    for (int k = 0; k < 2; k++)
        assert_int_equal(q->marks[k] | q->fillers[k], 0);
    for (int k = 0; k < DEPTH; k++)
        assert_int_equal(q->busy[k], 0);
}

/* Keys of the first `units` units in queue i of the table. */
static void expect_unit_keys(const struct weft_dev_gda *table, uint32_t i, uint32_t units)
{
    const struct weft_dev_gda_queue *q = &table->queues[i];
    const uint32_t pe = i / EACH, a = i % EACH % ADAPTERS;
    for (uint32_t u = 0; u < units; u++) {
        const uint32_t at = (CHUNKS + u) * table->key_step;
        assert_int_equal(q->remote_keys[at], remote_key(u, 0, a, pe));
        if (table->data_keys)
            assert_int_equal(q->remote_keys[at + table->data_keys], remote_key(u, 1, a, pe));
    }
}

static void tables_of_device_code(void **state)
{
    for (int way = 0; way < 4; way++) {
        const bool far = way & 1, relaxed = way & 2;
        setup(state);
        far_queues = far ? REAL : NONE;
        device_code = true;
        gda.relaxed = relaxed;
        sees = false;
        adapters.one[1].may_reorder = relaxed;
        gda.data_keys = host_remote + (relaxed ? ADAPTERS * PES * CHUNKS : 0);
        dev.gda = (struct weft_dev_gda){0};
        assert_int_equal(begin(), WEFT_OK);
        assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
        const struct weft_dev_gda *table = &dev.gda;
        const uint32_t step = 2 * ADAPTERS * PES;
        assert_int_equal(table->each, EACH);
        assert_int_equal(table->sharing.fraction, 0x55555556); /* of 2^32, rounded up */
        assert_int_equal(table->adapters, ADAPTERS);
        assert_int_equal(table->key_step, step);
        assert_int_equal(table->data_keys, far || relaxed ? ADAPTERS * PES : 0);
        assert_int_equal(table->dumps, !far);
        assert_int_equal(table->ordered, relaxed ? WEFT_DEV_GDA_ORDERED : 0);
        assert_int_equal(table->first[WEFT_DEV_HEAP], CHUNKS);
        assert_int_equal(table->first[WEFT_DEV_AREAS], CHUNKS);
        assert_int_equal(table->first[WEFT_DEV_OTHER], 0);
        assert_int_equal(table->chunk_bits[WEFT_DEV_HEAP], 21);
        assert_int_equal(table->chunk_bits[WEFT_DEV_AREAS], 21);
        assert_int_equal(table->chunk_bits[WEFT_DEV_OTHER], 16);
        assert_int_equal(table->own[WEFT_DEV_HEAP], WINDOW);
        assert_int_equal(table->own[WEFT_DEV_AREAS], WINDOW);
        assert_int_equal(table->own[WEFT_DEV_OTHER], (uintptr_t)area + 64);
        assert_int_equal(table->skip[WEFT_DEV_HEAP], 5 * UNIT);
        assert_int_equal(table->skip[WEFT_DEV_AREAS], 7 * UNIT);
        assert_int_equal(table->skip[WEFT_DEV_OTHER], 0);
        for (int pe = 0; pe < PES; pe++) {
            const uint64_t *bases = table->bases + pe * WEFT_DEV_PARTS;
            assert_int_equal(bases[WEFT_DEV_HEAP], pe ? WINDOW : THEIRS);
            assert_int_equal(bases[WEFT_DEV_AREAS], pe ? WINDOW : THEIRS);
            assert_int_equal(bases[WEFT_DEV_OTHER], host_bases[pe * SEG_COUNT + SEG_HEAP]);
        }
        const struct weft_dev_gda_queue *first = table->queues;
        for (uint32_t i = 0; i < COUNT; i++) {
            const struct weft_dev_gda_queue *q = &table->queues[i];
            uint32_t pe = i / EACH, a = i % EACH % ADAPTERS;
            assert_int_equal(q->turns, WEFT_DEV_GDA_UNUSED);
            assert_int_equal(q->done, 0);
            assert_int_equal((uintptr_t)q->ring.doorbell, 0x5000 + i);
            expect_marks(table, i);
            assert_int_equal(q->ready, 1);
            assert_int_equal(q->number, far ? 0x7000 + i : 0);
            for (uint32_t c = 0; c < CHUNKS; c++) {
                uint32_t row = a * PES + pe;
                assert_int_equal(q->local_keys[c], host_local[a * CHUNKS + c]);
                assert_int_equal(q->remote_keys[c * step], host_remote[row * CHUNKS + c]);
                if (table->data_keys)
                    assert_int_equal(q->remote_keys[c * step + table->data_keys],
                                     gda.data_keys[row * CHUNKS + c]);
            }
            for (uint32_t u = 0; u < UNITS; u++)
                assert_int_equal(q->local_keys[CHUNKS + u], gda.gpu->local_keys[a * UNITS + u]);
            expect_unit_keys(table, i, 4);
        }
        /* A new allocation: its keys are exchanged, and the tables keep their addresses. */
        extents[extent_count++] = (struct gpu_extent){7 * UNIT, UNIT};
        const int tables = allocated;
        const uint32_t *keys = first->remote_keys;
        assert_int_equal(begin(), WEFT_OK);
        for (uint32_t i = 0; i < COUNT; i++)
            expect_unit_keys(table, i, UNITS);
        assert_ptr_equal(first->remote_keys, keys);
        assert_int_equal(first->local_keys[CHUNKS + 7], gda.gpu->local_keys[7]);
        assert_int_not_equal(first->local_keys[CHUNKS + 7], 0);
        assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
        assert_ptr_equal(table->queues, first);
        assert_int_equal(allocated, tables);
        /* Counters that device code has advanced. */
        for (uint32_t i = 0; i < COUNT; i++) {
            struct weft_dev_gda_queue *q = &table->queues[i];
            q->turns = 100 + i, q->done = 200 + i, q->open = 300 + i, q->flushed = 400 + i;
        }
        assert_int_equal(gda_read_cuda_counts(&gda), WEFT_OK);
        for (uint32_t i = 0; i < COUNT; i++) {
            const struct weft_dev_gda_queue *q = &queues[gda_device_queue_index(&gda, i)];
            assert_int_equal(q->turns, 100 + i);
            assert_int_equal(q->done, 200 + i);
            assert_int_equal(q->open, 300 + i);
            assert_int_equal(q->flushed, 400 + i);
        }
        calls = 0;
        fails_at = 1;
        queues[gda_device_queue_index(&gda, COUNT - 1)].done = 17;
        assert_int_equal(gda_read_cuda_counts(&gda), WEFT_ERR_TIMEOUT);
        assert_int_equal(queues[gda_device_queue_index(&gda, COUNT - 1)].done, 17);
        end();
    }
}

/* Each allocation and each copy fails once. */
static void tables_that_fail(void **state)
{
    for (int call = 1;; call++) {
        setup(state);
        device_code = true;
        assert_int_equal(begin(), WEFT_OK);
        assert_int_equal(gda_read_cuda_counts(&gda), WEFT_OK); /* there is nothing to read yet */
        calls = 0;
        fails_at = call;
        weft_status status = gda_write_cuda_table(&gda, &dev);
        if (calls < call)
            assert_int_equal(status, WEFT_OK);
        else
            assert_true(status == WEFT_ERR_NO_MEMORY || status == WEFT_ERR_TIMEOUT);
        bool ended = calls < call;
        fails_at = 0;
        end();
        if (ended)
            break;
        assert_in_range(call, 1, 40);
    }
}

/* The table of keys has memory where units have: with a window of 2256 units, as on an H200, for
 * the heap's units at its start, and for memory that the program registers, at its end. */
static void keys_of_large_windows(void **state)
{
    enum { WINDOW_UNITS = 2256, HEAP_UNITS = 256, ROW = 2 * ADAPTERS * PES * sizeof(uint32_t) };
    setup(state);
    device_code = true;
    gpu.heap.size = WINDOW_UNITS * UNIT;
    extents[0] = (struct gpu_extent){0, UNIT};
    extents[1] = (struct gpu_extent){UNIT, (HEAP_UNITS - 1) * UNIT};
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
    assert_int_equal(live_pages, (CHUNKS + HEAP_UNITS) * ROW / PAGE + 1);
    const uint32_t *keys = dev.gda.queues[0].remote_keys;
    const size_t last = (CHUNKS + WINDOW_UNITS - 1) * dev.gda.key_step;
    extents[extent_count++] = (struct gpu_extent){(WINDOW_UNITS - 1) * UNIT, UNIT};
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(live_pages, (CHUNKS + HEAP_UNITS) * ROW / PAGE + 2);
    assert_int_equal(keys[last], remote_key(WINDOW_UNITS - 1, 0, 0, 0));
    assert_int_not_equal(keys[last], 0);
    /* What is next to it is zero, and it is again when the memory is not registered any more. */
    assert_int_equal(keys[last - dev.gda.key_step], 0);
    extent_count--;
    assert_int_equal(begin(), WEFT_OK);
    assert_int_equal(keys[last], 0);
    assert_int_equal(keys[(CHUNKS + 1) * dev.gda.key_step], remote_key(1, 0, 0, 0));
    end();
}

/* A part that lies in two pages gives both memory, once. */
static void part_of_two_pages(void **state)
{
    struct gpu_sparse table;
    setup(state);
    assert_int_equal(gpu_sparse_open(&gpu, 2 * PAGE + 1, &table), WEFT_OK);
    assert_int_equal(table.bytes, 3 * PAGE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gpu_sparse_back(&gpu, 0, &table, PAGE - 8, 16), WEFT_OK);
        assert_int_equal(live_pages, 2);
    }
    for (size_t at = 0; at < 2 * PAGE; at++)
        assert_int_equal(((char *)(uintptr_t)table.base)[at], 0);
    assert_int_equal(gpu_sparse_back(&gpu, 0, &table, 3 * PAGE - 1, 1), WEFT_OK);
    assert_int_equal(live_pages, 3);
    gpu_sparse_close(&gpu, &table);
    gpu_sparse_close(&gpu, &table);
    assert_int_equal(ranges | live_pages | mapped_pages, 0);
}

/* Each step of writing keys to another page of the table fails once. The next call completes it. */
static void larger_table_that_fails(void **state)
{
    enum { FAR = 1000 };
    for (int call = 1;; call++) {
        setup(state);
        device_code = true;
        gpu.heap.size = 2 * FAR * UNIT;
        assert_int_equal(begin(), WEFT_OK);
        assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
        gda.gpu->keys[FAR] = gda.gpu->all_keys->strict;
        calls = 0;
        fails_at = call;
        bool failed = gda_write_cuda_keys(&gda) != WEFT_OK;
        assert_int_equal(failed, calls >= call);
        fails_at = 0;
        assert_int_equal(gda_write_cuda_keys(&gda), WEFT_OK);
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t at = (CHUNKS + FAR) * dev.gda.key_step;
            expect_unit_keys(&dev.gda, i, 4);
            assert_int_equal(dev.gda.queues[i].remote_keys[at],
                             remote_key(FAR, 0, i % EACH % ADAPTERS, i / EACH));
        }
        end();
        if (!failed)
            break;
        assert_in_range(call, 1, 60);
    }
}

/* ------------------------------------------------------------- queues connected at first use */

static atomic_uchar states[PES];
static char asked[GDA_PAGE];
static void setup_first_use(void **state, bool far)
{
    setup(state);
    states[ME] = GDA_LINK_UP;
    states[0] = GDA_LINK_NONE;
    gda.eager = false;
    gda.links = states;
    gda.queue_bytes = GDA_PAGE / 2; /* a page holds those of two adapters and of device code */
    gda.requests = asked;
    gda.requests_bytes = sizeof asked;
    gda.wanted = (uint8_t *)asked + 64;
    far_queues = far ? REAL : NONE;
    device_code = true;
}

/* All that is read before a reservation is there, and nothing else. */
static void expect_unconnected(const struct weft_dev_gda_queue *q, uint32_t i)
{
    assert_int_equal(q->ready, 0);
    assert_int_equal(q->ring.last, 0);
    assert_false(weft_dev_gda_room_at_once(&q->ring, 0, 1));
    assert_int_equal(weft_dev_gda_cqe_opcode(*q->completion), WEFT_DEV_GDA_CQE_NONE);
    assert_int_equal(q->name, i % EACH);
    assert_int_equal(q->used_bit, i);
    assert_int_equal(q->local_keys[0], host_local[i % EACH % ADAPTERS * CHUNKS]);
    assert_int_equal(q->remote_keys[0],
                     host_remote[(i % EACH % ADAPTERS * PES + i / EACH) * CHUNKS]);
    assert_null(q->marks);
    assert_null(q->ring.doorbell);
}

/* Counts of device code, which waits with blocks that it has reserved. */
static void reserve_some(struct weft_dev_gda_queue *q)
{
    q->turns += (uint64_t)3 << 32;
    q->counted = 77;
    q->looks = 1;
}

static void expect_reserved(const struct weft_dev_gda_queue *q)
{
    assert_int_equal(q->turns, WEFT_DEV_GDA_UNUSED + ((uint64_t)3 << 32));
    assert_int_equal(q->counted, 77);
    assert_int_equal(q->looks, 1);
    assert_int_equal(q->ready, 1);
}

static void queues_at_first_use(void **state)
{
    for (int far = 0; far <= 1; far++) {
        setup_first_use(state, far);
        assert_int_equal(begin(), WEFT_OK);
        assert_string_equal(gda.gpu->why_proxy, "");
        assert_int_equal(made_count, far ? EACH : 0);
        assert_int_equal(connected_count, far ? EACH : 0);
        assert_int_equal(pinned, 2); /* what device code asks for, and the queues to itself */
        assert_ptr_equal(pins[0].at, asked);
        assert_ptr_equal(pins[1].at, gda_link_area(&gda, ME));
        assert_int_equal(pins[1].bytes, gda_link_bytes(&gda));
        assert_int_equal(mapped, EACH);
        assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
        const struct weft_dev_gda *table = &dev.gda;
        assert_ptr_equal(table->wanted, gda.wanted);
        for (uint32_t k = 0; k < EACH; k++) {
            expect_unconnected(&table->queues[k], k);
            expect_marks(table, ME * EACH + k);
            assert_int_equal(table->queues[ME * EACH + k].ready, 1);
            reserve_some(&table->queues[k]);
        }
        /* Its counts are not those of a queue that the host waits for. */
        assert_int_equal(gda_read_cuda_counts(&gda), WEFT_OK);
        assert_int_equal(queues[gda_device_queue_index(&gda, 0)].done, 9);
        bool refused = true;
        assert_int_equal(gda_create_gpu_link(&gda, 0, &refused), WEFT_OK);
        assert_int_equal(gda_connect_gpu_link(&gda, 0, &their_row[number_at(ME * EACH)]), WEFT_OK);
        assert_int_equal(made_count, far ? COUNT : 0);
        assert_int_equal(connected_count, far ? COUNT : 0);
        assert_int_equal(gda_open_cuda_link(&gda, 0), WEFT_OK);
        states[0] = GDA_LINK_UP;
        assert_int_equal(pinned, 3);
        assert_ptr_equal(pins[2].at, gda_link_area(&gda, 0));
        for (uint32_t k = 0; k < EACH; k++) {
            expect_reserved(&table->queues[k]);
            expect_marks(table, k);
            assert_int_equal(table->queues[k].number, far ? 0x7000 + EACH + k : 0);
            assert_int_equal((uintptr_t)table->queues[k].ring.doorbell,
                             far ? 0x5000 + EACH + k : 0x5000 + k);
        }
        if (far) { /* both have memory in one slab, the second behind the first */
            assert_null(gda.gpu_queues->slabs->next);
            assert_int_equal(made[EACH].at.ring, EACH * gda_queue_bytes(DEPTH));
            assert_int_equal(gda_gpu_results_key(gda.gpu_queues, 0, 1),
                             htobe32(gda.gpu_queues->slabs->regions[1]->lkey));
        }
        end();
    }
}

/* A NIC refuses the queues: device code gets queues that threads of the host execute. */
static void queues_refused_at_first_use(void **state)
{
    for (int call = 1; call <= 1 + 3 * EACH; call++) {
        setup_first_use(state, true);
        assert_int_equal(begin(), WEFT_OK);
        assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
        struct weft_dev_gda_queue *q = &dev.gda.queues[0];
        reserve_some(q);
        gda.gpu_queues->slabs->used =
            call > EACH ? gda.gpu_queues->slabs->used : gda.gpu_queues->slabs->links;
        calls = 0;
        fails_at = call;
        bool refused = false;
        weft_status status = gda_create_gpu_link(&gda, 0, &refused);
        fails_at = 0;
        if (!status || !refused) { /* the job goes on, or ends with it */
            end();
            continue;
        }
        assert_int_equal(gda_describe_dead_gpu_link(&gda, 0), WEFT_OK);
        const int maps = mapped;
        assert_int_equal(gda_open_cuda_link(&gda, 0), WEFT_OK);
        assert_int_equal(mapped, maps);
        expect_reserved(q);
        assert_int_equal(q->number, 0);
        assert_int_equal(q->ring.last, DEPTH - 1);
        assert_in_range((uintptr_t)q->ring.doorbell, gda.gpu_queues->slabs->area,
                        gda.gpu_queues->slabs->area + gda.gpu_queues->slabs->bytes);
        states[0] = GDA_LINK_UP;
        end();
    }
}

/* Each step of giving the GPU its part of a link fails once. */
static void link_that_fails(void **state)
{
    for (int call = 1;; call++) {
        setup_first_use(state, false);
        assert_int_equal(begin(), WEFT_OK);
        assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
        const struct weft_dev_gda *table = &dev.gda;
        calls = 0;
        fails_at = call;
        weft_status status = gda_open_cuda_link(&gda, 0);
        bool ended = calls < call;
        assert_int_equal(status != WEFT_OK, !ended);
        /* Device code does not use a queue that is written in part. */
        if (!ended)
            assert_int_equal(table->queues[EACH - 1].ready, 0);
        fails_at = 0;
        end();
        if (ended)
            break;
        assert_in_range(call, 1, 40);
    }
}

static void doorbells(void **state)
{
    static const struct {
        const char *wish;
        int refused_from;
        enum gpu_register_kind kind;
        int by_thread;
        const char *text;
    } rows[] = {
        {"auto", COUNT, GPU_REGISTER_DEVICE, 0, "the GPU rings doorbells"},
        {"gpu", COUNT, GPU_REGISTER_DEVICE, 0, "the GPU rings doorbells"},
        {"auto", COUNT, GPU_REGISTER_MEMORY, 0, "the GPU rings doorbells in plain memory"},
        {"cpu", COUNT, GPU_REGISTER_DEVICE, COUNT, "a thread rings doorbells (WEFT_GDA_DOORBELL)"},
        {"auto", 4, GPU_REGISTER_DEVICE, 2, "a thread rings doorbells: register 5 is refused"},
    };
    char text[300], wanted[300];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int far = 0; far <= 1; far++) {
            setup(state);
            setenv("WEFT_GDA_DOORBELL", rows[i].wish, 1);
            config_reset();
            device_code = true;
            far_queues = far ? REAL : NONE;
            refused_from = rows[i].refused_from;
            kind = rows[i].kind;
            assert_int_equal(begin(), WEFT_OK);
            assert_string_equal(gda.gpu->why_proxy, "");
            assert_non_null(gda.cuda);
            assert_int_equal(rung_count, rows[i].by_thread);
            assert_int_equal(bells, rows[i].by_thread != 0);
            if (rows[i].by_thread)
                assert_int_equal(bell_lines, COUNT);
            for (int k = 0; k < rung_count; k++) {
                int queue = COUNT - rung_count + k;
                assert_ptr_equal(rung[k].word, area + queue * GDA_PAGE + 256);
                assert_ptr_equal(rung[k].doorbell, &registers[queue]);
            }
            gda_describe_cuda(&gda, text, sizeof text);
            snprintf(wanted, sizeof wanted, "%s; queues in %s", rows[i].text,
                     far ? "GPU memory" : "host memory: none in this test");
            assert_string_equal(text, wanted);
            for (size_t room = 1; room < 60; room++) {
                memset(text, 0, sizeof text);
                gda_describe_cuda(&gda, text, room);
                assert_int_equal(strlen(text), strlen(wanted) < room ? strlen(wanted) : room - 1);
            }
            assert_int_equal(gda_write_cuda_table(&gda, &dev), WEFT_OK);
            const struct weft_dev_gda *table = &dev.gda;
            for (int k = 0; k < COUNT; k++)
                assert_int_equal((uintptr_t)table->queues[k].ring.doorbell,
                                 k < COUNT - rung_count ? 0x5000 + (uintptr_t)k
                                                        : (uintptr_t)area + k * GDA_PAGE + 256);
            end();
            assert_int_equal(unpinned_registers, COUNT);
            assert_int_equal(unpinned_areas, 2); /* and what device code asks for */
        }
}

/* Device code that cannot post requests leaves them to the proxy. This is an error if
 * WEFT_GDA_DOORBELL requires the GPU. */
static void without_device_code(void **state)
{
    static const struct {
        const char *name, *value;
        int fails_at;
        uintptr_t moved;
        int refused_from;
        weft_status status;
        const char *lacks;
    } rows[] = {
        {"WEFT_TEST_GDA_INITIATOR", "cpu", 0, 0, COUNT, WEFT_OK, "WEFT_TEST_GDA_INITIATOR is cpu"},
        {"WEFT_GDA_DOORBELL", "auto", 1, 0, COUNT, WEFT_OK, "nothing can be pinned"},
        {"WEFT_GDA_DOORBELL", "auto", 2, 0, COUNT, WEFT_OK, "the GPU sees nothing"},
        {"WEFT_GDA_DOORBELL", "auto", 0, 8, COUNT, WEFT_OK,
         "GPU 3 maps host memory at different addresses than the host"},
        {"WEFT_GDA_DOORBELL", "gpu", 0, 8, COUNT, WEFT_ERR_CONFIG,
         "GPU 3 maps host memory at different addresses than the host"},
        {"WEFT_GDA_DOORBELL", "auto", 3, 0, COUNT, WEFT_OK, "nothing can be pinned"},
        {"WEFT_GDA_DOORBELL", "cpu", 4, 0, COUNT, WEFT_OK, "no thread"},
        {"WEFT_GDA_DOORBELL", "auto", 4, 0, 1, WEFT_OK, "no thread"},
        {"WEFT_GDA_DOORBELL", "gpu", 0, 0, 1, WEFT_ERR_CONFIG,
         "path gda: the GPU may not write the doorbells of mlx5_1 (register 1 is refused), and "
         "WEFT_GDA_DOORBELL is gpu"},
    };
    char text[200], wanted[300];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        setenv(rows[i].name, rows[i].value, 1);
        config_reset();
        extent_count = 0;
        device_code = true;
        fails_at = rows[i].fails_at;
        moved = rows[i].moved;
        refused_from = rows[i].refused_from;
        assert_int_equal(begin(), rows[i].status);
        assert_null(gda.cuda);
        assert_int_equal(bells, 0);
        if (rows[i].status) {
            assert_string_equal(base_last_error(), rows[i].lacks);
            end();
            continue;
        }
        assert_string_equal(gda.gpu->why_proxy, rows[i].lacks);
        gda_describe_cuda(&gda, text, sizeof text);
        snprintf(wanted, sizeof wanted, "device code goes through the proxy: %.120s",
                 rows[i].lacks);
        assert_string_equal(text, wanted);
        assert_int_equal(gda_read_cuda_counts(&gda), WEFT_OK);
        assert_int_equal(gda_write_cuda_keys(&gda), WEFT_OK);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_have_keys),
        cmocka_unit_test_setup(allocations_come_and_go, setup),
        cmocka_unit_test_setup(registered_by_address, setup),
        cmocka_unit_test(every_registration_fails),
        cmocka_unit_test(memory_is_missing),
        cmocka_unit_test_setup(writes_are_flushed, setup),
        cmocka_unit_test_setup(the_other_pe_fails, setup),
        cmocka_unit_test_setup(queues_in_gpu_memory, setup),
        cmocka_unit_test(no_queues_in_gpu_memory),
        cmocka_unit_test(making_queues_fails),
        cmocka_unit_test(tables_of_device_code),
        cmocka_unit_test(tables_that_fail),
        cmocka_unit_test(keys_of_large_windows),
        cmocka_unit_test(part_of_two_pages),
        cmocka_unit_test(larger_table_that_fails),
        cmocka_unit_test(queues_at_first_use),
        cmocka_unit_test(queues_refused_at_first_use),
        cmocka_unit_test(link_that_fails),
        cmocka_unit_test(doorbells),
        cmocka_unit_test(without_device_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
