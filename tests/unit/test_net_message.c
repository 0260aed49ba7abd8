/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which messages path net accepts from a PE of the job, and which fields it trusts (findings
 * A1 and A9). Most of these messages have a correct authentication word and correct sequence
 * numbers, which no other program knows. */
#include "unit/net_end.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint8_t key[SIPHASH_KEY_BYTES] = {3, 1, 4, 1, 5, 9, 2, 6};

static struct message {
    struct net_head head;
    unsigned char records[NET_MESSAGE_BYTES - sizeof(struct net_head)];
} message;

static unsigned char sent[NET_MESSAGE_BYTES]; /* the message sent last */
static size_t sent_bytes;
static uint64_t sent_messages;

static void look(struct net_end *end, const unsigned char *bytes, size_t count)
{
    (void)end;
    memcpy(sent, bytes, count);
    sent_bytes = count;
    sent_messages++;
}

/* Begins a message as PE `from` would write it. */
static void begin_message(const struct net_end *end, int from, uint64_t number, uint16_t flags)
{
    const struct net_peer *peer = &end->peers[from];
    memset(&message, 0, sizeof message);
    message.head =
        (struct net_head){.auth_word = peer->incoming.auth_word,
                          .sequence = number + (flags & NET_ANSWERS ? peer->incoming.first_answer
                                                                    : peer->incoming.first_request),
                          .handled = peer->outgoing.first_request,
                          .answers_received = peer->outgoing.first_answer,
                          .from = from,
                          .bytes = sizeof message.head,
                          .flags = flags};
}

static void add(struct net_record record, const void *behind, size_t bytes)
{
    unsigned char *at = (unsigned char *)&message + message.head.bytes;
    memcpy(at, &record, sizeof record);
    memcpy(at + sizeof record, behind, bytes);
    message.head.bytes += (uint16_t)((sizeof record + bytes + 7) & ~(size_t)7);
}

static void add_put(size_t offset, uint64_t value)
{
    add((struct net_record){.kind = NET_PUT, .segment = SEG_HEAP, .bytes = 8, .offset = offset},
        &value, sizeof value);
}

static uint64_t read_word_at(const struct net_end *end, size_t offset)
{
    uint64_t value;
    memcpy(&value, end->heap + offset, sizeof value);
    return value;
}

static void feed(struct net_end *end)
{
    end_feed(end, &message, message.head.bytes);
}

static struct net_end end;

static uint64_t now;
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    return now;
}

/* Double of a GPU that has not finished its requests: the test says how many are complete. */
static bool gpu_works;
static uint64_t complete;
static weft_status gpu_status;
weft_status __real_serve_poll(struct serve *serve, uint64_t *complete);
weft_status __wrap_serve_poll(struct serve *serve, uint64_t *done);
weft_status __wrap_serve_poll(struct serve *serve, uint64_t *done)
{
    weft_status status = __real_serve_poll(serve, done);
    if (gpu_works)
        *done = complete;
    return gpu_status ? base_fail(gpu_status, "the GPU is gone") : status;
}

static int open_end(void **context)
{
    (void)context;
    end_open(&end, key, 8);
    end.look = look;
    sent_messages = 0;
    gpu_works = false;
    gpu_status = WEFT_OK;
    now = (uint64_t)1 << 40;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end_shut(&end);
    return 0;
}

