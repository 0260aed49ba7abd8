/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of the engine's kernel: the effect of a doorbell, batches and their completions, and when
 * a slice visits a queue, leaves it and ends. */
#include "kernel.h"

static int setup(void **state)
{
    (void)state;
    begin_kernel();
    doorbell = 0;
    return 0;
}

static void a_doorbell_moves_the_queue_forward(void **state)
{
    (void)state;
    static const struct {
        uint32_t number, strict, recorded, index, producer, released, parked;
        uint32_t then, is;
    } cases[] = {
        {QUEUE, 1, 12, 12, 10, 10, 0, 12, 0},
        {QUEUE, 1, 14, 12, 10, 10, 0, 14, 0},
        {QUEUE, 1, 11, 12, 10, 10, 0, 10, GPU_UNUSUAL},
        {QUEUE, 0, 11, 12, 10, 10, 0, 12, 0},
        {PEER, 0, 12, 12, 10, 10, 0, 10, GPU_UNUSUAL},
        {QUEUE, 1, 12, 12, 10, 10, GPU_LACKS_KEY, 10, GPU_LACKS_KEY},
        {QUEUE, 1, 10, 10, 10, 1, 0, 10, 0},
        {QUEUE, 1, 9, 9, 10, 10, 0, 10, 0},
        {QUEUE, 1, 18, 18, 10, 10, 0, 18, 0},
        {QUEUE, 1, 19, 19, 10, 10, 0, 10, GPU_UNUSUAL},
        {QUEUE, 1, 11, 11, 10, 3, 0, 11, 0},
        {QUEUE, 1, 11, 11, 10, 2, 0, 10, GPU_UNUSUAL},
        {QUEUE, 1, 0x10002, 2, 0xfffe, 0xfffd, 0, 2, 0},
        {QUEUE, 1, 0x301, 0x301, 0x2ff, 0x2fe, 0, 0x301, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bell = doorbell_of(cases[i].number, cases[i].index);
        q.strict = cases[i].strict;
        q.producer = (uint16_t)cases[i].producer;
        q.released = (uint16_t)cases[i].released;
        q.parked = cases[i].parked;
        record[0] = big(cases[i].recorded + 77);
        record[1] = big(cases[i].recorded);
        take_bell(&q, bell);
        assert_int_equal(q.producer, cases[i].then);
        assert_int_equal(q.parked, cases[i].is);
        assert_true(q.rung == bell);
        assert_int_equal(q.doorbells, i + 1);
    }
}

static void a_batch_is_what_was_rung_and_not_more_than_256_blocks(void **state)
{
    (void)state;
    static const struct {
        uint32_t taken, producer, parked, run;
    } cases[] = {{0xfffe, 3, 0, 5}, {10, 266, 0, 256}, {10, 267, 0, 256},
                 {10, 265, 0, 255}, {10, 10, 0, 0},    {3, 9, GPU_UNUSUAL, 0}};
    q.blocks = RING_BLOCKS;
    for (unsigned i = 0; i < 6; i++) {
        memset(&s, 0xee, sizeof s);
        q.rung = 5;
        q.taken = (uint16_t)cases[i].taken;
        q.producer = (uint16_t)cases[i].producer;
        q.parked = cases[i].parked;
        begin_batch(&s, &q, 5);
        assert_int_equal(q.doorbells, 0);
        assert_int_equal(s.run, cases[i].run);
        assert_int_equal(s.taken, cases[i].taken);
        assert_int_equal(s.bad, ~0u);
        assert_int_equal(s.last | s.completes | s.requests | s.end | s.longers, 0);
        assert_int_equal(s.bytes, 0);
    }
    q.parked = 0;
    q.taken = q.producer = q.released = 0;
    record[1] = big(7);
    begin_batch(&s, &q, doorbell_of(QUEUE, 7));
    assert_int_equal(q.doorbells, 1);
    assert_int_equal(s.run, 7);
}

static void check_completion(uint32_t index, uint32_t opcode, uint32_t owner, uint32_t bytes)
{
    assert_int_equal(completion[7], 0xeeeeeeee);
    assert_int_equal(completion[8], big(0x0a0b0c));
    assert_int_equal(completion[9], 0);
    assert_int_equal(completion[10], 0);
    assert_int_equal(completion[11], big(bytes));
    assert_int_equal(completion[12], big(0x12));
    assert_int_equal(completion[13], big(0x3456789a));
    assert_int_equal(completion[14], big(opcode << 24 | QUEUE));
    assert_int_equal(completion[15], big(index << 16 | owner));
}

static void a_completion_says_which_request_ended(void **state)
{
    (void)state;
    static const struct {
        uint32_t completions, completes, owner;
        uint8_t kind;
    } cases[] = {
        {0, 1, 0, KIND_READ},  {7, 1, 0, KIND_WRITE},  {8, 1, 1, KIND_ATOMIC},
        {7, 2, 1, KIND_READ},  {6, 2, 0, KIND_INLINE}, {15, 1, 1, KIND_READ},
        {16, 1, 0, KIND_READ}, {5, 4, 1, KIND_ATOMIC},
    };
    clock_ns = 0x123456789a;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.taken = 0xabc0;
        s.last = 5;
        s.completes = cases[i].completes;
        s.work[5] =
            (struct work){.opcode = 0x5a, .kind = cases[i].kind, .bytes = 0x1234567, .blocks = 3};
        q.completions = cases[i].completions;
        fences = 0;
        complete(&s, &q);
        bool comes = cases[i].kind == KIND_READ || cases[i].kind == KIND_ATOMIC;
        check_completion(0xabc5, 0x5a, cases[i].owner, comes ? 0x1234567 : 0);
        assert_int_equal(fences, 1);
        assert_int_equal(q.completions, cases[i].completions + cases[i].completes);
        assert_int_equal(q.released, 0xabc8);
    }
}

