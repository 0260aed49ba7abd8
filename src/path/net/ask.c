/* SPDX-License-Identifier: Apache-2.0 */
/* What this PE asks of a peer and the answers to it, for which somebody waits or a quiet will. The
 * owner's part is in serve.c. */
#include "path/net/net.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct net_awaited *awaited_of(struct path_common *net, uint64_t token)
{
    uint32_t number = (uint32_t)token - 1;
    if (number >= net->awaited_count)
        return NULL;
    struct net_awaited *awaited = &net->awaited[number];
    return awaited->taken && awaited->uses == (uint32_t)(token >> 32) ? awaited : NULL;
}

static weft_status more_awaited(struct path_common *net)
{
    uint32_t count = net->awaited_count ? 2 * net->awaited_count : 64;
    struct net_awaited *more = realloc(net->awaited, count * sizeof *more);
    if (!more)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %u answers", count);
    memset(more + net->awaited_count, 0, (count - net->awaited_count) * sizeof *more);
    net->awaited = more;
    net->awaited_count = count;
    return WEFT_OK;
}

weft_status net_await(struct path_state *state, struct net_peer *peer, void *to, size_t bytes,
                      uint64_t *token)
{
    struct path_common *net = state->net;
    uint32_t free = 0;
    while (free < net->awaited_count &&
           net->awaited[(net->awaited_next + free) % net->awaited_count].taken)
        free++;
    weft_status status = WEFT_OK;
    if (free == net->awaited_count) {
        net->awaited_next = net->awaited_count;
        free = 0;
        status = more_awaited(net);
    }
    if (status)
        return status;
    uint32_t number = (net->awaited_next + free) % net->awaited_count;
    struct net_awaited *awaited = &net->awaited[number];
    net->awaited_next = number + 1;
    uint32_t uses = awaited->uses + 1;
    *awaited = (struct net_awaited){
        .state = state, .peer = peer, .to = to, .bytes = bytes, .uses = uses, .taken = true};
    state->under_way++;
    peer->awaiting++;
    *token = (uint64_t)uses << 32 | (number + 1);
    return WEFT_OK;
}

static void release(struct net_awaited *awaited)
{
    struct path_state *state = awaited->state;
    awaited->taken = false;
    awaited->peer->awaiting--;
    state->under_way--;
    net_drop_state(state);
}

void net_cancel_answer(struct path_common *net, uint64_t token)
{
    release(awaited_of(net, token));
}

weft_status net_await_answer(struct path_common *net, uint64_t token)
{
    struct net_awaited *awaited = awaited_of(net, token);
    struct net_peer *peer = awaited->peer;
    struct path_wait wait = net_waiting(net, peer, BOX_OP_GET, 1);
    weft_status status = WEFT_OK;
    /* Looked up anew each time: the table may have grown meanwhile. */
    while (!status && !(awaited = awaited_of(net, token))->done)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    awaited = awaited_of(net, token);
    if (status) {
        awaited->forgotten = true;
        awaited->to = NULL;
        return status;
    }
    status = awaited->status;
    release(awaited);
    return status ? base_fail(status, "PE %d could not carry out what PE %d asked for: %s",
                              peer->pe, net->world->pe, base_status_text(status))
                  : WEFT_OK;
}

bool net_answer_came(struct path_common *net, uint64_t token, weft_status *status)
{
    struct net_awaited *awaited = awaited_of(net, token);
    if (!awaited->done)
        return false;
    *status = awaited->status;
    release(awaited);
    if (*status)
        base_fail(*status, "PE %d could not carry out what PE %d asked for: %s", awaited->peer->pe,
                  net->world->pe, base_status_text(*status));
    return true;
}

void net_forget_answer(struct path_common *net, uint64_t token)
{
    struct net_awaited *awaited = awaited_of(net, token);
    awaited->forgotten = true;
}

weft_status net_ask(struct path_state *state, struct net_peer *peer,
                    const struct net_record *question, uint32_t wanted, void *to, size_t bytes,
                    bool nbi)
{
    struct net_record *record;
    uint64_t token;
    weft_status status = net_await(state, peer, to, bytes, &token);
    if (status)
        return status;
    status = net_request(state, peer, sizeof(struct net_wanted), &record);
    if (status) {
        net_cancel_answer(state->net, token);
        return status;
    }
    *record = *question;
    memcpy(net_behind(record), &(struct net_wanted){.token = token, .bytes = wanted},
           sizeof(struct net_wanted));
    if (nbi) {
        net_forget_answer(state->net, token);
        return WEFT_OK;
    }
    net_flush(state->net, peer, false);
    return net_await_answer(state->net, token);
}

static void answered(struct path_common *net, struct net_awaited *awaited)
{
    struct path_state *state = awaited->state;
    awaited->done = true;
    if (!awaited->forgotten)
        return;
    if (awaited->status && !state->failed) {
        state->failed = awaited->status;
        snprintf(state->sentence, sizeof state->sentence,
                 "PE %d could not carry out what PE %d asked for: %s", awaited->peer->pe,
                 net->world->pe, base_status_text(awaited->status));
    }
    release(awaited);
}

void net_fail_answers(struct path_common *net, const struct net_peer *peer)
{
    for (uint32_t i = 0; i < net->awaited_count; i++) {
        struct net_awaited *awaited = &net->awaited[i];
        if (awaited->taken && awaited->peer == peer && awaited->forgotten)
            release(awaited); /* the peer's failure is told instead */
    }
}

void net_data_came(struct path_common *net, struct net_peer *from, const struct net_record *record)
{
    const struct net_result *result = net_behind((struct net_record *)record);
    struct net_awaited *awaited = awaited_of(net, result->token);
    if (!result->token) {
        char sentence[NET_SENTENCE_BYTES];
        snprintf(sentence, sizeof sentence, "PE %d could not carry out what PE %d asked for: %.*s",
                 from->pe, net->world->pe, (int)record->bytes, (const char *)(result + 1));
        net_fail_peer(net, from, result->status < 0 ? (weft_status)result->status : WEFT_ERR_PATH,
                      sentence);
        return;
    }
    if (!awaited || awaited->peer != from || awaited->done || result->position > awaited->bytes ||
        record->bytes > awaited->bytes - result->position)
        return;
    if (awaited->to && record->bytes)
        memcpy((char *)awaited->to + result->position, result + 1, record->bytes);
    awaited->came += record->bytes;
    awaited->status = (weft_status)result->status;
    if (awaited->status || awaited->came >= awaited->bytes)
        answered(net, awaited);
}
