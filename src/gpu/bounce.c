/* SPDX-License-Identifier: Apache-2.0 */
/* See bounce.h. */
#include "gpu/bounce.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "gpu/stream.h"
#include "gpu/test/cache.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* bytes; each thread has two: one is filled while the other is emptied */
    STAGING_BYTES = 512 << 10,
    PIECE_LEAST = 128 << 10, /* bytes */
    THREADS_DEFAULT = 4,     /* most threads that WEFT_TEST_COPY_THREADS=auto uses */
};
/* The measurement of thresholds. */
enum {
    LARGEST_TRIED = 16 << 20, /* bytes */
    TRIES = 3,
    GAIN_PERCENT = 5, /* by which threads must be faster than a copy engine */
};
/* values of WEFT_TEST_COPY_THREADS and of WEFT_PROVE */
enum { THREADS_AUTO_CHOICE, PROVE_ALWAYS_CHOICE = 0 };

struct bounce_worker {
    struct gpu_bounce *bounce;
    pthread_t thread;
    bool started;
    CUstream streams[2];
    char *buffer; /* pinned, 2 * STAGING_BYTES */
};

struct gpu_bounce {
    struct gpu *gpu;
    int n; /* number of threads, including the calling one */
    struct bounce_worker workers[GPU_BOUNCE_THREADS]; /* the first is the calling thread */
    struct gpu_bounce_limits limits;
    /* Memory used for the measurement. It is freed only at the end: cuMemFree waits for everything
     * that runs on the GPU, which may be a kernel that waits for the requested copy. */
    CUdeviceptr measured_with;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    uint64_t turn; /* number of copies begun */
    int busy;      /* threads that still copy */
    bool stop;
    /* The current copy. */
    char *dst;
    const char *src;
    size_t bytes, piece;
    bool in;             /* into GPU memory */
    _Atomic size_t next; /* start of the bytes that no thread has claimed yet */
    weft_status status;  /* first failure */
    char message[256];
};

/* ------------------------------------------------------------------------------------- a worker */

static weft_status copy_piece(struct bounce_worker *w, int slot, void *dst, const void *src,
                              size_t bytes)
{
    const struct gpu_api *driver = &w->bounce->gpu->driver;
    CUresult result = driver->MemcpyAsync((uintptr_t)dst, (uintptr_t)src, bytes, w->streams[slot]);
    return result ? gpu_api_fail(driver, result, "cuMemcpyAsync of %zu bytes", bytes) : WEFT_OK;
}

static weft_status await_slot(struct bounce_worker *w, int slot)
{
    return gpu_wait_stream(w->bounce->gpu, w->streams[slot], "its own copies");
}

static bool claim_piece(struct gpu_bounce *b, size_t *at, size_t *bytes)
{
    *at = atomic_fetch_add_explicit(&b->next, b->piece, memory_order_relaxed);
    if (*at >= b->bytes)
        return false;
    *bytes = b->bytes - *at < b->piece ? b->bytes - *at : b->piece;
    return true;
}

static weft_status copy_in(struct bounce_worker *w)
{
    struct gpu_bounce *b = w->bounce;
    weft_status status = WEFT_OK;
    size_t at, bytes;
    for (int k = 0; !status && claim_piece(b, &at, &bytes); k++) {
        char *buffer = w->buffer + (size_t)(k % 2) * STAGING_BYTES;
        if (k >= 2)
            status = await_slot(w, k % 2);
        if (status)
            break;
        memcpy(buffer, b->src + at, bytes);
        status = copy_piece(w, k % 2, b->dst + at, buffer, bytes);
    }
    for (int slot = 0; slot < 2 && !status; slot++)
        status = await_slot(w, slot);
    return status;
}

static weft_status copy_out(struct bounce_worker *w)
{
    struct gpu_bounce *b = w->bounce;
    weft_status status = WEFT_OK;
    size_t at = 0, bytes = 0, last_at = 0, last_bytes = 0;
    int k = 0;
    for (bool more = true; more && !status; k++) {
        more = claim_piece(b, &at, &bytes);
        if (more)
            status = copy_piece(w, k % 2, w->buffer + (size_t)(k % 2) * STAGING_BYTES, b->src + at,
                                bytes);
        if (k > 0 && !status) { /* copies the previous piece out while this one is in flight */
            int slot = (k - 1) % 2;
            status = await_slot(w, slot);
            if (!status)
                memcpy(b->dst + last_at, w->buffer + (size_t)slot * STAGING_BYTES, last_bytes);
        }
        last_at = at;
        last_bytes = bytes;
    }
    return status;
}

