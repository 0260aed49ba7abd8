/* SPDX-License-Identifier: Apache-2.0 */
/* Host callbacks in the order of a CUDA stream: the operations that the stream gets, when a
 * callback runs and is freed, captured callbacks that run once per replay, and what is left at the
 * end. The thread of a stream runs when the test calls it, until it would wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "base/thread.h"
#include "ops/stream/stream.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum { APART = 1 << 30, MOST = 8, PAIRS = 256 };

/* The words of a callback, as in ops/stream/host_callback.c. The stream writes the first and the
 * last word, and waits for the second. */
struct words {
    uint64_t go, done, wait;
};

static struct {
    bool no_enter, no_alloc, no_pointer, no_thread, no_write, no_host_call, no_launch, capturing,
        polls_graphs;
    int entered, allocs, frees, writes, host_calls, launches, given, made, joins, signals, naps,
        yields;
    int blocks, calloc_left;
    void *(*threads[MOST])(void *);
    void *streams[MOST];
    int thread_count;
    struct words *words[MOST]; /* of the latest callbacks */
    void (*come_to)(void *);
    void *host_argument[MOST];
    CUstream stream;
    bool passes; /* the stream passes its waits during the end of the job */
    jmp_buf waits;
    bool inside;
} beneath;

static int ran[MOST];

static struct words *words_at(CUdeviceptr seen)
{
    return (struct words *)(uintptr_t)(seen - APART);
}

weft_status __wrap_gpu_enter(const struct gpu_device *device);
weft_status __wrap_gpu_enter(const struct gpu_device *device)
{
    assert_ptr_equal(device, &ops.gpu.device);
    if (beneath.no_enter)
        return base_fail(WEFT_ERR_SYSTEM, "not entered");
    beneath.entered++;
    return WEFT_OK;
}

void __wrap_gpu_leave(const struct gpu_device *device);
void __wrap_gpu_leave(const struct gpu_device *device)
{
    assert_ptr_equal(device, &ops.gpu.device);
    beneath.entered--;
}

weft_status __wrap_gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel,
                              unsigned blocks, unsigned threads, CUstream stream, void **arguments);
weft_status __wrap_gpu_launch(const struct gpu_module *module, enum gpu_kernel kernel,
                              unsigned blocks, unsigned threads, CUstream stream, void **arguments)
{
    assert_true(module == &ops.gpu.module);
    assert_int_equal(kernel, beneath.capturing ? GPU_weft_kernel_replayed : GPU_weft_kernel_wait);
    assert_true(blocks == 1 && threads == 1 && beneath.entered == 1);
    CUdeviceptr at = *(CUdeviceptr *)arguments[beneath.capturing];
    beneath.words[beneath.launches % MOST] = words_at(at - offsetof(struct words, done));
    if (beneath.capturing) {
        CUdeviceptr go = *(CUdeviceptr *)arguments[0];
        assert_int_equal(at - go, offsetof(struct words, done) - offsetof(struct words, go));
        assert_int_equal(((struct gpu_reporting *)arguments[2])->limit_ns, 4242);
    } else {
        CUdeviceptr passed = *(CUdeviceptr *)arguments[7];
        assert_int_equal(passed - at, offsetof(struct words, wait) - offsetof(struct words, done));
        assert_true(*(int *)arguments[1] == 8 && *(int *)arguments[2] == 0);
        assert_true(*(int *)arguments[3] == WEFT_EQ && *(int64_t *)arguments[4] == 1);
        assert_int_equal(((struct gpu_reporting *)arguments[5])->limit_ns, 4242);
        assert_int_equal(*(CUdeviceptr *)arguments[6], 0);
    }
    beneath.launches++;
    beneath.stream = stream;
    return beneath.no_launch ? base_fail(WEFT_ERR_SYSTEM, "no launch") : WEFT_OK;
}

bool __wrap_stream_capturing(struct gpu *gpu, weft_stream stream);
bool __wrap_stream_capturing(struct gpu *gpu, weft_stream stream)
{
    (void)gpu, (void)stream;
    return beneath.capturing;
}

void __wrap_job_callback_enqueued(struct weft_job *job);
void __wrap_job_callback_enqueued(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    beneath.given++;
}

