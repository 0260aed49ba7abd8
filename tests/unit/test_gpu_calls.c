/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which driver calls a copy makes, in which order and with which arguments: copies over
 * several GPUs, concurrent copies, copies on internal streams, and events after them. The driver is
 * a table of functions that log their arguments; each call can fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/status.h"
#include "gpu/coll/engines.h"
#include "gpu/multipath/stripe_set.h"
#include "gpu/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 3, FIRST = 0x100, MOST_QUERIES = 8, ERROR = CUDA_ERROR_UNKNOWN };

static char text[8192];     /* log of the calls */
static int calls, fail_at;  /* number of calls so far; number of the call that fails, 0: none */
static int events, streams; /* created and not destroyed */
static int made;            /* number of handles created */
static int entered;         /* contexts pushed and not popped */
static CUresult queries[MOST_QUERIES]; /* answers of the next queries, then CUDA_SUCCESS */
static int asked;
static uint64_t capture;      /* capture of the program's stream; 0: none */
static uint64_t taken_by[64]; /* capture of each created stream */
static bool locked_out;       /* no context can be pushed */
static bool writes;           /* stores of the stream complete at once */
static char dst[16 << 20], src[sizeof dst];

static struct gpu gpus[GPUS], *const gpu = &gpus[0];
static struct gpu_pinned pinned;
static uint64_t loaded; /* value in GPU memory */
static CUfunction const atomics = (CUfunction)(uintptr_t)0x10,
                        signals = (CUfunction)(uintptr_t)0x20;

static CUresult note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static CUresult note(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    return ++calls == fail_at ? ERROR : CUDA_SUCCESS;
}

static int number(const void *handle)
{
    return (int)((uintptr_t)handle - FIRST);
}

static CUresult push(CUcontext context)
{
    if (locked_out)
        return ERROR;
    entered++;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    entered--;
    return CUDA_SUCCESS;
}

static CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (to - (uintptr_t)&pinned < sizeof pinned) { /* a load */
        if (writes)
            memcpy((void *)(uintptr_t)to, &loaded, bytes);
        return note("L%d:%zu+%zu ", number(stream), (size_t)(from - (uintptr_t)dst), bytes);
    }
    if (from - (uintptr_t)src >= sizeof src) { /* a store of a value on the stack */
        uint64_t value = 0;
        memcpy(&value, (const void *)(uintptr_t)from, bytes);
        return note("P%d:%zu+%zu=%llx ", number(stream), (size_t)(to - (uintptr_t)dst), bytes,
                    (unsigned long long)value);
    }
    assert_int_equal(to - (uintptr_t)dst, from - (uintptr_t)src);
    return note("C%d:%zu+%zu ", number(stream), (size_t)(to - (uintptr_t)dst), bytes);
}

static CUresult write_32(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    return note("v%d:%zu=%x ", number(stream), (size_t)(address - (uintptr_t)dst), value);
}

/* The kernel of an atomic, or of a signal that adds; it completes at once. */
static CUresult launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void **parameters, void **extra)
{
    assert_true(grid_x == 1 && grid_y == 1 && grid_z == 1);
    assert_true(block_x == 1 && block_y == 1 && block_z == 1 && shared_bytes == 0);
    if (function == signals)
        return note("N%d:%zu,%llu,%d ", number(stream),
                    (size_t)(*(CUdeviceptr *)parameters[3] - (uintptr_t)dst),
                    (unsigned long long)*(uint64_t *)parameters[4], *(int *)parameters[5]);
    assert_ptr_equal(function, atomics);
    struct gpu_answer *answers = (void *)(uintptr_t) * (CUdeviceptr *)parameters[5];
    if (answers) {
        answers->value = loaded;
        answers->number = *(uint64_t *)parameters[6];
    }
    return note("K%d:%zu+%u,%d,%llu,%llu%s ", number(stream),
                (size_t)(*(CUdeviceptr *)parameters[0] - (uintptr_t)dst),
                *(unsigned *)parameters[2], *(int *)parameters[1],
                (unsigned long long)*(uint64_t *)parameters[3],
                (unsigned long long)*(uint64_t *)parameters[4], answers ? ",answers" : "");
}

static CUresult record(CUevent event, CUstream stream)
{
    return note("R%d@%d ", number(event), number(stream));
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags)
{
    assert_int_equal(flags, 0);
    return note("W%d<%d ", number(stream), number(event));
}

static CUresult event_create(CUevent *event, unsigned flags)
{
    CUresult result = note("E ");
    if (!result) {
        *event = (CUevent)(uintptr_t)(FIRST + 200 + made++);
        events++;
    }
    return result;
}

static CUresult event_destroy(CUevent event)
{
    events--;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags)
{
    CUresult result = note("S ");
    if (!result) {
        *stream = (CUstream)(uintptr_t)(FIRST + 400 + made++);
        streams++;
    }
    return result;
}

static CUresult stream_destroy(CUstream stream)
{
    streams--;
    return CUDA_SUCCESS;
}

static CUresult answer(void)
{
    return asked < MOST_QUERIES ? queries[asked++] : CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
    note("Q%d ", number(stream));
    return answer();
}

static CUresult event_query(CUevent event)
{
    return answer();
}

static CUresult capture_info(CUstream stream, int *status, uint64_t *id, void *graph, void *nodes,
                             size_t *node_count)
{
    int own = number(stream) - 400;
    uint64_t is = own >= 0 && own < 64 ? taken_by[own] : capture;
    *status = is ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    *id = is;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, int *status)
{
    *status = capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult write_64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags)
{
    return note("V%d:%zu=%llu ", number(stream), (size_t)(address - (uintptr_t)dst),
                (unsigned long long)value);
}

static CUresult batch_op(CUstream stream, unsigned count, CUstreamBatchMemOpParams *list,
                         unsigned flags)
{
    assert_int_equal(flags, 0);
    CUresult result = note("M%d: ", number(stream));
    for (unsigned i = 0; i < count && !result; i++) {
        bool wide = list[i].writeValue.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
        uint64_t value = wide ? list[i].writeValue.value64 : list[i].writeValue.value;
        if (list[i].writeValue.address >= (uintptr_t)dst &&
            list[i].writeValue.address < (uintptr_t)dst + sizeof dst)
            note("%zu%s%llu ", (size_t)(list[i].writeValue.address - (uintptr_t)dst),
                 wide ? "==" : "=", (unsigned long long)value);
        else if (writes)
            *(uint64_t *)(uintptr_t)list[i].writeValue.address = value;
    }
    return result;
}

static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr address)
{
    return CUDA_ERROR_INVALID_VALUE; /* the driver does not know it: plain memory */
}

static CUresult error_text(CUresult result, const char **words)
{
    *words = "FAILED";
    return CUDA_SUCCESS;
}

/* Double of copies by CPU threads (gpu/bounce.h); `bounces` says whether they take a copy. */
static bool bounces;
static int bounce_asked;
static weft_status bounce_status;

bool __wrap_gpu_bounce(struct gpu *by, struct gpu_stream *lane, void *to, const void *from,
                       size_t bytes, weft_status *status);