static void drops_messages_without_the_auth_word(void **context)
{
    (void)context;
    uint64_t before = read_word_at(&end, 64);
    const uint64_t words[] = {0,
                              1,
                              end.peers[1].outgoing.auth_word,
                              end.peers[2].incoming.auth_word,
                              end.peers[1].incoming.auth_word ^ 1,
                              end.peers[1].incoming.auth_word ^ (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        begin_message(&end, 1, 1, NET_ACK_REQUEST);
        add_put(64, 77);
        message.head.auth_word = words[i];
        feed(&end);
        assert_int_equal(read_word_at(&end, 64), before);
        assert_int_equal(end.net.unauthenticated, i + 1);
    }
    for (int from = -1; from <= END_PES; from += END_PES + 1) {
        begin_message(&end, 1, 1, 0);
        message.head.from = from;
        feed(&end);
    }
    assert_int_equal(end.net.unauthenticated, 8);
    assert_int_equal(sent_messages, 0);
    begin_message(&end, 1, 1, NET_ACK_REQUEST);
    add_put(64, 77);
    feed(&end);
    assert_int_equal(read_word_at(&end, 64), 77);
    assert_int_equal(end.net.unauthenticated, 8);
    assert_int_equal(sent_messages, 1);
}

static void words_and_numbers_are_of_one_pair(void **context)
{
    (void)context;
    static struct net_end other;
    other = end;
    uint64_t seen[END_PES * 6];
    int count = 0;
    for (int pe = 0; pe < END_PES; pe++) {
        const struct net_peer *peer = &end.peers[pe];
        const uint64_t six[] = {peer->incoming.auth_word,     peer->outgoing.auth_word,
                                peer->incoming.first_request, peer->outgoing.first_request,
                                peer->incoming.first_answer,  peer->outgoing.first_answer};
        for (int i = 0; i < 6; i++)
            seen[count++] = six[i];
    }
    for (int i = 6; i < count; i++) /* PE 0 uses the same values in both directions with itself */
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    other.world.pe = 1;
    other.net.world = &other.world;
    other.net.peers = other.peers;
    memcpy(other.net.start.key, key, sizeof key);
    for (int pe = 0; pe < END_PES; pe++) {
        other.peers[pe].pe = pe;
        net_derive_session(&other.net, &other.peers[pe]);
    }
    assert_int_equal(net_derive_incoming_word(&other.net, 0), end.peers[1].outgoing.auth_word);
    assert_memory_equal(&other.peers[0].incoming, &end.peers[1].outgoing,
                        sizeof(struct net_session));
    assert_memory_equal(&other.peers[0].outgoing, &end.peers[1].incoming,
                        sizeof(struct net_session));
}

/* A message with the word of memory that nothing has touched, or with a wrong one, does not. */
static void a_peer_is_begun_by_its_own_message_alone(void **context)
{
    static fi_addr_t addresses[END_PES * END_RAILS];
    static uint8_t rails[END_PES * END_RAILS];
    struct net_peer was = end.peers[2];
    uint64_t dropped = end.net.unauthenticated;
    (void)context;
    begin_message(&end, 2, 1, 0);
    add_put(64, 77);
    message.head.handled = message.head.answers_received = 0;
    for (int pe = 0; pe < END_PES; pe++)
        end.peers[pe].begun = pe != 2;
    memset(&end.peers[2], 0, sizeof end.peers[2]);
    for (int i = 0; i < END_RAILS; i++)
        addresses[2 * END_RAILS + i] = end_address(2, i);
    end.net.start.addresses = addresses;
    end.net.start.rails = rails;
    const uint64_t words[] = {0, was.incoming.auth_word + 1, was.outgoing.auth_word};
    for (int i = 0; i < 3; i++) {
        message.head.auth_word = words[i];
        feed(&end);
        assert_false(end.peers[2].begun);
    }
    assert_int_equal(end.net.unauthenticated, dropped + 3);
    message.head.auth_word = was.incoming.auth_word;
    message.head.handled = was.outgoing.first_request;
    message.head.answers_received = was.outgoing.first_answer;
    feed(&end);
    assert_true(end.peers[2].begun);
    assert_int_equal(end.net.unauthenticated, dropped + 3);
    assert_int_equal(read_word_at(&end, 64), 77);
    assert_int_equal(end.peers[2].pe, 2);
    assert_int_equal(end.peers[2].rails.address[1], end_address(2, 1));
    assert_memory_equal(&end.peers[2].outgoing, &was.outgoing, sizeof was.outgoing);
    net_drop_unacknowledged(&end.net, &was);
    end.net.start.addresses = NULL;
}

static void lengths_are_those_that_came(void **context)
{
    (void)context;
    uint64_t before = read_word_at(&end, 64);
    begin_message(&end, 1, 1, 0);
    add_put(64, 77);
    for (size_t came = 0; came < message.head.bytes; came++) {
        end_feed(&end, &message, came);
        assert_int_equal(read_word_at(&end, 64), before);
        assert_int_equal(end.net.unauthenticated, came + 1);
    }
    uint64_t unauthenticated = end.net.unauthenticated;
    end_feed(&end, &message, message.head.bytes + 8); /* longer than its head says */
    assert_int_equal(end.net.unauthenticated, unauthenticated + 1);
    /* A record that is longer than the message is not executed, and no record after it is. */
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = NET_PUT, .segment = SEG_HEAP, .bytes = 4000, .offset = 0},
        &before, 8);
    add_put(64, 77);
    feed(&end);
    assert_int_equal(read_word_at(&end, 64), before);
    assert_int_equal(read_word_at(&end, 0), UINT64_C(0x322b241d160f0801));
    assert_int_equal(end.peers[1].served.handled, 1);
}

