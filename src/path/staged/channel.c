/* SPDX-License-Identifier: Apache-2.0 */
/* Path `staged` at the asker: slots and rooms handed out, requests published in order, answers
 * brought to where they go. See staged.h. */
#include "path/staged/staged.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static struct staged_asked *asked_of(struct staged_channel *channel, uint64_t number)
{
    return &channel->asked[(number - 1) % STAGED_SLOTS];
}

static struct staged_slot *slot_of(struct staged_channel *channel, uint64_t number)
{
    return &channel->ring->slots[(number - 1) % STAGED_SLOTS];
}

static struct gpu *gpu_of(const struct staged_channel *channel)
{
    return channel->common->world->gpu;
}

/* From now on every operation on the channel fails, with this status and these words: what is on
 * its way may or may not arrive, and nothing behind it may overtake it. */
static weft_status break_channel(struct staged_channel *channel, weft_status status,
                                 const char *sentence)
{
    if (!channel->broken) {
        snprintf(channel->sentence, sizeof channel->sentence, "path staged to PE %d: %.*s",
                 channel->pe, STAGED_SENTENCE + 32, sentence);
        channel->broken = status;
    }
    return base_fail(channel->broken, "%s", channel->sentence);
}

static weft_status break_by_error(struct staged_channel *channel, weft_status status)
{
    char sentence[STAGED_SENTENCE + 32];
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    return break_channel(channel, status, sentence);
}

static weft_status check(const struct staged_channel *channel)
{
    return channel->broken ? base_fail(channel->broken, "%s", channel->sentence) : WEFT_OK;
}

/* --------------------------------------------------------------------------------- moving on */

/* Whether this PE's GPU has done what it does with this request. */
static weft_status copied(struct staged_channel *channel, struct staged_asked *asked, bool *yes)
{
    weft_status status = asked->mark ? gpu_event_query(gpu_of(channel), &asked->mark) : WEFT_OK;
    *yes = !asked->mark;
    return status;
}

static weft_status publish(struct staged_channel *channel)
{
    bool any = false, ready = true;
    weft_status status = WEFT_OK;
    while (channel->published < channel->taken) {
        uint64_t number = channel->published + 1;
        status = copied(channel, asked_of(channel, number), &ready);
        if (status || !ready)
            break;
        /* Release, with the request and its data before it; sequentially consistent for the sake of
         * staged_wake(). Pairs with is_pending() of the owner. */
        atomic_store(&slot_of(channel, number)->number, number);
        channel->published = number;
        any = true;
    }
    if (any)
        staged_wake(channel->desk);
    return status;
}

static const void *answer_of(struct staged_channel *channel, const struct staged_asked *asked,
                             struct staged_slot *slot)
{
    return asked->room == STAGED_ROOMS ? slot->data : channel->rooms[asked->room].memory + slot->at;
}

/* Begins to bring an answer to where it goes; at once where that is host memory. */
static weft_status empty(struct staged_channel *channel, uint64_t number)
{
    struct staged_asked *asked = asked_of(channel, number);
    if (!asked->to)
        return WEFT_OK;
    const void *answer = answer_of(channel, asked, slot_of(channel, number));
    if (!asked->to_device) {
        memcpy(asked->to, answer, asked->bytes);
        return WEFT_OK;
    }
    struct gpu_word words[GPU_MOST_WORDS];
    int n = gpu_split_words((uintptr_t)asked->to, answer, asked->bytes, words);
    weft_status status = WEFT_OK;
    if (n)
        status = gpu_store_recorded(gpu_of(channel), STAGED_EMPTY_LANE, words, n, &asked->mark);
    if (status || asked->mark)
        return status;
    status =
        gpu_copy(gpu_of(channel), STAGED_EMPTY_LANE, asked->to, answer, asked->bytes, GPU_IN_ORDER);
    if (!status)
        status = gpu_event_record(gpu_of(channel), STAGED_EMPTY_LANE, &asked->mark);
    return status;
}

static weft_status look_for_failure(struct staged_channel *channel)
{
    char sentence[STAGED_SENTENCE];
    /* Acquire: pairs with the owner's note; its words are there. */
    weft_status failed =
        (weft_status)atomic_load_explicit(&channel->ring->failed, memory_order_acquire);
    if (!failed)
        return WEFT_OK;
    snprintf(sentence, sizeof sentence, "%.*s", STAGED_SENTENCE - 1, channel->ring->sentence);
    return break_channel(channel, failed, sentence);
}

