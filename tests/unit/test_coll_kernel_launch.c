/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory: which kernel is launched, with which arguments and in how many rounds,
 * and the result if a call fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/coll_kernel.h"

/* -------------------------------------------------------------------------------------- kernels */

static void each_way_has_its_kernels(void **state)
{
    (void)state;
    const struct {
        enum coll_algorithm way;
        enum coll_what what;
        enum coll_kernel kernel;
        weft_type type;
        weft_op op;
        uint64_t element;
        int phases;
        uint32_t chunks;
    } rows[] = {
#define KERNEL(name) COLL_weft_coll_##name, WEFT_FLOAT, WEFT_SUM, 0, 0, 0
        {COLL_ALGO_TWO_SHOT_LL128, COLL_ALLREDUCE, KERNEL(reduce_two_lines)},
        {COLL_ALGO_LL128, COLL_ALLREDUCE, KERNEL(reduce_one_lines)},
        {COLL_ALGO_LL128, COLL_ALLTOALL, KERNEL(send_lines)},
        {COLL_ALGO_STAGED, COLL_COLLECT, KERNEL(sized_scratch)},
        {COLL_ALGO_SIMPLE, COLL_COLLECT, KERNEL(push_sized)},
        {COLL_ALGO_SIMPLE, COLL_ALLTOALLV, KERNEL(push_sized)},
        {COLL_ALGO_STAGED, COLL_BROADCAST, KERNEL(push_scratch)},
        {COLL_ALGO_STAGED, COLL_REDUCE, KERNEL(reduce_scratch)},
        {COLL_ALGO_TWO_SHOT_LL, COLL_ALLREDUCE, KERNEL(reduce_two)},
        {COLL_ALGO_LL, COLL_BROADCAST, KERNEL(send)},
        {COLL_ALGO_LL, COLL_REDUCESCATTER, KERNEL(reduce_one)},
        {COLL_ALGO_SIMPLE, COLL_ALLREDUCE, KERNEL(combine)},
        {COLL_ALGO_SIMPLE, COLL_BROADCAST, KERNEL(push)},
#undef KERNEL
#define KERNEL(name, type, op) COLL_weft_coll_##name, type, op, 0, 0, 0
        {COLL_ALGO_STAGED, COLL_ALLREDUCE, KERNEL(reduce_scratch_more, WEFT_FLOAT, WEFT_AVG)},
        {COLL_ALGO_STAGED, COLL_ALLREDUCE, KERNEL(reduce_scratch_more, WEFT_FP8_E5M2, WEFT_SUM)},
        {COLL_ALGO_TWO_SHOT_LL, COLL_ALLREDUCE,
         KERNEL(reduce_two_more, WEFT_FLOAT, WEFT_DEV_SCALED)},
        {COLL_ALGO_LL, COLL_REDUCE, KERNEL(reduce_one_more, WEFT_FLOAT, WEFT_AVG)},
        {COLL_ALGO_LL, COLL_BROADCAST, KERNEL(send, WEFT_FP8_E4M3, WEFT_AVG)},
        {COLL_ALGO_SIMPLE, COLL_REDUCESCATTER, KERNEL(combine_more, WEFT_FLOAT, WEFT_AVG)},
        {COLL_ALGO_SIMPLE, COLL_ALLREDUCE, KERNEL(combine, WEFT_HALF, WEFT_PROD)},
#undef KERNEL
#define KERNEL(name, element, phases, chunks)                                                      \
    COLL_weft_coll_##name, WEFT_FLOAT, WEFT_SUM, element, phases, chunks
        {COLL_ALGO_STAGED, COLL_ALLTOALL, KERNEL(push_strided_scratch, 4, 0, 0)},
        {COLL_ALGO_LL, COLL_ALLTOALL, KERNEL(send_strided, 4, 0, 0)},
        {COLL_ALGO_SIMPLE, COLL_ALLTOALL, KERNEL(push_strided, 4, 0, 0)},
        {COLL_ALGO_STAGED, COLL_BROADCAST, KERNEL(spread_scratch, 0, 2, 0)},
        {COLL_ALGO_STAGED, COLL_BROADCAST, KERNEL(push_scratch, 0, 1, 0)},
        {COLL_ALGO_SIMPLE, COLL_BROADCAST, KERNEL(spread, 0, 0, 7)},
#undef KERNEL
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(rows[i].what, GPU_HEAP, OWN_GPU, 64 + 16 * i);
        ask.reduction = combiner_of(rows[i].type, rows[i].op);
        ask.element = rows[i].element;
        ask.dst_stride = ask.src_stride = 2;
        beneath.choice.algorithm = rows[i].way;
        beneath.choice.phases = rows[i].phases;
        beneath.choice.chunks = rows[i].chunks;
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        assert_int_equal(beneath.launches, 1);
        if (beneath.launched[0].kernel != rows[i].kernel)
            fail_msg("row %zu launches kernel %d", i, (int)beneath.launched[0].kernel);
        assert_int_equal(beneath.launched[0].call.chunks, rows[i].chunks);
        assert_int_equal(beneath.launched[0].blocks, 4);
        assert_int_equal(beneath.launched[0].threads, 512);
        assert_ptr_equal(beneath.launched[0].stream, 0x55);
    }
}