bool __wrap_gpu_bounce(struct gpu *by, struct gpu_stream *lane, void *to, const void *from,
                       size_t bytes, weft_status *status)
{
    bounce_asked++;
    assert_ptr_equal(by, gpu);
    assert_int_equal((char *)to - dst, (const char *)from - src);
    if (!bounces)
        return false;
    note("T%d:%zu+%zu ", number(lane->stream), (size_t)((char *)to - dst), bytes);
    *status = bounce_status;
    return true;
}

static weft_status check(struct boot *boot)
{
    return WEFT_OK;
}

static const struct boot_ops ops = {.check = check};
static struct boot boot = {.ops = &ops};

static void forget(void)
{
    text[0] = '\0';
    calls = fail_at = asked = 0;
    memset(queries, 0, sizeof queries);
}

static int set_up(void **state)
{
    memset(gpus, 0, sizeof gpus);
    memset(&pinned, 0, sizeof pinned);
    events = streams = made = entered = 0;
    capture = 0;
    writes = true;
    locked_out = bounces = false;
    bounce_asked = 0;
    bounce_status = WEFT_OK;
    memset(taken_by, 0, sizeof taken_by);
    forget();
    for (int g = 0; g < GPUS; g++) {
        gpus[g].driver.CtxPushCurrent = push;
        gpus[g].driver.CtxPopCurrent = pop;
        gpus[g].driver.MemcpyAsync = copy_async;
        gpus[g].driver.EventRecord = record;
        gpus[g].driver.StreamWaitEvent = wait_event;
        gpus[g].driver.EventCreate = event_create;
        gpus[g].driver.EventDestroy = event_destroy;
        gpus[g].driver.EventQuery = event_query;
        gpus[g].driver.StreamCreate = stream_create;
        gpus[g].driver.StreamDestroy = stream_destroy;
        gpus[g].driver.StreamQuery = stream_query;
        gpus[g].driver.StreamGetCaptureInfo = capture_info;
        gpus[g].driver.StreamIsCapturing = is_capturing;
        gpus[g].driver.StreamWriteValue64 = write_64;
        gpus[g].driver.StreamBatchMemOp = batch_op;
        gpus[g].driver.PointerGetAttribute = pointer_attribute;
        gpus[g].driver.GetErrorName = error_text;
        gpus[g].driver.GetErrorString = error_text;
        gpus[g].device.driver = &gpus[g].driver;
        gpus[g].device.ordinal = g;
        gpus[g].boot = &boot;
        pthread_mutex_init(&gpus[g].events.lock, NULL);
        for (int lane = 0; lane < GPU_STREAMS; lane++)
            gpus[g].streams[lane].stream = (CUstream)(uintptr_t)(FIRST + 10 * g + lane);
    }
    gpu->pinned = &pinned;
    gpu->pinned_device = (uintptr_t)&pinned;
    gpu->driver.LaunchKernel = launch;
    gpu->driver.StreamWriteValue32 = write_32;
    gpu->module.device = &gpu->device;
    gpu->module.functions[GPU_weft_kernel_atomic] = atomics;
    gpu->module.functions[GPU_weft_kernel_copy] = signals;
    gpu->load_stream = (CUstream)(uintptr_t)(FIRST + 60);
    gpu->wait_stream = (CUstream)(uintptr_t)(FIRST + 70);
    for (int lane = 0; lane < GPU_STREAMS; lane++) {
        gpu->streams[lane].answer = &pinned.streams[lane].answer;
        gpu->streams[lane].answer_device = (uintptr_t)&pinned.streams[lane].answer;
    }
    return 0;
}

static void expect(const char *wanted)
{
    assert_string_equal(text, wanted);
    assert_int_equal(entered, 0);
    forget();
}

/* ------------------------------------------------------------------------------- several GPUs */

static struct gpu_stripes three(void)
{
    struct gpu_stripes set = {.lead = gpu,
                              .routes = {.n = GPUS, .via = {GPU_ROUTE_DIRECT, 1, 2}},
                              .issuer = {&gpus[0], &gpus[1], &gpus[2]},
                              .begun = (CUevent)(uintptr_t)(FIRST + 50)};
    for (int i = 1; i < GPUS; i++)
        set.ended[i] = (CUevent)(uintptr_t)(FIRST + 50 + i);
    return set;
}

static void a_part_goes_by_each_gpu(void **state)
{
    const unsigned share[] = {512, 300, 212}, none[] = {1024, 0, 0}, second[] = {500, 0, 524};
    struct gpu_stripes set = three();
    assert_int_equal(gpu_stripe_parts(&set, 1, dst, src, (1 << 20) + 12345, share), WEFT_OK);
    expect("R50@1 W11<50 C11:536633+307200 R51@11 W21<50 C21:843833+217088 R52@21 "
           "C1:0+536633 W1<51 W1<52 ");
    assert_int_equal(gpu->streams[1].queued, 1);
    assert_true(epoch_is_open(&gpu->streams[1].operations, &(uint64_t){0}));
    assert_int_equal(gpu_stripe_parts(&set, 0, dst, src, 5000, none), WEFT_OK);
    expect("R50@0 C0:0+5000 ");
    assert_int_equal(gpu_stripe_parts(&set, 0, dst, src, 16 << 10, second), WEFT_OK);
    expect("R50@0 W20<50 C20:8192+8192 R52@20 C0:0+8192 W0<52 ");
}

/* After a failed call no further call is put on the streams. Earlier ones have completed on
 * return. */
static void a_part_that_fails_ends_the_copy(void **state)
{
    const unsigned share[] = {512, 300, 212};
    char all[sizeof text];
    struct gpu_stripes set = three();
    assert_int_equal(gpu_stripe_parts(&set, 1, dst, src, 1 << 20, share), WEFT_OK);
    int most = calls;
    snprintf(all, sizeof all, "%s", text);
    assert_int_equal(most, 10);
    char *end = all;
    for (int k = 1; k <= most; k++) {
        forget();
        fail_at = k;
        end = strchr(end, ' ') + 1;
        assert_int_equal(gpu_stripe_parts(&set, 1, dst, src, 1 << 20, share), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(base_last_error(), "FAILED"));
        assert_memory_equal(text, all, (size_t)(end - all));
        assert_string_equal(text + (end - all), "Q1 Q11 Q21 ");
        assert_int_equal(entered, 0);
    }
    forget();
    fail_at = 3;
    queries[0] = queries[1] = ERROR; /* the message is that of the first failure */
    assert_int_equal(gpu_stripe_parts(&set, 1, dst, src, 1 << 20, share), WEFT_ERR_SYSTEM);
    assert_null(strstr(base_last_error(), "cuStreamQuery"));
    assert_non_null(strstr(base_last_error(), "cuMemcpyAsync of 307200 bytes"));
}

static weft_status start_stripes(const char *wanted, int locals)
{
    setenv("WEFT_TEST_STRIPES", wanted, 1);
    config_reset();
    boot.local_npes = locals;
    weft_status status = gpu_stripes_start(gpu);
    unsetenv("WEFT_TEST_STRIPES");
    config_reset();
    return status;
}

