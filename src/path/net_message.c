/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of path net: filling, sending, numbering and receiving them. A message with requests has a
 * number, and its receiver carries it out in the order of numbers, whatever order it arrives in. Answers
 * have none. Every message tells how far its sender is with those of its receiver: a message that gives
 * work to this PE's GPU is begun, and complete some time later. */
#include "path/net_hmem.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_PER_SLAB = 32 };

static struct net_head *head_of(struct net_message *message)
{
    return (struct net_head *)(void *)message->bytes;
}

static struct net_record *add_record(struct net_message *message, size_t bytes)
{
    struct net_head *head = head_of(message);
    struct net_record *record = (struct net_record *)(void *)(message->bytes + head->bytes);
    head->bytes += (uint32_t)((sizeof *record + bytes + 7) & ~(size_t)7);
    memset(record, 0, sizeof *record);
    return record;
}

static bool has_room(struct net_message *message, size_t bytes)
{
    return head_of(message)->bytes + ((sizeof(struct net_record) + bytes + 7) & ~(size_t)7) <=
           NET_MESSAGE_BYTES;
}

/* ------------------------------------------------------------------------------------- buffers */

void net_give_message(struct path_common *net, struct net_message *message)
{
    message->next = net->free_messages;
    net->free_messages = message;
}

struct net_message *net_take_message(struct path_common *net)
{
    if (!net->free_messages) {
        void *descriptor;
        struct net_message *slab =
            net_slab(net, MESSAGES_PER_SLAB * sizeof(struct net_message), &descriptor);
        for (int i = 0; slab && i < MESSAGES_PER_SLAB; i++) {
            slab[i].descriptor = descriptor;
            net_give_message(net, &slab[i]);
        }
    }
    struct net_message *message = net->free_messages;
    if (message)
        net->free_messages = message->next;
    return message;
}

static struct net_message *new_message(struct path_common *net, struct net_peer *peer)
{
    struct net_message *message = net_take_message(net);
    if (!message)
        return NULL;
    message->next = NULL;
    message->post.kind = NET_POST_SEND;
    message->post.peer = peer;
    *head_of(message) = (struct net_head){
        .magic = NET_MAGIC, .from = net->world->pe, .bytes = sizeof(struct net_head)};
    return message;
}

/* ------------------------------------------------------------------------------------- sending */

/* Whether the provider has taken it, or it is lost with its peer. */
static bool try_to_send(struct path_common *net, struct net_message *message)
{
    struct net_peer *peer = message->post.peer;
    struct net_head *head = head_of(message);
    if (peer->failed) {
        net_give_message(net, message);
        return true;
    }
    head->handled = peer->handled;
    ssize_t error = fi_send(net->rails[0].endpoint, message->bytes, head->bytes,
                            message->descriptor, peer->address[0], &message->post.context);
    if (error == -FI_EAGAIN)
        return false;
    if (error) {
        char sentence[NET_SENTENCE_BYTES], where[NET_WHERE_BYTES];
        snprintf(sentence, sizeof sentence, "a message to PE %d%s failed (provider %s on %s): %s",
                 peer->pe, net_where(&net->rails[0], 0, peer, where), net->provider,
                 net_interface(&net->rails[0]), net->lib->strerror((int)-error));
        net_fail_peer(net, peer, WEFT_ERR_PATH, sentence);
        net_give_message(net, message);
        return true;
    }
    net->sending++;
    return true;
}

/* In the order given, for each peer. */
static void send(struct path_common *net, struct net_message *message)
{
    if (!net->waiting && try_to_send(net, message))
        return;
    message->next = NULL;
    *net->waiting_end = message;
    net->waiting_end = &message->next;
}

/* A peer that takes nothing for now, because its connection is being made, holds up no other. */
void net_retry(struct path_common *net)
{
    struct net_message *message = net->waiting;
    net->waiting = NULL;
    net->waiting_end = &net->waiting;
    net->retries++;
    while (message) {
        struct net_message *next = message->next;
        struct net_peer *peer = message->post.peer;
        if (peer->stalled == net->retries || !try_to_send(net, message)) {
            peer->stalled = net->retries;
            message->next = NULL;
            *net->waiting_end = message;
            net->waiting_end = &message->next;
        }
        message = next;
    }
}

