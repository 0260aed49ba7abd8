/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests for the adapter are equal, byte by byte, to rdma-core's own structures, also across
 * the end of the ring. The queue: many threads post requests at once. A strict consumer sees each
 * request once, complete and in order, after a doorbell that never goes back. */
#include <weft/device/gda_queue.h>

#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEPTH = 128, NUMBER = 0x00abcdef };

static _Alignas(64) char blocks[DEPTH * WEFT_DEV_GDA_BLOCK];
static struct weft_dev_gda_ring ring;
static const struct weft_dev_gda_place remote = {0x1122334455667788u, 0x99aabbcc};
static const struct weft_dev_gda_place local = {0x0102030405060708u, 0x0a0b0c0d};

/* Copies the ring's content from block `index` on into contiguous memory. */
static const char *make_request(uint64_t index, size_t bytes)
{
    static _Alignas(64) char copy[16 * WEFT_DEV_GDA_BLOCK];
    for (size_t i = 0; i < bytes; i++)
        copy[i] = blocks[(index * WEFT_DEV_GDA_BLOCK + i) % sizeof blocks];
    return copy;
}

struct expected {
    struct mlx5_wqe_ctrl_seg control;
    struct mlx5_wqe_raddr_seg remote;
    char rest[8 * 16];
};

static struct expected begin(uint64_t index, uint8_t opcode, uint8_t modifier, uint8_t ds,
                             uint8_t flags)
{
    struct expected e;
    memset(&e, 0, sizeof e);
    memset(blocks, 0, sizeof blocks);
    mlx5dv_set_ctrl_seg(&e.control, (uint16_t)index, opcode, modifier, NUMBER, flags, ds, 0, 0);
    e.remote.raddr = htobe64(remote.address);
    e.remote.rkey = remote.key;
    return e;
}

static void a_move(void **state)
{
    (void)state;
    for (uint64_t index = 126; index < 131; index++) {
        struct expected e = begin(index, MLX5_OPCODE_RDMA_READ, 0, 3, MLX5_WQE_CTRL_CQ_UPDATE);
        mlx5dv_set_data_seg((void *)e.rest, 0x7654321, be32toh(local.key), local.address);
        weft_dev_gda_move(&ring, index, WEFT_DEV_GDA_READ, remote, local, 0x7654321,
                          WEFT_DEV_GDA_SIGNALED);
        assert_memory_equal(make_request(index, 64), &e, 64);
    }
}

/* Inline data of each size: the length in the header and the position of the data, also across the
 * end of the ring. */
static void inline_data(void **state)
{
    (void)state;
    for (uint32_t bytes = 1; bytes <= WEFT_DEV_GDA_INLINE_MOST; bytes++) {
        uint64_t index = DEPTH - bytes % 5;
        uint32_t blocks_wanted = (16 + 16 + 4 + bytes + 63) / 64;
        struct expected e =
            begin(index, MLX5_OPCODE_RDMA_WRITE, 0, (uint8_t)((36 + bytes + 15) / 16), 0);
        struct mlx5_wqe_inl_data_seg head = {htobe32(bytes | MLX5_INLINE_SEG)};
        memcpy(e.rest, &head, sizeof head);
        weft_dev_gda_inline_head(&ring, index, remote, bytes, 0);
        assert_memory_equal(make_request(index, 36), &e, 36);
        assert_int_equal(weft_dev_gda_inline_blocks(bytes), blocks_wanted);
    }
    struct expected e = begin(7, MLX5_OPCODE_RDMA_WRITE, 0, 3, MLX5_WQE_CTRL_CQ_UPDATE);
    struct mlx5_wqe_inl_data_seg head = {htobe32(8 | MLX5_INLINE_SEG)};
    uint64_t value = 0xfedcba9876543210u;
    memcpy(e.rest, &head, sizeof head);
    memcpy(e.rest + sizeof head, &value, sizeof value);
    weft_dev_gda_value(&ring, 7, remote, value, 8, 0);
    assert_memory_equal(make_request(7, 48), &e, 48);
    e.control.fm_ce_se |= 3 << 5;
    weft_dev_gda_value(&ring, 7, remote, value, 8, WEFT_DEV_GDA_ORDERED);
    assert_memory_equal(make_request(7, 48), &e, 48);
}

/* ------------------------------------------------------------------------------------- atomics */

/* Emulates the adapter's result of a masked request, from its specification. Bits of an addition do
 * not carry over a field boundary. A swap compares and stores only the bits under the mask. */
