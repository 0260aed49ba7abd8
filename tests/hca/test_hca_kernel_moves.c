/* SPDX-License-Identifier: Apache-2.0 */
/* How the engine's kernel moves and updates data: each byte once, with the widest accesses that the
 * alignment allows, and without touching neighbours, at all offsets, lengths and numbers of
 * threads. */
#include "kernel.h"

static int setup(void **state)
{
    (void)state;
    begin_kernel();
    return 0;
}

static unsigned width(uint64_t at, uint64_t rest)
{
    for (unsigned n = 8; n > 1; n /= 2)
        if (at % n == 0 && rest >= n)
            return n;
    return 1;
}

static void check_moved(unsigned to, unsigned from, unsigned bytes)
{
    assert_memory_equal(far_bytes + to, near_bytes + from, bytes);
    for (unsigned i = 0; i < KEY_BYTES; i++)
        if ((i < to || i >= to + bytes) && far_bytes[i] != 0xa5)
            fail_msg("byte %u is changed by %u bytes at %u", i, bytes, to);
    memset(far_bytes + to, 0xa5, bytes);
}

static void values_have_their_number_of_bytes(void **state)
{
    (void)state;
    uint64_t value = 0x8182838485868788, at = number_of(far_bytes);
    static const unsigned sizes[] = {1, 2, 4, 8};
    for (unsigned i = 0; i < 4; i++) {
        unsigned n = sizes[i];
        uint64_t expected = n == 8 ? value : value & ((UINT64_C(1) << 8 * n) - 1);
        store_some(at + 16, value, n);
        assert_int_equal(accesses, 1);
        assert_memory_equal(far_bytes + 16, &value, n);
        assert_int_equal(far_bytes[16 + n], 0xa5);
        assert_true(load_some(at + 16, n) == expected);
        assert_int_equal(accesses, 2);
        accesses = 0;
        memset(far_bytes, 0xa5, 32);
    }
}

static void the_widest_access_is_aligned_and_fits(void **state)
{
    (void)state;
    for (uint64_t at = 0; at < 17; at++)
        for (uint32_t rest = 1; rest < 12; rest++)
            assert_int_equal(widest(at, rest), width(at, rest));
}

/* Number of accesses of a move: a load and a store for each unit of the common alignment. */
static unsigned moves_needed(uint64_t to, uint64_t from, unsigned bytes)
{
    unsigned unit = (to ^ from) % 16 == 0  ? 16
                    : (to ^ from) % 8 == 0 ? 8
                    : (to ^ from) % 4 == 0 ? 4
                                           : 1;
    unsigned head = (unit - to % unit) % unit;
    if (head > bytes)
        head = bytes;
    unsigned whole = (bytes - head) / unit, tail = (bytes - head) % unit;
    return 2 * (head + tail + whole * (unit == 16 ? 2 : 1));
}

static void moves_are_whole_at_all_offsets(void **state)
{
    (void)state;
    static const unsigned lengths[] = {0, 1, 3, 15, 16, 17, 33, 64, 80, 200, 343};
    for (unsigned to = 0; to < 17; to++)
        for (unsigned from = 0; from < 17; from++)
            for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
                for (unsigned by = 1; by < 4; by++) {
                    uint64_t t = number_of(far_bytes + 32 + to), f = number_of(near_bytes + from);
                    unsigned n = lengths[i];
                    accesses = 0;
                    BY_THREADS(by, move(t, f, n, thread, by));
                    assert_int_equal(accesses, moves_needed(t, f, n));
                    check_moved(32 + to, from, n);
                }
}

static void small_moves_store_by_the_widest_words(void **state)
{
    (void)state;
    for (unsigned to = 0; to < 9; to++)
        for (unsigned from = 0; from < 9; from++)
            for (unsigned n = 0; n <= SMALL; n++) {
                struct work r = {.to = number_of(far_bytes + 16 + to),
                                 .from = number_of(near_bytes + from),
                                 .bytes = n};
                unsigned expected = 0;
                for (unsigned i = 0, k; i < n; i += k) {
                    k = width(r.to + i, n - i);
                    expected += 1 + (width(r.from + i, n - i) >= k ? 1 : k);
                }
                accesses = 0;
                move_small(&r);
                assert_int_equal(accesses, expected);
                check_moved(16 + to, from, n);
            }
}

/* Copies near_bytes into the words of the batch, block by block. */
static void fill_batch(void)
{
    memset(s.words, 0xee, sizeof s.words);
    for (unsigned i = 0; i < KEY_BYTES; i++)
        ((uint8_t *)s.words)[i / 64 * STRIDE * 4 + i % 64] = near_bytes[i];
}