static void numbers_are_those_that_were_sent(void **context)
{
    (void)context;
    const uint64_t handled[] = {END_REQUESTS + 1, 1000, UINT64_MAX, INT64_MAX,
                                (uint64_t)-END_REQUESTS};
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        begin_message(&end, 1, 1, 0);
        message.head.handled += handled[i];
        feed(&end);
        begin_message(&end, 1, 1, 0);
        message.head.answers_received += handled[i];
        feed(&end);
        assert_int_equal(end.peers[1].requests.acknowledged, 0);
        assert_int_equal(end.peers[1].served.begun, 0);
        assert_int_equal(end.net.unauthenticated, 2 * i + 2);
    }
    begin_message(&end, 1, 1, 0);
    message.head.handled += END_REQUESTS;
    feed(&end);
    assert_int_equal(end.peers[1].requests.acknowledged, END_REQUESTS);
    assert_int_equal(end.peers[1].served.begun, 1);
}

static void early_messages_are_bounded(void **context)
{
    (void)context;
    int kept = 0;
    for (uint64_t number = 2; number < 400; number++) {
        begin_message(&end, 2, number, 0);
        add_put(8 * number, number);
        feed(&end);
    }
    for (uint64_t ahead = 1; ahead < 400; ahead++) {
        begin_message(&end, 2, NET_EARLY_MOST + ahead, 0);
        feed(&end);
    }
    for (struct net_message *early = end.peers[2].served.early_requests; early; early = early->next)
        kept++;
    assert_int_equal(kept, 398);
    assert_int_equal(end.net.unauthenticated, 399);
    begin_message(&end, 2, 1, 0);
    feed(&end);
    assert_null(end.peers[2].served.early_requests);
    assert_int_equal(end.peers[2].served.handled, 399);
    assert_int_equal(read_word_at(&end, 8 * 399), 399);
}

/* The answer to an atomic has the width that atomics support, not the width in the request (finding
 * A9). */
static void answers_of_atomics_hold_no_stack(void **context)
{
    (void)context;
    uint64_t before = read_word_at(&end, 64);
    const struct net_atomic atomic = {.value = 5, .token = 1234};
    for (int width = 0; width < 256; width++) {
        begin_message(&end, 1, (uint64_t)width + 1, NET_ACK_REQUEST);
        add((struct net_record){.kind = NET_ATOMIC,
                                .segment = SEG_HEAP,
                                .amo = WEFT_AMO_FETCH,
                                .width = (uint8_t)width,
                                .offset = 64},
            &atomic, sizeof atomic);
        feed(&end);
        bool good = width == 4 || width == 8;
        const struct net_record *record = (const void *)(sent + sizeof(struct net_head));
        const struct net_result *result = (const void *)(record + 1);
        assert_int_equal(record->kind, NET_DATA);
        assert_int_equal(record->bytes, good ? width : 0);
        assert_int_equal(result->status, good ? WEFT_OK : WEFT_ERR_ARGUMENT);
        assert_int_equal(result->token, 1234);
        assert_int_equal(sent_bytes, sizeof(struct net_head) + sizeof *record + sizeof *result +
                                         (good ? 8 : 0));
        if (good)
            assert_memory_equal(result + 1, &before, (size_t)width);
    }
}

/* Sends a get of `bytes` bytes at `offset` of the heap and returns the answer. */
static const struct net_result *got(uint64_t number, size_t offset, uint32_t bytes)
{
    const struct net_query wanted = {.token = 9, .bytes = bytes};
    begin_message(&end, 1, number, 0);
    add((struct net_record){.kind = NET_GET, .segment = SEG_HEAP, .offset = offset}, &wanted,
        sizeof wanted);
    feed(&end);
    const struct net_record *record = (const void *)(sent + sizeof(struct net_head));
    assert_int_equal(record->kind, NET_DATA);
    return (const void *)(record + 1);
}

/* A get beyond the segment or the size limit is an error, and no answer has bytes of an earlier
 * message. */
static void gets_are_bounded(void **context)
{
    (void)context;
    enum { LIMIT = 256 << 10, BYTES = 200 };
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) /* reused messages hold these bytes */
        assert_memory_equal(got(++number, 64, BYTES) + 1, end.heap + 64, BYTES);
    assert_int_equal(got(++number, END_HEAP_BYTES - BYTES, BYTES)->status, WEFT_OK);
    for (int i = 0; i < 8; i++) {
        for (struct net_message *used = end.net.sends.free; used; used = used->next)
            memset(used->bytes, 0xa5, sizeof used->bytes);
        const struct net_result *beyond = got(++number, END_HEAP_BYTES - BYTES + 1, BYTES);
        assert_int_equal(beyond->status, WEFT_ERR_ADDRESS);
        assert_int_equal(beyond->token, 9);
        for (int k = 0; k < BYTES; k++)
            assert_int_equal(((const unsigned char *)(beyond + 1))[k], 0);
    }
    assert_int_equal(sent_messages, number);
    const struct {
        uint32_t bytes;
        weft_status status;
        uint64_t token;
    } rows[] = {{LIMIT, WEFT_ERR_ADDRESS, 9},
                {LIMIT + 1, WEFT_ERR_ARGUMENT, 0},
                {UINT32_MAX, WEFT_ERR_ARGUMENT, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct net_result *result = got(++number, END_HEAP_BYTES - 8, rows[i].bytes);
        assert_int_equal(result->status, rows[i].status);
        assert_int_equal(result->token, rows[i].token);
        assert_int_equal(sent_messages, number);
    }
}

