/* SPDX-License-Identifier: Apache-2.0 */
/* The plain verbs beyond what perftest uses: receives that are missing or too short, shared receive
 * queues, DC, and the order of writes in adversarial mode. */
#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1 << 16, KEY = 0x1234567 };

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *memory;
    struct ibv_port_attr port;
    union ibv_gid gid, last_gid; /* the device's GUID is in the first; queues use the last */
    int last_gid_index;
};

enum {
    ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
          IBV_ACCESS_REMOTE_ATOMIC
};

static void open_side(struct side *s, bool events, bool srq, int more_access)
{
    memset(s, 0, sizeof *s);
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_non_null(list[0]);
    s->context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    s->pd = ibv_alloc_pd(s->context);
    s->channel = events ? ibv_create_comp_channel(s->context) : NULL;
    s->cq = ibv_create_cq(s->context, 256, s, s->channel, 0);
    assert_int_equal(posix_memalign((void **)&s->memory, 4096, BYTES), 0);
    memset(s->memory, 0, BYTES);
    s->mr = ibv_reg_mr(s->pd, s->memory, BYTES, ALL | more_access);
    assert_non_null(s->mr);
    if (srq)
        s->srq =
            ibv_create_srq(s->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 7, .max_sge = 2}});
    assert_int_equal(ibv_query_port(s->context, 1, &s->port), 0);
    s->last_gid_index = s->port.gid_tbl_len - 1;
    assert_int_equal(ibv_query_gid(s->context, 1, 0, &s->gid), 0);
    assert_int_equal(ibv_query_gid(s->context, 1, s->last_gid_index, &s->last_gid), 0);
}

static void make_rc(struct side *s)
{
    struct ibv_qp_init_attr a = {.send_cq = s->cq,
                                 .recv_cq = s->cq,
                                 .srq = s->srq,
                                 .qp_type = IBV_QPT_RC,
                                 .cap = {64, 16, 4, 2, 200}};
    s->qp = ibv_create_qp(s->pd, &a);
    assert_non_null(s->qp);
}

static void close_side(struct side *s)
{
    if (s->qp)
        assert_int_equal(ibv_destroy_qp(s->qp), 0);
    if (s->srq)
        assert_int_equal(ibv_destroy_srq(s->srq), 0);
    assert_int_equal(ibv_destroy_cq(s->cq), 0);
    if (s->channel)
        assert_int_equal(ibv_destroy_comp_channel(s->channel), 0);
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    assert_int_equal(ibv_dealloc_pd(s->pd), 0);
    ibv_close_device(s->context);
    free(s->memory);
}

static void to_address(const struct side *to, struct ibv_ah_attr *ah)
{
    ah->dlid = to->port.lid;
    ah->is_global = 1;
    ah->grh.dgid = to->last_gid;
    ah->grh.sgid_index = (uint8_t)to->last_gid_index;
    ah->port_num = 1;
}

static void connect_rc(struct side *s, const struct side *to, unsigned rnr_retry)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
    assert_int_equal(
        ibv_modify_qp(s->qp, &a,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = to->qp->qp_num,
                             .rq_psn = 5,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 1};
    to_address(to, &a.ah_attr);
    a.ah_attr.grh.dgid = to->last_gid;
    a.ah_attr.grh.sgid_index = (uint8_t)s->last_gid_index;
    /* A transition without its required attributes is refused. */
    assert_int_equal(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_AV), EINVAL);
    assert_int_equal(ibv_modify_qp(s->qp, &a,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = 10,
                             .retry_cnt = 7,
                             .rnr_retry = (uint8_t)rnr_retry,
                             .sq_psn = 5,
                             .max_rd_atomic = 4};
    assert_int_equal(ibv_modify_qp(s->qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void open_rc(struct side *a, struct side *b, bool events, bool srq, unsigned rnr_retry)
{
    open_side(a, false, false, 0);
    open_side(b, events, srq, 0);
    make_rc(a);
    make_rc(b);
    connect_rc(b, a, rnr_retry);
    connect_rc(a, b, rnr_retry);
}

static void wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
    time_t end = time(NULL) + 20;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, wc)))
        assert_true(time(NULL) < end);
    assert_int_equal(n, 1);
}

static void post_recv(struct side *s, uint64_t id, size_t at, uint32_t bytes)
{
    /* Two segments. */
    struct ibv_sge sge[2] = {
        {(uintptr_t)s->memory + at, bytes / 3, s->mr->lkey},
        {(uintptr_t)s->memory + at + bytes / 3, bytes - bytes / 3, s->mr->lkey}};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = sge, .num_sge = 2}, *bad;
    assert_int_equal(
        s->srq ? ibv_post_srq_recv(s->srq, &wr, &bad) : ibv_post_recv(s->qp, &wr, &bad), 0);
}

static void post_send(struct side *s, enum ibv_wr_opcode opcode, size_t at, uint32_t bytes,
                      uint32_t imm)
{
    struct ibv_sge sge = {(uintptr_t)s->memory + at, bytes, s->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 100 + at,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
                             .imm_data = htobe32(imm)},
                       *bad;
    assert_int_equal(ibv_post_send(s->qp, &wr, &bad), 0);
}

static void send_and_receive(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    open_rc(&a, &b, true, false, 7);
    for (unsigned i = 0; i < 5000; i++)
        a.memory[i] = (uint8_t)(i * 13 + 1);
    assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
    post_recv(&b, 7, 100, 6000);
    post_send(&a, IBV_WR_SEND_WITH_IMM, 0, 5000, 0xabcdef01);
    /* The channel delivers the event once. */
    struct ibv_cq *cq;
    void *who;
    struct pollfd p = {.fd = b.channel->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(ibv_get_cq_event(b.channel, &cq, &who), 0);
    assert_ptr_equal(cq, b.cq);
    assert_ptr_equal(who, &b);
    ibv_ack_cq_events(cq, 1);
    wait_wc(b.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.byte_len, 5000);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(be32toh(wc.imm_data), 0xabcdef01);
    assert_memory_equal(b.memory + 100, a.memory, 5000);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.wr_id, 100);
    assert_int_equal(wc.opcode, IBV_WC_SEND);
    /* Another event was not requested. */
    post_recv(&b, 8, 0, 10);
    post_send(&a, IBV_WR_SEND, 0, 10, 0);
    wait_wc(b.cq, &wc);
    assert_int_equal(poll(&p, 1, 0), 0);
    close_side(&a);
    close_side(&b);
}

