/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests of the software HCA: how each form is decoded, and which forms are invalid. */
#include "kernel.h"

static uint32_t words[64];
static struct wqe wqe;

/* Word i of the request, from unit 1 on, has the value i, except for the segments. */
static uint8_t decode(uint32_t opcode, uint32_t modifier, uint32_t units, uint32_t at,
                      uint32_t bytes, bool dc)
{
    for (uint32_t i = 0; i < 64; i++)
        words[i] = big(i);
    request(words, 0x1234, opcode, units, 0);
    words[0] |= big(modifier << 24);
    if (at)
        words[4 * at] = big(bytes);
    memset(&wqe, 0xff, sizeof wqe);
    wqe_control(words, &wqe);
    return wqe_decode(words, dc, &wqe);
}

static void the_control_segment_has_its_fields(void **state)
{
    (void)state;
    uint32_t *w = request(words, 0x1234, WQE_SEND, 37, 5 << 5 | 1 << 2 | 1 << 1);
    w[0] |= big(0xabu << 24);
    w[3] = 0x01020304;
    wqe_control(w, &wqe);
    assert_int_equal(wqe.opcode, WQE_SEND);
    assert_int_equal(wqe.index, 0x1234);
    assert_int_equal(wqe.modifier, 0xab);
    assert_int_equal(wqe.qpn, QUEUE);
    assert_int_equal(wqe.units, 37);
    assert_int_equal(wqe.blocks, 10);
    assert_int_equal(wqe.fence, 5);
    assert_int_equal(wqe.complete, 1);
    assert_int_equal(wqe.solicited, 1);
    assert_int_equal(wqe.immediate, 0x01020304);
    w[1] = big((uint32_t)QUEUE << 8 | 36);
    w[2] = big(2 << 5 | 2 << 2);
    wqe_control(w, &wqe);
    assert_int_equal(wqe.fence, 2);
    assert_int_equal(wqe.complete, 2);
    assert_int_equal(wqe.blocks, 9);
    assert_int_equal(wqe.solicited, 0);
}