static void a_kernel_is_given_the_call(void **state)
{
    (void)state;
    job.checking = false;
    struct coll_request ask = ask_of(COLL_REDUCE, GPU_HEAP + 0x3000, OWN_GPU + 0x40, 4096);
    ask.root = OTHER_MEMBER;
    ask.reduction = combiner_of(WEFT_DOUBLE, WEFT_MAX);
    ask.reduction.factor = 2.5;
    ask.reduction.factor_at = (const void *)OWN_GPU;
    ask.reduction.weighted = true;
    ask.dst_bytes = 777;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
    const struct coll_call *call = &beneath.launched[0].call;
    assert_int_equal(call->area, coll_area_offset(&gpu.layout.coll, 5));
    assert_ptr_equal(call->dst, GPU_HEAP + 0x3000);
    assert_ptr_equal(call->src, OWN_GPU + 0x40);
    assert_int_equal(call->to, 0x3000);
    assert_int_equal(call->from, OWN_GPU + 0x40 - GPU_HEAP);
    assert_int_equal(call->bytes, 4096);
    assert_int_equal(call->set_bytes, COLL_NARROW_SET);
    assert_int_equal(call->members, MEMBERS);
    assert_int_equal(call->me, ME);
    assert_int_equal(call->root, OTHER_MEMBER);
    assert_int_equal(call->flow, COLL_TO);
    assert_int_equal(call->record.team, 5);
    assert_int_equal(call->record.operation, WEFT_DEV_OP_ALLREDUCE);
    assert_int_equal(call->reduction.type, WEFT_DOUBLE);
    assert_int_equal(call->reduction.op, WEFT_MAX);
    assert_true(call->reduction.factor == 2.5);
    assert_ptr_equal(call->reduction.factor_at, OWN_GPU);
    assert_int_equal(call->reduction.weighted, 1);
    assert_int_equal(call->reduction.everywhere, 0);
    assert_int_equal(call->sized.room, 777);
    assert_int_equal(call->checking.on, 0);
    assert_int_equal(call->record.reporting.limit_ns, 12345);
    const CUdeviceptr parts[] = {0x80000000, GPU_HEAP, 0x90000000};
    for (int i = 0; i < MEMBERS; i++) {
        assert_ptr_equal(call->part[i], parts[i]);
        assert_int_equal(call->record.pe[i], pes[i]);
    }
    assert_null(call->part[MEMBERS]);
    assert_int_equal(beneath.quiets, 1);
    assert_int_equal(beneath.modes, 2);
}

