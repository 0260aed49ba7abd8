/* SPDX-License-Identifier: Apache-2.0 */
/* The requests that the engine's kernel decodes, which of them it executes, and which of those may
 * run in parallel. */
#include "kernel.h"

static int setup(void **state)
{
    (void)state;
    begin_kernel();
    return 0;
}

static void a_batch_wraps_and_has_the_next_unit_behind_each_block(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8 * 16; i++)
        ring[i] = i + 1;
    for (unsigned by = 1; by < 6; by++) {
        memset(s.words, 0xee, sizeof s.words);
        s.taken = 6;
        accesses = 0;
        BY_THREADS(by, load_batch(&s, &q, 4));
        assert_int_equal(accesses, 4 * 4 * 2);
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t *w = &s.words[i * STRIDE];
            assert_memory_equal(w, &ring[(6 + i) % 8 * 16], 64);
            if (i < 3)
                assert_memory_equal(w + 16, &ring[(7 + i) % 8 * 16], 16);
        }
        assert_int_equal(s.words[3 * STRIDE + 16], 0xeeeeeeee);
        assert_int_equal(s.words[4 * STRIDE], 0xeeeeeeee);
    }
}

static void requests_begin_where_the_one_before_ends(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (unsigned round = 0; round < 400; round++) {
        unsigned n = round % 2 ? round % 9 : round * 256 / 398, end = 0;
        static uint8_t kinds[BATCH];
        memset(kinds, KIND_NONE, sizeof kinds);
        s.end = 0;
        s.work[n % BATCH].kind = 0xee;
        memset(s.begins, 0xee, sizeof s.begins);
        for (unsigned i = 0; i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            unsigned most = round % 5 == 0 ? 5 : 64;
            request(&s.words[i * STRIDE], i, WQE_NOP, (seed >> 16) % most, 0);
        }
        for (unsigned i = 0, blocks; i < n; i += blocks) {
            unsigned units = big(s.words[i * STRIDE + 1]) & 0x3f;
            blocks = units ? (units + 3) / 4 : 1;
            kinds[i] = KIND_NOP;
            if (i + blocks <= n)
                end = i + blocks;
        }
        find_requests(&s, n);
        assert_int_equal(s.end, end);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(s.work[i].kind, kinds[i]);
        if (n < BATCH)
            assert_int_equal(s.work[n].kind, 0xee);
    }
}

static void keys_are_found_behind_others_and_around_the_end(void **state)
{
    (void)state;
    uint32_t same[4], count = 0;
    for (uint32_t key = 1; count < 4; key++)
        if (gpu_key_place((uint64_t)7 << 32 | key) == GPU_KEYS - 1)
            same[count++] = key;
    for (uint32_t i = 0; i < 3; i++)
        key_enter(7, same[i], i, 1, near_bytes, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(find_key(keys, 7, same[i])->address, i);
    assert_null(find_key(keys, 7, same[3]));
    assert_null(find_key(keys, 8, same[0]));
}

static void a_key_reaches_its_own_bytes_alone(void **state)
{
    (void)state;
    enum { READ = MR_REMOTE_READ, WRITE = MR_REMOTE_WRITE };
    static const struct {
        uint64_t address, bytes;
        uint32_t need;
        bool fine;
    } cases[] = {
        {100, 50, READ, true},         {100, 51, READ, false},
        {99, 1, READ, false},          {149, 1, READ, true},
        {150, 1, READ, false},         {120, 30, READ | WRITE, true},
        {120, 31, READ, false},        {120, 3, MR_REMOTE_ATOMIC, false},
        {120, UINT64_MAX, 0, false},   {120, 5, READ | MR_REMOTE_ATOMIC, false},
        {UINT64_MAX - 3, 5, 0, false}, {120, 4, 0, true},
    };
    key_enter(9, 77, 100, 50, near_bytes + 8, READ | WRITE);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct refusal why = {GPU_UNUSUAL, 3};
        uint64_t memory = 5;
        uint32_t access = 6;
        assert_int_equal(reach(keys, 9, 77, cases[i].need, cases[i].address, cases[i].bytes,
                               &memory, &access, &why),
                         cases[i].fine);
        assert_true(memory == (cases[i].fine ? number_of(near_bytes + cases[i].address - 92) : 5));
        assert_int_equal(access, cases[i].fine ? READ | WRITE : 6);
        assert_int_equal(why.parked, GPU_UNUSUAL);
        assert_int_equal(why.lacks, 3);
    }
    struct refusal why = {GPU_UNUSUAL, 3};
    uint64_t memory;
    uint32_t access;
    assert_int_equal(reach(keys, 9, 78, 0, 100, 1, &memory, &access, &why), 0);
    assert_int_equal(why.parked, GPU_LACKS_KEY);
    assert_true(why.lacks == ((uint64_t)9 << 32 | 78));
}

