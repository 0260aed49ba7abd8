/* SPDX-License-Identifier: Apache-2.0 */
/* One RC queue pair over the plain verbs, on the adapter that its libibverbs offers. The server
 * provides memory and posts receives; the client writes, reads back, updates by atomics and sends,
 * and compares all data.
 *   talk DEVICE GID_INDEX PORT [SERVER] */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BYTES = 1 << 20,
    HALF = BYTES / 2, /* in the client's memory: data read back */
    COUNTER_AT = BYTES - 64,
    SENDS = 24,
    ATOMICS = 40,
    LIMIT_S = 60,
};

static const uint32_t sizes[] = {0,    1,    2,    3,    4,    5,     1023,   1024,
                                 1025, 4095, 4096, 4097, 8192, 65536, 300001, 1};
enum { SIZES = sizeof sizes / sizeof *sizes };

struct side {
    uint32_t qpn, psn, rkey, mtu;
    uint64_t memory;
    union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t *memory;
static struct side mine, its;
static int gid_index;

#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #what);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_port_attr port;
    for (int i = 0; list && list[i] && !context; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            context = ibv_open_device(list[i]);
    MUST(context);
    memory = aligned_alloc(4096, BYTES);
    memset(memory, 0, BYTES);
    MUST(pd = ibv_alloc_pd(context));
    MUST(cq = ibv_create_cq(context, 128, NULL, NULL, 0));
    MUST(mr = ibv_reg_mr(pd, memory, BYTES,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC));
    struct ibv_qp_init_attr a = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {64, 64, 1, 1, 64}};
    MUST(qp = ibv_create_qp(pd, &a));
    MUST(!ibv_query_port(context, 1, &port));
    mine = (struct side){qp->qp_num, 0xfffff8, mr->rkey, port.active_mtu, (uintptr_t)memory, {{0}}};
    MUST(!ibv_query_gid(context, 1, gid_index, &mine.gid));
}

static void connect_qp(void)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                               IBV_ACCESS_REMOTE_ATOMIC};
    MUST(!ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)(mine.mtu < its.mtu ? mine.mtu : its.mtu),
        .dest_qp_num = its.qpn,
        .rq_psn = its.psn,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = its.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64}}};
    MUST(!ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                            IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = 16,
                             .retry_cnt = 7,
                             .rnr_retry = 7,
                             .sq_psn = mine.psn,
                             .max_rd_atomic = 4};
    MUST(!ibv_modify_qp(qp, &a,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static int meet(const char *server, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (!server) {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        MUST(!bind(s, (struct sockaddr *)&a, sizeof a) && !listen(s, 1));
        s = accept(s, NULL, NULL);
        MUST(s >= 0);
        return s;
    }
    MUST(inet_pton(AF_INET, server, &a.sin_addr) == 1);
    for (int i = 0; i < 200; i++) {
        if (!connect(s, (struct sockaddr *)&a, sizeof a))
            return s;
        usleep(50000);
    }
    MUST(!"the server answers");
    return -1;
}

/* next: returns the next completion, which must have this status. */
static struct ibv_wc next(enum ibv_wc_status status)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + LIMIT_S;
    while (!ibv_poll_cq(cq, 1, &wc))
        MUST(time(NULL) < end);
    if (wc.status != status) {
        fprintf(stderr, "request %llu: status %s, not %s\n", (unsigned long long)wc.wr_id,
                ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
        exit(1);
    }
    return wc;
}

static void post(enum ibv_wr_opcode opcode, uint64_t there, size_t here, uint32_t bytes, uint64_t x,
                 uint64_t y)
{
    struct ibv_sge sge = {mine.memory + here, bytes, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = here,
                             .sg_list = &sge,
                             .num_sge = bytes ? 1 : 0,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = there;
        wr.wr.atomic.rkey = its.rkey;
        wr.wr.atomic.compare_add = x;
        wr.wr.atomic.swap = y;
    } else {
        wr.wr.rdma.remote_addr = there;
        wr.wr.rdma.rkey = its.rkey + (uint32_t)y;
        wr.imm_data = htobe32((uint32_t)x);
    }
    MUST(!ibv_post_send(qp, &wr, &bad));
}

static uint8_t pattern(uint32_t i, uint32_t seed)
{
    return (uint8_t)(i * 13 + i / 255 + seed * 7 + 1);
}

static void fill(uint8_t *to, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = pattern(i, seed);
}

static void write_and_read(void)
{
    for (uint32_t n = 0; n < SIZES; n++) {
        uint32_t bytes = sizes[n], at = 64 + n % 8;
        fill(memory, bytes, n);
        memset(memory + HALF, 0xee, bytes + 2);
        post(IBV_WR_RDMA_WRITE, its.memory + at, 0, bytes, 0, 0);
        post(IBV_WR_RDMA_READ, its.memory + at, HALF + 1, bytes, 0, 0);
        next(IBV_WC_SUCCESS);
        next(IBV_WC_SUCCESS);
        MUST(!memcmp(memory, memory + HALF + 1, bytes));
        MUST(memory[HALF] == 0xee && memory[HALF + 1 + bytes] == 0xee);
    }
}

static void change(void)
{
    uint64_t *found = (uint64_t *)(memory + HALF), value = 0;
    for (uint64_t n = 0; n < ATOMICS; n++) {
        *found = ~value;
        post(IBV_WR_ATOMIC_FETCH_AND_ADD, its.memory + COUNTER_AT, HALF, 8, n << 30 | 3, 0);
        next(IBV_WC_SUCCESS);
        MUST(*found == value);
        value += n << 30 | 3;
        /* Every second comparison fails. */
        post(IBV_WR_ATOMIC_CMP_AND_SWP, its.memory + COUNTER_AT, HALF, 8, value + n % 2, n);
        next(IBV_WC_SUCCESS);
        MUST(*found == value);
        value = n % 2 ? value : n;
    }
    post(IBV_WR_RDMA_READ, its.memory + COUNTER_AT, HALF, 8, 0, 0);
    next(IBV_WC_SUCCESS);
    MUST(*found == value);
}

/* Many writes in flight at once: the peer's memory holds the last of them. */
static void many(void)
{
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 16; i++) {
            fill(memory + i * 9000, 9000, round * 16 + i);
            post(IBV_WR_RDMA_WRITE, its.memory + i * 9000, i * 9000, 9000, 0, 0);
        }
        for (uint32_t i = 0; i < 4; i++)
            post(IBV_WR_RDMA_READ, its.memory + i * 36000, HALF + i * 36000, 36000, 0, 0);
        for (uint32_t i = 0; i < 20; i++)
            next(IBV_WC_SUCCESS);
        MUST(!memcmp(memory, memory + HALF, 144000));
    }
}