static void several_ways_are_wanted_or_not(void **state)
{
    static const struct {
        const char *wanted;
        int locals;
        weft_status status;
        size_t from; /* 0: no stripes are made */
    } rows[] = {
        {"-1", 2, WEFT_ERR_CONFIG, 0}, {"9", 2, GPU_ROUTES_MOST < 9 ? WEFT_ERR_CONFIG : WEFT_OK, 0},
        {"1", 4, WEFT_OK, 0},          {"0", 1, WEFT_OK, 0},
        {"2", 1, WEFT_OK, 0},          {"0", 2, WEFT_OK, GPU_STRIPE_MEASURE_BYTES},
        {"2", 3, WEFT_OK, 64 << 10}};
    char most[16], more[16], words[200] = "before";
    snprintf(most, sizeof most, "%d", GPU_ROUTES_MOST);
    snprintf(more, sizeof more, "%d", GPU_ROUTES_MOST + 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(start_stripes(rows[i].wanted, rows[i].locals), rows[i].status);
        assert_int_equal(gpu->multipath.stripes != NULL, rows[i].from != 0);
        for (int slot = 0; gpu->multipath.stripes && slot < rows[i].locals; slot++)
            assert_int_equal(gpu->multipath.stripes[slot].from, rows[i].from);
        gpu_stripes_stop(gpu);
        assert_null(gpu->multipath.stripes);
    }
    assert_int_equal(start_stripes(more, 2), WEFT_ERR_CONFIG);
    gpu_stripes_text(gpu, 0, words, sizeof words);
    assert_string_equal(words, "");
    assert_int_equal(start_stripes(most, 2), WEFT_OK);
    snprintf(gpu->multipath.stripes[1].text, sizeof gpu->multipath.stripes[1].text, "two ways");
    gpu_stripes_text(gpu, 1, words, 4);
    assert_string_equal(words, "two");
    gpu_stripes_text(gpu, -1, words, sizeof words);
    assert_string_equal(words, "");
    gpu_stripes_stop(gpu);
    boot.local_npes = 0;
}

/* A copy to a peer uses several GPUs if it is large, both ends are in the heap, and all GPUs have
 * both ends mapped. */
static void large_copies_to_a_peer_are_dealt_out(void **state)
{
    enum { LARGE = 256 << 10 };
    struct gpu_window windows[2];
    memset(windows, 0, sizeof windows);
    assert_int_equal(start_stripes("3", 2), WEFT_OK);
    gpu->heap.windows = windows;
    gpu->heap.reservation = (uintptr_t)dst;
    const ptrdiff_t apart = src - dst;
    struct gpu_stripes *set = &gpu->multipath.stripes[1], made = three();
    set->decided = true;
    set->lead = gpu;
    set->routes = made.routes;
    memcpy(set->issuer, made.issuer, sizeof set->issuer);
    memcpy(set->ended, made.ended, sizeof set->ended);
    set->begun = made.begun;
    set->share[0] = 512, set->share[1] = 256, set->share[2] = 256;
    set->mask = 6;
    atomic_store(&windows[1].stripes, 7);
    static const char dealt[] = "R50@1 W11<50 C11:131072+65536 R51@11 W21<50 C21:196608+65536 "
                                "R52@21 C1:0+131072 W1<51 W1<52 ";
    gpu->heap.reserved_bytes = sizeof dst + (size_t)(apart > 0 ? apart : 0);
    if (apart < 0) { /* src is at the lower address */
        gpu->heap.reservation = (uintptr_t)src;
        gpu->heap.reserved_bytes = sizeof src + (size_t)-apart;
    }
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
    expect(dealt);
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_DONE), WEFT_OK);
    assert_memory_equal(text, dealt, strlen(dealt));
    assert_string_equal(text + strlen(dealt), "Q1 ");
    forget();
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, (64 << 10) - 1, GPU_IN_ORDER),
                     WEFT_OK);
    expect("C1:0+65535 ");
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, 64 << 10, GPU_IN_ORDER), WEFT_OK);
    assert_non_null(strstr(text, "R50@1 "));
    forget();
    atomic_store(&windows[1].stripes, 3); /* one of the GPUs does not have the new memory mapped */
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
    expect("C1:0+262144 ");
    atomic_store(&windows[1].stripes, 6);
    fail_at = 3;
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_DONE), WEFT_ERR_SYSTEM);
    forget();
    struct gpu_heap heap = gpu->heap;
    /* One end is outside the heap. */
    gpu->heap.reservation = apart < 0 ? (uintptr_t)dst : (uintptr_t)src;
    gpu->heap.reserved_bytes = sizeof dst;
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
    expect("C1:0+262144 ");
    gpu->heap.reservation = apart < 0 ? (uintptr_t)src : (uintptr_t)dst;
    gpu->heap.reserved_bytes = 4096;
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
    expect("C1:0+262144 ");
    gpu->heap = heap;
    locked_out = true;
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_DONE), WEFT_ERR_SYSTEM);
    locked_out = false;
    expect("");
    /* Another path leads to the peer now. While the heap grows, no other routes are chosen. */
    set->lead = &gpus[1];
    gpu->heap.growing = 1;
    setenv("WEFT_TEST_STRIPES", "3", 1);
    config_reset();
    for (int again = 0; again < 2; again++) {
        assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
        expect("C1:0+262144 ");
        assert_true(!set->decided && !set->lead && !set->begun && !set->ended[2]);
    }
    assert_int_equal(events, -3); /* the events of the old routes are destroyed, each once */
    /* The routes are chosen by measurement; a copy that is too small starts none. */
    unsetenv("WEFT_TEST_STRIPES");
    config_reset();
    gpu->heap.growing = 0;
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
    expect("C1:0+262144 ");
    assert_int_equal(set->from, GPU_STRIPE_MEASURE_BYTES);
    gpu_stripes_stop(gpu);
    assert_int_equal(gpu_copy_peer(gpu, gpu, 1, 1, dst, src, LARGE, GPU_IN_ORDER), WEFT_OK);
    expect("C1:0+262144 ");
    boot.local_npes = 0;
}

/* ---------------------------------------------------------------------------- concurrent copies */

static struct gpu_engines engines;
static struct gpu_engine_copy copies[GPU_ENGINE_COPIES];
static CUstream const own = (CUstream)(uintptr_t)(FIRST + 7); /* stream of the program */

static int set_up_engines(void **state)
{
    gpu_engines_open(&engines);
    for (size_t i = 0; i < GPU_ENGINE_COPIES; i++)
        copies[i] = (struct gpu_engine_copy){dst + 1000 * i, src + 1000 * i, 100 + i};
    return set_up(state);
}

static int close_engines(void **state)
{
    gpu_engines_close(&engines, gpu);
    return events == 0 && streams == 0 ? 0 : -1;
}

static weft_status copy_by_engines(int order, int n)
{
    return gpu_engines_copy(&engines, gpu, own, order, copies, n);
}

static void one_copy_stays_on_the_stream(void **state)
{
    assert_int_equal(copy_by_engines(0, 1), WEFT_OK);
    expect("C7:0+100 ");
    assert_int_equal(streams, 0);
    fail_at = 1;
    assert_int_equal(copy_by_engines(0, 1), WEFT_ERR_SYSTEM);
    expect("C7:0+100 ");
}

