/* SPDX-License-Identifier: Apache-2.0 */
/* What a PE of path gda makes at two adapters and exchanges with the other PEs: memory regions and
 * their keys, queues in their area, and connections. Every call of the adapters' library can fail,
 * and then everything is undone. */
#include "path/gda/dc.h"
#include "unit/own_memory.h"

#include "base/config.h"
#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum {
    PES = 3,
    ME = 1,
    ADAPTERS = 2,
    EACH = 3,
    DEPTH = 128,
    CHUNK = 64 << 10,
    HEAP = 3 * CHUNK + 5000, /* 4 chunks */
    SYSTEM = CHUNK,          /* 1 chunk */
    CHUNKS = 5,
    QUEUES = PES * (EACH + ADAPTERS),
    OPEN = 15, /* access: local and remote writes, reads, atomics */
    RELAXED = IBV_ACCESS_RELAXED_ORDERING
};

/* -------------------------------------------------------------------------------- own memory */

void *__real_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
    void *made = is_missing() ? MAP_FAILED : __real_mmap(at, bytes, access, flags, fd, offset);
    live_memory += made != MAP_FAILED;
    return made;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes)
{
    assert_non_null(at);
    live_memory--;
    return __real_munmap(at, bytes);
}

/* Fakes for device code and GPU memory, which other files of path gda close. */
static int closed_cuda, closed_far, freed_simt, freed_gpu;
void __wrap_gda_close_cuda(struct gda *of);
void __wrap_gda_close_cuda(struct gda *of)
{
    (void)of;
    closed_cuda++;
}

void __wrap_gda_close_gpu_queues(struct gda *of);
void __wrap_gda_close_gpu_queues(struct gda *of)
{
    assert_non_null(of->adapters);
    closed_far++;
}

void __wrap_gda_free_simt(struct gda_simt *simt);
void __wrap_gda_free_simt(struct gda_simt *simt)
{
    (void)simt;
    freed_simt++;
}

void __wrap_gda_free_gpu(struct gda *of);
void __wrap_gda_free_gpu(struct gda *of)
{
    assert_non_null(of->adapters);
    freed_gpu++;
}

/* ------------------------------------------------------------------------------- the adapters */

static int calls, fails_at, live; /* objects that were made and not yet destroyed */

static bool fails(void)
{
    if (++calls != fails_at)
        return false;
    errno = ENOMEM;
    return true;
}

static struct region {
    struct ibv_mr mr;
    struct ibv_pd *pd;
    int access;
} regions[64];
static int region_count;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
    if (fails())
        return NULL;
    assert_in_range(region_count, 0, 63);
    struct region *made = &regions[region_count];
    uint32_t number = (uint32_t)++region_count;
    *made = (struct region){
        {.addr = at, .length = bytes, .lkey = 0x11000 + number, .rkey = 0xab220000 + number},
        pd,
        access};
    live++;
    return &made->mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
    assert_non_null(mr->addr);
    mr->addr = NULL;
    live--;
    return 0;
}

static struct mlx5dv_devx_umem umems[ADAPTERS] = {{.umem_id = 0x501}, {.umem_id = 0x502}};
static struct mlx5dv_devx_uar uars[QUEUES + 1];
static uint64_t doorbells[QUEUES + 1];
static int uar_count;
static bool no_uncached;
static char *area;
static size_t area_bytes;

static struct ibv_context *context_of(int a)
{
    return (struct ibv_context *)(uintptr_t)(0x1000 + 16 * a);
}

static int adapter_at(const struct ibv_context *context)
{
    int a = (int)(((uintptr_t)context - 0x1000) / 16);
    assert_in_range(a, 0, ADAPTERS - 1);
    return a;
}

static struct mlx5dv_devx_umem *umem_reg(struct ibv_context *context, void *at, size_t bytes,
                                         uint32_t access)
{
    if (fails())
        return NULL;
    assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE);
    area = at;
    area_bytes = bytes;
    live++;
    return &umems[adapter_at(context)];
}

static int umem_dereg(struct mlx5dv_devx_umem *umem)
{
    assert_in_range(umem - umems, 0, ADAPTERS - 1);
    live--;
    return 0;
}

static struct mlx5dv_devx_uar *alloc_uar(struct ibv_context *context, uint32_t flags)
{
    adapter_at(context);
    static bool refused;
    if (flags == 1 && (no_uncached || fails())) {
        refused = true;
        return NULL;
    }
    /* A write-combining register is used only if the adapter has no other. */
    assert_int_equal(flags, !refused);
    refused = false;
    if (flags == 0 && fails())
        return NULL;
    uars[uar_count] = (struct mlx5dv_devx_uar){.reg_addr = &doorbells[uar_count],
                                               .page_id = 0x700 + (uint32_t)uar_count};
    live++;
    return &uars[uar_count++];
}

static void free_uar(struct mlx5dv_devx_uar *uar)
{
    assert_in_range(uar - uars, 0, QUEUES);
    live--;
}

static uint32_t word(const void *buffer, size_t at)
{
    uint32_t value;
    memcpy(&value, (const char *)buffer + at, sizeof value);
    return be32toh(value);
}

/* The objects that were made: for each queue a completion queue, then the queue pair. */
static struct object {
    bool pair, gone;
    int adapter, uar;
    uint32_t ring_at, record_at, umem, cq, number;
    unsigned char init[272], receive[272], send[272];
    int steps;
} objects[2 * QUEUES + 2];
static int object_count;

static struct mlx5dv_devx_obj *obj_create(struct ibv_context *context, const void *in, size_t count,
                                          void *out, size_t room)
{
    (void)count;
    if (fails())
        return NULL;
    assert_in_range(object_count, 0, 2 * QUEUES + 1);
    struct object *made = &objects[object_count++];
    bool pair = word(in, 0) >> 16 == 0x500;
    *made = (struct object){.pair = pair,
                            .adapter = adapter_at(context),
                            .uar = (int)((word(in, pair ? 0x24 : 0x1c) & 0xffffff) - 0x700),
                            .ring_at = word(in, pair ? 0x104 : 0x54),
                            .record_at = word(in, pair ? 0xbc : 0x4c),
                            .umem = word(in, pair ? 0x108 : 0x58),
                            .cq = word(in, 0x94),
                            .number = 0x4000 + 3 * (uint32_t)object_count};
    memset(out, 0, room);
    uint32_t number = htobe32(made->number);
    memcpy((char *)out + 8, &number, sizeof number);
    live++;
    return (struct mlx5dv_devx_obj *)(void *)made;
}