static void what_is_done_is_counted_and_the_last_that_asks_completes(void **state)
{
    (void)state;
    static const uint8_t asks[][4] = {{0, 0, 0, 2}, {2, 0, 0, 0}, {1, 3, 2, 1}, {1, 0, 1, 0}};
    static const unsigned completes[] = {0, 1, 1, 0}, last[] = {0, 0, 1, 0};
    clock_ns = 0x123456789a;
    for (unsigned i = 0; i < 4; i++) {
        q.taken = 0xfffe;
        q.requests = 100;
        q.bytes = 1000;
        q.completions = 0;
        q.released = 0xfffe;
        memset(completion, 0xee, sizeof completion);
        begin_batch(&s, &q, 0);
        for (unsigned k = 0; k < 4; k++)
            s.work[k] = (struct work){.kind = k == 2 ? KIND_NONE : KIND_WRITE,
                                      .opcode = 0x5a,
                                      .bytes = 10 + k,
                                      .complete = asks[i][k],
                                      .blocks = 1};
        fences = 0;
        finish(&s, &q, 3);
        assert_int_equal(fences, 1);
        assert_int_equal(q.taken, 1);
        assert_int_equal(q.requests, 102);
        assert_int_equal(q.bytes, 1021);
        assert_int_equal(q.completions, completes[i]);
        if (completes[i])
            check_completion((0xfffe + last[i]) & 0xffff, 0x5a, 0, 0);
        else
            assert_int_equal(completion[15], 0xeeeeeeee);
        assert_int_equal(q.released, completes[i] ? (uint16_t)(0xffff + last[i]) : 0xfffe);
    }
    threads = 2;
    thread = 1;
    finish(&s, &q, 3);
    assert_int_equal(q.taken, 1);
    assert_int_equal(q.requests, 102);
}

/* Writes request block `at`: a write of `bytes` bytes to byte 64 * at of the peer's memory. */
static uint32_t *put_write(uint32_t at, uint32_t bytes, uint32_t flags)
{
    uint32_t *w = request(&ring[at % q.blocks * 16], at, WQE_WRITE, 3, flags);
    remote_segment(w + 4, FAR + 64 * at, RKEY);
    segment(w + 8, NEAR + 64 * at, LKEY, bytes);
    return w;
}

static void ring_bell(uint32_t index)
{
    record[1] = big(index);
    doorbell = doorbell_of(QUEUE, index);
}

static void a_queue_runs_what_was_rung(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        put_write(i, 40 + i, i == 2 ? 2 << 2 | 2 << 5 : 0);
    ring_bell(3);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t n = i < 3 ? 40 + i : 0;
        assert_memory_equal(far_bytes + 64 * i, near_bytes + 64 * i, n);
        assert_int_equal(far_bytes[64 * i + n], 0xa5);
    }
    assert_int_equal(q.taken, 3);
    assert_int_equal(q.released, 3);
    assert_int_equal(q.requests, 3);
    assert_int_equal(q.bytes, 123);
    assert_int_equal(q.completions, 1);
    assert_int_equal(q.parked, 0);
    assert_int_equal(fences, 2); /* before the request that waits, and before the completion */
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 0);
    assert_int_equal(q.requests, 3);
}

