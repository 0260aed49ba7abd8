/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <dlfcn.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Of the CUDA stand-in: the size of a memory unit, and the bit in which its addresses differ from
 * those of the CPU. */
#define GPU_UNIT ((size_t)2 << 20)
#define GPU_BIT  (UINT64_C(1) << 46)

static void put(uint8_t *p, size_t at, unsigned shift, unsigned width, uint32_t v)
{
    uint32_t w, mask = (width == 32 ? ~0u : (1u << width) - 1) << shift;
    memcpy(&w, p + at, 4);
    w = htobe32((be32toh(w) & ~mask) | (v << shift & mask));
    memcpy(p + at, &w, 4);
}

static void put64(uint8_t *p, size_t at, uint64_t v)
{
    put(p, at, 0, 32, (uint32_t)(v >> 32));
    put(p, at + 4, 0, 32, (uint32_t)v);
}

static uint32_t number(const uint8_t *out)
{
    uint32_t w;
    memcpy(&w, out + 8, 4);
    return be32toh(w) & 0xffffff;
}

static int make_cq(struct client *c, size_t at, size_t record_at)
{
    uint8_t in[272] = {0}, out[16] = {0};
    put(in, 0, 16, 16, 0x400);
    put(in, 0x10, 25, 1, 1);
    put(in, 0x10, 20, 1, c->collapsed);
    put(in, 0x10, 17, 1, c->collapsed);
    put(in, 0x14, 0, 32, c->umem->umem_id);
    put(in, 0x1c, 24, 5, c->log_cq);
    put(in, 0x1c, 0, 24, c->uar->page_id);
    put64(in, 0x10 + 0x38, record_at);
    put64(in, 0x50, at);
    put(in, 0x58, 0, 32, c->umem->umem_id);
    put(in, 0x5c, 31, 1, 1);
    c->cq = mlx5dv_devx_obj_create(c->context, in, sizeof in, out, sizeof out);
    c->cqn = number(out);
    return c->cq ? 0 : -1;
}

static int make_qp(struct client *c, size_t record_at)
{
    uint8_t in[272] = {0}, out[16] = {0};
    put(in, 0, 16, 16, 0x500);
    put(in, 0x18, 16, 8, 0);
    put(in, 0x18, 11, 2, 3);
    put(in, 0x1c, 0, 24, c->pdn);
    put(in, 0x20, 11, 4, c->log_sq);
    put(in, 0x24, 0, 24, c->uar->page_id);
    put(in, 0x28, 0, 24, 0x123456);
    put(in, 0x18 + 0x7c, 0, 24, c->cqn);
    put(in, 0x18 + 0x9c, 0, 24, c->cqn);
    put64(in, 0x18 + 0xa0, record_at);
    put(in, 0x18 + 0xac, 24, 3, 3);
    put(in, 0x18 + 0xd0, 28, 1, 1);
    put(in, 0x18 + 0xe4, 0, 32, c->umem->umem_id);
    put64(in, 0x100, 0);
    put(in, 0x108, 0, 32, c->umem->umem_id);
    put(in, 0x10c, 31, 1, 1);
    c->qp = mlx5dv_devx_obj_create(c->context, in, sizeof in, out, sizeof out);
    c->qpn = number(out);
    return c->qp ? 0 : -1;
}

/* Allocates memory of the GPU stand-in, which lives as long as the process. *there: its GPU
 * address; result: its CPU address. */
