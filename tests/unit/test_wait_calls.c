/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for and tests of own variables: which of several variables count, which value is seen, what
 * the waiter publishes, and what is rejected. A variable changes after this PE has read it
 * twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ops_job.h"

#include "job/waiter.h"

#include <stdio.h>

enum { AT = 128 };

static struct {
    bool failed, no_peek, no_access;
    int slow, left, device_waits, accesses, moved, progress, job_fails;
    int slow_fails_in; /* number of successful waits before one fails */
    struct waiter waiter;
    uint64_t seen, others;
    size_t changes; /* index of the variable that changes at the second wait */
    int64_t to;     /* its new value */
    size_t width;
    const void *waited_for;
    size_t waited_width;
    bool waited_signed;
} beneath;

static struct box box;
static struct box_wait wait_slot;

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return beneath.failed ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

weft_status __wrap_job_fail(struct weft_job *job, weft_status status, const char *sentence);
weft_status __wrap_job_fail(struct weft_job *job, weft_status status, const char *sentence)
{
    (void)sentence;
    assert_ptr_equal(job, &ops.job);
    beneath.job_fails++;
    beneath.failed = true;
    return status;
}

bool __wrap_job_progress(struct weft_job *job);
bool __wrap_job_progress(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    beneath.progress++;
    return false;
}

static uint64_t gpu_value(CUdeviceptr at, size_t width)
{
    uint64_t bits = 0;
    memcpy(&bits, ops_heaps[OPS_PE] + (at - OPS_GPU - OPS_GPU_SYSTEM), width);
    return bits;
}

bool __wrap_gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *bits);
bool __wrap_gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *bits)
{
    assert_ptr_equal(gpu, &ops.gpu);
    if (!beneath.no_peek)
        *bits = gpu_value(at, width);
    return !beneath.no_peek;
}

weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int op, size_t width,
                              uint64_t value, uint64_t expected, uint64_t *fetched);
weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int op, size_t width,
                              uint64_t value, uint64_t expected, uint64_t *fetched)
{
    assert_true(gpu == &ops.gpu && lane == 0 && op == GPU_ACCESS_LOAD && value == 0 &&
                expected == 0);
    beneath.accesses++;
    *fetched = gpu_value(at, width);
    return beneath.no_access ? base_fail(WEFT_ERR_SYSTEM, "no access") : WEFT_OK;
}

weft_status __wrap_access_wait_device(struct weft_ctx *ctx, struct waiter *waiter,
                                      const void *variable, size_t width, bool is_signed,
                                      uint64_t *seen);
weft_status __wrap_access_wait_device(struct weft_ctx *ctx, struct waiter *waiter,
                                      const void *variable, size_t width, bool is_signed,
                                      uint64_t *seen)
{
    assert_ptr_equal(ctx, &ops.ctx);
    assert_null(seen);
    beneath.device_waits++;
    beneath.waiter = *waiter;
    beneath.waited_for = variable;
    beneath.waited_width = width;
    beneath.waited_signed = is_signed;
    return beneath.device_waits > 1 ? WEFT_ERR_TIMEOUT : WEFT_OK;
}

weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen);
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen)
{
    beneath.slow++;
    beneath.waiter = *waiter;
    beneath.seen = seen;
    beneath.others = waiter->others;
    waiter->slot = &wait_slot;
    if (beneath.slow % 2 == 0)
        memcpy(ops_heaps[OPS_PE] + AT + beneath.changes * beneath.width, &beneath.to,
               beneath.width);
    return beneath.slow_fails_in-- ? WEFT_OK : base_fail(WEFT_ERR_TIMEOUT, "too long");
}

void __wrap_waiter_unpublish(struct waiter *waiter);
void __wrap_waiter_unpublish(struct waiter *waiter)
{
    assert_ptr_equal(waiter->slot, &wait_slot);
    beneath.left++;
}

static const weft_type types[] = {WEFT_INT16,  WEFT_INT32,  WEFT_INT64,
                                  WEFT_UINT16, WEFT_UINT32, WEFT_UINT64};
static const size_t widths[] = {2, 4, 8, 2, 4, 8};

static void begin(void)
{
    memset(&beneath, 0, sizeof beneath);
    beneath.slow_fails_in = -1;
    beneath.width = 4;
    ops_begin();
    memset(&box, 0, sizeof box);
    ops.job.box = &box;
}

static int set_up(void **state)
{
    (void)state;
    begin();
    return 0;
}

