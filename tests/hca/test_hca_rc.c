/* SPDX-License-Identifier: Apache-2.0 */
/* RC queue pairs over DevX: within a process, in two contexts, and between two processes. */
#include "pair.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT_AT = 60000 }; /* exchange() does not write there */

static void fill(uint8_t *p, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

/* What every data test checks: values arrive complete, at the right place, and nothing else
 * changes. */
static void exchange(struct client *a, const volatile uint8_t *there)
{
    struct mlx5_cqe64 e;
    uint64_t v = 0x1122334455667788;
    uint16_t i = client_write_inline(a, a->remote_memory + 64, &v, 8);
    assert_int_equal(client_poll_index(a, i, &e), MLX5_CQE_REQ);
    if (there)
        assert_memory_equal((const void *)(there + 64), &v, 8);
    static const uint32_t sizes[] = {1, 3, 16, 4095, 4096, 4097, 20000};
    for (unsigned n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        fill(a->memory, sizes[n], n);
        memset(a->memory + 32768, 0xaa, 27000);
        client_write(a, a->remote_memory + 8193, (uintptr_t)a->memory, sizes[n]);
        i = client_read(a, a->remote_memory + 8193, (uintptr_t)a->memory + 32769, sizes[n]);
        assert_int_equal(client_poll_index(a, i, &e), MLX5_CQE_REQ);
        assert_memory_equal(a->memory, a->memory + 32769, sizes[n]);
        assert_int_equal(a->memory[32768], 0xaa);
        assert_int_equal(a->memory[32769 + sizes[n]], 0xaa);
        assert_int_equal(be32toh(e.sop_drop_qpn), (uint32_t)MLX5_OPCODE_RDMA_READ << 24 | a->qpn);
        assert_int_equal(be32toh(e.srqn_uidx), 0x123456);
    }
}

static void within_a_process(void **state)
{
    struct client a, b;
    open_pair(&a, &b, &(struct client_options){0});
    exchange(&a, b.memory);
    exchange(&b, a.memory);
    close_pair(&a, &b);
}

struct address {
    uint16_t lid;
    uint32_t qpn, rkey;
    uint64_t memory;
    union ibv_gid gid;
};

static void swap_addresses(struct client *c, int out, int in)
{
    struct address mine = {c->lid, c->qpn, c->mr->rkey, (uintptr_t)c->memory, c->gid}, other;
    assert_int_equal(write(out, &mine, sizeof mine), sizeof mine);
    assert_int_equal(read(in, &other, sizeof other), sizeof other);
    c->remote_lid = other.lid;
    c->remote_qpn = other.qpn;
    c->remote_rkey = other.rkey;
    c->remote_memory = other.memory;
    c->remote_gid = other.gid;
}

static int peer_process(int out, int in)
{
    struct client c;
    char byte = 0;
    if (client_open(&c, &(struct client_options){0}))
        return 2;
    swap_addresses(&c, out, in);
    if (client_connect(&c) || write(out, &byte, 1) != 1)
        return 3;
    /* Both ends write at the same time. */
    for (uint64_t i = 1; i <= 200; i++) {
        struct mlx5_cqe64 e;
        if (client_poll_index(&c, client_write_inline(&c, c.remote_memory + COUNT_AT, &i, 8), &e) !=
            MLX5_CQE_REQ)
            return 4;
    }
    if (read(in, &byte, 1) != 1)
        return 5;
    uint64_t v;
    memcpy(&v, c.memory + 64, 8);
    if (v != 0x1122334455667788)
        return 6;
    client_close(&c);
    return 0;
}

static void between_processes(void **state)
{
    int there[2], back[2], status;
    struct client c;
    char byte;
    assert_int_equal(pipe(there) | pipe(back), 0);
    pid_t child = fork();
    if (!child) {
        close(there[1]); /* so that the child sees when the parent ends */
        alarm(30);
        _exit(peer_process(back[1], there[0]));
    }
    assert_int_equal(client_open(&c, &(struct client_options){0}), 0);
    swap_addresses(&c, there[1], back[0]);
    assert_int_equal(client_connect(&c), 0);
    assert_int_equal(read(back[0], &byte, 1), 1);
    exchange(&c, NULL);
    while (__atomic_load_n((uint64_t *)(c.memory + COUNT_AT), __ATOMIC_ACQUIRE) == 0)
        ;
    assert_int_equal(write(there[1], "", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    client_close(&c);
}

/* A ring of 8 entries and 8 blocks, reused many times: owner bit, and requests that wrap around the
 * end of the ring. */
static void rings_wrap(void **state)
{
    struct client a, b;
    struct mlx5_cqe64 e;
    uint8_t data[200];
    open_pair(&a, &b, &(struct client_options){.log_sq = 3, .log_cq = 3, .ring = true});
    for (unsigned i = 0; i < 100; i++) {
        fill(data, sizeof data, i);
        uint32_t bytes = 1 + i * 2 % 200;
        uint16_t index = client_write_inline(&a, a.remote_memory + i, data, bytes);
        assert_int_equal(client_poll(&a, &e), MLX5_CQE_REQ);
        assert_int_equal(be16toh(e.wqe_counter), index);
        assert_memory_equal(b.memory + i, data, bytes);
    }
    close_pair(&a, &b);
}

/* More requests of three blocks under one doorbell than the GPU's engine handles in a batch (256
 * blocks): each is executed only when it is complete. */
static void requests_of_blocks(void **state)
{
    enum { COUNT = 150, BYTES = 140 };
    struct client a, b;
    struct mlx5_cqe64 e;
    struct wqe_maker w;
    uint8_t data[BYTES];
    uint16_t index = 0;
    open_pair(&a, &b, &(struct client_options){.log_sq = 9});
    for (unsigned i = 0; i < COUNT; i++) {
        fill(data, BYTES, i);
        wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0, i + 1 == COUNT ? MLX5_WQE_CTRL_CQ_UPDATE : 0,
                  0);
        wqe_remote(&w, a.remote_memory + (uint64_t)i * BYTES, a.remote_rkey);
        wqe_inline(&w, data, BYTES);
        index = wqe_end(&w);
    }
    assert_int_equal(index, (COUNT - 1) * 3);
    client_doorbell(&a);
    assert_int_equal(client_poll_index(&a, index, &e), MLX5_CQE_REQ);
    for (unsigned i = 0; i < COUNT; i++) {
        fill(data, BYTES, i);
        assert_memory_equal(b.memory + (size_t)i * BYTES, data, BYTES);
    }
    close_pair(&a, &b);
}

/* Longer than the GPU's engine moves before it reads the clock (1 MiB), one after the other. */
static void long_ones(void **state)
{
    enum { BYTES = (3 << 19) + 5 };
    struct client a, b;
    struct mlx5_cqe64 e;
    if (!getenv("HCA_CLIENT_GPU"))
        skip();
    open_pair(&a, &b, &(struct client_options){.memory_bytes = 2 << 20});
    for (unsigned i = 0; i < 3; i++) {
        fill(a.memory, BYTES, i);
        uint16_t index = client_write(&a, a.remote_memory, (uintptr_t)a.memory, BYTES);
        assert_int_equal(client_poll_index(&a, index, &e), MLX5_CQE_REQ);
        assert_memory_equal(b.memory, a.memory, BYTES);
    }
    close_pair(&a, &b);
}

static uint64_t atomic(struct client *a, unsigned opcode, unsigned modifier, uint64_t at,
                       const uint64_t *operands, unsigned count, uint32_t bytes)
{
    struct wqe_maker w;
    struct mlx5_cqe64 e;
    memset(a->memory + 1024, 0, 8);
    wqe_begin(&w, a, opcode, modifier, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    wqe_remote(&w, at, a->remote_rkey);
    for (unsigned i = 0; i < count; i++)
        bytes == 8 ? wqe_long(&w, operands[i]) : wqe_word(&w, (uint32_t)operands[i]);
    while (w.words[255])
        wqe_word(&w, 0);
    wqe_data(&w, (uintptr_t)a->memory + 1024, bytes, a->mr->lkey);
    uint16_t i = wqe_end(&w);
    wqe_begin(&w, a, MLX5_OPCODE_NOP, 0, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    i = wqe_end(&w);
    client_doorbell(a);
    assert_int_equal(client_poll_index(a, i, &e), MLX5_CQE_REQ);
    uint64_t v = 0;
    memcpy(&v, a->memory + 1024, bytes);
    return bytes == 8 ? v : be32toh((uint32_t)v);
}

static void atomics(void **state)
{
    struct client a, b;
    open_pair(&a, &b, &(struct client_options){0});
    uint64_t *v = (uint64_t *)(b.memory + 128), at = (uintptr_t)v;
    uint32_t *w = (uint32_t *)(b.memory + 132);
    *v = 40;
    assert_int_equal(atomic(&a, 0x12, 0, at, (uint64_t[]){2, 0}, 2, 8), 40);
    assert_int_equal(*v, 42);
    assert_int_equal(atomic(&a, 0x11, 0, at, (uint64_t[]){7, 41}, 2, 8), 42);
    assert_int_equal(*v, 42);
    assert_int_equal(atomic(&a, 0x11, 0, at, (uint64_t[]){0xfedcba9876543210, 42}, 2, 8), 42);
    assert_true(*v == 0xfedcba9876543210);
    /* Two fields of 32 bits: no carry from the lower into the upper. */
    *v = 0x00000001ffffffff;
    assert_true(atomic(&a, 0x15, 9, at, (uint64_t[]){0x0000000100000001, 0x8000000080000000}, 2,
                       8) == 0x00000001ffffffff);
    assert_true(*v == 0x0000000200000000);
    /* With a field boundary at each bit, the addition is XOR. */
    *v = 0xf0f0;
    atomic(&a, 0x15, 9, at, (uint64_t[]){0xff00, ~0ull}, 2, 8);
    assert_true(*v == 0x0ff0);
    /* Compares the low byte, swaps the second byte. */
    *v = 0x1122334455667788;
    assert_true(atomic(&a, 0x14, 9, at, (uint64_t[]){0xabcd, 0x88, 0xff00, 0xff}, 4, 8) ==
                0x1122334455667788);
    assert_true(*v == 0x112233445566ab88);
    assert_true(atomic(&a, 0x14, 9, at, (uint64_t[]){0, 0x87, ~0ull, 0xff}, 4, 8) ==
                0x112233445566ab88);
    assert_true(*v == 0x112233445566ab88);
    /* 4 bytes; the neighbour is unchanged. */
    *v = 0x89abcdef01234567;
    assert_int_equal(atomic(&a, 0x15, 8, at + 4, (uint64_t[]){0x11, 0}, 2, 4), 0x89abcdef);
    assert_true(*v == 0x89abce0001234567);
    assert_int_equal(atomic(&a, 0x14, 8, at + 4, (uint64_t[]){0x55, 0x89abce00, 0xff, ~0u}, 4, 4),
                     0x89abce00);
    assert_int_equal(*w, 0x89abce55);
    assert_int_equal(*(uint32_t *)v, 0x01234567);
    close_pair(&a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_processes), /* first, because it forks and no engine runs yet */
        cmocka_unit_test(within_a_process),
        cmocka_unit_test(rings_wrap),
        cmocka_unit_test(requests_of_blocks),
        cmocka_unit_test(long_ones),
        cmocka_unit_test(atomics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