static weft_status take_answers(struct staged_channel *channel)
{
    /* Acquire: pairs with the owner's count; the answers are there, and what was asked is
     * visible. */
    uint64_t done = atomic_load_explicit(&channel->ring->done, memory_order_acquire);
    weft_status status = WEFT_OK;
    if (done == channel->emptied)
        return WEFT_OK;
    if (done > channel->published)
        return break_channel(channel, WEFT_ERR_PATH, "its counts are not what was asked");
    status = look_for_failure(channel);
    while (channel->emptied < done && !status)
        status = empty(channel, ++channel->emptied);
    return status;
}

static weft_status let_go(struct staged_channel *channel)
{
    uint64_t gone = atomic_load_explicit(&channel->gone, memory_order_relaxed);
    bool ready = true;
    weft_status status = WEFT_OK;
    while (gone < channel->emptied) {
        struct staged_asked *asked = asked_of(channel, gone + 1);
        status = copied(channel, asked, &ready);
        if (status || !ready)
            break;
        if (asked->room != STAGED_ROOMS)
            channel->rooms[asked->room].tail = asked->room_end;
        gone++;
    }
    /* Release: pairs with the look of a quiet that finds nothing to wait for. */
    atomic_store_explicit(&channel->gone, gone, memory_order_release);
    return status;
}

weft_status staged_advance(struct staged_channel *channel)
{
    weft_status status = check(channel);
    if (status)
        return status;
    status = publish(channel);
    if (!status)
        status = take_answers(channel);
    if (!status)
        status = let_go(channel);
    return status ? break_by_error(channel, status) : WEFT_OK;
}

void staged_leave_alone(struct staged_channel *channel)
{
    if (channel->published == channel->taken || channel->broken)
        return;
    /* Sequentially consistent for the sake of staged_wake(), as a publication is. */
    atomic_store(&channel->restless, true);
    staged_wake(staged_desk(channel->common, channel->common->me));
}

/* ------------------------------------------------------------------------------------ waiting */

static uint64_t gone_of(const struct staged_channel *channel)
{
    return atomic_load_explicit(&channel->gone, memory_order_relaxed);
}

static uint64_t published_of(const struct staged_channel *channel)
{
    return channel->published;
}

/* Until `count` has reached `number`. What is shown as seen is every count together: while any of
 * them moves, the peer moves. */
static weft_status await(struct staged_channel *channel, enum box_operation operation,
                         uint64_t (*count)(const struct staged_channel *channel), uint64_t number)
{
    struct path_wait wait = {.world = channel->common->world,
                             .operation = operation,
                             .pe = channel->pe,
                             .expected = number};
    weft_status status = staged_advance(channel);
    while (!status && count(channel) < number) {
        status = path_wait_step(
            &wait, channel->published + gone_of(channel) +
                       atomic_load_explicit(&channel->ring->done, memory_order_relaxed));
        status = status ? break_by_error(channel, status) : staged_advance(channel);
    }
    path_wait_end(&wait);
    return status;
}

weft_status staged_await_published(struct staged_channel *channel, enum box_operation operation,
                                   uint64_t number)
{
    if (channel->published >= number)
        return check(channel);
    return await(channel, operation, published_of, number);
}

weft_status staged_await_gone(struct staged_channel *channel, enum box_operation operation,
                              uint64_t number)
{
    return await(channel, operation, gone_of, number);
}

/* ------------------------------------------------------------------------------------- asking */

/* A run of `bytes` in a room; false: it is in use. Nothing straddles the room's end. */
static bool take_room(struct staged_room *room, size_t bytes, uint32_t *at)
{
    if (room->head == room->tail)
        room->head = room->tail = 0; /* the beginning is in the cache */
    uint64_t from = room->head % room->bytes;
    uint64_t skipped = from + bytes > room->bytes ? room->bytes - from : 0;
    if (room->head + skipped + bytes - room->tail > room->bytes)
        return false;
    room->head += skipped + bytes;
    *at = skipped ? 0 : (uint32_t)from;
    return true;
}

static bool is_device(const struct path_world *world, const void *local)
{
    return world->gpu && local && gpu_place_of(world->gpu, local) == GPU_PLACE_DEVICE;
}

/* So large a part that handing it over costs little, and so small a one that both copies of a
 * transfer run at the same time for most of it. */
