/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in messages: requests of peers, which are carried out on this PE's memory (serve.h),
 * and answers to this PE's own (ask.c). */
#include "path/net/hmem.h"
#include "path/net/stripe.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MOST = NET_MESSAGE_BYTES - sizeof(struct net_head) - sizeof(struct net_record) -
                  sizeof(struct net_result),
    FETCH_MOST = 256 << 10, /* as much as is asked for at a time */
    ROOM_MOST = 1 << 30 /* bytes of a room: the most that WEFT_NET_LOT and WEFT_NET_LOTS come to */
};

/* ------------------------------------------------------------------------------------- requests */

/* data: what is sent back with it. */
static void *answer(struct path_common *net, struct net_peer *to, enum net_kind kind,
                    struct net_result result, size_t bytes)
{
    struct net_record *record = net_answer(net, to, sizeof result + bytes);
    if (!record)
        return NULL;
    record->kind = (uint8_t)kind;
    record->bytes = (uint32_t)bytes;
    memcpy(net_behind(record), &result, sizeof result);
    return (struct net_result *)net_behind(record) + 1;
}

void net_tell_failure(struct path_common *net, struct net_peer *to, weft_status status)
{
    const char *sentence = base_last_error();
    size_t length = strnlen(sentence, NET_SENTENCE_BYTES / 2);
    void *data = answer(net, to, NET_DATA, (struct net_result){.status = status}, length);
    if (data)
        memcpy(data, sentence, length);
}

static weft_status begin(struct path_common *net, const struct net_record *record,
                         enum serve_operation operation, void *data)
{
    const struct serve_request request = {.operation = (uint8_t)operation,
                                          .segment = record->segment,
                                          .offset = record->offset,
                                          .bytes = record->bytes};
    return serve_begin(net->serve, &request, data, NULL);
}

static void carry_out_atomic(struct path_common *net, struct net_peer *from,
                             struct net_record *record)
{
    const struct net_atomic *atomic = net_behind(record);
    const struct serve_request request = {.operation = SERVE_ATOMIC,
                                          .segment = record->segment,
                                          .amo = record->amo,
                                          .offset = record->offset,
                                          .bytes = record->width,
                                          .value = atomic->value,
                                          .expected = atomic->expected};
    uint64_t before = 0;
    weft_status status = serve_begin(net->serve, &request, NULL, atomic->token ? &before : NULL);
    if (status && !atomic->token)
        net_tell_failure(net, from, status);
    if (!atomic->token)
        return;
    struct net_result result = {.token = atomic->token, .status = status};
    size_t width = status ? 0 : record->width; /* serve_begin() has taken it: 4 or 8 */
    void *data = answer(net, from, NET_DATA, result, width);
    if (data)
        memcpy(data, &before, width); /* little endian, as all that Weft runs on */
}

/* A part of the room of a peer. NULL: its room has none there. */
static void *lot_of(const struct net_peer *from, const struct net_lot *lot)
{
    if (!from->room || lot->position > from->room_bytes ||
        lot->bytes > from->room_bytes - lot->position) {
        base_fail(WEFT_ERR_ARGUMENT, "a lot of %u bytes at %llu of a room of %zu", lot->bytes,
                  (unsigned long long)lot->position, from->room_bytes);
        return NULL;
    }
    return from->room + lot->position;
}

static weft_status begin_lot(struct path_common *net, struct net_peer *from,
                             const struct net_record *record, enum serve_operation operation)
{
    const struct net_lot *lot = net_behind((struct net_record *)record);
    void *data = lot_of(from, lot);
    struct net_record whole = *record;
    whole.bytes = lot->bytes;
    return data ? begin(net, &whole, operation, data) : WEFT_ERR_ARGUMENT;
}

static void lift(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    struct net_lot *lot = net_behind(record);
    lot->status = begin_lot(net, from, record, SERVE_GET);
}

static void tell_lifted(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    const struct net_lot *lot = net_behind(record);
    answer(net, from, NET_LIFTED, (struct net_result){.token = lot->token, .status = lot->status},
           0);
}

static void answer_data(struct path_common *net, struct net_peer *to, struct net_record *record,
                        const void *what, size_t bytes)
{
    const struct net_wanted *wanted = net_behind(record);
    void *data = answer(net, to, NET_DATA, (struct net_result){.token = wanted->token}, bytes);
    if (data)
        memcpy(data, what, bytes);
}

static void tell_place(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    struct net_place place;
    net_own_place(net, (size_t)record->offset, &place);
    answer_data(net, from, record, &place, sizeof place);
}

static void tell_room(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    const struct net_wanted *wanted = net_behind(record);
    struct net_key keys[NET_RAILS];
    net_room(net, from, wanted->bytes < ROOM_MOST ? wanted->bytes : ROOM_MOST, keys);
    answer_data(net, from, record, keys, sizeof keys);
}

/* All of it at once into pinned memory, so that the GPU is waited for once whatever number of
 * messages it takes. NULL: it is no GPU memory, or a value. */
static const char *fetch_from_gpu(struct path_common *net, const struct net_record *record,
                                  uint32_t bytes, weft_status *status)
{
    struct net_record whole = *record;
    if (record->segment != SEG_GPU || record->width)
        return NULL;
    if (!net->fetched)
        net->fetched = net_gpu_slab(net, FETCH_MOST);
    if (!net->fetched)
        return NULL;
    whole.bytes = bytes;
    *status = begin(net, &whole, SERVE_GET, net->fetched);
    if (!*status)
        *status = serve_quiet(net->serve);
    return net->fetched;
}