void net_message_sent(struct path_common *net, struct net_message *message)
{
    net->sending--;
    net_give_message(net, message);
}

/* ------------------------------------------------------------------------------------- requests */

void net_flush(struct path_common *net, struct net_peer *peer, bool tell)
{
    struct net_message *message = peer->open;
    if (!message && tell && peer->asked < peer->sent)
        message = new_message(net, peer);
    if (!message)
        return;
    peer->open = NULL;
    struct net_head *head = head_of(message);
    head->number = ++peer->sent;
    /* Asked for now and then unbidden, so that the window opens while it is still half open. */
    if (tell || head->number - peer->asked >= NET_WINDOW / 2) {
        head->flags |= NET_TELL;
        peer->asked = head->number;
    }
    if (peer->gpu_written)
        head->flags |= NET_FLUSH;
    peer->gpu_written = false;
    send(net, message);
}

static weft_status open_message(struct path_common *net, struct net_peer *peer)
{
    weft_status status = net_failure(net, peer);
    struct path_wait wait = net_waiting(net, peer, BOX_OP_PUT, peer->sent - NET_WINDOW + 1);
    while (!status && !peer->open && peer->sent - peer->done >= NET_WINDOW)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    if (status || peer->open)
        return status;
    peer->open = new_message(net, peer);
    return peer->open ? WEFT_OK
                      : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a message to PE %d",
                                  peer->pe);
}

weft_status net_request(struct path_state *state, struct net_peer *peer, size_t bytes,
                        struct net_record **record)
{
    weft_status status = net_failure(state->net, peer);
    while (!status) {
        if (peer->open && has_room(peer->open, bytes))
            break;
        if (peer->open)
            net_flush(state->net, peer, false);
        status = open_message(state->net, peer);
    }
    if (status)
        return status;
    *record = add_record(peer->open, bytes);
    net_touch(state, peer->pe)->last = peer->sent + 1;
    return WEFT_OK;
}

struct net_record *net_try_request(struct path_state *state, struct net_peer *peer, size_t bytes)
{
    if (peer->open && !has_room(peer->open, bytes))
        net_flush(state->net, peer, false);
    if (!peer->open && peer->sent - peer->done < NET_WINDOW)
        peer->open = new_message(state->net, peer);
    if (!peer->open)
        return NULL;
    net_touch(state, peer->pe)->last = peer->sent + 1;
    return add_record(peer->open, bytes);
}