static void inline_data_goes_on_in_the_next_block(void **state)
{
    (void)state;
    fill_batch();
    for (unsigned at = 0; at < 140; at++) {
        assert_int_equal(word_at(&s, at), *(const uint32_t *)(near_bytes + at / 4 * 4));
        for (unsigned n = 1; n <= 8; n *= 2) {
            uint64_t expected = 0;
            memcpy(&expected, near_bytes + at, n);
            assert_true(inline_bytes(&s, at, n) == expected);
        }
    }
    for (unsigned to = 0; to < 9; to++)
        for (unsigned from = 36; from < 300; from += 64)
            for (unsigned n = 0; n < 80; n++)
                for (unsigned by = 1; by < 4; by++) {
                    struct work r = {
                        .to = number_of(far_bytes + 16 + to), .from = from, .bytes = n};
                    unsigned unit = (to | n) % 8 == 0 ? 8 : (to | n) % 4 == 0 ? 4 : 0;
                    unsigned expected = unit ? n / unit : 0;
                    for (unsigned i = 0, k; !unit && i < n; i += k, expected++)
                        k = width(r.to + i, n - i);
                    accesses = 0;
                    BY_THREADS(by, move_inline(&s, &r, thread, by));
                    assert_int_equal(accesses, expected);
                    check_moved(16 + to, from, n);
                }
}

static void fill_atomic(uint32_t at, uint32_t opcode, uint32_t modifier, const uint64_t *operands,
                        unsigned count, bool narrow)
{
    uint32_t *w = request(&s.words[at * STRIDE], at, opcode, 4, 0);
    w[0] |= big(modifier << 24);
    remote_segment(w + 4, FAR, RKEY);
    memset(w + 8, 0, 16);
    for (unsigned i = 0; i < count; i++)
        if (narrow) {
            w[8 + i] = big((uint32_t)operands[i]);
        } else {
            w[8 + 2 * i] = big((uint32_t)(operands[i] >> 32));
            w[9 + 2 * i] = big((uint32_t)operands[i]);
        }
    segment(w + 12, NEAR, LKEY, narrow ? 4 : 8);
}

static void atomics_change_memory_and_bring_back_what_was_there(void **state)
{
    (void)state;
    static const struct {
        uint32_t opcode, modifier;
        uint64_t operands[2], before, after;
        unsigned count;
    } cases[] = {
        {WQE_FETCH_ADD, 0, {0x100000003}, 0xfffffffeffffffff, 2, 1},
        {WQE_COMPARE_SWAP, 0, {77, 0x123456789abc}, 0x123456789abc, 77, 2},
        {WQE_COMPARE_SWAP, 0, {77, 0x123456789abd}, 0x123456789abc, 0x123456789abc, 2},
        /* Bit 7 carries into no other field. */
        {WQE_MASKED_FETCH_ADD, 9, {0x181, 0x80}, 0x2c1, 0x342, 2},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct work r = {.to = number_of(far_bytes), .from = number_of(near_bytes), .bytes = 8};
        fill_atomic(2, cases[i].opcode, cases[i].modifier, cases[i].operands, cases[i].count,
                    false);
        memcpy(far_bytes, &cases[i].before, 8);
        change(&s, &r, 2);
        assert_true(*(uint64_t *)far_bytes == cases[i].after);
        assert_true(*(uint64_t *)near_bytes == cases[i].before);
    }
    struct work r = {.to = number_of(far_bytes), .from = number_of(near_bytes), .bytes = 4};
    static const uint64_t swap[] = {0x55667788, 0x11223344, 0xffff, 0xffffffff};
    memset(near_bytes, 0xcc, 8);
    *(uint64_t *)far_bytes = 0x9911223344;
    fill_atomic(1, WQE_MASKED_COMPARE_SWAP, 8, swap, 4, true);
    change(&s, &r, 1);
    assert_true(*(uint64_t *)far_bytes == 0x9911227788);
    assert_int_equal(*(uint32_t *)near_bytes, big(0x11223344));
    assert_int_equal(near_bytes[4], 0xcc);
}