/* Into a message; of what has been fetched, or from where it is. */
static weft_status answer_piece(struct path_common *net, const struct net_record *piece,
                                const char *fetched, void *data)
{
    if (fetched) {
        memcpy(data, fetched, piece->bytes);
        return WEFT_OK;
    }
    weft_status status = begin(net, piece, piece->width ? SERVE_LOAD : SERVE_GET, data);
    return status ? status : serve_quiet(net->serve);
}

/* In as many pieces as it takes messages. */
static void carry_out_get(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    const struct net_wanted wanted = *(const struct net_wanted *)net_behind(record);
    struct net_record piece = *record;
    weft_status status = WEFT_OK, fetch = WEFT_OK;
    if (wanted.bytes > FETCH_MOST) {
        net_tell_failure(net, from,
                         base_fail(WEFT_ERR_ARGUMENT, "a get of %u bytes, of %d at most",
                                   wanted.bytes, FETCH_MOST));
        return;
    }
    const char *fetched = fetch_from_gpu(net, record, wanted.bytes, &fetch);
    for (uint32_t done = 0; done < wanted.bytes && !status; done += piece.bytes) {
        uint32_t left = wanted.bytes - done;
        piece.bytes = left < ANSWER_MOST ? left : ANSWER_MOST;
        piece.offset = record->offset + done;
        void *data =
            answer(net, from, NET_DATA,
                   (struct net_result){.token = wanted.token, .position = done}, piece.bytes);
        if (!data)
            return;
        status = fetch ? fetch : answer_piece(net, &piece, fetched ? fetched + done : NULL, data);
        if (!status)
            continue;
        memset(data, 0, piece.bytes); /* of an earlier message */
        ((struct net_result *)data - 1)->status = status;
    }
}

static void tell_key(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    struct net_key key = {0};
    if (record->segment < SEG_COUNT)
        net_own_chunk(net, (enum segment_id)record->segment, record->offset, &key);
    answer_data(net, from, record, &key, sizeof key);
}

static void tell_rail_keys(struct path_common *net, struct net_peer *from,
                           struct net_record *record)
{
    struct net_key keys[NET_RAILS] = {{0}};
    if (record->segment < SEG_COUNT)
        net_rail_keys(net, (enum segment_id)record->segment, record->offset, keys);
    answer_data(net, from, record, keys, sizeof keys);
}

/* ------------------------------------------------------------------------------- whole messages */

static size_t fixed_bytes(const struct net_record *record)
{
    switch (record->kind) {
    case NET_ATOMIC:
        return sizeof(struct net_atomic);
    case NET_GET:
    case NET_KEY:
    case NET_PLACE:
    case NET_ROOM:
    case NET_RAIL_KEYS:
        return sizeof(struct net_wanted);
    case NET_LANDED:
    case NET_LIFT:
        return sizeof(struct net_lot);
    case NET_NOTE:
        return sizeof(struct net_note);
    case NET_DATA:
    case NET_LIFTED:
        return sizeof(struct net_result);
    default:
        return 0;
    }
}

static void carry_out(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    weft_status status = WEFT_OK;
    switch (record->kind) {
    case NET_PUT:
        status = begin(net, record, SERVE_PUT, net_behind(record));
        break;
    case NET_STORE:
        status = begin(net, record, SERVE_STORE, net_behind(record));
        break;
    case NET_ATOMIC:
        carry_out_atomic(net, from, record);
        break;
    case NET_GET:
        carry_out_get(net, from, record);
        break;
    case NET_KEY:
        tell_key(net, from, record);
        break;
    case NET_PLACE:
        tell_place(net, from, record);
        break;
    case NET_ROOM:
        tell_room(net, from, record);
        break;
    case NET_LANDED:
        status = begin_lot(net, from, record, SERVE_PUT);
        break;
    case NET_LIFT:
        lift(net, from, record);
        break;
    case NET_LIFTED:
        net_stage_lifted(net, from, net_behind(record));
        break;
    case NET_RAIL_KEYS:
        tell_rail_keys(net, from, record);
        break;
    case NET_NOTE:
        net_stripe_note(net, from, net_behind(record));
        break;
    case NET_DATA:
        net_data_came(net, from, record);
        break;
    default:
        status = base_fail(WEFT_ERR_VERSION, "a message has a record of the unknown kind %d",
                           record->kind);
    }
    if (status)
        net_tell_failure(net, from, status);
}

static void for_each_record(struct path_common *net, struct net_peer *from,
                            struct net_message *message,
                            void (*act)(struct path_common *net, struct net_peer *from,
                                        struct net_record *record))
{
    uint32_t end = ((const struct net_head *)(void *)message->bytes)->bytes;
    uint32_t at = sizeof(struct net_head);
    while (end - at >= sizeof(struct net_record)) {
        struct net_record *record = (struct net_record *)(void *)(message->bytes + at);
        uint64_t bytes = sizeof *record + fixed_bytes(record) + (uint64_t)record->bytes;
        if (bytes > end - at)
            return;
        act(net, from, record);
        at += (uint32_t)((bytes + 7) & ~(uint64_t)7);
        if (at > end)
            return;
    }
}

void net_serve(struct path_common *net, struct net_peer *from, struct net_message *message)
{
    for_each_record(net, from, message, carry_out);
}

static void complete(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    if (record->kind == NET_LIFT)
        tell_lifted(net, from, record);
}

void net_served(struct path_common *net, struct net_peer *from, struct net_message *message)
{
    if (from->room)
        for_each_record(net, from, message, complete);
}