static void copies_fork_and_join(void **state)
{
    assert_int_equal(copy_by_engines(5, 3), WEFT_OK);
    expect("E E S E S R200@7 W402<200 W404<200 C402:1000+101 C404:2000+102 C7:0+100 "
           "R201@402 W7<201 R203@404 W7<203 ");
    assert_int_equal(copy_by_engines(5, 2), WEFT_OK); /* uses the existing streams */
    expect("R200@7 W402<200 C402:1000+101 C7:0+100 R201@402 W7<201 ");
    assert_int_equal(copy_by_engines(6, 2), WEFT_OK); /* copies of another order */
    expect("E E S R205@7 W407<205 C407:1000+101 C7:0+100 R206@407 W7<206 ");
    assert_int_equal(streams, 3);
}

/* If there are more copies than streams, the streams are used in turn. */
static void many_copies_take_turns(void **state)
{
    assert_int_equal(copy_by_engines(1, 18), WEFT_OK);
    assert_int_equal(streams, GPU_ENGINE_STREAMS);
    int first = number(engines.sets[0].stream[0]), last = number(engines.sets[0].stream[14]);
    char wanted[200];
    snprintf(wanted, sizeof wanted, "C%d:15000+115 C%d:16000+116 C%d:17000+117 C7:0+100 ", last,
             first, number(engines.sets[0].stream[1]));
    assert_non_null(strstr(text, wanted));
}

static void a_full_table_of_orders_is_no_error(void **state)
{
    for (int order = 0; order < GPU_ENGINE_SETS; order++)
        assert_int_equal(copy_by_engines(order, 2), WEFT_OK);
    forget();
    assert_int_equal(copy_by_engines(GPU_ENGINE_SETS, 3), WEFT_OK);
    expect("C7:0+100 C7:1000+101 C7:2000+102 ");
    assert_int_equal(streams, GPU_ENGINE_SETS);
    fail_at = 2;
    assert_int_equal(copy_by_engines(GPU_ENGINE_SETS, 3), WEFT_ERR_SYSTEM);
    expect("C7:0+100 C7:1000+101 ");
    /* This order still has its streams. */
    assert_int_equal(copy_by_engines(GPU_ENGINE_SETS - 1, 2), WEFT_OK);
    assert_int_equal(streams, GPU_ENGINE_SETS);
    assert_non_null(strchr(text, 'R'));
}

/* A capture has its own set of streams, also for the same order. The set of an ended capture is
 * reused. */
static void captures_have_their_own_streams(void **state)
{
    capture = 9;
    assert_int_equal(copy_by_engines(3, 2), WEFT_OK);
    expect("E E S R200@7 W402<200 C402:1000+101 C7:0+100 R201@402 W7<201 ");
    taken_by[2] = 9;
    assert_int_equal(copy_by_engines(3, 2), WEFT_OK);
    expect("R200@7 W402<200 C402:1000+101 C7:0+100 R201@402 W7<201 ");
    capture = 10; /* another capture is active meanwhile */
    assert_int_equal(copy_by_engines(3, 2), WEFT_OK);
    expect("E E S R203@7 W405<203 C405:1000+101 C7:0+100 R204@405 W7<204 ");
    taken_by[5] = 10;
    taken_by[2] = 0; /* the first one has ended */
    capture = 11;
    assert_int_equal(copy_by_engines(3, 2), WEFT_OK);
    expect("R200@7 W402<200 C402:1000+101 C7:0+100 R201@402 W7<201 ");
    taken_by[2] = 11;
    capture = 0;
    assert_int_equal(copy_by_engines(3, 2), WEFT_OK); /* outside of any capture */
    expect("E E S R206@7 W408<206 C408:1000+101 C7:0+100 R207@408 W7<207 ");
    capture = 12; /* the driver does not report which capture it is */
    gpu->driver.StreamGetCaptureInfo = NULL;
    assert_int_equal(copy_by_engines(3, 2), WEFT_OK);
    expect("C7:0+100 C7:1000+101 ");
}

static void a_fork_that_fails_is_over_on_return(void **state)
{
    for (int captured = 0; captured < 2; captured++) {
        capture = captured ? 4 : 0;
        assert_int_equal(copy_by_engines(captured, 3), WEFT_OK);
        char queried[40] = "";
        for (int i = 0; i < 2 && !captured; i++)
            snprintf(queried + strlen(queried), 20, "Q%d ", number(engines.sets[0].stream[i]));
        if (captured)
            taken_by[number(engines.sets[1].stream[0]) - 400] = 4;
        forget();
        assert_int_equal(copy_by_engines(captured, 3), WEFT_OK);
        int most = calls;
        assert_int_equal(most, 10);
        for (int k = 1; k <= most; k++) {
            forget();
            fail_at = k;
            assert_int_equal(copy_by_engines(captured, 3), WEFT_ERR_SYSTEM);
            assert_int_equal(calls, k + (captured ? 0 : 2));
            assert_string_equal(text + strlen(text) - strlen(queried), queried);
            assert_non_null(strstr(base_last_error(), "FAILED"));
        }
        forget();
        fail_at = 5;
        queries[0] = queries[1] = ERROR;
        assert_int_equal(copy_by_engines(captured, 3), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(base_last_error(), "cuMemcpyAsync of 102 bytes"));
    }
}

/* ------------------------------------------------------------------------- internal streams */

/* Of streams with open operations, each is queried once. */
static void quiet_waits_for_all_streams(void **state)
{
    const size_t bytes = (9 << 20) + 5;
    assert_int_equal(gpu_copy(gpu, 6, dst, src, bytes, GPU_IN_ORDER), WEFT_OK);
    expect("C2:0+9437189 ");
    assert_int_equal(gpu_copy(gpu, 1, dst, src, bytes, GPU_IN_ORDER), WEFT_OK);
    expect("C1:0+9437189 ");
    assert_int_equal(gpu_quiet(gpu), WEFT_OK);
    expect("Q1 Q2 ");
    assert_int_equal(gpu_quiet(gpu), WEFT_OK);
    expect("");
    assert_int_equal(gpu_copy(gpu, 1, dst, src, bytes, GPU_DONE), WEFT_OK);
    expect("C1:0+9437189 Q1 ");
}

static void a_copy_that_fails_is_told(void **state)
{
    fail_at = 1;
    assert_int_equal(gpu_copy(gpu, 0, dst, src, 4 << 20, GPU_DONE), WEFT_ERR_SYSTEM);
    assert_int_equal(calls, 1);
    assert_int_equal(entered, 0);
    forget();
    assert_int_equal(gpu_copy(gpu, 0, dst, src, 64, GPU_IN_ORDER), WEFT_OK);
    assert_int_equal(gpu_copy(gpu, 1, dst, src, 64, GPU_IN_ORDER), WEFT_OK);
    forget();
    /* The error is that of the first stream; the second stream is not queried. */
    queries[0] = ERROR;
    assert_int_equal(gpu_quiet(gpu), WEFT_ERR_SYSTEM);
    expect("Q0 Q0 ");
}