static void what_is_not_for_here_leaves_the_queue_with_its_reason(void **state)
{
    (void)state;
    put_write(0, 8, 0);
    put_write(1, 8, 0)[9] = big(0x3300);
    put_write(2, 8, 0);
    ring_bell(3);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    assert_int_equal(q.taken, 1);
    assert_int_equal(q.parked, 0);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 0);
    assert_int_equal(q.taken, 1);
    assert_int_equal(q.parked, GPU_LACKS_KEY);
    assert_true(q.lacks == ((uint64_t)QUEUE << 32 | 0x3300));
    assert_int_equal(far_bytes[128], 0xa5);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 0);
    key_enter(QUEUE, 0x3300, NEAR, KEY_BYTES, near_bytes, 0);
    q.parked = 0;
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    assert_int_equal(q.taken, 3);
    /* The doorbell covers one block of a request of two. */
    put_write(3, 8, 0)[1] = big((uint32_t)QUEUE << 8 | 5);
    ring_bell(4);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 0);
    assert_int_equal(q.parked, GPU_UNUSUAL);
    assert_int_equal(q.lacks, 0);
}

static void a_long_request_runs_by_itself(void **state)
{
    (void)state;
    enum { BYTES = PIECE + 16 };
    static uint8_t from[BYTES], to[BYTES + 1];
    memset(from, 0x5a, sizeof from);
    key_enter(QUEUE, 0x3300, 0, BYTES, from, 0);
    key_enter(PEER, 0x3300, 0, BYTES, to, MR_REMOTE_WRITE | MR_RELAXED_ORDERING);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t *w = put_write(i, 8, 2 << 2);
        if (i != 1)
            continue;
        remote_segment(w + 4, 0, 0x3300);
        segment(w + 8, 0, 0x3300, BYTES);
    }
    ring_bell(3);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    assert_int_equal(q.taken, 1);
    assert_int_equal(to[0], 0);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    assert_int_equal(q.taken, 1);
    assert_int_equal(to[PIECE - 1], 0x5a);
    assert_int_equal(to[PIECE], 0);
    assert_int_equal(q.completions, 1);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    assert_int_equal(q.taken, 2);
    assert_int_equal(to[BYTES - 1], 0x5a);
    assert_int_equal(to[BYTES], 0);
    assert_int_equal(q.completions, 2);
    assert_int_equal(q.bytes, 8 + BYTES);
    assert_int_equal(run_queue(&s, &q, doorbell, keys), 1);
    assert_int_equal(q.taken, 3);
}

static struct gpu_queue queues[70];
static uint64_t bells[70];
static uint32_t attention, stop;
static struct gpu_slice slice;

static void begin_slice(uint32_t count)
{
    attention = stop = 0;
    slice = (struct gpu_slice){.ns = 100000,
                               .stop = number_of(&stop),
                               .attention = number_of(&attention),
                               .queues = number_of(queues),
                               .keys = number_of(keys),
                               .count = count};
    for (uint32_t i = 0; i < 70; i++) {
        bells[i] = doorbell_of(QUEUE, 1);
        queues[i] = q;
        queues[i].doorbell = number_of(&bells[i]);
        queues[i].producer = queues[i].taken = 1;
        queues[i].rung = bells[i];
    }
}

static void a_round_looks_at_the_queues_of_its_block_of_threads(void **state)
{
    (void)state;
    put_write(0, 8, 0);
    record[1] = big(1);
    for (uint32_t mine = 0; mine < 2; mine++) {
        begin_slice(67);
        for (uint32_t i = 0; i < 70; i++)
            queues[i].rung = queues[i].producer = queues[i].taken = 0;
        queues[4].parked = queues[5].parked = GPU_UNUSUAL;
        block = mine;
        block_count = 2;
        assert_int_equal(look_round(&s, &slice, queues), 1);
        for (uint32_t i = 0; i < 70; i++)
            assert_int_equal(queues[i].requests, i % 2 == mine && i < 64 && i / 2 != 2);
        assert_int_equal(attention, 0);
        assert_int_equal(s.attention, 0);
        assert_int_equal(look_round(&s, &slice, queues), 0);
    }
    begin_slice(3);
    block = 0;
    block_count = 1;
    queues[3].rung = queues[2].rung = 0;
    queues[2].taken = 0; /* its doorbell was read before */
    queues[2].rung = bells[2];
    assert_int_equal(look_round(&s, &slice, queues), 1);
    assert_int_equal(queues[2].requests, 1);
    assert_int_equal(queues[2].doorbells, 0);
    assert_int_equal(queues[3].rung, 0);
    /* A doorbell with an old value is read, and nothing is executed. */
    queues[1].rung = 0;
    assert_int_equal(look_round(&s, &slice, queues), 0);
    assert_int_equal(queues[1].doorbells, 1);
    attention = 9;
    look_round(&s, &slice, queues);
    assert_int_equal(s.attention, 9);
}

