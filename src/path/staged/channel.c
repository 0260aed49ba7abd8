/* SPDX-License-Identifier: Apache-2.0 */
/* Path `staged` at the requester: allocates slots and buffer space, publishes requests in order,
 * and copies answers to their destination. See staged.h. */
#include "path/staged/staged.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static struct staged_pending *get_pending(struct staged_channel *channel, uint64_t sequence)
{
    return &channel->pending[(sequence - 1) % STAGED_SLOTS];
}

static struct staged_slot *get_slot(struct staged_channel *channel, uint64_t sequence)
{
    return &channel->ring->slots[(sequence - 1) % STAGED_SLOTS];
}

static struct gpu *get_gpu(const struct staged_channel *channel)
{
    return channel->common->world->gpu;
}

/* From now on every operation on the channel fails with this status and text. Requests in flight
 * may or may not execute, and no later request may overtake them. */
static weft_status break_channel(struct staged_channel *channel, weft_status status,
                                 const char *sentence)
{
    if (!channel->broken) {
        snprintf(channel->sentence, sizeof channel->sentence, "path staged to PE %d: %.*s",
                 channel->pe, STAGED_SENTENCE_BYTES + 32, sentence);
        channel->broken = status;
    }
    return base_fail(channel->broken, "%s", channel->sentence);
}

static weft_status break_by_error(struct staged_channel *channel, weft_status status)
{
    char sentence[STAGED_SENTENCE_BYTES + 32];
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    return break_channel(channel, status, sentence);
}

static weft_status check_channel(const struct staged_channel *channel)
{
    return channel->broken ? base_fail(channel->broken, "%s", channel->sentence) : WEFT_OK;
}

/* ---------------------------------------------------------------------------------- progress */

/* Whether this PE's GPU has finished its copy for this request. */
static weft_status is_copied(struct staged_channel *channel, struct staged_pending *pending,
                             bool *ready)
{
    weft_status status =
        pending->copy_event ? gpu_event_query(get_gpu(channel), &pending->copy_event) : WEFT_OK;
    *ready = !pending->copy_event;
    return status;
}

static weft_status publish_requests(struct staged_channel *channel)
{
    bool any = false, ready = true;
    weft_status status = WEFT_OK;
    while (channel->published < channel->begun) {
        uint64_t sequence = channel->published + 1;
        status = is_copied(channel, get_pending(channel, sequence), &ready);
        if (status || !ready)
            break;
        /* Release: the request and its data come before it. Sequentially consistent, as
         * staged_wake_owner() requires. Pairs with is_pending() of the owner. */
        atomic_store(&get_slot(channel, sequence)->sequence, sequence);
        channel->published = sequence;
        any = true;
    }
    if (any)
        staged_wake_owner(channel->mailbox);
    return status;
}

static const void *find_answer(struct staged_channel *channel, const struct staged_pending *pending,
                               struct staged_slot *slot)
{
    return pending->buffer == STAGED_BUFFERS
               ? slot->data
               : channel->buffers[pending->buffer].memory + slot->offset;
}

/* Starts the copy of an answer to its destination. If that is host memory, the copy is complete on
 * return. */
static weft_status copy_answer_out(struct staged_channel *channel, uint64_t sequence)
{
    struct staged_pending *pending = get_pending(channel, sequence);
    if (!pending->destination)
        return WEFT_OK;
    const void *answer = find_answer(channel, pending, get_slot(channel, sequence));
    if (!pending->destination_is_gpu) {
        memcpy(pending->destination, answer, pending->bytes);
        return WEFT_OK;
    }
    struct gpu_word words[GPU_MOST_WORDS];
    int n = gpu_split_words((uintptr_t)pending->destination, answer, pending->bytes, words);
    weft_status status = WEFT_OK;
    if (n)
        status = gpu_store_recorded(get_gpu(channel), STAGED_COPY_OUT_STREAM, words, n,
                                    &pending->copy_event);
    if (status || pending->copy_event)
        return status;
    status = gpu_copy(get_gpu(channel), STAGED_COPY_OUT_STREAM, pending->destination, answer,
                      pending->bytes, GPU_IN_ORDER);
    if (!status)
        status = gpu_event_record(get_gpu(channel), STAGED_COPY_OUT_STREAM, &pending->copy_event);
    return status;
}

static weft_status check_owner_failure(struct staged_channel *channel)
{
    char sentence[STAGED_SENTENCE_BYTES];
    /* Acquire: pairs with record_failure(); the error text is visible. */
    weft_status failed =
        (weft_status)atomic_load_explicit(&channel->ring->failed, memory_order_acquire);
    if (!failed)
        return WEFT_OK;
    snprintf(sentence, sizeof sentence, "%.*s", STAGED_SENTENCE_BYTES - 1, channel->ring->sentence);
    return break_channel(channel, failed, sentence);
}

