/* SPDX-License-Identifier: Apache-2.0 */
/* The DevX commands, field by field: the object that each creates, and the status of each refusal,
 * compared with golden/hca_devx.txt. */
#include "whole.h"

#include <sys/mman.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct mlx5dv_devx_uar *uar;
static struct mlx5dv_devx_umem *umem, *small;
static uint8_t *arena;
enum { ARENA = 1 << 16, SMALL = 4096 };

struct part {
    unsigned at, shift, width;
    uint32_t value;
};

static uint8_t in[600], out[600];

static void put(struct part p)
{
    uint32_t w, mask = (p.width == 32 ? ~0u : (1u << p.width) - 1) << p.shift;
    memcpy(&w, in + p.at, 4);
    w = htobe32((be32toh(w) & ~mask) | (p.value << p.shift & mask));
    memcpy(in + p.at, &w, 4);
}

static void put_all(const struct part *parts, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        put(parts[i]);
}

static uint32_t word(unsigned at)
{
    uint32_t w;
    memcpy(&w, out + at, 4);
    return be32toh(w);
}

static void say_answer(const char *what, unsigned i, int result)
{
    say("%s %u: %d, status %02x syndrome %x number %x\n", what, i, result, out[0], word(4),
        short_qpn(word(8)));
    say_log(context);
}

static void say_cq(const struct cq *cq)
{
    say("  cq %x at %lx of %u record %lx%s%s users %u %u %u\n", cq->cqn,
        (unsigned long)(cq->buffer - arena), cq->log_size,
        (unsigned long)((uint8_t *)cq->record - arena), cq->collapsed ? " collapsed" : "",
        cq->ignore_overrun ? " ignores" : "", cq->users, cq->memories[0]->users,
        cq->memories[1]->users);
}

static void say_qp(const struct qp *qp)
{
    say("  qp %x type %u state %u pd %u user %x cqs %x %x uar %u/%u ring %lx of %u record %lx\n",
        short_qpn(qp->qpn), qp->type, qp->state, qp->pd, qp->user_index, qp->send_cq->cqn,
        qp->receive_cq ? qp->receive_cq->cqn : 0, qp->uar->page_id, qp->uar->queues,
        qp->send.ring ? (unsigned long)(qp->send.ring - arena) : 0, qp->send.blocks,
        (unsigned long)((uint8_t *)qp->record - arena));
    say("  receive %lx %u %u record %lx srq %u users %u %u\n",
        qp->receive.ring ? (unsigned long)(qp->receive.ring - arena) : 0, qp->receive.log_count,
        qp->receive.log_stride,
        qp->receive.record ? (unsigned long)((uint8_t *)qp->receive.record - arena) : 0,
        qp->srq ? qp->srq->number : 0, qp->memories[0]->users, qp->memories[1]->users);
    say("  to %x at %u mtu %u port %x psn %x/%x/%x expected %x said %x from %x %u\n",
        short_qpn(qp->requester.remote_qpn), qp->requester.remote, qp->requester.mtu,
        qp->requester.source_port, qp->requester.psn, qp->requester.acked, qp->requester.psn_limit,
        qp->responder.expected_psn, qp->responder.ack_psn, short_qpn(qp->responder.qpn),
        qp->responder.from);
    say("  access %x timer %u reads %u timeout %u tries %u %u %u %u link %d window %u%s\n",
        qp->access, qp->rnr_timer, qp->requester.max_reads, qp->requester.timeout,
        qp->requester.retry_count, qp->requester.retries, qp->requester.rnr_retry,
        qp->requester.rnr_tries, qp->requester.link != NULL, qp->requester.window,
        qp->send.listed ? " listed" : "");
}

static struct qp *qp_at(uint32_t number)
{
    struct qp *qp = device_of(context)->objects.qps[number & 0xfff];
    assert_non_null(qp);
    return qp;
}