static void steps_are_those_of_blocks(void **state)
{
    (void)state;
    static const struct {
        enum coll_what what;
        bool from, to, has_root, everywhere;
    } rows[] = {
        {COLL_BROADCAST, false, false, true, false},    {COLL_ALLGATHER, false, true, false, false},
        {COLL_ALLTOALL, true, true, false, false},      {COLL_GATHER, false, true, true, false},
        {COLL_SCATTER, true, false, true, false},       {COLL_ALLREDUCE, false, false, false, true},
        {COLL_REDUCESCATTER, true, false, false, false}};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(rows[i / 2].what, GPU_HEAP, OWN_GPU, 48);
        bool strided = i % 2;
        ask.element = strided ? 2 : 0;
        ask.src_stride = 3;
        ask.dst_stride = 5;
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        const struct coll_call *call = &beneath.launched[0].call;
        assert_int_equal(call->src_step, rows[i / 2].from ? strided ? 144 : 48 : 0);
        assert_int_equal(call->dst_step, rows[i / 2].to ? strided ? 240 : 48 : 0);
        assert_int_equal(call->strided.src_apart, strided ? 6 : 0);
        assert_int_equal(call->strided.dst_apart, strided ? 10 : 0);
        assert_int_equal(call->root, rows[i / 2].has_root ? ME : -1);
        assert_int_equal(call->reduction.everywhere, rows[i / 2].everywhere);
    }
}

