/* SPDX-License-Identifier: Apache-2.0 */
/* Makes each call of the CUDA driver fail at each of its uses, in a program that uses GPU memory
 * through weft.h and stream.h, as a job of one PE. Either a function returns an error with a
 * sentence, or every value is right. After finalize no object is left in the driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "driver/gpu_api.h"
#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft.h>
#include <weft/stream.h>

enum { WORDS = 5000 };

static CUresult (*stream_create)(CUstream *stream, unsigned flags);
static CUresult (*stream_destroy)(CUstream stream), (*stream_synchronize)(CUstream stream);

/* Static, since a copy whose wait fails may still write them after the function has returned. */
static uint64_t source[WORDS], seen[WORDS];
static const char *step; /* the current call, for messages */

static int set_up(void **state)
{
    (void)state;
    static char cache[] = "/tmp/weft-test-XXXXXX";
    if (fake_cuda_find() || !mkdtemp(cache))
        return -1;
    setenv("XDG_RUNTIME_DIR", cache, 1);
    setenv("WEFT_LOG", "error", 1);
    setenv("WEFT_HEAP_SIZE", "4M", 1);
    setenv("WEFT_GPU_HEAP_SIZE", "256M", 1);
    setenv("WEFT_WAIT_LIMIT", "10s", 1);
    *(void **)&stream_create = dlsym(fake.library, "cuStreamCreate");
    *(void **)&stream_destroy = dlsym(fake.library, "cuStreamDestroy_v2");
    *(void **)&stream_synchronize = dlsym(fake.library, "cuStreamSynchronize");
    return stream_create && stream_destroy && stream_synchronize ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/weft", getenv("XDG_RUNTIME_DIR"));
    rmdir(path);
    return rmdir(getenv("XDG_RUNTIME_DIR"));
}

/* Returns at the first error. */
#define DO(call)                                                                                   \
    do {                                                                                           \
        step = #call;                                                                              \
        weft_status status_ = (call);                                                              \
        if (status_)                                                                               \
            return status_;                                                                        \
    } while (0)

#define RIGHT(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("behind %s, every call had succeeded: %s does not hold", step, #condition);   \
    } while (0)

static void fill_source(uint64_t salt)
{
    for (uint64_t i = 0; i < WORDS; i++)
        source[i] = salt << 40 | (i * 3 + 1);
}

static weft_status copies(weft_ctx *ctx, uint64_t *gpu, uint64_t *other, uint64_t *host)
{
    static const size_t sizes[] = {8, 600, 20000, WORDS * 8};
    for (uint64_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        fill_source(s + 1);
        DO(weft_put(ctx, gpu, source, sizes[s], 0));
        DO(weft_put_nbi(ctx, other, gpu, sizes[s], 0));
        DO(weft_quiet(ctx));
        DO(weft_get(ctx, host, other, sizes[s], 0));
        DO(weft_get_nbi(ctx, seen, host, sizes[s], 0));
        DO(weft_quiet(ctx));
        RIGHT(memcmp(seen, source, sizes[s]) == 0);
    }
    DO(weft_iput(ctx, gpu, host, 2, 3, 8, 50, 0));
    DO(weft_iget(ctx, seen, gpu, 1, 2, 8, 50, 0));
    for (int i = 0; i < 50; i++)
        RIGHT(seen[i] == source[3 * i]);
    return WEFT_OK;
}

