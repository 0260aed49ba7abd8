/* SPDX-License-Identifier: Apache-2.0 */
/* Puts with signal and signals alone: what the CPU does, which path gets which call in which order,
 * how a PE reads and waits for its own signals, and what is rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ops_path.h"

#include "job/waiter.h"

enum { AT = 128, SIGNAL = 64, PEER = 2 };

static struct {
    bool failed, no_peek, slow_fails;
    int slow, left, device_waits, accesses;
    struct waiter waiter;
    uint64_t seen;
} beneath;

static char local[64];
static struct box_wait wait_slot;

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return beneath.failed ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    assert_ptr_equal(gpu, &ops.gpu);
    return ops_place_of(address);
}

bool __wrap_gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *bits);
bool __wrap_gpu_peek(struct gpu *gpu, CUdeviceptr at, size_t width, uint64_t *bits)
{
    assert_true(gpu == &ops.gpu && width == 8);
    assert_int_equal(at, OPS_GPU + OPS_GPU_SYSTEM + SIGNAL);
    *bits = 55;
    return !beneath.no_peek;
}

weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int operation,
                              size_t width, uint64_t value, uint64_t expected, uint64_t *fetched);
weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int operation,
                              size_t width, uint64_t value, uint64_t expected, uint64_t *fetched)
{
    assert_true(gpu == &ops.gpu && lane == 0 && operation == GPU_ACCESS_LOAD && width == 8);
    assert_true(value == 0 && expected == 0);
    assert_int_equal(at, OPS_GPU + OPS_GPU_SYSTEM + SIGNAL);
    beneath.accesses++;
    *fetched = 66;
    return beneath.failed ? base_fail(WEFT_ERR_SYSTEM, "no access") : WEFT_OK;
}

weft_status __wrap_access_wait_device(struct weft_ctx *ctx, struct waiter *waiter,
                                      const void *variable, size_t width, bool is_signed,
                                      uint64_t *seen);
weft_status __wrap_access_wait_device(struct weft_ctx *ctx, struct waiter *waiter,
                                      const void *variable, size_t width, bool is_signed,
                                      uint64_t *seen)
{
    assert_true(ctx == &ops.ctx && width == 8 && !is_signed);
    assert_ptr_equal(variable, OPS_GPU + OPS_GPU_SYSTEM + SIGNAL);
    beneath.device_waits++;
    beneath.waiter = *waiter;
    if (seen)
        *seen = 44;
    return WEFT_ERR_TIMEOUT;
}

/* The signal arrives at the third call. */
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen);
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen)
{
    beneath.slow++;
    beneath.waiter = *waiter;
    beneath.seen = seen;
    waiter->slot = &wait_slot;
    if (beneath.slow == 3)
        *(uint64_t *)(void *)(ops_heaps[OPS_PE] + SIGNAL) = 1000;
    return beneath.slow_fails ? base_fail(WEFT_ERR_TIMEOUT, "too long") : WEFT_OK;
}

void __wrap_waiter_unpublish(struct waiter *waiter);
void __wrap_waiter_unpublish(struct waiter *waiter)
{
    assert_ptr_equal(waiter->slot, &wait_slot);
    beneath.left++;
}

static void begin(bool gpu, bool far)
{
    memset(&beneath, 0, sizeof beneath);
    ops_begin();
    ops_path_begin(gpu, far);
    for (int i = 0; i < (int)sizeof local; i++)
        local[i] = (char)(i + 1);
}

static int set_up(void **state)
{
    (void)state;
    begin(false, false);
    return 0;
}

static char *own(size_t offset)
{
    return ops_heaps[OPS_PE] + offset;
}

static uint64_t *signal_at(int pe)
{
    return (uint64_t *)(void *)(ops_heaps[pe] + SIGNAL);
}

static uint64_t *device_signal(void)
{
    return (uint64_t *)(uintptr_t)(OPS_GPU + OPS_GPU_SYSTEM + SIGNAL);
}

static weft_status put(bool nbi, void *dst, const void *src, size_t bytes, void *signal,
                       weft_signal_op op, int pe)
{
    return nbi ? weft_put_signal_nbi(&ops.ctx, dst, src, bytes, signal, 77, op, pe)
               : weft_put_signal(&ops.ctx, dst, src, bytes, signal, 77, op, pe);
}