/* If the GPU's context cannot be made current, no driver call is made. */
static void without_a_context_nothing_is_done(void **state)
{
    struct gpu_stripes set = three();
    struct gpu_word word = {(uintptr_t)dst, 1, 8};
    struct gpu_event *mark, *behind_word, *none;
    gpu->heap.reservation = (uintptr_t)dst;
    gpu->heap.reserved_bytes = 4096;
    writes = false;
    assert_int_equal(gpu_copy(gpu, 0, dst, src, 64, GPU_IN_ORDER), WEFT_OK);
    assert_int_equal(gpu_event_record(gpu, 0, &mark), WEFT_OK);
    assert_int_equal(gpu_store_recorded(gpu, 0, &word, 1, &behind_word), WEFT_OK);
    forget();
    locked_out = true;
    for (int look = 1; look < 500; look++)
        assert_int_equal(gpu_event_query(gpu, &behind_word), WEFT_OK);
    assert_int_equal(gpu_event_query(gpu, &behind_word), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "cuCtxPushCurrent for GPU 0"));
    assert_int_equal(gpu_copy(gpu, 0, dst, src, 64, GPU_DONE), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_copy_plain(gpu, 0, dst, src, 8), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_stream_quiet(gpu, 0), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_quiet(gpu), WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_event_record(gpu, 0, &none), WEFT_ERR_SYSTEM);
    assert_null(none);
    for (int i = 0; i < 2 * GPU_EVENT_WORDS; i++) { /* the word is released each time */
        assert_int_equal(gpu_store_recorded(gpu, 0, &word, 1, &none), WEFT_ERR_SYSTEM);
        assert_null(none);
    }
    expect("");
    const unsigned share[] = {0, 512, 512};
    gpus[1].device.driver = &gpus[1].driver;
    assert_int_equal(gpu_stripe_parts(&set, 0, dst, src, 1 << 20, share), WEFT_ERR_SYSTEM);
    expect("R50@0 ");
    locked_out = false;
    gpu_event_release(gpu, &mark);
    gpu_event_release(gpu, &behind_word);
    gpu_events_free(gpu);
}

/* Memory that cannot be cleared is not returned to the caller. */
static CUdeviceptr handed_out;

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes)
{
    *address = handed_out = (uintptr_t)dst + 512;
    return note("A%zu ", bytes);
}

static CUresult mem_free(CUdeviceptr address)
{
    assert_int_equal(address, handed_out);
    note("F ");
    return CUDA_SUCCESS;
}

static CUresult mem_set(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream)
{
    assert_int_equal(value, 0);
    return note("Z%d:%zu+%zu ", number(stream), (size_t)(address - (uintptr_t)dst), bytes);
}

static void memory_is_cleared_or_given_back(void **state)
{
    CUdeviceptr address;
    gpu->driver.MemAlloc = mem_alloc;
    gpu->driver.MemFree = mem_free;
    gpu->driver.MemsetD8Async = mem_set;
    assert_int_equal(gpu_alloc(gpu, 72, &address), WEFT_OK);
    assert_int_equal(address, handed_out);
    expect("A72 Z0:512+72 Q0 ");
    assert_int_equal(gpu_quiet(gpu), WEFT_OK); /* nothing of it is in flight */
    expect("");
    address = 5;
    fail_at = 1;
    assert_int_equal(gpu_alloc(gpu, 72, &address), WEFT_ERR_SYSTEM);
    expect("A72 ");
    fail_at = 2;
    assert_int_equal(gpu_alloc(gpu, 72, &address), WEFT_ERR_SYSTEM);
    assert_int_equal(address, 0);
    expect("A72 Z0:512+72 F ");
    gpu_free(gpu, 0);
    expect("");
    locked_out = true;
    assert_int_equal(gpu_alloc(gpu, 72, &address), WEFT_ERR_SYSTEM);
    assert_int_equal(address, 0);
    assert_int_equal(gpu_fill(gpu, dst, 0, 72), WEFT_ERR_SYSTEM);
    gpu_free(gpu, handed_out);
    expect("");
}

/* CPU threads take only copies that must be complete on return; then no driver call is made. */
static void threads_take_what_they_like(void **state)
{
    for (int takes = 0; takes < 2; takes++) {
        bounces = takes;
        bounce_status = WEFT_ERR_TIMEOUT;
        bounce_asked = 0;
        assert_int_equal(gpu_copy(gpu, 1, dst + 8, src + 8, 100, GPU_IN_ORDER), WEFT_OK);
        assert_int_equal(bounce_asked, 0);
        forget();
        assert_int_equal(gpu_copy(gpu, 1, dst + 8, src + 8, 100, GPU_DONE),
                         takes ? WEFT_ERR_TIMEOUT : WEFT_OK);
        assert_int_equal(bounce_asked, 1);
        expect(takes ? "T1:8+100 " : "C1:8+100 Q1 ");
        assert_int_equal(gpu_copy_plain(gpu, 2, dst + 8, src + 8, 100),
                         takes ? WEFT_ERR_TIMEOUT : WEFT_OK);
        assert_int_equal(bounce_asked, 2);
        expect(takes ? "T2:8+100 " : "C2:8+100 ");
    }
    bounces = false;
    fail_at = 1;
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 8, src + 8, 100), WEFT_ERR_SYSTEM);
    gpu->heap.reservation = (uintptr_t)dst;
    gpu->heap.reserved_bytes = 4096;
    forget();
    bounces = true;
    bounce_asked = 0;
    /* Words are stored by the stream. */
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 8, src + 8, 8), WEFT_OK);
    assert_int_equal(bounce_asked, 0);
}

/* Up to three aligned 64-bit words are stored by the stream, if it accepts all of them. */
static void few_words_are_stored(void **state)
{
    gpu->heap.reservation = (uintptr_t)dst;
    gpu->heap.reserved_bytes = 4096;
    memcpy(src + 16, ((const uint64_t[]){7, 1ull << 40, 9, 10}), 32);
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 16, src + 16, 24), WEFT_OK);
    expect("V2:16=7 V2:24=1099511627776 V2:32=9 ");
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 16, src + 16, 32), WEFT_OK);
    expect("C2:16+32 ");
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 16, src + 16, 12), WEFT_OK);
    expect("C2:16+12 ");
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 20, src + 20, 8), WEFT_OK);
    expect("C2:20+8 ");
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 4096, src + 4096, 8), WEFT_OK);
    expect("C2:4096+8 ");
    fail_at = 2;
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 16, src + 16, 24), WEFT_OK);
    expect("V2:16=7 V2:24=1099511627776 C2:16+24 ");
    gpu->driver.StreamWriteValue64 = NULL;
    gpu->device.pageable = true; /* the driver reads plain memory when it executes the copy */
    assert_int_equal(gpu_copy_plain(gpu, 2, dst + 16, src + 16, 8), WEFT_OK);
    expect("C2:16+8 Q2 ");
}

