/* SPDX-License-Identifier: Apache-2.0 */
/* The errors that a NIC reports, and those that a NIC ignores silently but the software HCA in
 * strict mode reports. */
#include "pair.h"

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct client_options ring = {.ring = true, .single = true};
/* For tests with several completions at once, or a peer that dies; not with the GPU's engine. */
static const struct client_options ring_alone = {.ring = true};

/* Rings the doorbell with the test's own words. */
static void store_doorbell(struct client *c, const uint32_t *words)
{
    uint64_t value;
    memcpy(&value, words, 8);
    __atomic_store_n(client_register(c), value, __ATOMIC_RELEASE);
}

/* The next completion is an error of this request with this syndrome; returns the vendor
 * syndrome. */
static int expect_error(struct client *c, int syndrome, int index)
{
    struct mlx5_cqe64 e;
    assert_int_equal(client_poll(c, &e), MLX5_CQE_REQ_ERR);
    assert_int_equal(as_error(&e)->syndrome, syndrome);
    if (index >= 0)
        assert_int_equal(be16toh(e.wqe_counter), index);
    return as_error(&e)->vendor_err_synd;
}

/* --- Keys --- */

/* write_with: makes one write of `bytes` from a's memory with these keys; returns the
 * completion. */
static int write_with(struct client *a, uint64_t to, uint32_t rkey, uint64_t from, uint32_t lkey,
                      uint32_t bytes)
{
    struct wqe_maker w;
    struct mlx5_cqe64 e;
    wqe_begin(&w, a, MLX5_OPCODE_RDMA_WRITE, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, to, rkey);
    wqe_data(&w, from, bytes, lkey);
    wqe_end(&w);
    client_doorbell(a);
    int kind = client_poll(a, &e);
    return kind == MLX5_CQE_REQ ? 0 : as_error(&e)->syndrome;
}

struct key_case {
    int64_t to, from; /* offset from the start of the memory */
    uint32_t bytes;
    int rkey_change, lkey_change;
    int syndrome;
};

static void keys_have_bounds(void **state)
{
    enum { END = CLIENT_MEMORY };
    static const struct key_case cases[] = {
        {0, 0, 8, 0, 0, 0},      {END - 8, 0, 8, 0, 0, 0},      {END - 7, 0, 8, 0, 0, 0x13},
        {-1, 0, 8, 0, 0, 0x13},  {0, END - 8, 8, 0, 0, 0},      {0, END - 7, 8, 0, 0, 4},
        {0, -1, 8, 0, 0, 4},     {0, 0, END, 0, 0, 0},          {1, 0, END, 0, 0, 0x13},
        {0, 0, 8, 1, 0, 0x13},   {0, 0, 8, 0x100, 0, 0x13},     {0, 0, 8, 0, 1, 4},
        {0, 0, 8, 0, 0x7f00, 4}, {INT64_MIN, 0, 8, 0, 0, 0x13},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct key_case *k = &cases[i];
        struct client a, b;
        open_pair(&a, &b, &ring);
        memset(b.memory, 0x11, CLIENT_MEMORY);
        memset(a.memory, 0x22, CLIENT_MEMORY);
        assert_int_equal(write_with(&a, a.remote_memory + (uint64_t)k->to,
                                    a.remote_rkey + (uint32_t)k->rkey_change,
                                    (uintptr_t)a.memory + (uint64_t)k->from,
                                    a.mr->lkey + (uint32_t)k->lkey_change, k->bytes),
                         k->syndrome);
        /* A refused request has written nothing. */
        for (unsigned n = 0; n < CLIENT_MEMORY; n++)
            assert_int_equal(b.memory[n],
                             !k->syndrome && n >= k->to && n < k->to + k->bytes ? 0x22 : 0x11);
        close_pair(&a, &b);
    }
}

static void sum_beyond_all_addresses(void **state)
{
    struct client a, b;
    open_pair(&a, &b, &ring);
    assert_int_equal(
        write_with(&a, UINT64_MAX - 3, a.remote_rkey, (uintptr_t)a.memory, a.mr->lkey, 8), 0x13);
    close_pair(&a, &b);
}

