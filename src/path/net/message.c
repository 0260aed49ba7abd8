/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of path net: filling, sending and receiving them. A message has a sequence number, and
 * its receiver executes messages in the order of these numbers, whatever order they arrive in;
 * requests and answers are counted apart. Every message carries the last sequence number of the
 * receiver's messages that its sender has executed. A message that gives work to this PE's GPU is
 * begun first and complete some time later.
 *
 * A receiver accepts a message only if the authentication word is that of the sending PE, the
 * length is what arrived, and the sequence numbers are possible for that PE. Everything else is
 * dropped, and fails no PE. */
#include "path/net/encrypt.h"
#include "path/net/hmem.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sanitizer.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_PER_SLAB = 32 };

struct net_record *net_add_record(struct net_message *message, size_t bytes)
{
    struct net_head *head = net_message_head(message);
    struct net_record *record = (struct net_record *)(void *)(message->bytes + head->bytes);
    head->bytes += (uint16_t)((sizeof *record + bytes + 7) & ~(size_t)7);
    memset(record, 0, sizeof *record);
    return record;
}

static bool fits_message(struct net_message *message, size_t bytes)
{
    return net_message_head(message)->bytes +
               ((sizeof(struct net_record) + bytes + 7) & ~(size_t)7) <=
           NET_MESSAGE_BYTES;
}

/* ------------------------------------------------------------------------------------- buffers */

void net_free_message(struct path_common *net, struct net_message *message)
{
    SANITIZER_SHOW(message->bytes, sizeof message->bytes);
    message->next = net->sends.free;
    net->sends.free = message;
}

/* Adds a slab of messages to the free list. An envelope follows each if the job encrypts. */
static void add_messages(struct path_common *net)
{
    void *const *descriptors;
    size_t bytes = sizeof(struct net_message) + (net->encryption ? NET_WIRE_BYTES : 0);
    char *slab = net_alloc_message_slab(net, MESSAGES_PER_SLAB * bytes, &descriptors);
    for (int i = 0; slab && i < MESSAGES_PER_SLAB; i++) {
        struct net_message *message = (struct net_message *)(void *)(slab + (size_t)i * bytes);
        message->descriptors = descriptors;
        message->envelope = net->encryption ? (struct net_envelope *)(void *)(message + 1) : NULL;
        net_free_message(net, message);
    }
}

struct net_message *net_alloc_message(struct path_common *net)
{
    if (!net->sends.free)
        add_messages(net);
    struct net_message *message = net->sends.free;
    if (message)
        net->sends.free = message->next;
    return message;
}

struct net_message *net_new_message(struct path_common *net, struct net_peer *peer)
{
    struct net_message *message = net_alloc_message(net);
    if (!message)
        return NULL;
    message->in_flight = message->queued = message->unacknowledged = message->is_probe = false;
    message->sequence = 0;
    message->encrypted_bytes = 0;
    message->post.kind = NET_POST_SEND;
    message->post.peer = peer;
    *net_message_head(message) = (struct net_head){.auth_word = peer->outgoing.auth_word,
                                                   .from = net->world->pe,
                                                   .bytes = sizeof(struct net_head)};
    return message;
}

/* ------------------------------------------------------------------------------------- sending */

void net_release_message(struct path_common *net, struct net_message *message)
{
    if (!message->in_flight && !message->queued && !message->unacknowledged)
        net_free_message(net, message);
}

/* Handles an error of fi_send(): the message waits for another rail, or is lost with its peer. */
static void handle_send_error(struct path_common *net, struct net_message *message, int error)
{
    struct net_peer *peer = message->post.peer;
    const struct net_rail *rail = &net->rails[peer->link.rail];
    char sentence[NET_SENTENCE_BYTES], address_text[NET_ADDRESS_TEXT_BYTES], limit_text[96];
    const char *cause = net->lib->strerror(error);
    net_limit_text(rail, error, limit_text, sizeof limit_text);
    snprintf(sentence, sizeof sentence, "a message to PE %d%s failed (provider %s on %s): %s%s",
             peer->pe, net_address_text(rail, peer->link.rail, peer, address_text), net->provider,
             net_interface_name(rail), cause, limit_text);
    if (net_mark_suspected(net, peer, sentence, cause))
        net_retain_message(peer, message);
    else
        net_give_up_peer(net, peer, sentence);
    net_release_message(net, message);
}