static void receiver_not_ready(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    open_rc(&a, &b, false, false, 7);
    memcpy(a.memory, "one two three", 13);
    for (unsigned i = 0; i < 3; i++)
        post_send(&a, IBV_WR_SEND, 4 * i, 4, 0);
    usleep(3000);
    for (unsigned i = 0; i < 3; i++)
        post_recv(&b, i, 1000 + 8 * i, 8);
    for (unsigned i = 0; i < 3; i++) {
        wait_wc(b.cq, &wc);
        assert_int_equal(wc.wr_id, i);
        wait_wc(a.cq, &wc);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
    }
    assert_memory_equal(b.memory + 1016, "thre", 4);
    close_side(&a);
    close_side(&b);
    /* With a limited number of RNR retries. */
    open_rc(&a, &b, false, false, 2);
    post_send(&a, IBV_WR_SEND, 0, 4, 0);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
    close_side(&a);
    close_side(&b);
}

/* A refusal may get lost, and the refusing end then stays silent: the requester runs out of
 * retries. */
static bool is_refused(enum ibv_wc_status status)
{
    const char *link = getenv("SOFT_HCA_LINK"), *mode = getenv("SOFT_HCA_MODE");
    bool loses = link && mode && strcmp(link, "roce") == 0 && strcmp(mode, "adversarial") == 0;
    return status == IBV_WC_REM_INV_REQ_ERR || (loses && status == IBV_WC_RETRY_EXC_ERR);
}

static void message_too_long(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    open_rc(&a, &b, false, false, 7);
    memset(b.memory, 0xee, 64);
    post_recv(&b, 1, 0, 9);
    post_recv(&b, 2, 100, 9);
    post_send(&a, IBV_WR_SEND, 0, 10, 0);
    wait_wc(a.cq, &wc);
    assert_true(is_refused(wc.status));
    wait_wc(b.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(b.memory[9], 0xee);
    wait_wc(b.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 2);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(b.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    close_side(&a);
    close_side(&b);
}

static void shared_receive_queue(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    open_rc(&a, &b, false, true, 7);
    /* Three of seven entries are in use at a time, for many rounds of the list. */
    for (unsigned i = 0; i < 3; i++)
        post_recv(&b, i, 64 * i, 64);
    for (unsigned i = 0; i < 40; i++) {
        memset(a.memory, (int)i, 8);
        post_send(&a, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, 0, 8, i);
        wait_wc(b.cq, &wc);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i % 3);
        assert_int_equal(b.memory[64 * (i % 3) + 7], i);
        post_recv(&b, i % 3, 64 * (i % 3), 64);
        wait_wc(a.cq, &wc);
    }
    for (unsigned i = 0; i < 4; i++)
        post_recv(&b, 9, 0, 64);
    struct ibv_recv_wr one = {.wr_id = 9}, *bad;
    assert_int_equal(ibv_post_srq_recv(b.srq, &one, &bad), ENOMEM);
    assert_ptr_equal(bad, &one);
    close_side(&a);
    close_side(&b);
}

/* --- DC --- */

static void make_dc_target(struct side *s)
{
    struct ibv_qp_init_attr_ex a = {.send_cq = s->cq,
                                    .recv_cq = s->cq,
                                    .srq = s->srq,
                                    .qp_type = IBV_QPT_DRIVER,
                                    .comp_mask = IBV_QP_INIT_ATTR_PD,
                                    .pd = s->pd};
    struct mlx5dv_qp_init_attr m = {
        .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
        .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = KEY}};
    s->qp = mlx5dv_create_qp(s->context, &a, &m);
    assert_non_null(s->qp);
    struct ibv_qp_attr q = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
    assert_int_equal(
        ibv_modify_qp(s->qp, &q,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    q = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 1};
    q.ah_attr.port_num = 1;
    assert_int_equal(
        ibv_modify_qp(s->qp, &q, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER),
        0);
}

static void make_dc_initiator(struct side *s)
{
    struct ibv_qp_init_attr_ex a = {
        .send_cq = s->cq,
        .recv_cq = s->cq,
        .qp_type = IBV_QPT_DRIVER,
        .cap = {64, 0, 2, 0, 100},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags =
            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
        .pd = s->pd};
    struct mlx5dv_qp_init_attr m = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                    .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
    s->qp = mlx5dv_create_qp(s->context, &a, &m);
    assert_non_null(s->qp);
    struct ibv_qp_attr q = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(ibv_modify_qp(s->qp, &q, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
    q = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
    assert_int_equal(ibv_modify_qp(s->qp, &q, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
    q = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 3, .rnr_retry = 7, .max_rd_atomic = 4};
    assert_int_equal(ibv_modify_qp(s->qp, &q,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void dc_write(struct side *s, struct side *to, struct ibv_ah *ah, uint64_t key, size_t at,
                     uint32_t bytes)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(s->qp);
    struct mlx5dv_qp_ex *dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
    ibv_wr_start(ex);
    ex->wr_id = at;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, to->mr->rkey, (uintptr_t)to->memory + at);
    mlx5dv_wr_set_dc_addr(dv, ah, to->qp->qp_num, key);
    ibv_wr_set_sge(ex, s->mr->lkey, (uintptr_t)s->memory, bytes);
    assert_int_equal(ibv_wr_complete(ex), 0);
}

static void dynamic_connections(void **state)
{
    struct side a, b, c;
    struct ibv_wc wc;
    struct ibv_ah_attr to_b = {0}, to_c = {0};
    open_side(&a, false, false, 0);
    open_side(&b, false, true, 0);
    open_side(&c, false, true, 0);
    make_dc_initiator(&a);
    make_dc_target(&b);
    make_dc_target(&c);
    to_address(&b, &to_b);
    to_address(&c, &to_c);
    struct ibv_ah *ab = ibv_create_ah(a.pd, &to_b), *ac = ibv_create_ah(a.pd, &to_c);
    for (unsigned i = 0; i < 3000; i++)
        a.memory[i] = (uint8_t)(i * 5 + 3);
    /* One queue sends to two targets in turn. */
    for (unsigned i = 0; i < 6; i++)
        dc_write(&a, i % 2 ? &c : &b, i % 2 ? ac : ab, KEY, 4000 * i + 1, 3000);
    for (unsigned i = 0; i < 6; i++) {
        wait_wc(a.cq, &wc);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 4000 * i + 1);
        assert_memory_equal((i % 2 ? c.memory : b.memory) + 4000 * i + 1, a.memory, 3000);
    }
    /* Also a message. */
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a.qp);
    post_recv(&c, 5, 40000, 100);
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), ac, c.qp->qp_num, KEY);
    ibv_wr_set_inline_data(ex, "hello", 5);
    assert_int_equal(ibv_wr_complete(ex), 0);
    wait_wc(c.cq, &wc);
    assert_int_equal(wc.byte_len, 5);
    assert_memory_equal(c.memory + 40000, "hello", 5);
    wait_wc(a.cq, &wc);
    /* A request with a wrong key gets no answer. */
    dc_write(&a, &b, ab, KEY + 1, 1, 8);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    ibv_destroy_ah(ab);
    ibv_destroy_ah(ac);
    close_side(&a);
    close_side(&b);
    close_side(&c);
}

/* --- Order --- */

/* Makes sixteen writes at a time to one place; returns in how many of 100 rounds the last one did
 * not win. */
static unsigned rounds_out_of_order(int access)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    unsigned odd = 0;
    struct client_options o = {.access = ALL | access};
    assert_int_equal(client_open(&a, &o), 0);
    assert_int_equal(client_open(&b, &o), 0);
    client_pair(&a, &b);
    assert_int_equal(client_connect(&b), 0);
    assert_int_equal(client_connect(&a), 0);
    for (unsigned round = 0; round < 100; round++) {
        uint16_t last = 0;
        for (uint64_t i = 0; i < 16; i++) {
            struct wqe_maker w;
            wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, i == 15 ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 0);
            wqe_remote(&w, a.remote_memory, a.remote_rkey);
            wqe_inline(&w, &i, 8);
            last = wqe_end(&w);
        }
        client_doorbell(&a);
        assert_int_equal(client_poll_index(&a, last, &e), MLX5_CQE_REQ);
        odd += *(uint64_t *)b.memory != 15;
    }
    client_close(&a);
    client_close(&b);
    return odd;
}