static struct work r;
static struct refusal why;

/* Checks block 2 of the batch as the request after number 40 of its queue. */
static int check_request(void)
{
    s.taken = 40;
    memset(&why, 0, sizeof why);
    memset(&r, 0xee, sizeof r);
    r.kind = KIND_NOP;
    return check(&s, &q, keys, 2, &r, &why);
}

static uint32_t *write_request(uint32_t opcode, uint32_t bytes)
{
    uint32_t *w = request(&s.words[2 * STRIDE], 42, opcode, 3, 0);
    remote_segment(w + 4, FAR + 64, RKEY);
    segment(w + 8, NEAR + 16, LKEY, bytes);
    return w;
}

static void writes_and_reads_of_one_segment_are_taken(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        uint32_t opcode = reads ? WQE_READ : WQE_WRITE, *w = write_request(opcode, 99);
        w[2] = big(reads ? 2 << 5 | 3 << 2 : 2 << 2);
        assert_true(check_request());
        assert_int_equal(r.kind, reads ? KIND_READ : KIND_WRITE);
        assert_int_equal(r.opcode, opcode);
        assert_int_equal(r.bytes, 99);
        assert_int_equal(r.blocks, 1);
        assert_int_equal(r.complete, reads ? 3 : 2);
        assert_int_equal(r.waits, reads);
        assert_true(r.to == number_of(reads ? near_bytes + 16 : far_bytes + 64));
        assert_true(r.from == number_of(reads ? far_bytes + 64 : near_bytes + 16));
        write_request(opcode, 0);
        assert_false(check_request());
        for (uint32_t units = 0; units < 5; units++) {
            w = write_request(opcode, 99);
            w[1] = big((uint32_t)QUEUE << 8 | units);
            assert_int_equal(check_request(), units == 3);
            if (units != 3)
                assert_int_equal(why.parked, GPU_UNUSUAL);
        }
    }
}

static void keys_that_are_unknown_or_do_not_permit_it_are_refused(void **state)
{
    (void)state;
    enum { OTHER = 0x3300 };
    static const struct {
        uint32_t number, access;
        bool write, read;
    } cases[] = {
        {PEER, MR_REMOTE_WRITE, true, false},
        {PEER, MR_REMOTE_READ, false, true},
        {QUEUE, 0, true, false},
        {QUEUE, MR_LOCAL_WRITE, true, true},
    };
    for (unsigned i = 0; i < 4; i++)
        for (int reads = 0; reads < 2; reads++) {
            begin_kernel();
            bool far = cases[i].number == PEER;
            uint32_t *w = write_request(reads ? WQE_READ : WQE_WRITE, 8);
            w[far ? 6 : 9] = big(OTHER);
            assert_false(check_request());
            assert_int_equal(why.parked, GPU_LACKS_KEY);
            assert_true(why.lacks == ((uint64_t)cases[i].number << 32 | OTHER));
            key_enter(cases[i].number, OTHER, far ? FAR : NEAR, KEY_BYTES, far_bytes,
                      cases[i].access);
            assert_int_equal(check_request(), reads ? cases[i].read : cases[i].write);
            assert_int_equal(why.parked, GPU_UNUSUAL);
            /* A write into memory without relaxed ordering waits, a read does not. */
            assert_int_equal(r.waits, far && !reads && cases[i].write);
        }
}

static void only_a_request_in_its_place_is_taken(void **state)
{
    (void)state;
    for (q.strict = 0; q.strict < 2; q.strict++) {
        uint32_t *w = write_request(WQE_WRITE, 8);
        w[0] = big(41 << 8 | WQE_WRITE);
        assert_int_equal(check_request(), !q.strict);
        w = write_request(WQE_WRITE, 8);
        w[1] = big((uint32_t)PEER << 8 | 3);
        assert_int_equal(check_request(), !q.strict);
        assert_int_equal(why.parked, GPU_UNUSUAL);
    }
    static const struct {
        uint32_t opcode;
        bool fine;
    } cases[] = {{WQE_NOP, true},       {WQE_SEND, false}, {WQE_WRITE_IMM, false},
                 {WQE_SEND_IMM, false}, {WQE_DUMP, false}, {WQE_SEND_INVALIDATE, false}};
    for (unsigned i = 0; i < 6; i++) {
        write_request(cases[i].opcode, 8);
        assert_int_equal(check_request(), cases[i].fine);
        assert_int_equal(r.bytes, 0);
        if (cases[i].fine)
            assert_int_equal(r.waits, 0);
    }
}