static void the_grain_divides_elements_and_addresses(void **state)
{
    (void)state;
    static const struct {
        uint64_t element;
        uintptr_t dst, src;
        uint32_t grain;
    } rows[] = {{16, 0, 0, 8}, {8, 0, 16, 8}, {12, 0, 0, 4},
                {16, 4, 0, 4}, {16, 8, 2, 2}, {16, 0, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask =
            ask_of(COLL_ALLTOALL, GPU_HEAP + rows[i].dst, OWN_GPU + rows[i].src, 48);
        ask.element = rows[i].element;
        ask.src_stride = ask.dst_stride = 2;
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        assert_int_equal(beneath.launched[0].call.strided.grain, rows[i].grain);
    }
}

static void the_room_of_a_collect_ends_with_its_memory(void **state)
{
    (void)state;
    const struct {
        uintptr_t dst;
        CUdeviceptr start;
        size_t bytes;
        bool no_start, no_range;
        uint64_t room;
    } rows[] = {
        {GPU_HEAP + 0x100, 0, 0, false, false, GPU_BACKED - 0x100},
        {OWN_GPU + 0x100, OWN_GPU, 0x1000, false, false, 0xf00},
        {OWN_GPU + 0xfff, OWN_GPU, 0x1000, false, false, 1},
        {OWN_GPU + 0x1000, OWN_GPU, 0x1000, false, false, UINT64_MAX},
        {OWN_GPU + 0x100, OWN_GPU, 0x1000, true, false, UINT64_MAX},
        {OWN_GPU + 0x100, OWN_GPU, 0x1000, false, true, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(COLL_COLLECT, rows[i].dst, OWN_GPU, 48);
        beneath.allocation = rows[i].start;
        beneath.allocation_bytes = rows[i].bytes;
        beneath.no_start = rows[i].no_start;
        beneath.no_range = rows[i].no_range;
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        assert_int_equal(beneath.launched[0].call.sized.room, rows[i].room);
    }
}

static void the_question_names_what_the_choice_depends_on(void **state)
{
    (void)state;
    const uintptr_t odd = GPU_HEAP + 4;
    const struct {
        enum coll_what what;
        uintptr_t dst, src;
        weft_type type;
        bool direct, lines;
    } rows[] = {
        {COLL_ALLGATHER, GPU_HEAP, OWN_GPU, WEFT_FLOAT, true, true},
        {COLL_ALLGATHER, OWN_GPU, GPU_HEAP, WEFT_FLOAT, false, true},
        {COLL_ALLGATHER, GPU_HEAP + GPU_HEAP_BYTES, GPU_HEAP, WEFT_FLOAT, false, true},
        {COLL_ALLGATHER, GPU_HEAP + 1, OWN_GPU, WEFT_COMPLEX_DOUBLE, true, true},
        {COLL_ALLREDUCE, GPU_HEAP, OWN_GPU, WEFT_FLOAT, false, true},
        {COLL_ALLREDUCE, GPU_HEAP, GPU_HEAP + 64, WEFT_FLOAT, true, true},
        {COLL_ALLREDUCE, odd, GPU_HEAP + 64, WEFT_FLOAT, true, true},
        {COLL_ALLREDUCE, odd, GPU_HEAP + 64, WEFT_DOUBLE, false, true},
        {COLL_ALLREDUCE, GPU_HEAP + 64, odd, WEFT_DOUBLE, false, true},
        {COLL_ALLREDUCE, GPU_HEAP + 64, GPU_HEAP + 2, WEFT_FLOAT, false, true},
        {COLL_ALLREDUCE, GPU_HEAP + 8, GPU_HEAP + 64, WEFT_COMPLEX_DOUBLE, true, false},
        {COLL_ALLREDUCE, odd, GPU_HEAP + 64, WEFT_COMPLEX_DOUBLE, false, false},
        {COLL_ALLREDUCE, GPU_HEAP + 1, GPU_HEAP + 64, WEFT_FP8_E4M3, true, false},
    };
    team.slot = 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(rows[i].what, rows[i].dst, rows[i].src, 48);
        ask.reduction = combiner_of(rows[i].type, WEFT_SUM);
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        const struct coll_question *q = &beneath.question;
        if (q->direct != rows[i].direct || q->ll128 != rows[i].lines)
            fail_msg("row %zu: %d %d", i, q->direct, q->ll128);
        assert_int_equal(q->what, rows[i].what);
        assert_int_equal(q->members, MEMBERS);
        assert_int_equal(q->bytes, 48);
        assert_int_equal(q->set_bytes, COLL_WIDE_SET);
        assert_false(q->strided);
        assert_false(q->checked);
    }
    struct coll_request ask = ask_of(COLL_ALLTOALL, GPU_HEAP, OWN_GPU, 48);
    ask.element = 1;
    ask.reduction.op = WEFT_AVG;
    job.checking = true;
    coll_kernel_choice(&team, &ask, false);
    assert_true(beneath.question.strided && beneath.question.checked && beneath.question.ll128);
    /* the same question again has the same answer, without a new choice */
    beneath.question.bytes = 1;
    beneath.choice.blocks++;
    assert_int_equal(coll_kernel_choice(&team, &ask, false).blocks, beneath.choice.blocks - 1);
    assert_int_equal(beneath.question.bytes, 1);
    assert_int_equal(coll_kernel_choice(&team, &ask, true).blocks, beneath.choice.blocks);
    assert_int_equal(beneath.question.bytes, 48);
}

/* --------------------------------------------------------------------------------------- rounds */

static void what_is_too_much_for_one_round_goes_in_several(void **state)
{
    (void)state;
    struct coll_request ask = ask_of(COLL_BROADCAST, GPU_HEAP, OWN_GPU, 250);
    beneath.choice = (struct coll_choice){COLL_ALGO_LL, 100, 2, 64, 0, 0, 1};
    for (int strided = 0; strided < 2; strided++) {
        ask.element = strided ? 2 : 0;
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        assert_int_equal(beneath.launches, 3);
        for (unsigned i = 0; i < 3; i++) {
            const struct coll_call *call = &beneath.launched[i].call;
            assert_int_equal(call->strided.first, 100 * i);
            assert_int_equal(call->bytes, i == 2 ? 50 : 100);
            assert_ptr_equal(call->dst, GPU_HEAP + (strided ? 0 : 100 * i));
            assert_ptr_equal(call->src, OWN_GPU + (strided ? 0 : 100 * i));
        }
    }
    beneath.launches = 0;
    beneath.launch_fails_in = 1;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.launches, 2);
}