/* A copy within pinned memory does not cross the end of a registration. */
static void copies_end_where_a_registration_does(void **state)
{
    static const size_t ends[] = {5000, 8192};
    gpu->registered.pins =
        (struct gpu_pins){.slots = dst, .stride = 8192, .slot_count = 2, .count = 2};
    memcpy(gpu->registered.pins.ends, ends, sizeof ends);
    assert_int_equal(gpu_pinned_run_bytes(gpu, dst + 4999, 9), 1);
    assert_int_equal(gpu_pinned_run_bytes(gpu, dst + 4000, 1000), 1000);
    assert_int_equal(gpu_pinned_run_bytes(gpu, dst + 5000, 10000), 3192);
    assert_int_equal(gpu_pinned_run_bytes(gpu, dst + 8192, 10000), 5000);
    /* after all registrations */
    assert_int_equal(gpu_pinned_run_bytes(gpu, dst + 16384, 10000), 10000);
    assert_int_equal(gpu_copy(gpu, 0, dst + 4990, src + 4990, 3300, GPU_IN_ORDER), WEFT_OK);
    expect("C0:4990+10 C0:5000+3192 C0:8192+98 ");
    gpus[1].owner = gpu; /* a relay GPU uses the registrations of the PE's own GPU */
    assert_int_equal(gpu_pinned_run_bytes(&gpus[1], dst + 4999, 9), 1);
    copies[0] = (struct gpu_engine_copy){dst + 4990, src + 4990, 20};
    copies[1] = (struct gpu_engine_copy){dst + 6000, src + 6000, 30};
    gpu_engines_open(&engines);
    assert_int_equal(copy_by_engines(0, 2), WEFT_OK);
    expect("E E S R200@7 W402<200 C402:6000+30 C7:4990+10 C7:5000+10 R201@402 W7<201 ");
    close_engines(NULL);
}

/* ------------------------------------------------------------------------------------ events */

static void events_are_used_again(void **state)
{
    struct gpu_event *mark, *second;
    assert_int_equal(gpu_copy(gpu, 1, dst, src, 64, GPU_IN_ORDER), WEFT_OK);
    forget();
    assert_int_equal(gpu_event_record(gpu, 1, &mark), WEFT_OK);
    assert_int_equal(events, 16);
    assert_non_null(strstr(text, "E R215@1 ")); /* the event created last */
    forget();
    queries[0] = CUDA_ERROR_NOT_READY;
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    assert_non_null(mark);
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    assert_null(mark);
    assert_int_equal(gpu_stream_quiet(gpu, 1), WEFT_OK); /* the copy is known to be complete */
    expect("");
    assert_int_equal(gpu_copy(gpu, 1, dst, src, 64, GPU_IN_ORDER), WEFT_OK);
    assert_int_equal(gpu_event_record(gpu, 1, &mark), WEFT_OK);
    assert_int_equal(gpu_copy(gpu, 1, dst, src, 64, GPU_IN_ORDER), WEFT_OK);
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    forget();
    /* The copy after the event is not complete. */
    assert_int_equal(gpu_stream_quiet(gpu, 1), WEFT_OK);
    expect("Q1 ");
    fail_at = 1;
    assert_int_equal(gpu_event_record(gpu, 1, &mark), WEFT_ERR_SYSTEM);
    assert_null(mark);
    forget();
    assert_int_equal(gpu_event_record(gpu, 2, &mark), WEFT_OK);
    assert_int_equal(gpu_event_record(gpu, 3, &second), WEFT_OK);
    expect("R215@2 R214@3 ");
    queries[0] = ERROR;
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_ERR_SYSTEM);
    assert_non_null(mark);
    gpu_event_release(gpu, &mark);
    gpu_event_release(gpu, &second);
    assert_null(second);
    assert_int_equal(events, 16);
    gpu_events_free(gpu);
    assert_int_equal(events, 0);
}

/* If fewer events are created than requested, the GPU works with those. If none is, that is an
 * error. */
static void fewer_events_do(void **state)
{
    struct gpu_event *mark;
    fail_at = 1;
    assert_int_equal(gpu_event_record(gpu, 0, &mark), WEFT_ERR_SYSTEM);
    assert_null(mark);
    forget();
    fail_at = 4;
    assert_int_equal(gpu_event_record(gpu, 0, &mark), WEFT_OK);
    assert_non_null(mark);
    expect("E E E E R202@0 ");
    gpu_event_release(gpu, &mark);
    gpu_events_free(gpu);
    assert_int_equal(events, 0);
}

static void stores_are_marked_by_a_word(void **state)
{
    struct gpu_event *mark, *second;
    struct gpu_word words[GPU_MOST_WORDS + 1] = {{(uintptr_t)dst + 8, 1ull << 33, 8},
                                                 {(uintptr_t)dst + 4, 77, 4}};
    assert_int_equal(gpu_store_recorded(gpu, 2, words, 2, &mark), WEFT_OK);
    assert_non_null(mark);
    expect("M2: 8==8589934592 4=77 ");
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    assert_null(mark);
    assert_int_equal(gpu_stream_quiet(gpu, 2), WEFT_OK);
    expect("");
    writes = false; /* the GPU has not executed the stores yet */
    assert_int_equal(gpu_store_recorded(gpu, 2, words, 1, &mark), WEFT_OK);
    forget();
    for (int look = 1; look < 500; look++)
        assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    expect("");
    queries[0] = CUDA_ERROR_NOT_READY;
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    expect("Q2 "); /* from time to time the stream is queried for an error */
    assert_non_null(mark);
    for (int look = 1; look < 500; look++)
        assert_int_equal(gpu_event_query(gpu, &mark), WEFT_OK);
    queries[0] = ERROR;
    assert_int_equal(gpu_event_query(gpu, &mark), WEFT_ERR_SYSTEM);
    gpu_event_release(gpu, &mark); /* the GPU may still write that word, so it is not used again */
    int left = 0;
    struct gpu_event *all[GPU_EVENT_WORDS];
    while (left < GPU_EVENT_WORDS && !gpu_store_recorded(gpu, 1, words, 1, &all[left]) && all[left])
        left++;
    assert_int_equal(left, GPU_EVENT_WORDS - 1);
    assert_int_equal(gpu_store_recorded(gpu, 1, words, 1, &second), WEFT_OK);
    assert_null(second);
    for (int i = 0; i < left; i++)
        gpu_event_release(gpu, &all[i]);
}

static void stores_that_are_refused_are_the_callers(void **state)
{
    struct gpu_word words[GPU_MOST_WORDS + 1] = {{(uintptr_t)dst, 5, 8}};
    struct gpu_event *mark = NULL;
    for (int i = 1; i <= GPU_MOST_WORDS; i++)
        words[i] = words[0];
    assert_int_equal(gpu_store_recorded(gpu, 0, words, GPU_MOST_WORDS, &mark), WEFT_OK);
    assert_non_null(mark);
    gpu_event_release(gpu, &mark);
    forget();
    assert_int_equal(gpu_store_recorded(gpu, 0, words, GPU_MOST_WORDS + 1, &mark), WEFT_OK);
    assert_null(mark);
    expect("");
    for (int i = 0; i < 2 * GPU_EVENT_WORDS; i++) { /* the words are released each time */
        fail_at = 1;
        assert_int_equal(gpu_store_recorded(gpu, 0, words, 1, &mark), WEFT_OK);
        assert_null(mark);
        forget();
    }
    assert_int_equal(gpu_store_recorded(gpu, 0, words, 1, &mark), WEFT_OK);
    assert_non_null(mark);
    gpu_event_release(gpu, &mark);
    gpu->driver.StreamBatchMemOp = NULL;
    assert_int_equal(gpu_store_recorded(gpu, 0, words, 1, &mark), WEFT_OK);
    assert_null(mark);
    gpu_events_free(gpu);
}