static unsigned char whole[END_HEAP_BYTES];
static size_t whole_bytes;

/* Appends an answer to `whole`; each answer must state the offset of its bytes. */
static void look_at_answer(struct net_end *end, const unsigned char *bytes, size_t count)
{
    const struct net_record *record = (const void *)(bytes + sizeof(struct net_head));
    const struct net_result *result = (const void *)(record + 1);
    look(end, bytes, count);
    assert_int_equal(record->kind, NET_DATA);
    assert_int_equal(result->token, 9);
    assert_int_equal(result->offset, whole_bytes);
    assert_in_range(whole_bytes + record->bytes, 1, sizeof whole);
    memcpy(whole + whole_bytes, result + 1, record->bytes);
    whole_bytes += record->bytes;
}

/* A get that takes several messages returns all its bytes in order, and no more. */
static void long_gets_come_in_order(void **context)
{
    (void)context;
    enum {
        MOST = NET_MESSAGE_BYTES - sizeof(struct net_head) - sizeof(struct net_record) -
               sizeof(struct net_result)
    };
    const uint32_t lengths[] = {MOST - 1, MOST, MOST + 1, 2 * MOST, END_HEAP_BYTES - 3};
    const uint64_t messages[] = {1, 1, 2, 2, 3};
    end.look = look_at_answer;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        sent_messages = whole_bytes = 0;
        assert_int_equal(got(i + 1, 3, lengths[i])->status, WEFT_OK);
        assert_int_equal(whole_bytes, lengths[i]);
        assert_memory_equal(whole, end.heap + 3, lengths[i]);
        assert_int_equal(sent_messages, messages[i]);
    }
}

/* Chunk numbers beyond the segment are rejected: 2^40 chunks of 16 MiB overflow to 0 bytes. */
static void chunks_that_are_not_there(void **context)
{
    (void)context;
    const struct net_query wanted = {.token = 9};
    const uint64_t chunks[] = {1, (uint64_t)1 << 40, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < 4; i++) {
        begin_message(&end, 1, i + 1, 0);
        add((struct net_record){.kind = NET_KEY, .segment = SEG_HEAP, .offset = chunks[i]}, &wanted,
            sizeof wanted);
        add((struct net_record){.kind = NET_RAIL_KEYS, .segment = SEG_HEAP, .offset = chunks[i]},
            &wanted, sizeof wanted);
        feed(&end);
    }
    assert_int_equal(end.key_count, 0);
}

static void keys_are_random(void **context)
{
    (void)context;
    const struct net_query wanted = {.token = 9};
    uint64_t all = 0;
    for (size_t bytes = 8; bytes >= 2; bytes -= 2) {
        end_shut(&end);
        end_open(&end, key, bytes);
        begin_message(&end, 1, 1, 0);
        add((struct net_record){.kind = NET_KEY, .segment = SEG_HEAP}, &wanted, sizeof wanted);
        add((struct net_record){.kind = NET_RAIL_KEYS, .segment = SEG_HEAP}, &wanted,
            sizeof wanted);
        feed(&end);
        assert_int_equal(end.key_count, END_RAILS);
        assert_int_not_equal(end.keys[0], end.keys[1]);
        for (int i = 0; i < END_RAILS && bytes < 8; i++)
            assert_int_equal(end.keys[i] >> 8 * bytes, 0);
        all |= bytes == 8 ? end.keys[0] | end.keys[1] : 0;
    }
    assert_true(all >> 48 && all & 0xffff);
}