weft_status net_await_done(struct path_common *net, struct net_peer *peer, uint64_t number)
{
    weft_status status = net_failure(net, peer);
    if (!status && peer->done < number && peer->asked < number)
        net_flush(net, peer, true);
    struct path_wait wait = net_waiting(net, peer, BOX_OP_QUIET, number);
    while (!status && peer->done < number)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* -------------------------------------------------------------------------------------- answers */

static void to_be_answered(struct path_common *net, struct net_peer *peer)
{
    if (peer->answering)
        return;
    peer->answering = true;
    peer->next_answering = net->answering;
    net->answering = peer;
}

struct net_record *net_answer(struct path_common *net, struct net_peer *peer, size_t bytes)
{
    if (peer->answers && !has_room(peer->answers, bytes)) {
        send(net, peer->answers);
        peer->answers = NULL;
    }
    if (!peer->answers)
        peer->answers = new_message(net, peer);
    if (!peer->answers) {
        net_fail_peer(net, peer, WEFT_ERR_NO_MEMORY, "no private memory for an answer");
        return NULL;
    }
    to_be_answered(net, peer);
    return add_record(peer->answers, bytes);
}

void net_send_answers(struct path_common *net)
{
    while (net->answering) {
        struct net_peer *peer = net->answering;
        struct net_message *message = peer->answers ? peer->answers : new_message(net, peer);
        net->answering = peer->next_answering;
        peer->answering = false;
        peer->answers = NULL;
        if (message)
            send(net, message);
        else
            net_fail_peer(net, peer, WEFT_ERR_NO_MEMORY, "no private memory for an answer");
    }
}

/* ------------------------------------------------------------------------------------ receiving */

weft_status net_post_receive(struct path_common *net, struct net_message *message)
{
    message->post.kind = NET_POST_RECEIVE;
    message->post.peer = NULL;
    ssize_t error = fi_recv(net->rails[0].endpoint, message->bytes, NET_MESSAGE_BYTES,
                            message->descriptor, FI_ADDR_UNSPEC, &message->post.context);
    return error ? net_refused(net, &net->rails[0], "fi_recv", (int)error) : WEFT_OK;
}

static void receive_again(struct path_common *net, struct net_message *message)
{
    if (message && net_post_receive(net, message) == WEFT_OK)
        return;
    net->failed = WEFT_ERR_PATH;
    snprintf(net->sentence, sizeof net->sentence, "path net cannot receive any more: %s",
             message ? base_last_error() : "no private memory for messages");
}

static bool well_formed(const struct path_common *net, const struct net_head *head)
{
    return head->magic == NET_MAGIC && head->from >= 0 && head->from < net->world->npes &&
           head->bytes >= sizeof *head && head->bytes <= NET_MESSAGE_BYTES;
}

static void finish(struct path_common *net, struct net_message *message)
{
    const struct net_head *head = head_of(message);
    struct net_peer *peer = &net->peers[head->from];
    net_served(net, peer, message);
    peer->handled = head->number;
    if (head->flags & NET_TELL)
        to_be_answered(net, peer);
    net_give_message(net, message);
}

/* The GPU has failed: what is under way will not be complete, and those who asked are told. */
static uint64_t give_up(struct path_common *net, weft_status status)
{
    for (struct net_message *message = net->late; message; message = message->next)
        net_tell_failure(net, &net->peers[head_of(message)->from], status);
    return serve_given(net->serve);
}

bool net_finish_late(struct path_common *net)
{
    uint64_t complete;
    bool any = false;
    if (likely(!net->late))
        return false;
    weft_status status = serve_look(net->serve, &complete);
    if (status)
        complete = give_up(net, status);
    while (net->late && net->late->given <= complete) {
        struct net_message *message = net->late;
        net->late = message->next;
        if (!net->late)
            net->late_end = &net->late;
        finish(net, message);
        any = true;
    }
    return any;
}

/* The buffer stays with the message until it is complete, which may be at once. Answers have no number,
 * and nothing of them is left. */
static void carry_out(struct path_common *net, struct net_peer *peer, struct net_message *message)
{
    const struct net_head *head = head_of(message);
    weft_status status = head->flags & NET_FLUSH ? net_flush_gpu(net) : WEFT_OK;
    if (status)
        net_tell_failure(net, peer, status);
    net_serve(net, peer, message);
    if (!head->number) {
        net_give_message(net, message);
        return;
    }
    peer->begun = head->number;
    message->given = serve_given(net->serve);
    message->next = NULL;
    *net->late_end = message;
    net->late_end = &message->next;
    net_finish_late(net);
}

/* Those whose turn has come with the one before them. */
static void carry_out_early(struct path_common *net, struct net_peer *peer)
{
    struct net_message **at = &peer->early;
    while (*at) {
        struct net_message *message = *at;
        if (head_of(message)->number != peer->begun + 1) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        carry_out(net, peer, message);
        at = &peer->early;
    }
}

void net_message_came(struct path_common *net, struct net_message *message)
{
    const struct net_head *head = head_of(message);
    if (!well_formed(net, head)) {
        receive_again(net, message);
        return;
    }
    struct net_peer *peer = &net->peers[head->from];
    if (head->handled > peer->done)
        peer->done = head->handled;
    if (head->number > peer->begun + 1) {
        message->next = peer->early;
        peer->early = message;
        receive_again(net, net_take_message(net));
        return;
    }
    carry_out(net, peer, message);
    receive_again(net, net_take_message(net));
    if (peer->early)
        carry_out_early(net, peer);
}