bool __wrap_job_callback_run(struct weft_job *job, void (*run)(void *), void *argument);
bool __wrap_job_callback_run(struct weft_job *job, void (*run)(void *), void *argument)
{
    assert_ptr_equal(job, &ops.job);
    beneath.made++;
    run(argument);
    return true;
}

int __wrap_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    if (beneath.no_thread)
        return EAGAIN;
    *thread = (pthread_t)beneath.thread_count;
    beneath.threads[beneath.thread_count] = run;
    beneath.streams[beneath.thread_count++] = argument;
    return 0;
}

/* The thread was stopped: it runs the callbacks that are due, and ends. */
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    assert_null(result);
    assert_true(none_is_held());
    beneath.joins++;
    assert_null(beneath.threads[thread](beneath.streams[thread]));
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    (void)cond;
    assert_true(beneath.inside);
    __wrap_pthread_mutex_unlock(lock);
    longjmp(beneath.waits, 1);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    (void)cond;
    assert_false(none_is_held());
    beneath.signals++;
    return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    assert_true(none_is_held());
    beneath.yields++;
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    assert_int_equal(time->tv_sec, 0);
    if (beneath.polls_graphs)
        assert_true(time->tv_nsec >= 50000 && time->tv_nsec <= 2000000);
    else
        assert_int_equal(time->tv_nsec, 20000);
    beneath.naps++;
    if (beneath.inside)
        longjmp(beneath.waits, 1);
    for (int i = 0; i < MOST && beneath.passes; i++)
        if (beneath.words[i])
            beneath.words[i]->wait = 1;
    return 0;
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    /* Keeps pointers, so that a sanitizer does not report intentionally kept blocks as leaks. */
    static void *known[256];
    static unsigned next;
    void **place = &known[next++ % 256];
    *place = beneath.calloc_left-- ? __real_calloc(n, bytes) : NULL;
    beneath.blocks += *place != NULL;
    return *place;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    beneath.blocks -= block != NULL;
    __real_free(block);
}

static CUresult host_alloc(void **at, size_t bytes, unsigned flags)
{
    assert_int_equal(bytes, PAIRS * sizeof(struct words));
    assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (beneath.no_alloc)
        return CUDA_ERROR_INVALID_VALUE;
    beneath.allocs++;
    *at = __real_calloc(1, bytes);
    return CUDA_SUCCESS;
}