static uint64_t carried_out(const char *request, unsigned width, uint64_t old, uint64_t all)
{
    const struct mlx5_wqe_ctrl_seg *control = (const void *)request;
    uint8_t opcode = (uint8_t)be32toh(control->opmod_idx_opcode);
    const unsigned char *operand = (const unsigned char *)request + 32;
    uint64_t field[4] = {0};
    for (int i = 0; i < 4; i++)
        for (unsigned k = 0; k < width; k++)
            field[i] = field[i] << 8 | operand[(unsigned)i * width + k];
    if (opcode == MLX5_OPCODE_ATOMIC_FA)
        return old + field[0];
    if (opcode == MLX5_OPCODE_ATOMIC_CS)
        return old == field[1] ? field[0] : old;
    if (opcode == MLX5_OPCODE_ATOMIC_MASKED_CS)
        return ((old ^ field[1]) & field[3]) == 0 ? (old & ~field[2]) | (field[0] & field[2]) : old;
    assert_int_equal(opcode, MLX5_OPCODE_ATOMIC_MASKED_FA);
    uint64_t sum = 0, carry = 0;
    for (unsigned bit = 0; bit < 8 * width; bit++) {
        uint64_t a = old >> bit & 1, b = field[0] >> bit & 1, s = a + b + carry;
        sum |= (s & 1) << bit;
        carry = field[1] >> bit & 1 ? 0 : s >> 1;
    }
    return sum & all;
}

static uint64_t meant(int what, uint64_t old, uint64_t value, uint64_t expected)
{
    return what == WEFT_DEV_GDA_ADD    ? old + value
           : what == WEFT_DEV_GDA_XOR  ? old ^ value
           : what == WEFT_DEV_GDA_AND  ? old & value
           : what == WEFT_DEV_GDA_OR   ? old | value
           : what == WEFT_DEV_GDA_SWAP ? value
           : old == expected           ? value
                                       : old;
}

static void check_atomic(uint64_t index, int what, unsigned width, uint64_t old, uint64_t value,
                         uint64_t expected)
{
    uint64_t all = width == 8 ? ~(uint64_t)0 : 0xffffffffu;
    memset(blocks, 0, sizeof blocks);
    old &= all;
    value &= all;
    expected &= all;
    if (width == 8)
        weft_dev_gda_atomic8(&ring, index, what, remote, local, value, expected, 0);
    else
        weft_dev_gda_atomic4(&ring, index, what, remote, local, (uint32_t)value, (uint32_t)expected,
                             0);
    const char *request = make_request(index, 128);
    struct mlx5_wqe_ctrl_seg control;
    struct mlx5_wqe_data_seg data;
    memcpy(&control, request, sizeof control);
    unsigned ds = be32toh(control.qpn_ds) & 0x3f,
             modifier = be32toh(control.opmod_idx_opcode) >> 24;
    unsigned opcode = be32toh(control.opmod_idx_opcode) & 0xff;
    int plain = opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA;
    assert_int_equal(be32toh(control.opmod_idx_opcode) >> 8 & 0xffff, index & 0xffff);
    assert_int_equal(be32toh(control.qpn_ds) >> 8, NUMBER);
    assert_int_equal(modifier, plain ? 0 : width == 8 ? 9 : 8);
    assert_int_equal(ds, width == 8 && opcode == MLX5_OPCODE_ATOMIC_MASKED_CS ? 5 : 4);
    assert_int_equal(weft_dev_gda_atomic_blocks(what, width), (ds + 3) / 4);
    memcpy(&data, request + 16 * (ds - 1), sizeof data);
    assert_int_equal(be32toh(data.byte_count), width);
    assert_int_equal(data.lkey, local.key);
    assert_true(be64toh(data.addr) == local.address);
    assert_true(carried_out(request, width, old, all) == (meant(what, old, value, expected) & all));
}

static void atomics(void **state)
{
    static const uint64_t words[] = {0,
                                     1,
                                     ~(uint64_t)0,
                                     0x8000000080000000u,
                                     0x00ff00ff0f0f3355u,
                                     0x7fffffff7fffffffu,
                                     0x123456789abcdef0u};
    enum { WORDS = sizeof words / sizeof words[0] };
    (void)state;
    for (int what = WEFT_DEV_GDA_ADD; what <= WEFT_DEV_GDA_CSWAP; what++)
        for (int i = 0; i < WORDS * WORDS; i++)
            for (unsigned width = 4; width <= 8; width += 4) {
                uint64_t old = words[i / WORDS], value = words[i % WORDS];
                check_atomic((uint64_t)i, what, width, old, value, old);
                check_atomic(DEPTH - 1, what, width, old, value, ~old);
            }
}

