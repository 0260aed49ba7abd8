/* SPDX-License-Identifier: Apache-2.0 */
/* Performs the operations that device code passed to the proxy. Each ring has its own context, so
 * its fence and quiet cover the operations of that ring only. A failed operation fails the job; all
 * later operations are dropped, so that kernels end. */
#include "job/device_proxy.h"

#include "base/clock.h"
#include "base/config.h"
#include "gpu/gpu.h"
#include "job/device_proxy_place.h"
#include "job/waiter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/device/arithmetic.h>

_Static_assert((int)BOX_PROXIES == (int)WEFT_DEV_RINGS_MOST,
               "the box has an entry for each thread");

/* A ring and its thread. */
struct proxy_ring {
    struct proxy *proxy;
    struct weft_job *job;
    struct weft_ctx *ctx;  /* context of the world team; the job frees it */
    struct box_proxy *box; /* the thread's entry in the black box */
    uint64_t shown_ns;     /* time of the last update of `behind` in the black box, ns */
};

struct device_proxy {
    struct weft_job *job;
    uint32_t n;
    struct proxy proxies[WEFT_DEV_RINGS_MOST];
    struct proxy_ring rings[WEFT_DEV_RINGS_MOST];
};

/* ------------------------------------------------------------------------------------ addresses */

static bool is_inside(uintptr_t at, uintptr_t base, size_t size, size_t *offset)
{
    *offset = at - base;
    return *offset < size;
}

/* Resolves an address of this PE, as device code passes it, for the peer. Includes the library's
 * own areas. Device code has checked the range. */
static weft_status resolve(const struct proxy_ring *self, uintptr_t at, int pe, struct remote *to)
{
    const struct weft_job *job = self->job;
    bool found = false;
    for (int s = 0; s < SEG_COUNT && !found; s++) {
        to->segment = (enum segment_id)s;
        found =
            is_inside(at, (uintptr_t)job->segments[s].base, job->segments[s].size, &to->offset) ||
            is_inside(at, (uintptr_t)job->paths.map[job->pe][s], job->segments[s].size,
                      &to->offset);
    }
    if (!found && job->gpu) {
        to->segment = SEG_GPU;
        found =
            is_inside(at, gpu_heap_own(&job->gpu->heap)->base, job->gpu->heap.size, &to->offset);
    }
    struct peer *peers = found ? self->ctx->peers[segment_kind(to->segment)] : NULL;
    if (!peers || (unsigned)pe >= (unsigned)job->npes)
        return base_fail(WEFT_ERR_ADDRESS, "%#llx at PE %d is in no segment",
                         (unsigned long long)at, pe);
    to->peer = &peers[pe];
    return WEFT_OK;
}

/* ----------------------------------------------------------------------------------- atomics */

static const weft_amo fetching_amo[] = {
    [WEFT_DEV_ATOMIC_ADD] = WEFT_AMO_FETCH_ADD, [WEFT_DEV_ATOMIC_AND] = WEFT_AMO_FETCH_AND,
    [WEFT_DEV_ATOMIC_OR] = WEFT_AMO_FETCH_OR,   [WEFT_DEV_ATOMIC_XOR] = WEFT_AMO_FETCH_XOR,
    [WEFT_DEV_ATOMIC_SWAP] = WEFT_AMO_SWAP,     [WEFT_DEV_ATOMIC_CSWAP] = WEFT_AMO_CSWAP,
    [WEFT_DEV_ATOMIC_FETCH] = WEFT_AMO_FETCH,   [WEFT_DEV_ATOMIC_SET] = WEFT_AMO_SET,
};

static uint64_t add_f32(uint64_t a, uint64_t b)
{
    return weft_dev_bits_f32(weft_dev_f32_bits((uint32_t)a) + weft_dev_f32_bits((uint32_t)b));
}

static uint64_t add_f64(uint64_t a, uint64_t b)
{
    return weft_dev_bits_f64(weft_dev_f64_bits(a) + weft_dev_f64_bits(b));
}

static uint64_t add_f16x2(uint64_t a, uint64_t b)
{
    uint32_t low = weft_dev_f16_f32(weft_dev_f32_f16((uint16_t)a) + weft_dev_f32_f16((uint16_t)b));
    uint32_t high = weft_dev_f16_f32(weft_dev_f32_f16((uint16_t)(a >> 16)) +
                                     weft_dev_f32_f16((uint16_t)(b >> 16)));
    return low | high << 16;
}

static uint64_t add_bf16x2(uint64_t a, uint64_t b)
{
    uint32_t low =
        weft_dev_bf16_f32(weft_dev_f32_bf16((uint16_t)a) + weft_dev_f32_bf16((uint16_t)b));
    uint32_t high = weft_dev_bf16_f32(weft_dev_f32_bf16((uint16_t)(a >> 16)) +
                                      weft_dev_f32_bf16((uint16_t)(b >> 16)));
    return low | high << 16;
}