/* An answer is accepted only from the queried peer, and only up to the length of the query. */
static void answers_come_from_the_queried_peer(void **context)
{
    (void)context;
    struct {
        struct net_result result;
        unsigned char data[END_ANSWER_BYTES + 8];
    } answer = {{.token = end.token}, {7, 7, 7}};
    const struct net_record record = {.kind = NET_DATA, .bytes = END_ANSWER_BYTES},
                            longer = {.kind = NET_DATA, .bytes = END_ANSWER_BYTES + 8};
    begin_message(&end, 2, 1, NET_ANSWERS);
    add(record, &answer, sizeof answer.result + END_ANSWER_BYTES);
    feed(&end);
    assert_int_equal(end.answer[0], 0);
    begin_message(&end, 1, 1, NET_ANSWERS);
    add(longer, &answer, sizeof answer);
    feed(&end);
    assert_int_equal(end.answer[0], 0);
    begin_message(&end, 1, 2, NET_ANSWERS);
    add(record, &answer, sizeof answer.result + END_ANSWER_BYTES);
    feed(&end);
    assert_int_equal(end.answer[2], 7);
}

/* A PE accepts control records about a NIC of the peer that the PE itself does not have. */
static void control_records_of_the_peers_rails(void **context)
{
    (void)context;
    const struct net_control closed = {.kind = NET_CLOSED_RAIL, .rail = 5},
                             ask = {.kind = NET_PEER_QUERY, .rail = 6},
                             own = {.kind = NET_CLOSE_RAIL, .rail = END_RAILS},
                             none = {.kind = NET_CLOSED_RAIL, .rail = NET_RAILS};
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = NET_CONTROL}, &closed, sizeof closed);
    add((struct net_record){.kind = NET_CONTROL}, &own, sizeof own);
    add((struct net_record){.kind = NET_CONTROL}, &none, sizeof none);
    add((struct net_record){.kind = NET_CONTROL}, &ask, sizeof ask);
    feed(&end);
    assert_int_equal(end.peers[1].rails.closed, 1 << 5);
    assert_int_equal(end.peers[1].rails.close_demanded, 0);
    const struct net_control *here =
        (const void *)(sent + sizeof(struct net_head) + sizeof(struct net_record));
    assert_int_equal(here->kind, NET_PEER_LIVE);
    assert_int_equal(here->rail, 6);
}

/* A failed receive is posted again, and the path goes on. */
static void failed_receives_are_posted_again(void **context)
{
    (void)context;
    for (int i = 0; i < 100; i++) {
        struct net_message *lost = end.posted[--end.posted_count];
        net_message_lost(&end.net, lost, FI_ETRUNC);
        assert_int_equal(end.posted_count, END_RECEIVES);
    }
    assert_int_equal(end.net.failed, WEFT_OK);
}

/* Unauthenticated messages are reported once, and again after 10 s. */
static void unauthenticated_messages_are_reported_now_and_then(void **context)
{
    (void)context;
    const uint64_t s = 1000 * 1000 * 1000, first = now;
    const struct {
        uint64_t later, reported;
    } rows[] = {{0, 0}, {1, 0}, {10 * s - 1, 0}, {10 * s, 10 * s}, {20 * s - 1, 10 * s}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        now = first + rows[i].later;
        begin_message(&end, 1, 1, 0);
        message.head.auth_word++;
        feed(&end);
        assert_int_equal(end.net.warned_ns, first + rows[i].reported);
    }
    assert_int_equal(end.net.unauthenticated, 5);
}

/* If libfabric reports source addresses, a message must have that of its sender. Some providers
 * report one for each message. */
static void senders_have_their_addresses(void **context)
{
    (void)context;
    const struct {
        fi_addr_t source;
        bool known, taken;
    } rows[] = {{FI_ADDR_NOTAVAIL, false, true},   {FI_ADDR_NOTAVAIL, true, false},
                {end_address(1, 0), false, true},  {end_address(1, 0), true, true},
                {end_address(1, 1), false, false}, {end_address(2, 0), false, false}};
    uint64_t taken = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        end.net.rails[0].traits.rejects_unknown = rows[i].known;
        begin_message(&end, 1, taken + 1, 0);
        struct net_message *buffer = end.posted[--end.posted_count];
        memcpy(buffer->bytes, &message, message.head.bytes);
        net_message_received(&end.net, buffer, message.head.bytes, rows[i].source);
        taken += rows[i].taken;
        assert_int_equal(end.peers[1].served.handled, taken);
        assert_int_equal(end.net.unauthenticated, i + 1 - taken);
        assert_int_equal(end.posted_count, END_RECEIVES);
    }
    /* PE 0 is this PE: it sends itself nothing, but its number is valid. END_PES is not. */
    begin_message(&end, 0, 1, 0);
    end.net.rails[0].traits.rejects_unknown = false;
    feed(&end);
    assert_int_equal(end.peers[0].served.handled, 1);
    begin_message(&end, END_PES, 1, 0);
    feed(&end);
    assert_int_equal(end.peers[END_PES].served.handled, 0);
}