static int obj_destroy(struct mlx5dv_devx_obj *of)
{
    struct object *object = (void *)of;
    assert_false(object->gone);
    object->gone = true;
    live--;
    return 0;
}

static int modifications;
static int obj_modify(struct mlx5dv_devx_obj *of, const void *in, size_t count, void *out,
                      size_t room)
{
    struct object *object = (void *)of;
    memset(out, 0, room);
    modifications++;
    if (fails())
        return ENOMEM;
    assert_true(object->pair);
    assert_int_equal(word(in, 8), object->number);
    assert_int_equal(word(in, 0) >> 16, 0x502 + object->steps);
    memcpy(object->steps == 0   ? object->init
           : object->steps == 1 ? object->receive
                                : object->send,
           in, count);
    object->steps++;
    return 0;
}

static bool handle_without_address;
static struct mlx5_wqe_av av = {.rmac = {2, 4, 6, 8, 10, 12}};
static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    static struct ibv_ah handle;
    if (fails())
        return NULL;
    assert_int_equal(attr->is_global, 1);
    assert_int_equal(attr->port_num, 1);
    assert_int_equal(attr->grh.hop_limit, 64);
    assert_int_equal(attr->grh.sgid_index, 5);
    assert_int_equal(attr->grh.dgid.raw[15], 0x99);
    handle.pd = pd;
    live++;
    return &handle;
}

static int destroy_ah(struct ibv_ah *handle)
{
    assert_non_null(handle->pd);
    live--;
    return 0;
}

static int init_obj(struct mlx5dv_obj *object, uint64_t type)
{
    assert_int_equal(type, MLX5DV_OBJ_AH);
    if (fails())
        return ENOMEM;
    object->ah.out->av = handle_without_address ? NULL : &av;
    return 0;
}

/* DC targets, by adapter. */
static struct {
    struct ibv_cq cq;
    struct ibv_srq srq;
    struct ibv_qp qp;
    uint64_t key;
    int moves;
} targets[ADAPTERS];

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *of,
                                struct ibv_comp_channel *channel, int vector)
{
    assert_in_range(entries, 1, 16);
    assert_true(!of && !channel && !vector);
    if (fails())
        return NULL;
    live++;
    return &targets[adapter_at(context)].cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
    (void)cq;
    live--;
    return 0;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    assert_in_range(attr->attr.max_wr, 1, 16);
    assert_int_equal(attr->attr.max_sge, 1);
    if (fails())
        return NULL;
    live++;
    return &targets[((uintptr_t)pd - 0x2000) / 16].srq;
}

static int destroy_srq(struct ibv_srq *srq)
{
    (void)srq;
    live--;
    return 0;
}

static struct ibv_qp *create_target(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                                    struct mlx5dv_qp_init_attr *dv)
{
    const int a = adapter_at(context);
    assert_int_equal(attr->qp_type, IBV_QPT_DRIVER);
    assert_ptr_equal(attr->srq, &targets[a].srq);
    assert_ptr_equal(attr->recv_cq, &targets[a].cq);
    assert_int_equal(dv->comp_mask, MLX5DV_QP_INIT_ATTR_MASK_DC);
    assert_int_equal(dv->dc_init_attr.dc_type, MLX5DV_DCTYPE_DCT);
    if (fails())
        return NULL;
    live++;
    targets[a].key = dv->dc_init_attr.dct_access_key;
    targets[a].moves = 0;
    targets[a].qp.qp_num = 0;
    return &targets[a].qp;
}

/* The number of a target is known when it can receive. */
static int modify_target(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    const int a = qp == &targets[1].qp;
    if (fails())
        return ENOMEM;
    assert_int_equal(attr->qp_state, targets[a].moves++ ? IBV_QPS_RTR : IBV_QPS_INIT);
    if (attr->qp_state == IBV_QPS_INIT)
        assert_int_equal(attr->qp_access_flags, OPEN & ~IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(!(mask & IBV_QP_AV), attr->qp_state == IBV_QPS_INIT);
    if (attr->qp_state == IBV_QPS_RTR)
        qp->qp_num = 0x9000 + (uint32_t)a;
    return 0;
}

static int destroy_target_of(struct ibv_qp *qp)
{
    assert_true(qp == &targets[0].qp || qp == &targets[1].qp);
    live--;
    return 0;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    assert_non_null(pd);
    live--;
    return 0;
}

static int close_device(struct ibv_context *context)
{
    adapter_at(context);
    live--;
    return 0;
}

/* -------------------------------------------------------------------------------- the other PEs */

static struct told {
    struct gda_record record;
    uint32_t words[ADAPTERS * CHUNKS * 2 + PES * (EACH + ADAPTERS) + 1];
} told[PES];
static uint32_t sizes[PES][6];
static bool other_sizes;
static int agreements, disagrees_at, gathers, gather_fails_at;
static size_t told_bytes;
static void (*spoil)(void); /* changes the exchange records of the other PEs */

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    if (++agreements == disagrees_at && !status)
        return base_fail(WEFT_ERR_PEER_DEAD, "another PE has failed");
    return status;
}

static size_t keys_told(void)
{
    return (size_t)ADAPTERS * CHUNKS * (1 + told[ME].record.relaxed);
}