void net_write_sequences(const struct net_peer *peer, struct net_message *message)
{
    struct net_head *head = net_message_head(message);
    head->sequence = message->sequence + (head->flags & NET_ANSWERS ? peer->outgoing.first_answer
                                                                    : peer->outgoing.first_request);
    head->handled = peer->served.handled + peer->incoming.first_request;
    head->answers_received = peer->link.answers_received + peer->incoming.first_answer;
}

ssize_t net_post_send(struct path_common *net, struct net_message *message, int rail)
{
    const void *bytes = message->bytes;
    size_t count = net_message_head(message)->bytes;
    if (unlikely(message->envelope != NULL)) {
        bytes = message->envelope;
        count = net_encrypt_message(net, message);
        if (!count)
            return -FI_ENOMEM;
    }
    ssize_t error = fi_send(net->rails[rail].endpoint, bytes, count, message->descriptors[rail],
                            message->post.peer->rails.address[rail], &message->post.context);
    if (error != -FI_EAGAIN) /* A retransmission is another message to the receiver. */
        message->encrypted_bytes = 0;
    return error;
}

/* Sends the message. False: the provider returned FI_EAGAIN. True also if the message waits for
 * another rail, or is dropped since its peer has failed. */
static bool try_send_message(struct path_common *net, struct net_message *message)
{
    struct net_peer *peer = message->post.peer;
    message->queued = false;
    if (unlikely(peer->failed || peer->link.suspected_failure[0])) {
        if (!peer->failed)
            net_retain_message(peer, message);
        net_release_message(net, message);
        return true;
    }
    net_write_sequences(peer, message);
    ssize_t error = net_post_send(net, message, peer->link.rail);
    if (error == -FI_EAGAIN)
        return false;
    if (error) {
        handle_send_error(net, message, (int)-error);
        return true;
    }
    message->in_flight = true;
    message->rail = peer->link.rail;
    net->rails[message->rail].sends_in_flight++;
    if (net->rail_count > 1 && net_find_other_rail(net, peer, peer->link.rail) >= 0)
        net_retain_message(peer, message);
    return true;
}

/* Messages to one peer keep the order of the calls. */
void net_send_message(struct path_common *net, struct net_message *message)
{
    if (!net->sends.blocked && try_send_message(net, message))
        return;
    message->next = NULL;
    message->queued = true;
    *net->sends.blocked_end = message;
    net->sends.blocked_end = &message->next;
}

/* A peer whose connection is still being made does not delay messages to other peers. */
void net_retry_sends(struct path_common *net)
{
    struct net_message *message = net->sends.blocked;
    net->sends.blocked = NULL;
    net->sends.blocked_end = &net->sends.blocked;
    net->sends.retries++;
    while (message) {
        struct net_message *next = message->next;
        struct net_peer *peer = message->post.peer;
        if (peer->requests.blocked_retry == net->sends.retries || !try_send_message(net, message)) {
            peer->requests.blocked_retry = net->sends.retries;
            message->next = NULL;
            message->queued = true;
            *net->sends.blocked_end = message;
            net->sends.blocked_end = &message->next;
        }
        message = next;
    }
}

void net_message_sent(struct path_common *net, struct net_message *message)
{
    message->in_flight = false;
    net->rails[message->rail].sends_in_flight--;
    net_release_message(net, message);
}

/* ------------------------------------------------------------------------------------- requests */

void net_flush_requests(struct path_common *net, struct net_peer *peer, bool acknowledge)
{
    struct net_message *message = peer->requests.open;
    if (!message && acknowledge && peer->requests.ack_requested < peer->requests.last_sent)
        message = net_new_message(net, peer);
    if (!message)
        return;
    peer->requests.open = NULL;
    struct net_head *head = net_message_head(message);
    message->sequence = ++peer->requests.last_sent;
    /* After half a window a message requests an acknowledgement by itself, so that the window does
     * not fill up. */
    if (acknowledge || message->sequence - peer->requests.ack_requested >= NET_WINDOW / 2) {
        head->flags |= NET_ACK_REQUEST;
        peer->requests.ack_requested = message->sequence;
    }
    if (peer->gpu.written)
        head->flags |= NET_FLUSH_GPU;
    peer->gpu.written = false;
    net_send_message(net, message);
}

void net_flush_unanswered(struct path_common *net, struct net_peer *peer)
{
    if (!peer->requests.open)
        return;
    peer->requests.quiet_follows = peer->requests.quiet_follows &&
                                   !peer->requests.guessed_quiet; /* The last guess was wrong. */
    peer->requests.guessed_quiet = peer->requests.quiet_follows;
    net_flush_requests(net, peer, peer->requests.guessed_quiet);
}