static int free_count(void)
{
    int n = 0;
    for (struct net_message *m = end.net.sends.free; m; m = m->next)
        n++;
    return n;
}

/* A retransmitted message is executed once, and acknowledged again. */
static void what_comes_twice_is_carried_out_once(void **context)
{
    (void)context;
    const uint64_t one = 1;
    const struct net_atomic atomic = {.value = 1};
    uint64_t before = read_word_at(&end, 64);
    int left = free_count();
    const struct net_record add_one = {
        .kind = NET_ATOMIC, .segment = SEG_HEAP, .amo = WEFT_AMO_ADD, .width = 8, .offset = 64};
    const uint64_t numbers[] = {1, 1, 3, 3, 2, 2, 3, 1};
    const uint64_t sums[] = {1, 1, 1, 1, 3, 3, 3, 3};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        begin_message(&end, 1, numbers[i], NET_ACK_REQUEST);
        add(add_one, &atomic, sizeof atomic);
        sent_messages = 0;
        feed(&end);
        assert_int_equal(read_word_at(&end, 64), before + sums[i] * one);
        assert_int_equal(end.peers[1].served.handled, sums[i]);
        /* The early message is acknowledged when it is executed in order. */
        assert_int_equal(sent_messages, i != 2);
    }
    net_drop_unacknowledged(&end.net, &end.peers[1]);
    assert_int_equal(free_count(), left + END_REQUESTS);
}

static void answers_are_numbered_by_themselves(void **context)
{
    (void)context;
    int left = free_count();
    for (uint64_t number = 3; number > 0; number--) {
        begin_message(&end, 1, number, NET_ANSWERS);
        feed(&end);
        assert_int_equal(end.peers[1].link.answers_received, number == 1 ? 3 : 0);
        assert_int_equal(end.peers[1].served.begun, 0);
    }
    assert_int_equal(free_count(), left);
    assert_int_equal(end.net.unauthenticated, 0);
}

/* An acknowledgement frees the messages, and shows that the peer is live. */
static void what_has_arrived_goes_no_more(void **context)
{
    (void)context;
    int kept = 0;
    end.peers[1].link.silent_ns = 5;
    begin_message(&end, 1, 1, 0);
    message.head.handled += 2;
    feed(&end);
    assert_int_equal(end.peers[1].requests.acknowledged, 2);
    assert_int_equal(end.peers[1].link.silent_ns, 0);
    for (const struct net_message *m = end.peers[1].link.unacknowledged; m;
         m = m->next_unacknowledged)
        kept++;
    assert_int_equal(kept, END_REQUESTS - 2);
    begin_message(&end, 1, 2, 0);
    message.head.handled += 1; /* written earlier, received later */
    feed(&end);
    assert_int_equal(end.peers[1].requests.acknowledged, 2);
}

/* A probe has sequence number 0, is answered at once, and is not counted as handled. */
static void a_probe_has_no_sequence_number(void **context)
{
    (void)context;
    const struct net_control control = {.kind = NET_PROBE};
    begin_message(&end, 1, 0, 0);
    add((struct net_record){.kind = NET_CONTROL}, &control, sizeof control);
    feed(&end);
    assert_int_equal(sent_messages, 1);
    const struct net_control *answer =
        (const void *)(sent + sizeof(struct net_head) + sizeof(struct net_record));
    assert_int_equal(answer->kind, NET_PROBE_REPLY);
    assert_int_equal(end.peers[1].served.handled, 0);
    begin_message(&end, 1, 1, 0); /* a record with a sequence number is not a probe */
    add((struct net_record){.kind = NET_CONTROL}, &control, sizeof control);
    feed(&end);
    assert_int_equal(sent_messages, 1);
}

/* A message whose requests the GPU has still to execute is handled, in order, when the GPU has
 * executed them. */
