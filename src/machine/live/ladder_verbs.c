/* SPDX-License-Identifier: Apache-2.0 */
/* Registration and loopback transfer with verbs. See ladder_verbs.h. */
#include "machine/live/ladder_verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "driver/verbs.h"

#ifdef WEFT_HAVE_VERBS

enum { PORT = 1, SPEED_ROUNDS = 64, GIDS_MOST = 32 };
static const uint64_t POLL_LIMIT_NS = 2000000000; /* a transfer of megabytes takes milliseconds */
static const int ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct nic {
    struct verbs verbs;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *gpu, *host;
    char *buffer;
    const char *name;
};

static void set_result(struct rung_result *r, bool ok, int error, const char *call)
{
    r->tried = true;
    r->ok = ok;
    r->error = ok ? 0 : error;
    snprintf(r->detail, sizeof r->detail, "%s%s%s", call, ok ? "" : ": ",
             ok ? "" : strerror(error));
}

static weft_status open_nic(struct nic *nic)
{
    int n = 0;
    struct ibv_device **list = nic->verbs.get_device_list(&n);
    if (!list)
        return base_fail(WEFT_ERR_UNSUPPORTED, "cannot find %s: ibv_get_device_list: %s", nic->name,
                         strerror(errno));
    errno = 0;
    for (int i = 0; i < n && !nic->context; i++)
        if (strcmp(nic->verbs.get_device_name(list[i]), nic->name) == 0)
            nic->context = nic->verbs.open_device(list[i]);
    int error = errno;
    nic->verbs.free_device_list(list);
    if (!nic->context)
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s among %d RDMA devices: %s", nic->name, n,
                         error ? strerror(error) : "libibverbs does not list it");
    nic->pd = nic->verbs.alloc_pd(nic->context);
    return nic->pd ? WEFT_OK
                   : base_fail(WEFT_ERR_UNSUPPORTED, "ibv_alloc_pd on %s: %s", nic->name,
                               strerror(errno));
}

static void close_nic(struct nic *nic)
{
    if (nic->qp)
        nic->verbs.destroy_qp(nic->qp);
    if (nic->cq)
        nic->verbs.destroy_cq(nic->cq);
    if (nic->gpu)
        nic->verbs.dereg_mr(nic->gpu);
    if (nic->host)
        nic->verbs.dereg_mr(nic->host);
    if (nic->pd)
        nic->verbs.dealloc_pd(nic->pd);
    if (nic->context)
        nic->verbs.close_device(nic->context);
    free(nic->buffer);
}

/* Keeps the first successful registration for the transfer, and releases a second one. */
static void keep_registration(struct nic *nic, struct ibv_mr *mr)
{
    if (mr && nic->gpu)
        nic->verbs.dereg_mr(mr);
    else if (mr)
        nic->gpu = mr;
}

static void register_both(struct nic *nic, uint64_t address, size_t bytes, int dmabuf,
                          struct rung_result *results)
{
    struct rung_result *r = &results[RUNG_DMABUF];
    struct ibv_mr *mr = NULL;
    if (dmabuf < 0) {
        snprintf(r->detail, sizeof r->detail, "there is no dma-buf to register");
    } else if (!nic->verbs.reg_dmabuf_mr) {
        set_result(r, false, ENOSYS, "this libibverbs has no ibv_reg_dmabuf_mr");
    } else {
        errno = 0;
        mr = nic->verbs.reg_dmabuf_mr(nic->pd, 0, bytes, address, dmabuf, ACCESS);
        set_result(r, mr != NULL, errno, "ibv_reg_dmabuf_mr");
        keep_registration(nic, mr);
    }
    errno = 0;
    mr = nic->verbs.reg_mr(nic->pd, (void *)(uintptr_t)address, bytes, ACCESS);
    set_result(&results[RUNG_PEERMEM], mr != NULL, errno, "ibv_reg_mr of GPU memory");
    keep_registration(nic, mr);
}

/* --- a queue pair connected to itself --------------------------------------------------------- */

