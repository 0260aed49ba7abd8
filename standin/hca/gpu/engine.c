/* SPDX-License-Identifier: Apache-2.0 */
/* Thread of the GPU engine: hands QPs to the kernel, launches slices, and reclaims the QPs that the
 * kernel returns. See gpu/engine.h.
 *
 * The kernel owns a QP while qp->by_gpu is set. Only this thread changes it, between slices and
 * under the lock. The CPU engine does not access such a QP. */
#include "gpu/engine.h"
#include "gpu/driver.h"
#include "gpu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SLICE_NS = 4 * 1000 * 1000,
    POLL_NS = 20 * 1000,  /* interval of polling for the end of a slice */
    IDLE_NS = 500 * 1000, /* sleep when the kernel has no QP */
    RETURNS_MOST = 64,    /* after so many returns a QP stays with the CPU */
    BLOCKS_MOST = 64,     /* thread blocks. QUEUES_EACH equals QUEUES_A_BLOCK of gpu/kernel.h: */
    QUEUES_EACH = 32,
    REGISTER_BYTES = 128,
};

struct gpu_engine {
    const struct gpu_driver *driver;
    int gpu;
    void *context, *stream, *function;
    pthread_t thread;
    atomic_bool stop;
    /* signalled at the end of a slice or of a sleep; used with the device's lock */
    pthread_cond_t ended;
    uint64_t slices;          /* slices that have ended */
    uint32_t *words;          /* pinned host memory; [0]: stop */
    uint64_t words_seen;      /* address of `words` on the GPU */
    struct gpu_queue *queues; /* pinned host memory */
    uint64_t queues_there, keys_there, attention_there;
    struct qp *owners[GPU_QUEUES];
    uint32_t count;
    uint64_t registers; /* doorbell registers in GPU memory */
    bool register_used[GPU_QUEUES];
    struct gpu_keys keys;
    uint64_t changes; /* sum of all change counts when the table was cleared */
};

/* PTX of the kernel, which the driver compiles; empty in a build without GPU kernels. */
#ifdef WEFT_HCA_PTX
#define TAKE_IN ".incbin \"" WEFT_HCA_PTX "\"\n"
#else
#define TAKE_IN
#endif
__asm__(".pushsection .rodata\n"
        ".globl weft_hca_image\n"
        ".hidden weft_hca_image\n"
        "weft_hca_image:\n" TAKE_IN ".byte 0\n"
        ".popsection\n");
extern const char weft_hca_image[] __attribute__((visibility("hidden")));

static void pause_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* --- Handing QPs to the kernel and back --- */

static bool is_gpu_runnable(const struct qp *qp)
{
    return qp->send.gpu_ring && !qp->send.by_gpu && !qp->send.leaving_gpu &&
           qp->send.gpu_returns < RETURNS_MOST && qp->type == QP_RC && qp->state == QP_RTS &&
           qp->send_cq->on_gpu && qp->send_cq->users <= 2 && qp->uar && qp->uar->queues == 1 &&
           qp->uar->gpu_address && !qp->uar->cpu_poll_pending && qp->requester.link &&
           !qp->requester.link->roce && !atomic_load(&qp->requester.link->dead) &&
           !qp->send.fault.syndrome && !qp->current.loaded && qp->send.taken == qp->send.producer &&
           qp->send.outstanding_head == qp->send.outstanding_tail;
}

static void hand_over_queue(struct gpu_engine *g, struct qp *qp)
{
    const struct cq *cq = qp->send_cq;
    g->owners[g->count] = qp;
    g->queues[g->count++] = (struct gpu_queue){
        .ring = qp->send.gpu_ring,
        .record = (uintptr_t)qp->record,
        .doorbell = qp->uar->gpu_address,
        .completion = (uintptr_t)cq->buffer,
        .blocks = qp->send.blocks,
        .number = qp->qpn,
        .peer = qp->requester.remote_qpn,
        .user_index = qp->user_index,
        .strict = qp->device->config->mode != MODE_LENIENT,
        .log_completions = cq->log_size,
        .rung = qp->uar->seen,
        .completions = cq->producer,
        .producer = qp->send.producer,
        .taken = qp->send.taken,
        .released = qp->send.released,
    };
    qp->send.by_gpu = true;
    qp->uar->by_cpu = false;
}

static void count(struct qp *qp, struct gpu_queue *k)
{
    struct device *d = qp->device;
    qp->counts.requests += k->requests;
    qp->counts.bytes += k->bytes;
    qp->counts.completions += k->completions - qp->send_cq->producer;
    qp->send_cq->producer = k->completions;
    d->record.requests += k->requests;
    d->record.by_gpu += k->requests;
    d->record.doorbells += k->doorbells;
    k->requests = k->bytes = k->doorbells = 0;
}