static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    (void)boot;
    if (++gathers == gather_fails_at)
        return base_fail(WEFT_ERR_TIMEOUT, "the others do not come");
    if (gathers == 1) {
        assert_int_equal(bytes, sizeof sizes[0]);
        for (int pe = 0; pe < PES; pe++)
            if (pe == ME || !other_sizes)
                memcpy(sizes[pe], mine, bytes);
        memcpy(all, sizes, sizeof sizes);
        return WEFT_OK;
    }
    assert_in_range(bytes, sizeof told[0].record, sizeof told[0]);
    told_bytes = bytes;
    memset(told, 0, sizeof told);
    memcpy(&told[ME], mine, bytes);
    for (int pe = 0; pe < PES; pe++) {
        struct told *one = &told[pe];
        if (pe == ME)
            continue;
        one->record = told[ME].record;
        one->record.seed = 0x1234567 * ((uint64_t)pe + 1);
        for (int a = 0; a < ADAPTERS; a++) {
            one->record.addresses[a].lid = 0x100 * (uint32_t)pe + (uint32_t)a + 1;
            one->record.addresses[a].mac[5] = (uint8_t)(16 * pe + a);
        }
        for (int s = 0; s < SEG_COUNT; s++)
            one->record.bases[s] = ((uint64_t)pe + 1) << 40 | (uint64_t)s << 32;
        for (size_t i = 0; i < sizeof one->words / sizeof one->words[0]; i++)
            one->words[i] = 0x10000 * (uint32_t)(pe + 1) + 0x100 + (uint32_t)i;
    }
    if (spoil)
        spoil();
    for (int pe = 0; pe < PES; pe++)
        memcpy((char *)all + (size_t)pe * bytes, &told[pe], bytes);
    return WEFT_OK;
}

static const struct boot_ops ops = {.allgather = gather};
static struct boot boot = {.ops = &ops, .pe = ME, .npes = PES};
/* The segments, followed by memory outside of them. */
static char heap[2 * CHUNK + HEAP], system_segment[2 * SYSTEM];
static char *maps[PES][SEG_COUNT];
static struct path_world world = {.pe = ME, .npes = PES, .boot = &boot, .map = maps};
static struct gda *gda;

static void close_library(void)
{
    live--;
}

void __wrap_mlx5_close(struct mlx5 *mlx5);
void __wrap_mlx5_close(struct mlx5 *mlx5)
{
    (void)mlx5;
    close_library();
}

static bool ethernet;
static weft_status join(void)
{
    struct gda_adapters *adapters = __real_calloc(1, sizeof *adapters);
    live_memory = 1;
    calls = region_count = uar_count = object_count = modifications = agreements = gathers = 0;
    memset(objects, 0, sizeof objects);
    *adapters = (struct gda_adapters){.lib = {.verbs = {.reg_mr = reg_mr,
                                                        .dereg_mr = dereg_mr,
                                                        .create_ah = create_ah,
                                                        .destroy_ah = destroy_ah,
                                                        .create_cq = create_cq,
                                                        .destroy_cq = destroy_cq,
                                                        .create_srq = create_srq,
                                                        .destroy_srq = destroy_srq,
                                                        .modify_qp = modify_target,
                                                        .destroy_qp = destroy_target_of,
                                                        .dealloc_pd = dealloc_pd,
                                                        .close_device = close_device},
                                              .dv = {.init_obj = init_obj,
                                                     .create_qp = create_target,
                                                     .obj_create = obj_create,
                                                     .obj_destroy = obj_destroy,
                                                     .obj_modify = obj_modify,
                                                     .umem_reg = umem_reg,
                                                     .umem_dereg = umem_dereg,
                                                     .alloc_uar = alloc_uar,
                                                     .free_uar = free_uar},
                                              .handle = &live},
                                      .count = ADAPTERS,
                                      .dc = true};
    live = 1 + 2 * ADAPTERS; /* the library, devices and protection domains */
    for (int a = 0; a < ADAPTERS; a++) {
        adapters->one[a] =
            (struct gda_adapter){.lib = &adapters->lib,
                                 .context = context_of(a),
                                 .pd = (struct ibv_pd *)(uintptr_t)(0x2000 + 16 * a),
                                 .port = {.lid = (uint16_t)(0x77 + a), .active_mtu = 4},
                                 .gid_index = 5,
                                 .ethernet = ethernet};
        snprintf(adapters->one[a].name, GDA_NAME_BYTES, "mlx5_%d", a);
        adapters->one[a].gid.raw[15] = 0x99;
        adapters->one[a].gid.raw[0] = (uint8_t)(0xf0 + a);
    }
    adapters->one[ADAPTERS].port.lid = 99; /* an adapter that is not used */
    gda = NULL;
    memory_calls = 0;
    return gda_create(&world, adapters, &gda);
}

static void leave(void)
{
    const int used = gda->adapters != NULL;
    closed_cuda = closed_far = freed_simt = freed_gpu = 0;
    gda_destroy(gda);
    assert_int_equal(live, 0);
    assert_int_equal(live_memory, 0);
    assert_int_equal(closed_cuda, 1);
    assert_int_equal(freed_simt, 1);
    assert_int_equal(closed_far, used);
    assert_int_equal(freed_gpu, used);
}

static int setup(void **state)
{
    (void)state;
    setenv("WEFT_LOG", "none", 1);
    setenv("WEFT_GDA_QUEUES", "3", 1);
    setenv("WEFT_TEST_GDA_DEPTH", "128", 1);
    setenv("WEFT_TEST_GDA_CHUNK", "64K", 1);
    unsetenv("WEFT_TEST_GDA");
    unsetenv("WEFT_TEST_GDA_RC");
    config_reset();
    world.sizes[0] = HEAP;
    world.sizes[1] = 0;
    world.sizes[2] = SYSTEM;
    maps[ME][0] = heap;
    maps[ME][1] = NULL;
    maps[ME][2] = system_segment;
    fails_at = disagrees_at = gather_fails_at = memory_fails_at = 0;
    other_sizes = no_uncached = ethernet = handle_without_address = false;
    spoil = NULL;
    return 0;
}

/* ------------------------------------------------------------------------------------ the tests */

/* Every chunk is registered at every adapter. The last chunk of a segment has the remaining
 * length. */