static void writes_keep_their_order(void **state)
{
    assert_int_equal(rounds_out_of_order(0), 0);
    const char *mode = getenv("SOFT_HCA_MODE");
    unsigned odd = rounds_out_of_order(IBV_ACCESS_RELAXED_ORDERING);
    if (mode && !strcmp(mode, "adversarial"))
        assert_true(odd > 10);
    else
        assert_int_equal(odd, 0);
}

/* --- Refusals and limits --- */

static struct ibv_qp *try_qp(struct side *s, struct ibv_qp_init_attr_ex *a)
{
    a->send_cq = a->recv_cq = s->cq;
    a->pd = s->pd;
    errno = 0;
    return ibv_create_qp_ex(s->context, a);
}

static void queues_of_too_much(void **state)
{
    struct side s;
    static const struct {
        struct ibv_qp_cap cap;
        bool good;
        uint32_t receives; /* as reported by the call */
    } rows[] = {
        {{1, 1, 1, 1, 0}, true, 1},
        {{0, 0, 0, 0, 0}, true, 0},
        {{1, 5, 30, 30, 512}, true, 8},
        {{1, 5, 31, 30, 0}, false, 0},
        {{1, 5, 30, 31, 0}, false, 0},
        {{1, 5, 1, 1, 513}, false, 0},
        {{8192, 16384, 1, 1, 0}, true, 16384},
        {{16385, 1, 0, 1, 0}, false, 0},
        {{8193, 1, 1, 1, 0}, false, 0}, /* two blocks per request */
        {{1, 16385, 1, 1, 0}, false, 0},
    };
    open_side(&s, false, false, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ibv_qp_init_attr a = {
            .send_cq = s.cq, .recv_cq = s.cq, .qp_type = IBV_QPT_RC, .cap = rows[i].cap};
        struct ibv_qp *qp = ibv_create_qp(s.pd, &a);
        if ((qp != NULL) != rows[i].good)
            fail_msg("row %zu: %s", i, qp ? "made" : strerror(errno));
        if (!qp)
            continue;
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        assert_int_equal(a.cap.max_recv_wr, rows[i].receives);
        assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
        assert_int_equal(init.cap.max_recv_wr, rows[i].receives);
        assert_int_equal(attr.cap.max_inline_data, rows[i].cap.max_inline_data);
        assert_int_equal(attr.qp_state, IBV_QPS_RESET);
        assert_ptr_equal(init.send_cq, s.cq);
        assert_int_equal(init.qp_type, IBV_QPT_RC);
        assert_int_equal(ibv_destroy_cq(s.cq), EBUSY); /* it is in use */
        assert_int_equal(ibv_dealloc_pd(s.pd), EBUSY);
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    close_side(&s);
}

static void queues_of_unknown_kinds(void **state)
{
    struct side s;
    const uint32_t ops = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, flags = IBV_QP_INIT_ATTR_CREATE_FLAGS;
    static const struct ibv_qp_init_attr_ex plain = {
        .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD, .cap = {4, 4, 1, 1, 0}};
    open_side(&s, false, false, 0);
    for (int i = 0; i < 9; i++) {
        struct ibv_qp_init_attr_ex a = plain;
        int e = i < 6 ? EOPNOTSUPP : i < 7 ? EINVAL : 0;
        if (i == 0)
            a.qp_type = IBV_QPT_UD;
        if (i == 1)
            a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
        if (i == 2)
            a.comp_mask |= ops, a.send_ops_flags = IBV_QP_EX_WITH_BIND_MW;
        if (i == 3)
            a.comp_mask |= flags, a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
        if (i == 4)
            a.comp_mask |= ops, a.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;
        if (i == 5)
            a.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
        if (i == 6)
            a.comp_mask = 0; /* no domain */
        if (i == 7)
            a.comp_mask |= ops | flags, a.send_ops_flags = 0x7f;
        if (i == 8) /* fields outside the mask are ignored */
            a.send_ops_flags = UINT64_MAX, a.create_flags = UINT32_MAX;
        struct ibv_qp *qp = try_qp(&s, &a);
        if ((qp == NULL) != (e != 0) || (e && errno != e))
            fail_msg("row %d: %s", i, qp ? "made" : strerror(errno));
        if (!qp)
            continue;
        assert_int_equal(ibv_qp_to_qp_ex(qp) != NULL, i == 7);
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    struct ibv_qp_init_attr_ex a = plain;
    struct mlx5dv_qp_init_attr m = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS};
    a.pd = s.pd;
    a.send_cq = a.recv_cq = s.cq;
    assert_null(mlx5dv_create_qp(s.context, &a, &m));
    assert_int_equal(errno, EOPNOTSUPP);
    m = (struct mlx5dv_qp_init_attr){.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                     .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT};
    assert_null(mlx5dv_create_qp(s.context, &a, &m)); /* the type is not IBV_QPT_DRIVER */
    assert_int_equal(errno, EINVAL);
    a.qp_type = IBV_QPT_DRIVER;
    assert_null(mlx5dv_create_qp(s.context, &a, &m)); /* no shared receive queue */
    assert_int_equal(errno, EINVAL);
    close_side(&s);
}

static void other_objects_of_too_much(void **state)
{
    struct side s;
    open_side(&s, false, true, 0);
    assert_null(ibv_create_cq(s.context, 0, NULL, NULL, 0));
    assert_null(ibv_create_cq(s.context, 1 << 22, NULL, NULL, 0));
    assert_null(ibv_create_cq(s.context, 1, NULL, NULL, 1));
    assert_null(ibv_create_cq(s.context, 1, NULL, NULL, -1));
    assert_int_equal(errno, EINVAL);
    for (int want = 1; want < 9; want++) { /* one entry stays free */
        struct ibv_cq *cq = ibv_create_cq(s.context, want, NULL, NULL, 0);
        assert_int_equal(cq->cqe, want < 2 ? 1 : want < 4 ? 3 : want < 8 ? 7 : 15);
        assert_int_equal(ibv_resize_cq(cq, cq->cqe), 0);
        assert_int_equal(ibv_resize_cq(cq, cq->cqe + 1), EOPNOTSUPP);
        assert_int_equal(ibv_destroy_cq(cq), 0);
    }
    static const struct {
        uint32_t entries, parts, made, made_parts; /* made 0: refused */
    } srqs[] = {{0, 1, 0, 0},   {1, 0, 1, 0},  {2, 1, 3, 1},         {4, 2, 7, 3},
                {4, 30, 7, 31}, {4, 31, 0, 0}, {32767, 1, 32767, 1}, {32768, 1, 0, 0}};
    for (size_t i = 0; i < sizeof srqs / sizeof *srqs; i++) {
        struct ibv_srq_init_attr a = {
            .attr = {.max_wr = srqs[i].entries, .max_sge = srqs[i].parts}};
        struct ibv_srq *srq = ibv_create_srq(s.pd, &a);
        struct ibv_srq_attr told = {.srq_limit = 1};
        assert_int_equal(srq != NULL, srqs[i].made != 0);
        if (!srq)
            continue;
        assert_int_equal(a.attr.max_wr, srqs[i].made);
        assert_int_equal(ibv_query_srq(srq, &told), 0);
        assert_true(told.max_wr == srqs[i].made && told.max_sge == srqs[i].made_parts &&
                    told.srq_limit == 0);
        assert_int_equal(ibv_modify_srq(srq, &told, IBV_SRQ_LIMIT), EOPNOTSUPP);
        assert_int_equal(ibv_modify_srq(srq, &told, 0), 0);
        assert_int_equal(ibv_destroy_srq(srq), 0);
    }
    make_rc(&s);
    assert_int_equal(ibv_destroy_srq(s.srq), EBUSY);
    /* Memory: unmapped, unknown, or without the required local write access. */
    static const int lone[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC};
    for (int i = 0; i < 2; i++) {
        assert_null(ibv_reg_mr(s.pd, s.memory, 8, lone[i]));
        assert_int_equal(errno, EINVAL);
    }
    assert_null(ibv_reg_mr(s.pd, s.memory, 8, IBV_ACCESS_ZERO_BASED));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_mr(s.pd, (void *)64, 8, 0));
    assert_int_equal(errno, EFAULT);
    assert_null(ibv_reg_mr(s.pd, s.memory, UINT64_MAX, 0));
    struct ibv_mr *mr = ibv_reg_mr(s.pd, s.memory, 0, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_int_equal(ibv_rereg_mr(mr, 0, s.pd, s.memory, 8, 0), IBV_REREG_MR_ERR_INPUT);
    struct ibv_mr gone = *mr;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dereg_mr(&gone), EINVAL); /* its key no longer exists */
    /* Addresses and ports. */
    union ibv_gid gid;
    uint16_t key = 0;
    struct ibv_ah_attr ah = {.port_num = 2};
    assert_null(ibv_create_ah(s.pd, &ah));
    ah = (struct ibv_ah_attr){
        .port_num = 1, .is_global = 1, .grh.sgid_index = (uint8_t)s.port.gid_tbl_len};
    assert_null(ibv_create_ah(s.pd, &ah));
    ah.is_global = 0;
    struct ibv_ah *address = ibv_create_ah(s.pd, &ah);
    assert_non_null(address);
    assert_int_equal(ibv_destroy_ah(address), 0);
    assert_int_equal(ibv_query_gid(s.context, 1, s.port.gid_tbl_len, &gid), -1);
    assert_int_equal(ibv_query_gid(s.context, 1, -1, &gid), -1);
    assert_int_equal(ibv_query_gid(s.context, 2, 0, &gid), -1);
    assert_int_equal(ibv_query_port(s.context, 2, &s.port), EINVAL);
    assert_int_equal(ibv_query_pkey(s.context, 1, 0, &key), 0);
    assert_int_equal(key, 0xffff);
    assert_int_equal(ibv_query_pkey(s.context, 1, 1, &key), -1);
    assert_int_equal(ibv_query_pkey(s.context, 2, 0, &key), -1);
    assert_int_equal(ibv_get_pkey_index(s.context, 1, 0xffff), 0);
    assert_int_equal(ibv_get_pkey_index(s.context, 1, 0x7fff), -1);
    assert_int_equal(ibv_get_pkey_index(s.context, 2, 0xffff), -1);
    close_side(&s);
}