static int32_t *vars(void)
{
    return (int32_t *)(void *)(ops_heaps[OPS_PE] + AT);
}

static void put(size_t i, size_t width, int64_t value)
{
    memcpy(ops_heaps[OPS_PE] + AT + i * width, &value, width);
}

/* --------------------------------------------------------------------------------- one variable */

static void a_wait_sees_the_value_with_its_sign(void **state)
{
    (void)state;
    for (int t = 0; t < 6; t++) {
        begin();
        beneath.width = widths[t];
        beneath.to = 3;
        put(0, widths[t], -5);
        bool is_signed = t < 3;
        /* -5 is less than 2 if signed, and greater if unsigned. */
        assert_int_equal(weft_wait_until(&ops.ctx, types[t], vars(), WEFT_GT, 2), WEFT_OK);
        assert_int_equal(beneath.slow, is_signed ? 2 : 0);
        assert_int_equal(beneath.left, is_signed);
        if (is_signed) {
            assert_int_equal(beneath.seen, (uint64_t)-5);
            assert_int_equal(beneath.waiter.expected, 2);
            assert_int_equal(beneath.waiter.compare, WEFT_GT);
            assert_true(beneath.waiter.is_signed);
            assert_int_equal(beneath.waiter.segment, SEG_HEAP);
            assert_int_equal(beneath.waiter.offset, AT);
            assert_int_equal(beneath.waiter.operation, BOX_OP_WAIT);
            assert_int_equal(beneath.waiter.peer, -1);
        }
        begin();
        beneath.width = widths[t];
        put(0, widths[t], 7);
        beneath.slow_fails_in = 1;
        assert_int_equal(weft_wait_until(&ops.ctx, types[t], vars(), WEFT_EQ, 8), WEFT_ERR_TIMEOUT);
        assert_int_equal(beneath.slow, 2);
        assert_int_equal(beneath.left, 1);
        assert_int_equal(beneath.waiter.is_signed, is_signed);
    }
}

static void a_test_looks_once(void **state)
{
    (void)state;
    int result = 7;
    vars()[0] = 5;
    assert_int_equal(weft_test(&ops.ctx, WEFT_INT32, vars(), WEFT_GE, 5, &result), WEFT_OK);
    assert_int_equal(result, 1);
    assert_int_equal(box.steps, 1);
    assert_int_equal(beneath.progress, 0);
    assert_int_equal(weft_test(&ops.ctx, WEFT_INT32, vars(), WEFT_GT, 5, &result), WEFT_OK);
    assert_int_equal(result, 0);
    assert_int_equal(box.steps, 2);
    assert_int_equal(beneath.progress, 1);
    assert_int_equal(beneath.slow, 0);
    assert_int_equal(weft_test(&ops.ctx, WEFT_INT32, vars(), WEFT_GE, 5, NULL), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(), "weft_test: result is null");
    vars()[1] = vars()[0] = -1;
    assert_int_equal(weft_test(&ops.ctx, WEFT_INT32, vars(), WEFT_EQ, (uint64_t)-1, &result),
                     WEFT_OK);
    assert_int_equal(result, 1);
}

/* ---------------------------------------------------------------------------------- several */

static const int none_excluded[3] = {0, 0, 0}, first_excluded[3] = {1, 0, 0},
                 last_excluded[3] = {0, 0, 5}, all_excluded[3] = {1, 1, 1};

