/* SPDX-License-Identifier: Apache-2.0 */
/* See serve.h. Host memory: the operations of path p2p, which are complete at once. GPU memory:
 * copies, accesses and signals on one lane of this PE's GPU, in order there and complete later,
 * when an event behind them has passed. Whatever is not on that lane waits for it first. */
#include "path/serve.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    MARKS = 64,    /* copies of which the end is looked for */
    SERVE_LANE = 1 /* any: contexts are dealt out over all of them */
};

/* An event of the GPU behind the first `given` requests. */
struct mark {
    uint64_t given;
    struct gpu_event *event;
};

struct serve {
    const struct path_world *world;
    struct peer host;         /* this PE's own host memory, for the table of p2p */
    uint64_t given, complete; /* counts of requests */
    bool unsettled;           /* something is on the lane, */
    bool unmarked;            /* and no event behind it */
    struct mark marks[MARKS]; /* of the counts first_mark ... next_mark - 1, round */
    uint64_t first_mark, next_mark;
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

static void drop_marks(struct serve *serve)
{
    for (; serve->first_mark < serve->next_mark; serve->first_mark++)
        gpu_event_release(serve->world->gpu, &serve->marks[serve->first_mark % MARKS].event);
}

void serve_close(struct serve *serve)
{
    if (!serve)
        return;
    drop_marks(serve);
    free(serve);
}

/* ------------------------------------------------------------------------------------ places */

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

static weft_status check(const struct serve *serve, const struct serve_request *r)
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

static struct remote host_place(struct serve *serve, unsigned segment, uint64_t offset)
{
    return (struct remote){&serve->host, (enum segment_id)segment, (size_t)offset};
}

static CUdeviceptr gpu_place(const struct serve *serve, uint64_t offset)
{
    const struct gpu *gpu = serve->world->gpu;
    return gpu_address(gpu, gpu->slot_of[serve->world->pe], (size_t)offset);
}

/* -------------------------------------------------------------------------------- completion */

/* What is not on the lane, or is asked of the CPU, comes after what is on it. */
static weft_status settle(struct serve *serve)
{
    if (!serve->unsettled)
        return WEFT_OK;
    weft_status status = gpu_stream_quiet(serve->world->gpu, SERVE_LANE);
    if (!status) {
        serve->unsettled = serve->unmarked = false;
        drop_marks(serve);
    }
    return status;
}

weft_status serve_quiet(struct serve *serve)
{
    weft_status status = settle(serve);
    serve->complete = status ? serve->complete : serve->given;
    return status;
}

uint64_t serve_given(const struct serve *serve)
{
    return serve->given;
}

weft_status serve_look(struct serve *serve, uint64_t *complete)
{
    weft_status status = WEFT_OK;
    while (!status && serve->first_mark < serve->next_mark) {
        struct mark *mark = &serve->marks[serve->first_mark % MARKS];
        status = gpu_event_query(serve->world->gpu, &mark->event);
        if (status || mark->event)
            break;
        serve->complete = mark->given;
        serve->first_mark++;
    }
    if (!status && serve->first_mark == serve->next_mark && !serve->unmarked) {
        serve->unsettled = false;
        serve->complete = serve->given;
    }
    *complete = serve->complete;
    return status;
}

/* An event behind what has just been put on the lane. Where there is no room for another, all of it
 * is waited for: then there is nothing to look for. */
static weft_status mark(struct serve *serve)
{
    struct mark *next = &serve->marks[serve->next_mark % MARKS];
    if (serve->next_mark - serve->first_mark == MARKS)
        return settle(serve);
    next->given = serve->given;
    weft_status status = gpu_event_record(serve->world->gpu, SERVE_LANE, &next->event);
    if (status)
        return status;
    serve->next_mark++;
    serve->unmarked = false;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- host memory */

static weft_status on_host(struct serve *serve, const struct serve_request *r, void *data,
                           uint64_t *before)
{
    const struct path_ops *ops = serve->host.ops;
    struct remote at = host_place(serve, r->segment, r->offset);
    size_t bytes = (size_t)r->bytes;
    weft_status status = settle(serve);
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
    weft_status status = gpu_access(serve->world->gpu, SERVE_LANE, gpu_place(serve, r->offset), op,
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

/* What the lane answers comes behind all that was on it. */
static weft_status answered(struct serve *serve, weft_status status)
{
    if (status)
        return status;
    drop_marks(serve);
    serve->unsettled = serve->unmarked = false;
    return WEFT_OK;
}

static weft_status load_gpu(struct serve *serve, const struct serve_request *r, void *data)
{
    uint64_t value = 0;
    weft_status status = access_gpu(serve, r, GPU_ACCESS_LOAD, 0, &value);
    memcpy(data, &value, (size_t)r->bytes);
    return answered(serve, status);
}

static weft_status atomic_gpu(struct serve *serve, const struct serve_request *r, uint64_t *before)
{
    weft_status status = access_gpu(serve, r, r->amo, r->value, before);
    return r->amo >= WEFT_AMO_FETCH ? answered(serve, status) : status;
}

/* An asker that does nothing but wait for one word has it sooner by a load; of many gets in a row
 * the copies run at the same time. */
static weft_status get_gpu(struct serve *serve, const struct serve_request *r, void *data)
{
    struct gpu *gpu = serve->world->gpu;
    CUdeviceptr at = gpu_place(serve, r->offset);
    bool word = r->bytes > 0 && at % sizeof(uint64_t) + r->bytes <= sizeof(uint64_t);
    if (r->urgent && word && serve->first_mark == serve->next_mark)
        return load_gpu(serve, r, data);
    return gpu_copy(gpu, SERVE_LANE, data, (const void *)(uintptr_t)at, (size_t)r->bytes,
                    GPU_IN_ORDER);
}

/* Few bytes are sooner stored than copied, and need not stay where they are. */
static weft_status put_gpu(struct serve *serve, const struct serve_request *r, const void *data)
{
    enum { FEW_BYTES = 24 };
    struct gpu *gpu = serve->world->gpu;
    void *to = (void *)(uintptr_t)gpu_place(serve, r->offset);
    unsigned char few[FEW_BYTES];
    if (r->bytes > sizeof few)
        return gpu_copy(gpu, SERVE_LANE, to, data, (size_t)r->bytes, GPU_IN_ORDER);
    memcpy(few, data, (size_t)r->bytes);
    return gpu_copy_plain(gpu, SERVE_LANE, to, few, (size_t)r->bytes);
}

static weft_status on_gpu(struct serve *serve, const struct serve_request *r, void *data,
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

static weft_status do_one(struct serve *serve, const struct serve_request *r, void *data,
                          uint64_t *before)
{
    if (r->segment != SEG_GPU)
        return on_host(serve, r, data, before);
    serve->unsettled = serve->unmarked = true;
    return on_gpu(serve, r, data, before);
}

/* A request of its own behind the data. */
static weft_status signal_after(struct serve *serve, const struct serve_request *r)
{
    struct serve_request signal = {.operation = SERVE_ATOMIC,
                                   .segment = r->signal_segment,
                                   .amo = r->signal_op == WEFT_SIGNAL_SET ? WEFT_AMO_SET
                                                                          : WEFT_AMO_ADD,
                                   .offset = r->signal_offset,
                                   .bytes = sizeof(uint64_t),
                                   .value = r->value};
    if (r->signal_segment != SEG_GPU)
        return on_host(serve, &signal, NULL, NULL);
    serve->unsettled = serve->unmarked = true;
    return gpu_signal(serve->world->gpu, SERVE_LANE, gpu_place(serve, r->signal_offset), r->value,
                      (weft_signal_op)r->signal_op);
}

/* ------------------------------------------------------------------------------- a few words */

/* The stores that a request comes to, when it comes to no more than a few. */
static bool as_words(struct serve *serve, const struct serve_request *r, const void *data,
                     struct gpu_word *words, int *n)
{
    bool set = r->operation == SERVE_ATOMIC && r->amo == WEFT_AMO_SET;
    bool put = r->operation == SERVE_PUT || r->operation == SERVE_STORE;
    bool signal = r->operation == SERVE_PUT_SIGNAL && r->signal_segment == SEG_GPU &&
                  r->signal_op == WEFT_SIGNAL_SET;
    if (r->segment != SEG_GPU || !(set || put || signal))
        return false;
    *n = gpu_split_words(gpu_place(serve, r->offset), set ? (const void *)&r->value : data,
                         (size_t)r->bytes, words);
    if (!*n && !(signal && r->bytes == 0))
        return false;
    if (signal)
        words[(*n)++] = (struct gpu_word){gpu_place(serve, r->signal_offset), r->value, 8};
    return true;
}

/* Such a request, given to the GPU in one with its mark. False: it is to be carried out as others
 * are. */
static bool store_words(struct serve *serve, const struct serve_request *r, const void *data)
{
    struct mark *next = &serve->marks[serve->next_mark % MARKS];
    struct gpu_word words[GPU_MOST_WORDS];
    int n;
    if (serve->next_mark - serve->first_mark == MARKS || !as_words(serve, r, data, words, &n) ||
        gpu_store_recorded(serve->world->gpu, SERVE_LANE, words, n, &next->event) || !next->event)
        return false;
    next->given = serve->given;
    serve->next_mark++;
    serve->unsettled = true;
    serve->unmarked = false;
    return true;
}

weft_status serve_begin(struct serve *serve, const struct serve_request *request, void *data,
                        uint64_t *before)
{
    weft_status status = check(serve, request);
    serve->given++;
    if (!status && store_words(serve, request, data))
        return WEFT_OK;
    if (!status)
        status = do_one(serve, request, data, before);
    if (!status && request->operation == SERVE_PUT_SIGNAL)
        status = signal_after(serve, request);
    if (!serve->unmarked)
        return status;
    weft_status marked = mark(serve);
    return status ? status : marked;
}