static void messages_wait_for_the_gpu(void **context)
{
    (void)context;
    int left = free_count();
    assert_false(net_finish_incomplete(&end.net));
    gpu_works = true;
    complete = 0;
    for (uint64_t number = 1; number <= 3; number++) {
        begin_message(&end, 1 + (int)(number == 3), number == 3 ? 1 : number, NET_ACK_REQUEST);
        for (uint64_t i = 0; i < number; i++)
            add_put(64, number);
        feed(&end);
    }
    assert_int_equal(end.peers[1].served.begun, 2);
    assert_int_equal(end.peers[1].served.handled, 0);
    assert_int_equal(sent_messages, 0);
    assert_int_equal(end.net.incomplete->serve_count, 1);
    assert_int_equal(end.net.incomplete->next->serve_count, 3);
    assert_int_equal(end.net.incomplete->next->next->serve_count, 6);
    assert_null(end.net.incomplete->next->next->next);
    complete = 2;
    assert_true(net_finish_incomplete(&end.net));
    assert_int_equal(end.peers[1].served.handled, 1);
    assert_false(net_finish_incomplete(&end.net));
    complete = 3;
    assert_true(net_finish_incomplete(&end.net));
    assert_int_equal(end.peers[1].served.handled, 2);
    assert_int_equal(end.peers[2].served.handled, 0);
    complete = 6;
    assert_true(net_finish_incomplete(&end.net));
    assert_int_equal(end.peers[2].served.handled, 1);
    assert_null(end.net.incomplete);
    assert_ptr_equal(end.net.incomplete_end, &end.net.incomplete);
    net_send_answers(&end.net);
    assert_int_equal(sent_messages, 2);
    end_sends_complete(&end);
    for (int pe = 1; pe < END_PES; pe++)
        net_drop_unacknowledged(&end.net, &end.peers[pe]);
    assert_int_equal(free_count(), left + 2 * END_REQUESTS);
    begin_message(&end, 1, 3, 0);
    feed(&end); /* appended after the last message */
    assert_int_equal(end.peers[1].served.handled, 3);
}

static void the_gpu_fails(void **context)
{
    (void)context;
    gpu_works = true;
    complete = 0;
    for (uint64_t number = 1; number <= 2; number++) {
        begin_message(&end, 1, number, 0);
        add_put(64, number);
        feed(&end);
    }
    gpu_status = WEFT_ERR_SYSTEM;
    assert_true(net_finish_incomplete(&end.net));
    assert_null(end.net.incomplete);
    assert_int_equal(end.peers[1].served.handled, 2);
    net_send_answers(&end.net);
    const struct net_record *record = (const void *)(sent + sizeof(struct net_head));
    const struct net_result *result = (const void *)(record + 1);
    assert_int_equal(record->kind, NET_DATA);
    assert_int_equal(result->token, 0);
    assert_int_equal(result->status, WEFT_ERR_SYSTEM);
    assert_int_equal(record->bytes, strlen("the GPU is gone"));
    assert_memory_equal(result + 1, "the GPU is gone", record->bytes);
}

/* If no receive can be posted, the path has failed. */
static void receives_that_cannot_be_posted(void **context)
{
    (void)context;
    end.refuse_receives = true;
    net_message_lost(&end.net, end.posted[--end.posted_count], FI_ETRUNC);
    assert_int_equal(end.net.failed, WEFT_ERR_PATH);
    assert_string_equal(end.net.sentence, "path net cannot receive any more: fi_recv: an error "
                                          "(provider tcp on lo)");
}

static void receives_are_posted(void **context)
{
    (void)context;
    struct net_message *buffer = net_alloc_message(&end.net);
    buffer->post.kind = NET_POST_SEND;
    buffer->post.peer = &end.peers[1];
    end.posted_count--;
    assert_int_equal(net_post_receive(&end.net, 2, buffer), WEFT_OK);
    assert_int_equal(buffer->post.kind, NET_POST_RECEIVE);
    assert_null(buffer->post.peer);
    assert_int_equal(buffer->rail, 2);
}

/* Returns the first answer of the message sent last. */
static const struct net_result *answered(enum net_kind kind)
{
    const struct net_record *record = (const void *)(sent + sizeof(struct net_head));
    assert_int_equal(record->kind, kind);
    return (const void *)(record + 1);
}