static uint8_t *gpu_memory(size_t bytes, void **there)
{
    static const struct {
        int type, handle_types, location, device;
        void *metadata;
        uint8_t flags[8];
    } of = {1, 1, 1, 0, NULL, {0}};
    static const struct {
        int location, device, flags;
    } access = {1, 0, 3};
    struct {
        int (*init)(unsigned);
        int (*create)(uint64_t *, size_t, const void *, uint64_t);
        int (*reserve)(uint64_t *, size_t, size_t, uint64_t, uint64_t);
        int (*map)(uint64_t, size_t, size_t, uint64_t, uint64_t);
        int (*open)(uint64_t, size_t, const void *, size_t);
    } cuda;
    static const char *const names[] = {"cuInit", "cuMemCreate", "cuMemAddressReserve", "cuMemMap",
                                        "cuMemSetAccess"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    for (unsigned i = 0; i < 5; i++) {
        void *found = library ? dlsym(library, names[i]) : NULL;
        if (!found)
            return NULL;
        memcpy((char *)&cuda + i * sizeof found, &found, sizeof found);
    }
    uint64_t handle, at;
    size_t whole = (bytes + GPU_UNIT - 1) / GPU_UNIT * GPU_UNIT;
    if (cuda.init(0) || cuda.create(&handle, whole, &of, 0) || cuda.reserve(&at, whole, 0, 0, 0) ||
        cuda.map(at, whole, 0, handle, 0) || cuda.open(at, whole, &access, 1))
        return NULL;
    *there = (void *)(uintptr_t)at;
    return (uint8_t *)(uintptr_t)(at | GPU_BIT);
}

static uint8_t *client_memory(size_t bytes, bool on_gpu, void **there)
{
    if (on_gpu)
        return gpu_memory(bytes, there);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *there = at;
    return at == MAP_FAILED ? NULL : at;
}

int client_open(struct client *c, const struct client_options *o)
{
    memset(c, 0, sizeof *c);
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    if (!list || n <= o->device)
        return -1;
    c->context = ibv_open_device(list[o->device]);
    ibv_free_device_list(list);
    c->pd = c->context ? ibv_alloc_pd(c->context) : NULL;
    if (!c->pd)
        return -1;
    struct mlx5dv_pd inner;
    struct mlx5dv_obj obj = {.pd = {.in = c->pd, .out = &inner}};
    struct ibv_port_attr port;
    if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) || ibv_query_port(c->context, 1, &port) ||
        ibv_query_gid(c->context, 1, port.gid_tbl_len - 1, &c->gid))
        return -1;
    c->gid_index = (unsigned)port.gid_tbl_len - 1;
    c->mtu = port.active_mtu;
    c->timeout = 12;
    c->pdn = inner.pdn;
    c->lid = port.lid;
    c->roce = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    c->log_sq = o->log_sq ? o->log_sq : 6;
    c->log_cq = o->log_cq ? o->log_cq : 6;
    c->collapsed = !o->ring || (o->single && getenv("HCA_CLIENT_GPU"));
    c->last = ~UINT64_C(0);
    size_t sq = (size_t)64 << c->log_sq, cq = (size_t)64 << c->log_cq, bytes = sq + cq + 4096;
    bool on_gpu = getenv("HCA_CLIENT_GPU") != NULL;
    c->arena = client_memory(bytes, on_gpu && (!o->ring || o->single), &c->arena_there);
    c->memory_bytes = o->memory_bytes ? o->memory_bytes : CLIENT_MEMORY;
    c->memory = client_memory(c->memory_bytes, on_gpu, &c->memory_there);
    if (!c->arena || !c->memory)
        return -1;
    c->ring = c->arena;
    c->cqes = (struct mlx5_cqe64 *)(c->arena + sq);
    memset(c->cqes, 0xff, cq);
    c->cq_record = (uint32_t *)(c->arena + sq + cq);
    c->qp_record = c->cq_record + 16;
    c->shares_uar = o->uar;
    c->uar = o->uar ? o->uar : mlx5dv_devx_alloc_uar(c->context, MLX5DV_UAR_ALLOC_TYPE_NC);
    c->umem = mlx5dv_devx_umem_reg(c->context, c->arena_there, bytes, IBV_ACCESS_LOCAL_WRITE);
    c->mr = ibv_reg_mr_iova(c->pd, c->memory_there, c->memory_bytes, (uintptr_t)c->memory,
                            o->access ? o->access
                                      : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    if (!c->uar || !c->umem || !c->mr)
        return -1;
    return make_cq(c, sq, sq + cq) || make_qp(c, sq + cq + 64) ? -1 : 0;
}

void client_close(struct client *c)
{
    if (c->qp)
        mlx5dv_devx_obj_destroy(c->qp);
    if (c->cq)
        mlx5dv_devx_obj_destroy(c->cq);
    if (c->umem)
        mlx5dv_devx_umem_dereg(c->umem);
    if (c->uar && !c->shares_uar)
        mlx5dv_devx_free_uar(c->uar);
    if (c->mr)
        ibv_dereg_mr(c->mr);
    if (c->pd)
        ibv_dealloc_pd(c->pd);
    if (c->context)
        ibv_close_device(c->context);
    size_t bytes = ((size_t)64 << c->log_sq) + ((size_t)64 << c->log_cq) + 4096;
    if (c->arena == c->arena_there)
        munmap(c->arena, bytes);
    if (c->memory == c->memory_there)
        munmap(c->memory, c->memory_bytes);
}