static void the_cpu_copies_and_then_signals(void **state)
{
    (void)state;
    for (int nbi = 0; nbi < 2; nbi++) {
        begin(false, false);
        *signal_at(PEER) = 1000;
        assert_int_equal(put(nbi, own(AT), local, 24, own(SIGNAL), WEFT_SIGNAL_ADD, PEER), WEFT_OK);
        assert_memory_equal(ops_heaps[PEER] + AT, local, 24);
        assert_int_equal(*signal_at(PEER), 1077);
        assert_int_equal(put(nbi, own(AT), local, 24, own(SIGNAL), WEFT_SIGNAL_SET, PEER), WEFT_OK);
        assert_int_equal(*signal_at(PEER), 77);
        const struct box_counters *counters = &ops.counters[WEFT_HOST][PEER];
        assert_int_equal(counters->operations, 2);
        assert_int_equal(counters->bytes, 48);
        assert_int_equal(counters->last, box_last(BOX_OP_SIGNAL, PEER, AT));
        assert_int_equal(put(nbi, own(AT), local, 0, own(SIGNAL), WEFT_SIGNAL_ADD, PEER), WEFT_OK);
        assert_int_equal(*signal_at(PEER), 154);
        assert_int_equal(put(nbi, NULL, NULL, 0, own(SIGNAL), WEFT_SIGNAL_ADD, PEER), WEFT_OK);
        assert_int_equal(*signal_at(PEER), 231);
        assert_int_equal(given.calls, 0);
    }
}

static void one_path_takes_data_and_signal(void **state)
{
    (void)state;
    for (int nbi = 0; nbi < 2; nbi++) {
        begin(false, true);
        assert_int_equal(put(nbi, own(AT), local, 24, own(SIGNAL), WEFT_SIGNAL_ADD, PEER), WEFT_OK);
        assert_string_equal(given.call, "put_signal");
        assert_int_equal(given.calls, 1);
        assert_int_equal(given.at.offset, AT);
        assert_int_equal(given.signal.offset, SIGNAL);
        assert_ptr_equal(given.signal.peer, &ops.peers[WEFT_HOST][PEER]);
        assert_ptr_equal(given.local, local);
        assert_int_equal(given.bytes, 24);
        assert_int_equal(given.value, 77);
        assert_int_equal(given.op, WEFT_SIGNAL_ADD);
        assert_int_equal(given.nbi, nbi);
        const struct box_counters *counters = &ops.counters[WEFT_HOST][PEER];
        assert_int_equal(counters->operations, 1);
        assert_int_equal(counters->bytes, 24);
        assert_int_equal(counters->last, box_last(BOX_OP_SIGNAL, PEER, AT));
        given.fails = "put_signal";
        assert_int_equal(put(nbi, own(AT), local, 24, own(SIGNAL), WEFT_SIGNAL_ADD, PEER),
                         WEFT_ERR_PATH);
    }
}

/* The signal is in GPU memory and uses another path, which does not order it after the data. So the
 * data is completed first. */
static void data_is_complete_before_a_signal_on_another_path(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool nbi = i & 1, add = i & 2;
        begin(true, true);
        struct path_ops other = ops.path;
        ops.peers[WEFT_GPU][PEER].ops = &other;
        ops.peers[WEFT_HOST][PEER].state = (struct path_state *)&wait_slot;
        assert_int_equal(put(nbi, own(AT), local, 24, device_signal(),
                             add ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET, PEER),
                         WEFT_OK);
        assert_int_equal(given.calls, 3);
        assert_string_equal(given.call, "atomic");
        assert_int_equal(given.amo, add ? WEFT_AMO_ADD : WEFT_AMO_SET);
        assert_int_equal(given.bytes, 8);
        assert_int_equal(given.value, 77);
        assert_int_equal(given.expected, 0);
        assert_null(given.local);
        assert_int_equal(given.nbi, nbi);
        assert_int_equal(given.at.segment, SEG_GPU);
        assert_int_equal(given.at.offset, OPS_GPU_SYSTEM + SIGNAL);
        static const char *const failures[] = {"put", "quiet", "atomic"};
        for (int k = 0; k < 3; k++) {
            given.calls = 0;
            given.fails = failures[k];
            assert_int_equal(put(nbi, own(AT), local, 24, device_signal(), WEFT_SIGNAL_SET, PEER),
                             WEFT_ERR_PATH);
            assert_int_equal(given.calls, k + 1);
            if (k == 1)
                assert_ptr_equal(given.at.peer, &wait_slot);
        }
    }
}