static weft_status start_message(struct path_common *net, struct net_peer *peer)
{
    weft_status status = net_check_failure(net, peer);
    struct path_wait wait =
        net_make_wait(net, peer, BOX_OP_PUT, peer->requests.last_sent - NET_WINDOW + 1);
    while (!status && !peer->requests.open &&
           peer->requests.last_sent - peer->requests.acknowledged >= NET_WINDOW)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    if (status || peer->requests.open)
        return status;
    peer->requests.open = net_new_message(net, peer);
    return peer->requests.open ? WEFT_OK
                               : base_fail(WEFT_ERR_NO_MEMORY,
                                           "no private memory for a message to PE %d", peer->pe);
}

weft_status net_add_request(struct net_state *state, struct net_peer *peer, size_t bytes,
                            struct net_record **record)
{
    weft_status status = net_check_failure(state->net, peer);
    while (!status) {
        if (peer->requests.open && fits_message(peer->requests.open, bytes))
            break;
        if (peer->requests.open)
            net_flush_requests(state->net, peer, false);
        status = start_message(state->net, peer);
    }
    if (status)
        return status;
    *record = net_add_record(peer->requests.open, bytes);
    net_touch_channel(state, peer->pe)->last_message = peer->requests.last_sent + 1;
    return WEFT_OK;
}

struct net_record *net_try_add_request(struct net_state *state, struct net_peer *peer, size_t bytes)
{
    if (peer->requests.open && !fits_message(peer->requests.open, bytes))
        net_flush_requests(state->net, peer, false);
    if (!peer->requests.open && peer->requests.last_sent - peer->requests.acknowledged < NET_WINDOW)
        peer->requests.open = net_new_message(state->net, peer);
    if (!peer->requests.open)
        return NULL;
    net_touch_channel(state, peer->pe)->last_message = peer->requests.last_sent + 1;
    return net_add_record(peer->requests.open, bytes);
}

weft_status net_await_acknowledged(struct path_common *net, struct net_peer *peer, uint64_t rail)
{
    weft_status status = net_check_failure(net, peer);
    if (!status && peer->requests.acknowledged < rail && peer->requests.ack_requested < rail)
        net_flush_requests(net, peer, true);
    struct path_wait wait = net_make_wait(net, peer, BOX_OP_QUIET, rail);
    while (!status && peer->requests.acknowledged < rail)
        status = net_wait(net, peer, &wait);
    path_wait_end(&wait);
    return status;
}

/* -------------------------------------------------------------------------------------- answers */

static void queue_answer(struct path_common *net, struct net_peer *peer)
{
    if (peer->served.answer_queued)
        return;
    peer->served.answer_queued = true;
    peer->served.next_to_answer = net->sends.to_answer;
    net->sends.to_answer = peer;
}

static void send_answer_message(struct path_common *net, struct net_peer *peer,
                                struct net_message *message)
{
    message->sequence = ++peer->link.answers_sent;
    net_message_head(message)->flags |= NET_ANSWERS;
    net_send_message(net, message);
}

struct net_record *net_add_answer(struct path_common *net, struct net_peer *peer, size_t bytes)
{
    if (peer->served.open_answers && !fits_message(peer->served.open_answers, bytes)) {
        send_answer_message(net, peer, peer->served.open_answers);
        peer->served.open_answers = NULL;
    }
    if (!peer->served.open_answers)
        peer->served.open_answers = net_new_message(net, peer);
    if (!peer->served.open_answers) {
        net_fail_peer(net, peer, WEFT_ERR_NO_MEMORY, "no private memory for an answer");
        return NULL;
    }
    queue_answer(net, peer);
    return net_add_record(peer->served.open_answers, bytes);
}

void net_send_answers(struct path_common *net)
{
    while (net->sends.to_answer) {
        struct net_peer *peer = net->sends.to_answer;
        struct net_message *message =
            peer->served.open_answers ? peer->served.open_answers : net_new_message(net, peer);
        net->sends.to_answer = peer->served.next_to_answer;
        peer->served.answer_queued = false;
        peer->served.open_answers = NULL;
        if (message)
            send_answer_message(net, peer, message);
        else
            net_fail_peer(net, peer, WEFT_ERR_NO_MEMORY, "no private memory for an answer");
    }
}

/* ------------------------------------------------------------------------------------ receiving */