static void send_all(void)
{
    for (uint32_t n = 0; n < SENDS; n++) {
        uint32_t bytes = n * n * 37 % 9000;
        fill(memory, bytes, n);
        if (n % 3 == 2)
            post(IBV_WR_RDMA_WRITE_WITH_IMM, its.memory, 0, bytes, n, 0);
        else
            post(n % 3 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, 0, 0, bytes, n, 0);
        next(IBV_WC_SUCCESS);
    }
}

static void post_receive(void)
{
    struct ibv_sge sge = {mine.memory + HALF, 10000, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    MUST(!ibv_post_recv(qp, &wr, &bad));
}

/* Each receive is posted after the previous message has arrived, and some are posted too late. */
static void receive_all(void)
{
    for (uint32_t n = 0; n < SENDS; n++) {
        uint32_t bytes = n * n * 37 % 9000;
        bool written = n % 3 == 2;
        if (n % 8 == 1)
            usleep(30000);
        post_receive();
        struct ibv_wc wc = next(IBV_WC_SUCCESS);
        MUST(wc.opcode == (written ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
        MUST(!(n % 3) == !(wc.wc_flags & IBV_WC_WITH_IMM));
        MUST(!(n % 3) || be32toh(wc.imm_data) == n);
        MUST(wc.byte_len == bytes);
        for (uint32_t i = 0; i < bytes; i++)
            MUST(memory[(written ? 0 : HALF) + i] == pattern(i, n));
    }
}

int main(int argc, char **argv)
{
    char byte = 0;
    if (argc < 4)
        return 2;
    gid_index = atoi(argv[2]);
    open_device(argv[1]);
    int s = meet(argc > 4 ? argv[4] : NULL, atoi(argv[3]));
    MUST(write(s, &mine, sizeof mine) == sizeof mine && read(s, &its, sizeof its) == sizeof its);
    connect_qp();
    MUST(write(s, &byte, 1) == 1 && read(s, &byte, 1) == 1);
    if (argc > 4) {
        write_and_read();
        change();
        many();
        MUST(write(s, &byte, 1) == 1);
        send_all();
        /* The last request is refused: the queue pair enters the error state and reports the
         * refusal once; the report may be lost. */
        if (!getenv("TALK_LOSES")) {
            post(IBV_WR_RDMA_WRITE, its.memory, 0, 8, 0, 0x100);
            next(IBV_WC_REM_ACCESS_ERR);
        }
    } else {
        MUST(read(s, &byte, 1) == 1);
        receive_all();
        MUST(read(s, &byte, 1) == 0);
    }
    close(s);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    puts("all as it should be");
    return 0;
}