static weft_status copy_answers_out(struct staged_channel *channel)
{
    /* Acquire: pairs with publish_completions(); the answers, and the effects of the requests, are
     * visible. */
    uint64_t done = atomic_load_explicit(&channel->ring->done, memory_order_acquire);
    weft_status status = WEFT_OK;
    if (done == channel->copied_out)
        return WEFT_OK;
    if (done > channel->published)
        return break_channel(channel, WEFT_ERR_PATH,
                             "the counts in shared memory are inconsistent");
    status = check_owner_failure(channel);
    while (channel->copied_out < done && !status)
        status = copy_answer_out(channel, ++channel->copied_out);
    return status;
}

static weft_status retire_requests(struct staged_channel *channel)
{
    uint64_t retired = atomic_load_explicit(&channel->retired, memory_order_relaxed);
    bool ready = true;
    weft_status status = WEFT_OK;
    while (retired < channel->copied_out) {
        struct staged_pending *pending = get_pending(channel, retired + 1);
        status = is_copied(channel, pending, &ready);
        if (status || !ready)
            break;
        if (pending->buffer != STAGED_BUFFERS)
            channel->buffers[pending->buffer].tail = pending->buffer_end;
        retired++;
    }
    /* Release: pairs with the load in complete_channel(), which finds nothing to wait for. */
    atomic_store_explicit(&channel->retired, retired, memory_order_release);
    return status;
}

weft_status staged_advance(struct staged_channel *channel)
{
    weft_status status = check_channel(channel);
    if (status)
        return status;
    status = publish_requests(channel);
    if (!status)
        status = copy_answers_out(channel);
    if (!status)
        status = retire_requests(channel);
    return status ? break_by_error(channel, status) : WEFT_OK;
}

void staged_hand_to_thread(struct staged_channel *channel)
{
    if (channel->published == channel->begun || channel->broken)
        return;
    /* Sequentially consistent, as staged_wake_owner() requires. */
    atomic_store(&channel->needs_polling, true);
    staged_wake_owner(staged_mailbox(channel->common, channel->common->local_pe));
}

/* -------------------------------------------------------------------------------------- waits */

static uint64_t load_retired(const struct staged_channel *channel)
{
    return atomic_load_explicit(&channel->retired, memory_order_relaxed);
}

static uint64_t load_published(const struct staged_channel *channel)
{
    return channel->published;
}

/* Waits until `count` has reached `sequence`. The wait reports the sum of all counts: while one of
 * them grows, the peer makes progress. */
static weft_status await_count(struct staged_channel *channel, enum box_operation operation,
                               uint64_t (*count)(const struct staged_channel *channel),
                               uint64_t sequence)
{
    struct path_wait wait = {.world = channel->common->world,
                             .operation = operation,
                             .pe = channel->pe,
                             .expected = sequence};
    weft_status status = staged_advance(channel);
    while (!status && count(channel) < sequence) {
        status = path_wait_step(
            &wait, channel->published + load_retired(channel) +
                       atomic_load_explicit(&channel->ring->done, memory_order_relaxed));
        status = status ? break_by_error(channel, status) : staged_advance(channel);
    }
    path_wait_end(&wait);
    return status;
}

weft_status staged_await_published(struct staged_channel *channel, enum box_operation operation,
                                   uint64_t sequence)
{
    if (channel->published >= sequence)
        return check_channel(channel);
    return await_count(channel, operation, load_published, sequence);
}

weft_status staged_await_retired(struct staged_channel *channel, enum box_operation operation,
                                 uint64_t sequence)
{
    return await_count(channel, operation, load_retired, sequence);
}

/* --------------------------------------------------------------------------- sending requests */

/* Allocates `bytes` contiguous bytes of a buffer, which do not cross its end. False if they are in
 * use. */
static bool alloc_buffer(struct staged_buffer *buffer, size_t bytes, uint32_t *at)
{
    if (buffer->head == buffer->tail)
        buffer->head = buffer->tail = 0; /* The start of the buffer is in the cache. */
    uint64_t from = buffer->head % buffer->bytes;
    uint64_t skipped = from + bytes > buffer->bytes ? buffer->bytes - from : 0;
    if (buffer->head + skipped + bytes - buffer->tail > buffer->bytes)
        return false;
    buffer->head += skipped + bytes;
    *at = skipped ? 0 : (uint32_t)from;
    return true;
}

static bool is_gpu_memory(const struct path_world *world, const void *local)
{
    return world->gpu && local && gpu_place_of(world->gpu, local) == GPU_PLACE_DEVICE;
}

/* A chunk is large enough that its request costs little, and small enough that the copies of both
 * sides run in parallel for most of the transfer. */