int client_move(struct client *c, unsigned opcode)
{
    uint8_t in[272] = {0}, out[16] = {0};
    put(in, 0, 16, 16, opcode);
    put(in, 8, 0, 24, c->qpn);
    /* Access rights of the peer. */
    put(in, 0x18 + 0x90, 13, 3, 7);
    put(in, 0x18 + 0x14, 0, 24, c->remote_qpn);
    put(in, 0x18 + 0x8, 29, 3, c->mtu);
    put(in, 0x18 + 0x70, 21, 3, 4);
    put(in, 0x18 + 0x70, 16, 3, 7);
    put(in, 0x18 + 0x70, 13, 3, 7);
    put(in, 0x18 + 0x78, 0, 24, 0xfffff0);
    put(in, 0x18 + 0x94, 0, 24, 0xfffff0);
    put(in, 0x30 + 0x4, 0, 16, c->remote_lid);
    put(in, 0x30 + 0x8, 27, 5, c->timeout);
    put(in, 0x30 + 0x8, 16, 8, c->gid_index);
    memcpy(in + 0x30 + 0x10, c->remote_gid.raw, 16);
    put(in, 0x30 + 0x20, 0, 16, c->source_port);
    return mlx5dv_devx_obj_modify(c->qp, in, sizeof in, out, sizeof out);
}

int client_connect(struct client *c)
{
    return client_move(c, 0x502) || client_move(c, 0x503) || client_move(c, 0x504) ? -1 : 0;
}

void client_pair(struct client *a, struct client *b)
{
    for (int i = 0; i < 2; i++) {
        a->remote_lid = b->lid;
        a->remote_gid = b->gid;
        a->remote_qpn = b->qpn;
        a->remote_rkey = b->mr->rkey;
        a->remote_memory = (uintptr_t)b->memory;
        struct client *t = a;
        a = b;
        b = t;
    }
}

/* --- Requests --- */

void wqe_begin(struct wqe_maker *w, struct client *c, unsigned opcode, unsigned modifier,
               unsigned flags, uint32_t immediate)
{
    memset(w, 0, sizeof *w);
    w->c = c;
    w->index = c->next;
    mlx5dv_set_ctrl_seg((struct mlx5_wqe_ctrl_seg *)w->words, c->next, (uint8_t)opcode,
                        (uint8_t)modifier, c->qpn, (uint8_t)flags, 0, 0, immediate);
    w->units = 1;
}

void wqe_word(struct wqe_maker *w, uint32_t v)
{
    /* From here until wqe_end() rounds it up, words[255] counts quarters of a unit. */
    w->words[w->units * 4 + w->words[255]++] = htobe32(v);
    if (w->words[255] == 4) {
        w->units++;
        w->words[255] = 0;
    }
}

void wqe_long(struct wqe_maker *w, uint64_t v)
{
    wqe_word(w, (uint32_t)(v >> 32));
    wqe_word(w, (uint32_t)v);
}

void wqe_remote(struct wqe_maker *w, uint64_t address, uint32_t rkey)
{
    wqe_long(w, address);
    wqe_word(w, rkey);
    wqe_word(w, 0);
}

void wqe_data(struct wqe_maker *w, uint64_t address, uint32_t bytes, uint32_t lkey)
{
    wqe_word(w, bytes);
    wqe_word(w, lkey);
    wqe_long(w, address);
}

void wqe_inline(struct wqe_maker *w, const void *data, uint32_t bytes)
{
    uint8_t *at = (uint8_t *)(w->words + w->units * 4);
    uint32_t head = htobe32(bytes | 1u << 31);
    memcpy(at, &head, 4);
    memcpy(at + 4, data, bytes);
    w->units += (4 + bytes + 15) / 16;
}

uint16_t wqe_end(struct wqe_maker *w)
{
    struct client *c = w->c;
    unsigned blocks = (w->units + 3) / 4, mask = (1u << c->log_sq) - 1;
    w->words[1] = htobe32(be32toh(w->words[1]) | w->units);
    for (unsigned b = 0; b < blocks; b++)
        memcpy(c->ring + (size_t)((c->next + b) & mask) * 64, w->words + b * 16, 64);
    c->next = (uint16_t)(c->next + blocks);
    return w->index;
}