/* No path adds floating-point numbers, so this repeats compare-and-swap until no other PE changed
 * the value in between. */
static weft_status add_real(struct remote at, const struct proxy_request *r, uint64_t *before)
{
    uint64_t (*add)(uint64_t, uint64_t) = r->what == WEFT_DEV_ATOMIC_ADD_F32     ? add_f32
                                          : r->what == WEFT_DEV_ATOMIC_ADD_F64   ? add_f64
                                          : r->what == WEFT_DEV_ATOMIC_ADD_F16X2 ? add_f16x2
                                                                                 : add_bf16x2;
    const struct path_ops *ops = at.peer->ops;
    uint64_t seen = 0, expected;
    weft_status status = ops->atomic(at, WEFT_AMO_FETCH, r->bytes, 0, 0, &seen, false);
    do {
        expected = seen;
        if (!status)
            status = ops->atomic(at, WEFT_AMO_CSWAP, r->bytes, add(expected, r->value), expected,
                                 &seen, false);
    } while (!status && seen != expected);
    *before = expected;
    return status;
}

static weft_status run_atomic(struct remote at, const struct proxy_request *r, uint64_t *before)
{
    if (r->what >= WEFT_DEV_ATOMIC_ADD_F32)
        return add_real(at, r, before);
    weft_amo amo = fetching_amo[r->what];
    return at.peer->ops->atomic(at, amo, r->bytes, r->value, r->compare,
                                amo == WEFT_AMO_SET ? NULL : before, false);
}

/* ------------------------------------------------------------------------- one operation each */

static weft_status run_strided(struct remote at, const struct proxy_request *r)
{
    const struct path_ops *ops = at.peer->ops;
    struct path_strides strides = {.remote_step = (size_t)r->remote_stride * r->bytes,
                                   .local_step = (size_t)r->local_stride * r->bytes,
                                   .element = r->bytes,
                                   .n = r->n};
    return r->operation == WEFT_DEV_OP_IPUT ? ops->iput(at, r->local, &strides)
                                            : ops->iget(at, r->local, &strides);
}

/* Puts 8 bytes as an LL packet. Both halves carry the sequence number, so they may arrive in any
 * order. */
static weft_status put_packet(struct remote at, const struct proxy_request *r)
{
    uint64_t wire[2] = {(r->compare & 0xffffffffu) | r->value << 32,
                        r->compare >> 32 | r->value << 32};
    return at.peer->ops->put(at, wire, sizeof wire, false);
}

static weft_status put_signal(const struct proxy_ring *self, struct remote at,
                              const struct proxy_request *r)
{
    struct remote signal;
    weft_status status = resolve(self, r->signal, r->pe, &signal);
    return status ? status
                  : ctx_put_signal(self->ctx, at, r->local ? r->local : &r->compare, r->bytes,
                                   signal, r->value, (weft_signal_op)r->what, false);
}

/* Whether the request moves no bytes; paths are called only for operations that move some, as in
 * host operations. WEFT_DEV_OP_NONE measures the ring itself. */
static bool is_empty(const struct proxy_request *r)
{
    switch (r->operation) {
    case WEFT_DEV_OP_PUT:
    case WEFT_DEV_OP_GET:
        return !r->bytes;
    case WEFT_DEV_OP_IPUT:
    case WEFT_DEV_OP_IGET:
        return !r->bytes || !r->n;
    default:
        return r->operation == WEFT_DEV_OP_NONE;
    }
}

/* Fence or quiet of all paths with open state. */
static weft_status order_paths(const struct proxy_ring *self, bool quiet)
{
    struct weft_ctx *ctx = self->ctx;
    weft_status status = WEFT_OK;
    int open = __atomic_load_n(&ctx->open_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < open && !status && !job_failed(self->job); i++)
        status = quiet ? ctx->open[i].ops->quiet(ctx->open[i].state)
                       : ctx->open[i].ops->fence(ctx->open[i].state);
    atomic_thread_fence(memory_order_seq_cst);
    return status;
}

