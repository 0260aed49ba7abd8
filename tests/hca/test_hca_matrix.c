/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, places and ends of queues: requests of every length across the end of the ring, indices
 * and owner bits that wrap, short writes that are combined, fences, local reads, doorbells that two
 * queues share, two initiators of one word, queues that are destroyed while they work, and a
 * failure on request. */
#include "pair.h"

#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint16_t write_words(struct client *c, uint64_t to, const void *data, uint32_t bytes,
                            unsigned flags)
{
    struct wqe_maker w;
    wqe_begin(&w, c, MLX5_OPCODE_RDMA_WRITE, 0, flags, 0);
    wqe_remote(&w, to, c->remote_rkey);
    wqe_inline(&w, data, bytes);
    return wqe_end(&w);
}

/* Requests of 1 to 63 units: inline data of every length that fills a unit, and one byte more and
 * less. With 16 blocks per request and 32 in the ring, most requests cross its end. */
static void every_length(void **state)
{
    struct client a, b;
    uint8_t data[1024];
    open_pair(&a, &b, &(struct client_options){.log_sq = 5, .ring = true});
    for (unsigned units = 1; units <= 63; units++) {
        for (int more = -1; more <= 1; more++) {
            struct mlx5_cqe64 e;
            int bytes = (int)units * 16 - 36 + more;
            bytes = units == 1 ? -1 : bytes < 0 ? 0 : units == 63 && more > 0 ? 972 : bytes;
            memset(b.memory, 0xaa, 2048);
            for (unsigned i = 0; i < sizeof data; i++)
                data[i] = (uint8_t)(i * 13 + units);
            struct wqe_maker w;
            wqe_begin(&w, &a, bytes < 0 ? MLX5_OPCODE_NOP : MLX5_OPCODE_RDMA_WRITE, 0,
                      MLX5_WQE_CTRL_CQ_UPDATE, 0);
            if (bytes >= 0) {
                wqe_remote(&w, a.remote_memory + 511, a.remote_rkey);
                wqe_inline(&w, data, (uint32_t)bytes);
            }
            uint16_t index = wqe_end(&w);
            client_doorbell(&a);
            assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
            assert_int_equal(be16toh(e.wqe_counter), index);
            assert_memory_equal(b.memory + 511, data, bytes < 0 ? 0 : (size_t)bytes);
            assert_int_equal(b.memory[510], 0xaa);
            assert_int_equal(b.memory[511 + (bytes < 0 ? 0 : bytes)], 0xaa);
        }
    }
    close_pair(&a, &b);
}

/* The index has 16 bits; the owner bit changes with each round of the completion ring. */
static void counters_wrap(void **state)
{
    enum { REQUESTS = 70000, EACH = 100 };
    struct client a, b;
    open_pair(&a, &b, &(struct client_options){.log_sq = 7, .log_cq = 3, .ring = true});
    for (uint64_t n = 0; n < REQUESTS; n += EACH) {
        struct mlx5_cqe64 e;
        uint16_t index = 0;
        for (uint64_t i = 0; i < EACH; i++) {
            uint64_t v = n + i;
            index = write_words(&a, a.remote_memory + i * 8, &v, 8,
                                i == EACH - 1 ? MLX5_WQE_CTRL_CQ_UPDATE : 0);
        }
        client_doorbell(&a);
        assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
        assert_int_equal(be16toh(e.wqe_counter), index);
        assert_int_equal(index, (uint16_t)(n + EACH - 1));
        for (uint64_t i = 0; i < EACH; i += 33)
            assert_int_equal(((uint64_t *)b.memory)[i], n + i);
    }
    assert_true(a.consumer > 3u << 3);
    close_pair(&a, &b);
}

/* One of many short writes under one doorbell is refused: those before it are executed and
 * complete, it fails, and those after it are not executed. */