static void inline_data_is_taken_when_it_fits_its_units(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, units;
        bool fine;
    } cases[] = {
        {12, 3, true},   {13, 3, false},    {13, 4, true},   {12, 4, false},
        {1, 3, true},    {28, 4, true},     {29, 4, false},  {956, 62, true},
        {957, 63, true}, {1023, 63, false}, {972, 63, true}, {973, 63, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t *w = write_request(WQE_WRITE, cases[i].count | 1u << 31);
        w[1] = big((uint32_t)QUEUE << 8 | cases[i].units);
        assert_int_equal(check_request(), cases[i].fine);
        assert_int_equal(r.kind, KIND_INLINE);
        assert_int_equal(r.bytes, cases[i].count);
        assert_int_equal(r.from, 2 * 64 + 36);
        assert_true(r.to == number_of(far_bytes + 64));
    }
    write_request(WQE_READ, 12 | 1u << 31);
    assert_false(check_request());
}

static void atomics_are_taken_at_aligned_words(void **state)
{
    (void)state;
    static const struct {
        uint32_t opcode, units, remote, near, bytes;
        bool fine;
    } cases[] = {
        {WQE_FETCH_ADD, 4, 64, 16, 8, true},
        {WQE_COMPARE_SWAP, 4, 64, 16, 8, true},
        {WQE_FETCH_ADD, 4, 68, 16, 8, false},
        {WQE_FETCH_ADD, 4, 64, 20, 8, false},
        {WQE_FETCH_ADD, 4, 64, 16, 4, false},
        {WQE_FETCH_ADD, 3, 64, 16, 8, false},
        {WQE_FETCH_ADD, 6, 64, 16, 8, false},
        {WQE_FETCH_ADD, 2, 64, 16, 8, false},
        {WQE_FETCH_ADD, 4, 8192, 16, 8, false},
        {WQE_FETCH_ADD, 4, 64, 8192, 8, false},
        {WQE_FETCH_ADD, 4, 64, 16, 8 | 1u << 31, false},
        {WQE_FETCH_ADD, 4, 4088, 4088, 8, true},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t *w = request(&s.words[2 * STRIDE], 42, cases[i].opcode, cases[i].units, 0);
        memset(w + 8, 0, 4 * 16);
        remote_segment(w + 4, FAR + cases[i].remote, RKEY);
        segment(w + 12, NEAR + cases[i].near, LKEY, cases[i].bytes);
        if (cases[i].units == 6)
            segment(w + 16, NEAR, LKEY, 8);
        assert_int_equal(check_request(), cases[i].fine);
        if (!cases[i].fine)
            continue;
        assert_int_equal(r.kind, KIND_ATOMIC);
        assert_int_equal(r.bytes, 8);
        assert_int_equal(r.waits, 0);
        assert_true(r.to == number_of(far_bytes + cases[i].remote));
        assert_true(r.from == number_of(near_bytes + cases[i].near));
    }
    /* 5 units: a masked swap of 8 bytes, whose last unit is the first of the next block. */
    uint32_t *w = request(&s.words[2 * STRIDE], 42, WQE_MASKED_COMPARE_SWAP, 5, 0);
    w[0] |= big(9u << 24);
    remote_segment(w + 4, FAR, RKEY);
    segment(w + 16, NEAR, LKEY, 8);
    assert_true(check_request());
    assert_int_equal(r.blocks, 2);
    for (int reads = 0; reads < 2; reads++) {
        begin_kernel();
        w = request(&s.words[2 * STRIDE], 42, WQE_FETCH_ADD, 4, 0);
        remote_segment(w + 4, FAR, reads ? RKEY : 0x3300);
        segment(w + 12, NEAR, reads ? 0x3300 : LKEY, 8);
        key_enter(PEER, 0x3300, FAR, 64, far_bytes, MR_REMOTE_READ | MR_REMOTE_WRITE);
        key_enter(QUEUE, 0x3300, NEAR, 64, near_bytes, 0);
        assert_false(check_request());
    }
}