static void words_and_rates(void **state)
{
    static const int rates[][3] = {{IBV_RATE_2_5_GBPS, 1, 2500},   {IBV_RATE_5_GBPS, 2, 5000},
                                   {IBV_RATE_10_GBPS, 4, 10000},   {IBV_RATE_20_GBPS, 8, 20000},
                                   {IBV_RATE_30_GBPS, 12, 30000},  {IBV_RATE_40_GBPS, 16, 40000},
                                   {IBV_RATE_60_GBPS, 24, 60000},  {IBV_RATE_80_GBPS, 32, 80000},
                                   {IBV_RATE_120_GBPS, 48, 120000}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        assert_int_equal(ibv_rate_to_mult((enum ibv_rate)rates[i][0]), rates[i][1]);
        assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)rates[i][0]), rates[i][2]);
        assert_int_equal(mult_to_ibv_rate(rates[i][1]), rates[i][0]);
        assert_int_equal(mbps_to_ibv_rate(rates[i][2]), rates[i][0]);
    }
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
    assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
    assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
    assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
    assert_string_equal(ibv_wc_status_str(IBV_WC_GENERAL_ERR), "general error");
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)999), "unknown");
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
    assert_string_equal(ibv_wc_status_str(IBV_WC_INV_EECN_ERR), "unknown");
    assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE_DEFER), "active, deferred");
    assert_string_equal(ibv_port_state_str((enum ibv_port_state)6), "invalid state");
    assert_string_equal(ibv_port_state_str((enum ibv_port_state) - 1), "invalid state");
    assert_string_equal(ibv_event_type_str(IBV_EVENT_QP_FATAL), "local QP fatal error");
    assert_string_equal(ibv_event_type_str(IBV_EVENT_CQ_ERR), "CQ error");
    assert_string_equal(ibv_event_type_str(IBV_EVENT_SM_CHANGE), "unknown");
    assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
    assert_string_equal(ibv_node_type_str(IBV_NODE_SWITCH), "unknown");
}

