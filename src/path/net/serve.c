/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the records of messages: requests of peers on this PE's memory (serve.h), and answers to
 * this PE's own requests (ask.c). */
#include "path/net/hmem.h"
#include "path/net/stripe.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MOST = NET_MESSAGE_BYTES - sizeof(struct net_head) - sizeof(struct net_record) -
                  sizeof(struct net_result),
    FETCH_MOST = 256 << 10, /* bytes of a get at most */
    /* Bytes of a staging buffer: the largest product of WEFT_TEST_NET_SLOT_SIZE and
       WEFT_TEST_NET_SLOTS. */
    STAGING_MOST = 1 << 30
};

/* ------------------------------------------------------------------------------------- requests */

/* Adds an answer with `bytes` bytes of data. Returns the address of the data; NULL if no memory is
 * left. */
static void *add_result(struct path_common *net, struct net_peer *to, enum net_kind kind,
                        struct net_result result, size_t bytes)
{
    struct net_record *record = net_add_answer(net, to, sizeof result + bytes);
    if (!record)
        return NULL;
    record->kind = (uint8_t)kind;
    record->bytes = (uint32_t)bytes;
    memcpy(net_payload(record), &result, sizeof result);
    return (struct net_result *)net_payload(record) + 1;
}

void net_report_failure(struct path_common *net, struct net_peer *to, weft_status status)
{
    const char *sentence = base_last_error();
    size_t length = strnlen(sentence, NET_SENTENCE_BYTES / 2);
    void *data = add_result(net, to, NET_DATA, (struct net_result){.status = status}, length);
    if (data)
        memcpy(data, sentence, length);
}

static weft_status begin_request(struct path_common *net, const struct net_record *record,
                                 enum serve_operation operation, void *data)
{
    const struct serve_request request = {.operation = (uint8_t)operation,
                                          .segment = record->segment,
                                          .offset = record->offset,
                                          .bytes = record->bytes};
    return serve_begin(net->serve, &request, data, NULL);
}

static void execute_atomic(struct path_common *net, struct net_peer *from,
                           struct net_record *record)
{
    const struct net_atomic *atomic = net_payload(record);
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
        net_report_failure(net, from, status);
    if (!atomic->token)
        return;
    struct net_result result = {.token = atomic->token, .status = status};
    size_t width = status ? 0 : record->width; /* serve_begin() has accepted the width: 4 or 8. */
    void *data = add_result(net, from, NET_DATA, result, width);
    if (data)
        memcpy(data, &before, width); /* Weft runs on little-endian machines only. */
}

/* The address of a slot in the staging buffer for the peer. NULL if the buffer does not contain
 * it. */
static void *find_slot(const struct net_peer *from, const struct net_slot *slot)
{
    if (!from->served.staging_buffer || slot->offset > from->served.staging_bytes ||
        slot->bytes > from->served.staging_bytes - slot->offset) {
        base_fail(WEFT_ERR_ARGUMENT,
                  "a slot of %u bytes at offset %llu of a staging buffer of %zu bytes", slot->bytes,
                  (unsigned long long)slot->offset, from->served.staging_bytes);
        return NULL;
    }
    return from->served.staging_buffer + slot->offset;
}

static weft_status begin_slot_copy(struct path_common *net, struct net_peer *from,
                                   const struct net_record *record, enum serve_operation operation)
{
    const struct net_slot *slot = net_payload((struct net_record *)record);
    void *data = find_slot(from, slot);
    struct net_record whole = *record;
    whole.bytes = slot->bytes;
    return data ? begin_request(net, &whole, operation, data) : WEFT_ERR_ARGUMENT;
}

static void begin_slot_get(struct path_common *net, struct net_peer *from,
                           struct net_record *record)
{
    struct net_slot *slot = net_payload(record);
    slot->status = begin_slot_copy(net, from, record, SERVE_GET);
}

static void report_slot_ready(struct path_common *net, struct net_peer *from,
                              struct net_record *record)
{
    const struct net_slot *slot = net_payload(record);
    add_result(net, from, NET_SLOT_READY,
               (struct net_result){.token = slot->token, .status = slot->status}, 0);
}

static void answer_data(struct path_common *net, struct net_peer *to, struct net_record *record,
                        const void *what, size_t bytes)
{
    const struct net_query *query = net_payload(record);
    void *data = add_result(net, to, NET_DATA, (struct net_result){.token = query->token}, bytes);
    if (data)
        memcpy(data, what, bytes);
}

static void answer_gpu_region(struct path_common *net, struct net_peer *from,
                              struct net_record *record)
{
    struct net_gpu_region region;
    net_get_own_region(net, (size_t)record->offset, &region);
    answer_data(net, from, record, &region, sizeof region);
}

static void answer_staging_buffer(struct path_common *net, struct net_peer *from,
                                  struct net_record *record)
{
    const struct net_query *query = net_payload(record);
    struct net_key keys[NET_RAILS];
    net_get_staging_buffer(net, from, query->bytes < STAGING_MOST ? query->bytes : STAGING_MOST,
                           keys);
    answer_data(net, from, record, keys, sizeof keys);
}

/* Copies the whole get into pinned memory at once, so that this PE waits once for the GPU, whatever
 * the number of messages. NULL if the source is no GPU memory, or one value. */