static void one_of_many(void **state)
{
    enum { MANY = 700, BAD = 451 };
    struct client a, b;
    struct mlx5_cqe64 e;
    for (int local = 0; local < 2; local++) {
        open_pair(&a, &b, &(struct client_options){.log_sq = 10, .log_cq = 10, .ring = true});
        memset(a.memory, 0x5b, 8);
        for (unsigned i = 0; i < MANY; i++) {
            struct wqe_maker w;
            uint64_t v = i + 1;
            if (i % 50 == 49) {
                wqe_begin(&w, &a, MLX5_OPCODE_NOP, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
            } else {
                wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, 0, 0);
                wqe_remote(&w, a.remote_memory + i * 8,
                           a.remote_rkey ^ (i == BAD && !local ? 0x7f : 0));
                if (i == BAD && local)
                    wqe_data(&w, (uintptr_t)a.memory + CLIENT_MEMORY - 7, 8, a.mr->lkey);
                else
                    wqe_inline(&w, &v, 8);
            }
            wqe_end(&w);
        }
        client_doorbell(&a);
        for (unsigned i = 49; i < BAD; i += 50) {
            assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
            assert_int_equal(be16toh(e.wqe_counter), i);
        }
        assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ_ERR);
        assert_int_equal(be16toh(e.wqe_counter), BAD);
        assert_int_equal(as_error(&e)->syndrome, local ? 0x04 : 0x13);
        for (unsigned i = BAD + 1; i < MANY; i++) {
            assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ_ERR);
            assert_int_equal(as_error(&e)->syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
        }
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(((uint64_t *)b.memory)[i], i < BAD && i % 50 != 49 ? i + 1 : 0);
        close_pair(&a, &b);
    }
}

/* Reads whose data does not fit in the answer ring at once (SOFT_HCA_RING_KIB=64): the rest follows
 * as the ring drains. */
static void large_reads(void **state)
{
    enum { BYTES = 65000 };
    struct client a, b;
    struct mlx5_cqe64 e;
    uint16_t last = 0;
    open_pair(&a, &b, &(struct client_options){0});
    for (unsigned i = 0; i < BYTES; i++)
        b.memory[i] = (uint8_t)(i * 11 + i / 256);
    for (unsigned i = 0; i < 8; i++) {
        struct wqe_maker w;
        wqe_begin(&w, &a, MLX5_OPCODE_RDMA_READ, 0, i == 7 ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 0);
        wqe_remote(&w, a.remote_memory, a.remote_rkey);
        wqe_data(&w, (uintptr_t)a.memory, BYTES, a.mr->lkey);
        last = wqe_end(&w);
    }
    client_doorbell(&a);
    assert_int_equal(client_poll_index(&a, last, &e), MLX5_CQE_REQ);
    assert_int_equal(be32toh(e.byte_cnt), BYTES);
    assert_memory_equal(a.memory, b.memory, BYTES);
    close_pair(&a, &b);
}

/* The doorbell covers two of a request's three blocks, after complete requests. */
static void published_in_part(void **state)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    uint8_t data[100];
    memset(data, 0x77, sizeof data);
    open_pair(&a, &b, &(struct client_options){.ring = true});
    write_words(&a, a.remote_memory, data, 8, MLX5_WQE_CTRL_CQ_UPDATE);
    uint16_t index =
        write_words(&a, a.remote_memory + 64, data, sizeof data, MLX5_WQE_CTRL_CQ_UPDATE);
    a.next--;
    client_doorbell(&a);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
    assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ_ERR);
    assert_int_equal(be16toh(e.wqe_counter), index);
    assert_int_equal(as_error(&e)->syndrome, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
    assert_int_equal(as_error(&e)->vendor_err_synd, 0x86);
    assert_int_equal(b.memory[0], 0x77);
    assert_int_equal(b.memory[64], 0);
    close_pair(&a, &b);
}