static void each_opcode_has_its_segments(void **state)
{
    (void)state;
    enum { QP = SYNDROME_LOCAL_QP_OPERATION, LENGTH = SYNDROME_LOCAL_LENGTH };
    static const struct {
        uint32_t opcode, modifier, units, at, bytes;
        uint8_t syndrome, data;
        uint64_t length;
    } cases[] = {
        {WQE_NOP, 0, 0, 0, 0, QP, 0, 0},
        {WQE_NOP, 0, 1, 0, 0, SYNDROME_NONE, 1, 0},
        {WQE_NOP, 0, 5, 0, 0, SYNDROME_NONE, 5, 0},
        {WQE_SEND, 0, 1, 0, 0, SYNDROME_NONE, 1, 0},
        {WQE_SEND, 0, 2, 1, 70, SYNDROME_NONE, 1, 70},
        {WQE_SEND_IMM, 0, 3, 1, 70, SYNDROME_NONE, 1, 78},
        {WQE_SEND_INVALIDATE, 0, 2, 1, 0, SYNDROME_NONE, 1, 1u << 31},
        {WQE_SEND_INVALIDATE, 0, 3, 1, 0, LENGTH, 1, 0},
        {WQE_DUMP, 0, 2, 1, 7, SYNDROME_NONE, 1, 7},
        {WQE_WRITE, 0, 1, 0, 0, QP, 0, 0},
        {WQE_WRITE, 0, 2, 0, 0, SYNDROME_NONE, 2, 0},
        {WQE_WRITE_IMM, 0, 4, 2, 100, SYNDROME_NONE, 2, 112},
        {WQE_READ, 0, 3, 2, 100, SYNDROME_NONE, 2, 100},
        {0x7f, 0, 3, 0, 0, QP, 0, 0},
        {WQE_FETCH_ADD, 0, 2, 0, 0, QP, 0, 0},
        {WQE_FETCH_ADD, 0, 4, 3, 8, SYNDROME_NONE, 3, 8},
        {WQE_FETCH_ADD, 0, 4, 3, 7, LENGTH, 3, 0},
        {WQE_FETCH_ADD, 0, 3, 0, 0, LENGTH, 3, 0},
        {WQE_COMPARE_SWAP, 7, 4, 3, 8, SYNDROME_NONE, 3, 8},
        {WQE_MASKED_FETCH_ADD, 9, 4, 3, 8, SYNDROME_NONE, 3, 8},
        {WQE_MASKED_FETCH_ADD, 8, 4, 3, 4, SYNDROME_NONE, 3, 4},
        {WQE_MASKED_FETCH_ADD, 7, 4, 3, 8, QP, 0, 0},
        {WQE_MASKED_FETCH_ADD, 10, 4, 3, 8, QP, 0, 0},
        {WQE_MASKED_COMPARE_SWAP, 8, 4, 3, 4, SYNDROME_NONE, 3, 4},
        {WQE_MASKED_COMPARE_SWAP, 9, 5, 4, 8, SYNDROME_NONE, 4, 8},
        {WQE_MASKED_COMPARE_SWAP, 9, 3, 0, 0, QP, 0, 0},
        {WQE_MASKED_COMPARE_SWAP, 9, 4, 0, 0, LENGTH, 4, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t syndrome = decode(cases[i].opcode, cases[i].modifier, cases[i].units, cases[i].at,
                                  cases[i].bytes, false);
        if (syndrome != cases[i].syndrome)
            fail_msg("case %u: %u", i, syndrome);
        assert_false(wqe.address.present);
        if (syndrome)
            continue;
        assert_int_equal(wqe.data, cases[i].data);
        assert_true(wqe.length == cases[i].length);
        if (cases[i].opcode == WQE_WRITE || cases[i].opcode == WQE_READ) {
            assert_true(wqe.remote == 0x400000005);
            assert_int_equal(wqe.rkey, 6);
        }
    }
}

static void atomics_have_their_operands(void **state)
{
    (void)state;
    static const struct {
        uint32_t opcode, modifier, units;
        struct wqe_atomic is;
    } cases[] = {
        {WQE_FETCH_ADD, 0, 4, {false, 8, 0x800000009, 0, 0, UINT64_MAX}},
        {WQE_COMPARE_SWAP, 0, 4, {true, 8, 0x800000009, UINT64_MAX, 0xa0000000b, UINT64_MAX}},
        {WQE_MASKED_FETCH_ADD, 9, 4, {false, 8, 0x800000009, 0xa0000000b, 0, UINT64_MAX}},
        {WQE_MASKED_COMPARE_SWAP,
         9,
         5,
         {true, 8, 0x800000009, 0xc0000000d, 0xa0000000b, 0xe0000000f}},
        {WQE_MASKED_FETCH_ADD, 8, 4, {false, 4, 8, 9, 0, 0}},
        {WQE_MASKED_COMPARE_SWAP, 8, 4, {true, 4, 8, 10, 9, 11}},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wqe_atomic *is = &cases[i].is, *a = &wqe.atomic;
        decode(cases[i].opcode, cases[i].modifier, cases[i].units, cases[i].units - 1, is->bytes,
               false);
        assert_int_equal(a->compare_swap, is->compare_swap);
        assert_int_equal(a->bytes, is->bytes);
        assert_true(a->operand == is->operand && a->operand_mask == is->operand_mask);
        assert_true(a->compare == is->compare && a->compare_mask == is->compare_mask);
    }
}

static void segments_follow_each_other(void **state)
{
    (void)state;
    struct wqe_segment one;
    bool fits;
    static const struct {
        uint32_t count, units, at;
        bool found, fits;
    } cases[] = {
        {12 | 1u << 31, 2, 2, true, true},
        {13 | 1u << 31, 3, 3, true, true},
        {13 | 1u << 31, 2, 3, false, false},
        {0x3ff | 1u << 31, 63, 66, false, false},
        {0x400 | 1u << 31, 9, 2, false, false},
        {900 | 1u << 31, 60, 58, true, true},
        {900, 60, 2, true, true},
        {900, 1, 1, false, true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned at = 1;
        memset(&one, 0xee, sizeof one);
        segment(words + 4, 0x1122334455667788, 0x99aabbcc, cases[i].count);
        assert_int_equal(wqe_segment_next(words, cases[i].units, &at, &one, &fits), cases[i].found);
        assert_int_equal(fits, cases[i].fits);
        assert_int_equal(at, cases[i].at);
        if (!cases[i].found)
            continue;
        bool is_inline = cases[i].count >> 31;
        assert_int_equal(one.is_inline, is_inline);
        assert_int_equal(one.bytes, cases[i].count & 0x3ff);
        assert_int_equal(one.lkey, is_inline ? 0 : 0x99aabbcc);
        assert_true(one.address == (is_inline ? 20 : 0x1122334455667788));
    }
    /* Segments behind one that does not fit are not counted. */
    assert_int_equal(decode(WQE_SEND, 0, 2, 1, 13 | 1u << 31, false), SYNDROME_LOCAL_QP_OPERATION);
}

static void requests_of_dc_have_an_address(void **state)
{
    (void)state;
    struct wqe_address *a = &wqe.address;
    assert_int_equal(decode(WQE_SEND, 0, 1, 0, 0, true), SYNDROME_LOCAL_QP_OPERATION);
    assert_int_equal(decode(WQE_SEND, 0, 3, 2, 70, true), SYNDROME_NONE);
    assert_true(a->present && !a->full && a->key == 0x400000005);
    assert_int_equal(a->dctn, 6);
    assert_int_equal(a->lid, 7);
    assert_int_equal(wqe.data, 2);
    assert_int_equal(wqe.length, 70);
    assert_int_equal(decode(WQE_DUMP, 0, 2, 1, 7, true), SYNDROME_NONE);
    assert_false(a->present);
    for (uint32_t units = 3; units < 5; units++) {
        memset(&wqe, 0xff, sizeof wqe);
        for (uint32_t i = 0; i < 4; i++)
            words[12 + i] = big(0x01020304 + i * 0x04040404);
        words[4 + 2] = big(0x81234567);
        words[4 + 3] = big(0xabcd1234);
        assert_int_equal(wqe_address_decode(words, 1, units, a), units == 4 ? 3 : 0);
        assert_true(a->full);
        assert_int_equal(a->dctn, 0x234567);
        assert_int_equal(a->lid, 0x1234);
    }
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(a->gid[i], i + 1);
}

static void atomics_make_a_new_value_of_the_old(void **state)
{
    (void)state;
    struct wqe_atomic add = {.operand = 0x181, .operand_mask = 0x80};
    assert_int_equal(wqe_atomic_apply(&add, 0x2c1), 0x342);
    struct wqe_atomic swap = {.compare_swap = true,
                              .operand = 0xabcd,
                              .operand_mask = 0xff,
                              .compare = 0x1200,
                              .compare_mask = 0xff00};
    assert_int_equal(wqe_atomic_apply(&swap, 0x1234), 0x12cd);
    assert_int_equal(wqe_atomic_apply(&swap, 0x1334), 0x1334);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_control_segment_has_its_fields),
        cmocka_unit_test(each_opcode_has_its_segments),
        cmocka_unit_test(atomics_have_their_operands),
        cmocka_unit_test(segments_follow_each_other),
        cmocka_unit_test(requests_of_dc_have_an_address),
        cmocka_unit_test(atomics_make_a_new_value_of_the_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