static void chunks_are_registered(void **state)
{
    for (int relaxed = 0; relaxed <= 1; relaxed++) {
        setup(state);
        setenv("WEFT_TEST_GDA", relaxed ? "relaxed" : "off", 1);
        config_reset();
        assert_int_equal(join(), WEFT_OK);
        assert_int_equal(gda->chunks, CHUNKS);
        assert_int_equal(gda->chunk_bits, 16);
        assert_int_equal(gda->first[0], 0);
        assert_int_equal(gda->first[1], 4);
        assert_int_equal(gda->first[2], 4);
        assert_int_equal(gda->relaxed, relaxed);
        int number = 0;
        for (int a = 0; a < ADAPTERS; a++)
            for (int c = 0; c < CHUNKS; c++)
                for (int again = 0; again <= relaxed; again++) {
                    const struct region *region = &regions[number++];
                    size_t at = (size_t)a * CHUNKS + (size_t)c;
                    assert_ptr_equal(region->pd, gda->adapters->one[a].pd);
                    assert_ptr_equal(region->mr.addr,
                                     c < 4 ? heap + (size_t)c * CHUNK : system_segment);
                    assert_int_equal(region->mr.length, c == 3 ? 5000 : CHUNK);
                    assert_int_equal(region->access, again ? OPEN | RELAXED : OPEN);
                    assert_ptr_equal(gda->regions[at + (again ? ADAPTERS * CHUNKS : 0)],
                                     &region->mr);
                    assert_int_equal(told[ME].words[at + (again ? ADAPTERS * CHUNKS : 0)],
                                     htobe32(region->mr.rkey));
                    if (again == relaxed)
                        assert_int_equal(gda->local_keys[at], htobe32(region->mr.lkey));
                }
        for (int a = 0; a < ADAPTERS; a++, number++) { /* the bounce buffers */
            assert_ptr_equal(regions[number].mr.addr, gda->bounce);
            assert_int_equal(regions[number].mr.length, GDA_BOUNCES * GDA_BOUNCE_BYTES);
            assert_ptr_equal(regions[number].pd, gda->adapters->one[a].pd);
            assert_ptr_equal(gda->bounce_regions[a], &regions[number].mr);
        }
        leave();
    }
}

/* The last chunk of a segment may have only one byte. */
static void chunks_of_one_byte(void **state)
{
    (void)state;
    world.sizes[0] = CHUNK + 1;
    world.sizes[1] = 1;
    world.sizes[2] = 2 * CHUNK;
    maps[ME][1] = heap + 3 * CHUNK;
    assert_int_equal(join(), WEFT_OK);
    static const size_t lengths[CHUNKS] = {CHUNK, 1, 1, CHUNK, CHUNK};
    assert_int_equal(gda->chunks, CHUNKS);
    assert_int_equal(gda->first[1], 2);
    assert_int_equal(gda->first[2], 3);
    for (int c = 0; c < CHUNKS; c++)
        assert_int_equal(regions[c].mr.length, lengths[c]);
    leave();
}

/* Each allocation fails once: the PE reports it and frees everything. */
static void memory_is_missing(void **state)
{
    int calls_then = 0;
    (void)state;
    for (memory_fails_at = 1;; memory_fails_at++) {
        weft_status status = join();
        calls_then = memory_calls;
        if (!status)
            break;
        assert_int_equal(status, WEFT_ERR_NO_MEMORY);
        if (gda) {
            leave();
            continue;
        }
        assert_int_equal(live, 0);
        assert_int_equal(live_memory, 0);
    }
    assert_int_equal(calls_then, memory_fails_at - 1);
    assert_in_range(calls_then, 15, 24);
    leave();
}

/* Layout of the area. At depth 128: two rings of 8 KiB, one page, and 129 results of 64 bytes, each
 * in whole pages. */
static void parts_of_the_area(void **state)
{
    static const struct {
        uint32_t depth;
        size_t ring, results;
    } rows[] = {{128, 8192, 12288},  {32, 4096, 4096}, {64, 4096, 8192},
                {256, 16384, 20480}, {63, 4096, 4096}, {65, 8192, 8192}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct gda of = {.depth = rows[i].depth};
        struct gda_layout at = gda_layout_of(&of, 3);
        size_t bytes = 2 * rows[i].ring + 4096 + rows[i].results;
        assert_int_equal(at.bytes, bytes);
        assert_int_equal(at.ring, 3 * bytes);
        assert_int_equal(at.completions, at.ring + rows[i].ring);
        assert_int_equal(at.page, at.completions + rows[i].ring);
        assert_int_equal(at.results, at.page + 4096);
        assert_int_equal(gda_layout_of(&of, 0).ring, 0);
    }
}

static void queues_are_made(void **state)
{
    (void)state;
    assert_int_equal(join(), WEFT_OK);
    assert_int_equal(gda_queue_count(gda), QUEUES);
    assert_int_equal(object_count, 2 * QUEUES);
    assert_int_equal(area_bytes, QUEUES * 32768);
    assert_ptr_equal(gda->area, area);
    bool seen[QUEUES] = {false};
    int made = 0;
    for (int pe = 0; pe < PES; pe++)
        for (uint32_t k = 0; k < EACH + ADAPTERS; k++, made++) {
            uint32_t number = gda_queue_index(gda, pe, k);
            uint32_t a = (k < EACH ? k : k - EACH) % ADAPTERS;
            const struct weft_dev_gda_queue *q = &gda->queues[number];
            const struct object *cq = &objects[2 * made], *qp = cq + 1;
            char *at = area + (size_t)number * 32768;
            assert_in_range(number, 0, QUEUES - 1);
            assert_false(seen[number]);
            seen[number] = true;
            assert_ptr_equal(q->ring.blocks, at);
            assert_ptr_equal(q->completion, at + 8192 + 56);
            assert_ptr_equal(q->ring.record, at + 16384 + 4);
            assert_ptr_equal(q->results, at + 20480);
            for (int i = 0; i < 8192; i++)
                assert_int_equal((unsigned char)at[8192 + i], 0xff);
            assert_int_equal(at[16384] | at[16384 + 64] | at[20480], 0);
            assert_false(cq->pair);
            assert_true(qp->pair);
            assert_int_equal(cq->ring_at, number * 32768 + 8192);
            assert_int_equal(cq->record_at, number * 32768 + 16384 + 64);
            assert_int_equal(qp->ring_at, number * 32768);
            assert_int_equal(qp->record_at, number * 32768 + 16384);
            assert_int_equal(cq->umem, umems[a].umem_id);
            assert_int_equal(qp->umem, umems[a].umem_id);
            assert_int_equal(cq->adapter, a);
            assert_int_equal(qp->adapter, a);
            assert_int_equal(cq->uar, made);
            assert_int_equal(qp->uar, made);
            assert_int_equal(qp->cq, cq->number);
            assert_int_equal(q->number, qp->number);
            assert_int_equal(q->ring.number_be, htobe32(qp->number << 8));
            assert_int_equal(q->ring.last, DEPTH - 1);
            assert_ptr_equal(q->ring.doorbell, &doorbells[made]);
            assert_int_equal(q->results_key, htobe32(gda->slabs->regions[a]->lkey));
            assert_ptr_equal(gda->slabs->regions[a]->addr, area);
            assert_int_equal(gda->slabs->regions[a]->length, area_bytes);
            assert_ptr_equal(q->remote_keys, gda->remote_keys + (a * PES + (uint32_t)pe) * CHUNKS);
            assert_ptr_equal(q->local_keys, gda->local_keys + a * CHUNKS);
            assert_ptr_equal(q->marks, gda->marks + number * 2);
            assert_ptr_equal(q->fillers, gda->fillers + number * 2);
            assert_ptr_equal(q->busy, gda->busy + number * DEPTH);
            assert_int_equal(q->name, k);
            assert_int_equal(q->turns, 0xffffffff);
            assert_int_equal(q->done | q->looks | q->open | q->flushing | q->flushed, 0);
            assert_int_equal(gda->qps[number].umem, umems[a].umem_id);
            assert_int_equal(told[ME].words[keys_told() + (size_t)made], qp->number);
        }
    leave();
}

