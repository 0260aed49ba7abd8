/* SPDX-License-Identifier: Apache-2.0 */
/* The plain verbs of the software HCA, call by call: how each object is set up, the request in its
 * ring, the completion, and the refusals; also a pass of the engine, the device and its report. The
 * log is compared with golden/hca_calls.txt. */
#include "whole.h"

#include "gpu/memory.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- Mocks --- */

static uint32_t own_address, own_mtu;
uint32_t __wrap_roce_address(const struct device *d);
uint32_t __wrap_roce_address(const struct device *d)
{
    return own_address;
}

uint32_t __wrap_roce_mtu(const struct device *d);
uint32_t __wrap_roce_mtu(const struct device *d)
{
    return own_mtu;
}

static long maps;
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *p = due("mmap") ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
    maps += p != MAP_FAILED;
    return p;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes)
{
    maps--;
    return __real_munmap(at, bytes);
}

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
    memset(to, 3, bytes);
    return (ssize_t)bytes;
}

/* Kind of the memory; a test may make it GPU memory. */
static enum gpu_memory_kind gpu_kind;
static unsigned gpu_added, gpu_removed, gpu_settled;
enum gpu_memory_kind __wrap_gpu_memory_add(uint64_t address, uint64_t bytes);
enum gpu_memory_kind __wrap_gpu_memory_add(uint64_t address, uint64_t bytes)
{
    gpu_added += address == (uintptr_t)&gpu_kind && bytes == 77;
    return gpu_kind;
}

void __wrap_gpu_memory_remove(uint64_t address, uint64_t bytes);
void __wrap_gpu_memory_remove(uint64_t address, uint64_t bytes)
{
    gpu_removed += address == (uintptr_t)&gpu_kind && bytes == 77;
}

void __wrap_gpu_engine_flush(struct device *of);
void __wrap_gpu_engine_flush(struct device *of)
{
    assert_int_equal(gpu_removed, 0); /* before the memory is removed */
    gpu_settled++;
}

static const char *comm = "a \"pro\\gram\"\x01\n";
FILE *__real_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode)
{
    if (strcmp(name, "/proc/self/comm") != 0)
        return __real_fopen(name, mode);
    return comm ? fmemopen((void *)(uintptr_t)comm, strlen(comm), "r") : NULL;
}

/* --- Helpers --- */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct device *d;
static uint8_t memory[8192] __attribute__((aligned(4096)));
static unsigned files_before;

static int setup(void **state)
{
    (void)state;
    own_address = own_mtu = 0;
    *whole_config() = (struct config){.devices = 2, .ring_kib = 64, .seed = 1, .idle_us = 1000};
    whole_clock = 3000000000;
    files_before = open_files();
    context = whole_open(0);
    d = device_of(context);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 30, (void *)5, NULL, 0);
    for (unsigned i = 0; i < sizeof memory; i++)
        memory[i] = (uint8_t)(i * 3 + i / 256);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fails = "";
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    for (unsigned i = 0; i < MAX_PDS; i++)
        assert_int_equal(d->objects.pds[i], 0);
    assert_int_equal(ibv_close_device(context), 0);
    if (blocks | maps)
        fail_msg("%ld blocks, %ld maps", blocks, maps);
    assert_int_equal(open_files(), files_before);
    return 0;
}

static struct ibv_qp_init_attr plain(void)
{
    return (struct ibv_qp_init_attr){.qp_context = (void *)7,
                                     .send_cq = cq,
                                     .recv_cq = cq,
                                     .qp_type = IBV_QPT_RC,
                                     .cap = {.max_send_wr = 5,
                                             .max_recv_wr = 3,
                                             .max_send_sge = 3,
                                             .max_recv_sge = 2,
                                             .max_inline_data = 70}};
}

static struct ibv_qp *queue(void)
{
    struct ibv_qp_init_attr a = plain();
    struct ibv_qp *qp = ibv_create_qp(pd, &a);
    assert_non_null(qp);
    return qp;
}