static void the_rest_of_slices_is_chosen_anew(void **state)
{
    (void)state;
    static const enum coll_algorithm ways[] = {COLL_ALGO_TWO_SHOT_LL, COLL_ALGO_TWO_SHOT_LL128};
    for (int i = 0; i < 2; i++) {
        struct coll_request ask = ask_of(COLL_ALLREDUCE, GPU_HEAP, OWN_GPU, 250);
        beneath.choice = (struct coll_choice){ways[i], 100, 2, 64, 0, 0, 1};
        beneath.launches = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        assert_int_equal(beneath.question.bytes, 50);
        assert_int_equal(beneath.launches, 3);
        const struct coll_call *rest = &beneath.launched[2].call;
        assert_int_equal(beneath.launched[1].call.strided.first, 100);
        assert_int_equal(rest->strided.first, 0);
        assert_int_equal(rest->bytes, 50);
        assert_ptr_equal(rest->dst, GPU_HEAP + 200);
        assert_ptr_equal(rest->src, OWN_GPU + 200);
        assert_int_equal(rest->to, 200);
        assert_ptr_equal(beneath.launched[2].stream, 0x55);
    }
}

static void one_member_copies(void **state)
{
    (void)state;
    team.n = 1;
    team.me = 0;
    pes[0] = 2;
    const struct {
        enum coll_what what;
        uintptr_t src;
        uint64_t bytes, element;
        weft_op op;
        int copies, launches;
    } rows[] = {{COLL_BROADCAST, OWN_GPU, 48, 0, WEFT_SUM, 1, 0},
                {COLL_ALLREDUCE, OWN_GPU, 48, 0, WEFT_SUM, 1, 0},
                {COLL_ALLREDUCE, GPU_HEAP, 48, 0, WEFT_SUM, 0, 0},
                {COLL_ALLREDUCE, OWN_GPU, 48, 0, WEFT_AVG, 0, 1},
                {COLL_ALLTOALL, OWN_GPU, 48, 8, WEFT_SUM, 0, 1},
                {COLL_ALLTOALLV, OWN_GPU, 48, 0, WEFT_SUM, 0, 1},
                {COLL_COLLECT, OWN_GPU, 48, 0, WEFT_SUM, 1, 0},
                {COLL_COLLECT, OWN_GPU, GPU_BACKED, 0, WEFT_SUM, 1, 0},
                {COLL_COLLECT, OWN_GPU, GPU_BACKED + 1, 0, WEFT_SUM, 0, 1},
                {COLL_BROADCAST, OWN_GPU, GPU_BACKED + 1, 0, WEFT_SUM, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(rows[i].what, GPU_HEAP, rows[i].src, rows[i].bytes);
        ask.element = rows[i].element;
        ask.reduction.op = rows[i].op;
        beneath.launches = beneath.copies = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
        if (beneath.copies != rows[i].copies || beneath.launches != rows[i].launches)
            fail_msg("row %zu: %d copies, %d launches", i, beneath.copies, beneath.launches);
        if (!beneath.copies)
            continue;
        assert_ptr_equal(beneath.copy_dst, GPU_HEAP);
        assert_ptr_equal(beneath.copy_src, rows[i].src);
        assert_int_equal(beneath.copy_bytes, rows[i].bytes);
        assert_ptr_equal(beneath.copy_stream, 0x55);
    }
    struct coll_request ask = ask_of(COLL_BROADCAST, GPU_HEAP, OWN_GPU, 48);
    beneath.fails = CALL_COPY;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_ERR_SYSTEM);
}