static void moves_that_are_refused(void **state)
{
    struct side s;
    static const struct {
        struct ibv_qp_attr a;
        int mask, e;
    } moves[] = {
        {{.qp_state = IBV_QPS_INIT, .port_num = 2},
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         EINVAL},
        {{.qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = 1},
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         EINVAL},
        {{.qp_state = IBV_QPS_INIT, .port_num = 1},
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT,
         EINVAL},
        {{.qp_state = IBV_QPS_INIT, .port_num = 1},
         IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT,
         EINVAL},
        {{.qp_state = IBV_QPS_INIT, .port_num = 1, .cur_qp_state = IBV_QPS_INIT},
         IBV_QP_CUR_STATE | IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         EINVAL},
        {{.qp_state = IBV_QPS_INIT,
          .port_num = 1,
          .cur_qp_state = IBV_QPS_RESET,
          .qp_access_flags = IBV_ACCESS_REMOTE_READ},
         IBV_QP_CUR_STATE | IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         0},
        {{.path_mtu = 0}, IBV_QP_PATH_MTU, EINVAL},
        {{.path_mtu = 6}, IBV_QP_PATH_MTU, EINVAL},
        {{.max_rd_atomic = 17}, IBV_QP_MAX_QP_RD_ATOMIC, EINVAL},
        {{.qp_state = IBV_QPS_RTS},
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         EINVAL},
    };
    open_side(&s, false, false, 0);
    make_rc(&s);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        struct ibv_qp_attr a = moves[i].a;
        int e = ibv_modify_qp(s.qp, &a, moves[i].mask);
        if (e != moves[i].e)
            fail_msg("move %zu: %s", i, strerror(e));
    }
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(s.qp, &a, 0, &init), 0);
    assert_true(a.qp_state == IBV_QPS_INIT && a.port_num == 1 &&
                a.qp_access_flags == IBV_ACCESS_REMOTE_READ);
    close_side(&s);
}

/* --- Requests built by calls --- */

static void open_by_calls(struct side *a, struct side *b)
{
    struct ibv_qp_init_attr_ex made = {.qp_type = IBV_QPT_RC,
                                       .sq_sig_all = 1,
                                       .comp_mask =
                                           IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .send_ops_flags = 0x7f,
                                       .cap = {8, 8, 4, 2, 64}};
    open_side(a, false, false, 0);
    open_side(b, false, false, 0);
    a->qp = try_qp(a, &made);
    make_rc(b);
    connect_rc(b, a, 7);
    connect_rc(a, b, 7);
}