/* After a failure: waits for copies that are still in flight, since the caller may reuse its memory
 * and the next copy the bounce buffers. If they do not end, the bounce buffers are not used any
 * more. */
static void drain_copies(struct bounce_worker *w)
{
    for (int slot = 0; slot < 2; slot++)
        if (await_slot(w, slot) == WEFT_ERR_TIMEOUT)
            atomic_store_explicit(&w->bounce->gpu->bouncing.refused, true, memory_order_relaxed);
}

/* Copies pieces until none is left. The first failure is reported and stops the other threads. */
static void copy_pieces(struct bounce_worker *w)
{
    struct gpu_bounce *b = w->bounce;
    char message[sizeof b->message];
    weft_status status = b->in ? copy_in(w) : copy_out(w);
    if (!status)
        return;
    snprintf(message, sizeof message, "%s", base_last_error());
    drain_copies(w);
    atomic_store_explicit(&b->next, b->bytes, memory_order_relaxed);
    pthread_mutex_lock(&b->lock);
    if (!b->status) {
        b->status = status;
        memcpy(b->message, message, sizeof message);
    }
    pthread_mutex_unlock(&b->lock);
}

static void *run_worker(void *argument)
{
    struct bounce_worker *w = argument;
    struct gpu_bounce *b = w->bounce;
    bool entered = gpu_enter(&b->gpu->device) == WEFT_OK;
    uint64_t turn = 0;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (b->turn == turn && !b->stop)
            pthread_cond_wait(&b->begin, &b->lock);
        if (b->stop)
            break;
        turn = b->turn;
        pthread_mutex_unlock(&b->lock);
        if (entered) /* else the other threads copy its share */
            copy_pieces(w);
        pthread_mutex_lock(&b->lock);
        if (--b->busy == 0)
            pthread_cond_signal(&b->end);
    }
    pthread_mutex_unlock(&b->lock);
    if (entered)
        gpu_leave(&b->gpu->device);
    return NULL;
}

/* The caller holds gpu->bounce_lock: one copy at a time. */
static weft_status copy_by_threads(struct gpu_bounce *b, void *dst, const void *src, size_t bytes,
                                   bool in)
{
    size_t piece = bytes / (2 * (size_t)b->n) / PIECE_LEAST * PIECE_LEAST;
    b->dst = dst;
    b->src = src;
    b->bytes = bytes;
    b->piece = piece < PIECE_LEAST ? PIECE_LEAST : piece < STAGING_BYTES ? piece : STAGING_BYTES;
    b->in = in;
    b->status = WEFT_OK;
    atomic_store_explicit(&b->next, 0, memory_order_relaxed);
    pthread_mutex_lock(&b->lock); /* after this lock the workers see all fields set above */
    b->turn++;
    b->busy = b->n - 1;
    pthread_cond_broadcast(&b->begin);
    pthread_mutex_unlock(&b->lock);
    copy_pieces(&b->workers[0]);
    pthread_mutex_lock(&b->lock);
    while (b->busy)
        pthread_cond_wait(&b->end, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return b->status ? base_fail(b->status, "%s", b->message) : WEFT_OK;
}

/* ----------------------------------------------------------------------------- start and stop */

static weft_status make_worker(struct gpu_bounce *b, int number)
{
    struct bounce_worker *w = &b->workers[number];
    const struct gpu_api *driver = &b->gpu->driver;
    void *buffer = NULL;
    w->bounce = b;
    CUresult result = driver->MemHostAlloc(&buffer, 2 * STAGING_BYTES, CU_MEMHOSTALLOC_PORTABLE);
    w->buffer = result ? NULL : buffer;
    for (int slot = 0; slot < 2 && !result; slot++)
        result = driver->StreamCreate(&w->streams[slot], CU_STREAM_NON_BLOCKING);
    if (result)
        return gpu_api_fail(driver, result, "bounce buffers and streams for copies by threads");
    int error = number ? thread_start(&w->thread, run_worker, w) : 0;
    w->started = number && !error;
    return error ? base_fail(WEFT_ERR_SYSTEM, "starting a thread for copies: %s", strerror(error))
                 : WEFT_OK;
}

static void destroy_bounce(struct gpu_bounce *b)
{
    const struct gpu_api *driver = &b->gpu->driver;
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_broadcast(&b->begin);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < GPU_BOUNCE_THREADS; i++) {
        struct bounce_worker *w = &b->workers[i];
        bool idle = !b->gpu->work_left;
        if (w->started)
            pthread_join(w->thread, NULL);
        for (int slot = 0; slot < 2; slot++) {
            if (!w->streams[slot])
                continue;
            idle &= gpu_wait_stream(b->gpu, w->streams[slot], "its own copies") != WEFT_ERR_TIMEOUT;
            driver->StreamDestroy(w->streams[slot]);
        }
        if (w->buffer && idle)
            driver->MemFreeHost(w->buffer);
    }
    if (b->measured_with && !b->gpu->work_left)
        driver->MemFree(b->measured_with);
    pthread_cond_destroy(&b->begin);
    pthread_cond_destroy(&b->end);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static weft_status create_bounce(struct gpu *gpu, int n, struct gpu_bounce **result)
{
    struct gpu_bounce *b = calloc(1, sizeof *b);
    if (!b)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for copies by threads");
    b->gpu = gpu;
    b->n = n;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->begin, NULL);
    pthread_cond_init(&b->end, NULL);
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && !status; i++)
        status = make_worker(b, i);
    if (status) {
        char message[256];
        snprintf(message, sizeof message, "%s", base_last_error());
        destroy_bounce(b);
        return base_fail(status, "%s", message);
    }
    *result = b;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------ from which size */

