/* SPDX-License-Identifier: Apache-2.0 */
/* See serve.h. Host memory: the operations of path p2p, which complete at once. GPU memory: copies,
 * accesses and signals on one internal stream of this PE's GPU, in order there and complete later,
 * when an event recorded after them has completed. Operations outside that stream wait for it
 * first. */
#include "path/serve.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    EVENTS_MOST = 64, /* events in flight */
    SERVE_STREAM = 1  /* internal stream; contexts are spread over all of them */
};

/* An event of the GPU after the first `begun` requests. */
struct serve_event {
    uint64_t begun;
    struct gpu_event *event;
};

struct serve {
    const struct path_world *world;
    struct peer host;         /* this PE's own host memory, for the table of p2p */
    uint64_t begun, complete; /* number of requests */
    bool stream_busy;         /* The stream has operations. */
    bool event_due;           /* No event follows the last of them. */
    struct serve_event
        events[EVENTS_MOST]; /* ring with the events first_event ... next_event - 1 */
    uint64_t first_event, next_event;
};

weft_status serve_open(const struct path_world *world, struct serve **result)
{
    struct serve *serve = aligned_alloc(64, (sizeof *serve + 63) & ~(size_t)63);
    if (!serve)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory to serve peers");
    memset(serve, 0, sizeof *serve);
    serve->world = world;
    serve->host.pe = world->pe;
    serve->host.kind = WEFT_HOST;
    serve->host.world = world;
    serve->host.ops = path_ops_of(PATH_P2P);
    *result = serve;
    return WEFT_OK;
}

static void drop_events(struct serve *serve)
{
    for (; serve->first_event < serve->next_event; serve->first_event++)
        gpu_event_release(serve->world->gpu,
                          &serve->events[serve->first_event % EVENTS_MOST].event);
}

void serve_close(struct serve *serve)
{
    if (!serve)
        return;
    drop_events(serve);
    free(serve);
}

/* --------------------------------------------------------------------------------- addresses */

static size_t segment_bytes(const struct serve *serve, unsigned segment)
{
    if (segment < SEG_COUNT)
        return serve->world->sizes[segment];
    return segment == SEG_GPU && serve->world->gpu ? serve->world->gpu->heap.size : 0;
}

static weft_status check_range(const struct serve *serve, unsigned segment, uint64_t offset,
                               uint64_t bytes)
{
    size_t size = segment_bytes(serve, segment);
    bool there = segment < SEG_COUNT || (segment == SEG_GPU && serve->world->gpu);
    if (there && offset <= size && bytes <= size - offset)
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_ADDRESS,
        "a peer asked for %llu bytes at offset %#llx of segment %u of PE %d, which has "
        "%#zx bytes",
        (unsigned long long)bytes, (unsigned long long)offset, segment, serve->world->pe, size);
}

static weft_status check_request(const struct serve *serve, const struct serve_request *r)
{
    bool single = r->operation == SERVE_STORE || r->operation == SERVE_LOAD;
    if (r->operation >= SERVE_OPERATIONS ||
        (r->operation == SERVE_ATOMIC && r->amo >= WEFT_AMO_COUNT))
        return base_fail(WEFT_ERR_ARGUMENT, "a peer asked PE %d for operation %u (%u)",
                         serve->world->pe, r->operation, r->amo);
    if ((single && (r->bytes > 8 || r->bytes == 0 || r->bytes & (r->bytes - 1))) ||
        (r->operation == SERVE_ATOMIC && r->bytes != 4 && r->bytes != 8) ||
        ((single || r->operation == SERVE_ATOMIC) && r->offset % r->bytes))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "a peer asked PE %d for a single access of %llu bytes at offset %#llx",
                         serve->world->pe, (unsigned long long)r->bytes,
                         (unsigned long long)r->offset);
    weft_status status = check_range(serve, r->segment, r->offset, r->bytes);
    if (status || r->operation != SERVE_PUT_SIGNAL)
        return status;
    if (r->signal_offset % sizeof(uint64_t))
        return base_fail(WEFT_ERR_ARGUMENT, "a peer asked PE %d for a signal at offset %#llx",
                         serve->world->pe, (unsigned long long)r->signal_offset);
    return check_range(serve, r->signal_segment, r->signal_offset, sizeof(uint64_t));
}

static struct remote host_remote(struct serve *serve, unsigned segment, uint64_t offset)
{
    return (struct remote){&serve->host, (enum segment_id)segment, (size_t)offset};
}

static CUdeviceptr gpu_pointer(const struct serve *serve, uint64_t offset)
{
    const struct gpu *gpu = serve->world->gpu;
    return gpu_address(gpu, gpu->slot_of[serve->world->pe], (size_t)offset);
}

/* -------------------------------------------------------------------------------- completion */

/* Waits until the stream is empty: an operation outside the stream, or of the CPU, must come after
 * those on it. */