static void memory_is_words_where_it_is_aligned(void **state)
{
    struct gpu_word words[GPU_MOST_WORDS];
    uint64_t data[GPU_MOST_WORDS];
    for (unsigned i = 0; i < GPU_MOST_WORDS; i++)
        data[i] = 0x0123456700000000ull * (i + 1) + 5 + i;
    const size_t most = GPU_MOST_WORDS - 1; /* the flag after them needs one more */
    assert_int_equal(gpu_split_words(4, data, 4, words), 1);
    assert_true(words[0].at == 4 && words[0].value == 5 && words[0].width == 4);
    assert_int_equal(gpu_split_words(16, data, 8 * most, words), most);
    assert_true(words[most - 1].at == 16 + 8 * (most - 1) && words[most - 1].width == 8);
    assert_true(words[most - 1].value == data[most - 1]);
    assert_int_equal(gpu_split_words(16, data, 8 * (most + 1), words), 0);
    assert_int_equal(gpu_split_words(4, data, 8, words), 0);
    assert_int_equal(gpu_split_words(2, data, 4, words), 0);
    assert_int_equal(gpu_split_words(8, data, 12, words), 0);
    assert_int_equal(gpu_split_words(8, data, 2, words), 0);
}

/* ----------------------------------------------------------------------------------- waiting */

static void an_error_counts_when_it_is_the_streams(void **state)
{
    enum { BUSY = CUDA_ERROR_NOT_READY };
    static const struct {
        CUresult answers[4];
        int asked;
        weft_status status;
    } cases[] = {
        {{0}, 1, WEFT_OK},
        {{BUSY, BUSY, 0}, 3, WEFT_OK},
        {{ERROR, BUSY, BUSY, 0},
         4,
         WEFT_ERR_SYSTEM}, /* one query failed: the stream is waited for */
        {{BUSY, ERROR, ERROR}, 3, WEFT_ERR_SYSTEM},
        {{ERROR, 0}, 2, WEFT_ERR_SYSTEM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forget();
        memcpy(queries, cases[i].answers, sizeof cases[i].answers);
        assert_int_equal(gpu_wait_stream(gpu, own, "this"), cases[i].status);
        assert_int_equal(asked, cases[i].asked);
        if (cases[i].status)
            assert_non_null(strstr(base_last_error(), "cuStreamQuery on GPU 0, waiting for this"));
    }
}

/* A stream is made at its first use, once. Where the driver makes none, the first stream serves for
 * good: an operation is not waited for on another stream than its own. */
static void streams_are_made_at_their_first_use(void **state)
{
    struct gpu_stream *lane = &gpu->streams[2];
    CUstream before = lane->stream;
    for (int fails = 0; fails < 2; fails++) {
        forget();
        lane->stream = NULL;
        fail_at = fails ? calls + 1 : 0;
        int had = streams;
        assert_ptr_equal(stream_of(gpu, 2), lane);
        CUstream first = lane->stream;
        fail_at = 0;
        assert_int_equal(streams, had + !fails);
        assert_true(fails ? first == gpu->streams[0].stream : first != gpu->streams[0].stream);
        assert_ptr_equal(stream_of(gpu, 2)->stream, first);
        assert_int_equal(streams, had + !fails);
        streams = had;
    }
    lane->stream = before;
}

/* An answer shows which operations are complete only if no other thread is putting an operation on
 * the stream. */
static void answers_say_what_is_complete(void **state)
{
    struct gpu_stream *lane = stream_of(gpu, 5);
    uint64_t settles = 7;
    assert_ptr_equal(lane, &gpu->streams[1]);
    assert_ptr_equal(stream_begin_answered(lane, &settles), lane->stream);
    assert_int_equal(settles, 1);
    stream_queued(lane);
    stream_begin_answered(lane, &settles);
    assert_int_equal(settles, 2);
    stream_begin_answered(lane, &settles); /* the operation before it is not on the stream yet */
    assert_int_equal(settles, 0);
}

/* ------------------------------------------------------------------------------ one variable */

static uint64_t load(size_t at, size_t width)
{
    uint64_t value = 1;
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst + at, GPU_ACCESS_LOAD, width, 0, 0, &value),
                     WEFT_OK);
    return value;
}

static void loads_take_their_part_of_a_word(void **state)
{
    loaded = 0x8877665544332211;
    assert_int_equal(load(8, 8), loaded);
    expect("L1:8+8 ");
    assert_int_equal(load(8 + 3, 1), 0x44);
    expect("L1:8+8 ");
    assert_int_equal(load(16 + 2, 2), 0x4433);
    expect("L1:16+8 ");
    assert_int_equal(load(24 + 4, 4), 0x88776655);
    assert_int_equal(load(24 + 7, 1), 0x88);
    forget();
    assert_int_equal(gpu_stream_quiet(gpu, 1), WEFT_OK); /* all of it is complete */
    expect("");
    uint64_t value;
    fail_at = 1;
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst, WEFT_AMO_FETCH, 8, 0, 0, &value),
                     WEFT_ERR_SYSTEM);
    forget();
    writes = false; /* the value equals the marker of a pending load, so the stream is queried */
    queries[0] = CUDA_ERROR_NOT_READY;
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst, WEFT_AMO_FETCH, 8, 0, 0, &value), WEFT_OK);
    assert_int_equal(value, gpu->streams[1].sequence * 0x9e3779b97f4a7c15u);
    expect("L1:0+8 Q1 Q1 ");
    queries[0] = ERROR;
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst, WEFT_AMO_FETCH, 8, 0, 0, &value),
                     WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "a load on GPU 0"));
}

static void stores_have_the_width_of_the_variable(void **state)
{
    static const struct {
        int op;
        size_t width;
        const char *calls;
    } rows[] = {{GPU_ACCESS_STORE, 8, "V1:16=18364758544493064720 "},
                {WEFT_AMO_SET, 4, "v1:16=76543210 "},
                {GPU_ACCESS_STORE, 2, "P1:16+2=3210 "},
                {GPU_ACCESS_STORE, 1, "P1:16+1=10 "}};
    const uint64_t value = 0xfedcba9876543210;
    for (int pageable = 0; pageable < 2; pageable++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char wanted[80];
            gpu->device.pageable = pageable;
            assert_int_equal(
                gpu_access(gpu, 1, (uintptr_t)dst + 16, rows[i].op, rows[i].width, value, 0, NULL),
                WEFT_OK);
            /* The driver must read the value before the function returns. */
            snprintf(wanted, sizeof wanted, "%s%s", rows[i].calls,
                     pageable && rows[i].width < 4 ? "Q1 " : "");
            expect(wanted);
        }
    fail_at = 1; /* a store that the stream rejects is made by a copy */
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst + 16, WEFT_AMO_SET, 8, 7, 0, NULL), WEFT_OK);
    expect("V1:16=7 P1:16+8=7 Q1 ");
    fail_at = 1;
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst + 16, WEFT_AMO_SET, 2, 7, 0, NULL),
                     WEFT_ERR_SYSTEM);
    expect("P1:16+2=7 ");
    gpu->driver.StreamWriteValue32 = NULL;
    gpu->driver.StreamWriteValue64 = NULL;
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst + 16, WEFT_AMO_SET, 4, 7, 0, NULL), WEFT_OK);
    assert_int_equal(gpu_access(gpu, 1, (uintptr_t)dst + 16, WEFT_AMO_SET, 8, 7, 0, NULL), WEFT_OK);
    expect("P1:16+4=7 Q1 P1:16+8=7 Q1 ");
}