static CUresult host_pointer(CUdeviceptr *seen, void *at, unsigned flags)
{
    assert_int_equal(flags, 0);
    *seen = (uintptr_t)at + APART;
    return beneath.no_pointer ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult host_free(void *at)
{
    assert_true(beneath.entered == 1);
    beneath.frees++;
    __real_free(at);
    return CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags)
{
    (void)stream;
    assert_true(value == 1 && flags == CU_STREAM_WRITE_VALUE_DEFAULT);
    beneath.writes++;
    assert_int_equal(words_at(at)->wait, 2);
    assert_int_equal(words_at(at)->done, 0);
    return beneath.no_write ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult launch_host(CUstream stream, void (*function)(void *), void *argument)
{
    (void)stream;
    beneath.come_to = function;
    beneath.host_argument[beneath.host_calls++ % MOST] = argument;
    return beneath.no_host_call ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int set_up(void **state)
{
    (void)state;
    memset(&beneath, 0, sizeof beneath);
    memset(ran, 0, sizeof ran);
    beneath.calloc_left = -1;
    ops_begin();
    ops.driver.MemHostAlloc = host_alloc;
    ops.driver.MemHostGetDevicePointer = host_pointer;
    ops.driver.MemFreeHost = host_free;
    ops.driver.StreamWriteValue64 = write_value;
    ops.driver.LaunchHostFunc = launch_host;
    ops.gpu.driver = ops.driver;
    ops.gpu.reporting.limit_ns = 4242;
    return 0;
}

/* Ends a job whose streams have passed all callbacks. */
static int tear_down(void **state)
{
    (void)state;
    beneath.passes = true;
    beneath.no_enter = false;
    if (ops.job.modules.host_callbacks)
        ops.job.modules.end_host_callbacks(&ops.job);
    assert_null(ops.job.modules.host_callbacks);
    assert_false(ops.gpu.work_left);
    assert_int_equal(beneath.blocks, 0);
    assert_int_equal(beneath.frees, beneath.allocs);
    assert_int_equal(beneath.joins, beneath.thread_count);
    assert_int_equal(beneath.entered, 0);
    assert_true(none_is_held());
    return 0;
}

static void run(void *argument)
{
    ran[*(int *)argument]++;
}

static weft_status call(int number, int stream)
{
    int *argument = calloc(1, sizeof *argument);
    *argument = number;
    return stream_callback(&ops.job, (weft_stream)(uintptr_t)(0x700 + stream), run, argument);
}

/* Runs the thread of a stream until it would wait. */
static void let_run(int thread)
{
    beneath.inside = true;
    if (!setjmp(beneath.waits))
        beneath.threads[thread](beneath.streams[thread]);
    beneath.inside = false;
}

static void a_call_is_made_when_the_stream_comes_to_it(void **state)
{
    (void)state;
    assert_int_equal(call(0, 0), WEFT_OK);
    assert_int_equal(beneath.writes, 1);
    assert_int_equal(beneath.given, 1);
    assert_int_equal(beneath.launches, 1);
    assert_ptr_equal(beneath.stream, 0x700);
    assert_int_equal(beneath.signals, 1);
    let_run(0);
    assert_int_equal(ran[0], 0);
    assert_int_equal(beneath.yields, 2000);
    assert_int_equal(beneath.naps, 1);
    beneath.words[0]->go = 1;
    let_run(0);
    assert_int_equal(ran[0], 1);
    assert_int_equal(beneath.words[0]->done, 1);
    let_run(0);
    assert_int_equal(ran[0], 1);
    int before = beneath.blocks;
    assert_int_equal(call(1, 0), WEFT_OK);
    assert_true(beneath.words[1] != beneath.words[0]);
    assert_int_equal(beneath.thread_count, 1);
    beneath.words[1]->go = 1;
    let_run(0);
    assert_int_equal(ran[1], 1);
    assert_int_equal(beneath.blocks, before); /* the previous callback and its argument are freed */
    assert_int_equal(beneath.allocs, 1);
}

static void calls_are_made_in_the_order_in_which_the_stream_comes_to_them(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(call(i, 0), WEFT_OK);
    beneath.words[2]->go = 1; /* the stream reaches callback 2 first */
    let_run(0);
    assert_true(!ran[0] && !ran[1] && ran[2] && !ran[3]);
    beneath.words[3]->go = 1;
    let_run(0);
    assert_true(!ran[0] && !ran[1] && ran[3]);
    assert_int_equal(call(4, 0), WEFT_OK); /* appended to the remaining callbacks */
    beneath.words[0]->go = beneath.words[1]->go = beneath.words[4]->go = 1;
    let_run(0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ran[i], 1);
        assert_int_equal(beneath.words[i]->done, 1);
    }
}

static void each_stream_has_its_thread(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(call(i, i % 2), WEFT_OK);
    assert_int_equal(beneath.thread_count, 2);
    for (int i = 0; i < 4; i++)
        beneath.words[i]->go = 1;
    let_run(1);
    assert_true(!ran[0] && ran[1] && !ran[2] && ran[3]);
    let_run(0);
    assert_true(ran[0] && ran[2]);
}

static void words_are_used_again_when_their_call_is_freed(void **state)
{
    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(call(0, 0), WEFT_OK);
        beneath.words[i % MOST]->go = 1;
    }
    assert_int_equal(beneath.allocs, 1);
    assert_int_equal(call(1, 0), WEFT_OK);
    assert_int_equal(beneath.allocs, 2);
    beneath.words[PAIRS % MOST]->go = 1;
    let_run(0);
    assert_int_equal(ran[0], PAIRS);
    assert_int_equal(ran[1], 1);
    for (int i = 0; i < 2 * PAIRS - 1; i++) {
        assert_int_equal(call(2, 0), WEFT_OK);
        beneath.words[(PAIRS + 1 + i) % MOST]->go = 1;
    }
    assert_int_equal(beneath.allocs, 2);
    let_run(0);
    assert_int_equal(ran[2], 2 * PAIRS - 1);
}

/* -------------------------------------------------------------------- functions of the driver */

static void without_a_write_the_driver_calls_a_function(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        beneath.no_write = i == 0;
        ops.gpu.driver.StreamWriteValue64 = i ? NULL : write_value;
        assert_int_equal(call(i, 0), WEFT_OK);
        assert_int_equal(beneath.host_calls, i + 1);
        assert_int_equal(beneath.given, i + 1);
        let_run(0);
        assert_int_equal(ran[i], 0);
        beneath.come_to(beneath.host_argument[i]);
        let_run(0);
        assert_int_equal(ran[i], 1);
        assert_int_equal(beneath.words[i]->done, 1);
    }
    beneath.no_host_call = true;
    int before = beneath.blocks;
    assert_true(call(2, 0) != WEFT_OK);
    assert_int_equal(beneath.blocks, before);
    assert_int_equal(beneath.given, 2);
    assert_int_equal(beneath.launches, 2);
}

