/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives on GPU memory of simulated PEs: every PE has the bits of a serial loop, on even
 * and uneven nodes, with vectors that pass through buffers, and that kernels combine. And the times
 * of many nodes that `weft explain coll` continues from few are those of all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tool/coll_nodes_way.h"
#include "tool/scale_coll.h"

#include <string.h>

static struct tool_scale_job job_of(int pes, int per_node, size_t elements)
{
    char origin[1200];
    struct tool_scale_job job = {.pes = pes,
                                 .per_node = per_node,
                                 .elements = elements,
                                 .flag_ns = 500,
                                 .copy_ns = 0.1,
                                 .post_ns = 500,
                                 .latency_ns = 5000,
                                 .byte_ns = 0.02};
    tool_scale_gpu_costs(&job, origin, sizeof origin);
    return job;
}

static void every_pe_has_the_right_bits(void **state)
{
    static const int shapes[][2] = {{5, 2}, {21, 8}, {5, 1}};
    static const size_t sizes[] = {1, 777, 66001, 140001}; /* 1: by packets */
    (void)state;
    for (int which = TOOL_SCALE_BROADCAST; which < TOOL_SCALE_COLLECTIVES; which++)
        for (int s = 0; s < 3; s++)
            for (int k = 0; k < 4 - s; k++) {
                struct tool_scale_job job = job_of(shapes[s][0], shapes[s][1], sizes[k]);
                struct tool_scale_result with, without;
                weft_status status =
                    tool_scale_collective(&job, (enum tool_scale_collective)which, &with);
                if (status || !with.right)
                    fail_msg("collective %d, %d PEs, %zu elements: %s", which, job.pes, sizes[k],
                             status ? weft_last_error() : "wrong bits");
                job.no_contents = true;
                assert_int_equal(
                    tool_scale_collective(&job, (enum tool_scale_collective)which, &without), 0);
                assert_true(with.us == without.us);
                assert_true(with.bytes_between == without.bytes_between);
            }
}

/* Where nodes have as many members, and save enough messages. */
static void packed_blocks_have_the_right_bits(void **state)
{
    static const int shapes[][2] = {{30, 6}, {54, 18}, {33, 3}};
    static const size_t sizes[] = {1, 777, 2049};
    (void)state;
    for (int s = 0; s < 3; s++)
        for (int k = 0; k < 3; k++) {
            struct tool_scale_job job = job_of(shapes[s][0], shapes[s][1], sizes[k]);
            const uint64_t nodes = (uint64_t)(job.pes / job.per_node);
            struct tool_scale_result r;
            assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_ALLTOALL, &r), 0);
            assert_true(r.right);
            /* The last size is packed where more messages are saved. Each PE sends one to each
             * other node, and the leaders of the nodes synchronize. */
            const bool packed = k < 2 || s == 1;
            assert_true((r.between < 2 * (uint64_t)job.pes * nodes) == packed);
            assert_true(r.off_rail == 0 || !packed);
        }
}

/* What does not fit a slot takes a second step, and no message twice. */
static void steps_send_each_block_once(void **state)
{
    enum { NODES = 20, MEMBERS = 16 };
    struct tool_scale_job job = job_of(NODES * MEMBERS, MEMBERS, 4096);
    struct tool_scale_result r;
    (void)state;
    job.no_contents = true;
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_ALLTOALL, &r), 0);
    assert_int_equal(r.bytes_between, (uint64_t)NODES * MEMBERS * (NODES - 1) * MEMBERS * 16384);
    assert_true(r.between < (uint64_t)NODES * (MEMBERS + 1) * (NODES - 1));
}

static void small_reductions_take_the_buffer(void **state)
{
    struct tool_scale_job job = job_of(32, 8, 65536);
    (void)state;
    assert_true(tool_scale_is_buffered(&job, TOOL_SCALE_ALLREDUCE));
    assert_true(tool_scale_is_buffered(&job, TOOL_SCALE_REDUCE));
    assert_false(tool_scale_is_buffered(&job, TOOL_SCALE_REDUCESCATTER));
    assert_false(tool_scale_is_buffered(&job, TOOL_SCALE_ALLGATHER));
    job.elements = 65537;
    assert_false(tool_scale_is_buffered(&job, TOOL_SCALE_ALLREDUCE));
    job.elements = 2048;
    assert_true(tool_scale_is_buffered(&job, TOOL_SCALE_REDUCESCATTER));
}