static int setup(void **state)
{
    (void)state;
    context = whole_open(0);
    pd = ibv_alloc_pd(context);
    uar = mlx5dv_devx_alloc_uar(context, 0);
    arena = mmap(NULL, ARENA + SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    umem = mlx5dv_devx_umem_reg(context, arena, ARENA, 1);
    small = mlx5dv_devx_umem_reg(context, arena + ARENA, SMALL, 1);
    assert_true(pd && uar && umem && small && arena != MAP_FAILED);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(mlx5dv_devx_umem_dereg(small), 0);
    assert_int_equal(mlx5dv_devx_umem_dereg(umem), 0);
    mlx5dv_devx_free_uar(uar);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    munmap(arena, ARENA + SMALL);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(blocks, 0);
    return 0;
}

/* --- Completion queues --- */

static void good_cq(void)
{
    const struct part parts[] = {
        {0, 16, 16, 0x400},
        {0x10, 25, 1, 1},
        {0x14, 0, 32, small->umem_id},
        {0x1c, 24, 5, 3},
        {0x48, 0, 32, 0},
        {0x4c, 0, 32, 64},
        {0x54, 0, 32, 0x200},
        {0x58, 0, 32, umem->umem_id},
        {0x5c, 31, 1, 1},
    };
    memset(in, 0, sizeof in);
    memset(out, 0xee, sizeof out);
    put_all(parts, sizeof parts / sizeof *parts);
}

static struct mlx5dv_devx_obj *create(size_t in_bytes, size_t out_bytes)
{
    errno = 0;
    return mlx5dv_devx_obj_create(context, in, in_bytes, out, out_bytes);
}

static void completion_queues(void)
{
    const struct part changes[] = {
        {0x10, 20, 1, 1},
        {0x10, 17, 1, 1},
        {0x10, 21, 3, 1},
        {0x10, 21, 3, 4},
        {0x1c, 24, 5, 22},
        {0x1c, 24, 5, 23},
        {0x1c, 24, 5, 31},
        {0x10, 25, 1, 0},
        {0x5c, 31, 1, 0},
        {0x58, 0, 32, 0},
        {0x58, 0, 32, 99},
        {0x58, 0, 32, 1u << 20},
        {0x54, 0, 32, 0x201},
        {0x54, 0, 32, ARENA - 512},
        {0x54, 0, 32, ARENA - 448},
        {0x50, 0, 32, 1},
        {0x14, 0, 32, 77},
        {0x4c, 0, 32, 65},
        {0x4c, 0, 32, SMALL - 8},
        {0x4c, 0, 32, SMALL},
        {0x48, 0, 32, 1},
        {0x1c, 24, 5, 10},
        {0x14, 0, 32, umem->umem_id},
        {0x54, 0, 32, ARENA},
        {0x54, 0, 32, ARENA + 64},
    };
    for (unsigned i = 0; i <= sizeof changes / sizeof *changes; i++) {
        good_cq();
        if (i)
            put(changes[i - 1]);
        struct mlx5dv_devx_obj *o = create(272, 16);
        say_answer("create cq", i, o ? 0 : errno);
        if (!o)
            continue;
        say_cq(device_of(context)->objects.cqs[word(8) & 0xffffff]);
        assert_int_equal(out[16], 0xee);
        assert_int_equal(mlx5dv_devx_obj_destroy(o), 0);
    }
    good_cq();
    assert_null(create(271, 16));
    say_answer("too short", 0, errno);
    good_cq();
    assert_null(create(272, 15));
    assert_int_equal(errno, EINVAL);
    good_cq();
    assert_null(create(15, 16));
    assert_int_equal(errno, EINVAL);
    assert_null(mlx5dv_devx_obj_create(context, NULL, 272, out, 16));
    assert_null(mlx5dv_devx_obj_create(context, in, 272, NULL, 16));
    put((struct part){0, 16, 16, 0x401});
    assert_null(create(272, 16));
    say_answer("another object", 0, errno);
    good_cq();
    assert_null(create(16, 16));
    say_answer("no room for a field", 0, errno);
    fail_next("calloc", 1, 0);
    assert_null(create(272, 16));
    /* All numbers are in use. */
    struct device *d = device_of(context);
    struct cq other = {0};
    for (unsigned i = 1; i < MAX_CQS; i++)
        d->objects.cqs[i] = &other;
    good_cq();
    assert_null(create(272, 16));
    say_answer("none is left", 0, errno);
    d->objects.cqs[77] = NULL;
    struct mlx5dv_devx_obj *o = create(272, 16);
    assert_non_null(o);
    assert_int_equal(word(8), 77);
    assert_int_equal(mlx5dv_devx_obj_destroy(o), 0);
    memset(d->objects.cqs, 0, sizeof d->objects.cqs);
    d->objects.cq_next = MAX_CQS - 2;
    struct mlx5dv_devx_obj *last = create(272, 16);
    assert_int_equal(word(8), MAX_CQS - 1);
    o = create(272, 16);
    assert_int_equal(word(8), 1);
    assert_int_equal(small->umem_id ? d->objects.umems[small->umem_id]->users : 0, 2);
    assert_int_equal(mlx5dv_devx_obj_destroy(o) | mlx5dv_devx_obj_destroy(last), 0);
    assert_int_equal(
        d->objects.umems[small->umem_id]->users | d->objects.umems[umem->umem_id]->users, 0);
    /* SOFT_HCA_FAIL=create refuses a creation and all later ones. */
    whole_config()->fail = FAIL_CREATE;
    whole_config()->fail_at = (unsigned)d->record.creations + 2;
    good_cq();
    o = create(272, 16);
    assert_non_null(o);
    for (unsigned i = 0; i < 2; i++) {
        assert_null(create(272, 16));
        say_answer("exhausted", i, errno);
    }
    whole_config()->fail = FAIL_REQUEST;
    whole_config()->fail_at = 0;
    assert_int_equal(mlx5dv_devx_obj_destroy(o), 0);
}

/* --- Queue pairs --- */

static struct mlx5dv_devx_obj *send_cq, *receive_cq;
static uint32_t send_cqn, receive_cqn;

static void make_cqs(void)
{
    good_cq();
    send_cq = create(272, 16);
    send_cqn = word(8);
    receive_cq = create(272, 16);
    receive_cqn = word(8);
    assert_true(send_cq && receive_cq);
}

static void drop_cqs(void)
{
    assert_int_equal(mlx5dv_devx_obj_destroy(send_cq), 0);
    assert_int_equal(mlx5dv_devx_obj_destroy(receive_cq), 0);
}

static uint32_t domain_number(void)
{
    struct mlx5dv_pd inner;
    struct mlx5dv_obj obj = {.pd = {.in = pd, .out = &inner}};
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
    return inner.pdn;
}

static void good_qp(void)
{
    const struct part parts[] = {
        {0, 16, 16, 0x500},
        {0x18, 16, 8, 0},
        {0x1c, 0, 24, domain_number()},
        {0x20, 11, 4, 5},
        {0x20, 19, 4, 3},
        {0x20, 16, 3, 2},
        {0x24, 0, 24, uar->page_id},
        {0x28, 0, 24, 0xabcdef},
        {0x18 + 0x7c, 0, 24, send_cqn},
        {0x18 + 0x9c, 0, 24, receive_cqn},
        {0x18 + 0xa4, 0, 32, 128},
        {0x18 + 0xd0, 28, 1, 1},
        {0x18 + 0xe4, 0, 32, small->umem_id},
        {0x104, 0, 32, 0x1000},
        {0x108, 0, 32, umem->umem_id},
        {0x10c, 31, 1, 1},
    };
    memset(in, 0, sizeof in);
    memset(out, 0xee, sizeof out);
    put_all(parts, sizeof parts / sizeof *parts);
}

static void queue_pairs(void)
{
    make_cqs();
    struct ibv_srq_init_attr a = {.attr = {.max_wr = 3, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &a);
    uint32_t srqn;
    assert_int_equal(ibv_get_srq_num(srq, &srqn), 0);
    const struct part changes[] = {
        {0x18, 16, 8, 5},
        {0x18, 16, 8, 1},
        {0x18, 16, 8, 6},
        {0x1c, 0, 24, 0},
        {0x1c, 0, 24, 77},
        {0x1c, 0, 24, 0xffffff},
        {0x18 + 0x7c, 0, 24, 0},
        {0x18 + 0x7c, 0, 24, 0x1f00},
        {0x18 + 0x7c, 0, 24, 0xffffff},
        {0x18 + 0x9c, 0, 24, 0},
        {0x18 + 0x9c, 0, 24, 0x1f00},
        {0x18 + 0x9c, 0, 24, 0xffffff},
        {0x24, 0, 24, 0},
        {0x24, 0, 24, 99},
        {0x24, 0, 24, 0xffffff},
        {0x18 + 0xac, 24, 3, 1}, /* an SRQ without a number */
        {0x18 + 0xac, 0, 27, 1 << 24 | srqn},
        {0x18 + 0xac, 0, 27, 1 << 24 | 0xffffff},
        {0x18 + 0xac, 24, 3, 3},
        {0x20, 15, 1, 1},
        {0x20, 11, 5, 15 | 1 << 4},
        {0x20, 11, 4, 15},
        {0x20, 11, 4, 14},
        {0x10c, 31, 1, 0},
        {0x18 + 0xd0, 28, 1, 0},
        {0x108, 0, 32, 55},
        {0x104, 0, 32, 0x1001},
        {0x104, 0, 32, ARENA - 2560},
        {0x104, 0, 32, ARENA - 2496},
        {0x18 + 0xe4, 0, 32, 55},
        {0x18 + 0xa4, 0, 32, 129},
        {0x18 + 0xa4, 0, 32, SMALL},
        {0x20, 19, 4, 0},
        {0x20, 16, 3, 0},
        {0x20, 11, 4, 0},
    };
    for (unsigned i = 0; i <= sizeof changes / sizeof *changes; i++) {
        good_qp();
        if (i)
            put(changes[i - 1]);
        struct mlx5dv_devx_obj *o = create(272, 16);
        say_answer("create qp", i, o ? 0 : errno);
        say("  users %u %u\n", device_of(context)->objects.cqs[send_cqn]->users,
            device_of(context)->objects.cqs[receive_cqn]->users);
        if (!o)
            continue;
        say_qp(qp_at(word(8)));
        assert_int_equal(mlx5dv_devx_obj_destroy(o), 0);
        assert_int_equal(device_of(context)->objects.umems[umem->umem_id]->users,
                         2); /* those of the CQs */
        assert_int_equal(device_of(context)->objects.uars[uar->page_id]->queues, 0);
    }
    good_qp();
    assert_null(create(271, 16));
    say_answer("too short", 0, errno);
    for (unsigned i = 1; i < 4; i++) {
        good_qp();
        fail_next("calloc", i, 0);
        assert_null(create(272, 16));
        say_answer("no memory", i, errno);
    }
    struct device *d = device_of(context);
    struct qp *other = (struct qp *)(void *)in;
    for (unsigned i = 1; i < MAX_QPS; i++)
        d->objects.qps[i] = other;
    good_qp();
    assert_null(create(272, 16));
    say_answer("none is left", 0, errno);
    memset(d->objects.qps, 0, sizeof d->objects.qps);
    good_qp();
    struct mlx5dv_devx_obj *o = create(272, 16);
    assert_non_null(o);
    assert_int_equal(mlx5dv_devx_obj_destroy(send_cq), EREMOTEIO);
    assert_int_equal(errno, EREMOTEIO);
    say_log(context);
    assert_int_equal(mlx5dv_devx_umem_dereg(umem), EREMOTEIO);
    say_log(context);
    assert_int_equal(mlx5dv_devx_obj_destroy(o), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    drop_cqs();
}

/* --- Transitions --- */

static int command(struct mlx5dv_devx_obj *o, size_t in_bytes, size_t out_bytes)
{
    memset(out, 0xee, sizeof out);
    errno = 0;
    return mlx5dv_devx_obj_modify(o, in, in_bytes, out, out_bytes);
}

static void good_move(unsigned opcode, uint32_t qpn)
{
    const struct part parts[] = {
        {0, 16, 16, opcode},
        {8, 0, 24, qpn},
        {0x18 + 0x90, 13, 3, 5},
        {0x18 + 0x14, 0, 24, qpn},
        {0x18 + 0x8, 29, 3, 3},
        {0x18 + 0x70, 21, 3, 3},
        {0x18 + 0x70, 16, 3, 6},
        {0x18 + 0x70, 13, 3, 5},
        {0x18 + 0x78, 0, 24, 0x123456},
        {0x18 + 0x94, 0, 24, 0x654321},
        {0x18 + 0x94, 24, 5, 17},
        {0x30 + 0x4, 0, 16, WHOLE_LID},
        {0x30 + 0x8, 27, 5, 9},
        {0x30 + 0x20, 0, 16, 0xc0de},
    };
    memset(in, 0, sizeof in);
    put_all(parts, sizeof parts / sizeof *parts);
}

static void moves(void)
{
    enum { RST2INIT = 0x502, INIT2RTR, RTR2RTS, RTS2RTS, TO_ERR = 0x507, TO_RST = 0x50a };
    enum { INIT2INIT = 0x50e, CASES = 12 };
    static const unsigned opcodes[] = {RST2INIT, INIT2INIT, INIT2RTR, RTR2RTS,
                                       RTS2RTS,  TO_ERR,    TO_RST};
    make_cqs();
    good_qp();
    struct mlx5dv_devx_obj *o = create(272, 16);
    uint32_t qpn = word(8);
    struct qp *qp = qp_at(qpn);
    for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        good_move(opcodes[i], qpn);
        if (i == 1) {
            put((struct part){0x10, 0, 32, 0xa}); /* access rights: reads and writes */
            put((struct part){0x18 + 0x90, 13, 3, 2});
        }
        if (i == 4) {
            put((struct part){0x10, 0, 32, 4}); /* access rights: atomics */
            put((struct part){0x18 + 0x90, 13, 3, 7});
        }
        int result = command(o, i < 5 ? 272 : 16, 16);
        say_answer("move", i, result);
        say_qp(qp);
    }
    /* Access rights for atomics, from an adapter that has none. */
    qp->state = QP_RESET;
    good_move(RST2INIT, qpn);
    put((struct part){0x18 + 0x90, 13, 1, 1});
    whole_config()->atomics = ATOMICS_NONE;
    say_answer("move", 7, command(o, 272, 16));
    say_qp(qp);
    put((struct part){0x18 + 0x90, 13, 1, 0});
    say_answer("move", 8, command(o, 272, 16));
    say_qp(qp);
    whole_config()->atomics = ATOMICS_HCA;
    /* Each transition from each state. */
    for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        for (unsigned from = QP_RESET; from <= QP_ERROR; from++) {
            qp->state = from;
            good_move(opcodes[i], qpn);
            int result = command(o, 272, 16);
            say("  %x from %u: %d status %02x, is %u\n", opcodes[i], from, result, out[0],
                qp->state);
            device_of(context)->record.line_count = 0;
        }
    for (unsigned i = 0; i < CASES; i++) {
        qp->state = QP_INIT;
        good_move(INIT2RTR, qpn);
        if (i == 0)
            put((struct part){8, 0, 24, qpn + 1});
        if (i == 1)
            put((struct part){0x18 + 0x8, 29, 3, 0});
        if (i == 2)
            put((struct part){0x18 + 0x8, 29, 3, 6});
        if (i == 3)
            put((struct part){0x18 + 0x8, 29, 3, 5});
        if (i == 4)
            put((struct part){0x30 + 0x4, 0, 16, 0});
        if (i == 5)
            qp->type = QP_DCI;
        if (i == 5)
            put((struct part){0x30 + 0x4, 0, 16, 0});
        if (i == 6)
            put((struct part){0, 16, 16, 0x777});
        if (i == 9 || i == 10)
            whole_config()->link = LINK_ROCE;
        if (i == 9) {
            const uint8_t gid[16] = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                                     0x02, 0x57, 0x48, 0xff, 0xfe, 0x00, 0x03, 0x21};
            memcpy(in + 0x40, gid, 16);
        }
        if (i == 10)
            put((struct part){0x30 + 0x8, 16, 8, 1});
        if (i == 11)
            put((struct part){0x18 + 0x8, 29, 3, 1});
        int result = command(o, i == 7 ? 271 : 272, i == 8 ? 15 : 16);
        say_answer("refused move", i, result);
        say_qp(qp);
        qp->type = QP_RC;
        whole_config()->link = LINK_IB;
    }
    for (unsigned i = 0; i < 3; i++) {
        good_move(i ? TO_ERR : TO_RST, qpn);
        int result = command(o, i == 2 ? 15 : 16, 16);
        say_answer("short form", i, result);
    }
    for (unsigned log = 0; log < 8; log++) {
        qp->state = QP_RTR;
        good_move(RTR2RTS, qpn);
        put((struct part){0x18 + 0x70, 21, 3, log});
        assert_int_equal(command(o, 272, 16), 0);
        say("  log %u: %u reads\n", log, qp->requester.max_reads);
    }
    /* Queries. */
    for (unsigned state = QP_RESET; state <= QP_ERROR; state++) {
        qp->state = state;
        memset(in, 0, sizeof in);
        memset(out, 0xee, sizeof out);
        put((struct part){0, 16, 16, 0x50b});
        assert_int_equal(mlx5dv_devx_obj_query(o, in, 16, out, 272), 0);
        say("  state %x pd %x remote %x cq %x psn %x %x\n", word(0x18) >> 28, word(0x1c) & 0xffffff,
            short_qpn(word(0x2c) & 0xffffff), word(0x94) & 0xffffff, word(0x90) & 0xffffff,
            word(0xac) & 0xffffff);
    }
    for (unsigned i = 0; i < 3; i++) {
        int result = i == 0   ? mlx5dv_devx_obj_query(o, in, 16, out, 271)
                     : i == 1 ? mlx5dv_devx_obj_modify(o, in, 16, out, 272)
                              : mlx5dv_devx_obj_query(send_cq, in, 16, out, 272);
        say_answer("refused question", i, result);
    }
    put((struct part){0, 16, 16, TO_RST});
    say_answer("a move that is asked for", 0, mlx5dv_devx_obj_query(o, in, 272, out, 272));
    say_answer("a move of a CQ", 0, mlx5dv_devx_obj_modify(send_cq, in, 272, out, 272));
    assert_int_equal(mlx5dv_devx_obj_destroy(o), 0);
    drop_cqs();
}

/* --- General commands --- */

static void general(void)
{
    static const struct {
        unsigned opcode, modifier;
        size_t in_bytes, out_bytes;
    } cases[] = {
        {0x100, 0, 16, 600}, {0x100, 1, 16, 600}, {0x100, 6, 16, 600},      {0x100, 7, 16, 96},
        {0x100, 0, 16, 95},  {0x100, 2, 16, 600}, {0x100, 0xffff, 16, 600}, {0x762, 0, 16, 528},
        {0x762, 0, 16, 527}, {0x101, 0, 16, 600}, {0x100, 0, 15, 600},      {0x100, 0, 16, 15},
        {0x100, 7, 16, 600}, /* without atomics */
    };
    enum { CASES = sizeof cases / sizeof *cases };
    for (unsigned i = 0; i < 2 * CASES; i++) {
        unsigned k = i / 2;
        whole_config()->atomics = k + 1 < CASES ? ATOMICS_HCA : ATOMICS_NONE;
        memset(in, 0, sizeof in);
        memset(out, 0xee, sizeof out);
        put((struct part){0, 16, 16, cases[k].opcode});
        put((struct part){4, 0, 16, cases[k].modifier});
        whole_config()->link = i % 2 ? LINK_ROCE : LINK_IB;
        errno = 0;
        int result =
            mlx5dv_devx_general_cmd(context, in, cases[k].in_bytes, out, cases[k].out_bytes);
        say_answer("general", i, result);
        say("  errno %d", errno);
        for (size_t at = 0x10; at + 4 <= cases[k].out_bytes; at += 4)
            if (word((unsigned)at))
                say(" %zx: %x", at, word((unsigned)at));
        say("\n");
    }
    whole_config()->link = LINK_IB;
    whole_config()->atomics = ATOMICS_HCA;
    assert_int_equal(mlx5dv_devx_general_cmd(context, NULL, 16, out, 16), EINVAL);
    assert_int_equal(mlx5dv_devx_general_cmd(context, in, 16, NULL, 16), EINVAL);
}

/* --- Doorbell pages, memory, contained objects --- */

static void pages_and_memory(void)
{
    struct device *d = device_of(context);
    unsigned top = d->objects.uar_top;
    struct mlx5dv_devx_uar *more[3];
    for (unsigned i = 0; i < 3; i++) {
        more[i] = mlx5dv_devx_alloc_uar(context, 0);
        assert_int_equal(more[i]->page_id, top + i);
        assert_ptr_equal(more[i]->reg_addr, (char *)more[i]->base_addr + 0x800);
        assert_ptr_equal(d->objects.uars[top + i]->reg, more[i]->reg_addr);
        assert_false(d->objects.uars[top + i]->on_gpu);
    }
    assert_int_equal(d->objects.uar_top, top + 3);
    mlx5dv_devx_free_uar(more[1]);
    assert_int_equal(d->objects.uar_top, top + 3);
    more[1] = mlx5dv_devx_alloc_uar(context, 0);
    assert_int_equal(more[1]->page_id, top + 1);
    assert_int_equal(d->objects.uar_top, top + 3);
    mlx5dv_devx_free_uar(more[1]);
    mlx5dv_devx_free_uar(more[2]);
    assert_int_equal(d->objects.uar_top, top + 1);
    struct qp qp = {.uar = d->objects.uars[more[0]->page_id]}, other = {.uar = NULL};
    d->objects.qps[5] = &qp;
    d->objects.qps[6] = &other;
    qp.uar->queues = 1;
    mlx5dv_devx_free_uar(more[0]);
    assert_null(qp.uar);
    d->objects.qps[5] = d->objects.qps[6] = NULL;
    say_log(context);
    for (unsigned i = 1; i < MAX_UARS; i++)
        d->objects.uars[i] = d->objects.uars[i] ? d->objects.uars[i] : (void *)&qp;
    errno = 0;
    assert_null(mlx5dv_devx_alloc_uar(context, 0));
    assert_int_equal(errno, ENOMEM);
    for (unsigned i = 1; i < MAX_UARS; i++)
        d->objects.uars[i] = d->objects.uars[i] == (void *)&qp ? NULL : d->objects.uars[i];
    fail_next("calloc", 1, 0);
    assert_null(mlx5dv_devx_alloc_uar(context, 0));
    fail_next("calloc", 2, 0);
    assert_null(mlx5dv_devx_alloc_uar(context, 0));
    /* Memory. */
    for (unsigned i = 1; i < 3; i++) {
        fail_next("calloc", i, 0);
        assert_null(mlx5dv_devx_umem_reg(context, arena, 64, 0));
    }
    errno = 0;
    assert_null(mlx5dv_devx_umem_reg(context, NULL, 64, 0));
    assert_null(mlx5dv_devx_umem_reg(context, arena, 0, 0));
    assert_null(mlx5dv_devx_umem_reg(context, arena, SIZE_MAX, 0));
    assert_int_equal(errno, EINVAL);
    struct mlx5dv_devx_umem_in wanted = {.addr = arena + 64, .size = 77, .access = 1};
    struct mlx5dv_devx_umem *third = mlx5dv_devx_umem_reg_ex(context, &wanted);
    assert_int_equal(third->umem_id, 3);
    assert_ptr_equal(d->objects.umems[3]->address, arena + 64);
    assert_int_equal(d->objects.umems[3]->bytes, 77);
    assert_false(d->objects.umems[3]->on_gpu);
    wanted.comp_mask = 1;
    assert_null(mlx5dv_devx_umem_reg_ex(context, &wanted));
    assert_int_equal(errno, EOPNOTSUPP);
    d->objects.umems[3]->users = 1;
    assert_int_equal(mlx5dv_devx_umem_dereg(third), EREMOTEIO);
    say_log(context);
    d->objects.umems[3]->users = 0;
    assert_int_equal(mlx5dv_devx_umem_dereg(third), 0);
    assert_null(d->objects.umems[3]);
    for (unsigned i = 3; i < MAX_UMEMS; i++)
        d->objects.umems[i] = (void *)&qp;
    assert_null(mlx5dv_devx_umem_reg(context, arena, 64, 0));
    assert_int_equal(errno, ENOMEM);
    d->objects.umems[MAX_UMEMS - 1] = NULL;
    third = mlx5dv_devx_umem_reg(context, arena, 64, 0);
    assert_int_equal(third->umem_id, MAX_UMEMS - 1);
    assert_int_equal(mlx5dv_devx_umem_dereg(third), 0);
    memset(d->objects.umems + 3, 0, sizeof d->objects.umems[0] * (MAX_UMEMS - 3));
}

static void insides(void)
{
    struct ibv_cq *cq = ibv_create_cq(context, 9, NULL, NULL, 0);
    struct ibv_srq_init_attr a = {.attr = {.max_wr = 5, .max_sge = 4}};
    struct ibv_srq *srq = ibv_create_srq(pd, &a);
    struct ibv_qp_init_attr q = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 3}};
    struct ibv_qp *qp = ibv_create_qp(pd, &q);
    q.srq = srq;
    struct ibv_qp *shared = ibv_create_qp(pd, &q);
    struct ibv_ah_attr attr = {.port_num = 1, .dlid = 0x1234, .sl = 3, .static_rate = 5};
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    struct mlx5dv_pd pd_out;
    struct mlx5dv_cq cq_out;
    struct mlx5dv_srq srq_out = {.comp_mask = MLX5DV_SRQ_MASK_SRQN | 1 << 5};
    struct mlx5dv_qp qp_out;
    struct mlx5dv_ah ah_out;
    struct mlx5dv_obj obj = {.pd = {.in = pd, .out = &pd_out},
                             .cq = {.in = cq, .out = &cq_out},
                             .srq = {.in = srq, .out = &srq_out},
                             .qp = {.in = qp, .out = &qp_out},
                             .ah = {.in = ah, .out = &ah_out}};
    assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ |
                                               MLX5DV_OBJ_QP | MLX5DV_OBJ_AH),
                     0);
    assert_int_equal(mlx5dv_init_obj(&obj, 1ull << 40), EOPNOTSUPP);
    say("pd %u cq of %u size %u number %x record %td\n", pd_out.pdn, cq_out.cqe_cnt,
        cq_out.cqe_size, cq_out.cqn, (char *)cq_out.dbrec - (char *)cq_out.buf);
    say("srq stride %u head %u tail %u mask %llx number %u record %td\n", srq_out.stride,
        srq_out.head, srq_out.tail, (unsigned long long)srq_out.comp_mask, srq_out.srqn,
        (char *)srq_out.dbrec - (char *)srq_out.buf);
    for (unsigned i = 0; i < 2; i++) {
        const struct qp *of = qp_of(i ? shared : qp)->of;
        say("qp record %td ring %td of %u stride %u receive %td of %u stride %u bf %d\n",
            (char *)qp_out.dbrec - (char *)qp_of(i ? shared : qp)->memory,
            (char *)qp_out.sq.buf - (char *)qp_of(i ? shared : qp)->memory, qp_out.sq.wqe_cnt,
            qp_out.sq.stride,
            i ? (ptrdiff_t)qp_out.rq.buf : (char *)qp_out.rq.buf - (char *)qp_of(qp)->memory,
            qp_out.rq.wqe_cnt, qp_out.rq.stride, qp_out.bf.reg == of->uar->reg);
        obj.qp.in = shared;
        assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
    }
    assert_ptr_equal(ah_out.av, &HOLDER(ah, struct hca_ah, ah)->av);
    say("ah %04x %02x %02x\n", be16toh(ah_out.av->rlid), ah_out.av->stat_rate_sl,
        ah_out.av->fl_mlid);
    struct mlx5dv_context shown = {.comp_mask = ~0ull};
    assert_int_equal(mlx5dv_query_device(context, &shown), 0);
    say("flags %llx mask %llx registers %u\n", (unsigned long long)shown.flags,
        (unsigned long long)shown.comp_mask, shown.max_dynamic_bfregs);
    uint32_t eqn = 9;
    assert_int_equal(mlx5dv_devx_query_eqn(context, 1, &eqn), EINVAL);
    assert_int_equal(eqn, 9);
    assert_int_equal(mlx5dv_devx_query_eqn(context, 0, &eqn), 0);
    assert_int_equal(eqn, 1);
    assert_true(mlx5dv_is_supported(context->device));
    struct mlx5dv_context_attr of = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
    struct ibv_context *second = mlx5dv_open_device(context->device, &of);
    assert_ptr_equal(device_of(second), device_of(context));
    assert_int_equal(ibv_close_device(second), 0);
    errno = 0;
    of.flags |= 2;
    assert_null(mlx5dv_open_device(context->device, &of));
    assert_int_equal(errno, EOPNOTSUPP);
    of.flags = 0;
    of.comp_mask = 1;
    assert_null(mlx5dv_open_device(context->device, &of));
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(qp) | ibv_destroy_qp(shared), 0);
    assert_int_equal(ibv_destroy_srq(srq) | ibv_destroy_cq(cq), 0);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        say("# " #name "\n");                                                                      \
        name();                                                                                    \
    }
TEST(completion_queues)
TEST(queue_pairs)
TEST(moves)
TEST(general)
TEST(pages_and_memory)
TEST(insides)

static void all_is_as_written(void **state)
{
    (void)state;
    golden_is(GOLDEN, text);
}

int main(void)
{
    setenv("SOFT_HCA_LOG", "none", 1);
#define UNIT(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        UNIT(completion_queues),
        UNIT(queue_pairs),
        UNIT(moves),
        UNIT(general),
        UNIT(pages_and_memory),
        UNIT(insides),
        cmocka_unit_test(all_is_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