/* Each queue is connected with its counterpart at the peer, over the adapter that both use. */
static void queues_are_connected(void **state)
{
    for (int kind = 0; kind <= 3; kind++) {
        const bool relaxed = kind & 1;
        setup(state);
        ethernet = kind & 2;
        setenv("WEFT_TEST_GDA", relaxed ? "relaxed" : "off", 1);
        config_reset();
        assert_int_equal(join(), WEFT_OK);
        assert_int_equal(modifications, 3 * QUEUES);
        int made = 0;
        for (int pe = 0; pe < PES; pe++)
            for (uint32_t k = 0; k < EACH + ADAPTERS; k++, made++) {
                const struct object *qp = &objects[2 * made + 1];
                uint32_t a = (k < EACH ? k : k - EACH) % ADAPTERS;
                uint32_t its = told[pe].words[keys_told() + ME * (EACH + ADAPTERS) + k];
                struct gda_connection ends = gda_connection_of(gda, qp->number, pe, its);
                assert_int_equal(gda->seeds[pe], told[pe].record.seed);
                assert_int_equal(qp->steps, 3);
                assert_int_equal(word(qp->receive, 0x2c), its);
                assert_int_equal(word(qp->receive, 0xac) & 0xffffff, ends.peer_psn);
                assert_int_equal(word(qp->send, 0x90), ends.psn);
                assert_in_range(ends.sport, 0xc000, 0xffff);
                if (ethernet) {
                    assert_memory_equal(qp->receive + 0x56, told[pe].record.addresses[a].mac, 6);
                    assert_memory_equal(qp->receive + 0x40, told[pe].record.addresses[a].gid, 16);
                    assert_int_equal(word(qp->receive, 0x50), ends.sport);
                } else {
                    assert_int_equal(word(qp->receive, 0x34), told[pe].record.addresses[a].lid);
                }
            }
        for (int pe = 0; pe < PES; pe++)
            for (uint32_t a = 0; a < ADAPTERS; a++) {
                size_t at = gda_key_index(gda, a, pe);
                const uint32_t *keys = told[pe].words + a * CHUNKS;
                assert_memory_equal(gda->remote_keys + at, keys, CHUNKS * 4);
                assert_memory_equal(gda->data_keys + at, keys + (relaxed ? ADAPTERS * CHUNKS : 0),
                                    CHUNKS * 4);
                assert_memory_equal(&gda->addresses[(size_t)pe * ADAPTERS + a],
                                    &told[pe].record.addresses[a], sizeof gda->addresses[0]);
                assert_memory_equal(gda->bases + pe * SEG_COUNT, told[pe].record.bases,
                                    sizeof told[pe].record.bases);
            }
        leave();
    }
}

static void what_is_told(void **state)
{
    uint64_t seeds[2];
    for (int i = 0; i < 2; i++) {
        setup(state);
        ethernet = i == 1;
        assert_int_equal(join(), WEFT_OK);
        const struct gda_record *mine = &told[ME].record;
        assert_int_equal(told_bytes % 8, 0);
        assert_int_equal(mine->queues_per_pe, EACH);
        assert_int_equal(mine->chunks, CHUNKS);
        assert_int_equal(mine->chunk_bits, 16);
        assert_int_equal(mine->relaxed, 0);
        assert_int_equal(mine->bases[0], (uintptr_t)heap);
        assert_int_equal(mine->bases[1], 0);
        assert_int_equal(mine->bases[2], (uintptr_t)system_segment);
        for (int a = 0; a < ADAPTERS; a++) {
            const struct gda_address *address = &mine->addresses[a];
            assert_int_equal(address->lid, 0x77 + a);
            assert_int_equal(address->mtu, 4);
            assert_int_equal(address->ethernet, ethernet);
            assert_int_equal(address->gid[0], 0xf0 + a);
            assert_int_equal(address->gid[15], 0x99);
            assert_memory_equal(address->mac, ethernet ? av.rmac : (uint8_t[6]){0}, 6);
        }
        assert_int_equal(mine->addresses[ADAPTERS].lid, 0);
        seeds[i] = mine->seed;
        const uint32_t sizes_told[] = {EACH, CHUNKS, 16, 0, 1};
        assert_memory_equal(sizes[ME], sizes_told, sizeof sizes_told);
        leave();
    }
    assert_int_not_equal(seeds[0], seeds[1]); /* random; equality is very unlikely */
    assert_int_not_equal(seeds[0] >> 32, seeds[1] >> 32);
}

/* A doorbell register without write combining is preferred; if there is none, a write-combining one
 * is used. */
static void registers_that_combine_writes(void **state)
{
    (void)state;
    no_uncached = true;
    assert_int_equal(join(), WEFT_OK);
    assert_int_equal(uar_count, QUEUES);
    leave();
}