/* Uses as many threads as help on a machine with free CPUs, limited to this PE's share of the
 * CPUs. */
static int choose_thread_count(const struct gpu *gpu)
{
    int wanted = config_choice(CONFIG_TEST_COPY_THREADS);
    cpu_set_t set;
    if (wanted != THREADS_AUTO_CHOICE)
        return wanted;
    int own = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set) / gpu->boot->local_npes;
    return own < THREADS_DEFAULT ? own : THREADS_DEFAULT;
}

/* Returns the shortest time of several tries, by threads or by the copy engine. gpu_copy() does not
 * use the threads here, since the bounce lock is held. */
static uint64_t shortest_copy_ns(struct gpu_bounce *b, bool threads, void *dst, const void *src,
                                 size_t bytes, bool in)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t begin = clock_now_ns();
        weft_status status = threads ? copy_by_threads(b, dst, src, bytes, in)
                                     : gpu_copy(b->gpu, 0, dst, src, bytes, GPU_DONE);
        uint64_t ns = clock_now_ns() - begin;
        if (status)
            return UINT64_MAX;
        least = ns < least ? ns : least;
    }
    return least;
}

/* Returns the smallest size from which threads are faster; 0: they are not faster at the largest
 * size. */
static size_t find_threshold(struct gpu_bounce *b, void *host, void *device, bool in)
{
    size_t from = 0;
    for (size_t bytes = LARGEST_TRIED; bytes >= GPU_BOUNCE_LEAST; bytes /= 2) {
        void *dst = in ? device : host;
        const void *src = in ? host : device;
        uint64_t engine = shortest_copy_ns(b, false, dst, src, bytes, in);
        uint64_t own = shortest_copy_ns(b, true, dst, src, bytes, in);
        if (own == UINT64_MAX || own + own * GAIN_PERCENT / 100 > engine)
            break;
        from = bytes;
    }
    return from;
}

static void measure_thresholds(struct gpu_bounce *b)
{
    const struct gpu_api *driver = &b->gpu->driver;
    CUdeviceptr device = 0;
    char *host = malloc(LARGEST_TRIED);
    if (host && driver->MemAlloc(&device, LARGEST_TRIED) == CUDA_SUCCESS) {
        memset(host, 1, LARGEST_TRIED); /* touches the pages */
        b->limits.in_from = find_threshold(b, host, (void *)(uintptr_t)device, true);
        b->limits.out_from = find_threshold(b, host, (void *)(uintptr_t)device, false);
    }
    b->measured_with = device;
    free(host);
}