void client_doorbell(struct client *c)
{
    uint32_t words[2] = {htobe32((uint32_t)c->next << 8), htobe32(c->qpn << 8)};
    uint64_t value;
    memcpy(&value, words, 8);
    __atomic_store_n(&c->qp_record[1], htobe32(c->next), __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(client_register(c), value, __ATOMIC_RELEASE);
}

uint64_t *client_register(const struct client *c)
{
    uintptr_t at = (uintptr_t)c->uar->reg_addr;
    return (uint64_t *)(at >> 40 < 0x40 ? at | GPU_BIT : at);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int take_entry(struct mlx5_cqe64 *e, struct mlx5_cqe64 *out)
{
    memcpy(out, e, sizeof *out);
    return out->op_own >> 4;
}

/* Returns the entry of a collapsed queue if it has changed since the last call. */
static int poll_single(struct client *c, struct mlx5_cqe64 *out)
{
    uint64_t end = now_ms() + 10000;
    while (now_ms() < end) {
        uint64_t last = __atomic_load_n((uint64_t *)&c->cqes[0].sop_drop_qpn, __ATOMIC_ACQUIRE);
        if (last == c->last)
            continue;
        c->last = last;
        return take_entry(&c->cqes[0], out);
    }
    return -1;
}

int client_poll(struct client *c, struct mlx5_cqe64 *out)
{
    uint64_t end = now_ms() + 10000;
    if (c->collapsed)
        return poll_single(c, out);
    struct mlx5_cqe64 *e = &c->cqes[c->consumer & ((1u << c->log_cq) - 1)];
    while (now_ms() < end) {
        uint64_t last = __atomic_load_n((uint64_t *)&e->sop_drop_qpn, __ATOMIC_ACQUIRE);
        uint8_t own = (uint8_t)(last >> 56);
        if (own >> 4 != MLX5_CQE_INVALID && (own & 1) == (c->consumer >> c->log_cq & 1)) {
            int opcode = take_entry(e, out);
            c->consumer++;
            __atomic_store_n(&c->cq_record[0], htobe32(c->consumer & 0xffffff), __ATOMIC_RELEASE);
            return opcode;
        }
    }
    return -1;
}

int client_poll_index(struct client *c, uint16_t index, struct mlx5_cqe64 *out)
{
    uint64_t end = now_ms() + 10000;
    while (now_ms() < end) {
        uint64_t last = __atomic_load_n((uint64_t *)&c->cqes[0].sop_drop_qpn, __ATOMIC_ACQUIRE);
        uint8_t bytes[8];
        memcpy(bytes, &last, 8);
        unsigned opcode = bytes[7] >> 4;
        if (opcode == MLX5_CQE_REQ_ERR ||
            (opcode == MLX5_CQE_REQ && (bytes[4] << 8 | bytes[5]) == index))
            return take_entry(&c->cqes[0], out);
    }
    return -1;
}

uint16_t client_write_inline(struct client *c, uint64_t to, const void *data, uint32_t bytes)
{
    struct wqe_maker w;
    wqe_begin(&w, c, MLX5_OPCODE_RDMA_WRITE, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, to, c->remote_rkey);
    wqe_inline(&w, data, bytes);
    uint16_t index = wqe_end(&w);
    client_doorbell(c);
    return index;
}

uint16_t client_write(struct client *c, uint64_t to, uint64_t from, uint32_t bytes)
{
    struct wqe_maker w;
    wqe_begin(&w, c, MLX5_OPCODE_RDMA_WRITE, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, to, c->remote_rkey);
    wqe_data(&w, from, bytes, c->mr->lkey);
    uint16_t index = wqe_end(&w);
    client_doorbell(c);
    return index;
}

uint16_t client_read(struct client *c, uint64_t from, uint64_t to, uint32_t bytes)
{
    struct wqe_maker w;
    wqe_begin(&w, c, MLX5_OPCODE_RDMA_READ, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, from, c->remote_rkey);
    wqe_data(&w, to, bytes, c->mr->lkey);
    uint16_t index = wqe_end(&w);
    client_doorbell(c);
    return index;
}