static void all_that_take_part_are_waited_for(void **state)
{
    (void)state;
    const int32_t wanted[3] = {1, 2, 3};
    static const struct {
        const int *status;
        int32_t values[3];
        bool holds;
    } rows[] = {{NULL, {1, 1, 1}, true},          {NULL, {1, 1, 0}, false},
                {NULL, {0, 1, 1}, false},         {first_excluded, {0, 1, 1}, true},
                {last_excluded, {1, 1, 0}, true}, {none_excluded, {1, 0, 1}, false},
                {all_excluded, {0, 0, 0}, true},  {last_excluded, {1, 0, 1}, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int vector = 0; vector < 2; vector++) {
            begin();
            int result = 7;
            for (int k = 0; k < 3; k++)
                vars()[k] = vector && rows[i].values[k] ? wanted[k] : rows[i].values[k];
            beneath.slow_fails_in = 0;
            weft_status waited = vector
                                     ? weft_wait_until_all_vector(&ops.ctx, WEFT_INT32, vars(), 3,
                                                                  rows[i].status, WEFT_EQ, wanted)
                                     : weft_wait_until_all(&ops.ctx, WEFT_INT32, vars(), 3,
                                                           rows[i].status, WEFT_EQ, 1);
            assert_int_equal(waited, rows[i].holds ? WEFT_OK : WEFT_ERR_TIMEOUT);
            if (!rows[i].holds) {
                int bad = 0;
                while (rows[i].values[bad] || (rows[i].status && rows[i].status[bad]))
                    bad++;
                assert_int_equal(beneath.waiter.offset, AT + 4 * bad);
                assert_int_equal(beneath.waiter.expected, vector ? wanted[bad] : 1);
                assert_int_equal(beneath.slow, 1);
            }
            assert_int_equal(vector ? weft_test_all_vector(&ops.ctx, WEFT_INT32, vars(), 3,
                                                           rows[i].status, WEFT_EQ, wanted, &result)
                                    : weft_test_all(&ops.ctx, WEFT_INT32, vars(), 3, rows[i].status,
                                                    WEFT_EQ, 1, &result),
                             WEFT_OK);
            assert_int_equal(result, rows[i].holds);
        }
}

static weft_status any(bool wait, bool vector, const int *status, size_t n, size_t *index)
{
    static const int32_t wanted[4] = {1, 1, 1, 1};
    if (vector)
        return wait ? weft_wait_until_any_vector(&ops.ctx, WEFT_INT32, vars(), n, status, WEFT_EQ,
                                                 wanted, index)
                    : weft_test_any_vector(&ops.ctx, WEFT_INT32, vars(), n, status, WEFT_EQ, wanted,
                                           index);
    return wait ? weft_wait_until_any(&ops.ctx, WEFT_INT32, vars(), n, status, WEFT_EQ, 1, index)
                : weft_test_any(&ops.ctx, WEFT_INT32, vars(), n, status, WEFT_EQ, 1, index);
}

static void one_of_several_is_enough_and_each_gets_its_turn(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        begin();
        bool wait = form & 1, vector = form & 2;
        size_t index;
        int found[3] = {0, 0, 0};
        for (int k = 0; k < 3; k++)
            vars()[k] = 1;
        vars()[3] = 1; /* beyond the end of the array */
        for (int turn = 0; turn < 6; turn++) {
            assert_int_equal(any(wait, vector, NULL, 3, &index), WEFT_OK);
            assert_true(index < 3);
            found[index]++;
        }
        assert_true(found[0] == 2 && found[1] == 2 && found[2] == 2);
        for (int turn = 0; turn < 3; turn++) {
            assert_int_equal(any(wait, vector, first_excluded, 3, &index), WEFT_OK);
            assert_true(index == 1 || index == 2);
        }
        assert_int_equal(any(wait, vector, all_excluded, 3, &index), WEFT_OK);
        assert_int_equal(index, WEFT_NONE);
        assert_int_equal(any(wait, vector, NULL, 0, &index), WEFT_OK);
        assert_int_equal(index, WEFT_NONE);
        assert_int_equal(box.steps, wait ? 0 : 11);
        assert_int_equal(beneath.slow + beneath.progress, 0);
        assert_int_equal(any(wait, vector, NULL, 3, NULL), WEFT_ERR_ARGUMENT);
    }
}

static void a_search_goes_on_until_one_is_found(void **state)
{
    (void)state;
    size_t index = 0;
    vars()[0] = 9;
    vars()[1] = -4;
    vars()[2] = 6;
    beneath.changes = 2;
    beneath.to = 1;
    assert_int_equal(any(false, false, first_excluded, 3, &index), WEFT_OK);
    assert_int_equal(index, WEFT_NONE);
    assert_int_equal(beneath.progress, 1);
    assert_int_equal(any(true, false, first_excluded, 3, &index), WEFT_OK);
    assert_int_equal(index, 2);
    assert_int_equal(beneath.slow, 2);
    assert_int_equal(beneath.left, 1);
    assert_int_equal(beneath.seen, (uint64_t)-4); /* value of the first variable that takes part */
    assert_int_equal(beneath.waiter.offset, AT + 4);
    assert_int_equal(beneath.waiter.expected, 1);
    uint64_t before = beneath.others;
    vars()[2] = 7; /* the combined value changes with each variable */
    beneath.slow_fails_in = 0;
    assert_int_equal(any(true, false, first_excluded, 3, &index), WEFT_ERR_TIMEOUT);
    assert_true(beneath.others != before);
    before = beneath.others;
    int32_t first = vars()[1];
    vars()[1] = vars()[2];
    vars()[2] = first; /* and with their order */
    beneath.slow = 0;
    beneath.slow_fails_in = 0;
    assert_int_equal(any(true, false, first_excluded, 3, &index), WEFT_ERR_TIMEOUT);
    assert_true(beneath.others != before);
    assert_int_equal(beneath.slow, 1);
    assert_int_equal(beneath.left, 3);
    assert_int_equal(index, WEFT_NONE);
}