/* Each call of the library fails once: the PE reports which, and undoes everything. */
static void every_call_fails(void **state)
{
    static const char *const whys[] = {
        "path gda: mlx5_%d cannot register ",  "path gda: mlx5_%d: ibv_reg_mr of ",
        "path gda: mlx5_%d: mlx5dv_devx_umem", "path gda: mlx5dv_devx_alloc_uar on mlx5_%d: Can",
        "path gda: mlx5_%d rejected ",         "path gda: cannot read the MAC of mlx5_%d: ",
    };
    int seen[6] = {0}, others = 0;
    for (int kind = 0; kind <= 1; kind++) {
        setup(state);
        ethernet = kind;
        for (int call = 1;; call++) {
            fails_at = call;
            weft_status status = join();
            if (!status && calls < call)
                break;
            if (!status) { /* a register of the other type was used */
                others++;
                leave();
                continue;
            }
            assert_int_equal(status, WEFT_ERR_SYSTEM);
            bool known = false;
            for (int i = 0; i < 12; i++) {
                char why[64];
                snprintf(why, sizeof why, whys[i / 2], i % 2);
                if (strncmp(base_last_error(), why, strlen(why)) == 0)
                    seen[i / 2]++, known = true;
            }
            if (!known)
                fail_msg("call %d: %s", call, base_last_error());
            leave();
        }
        leave();
    }
    assert_int_equal(seen[0], 2 * ADAPTERS * CHUNKS);
    assert_int_equal(seen[1], 2 * 2 * ADAPTERS); /* of the bounce buffers and the areas */
    assert_int_equal(seen[2], 2 * ADAPTERS);
    assert_int_equal(seen[4], 2 * QUEUES * 5);
    assert_int_equal(seen[5], 2 * ADAPTERS);
    assert_int_equal(others, 2 * QUEUES);
    assert_int_equal(seen[3], 0);
    setup(state);
    no_uncached = true;
    for (fails_at = 1; join(); fails_at++) {
        seen[3] += strncmp(base_last_error(), "path gda: mlx5dv_devx_alloc_uar on mlx5_", 40) == 0;
        leave();
    }
    leave();
    assert_int_equal(seen[3], QUEUES);
    setup(state);
    ethernet = handle_without_address = true;
    assert_int_equal(join(), WEFT_ERR_SYSTEM);
    leave();
    fails_at = 1; /* if memory may not be locked, the message says what to do */
    setup(state);
    fails_at = 7;
    assert_int_equal(join(), WEFT_ERR_SYSTEM);
    assert_string_equal(
        base_last_error(),
        "path gda: mlx5_1 cannot register 65536 bytes of the host heap (ibv_reg_mr: "
        "Cannot allocate memory); raise the limit of locked memory (ulimit -l) or reduce "
        "WEFT_HEAP_SIZE");
    leave();
}

static void spoil_number(void)
{
    told[2].words[keys_told() + 3] = 0;
}

static int spoiled_link;
static void spoil_link(void)
{
    told[2].record.addresses[spoiled_link] =
        (struct gda_address){.mtu = 3, .ethernet = 1, .gid = {1}, .mac = {2}};
}

static void spoil_address(void)
{
    static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 7};
    memcpy(told[2].record.addresses[0].gid, ipv4, sizeof ipv4);
}

/* With RC queues to no other PE: those of the PE to itself, a target for each adapter, and
 * initiators. */
static void dc_queues_are_made(void **state)
{
    enum { OWN = EACH + ADAPTERS, ALL = ADAPTERS * GDA_INITIATORS };
    for (int kind = 0; kind <= 1; kind++) {
        setup(state);
        ethernet = kind;
        setenv("WEFT_TEST_GDA_RC", "0", 1);
        config_reset();
        assert_int_equal(join(), WEFT_OK);
        assert_false(gda->eager);
        assert_int_equal(gda_rc_limit(gda), 0);
        assert_int_equal(object_count, 2 * (OWN + ALL));
        assert_int_not_equal(gda->dc->key, 0);
        assert_int_equal(told[ME].record.dc_key, gda->dc->key);
        for (int pe = 0; pe < PES; pe++) {
            assert_int_equal(gda_is_dc_peer(gda, pe), pe != ME);
            assert_int_equal(gda->dc->keys[pe], told[pe].record.dc_key);
            assert_int_equal(gda_link_of(gda, pe), pe == ME ? GDA_LINK_UP : GDA_LINK_NONE);
        }
        assert_int_equal(gda->dc->mtu, 4);
        for (int a = 0; a < ADAPTERS; a++) {
            assert_int_equal(targets[a].key, gda->dc->key);
            assert_int_equal(targets[a].moves, 2);
            assert_int_equal(told[ME].record.dc_targets[a], 0x9000 + a);
        }
        for (int i = 0; i < ALL; i++) { /* the NIC's queues come after those of the PE to itself */
            const struct object *cq = &objects[2 * (OWN + i)], *qp = cq + 1;
            const struct gda_initiator *initiator = &gda->dc->initiators[i];
            assert_int_equal(cq->adapter, i / GDA_INITIATORS);
            assert_int_equal(qp->steps, 3);
            assert_int_equal(word(qp->init, 0xa8) & 0xe000, 0); /* it lets no peer in */
            assert_int_equal(word(qp->receive, 0x20) >> 29, 4);
            assert_int_equal(word(qp->receive, 0x38) >> 16 & 0xff, ethernet ? 5 : 0);
            assert_int_equal(initiator->q.number, qp->number);
            assert_int_equal(initiator->ring.number_be, htobe32(qp->number << 8));
            assert_int_equal(initiator->ring.last, DEPTH - 1);
            assert_ptr_equal(gda_initiator_of(gda, &initiator->q), initiator);
        }
        assert_null(gda_initiator_of(gda, &gda->queues[0]));
        leave();
    }
}