static weft_status drain_stream(struct serve *serve)
{
    if (!serve->stream_busy)
        return WEFT_OK;
    weft_status status = gpu_stream_quiet(serve->world->gpu, SERVE_STREAM);
    if (!status) {
        serve->stream_busy = serve->event_due = false;
        drop_events(serve);
    }
    return status;
}

weft_status serve_quiet(struct serve *serve)
{
    weft_status status = drain_stream(serve);
    serve->complete = status ? serve->complete : serve->begun;
    return status;
}

uint64_t serve_count_begun(const struct serve *serve)
{
    return serve->begun;
}

weft_status serve_poll(struct serve *serve, uint64_t *complete)
{
    weft_status status = WEFT_OK;
    while (!status && serve->first_event < serve->next_event) {
        struct serve_event *oldest = &serve->events[serve->first_event % EVENTS_MOST];
        status = gpu_event_query(serve->world->gpu, &oldest->event);
        if (status || oldest->event)
            break;
        serve->complete = oldest->begun;
        serve->first_event++;
    }
    if (!status && serve->first_event == serve->next_event && !serve->event_due) {
        serve->stream_busy = false;
        serve->complete = serve->begun;
    }
    *complete = serve->complete;
    return status;
}

/* Records an event after the last operation on the stream. If the ring is full, it waits until the
 * stream is empty instead. */