static void copy_engines_may_make_streams_during_a_capture(void **state)
{
    (void)state;
    struct coll_request ask = ask_of(COLL_BROADCAST, GPU_HEAP, OWN_GPU, 48);
    beneath.choice = (struct coll_choice){COLL_ALGO_ENGINES, 48, 1, 32, 0, 2, 1};
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
    assert_int_equal(beneath.engines, 1);
    assert_int_equal(beneath.launches, 0);
    assert_int_equal(beneath.phases, 2);
    assert_int_equal(beneath.engine_threads, 32);
    assert_ptr_equal(beneath.launched[0].stream, 0x55);
    assert_int_equal(beneath.modes, 4);
    beneath.fails = CALL_ENGINES;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.mode, 0);
    /* A driver without cuThreadExchangeStreamCaptureMode. */
    beneath.fails = CALL_NONE;
    gpu.driver.ThreadExchangeStreamCaptureMode = NULL;
    beneath.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
    beneath.mode = 0;
}

static void checking_mode_compares_members_first(void **state)
{
    (void)state;
    job.checking = true;
    struct coll_request ask = ask_of(COLL_REDUCE, GPU_HEAP, OWN_GPU, 4096);
    ask.reduction = combiner_of(WEFT_DOUBLE, WEFT_DEV_SCALED);
    ask.reduction.weighted = true;
    ask.root = OTHER_MEMBER;
    beneath.choice.chunks = 3;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
    assert_int_equal(beneath.launches, 2);
    const struct launched *check = beneath.launched;
    assert_int_equal(check->kernel, COLL_weft_coll_check);
    assert_int_equal(check->blocks, 1);
    assert_int_equal(check->threads, 64);
    assert_ptr_equal(check->stream, 0x55);
    assert_int_equal(check->call.flow, COLL_ALL);
    assert_int_equal(check->call.checking.header[COLL_HEADER_KIND],
                     WEFT_DEV_OP_ALLREDUCE | WEFT_DOUBLE << 8 | 101 << 16 |
                         (uint64_t)(OTHER_MEMBER + 1) << 24 | (uint64_t)MEMBERS << 40);
    assert_int_equal(check->call.checking.header[COLL_HEADER_BYTES], 4096);
    assert_int_equal(check->call.checking.header[COLL_HEADER_DETAIL], 0);
    assert_int_equal(check->call.checking.header[COLL_HEADER_ALGORITHM],
                     (uint64_t)COLL_weft_coll_combine_more << 32 | 4 << 16 | 512);
    assert_int_equal(beneath.launched[1].kernel, COLL_weft_coll_combine_more);
    assert_int_equal(beneath.launched[1].call.flow, COLL_TO);
    assert_int_equal(beneath.launched[1].call.checking.on, 1);

    beneath.launches = 0;
    ask = ask_of(COLL_ALLTOALL, GPU_HEAP, OWN_GPU, 48);
    ask.element = 4;
    ask.dst_stride = 6;
    ask.src_stride = ((uint64_t)1 << 32) + 7;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
    assert_int_equal(check->call.checking.header[COLL_HEADER_DETAIL], (uint64_t)6 << 32 | 7);
    assert_int_equal(check->call.checking.header[COLL_HEADER_KIND] >> 24 & 0xffff, 0);

    beneath.launches = 0; /* the members have different sizes */
    ask = ask_of(COLL_COLLECT, GPU_HEAP, OWN_GPU, 48);
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_OK);
    assert_int_equal(check->call.checking.header[COLL_HEADER_BYTES], 0);
    assert_int_equal(beneath.launches, 2);
    assert_int_equal(beneath.launched[1].call.bytes, 48);

    beneath.launches = 0;
    beneath.launch_fails_in = 0;
    assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.launches, 1);
}

/* ------------------------------------------------------------------------------------- failures */