static void a_captured_call_is_made_for_each_replay(void **state)
{
    (void)state;
    beneath.capturing = true;
    assert_int_equal(call(0, 0), WEFT_OK);
    beneath.polls_graphs = true;
    assert_int_equal(beneath.writes + beneath.host_calls, 0);
    assert_int_equal(beneath.given, 0);
    for (int replay = 1; replay <= 3; replay++) {
        let_run(0);
        assert_int_equal(ran[0], replay - 1);
        beneath.words[0]->go++;
        let_run(0);
        assert_int_equal(beneath.given, replay);
        assert_int_equal(ran[0], replay);
        assert_int_equal(beneath.words[0]->done, replay);
    }
    /* Two executable graphs run concurrently: the callback runs for each. */
    beneath.words[0]->go += 2;
    let_run(0);
    assert_int_equal(ran[0], 5);
    assert_int_equal(beneath.words[0]->done, 5);
    assert_int_equal(call(2, 0), WEFT_OK);
    beneath.words[1]->go++;
    let_run(0);
    assert_true(ran[0] == 5 && ran[2] == 1);
    beneath.no_launch = true;
    int before = beneath.blocks;
    assert_true(call(3, 0) != WEFT_OK);
    assert_int_equal(beneath.blocks, before);
    beneath.no_launch = false;
    /* Other callbacks of the stream do not wait for graphs. */
    beneath.capturing = false;
    assert_int_equal(call(1, 0), WEFT_OK);
    beneath.polls_graphs = false;
    let_run(0);
    assert_int_equal(ran[1], 0);
    beneath.words[3]->go = 1;
    beneath.polls_graphs = true;
    let_run(0);
    assert_int_equal(ran[1], 1);
    /* The words stay allocated for graphs that outlive the job, which pass them. */
    beneath.passes = true;
    beneath.polls_graphs = false;
    ops.job.modules.end_host_callbacks(&ops.job);
    assert_non_null(ops.job.modules.host_callbacks);
    assert_false(ops.gpu.work_left);
    assert_true(beneath.words[0]->done > 1000000 && beneath.words[1]->done > 1000000);
    assert_int_equal(ran[0], 5);
    ops.job.modules.host_callbacks = NULL;
    assert_int_equal(beneath.blocks, 2); /* the page and the lists */
    beneath.blocks = 0;
    beneath.frees = beneath.allocs;
}

/* ------------------------------------------------------------------------------------- the end */

static void a_stream_that_has_not_passed_keeps_its_words(void **state)
{
    (void)state;
    assert_int_equal(call(0, 0), WEFT_OK);
    assert_int_equal(call(1, 0), WEFT_OK);
    beneath.words[0]->go = 1;
    let_run(0);
    ops.job.modules.end_host_callbacks(&ops.job);
    assert_true(ops.gpu.work_left);
    assert_non_null(ops.job.modules.host_callbacks);
    assert_int_equal(beneath.frees, 0);
    assert_int_equal(beneath.joins, 1);
    assert_int_equal(ran[1], 0);
    assert_int_equal(beneath.words[1]->done, 1); /* no stream is left waiting */
    assert_int_equal(beneath.blocks, 2);         /* the page and the lists */
    beneath.blocks = 0;
    beneath.frees = beneath.allocs;
    ops.job.modules.host_callbacks = NULL;
    ops.gpu.work_left = false;
}