static weft_status record_event(struct serve *serve)
{
    struct serve_event *next = &serve->events[serve->next_event % EVENTS_MOST];
    if (serve->next_event - serve->first_event == EVENTS_MOST)
        return drain_stream(serve);
    next->begun = serve->begun;
    weft_status status = gpu_event_record(serve->world->gpu, SERVE_STREAM, &next->event);
    if (status)
        return status;
    serve->next_event++;
    serve->event_due = false;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- host memory */

static weft_status execute_on_host(struct serve *serve, const struct serve_request *r, void *data,
                                   uint64_t *before)
{
    const struct path_ops *ops = serve->host.ops;
    struct remote at = host_remote(serve, r->segment, r->offset);
    size_t bytes = (size_t)r->bytes;
    weft_status status = drain_stream(serve);
    if (status)
        return status;
    switch (r->operation) {
    case SERVE_GET:
        return ops->get(at, data, bytes, false);
    case SERVE_STORE:
        return ops->store(at, data, bytes);
    case SERVE_LOAD:
        return ops->load(at, data, bytes);
    case SERVE_ATOMIC:
        return ops->atomic(at, (weft_amo)r->amo, bytes, r->value, r->expected, before, false);
    default:
        return ops->put(at, data, bytes, false);
    }
}

/* -------------------------------------------------------------------------------- GPU memory */

static weft_status access_gpu(struct serve *serve, const struct serve_request *r, int op,
                              uint64_t value, uint64_t *before)
{
    bool fetches = op == GPU_ACCESS_LOAD || (op != GPU_ACCESS_STORE && op >= WEFT_AMO_FETCH);
    uint64_t found = 0;
    weft_status status =
        gpu_access(serve->world->gpu, SERVE_STREAM, gpu_pointer(serve, r->offset), op,
                   (size_t)r->bytes, value, r->expected, fetches ? &found : NULL);
    if (before)
        *before = found;
    return status;
}

static weft_status store_gpu(struct serve *serve, const struct serve_request *r, const void *data)
{
    uint64_t value = 0;
    memcpy(&value, data, (size_t)r->bytes);
    return access_gpu(serve, r, GPU_ACCESS_STORE, value, NULL);
}

/* A value that the GPU returned comes after everything that was on the stream. */
static weft_status mark_stream_empty(struct serve *serve, weft_status status)
{
    if (status)
        return status;
    drop_events(serve);
    serve->stream_busy = serve->event_due = false;
    return WEFT_OK;
}

static weft_status load_gpu(struct serve *serve, const struct serve_request *r, void *data)
{
    uint64_t value = 0;
    weft_status status = access_gpu(serve, r, GPU_ACCESS_LOAD, 0, &value);
    memcpy(data, &value, (size_t)r->bytes);
    return mark_stream_empty(serve, status);
}

static weft_status atomic_gpu(struct serve *serve, const struct serve_request *r, uint64_t *before)
{
    weft_status status = access_gpu(serve, r, r->amo, r->value, before);
    return r->amo >= WEFT_AMO_FETCH ? mark_stream_empty(serve, status) : status;
}

/* A requester that waits for one word gets it sooner by a load. For many gets in a row the copies
 * overlap. */
static weft_status get_gpu(struct serve *serve, const struct serve_request *r, void *data)
{
    struct gpu *gpu = serve->world->gpu;
    CUdeviceptr at = gpu_pointer(serve, r->offset);
    bool word = r->bytes > 0 && at % sizeof(uint64_t) + r->bytes <= sizeof(uint64_t);
    if (r->urgent && word && serve->first_event == serve->next_event)
        return load_gpu(serve, r, data);
    return gpu_copy(gpu, SERVE_STREAM, data, (const void *)(uintptr_t)at, (size_t)r->bytes,
                    GPU_IN_ORDER);
}

/* A few bytes are stored sooner than copied, and the source can be reused at once. */
static weft_status put_gpu(struct serve *serve, const struct serve_request *r, const void *data)
{
    enum { FEW_BYTES = 24 };
    struct gpu *gpu = serve->world->gpu;
    void *to = (void *)(uintptr_t)gpu_pointer(serve, r->offset);
    unsigned char few[FEW_BYTES];
    if (r->bytes > sizeof few)
        return gpu_copy(gpu, SERVE_STREAM, to, data, (size_t)r->bytes, GPU_IN_ORDER);
    memcpy(few, data, (size_t)r->bytes);
    return gpu_copy_plain(gpu, SERVE_STREAM, to, few, (size_t)r->bytes);
}

static weft_status execute_on_gpu(struct serve *serve, const struct serve_request *r, void *data,
                                  uint64_t *before)
{
    switch (r->operation) {
    case SERVE_GET:
        return get_gpu(serve, r, data);
    case SERVE_STORE:
        return store_gpu(serve, r, data);
    case SERVE_LOAD:
        return load_gpu(serve, r, data);
    case SERVE_ATOMIC:
        return atomic_gpu(serve, r, before);
    default:
        return put_gpu(serve, r, data);
    }
}

/* ---------------------------------------------------------------------------------- requests */

static weft_status execute_request(struct serve *serve, const struct serve_request *r, void *data,
                                   uint64_t *before)
{
    if (r->segment != SEG_GPU)
        return execute_on_host(serve, r, data, before);
    serve->stream_busy = serve->event_due = true;
    return execute_on_gpu(serve, r, data, before);
}

/* The signal is executed as a request of its own after the data. */
static weft_status execute_signal(struct serve *serve, const struct serve_request *r)
{
    struct serve_request signal = {.operation = SERVE_ATOMIC,
                                   .segment = r->signal_segment,
                                   .amo = r->signal_op == WEFT_SIGNAL_SET ? WEFT_AMO_SET
                                                                          : WEFT_AMO_ADD,
                                   .offset = r->signal_offset,
                                   .bytes = sizeof(uint64_t),
                                   .value = r->value};
    if (r->signal_segment != SEG_GPU)
        return execute_on_host(serve, &signal, NULL, NULL);
    serve->stream_busy = serve->event_due = true;
    return gpu_signal(serve->world->gpu, SERVE_STREAM, gpu_pointer(serve, r->signal_offset),
                      r->value, (weft_signal_op)r->signal_op);
}

/* --------------------------------------------------------------------- stores of a few words */

/* Splits a request into a few stores of words. False if it needs more. */
static bool split_into_words(struct serve *serve, const struct serve_request *r, const void *data,
                             struct gpu_word *words, int *n)
{
    bool set = r->operation == SERVE_ATOMIC && r->amo == WEFT_AMO_SET;
    bool put = r->operation == SERVE_PUT || r->operation == SERVE_STORE;
    bool signal = r->operation == SERVE_PUT_SIGNAL && r->signal_segment == SEG_GPU &&
                  r->signal_op == WEFT_SIGNAL_SET;
    if (r->segment != SEG_GPU || !(set || put || signal))
        return false;
    *n = gpu_split_words(gpu_pointer(serve, r->offset), set ? (const void *)&r->value : data,
                         (size_t)r->bytes, words);
    if (!*n && !(signal && r->bytes == 0))
        return false;
    if (signal)
        words[(*n)++] = (struct gpu_word){gpu_pointer(serve, r->signal_offset), r->value, 8};
    return true;
}

/* Gives such a request and its event to the GPU in one call. False: the request must be executed
 * like others. */
static bool store_words(struct serve *serve, const struct serve_request *r, const void *data)
{
    struct serve_event *next = &serve->events[serve->next_event % EVENTS_MOST];
    struct gpu_word words[GPU_MOST_WORDS];
    int n;
    if (serve->next_event - serve->first_event == EVENTS_MOST ||
        !split_into_words(serve, r, data, words, &n) ||
        gpu_store_recorded(serve->world->gpu, SERVE_STREAM, words, n, &next->event) || !next->event)
        return false;
    next->begun = serve->begun;
    serve->next_event++;
    serve->stream_busy = true;
    serve->event_due = false;
    return true;
}

weft_status serve_begin(struct serve *serve, const struct serve_request *request, void *data,
                        uint64_t *before)
{
    weft_status status = check_request(serve, request);
    serve->begun++;
    if (!status && store_words(serve, request, data))
        return WEFT_OK;
    if (!status)
        status = execute_request(serve, request, data, before);
    if (!status && request->operation == SERVE_PUT_SIGNAL)
        status = execute_signal(serve, request);
    if (!serve->event_due)
        return status;
    weft_status recorded = record_event(serve);
    return status ? status : recorded;
}