/* Finds a GID, of type RoCE v2 if possible; sysfs has the type of each GID. Returns its index, or
 * -1 when there is none. */
static int find_gid(const struct nic *nic, union ibv_gid *gid)
{
    static const union ibv_gid zero;
    int any = -1;
    for (int i = 0; i < GIDS_MOST; i++) {
        char path[300], type[32] = "";
        union ibv_gid here;
        if (nic->verbs.query_gid(nic->context, PORT, i, &here) != 0)
            break;
        if (memcmp(&here, &zero, sizeof here) == 0)
            continue;
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
                 nic->name, PORT, i);
        FILE *file = fopen(path, "re");
        bool v2 = file && fgets(type, sizeof type, file) && strstr(type, "v2");
        if (file)
            fclose(file);
        if (any >= 0 && !v2)
            continue;
        any = i;
        *gid = here;
        if (v2)
            break;
    }
    return any;
}

static int to_init(struct nic *nic)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = (unsigned)ACCESS};
    return nic->verbs.modify_qp(
        nic->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Moves the queue pair to ready-to-receive. Sets *call when another call than ibv_modify_qp fails.
 */
static int to_receive(struct nic *nic, const struct ibv_port_attr *port, const char **call)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port->active_mtu,
        .dest_qp_num = nic->qp->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = port->lid, .port_num = PORT},
    };
    if (port->link_layer == IBV_LINK_LAYER_ETHERNET || port->lid == 0) {
        int index = find_gid(nic, &attr.ah_attr.grh.dgid);
        if (index < 0) {
            *call = "ibv_query_gid finds no GID at port 1";
            return ENODEV;
        }
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = (uint8_t)index;
        attr.ah_attr.grh.hop_limit = 64;
    }
    return nic->verbs.modify_qp(nic->qp, &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                    IBV_QP_MIN_RNR_TIMER);
}

static int to_send(struct nic *nic)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    return nic->verbs.modify_qp(nic->qp, &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Creates a queue pair and connects it to itself. On failure sets the result and returns false. */
static bool connect_to_self(struct nic *nic, struct rung_result *r)
{
    struct ibv_port_attr port;
    int error;
    memset(&port, 0, sizeof port);
    if ((error = nic->verbs.query_port(nic->context, PORT, &port)) != 0) {
        set_result(r, false, error, "ibv_query_port");
        return false;
    }
    nic->cq = nic->verbs.create_cq(nic->context, SPEED_ROUNDS + 8, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = nic->cq,
        .recv_cq = nic->cq,
        .cap = {.max_send_wr = SPEED_ROUNDS + 4,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    nic->qp = nic->cq ? nic->verbs.create_qp(nic->pd, &attr) : NULL;
    if (!nic->qp) {
        set_result(r, false, errno, nic->cq ? "ibv_create_qp" : "ibv_create_cq");
        return false;
    }
    const char *call = "ibv_modify_qp";
    if ((error = to_init(nic)) != 0 || (error = to_receive(nic, &port, &call)) != 0 ||
        (error = to_send(nic)) != 0) {
        set_result(r, false, error, call);
        return false;
    }
    return true;
}

/* Posts `rounds` equal requests between host memory at `host` and GPU memory, and waits for all. */
static bool post_and_wait(struct nic *nic, enum ibv_wr_opcode opcode, char *host, uint64_t gpu,
                          size_t bytes, int rounds, struct rung_result *r)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)host, .length = (uint32_t)bytes, .lkey = nic->host->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = gpu, .rkey = nic->gpu->rkey}};
    struct ibv_send_wr *bad;
    int error, done = 0;
    for (int i = 0; i < rounds; i++)
        if ((error = ibv_post_send(nic->qp, &wr, &bad)) != 0) {
            set_result(r, false, error, "ibv_post_send");
            return false;
        }
    uint64_t end = clock_now_ns() + POLL_LIMIT_NS;
    while (done < rounds) {
        struct ibv_wc wc;
        int n = ibv_poll_cq(nic->cq, 1, &wc);
        if (n > 0 && wc.status != IBV_WC_SUCCESS) {
            char detail[160];
            snprintf(detail, sizeof detail, "completion: %s, vendor syndrome 0x%x",
                     nic->verbs.wc_status_str(wc.status), wc.vendor_err);
            set_result(r, false, EIO, detail);
            return false;
        }
        done += n > 0;
        if (n < 0 || clock_now_ns() > end) {
            set_result(r, false, n < 0 ? EIO : ETIMEDOUT, "wait for a completion");
            return false;
        }
    }
    return true;
}