/* --------------------------------------------------------------------------------- completions */

static void completions(void **state)
{
    (void)state;
    uint64_t cqe[8];
    struct weft_dev_gda_queue q = {.ring = ring, .completion = &cqe[7]};
    struct mlx5_cqe64 *entry = (void *)cqe;
    memset(cqe, 0xff, sizeof cqe);
    assert_true(weft_dev_gda_look(&q) == 0);
    /* The adapter's index has 16 bits; the queue's count continues beyond them. */
    uint64_t end = 0;
    for (int round = 0; round < 5000; round++) {
        end += 1 + (uint64_t)round * 37 % 128;
        entry->wqe_counter = htobe16((uint16_t)(end - 1));
        entry->op_own = MLX5_CQE_REQ << 4 | (round & 1);
        assert_true(weft_dev_gda_look(&q) == end);
        assert_true(q.done == end);
    }
    assert_true(end > 4 * 65536);
    assert_int_equal(weft_dev_gda_room_late(&q, end, (uint32_t)(end + DEPTH)), 1);
    assert_int_equal(weft_dev_gda_room_late(&q, end, (uint32_t)(end + DEPTH + 1)), 0);
    entry->op_own = MLX5_CQE_REQ_ERR << 4;
    assert_true(weft_dev_gda_look(&q) == WEFT_DEV_GDA_FAILED);
    assert_true(q.done == end);
}

/* A queue with a gap never again has space or completions, whatever the adapter reports. */
static void given_up(void **state)
{
    (void)state;
    uint64_t cqe[8];
    struct weft_dev_gda_queue q = {
        .ring = ring, .completion = &cqe[7], .turns = (uint64_t)40 << 32 | 10};
    struct mlx5_cqe64 *entry = (void *)cqe;
    memset(cqe, 0xff, sizeof cqe);
    entry->wqe_counter = htobe16(9);
    entry->op_own = MLX5_CQE_REQ << 4;
    assert_true(weft_dev_gda_look(&q) == 10);
    assert_int_equal(weft_dev_gda_reached(&q, 10), 1);
    assert_int_equal(weft_dev_gda_reached(&q, 11), 0);
    assert_true(weft_dev_gda_head(&q) == 40);
    weft_dev_gda_abandon(&q);
    assert_int_equal(weft_dev_gda_reached(&q, 0), 0);
    assert_int_equal(weft_dev_gda_reached(&q, 10), 0);
    assert_int_equal(weft_dev_gda_reached(&q, weft_dev_gda_head(&q)), 0);
    assert_int_equal(weft_dev_gda_room_late(&q, q.done, 11), 0);
    assert_true(weft_dev_gda_look(&q) == WEFT_DEV_GDA_FAILED);
    entry->wqe_counter = htobe16(20);
    assert_true(weft_dev_gda_look(&q) == WEFT_DEV_GDA_FAILED);
    assert_int_equal(weft_dev_gda_reached(&q, 0), 0);
}

/* ------------------------------------------------------------------------------------ the queue */

enum { GIVERS = 4, ROUNDS = 6000 };

static _Alignas(64) struct weft_dev_gda_queue queue;
static uint32_t record;
static uint64_t bell, completion, start;
static uint64_t marks[DEPTH / WEFT_DEV_GDA_MARKS], fillers[DEPTH / WEFT_DEV_GDA_MARKS];
static _Atomic uint64_t filled; /* fillers that the threads have noted */
static _Atomic int finished;
static _Atomic uint64_t wrong;

static uint64_t bell_index(void)
{
    uint64_t seen = __atomic_load_n(&bell, __ATOMIC_ACQUIRE);
    return be32toh((uint32_t)seen) >> 8 & 0xffff;
}

/* The adapter's part: reads requests up to each doorbell, overwrites them and completes them.
 * `seen` counts the requests of each giver. */