static weft_status words(weft_ctx *ctx, uint64_t *gpu)
{
    uint64_t value;
    uint16_t half;
    uint32_t word;
    int result;
    DO(weft_p64(ctx, gpu, 7, 0));
    DO(weft_p16(ctx, gpu + 1, 0x8001, 0));
    DO(weft_g16(ctx, gpu + 1, &half, 0));
    RIGHT(half == 0x8001);
    DO(weft_atomic_fetch_add64(ctx, gpu, (uint64_t)-9, &value, 0));
    RIGHT(value == 7);
    DO(weft_atomic_add64(ctx, gpu, 1, 0));
    DO(weft_atomic_swap32(ctx, gpu + 2, 5, &word, 0));
    DO(weft_atomic_nbi(ctx, WEFT_AMO_FETCH, 8, gpu, 0, 0, &seen[0], 0));
    DO(weft_quiet(ctx));
    RIGHT(seen[0] == (uint64_t)-1);
    DO(weft_test(ctx, WEFT_INT64, gpu, WEFT_LT, 0, &result));
    RIGHT(result == 1);
    DO(weft_wait_until(ctx, WEFT_INT64, gpu, WEFT_EQ, (uint64_t)-1));
    DO(weft_put_signal(ctx, gpu + 8, source, 4096, gpu + 4, 1, WEFT_SIGNAL_SET, 0));
    DO(weft_put_signal_nbi(ctx, gpu + 8, source, 4096, gpu + 4, 2, WEFT_SIGNAL_ADD, 0));
    DO(weft_signal_wait(ctx, gpu + 4, WEFT_EQ, 3, &value));
    DO(weft_get(ctx, seen, gpu + 8, 4096, 0));
    RIGHT(memcmp(seen, source, 4096) == 0);
    return WEFT_OK;
}

static weft_status on_stream(weft_job *job, CUstream stream, uint64_t *gpu, uint64_t *other,
                             uint64_t *host)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t value;
    *host = 0;
    DO(weft_p64(ctx, other + 600, 0, 0));
    fill_source(9);
    DO(weft_put(ctx, gpu, source, 4096, 0));
    DO(weft_quiet(ctx)); /* the stream does not wait for the context */
    DO(weft_put_on_stream(ctx, other, gpu, 4096, 0, stream));
    DO(weft_put_signal_on_stream(ctx, other, gpu, 2048, other + 600, 4, WEFT_SIGNAL_SET, 0,
                                 stream));
    DO(weft_signal_on_stream(ctx, other + 600, 1, WEFT_SIGNAL_ADD, 0, stream));
    DO(weft_signal_on_stream(ctx, host, 6, WEFT_SIGNAL_ADD, 0, stream));
    DO(weft_signal_wait_on_stream(ctx, other + 600, WEFT_EQ, 5, stream));
    DO(weft_barrier_on_stream(weft_team_world(job), stream));
    DO(weft_get_on_stream(ctx, host + 8, other, 4096, 0, stream));
    DO(weft_quiet_on_stream(ctx, stream));
    if (stream_synchronize(stream))
        return WEFT_ERR_SYSTEM;
    DO(weft_signal_fetch(ctx, host, &value));
    RIGHT(value == 6);
    RIGHT(memcmp(host + 8, source, 4096) == 0);
    return WEFT_OK;
}

static weft_status collectives(weft_job *job, uint64_t *gpu, uint64_t *other, uint64_t *host)
{
    weft_team *world = weft_team_world(job), *team;
    fill_source(11);
    memcpy(host, source, 8000);
    DO(weft_broadcast(world, gpu, host, 8000, 0));
    DO(weft_allgather(world, other, gpu, 8000));
    DO(weft_allreduce(world, gpu, other, 1000, WEFT_INT64, WEFT_SUM));
    DO(weft_alltoall(world, host + 1000, gpu, 8000));
    RIGHT(memcmp(host + 1000, source, 8000) == 0);
    DO(weft_team_split_strided(world, 0, 1, 1, &team));
    DO(weft_barrier(team));
    DO(weft_team_destroy(team));
    return WEFT_OK;
}

static weft_status use(weft_job *job, CUstream stream)
{
    void *gpu, *other, *host, *grown;
    weft_ctx *ctx = weft_default_ctx(job), *own;
    DO(weft_alloc(job, WEFT_GPU, WORDS * 8, 0, WEFT_ALLOC_ZERO, &gpu));
    DO(weft_alloc(job, WEFT_GPU, WORDS * 8, 0, 0, &other));
    DO(weft_alloc(job, WEFT_HOST, WORDS * 16, 0, WEFT_ALLOC_ZERO, &host));
    DO(weft_ctx_create(weft_team_world(job), 0, &own));
    DO(copies(ctx, gpu, other, host));
    DO(copies(own, other, gpu, host));
    DO(words(ctx, gpu));
    DO(on_stream(job, stream, gpu, other, host));
    DO(collectives(job, gpu, other, host));
    DO(weft_ctx_destroy(own));
    DO(weft_p64(ctx, gpu, 4711, 0));
    DO(weft_realloc(job, gpu, 80 << 20, &grown)); /* more than the first chunk holds */
    DO(weft_get(ctx, seen, grown, 8, 0));
    RIGHT(seen[0] == 4711);
    DO(weft_free(job, other));
    DO(weft_free(job, grown));
    return WEFT_OK;
}