/* Whatever fails, all of it is undone. */
static void dc_calls_fail(void **state)
{
    int tried = 0;
    weft_status status;
    do {
        setup(state);
        setenv("WEFT_TEST_GDA_RC", "0", 1);
        config_reset();
        fails_at = ++tried;
        status = join();
        /* A missing uncached doorbell register has a substitute. */
        assert_true(status == WEFT_ERR_SYSTEM || status == WEFT_OK);
        leave();
    } while (calls >= fails_at);
    assert_in_range(tried, 60, 400);
    for (int at = 1, more = 1; more; at++) {
        setup(state);
        setenv("WEFT_TEST_GDA_RC", "0", 1);
        config_reset();
        memory_fails_at = at;
        status = join();
        more = memory_calls >= at;
        assert_int_equal(status, more ? WEFT_ERR_NO_MEMORY : WEFT_OK);
        if (gda)
            leave();
    }
}

/* The ring of PE numbers: half of the limit on each side; the same at both ends. */
static void peers_by_rc(void **state)
{
    static char text[8];
    (void)state;
    for (int npes = 2; npes <= 9; npes++)
        for (int limit = 0; limit < npes - 1; limit++)
            for (int me = 0; me < npes; me++) {
                struct gda_dc dc = {.rc_peers = limit};
                struct path_world small = {.pe = me, .npes = npes};
                struct gda of = {.world = &small, .dc = &dc};
                int by_rc = -1; /* without itself */
                for (int pe = 0; pe < npes; pe++) {
                    struct path_world theirs = {.pe = pe, .npes = npes};
                    struct gda other = {.world = &theirs, .dc = &dc};
                    by_rc += !gda_is_dc_peer(&of, pe);
                    assert_int_equal(gda_is_dc_peer(&of, pe), gda_is_dc_peer(&other, me));
                }
                assert_int_equal(by_rc, limit / 2 * 2);
            }
    /* 1 GiB of queues of 32 KiB, four to each PE and adapter */
    struct path_world large = {.npes = 100000};
    snprintf(text, sizeof text, "%d", 5000);
    assert_int_equal(gda_rc_peers(&large, 2), (1 << 30) / (5 * 32768) / 2 * 2);
    setenv("WEFT_TEST_GDA_RC", text, 1);
    config_reset();
    assert_int_equal(gda_rc_peers(&large, 2), 5000);
    large.npes = 5003;
    setenv("WEFT_TEST_GDA_RC", "5001", 1);
    config_reset();
    assert_int_equal(gda_rc_peers(&large, 2), 5000);
    large.npes = 5002; /* all others */
    assert_int_equal(gda_rc_peers(&large, 2), 5001);
    large.npes = 100;
    assert_int_equal(gda_rc_peers(&large, 2), 99);
}

static void others_that_differ(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        setup(state);
        other_sizes = true;
        for (int pe = 0; pe < PES; pe++)
            memcpy(sizes[pe], (uint32_t[]){EACH, CHUNKS, 16, 0, 1, PES - 1}, sizeof sizes[pe]);
        sizes[2][i]++;
        assert_int_equal(join(), WEFT_ERR_MISMATCH);
        assert_int_equal(gathers, 1);
        leave();
    }
    sizes[0][1] = 9; /* the message names the first difference */
    assert_int_equal(join(), WEFT_ERR_MISMATCH);
    assert_string_equal(
        base_last_error(),
        "path gda: WEFT_GDA_QUEUES, WEFT_TEST_GDA_CHUNK, WEFT_TEST_GDA_EAGER, WEFT_TEST_GDA_RC or "
        "the sizes of segments differ between PE 1 (3 queues, 5 chunks of 2^16 bytes, RC to 2 PEs) "
        "and PE 0 (3, 9, 2^16, 2)");
    leave();
    setup(state);
    spoil = spoil_number;
    assert_int_equal(join(), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(),
                        "path gda: PE 2 sent an invalid exchange record: invalid QP number");
    assert_int_equal(modifications, 0); /* all records are checked before any is used */
    leave();
    spoil = spoil_link;
    for (spoiled_link = 0; spoiled_link < ADAPTERS; spoiled_link++) {
        char why[120];
        snprintf(why, sizeof why,
                 "path gda: the adapter of PE 1 (mlx5_%d) is on InfiniBand, that of PE 2 on RoCE",
                 spoiled_link);
        assert_int_equal(join(), WEFT_ERR_NO_PATH);
        assert_string_equal(base_last_error(), why);
        leave();
    }
    spoil = spoil_address;
    ethernet = true;
    assert_int_equal(join(), WEFT_ERR_NO_PATH);
    assert_string_equal(
        base_last_error(),
        "path gda: the adapter of PE 1 (mlx5_0) has the IPv6 address f000::99, that of "
        "PE 2 the IPv4 address ::ffff:10.0.0.7: give the interfaces of both an IPv4 "
        "address, or neither");
    leave();
}

static void others_that_fail(void **state)
{
    (void)state;
    for (int i = 1; i <= 6; i++) {
        setup(state);
        disagrees_at = i;
        assert_int_equal(join(), WEFT_ERR_PEER_DEAD);
        assert_int_equal(gathers, i <= 3 ? 0 : i <= 5 ? 1 : 2);
        leave();
    }
    disagrees_at = 7;
    assert_int_equal(join(), WEFT_OK);
    leave();
    for (int i = 1; i <= 2; i++) {
        setup(state);
        gather_fails_at = i;
        assert_int_equal(join(), WEFT_ERR_TIMEOUT);
        assert_int_equal(modifications, 0);
        leave();
    }
    setup(state);
    live = live_memory = 0;
    assert_int_equal(gda_create(&world, NULL, &gda), WEFT_ERR_NO_PATH);
    leave();
}

