/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on GPU memory: which memory is accepted as source and destination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/coll/memory.h"
#include "tests/unit/coll_kernel.h"

/* --------------------------------------------------------------------------------------- memory */

static void memory_of_gpu_or_symmetric_memory_is_accepted(void **state)
{
    (void)state;
    const uintptr_t end = GPU_HEAP + GPU_BACKED, host_end = HOST_HEAP + HOST_HEAP_BYTES;
    static const weft_status range = WEFT_ERR_RANGE, address = WEFT_ERR_ADDRESS;
    const struct {
        enum coll_what what;
        uintptr_t dst, src;
        uint64_t bytes;
        int root;
        weft_status status;
        bool host;
        const char *words;
    } rows[] = {
        {COLL_ALLREDUCE, GPU_HEAP, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLREDUCE, GPU_HEAP, HOST_HEAP, 64, -1, WEFT_OK, true, NULL},
        {COLL_ALLREDUCE, HOST_HEAP, GPU_HEAP, 64, -1, WEFT_OK, true, NULL},
        {COLL_ALLREDUCE, PINNED, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLREDUCE, GPU_HEAP, PLAIN, 64, -1, address, false, "src (0x50000000) is neither"},
        {COLL_ALLREDUCE, PLAIN, OWN_GPU, 64, -1, address, false, "dst (0x50000000) is neither"},
        {COLL_ALLREDUCE, 0, OWN_GPU, 64, -1, WEFT_ERR_ARGUMENT, false, "dst is null"},
        {COLL_ALLREDUCE, OWN_GPU, 0, 64, -1, WEFT_ERR_ARGUMENT, false, "src is null"},
        {COLL_ALLREDUCE, end - 64, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLREDUCE, end - 63, OWN_GPU, 64, -1, range, false, "argument dst"},
        {COLL_ALLREDUCE, OWN_GPU, end - 63, 64, -1, range, false, "argument src"},
        {COLL_ALLREDUCE, host_end - 64, OWN_GPU, 64, -1, WEFT_OK, true, NULL},
        /* A member that is not the root uses only the source or only the destination in some
         * collectives. */
        {COLL_REDUCE, PLAIN, OWN_GPU, 64, OTHER_MEMBER, WEFT_OK, false, NULL},
        {COLL_REDUCE, PLAIN, OWN_GPU, 64, ME, address, false, "dst"},
        {COLL_REDUCE, OWN_GPU, PLAIN, 64, OTHER_MEMBER, address, false, "src"},
        {COLL_SCATTER, OWN_GPU, PLAIN, 64, OTHER_MEMBER, WEFT_OK, false, NULL},
        {COLL_SCATTER, OWN_GPU, PLAIN, 64, ME, address, false, "src"},
        {COLL_SCATTER, PLAIN, OWN_GPU, 64, OTHER_MEMBER, address, false, "dst"},
        {COLL_BROADCAST, OWN_GPU, PLAIN, 64, OTHER_MEMBER, address, false, "src"},
        /* Blocks of all members. */
        {COLL_ALLGATHER, end - 3 * 64, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLGATHER, end - 3 * 64 + 1, OWN_GPU, 64, -1, range, false, "argument dst"},
        {COLL_ALLGATHER, OWN_GPU, end - 64, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLGATHER, OWN_GPU, end - 63, 64, -1, range, false, "argument src"},
        {COLL_GATHER, end - 3 * 64, OWN_GPU, 64, ME, WEFT_OK, false, NULL},
        {COLL_GATHER, end - 3 * 64 + 1, OWN_GPU, 64, ME, range, false, "argument dst"},
        {COLL_GATHER, end - 64, OWN_GPU, 64, OTHER_MEMBER, WEFT_OK, false, NULL},
        {COLL_GATHER, end - 63, OWN_GPU, 64, OTHER_MEMBER, range, false, "argument dst"},
        {COLL_GATHER, OWN_GPU, end - 64, 64, ME, WEFT_OK, false, NULL},
        {COLL_ALLTOALL, end - 3 * 64, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLTOALL, end - 3 * 64 + 1, OWN_GPU, 64, -1, range, false, "argument dst"},
        {COLL_ALLTOALL, OWN_GPU, end - 3 * 64 + 1, 64, -1, range, false, "argument src"},
        {COLL_SCATTER, OWN_GPU, end - 3 * 64, 64, ME, WEFT_OK, false, NULL},
        {COLL_SCATTER, OWN_GPU, end - 3 * 64 + 1, 64, ME, range, false, "argument src"},
        {COLL_SCATTER, end - 64, OWN_GPU, 64, ME, WEFT_OK, false, NULL},
        {COLL_SCATTER, end - 63, OWN_GPU, 64, ME, range, false, "argument dst"},
        {COLL_REDUCESCATTER, end - 64, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_REDUCESCATTER, OWN_GPU, end - 3 * 64, 64, -1, WEFT_OK, false, NULL},
        {COLL_REDUCESCATTER, OWN_GPU, end - 3 * 64 + 1, 64, -1, range, false, "argument src"},
        {COLL_BROADCAST, end - 64, OWN_GPU, 64, ME, WEFT_OK, false, NULL},
        /* Source and destination may be equal if each thread reads what it overwrites; else they
         * must be disjoint. */
        {COLL_ALLREDUCE, OWN_GPU, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLREDUCE, OWN_GPU, OWN_GPU + 64, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLREDUCE, OWN_GPU + 64, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLREDUCE, OWN_GPU, OWN_GPU + 63, 64, -1, WEFT_ERR_ARGUMENT, false,
         "dst 0x30000000 (64 bytes) and src 0x3000003f (64 bytes) overlap; they must be "
         "disjoint or in place"},
        {COLL_ALLREDUCE, OWN_GPU + 63, OWN_GPU, 64, -1, WEFT_ERR_ARGUMENT, false, "overlap"},
        {COLL_ALLTOALL, OWN_GPU, OWN_GPU, 64, -1, WEFT_ERR_ARGUMENT, false,
         "they must be disjoint"},
        {COLL_ALLTOALL, OWN_GPU, OWN_GPU + 192, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLGATHER, OWN_GPU, OWN_GPU + 64, 64, -1, WEFT_OK, false, NULL},
        {COLL_ALLGATHER, OWN_GPU, OWN_GPU, 64, -1, WEFT_ERR_ARGUMENT, false, "overlap"},
        {COLL_ALLGATHER, OWN_GPU, OWN_GPU + 128, 64, -1, WEFT_ERR_ARGUMENT, false, "overlap"},
        {COLL_ALLGATHER, OWN_GPU, OWN_GPU + 192, 64, -1, WEFT_OK, false, NULL},
        {COLL_GATHER, OWN_GPU, OWN_GPU + 64, 64, ME, WEFT_OK, false, NULL},
        {COLL_GATHER, OWN_GPU, OWN_GPU, 64, ME, WEFT_ERR_ARGUMENT, false, "overlap"},
        {COLL_SCATTER, OWN_GPU + 64, OWN_GPU, 64, ME, WEFT_OK, false, NULL},
        {COLL_SCATTER, OWN_GPU, OWN_GPU, 64, ME, WEFT_ERR_ARGUMENT, false, "overlap"},
        {COLL_SCATTER, OWN_GPU, OWN_GPU, 64, OTHER_MEMBER, WEFT_OK, false, NULL},
        {COLL_REDUCESCATTER, OWN_GPU + 64, OWN_GPU, 64, -1, WEFT_OK, false, NULL},
        {COLL_REDUCESCATTER, OWN_GPU, OWN_GPU, 64, -1, WEFT_ERR_ARGUMENT, false, "overlap"},
        {COLL_REDUCE, OWN_GPU + 9, OWN_GPU, 64, OTHER_MEMBER, WEFT_OK, false, NULL},
        {COLL_REDUCE, OWN_GPU + 9, OWN_GPU, 64, ME, WEFT_ERR_ARGUMENT, false, "overlap"},
        /* Sizes. */
        {COLL_ALLREDUCE, OWN_GPU, PINNED, UINT64_MAX / 3 + 1, -1, range, false, "are too many"},
        {COLL_ALLREDUCE, OWN_GPU, PINNED, SIZE_MAX / 2 / 3 + 1, -1, range, false, "of 3 PEs are"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(rows[i].what, rows[i].dst, rows[i].src, rows[i].bytes);
        bool host = true;
        ask.root = rows[i].root;
        if (coll_kernel_memory(&team, &ask, &host) != rows[i].status)
            fail_msg("row %zu gives another status: %s", i, base_last_error());
        if (!rows[i].status)
            assert_int_equal(host, rows[i].host);
        if (rows[i].words && !strstr(base_last_error(), rows[i].words))
            fail_msg("row %zu says %s", i, base_last_error());
    }
}

/* Strided blocks end with their last element, without a gap after it. */
static void gaps_of_strided_blocks_count(void **state)
{
    (void)state;
    const uintptr_t end = GPU_HEAP + GPU_BACKED;
    static const size_t element = 4, dst_stride = 3, src_stride = 5, elements = 7;
    const size_t to = ((MEMBERS * elements - 1) * dst_stride + 1) * element,
                 from = ((MEMBERS * elements - 1) * src_stride + 1) * element;
    for (int i = 0; i < 4; i++) {
        struct coll_request ask =
            ask_of(COLL_ALLTOALL, i < 2 ? end - to + (uintptr_t)(i & 1) : OWN_GPU,
                   i < 2 ? OWN_GPU : end - from + (uintptr_t)(i & 1), elements * element);
        bool host;
        ask.element = element;
        ask.dst_stride = dst_stride;
        ask.src_stride = src_stride;
        assert_int_equal(coll_kernel_memory(&team, &ask, &host), i & 1 ? WEFT_ERR_RANGE : WEFT_OK);
    }
    /* The larger stride decides whether the size overflows. */
    for (int i = 0; i < 3; i++) {
        struct coll_request ask = ask_of(COLL_ALLTOALL, OWN_GPU, PINNED, 16);
        bool host;
        ask.element = i < 2 ? 8 : 0;
        ask.dst_stride = i == 1 ? 2 : (uint64_t)1 << 60;
        ask.src_stride = i == 1 ? (uint64_t)1 << 60 : 2;
        assert_int_equal(coll_kernel_memory(&team, &ask, &host), i == 2 ? WEFT_OK : WEFT_ERR_RANGE);
    }
    struct coll_request ask = ask_of(COLL_ALLTOALL, OWN_GPU, PINNED, 1);
    bool host;
    team.n = 2;
    ask.bytes = SIZE_MAX / 4; /* the largest size for two members */
    assert_int_equal(coll_kernel_memory(&team, &ask, &host), WEFT_ERR_ARGUMENT);
    ask.bytes++;
    assert_int_equal(coll_kernel_memory(&team, &ask, &host), WEFT_ERR_RANGE);
}

static void sized_ones_have_memory_of_the_gpu(void **state)
{
    (void)state;
    const uintptr_t end = GPU_HEAP + GPU_BACKED;
    const struct {
        enum coll_what what;
        uintptr_t dst, src;
        uint64_t bytes, room;
        int plain; /* the array in plain memory, -1 = none; from 4 on: the array that is NULL */
        weft_status status;
        const char *words;
    } rows[] = {
        {COLL_COLLECT, GPU_HEAP, OWN_GPU, 64, 0, -1, WEFT_OK, NULL},
        {COLL_COLLECT, end - 64, OWN_GPU, 64, 0, -1, WEFT_OK, NULL},
        {COLL_COLLECT, end - 63, OWN_GPU, 64, 0, -1, WEFT_ERR_RANGE, "argument dst"},
        {COLL_COLLECT, end - 1, PLAIN, 0, 0, -1, WEFT_OK, NULL}, /* this block is empty */
        {COLL_COLLECT, end, PLAIN, 0, 0, -1, WEFT_ERR_RANGE, "argument dst"},
        {COLL_COLLECT, HOST_HEAP, OWN_GPU, 64, 0, -1, WEFT_ERR_UNSUPPORTED,
         "symmetric host memory"},
        {COLL_COLLECT, HOST_HEAP + HOST_HEAP_BYTES - 1, OWN_GPU, 64, 0, -1, WEFT_ERR_RANGE,
         "argument dst"},
        {COLL_COLLECT, OWN_GPU, OWN_GPU, 64, 0, -1, WEFT_OK, NULL},
        {COLL_COLLECT, PLAIN, OWN_GPU, 64, 0, -1, WEFT_ERR_ADDRESS, "dst (0x50000000) is neither"},
        {COLL_COLLECT, 0, OWN_GPU, 64, 0, -1, WEFT_ERR_ARGUMENT, "dst is null"},
        {COLL_COLLECT, OWN_GPU, PLAIN, 1, 0, -1, WEFT_ERR_ADDRESS, "src (0x50000000) is no"},
        {COLL_COLLECT, OWN_GPU, PINNED, 1, 0, 0, WEFT_OK, NULL},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, -1, WEFT_OK, NULL},
        {COLL_ALLTOALLV, end - 64, OWN_GPU, 0, 64, -1, WEFT_OK, NULL},
        {COLL_ALLTOALLV, end - 63, OWN_GPU, 0, 64, -1, WEFT_ERR_RANGE, "argument dst"},
        {COLL_ALLTOALLV, end - 1, OWN_GPU, 0, 0, -1, WEFT_OK, NULL},
        {COLL_ALLTOALLV, end - 1, OWN_GPU, 0, 1, -1, WEFT_OK, NULL},
        {COLL_ALLTOALLV, end - 1, OWN_GPU, 64, 1, -1, WEFT_OK, NULL},
        {COLL_ALLTOALLV, GPU_HEAP, PLAIN, 0, 64, -1, WEFT_ERR_ADDRESS, "src"},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, 0, WEFT_ERR_ADDRESS, "send_bytes (0x50000000)"},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, 1, WEFT_ERR_ADDRESS, "send_at (0x50000000)"},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, 2, WEFT_ERR_ADDRESS, "recv_bytes (0x50000000)"},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, 3, WEFT_ERR_ADDRESS, "recv_at (0x50000000)"},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, 4, WEFT_ERR_ARGUMENT, "send_bytes is null"},
        {COLL_ALLTOALLV, GPU_HEAP, OWN_GPU, 0, 64, 7, WEFT_ERR_ARGUMENT, "recv_at is null"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct coll_request ask = ask_of(rows[i].what, rows[i].dst, rows[i].src, rows[i].bytes);
        const uint64_t **arrays[] = {&ask.send_bytes, &ask.send_at, &ask.recv_bytes, &ask.recv_at};
        bool host = true;
        ask.dst_bytes = rows[i].room;
        for (int k = 0; k < 4; k++)
            *arrays[k] = (const uint64_t *)(uintptr_t)(rows[i].plain == k       ? PLAIN
                                                       : rows[i].plain == k + 4 ? 0
                                                                                : OWN_GPU);
        if (coll_kernel_memory(&team, &ask, &host) != rows[i].status)
            fail_msg("row %zu gives another status: %s", i, base_last_error());
        assert_false(host);
        if (rows[i].words && !strstr(base_last_error(), rows[i].words))
            fail_msg("row %zu says %s", i, base_last_error());
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(memory_of_gpu_or_symmetric_memory_is_accepted),
        TEST(gaps_of_strided_blocks_count),
        TEST(sized_ones_have_memory_of_the_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