static weft_status some(bool wait, bool vector, const int *status, size_t n, size_t *indices,
                        size_t *count)
{
    static const int32_t wanted[4] = {1, 1, 1, 1};
    if (vector)
        return wait ? weft_wait_until_some_vector(&ops.ctx, WEFT_INT32, vars(), n, indices, status,
                                                  WEFT_EQ, wanted, count)
                    : weft_test_some_vector(&ops.ctx, WEFT_INT32, vars(), n, indices, status,
                                            WEFT_EQ, wanted, count);
    return wait ? weft_wait_until_some(&ops.ctx, WEFT_INT32, vars(), n, indices, status, WEFT_EQ, 1,
                                       count)
                : weft_test_some(&ops.ctx, WEFT_INT32, vars(), n, indices, status, WEFT_EQ, 1,
                                 count);
}

static void all_that_hold_are_listed(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        begin();
        bool wait = form & 1, vector = form & 2;
        size_t indices[3] = {9, 9, 9}, count = 9;
        vars()[0] = vars()[2] = vars()[3] = 1;
        assert_int_equal(some(wait, vector, NULL, 3, indices, &count), WEFT_OK);
        assert_int_equal(count, 2);
        assert_true(indices[0] == 0 && indices[1] == 2 && indices[2] == 9);
        assert_int_equal(some(wait, vector, first_excluded, 3, indices, &count), WEFT_OK);
        assert_true(count == 1 && indices[0] == 2);
        assert_int_equal(some(wait, vector, all_excluded, 3, indices, &count), WEFT_OK);
        assert_int_equal(count, 0);
        assert_int_equal(some(wait, vector, NULL, 0, NULL, &count), WEFT_OK);
        assert_int_equal(count, 0);
        assert_int_equal(box.steps, wait ? 0 : 4);
        assert_int_equal(beneath.slow + beneath.progress, 0);
        assert_int_equal(some(wait, vector, NULL, 3, NULL, &count), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), ": indices is null"));
        assert_int_equal(some(wait, vector, NULL, 3, indices, NULL), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(base_last_error(), ": count is null"));
        /* None fulfils the condition at first. */
        vars()[0] = vars()[1] = vars()[2] = 5;
        beneath.changes = 1;
        beneath.to = 1;
        assert_int_equal(some(wait, vector, NULL, 3, indices, &count), WEFT_OK);
        assert_int_equal(count, wait);
        assert_int_equal(beneath.progress, !wait);
        assert_int_equal(beneath.left, wait);
        if (!wait)
            continue;
        assert_int_equal(indices[0], 1);
        assert_int_equal(beneath.seen, 5);
        vars()[1] = 5;
        beneath.slow_fails_in = 0;
        assert_int_equal(some(wait, vector, NULL, 3, indices, &count), WEFT_ERR_TIMEOUT);
        assert_int_equal(beneath.left, 2);
    }
}

/* ---------------------------------------------------------------------------------- GPU memory */

static void *gpu_vars(void)
{
    return (void *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM + AT);
}