size_t staged_chunk(const struct path_world *world, const void *local, enum segment_id segment,
                    size_t bytes)
{
    enum { PARTS = 4, GRAIN = 4 << 10 };
    bool gpu = segment == SEG_GPU || is_device(world, local);
    size_t least = gpu ? STAGED_GPU_LEAST : STAGED_HOST_LEAST;
    size_t most = gpu ? STAGED_GPU_MOST : STAGED_HOST_MOST;
    size_t part = (bytes / PARTS + GRAIN - 1) / GRAIN * GRAIN;
    return part < least ? least : part > most ? most : part;
}

/* A slot, and a room when the slot is too small. */
static weft_status take_place(struct staged_channel *channel, enum box_operation operation,
                              size_t bytes, enum staged_room_id which, uint32_t *at)
{
    uint64_t one_goes = channel->taken - STAGED_SLOTS + 1;
    weft_status status = check(channel);
    if (!status && channel->taken - gone_of(channel) == STAGED_SLOTS)
        status = staged_await_gone(channel, operation, one_goes);
    while (!status && bytes > STAGED_INLINE && !take_room(&channel->rooms[which], bytes, at))
        status = staged_await_gone(channel, operation, gone_of(channel) + 1);
    return status;
}

static void announce(struct staged_channel *channel)
{
    int me = channel->common->me;
    if (!channel->announced)
        atomic_fetch_or(&channel->desk->asked[me / 32], 1u << me % 32);
    channel->announced = true;
}

/* A word of GPU memory that is waited for, or with nothing else under way: the wait for a single
 * load is shorter than that for an event. */
static bool is_lone_word(const struct staged_channel *channel, const void *from, size_t bytes,
                         bool urgent)
{
    return (urgent || channel->taken == gone_of(channel)) && bytes > 0 &&
           bytes + (uintptr_t)from % sizeof(uint64_t) <= sizeof(uint64_t);
}

static weft_status fill_word(struct staged_channel *channel, void *data, const void *from,
                             size_t bytes)
{
    uint64_t word = 0;
    weft_status status = gpu_access(gpu_of(channel), STAGED_FILL_LANE, (uintptr_t)from,
                                    GPU_ACCESS_LOAD, bytes, 0, 0, &word);
    memcpy(data, &word, bytes);
    return status;
}

/* The source on its way into the slot or the room. */
static weft_status fill(struct staged_channel *channel, struct staged_asked *asked, void *data,
                        const void *from, size_t bytes, bool from_device, bool urgent)
{
    if (!from_device) {
        memcpy(data, from, bytes);
        return WEFT_OK;
    }
    if (is_lone_word(channel, from, bytes, urgent))
        return fill_word(channel, data, from, bytes);
    weft_status status =
        gpu_copy(gpu_of(channel), STAGED_FILL_LANE, data, from, bytes, GPU_IN_ORDER);
    if (!status)
        status = gpu_event_record(gpu_of(channel), STAGED_FILL_LANE, &asked->mark);
    return status;
}

weft_status staged_ask(struct staged_channel *channel, enum box_operation operation,
                       const struct serve_request *request, const void *from, void *to)
{
    const struct path_world *world = channel->common->world;
    bool to_device = is_device(world, to), from_device = is_device(world, from);
    bool atomic = request->operation == SERVE_ATOMIC;
    size_t bytes = request->bytes;
    bool large = to_device || from_device || request->segment == SEG_GPU;
    enum staged_room_id which = large ? STAGED_GPU_ROOM : STAGED_HOST_ROOM;
    uint32_t at = 0;
    weft_status status = take_place(channel, operation, atomic ? 0 : bytes, which, &at);
    if (status)
        return status;
    if (large && world->gpu && !channel->pinned)
        channel->pinned =
            staged_pin(channel->common, &channel->desk->channels[channel->common->me]);
    struct staged_slot *slot = slot_of(channel, channel->taken + 1);
    struct staged_asked *asked = asked_of(channel, channel->taken + 1);
    bool in_room = !atomic && bytes > STAGED_INLINE;
    slot->request = *request;
    slot->room = which;
    slot->at = at;
    asked->to = to;
    asked->bytes = bytes;
    asked->to_device = to_device;
    asked->room = in_room ? which : STAGED_ROOMS;
    asked->room_end = channel->rooms[which].head;
    announce(channel);
    if (from && bytes)
        status = fill(channel, asked, in_room ? channel->rooms[which].memory + at : slot->data,
                      from, bytes, from_device, request->urgent);
    if (status)
        return break_by_error(channel, status);
    channel->taken++;
    status = publish(channel);
    return status ? break_by_error(channel, status) : WEFT_OK;
}
