/* SPDX-License-Identifier: Apache-2.0 */
/* An end of path net (net_end.h) whose PE has a GPU. Doubles of the provider and of the driver
 * register one allocation of that GPU. For tests of hmem.c. */
#ifndef WEFT_TESTS_NET_GPU_H
#define WEFT_TESTS_NET_GPU_H

#include "unit/net_end.h"

#include "base/config.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MIB = 1 << 20,
    CHUNK = NET_CHUNK_BYTES,
    WINDOW_BYTES = 4 * CHUNK + 5 * MIB,
    START = 3 * MIB,          /* start of the allocation */
    BYTES = 2 * CHUNK,        /* size of the allocation, which ends in the third chunk */
    NIC_LINES = START + 4096, /* offset of the memory of path tests */
    VERSION_OLD = FI_VERSION(1, 19),
    VERSION_NEW = FI_VERSION(1, 20),
};

static const uint8_t key[SIPHASH_KEY_BYTES] = {3, 5, 9, 1};
static struct net_end end;
static struct net_peer *peer;
static struct gpu gpu;
static struct gpu_window windows[2];
static struct boot boot = {.local_pe = 1, .npes = END_PES, .local_npes = 2};
static unsigned char window[8192]; /* stands for the first bytes of the allocation */

static struct {
    int writes_asked, flushes;
    enum gpu_nic_writes writes;
    int chunks_asked, exports, exported; /* file descriptor of the last export */
    uintptr_t exported_at;
    size_t exported_bytes;
    bool export_fails;
    size_t chunk_start, chunk_bytes; /* the allocation */
    /* Bit per rail: the provider rejects a registration by dma-buf, by address. */
    unsigned refuses_dmabuf, refuses_address;
    int registered, closed;
    struct {
        int rail;
        uint64_t flags, key;
        uintptr_t at;
        size_t bytes;
        int fd;
    } calls[16];
    int call_count;
    bool peermem;
    int asked;
    struct net_gpu_region answer;
    weft_status answer_status;
    size_t asked_offset;
} d;

enum gpu_nic_writes __wrap_gpu_nic_writes(struct gpu *of);
enum gpu_nic_writes __wrap_gpu_nic_writes(struct gpu *of)
{
    assert_ptr_equal(of, &gpu);
    d.writes_asked++;
    return d.writes;
}

weft_status __wrap_gpu_flush_nic_writes(struct gpu *of);
weft_status __wrap_gpu_flush_nic_writes(struct gpu *of)
{
    assert_ptr_equal(of, &gpu);
    d.flushes++;
    return WEFT_ERR_SYSTEM;
}

bool __wrap_gpu_find_chunk(struct gpu *of, size_t offset, size_t *start, size_t *bytes);
bool __wrap_gpu_find_chunk(struct gpu *of, size_t offset, size_t *start, size_t *bytes)
{
    assert_ptr_equal(of, &gpu);
    d.chunks_asked++;
    if (offset < d.chunk_start || offset - d.chunk_start >= d.chunk_bytes)
        return false;
    *start = d.chunk_start;
    *bytes = d.chunk_bytes;
    return true;
}

bool __wrap_gpu_peermem_is_loaded(void);
bool __wrap_gpu_peermem_is_loaded(void)
{
    return d.peermem;
}

weft_status __wrap_gpu_export_dmabuf(struct gpu *of, CUdeviceptr at, size_t bytes, int *fd);
weft_status __wrap_gpu_export_dmabuf(struct gpu *of, CUdeviceptr at, size_t bytes, int *fd)
{
    assert_ptr_equal(of, &gpu);
    d.exported_at = (uintptr_t)at;
    d.exported_bytes = bytes;
    d.exports++;
    if (d.export_fails)
        return base_fail(WEFT_ERR_UNSUPPORTED, "no dma-buf of it");
    *fd = d.exported = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(*fd >= 0);
    return WEFT_OK;
}

weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *question, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi);
weft_status __wrap_net_send_query(struct net_state *state, struct net_peer *of,
                                  const struct net_record *question, uint32_t wanted, void *to,
                                  size_t bytes, bool nbi)
{
    (void)state;
    assert_ptr_equal(of, peer);
    assert_int_equal(question->kind, NET_GPU_REGION);
    assert_int_equal(wanted, 0);
    assert_int_equal(bytes, sizeof d.answer);
    assert_false(nbi);
    d.asked++;
    d.asked_offset = question->offset;
    if (d.answer_status)
        return base_fail(d.answer_status, "no answer");
    memcpy(to, &d.answer, bytes);
    return WEFT_OK;
}