static void find_bounce_limits(struct gpu_bounce *b)
{
    struct gpu *gpu = b->gpu;
    char name[32];
    size_t known[2];
    b->limits.threads = b->n;
    if (config_choice(CONFIG_TEST_COPY_THREADS) != THREADS_AUTO_CHOICE) {
        b->limits.in_from = b->limits.out_from = GPU_BOUNCE_LEAST;
        return;
    }
    snprintf(name, sizeof name, "gpu-bounces-%d", b->n);
    if (config_choice(CONFIG_PROVE) != PROVE_ALWAYS_CHOICE &&
        proof_cache_load_numbers(name, &gpu->device.uuid, gpu->driver.driver_version, known, 2)) {
        b->limits.in_from = known[0];
        b->limits.out_from = known[1];
    } else {
        measure_thresholds(b);
        proof_cache_store_numbers(name, &gpu->device.uuid, gpu->driver.driver_version,
                                  (size_t[2]){b->limits.in_from, b->limits.out_from}, 2);
    }
    log_info(LOG_GPU,
             "%d threads copy plain memory into GPU memory from %zu bytes on, out of it from %zu "
             "(0 = never)",
             b->n, b->limits.in_from, b->limits.out_from);
}

/* The caller holds gpu->bounce_lock. NULL: copies by threads are not used. */
static struct gpu_bounce *get_bounce(struct gpu *gpu)
{
    if (gpu->bouncing.threads || gpu->bouncing.refused)
        return gpu->bouncing.refused ? NULL : gpu->bouncing.threads;
    int n = choose_thread_count(gpu);
    if (n < 2 || create_bounce(gpu, n, &gpu->bouncing.threads)) {
        if (n >= 2)
            log_info(LOG_GPU, "the driver does large copies from plain memory: %s",
                     base_last_error());
        gpu->bouncing.refused = true;
        return NULL;
    }
    find_bounce_limits(gpu->bouncing.threads);
    gpu->bouncing.refused =
        !gpu->bouncing.threads->limits.in_from && !gpu->bouncing.threads->limits.out_from;
    return gpu->bouncing.refused ? NULL : gpu->bouncing.threads;
}

bool gpu_bounce(struct gpu *gpu, struct gpu_stream *internal, void *dst, const void *src,
                size_t bytes, weft_status *status)
{
    if (bytes < GPU_BOUNCE_LEAST || gpu->owner ||
        atomic_load_explicit(&gpu->bouncing.refused, memory_order_relaxed))
        return false;
    enum gpu_place to = gpu_place_of(gpu, dst), from = gpu_place_of(gpu, src);
    bool in = to == GPU_PLACE_DEVICE && from == GPU_PLACE_PLAIN;
    if (!in && (to != GPU_PLACE_PLAIN || from != GPU_PLACE_DEVICE))
        return false;
    if (pthread_mutex_trylock(&gpu->bouncing.lock)) /* another thread copies or measures */
        return false;
    struct gpu_bounce *b = get_bounce(gpu);
    size_t least = !b ? 0 : in ? b->limits.in_from : b->limits.out_from;
    bool is_faster = least && bytes >= least;
    if (is_faster) {
        *status = stream_drain(gpu, internal);
        if (!*status)
            *status = copy_by_threads(b, dst, src, bytes, in);
    }
    pthread_mutex_unlock(&gpu->bouncing.lock);
    return is_faster;
}

struct gpu_bounce_limits gpu_bounce_limits(struct gpu *gpu)
{
    struct gpu_bounce_limits limits = {0};
    if (gpu_enter(&gpu->device))
        return limits;
    pthread_mutex_lock(&gpu->bouncing.lock);
    struct gpu_bounce *b = get_bounce(gpu);
    if (b)
        limits = b->limits;
    pthread_mutex_unlock(&gpu->bouncing.lock);
    gpu_leave(&gpu->device);
    return limits;
}

void gpu_bounce_stop(struct gpu *gpu)
{
    if (gpu->bouncing.threads)
        destroy_bounce(gpu->bouncing.threads);
    gpu->bouncing.threads = NULL;
}
