/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to an endpoint of path net, from unauthenticated peers and from PEs of the job with any
 * contents. A message of an unauthenticated peer changes nothing and gets no answer. A message of a
 * PE with the right authentication word reads only what was received, and accesses only memory that
 * the PE may access. (Findings A1 and A9.)
 *
 * Input: for each message a byte of enum control, one for the sender, two for the length, and the
 * bytes of the message. */
#include "unit/net_end.h"

enum control {
    WORD = 1,     /* gets the right authentication word, length and acknowledged numbers */
    IN_TURN = 2,  /* gets the next expected sequence number */
    ANSWERS = 4,  /* of the answers */
    AHEAD = 8,    /* or a later sequence number */
    SHORTER = 16, /* is shorter than its header says */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
const struct path_ops *__wrap_path_ops_of(enum path_id path);

/* ------------------------------------------------------------- own memory, replaces p2p's table */

static char *place(struct remote at, size_t bytes)
{
    if (at.segment != SEG_HEAP || at.offset > END_HEAP_BYTES || bytes > END_HEAP_BYTES - at.offset)
        abort(); /* serve.c must have refused it */
    return (char *)end_here->heap + at.offset;
}

static weft_status put(struct remote to, const void *src, size_t bytes, bool nbi)
{
    (void)nbi;
    if (bytes)
        memmove(place(to, bytes), src, bytes);
    return WEFT_OK;
}

static weft_status get(struct remote from, void *dst, size_t bytes, bool nbi)
{
    (void)nbi;
    if (bytes)
        memmove(dst, place(from, bytes), bytes);
    return WEFT_OK;
}

static weft_status store(struct remote to, const void *value, size_t width)
{
    return put(to, value, width, false);
}

static weft_status load(struct remote from, void *value, size_t width)
{
    return get(from, value, width, false);
}

static weft_status atomic(struct remote at, weft_amo amo, size_t width, uint64_t value,
                          uint64_t expected, void *fetched, bool nbi)
{
    (void)amo, (void)expected, (void)nbi;
    if (fetched)
        memcpy(fetched, place(at, width), width);
    memcpy(place(at, width), &value, width);
    return WEFT_OK;
}

const struct path_ops *__wrap_path_ops_of(enum path_id path)
{
    static const struct path_ops own = {
        .name = "own", .put = put, .get = get, .store = store, .load = load, .atomic = atomic};
    (void)path;
    return &own;
}

/* ------------------------------------------------------------------------------------ one input */

static void make_right(struct net_end *end, struct net_head *head, uint8_t control, uint8_t from,
                       uint16_t bytes)
{
    const struct net_peer *peer = &end->peers[1 + from % (END_PES - 1)];
    bool answers = control & ANSWERS;
    uint64_t last = answers ? peer->link.answers_received : peer->served.begun;
    head->from = peer->pe;
    head->auth_word = peer->incoming.auth_word;
    head->bytes = bytes;
    head->flags = (uint16_t)((head->flags & ~NET_ANSWERS) | (answers ? NET_ANSWERS : 0));
    if (control & (IN_TURN | AHEAD))
        head->sequence = last + 1 + (control & AHEAD ? from / 2 : 0) +
                         (answers ? peer->incoming.first_answer : peer->incoming.first_request);
    if (head->handled - peer->outgoing.first_request > peer->requests.last_sent)
        head->handled =
            peer->outgoing.first_request + head->handled % (peer->requests.last_sent + 1);
    if (head->answers_received - peer->outgoing.first_answer > peer->link.answers_sent)
        head->answers_received =
            peer->outgoing.first_answer + head->answers_received % (peer->link.answers_sent + 1);
}

/* libFuzzer learns the words from comparisons, which an unauthenticated peer cannot. */
static void forget_word(const struct net_end *end, struct net_head *head)
{
    for (int pe = 0; pe < END_PES; pe++)
        head->auth_word ^= head->auth_word == end->peers[pe].incoming.auth_word;
}

static void feed_stranger(struct net_end *end, const void *message, size_t count)
{
    struct net_peer before[END_PES];
    unsigned char heap[END_HEAP_BYTES];
    uint64_t strangers = end->net.unauthenticated;
    memcpy(before, end->peers, sizeof before);
    memcpy(heap, end->heap, sizeof heap);
    end_feed(end, message, count);
    if (end->net.unauthenticated != strangers + 1 ||
        memcmp(before, end->peers, sizeof before) != 0 || memcmp(heap, end->heap, sizeof heap) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint8_t key[SIPHASH_KEY_BYTES] = {2, 7, 1, 8, 2, 8};
    static struct net_end end;
    static _Alignas(8) uint8_t message[NET_MESSAGE_BYTES];
    setenv("WEFT_LOG", "error", 1);
    end_open(&end, key, 8);
    while (size >= 4 && !end.net.failed) {
        uint8_t control = bytes[0], from = bytes[1];
        size_t count = ((size_t)bytes[2] << 8 | bytes[3]) % (NET_MESSAGE_BYTES + 1);
        size_t given = count < size - 4 ? count : size - 4;
        memset(message, 0, sizeof message);
        memcpy(message, bytes + 4, given);
        bytes += 4 + given;
        size -= 4 + given;
        if (control & WORD && count >= sizeof(struct net_head))
            make_right(&end, (struct net_head *)(void *)message, control, from, (uint16_t)count);
        else
            forget_word(&end, (struct net_head *)(void *)message);
        if (control & WORD && count >= sizeof(struct net_head) && !(control & SHORTER))
            end_feed(&end, message, count);
        else
            feed_stranger(&end, message, control & SHORTER && count ? count - 1 : count);
    }
    end_shut(&end);
    return 0;
}