/* The key of an address and the number of bytes that it covers, at a peer and here. */
static void keys_of_places(void **state)
{
    static const struct {
        enum segment_id segment;
        size_t offset, wanted, bytes;
        int chunk; /* -1: not registered */
    } rows[] = {
        {SEG_HEAP, 0, 8, 8, 0},
        {SEG_HEAP, CHUNK - 8, 8, 8, 0},
        {SEG_HEAP, CHUNK - 8, 9, 8, 0},
        {SEG_HEAP, CHUNK, 100, 100, 1},
        {SEG_HEAP, 3 * CHUNK - 1, 2, 1, 2},
        {SEG_HEAP, 3 * CHUNK + 4990, 10, 10, 3},
        {(enum segment_id)2, 0, CHUNK, CHUNK, 4},
        {(enum segment_id)2, 77, CHUNK - 77, CHUNK - 77, 4},
        {SEG_HEAP, 3 * CHUNK + 4999, 1, 1, 3},
    };
    struct peer peer = {.pe = 2};
    bool open = false;
    setup(state);
    setenv("WEFT_TEST_GDA", "relaxed", 1);
    config_reset();
    assert_int_equal(join(), WEFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t a = 0; a < ADAPTERS; a++) {
            const struct remote at = {&peer, rows[i].segment, rows[i].offset};
            size_t bytes = rows[i].wanted;
            struct weft_dev_gda_place place = gda_resolve_remote(gda, a, at, &bytes);
            uint64_t base = (uint64_t)3 << 40 | (uint64_t)rows[i].segment << 32;
            uint32_t key = 0x30100 + a * CHUNKS + (uint32_t)rows[i].chunk;
            assert_int_equal(place.address, base + rows[i].offset);
            assert_int_equal(place.key, key);
            assert_int_equal(bytes, rows[i].bytes);
            assert_int_equal(gda_data_key(gda, a, at, &open), key + ADAPTERS * CHUNKS);
            assert_true(open);
            const char *local =
                (rows[i].segment == SEG_HEAP ? heap : system_segment) + rows[i].offset;
            bytes = rows[i].wanted;
            assert_true(gda_resolve_local(gda, a, local, &bytes, &place));
            assert_int_equal(bytes, rows[i].bytes);
            assert_int_equal(place.address, (uintptr_t)local);
            assert_int_equal(place.key, gda->local_keys[a * CHUNKS + (uint32_t)rows[i].chunk]);
        }
    struct weft_dev_gda_place place;
    size_t bytes = 100;
    assert_true(gda_resolve_local(gda, 1, heap + HEAP - 3, &bytes,
                                  &place)); /* at most up to the end of the segment */
    assert_int_equal(bytes, 3);
    assert_false(gda_resolve_local(gda, 0, heap + HEAP, &bytes, &place));
    assert_false(gda_resolve_local(gda, 0, system_segment + SYSTEM, &bytes, &place));
    leave();
    setup(state);
    assert_int_equal(join(), WEFT_OK);
    gda_data_key(gda, 0, (struct remote){&peer, SEG_HEAP, 8}, &open);
    assert_false(open);
    leave();
}

/* Keys of a GPU memory window whose units have keys only in part. */
static void keys_of_gpu_memory(void **state)
{
    enum { UNIT = 1 << 21, UNITS = 3 };
    uint64_t bases[PES] = {0, (uint64_t)5 << 40, (uint64_t)7 << 40};
    uint32_t local[ADAPTERS * UNITS] = {11, 0, 13, 21, 22, 23}, remote[2][2 * ADAPTERS * PES];
    const uint32_t *keys[UNITS] = {remote[0], remote[1], NULL};
    struct gda_gpu gpu = {
        .unit_bits = 21, .units = UNITS, .bases = bases, .local_keys = local, .keys = keys};
    struct peer peer = {.pe = 2};
    struct weft_dev_gda_place place;
    bool open;
    (void)state;
    for (uint32_t i = 0; i < sizeof remote / sizeof remote[0][0]; i++)
        remote[i / (2 * ADAPTERS * PES)][i % (2 * ADAPTERS * PES)] = 1000 + i;
    assert_int_equal(join(), WEFT_OK);
    gda->gpu = &gpu;
    for (uint32_t a = 0; a < ADAPTERS; a++)
        for (size_t unit = 0; unit < UNITS; unit++) {
            const struct remote at = {&peer, SEG_GPU, unit * UNIT + 5};
            const uint32_t row = a * PES + 2, data = row + ADAPTERS * PES;
            size_t bytes = UNIT;
            place = gda_resolve_remote(gda, a, at, &bytes);
            assert_int_equal(bytes, UNIT - 5);
            assert_int_equal(place.address, bases[2] + at.offset);
            assert_int_equal(place.key, keys[unit] ? keys[unit][row] : 0);
            for (int relaxed = 0; relaxed <= 1; relaxed++) {
                gpu.relaxed = relaxed;
                assert_int_equal(gda_data_key(gda, a, at, &open),
                                 keys[unit] ? keys[unit][data] : 0);
                assert_int_equal(open, relaxed);
            }
            bytes = UNIT;
            const char *here = (const char *)(uintptr_t)(bases[ME] + at.offset);
            bool known = local[a * UNITS + unit] != 0;
            assert_int_equal(gda_resolve_local(gda, a, here, &bytes, &place), known);
            assert_int_equal(bytes, UNIT - 5);
            if (known) {
                assert_int_equal(place.address, (uintptr_t)here);
                assert_int_equal(place.key, local[a * UNITS + unit]);
            }
        }
    size_t bytes = 8;
    const char *last = (const char *)(uintptr_t)(bases[ME] + UNITS * UNIT - 8);
    assert_true(gda_resolve_local(gda, 0, last, &bytes, &place));
    assert_false(gda_resolve_local(gda, 0, last + 8, &bytes, &place));
    assert_false(
        gda_resolve_local(gda, 0, (const char *)(uintptr_t)(bases[ME] - 1), &bytes, &place));
    gda->gpu = NULL;
    leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_registered),
        cmocka_unit_test_setup(chunks_of_one_byte, setup),
        cmocka_unit_test_setup(memory_is_missing, setup),
        cmocka_unit_test_setup(parts_of_the_area, setup),
        cmocka_unit_test_setup(queues_are_made, setup),
        cmocka_unit_test(queues_are_connected),
        cmocka_unit_test(what_is_told),
        cmocka_unit_test_setup(registers_that_combine_writes, setup),
        cmocka_unit_test(every_call_fails),
        cmocka_unit_test(dc_queues_are_made),
        cmocka_unit_test(dc_calls_fail),
        cmocka_unit_test_setup(peers_by_rc, setup),
        cmocka_unit_test(others_that_differ),
        cmocka_unit_test(others_that_fail),
        cmocka_unit_test(keys_of_places),
        cmocka_unit_test_setup(keys_of_gpu_memory, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
