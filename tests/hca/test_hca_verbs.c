/* SPDX-License-Identifier: Apache-2.0 */
/* The plain verbs beyond what perftest uses: receives that are missing or too short, shared receive queues, DC, and
 * the order of writes in adversarial mode. */
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
    union ibv_gid gid, last_gid; /* DC goes by the first, RC by the last */
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
    assert_int_equal(ibv_query_gid(s->context, 1, 0, &s->gid), 0);
    s->last_gid_index = s->port.gid_tbl_len - 1;
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
    ah->grh.dgid = to->gid;
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
    /* A move that lacks what it needs is refused. */
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
    /* In two parts. */
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
    /* The event comes through the channel, once. */
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
    /* The next one was not asked for. */
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
    /* With an end to its patience. */
    open_rc(&a, &b, false, false, 2);
    post_send(&a, IBV_WR_SEND, 0, 4, 0);
    wait_wc(a.cq, &wc);
    assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
    close_side(&a);
    close_side(&b);
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
    assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
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
    /* Three of seven entries are used at a time, many times round the list. */
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
    /* From one queue to two targets in turn. */
    for (unsigned i = 0; i < 6; i++)
        dc_write(&a, i % 2 ? &c : &b, i % 2 ? ac : ab, KEY, 4000 * i + 1, 3000);
    for (unsigned i = 0; i < 6; i++) {
        wait_wc(a.cq, &wc);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 4000 * i + 1);
        assert_memory_equal((i % 2 ? c.memory : b.memory) + 4000 * i + 1, a.memory, 3000);
    }
    /* A message, too. */
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
    /* Who does not know the key is not heard. */
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

/* Sixteen writes to one place at a time: what is there at the end? */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send_and_receive),    cmocka_unit_test(receiver_not_ready),
        cmocka_unit_test(message_too_long),    cmocka_unit_test(shared_receive_queue),
        cmocka_unit_test(dynamic_connections), cmocka_unit_test(writes_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