/* Returns a QP to the CPU engine, which continues where the kernel stopped. It has not yet seen the
 * doorbell's last value. */
static void reclaim_queue(struct gpu_engine *g, uint32_t i)
{
    struct qp *qp = g->owners[i];
    const struct gpu_queue *k = &g->queues[i];
    qp->send.producer = qp->send.taken = k->taken;
    qp->send.released = k->released;
    qp->send.by_gpu = false;
    if (qp->uar) {
        qp->uar->seen = 0;
        qp->uar->by_cpu = qp->uar->cpu_poll_pending = true;
    }
    g->owners[i] = g->owners[--g->count];
    g->queues[i] = g->queues[g->count];
}

static bool must_leave(const struct qp *qp, const struct gpu_queue *k)
{
    return qp->send.leaving_gpu || k->parked == GPU_UNUSUAL || qp->state != QP_RTS ||
           !qp->requester.link || atomic_load(&qp->requester.link->dead);
}

static uint64_t count_changes(const struct gpu_engine *g, const struct device *d)
{
    uint64_t sum = __atomic_load_n(&d->threads.wakeup[2], __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < g->count; i++)
        if (g->owners[i]->requester.link && g->owners[i]->requester.link->wakeup)
            sum += (uint64_t)__atomic_load_n(&g->owners[i]->requester.link->wakeup[2],
                                             __ATOMIC_ACQUIRE)
                   << 20;
    return sum + g->count;
}

/* Decides which QPs the kernel runs in the next slice; under the lock. */
static void update_owners(struct device *d, struct gpu_engine *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        struct qp *qp = g->owners[i];
        count(qp, &g->queues[i]);
        if (!must_leave(qp, &g->queues[i]))
            continue;
        qp->send.gpu_returns += g->queues[i].parked == GPU_UNUSUAL;
        reclaim_queue(g, i--);
    }
    for (unsigned n = 1; n < MAX_QPS; n++) {
        struct qp *qp = d->objects.qps[n];
        if (qp && is_gpu_runnable(qp) && g->count < GPU_QUEUES)
            hand_over_queue(g, qp);
        else if (qp && qp->send.gpu_ring && qp->uar && !qp->send.by_gpu && qp->state != QP_RESET)
            qp->uar->by_cpu = true;
    }
    uint64_t changes = count_changes(g, d);
    if (changes != g->changes)
        gpu_keys_clear(&g->keys, g->driver);
    g->changes = changes;
}

/* Finds the keys that QPs lack, without the lock. A QP whose key is not found returns to the
 * CPU. */
static bool find_keys(struct device *d, struct gpu_engine *g)
{
    bool left = false;
    for (uint32_t i = 0; i < g->count; i++) {
        struct gpu_queue *k = &g->queues[i];
        if (k->parked != GPU_LACKS_KEY)
            continue;
        const struct gpu_key_request want = {.key = (uint32_t)k->lacks,
                                             .number = k->number,
                                             .peer = k->peer,
                                             .remote = g->owners[i]->requester.remote,
                                             .is_remote =
                                                 k->lacks >> 32 == k->peer && k->peer != k->number};
        bool found = gpu_keys_add(d, &g->keys, g->driver, g->gpu, &want);
        k->parked = found ? GPU_RUNS : GPU_UNUSUAL;
        left |= !found;
    }
    return left;
}

/* --- Slices --- */

static int launch(struct gpu_engine *g)
{
    struct gpu_slice slice = {.ns = SLICE_NS,
                              .stop = g->words_seen,
                              .attention = g->attention_there,
                              .queues = g->queues_there,
                              .keys = g->keys_there,
                              .count = g->count};
    const struct gpu_driver *driver = g->driver;
    void *arguments[] = {&slice};
    unsigned blocks = g->count < BLOCKS_MOST ? g->count : BLOCKS_MOST;
    int result = driver->copy(g->queues_there, (uintptr_t)g->queues, g->count * sizeof *g->queues,
                              g->stream);
    if (!result && g->keys.changed)
        result = driver->copy(g->keys_there, (uintptr_t)g->keys.table,
                              GPU_KEYS * sizeof *g->keys.table, g->stream);
    g->keys.changed &= result != 0;
    if (!result) /* words[1] is always 0 */
        result = driver->copy(g->attention_there, (uintptr_t)&g->words[1], 4, g->stream);
    if (!result)
        result =
            driver->launch(g->function, blocks, 1, 1, 256, 1, 1, 0, g->stream, arguments, NULL);
    if (!result)
        result = driver->copy((uintptr_t)g->queues, g->queues_there, g->count * sizeof *g->queues,
                              g->stream);
    return result;
}