size_t staged_chunk_bytes(const struct path_world *world, const void *local,
                          enum segment_id segment, size_t bytes)
{
    enum { CHUNKS_LEAST = 4, GRAIN_BYTES = 4 << 10 };
    bool gpu = segment == SEG_GPU || is_gpu_memory(world, local);
    size_t least = gpu ? STAGED_GPU_CHUNK_LEAST : STAGED_HOST_CHUNK_LEAST;
    size_t most = gpu ? STAGED_GPU_CHUNK_MOST : STAGED_HOST_CHUNK_MOST;
    size_t chunk = (bytes / CHUNKS_LEAST + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
    return chunk < least ? least : chunk > most ? most : chunk;
}

/* Waits for a free slot, and for buffer space if the data do not fit the slot. */
static weft_status await_slot(struct staged_channel *channel, enum box_operation operation,
                              size_t bytes, enum staged_buffer_id which, uint32_t *at)
{
    uint64_t first_retired = channel->begun - STAGED_SLOTS + 1;
    weft_status status = check_channel(channel);
    if (!status && channel->begun - load_retired(channel) == STAGED_SLOTS)
        status = staged_await_retired(channel, operation, first_retired);
    while (!status && bytes > STAGED_INLINE_BYTES &&
           !alloc_buffer(&channel->buffers[which], bytes, at))
        status = staged_await_retired(channel, operation, load_retired(channel) + 1);
    return status;
}

static void announce_sender(struct staged_channel *channel)
{
    int me = channel->common->local_pe;
    if (!channel->announced)
        atomic_fetch_or(&channel->mailbox->senders[me / 32], 1u << me % 32);
    channel->announced = true;
}

/* Whether the source is one word of GPU memory that a caller waits for, or the only request in
 * flight: a load takes less time than a copy with an event. */
static bool is_single_word(const struct staged_channel *channel, const void *from, size_t bytes,
                           bool urgent)
{
    return (urgent || channel->begun == load_retired(channel)) && bytes > 0 &&
           bytes + (uintptr_t)from % sizeof(uint64_t) <= sizeof(uint64_t);
}

static weft_status load_word(struct staged_channel *channel, void *data, const void *from,
                             size_t bytes)
{
    uint64_t word = 0;
    weft_status status = gpu_access(get_gpu(channel), STAGED_COPY_IN_STREAM, (uintptr_t)from,
                                    GPU_ACCESS_LOAD, bytes, 0, 0, &word);
    memcpy(data, &word, bytes);
    return status;
}

/* Copies the source into the slot or the buffer. The GPU's copy may end later. */
static weft_status copy_source_in(struct staged_channel *channel, struct staged_pending *pending,
                                  void *data, const void *from, size_t bytes, bool from_gpu,
                                  bool urgent)
{
    if (!from_gpu) {
        memcpy(data, from, bytes);
        return WEFT_OK;
    }
    if (is_single_word(channel, from, bytes, urgent))
        return load_word(channel, data, from, bytes);
    weft_status status =
        gpu_copy(get_gpu(channel), STAGED_COPY_IN_STREAM, data, from, bytes, GPU_IN_ORDER);
    if (!status)
        status = gpu_event_record(get_gpu(channel), STAGED_COPY_IN_STREAM, &pending->copy_event);
    return status;
}

weft_status staged_send_request(struct staged_channel *channel, enum box_operation operation,
                                const struct serve_request *request, const void *from, void *to)
{
    const struct path_world *world = channel->common->world;
    bool to_gpu = is_gpu_memory(world, to), from_gpu = is_gpu_memory(world, from);
    bool atomic = request->operation == SERVE_ATOMIC;
    size_t bytes = request->bytes;
    bool large = to_gpu || from_gpu || request->segment == SEG_GPU;
    enum staged_buffer_id which = large ? STAGED_GPU_BUFFER : STAGED_HOST_BUFFER;
    uint32_t at = 0;
    weft_status status = await_slot(channel, operation, atomic ? 0 : bytes, which, &at);
    if (status)
        return status;
    if (large && world->gpu && !channel->pinned)
        channel->pinned = staged_pin_channel(
            channel->common, &channel->mailbox->channels[channel->common->local_pe]);
    struct staged_slot *slot = get_slot(channel, channel->begun + 1);
    struct staged_pending *pending = get_pending(channel, channel->begun + 1);
    bool in_buffer = !atomic && bytes > STAGED_INLINE_BYTES;
    slot->request = *request;
    slot->buffer = which;
    slot->offset = at;
    pending->destination = to;
    pending->bytes = bytes;
    pending->destination_is_gpu = to_gpu;
    pending->buffer = in_buffer ? which : STAGED_BUFFERS;
    pending->buffer_end = channel->buffers[which].head;
    announce_sender(channel);
    if (from && bytes)
        status = copy_source_in(channel, pending,
                                in_buffer ? channel->buffers[which].memory + at : slot->data, from,
                                bytes, from_gpu, request->urgent);
    if (status)
        return break_by_error(channel, status);
    channel->begun++;
    status = publish_requests(channel);
    return status ? break_by_error(channel, status) : WEFT_OK;
}
