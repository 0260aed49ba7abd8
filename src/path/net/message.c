/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of path net: filling, sending, numbering and receiving them. A message has a number,
 * and its receiver carries it out in the order of numbers, whatever order it arrives in; requests
 * and answers are numbered apart. Every message tells how far its sender is with those of its
 * receiver: a message that gives work to this PE's GPU is begun, and complete some time later.
 *
 * A receiver takes a message only when the word in it is that of the PE that it names, its
 * length is what came, and its numbers are such as that PE can have come to. All else is dropped,
 * and is no failure of any PE. */
#include "path/net/hmem.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sanitizer.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_PER_SLAB = 32 };

static struct net_head *head_of(struct net_message *message)
{
    return (struct net_head *)(void *)message->bytes;
}

struct net_record *net_add_record(struct net_message *message, size_t bytes)
{
    struct net_head *head = head_of(message);
    struct net_record *record = (struct net_record *)(void *)(message->bytes + head->bytes);
    head->bytes += (uint16_t)((sizeof *record + bytes + 7) & ~(size_t)7);
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
    SANITIZER_SHOW(message->bytes, sizeof message->bytes);
    message->next = net->free_messages;
    net->free_messages = message;
}

struct net_message *net_take_message(struct path_common *net)
{
    if (!net->free_messages) {
        void *const *descriptors;
        struct net_message *slab =
            net_message_slab(net, MESSAGES_PER_SLAB * sizeof(struct net_message), &descriptors);
        for (int i = 0; slab && i < MESSAGES_PER_SLAB; i++) {
            slab[i].descriptors = descriptors;
            net_give_message(net, &slab[i]);
        }
    }
    struct net_message *message = net->free_messages;
    if (message)
        net->free_messages = message->next;
    return message;
}

struct net_message *net_new_message(struct path_common *net, struct net_peer *peer)
{
    struct net_message *message = net_take_message(net);
    if (!message)
        return NULL;
    message->in_flight = message->queued = message->kept = message->probe = false;
    message->number = 0;
    message->post.kind = NET_POST_SEND;
    message->post.peer = peer;
    *head_of(message) = (struct net_head){
        .word = peer->sends.word, .from = net->world->pe, .bytes = sizeof(struct net_head)};
    return message;
}

/* ------------------------------------------------------------------------------------- sending */

void net_let_go(struct path_common *net, struct net_message *message)
{
    if (!message->in_flight && !message->queued && !message->kept)
        net_give_message(net, message);
}

/* It goes again over another rail, or is lost with its peer. */
static void send_failed(struct path_common *net, struct net_message *message, int error)
{
    struct net_peer *peer = message->post.peer;
    const struct net_rail *rail = &net->rails[peer->via];
    char sentence[NET_SENTENCE_BYTES], where[NET_WHERE_BYTES], limit[96];
    const char *cause = net->lib->strerror(error);
    net_limit(rail, error, limit, sizeof limit);
    snprintf(sentence, sizeof sentence, "a message to PE %d%s failed (provider %s on %s): %s%s",
             peer->pe, net_where(rail, peer->via, peer, where), net->provider, net_interface(rail),
             cause, limit);
    if (net_suspect(net, peer, sentence, cause))
        net_keep(peer, message);
    else
        net_give_up(net, peer, sentence);
    net_let_go(net, message);
}

void net_write_numbers(const struct net_peer *peer, struct net_message *message)
{
    struct net_head *head = head_of(message);
    head->number =
        message->number + (head->flags & NET_ANSWERS ? peer->sends.answers : peer->sends.requests);
    head->handled = peer->handled + peer->takes.requests;
    head->answered = peer->answers_came + peer->takes.answers;
}

/* Whether the provider has taken it, or it waits for another rail, or is lost with its peer. */
static bool try_to_send(struct path_common *net, struct net_message *message)
{
    struct net_peer *peer = message->post.peer;
    struct net_rail *rail = &net->rails[peer->via];
    struct net_head *head = head_of(message);
    message->queued = false;
    if (unlikely(peer->failed || peer->suspect[0])) {
        if (!peer->failed)
            net_keep(peer, message);
        net_let_go(net, message);
        return true;
    }
    net_write_numbers(peer, message);
    ssize_t error =
        fi_send(rail->endpoint, message->bytes, head->bytes, message->descriptors[peer->via],
                peer->address[peer->via], &message->post.context);
    if (error == -FI_EAGAIN)
        return false;
    if (error) {
        send_failed(net, message, (int)-error);
        return true;
    }
    message->in_flight = true;
    message->rail = peer->via;
    rail->sending++;
    if (net->rail_count > 1 && net_other_rail(net, peer, peer->via) >= 0)
        net_keep(peer, message);
    return true;
}

/* In the order given, for each peer. */
void net_send(struct path_common *net, struct net_message *message)
{
    if (!net->waiting && try_to_send(net, message))
        return;
    message->next = NULL;
    message->queued = true;
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
            message->queued = true;
            *net->waiting_end = message;
            net->waiting_end = &message->next;
        }
        message = next;
    }
}