static weft_status do_request(const struct proxy_ring *self, const struct proxy_request *r,
                              uint64_t *before)
{
    struct remote at;
    if (is_empty(r))
        return WEFT_OK;
    weft_status status = resolve(self, r->symmetric, r->pe, &at);
    if (status)
        return status;
    const struct path_ops *ops = at.peer->ops;
    switch (r->operation) {
    case WEFT_DEV_OP_P:
        return r->local ? ops->put(at, r->local, r->bytes, false)
                        : ops->store(at, &r->value, r->bytes); /* little-endian, like every GPU */
    case WEFT_DEV_OP_G:
        return ops->load(at, before, r->bytes);
    case WEFT_DEV_OP_PUT:
        return ops->put(at, r->local, r->bytes, r->nbi);
    case WEFT_DEV_OP_GET:
        return ops->get(at, r->local, r->bytes, r->nbi);
    case WEFT_DEV_OP_IPUT:
    case WEFT_DEV_OP_IGET:
        return run_strided(at, r);
    case WEFT_DEV_OP_ATOMIC:
        return run_atomic(ctx_atomic(self->ctx, at), r, before);
    case WEFT_DEV_OP_FLAG:
        /* The fence prevents the flag of the previous barrier from arriving after this one. */
        status = order_paths(self, false);
        return status ? status : ops->store(at, &r->value, 8);
    case WEFT_DEV_OP_SIGNAL:
        return ctx_signal(self->ctx, at, r->value, (weft_signal_op)r->what, false);
    case WEFT_DEV_OP_PUT_SIGNAL:
        return put_signal(self, at, r);
    case WEFT_DEV_OP_PUT_PACKET:
        return put_packet(at, r);
    default:
        return base_fail(WEFT_ERR_UNSUPPORTED, "the proxy does not know operation %d",
                         r->operation);
    }
}

/* -------------------------------------------------------------- functions that the thread calls */

static void fail_job(struct proxy_ring *self, weft_status status, const char *what, int pe)
{
    char sentence[512], to[24] = "";
    if (pe >= 0)
        snprintf(to, sizeof to, " at PE %d", pe);
    snprintf(sentence, sizeof sentence, "PE %d, device code: %s%s: %s", self->job->pe, what, to,
             base_last_error());
    job_fail(self->job, status, sentence);
}

#define SHOW(member, value) atomic_store_explicit(&(member), value, memory_order_relaxed)

/* Records the current request in the black box, for `weft attach`, and at most once per millisecond
 * the number of requests after it. */
static void show_begin(struct proxy_ring *self, int operation, int pe)
{
    enum { LOOK_NS = 1000 * 1000 };
    struct box_proxy *box = self->box;
    uint64_t now = clock_coarse_ns();
    SHOW(box->operation, (uint32_t)operation);
    SHOW(box->peer, pe);
    SHOW(box->since_ns, now);
    if (now - self->shown_ns < LOOK_NS)
        return;
    self->shown_ns = now;
    uint64_t taken = atomic_load_explicit(&self->proxy->taken, memory_order_relaxed);
    uint64_t given = proxy_between(self->proxy, taken, proxy_written_end(self->proxy));
    SHOW(box->behind, given ? given - 1 : 0);
}

static void show_end(struct proxy_ring *self)
{
    SHOW(self->box->since_ns, 0);
}

static uint64_t run_request(void *argument, const struct proxy_request *request)
{
    struct proxy_ring *self = argument;
    struct box_proxy *box = self->box;
    uint64_t before = 0;
    if (job_failed(self->job))
        return 0;
    show_begin(self, request->operation, request->pe);
    weft_status status = do_request(self, request, &before);
    show_end(self);
    SHOW(box->carried, atomic_load_explicit(&box->carried, memory_order_relaxed) + 1);
    if (status)
        fail_job(self, status, device_operation_name((uint32_t)request->operation), request->pe);
    return before;
}

static void order_ring(struct proxy_ring *self, bool quiet)
{
    weft_status status = order_paths(self, quiet);
    if (status)
        fail_job(self, status, quiet ? "quiet" : "fence", -1);
}

static void fence(void *argument)
{
    order_ring(argument, false);
}

static void quiet(void *argument)
{
    struct proxy_ring *self = argument;
    struct box_proxy *box = self->box;
    show_begin(self, WEFT_DEV_OP_QUIET, -1);
    order_ring(self, true);
    show_end(self);
    SHOW(box->completed, atomic_load_explicit(&box->carried, memory_order_relaxed));
    SHOW(box->behind, 0);
}

static bool progress(void *argument)
{
    struct weft_ctx *ctx = ((struct proxy_ring *)argument)->ctx;
    int open = __atomic_load_n(&ctx->open_count, __ATOMIC_ACQUIRE);
    bool needed = false;
    for (int i = 0; i < open; i++)
        if (ctx->open[i].ops->progress) {
            ctx->open[i].ops->progress(ctx->open[i].state);
            needed = true;
        }
    return needed;
}

/* ---------------------------------------------------------------------------- start and stop */

weft_status device_proxy_assign_rings(const struct weft_job *job, struct weft_dev_peer *peers)
{
    const int *node_of = job->boot->node_of;
    int nodes = job->boot->nodes, rings = 1 + config_choice(CONFIG_PROXY_THREADS);
    int *size = calloc((size_t)nodes * 2, sizeof *size);
    if (!size)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d nodes", nodes);
    int *resolve = size + nodes;
    for (int pe = 0; pe < job->npes; pe++)
        size[node_of[pe]]++;
    for (int pe = 0; pe < job->npes; pe++) {
        int node = node_of[pe], from_own = resolve[node]++ - job->boot->local_pe % size[node];
        int apart = (node - node_of[job->pe] + nodes) % nodes;
        peers[pe].ring = (uint32_t)(((from_own + size[node]) % size[node] + apart) % rings);
    }
    free(size);
    return WEFT_OK;
}