static int close_registered(struct fid *fid)
{
    d.closed++;
    free(fid);
    return 0;
}

/* struct fi_mr_dmabuf of libfabric 1.20. */
struct dmabuf_of {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};

static int register_gpu(struct fid *domain, const struct fi_mr_attr *attr, uint64_t flags,
                        struct fid_mr **registered)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = close_registered};
    int rail = 0;
    while (&end.net.rails[rail].domain->fid != domain)
        rail++;
    assert_true(rail < END_RAILS);
    assert_true(d.call_count < 16);
    assert_int_equal(attr->iov_count, 1);
    assert_int_equal(attr->iface, FI_HMEM_CUDA);
    assert_int_equal(attr->device.cuda, 6);
    assert_int_equal(attr->access,
                     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE | FI_SEND | FI_RECV);
    assert_int_equal(flags & ~(1ull << 40), 0);
    d.calls[d.call_count].rail = rail;
    d.calls[d.call_count].flags = flags;
    d.calls[d.call_count].key = attr->requested_key;
    if (flags) {
        const struct dmabuf_of *whole = (const void *)attr->mr_iov;
        assert_int_equal(whole->offset, 0);
        assert_true(fcntl(whole->fd, F_GETFD) >= 0);
        d.calls[d.call_count].fd = whole->fd;
        d.calls[d.call_count].at = (uintptr_t)whole->base_addr;
        d.calls[d.call_count].bytes = whole->len;
    } else {
        d.calls[d.call_count].at = (uintptr_t)attr->mr_iov->iov_base;
        d.calls[d.call_count].bytes = attr->mr_iov->iov_len;
    }
    d.call_count++;
    if ((flags ? d.refuses_dmabuf : d.refuses_address) >> rail & 1)
        return -FI_EINVAL;
    struct fid_mr *made = calloc(1, sizeof *made);
    made->fid.ops = &ops;
    made->key = attr->requested_key;
    made->mem_desc = made;
    *registered = made;
    d.registered++;
    return 0;
}

static uint32_t library_version;

static uint32_t version(void)
{
    return library_version;
}

static struct fid_domain domains[END_RAILS + 1];
static struct fi_domain_attr domain_attrs[END_RAILS + 1];
static struct fi_fabric_attr fabric_attrs[END_RAILS + 1];
static struct fi_info rail_infos[END_RAILS + 1];
static struct fabric lib;

static int open_end(void **context)
{
    static struct fi_ops_mr memory = {.size = sizeof memory, .regattr = register_gpu};
    static char names[][8] = {"nic0", "nic1", "nic2", "nic3"};
    (void)context;
    unsetenv("WEFT_NET_GPU");
    config_reset();
    memset(&d, 0, sizeof d);
    d.chunk_start = START;
    d.chunk_bytes = BYTES;
    d.writes = GPU_NIC_WRITES_FLUSHED;
    end_open_idle(&end, key);
    peer = &end.peers[1];
    library_version = VERSION_NEW;
    lib = *end.net.lib;
    lib.version = version;
    end.net.lib = &lib;
    for (int i = 0; i <= END_RAILS; i++) {
        domains[i].mr = &memory;
        domain_attrs[i] = (struct fi_domain_attr){.name = names[i], .mr_key_size = 8};
        fabric_attrs[i] =
            (struct fi_fabric_attr){.prov_name = names[0], .api_version = VERSION_NEW};
        rail_infos[i] =
            (struct fi_info){.domain_attr = &domain_attrs[i], .fabric_attr = &fabric_attrs[i]};
        end.net.rails[i].domain = &domains[i];
        end.net.rails[i].info = &rail_infos[i];
        end.net.rails[i].hmem = true;
    }
    memset(&gpu, 0, sizeof gpu);
    windows[1].base = (CUdeviceptr)(uintptr_t)window - START;
    gpu.heap = (struct gpu_heap){
        .boot = &boot, .size = WINDOW_BYTES, .backed = WINDOW_BYTES - MIB, .windows = windows};
    gpu.device.ordinal = 6;
    gpu.layout.nic_lines_offset = NIC_LINES;
    end.world.gpu = &gpu;
    end.world.common[PATH_NET] = &end.net;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    net_free_regions(&end.net);
    assert_int_equal(d.closed, d.registered);
    end.world.gpu = NULL;
    end_shut(&end);
    return 0;
}

static inline void *own_gpu(size_t offset)
{
    return (void *)(uintptr_t)(windows[1].base + offset);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)

#endif