/* A key index is reused for other memory: the old key does not give access to it. */
static void number_comes_round(void **state)
{
    enum { REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
    struct client a, b;
    struct mlx5_cqe64 e;
    open_pair(&a, &b, &(struct client_options){0});
    struct ibv_mr *mr = ibv_reg_mr(b.pd, b.memory, 4096, REMOTE);
    assert_non_null(mr);
    uint32_t old = mr->rkey;
    do {
        assert_int_equal(ibv_dereg_mr(mr), 0);
        mr = ibv_reg_mr(b.pd, b.memory, 4096, REMOTE);
        assert_non_null(mr);
    } while (mr->rkey >> 8 != old >> 8);
    assert_int_not_equal(mr->rkey, old);
    for (int stale = 0; stale < 2; stale++) {
        a.remote_rkey = stale ? old : mr->rkey;
        uint16_t last = client_write_inline(&a, a.remote_memory, "key", 3);
        assert_int_equal(client_poll_index(&a, last, &e), stale ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
    }
    assert_int_equal(as_error(&e)->syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_pair(&a, &b);
}

/* A request sends the data that the previous request reads: the data is there only after a
 * fence. */
static void fences(void **state)
{
    static const unsigned fence[] = {2 << 5, 3 << 5, 4 << 5};
    struct client a, b;
    struct mlx5_cqe64 e;
    open_pair(&a, &b, &(struct client_options){.log_sq = 8});
    for (unsigned round = 0; round < 60; round++) {
        struct wqe_maker w;
        uint64_t v = 0x1000 + round;
        memcpy(b.memory + 16, &v, 8);
        wqe_begin(&w, &a, MLX5_OPCODE_RDMA_READ, 0, 0, 0);
        wqe_remote(&w, a.remote_memory + 16, a.remote_rkey);
        wqe_data(&w, (uintptr_t)a.memory, 8, a.mr->lkey);
        wqe_end(&w);
        wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, MLX5_WQE_CTRL_CQ_UPDATE | fence[round % 3], 0);
        wqe_remote(&w, a.remote_memory + 24, a.remote_rkey);
        wqe_data(&w, (uintptr_t)a.memory, 8, a.mr->lkey);
        uint16_t last = wqe_end(&w);
        client_doorbell(&a);
        assert_int_equal(client_poll_index(&a, last, &e), MLX5_CQE_REQ);
        assert_memory_equal(b.memory + 24, &v, 8);
    }
    close_pair(&a, &b);
}

/* A local read, with a key that permits it, and with one whose range is too short. */
static void local_reads(void **state)
{
    enum { DUMP = 0x23 };
    struct client a, b;
    struct mlx5_cqe64 e;
    open_pair(&a, &b, &(struct client_options){0});
    for (unsigned beyond = 0; beyond < 2; beyond++) {
        struct wqe_maker w;
        wqe_begin(&w, &a, DUMP, 0, MLX5_WQE_CTRL_CQ_UPDATE | 2 << 5, 0);
        wqe_data(&w, (uintptr_t)a.memory + CLIENT_MEMORY - 8 + beyond, 8, a.mr->lkey);
        uint16_t last = wqe_end(&w);
        client_doorbell(&a);
        assert_int_equal(client_poll_index(&a, last, &e), beyond ? MLX5_CQE_REQ_ERR : MLX5_CQE_REQ);
    }
    assert_int_equal(as_error(&e)->syndrome, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
    close_pair(&a, &b);
}

/* The key of a device's first memory is different each time (finding A23). */
static void keys_are_not_known_before(void **state)
{
    struct client a;
    uint32_t keys[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(client_open(&a, &(struct client_options){0}), 0);
        keys[i] = a.mr->rkey;
        client_close(&a);
    }
    assert_true(keys[0] != keys[1] || keys[1] != keys[2]);
}

/* Two queues ring one doorbell: it holds the last value, and the records of both show their
 * requests. */
static void shared_register(void **state)
{
    struct client a, b, c, d;
    struct mlx5_cqe64 e;
    open_pair(&a, &b, &(struct client_options){.log_sq = 8});
    open_pair(&c, &d, &(struct client_options){.log_sq = 8, .uar = a.uar});
    for (uint64_t round = 1; round < 100; round++) {
        uint64_t v = round * 3;
        uint16_t i = write_words(&a, a.remote_memory, &round, 8, MLX5_WQE_CTRL_CQ_UPDATE);
        uint16_t k = write_words(&c, c.remote_memory, &v, 8, MLX5_WQE_CTRL_CQ_UPDATE);
        client_doorbell(&a);
        client_doorbell(&c);
        assert_int_equal(client_poll_index(&a, i, &e), MLX5_CQE_REQ);
        assert_int_equal(client_poll_index(&c, k, &e), MLX5_CQE_REQ);
        assert_memory_equal(b.memory, &round, 8);
        assert_memory_equal(d.memory, &v, 8);
    }
    close_pair(&c, &d);
    close_pair(&a, &b);
}

enum { ADDS = 400 };

struct adder {
    struct client c, peer;
    struct ibv_mr *word;
    uint64_t seen[ADDS];
    int wrong;
};

static void *add(void *argument)
{
    struct adder *t = argument;
    for (unsigned i = 0; i < ADDS; i++) {
        struct mlx5_cqe64 e;
        struct wqe_maker w;
        wqe_begin(&w, &t->c, MLX5_OPCODE_ATOMIC_FA, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
        wqe_remote(&w, (uintptr_t)t->word->addr, t->word->rkey);
        wqe_long(&w, 1);
        wqe_long(&w, 0);
        wqe_data(&w, (uintptr_t)t->c.memory, 8, t->c.mr->lkey);
        uint16_t last = wqe_end(&w);
        client_doorbell(&t->c);
        t->wrong += client_poll_index(&t->c, last, &e) != MLX5_CQE_REQ;
        memcpy(&t->seen[i], t->c.memory, 8);
    }
    return NULL;
}

/* Two devices add to one word: every returned value is unique, and no addition is lost. */
static void two_initiators(void **state)
{
    static struct adder t[2];
    static uint64_t word;
    uint8_t seen[2 * ADDS] = {0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_open(&t[i].c, &(struct client_options){.device = i}), 0);
        assert_int_equal(client_open(&t[i].peer, &(struct client_options){0}), 0);
        client_pair(&t[i].c, &t[i].peer);
        assert_int_equal(client_connect(&t[i].peer) || client_connect(&t[i].c), 0);
        t[i].word =
            ibv_reg_mr(t[i].peer.pd, &word, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
        assert_non_null(t[i].word);
    }
    assert_int_not_equal(t[0].c.lid, t[1].c.lid);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, &t[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(__atomic_load_n(&word, __ATOMIC_ACQUIRE), 2 * ADDS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t[i].wrong, 0);
        for (unsigned k = 0; k < ADDS; k++) {
            assert_true(t[i].seen[k] < 2 * ADDS);
            assert_int_equal(seen[t[i].seen[k]]++, 0);
        }
        ibv_dereg_mr(t[i].word);
        close_pair(&t[i].c, &t[i].peer);
    }
}

/* Queues are destroyed at either end while requests of all kinds are in flight; other queues are
 * not disturbed. */
static void destroyed_at_work(void **state)
{
    struct client a, b, c, d;
    struct mlx5_cqe64 e;
    uint64_t v = 5;
    open_pair(&c, &d, &(struct client_options){0});
    for (unsigned round = 0; round < 40; round++) {
        open_pair(&a, &b, &(struct client_options){.log_sq = 8});
        for (unsigned i = 0; i < 60; i++) {
            struct wqe_maker w;
            wqe_begin(&w, &a, i % 3 ? MLX5_OPCODE_RDMA_WRITE : MLX5_OPCODE_RDMA_READ, 0,
                      MLX5_WQE_CTRL_CQ_UPDATE, 0);
            wqe_remote(&w, a.remote_memory, a.remote_rkey);
            wqe_data(&w, (uintptr_t)a.memory, i % 3 == 1 ? 20000 : 8, a.mr->lkey);
            wqe_end(&w);
        }
        client_doorbell(&a);
        struct mlx5dv_devx_obj **first = round & 1 ? &b.qp : &a.qp;
        assert_int_equal(mlx5dv_devx_obj_destroy(*first), 0);
        *first = NULL;
        close_pair(&a, &b);
        uint16_t last = client_write_inline(&c, c.remote_memory + round * 8, &v, 8);
        assert_int_equal(client_poll_index(&c, last, &e), MLX5_CQE_REQ);
    }
    close_pair(&c, &d);
}

/* SOFT_HCA_FAIL_AT=5, in its own process. */
static void fails_when_asked(void **state)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    open_pair(&a, &b, &(struct client_options){.ring = true});
    for (uint64_t i = 1; i <= 7; i++)
        write_words(&a, a.remote_memory + i * 8, &i, 8, MLX5_WQE_CTRL_CQ_UPDATE);
    client_doorbell(&a);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(client_poll(&a, &e), i < 4 ? MLX5_CQE_REQ : MLX5_CQE_REQ_ERR);
        assert_int_equal(be16toh(e.wqe_counter), i);
        if (i >= 4)
            assert_int_equal(as_error(&e)->syndrome, i == 4 ? MLX5_CQE_SYNDROME_REMOTE_OP_ERR
                                                            : MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
        if (i == 4)
            assert_int_equal(as_error(&e)->vendor_err_synd, 0x88);
    }
    assert_int_equal(((uint64_t *)b.memory)[4], 4);
    assert_int_equal(((uint64_t *)b.memory)[5], 0);
    close_pair(&a, &b);
}

int main(void)
{
    const struct CMUnitTest asked[] = {cmocka_unit_test(fails_when_asked)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),    cmocka_unit_test(counters_wrap),
        cmocka_unit_test(one_of_many),     cmocka_unit_test(published_in_part),
        cmocka_unit_test(large_reads),     cmocka_unit_test(number_comes_round),
        cmocka_unit_test(fences),          cmocka_unit_test(local_reads),
        cmocka_unit_test(shared_register), cmocka_unit_test(keys_are_not_known_before),
        cmocka_unit_test(two_initiators),  cmocka_unit_test(destroyed_at_work),
    };
    return getenv("SOFT_HCA_FAIL_AT") ? cmocka_run_group_tests(asked, NULL, NULL)
                                      : cmocka_run_group_tests(tests, NULL, NULL);
}