/* The requests of part 1 run, except a NOP and the last one, which is beyond the batch. */
static void each_request_of_a_part_runs_once(void **state)
{
    (void)state;
    static const unsigned counts[] = {1, 3, 32, 64, 96};
    static const struct {
        uint8_t kind;
        uint32_t bytes;
        uint16_t part;
        bool runs;
    } is[] = {
        {KIND_WRITE, 7, 0, false},  {KIND_WRITE, 100, 1, true}, {KIND_READ, 33, 1, true},
        {KIND_NOP, 9, 1, false},    {KIND_WRITE, 32, 1, true},  {KIND_INLINE, 32, 1, true},
        {KIND_INLINE, 44, 1, true}, {KIND_READ, 9, 1, true},    {KIND_WRITE, 99, 2, false},
        {KIND_WRITE, 40, 1, false},
    };
    enum { COUNT = sizeof is / sizeof *is };
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
        unsigned expected = 0;
        fill_batch();
        s.longers = 0;
        for (unsigned i = 0; i < COUNT; i++) {
            struct work *r = &s.work[i];
            unsigned n = is[i].bytes, words = is[i].kind == KIND_INLINE ? (n % 8 ? 4 : 8) : 0;
            *r = (struct work){.to = number_of(far_bytes + 128 * i),
                               .from = number_of(near_bytes + 64 * i),
                               .bytes = n,
                               .kind = is[i].kind,
                               .part = is[i].part};
            if (words)
                r->from = 64 * i;
            if (n > SMALL)
                s.longer[s.longers++] = (uint16_t)i;
            if (is[i].runs)
                expected += words ? n / words : n > SMALL ? moves_needed(0, 0, n) : 0;
        }
        expected += 2 * 4 + 2 * 2; /* of 32 bytes and of 9 bytes */
        accesses = 0;
        BY_THREADS(counts[c], run_part(&s, COUNT - 1, 1));
        assert_int_equal(accesses, expected);
        for (unsigned i = 0; i < COUNT; i++) {
            const uint8_t *to = far_bytes + 128 * i;
            unsigned n = is[i].runs ? is[i].bytes : 0;
            assert_memory_equal(to, near_bytes + 64 * i, n);
            assert_int_equal(to[n], 0xa5);
        }
        memset(far_bytes, 0xa5, sizeof far_bytes);
    }
}

static void an_atomic_of_a_part_runs(void **state)
{
    (void)state;
    static const uint64_t add = 5;
    fill_atomic(3, WQE_FETCH_ADD, 0, &add, 1, false);
    memset(s.work, 0, sizeof s.work);
    s.work[3] = (struct work){
        .to = number_of(far_bytes), .from = number_of(near_bytes), .bytes = 8, .kind = KIND_ATOMIC};
    s.longers = 0;
    *(uint64_t *)far_bytes = 37;
    run_part(&s, 4, 0);
    assert_true(*(uint64_t *)far_bytes == 42);
    assert_true(*(uint64_t *)near_bytes == 37);
}

static void a_long_request_goes_by_pieces(void **state)
{
    (void)state;
    enum { BYTES = 2 * PIECE + 24 };
    static uint8_t from[BYTES] __attribute__((aligned(16)));
    static uint8_t to[BYTES + 16] __attribute__((aligned(16)));
    static const uint32_t offsets[] = {PIECE, 2 * PIECE, 0};
    for (uint32_t i = 0; i < BYTES; i++)
        from[i] = (uint8_t)(1 + i % 251);
    s.work[0] = (struct work){.to = number_of(to), .from = number_of(from), .bytes = BYTES};
    for (unsigned i = 0; i < 3; i++) {
        uint32_t done = i < 2 ? offsets[i] : (uint32_t)BYTES;
        assert_int_equal(run_long(&s, &q), i == 2);
        assert_int_equal(q.offset, offsets[i]);
        assert_memory_equal(to, from, done);
        assert_int_equal(to[done], 0);
    }
    threads = 2;
    thread = 1;
    assert_int_equal(run_long(&s, &q), 0);
    assert_int_equal(q.offset, 0);
    s.work[0].bytes = PIECE;
    thread = 0;
    assert_int_equal(run_long(&s, &q), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(values_have_their_number_of_bytes, setup),
        cmocka_unit_test_setup(the_widest_access_is_aligned_and_fits, setup),
        cmocka_unit_test_setup(moves_are_whole_at_all_offsets, setup),
        cmocka_unit_test_setup(small_moves_store_by_the_widest_words, setup),
        cmocka_unit_test_setup(inline_data_goes_on_in_the_next_block, setup),
        cmocka_unit_test_setup(atomics_change_memory_and_bring_back_what_was_there, setup),
        cmocka_unit_test_setup(each_request_of_a_part_runs_once, setup),
        cmocka_unit_test_setup(an_atomic_of_a_part_runs, setup),
        cmocka_unit_test_setup(a_long_request_goes_by_pieces, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