static int run_slice(struct gpu_engine *g)
{
    int result = launch(g);
    while (!result && (result = g->driver->stream_query(g->stream)) == DRIVER_NOT_READY) {
        pause_ns(POLL_NS);
        result = 0;
    }
    return result;
}

static void end_slice(struct device *d, struct gpu_engine *g)
{
    __atomic_store_n(&g->words[0], 0, __ATOMIC_RELEASE);
    g->slices++;
    pthread_cond_broadcast(&g->ended);
}

static void *run_queues_on_gpu(void *device)
{
    struct device *d = device;
    struct gpu_engine *g = d->gpu;
    int result = g->driver->push(g->context);
    device_lock(d);
    while (!atomic_load(&g->stop) && !result) {
        update_owners(d, g);
        end_slice(d, g);
        device_unlock(d);
        if (!g->count)
            pause_ns(IDLE_NS);
        else if (!find_keys(d, g))
            result = run_slice(g);
        device_lock(d);
    }
    if (result)
        log_error(d, "the engine on GPU %d ends: the CUDA driver says %d", g->gpu, result);
    while (g->count)
        reclaim_queue(g, 0);
    atomic_store(&g->stop, true);
    end_slice(d, g);
    device_unlock(d);
    return NULL;
}

/* --- Start and stop --- */

static int make_memory(struct gpu_engine *g)
{
    const struct gpu_driver *driver = g->driver;
    void *words = NULL, *queues = NULL, *table = NULL;
    int result = driver->host_alloc(&words, 4096, DRIVER_HOST_PORTABLE_MAPPED);
    if (!result)
        result = driver->host_alloc(&queues, GPU_QUEUES * sizeof *g->queues,
                                    DRIVER_HOST_PORTABLE_MAPPED);
    if (!result)
        result = driver->host_alloc(&table, GPU_KEYS * sizeof *g->keys.table,
                                    DRIVER_HOST_PORTABLE_MAPPED);
    if (!result)
        result = driver->host_pointer(&g->words_seen, words, 0);
    if (!result)
        result = driver->allocate(&g->queues_there, GPU_QUEUES * sizeof *g->queues);
    if (!result)
        result = driver->allocate(&g->keys_there, GPU_KEYS * sizeof *g->keys.table);
    if (!result)
        result = driver->allocate(&g->attention_there, 256);
    if (!result)
        result = driver->allocate(&g->registers, GPU_QUEUES * REGISTER_BYTES);
    g->words = words;
    g->queues = queues;
    g->keys.table = table;
    if (!result) {
        memset(words, 0, 4096);
        gpu_keys_clear(&g->keys, driver);
    }
    return result;
}

/* Creates a stream of high priority, so that slices start before kernels of the program that wait
 * for free multiprocessors. */
static int make_stream(struct gpu_engine *g)
{
    enum { HIGHEST = -5 }; /* or the highest that there is */
    return g->driver->stream_create_priority
               ? g->driver->stream_create_priority(&g->stream, DRIVER_STREAM_NON_BLOCKING, HIGHEST)
               : g->driver->stream_create(&g->stream, DRIVER_STREAM_NON_BLOCKING);
}

/* Lets the GPU that owns the queues write the doorbell registers. */
static void open_registers(struct gpu_engine *g, int gpu)
{
    void *context, *popped;
    if (gpu == g->gpu || g->driver->retain(&context, gpu) || g->driver->push(context))
        return;
    g->driver->enable_peer(g->context, 0); /* peer access may be enabled already */
    g->driver->pop(&popped);
}

static int make_engine(struct gpu_engine *g)
{
    void *module, *popped;
    int result = g->driver->retain(&g->context, g->gpu);
    if (!result)
        result = g->driver->push(g->context);
    if (result)
        return result;
    result = g->driver->module_load(&module, weft_hca_image);
    if (!result)
        result = g->driver->module_function(&g->function, module, "weft_hca_slice");
    if (!result)
        result = make_stream(g);
    if (!result)
        result = make_memory(g);
    g->driver->pop(&popped);
    return result;
}

/* Chooses the engine's GPU: the one of the queues, or the next one. */
static int choose_gpu(const struct gpu_driver *driver, const struct config *c, int gpu)
{
    int n = 1;
    if (c->engine == ENGINE_OTHER && !driver->device_count(&n) && n > 1)
        return (gpu + 1) % n;
    return gpu;
}