static void the_last_call_must_have_been_passed(void **state)
{
    (void)state;
    for (int passes = 0; passes < 2; passes++) {
        set_up(state);
        assert_int_equal(call(0, 0), WEFT_OK);
        beneath.words[0]->go = 1;
        let_run(0);
        beneath.passes = passes;
        beneath.naps = 0;
        ops.job.modules.end_host_callbacks(&ops.job);
        assert_int_equal(beneath.naps, passes ? 1 : 50000);
        assert_int_equal(ops.gpu.work_left, !passes);
        assert_int_equal(ops.job.modules.host_callbacks == NULL, passes);
        assert_int_equal(beneath.frees, passes);
        if (!passes)
            continue;
        assert_int_equal(beneath.blocks, 0);
    }
}

static void a_function_that_is_still_to_come_keeps_all(void **state)
{
    (void)state;
    ops.gpu.driver.StreamWriteValue64 = NULL;
    assert_int_equal(call(0, 0), WEFT_OK);
    ops.job.modules.end_host_callbacks(&ops.job);
    assert_true(ops.gpu.work_left);
    assert_non_null(ops.job.modules.host_callbacks);
    assert_int_equal(beneath.blocks, 4);
    beneath.come_to(beneath.host_argument[0]); /* frees the callback and its argument */
    assert_int_equal(beneath.words[0]->done, 1);
    assert_int_equal(ran[0], 0);
    assert_int_equal(beneath.blocks, 2);
    beneath.blocks = 0;
    beneath.frees = beneath.allocs;
    ops.job.modules.host_callbacks = NULL;
    ops.gpu.work_left = false;
}

/* ------------------------------------------------------------------------------------- failures */

static void a_call_that_cannot_be_given_is_freed(void **state)
{
    (void)state;
    /* Allocations after the argument: the lists, the callback, the stream, the page. The successful
     * ones stay. */
    static const struct {
        int callocs, blocks;
    } rows[] = {{1, 0}, {2, 1}, {2, 1}, {3, 2}};
    for (int i = 0; i < 4; i++) {
        beneath.calloc_left = rows[i].callocs;
        assert_int_equal(call(0, 0), WEFT_ERR_NO_MEMORY);
        beneath.calloc_left = -1;
        assert_int_equal(beneath.blocks, rows[i].blocks);
    }
    bool *const failures[] = {&beneath.no_enter, &beneath.no_alloc, &beneath.no_pointer};
    for (int i = 0; i < 3; i++) {
        *failures[i] = true;
        beneath.frees = beneath.allocs = 0;
        assert_true(call(0, 0) != WEFT_OK);
        *failures[i] = false;
        assert_int_equal(beneath.blocks, 2);
        assert_int_equal(beneath.frees, beneath.allocs);
        assert_int_equal(beneath.writes + beneath.given, 0);
    }
    beneath.no_thread = true;
    assert_int_equal(call(0, 1), WEFT_ERR_SYSTEM);
    beneath.no_thread = false;
    assert_int_equal(beneath.blocks, 2);
    beneath.no_launch = true; /* the stream has a part of the operations already */
    assert_int_equal(call(0, 0), WEFT_ERR_SYSTEM);
    assert_int_equal(beneath.given, 1);
    beneath.words[0]->go = 1;
    let_run(0);
    assert_int_equal(ran[0], 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_call_is_made_when_the_stream_comes_to_it),
        TEST(calls_are_made_in_the_order_in_which_the_stream_comes_to_them),
        TEST(each_stream_has_its_thread),
        TEST(words_are_used_again_when_their_call_is_freed),
        TEST(without_a_write_the_driver_calls_a_function),
        TEST(a_captured_call_is_made_for_each_replay),
        TEST(a_stream_that_has_not_passed_keeps_its_words),
        TEST(the_last_call_must_have_been_passed),
        TEST(a_function_that_is_still_to_come_keeps_all),
        TEST(a_call_that_cannot_be_given_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