static void nothing_is_launched_behind_a_failure(void **state)
{
    (void)state;
    static const enum call steps[] = {CALL_READY, CALL_QUIET, CALL_ENTER};
    struct coll_request ask = ask_of(COLL_BROADCAST, GPU_HEAP, OWN_GPU, 48);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        beneath.fails = steps[i];
        beneath.quiets = 0;
        assert_int_equal(coll_kernel_enqueue(&team, &ask, (weft_stream)0x55), WEFT_ERR_SYSTEM);
        assert_int_equal(beneath.launches, 0);
        assert_int_equal(beneath.quiets, i > 0);
        assert_int_equal(beneath.mode, 0);
        beneath.quiets = 0;
        assert_int_equal(coll_kernel_run(&team, &ask), WEFT_ERR_SYSTEM);
        assert_int_equal(beneath.launches, 0);
        assert_int_equal(beneath.quiets, i > 0);
        assert_int_equal(beneath.waits, 0);
    }
}

static void the_host_waits_for_its_own_stream(void **state)
{
    (void)state;
    struct coll_request ask = ask_of(COLL_BROADCAST, GPU_HEAP, OWN_GPU, 48);
    ask.send_bytes = (const uint64_t *)PLAIN;
    assert_int_equal(coll_kernel_run(&team, &ask), WEFT_OK);
    assert_int_equal(beneath.launches, 1);
    assert_ptr_equal(beneath.launched[0].stream, gpu_coll.stream);
    assert_ptr_equal(beneath.launched[0].call.sized.counts,
                     PLAIN); /* only alltoallv copies the sizes */
    assert_int_equal(beneath.waits, 1);
    assert_int_equal(beneath.sizes, 0);
    assert_int_equal(beneath.exchanges, 1);
    beneath.fails = CALL_CHECK_FAILED;
    assert_int_equal(coll_kernel_run(&team, &ask), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "call 13 failed");
    beneath.fails = CALL_WAIT;
    assert_int_equal(coll_kernel_run(&team, &ask), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "call 12 failed");
    assert_int_equal(beneath.exchanges, 1);
}

static void sizes_of_the_host_are_copied_where_the_kernel_reads_them(void **state)
{
    (void)state;
    struct coll_request ask = ask_of(COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0);
    ask.send_bytes = (const uint64_t *)PLAIN;
    ask.send_at = (const uint64_t *)OWN_GPU;
    ask.recv_bytes = (const uint64_t *)(PLAIN + 16);
    ask.recv_at = (const uint64_t *)(PLAIN + 24);
    ask.dst_bytes = 99;
    assert_int_equal(coll_kernel_run(&team, &ask), WEFT_OK);
    const struct coll_call *call = &beneath.launched[0].call;
    assert_ptr_equal(call->sized.counts, PINNED + 0x100);
    assert_ptr_equal(call->sized.src_at, OWN_GPU);
    assert_ptr_equal(call->sized.room_of, PINNED + 0x300);
    assert_ptr_equal(call->sized.dst_at, PINNED + 0x400);
    assert_int_equal(call->sized.room, 99);
    assert_int_equal(beneath.sizes, 3);
    assert_ptr_equal(ask.send_bytes, PLAIN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_way_has_its_kernels),
        TEST(a_kernel_is_given_the_call),
        TEST(steps_are_those_of_blocks),
        TEST(the_grain_divides_elements_and_addresses),
        TEST(the_room_of_a_collect_ends_with_its_memory),
        TEST(the_question_names_what_the_choice_depends_on),
        TEST(what_is_too_much_for_one_round_goes_in_several),
        TEST(the_rest_of_slices_is_chosen_anew),
        TEST(one_member_copies),
        TEST(copy_engines_may_make_streams_during_a_capture),
        TEST(checking_mode_compares_members_first),
        TEST(nothing_is_launched_behind_a_failure),
        TEST(the_host_waits_for_its_own_stream),
        TEST(sizes_of_the_host_are_copied_where_the_kernel_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
