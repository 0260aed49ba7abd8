/* SPDX-License-Identifier: Apache-2.0 */
/* Execution of requests that were posted to a failed queue: the WQEs that device code and the host
 * write (weft/device/gda_wqe.h), read back from the send ring. Requests of one queue are executed
 * in their order, each after the effects of the one before it. */
#include "path/gda/failover.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <endian.h>
#include <string.h>

enum {
    BATCH_BLOCKS = 64, /* blocks that are executed before they are reported as complete */
    SEGMENT = WEFT_DEV_GDA_SEGMENT,
    INLINE_FLAG = 0x80, /* in the first byte of a data segment */
};

/* --------------------------------------------------------------------- the queue's memory */

static weft_status copy_memory(const struct gda *gda, bool gpu, void *to, const void *from,
                               size_t bytes)
{
    if (gpu)
        return gpu_copy(gda->world->gpu, GDA_COPY_STREAM, to, from, bytes, GPU_DONE);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

weft_status gda_copy_blocks(const struct gda *gda, const struct gda_failed_queue *queue,
                            uint64_t at, uint32_t count, void *to)
{
    const struct weft_dev_gda_ring *ring = &queue->q.ring;
    uint32_t slot = (uint32_t)at & ring->last, first = ring->last + 1 - slot;
    first = first < count ? first : count;
    size_t bytes = (size_t)first * WEFT_DEV_GDA_BLOCK;
    weft_status status = copy_memory(gda, queue->on_gpu, to,
                                     ring->blocks + (size_t)slot * WEFT_DEV_GDA_BLOCK, bytes);
    if (!status && first < count)
        status = copy_memory(gda, queue->on_gpu, (char *)to + bytes, ring->blocks,
                             (size_t)(count - first) * WEFT_DEV_GDA_BLOCK);
    return status;
}

weft_status gda_posted_end(const struct gda *gda, const struct gda_failed_queue *queue,
                           uint64_t *end)
{
    uint32_t word = 0;
    weft_status status = WEFT_OK;
    if (queue->on_gpu)
        status = copy_memory(gda, true, &word, queue->q.ring.record, sizeof word);
    else /* Acquire: the requests were written before the record. */
        word = __atomic_load_n(queue->q.ring.record, __ATOMIC_ACQUIRE);
    *end = queue->done + (uint16_t)(be32toh(word) - (uint32_t)queue->done);
    return status;
}

weft_status gda_complete_blocks(const struct gda *gda, const struct gda_failed_queue *queue,
                                uint64_t done)
{
    uint32_t index = (uint32_t)(done - 1) & 0xffff;
    uint64_t word = (uint64_t)(done ? WEFT_DEV_GDA_CQE_OK : WEFT_DEV_GDA_CQE_NONE) << 60 |
                    (uint64_t)(index & 0xff) << 40 | (uint64_t)(index >> 8) << 32;
    uint64_t *entry = (uint64_t *)(uintptr_t)queue->q.completion;
    if (queue->on_gpu)
        return copy_memory(gda, true, entry, &word, sizeof word);
    __atomic_store_n(entry, word, __ATOMIC_RELEASE);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------ decoding */

static uint32_t word_at(const char *request, size_t at)
{
    uint32_t word;
    memcpy(&word, request + at, sizeof word);
    return be32toh(word);
}

static uint64_t word8_at(const char *request, size_t at)
{
    uint64_t word;
    memcpy(&word, request + at, sizeof word);
    return be64toh(word);
}

static bool is_atomic(uint32_t opcode)
{
    return opcode == WEFT_DEV_GDA_FA || opcode == WEFT_DEV_GDA_CS ||
           opcode == WEFT_DEV_GDA_MASKED_FA || opcode == WEFT_DEV_GDA_MASKED_CS;
}

/* The local side of a request without inline data: its last segment. */
static char *local_of(const char *request, uint32_t *bytes)
{
    size_t at = ((word_at(request, 4) & 0x3f) - 1) * SEGMENT;
    *bytes = word_at(request, at);
    return (char *)(uintptr_t)word8_at(request, at + 8);
}

struct gda_wqe gda_wqe_head(const struct gda_failed_queue *queue, const void *blocks)
{
    uint32_t first = word_at(blocks, 0), segments = word_at(blocks, 4) & 0x3f, bytes;
    struct gda_wqe wqe = {.opcode = first & 0xff, .modifier = first >> 24};
    wqe.blocks = (segments * SEGMENT + WEFT_DEV_GDA_BLOCK - 1) / WEFT_DEV_GDA_BLOCK;
    wqe.blocks = wqe.blocks ? wqe.blocks : 1;
    wqe.message = wqe.opcode != WEFT_DEV_GDA_NOP && wqe.opcode != WEFT_DEV_GDA_DUMP;
    if (wqe.opcode == WEFT_DEV_GDA_READ || is_atomic(wqe.opcode))
        wqe.fetches = (uintptr_t)local_of(blocks, &bytes) != weft_dev_gda_sink(&queue->q).address;
    return wqe;
}

uint64_t gda_wqe_remote(const void *blocks)
{
    return word8_at(blocks, SEGMENT);
}

char *gda_wqe_data(void *blocks, uint32_t *bytes)
{
    char *request = blocks;
    bool write = (word_at(request, 0) & 0xff) == WEFT_DEV_GDA_WRITE;
    size_t last = ((word_at(request, 4) & 0x3f) - 1) * SEGMENT, at = write ? 2 * SEGMENT : last;
    *bytes = word_at(request, at) & 0x7fffffff;
    return request[at] & INLINE_FLAG ? NULL : request + at;
}

bool gda_find_remote(struct gda_failover *f, int pe, uint64_t address, struct remote *at)
{
    const struct gda *gda = f->gda;
    const struct gda_gpu *gpu = gda->gpu;
    at->peer = &gda_spare(f, pe)->peer;
    for (int s = 0; s < SEG_COUNT; s++) {
        uint64_t base = gda->bases[(size_t)pe * SEG_COUNT + (size_t)s];
        at->segment = (enum segment_id)s;
        at->offset = address - base;
        if (address >= base && at->offset < gda->world->sizes[s])
            return true;
    }
    at->segment = SEG_GPU;
    at->offset = gpu ? address - gpu->bases[pe] : 0;
    return gpu && address >= gpu->bases[pe] && at->offset < gda->world->gpu->heap.size;
}

/* ----------------------------------------------------------------------------------- execution */

/* An access to this PE's own memory, which a queue leads to from its own NIC. */
static weft_status access_own(struct gda_failover *f, struct remote at, bool put, void *data,
                              size_t bytes)
{
    bool single = bytes <= 8 && !(bytes & (bytes - 1)) && at.offset % bytes == 0;
    const struct serve_request request = {.operation = put ? (single ? SERVE_STORE : SERVE_PUT)
                                                           : (single ? SERVE_LOAD : SERVE_GET),
                                          .segment = (uint8_t)at.segment,
                                          .offset = at.offset,
                                          .bytes = bytes};
    weft_status status = serve_begin(f->serve, &request, data, NULL);
    return status ? status : serve_quiet(f->serve);
}

static weft_status execute_write(struct gda_failover *f, struct remote at, const char *request)
{
    const size_t data = 2 * SEGMENT;
    bool is_inline = (unsigned char)request[data] & INLINE_FLAG;
    uint32_t bytes = word_at(request, data) & 0x7fffffff;
    char *from = is_inline ? (char *)(uintptr_t)request + WEFT_DEV_GDA_INLINE_AT
                           : (char *)(uintptr_t)word8_at(request, data + 8);
    if (at.peer->pe == f->gda->world->pe)
        return access_own(f, at, true, from, bytes);
    if (is_inline && bytes <= 8 && !(bytes & (bytes - 1)) && at.offset % bytes == 0) {
        uint64_t value;
        memcpy(&value, from, bytes);
        return at.peer->ops->store(at, &value, bytes);
    }
    return at.peer->ops->put(at, from, bytes, !is_inline);
}

static weft_status execute_read(struct gda_failover *f, struct remote at, const char *request)
{
    uint32_t bytes;
    char *to = local_of(request, &bytes);
    return at.peer->pe == f->gda->world->pe ? access_own(f, at, false, to, bytes)
                                            : at.peer->ops->get(at, to, bytes, false);
}

/* The operands of an atomic, as weft_dev_gda_atomic4() and weft_dev_gda_atomic8() write them. */
struct atomic {
    weft_amo amo;
    size_t width;
    uint64_t value, expected;
};

/* The operation of a masked swap: bits of `mask` get those of `value`. */
static struct atomic masked_swap(size_t width, uint64_t value, uint64_t mask, uint64_t all)
{
    if (mask == all)
        return (struct atomic){WEFT_AMO_SWAP, width, value, 0};
    return value & mask ? (struct atomic){WEFT_AMO_FETCH_OR, width, value & mask, 0}
                        : (struct atomic){WEFT_AMO_FETCH_AND, width, ~mask & all, 0};
}

static struct atomic decode_atomic(const struct gda_wqe *wqe, const char *request)
{
    const size_t at = 2 * SEGMENT;
    const uint64_t all4 = 0xffffffffu, all8 = ~(uint64_t)0;
    if (wqe->opcode == WEFT_DEV_GDA_FA)
        return (struct atomic){WEFT_AMO_FETCH_ADD, 8, word8_at(request, at), 0};
    if (wqe->opcode == WEFT_DEV_GDA_CS)
        return (struct atomic){WEFT_AMO_CSWAP, 8, word8_at(request, at), word8_at(request, at + 8)};
    bool four = wqe->modifier == WEFT_DEV_GDA_4_BYTES;
    if (wqe->opcode == WEFT_DEV_GDA_MASKED_FA && !four)
        return (struct atomic){WEFT_AMO_FETCH_XOR, 8, word8_at(request, at), 0};
    if (wqe->opcode == WEFT_DEV_GDA_MASKED_FA)
        return (struct atomic){word_at(request, at + 4) ? WEFT_AMO_FETCH_XOR : WEFT_AMO_FETCH_ADD,
                               4, word_at(request, at), 0};
    if (!four)
        return masked_swap(8, word8_at(request, at), word8_at(request, at + SEGMENT), all8);
    return word_at(request, at + 12)
               ? (struct atomic){WEFT_AMO_CSWAP, 4, word_at(request, at), word_at(request, at + 4)}
               : masked_swap(4, word_at(request, at), word_at(request, at + 8), all4);
}

static weft_status execute_atomic(struct gda_failover *f, struct remote at,
                                  const struct gda_wqe *wqe, const char *request)
{
    const struct atomic a = decode_atomic(wqe, request);
    const struct gda *gda = f->gda;
    uint64_t before = 0;
    uint32_t bytes;
    char *to = local_of(request, &bytes);
    weft_status status = gda_atomic_anywhere(f, at, a.amo, a.width, a.value, a.expected, &before);
    if (status || !wqe->fetches)
        return status;
    /* The NIC stores a result of 4 bytes in big-endian order. */
    uint32_t before4 = htobe32((uint32_t)before);
    bool gpu = gda->world->gpu && gpu_place_of(gda->world->gpu, to) == GPU_PLACE_DEVICE;
    return copy_memory(gda, gpu, to, a.width == 4 ? (void *)&before4 : (void *)&before, a.width);
}

weft_status gda_execute(struct gda_failover *f, const struct gda_failed_queue *queue,
                        const void *blocks)
{
    const struct gda_wqe wqe = gda_wqe_head(queue, blocks);
    struct remote at;
    if (!wqe.message)
        return WEFT_OK;
    if (!gda_find_remote(f, queue->pe, gda_wqe_remote(blocks), &at))
        return base_fail(WEFT_ERR_ADDRESS, "a request for memory that PE %d does not have",
                         queue->pe);
    if (wqe.opcode == WEFT_DEV_GDA_WRITE)
        return execute_write(f, at, blocks);
    if (wqe.opcode == WEFT_DEV_GDA_READ)
        return execute_read(f, at, blocks);
    return execute_atomic(f, at, &wqe, blocks);
}

weft_status gda_check_result(struct gda_failover *f, const struct gda_failed_queue *queue,
                             const void *blocks)
{
    const uint64_t none = WEFT_DEV_GDA_NO_RESULT;
    uint64_t result = 0;
    uint32_t bytes;
    const char *at = local_of(blocks, &bytes);
    weft_status status = copy_memory(f->gda, queue->on_gpu, &result, at, bytes);
    return status || memcmp(&result, &none, bytes) != 0
               ? status
               : base_fail(WEFT_ERR_PATH, "it has executed an atomic whose result did not arrive");
}

weft_status gda_execute_posted(struct gda_failover *f, struct gda_failed_queue *queue, bool *any)
{
    const struct path_ops *ops = f->spare_ops;
    _Alignas(16) char blocks[(BATCH_BLOCKS + GDA_WQE_BLOCKS_MOST) * WEFT_DEV_GDA_BLOCK];
    uint64_t end, at = queue->done;
    bool left;
    weft_status status = gda_reissue(f, queue, any, &left);
    if (status || !left)
        return status;
    status = gda_posted_end(f->gda, queue, &end);
    *any = !status && end != at;
    if (!*any)
        return status;
    /* Where another NIC works, only the atomic that it leaves. */
    bool one = queue->pe != f->gda->world->pe && queue->batch.adapter < f->gda->count;
    const uint64_t most = one ? 1 : BATCH_BLOCKS;
    uint32_t count = (uint32_t)(end - at);
    count = count < sizeof blocks / WEFT_DEV_GDA_BLOCK ? count : sizeof blocks / WEFT_DEV_GDA_BLOCK;
    status = gda_copy_blocks(f->gda, queue, at, count, blocks);
    while (!status && at < end && at - queue->done < most) {
        const char *request = blocks + (at - queue->done) * WEFT_DEV_GDA_BLOCK;
        status = gda_execute(f, queue, request);
        if (!status)
            status = ops->fence(f->spare);
        at += gda_wqe_head(queue, request).blocks;
    }
    if (!status)
        status = ops->quiet(f->spare);
    if (status)
        return status;
    queue->done = at;
    return gda_complete_blocks(f->gda, queue, at);
}