static void requests_by_calls(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    static const enum ibv_wc_opcode opcodes[] = {
        IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,     IBV_WC_SEND,
        IBV_WC_RDMA_READ,  IBV_WC_FETCH_ADD,  IBV_WC_COMP_SWAP};
    open_by_calls(&a, &b);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a.qp);
    uint64_t to = (uintptr_t)b.memory, from = (uintptr_t)a.memory, word = 40, old;
    memcpy(a.memory, "abcdefghijklmnopqrstuvwxyz", 26);
    memcpy(b.memory + 512, &word, 8);
    /* no request changes it, because a lost read is executed again */
    memcpy(b.memory + 768, &word, 8);
    for (unsigned i = 0; i < 3; i++)
        post_recv(&b, 20 + i, 1024 + 64 * i, 32);
    struct ibv_sge parts[2] = {{from + 2, 3, a.mr->lkey}, {from + 10, 4, a.mr->lkey}};
    struct ibv_data_buf pieces[2] = {{"xy", 2}, {"zzz", 3}};
    ibv_wr_start(ex);
    ex->wr_id = 50;
    ibv_wr_rdma_write(ex, b.mr->rkey, to + 8);
    ibv_wr_set_sge_list(ex, 2, parts);
    ex->wr_id++;
    ibv_wr_rdma_write_imm(ex, b.mr->rkey, to + 64, htobe32(77));
    ibv_wr_set_inline_data_list(ex, 2, pieces);
    ex->wr_id++;
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, "hello", 5);
    ex->wr_id++;
    ibv_wr_send_imm(ex, htobe32(78));
    ibv_wr_set_sge(ex, a.mr->lkey, from + 20, 6);
    ex->wr_id++;
    ibv_wr_rdma_read(ex, b.mr->rkey, to + 768);
    ibv_wr_set_sge(ex, a.mr->lkey, from + 256, 8);
    ex->wr_id++;
    ibv_wr_atomic_fetch_add(ex, b.mr->rkey, to + 512, 2);
    ibv_wr_set_sge(ex, a.mr->lkey, from + 264, 8);
    ex->wr_id++;
    ibv_wr_atomic_cmp_swp(ex, b.mr->rkey, to + 512, 42, 1000);
    ibv_wr_set_sge(ex, a.mr->lkey, from + 272, 8);
    assert_int_equal(ibv_wr_complete(ex), 0);
    for (unsigned i = 0; i < 7; i++) {
        wait_wc(a.cq, &wc);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 50 + i);
        assert_int_equal(wc.opcode, opcodes[i]);
    }
    assert_memory_equal(b.memory + 8, "cdeklmn\0", 8);
    assert_memory_equal(b.memory + 64, "xyzzz\0", 6);
    for (unsigned i = 0; i < 3; i++) {
        wait_wc(b.cq, &wc);
        assert_int_equal(wc.wr_id, 20 + i);
        assert_int_equal(wc.opcode, i ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM);
        assert_int_equal(wc.byte_len, i < 2 ? 5 : 6);
        assert_int_equal(wc.wc_flags, i == 1 ? 0 : IBV_WC_WITH_IMM);
        if (i != 1)
            assert_int_equal(be32toh(wc.imm_data), i ? 78 : 77);
    }
    assert_memory_equal(b.memory + 1024 + 64, "hello\0", 6);
    assert_memory_equal(b.memory + 1024 + 128, "uvwxyz\0", 7);
    for (unsigned i = 0; i < 3; i++) {
        memcpy(&old, a.memory + 256 + 8 * i, 8);
        assert_int_equal(old, i < 2 ? 40 : 42);
    }
    memcpy(&word, b.memory + 512, 8);
    assert_int_equal(word, 1000);
    close_side(&a);
    close_side(&b);
}

static void requests_that_are_taken_back(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    uint8_t much[65] = {1};
    open_by_calls(&a, &b);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a.qp);
    uint64_t to = (uintptr_t)b.memory;
    for (int i = 0; i < 4; i++) {
        ibv_wr_start(ex);
        ex->wr_id = 1;
        ibv_wr_rdma_write(ex, b.mr->rkey, to); /* valid, and dropped with the other */
        ibv_wr_set_inline_data(ex, "no", 2);
        ibv_wr_rdma_write(ex, b.mr->rkey, to + 8);
        struct ibv_sge many[5] = {{0}};
        if (i == 0)
            ibv_wr_set_inline_data(ex, much, 65);
        else if (i == 1)
            ibv_wr_set_sge_list(ex, 5, many);
        else if (i == 2) /* eight fit, the ninth does not */
            for (int k = 0; k < 8; k++)
                ibv_wr_rdma_write(ex, b.mr->rkey, to + 8);
        if (i == 3)
            ibv_wr_abort(ex);
        else
            assert_int_equal(ibv_wr_complete(ex), i == 2 ? ENOMEM : EINVAL);
    }
    ibv_wr_start(ex);
    for (unsigned k = 0; k < 8; k++) { /* all eight places are free again */
        ex->wr_id = k;
        ibv_wr_rdma_write(ex, b.mr->rkey, to + 16 + k);
        ibv_wr_set_inline_data(ex, &"12345678"[k], 1);
    }
    assert_int_equal(ibv_wr_complete(ex), 0);
    for (unsigned k = 0; k < 8; k++) {
        wait_wc(a.cq, &wc);
        assert_true(wc.status == IBV_WC_SUCCESS && wc.wr_id == k);
    }
    assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
    assert_memory_equal(b.memory,
                        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                        "12345678",
                        24);
    /* One request of the list is invalid: those before it are posted. */
    struct ibv_sge one = {to, 1, a.mr->lkey};
    struct ibv_send_wr third = {.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE},
                       second = {.wr_id = 2,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .num_sge = -1,
                                 .next = &third},
                       first = {.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .next = &second},
                       *bad = NULL;
    first.wr.rdma.rkey = b.mr->rkey;
    first.wr.rdma.remote_addr = to;
    second.sg_list = &one;
    assert_int_equal(ibv_post_send(a.qp, &first, &bad), EINVAL);
    assert_ptr_equal(bad, &second);
    second.num_sge = 1;
    second.opcode = (enum ibv_wr_opcode)99;
    bad = NULL;
    assert_int_equal(ibv_post_send(a.qp, &second, &bad), EINVAL);
    assert_ptr_equal(bad, &second);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.wr_id, 1);
    /* Receives: b holds 16, of two segments each. */
    struct ibv_recv_wr wr = {.num_sge = 3}, *bad_receive = NULL;
    assert_int_equal(ibv_post_recv(b.qp, &wr, &bad_receive), EINVAL);
    assert_ptr_equal(bad_receive, &wr);
    wr.num_sge = -1;
    assert_int_equal(ibv_post_recv(b.qp, &wr, &bad_receive), EINVAL);
    wr.num_sge = 0;
    for (int i = 0; i < 16; i++)
        assert_int_equal(ibv_post_recv(b.qp, &wr, &bad_receive), 0);
    assert_int_equal(ibv_post_recv(b.qp, &wr, &bad_receive), ENOMEM);
    close_side(&a);
    close_side(&b);
}

