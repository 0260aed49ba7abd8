/* SPDX-License-Identifier: Apache-2.0 */
/* A small stand-in of libibverbs.so.1 for the tests of the GPU-NIC ladder (`weft explain
 * --measure`): devices with one port, and queue pairs connected to themselves, whose writes and
 * reads are copies. It refuses what the real library would refuse here: a queue pair that is not
 * ready or not its own peer, a wrong key, a range that is not registered. It can also register
 * memory of the stand-in of the CUDA driver. It counts live objects.
 *
 * Environment:
 *   FAKE_VERBS_DEVICES  "mlx5_0", separated by commas; empty: none
 *   FAKE_VERBS_FAIL     "CALL=ERRNO": that call fails; see fails()
 *   FAKE_VERBS_LINK     ib or ethernet
 *   FAKE_VERBS_GID      index of the only GID (1); -1: none
 *   FAKE_VERBS_LIE      1: writes do not arrive
 * Compiled with FAKE_VERBS_OLD it has no ibv_reg_dmabuf_mr, with FAKE_VERBS_OLDER also no
 * ibv_query_gid. */
#include "fake.h"

#include <infiniband/verbs.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_reg_mr
#undef ibv_query_port

enum { MOST_DEVICES = 4, MOST_MRS = 8, MOST_DONE = 128 };

struct memory {
    struct ibv_mr mr; /* first member: the caller gets its address */
    bool used;
};

static struct ibv_device devices[MOST_DEVICES];
static struct ibv_context contexts[1];
static struct memory memories[MOST_MRS];
static struct ibv_pd pd;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct ibv_wc done[MOST_DONE];
static int done_first, done_end, live;
static bool own_peer;

int setting(const char *name, int preset)
{
    const char *text = getenv(name);
    return text ? atoi(text) : preset;
}

/* Whether FAKE_VERBS_FAIL names this call; errno is then set to its value. */
static bool fails(const char *call)
{
    const char *text = getenv("FAKE_VERBS_FAIL");
    size_t n = strlen(call);
    if (!text || strncmp(text, call, n) != 0 || text[n] != '=')
        return false;
    errno = atoi(text + n + 1);
    return true;
}

/* For tests: the number of live devices, contexts, domains, regions and queues. */
EXPORT int fake_verbs_live(void);
EXPORT int fake_verbs_live(void)
{
    return live;
}

/* ------------------------------------------------------------------------------------- devices */

EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
    if (fails("get_device_list"))
        return NULL;
    struct ibv_device **list = calloc(MOST_DEVICES + 1, sizeof *list);
    const char *names = getenv("FAKE_VERBS_DEVICES");
    char copy[200];
    snprintf(copy, sizeof copy, "%s", names ? names : "mlx5_0");
    *n = 0;
    for (char *name = strtok(copy, ","); name && *n < MOST_DEVICES; name = strtok(NULL, ",")) {
        snprintf(devices[*n].name, sizeof devices[*n].name, "%s", name);
        list[*n] = &devices[*n];
        ++*n;
    }
    live++;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    live--;
    free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

static int post_send(struct ibv_qp *which, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int poll_cq(struct ibv_cq *which, int n, struct ibv_wc *wc);

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (fails("open_device"))
        return NULL;
    contexts[0].device = device;
    contexts[0].ops.post_send = post_send;
    contexts[0].ops.poll_cq = poll_cq;
    live++;
    return &contexts[0];
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
    live--;
    return 0;
}

static bool is_ethernet(void)
{
    const char *link = getenv("FAKE_VERBS_LINK");
    return link && strcmp(link, "ethernet") == 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
                          struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr *to = (struct ibv_port_attr *)attr;
    if (fails("query_port"))
        return errno;
    to->state = IBV_PORT_ACTIVE;
    to->active_mtu = IBV_MTU_4096;
    to->lid = is_ethernet() ? 0 : 17;
    to->link_layer = is_ethernet() ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    return port == 1 ? 0 : EINVAL;
}

static void make_gid(union ibv_gid *gid, int index)
{
    memset(gid, 0, sizeof *gid);
    if (index == setting("FAKE_VERBS_GID", 1))
        memcpy(gid->raw, "\xfe\x80the only GID ", sizeof gid->raw);
}

#ifndef FAKE_VERBS_OLDER
EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    if (index >= 4)
        return EINVAL;
    make_gid(gid, index);
    return 0;
}
#endif

/* -------------------------------------------------------------------------------------- memory */

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (fails("alloc_pd"))
        return NULL;
    pd.context = context;
    live++;
    return &pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *which)
{
    live--;
    return 0;
}

static struct ibv_mr *new_mr(uint64_t address, size_t bytes)
{
    for (int i = 0; i < MOST_MRS; i++) {
        if (memories[i].used)
            continue;
        memories[i].used = true;
        memories[i].mr = (struct ibv_mr){.context = pd.context,
                                         .pd = &pd,
                                         .addr = (void *)(uintptr_t)address,
                                         .length = bytes,
                                         .lkey = 0x100u + (unsigned)i,
                                         .rkey = 0x200u + (unsigned)i};
        live++;
        return &memories[i].mr;
    }
    abort();
}