static void the_gpu_reads_what_the_cpu_cannot(void **state)
{
    (void)state;
    int result;
    size_t index, indices[3], count;
    for (int peek = 0; peek < 2; peek++) {
        beneath.no_peek = !peek;
        beneath.accesses = 0;
        vars()[0] = -3;
        vars()[1] = 1;
        assert_int_equal(weft_test(&ops.ctx, WEFT_INT32, gpu_vars(), WEFT_LT, 0, &result), WEFT_OK);
        assert_int_equal(result, 1);
        assert_int_equal(
            weft_test_any(&ops.ctx, WEFT_INT32, gpu_vars(), 2, NULL, WEFT_EQ, 1, &index), WEFT_OK);
        assert_int_equal(index, 1);
        assert_int_equal(beneath.accesses > 0, !peek);
    }
    beneath.no_access = beneath.no_peek = true;
    assert_int_equal(weft_test(&ops.ctx, WEFT_INT32, gpu_vars(), WEFT_LT, 0, &result),
                     WEFT_ERR_PEER_DEAD);
    assert_int_equal(beneath.job_fails, 1);
    beneath.failed = false;
    assert_int_equal(weft_test_any(&ops.ctx, WEFT_INT32, gpu_vars(), 2, NULL, WEFT_EQ, 7, &index),
                     WEFT_ERR_PEER_DEAD);
    beneath.failed = false;
    assert_int_equal(
        weft_wait_until_any(&ops.ctx, WEFT_INT32, gpu_vars(), 2, NULL, WEFT_NE, 7, &index),
        WEFT_ERR_PEER_DEAD);
    beneath.failed = false;
    assert_int_equal(
        weft_test_some(&ops.ctx, WEFT_INT32, gpu_vars(), 2, indices, NULL, WEFT_EQ, 7, &count),
        WEFT_ERR_PEER_DEAD);
    beneath.failed = beneath.no_access = false;
    /* A read by the GPU is followed by a slow wait at once. */
    ops.job.waits.spin_between_polls = 1000;
    beneath.no_peek = false;
    beneath.slow_fails_in = 0;
    assert_int_equal(
        weft_wait_until_any(&ops.ctx, WEFT_INT32, gpu_vars(), 2, NULL, WEFT_EQ, 7, &index),
        WEFT_ERR_TIMEOUT);
    assert_int_equal(beneath.slow, 1);
    assert_int_equal(beneath.seen, (uint64_t)-3);
    beneath.slow_fails_in = 1;
    beneath.slow = 0;
    beneath.to = 7;
    assert_int_equal(weft_wait_until_some(&ops.ctx, WEFT_INT32, gpu_vars(), 2, indices, NULL,
                                          WEFT_EQ, 7, &count),
                     WEFT_ERR_TIMEOUT);
}

static void the_gpu_waits_for_single_variables(void **state)
{
    (void)state;
    assert_int_equal(weft_wait_until_all(&ops.ctx, WEFT_INT16, gpu_vars(), 3, first_excluded,
                                         WEFT_EQ, (uint64_t)-3),
                     WEFT_ERR_TIMEOUT);
    assert_int_equal(beneath.device_waits, 2);
    assert_ptr_equal(beneath.waited_for, (char *)gpu_vars() + 4);
    assert_int_equal(beneath.waited_width, 2);
    assert_true(beneath.waited_signed);
    assert_int_equal(beneath.waiter.segment, SEG_GPU);
    assert_int_equal(beneath.waiter.offset, OPS_GPU_SYSTEM + AT + 4);
    assert_int_equal(beneath.waiter.expected, (uint64_t)-3);
    assert_int_equal(weft_wait_until(&ops.ctx, WEFT_UINT64, gpu_vars(), WEFT_EQ, 3),
                     WEFT_ERR_TIMEOUT);
    assert_false(beneath.waited_signed);
    assert_int_equal(beneath.waited_width, 8);
}

/* ------------------------------------------------------------------------------------ arguments */

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    int result = 7;
    size_t index, count, indices[1];
    assert_int_equal(weft_wait_until(&ops.ctx, WEFT_INT8, vars(), WEFT_EQ, 1), WEFT_ERR_TYPE);
    assert_int_equal(weft_wait_until(&ops.ctx, WEFT_FLOAT, vars(), WEFT_EQ, 1), WEFT_ERR_TYPE);
    assert_int_equal(weft_wait_until(&ops.ctx, WEFT_INT32, vars(), WEFT_CMP_COUNT, 1), WEFT_ERR_OP);
    assert_int_equal(weft_wait_until(&ops.ctx, WEFT_INT32, (char *)vars() + 2, WEFT_EQ, 1),
                     WEFT_ERR_ALIGNMENT);
    assert_int_equal(weft_wait_until(&ops.ctx, WEFT_INT32, &result, WEFT_EQ, 7), WEFT_ERR_ADDRESS);
    assert_int_equal(weft_wait_until(NULL, WEFT_INT32, vars(), WEFT_EQ, 1), WEFT_ERR_ARGUMENT);
    const size_t most = (OPS_HEAP - AT) / 4;
    assert_int_equal(weft_test_all(&ops.ctx, WEFT_INT32, vars(), most, NULL, WEFT_EQ, 0, &result),
                     WEFT_OK);
    assert_int_equal(
        weft_test_all(&ops.ctx, WEFT_INT32, vars(), most + 1, NULL, WEFT_EQ, 0, &result),
        WEFT_ERR_RANGE);
    assert_int_equal(
        weft_test_all(&ops.ctx, WEFT_INT32, vars(), SIZE_MAX / 4 + 1, NULL, WEFT_EQ, 0, &result),
        WEFT_ERR_RANGE);
    assert_non_null(strstr(base_last_error(), "are too many"));
    assert_int_equal(weft_wait_until_all(&ops.ctx, WEFT_INT8, vars(), 3, NULL, WEFT_EQ, 1),
                     WEFT_ERR_TYPE);
    assert_int_equal(weft_test_any(&ops.ctx, WEFT_INT8, vars(), 3, NULL, WEFT_EQ, 1, &index),
                     WEFT_ERR_TYPE);
    assert_int_equal(
        weft_test_some(&ops.ctx, WEFT_INT8, vars(), 3, indices, NULL, WEFT_EQ, 1, &count),
        WEFT_ERR_TYPE);
    assert_int_equal(weft_test(&ops.ctx, WEFT_INT8, vars(), WEFT_EQ, 1, &result), WEFT_ERR_TYPE);
    assert_int_equal(beneath.slow + beneath.progress, 0);
}