/* --- Queries of the adapter and of a queue pair --- */

static void an_adapter_describes_itself(void **state)
{
    struct side s;
    struct ibv_device_attr d;
    open_side(&s, false, false, 0);
    struct ibv_device *device = s.context->device;
    assert_string_equal(ibv_get_device_name(device), "mlx5_soft0");
    assert_string_equal(device->dev_name, "uverbs_soft0");
    assert_string_equal(device->ibdev_path, "/sys/class/infiniband/mlx5_soft0");
    assert_string_equal(device->dev_path, "/sys/class/infiniband_verbs/uverbs_soft0");
    assert_int_equal(ibv_get_device_index(device), 0);
    assert_int_equal(s.context->num_comp_vectors, 1);
    assert_int_equal(s.context->cmd_fd, -1);
    assert_int_equal(ibv_query_device(s.context, &d), 0);
    const int told[][2] = {{d.max_qp, 4095},
                           {d.max_qp_wr, 16384},
                           {d.max_sge, 30},
                           {d.max_sge_rd, 30},
                           {d.max_cq, 8191},
                           {d.max_cqe, (1 << 22) - 1},
                           {d.max_mr, 65535},
                           {d.max_pd, 4095},
                           {d.max_qp_rd_atom, 16},
                           {d.max_srq, 1023},
                           {d.max_srq_wr, 32767},
                           {d.max_srq_sge, 30},
                           {d.max_res_rd_atom, 16 * 4095},
                           {d.max_pkeys, 1},
                           {d.phys_port_cnt, 1},
                           {d.atomic_cap, IBV_ATOMIC_HCA},
                           {d.max_qp_init_rd_atom, 16}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (told[i][0] != told[i][1])
            fail_msg("limit %zu: %d, expected %d", i, told[i][0], told[i][1]);
    assert_string_equal(d.fw_ver, "soft.0.1");
    assert_int_equal(d.node_guid, s.gid.global.interface_id);
    assert_int_equal(s.port.state, IBV_PORT_ACTIVE);
    assert_int_equal(s.port.max_mtu, IBV_MTU_4096);
    assert_int_equal(s.port.max_msg_sz, UINT32_C(1) << 31);
    assert_int_equal(s.port.pkey_tbl_len, 1);
    assert_int_equal(s.port.lid != 0, s.port.link_layer == IBV_LINK_LAYER_INFINIBAND);
    close_side(&s);
}

static void a_queue_pair_tells_how_it_is_connected(void **state)
{
    struct side a, b;
    struct ibv_qp_attr q;
    struct ibv_qp_init_attr init;
    static const int needed[] = {IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_SQ_PSN,
                                 IBV_QP_MAX_QP_RD_ATOMIC};
    open_rc(&a, &b, false, false, 6);
    a.qp->state = IBV_QPS_RESET;
    assert_int_equal(ibv_query_qp(a.qp, &q, 0, &init), 0);
    assert_true(q.qp_state == IBV_QPS_RTS && a.qp->state == IBV_QPS_RTS);
    assert_true(q.sq_psn == 5 && q.rq_psn == 5 && q.path_mtu == IBV_MTU_1024);
    assert_true(q.timeout == 10 && q.retry_cnt == 7 && q.rnr_retry == 6 && q.min_rnr_timer == 1);
    assert_true(q.max_rd_atomic == 4 && q.max_dest_rd_atomic == 4 && q.port_num == 1);
    assert_int_equal(q.dest_qp_num, b.qp->qp_num);
    assert_int_equal(q.qp_access_flags, ALL);
    /* Through all states again: a transition fails if any required attribute is missing. */
    q = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(a.qp, &q, IBV_QP_STATE), 0);
    q = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(
        ibv_modify_qp(a.qp, &q,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    q = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = b.qp->qp_num};
    to_address(&b, &q.ah_attr);
    q.ah_attr.grh.dgid = b.last_gid;
    q.ah_attr.grh.sgid_index = (uint8_t)a.last_gid_index;
    assert_int_equal(ibv_modify_qp(a.qp, &q,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    int all = IBV_QP_STATE;
    for (int i = 0; i < 5; i++)
        all |= needed[i];
    q = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .max_rd_atomic = 16};
    for (int i = 0; i < 5; i++)
        assert_int_equal(ibv_modify_qp(a.qp, &q, all & ~needed[i]), EINVAL);
    assert_int_equal(ibv_modify_qp(a.qp, &q, all), 0);
    close_side(&a);
    close_side(&b);
}

/* A ring of four entries, for many rounds; entries of a destroyed queue are skipped. */
static void completions_go_round(void **state)
{
    struct side a, b;
    struct ibv_wc wc;
    open_side(&a, false, false, 0);
    open_side(&b, false, false, 0);
    struct ibv_cq *large = a.cq;
    a.cq = ibv_create_cq(a.context, 3, NULL, NULL, 0);
    make_rc(&a);
    make_rc(&b);
    connect_rc(&b, &a, 7);
    connect_rc(&a, &b, 7);
    struct ibv_sge sge = {(uintptr_t)a.memory, 4, a.mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
    wr.wr.rdma.rkey = b.mr->rkey;
    for (unsigned i = 0; i < 30; i++) {
        wr.wr_id = i;
        assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
        wait_wc(a.cq, &wc);
        assert_true(wc.wr_id == i && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ &&
                    wc.byte_len == 4);
        assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
    }
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    usleep(20000); /* usually complete by now; either way no completion is returned */
    assert_int_equal(ibv_destroy_qp(a.qp), 0);
    a.qp = NULL;
    assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), 0);
    assert_int_equal(ibv_destroy_cq(large), 0);
    close_side(&a);
    close_side(&b);
}

static void write_to(struct side *s, uint64_t there, uint32_t key, size_t at, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)s->memory + at, bytes, s->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = at,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = there;
    wr.wr.rdma.rkey = key;
    assert_int_equal(ibv_post_send(s->qp, &wr, &bad), 0);
}