/* A peer can use this PE's staging buffer up to its last byte, and nothing after it. */
static void staging_buffers_and_their_slots(void **context)
{
    (void)context;
    enum { BUFFER = 100000 };
    struct net_peer *peer = &end.peers[1];
    const struct net_query wanted = {.token = 77, .bytes = BUFFER};
    struct net_slot slot = {.offset = 16, .bytes = 24, .token = 88};
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = NET_SLOT_PUT, .segment = SEG_HEAP, .offset = 8}, &slot,
        sizeof slot);
    feed(&end); /* the peer has no buffer yet */
    assert_int_equal(answered(NET_DATA)->status, WEFT_ERR_ARGUMENT);
    begin_message(&end, 1, 2, 0);
    add((struct net_record){.kind = NET_STAGING_BUFFER}, &wanted, sizeof wanted);
    feed(&end);
    assert_int_equal(answered(NET_DATA)->token, 77);
    const struct net_key *keys = (const void *)(answered(NET_DATA) + 1);
    for (int i = 0; i < NET_RAILS; i++) {
        assert_int_equal(keys[i].known, i < END_RAILS);
        assert_int_equal(keys[i].base, 0);
    }
    assert_int_equal(keys[2].key, end.keys[2]);
    assert_int_equal(peer->served.staging_bytes, BUFFER);
    for (size_t i = 0; i < BUFFER; i++)
        peer->served.staging_buffer[i] = (unsigned char)(i * 3 + i / 256);
    const struct {
        uint64_t position;
        uint32_t bytes;
        bool good;
    } rows[] = {{16, 24, true},        {BUFFER - 24, 24, true}, {BUFFER - 23, 24, false},
                {BUFFER, 0, true},     {BUFFER + 1, 0, false},  {UINT64_MAX, 2, false},
                {0, BUFFER + 1, false}};
    uint64_t number = 2;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char before[24];
        memcpy(before, end.heap + 40, sizeof before);
        slot =
            (struct net_slot){.offset = rows[i].position, .bytes = rows[i].bytes, .token = 88 + i};
        sent_messages = 0;
        begin_message(&end, 1, ++number, 0);
        add((struct net_record){.kind = NET_SLOT_PUT, .segment = SEG_HEAP, .offset = 40}, &slot,
            sizeof slot);
        feed(&end);
        assert_int_equal(sent_messages, !rows[i].good);
        if (!rows[i].good)
            assert_int_equal(answered(NET_DATA)->status, WEFT_ERR_ARGUMENT);
        assert_memory_equal(end.heap + 40,
                            rows[i].good ? peer->served.staging_buffer + rows[i].position : before,
                            rows[i].bytes < 24 ? rows[i].bytes : 24);
        begin_message(&end, 1, ++number, 0);
        add((struct net_record){.kind = NET_SLOT_GET, .segment = SEG_HEAP, .offset = 200}, &slot,
            sizeof slot);
        feed(&end);
        assert_int_equal(answered(NET_SLOT_READY)->token, 88 + i);
        assert_int_equal(answered(NET_SLOT_READY)->status,
                         rows[i].good ? WEFT_OK : WEFT_ERR_ARGUMENT);
        if (rows[i].good)
            assert_memory_equal(peer->served.staging_buffer + rows[i].position, end.heap + 200,
                                rows[i].bytes);
    }
    slot = (struct net_slot){.bytes = 8, .token = 5};
    begin_message(&end, 1, ++number, 0);
    add((struct net_record){.kind = NET_SLOT_GET,
                            .segment = SEG_HEAP,
                            .offset = END_HEAP_BYTES - 7},
        &slot, sizeof slot);
    feed(&end);
    assert_int_equal(answered(NET_SLOT_READY)->status, WEFT_ERR_ADDRESS);
    /* The second query gets the same buffer. */
    const unsigned char *room = peer->served.staging_buffer;
    begin_message(&end, 1, ++number, 0);
    add((struct net_record){.kind = NET_STAGING_BUFFER}, &wanted, sizeof wanted);
    feed(&end);
    assert_ptr_equal(peer->served.staging_buffer, room);
}

static void records_of_an_unknown_kind(void **context)
{
    (void)context;
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = 99, .bytes = 8}, "12345678", 8);
    add_put(64, 77); /* the record after it is executed */
    feed(&end);
    const struct net_result *result = answered(NET_DATA);
    assert_int_equal(result->token, 0);
    assert_true(result->status < 0);
    assert_memory_equal(result + 1, "a message has a record of the unknown kind 99", 45);
    assert_int_equal(read_word_at(&end, 64), 77);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(drops_messages_without_the_auth_word),
        CASE(words_and_numbers_are_of_one_pair),
        CASE(a_peer_is_begun_by_its_own_message_alone),
        CASE(lengths_are_those_that_came),
        CASE(numbers_are_those_that_were_sent),
        CASE(early_messages_are_bounded),
        CASE(answers_of_atomics_hold_no_stack),
        CASE(gets_are_bounded),
        CASE(long_gets_come_in_order),
        CASE(chunks_that_are_not_there),
        CASE(keys_are_random),
        CASE(answers_come_from_the_queried_peer),
        CASE(control_records_of_the_peers_rails),
        CASE(failed_receives_are_posted_again),
        CASE(unauthenticated_messages_are_reported_now_and_then),
        CASE(senders_have_their_addresses),
        CASE(what_comes_twice_is_carried_out_once),
        CASE(answers_are_numbered_by_themselves),
        CASE(what_has_arrived_goes_no_more),
        CASE(a_probe_has_no_sequence_number),
        CASE(messages_wait_for_the_gpu),
        CASE(the_gpu_fails),
        CASE(receives_that_cannot_be_posted),
        CASE(receives_are_posted),
        CASE(staging_buffers_and_their_slots),
        CASE(records_of_an_unknown_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