static weft_status make_rings(struct device_proxy *self, struct device_view *view,
                              struct weft_dev_ring *ring)
{
    void *host, *own;
    uint64_t host_as_seen, begin[WEFT_DEV_RINGS_MOST * WEFT_DEV_RING_APART];
    uint32_t bits =
        (uint32_t)__builtin_ctzll((unsigned long long)config_int(CONFIG_TEST_PROXY_SLOTS));
    size_t bytes = proxy_device_begin(self->n, begin);
    weft_status status =
        view->shared_make(view, proxy_host_bytes(self->n, bits), &host, &host_as_seen);
    if (!status)
        status = view->table_make(view, proxy_device_bytes(self->n, bits), &own);
    if (!status)
        status = view->table_write(view, own, 0, begin, bytes);
    struct proxy_near near;
    bool has_near =
        !status && view->near_make &&
        view->near_make(view, proxy_near_bytes(self->n, bits), &near.mapped, &near.device);
    if (!status)
        proxy_lay_out(self->proxies, self->n, bits, host, host_as_seen, (uintptr_t)own,
                      has_near ? &near : NULL, ring);
    return status;
}

static weft_status start_ring(struct device_proxy *self, uint32_t number)
{
    struct weft_job *job = self->job;
    struct proxy_ring *ring = &self->rings[number];
    ring->job = job;
    ring->proxy = &self->proxies[number];
    ring->box = &job->box->proxies[number];
    weft_status status = ctx_new(job, job->world, 0, &ring->ctx);
    const struct proxy_owner owner = {ring, run_request, fence, quiet, progress};
    uint32_t spin = device_proxy_shares_cpus(job, (int)self->n) ? 1 : job->waits.spin;
    if (!status)
        status = proxy_start(ring->proxy, &owner, spin);
    return status ? status : device_proxy_place(job, ring->proxy->thread);
}

weft_status device_proxy_open(struct weft_job *job, struct device_view *view,
                              struct weft_dev_ring *ring, struct device_proxy **result)
{
    struct device_proxy *self = calloc(1, sizeof *self);
    *result = NULL;
    if (!self)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the proxy of device code");
    self->job = job;
    self->n = 1 + (uint32_t)config_choice(CONFIG_PROXY_THREADS);
    weft_status status = make_rings(self, view, ring);
    for (uint32_t i = 0; i < self->n && !status; i++)
        status = start_ring(self, i);
    if (status) {
        device_proxy_close(self); /* the job frees the contexts */
        return status;
    }
    __atomic_store_n(result, self, __ATOMIC_RELEASE); /* see start_device() */
    return WEFT_OK;
}

void device_proxy_close(struct device_proxy *self)
{
    for (uint32_t i = 0; self && i < self->n; i++)
        proxy_stop(&self->proxies[i]);
    free(self);
}

static weft_status wait_completed(struct weft_job *job, struct proxy *proxy, uint64_t end)
{
    struct waiter waiter = WAITER(job, BOX_OP_DEVICE_QUIET, -1);
    weft_status status = WEFT_OK;
    waiter.expected = proxy_between(proxy, proxy->number, end);
    while (!status && !proxy_completed(proxy, end)) {
        waiter.others = atomic_load_explicit(&proxy->taken, memory_order_relaxed);
        uint64_t completed = atomic_load_explicit(proxy->completed, memory_order_relaxed);
        status = waiter_step(&waiter, proxy_between(proxy, proxy->number, completed));
    }
    waiter_end(&waiter);
    return status;
}

/* Requests completion of all rings before it waits for the first. */
weft_status device_proxy_quiet(struct device_proxy *self)
{
    uint64_t end[WEFT_DEV_RINGS_MOST];
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < self->n; i++) {
        end[i] = proxy_written_end(&self->proxies[i]);
        proxy_request_completion(&self->proxies[i], end[i]);
    }
    for (uint32_t i = 0; i < self->n && !status; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the loop above has set it */
        status = wait_completed(self->job, &self->proxies[i], end[i]);
    return status;
}

void device_proxy_trace(struct device_proxy *self, struct proxy_times *times, uint64_t n)
{
    for (uint32_t i = 0; i < self->n; i++)
        proxy_trace_to(&self->proxies[i], times, n);
}

void device_proxy_wake(struct device_proxy *self)
{
    for (uint32_t i = 0; i < self->n; i++)
        proxy_wake(&self->proxies[i]);
}