static int mappings_of(const char *name)
{
    char line[512];
    int n = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        n += strstr(line, name) != NULL;
    fclose(file);
    return n;
}

/* A dma-buf is accessible from any offset, at the address that the program chose, up to its end; it
 * stays mapped while the key exists. */
static void a_dmabuf_is_mapped(void **state)
{
    enum { OFFSET = 4096 + 64, LENGTH = 1000, IOVA = 0x7000 };
    static const char name[] = "memfd:hca-dmabuf";
    struct side a, b;
    struct ibv_wc wc;
    uint8_t seen[16];
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    int fd = memfd_create("hca-dmabuf", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 3 * 4096), 0);
    open_rc(&a, &b, false, false, 7);
    for (int i = 0; i < 16; i++)
        a.memory[i] = (uint8_t)(0x51 + i);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(b.pd, OFFSET, LENGTH, IOVA, fd, access);
    assert_non_null(mr);
    assert_int_equal(mappings_of(name), 1);
    write_to(&a, IOVA + LENGTH - 8, mr->rkey, 3, 8);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(pread(fd, seen, 10, OFFSET + LENGTH - 9), 10);
    assert_memory_equal(seen, "\0\x54\x55\x56\x57\x58\x59\x5a\x5b\0", 10);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(mappings_of(name), 0);
    /* refused: no local write access, or the descriptor cannot be mapped */
    assert_null(ibv_reg_dmabuf_mr(b.pd, OFFSET, LENGTH, IOVA, fd, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(mappings_of(name), 0);
    assert_null(ibv_reg_dmabuf_mr(b.pd, OFFSET, LENGTH, IOVA, -1, access));
    assert_int_equal(errno, EOPNOTSUPP);
    /* the program has mapped it: the HCA uses that mapping */
    uint8_t *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 8192);
    assert_true(own != MAP_FAILED);
    mr = ibv_reg_dmabuf_mr(b.pd, 8192, 100, (uintptr_t)own, -1, access);
    assert_non_null(mr);
    assert_int_equal(mappings_of(name), 1);
    write_to(&a, (uintptr_t)own + 92, mr->rkey, 3, 8);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(own + 91, "\0\x54\x55\x56\x57\x58\x59\x5a\x5b\0", 10);
    write_to(&a, (uintptr_t)own + 93, mr->rkey, 3, 8);
    wait_wc(a.cq, &wc);
    /* refusal lost */
    assert_true(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_RETRY_EXC_ERR);
    assert_memory_equal(own + 99, "\x5b\0", 2);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(mappings_of(name), 1); /* the program's own mapping stays */
    munmap(own, 4096);
    close(fd);
    close_side(&a);
    close_side(&b);
}

/* The program takes no completions: one entry of the queue stays free, and the program gets an
 * event for the completion that did not fit. */
static void a_full_completion_queue_is_told(void **state)
{
    struct side a, b;
    struct ibv_wc wc[8];
    struct ibv_async_event event;
    open_side(&a, false, false, 0);
    open_side(&b, false, false, 0);
    struct ibv_cq *large = a.cq;
    a.cq = ibv_create_cq(a.context, 3, &a, NULL, 0);
    assert_int_equal(a.cq->cqe, 3);
    make_rc(&a);
    make_rc(&b);
    connect_rc(&b, &a, 7);
    connect_rc(&a, &b, 7);
    struct pollfd told = {.fd = a.context->async_fd, .events = POLLIN};
    for (unsigned i = 0; i < 4; i++)
        write_to(&a, (uintptr_t)b.memory, b.mr->rkey, i, 4);
    usleep(5000);
    assert_int_equal(poll(&told, 1, 0), 0); /* these fit */
    write_to(&a, (uintptr_t)b.memory, b.mr->rkey, 4, 4);
    assert_int_equal(poll(&told, 1, 20000), 1);
    assert_int_equal(ibv_get_async_event(a.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, a.cq);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_poll_cq(a.cq, 8, wc), 4);
    for (unsigned i = 0; i < 4; i++)
        assert_true(wc[i].wr_id == i && wc[i].status == IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(a.qp), 0);
    a.qp = NULL;
    assert_int_equal(ibv_destroy_cq(large), 0);
    close_side(&a);
    close_side(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send_and_receive),
        cmocka_unit_test(receiver_not_ready),
        cmocka_unit_test(message_too_long),
        cmocka_unit_test(shared_receive_queue),
        cmocka_unit_test(dynamic_connections),
        cmocka_unit_test(writes_keep_their_order),
        cmocka_unit_test(queues_of_too_much),
        cmocka_unit_test(queues_of_unknown_kinds),
        cmocka_unit_test(other_objects_of_too_much),
        cmocka_unit_test(words_and_rates),
        cmocka_unit_test(moves_that_are_refused),
        cmocka_unit_test(requests_by_calls),
        cmocka_unit_test(an_adapter_describes_itself),
        cmocka_unit_test(a_queue_pair_tells_how_it_is_connected),
        cmocka_unit_test(completions_go_round),
        cmocka_unit_test(requests_that_are_taken_back),
        cmocka_unit_test(a_dmabuf_is_mapped),
        cmocka_unit_test(a_full_completion_queue_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