static void signals_alone_are_stored_or_added(void **state)
{
    (void)state;
    *signal_at(PEER) = 1000;
    assert_int_equal(weft_signal(&ops.ctx, signal_at(OPS_PE), 7, WEFT_SIGNAL_ADD, PEER), WEFT_OK);
    assert_int_equal(*signal_at(PEER), 1007);
    assert_int_equal(weft_signal(&ops.ctx, signal_at(OPS_PE), 8, WEFT_SIGNAL_SET, PEER), WEFT_OK);
    assert_int_equal(*signal_at(PEER), 8);
    assert_int_equal(given.calls, 0);
    for (int add = 0; add < 2; add++) {
        const struct box_counters *counters = &ops.counters[WEFT_HOST][PEER];
        assert_int_equal(counters->operations, 2 - add);
        assert_int_equal(counters->bytes, 16 - 8 * add);
        assert_int_equal(counters->last, box_last(BOX_OP_SIGNAL, PEER, SIGNAL));
        begin(false, true);
        assert_int_equal(weft_signal(&ops.ctx, signal_at(OPS_PE), 7,
                                     add ? WEFT_SIGNAL_ADD : WEFT_SIGNAL_SET, PEER),
                         WEFT_OK);
        assert_string_equal(given.call, "atomic");
        assert_int_equal(given.amo, add ? WEFT_AMO_ADD : WEFT_AMO_SET);
        assert_int_equal(given.value, 7);
        assert_int_equal(given.expected, 0);
        assert_int_equal(given.bytes, 8);
        assert_null(given.local);
        assert_false(given.nbi);
    }
    given.fails = "atomic";
    assert_int_equal(weft_signal(&ops.ctx, signal_at(OPS_PE), 7, WEFT_SIGNAL_SET, PEER),
                     WEFT_ERR_PATH);
}

static void wrong_signals_are_refused(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++)
        for (int nbi = 0; nbi < 2; nbi++) {
            begin(false, far);
            const weft_signal_op set = WEFT_SIGNAL_SET;
            assert_int_equal(put(nbi, own(AT), local, 8, own(SIGNAL), (weft_signal_op)2, PEER),
                             WEFT_ERR_OP);
            assert_int_equal(put(nbi, own(AT), local, 8, own(SIGNAL + 4), set, PEER),
                             WEFT_ERR_ALIGNMENT);
            assert_int_equal(put(nbi, own(AT), NULL, 8, own(SIGNAL), set, PEER), WEFT_ERR_ARGUMENT);
            assert_non_null(strstr(base_last_error(), nbi ? "weft_put_signal_nbi: src is null"
                                                          : "weft_put_signal: src is null"));
            assert_int_equal(put(nbi, own(OPS_HEAP - 4), local, 8, own(SIGNAL), set, PEER),
                             WEFT_ERR_RANGE);
            assert_int_equal(put(nbi, own(AT), local, 8, local, set, PEER), WEFT_ERR_ADDRESS);
            assert_int_equal(put(nbi, own(AT), local, 8, own(SIGNAL), set, OPS_PES), WEFT_ERR_PE);
            assert_int_equal(weft_signal(&ops.ctx, signal_at(OPS_PE), 7, (weft_signal_op)2, PEER),
                             WEFT_ERR_OP);
            assert_non_null(strstr(base_last_error(), "weft_signal: signal operation 2"));
            assert_int_equal(
                weft_signal(&ops.ctx, (uint64_t *)(void *)own(SIGNAL + 4), 7, set, PEER),
                WEFT_ERR_ALIGNMENT);
            assert_int_equal(weft_signal(&ops.ctx, signal_at(OPS_PE), 7, set, -1), WEFT_ERR_PE);
            assert_int_equal(given.calls, 0);
            assert_int_equal(ops.counters[WEFT_HOST][PEER].operations, 0);
            assert_int_equal(*signal_at(PEER), 0);
        }
}

/* ---------------------------------------------------------------------------------- own signals */