weft_status net_post_receive(struct path_common *net, int rail_index, struct net_message *message)
{
    struct net_rail *rail = &net->rails[rail_index];
    SANITIZER_SHOW(message->bytes, sizeof message->bytes);
    message->post.kind = NET_POST_RECEIVE;
    message->post.peer = NULL;
    message->rail = (uint8_t)rail_index;
    ssize_t error =
        fi_recv(rail->endpoint, message->envelope ? (void *)message->envelope : message->bytes,
                message->envelope ? NET_WIRE_BYTES : NET_MESSAGE_BYTES,
                message->descriptors[rail_index], FI_ADDR_UNSPEC, &message->post.context);
    return error ? net_call_failed(net, rail, "fi_recv", (int)error) : WEFT_OK;
}

/* A rail that has been closed receives nothing more. */
static void repost_receive(struct path_common *net, int rail, struct net_message *message)
{
    if (message && !net->rails[rail].endpoint) {
        net_free_message(net, message);
        return;
    }
    if (message && net_post_receive(net, rail, message) == WEFT_OK)
        return;
    net->failed = WEFT_ERR_PATH;
    snprintf(net->sentence, sizeof net->sentence, "path net cannot receive any more: %s",
             message ? base_last_error() : "no private memory for messages");
}

/* The decoded head of a message; sequence numbers count from 1. */
struct decoded_head {
    uint64_t sequence, handled, answers_received;
    bool answers;
    struct net_message **early; /* the peer's list of messages ahead of the next in order */
    const uint64_t *last;       /* sequence number of the last message executed in order */
};

/* Finds the PE that sent the message. NULL if it is no PE of the job. */
static struct net_peer *find_sender(struct path_common *net, const struct net_message *message,
                                    size_t bytes, fi_addr_t source)
{
    const struct net_head *head = (const struct net_head *)(const void *)message->bytes;
    const struct net_traits *traits = &net->rails[message->rail].traits;
    if (bytes < sizeof *head || head->from < 0 || head->from >= net->world->npes)
        return NULL;
    uint64_t word = net_is_begun(net, head->from) ? net->peers[head->from].incoming.auth_word
                                                  : net_derive_incoming_word(net, head->from);
    if (head->auth_word != word || head->bytes != bytes)
        return NULL;
    struct net_peer *peer = net_get_peer(net, head->from);
    bool has_source = source != FI_ADDR_NOTAVAIL;
    return (has_source ? source != peer->rails.address[message->rail] : traits->rejects_unknown)
               ? NULL
               : peer;
}

/* Decodes the sequence numbers. False if they are impossible for the peer. */
static bool decode_head(const struct net_head *head, struct net_peer *peer,
                        struct decoded_head *decoded)
{
    bool answers = head->flags & NET_ANSWERS;
    *decoded = (struct decoded_head){
        .answers = answers,
        .sequence =
            head->sequence - (answers ? peer->incoming.first_answer : peer->incoming.first_request),
        .handled = head->handled - peer->outgoing.first_request,
        .answers_received = head->answers_received - peer->outgoing.first_answer,
        .early = answers ? &peer->served.early_answers : &peer->served.early_requests,
        .last = answers ? &peer->link.answers_received : &peer->served.begun};
    return decoded->handled <= peer->requests.last_sent &&
           decoded->answers_received <= peer->link.answers_sent &&
           decoded->sequence <= *decoded->last + NET_EARLY_MOST;
}

/* Drops a message from outside the job, and warns at most once every 10 s. */
static void drop_unauthenticated(struct path_common *net, int rail)
{
    enum { WARN_S = 10 };
    uint64_t now = clock_now_ns();
    net->unauthenticated++;
    if (net->warned_ns && now - net->warned_ns < (uint64_t)WARN_S * 1000 * 1000 * 1000)
        return;
    net->warned_ns = now;
    log_warn(LOG_NET,
             "path net: %llu messages over %s came from no PE of this job%s and were dropped; "
             "another program sends to this port (docs/security.md)",
             (unsigned long long)net->unauthenticated, net_interface_name(&net->rails[rail]),
             net->encryption ? ", or were changed or repeated on the way," : "");
}

void net_message_lost(struct path_common *net, struct net_message *message, int error)
{
    log_debug(LOG_NET, "path net: a message over %s arrived incomplete: %s",
              net_interface_name(&net->rails[message->rail]), net->lib->strerror(error));
    repost_receive(net, message->rail, message);
}

static void finish_requests(struct path_common *net, struct net_message *message)
{
    const struct net_head *head = net_message_head(message);
    struct net_peer *peer = &net->peers[head->from];
    net_report_completed(net, peer, message);
    peer->served.handled = message->sequence;
    if (head->flags & NET_ACK_REQUEST)
        queue_answer(net, peer);
    net_free_message(net, message);
}