static void vectors_are_needed_where_there_is_something_to_compare(void **state)
{
    (void)state;
    int result = 7;
    size_t index, count, indices[1];
    for (size_t n = 0; n < 2; n++) {
        weft_status status = n ? WEFT_ERR_ARGUMENT : WEFT_OK;
        assert_int_equal(
            weft_wait_until_all_vector(&ops.ctx, WEFT_INT32, vars(), n, NULL, WEFT_EQ, NULL),
            status);
        assert_int_equal(weft_wait_until_any_vector(&ops.ctx, WEFT_INT32, vars(), n, NULL, WEFT_EQ,
                                                    NULL, &index),
                         status);
        assert_int_equal(weft_wait_until_some_vector(&ops.ctx, WEFT_INT32, vars(), n, indices, NULL,
                                                     WEFT_EQ, NULL, &count),
                         status);
        assert_int_equal(
            weft_test_all_vector(&ops.ctx, WEFT_INT32, vars(), n, NULL, WEFT_EQ, NULL, &result),
            status);
        assert_int_equal(
            weft_test_any_vector(&ops.ctx, WEFT_INT32, vars(), n, NULL, WEFT_EQ, NULL, &index),
            status);
        assert_int_equal(weft_test_some_vector(&ops.ctx, WEFT_INT32, vars(), n, indices, NULL,
                                               WEFT_EQ, NULL, &count),
                         status);
    }
}

static void without_variables_the_context_is_checked_all_the_same(void **state)
{
    (void)state;
    assert_int_equal(weft_wait_until_all(&ops.ctx, WEFT_INT32, NULL, 0, NULL, WEFT_EQ, 1), WEFT_OK);
    assert_int_equal(weft_wait_until_all(NULL, WEFT_INT32, NULL, 0, NULL, WEFT_EQ, 1),
                     WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "ctx is null"));
    beneath.failed = true;
    assert_int_equal(weft_wait_until_all(&ops.ctx, WEFT_INT32, NULL, 0, NULL, WEFT_EQ, 1), WEFT_OK);
    ops.fault = 1;
    assert_int_equal(weft_wait_until_all(&ops.ctx, WEFT_INT32, NULL, 0, NULL, WEFT_EQ, 1),
                     WEFT_ERR_PEER_DEAD);
    ops.job.state = JOB_FINALIZED;
    assert_int_equal(weft_wait_until_all(&ops.ctx, WEFT_INT32, NULL, 0, NULL, WEFT_EQ, 1),
                     WEFT_ERR_FINALIZED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_wait_sees_the_value_with_its_sign),
        TEST(a_test_looks_once),
        TEST(all_that_take_part_are_waited_for),
        TEST(one_of_several_is_enough_and_each_gets_its_turn),
        TEST(a_search_goes_on_until_one_is_found),
        TEST(all_that_hold_are_listed),
        TEST(the_gpu_reads_what_the_cpu_cannot),
        TEST(the_gpu_waits_for_single_variables),
        TEST(wrong_arguments_are_refused),
        TEST(vectors_are_needed_where_there_is_something_to_compare),
        TEST(without_variables_the_context_is_checked_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