static const char *fetch_from_gpu(struct path_common *net, const struct net_record *record,
                                  uint32_t bytes, weft_status *status)
{
    struct net_record whole = *record;
    if (record->segment != SEG_GPU || record->width)
        return NULL;
    if (!net->gpu.answer_buffer)
        net->gpu.answer_buffer = net_alloc_gpu_slab(net, FETCH_MOST);
    if (!net->gpu.answer_buffer)
        return NULL;
    whole.bytes = bytes;
    *status = begin_request(net, &whole, SERVE_GET, net->gpu.answer_buffer);
    if (!*status)
        *status = serve_quiet(net->serve);
    return net->gpu.answer_buffer;
}

/* Reads a fragment into a message: from the pinned copy, or from the memory itself. */
static weft_status read_fragment(struct path_common *net, const struct net_record *fragment,
                                 const char *fetched, void *data)
{
    if (fetched) {
        memcpy(data, fetched, fragment->bytes);
        return WEFT_OK;
    }
    weft_status status =
        begin_request(net, fragment, fragment->width ? SERVE_LOAD : SERVE_GET, data);
    return status ? status : serve_quiet(net->serve);
}

/* Answers a get in as many messages as it takes. */
static void execute_get(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    const struct net_query query = *(const struct net_query *)net_payload(record);
    struct net_record fragment = *record;
    weft_status status = WEFT_OK, fetch = WEFT_OK;
    if (query.bytes > FETCH_MOST) {
        net_report_failure(net, from,
                           base_fail(WEFT_ERR_ARGUMENT, "a get of %u bytes; at most %d are allowed",
                                     query.bytes, FETCH_MOST));
        return;
    }
    const char *fetched = fetch_from_gpu(net, record, query.bytes, &fetch);
    for (uint32_t done = 0; done < query.bytes && !status; done += fragment.bytes) {
        uint32_t left = query.bytes - done;
        fragment.bytes = left < ANSWER_MOST ? left : ANSWER_MOST;
        fragment.offset = record->offset + done;
        void *data =
            add_result(net, from, NET_DATA,
                       (struct net_result){.token = query.token, .offset = done}, fragment.bytes);
        if (!data)
            return;
        status =
            fetch ? fetch : read_fragment(net, &fragment, fetched ? fetched + done : NULL, data);
        if (!status)
            continue;
        memset(data, 0, fragment.bytes); /* The buffer has bytes of an earlier message. */
        ((struct net_result *)data - 1)->status = status;
    }
}

static void answer_key(struct path_common *net, struct net_peer *from, struct net_record *record)
{
    struct net_key key = {0};
    if (record->segment < SEG_COUNT)
        net_get_own_chunk(net, (enum segment_id)record->segment, record->offset, &key);
    answer_data(net, from, record, &key, sizeof key);
}

static void answer_rail_keys(struct path_common *net, struct net_peer *from,
                             struct net_record *record)
{
    struct net_key keys[NET_RAILS] = {{0}};
    if (record->segment < SEG_COUNT)
        net_get_own_rail_keys(net, (enum segment_id)record->segment, record->offset, keys);
    answer_data(net, from, record, keys, sizeof keys);
}

/* ------------------------------------------------------------------------- records of a message */

static size_t fixed_bytes(const struct net_record *record)
{
    switch (record->kind) {
    case NET_ATOMIC:
        return sizeof(struct net_atomic);
    case NET_GET:
    case NET_KEY:
    case NET_GPU_REGION:
    case NET_STAGING_BUFFER:
    case NET_RAIL_KEYS:
        return sizeof(struct net_query);
    case NET_SLOT_PUT:
    case NET_SLOT_GET:
        return sizeof(struct net_slot);
    case NET_CONTROL:
        return sizeof(struct net_control);
    case NET_DATA:
    case NET_SLOT_READY:
        return sizeof(struct net_result);
    default:
        return 0;
    }
}

static void execute_record(struct path_common *net, struct net_peer *from,
                           struct net_record *record)
{
    weft_status status = WEFT_OK;
    switch (record->kind) {
    case NET_PUT:
        status = begin_request(net, record, SERVE_PUT, net_payload(record));
        break;
    case NET_STORE:
        status = begin_request(net, record, SERVE_STORE, net_payload(record));
        break;
    case NET_ATOMIC:
        execute_atomic(net, from, record);
        break;
    case NET_GET:
        execute_get(net, from, record);
        break;
    case NET_KEY:
        answer_key(net, from, record);
        break;
    case NET_GPU_REGION:
        answer_gpu_region(net, from, record);
        break;
    case NET_STAGING_BUFFER:
        answer_staging_buffer(net, from, record);
        break;
    case NET_SLOT_PUT:
        status = begin_slot_copy(net, from, record, SERVE_PUT);
        break;
    case NET_SLOT_GET:
        begin_slot_get(net, from, record);
        break;
    case NET_SLOT_READY:
        net_stage_slot_ready(net, from, net_payload(record));
        break;
    case NET_RAIL_KEYS:
        answer_rail_keys(net, from, record);
        break;
    case NET_CONTROL:
        net_handle_control(net, from, net_payload(record));
        break;
    case NET_DATA:
        net_data_received(net, from, record);
        break;
    default:
        status = base_fail(WEFT_ERR_VERSION, "a message has a record of the unknown kind %d",
                           record->kind);
    }
    if (status)
        net_report_failure(net, from, status);
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

void net_execute_records(struct path_common *net, struct net_peer *from,
                         struct net_message *message)
{
    for_each_record(net, from, message, execute_record);
}

static void report_completed(struct path_common *net, struct net_peer *from,
                             struct net_record *record)
{
    if (record->kind == NET_SLOT_GET)
        report_slot_ready(net, from, record);
}

void net_report_completed(struct path_common *net, struct net_peer *from,
                          struct net_message *message)
{
    if (from->served.staging_buffer)
        for_each_record(net, from, message, report_completed);
}