/* The GPU has failed: reports that to the senders of all requests that are begun, and takes them as
 * complete. */
static uint64_t report_gpu_failure(struct path_common *net, weft_status status)
{
    for (struct net_message *message = net->incomplete; message; message = message->next)
        net_report_failure(net, &net->peers[net_message_head(message)->from], status);
    return serve_count_begun(net->serve);
}

bool net_finish_incomplete(struct path_common *net)
{
    uint64_t complete;
    bool any = false;
    if (likely(!net->incomplete))
        return false;
    weft_status status = serve_poll(net->serve, &complete);
    if (status)
        complete = report_gpu_failure(net, status);
    while (net->incomplete && net->incomplete->serve_count <= complete) {
        struct net_message *message = net->incomplete;
        net->incomplete = message->next;
        if (!net->incomplete)
            net->incomplete_end = &net->incomplete;
        finish_requests(net, message);
        any = true;
    }
    return any;
}

/* The buffer stays with the message until the message is complete, which may be at once. */
static void execute_requests(struct path_common *net, struct net_peer *peer,
                             struct net_message *message)
{
    const struct net_head *head = net_message_head(message);
    weft_status status = head->flags & NET_FLUSH_GPU ? net_flush_gpu(net) : WEFT_OK;
    if (status)
        net_report_failure(net, peer, status);
    net_execute_records(net, peer, message);
    peer->served.begun = message->sequence;
    message->serve_count = serve_count_begun(net->serve);
    message->next = NULL;
    *net->incomplete_end = message;
    net->incomplete_end = &message->next;
    net_finish_incomplete(net);
}

/* Executes a message in order. A message of answers is complete at once. */
static void execute_message(struct path_common *net, struct net_peer *peer,
                            struct net_message *message)
{
    if (!(net_message_head(message)->flags & NET_ANSWERS)) {
        execute_requests(net, peer, message);
        return;
    }
    net_execute_records(net, peer, message);
    peer->link.answers_received = message->sequence;
    net_free_message(net, message);
}

/* Executes the early messages that follow in order; *last is the sequence number of the last one
 * executed. */
static void execute_early(struct path_common *net, struct net_peer *peer,
                          struct net_message **early, const uint64_t *last)
{
    struct net_message **at = early;
    while (*at) {
        struct net_message *message = *at;
        if (message->sequence != *last + 1) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        execute_message(net, peer, message);
        at = early;
    }
}

/* A message that was retransmitted after a failure of a rail may have arrived before. */
static bool is_duplicate(const struct decoded_head *decoded)
{
    for (const struct net_message *early = *decoded->early; early; early = early->next)
        if (early->sequence == decoded->sequence)
            return true;
    return decoded->sequence <= *decoded->last;
}

static void execute_in_order(struct path_common *net, struct net_peer *peer,
                             struct net_message *message, const struct decoded_head *decoded)
{
    if (decoded->sequence > *decoded->last + 1) {
        message->next = *decoded->early;
        *decoded->early = message;
        return;
    }
    execute_message(net, peer, message);
    if (*decoded->early)
        execute_early(net, peer, decoded->early, decoded->last);
}

void net_message_received(struct path_common *net, struct net_message *message, size_t bytes,
                          fi_addr_t source)
{
    const struct net_head *head = net_message_head(message);
    int rail = message->rail;
    if (unlikely(message->envelope != NULL))
        bytes = net_decrypt_message(net, message, bytes);
    SANITIZER_HIDE(message->bytes + bytes, sizeof message->bytes - bytes);
    struct net_peer *peer = find_sender(net, message, bytes, source);
    struct decoded_head decoded;
    if (unlikely(!peer || !decode_head(head, peer, &decoded))) {
        drop_unauthenticated(net, rail);
        repost_receive(net, rail, message);
        return;
    }
    message->sequence = decoded.sequence;
    if (decoded.handled > peer->requests.acknowledged)
        peer->requests.acknowledged = decoded.handled;
    net_mark_live(peer, rail);
    if (peer->link.unacknowledged)
        net_release_acknowledged(net, peer, decoded.handled, decoded.answers_received);
    if (!decoded.sequence)
        net_answer_probe(net, peer, message);
    if (!decoded.sequence || is_duplicate(&decoded)) {
        if (head->flags & NET_ACK_REQUEST)
            queue_answer(net, peer); /* The acknowledgement may have been lost. */
        repost_receive(net, rail, message);
        return;
    }
    repost_receive(net, rail, net_alloc_message(net));
    execute_in_order(net, peer, message, &decoded);
}