static void clear_registers(struct gpu_engine *g)
{
    static const uint8_t zeros[REGISTER_BYTES];
    for (uint32_t i = 0; i < GPU_QUEUES; i++)
        gpu_memory_put(g->registers + (uint64_t)i * REGISTER_BYTES, zeros, sizeof zeros);
    gpu_memory_flush();
}

static struct gpu_engine *start_engine(struct device *d, int gpu)
{
    const struct gpu_driver *driver = gpu_driver();
    struct gpu_engine *g = driver ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    g->driver = driver;
    g->gpu = choose_gpu(driver, d->config, gpu);
    pthread_cond_init(&g->ended, NULL);
    int result = make_engine(g);
    if (!result && gpu_memory_add(g->registers, GPU_QUEUES * REGISTER_BYTES) != GPU_MEMORY_THERE)
        result = -1;
    if (!result) {
        open_registers(g, gpu);
        clear_registers(g);
        d->gpu = g;
        result = start_thread(&g->thread, run_queues_on_gpu, d);
    }
    if (!result)
        return g;
    device_lock(d);
    log_error(d, "no engine on GPU %d: %d", g->gpu, result);
    device_unlock(d);
    d->gpu = NULL;
    free(g); /* driver objects live as long as the process */
    return NULL;
}

bool gpu_engine_start(struct device *d, int gpu)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    bool there = d->config->engine != ENGINE_CPU && (d->gpu || start_engine(d, gpu));
    pthread_mutex_unlock(&lock);
    return there;
}

static void stop_slice(struct gpu_engine *g)
{
    __atomic_store_n(&g->words[0], 1, __ATOMIC_RELEASE);
}

void gpu_engine_stop(struct device *d)
{
    struct gpu_engine *g = d->gpu;
    if (!g)
        return;
    atomic_store(&g->stop, true);
    stop_slice(g);
    pthread_join(g->thread, NULL);
    if (d->config->log == LOG_ALL)
        fprintf(stderr, "mlx5_soft%u: GPU %d has executed %llu of %llu requests, in %llu slices\n",
                d->number, g->gpu, (unsigned long long)d->record.by_gpu,
                (unsigned long long)d->record.requests, (unsigned long long)g->slices);
    d->gpu = NULL;
}

/* --- Interface for other threads --- */

bool gpu_engine_map_doorbell(struct device *d, struct uar *uar)
{
    struct gpu_engine *g = d->gpu;
    void *popped;
    if (!g || g->driver->push(g->context))
        return false;
    /* The program may have registered it already. */
    int result = g->driver->host_register(uar->page, UAR_BYTES, DRIVER_HOST_PORTABLE_MAPPED);
    uar->registered = !result;
    if (result == DRIVER_ALREADY_REGISTERED)
        result = 0;
    if (!result)
        result = g->driver->host_pointer(&uar->gpu_address, uar->reg, 0);
    g->driver->pop(&popped);
    return !result;
}

bool gpu_engine_map(struct device *d, uint64_t memory, uint64_t bytes)
{
    struct gpu_engine *g = d->gpu;
    void *popped;
    if (g->driver->push(g->context))
        return false;
    bool open = gpu_keys_map(g->driver, g->gpu, memory, bytes);
    g->driver->pop(&popped);
    return open;
}

/* A register is not reused, because it keeps its last value. */
uint64_t gpu_engine_register(struct device *d)
{
    struct gpu_engine *g = d->gpu;
    for (uint32_t i = 0; g && i < GPU_QUEUES; i++) {
        if (g->register_used[i])
            continue;
        g->register_used[i] = true;
        return g->registers + (uint64_t)i * REGISTER_BYTES;
    }
    return 0;
}

static void await_slice(struct device *d, struct gpu_engine *g)
{
    uint64_t begun = g->slices;
    while (g->slices == begun && !atomic_load(&g->stop)) {
        stop_slice(g);
        pthread_cond_wait(&g->ended, &d->threads.lock);
    }
}

void gpu_engine_release_queue(struct device *d, struct qp *qp)
{
    device_lock(d);
    qp->send.leaving_gpu = true;
    while (qp->send.by_gpu)
        await_slice(d, d->gpu);
    device_unlock(d);
}

void gpu_engine_flush(struct device *d)
{
    struct gpu_engine *g = d->gpu;
    if (!g)
        return;
    device_lock(d);
    if (g->count)
        await_slice(d, g);
    device_unlock(d);
}