void net_message_sent(struct path_common *net, struct net_message *message)
{
    message->in_flight = false;
    net->rails[message->rail].sending--;
    net_let_go(net, message);
}

/* ------------------------------------------------------------------------------------- requests */

void net_flush(struct path_common *net, struct net_peer *peer, bool tell)
{
    struct net_message *message = peer->open;
    if (!message && tell && peer->asked < peer->sent)
        message = net_new_message(net, peer);
    if (!message)
        return;
    peer->open = NULL;
    struct net_head *head = head_of(message);
    message->number = ++peer->sent;
    /* Asked for now and then unbidden, so that the window opens while it is still half open. */
    if (tell || message->number - peer->asked >= NET_WINDOW / 2) {
        head->flags |= NET_TELL;
        peer->asked = message->number;
    }
    if (peer->gpu_written)
        head->flags |= NET_FLUSH;
    peer->gpu_written = false;
    net_send(net, message);
}

void net_flush_unanswered(struct path_common *net, struct net_peer *peer)
{
    if (!peer->open)
        return;
    peer->quiet_follows = peer->quiet_follows && !peer->guessed; /* the last guess was wrong */
    peer->guessed = peer->quiet_follows;
    net_flush(net, peer, peer->guessed);
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
    peer->open = net_new_message(net, peer);
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
    *record = net_add_record(peer->open, bytes);
    net_touch(state, peer->pe)->last = peer->sent + 1;
    return WEFT_OK;
}

