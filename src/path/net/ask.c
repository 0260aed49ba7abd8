/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of this PE that have an answer. A caller waits for the answer, or the context's quiet
 * does. serve.c has the part of the PE that answers. */
#include "path/net/net.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct net_pending_answer *find_pending_answer(struct path_common *net, uint64_t token)
{
    uint32_t index = (uint32_t)token - 1;
    if (index >= net->pending.count)
        return NULL;
    struct net_pending_answer *pending = &net->pending.answers[index];
    return pending->in_use && pending->generation == (uint32_t)(token >> 32) ? pending : NULL;
}

static weft_status grow_pending_answers(struct path_common *net)
{
    uint32_t count = net->pending.count ? 2 * net->pending.count : 64;
    struct net_pending_answer *more = realloc(net->pending.answers, count * sizeof *more);
    if (!more)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %u answers", count);
    memset(more + net->pending.count, 0, (count - net->pending.count) * sizeof *more);
    net->pending.answers = more;
    net->pending.count = count;
    return WEFT_OK;
}

weft_status net_new_answer_token(struct net_state *state, struct net_peer *peer, void *to,
                                 size_t bytes, uint64_t *token)
{
    struct path_common *net = state->net;
    uint32_t free = 0;
    while (free < net->pending.count &&
           net->pending.answers[(net->pending.next + free) % net->pending.count].in_use)
        free++;
    weft_status status = WEFT_OK;
    if (free == net->pending.count) {
        net->pending.next = net->pending.count;
        free = 0;
        status = grow_pending_answers(net);
    }
    if (status)
        return status;
    uint32_t index = (net->pending.next + free) % net->pending.count;
    struct net_pending_answer *pending = &net->pending.answers[index];
    net->pending.next = index + 1;
    uint32_t uses = pending->generation + 1;
    *pending = (struct net_pending_answer){.state = state,
                                           .peer = peer,
                                           .destination = to,
                                           .bytes = bytes,
                                           .generation = uses,
                                           .in_use = true};
    state->in_flight++;
    peer->link.pending_answers++;
    *token = (uint64_t)uses << 32 | (index + 1);
    return WEFT_OK;
}

static void release_pending_answer(struct net_pending_answer *pending)
{
    struct net_state *state = pending->state;
    pending->in_use = false;
    pending->peer->link.pending_answers--;
    state->in_flight--;
    net_drop_state(state);
}

void net_cancel_answer(struct path_common *net, uint64_t token)
{
    release_pending_answer(find_pending_answer(net, token));
}

weft_status net_await_answer(struct path_common *net, uint64_t token)
{
    struct net_pending_answer *pending = find_pending_answer(net, token);
    struct net_peer *peer = pending->peer;
    struct path_wait wait = net_make_wait(net, peer, BOX_OP_GET, 1);
    weft_status status = WEFT_OK;
    /* The entry is looked up again each time, since the array may have grown. */
    while (!status && !find_pending_answer(net, token)->complete)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    pending = find_pending_answer(net, token);
    if (status) {
        pending->detached = true;
        pending->destination = NULL;
        return status;
    }
    status = pending->status;
    release_pending_answer(pending);
    return status ? base_fail(status, "PE %d failed a request of PE %d: %s", peer->pe,
                              net->world->pe, base_status_text(status))
                  : WEFT_OK;
}

bool net_poll_answer(struct path_common *net, uint64_t token, weft_status *status)
{
    struct net_pending_answer *pending = find_pending_answer(net, token);
    if (!pending->complete)
        return false;
    *status = pending->status;
    release_pending_answer(pending);
    if (*status)
        base_fail(*status, "PE %d failed a request of PE %d: %s", pending->peer->pe, net->world->pe,
                  base_status_text(*status));
    return true;
}

void net_detach_answer(struct path_common *net, uint64_t token)
{
    struct net_pending_answer *pending = find_pending_answer(net, token);
    pending->detached = true;
}

weft_status net_send_query(struct net_state *state, struct net_peer *peer,
                           const struct net_record *query, uint32_t bytes_wanted, void *to,
                           size_t bytes, bool nbi)
{
    struct net_record *record;
    uint64_t token;
    weft_status status = net_new_answer_token(state, peer, to, bytes, &token);
    if (status)
        return status;
    status = net_add_request(state, peer, sizeof(struct net_query), &record);
    if (status) {
        net_cancel_answer(state->net, token);
        return status;
    }
    *record = *query;
    memcpy(net_payload(record), &(struct net_query){.token = token, .bytes = bytes_wanted},
           sizeof(struct net_query));
    if (nbi) {
        net_detach_answer(state->net, token);
        return WEFT_OK;
    }
    net_flush_requests(state->net, peer, false);
    return net_await_answer(state->net, token);
}

static void complete_answer(struct path_common *net, struct net_pending_answer *pending)
{
    struct net_state *state = pending->state;
    pending->complete = true;
    if (!pending->detached)
        return;
    if (pending->status && !state->failed) {
        state->failed = pending->status;
        snprintf(state->sentence, sizeof state->sentence, "PE %d failed a request of PE %d: %s",
                 pending->peer->pe, net->world->pe, base_status_text(pending->status));
    }
    release_pending_answer(pending);
}

void net_drop_answers(struct path_common *net, const struct net_peer *peer)
{
    for (uint32_t i = 0; i < net->pending.count; i++) {
        struct net_pending_answer *pending = &net->pending.answers[i];
        if (pending->in_use && pending->peer == peer && pending->detached)
            release_pending_answer(pending); /* The caller gets the peer's failure instead. */
    }
}

void net_data_received(struct path_common *net, struct net_peer *from,
                       const struct net_record *record)
{
    const struct net_result *result = net_payload((struct net_record *)record);
    struct net_pending_answer *pending = find_pending_answer(net, result->token);
    if (!result->token) {
        char sentence[NET_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "PE %d failed a request of PE %d: %.*s", from->pe,
                 net->world->pe, (int)record->bytes, (const char *)(result + 1));
        net_fail_peer(net, from, result->status < 0 ? (weft_status)result->status : WEFT_ERR_PATH,
                      sentence);
        return;
    }
    if (!pending || pending->peer != from || pending->complete || result->offset > pending->bytes ||
        record->bytes > pending->bytes - result->offset)
        return;
    if (pending->destination && record->bytes)
        memcpy((char *)pending->destination + result->offset, result + 1, record->bytes);
    pending->received_bytes += record->bytes;
    pending->status = (weft_status)result->status;
    if (pending->status || pending->received_bytes >= pending->bytes)
        complete_answer(net, pending);
}