static weft_status run(char *sentence, size_t bytes)
{
    weft_job *job;
    CUstream stream;
    config_reset();
    step = "weft_init";
    weft_status status = weft_init(&job, NULL);
    if (!status) {
        assert_int_equal(stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        status = use(job, stream);
        snprintf(sentence, bytes, "%s", weft_last_error());
        stream_synchronize(stream);
        stream_destroy(stream);
        weft_status ended = weft_finalize(job);
        if (!status && ended)
            snprintf(sentence, bytes, "%s", weft_last_error());
        status = status ? status : ended;
    } else {
        snprintf(sentence, bytes, "%s", weft_last_error());
    }
    return status;
}

static void a_good_run(void **state)
{
    (void)state;
    char sentence[600] = "";
    weft_status status = run(sentence, sizeof sentence);
    if (status)
        fail_msg("%s: %s: %s", step, weft_status_name(status), sentence);
    fake_cuda_expect_nothing();
}

/* Objects that a failed release leaves are no fault of the library. Without the context nothing can
 * be released. */
static bool is_release(const char *name)
{
    static const char *const words[] = {"Release", "Unmap",      "Free",       "Destroy",
                                        "Unload",  "PopCurrent", "Unregister", "PushCurrent"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    unsigned long runs = 0, faults = 0;
    for (const char *const *name = gpu_api_function_names; *name; name++) {
        /* All of the first uses fail once, then ever fewer: hundreds of copies differ little. */
        for (unsigned k = 1; k < 400; k += 1 + k / 6) {
            char sentence[600] = "";
            gpu_api_fault_plan(*name, k, CUDA_ERROR_UNKNOWN);
            weft_status status = run(sentence, sizeof sentence);
            unsigned uses = gpu_api_fault_uses();
            gpu_api_fault_plan(NULL, 0, 0);
            runs++;
            faults += status != WEFT_OK;
            if (status && strlen(sentence) < 10)
                fail_msg("use %u of %s: %s in %s, without a sentence", k, *name,
                         weft_status_name(status), step);
            if (fake.live() && !is_release(*name)) {
                fake.list();
                fail_msg("use %u of %s (%s): %d objects are left; %s", k, *name, step, fake.live(),
                         sentence);
            }
            fake.reset();
            if (uses < k)
                break;
        }
    }
    print_message("%lu runs, %lu of them ended with an error\n", runs, faults);
    assert_true(faults > 50);
}

/* weft_test() fails if it cannot read the variable. Its initial value 0 would match the expected
 * 0. */
static void what_cannot_be_read_is_no_finding(void **state)
{
    (void)state;
    weft_job *job;
    void *gpu;
    int result = 0;
    config_reset();
    /* no use fails, but the fault plan is ready for the next call */
    gpu_api_fault_plan("MemcpyAsync", 0, CUDA_ERROR_UNKNOWN);
    assert_int_equal(weft_init(&job, NULL), WEFT_OK);
    assert_int_equal(weft_alloc(job, WEFT_GPU, 64, 0, WEFT_ALLOC_ZERO, &gpu), WEFT_OK);
    gpu_api_fault_plan("MemcpyAsync", 1, CUDA_ERROR_UNKNOWN);
    weft_status status = weft_test(weft_default_ctx(job), WEFT_INT64, gpu, WEFT_EQ, 0, &result);
    unsigned uses = gpu_api_fault_uses();
    gpu_api_fault_plan(NULL, 0, 0);
    assert_true(uses > 0);
    assert_true(status != WEFT_OK);
    assert_non_null(strstr(weft_last_error(), "MemcpyAsync of "));
    assert_true(weft_finalize(job) != WEFT_OK); /* the job has failed */
    fake.reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_run),
        cmocka_unit_test(what_cannot_be_read_is_no_finding),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