/* As in the library: each of 24 members sends its packet to one member of the two other nodes. */
static void the_smallest_reductions_are_packets(void **state)
{
    struct tool_scale_job job = job_of(24, 8, 14);
    struct tool_scale_result result;
    (void)state;
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_ALLREDUCE, &result), 0);
    assert_true(result.right);
    assert_int_equal(result.between, 24 * 2);
    job.elements = 15;
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_ALLREDUCE, &result), 0);
    assert_true(result.right);
    assert_int_not_equal(result.between, 24 * 2);
}

/* Small blocks of a gather follow one another over the root's link: 28 GPUs of other nodes, 32 kB
 * each. Large ones come over the links of the four members of its node. */
static void a_gather_takes_the_time_of_the_links(void **state)
{
    struct tool_scale_job job = job_of(32, 4, 8000);
    struct tool_scale_result gather, scatter;
    (void)state;
    job.no_contents = true;
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_GATHER, &gather), 0);
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_SCATTER, &scatter), 0);
    assert_true(gather.us > 28 * 0.64 && gather.us < 28 * 0.64 + 25);
    assert_true(scatter.us > 28 * 0.64 && scatter.us < 28 * 0.64 + 25);
    job.elements = 1000000;
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_GATHER, &gather), 0);
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_SCATTER, &scatter), 0);
    assert_true(gather.us > 7 * 80 && gather.us < 7 * 80 + 130);
    assert_true(scatter.us > 7 * 80 && scatter.us < 7 * 80 + 130);
}

/* The same limit decides in the library and in the estimate. */
static void large_blocks_pass_through_relays(void **state)
{
    struct tool_nodes_question q = {
        .operation = "scatter", .nodes = 70, .per_node = 4, .gbit = 400, .latency_us = 5};
    struct tool_nodes_answer answer;
    struct tool_scale_result result;
    (void)state;
    q.bytes = (1 << 20) / 276 / 4 * 4;
    assert_int_equal(tool_nodes_way(&q, &answer), 0);
    assert_int_equal(answer.way, TOOL_NODES_DIRECT);
    q.bytes += 4;
    struct tool_scale_job job = job_of(280, 4, (size_t)q.bytes / 4);
    job.flag_ns = 200; /* as the estimate assumes */
    job.no_contents = true;
    assert_int_equal(tool_nodes_way(&q, &answer), 0);
    assert_int_equal(answer.way, TOOL_NODES_RELAYED);
    assert_int_equal(tool_scale_collective(&job, TOOL_SCALE_SCATTER, &result), 0);
    assert_true(answer.us == result.us && answer.messages == result.between);
}

static void times_of_many_nodes_follow_from_few(void **state)
{
    static const struct {
        const char *name;
        enum tool_scale_collective simulated;
        uint64_t bytes;
    } rows[] = {{"broadcast", TOOL_SCALE_BROADCAST, 64 << 20},
                {"allgather", TOOL_SCALE_ALLGATHER, 100000},
                {"alltoall", TOOL_SCALE_ALLTOALL, 100000},
                {"allreduce", TOOL_SCALE_ALLREDUCE, 3 << 20},
                {"allreduce", TOOL_SCALE_ALLREDUCE, 256 << 20},
                {"reduce", TOOL_SCALE_REDUCE, 16 << 20},
                {"reducescatter", TOOL_SCALE_REDUCESCATTER, 1 << 20}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct tool_nodes_question q = {.operation = rows[i].name,
                                              .bytes = rows[i].bytes,
                                              .nodes = 70,
                                              .per_node = 4,
                                              .gbit = 400,
                                              .latency_us = 5};
        struct tool_scale_job job = job_of(280, 4, (size_t)rows[i].bytes / 4);
        struct tool_nodes_answer answer;
        struct tool_scale_result result;
        job.no_contents = true;
        assert_int_equal(tool_nodes_way(&q, &answer), 0);
        assert_int_equal(answer.nodes, 40);
        assert_int_equal(tool_scale_collective(&job, rows[i].simulated, &result), 0);
        if (answer.us < 0.9 * result.us || answer.us > 1.1 * result.us)
            fail_msg("%s of %llu bytes: %.1f us, and %.1f of all nodes", rows[i].name,
                     (unsigned long long)rows[i].bytes, answer.us, result.us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pe_has_the_right_bits),
        cmocka_unit_test(packed_blocks_have_the_right_bits),
        cmocka_unit_test(steps_send_each_block_once),
        cmocka_unit_test(small_reductions_take_the_buffer),
        cmocka_unit_test(the_smallest_reductions_are_packets),
        cmocka_unit_test(a_gather_takes_the_time_of_the_links),
        cmocka_unit_test(large_blocks_pass_through_relays),
        cmocka_unit_test(times_of_many_nodes_follow_from_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