static void atomics_are_a_kernel_that_may_answer(void **state)
{
    uint64_t fetched = 0;
    char wanted[80];
    loaded = 99;
    for (int again = 1; again < 3; again++) {
        assert_int_equal(gpu_access(gpu, 2, (uintptr_t)dst + 8, WEFT_AMO_CSWAP, 4, 5, 6, &fetched),
                         WEFT_OK);
        assert_int_equal(fetched, 99);
        assert_int_equal(gpu->streams[2].sequence, again);
        snprintf(wanted, sizeof wanted, "K2:8+4,%d,5,6,answers ", (int)WEFT_AMO_CSWAP);
        expect(wanted);
    }
    assert_int_equal(gpu_stream_quiet(gpu, 2), WEFT_OK);
    expect("");
    assert_int_equal(gpu_access(gpu, 2, (uintptr_t)dst + 8, WEFT_AMO_ADD, 8, 5, 0, NULL), WEFT_OK);
    assert_int_equal(gpu->streams[2].sequence, 2);
    snprintf(wanted, sizeof wanted, "K2:8+8,%d,5,0 ", (int)WEFT_AMO_ADD);
    expect(wanted);
    /* An atomic without an answer is waited for. */
    assert_int_equal(gpu_stream_quiet(gpu, 2), WEFT_OK);
    expect("Q2 ");
    fail_at = 1;
    fetched = 7;
    assert_int_equal(gpu_access(gpu, 2, (uintptr_t)dst, WEFT_AMO_FETCH_ADD, 8, 5, 0, &fetched),
                     WEFT_ERR_SYSTEM);
    assert_int_equal(fetched, 7);
    forget();
    locked_out = true;
    assert_int_equal(gpu_access(gpu, 2, (uintptr_t)dst, WEFT_AMO_ADD, 8, 5, 0, NULL),
                     WEFT_ERR_SYSTEM);
    assert_int_equal(gpu_signal(gpu, 2, (uintptr_t)dst, 5, WEFT_SIGNAL_SET), WEFT_ERR_SYSTEM);
    expect("");
}

static void signals_are_stored_or_added_by_a_kernel(void **state)
{
    char wanted[80];
    assert_int_equal(gpu_signal(gpu, 3, (uintptr_t)dst + 24, 5, WEFT_SIGNAL_SET), WEFT_OK);
    expect("V3:24=5 ");
    assert_int_equal(gpu_signal(gpu, 3, (uintptr_t)dst + 24, 5, WEFT_SIGNAL_ADD), WEFT_OK);
    snprintf(wanted, sizeof wanted, "N3:24,5,%d ", (int)WEFT_SIGNAL_ADD);
    expect(wanted);
    fail_at = 1;
    assert_int_equal(gpu_signal(gpu, 3, (uintptr_t)dst + 24, 5, WEFT_SIGNAL_SET), WEFT_OK);
    snprintf(wanted, sizeof wanted, "V3:24=5 N3:24,5,%d ", (int)WEFT_SIGNAL_SET);
    expect(wanted);
    fail_at = 1;
    assert_int_equal(gpu_signal(gpu, 3, (uintptr_t)dst + 24, 5, WEFT_SIGNAL_ADD), WEFT_ERR_SYSTEM);
}

/* While the kernel of an earlier wait is still queued, one copy reads the variable. */
static void waits_look_by_a_copy_meanwhile(void **state)
{
    static const struct {
        uint64_t loaded;
        size_t width;
        bool is_signed;
        weft_cmp cmp;
        int64_t value;
        uint64_t seen;
        bool met;
    } rows[] = {{0xfffe, 2, true, WEFT_LT, 0, (uint64_t)-2, true},
                {0xfffe, 2, false, WEFT_LT, 0, 0xfffe, false},
                {0xfffe, 2, false, WEFT_GT, 0xfffd, 0xfffe, true},
                {0x7ffe, 2, true, WEFT_EQ, 0x7ffe, 0x7ffe, true},
                {0x80000000, 4, true, WEFT_LE, -1, (uint64_t)INT32_MIN, true},
                {1ull << 63, 8, true, WEFT_GE, 0, 1ull << 63, false},
                {1ull << 63, 8, false, WEFT_GE, 5, 1ull << 63, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t seen = 5;
        bool met = !rows[i].met;
        loaded = rows[i].loaded;
        queries[0] = CUDA_ERROR_NOT_READY;
        assert_int_equal(gpu_wait_slice(gpu, (uintptr_t)dst + 8, rows[i].width, rows[i].is_signed,
                                        rows[i].cmp, rows[i].value, 1000, &seen, &met),
                         WEFT_OK);
        assert_int_equal(seen, rows[i].seen);
        assert_int_equal(met, rows[i].met);
        char wanted[80];
        snprintf(wanted, sizeof wanted, "Q70 L60:8+%zu Q60 ", rows[i].width);
        expect(wanted);
    }
    uint64_t seen;
    bool met = true;
    queries[0] = CUDA_ERROR_NOT_READY;
    fail_at = 2;
    loaded = 0;
    assert_int_equal(gpu_wait_slice(gpu, (uintptr_t)dst, 8, false, WEFT_EQ, 0, 1000, &seen, &met),
                     WEFT_ERR_SYSTEM);
    assert_false(met);
}

int main(void)
{
#define ENGINES(name) cmocka_unit_test_setup_teardown(name, set_up_engines, close_engines)
#define TEST(name)    cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_part_goes_by_each_gpu),
        TEST(a_part_that_fails_ends_the_copy),
        TEST(several_ways_are_wanted_or_not),
        TEST(large_copies_to_a_peer_are_dealt_out),
        ENGINES(one_copy_stays_on_the_stream),
        ENGINES(copies_fork_and_join),
        ENGINES(many_copies_take_turns),
        ENGINES(a_full_table_of_orders_is_no_error),
        ENGINES(captures_have_their_own_streams),
        ENGINES(a_fork_that_fails_is_over_on_return),
        TEST(quiet_waits_for_all_streams),
        TEST(a_copy_that_fails_is_told),
        TEST(without_a_context_nothing_is_done),
        TEST(memory_is_cleared_or_given_back),
        TEST(threads_take_what_they_like),
        TEST(few_words_are_stored),
        TEST(copies_end_where_a_registration_does),
        TEST(events_are_used_again),
        TEST(fewer_events_do),
        TEST(stores_are_marked_by_a_word),
        TEST(stores_that_are_refused_are_the_callers),
        TEST(memory_is_words_where_it_is_aligned),
        TEST(an_error_counts_when_it_is_the_streams),
        TEST(streams_are_made_at_their_first_use),
        TEST(answers_say_what_is_complete),
        TEST(loads_take_their_part_of_a_word),
        TEST(stores_have_the_width_of_the_variable),
        TEST(atomics_are_a_kernel_that_may_answer),
        TEST(signals_are_stored_or_added_by_a_kernel),
        TEST(waits_look_by_a_copy_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