struct net_record *net_try_request(struct path_state *state, struct net_peer *peer, size_t bytes)
{
    if (peer->open && !has_room(peer->open, bytes))
        net_flush(state->net, peer, false);
    if (!peer->open && peer->sent - peer->done < NET_WINDOW)
        peer->open = net_new_message(state->net, peer);
    if (!peer->open)
        return NULL;
    net_touch(state, peer->pe)->last = peer->sent + 1;
    return net_add_record(peer->open, bytes);
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

static void send_answers(struct path_common *net, struct net_peer *peer,
                         struct net_message *message)
{
    message->number = ++peer->answers_sent;
    head_of(message)->flags |= NET_ANSWERS;
    net_send(net, message);
}

struct net_record *net_answer(struct path_common *net, struct net_peer *peer, size_t bytes)
{
    if (peer->answers && !has_room(peer->answers, bytes)) {
        send_answers(net, peer, peer->answers);
        peer->answers = NULL;
    }
    if (!peer->answers)
        peer->answers = net_new_message(net, peer);
    if (!peer->answers) {
        net_fail_peer(net, peer, WEFT_ERR_NO_MEMORY, "no private memory for an answer");
        return NULL;
    }
    to_be_answered(net, peer);
    return net_add_record(peer->answers, bytes);
}

void net_send_answers(struct path_common *net)
{
    while (net->answering) {
        struct net_peer *peer = net->answering;
        struct net_message *message = peer->answers ? peer->answers : net_new_message(net, peer);
        net->answering = peer->next_answering;
        peer->answering = false;
        peer->answers = NULL;
        if (message)
            send_answers(net, peer, message);
        else
            net_fail_peer(net, peer, WEFT_ERR_NO_MEMORY, "no private memory for an answer");
    }
}

/* ------------------------------------------------------------------------------------ receiving */

weft_status net_post_receive(struct path_common *net, int number, struct net_message *message)
{
    struct net_rail *rail = &net->rails[number];
    SANITIZER_SHOW(message->bytes, sizeof message->bytes);
    message->post.kind = NET_POST_RECEIVE;
    message->post.peer = NULL;
    message->rail = (uint8_t)number;
    ssize_t error = fi_recv(rail->endpoint, message->bytes, NET_MESSAGE_BYTES,
                            message->descriptors[number], FI_ADDR_UNSPEC, &message->post.context);
    return error ? net_refused(net, rail, "fi_recv", (int)error) : WEFT_OK;
}

/* A rail that has been closed meanwhile receives no more. */
static void receive_again(struct path_common *net, int rail, struct net_message *message)
{
    if (message && !net->rails[rail].endpoint) {
        net_give_message(net, message);
        return;
    }
    if (message && net_post_receive(net, rail, message) == WEFT_OK)
        return;
    net->failed = WEFT_ERR_PATH;
    snprintf(net->sentence, sizeof net->sentence, "path net cannot receive any more: %s",
             message ? base_last_error() : "no private memory for messages");
}

/* What a head says, counted from 1 on. */
struct told {
    uint64_t number, handled, answered;
    bool answers;
    struct net_message **early; /* of those that come before their turn */
    const uint64_t *last;       /* the number of the last one whose turn has come */
};

/* The PE that has sent the message. NULL: none of the job has. */
static struct net_peer *sender_of(struct path_common *net, const struct net_message *message,
                                  size_t bytes, fi_addr_t source)
{
    const struct net_head *head = (const struct net_head *)(const void *)message->bytes;
    const struct net_traits *traits = &net->rails[message->rail].traits;
    if (bytes < sizeof *head || head->from < 0 || head->from >= net->world->npes)
        return NULL;
    struct net_peer *peer = &net->peers[head->from];
    if (head->word != peer->takes.word || head->bytes != bytes)
        return NULL;
    bool told = source != FI_ADDR_NOTAVAIL;
    return (told ? source != peer->address[message->rail] : traits->knows_sources) ? NULL : peer;
}

/* Whether the numbers of the head are such as the peer can have come to. */
static bool read_numbers(const struct net_head *head, struct net_peer *peer, struct told *told)
{
    bool answers = head->flags & NET_ANSWERS;
    *told = (struct told){.answers = answers,
                          .number =
                              head->number - (answers ? peer->takes.answers : peer->takes.requests),
                          .handled = head->handled - peer->sends.requests,
                          .answered = head->answered - peer->sends.answers,
                          .early = answers ? &peer->early_answers : &peer->early,
                          .last = answers ? &peer->answers_came : &peer->begun};
    return told->handled <= peer->sent && told->answered <= peer->answers_sent &&
           told->number <= *told->last + NET_EARLY_MOST;
}

/* What has come is not of the job: it is dropped, and reported now and then. */
static void drop_strange(struct path_common *net, int rail)
{
    enum { WARN_S = 10 };
    uint64_t now = clock_now_ns();
    net->strangers++;
    if (net->warned_ns && now - net->warned_ns < (uint64_t)WARN_S * 1000 * 1000 * 1000)
        return;
    net->warned_ns = now;
    log_warn("path net: %llu messages over %s came from no PE of this job and were dropped; "
             "another program sends to this port (docs/security.md)",
             (unsigned long long)net->strangers, net_interface(&net->rails[rail]));
}

void net_message_lost(struct path_common *net, struct net_message *message, int error)
{
    log_debug("path net: a message over %s has not come whole: %s",
              net_interface(&net->rails[message->rail]), net->lib->strerror(error));
    receive_again(net, message->rail, message);
}

static void finish(struct path_common *net, struct net_message *message)
{
    const struct net_head *head = head_of(message);
    struct net_peer *peer = &net->peers[head->from];
    net_served(net, peer, message);
    peer->handled = message->number;
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

/* The buffer stays with the message until it is complete, which may be at once. */
static void carry_out_requests(struct path_common *net, struct net_peer *peer,
                               struct net_message *message)
{
    const struct net_head *head = head_of(message);
    weft_status status = head->flags & NET_FLUSH ? net_flush_gpu(net) : WEFT_OK;
    if (status)
        net_tell_failure(net, peer, status);
    net_serve(net, peer, message);
    peer->begun = message->number;
    message->given = serve_given(net->serve);
    message->next = NULL;
    *net->late_end = message;
    net->late_end = &message->next;
    net_finish_late(net);
}

/* Nothing of answers is left. */
static void carry_out(struct path_common *net, struct net_peer *peer, struct net_message *message)
{
    if (!(head_of(message)->flags & NET_ANSWERS)) {
        carry_out_requests(net, peer, message);
        return;
    }
    net_serve(net, peer, message);
    peer->answers_came = message->number;
    net_give_message(net, message);
}

/* Those whose turn has come with the one before them: `last` is the number of that. */
static void carry_out_early(struct path_common *net, struct net_peer *peer,
                            struct net_message **early, const uint64_t *last)
{
    struct net_message **at = early;
    while (*at) {
        struct net_message *message = *at;
        if (message->number != *last + 1) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        carry_out(net, peer, message);
        at = early;
    }
}

/* What went again when a rail failed may have come before. */
static bool has_come(const struct told *told)
{
    for (const struct net_message *early = *told->early; early; early = early->next)
        if (early->number == told->number)
            return true;
    return told->number <= *told->last;
}

static void take_in_turn(struct path_common *net, struct net_peer *peer,
                         struct net_message *message, const struct told *told)
{
    if (told->number > *told->last + 1) {
        message->next = *told->early;
        *told->early = message;
        return;
    }
    carry_out(net, peer, message);
    if (*told->early)
        carry_out_early(net, peer, told->early, told->last);
}

void net_message_came(struct path_common *net, struct net_message *message, size_t bytes,
                      fi_addr_t source)
{
    const struct net_head *head = head_of(message);
    int rail = message->rail;
    SANITIZER_HIDE(message->bytes + bytes, sizeof message->bytes - bytes);
    struct net_peer *peer = sender_of(net, message, bytes, source);
    struct told told;
    if (unlikely(!peer || !read_numbers(head, peer, &told))) {
        drop_strange(net, rail);
        receive_again(net, rail, message);
        return;
    }
    message->number = told.number;
    if (told.handled > peer->done)
        peer->done = told.handled;
    net_heard(peer, rail);
    if (peer->kept)
        net_arrived(net, peer, told.handled, told.answered);
    if (!told.number)
        net_probe_came(net, peer, message);
    if (!told.number || has_come(&told)) {
        if (head->flags & NET_TELL)
            to_be_answered(net, peer); /* what told it may be lost */
        receive_again(net, rail, message);
        return;
    }
    receive_again(net, rail, net_take_message(net));
    take_in_turn(net, peer, message, &told);
}