static void *consume(void *argument)
{
    uint64_t *seen = argument, taken = start;
    while (atomic_load(&finished) < GIVERS || taken != weft_dev_gda_head(&queue)) {
        uint64_t fresh = (bell_index() - taken) & 0xffff;
        if (!fresh) {
            sched_yield();
            continue;
        }
        wrong += fresh > DEPTH; /* the doorbell went back, or beyond the ring */
        uint32_t told = be32toh(__atomic_load_n(&record, __ATOMIC_RELAXED));
        wrong += ((told - taken) & 0xffff) < fresh;
        for (uint64_t i = 0; i < fresh; i++) {
            char *at = blocks + (taken + i) % DEPTH * WEFT_DEV_GDA_BLOCK;
            struct mlx5_wqe_ctrl_seg *control = (void *)at;
            uint64_t what[2];
            memcpy(what, at + 40, sizeof what);
            wrong += (be32toh(control->opmod_idx_opcode) >> 8 & 0xffff) != ((taken + i) & 0xffff);
            wrong += what[0] >= GIVERS || what[1] != seen[what[0]];
            seen[what[0] < GIVERS ? what[0] : 0]++;
            memset(at, 0xff, WEFT_DEV_GDA_BLOCK);
        }
        taken += fresh;
        uint64_t index = (taken - 1) & 0xffff;
        __atomic_store_n(&completion, (index >> 8 | (index & 0xff) << 8) << 32, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *give_many(void *argument)
{
    uint64_t who = (uintptr_t)argument, given = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t n = 1 + (round * 7 + (uint32_t)who) % 5;
        uint64_t turns = weft_dev_gda_reserve(&queue, n);
        uint64_t done = __atomic_load_n(&queue.done, __ATOMIC_ACQUIRE);
        uint64_t base = weft_dev_gda_whole(done, (uint32_t)(turns >> 32));
        while (!weft_dev_gda_room_late(&queue, done, (uint32_t)base + n)) {
            sched_yield();
            done = weft_dev_gda_look(&queue);
        }
        for (uint32_t i = 0; i < n; i++, given++) {
            uint64_t what[2] = {who, given};
            weft_dev_gda_nop(&queue.ring, base + i, i + 1 == n ? WEFT_DEV_GDA_SIGNALED : 0);
            memcpy(weft_dev_gda_at(&queue.ring, base + i, 40), what, sizeof what);
        }
        if (round % 64 == who)
            sched_yield(); /* lets other threads publish first */
        if (round % 3 == who % 3) {
            weft_dev_gda_publish_filled(&queue, base, base + n, weft_dev_gda_ahead(turns),
                                        n - n / 2);
            filled += n - n / 2;
        } else {
            weft_dev_gda_publish(&queue, &queue.ring, base, base + n, weft_dev_gda_ahead(turns));
        }
    }
    finished++;
    return (void *)(uintptr_t)given;
}

/* Runs the threads on a queue that has already carried `from` blocks. */
static void give_from(uint64_t from)
{
    pthread_t consumer, givers[GIVERS];
    uint64_t seen[GIVERS] = {0};
    void *given[GIVERS];
    completion = ~(uint64_t)0;
    finished = 0;
    filled = 0;
    start = from;
    bell = htobe32((uint32_t)(from & 0xffff) << 8);
    queue = (struct weft_dev_gda_queue){.ring = ring,
                                        .completion = &completion,
                                        .marks = marks,
                                        .fillers = fillers,
                                        .turns = from << 32 | (uint32_t)from,
                                        .done = from};
    if (!from)
        queue.turns = WEFT_DEV_GDA_UNUSED;
    queue.ring.record = &record;
    queue.ring.doorbell = &bell;
    assert_int_equal(pthread_create(&consumer, NULL, consume, seen), 0);
    for (uintptr_t i = 0; i < GIVERS; i++)
        assert_int_equal(pthread_create(&givers[i], NULL, give_many, (void *)i), 0);
    for (int i = 0; i < GIVERS; i++) {
        pthread_join(givers[i], &given[i]);
    }
    pthread_join(consumer, NULL);
    assert_true(wrong == 0);
    for (int i = 0; i < GIVERS; i++)
        assert_true(seen[i] == (uintptr_t)given[i]);
    uint64_t head = weft_dev_gda_head(&queue);
    assert_true(queue.turns == (head << 32 | (uint32_t)head));
    assert_true(head - from > 65536);
    assert_true(queue.counted >> 32 == (uint32_t)filled);
    for (int i = 0; i < DEPTH / WEFT_DEV_GDA_MARKS; i++) {
        assert_int_equal(fillers[i], 0);
        assert_int_equal(marks[i], 0);
    }
}

/* A new queue, and one whose 32-bit counters wrap around. */
static void many_givers(void **state)
{
    (void)state;
    give_from(0);
    give_from(((uint64_t)1 << 32) - 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move),      cmocka_unit_test(inline_data), cmocka_unit_test(atomics),
        cmocka_unit_test(completions), cmocka_unit_test(given_up),    cmocka_unit_test(many_givers),
    };
    weft_dev_gda_ring_set(&ring, blocks, DEPTH, NUMBER);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
