/* SPDX-License-Identifier: Apache-2.0 */
/* weft_finalize() runs at once, while operations on streams are still pending behind a slow
 * function of the program. The argument says what is pending:
 *   leave get           copies of GPU memory of the next PE, remote if WEFT_PATH says so
 *   leave get_host      the same of its host memory
 *   leave signal        signals in host memory, which the CPU sends
 *   leave file          a write to a file that is not closed
 *   leave graph         a replayed graph: its launch comes after finalize, which does not wait for
 *                       it
 *   leave graph_signal  the same with only a signal
 *   leave never         an operation that its stream does not reach within WEFT_WAIT_LIMIT
 *   leave simt          a stream of the executor */
#include "gpu_test.h"

#include "driver/gpu_api.h"
#include "job/job.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include <weft/stream.h>
#include <weft_file.h>

enum { BYTES = 3 << 20, PUTS = 4, SLOW_MS = 300 };

static weft_job *job;
static weft_ctx *ctx;
static int me, n, next;
static struct gpu_api driver;
static CUstream stream;
static _Atomic bool come, let_go;
static unsigned char *plain;

static void make_stream(void)
{
    CUdevice device = 0;
    CUcontext context;
    int ordinal = 0;
    void *probe = gpu_alloc(job, 64, 0);
    OK(gpu_api_open(&driver));
    CHECK(!driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      (uintptr_t)probe));
    CHECK(!driver.DeviceGet(&device, ordinal));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, device));
    CHECK(!driver.CtxPushCurrent(context));
    CHECK(!driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void take_time(void *nothing)
{
    (void)nothing;
    usleep(SLOW_MS * 1000);
    come = true;
}

static void wait_for_main(void *nothing)
{
    (void)nothing;
    while (!let_go)
        usleep(1000);
}

static void be_slow(void)
{
    CHECK(!driver.LaunchHostFunc(stream, take_time, NULL));
}

/* `plain` holds the pattern of PE pe. */
static void check_plain(int pe)
{
    size_t i = pattern_end(plain, pe, 0, BYTES);
    if (i < BYTES) {
        fprintf(stderr, "PE %d: byte %zu of what the stream was to get from PE %d is %#x\n", me, i,
                pe, plain[i]);
        exit(1);
    }
}

static void check_untouched(void)
{
    for (size_t i = 0; i < BYTES; i++)
        CHECK(plain[i] == 0xee);
}

static void *filled(weft_kind kind)
{
    void *memory = kind == WEFT_GPU ? gpu_alloc(job, BYTES, 0) : alloc(job, BYTES);
    make_pattern(plain, me, BYTES);
    fill(job, memory, plain, BYTES);
    memset(plain, 0xee, BYTES);
    OK(weft_barrier(weft_team_world(job)));
    return memory;
}

/* -------------------------------------------------------------------------------- put and get */

static void get(weft_kind kind, weft_stream on)
{
    char *from = filled(kind), *to = alloc(job, BYTES);
    for (int i = 0; i < PUTS; i++)
        OK(weft_put_on_stream(ctx, to, from, BYTES, next, on));
    OK(weft_get_on_stream(ctx, plain, from, BYTES, next, on));
}

static void leave_gets(weft_kind kind)
{
    be_slow();
    get(kind, stream);
    OK(weft_finalize(job));
    CHECK(come);
    check_plain(next);
    CHECK(!driver.StreamSynchronize(stream));
}

/* ------------------------------------------------------------------------------------ signals */

static void leave_signals(void)
{
    uint64_t *signals = alloc(job, 64 * sizeof *signals);
    OK(weft_barrier(weft_team_world(job)));
    be_slow();
    for (int i = 0; i < 64; i++)
        OK(weft_signal_on_stream(ctx, signals + i, 7, WEFT_SIGNAL_ADD, next, stream));
    OK(weft_finalize(job));
    CHECK(come);
    CHECK(!driver.StreamSynchronize(stream));
}

/* --------------------------------------------------------------------------------------- file */

static void leave_file(void)
{
    char path[128];
    weft_file *file;
    snprintf(path, sizeof path, "./leave_file.%d.%d", (int)getppid(), me);
    char *from = filled(WEFT_HOST);
    OK(weft_file_open(job, path, WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    be_slow();
    OK(weft_file_write_on_stream(file, from, BYTES, 0, me, NULL, stream));
    OK(weft_finalize(job));
    CHECK(come);
    OK(weft_file_close(file)); /* weft_finalize() has closed it; this call frees the handle */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unlink(path);
    CHECK(fd >= 0 && read(fd, plain, BYTES) == BYTES);
    close(fd);
    check_plain(me);
    CHECK(!driver.StreamSynchronize(stream));
}

/* -------------------------------------------------------------------------------------- graphs */

static void leave_graph(bool gets)
{
    CUresult (*begin)(CUstream, int), (*end)(CUstream, void **);
    CUresult (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, CUstream);
    *(void **)&begin = dlsym(driver.handle, "cuStreamBeginCapture_v2");
    *(void **)&end = dlsym(driver.handle, "cuStreamEndCapture");
    *(void **)&instantiate = dlsym(driver.handle, "cuGraphInstantiateWithFlags");
    *(void **)&launch = dlsym(driver.handle, "cuGraphLaunch");
    CHECK(begin && end && instantiate && launch);
    void *captured, *executable;
    uint64_t *signal = alloc(job, sizeof *signal);
    char *from = filled(WEFT_GPU);
    CHECK(!begin(stream, 0));
    OK(weft_signal_on_stream(ctx, signal, 1, WEFT_SIGNAL_ADD, next, stream));
    if (gets)
        OK(weft_get_on_stream(ctx, plain, from, BYTES, next, stream));
    CHECK(!end(stream, &captured) && !instantiate(&executable, captured, 0));
    CHECK(!launch(executable, stream) && !driver.StreamSynchronize(stream));
    if (gets)
        check_plain(next);
    memset(plain, 0xee, BYTES);
    CHECK(!driver.LaunchHostFunc(stream, wait_for_main, NULL));
    CHECK(!launch(executable, stream));
    OK(weft_finalize(job));
    let_go = true;
    CHECK(!driver.StreamSynchronize(stream)); /* the stream continues without an error */
    check_untouched();
}

/* -------------------------------------------------------------------------------------- never */

static int leave_stuck(void)
{
    char *from = filled(WEFT_GPU);
    if (me) { /* gets the error that PE 0 has left */
        CHECK(weft_finalize(job));
        return 0;
    }
    signal(SIGTERM, SIG_IGN); /* sent by weft run when it learns that PE 0 left */
    CHECK(!driver.LaunchHostFunc(stream, wait_for_main, NULL));
    OK(weft_get_on_stream(ctx, plain, from, BYTES, next, stream));
    job->waits.limit_ns = 1000 * 1000 * 1000;
    weft_status status = weft_finalize(job);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    let_go = true;
    CHECK(!driver.StreamSynchronize(stream));
    check_untouched();
    CHECK(!driver.StreamDestroy(stream));
    free(plain);
    printf("finalize gave %s: %s\n", weft_status_name(status), sentence);
    return 0;
}

/* --------------------------------------------------------------------------------------- simt */

static void leave_simt(void)
{
    weft_stream on;
    OK(weft_stream_create(&on));
    OK(weft_stream_host_call(on, take_time, NULL));
    get(WEFT_HOST, on);
    OK(weft_finalize(job));
    CHECK(come);
    check_plain(next);
    OK(weft_stream_synchronize(on));
    OK(weft_stream_destroy(on));
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "get";
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    next = (me + 1) % n;
    plain = malloc(BYTES);
    CHECK(plain);
    if (strcmp(part, "simt") == 0) {
        leave_simt();
        free(plain);
        return 0;
    }
    make_stream();
    if (strcmp(part, "get") == 0)
        leave_gets(WEFT_GPU);
    else if (strcmp(part, "get_host") == 0)
        leave_gets(WEFT_HOST);
    else if (strcmp(part, "signal") == 0)
        leave_signals();
    else if (strcmp(part, "file") == 0)
        leave_file();
    else if (strcmp(part, "graph") == 0)
        leave_graph(true);
    else if (strcmp(part, "graph_signal") == 0)
        leave_graph(false);
    else if (strcmp(part, "never") == 0)
        return leave_stuck();
    else
        return 2;
    CHECK(!driver.StreamDestroy(stream));
    free(plain);
    return 0;
}