static void the_first_request_that_is_not_for_here_is_known(void **state)
{
    (void)state;
    static const struct {
        uint32_t sizes[4], bad, parked, longers;
    } cases[] = {
        {{8, 33, 32, PIECE}, ~0u, GPU_RUNS, 2},
        {{8, 33, PIECE + 1, 8}, 2, GPU_RUNS, 1},
        {{PIECE + 1, 8, 0, 0}, 2, GPU_UNUSUAL, 1},
        {{8, 8, 8, 0}, 3, GPU_UNUSUAL, 0},
    };
    key_enter(PEER, 0x3300, 0, 1 << 30, far_bytes, MR_REMOTE_WRITE);
    key_enter(QUEUE, 0x3300, 0, 1 << 30, near_bytes, 0);
    for (unsigned c = 0; c < 4; c++) {
        s.taken = 0;
        s.end = 4;
        s.bad = ~0u;
        s.longers = 0;
        for (uint32_t i = 0; i < 5; i++) {
            uint32_t *w = request(&s.words[i * STRIDE], i, WQE_WRITE, 3, 0);
            remote_segment(w + 4, 0, 0x3300);
            segment(w + 8, 0, 0x3300, i < 4 ? cases[c].sizes[i] : 0);
            s.work[i].kind = KIND_NOP;
        }
        check_all(&s, &q, keys);
        assert_int_equal(s.bad, cases[c].bad);
        assert_int_equal(s.longers, cases[c].longers);
        if (s.bad < 4)
            assert_int_equal(s.work[s.bad].parked, cases[c].parked);
    }
    s.bad = ~0u;
    s.words[3 * STRIDE + 9] = big(0x4400);
    s.words[3 * STRIDE + 8] = big(5);
    s.work[2].kind = KIND_NONE; /* a block inside a request is no request */
    s.work[3].kind = KIND_NOP;
    s.words[2 * STRIDE + 8] = 0;
    check_all(&s, &q, keys);
    assert_int_equal(s.bad, 3);
    assert_int_equal(s.work[3].parked, GPU_LACKS_KEY);
    assert_true(s.work[3].from == ((uint64_t)QUEUE << 32 | 0x4400));
}

/* w: write, i: inline, r: read, a: atomic, n: NOP, .: block inside a request; capitals wait. */
static void requests_go_side_by_side_as_their_order_allows(void **state)
{
    (void)state;
    static const struct {
        const char *requests, *parts;
    } cases[] = {
        {"wiw", "000"},       {"r.r", "000"}, {"aaa", "000"},   {"nwn", "000"},   {"wW", "01"},
        {"Ww", "00"},         {"wr", "01"},   {"rwia", "0112"}, {"wNw", "011"},   {"Nw", "11"},
        {"w.Wn.r", "001112"}, {"aAr", "012"}, {"rR", "01"},     {"nN.n", "0111"}, {"iww", "000"},
        {"wa", "01"},         {"ra", "01"},   {"nn", "00"},     {"wwr", "001"},   {"aar", "001"},
        {"rra", "001"},       {"WWW", "012"}, {"RnR", "001"},   {"AA", "01"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *text = cases[c].requests;
        uint32_t n = (uint32_t)strlen(text);
        for (uint32_t i = 0; i < n; i++) {
            char kind = (char)(text[i] | 32);
            memset(&s.work[i], 0xee, sizeof s.work[i]);
            s.work[i].waits = !(text[i] & 32);
            s.work[i].kind = kind == 'w'   ? KIND_WRITE
                             : kind == 'i' ? KIND_INLINE
                             : kind == 'r' ? KIND_READ
                             : kind == 'a' ? KIND_ATOMIC
                             : kind == 'n' ? KIND_NOP
                                           : KIND_NONE;
        }
        s.work[n].part = 0xee;
        s.work[n].kind = KIND_WRITE;
        part(&s, n);
        for (uint32_t i = 0; i < n; i++)
            if (s.work[i].part != cases[c].parts[i] - '0')
                fail_msg("%s: request %u is of part %u", text, i, s.work[i].part);
        assert_int_equal(s.parts, cases[c].parts[n - 1] - '0' + 1);
        assert_int_equal(s.work[n].part, 0xee);
    }
    s.parts = 7;
    threads = 2;
    thread = 1;
    part(&s, 0);
    assert_int_equal(s.parts, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_batch_wraps_and_has_the_next_unit_behind_each_block, setup),
        cmocka_unit_test_setup(requests_begin_where_the_one_before_ends, setup),
        cmocka_unit_test_setup(keys_are_found_behind_others_and_around_the_end, setup),
        cmocka_unit_test_setup(a_key_reaches_its_own_bytes_alone, setup),
        cmocka_unit_test_setup(writes_and_reads_of_one_segment_are_taken, setup),
        cmocka_unit_test_setup(keys_that_are_unknown_or_do_not_permit_it_are_refused, setup),
        cmocka_unit_test_setup(only_a_request_in_its_place_is_taken, setup),
        cmocka_unit_test_setup(inline_data_is_taken_when_it_fits_its_units, setup),
        cmocka_unit_test_setup(atomics_are_taken_at_aligned_words, setup),
        cmocka_unit_test_setup(the_first_request_that_is_not_for_here_is_known, setup),
        cmocka_unit_test_setup(requests_go_side_by_side_as_their_order_allows, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