static void test_transfer(struct nic *nic, uint64_t gpu, size_t bytes, size_t check,
                          struct rung_result *results)
{
    struct rung_result *r = &results[RUNG_TRANSFER];
    if (!connect_to_self(nic, r))
        return;
    for (size_t i = 0; i < check; i++)
        nic->buffer[i] = (char)(i * 131 + 7);
    memset(nic->buffer + check, 0, check);
    if (!post_and_wait(nic, IBV_WR_RDMA_WRITE, nic->buffer, gpu, check, 1, r) ||
        !post_and_wait(nic, IBV_WR_RDMA_READ, nic->buffer + check, gpu, check, 1, r))
        return;
    bool same = memcmp(nic->buffer, nic->buffer + check, check) == 0;
    set_result(r, same, EIO, "compare written and read data");
    if (!same)
        return;
    snprintf(r->detail, sizeof r->detail, "%zu bytes written and read back correctly", check);
    r = &results[RUNG_SPEED];
    uint64_t start = clock_now_ns();
    if (!post_and_wait(nic, IBV_WR_RDMA_WRITE, nic->buffer, gpu, bytes, SPEED_ROUNDS, r))
        return;
    uint64_t ns = clock_now_ns() - start;
    set_result(r, true, 0, "RDMA writes from host memory, looped back in the NIC");
    r->mbps = ns ? (int64_t)((double)bytes * SPEED_ROUNDS * 1000 / (double)ns) : 0;
}

static void skip_rest(struct rung_result *results)
{
    for (int i = RUNG_TRANSFER; i < RUNGS; i++)
        if (!results[i].tried && !results[i].detail[0])
            snprintf(results[i].detail, sizeof results[i].detail, "an earlier step failed");
}

static weft_status run_steps(struct nic *nic, uint64_t address, size_t bytes, size_t check,
                             int dmabuf, struct rung_result *results)
{
    weft_status status = open_nic(nic);
    if (status)
        return status;
    register_both(nic, address, bytes, dmabuf, results);
    nic->buffer = aligned_alloc(4096, bytes > 2 * check ? bytes : 2 * check);
    nic->host = nic->buffer ? nic->verbs.reg_mr(nic->pd, nic->buffer,
                                                bytes > 2 * check ? bytes : 2 * check, ACCESS)
                            : NULL;
    if (!nic->host)
        set_result(&results[RUNG_TRANSFER], false, errno, "ibv_reg_mr of host memory");
    else if (nic->gpu)
        test_transfer(nic, address, bytes, check, results);
    skip_rest(results);
    return WEFT_OK;
}

weft_status ladder_verbs(const char *name, uint64_t address, size_t bytes, size_t check_bytes,
                         int dmabuf, struct rung_result results[RUNGS])
{
    struct nic nic = {.name = name};
    memset(results, 0, RUNGS * sizeof *results);
    weft_status status = verbs_open(&nic.verbs);
    if (status)
        return status;
    status = run_steps(&nic, address, bytes, check_bytes, dmabuf, results);
    close_nic(&nic);
    verbs_close(&nic.verbs);
    return status;
}

#else

weft_status ladder_verbs(const char *name, uint64_t address, size_t bytes, size_t check_bytes,
                         int dmabuf, struct rung_result results[RUNGS])
{
    struct verbs verbs;
    memset(results, 0, RUNGS * sizeof *results);
    return verbs_open(&verbs); /* fails: built without the headers of rdma-core */
}

#endif