static int ready(struct ibv_qp *qp, uint32_t to)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 14};
    int e =
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = to,
                             .rq_psn = 0x55,
                             .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 12,
                             .ah_attr = {.dlid = WHOLE_LID, .port_num = 1}};
    e = e ? e
          : ibv_modify_qp(qp, &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .sq_psn = 0x55,
                             .timeout = 14,
                             .retry_cnt = 3,
                             .rnr_retry = 2,
                             .max_rd_atomic = 5};
    return e ? e
             : ibv_modify_qp(qp, &a,
                             IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void say_words(const char *what, const void *from, size_t bytes)
{
    const uint8_t *at = from;
    say("  %s", what);
    for (size_t i = 0; i < bytes; i++)
        say("%s%02x", i % 16 ? i % 4 ? "" : " " : "\n    ", at[i]);
    say("\n");
}

/* Logs the request at that block, without the queue's number. */
static void say_request(const struct ibv_qp *qp, unsigned block, unsigned count)
{
    const struct qp *of = qp_of((struct ibv_qp *)(uintptr_t)qp)->of;
    uint8_t bytes[16 * 64];
    for (unsigned i = 0; i < count; i++)
        memcpy(bytes + 64 * i, of->send.ring + (size_t)((block + i) % of->send.blocks) * 64, 64);
    say_words("request", bytes, 64 * (size_t)count);
}

static void say_qp(const struct qp *q)
{
    say("  qp %x state %u to %x at %u mtu %u port %x psn %x %x access %x timer %u "
        "reads %u timeout %u tries %u %u link %d\n",
        q->qpn & 0xfff, q->state, q->requester.remote_qpn & 0xfff, q->requester.remote,
        q->requester.mtu, q->requester.source_port, q->responder.expected_psn, q->requester.psn,
        q->access, q->rnr_timer, q->requester.max_reads, q->requester.timeout,
        q->requester.retry_count, q->requester.rnr_retry, q->requester.link != NULL);
}

/* --- Queue pairs --- */

static void plans(void)
{
    static const struct ibv_qp_cap caps[] = {
        {5, 3, 3, 2, 70},    {1, 0, 1, 0, 0},     {0, 0, 0, 0, 0},     {1, 1, 1, 1, 1},
        {16384, 1, 0, 1, 0}, {8192, 1, 1, 1, 0},  {16385, 1, 1, 1, 0}, {1, 16384, 1, 1, 0},
        {1, 16385, 1, 1, 0}, {1, 1, 30, 30, 512}, {1, 1, 31, 1, 0},    {1, 1, 1, 31, 0},
        {1, 1, 1, 1, 513},   {4, 5, 2, 3, 28},    {4, 5, 2, 3, 29},    {4, 5, 8, 4, 124},
        {4, 4, 2, 4, 12},    {3, 8, 6, 5, 0},     {100, 9, 10, 8, 60}, {4096, 4, 16, 4, 200},
        {7, 7, 14, 7, 220},  {7, 7, 15, 7, 221},
    };
    for (unsigned i = 0; i < sizeof caps / sizeof *caps; i++) {
        struct ibv_qp_init_attr a = plain();
        a.cap = caps[i];
        errno = 0;
        struct ibv_qp *qp = ibv_create_qp(pd, &a);
        say("plan %u: %d, %u %u %u %u %u", i, qp ? 0 : errno, a.cap.max_send_wr, a.cap.max_recv_wr,
            a.cap.max_send_sge, a.cap.max_recv_sge, a.cap.max_inline_data);
        if (qp) {
            const struct hca_qp *q = qp_of(qp);
            say(" blocks %u receive %u %u at %td %td bytes %zu", q->of->send.blocks,
                q->of->receive.log_count, q->of->receive.log_stride,
                q->of->send.ring - (uint8_t *)q->memory,
                (uint8_t *)q->of->record - (uint8_t *)q->memory, q->bytes);
            assert_int_equal(ibv_destroy_qp(qp), 0);
        }
        say("\n");
    }
    for (unsigned i = 1; i < 10; i++) {
        struct ibv_qp_init_attr a = plain();
        fail_next(i < 8 ? "calloc" : "mmap", i < 8 ? i : i - 7, ENOMEM);
        errno = 0;
        struct ibv_qp *qp = ibv_create_qp(pd, &a);
        say("  without memory %u: %d %d\n", i, qp == NULL, qp ? 0 : errno);
        if (qp)
            assert_int_equal(ibv_destroy_qp(qp), 0);
        fails = "";
        assert_int_equal(d->objects.uar_top, 1);
    }
}

static void kinds_of_queues(void)
{
    struct ibv_srq_init_attr s = {.attr = {.max_wr = 3, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &s);
    for (unsigned i = 0; i < 24; i++) {
        struct ibv_qp_init_attr_ex a = {.qp_context = (void *)9,
                                        .send_cq = cq,
                                        .recv_cq = cq,
                                        .qp_type = IBV_QPT_RC,
                                        .comp_mask = IBV_QP_INIT_ATTR_PD,
                                        .pd = pd,
                                        .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
        struct mlx5dv_qp_init_attr m = {
            .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
            .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = 0x1122334455667788}};
        bool dv = i >= 11;
        if (i == 1)
            a.comp_mask = 0;
        if (i == 2)
            a.pd = NULL;
        if (i == 3)
            a.send_cq = NULL;
        if (i == 4)
            a.qp_type = IBV_QPT_UC;
        if (i == 5)
            a.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
        if (i == 6 || i == 7) {
            a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            a.send_ops_flags = i == 6 ? 0x7f : 0x80;
        }
        if (i == 8 || i == 9) {
            a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
            a.create_flags = i == 8;
        }
        if (i == 10)
            a.srq = srq, a.sq_sig_all = 1;
        if (dv)
            a.qp_type = IBV_QPT_DRIVER, a.srq = srq;
        if (i == 12)
            a.srq = NULL;
        if (i == 13)
            a.qp_type = IBV_QPT_RC;
        if (i == 14 || i == 15)
            m.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI, a.srq = i == 14 ? srq : NULL;
        if (i == 16)
            m.comp_mask |= 1 << 20;
        if (i == 17)
            m.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS, a.qp_type = IBV_QPT_RC;
        if (i == 18)
            a.send_cq = NULL;
        if (i == 19)
            m.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI, a.send_cq = NULL;
        if (i == 20)
            a.recv_cq = NULL;
        if (i >= 21)
            a.qp_type = IBV_QPT_RC;
        errno = 0;
        struct ibv_qp *qp = dv ? mlx5dv_create_qp(context, &a, i == 21 ? NULL : &m)
                               : verbs_create_qp_ex(context, &a);
        say("kind %u: %d", i, qp ? 0 : errno);
        if (qp) {
            const struct qp *of = qp_of(qp)->of;
            say(" type %u/%u ring %d receive %d srq %u cqs %d %d key %llx pd %u/%u ex %d "
                "ops %d all %d users %u %u uar %u handle %d context %d",
                of->type, qp->qp_type, of->send.ring != NULL, of->receive.ring != NULL,
                of->srq ? of->srq->number : 0, of->send_cq != NULL, of->receive_cq != NULL,
                (unsigned long long)of->dc_key, of->pd, d->objects.pds[of->pd],
                ibv_qp_to_qp_ex(qp) != NULL, qp_of(qp)->ex.wr_start != NULL, qp_of(qp)->signal_all,
                cq_of(cq)->of->users, srq_of(srq)->of->users, of->uar->queues,
                qp->handle == qp->qp_num, qp->qp_context == (void *)9);
            assert_ptr_equal(atomic_load(&d->objects.owners[of->qpn & 0xfff]), qp);
            unsigned n = of->qpn & 0xfff;
            assert_int_equal(ibv_destroy_qp(qp), 0);
            assert_null(atomic_load(&d->objects.owners[n]));
        }
        say("\n");
    }
    assert_int_equal(srq_of(srq)->of->users, 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(cq_of(cq)->of->users, 0);
}

static void moves(void)
{
    struct ibv_qp *qp = queue();
    struct qp *of = qp_of(qp)->of;
    enum { ALL_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS };
    enum {
        ALL_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
    };
    enum {
        ALL_RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC
    };
    static const struct ibv_qp_attr base = {.qp_access_flags = 15,
                                            .port_num = 1,
                                            .path_mtu = IBV_MTU_2048,
                                            .dest_qp_num = 0x321ab,
                                            .rq_psn = 0x1234567,
                                            .max_dest_rd_atomic = 3,
                                            .min_rnr_timer = 45,
                                            .ah_attr = {.dlid = WHOLE_LID, .port_num = 1},
                                            .sq_psn = 0x7654321,
                                            .timeout = 35,
                                            .retry_cnt = 13,
                                            .rnr_retry = 14,
                                            .max_rd_atomic = 6,
                                            .cur_qp_state = IBV_QPS_RESET};
    /* A transition fails if any of its required attributes is missing. */
    static const int needed[] = {ALL_INIT, ALL_RTR, ALL_RTS};
    for (unsigned to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
        for (int bit = 0; bit < 26; bit++) {
            struct ibv_qp_attr a = base;
            a.qp_state = (enum ibv_qp_state)to;
            of->state = to - 1;
            int mask = needed[to - 1] & ~(1 << bit);
            int e = ibv_modify_qp(qp, &a, mask);
            if (needed[to - 1] >> bit & 1)
                say("  to %u without %x: %d, %u\n", to, 1 << bit, e, of->state);
        }
    of->state = QP_RESET;
    for (unsigned i = 0; i < 40; i++) {
        struct ibv_qp_attr a = base;
        int mask = i % 3 == 0 ? ALL_INIT : i % 3 == 1 ? ALL_RTR : ALL_RTS;
        a.qp_state = (enum ibv_qp_state)(i % 3 + 1);
        of->state = i % 3;
        whole_config()->link = LINK_IB;
        if (i == 3)
            a.port_num = 2;
        if (i == 6)
            a.pkey_index = 1;
        if (i == 9)
            mask |= IBV_QP_CUR_STATE;
        if (i == 12)
            mask |= IBV_QP_CUR_STATE, a.cur_qp_state = IBV_QPS_INIT;
        if (i == 4)
            a.path_mtu = 0;
        if (i == 7)
            a.path_mtu = 6;
        if (i == 10)
            a.path_mtu = IBV_MTU_256;
        if (i == 13)
            a.path_mtu = IBV_MTU_4096;
        if (i == 16)
            a.ah_attr.dlid = 0;
        if (i == 19)
            a.ah_attr.is_global = 1, a.ah_attr.dlid = 0;
        if (i == 22 || i == 25 || i == 28 || i == 31) {
            const uint8_t gid[16] = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                                     0x02, 0x57, 0x48, 0xff, 0xfe, 0x00, 0x03, 0x21};
            memcpy(a.ah_attr.grh.dgid.raw, gid, 16);
            a.ah_attr.is_global = 1;
            a.ah_attr.dlid = i == 25 ? 9 : 0;
            whole_config()->link = i == 28 || i == 25 ? LINK_ROCE : LINK_IB;
            a.ah_attr.grh.flow_label = i == 28 ? 0x12345 : i == 31 ? 0xf4000 : 0;
            a.ah_attr.grh.sgid_index = i == 25;
        }
        if (i == 5)
            a.max_rd_atomic = 16;
        if (i == 8)
            a.max_rd_atomic = 17;
        int e = ibv_modify_qp(qp, &a, mask);
        say("move %u: %d", i, e);
        say_qp(of);
        say_log(context);
        if (i == 34)
            qp_of(qp)->next = 5;
    }
    whole_config()->link = LINK_IB;
    struct ibv_qp_attr a = base, shown;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &shown, 0, &init), 0);
    say("shown state %u %u access %x pkey %u port %u mtu %u timeout %u tries %u %u "
        "psn %x %x reads %u %u timer %u to %x at %u cap %u %u\n",
        shown.qp_state, shown.cur_qp_state, shown.qp_access_flags, shown.pkey_index, shown.port_num,
        shown.path_mtu, shown.timeout, shown.retry_cnt, shown.rnr_retry, shown.rq_psn, shown.sq_psn,
        shown.max_rd_atomic, shown.max_dest_rd_atomic, shown.min_rnr_timer, shown.dest_qp_num,
        shown.ah_attr.dlid, shown.cap.max_send_wr, shown.cap.max_recv_wr);
    say("made with %d %d %d %d type %u all %d wr %u\n", init.qp_context == (void *)7,
        init.send_cq == cq, init.recv_cq == cq, init.srq == NULL, init.qp_type, init.sq_sig_all,
        init.cap.max_send_wr);
    /* Without a state, the named attributes are set in the current state. */
    of->state = QP_RTS;
    a.qp_access_flags = 8;
    a.min_rnr_timer = 7;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
    say_qp(of);
    of->state = QP_SQD;
    a.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    /* A move to RESET clears everything, a move to ERROR nothing. */
    struct hca_qp *q = qp_of(qp);
    q->next = q->received_posted = q->received_done = 5;
    q->posted = q->done = 6;
    of->record[0] = of->record[1] = 7;
    a.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    assert_int_equal(qp->state, IBV_QPS_ERR);
    assert_int_equal(q->next, 5);
    a.qp_state = IBV_QPS_RESET;
    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
    assert_int_equal(qp->state, IBV_QPS_RESET);
    assert_int_equal(q->next | q->received_posted | q->received_done, 0);
    assert_int_equal(q->posted | q->done | of->record[0] | of->record[1], 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    /* A DC initiator needs only states; it sets its own path MTU. */
    struct ibv_qp_init_attr_ex dc = {
        .send_cq = cq, .qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
    struct mlx5dv_qp_init_attr m = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                    .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
    qp = mlx5dv_create_qp(context, &dc, &m);
    assert_ptr_equal(qp->pd, pd);
    assert_int_equal(qp->state, IBV_QPS_RESET);
    for (unsigned i = 0; i < 4; i++) {
        a = base;
        a.qp_state = i == 0 ? IBV_QPS_INIT : i == 1 ? IBV_QPS_RTR : IBV_QPS_RTS;
        if (i == 3)
            qp_of(qp)->of->state = QP_INIT, a.qp_state = IBV_QPS_RTR;
        qp_of(qp)->of->requester.mtu += 7;
        int e = ibv_modify_qp(qp, &a, IBV_QP_STATE | (i == 3 ? IBV_QP_PATH_MTU : 0));
        say("of DC %u: %d mtu %u state %u\n", i, e, qp_of(qp)->of->requester.mtu, qp->state);
    }
    qp->state = 0;
    assert_int_equal(ibv_query_qp(qp, &shown, 0, &init), 0);
    assert_int_equal(qp->state, IBV_QPS_RTR);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* --- Requests --- */

static void requests(void)
{
    struct ibv_qp *qp = queue();
    struct hca_qp *q = qp_of(qp);
    struct ibv_sge list[4] = {{(uintptr_t)0x1000, 11, 0x91},
                              {(uintptr_t)0x2000, 0, 0x92},
                              {(uintptr_t)0x3000, 33, 0x93},
                              {(uintptr_t)memory, 9, 0x94}};
    struct ibv_send_wr *bad = NULL;
    assert_int_equal(ready(qp, qp->qp_num), 0);
    for (unsigned opcode = 0; opcode < 12; opcode++) {
        struct ibv_send_wr wr = {.wr_id = 0x100 + opcode,
                                 .sg_list = list,
                                 .num_sge = 3,
                                 .opcode = (enum ibv_wr_opcode)opcode,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .imm_data = htobe32(0xa1b2c3d4)};
        bool atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        if (atomic) {
            wr.wr.atomic.remote_addr = 0x7700;
            wr.wr.atomic.rkey = 0x88;
            wr.wr.atomic.compare_add = 0x1111;
            wr.wr.atomic.swap = 0x2222;
        } else {
            wr.wr.rdma.remote_addr = 0x5500;
            wr.wr.rdma.rkey = 0x66;
        }
        uint16_t before = q->next;
        int e = ibv_post_send(qp, &wr, &bad);
        say("opcode %u: %d %d\n", opcode, e, bad == &wr);
        if (!e)
            say_request(qp, before, (unsigned)(q->next - before));
        say("  record %x doorbell %llx id %llx number %u\n", be32toh(q->of->record[1]),
            (unsigned long long)__builtin_bswap64(*q->of->uar->reg) & 0xffffff00ffffffff,
            (unsigned long long)q->send_ids[before % q->of->send.blocks],
            q->send_numbers[before % q->of->send.blocks]);
        q->done = q->posted;
        bad = NULL;
    }
    for (unsigned i = 0; i < 16; i++) {
        struct ibv_send_wr second = {.wr_id = 2, .opcode = IBV_WR_SEND},
                           wr = {
                               .wr_id = 1, .sg_list = list, .opcode = IBV_WR_SEND, .next = &second};
        static const unsigned flags[] = {IBV_SEND_FENCE, IBV_SEND_SOLICITED, IBV_SEND_INLINE, 0};
        uint8_t text_of[80] = "inline";
        struct ibv_sge more[5] = {{(uintptr_t)text_of, 5, 0}, {(uintptr_t)memory, 65, 0}};
        wr.send_flags = i < 4 ? flags[i] : IBV_SEND_INLINE;
        wr.sg_list = more;
        wr.num_sge = i < 3 ? 1 : 2;
        if (i == 5)
            more[1].length = 66; /* longer than max_inline_data */
        if (i == 6)
            wr.num_sge = 0;
        if (i == 7)
            wr.opcode = IBV_WR_RDMA_READ; /* a read has no inline data */
        if (i == 8)
            wr.num_sge = 4, wr.send_flags = 0;
        if (i < 4 ? i != 2 : i == 7 || i == 8)
            wr.sg_list = list; /* in the cases that log the addresses */
        if (i == 9)
            wr.num_sge = -1;
        if (i == 10)
            q->done = q->posted - 4; /* space for one request */
        if (i == 11)
            second.opcode = (enum ibv_wr_opcode)77;
        if (i == 12)
            q->done = q->posted - 5;
        if (i == 13)
            q->signal_all = true;
        if (i == 14)
            more[0].length = 12, wr.num_sge = 1;
        if (i == 15)
            more[0].length = 13, wr.num_sge = 1;
        uint16_t before = q->next;
        bad = NULL;
        int e = ibv_post_send(qp, &wr, &bad);
        say("post %u: %d bad %s\n", i, e,
            bad == &wr       ? "first"
            : bad == &second ? "second"
                             : "none");
        if (q->next != before)
            say_request(qp, before, (unsigned)(q->next - before));
        say("  record %x\n", be32toh(q->of->record[1]));
        q->done = q->posted;
        q->signal_all = false;
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void receives(void)
{
    struct ibv_qp *qp = queue();
    struct hca_qp *q = qp_of(qp);
    struct ibv_sge list[3] = {{0x1000, 11, 0x91}, {0x2000, 0, 0x92}, {0x3000, 33, 0x93}};
    struct ibv_recv_wr third = {.wr_id = 13, .sg_list = list, .num_sge = 0},
                       second = {.wr_id = 12, .sg_list = list, .num_sge = 2, .next = &third},
                       wr = {.wr_id = 11, .sg_list = list, .num_sge = 1, .next = &second}, *bad;
    say("receives of %u\n", q->cap.max_recv_wr);
    for (unsigned i = 0; i < 6; i++) {
        bad = NULL;
        second.num_sge = i == 2 ? 3 : i == 3 ? -1 : 2;
        if (i == 4)
            q->received_done = (uint16_t)(q->received_posted - 2);
        int e = ibv_post_recv(qp, &wr, &bad);
        say("receive %u: %d bad %s posted %u record %x ids %llu %llu %llu %llu\n", i, e,
            bad == &wr       ? "first"
            : bad == &second ? "second"
            : bad == &third  ? "third"
                             : "none",
            q->received_posted, be32toh(q->of->record[0]), (unsigned long long)q->receive_ids[0],
            (unsigned long long)q->receive_ids[1], (unsigned long long)q->receive_ids[2],
            (unsigned long long)q->receive_ids[3]);
        say_words("ring", q->of->receive.ring,
                  (size_t)1 << (q->of->receive.log_count + q->of->receive.log_stride));
        if (i != 4)
            q->received_done = q->received_posted;
    }
    q->received_done = q->received_posted;
    q->of->receive.taken = q->received_posted;
    /* A request to a queue in the error state is flushed. */
    struct ibv_wc wc[4];
    assert_int_equal(ready(qp, qp->qp_num), 0);
    qp_to_error(q->of);
    second.num_sge = 2;
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    int n = ibv_poll_cq(cq, 4, wc);
    for (int i = 0; i < n; i++)
        say("  back %llu status %u opcode %u\n", (unsigned long long)wc[i].wr_id, wc[i].status,
            wc[i].opcode);
    struct ibv_srq_init_attr s = {.attr = {.max_wr = 3, .max_sge = 2}};
    struct ibv_srq *srq = ibv_create_srq(pd, &s);
    struct ibv_qp_init_attr a = plain();
    a.srq = srq;
    struct ibv_qp *shared = ibv_create_qp(pd, &a);
    bad = NULL;
    assert_int_equal(ibv_post_recv(shared, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    /* A shared receive queue: a list of free entries. */
    struct hca_srq *sq = srq_of(srq);
    say("srq of %u: %u entries max %u\n", s.attr.max_wr, sq->count, sq->max_sge);
    for (unsigned i = 0; i < 5; i++) {
        bad = NULL;
        third.num_sge = i == 1 ? 4 : i == 2 ? -1 : 0;
        int e = ibv_post_srq_recv(srq, &wr, &bad);
        say("shared %u: %d bad %s head %u tail %u posted %u record %x\n", i, e,
            bad == &wr       ? "first"
            : bad == &second ? "second"
            : bad == &third  ? "third"
                             : "none",
            sq->head, sq->tail, sq->posted, be32toh(*sq->of->queue.record));
        say_words("ring", sq->memory, sq->bytes - 64);
        for (unsigned k = 0; k < 4; k++)
            say("  id %llu\n", (unsigned long long)sq->wr_ids[k]);
        for (unsigned k = 0; k < 4 && i < 3; k++)
            if (sq->head == sq->tail || i > 0)
                srq_free_entry(sq, (uint16_t)((k * 3 + 1) % 4));
    }
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    assert_int_equal(ibv_destroy_qp(shared) | ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void shared_queues(void)
{
    static const uint32_t sizes[][2] = {{0, 1},     {1, 1},  {3, 0},  {4, 3}, {32767, 1},
                                        {32768, 1}, {7, 30}, {7, 31}, {8, 2}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct ibv_srq_init_attr a = {.srq_context = (void *)3,
                                      .attr = {.max_wr = sizes[i][0], .max_sge = sizes[i][1]}};
        struct ibv_srq_attr shown;
        errno = 0;
        struct ibv_srq *srq = ibv_create_srq(pd, &a);
        say("srq %u %u: %d, %u %u", sizes[i][0], sizes[i][1], srq ? 0 : errno, a.attr.max_wr,
            a.attr.max_sge);
        if (srq) {
            const struct hca_srq *s = srq_of(srq);
            assert_int_equal(ibv_query_srq(srq, &shown), 0);
            say(" log %u %u record %td linked %d pd %u shown %u %u %u", s->of->queue.log_count,
                s->of->queue.log_stride, (uint8_t *)s->of->queue.record - (uint8_t *)s->memory,
                s->of->queue.linked, s->of->pd, shown.max_wr, shown.max_sge, shown.srq_limit);
            assert_ptr_equal(srq->srq_context, (void *)3);
            assert_int_equal(srq->handle, s->of->number);
            assert_int_equal(d->objects.pds[s->of->pd], 2);
            assert_int_equal(ibv_destroy_srq(srq), 0);
        }
        say("\n");
    }
    struct ibv_srq_init_attr_ex ex = {.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
                                      .pd = pd,
                                      .srq_type = IBV_SRQT_BASIC,
                                      .attr = {.max_wr = 5, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq_ex(context, &ex);
    assert_non_null(srq);
    assert_int_equal(ex.attr.max_wr, 7);
    struct ibv_srq_attr attr = {.max_wr = 3};
    assert_int_equal(ibv_modify_srq(srq, &attr, 0), 0);
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    errno = 0;
    ex.srq_type = IBV_SRQT_XRC;
    assert_null(ibv_create_srq_ex(context, &ex));
    assert_int_equal(errno, EOPNOTSUPP);
    ex.srq_type = IBV_SRQT_BASIC;
    ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    assert_null(ibv_create_srq_ex(context, &ex));
    struct ibv_srq_init_attr a = {.attr = {.max_wr = 3, .max_sge = 1}};
    for (unsigned i = 0; i < 4; i++) {
        fail_next(i < 3 ? "calloc" : "mmap", i < 3 ? i + 1 : 1, 0);
        assert_null(ibv_create_srq(pd, &a));
        fails = "";
    }
    for (unsigned i = 1; i < MAX_SRQS; i++)
        d->objects.srqs[i] = (void *)&a;
    errno = 0;
    assert_null(ibv_create_srq(pd, &a));
    assert_int_equal(errno, ENOMEM);
    d->objects.srqs[9] = NULL;
    srq = ibv_create_srq(pd, &a);
    assert_int_equal(srq->handle, 9);
    memset(d->objects.srqs, 0, sizeof d->objects.srqs);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    d->objects.srq_next = MAX_SRQS - 2;
    srq = ibv_create_srq(pd, &a);
    assert_int_equal(srq->handle, MAX_SRQS - 1);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* --- Requests by calls --- */

static void requests_by_calls(void)
{
    struct ibv_qp_init_attr_ex a = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = 0x7f,
        .pd = pd,
        .cap = {.max_send_wr = 20, .max_send_sge = 3, .max_inline_data = 100}};
    struct ibv_qp *qp = ibv_create_qp_ex(context, &a);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    struct hca_qp *q = qp_of(qp);
    struct ibv_sge list[3] = {{0x1000, 11, 0x91}, {0x2000, 22, 0x92}, {0x3000, 33, 0x93}};
    struct ibv_data_buf bufs[2] = {{memory, 10}, {memory + 100, 7}};
    assert_int_equal(ready(qp, qp->qp_num), 0);
    ibv_wr_start(ex);
    for (unsigned i = 0; i < 7; i++) {
        ex->wr_id = 50 + i;
        ex->wr_flags = i % 2 ? IBV_SEND_SIGNALED : IBV_SEND_FENCE;
        if (i == 0)
            ibv_wr_rdma_write(ex, 0x77, 0x8800);
        if (i == 1)
            ibv_wr_rdma_write_imm(ex, 0x78, 0x8801, 0x11223344);
        if (i == 2)
            ibv_wr_rdma_read(ex, 0x79, 0x8802);
        if (i == 3)
            ibv_wr_send(ex);
        if (i == 4)
            ibv_wr_send_imm(ex, 0x55667788);
        if (i == 5)
            ibv_wr_atomic_cmp_swp(ex, 0x7a, 0x8808, 0x99, 0xaa);
        if (i == 6)
            ibv_wr_atomic_fetch_add(ex, 0x7b, 0x8810, 0xbb);
        if (i == 0)
            ibv_wr_set_sge(ex, 0x90, 0x9900, 44);
        else if (i == 1)
            ibv_wr_set_inline_data(ex, memory, 9);
        else if (i == 3)
            ibv_wr_set_inline_data_list(ex, 2, bufs);
        else
            ibv_wr_set_sge_list(ex, i == 2 ? 3 : 1, list);
    }
    assert_int_equal(ibv_wr_complete(ex), 0);
    say_request(qp, 0, q->next);
    say("  posted %u record %x ids", q->posted, be32toh(q->of->record[1]));
    for (unsigned i = 0; i < q->next; i++)
        say(" %llu", (unsigned long long)q->send_ids[i]);
    say("\n");
    q->done = q->posted;
    for (unsigned i = 0; i < 8; i++) {
        uint16_t next = q->next;
        uint32_t posted = q->posted;
        uint64_t rung = *q->of->uar->reg;
        struct ibv_sge many[33] = {{0}};
        struct ibv_data_buf longs[2] = {{memory, 1000}, {memory, i == 4 ? 25 : 24}};
        ibv_wr_start(ex);
        if (i != 7) {
            ibv_wr_send(ex);
            ibv_wr_set_sge(ex, 1, 2, 3);
            ibv_wr_send(ex);
        }
        if (i == 1)
            ibv_wr_set_sge_list(ex, 33, many);
        if (i == 2)
            ibv_wr_set_sge_list(ex, 4, many);
        if (i == 3 || i == 4)
            ibv_wr_set_inline_data_list(ex, 2, longs);
        if (i == 5)
            ibv_wr_set_inline_data(ex, memory, 101);
        int e = 0;
        if (i == 6)
            ibv_wr_abort(ex);
        else
            e = ibv_wr_complete(ex);
        say("by calls %u: %d, %u blocks %u requests rung %d\n", i, e, (uint16_t)(q->next - next),
            q->posted - posted, rung != *q->of->uar->reg);
        q->done = q->posted;
    }
    assert_ptr_equal(mlx5dv_qp_ex_from_ibv_qp_ex(ex), &q->dv);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    qp = queue();
    assert_null(ibv_qp_to_qp_ex(qp));
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Requests of a DC initiator contain an address. */
static void addressed_requests(void)
{
    for (unsigned roce = 0; roce < 2; roce++) {
        struct ibv_qp_init_attr_ex a = {.send_cq = cq,
                                        .qp_type = IBV_QPT_DRIVER,
                                        .comp_mask = IBV_QP_INIT_ATTR_PD,
                                        .pd = pd,
                                        .cap = {.max_send_wr = 4, .max_send_sge = 1}};
        struct mlx5dv_qp_init_attr m = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                        .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
        struct ibv_qp *qp = mlx5dv_create_qp(context, &a, &m);
        struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
        own_address = 0x0a000001;
        struct ibv_ah_attr attr = {
            .port_num = 1,
            .dlid = 0x1234,
            .sl = 3,
            .static_rate = 5,
            .src_path_bits = 0xff,
            .is_global = 1,
            .grh = {.sgid_index = 1, .flow_label = 0x54321, .hop_limit = 9, .traffic_class = 8}};
        for (unsigned i = 0; i < 16; i++)
            attr.grh.dgid.raw[i] = (uint8_t)(i + 1);
        struct ibv_ah *ah = ibv_create_ah(pd, &attr);
        assert_non_null(ah);
        assert_ptr_equal(ah->pd, pd);
        assert_ptr_equal(ah->context, context);
        whole_config()->link = roce ? LINK_ROCE : LINK_IB;
        for (unsigned i = 0; i < 2; i++) {
            uint16_t before = qp_of(qp)->next;
            ibv_wr_start(ex);
            ibv_wr_rdma_write(ex, 0x77, 0x8800);
            if (i)
                mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), ah, 0x654321,
                                      0x1122334455667788);
            ibv_wr_set_sge(ex, 0x90, 0x9900, 44);
            assert_int_equal(ibv_wr_complete(ex), 0);
            say("addressed %u %u\n", roce, i);
            say_request(qp, before, (unsigned)(qp_of(qp)->next - before));
        }
        attr.port_num = 2;
        errno = 0;
        assert_null(ibv_create_ah(pd, &attr));
        assert_int_equal(errno, EINVAL);
        attr.port_num = 1;
        attr.grh.sgid_index = 2;
        assert_null(ibv_create_ah(pd, &attr));
        attr.is_global = 0;
        fail_next("calloc", 1, 0);
        assert_null(ibv_create_ah(pd, &attr));
        assert_int_equal(ibv_destroy_ah(ah), 0);
        whole_config()->link = LINK_IB;
        own_address = 0;
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    /* A DC target sends nothing. */
    struct ibv_srq_init_attr s = {.attr = {.max_wr = 3, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &s);
    struct ibv_qp_init_attr_ex a = {.recv_cq = cq,
                                    .srq = srq,
                                    .qp_type = IBV_QPT_DRIVER,
                                    .comp_mask = IBV_QP_INIT_ATTR_PD,
                                    .pd = pd};
    struct mlx5dv_qp_init_attr m = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                    .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT}};
    struct ibv_qp *qp = mlx5dv_create_qp(context, &a, &m);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(ibv_destroy_qp(qp) | ibv_destroy_srq(srq), 0);
}

/* --- Completions --- */

static void say_wc(const struct ibv_wc *wc)
{
    say("  id %llx status %u %u opcode %u bytes %u word %x flags %x qp %x\n",
        (unsigned long long)wc->wr_id, wc->status, wc->vendor_err, wc->opcode, wc->byte_len,
        be32toh(wc->imm_data), wc->wc_flags, wc->qp_num & 0xfff);
}

static void completions(void)
{
    static const uint8_t opcodes[] = {
        WQE_WRITE,     WQE_WRITE_IMM,        WQE_READ, WQE_COMPARE_SWAP, WQE_MASKED_COMPARE_SWAP,
        WQE_FETCH_ADD, WQE_MASKED_FETCH_ADD, WQE_SEND, WQE_SEND_IMM,     WQE_SEND_INVALIDATE,
        WQE_NOP};
    struct ibv_qp *qp = queue(), *other = queue();
    struct hca_qp *q = qp_of(qp);
    struct cq *of = cq_of(cq)->of;
    struct ibv_wc wc[8];
    for (unsigned i = 0; i < q->of->send.blocks; i++) {
        q->send_ids[i] = 0x500 + i;
        q->send_numbers[i] = 70 + i;
    }
    for (unsigned i = 0; i < 4; i++)
        q->receive_ids[i] = 0x600 + i;
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        struct outstanding f = {
            .index = (uint16_t)(i + 17), .opcode = opcodes[i], .received = 99 + i};
        cq_write_request(of, q->of, &f);
        assert_int_equal(ibv_poll_cq(cq, 8, wc), 1);
        say_wc(wc);
        say("  done %u record %x\n", q->done, be32toh(of->record[0]));
    }
    for (unsigned syndrome = 0; syndrome <= 0x18; syndrome++) {
        cq_write_error(of, q->of, syndrome % 2, (uint16_t)syndrome, WQE_READ, (uint8_t)syndrome,
                       0x81);
        assert_int_equal(ibv_poll_cq(cq, 8, wc), 1);
        say_wc(wc);
    }
    for (uint8_t kind = 1; kind <= 4; kind++) {
        cq_write_receive(of, q->of, kind, (uint16_t)(kind + 5), 1000u + kind,
                         htobe32(0x1234 + kind), false);
        assert_int_equal(ibv_poll_cq(cq, 8, wc), 1);
        say_wc(wc);
        say("  done %u\n", q->received_done);
    }
    /* More completions than requested; those of a destroyed queue are dropped. */
    for (unsigned i = 0; i < 5; i++)
        cq_write_receive(of, i == 2 ? qp_of(other)->of : q->of, 2, (uint16_t)i, i, 0, false);
    struct qp renamed = *q->of;
    renamed.qpn += 1u << 12;
    cq_write_receive(of, &renamed, 2, 9, 9, 0, false);
    assert_int_equal(ibv_poll_cq(cq, 0, wc), 0);
    assert_int_equal(ibv_poll_cq(cq, 2, wc), 2);
    assert_int_equal(ibv_destroy_qp(other), 0);
    int n = ibv_poll_cq(cq, 8, wc);
    for (int i = 0; i < n; i++)
        say_wc(&wc[i]);
    assert_int_equal(ibv_poll_cq(cq, 8, wc), 0);
    assert_int_equal(be32toh(of->record[0]), of->producer);
    /* Completions of a shared receive queue. */
    struct ibv_srq_init_attr s = {.attr = {.max_wr = 3, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &s);
    qp->srq = srq;
    srq_of(srq)->wr_ids[2] = 0x700;
    cq_write_receive(of, q->of, 2, 2, 9, 0, false);
    assert_int_equal(ibv_poll_cq(cq, 8, wc), 1);
    say_wc(wc);
    assert_int_equal(srq_of(srq)->tail, 2);
    qp->srq = NULL;
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void completion_queues(void)
{
    static const int sizes[] = {0, 1, 2, 3, 4, 7, 8, (1 << 22) - 1, 1 << 22, -1};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        errno = 0;
        struct ibv_cq *c = sizes[i] < 100 || sizes[i] >= 1 << 22
                               ? ibv_create_cq(context, sizes[i], NULL, NULL, 0)
                               : NULL;
        say("cq of %d: %d", sizes[i], c ? c->cqe : -errno);
        if (c) {
            const struct cq *of = cq_of(c)->of;
            say(" log %u record %td first %02x", of->log_size, (uint8_t *)of->record - of->buffer,
                of->buffer[63]);
            assert_int_equal(of->buffer[(64 << of->log_size) - 1], 0xff);
            assert_int_equal(of->record[0] | of->record[1], 0);
            assert_ptr_equal(of->events, &context_of(context)->events);
            assert_ptr_equal(of->owner, c);
            assert_int_equal(ibv_resize_cq(c, c->cqe), 0);
            assert_int_equal(ibv_resize_cq(c, c->cqe + 1), EOPNOTSUPP);
            assert_int_equal(ibv_destroy_cq(c), 0);
        }
        say("\n");
    }
    errno = 0;
    assert_null(ibv_create_cq(context, 1, NULL, NULL, 1));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq(context, 1, NULL, NULL, -1));
    for (unsigned i = 0; i < 3; i++) {
        fail_next(i < 2 ? "calloc" : "mmap", i < 2 ? i + 1 : 1, 0);
        errno = 0;
        assert_null(ibv_create_cq(context, 1, NULL, NULL, 0));
        assert_int_equal(errno, i ? ENOMEM : 0);
        fails = "";
    }
    fail_next("calloc", 1, 0);
    assert_null(ibv_create_comp_channel(context));
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    assert_ptr_equal(channel->context, context);
    struct ibv_cq *c = ibv_create_cq(context, 7, (void *)99, channel, 0),
                  *second = ibv_create_cq(context, 7, NULL, channel, 0), *got;
    void *of_program;
    assert_int_equal(channel->refcnt, 2);
    assert_int_equal(d->pending.notify_count, 2);
    assert_ptr_equal(d->pending.notify[0], cq_of(c)->of);
    assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
    cq_of(c)->consumer = 0x1000005;
    assert_int_equal(ibv_req_notify_cq(c, 0), 0);
    say("arming %x", be32toh(cq_of(c)->of->record[1]));
    assert_int_equal(ibv_req_notify_cq(c, 1), 0);
    say(" %x", be32toh(cq_of(c)->of->record[1]));
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(ibv_get_cq_event(channel, &got, &of_program), -1);
    channel_send(cq_of(c)->of->channel, &cq_of(c)->of->owner, sizeof(void *));
    assert_int_equal(ibv_get_cq_event(channel, &got, &of_program), 0);
    assert_ptr_equal(got, c);
    assert_ptr_equal(of_program, (void *)99);
    assert_int_equal(cq_of(c)->events, 2);
    assert_int_equal(ibv_req_notify_cq(c, 0), 0);
    say(" %x", be32toh(cq_of(c)->of->record[1]));
    cq_of(c)->events = 7;
    assert_int_equal(ibv_req_notify_cq(c, 0), 0);
    say(" %x\n", be32toh(cq_of(c)->of->record[1]));
    ibv_ack_cq_events(c, 3);
    ibv_ack_cq_events(c, 2);
    assert_int_equal(c->comp_events_completed, 5);
    /* Asynchronous events of the context. */
    struct ibv_async_event event;
    assert_int_equal(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(ibv_get_async_event(context, &event), -1);
    cq_async_event(cq_of(c)->of, IBV_EVENT_CQ_ERR);
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, c);
    ibv_ack_async_event(&event);
    cq_of(c)->of->users = 1;
    assert_int_equal(ibv_destroy_cq(c), EBUSY);
    cq_of(c)->of->users = 0;
    assert_int_equal(ibv_destroy_cq(c), 0);
    assert_int_equal(channel->refcnt, 1);
    assert_int_equal(d->pending.notify_count, 1);
    assert_ptr_equal(d->pending.notify[0], cq_of(second)->of);
    assert_int_equal(ibv_destroy_cq(second), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* --- Domains and memory --- */

static void domains(void)
{
    struct ibv_pd *more[3];
    for (unsigned i = 0; i < 3; i++) {
        more[i] = ibv_alloc_pd(context);
        assert_int_equal(more[i]->handle, 2 + i);
        assert_ptr_equal(more[i]->context, context);
        assert_int_equal(d->objects.pds[2 + i], 1);
    }
    assert_int_equal(ibv_dealloc_pd(more[1]), 0);
    more[1] = ibv_alloc_pd(context);
    assert_int_equal(more[1]->handle, 3);
    struct ibv_parent_domain_init_attr attr = {.pd = more[1]};
    struct ibv_pd *child = ibv_alloc_parent_domain(context, &attr);
    assert_int_equal(child->handle, 3);
    assert_int_equal(d->objects.pds[3], 2);
    assert_int_equal(ibv_dealloc_pd(more[1]), EBUSY);
    assert_int_equal(ibv_dealloc_pd(child), 0);
    assert_int_equal(d->objects.pds[3], 1);
    errno = 0;
    attr.comp_mask = 1 << 5;
    assert_null(ibv_alloc_parent_domain(context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask = 0;
    attr.pd = NULL;
    assert_null(ibv_alloc_parent_domain(context, &attr));
    attr.pd = more[0];
    fail_next("calloc", 1, 0);
    assert_null(ibv_alloc_parent_domain(context, &attr));
    fail_next("calloc", 1, 0);
    assert_null(ibv_alloc_pd(context));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ibv_dealloc_pd(more[i]), 0);
    for (unsigned i = 2; i < MAX_PDS; i++)
        d->objects.pds[i] = 1;
    errno = 0;
    assert_null(ibv_alloc_pd(context));
    assert_int_equal(errno, ENOMEM);
    d->objects.pds[MAX_PDS - 1] = 0;
    struct ibv_pd *last = ibv_alloc_pd(context);
    assert_int_equal(last->handle, MAX_PDS - 1);
    assert_int_equal(ibv_dealloc_pd(last), 0);
    memset(d->objects.pds + 2, 0, sizeof d->objects.pds[0] * (MAX_PDS - 2));
}

static void regions(void)
{
    static const struct {
        unsigned access;
        int error;
    } cases[] = {
        {0, 0},
        {IBV_ACCESS_LOCAL_WRITE, 0},
        {IBV_ACCESS_REMOTE_READ, 0},
        {IBV_ACCESS_REMOTE_WRITE, EINVAL},
        {IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
        {IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE, 0},
        {IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE, 0},
        {IBV_ACCESS_ZERO_BASED, EOPNOTSUPP},
        {IBV_ACCESS_ON_DEMAND, EOPNOTSUPP},
        {IBV_ACCESS_RELAXED_ORDERING, 0},
        {IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        errno = 0;
        struct ibv_mr *mr = ibv_reg_mr_iova2(pd, memory + 5, 100, 0x7000 + i, cases[i].access);
        assert_int_equal(mr ? 0 : errno, cases[i].error);
        if (!mr)
            continue;
        const struct mr_entry *e = &d->objects.keys.entries[mr->lkey >> 8];
        assert_int_equal(mr->lkey, mr->rkey);
        assert_int_equal(mr->handle, mr->lkey);
        assert_ptr_equal(mr->addr, memory + 5);
        assert_int_equal(mr->length, 100);
        assert_ptr_equal(mr->pd, pd);
        assert_ptr_equal(mr->context, context);
        assert_true(e->address == 0x7000 + i && e->bytes == 100);
        assert_true(e->memory == (uintptr_t)memory + 5 && e->access == cases[i].access);
        assert_int_equal(e->pd, pd->handle);
        assert_int_equal(d->objects.pds[pd->handle], 2);
        assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_false(e->valid);
        assert_int_equal(d->objects.pds[pd->handle], 1);
    }
    uint8_t *page =
        __real_mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __real_munmap(page + 4096, 4096);
    errno = 0;
    assert_null(ibv_reg_mr(pd, page, 4097, 1));
    assert_int_equal(errno, EFAULT);
    assert_null(ibv_reg_mr(pd, page + 4095, 2, 1));
    assert_null(ibv_reg_mr(pd, (void *)-1, 5, 1));
    struct ibv_mr *mr = ibv_reg_mr(pd, page + 1, 4095, 1);
    assert_non_null(mr);
    assert_int_equal(d->objects.keys.entries[mr->lkey >> 8].address, (uintptr_t)page + 1);
    d->objects.keys.entries[mr->lkey >> 8].tag++;
    assert_int_equal(ibv_dereg_mr(mr), EINVAL);
    d->objects.keys.entries[mr->lkey >> 8].tag--;
    assert_int_equal(ibv_rereg_mr(mr, 1, pd, page, 1, 1), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_mr(pd, (void *)-1, 0, 1); /* 0 bytes at any address */
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    for (unsigned i = 0; i < 2; i++) {
        if (i)
            for (unsigned k = 1; k < MAX_MRS; k++)
                d->objects.keys.entries[k].valid = true;
        else
            fail_next("calloc", 1, 0);
        errno = 0;
        assert_null(ibv_reg_mr(pd, memory, 8, 1));
        assert_int_equal(errno, i ? ENOMEM : 0);
        assert_int_equal(d->objects.pds[pd->handle], 1);
    }
    memset(d->objects.keys.entries, 0, MAX_MRS * sizeof *d->objects.keys.entries);
    /* By descriptor: the program's own mapping if there is one, else a new mapping. */
    int fd = memfd_create("buffer", 0);
    assert_int_equal(ftruncate(fd, 16384), 0);
    assert_int_equal(pwrite(fd, "there", 5, 4096 + 77), 5);
    long before = maps;
    mr = ibv_reg_dmabuf_mr(pd, 4096 + 77, 5, (uintptr_t)memory, fd, 1);
    assert_ptr_equal(mr->addr, memory);
    assert_int_equal(maps, before);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_dmabuf_mr(pd, 4096 + 77, 5, 0x10, fd, 1);
    assert_memory_equal(mr->addr, "there", 5);
    assert_int_equal(maps, before + 1);
    assert_int_equal(d->objects.keys.entries[mr->lkey >> 8].address, 0x10);
    assert_int_equal(HOLDER(mr, struct hca_mr, mr)->mapped_bytes, 82);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(maps, before);
    errno = 0;
    assert_null(ibv_reg_dmabuf_mr(pd, 0, 5, 0x10, -1, 1));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_dmabuf_mr(pd, 0, 5, 0x10, fd, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(maps, before);
    close(fd);
    __real_munmap(page, 4096);
}

/* The HCA accesses GPU memory by its address or by its descriptor, as the variable says. */
static void regions_of_gpus(void)
{
    for (unsigned i = 0; i < 2 * 3 * 4 * 2; i++) {
        bool by_file = i & 1, refused = i / 24;
        gpu_kind = (enum gpu_memory_kind)(i / 2 % 3);
        whole_config()->gpu = i / 6 % 4;
        gpu_added = gpu_removed = gpu_settled = 0;
        errno = 0;
        int access = refused ? IBV_ACCESS_REMOTE_WRITE : 1;
        struct ibv_mr *mr = by_file ? ibv_reg_dmabuf_mr(pd, 5, 77, (uintptr_t)&gpu_kind, -1, access)
                                    : ibv_reg_mr_iova2(pd, &gpu_kind, 77, 0x7000, (unsigned)access);
        say("  %s kind %u allowed %u access %d: %d, added %u removed %u",
            by_file ? "file" : "address", gpu_kind, whole_config()->gpu, access, mr ? 0 : errno,
            gpu_added, gpu_removed);
        if (mr) {
            const struct mr_entry *e = &d->objects.keys.entries[mr->lkey >> 8];
            say(" gpu %d iova %d", HOLDER(mr, struct hca_mr, mr)->on_gpu, e->address == 0x7000);
            assert_true(e->memory == (uintptr_t)&gpu_kind && e->bytes == 77 && e->access == 1);
            gpu_removed = 0;
            assert_int_equal(ibv_dereg_mr(mr), 0);
            say(" settled %u removed %u", gpu_settled, gpu_removed);
        }
        say("\n");
    }
    gpu_kind = GPU_MEMORY_NONE;
    whole_config()->gpu = GPU_ANY;
#undef ibv_reg_mr_iova
    struct ibv_mr *mr = ibv_reg_mr_iova(pd, memory, 100, 0x5000, 3);
    const struct mr_entry *e = &d->objects.keys.entries[mr->lkey >> 8];
    assert_true(e->address == 0x5000 && e->bytes == 100 && e->access == 3);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    errno = 0;
    assert_null(ibv_reg_mr(pd, memory, (size_t)-1, 1)); /* wraps around the address space */
    assert_int_equal(errno, EFAULT);
}

/* --- Devices, ports and addresses --- */

static void say_gid(const union ibv_gid *gid)
{
    for (unsigned i = 0; i < 16; i++)
        say("%02x", gid->raw[i]);
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *out);

static void ports(void)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++)
        say("%s %s %s %s %d %d index %d guid %llx\n", ibv_get_device_name(list[i]),
            list[i]->dev_name, list[i]->dev_path, list[i]->ibdev_path, list[i]->node_type,
            list[i]->transport_type, ibv_get_device_index(list[i]),
            (unsigned long long)be64toh(ibv_get_device_guid(list[i])));
    assert_null(list[2]);
    ibv_free_device_list(list);
    list = ibv_get_device_list(NULL);
    assert_non_null(list);
    ibv_free_device_list(list);
    fail_next("calloc", 1, 0);
    assert_null(ibv_get_device_list(&n));
    enum { WITHOUT_PADDING = offsetof(struct ibv_device_attr, phys_port_cnt) + 1 };
    struct ibv_device_attr a;
    assert_int_equal(ibv_query_device(context, &a), 0);
    say_words("device", &a, WITHOUT_PADDING);
    struct ibv_device_attr_ex ex;
    struct ibv_query_device_ex_input input = {0};
    assert_int_equal(ibv_query_device_ex(context, NULL, &ex), 0);
    /* Later versions of the headers add members after this one. */
    say_words("more", (char *)&ex + sizeof a,
              offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) + 4 - sizeof a);
    assert_memory_equal(&ex.orig_attr, &a, WITHOUT_PADDING);
    input.comp_mask = 1;
    assert_int_equal(ibv_query_device_ex(context, &input, &ex), EINVAL);
    for (unsigned i = 0; i < 5; i++) {
        struct ibv_port_attr port;
        union ibv_gid gid;
        struct ibv_gid_entry entry, table[3];
        memset(&port, 0xee, sizeof port);
        whole_config()->link = i ? LINK_ROCE : LINK_IB;
        own_mtu = i > 1 ? 128u << i : 0;
        own_address = i > 1 ? 0x0a010200 + i : 0;
        assert_int_equal(context_of(context)->verbs.query_port(context, 1, &port, sizeof port), 0);
        say_words("port", &port, offsetof(struct ibv_port_attr, port_cap_flags2) + 2);
        uint8_t old[sizeof port];
        memset(old, 0xee, sizeof old);
        assert_int_equal(ibv_query_port(context, 1, (void *)old), 0);
        assert_memory_equal(old, &port, offsetof(struct ibv_port_attr, port_cap_flags2));
        assert_int_equal(old[offsetof(struct ibv_port_attr, port_cap_flags2)], 0xee);
        for (int k = -1; k < 3; k++) {
            errno = 0;
            int e = ibv_query_gid(context, 1, k, &gid);
            say("  gid %d: %d %d ", k, e, errno);
            if (!e)
                say_gid(&gid);
            memset(&entry, 0xee, sizeof entry);
            e = _ibv_query_gid_ex(context, 1, (uint32_t)k, &entry, 0, sizeof entry);
            say(" entry %d", e);
            if (!e)
                say(" %u %u type %u", entry.gid_index, entry.port_num, entry.gid_type);
            say("\n");
        }
        memset(table, 0xee, sizeof table);
        ssize_t got = _ibv_query_gid_table(context, table, 3, 0, sizeof *table);
        say("  table %zd: %u %u\n", got, table[0].gid_index, table[1].gid_index);
        assert_int_equal(_ibv_query_gid_table(context, table, (size_t)got - 1, 0, sizeof *table),
                         -EINVAL);
        assert_int_equal(_ibv_query_gid_table(context, table, 3, 1, sizeof *table), -EINVAL);
    }
    struct ibv_port_attr port;
    union ibv_gid gid;
    struct ibv_gid_entry entry;
    assert_int_equal(ibv_query_port(context, 2, (void *)&port), EINVAL);
    assert_int_equal(context_of(context)->verbs.query_port(context, 0, &port, 8), EINVAL);
    assert_int_equal(ibv_query_gid(context, 2, 0, &gid), -1);
    assert_int_equal(_ibv_query_gid_ex(context, 2, 0, &entry, 0, sizeof entry), EINVAL);
    assert_int_equal(_ibv_query_gid_ex(context, 1, 0, &entry, 1, sizeof entry), EINVAL);
    __be16 pkey = 0;
    assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
    assert_int_equal(ibv_query_pkey(context, 2, 0, &pkey), -1);
    assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
    assert_int_equal(ibv_get_pkey_index(context, 1, 0xffff), 0);
    assert_int_equal(ibv_get_pkey_index(context, 1, 0x7fff), -1);
    assert_int_equal(ibv_get_pkey_index(context, 2, 0xffff), -1);
    for (unsigned i = 0; i < 32; i++) {
        static const uint32_t targets[] = {0, 9, 0x0a000001, 0x01000000};
        whole_config()->link = i & 4 ? LINK_ROCE : LINK_IB;
        own_address = i & 8 ? 0x0a000009 : 0;
        own_mtu = 1024;
        for (unsigned index = 0; index < 3; index++)
            for (uint32_t mtu = 1024; mtu <= 2048; mtu *= 2) {
                const char *why = path_refusal(d, index, targets[i & 3], mtu);
                if (i < 16)
                    say("  path %u %u %u: %.60s\n", i, index, mtu, why ? why : "fine");
            }
    }
    static const uint8_t gids[][16] = {
        {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x57, 0x48, 0xff, 0xfe, 0, 0x12, 0x34},
        {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x57, 0x48, 0xff, 0xfe, 1, 0x12, 0x34},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 2, 3, 4},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 2, 3, 4},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 10, 2, 3, 4},
    };
    for (unsigned i = 0; i < 5; i++)
        say("  address %x\n", address_of_gid(gids[i]));
    whole_config()->link = LINK_IB;
    own_address = own_mtu = 0;
}

static void contexts(void)
{
    struct ibv_context *second = whole_open(0), *other = whole_open(1);
    assert_ptr_equal(device_of(second), d);
    assert_ptr_not_equal(device_of(other), d);
    assert_int_equal(device_of(other)->lid, WHOLE_LID + 1);
    assert_int_equal(device_of(other)->number, 1);
    assert_int_equal(d->users, 2);
    assert_int_equal(d->pid, WHOLE_PID);
    assert_int_equal(d->random, 1);
    assert_int_equal(d->objects.key_next, 0x03030303 % (MAX_MRS - 1));
    assert_int_equal(d->objects.keys.count, MAX_MRS);
    assert_int_equal(second->cmd_fd, -1);
    assert_int_equal(second->num_comp_vectors, 1);
    assert_ptr_equal(second->abi_compat, __VERBS_ABI_IS_EXTENDED);
    assert_int_equal(context_of(second)->verbs.sz, sizeof(struct verbs_context));
    unsigned made = threads_made, joined = threads_joined;
    assert_int_equal(ibv_close_device(second), 0);
    assert_int_equal(threads_joined, joined);
    assert_int_equal(ibv_close_device(other), 0);
    assert_int_equal(threads_joined, joined + 2);
    static const struct {
        const char *call;
        unsigned at;
    } cases[] = {{"calloc", 1}, {"calloc", 2},         {"mmap", 1},          {"bind", 1},
                 {"mmap", 2},   {"pthread_create", 1}, {"pthread_create", 2}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        long blocks_now = blocks, maps_now = maps;
        unsigned files = open_files();
        made = threads_made;
        joined = threads_joined;
        struct ibv_device **list = ibv_get_device_list(NULL);
        fail_next(cases[i].call, cases[i].at, EAGAIN);
        errno = 0;
        assert_null(ibv_open_device(list[1]));
        assert_int_equal(fails_at, 0);
        assert_int_equal(errno, EAGAIN);
        ibv_free_device_list(list);
        assert_int_equal(blocks, blocks_now);
        assert_int_equal(maps, maps_now);
        assert_int_equal(open_files(), files);
        assert_int_equal(threads_made - made, threads_joined - joined);
    }
    other = whole_open(1);
    assert_int_equal(ibv_close_device(other), 0);
    uint32_t before = d->threads.wakeup[2];
    device_changes(d);
    assert_int_equal(d->threads.wakeup[2], before + 1);
    char byte;
    while (read(d->threads.wake[0], &byte, 1) == 1)
        ;
    device_wake_connector(d);
    assert_int_equal(read(d->threads.wake[0], &byte, 1), 1);
    unsigned wanted = atomic_load(&d->threads.lock_waiters);
    device_lock(d);
    assert_int_equal(atomic_load(&d->threads.lock_waiters), wanted);
    device_unlock(d);
}

/* --- The engine's pass --- */

static void passes(void)
{
    struct ibv_qp *qp = queue();
    struct hca_qp *q = qp_of(qp);
    bool timed;
    assert_int_equal(ready(qp, qp->qp_num), 0);
    pump(context);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, 15);
    struct ibv_sge sge = {(uintptr_t)memory, 3000, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 77,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
    wr.wr.rdma.rkey = mr->rkey;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    for (unsigned i = 0; i < 6; i++) {
        bool worked = engine_pass(d, &timed);
        say("pass %u: %d timed %d now %llu doorbells %llu work %u listed %d seen %d\n", i, worked,
            timed, (unsigned long long)d->now - 3000000000, (unsigned long long)d->record.doorbells,
            d->pending.work_count, q->of->send.listed, q->of->uar->seen == *q->of->uar->reg);
    }
    assert_memory_equal(memory, memory + 4096, 3000);
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 77);
    /* A queue that waits for the clock is visited again; others are removed. */
    q->of->requester.wait_until = d->now + 1000000;
    qp_list(q->of);
    assert_false(engine_pass(d, &timed));
    assert_true(timed);
    assert_true(q->of->send.listed);
    q->of->requester.wait_until = 0;
    assert_false(engine_pass(d, &timed));
    assert_false(timed);
    assert_false(q->of->send.listed);
    assert_int_equal(d->pending.work_count, 0);
    /* A doorbell that the GPU polls is ignored. */
    q->of->uar->for_gpu = true;
    q->of->uar->cpu_poll_pending = true;
    *q->of->uar->reg += 1;
    uint64_t bells = d->record.doorbells;
    assert_false(engine_pass(d, &timed));
    assert_true(q->of->uar->cpu_poll_pending);
    q->of->uar->by_cpu = true;
    assert_true(engine_pass(d, &timed));
    assert_false(q->of->uar->cpu_poll_pending);
    q->of->uar->for_gpu = false;
    say("  doorbells %llu\n", (unsigned long long)(d->record.doorbells - bells));
    /* A doorbell in GPU memory is polled at intervals. */
    q->of->uar->on_gpu = true;
    uint64_t at = q->of->uar->next_poll_ns;
    assert_int_equal(at, 0);
    assert_false(engine_pass(d, &timed));
    assert_int_equal(q->of->uar->next_poll_ns, d->now + 200000);
    *q->of->uar->reg += 1;
    assert_false(engine_pass(d, &timed));
    whole_clock += 200000;
    assert_true(engine_pass(d, &timed));
    assert_int_equal(q->of->uar->next_poll_ns, d->now + 200000);
    q->of->uar->on_gpu = false;
    whole_config()->mode = MODE_ADVERSARIAL;
    for (unsigned i = 0; i < 12; i++) {
        *q->of->uar->reg += 1;
        bells = d->record.doorbells;
        bool worked = engine_pass(d, &timed);
        say("  adversary %d %llu\n", worked, (unsigned long long)(d->record.doorbells - bells));
    }
    whole_config()->mode = MODE_STRICT;
    d->record.line_count = 0;
    assert_int_equal(ibv_destroy_qp(qp) | ibv_dereg_mr(mr), 0);
}

/* --- The report --- */

static void reports(void)
{
    int s[2];
    char said[20000];
    struct ibv_qp *qp = queue(), *second = queue();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, s), 0);
    for (unsigned i = 0; i < 4; i++) {
        memset(said, 0, sizeof said);
        comm = i == 1 ? NULL : "a \"pro\\gram\"\x01\n";
        if (i == 1) {
            struct qp *of = qp_of(qp)->of;
            of->requester.remote_qpn = 0x1234;
            of->requester.remote = 9;
            of->counts.requests = 1;
            of->counts.completions = 2;
            of->counts.received = 3;
            of->counts.bytes = 4;
            of->counts.errors = 5;
            of->counts.retries = 6;
            of->send.producer = 9;
            of->send.taken = 2;
            of->send.outstanding_tail = 3;
            of->send.outstanding_head = 1;
            of->state = QP_SQE;
            of->type = QP_DCT;
            d->record.doorbells = 7;
            d->record.requests = 8;
            d->record.by_gpu = 9;
            d->record.errors = 10;
            d->objects.keys.entries[5] = (struct mr_entry){
                .address = 11, .bytes = 12, .pd = 13, .access = 5, .tag = 14, .valid = true};
            d->objects.keys.entries[7] = (struct mr_entry){.access = 10, .valid = true};
            log_error(d, "a line with \"quotes\" and \t");
            log_error(d, "another");
        }
        if (i == 2) {
            whole_config()->link = LINK_ROCE;
            whole_config()->mode = MODE_LENIENT;
            for (unsigned k = 10; k < 300; k++)
                d->objects.keys.entries[k].valid = true;
            for (unsigned k = 0; k < 70; k++)
                log_error(d, "line %u of many, each long enough for pieces", k);
        }
        if (i != 3)
            assert_int_equal(send(s[0], "show", 4, 0), 4);
        report_answer(d, s[1]);
        blocks++; /* allocated by the C library */
        size_t used_of = 0;
        unsigned pieces = 0;
        for (ssize_t n; (n = recv(s[0], said + used_of, sizeof said - used_of, 0)) > 0; pieces++) {
            assert_true(n <= 16384);
            used_of += (size_t)n;
        }
        say("report %u in %u pieces of %zu\n", i, pieces, used_of);
        if (i < 2)
            say("%s", said);
        if (i == 2)
            say_bytes(said, used_of), say("%.300s\n%s", said, said + used_of - 300);
    }
    qp_of(qp)->of->type = QP_RC;
    qp_of(qp)->of->send.outstanding_head = qp_of(qp)->of->send.outstanding_tail = 0;
    memset(d->objects.keys.entries, 0, MAX_MRS * sizeof *d->objects.keys.entries);
    d->record.line_count = 0;
    assert_int_equal(ibv_destroy_qp(qp) | ibv_destroy_qp(second), 0);
    close(s[0]);
    close(s[1]);
}

/* --- Names --- */

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);
int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size);

static void words(void)
{
    for (int i = -1; i < 24; i++)
        say("%s, ", ibv_wc_status_str((enum ibv_wc_status)i));
    say("\n");
    for (int i = -1; i < 7; i++)
        say("%s, ", ibv_port_state_str((enum ibv_port_state)i));
    for (int i = 0; i < 3; i++)
        say("%s, %s, ", ibv_node_type_str((enum ibv_node_type)i),
            ibv_event_type_str((enum ibv_event_type)i));
    say("\n");
    for (int i = 0; i < 20; i++)
        say("%d %d ", ibv_rate_to_mult((enum ibv_rate)i), ibv_rate_to_mbps((enum ibv_rate)i));
    for (int i = 0; i < 50; i++)
        say("%d %d ", mult_to_ibv_rate(i), mbps_to_ibv_rate(i * 2500));
    say("\n");
    unsigned type = 9;
    assert_int_equal(ibv_query_gid_type(context, 1, 0, &type), 0);
    assert_int_equal(type, 0);
    whole_config()->link = LINK_ROCE;
    assert_int_equal(ibv_query_gid_type(context, 1, 0, &type), 0);
    assert_int_equal(type, 1);
    whole_config()->link = LINK_IB;
    assert_int_equal(ibv_query_gid_type(context, 2, 0, &type), -1);
    assert_int_equal(ibv_query_gid_type(context, 1, 1, &type), -1);
    char name[] = "/tmp/hca_callsXXXXXX", text_of[8];
    int fd = mkstemp(name);
    assert_int_equal(write(fd, "abc\n", 4), 4);
    memset(text_of, 0x55, sizeof text_of);
    assert_int_equal(ibv_read_sysfs_file("/tmp", name + 5, text_of, 8), 3);
    assert_string_equal(text_of, "abc");
    assert_int_equal(ibv_read_sysfs_file("/tmp", name + 5, text_of, 3), 2);
    assert_string_equal(text_of, "ab");
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(ibv_read_sysfs_file("/tmp", name + 5, text_of, 8), -1);
    close(fd);
    unlink(name);
    assert_int_equal(ibv_read_sysfs_file("/tmp", name + 5, text_of, 8), -1);
}

const char *ibv_get_sysfs_path(void);
void *_verbs_init_and_alloc_context(void);

/* refused: the call returned `result`; if that is no errno, it set errno. */
static void refused(int result, int expected)
{
    assert_int_equal(result, expected);
    assert_int_equal(errno, expected < 0 || !expected ? EOPNOTSUPP : 0);
    errno = 0;
}

static void what_is_not_here(void)
{
    struct ibv_wc wc = {0};
    struct ibv_grh grh = {0};
    struct ibv_ah_attr attr = {0};
    struct ibv_ece ece = {0};
    union ibv_gid gid = {{0}};
    struct ibv_qp *qp = queue();
    errno = 0;
    refused(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
    refused(ibv_create_ah_from_wc(pd, &wc, &grh, 1) != NULL, 0);
    refused(mlx5dv_create_mkey(NULL) != NULL, 0);
    refused(mlx5dv_dek_create(context, NULL) != NULL, 0);
    refused(_verbs_init_and_alloc_context() != NULL, 0);
    refused(ibv_attach_mcast(qp, &gid, 1), EOPNOTSUPP);
    refused(ibv_detach_mcast(qp, &gid, 1), EOPNOTSUPP);
    refused(ibv_query_ece(qp, &ece), EOPNOTSUPP);
    refused(ibv_set_ece(qp, &ece), EOPNOTSUPP);
    refused(mlx5dv_map_ah_to_qp(NULL, 1), EOPNOTSUPP);
    refused(mlx5dv_destroy_mkey(NULL), EOPNOTSUPP);
    refused(mlx5dv_crypto_login(context, NULL), EOPNOTSUPP);
    refused(mlx5dv_dek_destroy(NULL), EOPNOTSUPP);
    assert_int_equal(ibv_fork_init(), 0);
    assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
    assert_string_equal(ibv_get_sysfs_path(), "/sys");
    assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 0);
    assert_int_equal(mlx5dv_modify_qp_udp_sport(qp, 5), 0);
    assert_int_equal(ibv_rate_to_mult((enum ibv_rate)99), -1);
    assert_int_equal(mult_to_ibv_rate(99), IBV_RATE_MAX);
    assert_int_equal(mbps_to_ibv_rate(99), IBV_RATE_MAX);
    struct ibv_query_device_ex_input input = {.comp_mask = 1};
    struct ibv_device_attr_ex ex;
    assert_int_equal(context_of(context)->verbs.query_device_ex(context, &input, &ex, sizeof ex),
                     EINVAL);
    input.comp_mask = 0;
    assert_int_equal(context_of(context)->verbs.query_device_ex(context, &input, &ex, sizeof ex),
                     0);
    struct ibv_srq_init_attr_ex a = {
        .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd, .attr = {.max_wr = 3, .max_sge = 1}};
    struct ibv_srq *srq = context_of(context)->verbs.create_srq_ex(context, &a);
    uint32_t number = 0;
    assert_int_equal(ibv_get_srq_num(srq, &number), 0);
    assert_int_equal(number, srq->handle);
    assert_int_equal(ibv_destroy_srq(srq) | ibv_destroy_qp(qp), 0);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        say("# " #name "\n");                                                                      \
        name();                                                                                    \
    }
TEST(plans)
TEST(kinds_of_queues)
TEST(moves)
TEST(requests)
TEST(receives)
TEST(shared_queues)
TEST(requests_by_calls)
TEST(addressed_requests)
TEST(completions)
TEST(completion_queues)
TEST(domains)
TEST(regions)
TEST(regions_of_gpus)
TEST(ports)
TEST(contexts)
TEST(passes)
TEST(reports)
TEST(words)
TEST(what_is_not_here)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    setenv("SOFT_HCA_LOG", "none", 1);
    setenv("SOFT_HCA_DEVICES", "2", 1);
#define UNIT(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        UNIT(plans),
        UNIT(kinds_of_queues),
        UNIT(moves),
        UNIT(requests),
        UNIT(receives),
        UNIT(shared_queues),
        UNIT(requests_by_calls),
        UNIT(addressed_requests),
        UNIT(completions),
        UNIT(completion_queues),
        UNIT(domains),
        UNIT(regions),
        UNIT(regions_of_gpus),
        UNIT(ports),
        UNIT(contexts),
        UNIT(passes),
        UNIT(reports),
        UNIT(words),
        UNIT(what_is_not_here),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