static void a_pe_reads_its_own_signals(void **state)
{
    (void)state;
    uint64_t value = 0;
    begin(true, false);
    *signal_at(OPS_PE) = 99;
    assert_int_equal(weft_signal_fetch(&ops.ctx, signal_at(OPS_PE), &value), WEFT_OK);
    assert_int_equal(value, 99);
    assert_int_equal(weft_signal_fetch(&ops.ctx, device_signal(), &value), WEFT_OK);
    assert_int_equal(value, 55);
    assert_int_equal(beneath.accesses, 0);
    beneath.no_peek = true;
    assert_int_equal(weft_signal_fetch(&ops.ctx, device_signal(), &value), WEFT_OK);
    assert_int_equal(value, 66);
    assert_int_equal(weft_signal_fetch(&ops.ctx, signal_at(OPS_PE), NULL), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_signal_fetch(&ops.ctx, (uint64_t *)(void *)own(SIGNAL + 4), &value),
                     WEFT_ERR_ALIGNMENT);
    assert_int_equal(weft_signal_fetch(&ops.ctx, (uint64_t *)(void *)local, &value),
                     WEFT_ERR_ADDRESS);
    assert_int_equal(weft_signal_fetch(&ops.ctx, (uint64_t *)(void *)own(OPS_HEAP - 4), &value),
                     WEFT_ERR_RANGE);
    beneath.failed = true;
    assert_int_equal(weft_signal_fetch(&ops.ctx, device_signal(), &value), WEFT_ERR_SYSTEM);
}

static void a_wait_ends_when_the_signal_has_come(void **state)
{
    (void)state;
    uint64_t seen = 0;
    *signal_at(OPS_PE) = 5;
    assert_int_equal(weft_signal_wait(&ops.ctx, signal_at(OPS_PE), WEFT_GE, 5, &seen), WEFT_OK);
    assert_int_equal(seen, 5);
    assert_int_equal(beneath.slow + beneath.left, 0);
    assert_int_equal(weft_signal_wait(&ops.ctx, signal_at(OPS_PE), WEFT_GT, 5, &seen), WEFT_OK);
    assert_int_equal(seen, 1000);
    assert_int_equal(beneath.slow, 3);
    assert_int_equal(beneath.seen, 5);
    assert_int_equal(beneath.left, 1);
    assert_int_equal(beneath.waiter.segment, SEG_HEAP);
    assert_int_equal(beneath.waiter.offset, SIGNAL);
    assert_int_equal(beneath.waiter.expected, 5);
    assert_int_equal(beneath.waiter.compare, WEFT_GT);
    assert_int_equal(beneath.waiter.peer, -1);
    assert_int_equal(beneath.waiter.operation, BOX_OP_SIGNAL_WAIT);
    assert_int_equal(weft_signal_wait(&ops.ctx, signal_at(OPS_PE), WEFT_EQ, 1000, NULL), WEFT_OK);
    beneath.slow_fails = true;
    *signal_at(OPS_PE) = 7;
    assert_int_equal(weft_signal_wait(&ops.ctx, signal_at(OPS_PE), WEFT_EQ, 8, &seen),
                     WEFT_ERR_TIMEOUT);
    assert_int_equal(seen, 7);
    assert_int_equal(beneath.slow, 4);
    assert_int_equal(beneath.left, 2);
}

static void the_gpu_waits_for_signals_in_its_memory(void **state)
{
    (void)state;
    uint64_t seen = 0;
    begin(true, false);
    assert_int_equal(weft_signal_wait(&ops.ctx, device_signal(), WEFT_CMP_COUNT - 1, 5, &seen),
                     WEFT_ERR_TIMEOUT);
    assert_int_equal(seen, 44);
    assert_int_equal(beneath.device_waits, 1);
    assert_int_equal(beneath.waiter.segment, SEG_GPU);
    assert_int_equal(beneath.waiter.offset, OPS_GPU_SYSTEM + SIGNAL);
    assert_int_equal(beneath.waiter.expected, 5);
    assert_int_equal(weft_signal_wait(&ops.ctx, device_signal(), WEFT_CMP_COUNT, 5, &seen),
                     WEFT_ERR_OP);
    assert_int_equal(
        weft_signal_wait(&ops.ctx, (uint64_t *)(void *)own(SIGNAL + 4), WEFT_EQ, 5, &seen),
        WEFT_ERR_ALIGNMENT);
    assert_int_equal(weft_signal_wait(&ops.ctx, (uint64_t *)(void *)local, WEFT_EQ, 5, &seen),
                     WEFT_ERR_ADDRESS);
    assert_int_equal(beneath.device_waits, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(the_cpu_copies_and_then_signals),
        TEST(one_path_takes_data_and_signal),
        TEST(data_is_complete_before_a_signal_on_another_path),
        TEST(signals_alone_are_stored_or_added),
        TEST(wrong_signals_are_refused),
        TEST(a_pe_reads_its_own_signals),
        TEST(a_wait_ends_when_the_signal_has_come),
        TEST(the_gpu_waits_for_signals_in_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