static void all_threads_read_the_doorbells_once(void **state)
{
    (void)state;
    begin_slice(70);
    for (uint32_t i = 0; i < 70; i++) {
        queues[i].parked = GPU_UNUSUAL;
        bells[i] = 1000 + i;
    }
    for (uint32_t by = 1; by < 70; by += by < 31 ? 10 : 1) {
        memset(&s, 0, sizeof s);
        block = 1;
        block_count = 2;
        accesses = 0;
        attention = 5;
        BY_THREADS(by, look_round(&s, &slice, queues));
        for (uint32_t i = 0; i < QUEUES_A_BLOCK; i++)
            assert_int_equal(s.bell[i], 1000 + 1 + 2 * i);
        assert_int_equal(accesses, QUEUES_A_BLOCK + 1);
        assert_int_equal(s.attention, 5);
    }
    begin_slice(5);
    memset(&s, 0, sizeof s);
    block = 0;
    block_count = 1;
    look_round(&s, &slice, queues);
    assert_int_equal(s.bell[4], bells[4]);
    assert_int_equal(s.bell[5], 0);
}

static void a_queue_that_is_left_is_reported(void **state)
{
    (void)state;
    begin_slice(2);
    put_write(0, 8, 0)[6] = big(0x3300);
    record[1] = big(1);
    queues[1].rung = queues[1].taken = queues[1].producer = 0;
    assert_int_equal(look_round(&s, &slice, queues), 0);
    assert_int_equal(queues[1].parked, GPU_LACKS_KEY);
    assert_int_equal(attention, 1);
    attention = 0;
    look_round(&s, &slice, queues);
    assert_int_equal(attention, 0);
}

static void a_slice_ends_by_time_by_the_host_and_by_a_queue(void **state)
{
    (void)state;
    uint64_t looked = 1000;
    begin_slice(0);
    s.attention = 0;
    stop = 1;
    clock_ns = 1000 + STOP_NS - 1;
    assert_int_equal(slice_ends(&s, &slice, 1000, &looked), 0);
    assert_int_equal(looked, 1000);
    assert_int_equal(attention, 0);
    clock_ns++;
    block = 1;
    assert_int_equal(slice_ends(&s, &slice, 1000, &looked), 0);
    assert_int_equal(attention, 0);
    block = 0;
    assert_int_equal(slice_ends(&s, &slice, 1000, &looked), 0);
    assert_int_equal(looked, 1000 + STOP_NS);
    assert_int_equal(attention, 1);
    stop = attention = 0;
    clock_ns = 1000 + 99999;
    assert_int_equal(slice_ends(&s, &slice, 1000, &looked), 0);
    assert_int_equal(attention, 0);
    clock_ns++;
    assert_int_equal(slice_ends(&s, &slice, 1000, &looked), 1);
    s.attention = 1;
    clock_ns = 2000;
    assert_int_equal(slice_ends(&s, &slice, 1000, &looked), 1);
}

static void a_slice_runs_rounds_until_it_ends(void **state)
{
    (void)state;
    begin_slice(1);
    clock_step = 30000;
    run_slice(&s, &slice);
    assert_int_equal(clock_ns, 5 * 30000);
    assert_int_equal(sleeps, 3 * IDLE_NS);
    put_write(0, 8, 0);
    record[1] = big(1);
    queues[0].rung = queues[0].taken = queues[0].producer = 0;
    sleeps = 0;
    run_slice(&s, &slice);
    assert_int_equal(queues[0].requests, 1);
    assert_int_equal(sleeps, 2 * IDLE_NS);
    stop = 1;
    clock_ns = 0;
    run_slice(&s, &slice);
    assert_int_equal(clock_ns, 3 * 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_doorbell_moves_the_queue_forward, setup),
        cmocka_unit_test_setup(a_batch_is_what_was_rung_and_not_more_than_256_blocks, setup),
        cmocka_unit_test_setup(a_completion_says_which_request_ended, setup),
        cmocka_unit_test_setup(what_is_done_is_counted_and_the_last_that_asks_completes, setup),
        cmocka_unit_test_setup(a_queue_runs_what_was_rung, setup),
        cmocka_unit_test_setup(what_is_not_for_here_leaves_the_queue_with_its_reason, setup),
        cmocka_unit_test_setup(a_long_request_runs_by_itself, setup),
        cmocka_unit_test_setup(a_round_looks_at_the_queues_of_its_block_of_threads, setup),
        cmocka_unit_test_setup(all_threads_read_the_doorbells_once, setup),
        cmocka_unit_test_setup(a_queue_that_is_left_is_reported, setup),
        cmocka_unit_test_setup(a_slice_ends_by_time_by_the_host_and_by_a_queue, setup),
        cmocka_unit_test_setup(a_slice_runs_rounds_until_it_ends, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