static void permissions(void **state)
{
    static const struct {
        int access, opcode, syndrome;
    } cases[] = {
        {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, MLX5_OPCODE_RDMA_WRITE, 0x13},
        {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, MLX5_OPCODE_RDMA_READ, 0x13},
        {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, MLX5_OPCODE_ATOMIC_FA, 0x13},
        {IBV_ACCESS_REMOTE_READ, MLX5_OPCODE_RDMA_READ,
         4}, /* no local write access to the reader's memory */
        {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, MLX5_OPCODE_RDMA_READ, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client a, b;
        struct wqe_maker w;
        struct mlx5_cqe64 e;
        open_pair(
            &a, &b,
            &(struct client_options){.ring = true, .single = true, .access = cases[i].access});
        wqe_begin(&w, &a, (unsigned)cases[i].opcode, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
        wqe_remote(&w, a.remote_memory, a.remote_rkey);
        if (cases[i].opcode == MLX5_OPCODE_ATOMIC_FA) {
            wqe_long(&w, 1);
            wqe_long(&w, 0);
        }
        wqe_data(&w, (uintptr_t)a.memory, 8, a.mr->lkey);
        wqe_end(&w);
        client_doorbell(&a);
        int kind = client_poll(&a, &e);
        assert_int_equal(kind == MLX5_CQE_REQ ? 0 : as_error(&e)->syndrome, cases[i].syndrome);
        close_pair(&a, &b);
    }
}

static void key_of_freed_memory(void **state)
{
    struct client a, b;
    open_pair(&a, &b, &ring);
    struct ibv_mr *mr = ibv_reg_mr_iova2(b.pd, b.memory_there, 4096, (uintptr_t)b.memory,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    uint32_t old = mr->rkey;
    assert_int_equal(write_with(&a, a.remote_memory, old, (uintptr_t)a.memory, a.mr->lkey, 8), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(write_with(&a, a.remote_memory, old, (uintptr_t)a.memory, a.mr->lkey, 8),
                     0x13);
    close_pair(&a, &b);
}

/* The memory has an address that the program chose (IOVA). */
static void keys_with_iova(void **state)
{
    struct client a, b;
    open_pair(&a, &b, &ring);
    struct ibv_mr *mr = ibv_reg_mr_iova2(b.pd, (char *)b.memory_there + 64, 128, 0x1000,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    memset(a.memory, 0x5a, 8);
    assert_int_equal(write_with(&a, 0x1000 + 120, mr->rkey, (uintptr_t)a.memory, a.mr->lkey, 8), 0);
    assert_int_equal(b.memory[64 + 120], 0x5a);
    assert_int_equal(write_with(&a, 0x1000 + 121, mr->rkey, (uintptr_t)a.memory, a.mr->lkey, 8),
                     0x13);
    ibv_dereg_mr(mr);
    close_pair(&a, &b);
}

static void registration_is_refused(void **state)
{
    struct client c;
    assert_int_equal(client_open(&c, &ring), 0);
    assert_null(ibv_reg_mr(c.pd, (void *)16, 4096, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EFAULT);
    assert_null(ibv_reg_mr(c.pd, c.memory, 4096, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(c.pd), EBUSY);
    client_close(&c);
}

/* --- Requests --- */

static void after_the_first_error(void **state)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    struct wqe_maker w;
    open_pair(&a, &b, &ring_alone);
    /* One success, one unsignalled request that fails, and two that are flushed. */
    wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, a.remote_memory, a.remote_rkey);
    wqe_inline(&w, "abcdefgh", 8);
    wqe_end(&w);
    wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, 0, 0);
    wqe_remote(&w, a.remote_memory, a.remote_rkey + 1);
    wqe_inline(&w, "abcdefgh", 8);
    uint16_t bad = wqe_end(&w);
    for (int i = 0; i < 2; i++) {
        wqe_begin(&w, &a, MLX5_OPCODE_NOP, 0, 0, 0);
        wqe_end(&w);
    }
    client_doorbell(&a);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    expect_error(&a, 0x13, bad);
    expect_error(&a, 5, bad + 1);
    expect_error(&a, 5, bad + 2);
    /* Requests posted later are flushed too. */
    client_write_inline(&a, a.remote_memory, "x", 1);
    expect_error(&a, 5, bad + 3);
    /* It works again after RESET. */
    assert_int_equal(client_move(&a, 0x50a), 0);
    assert_int_equal(client_move(&b, 0x50a), 0);
    a.next = 0;
    a.qp_record[1] = 0;
    assert_int_equal(client_connect(&b), 0);
    assert_int_equal(client_connect(&a), 0);
    client_write_inline(&a, a.remote_memory + 16, "again", 5);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    assert_memory_equal(b.memory + 16, "again", 5);
    close_pair(&a, &b);
}

static void malformed_requests(void **state)
{
    static const struct {
        unsigned opcode, modifier, units, words;
        int syndrome;
    } cases[] = {
        {0x3f, 0, 1, 0, 2},                   /* no such opcode */
        {MLX5_OPCODE_RDMA_WRITE, 0, 1, 0, 2}, /* no address segment */
        {MLX5_OPCODE_ATOMIC_FA, 0, 2, 0, 2},
        {MLX5_OPCODE_ATOMIC_MASKED_FA, 7, 4, 0, 2}, /* neither 4 nor 8 bytes */
        {MLX5_OPCODE_ATOMIC_FA, 0, 3, 0, 1},        /* neither 4 nor 8 bytes */
        {MLX5_OPCODE_UMR, 0, 3, 0, 2},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client a, b;
        struct wqe_maker w;
        open_pair(&a, &b, &ring);
        wqe_begin(&w, &a, cases[i].opcode, cases[i].modifier, 0, 0);
        w.units = cases[i].units;
        uint16_t index = wqe_end(&w);
        client_doorbell(&a);
        expect_error(&a, cases[i].syndrome, index);
        close_pair(&a, &b);
    }
}

static void misaligned_atomic(void **state)
{
    struct client a, b;
    struct wqe_maker w;
    open_pair(&a, &b, &ring);
    wqe_begin(&w, &a, MLX5_OPCODE_ATOMIC_FA, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, a.remote_memory + 4, a.remote_rkey);
    wqe_long(&w, 1);
    wqe_long(&w, 0);
    wqe_data(&w, (uintptr_t)a.memory, 8, a.mr->lkey);
    wqe_end(&w);
    client_doorbell(&a);
    expect_error(&a, 0x12, 0);
    close_pair(&a, &b);
}

/* no segment for the fetched value */

static void one_elsewhere(unsigned opcode, bool wrong_qpn, uint8_t vendor)
{
    struct client a, b;
    struct wqe_maker w;
    uint64_t v = 1;
    open_pair(&a, &b, &ring);
    wqe_begin(&w, &a, opcode, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    if (opcode == MLX5_OPCODE_RDMA_WRITE) {
        wqe_remote(&w, a.remote_memory, a.remote_rkey);
        wqe_inline(&w, &v, sizeof v);
    }
    w.words[wrong_qpn] = htobe32(wrong_qpn ? b.qpn << 8 : 7u << 8 | opcode);
    wqe_end(&w);
    client_doorbell(&a);
    assert_int_equal(expect_error(&a, 2, 0), vendor);
    assert_int_equal(*(uint64_t *)b.memory, 0);
    close_pair(&a, &b);
}

/* A request for another ring position or another queue; also among requests that would be combined
 * in one packet. */
static void request_of_another_place(void **state)
{
    static const unsigned opcodes[] = {MLX5_OPCODE_NOP, MLX5_OPCODE_RDMA_WRITE};
    for (int i = 0; i < 2; i++) {
        one_elsewhere(opcodes[i], false, 0x83);
        one_elsewhere(opcodes[i], true, 0x84);
    }
}

static void record_behind_the_doorbell(void **state)
{
    struct client a, b;
    struct wqe_maker w;
    open_pair(&a, &b, &ring);
    wqe_begin(&w, &a, MLX5_OPCODE_NOP, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_end(&w);
    /* Writes the doorbell record of the receive queue instead. */
    a.qp_record[0] = htobe32(1);
    uint32_t words[2] = {htobe32(1u << 8), htobe32(a.qpn << 8)};
    store_doorbell(&a, words);
    assert_int_equal(expect_error(&a, 2, 0), 0x81);
    close_pair(&a, &b);
}

static void slots_used_too_soon(void **state)
{
    struct client a, b;
    struct wqe_maker w;
    open_pair(&a, &b,
              &(struct client_options){.ring = true, .single = true, .log_sq = 3, .log_cq = 6});
    for (unsigned i = 0; i < 9; i++) {
        wqe_begin(&w, &a, MLX5_OPCODE_NOP, 0, 0, 0);
        wqe_end(&w);
    }
    client_doorbell(&a);
    assert_int_equal(expect_error(&a, 2, 0), 0x82);
    close_pair(&a, &b);
}

/* Many rounds of the ring, with one completion in eight requests. */
static void unsignalled_runs(void **state)
{
    struct client a, b;
    struct wqe_maker w;
    struct mlx5_cqe64 e;
    open_pair(&a, &b, &(struct client_options){.log_sq = 3});
    for (uint64_t round = 0; round < 400; round++) {
        uint16_t last = 0;
        for (unsigned i = 0; i < 8; i++) {
            wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, i == 7 ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 0);
            uint64_t v = round * 8 + i;
            wqe_remote(&w, a.remote_memory + i * 8, a.remote_rkey);
            wqe_inline(&w, &v, 8);
            last = wqe_end(&w);
        }
        client_doorbell(&a);
        assert_int_equal(client_poll_index(&a, last, &e), MLX5_CQE_REQ);
        assert_int_equal(((uint64_t *)b.memory)[7], round * 8 + 7);
    }
    close_pair(&a, &b);
}

/* --- The peer --- */

static void no_such_peer(void **state)
{
    struct client a, b;
    assert_int_equal(client_open(&a, &ring), 0);
    assert_int_equal(client_open(&b, &ring), 0);
    client_pair(&a, &b);
    a.remote_qpn ^= 0x800;
    assert_int_equal(client_connect(&a), 0);
    client_write_inline(&a, a.remote_memory, "x", 1);
    expect_error(&a, 0x15, 0);
    close_pair(&a, &b);
}

static void peer_that_comes_late(void **state)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    assert_int_equal(client_open(&a, &ring_alone), 0);
    assert_int_equal(client_open(&b, &ring_alone), 0);
    client_pair(&a, &b);
    assert_int_equal(client_connect(&a), 0);
    for (int i = 0; i < 3; i++)
        client_write_inline(&a, a.remote_memory + 8 * (unsigned)i, &"sequence"[i], 8 - (unsigned)i);
    usleep(20000);
    assert_int_equal(b.memory[0], 0);
    assert_int_equal(client_connect(&b), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    assert_memory_equal(b.memory + 16, "quence", 6);
    close_pair(&a, &b);
}

static int peer_to_be_killed(int out, int in)
{
    struct client c;
    uint64_t address[4];
    if (client_open(&c, &ring_alone) || read(in, address, sizeof address) != sizeof address)
        return 1;
    c.remote_lid = (uint16_t)address[0];
    c.remote_qpn = (uint32_t)address[1];
    memcpy(c.remote_gid.raw, &address[2], 16);
    if (client_connect(&c))
        return 1;
    uint64_t mine[6] = {c.lid, c.qpn, c.mr->rkey, (uintptr_t)c.memory};
    memcpy(&mine[4], c.gid.raw, 16);
    if (write(out, mine, sizeof mine) != sizeof mine)
        return 1;
    pause();
    return 0;
}

static void peer_is_killed(void **state)
{
    int there[2], back[2];
    struct client a;
    struct mlx5_cqe64 e;
    assert_int_equal(pipe(there) | pipe(back), 0);
    pid_t child = fork();
    if (!child) {
        alarm(30);
        _exit(peer_to_be_killed(back[1], there[0]));
    }
    assert_int_equal(client_open(&a, &ring_alone), 0);
    uint64_t mine[4] = {a.lid, a.qpn}, its[6];
    memcpy(&mine[2], a.gid.raw, 16);
    assert_int_equal(write(there[1], mine, sizeof mine), sizeof mine);
    assert_int_equal(read(back[0], its, sizeof its), sizeof its);
    a.remote_lid = (uint16_t)its[0];
    a.remote_qpn = (uint32_t)its[1];
    a.remote_rkey = (uint32_t)its[2];
    a.remote_memory = its[3];
    memcpy(a.remote_gid.raw, &its[4], 16);
    assert_int_equal(client_connect(&a), 0);
    client_write_inline(&a, a.remote_memory, "x", 1);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    client_write_inline(&a, a.remote_memory, "x", 1);
    expect_error(&a, 0x15, 1);
    client_close(&a);
}

/* --- Control --- */

static void moves_and_objects(void **state)
{
    struct client a;
    assert_int_equal(client_open(&a, &ring), 0);
    assert_int_equal(client_move(&a, 0x504), EREMOTEIO); /* RTR2RTS in RESET */
    assert_int_equal(client_move(&a, 0x502), 0);
    assert_int_equal(client_move(&a, 0x502), EREMOTEIO);
    assert_int_equal(mlx5dv_devx_umem_dereg(a.umem), EREMOTEIO);
    assert_int_equal(mlx5dv_devx_obj_destroy(a.cq), EREMOTEIO);
    struct mlx5dv_devx_uar *u = mlx5dv_devx_alloc_uar(a.context, MLX5DV_UAR_ALLOC_TYPE_NC);
    assert_ptr_not_equal(u->reg_addr, a.uar->reg_addr);
    if (!getenv("HCA_CLIENT_GPU"))
        assert_int_equal((uintptr_t)u->reg_addr & 0xfff, 0x800);
    mlx5dv_devx_free_uar(u);
    /* Destroys the client while requests are in flight. */
    client_doorbell(&a);
    client_close(&a);
}

static void doorbells_that_mean_nothing(void **state)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    assert_int_equal(client_open(&a, &ring), 0);
    assert_int_equal(client_open(&b, &ring), 0);
    client_pair(&a, &b);
    struct wqe_maker w;
    /* A doorbell before RTS is lost. */
    wqe_begin(&w, &a, MLX5_OPCODE_NOP, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_end(&w);
    client_doorbell(&a);
    usleep(5000);
    assert_int_equal(a.cqes[0].op_own, 0xff);
    assert_int_equal(client_connect(&b), 0);
    assert_int_equal(client_connect(&a), 0);
    /* The doorbell contains the number of another queue. */
    uint32_t words[2] = {htobe32(1u << 8), htobe32(b.qpn << 8)};
    store_doorbell(&a, words);
    usleep(5000);
    assert_int_equal(a.cqes[0].op_own, 0xff);
    /* The queue continues: the same doorbell again, then an old one. */
    client_doorbell(&a);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    client_write_inline(&a, a.remote_memory, "y", 1);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    words[1] = htobe32(a.qpn << 8);
    store_doorbell(&a, words);
    client_write_inline(&a, a.remote_memory, "z", 1);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    assert_int_equal(b.memory[0], 'z');
    close_pair(&a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_is_killed), /* first, because it forks and no engine runs yet */
        cmocka_unit_test(keys_have_bounds),
        cmocka_unit_test(sum_beyond_all_addresses),
        cmocka_unit_test(permissions),
        cmocka_unit_test(key_of_freed_memory),
        cmocka_unit_test(keys_with_iova),
        cmocka_unit_test(registration_is_refused),
        cmocka_unit_test(after_the_first_error),
        cmocka_unit_test(malformed_requests),
        cmocka_unit_test(misaligned_atomic),
        cmocka_unit_test(request_of_another_place),
        cmocka_unit_test(record_behind_the_doorbell),
        cmocka_unit_test(slots_used_too_soon),
        cmocka_unit_test(unsignalled_runs),
        cmocka_unit_test(no_such_peer),
        cmocka_unit_test(peer_that_comes_late),
        cmocka_unit_test(moves_and_objects),
        cmocka_unit_test(doorbells_that_mean_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