/* "reg_gpu" and "reg_host": the library registers the GPU's memory first. */
EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *which, void *address, size_t bytes, int access)
{
    static bool second;
    bool host = second;
    second = !second;
    return fails(host ? "reg_host" : "reg_gpu") ? NULL : new_mr((uintptr_t)address, bytes);
}

#ifndef FAKE_VERBS_OLD
EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *which, uint64_t offset, size_t bytes,
                                        uint64_t iova, int fd, int access)
{
    return fails("reg_dmabuf_mr") || fd < 0 ? NULL : new_mr(iova, bytes);
}
#endif

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    ((struct memory *)mr)->used = false;
    live--;
    return 0;
}

static bool holds(bool remote, uint32_t key, uint64_t address, size_t bytes)
{
    for (int i = 0; i < MOST_MRS; i++) {
        const struct ibv_mr *mr = &memories[i].mr;
        if (memories[i].used && (remote ? mr->rkey : mr->lkey) == key)
            return address >= (uintptr_t)mr->addr &&
                   address - (uintptr_t)mr->addr + bytes <= mr->length;
    }
    return false;
}

/* -------------------------------------------------------------------------------------- queues */

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *mine,
                                    struct ibv_comp_channel *channel, int vector)
{
    if (fails("create_cq"))
        return NULL;
    cq.context = context;
    done_first = done_end = 0;
    live++;
    return &cq;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *which)
{
    live--;
    return 0;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *attr)
{
    if (fails("create_qp"))
        return NULL;
    qp = (struct ibv_qp){.context = domain->context, .qp_num = 42, .state = IBV_QPS_RESET};
    own_peer = false;
    live++;
    return &qp;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *which)
{
    live--;
    return 0;
}

/* Ethernet has no LID: the address must be this port's GID, by its index. */
static bool is_own_address(const struct ibv_ah_attr *address)
{
    union ibv_gid gid;
    if (!is_ethernet())
        return address->dlid == 17;
    make_gid(&gid, address->grh.sgid_index);
    return address->is_global && address->grh.sgid_index == setting("FAKE_VERBS_GID", 1) &&
           memcmp(&gid, &address->grh.dgid, sizeof gid) == 0;
}

EXPORT int ibv_modify_qp(struct ibv_qp *which, struct ibv_qp_attr *attr, int mask)
{
    static const char *const steps[] = {
        [IBV_QPS_INIT] = "to_init", [IBV_QPS_RTR] = "to_receive", [IBV_QPS_RTS] = "to_send"};
    if (!(mask & IBV_QP_STATE) || attr->qp_state != which->state + 1)
        return EINVAL;
    if (fails(steps[attr->qp_state]))
        return errno;
    if (attr->qp_state == IBV_QPS_RTR)
        own_peer = attr->dest_qp_num == which->qp_num && is_own_address(&attr->ah_attr);
    which->state = attr->qp_state;
    return 0;
}

static void copy(const struct ibv_send_wr *wr)
{
    void *local = memory_at(wr->sg_list->addr), *remote = memory_at(wr->wr.rdma.remote_addr);
    if (wr->opcode == IBV_WR_RDMA_READ)
        memcpy(local, remote, wr->sg_list->length);
    else if (!setting("FAKE_VERBS_LIE", 0))
        memcpy(remote, local, wr->sg_list->length);
}

static int post_send(struct ibv_qp *which, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct ibv_wc *wc = &done[done_end];
    *bad = wr;
    if (fails("post_send"))
        return errno;
    if (which->state != IBV_QPS_RTS || done_end == MOST_DONE)
        return EINVAL;
    *wc = (struct ibv_wc){.status = IBV_WC_SUCCESS};
    size_t bytes = wr->sg_list->length;
    if (fails("completion"))
        *wc = (struct ibv_wc){.status = IBV_WC_REM_ACCESS_ERR, .vendor_err = (unsigned)errno};
    else if (!own_peer)
        wc->status = IBV_WC_RETRY_EXC_ERR;
    else if (!holds(false, wr->sg_list->lkey, wr->sg_list->addr, bytes))
        wc->status = IBV_WC_LOC_PROT_ERR;
    else if (!holds(true, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, bytes))
        wc->status = IBV_WC_REM_ACCESS_ERR;
    else
        copy(wr);
    done_end++;
    return 0;
}

static int poll_cq(struct ibv_cq *which, int n, struct ibv_wc *wc)
{
    if (fails("poll_cq"))
        return -1;
    if (fails("silence") || done_first == done_end)
        return 0;
    *wc = done[done_first++];
    if (done_first == done_end)
        done_first = done_end = 0;
    return 1;
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_REM_ACCESS_ERR  ? "remote access error"
           : status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded"
           : status == IBV_WC_LOC_PROT_ERR  ? "local protection error"
                                            : "success";
}
