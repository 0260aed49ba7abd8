/* SPDX-License-Identifier: Apache-2.0 */
/* What path net takes for a message of a PE of the job, and how far it believes one (findings A1
 * and A9). What a stranger cannot know, the word and the numbers, is right in most of these. */
#include "unit/net_end.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint8_t key[SIPHASH_KEY_BYTES] = {3, 1, 4, 1, 5, 9, 2, 6};

static struct message {
    struct net_head head;
    unsigned char records[NET_MESSAGE_BYTES - sizeof(struct net_head)];
} message;

static unsigned char sent[NET_MESSAGE_BYTES]; /* what has been sent last */
static size_t sent_bytes;
static uint64_t sent_messages;

static void look(struct net_end *end, const unsigned char *bytes, size_t count)
{
    (void)end;
    memcpy(sent, bytes, count);
    sent_bytes = count;
    sent_messages++;
}

/* As PE `from` would write it. */
static void begin_message(const struct net_end *end, int from, uint64_t number, uint16_t flags)
{
    const struct net_peer *peer = &end->peers[from];
    memset(&message, 0, sizeof message);
    message.head = (struct net_head){
        .word = peer->takes.word,
        .number = number + (flags & NET_ANSWERS ? peer->takes.answers : peer->takes.requests),
        .handled = peer->sends.requests,
        .answered = peer->sends.answers,
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

static uint64_t word_at(const struct net_end *end, size_t offset)
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

static int open_end(void **context)
{
    (void)context;
    end_open(&end, key, 8);
    end.look = look;
    sent_messages = 0;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    end_shut(&end);
    return 0;
}

static void drops_what_has_no_word(void **context)
{
    (void)context;
    uint64_t before = word_at(&end, 64);
    const uint64_t words[] = {0,
                              1,
                              end.peers[1].sends.word,
                              end.peers[2].takes.word,
                              end.peers[1].takes.word ^ 1,
                              end.peers[1].takes.word ^ (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        begin_message(&end, 1, 1, NET_TELL);
        add_put(64, 77);
        message.head.word = words[i];
        feed(&end);
        assert_int_equal(word_at(&end, 64), before);
        assert_int_equal(end.net.strangers, i + 1);
    }
    for (int from = -1; from <= END_PES; from += END_PES + 1) {
        begin_message(&end, 1, 1, 0);
        message.head.from = from;
        feed(&end);
    }
    assert_int_equal(end.net.strangers, 8);
    assert_int_equal(sent_messages, 0);
    begin_message(&end, 1, 1, NET_TELL);
    add_put(64, 77);
    feed(&end);
    assert_int_equal(word_at(&end, 64), 77);
    assert_int_equal(end.net.strangers, 8);
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
        const uint64_t six[] = {peer->takes.word,     peer->sends.word,    peer->takes.requests,
                                peer->sends.requests, peer->takes.answers, peer->sends.answers};
        for (int i = 0; i < 6; i++)
            seen[count++] = six[i];
    }
    for (int i = 6; i < count; i++) /* those of PE 0 with itself are the same both ways */
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    other.world.pe = 1;
    other.net.world = &other.world;
    other.net.peers = other.peers;
    net_derive_lines(&other.net, key);
    assert_memory_equal(&other.peers[0].takes, &end.peers[1].sends, sizeof(struct net_line));
    assert_memory_equal(&other.peers[0].sends, &end.peers[1].takes, sizeof(struct net_line));
}

static void lengths_are_those_that_came(void **context)
{
    (void)context;
    uint64_t before = word_at(&end, 64);
    begin_message(&end, 1, 1, 0);
    add_put(64, 77);
    for (size_t came = 0; came < message.head.bytes; came++) {
        end_feed(&end, &message, came);
        assert_int_equal(word_at(&end, 64), before);
        assert_int_equal(end.net.strangers, came + 1);
    }
    uint64_t strangers = end.net.strangers;
    end_feed(&end, &message, message.head.bytes + 8); /* longer than it says */
    assert_int_equal(end.net.strangers, strangers + 1);
    /* A record that is longer than the message is not carried out, nor what is behind it. */
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = NET_PUT, .segment = SEG_HEAP, .bytes = 4000, .offset = 0},
        &before, 8);
    add_put(64, 77);
    feed(&end);
    assert_int_equal(word_at(&end, 64), before);
    assert_int_equal(word_at(&end, 0), UINT64_C(0x322b241d160f0801));
    assert_int_equal(end.peers[1].handled, 1);
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
        message.head.answered += handled[i];
        feed(&end);
        assert_int_equal(end.peers[1].done, 0);
        assert_int_equal(end.peers[1].begun, 0);
        assert_int_equal(end.net.strangers, 2 * i + 2);
    }
    begin_message(&end, 1, 1, 0);
    message.head.handled += END_REQUESTS;
    feed(&end);
    assert_int_equal(end.peers[1].done, END_REQUESTS);
    assert_int_equal(end.peers[1].begun, 1);
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
    for (struct net_message *early = end.peers[2].early; early; early = early->next)
        kept++;
    assert_int_equal(kept, 398);
    assert_int_equal(end.net.strangers, 399);
    begin_message(&end, 2, 1, 0);
    feed(&end);
    assert_null(end.peers[2].early);
    assert_int_equal(end.peers[2].handled, 399);
    assert_int_equal(word_at(&end, 8 * 399), 399);
}

/* Finding A9: as many bytes went back as the request said. */
static void answers_of_atomics_hold_no_stack(void **context)
{
    (void)context;
    uint64_t before = word_at(&end, 64);
    const struct net_atomic atomic = {.value = 5, .token = 1234};
    for (int width = 0; width < 256; width++) {
        begin_message(&end, 1, (uint64_t)width + 1, NET_TELL);
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

static void gets_are_bounded(void **context)
{
    (void)context;
    const struct net_wanted much = {.token = 9, .bytes = UINT32_MAX},
                            beyond = {.token = 9, .bytes = END_HEAP_BYTES + 1};
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = NET_GET, .segment = SEG_HEAP}, &much, sizeof much);
    feed(&end);
    assert_int_equal(sent_messages, 1);
    begin_message(&end, 1, 2, 0);
    add((struct net_record){.kind = NET_GET, .segment = SEG_HEAP}, &beyond, sizeof beyond);
    feed(&end);
    assert_int_equal(sent_messages, 2);
    const struct net_record *record = (const void *)(sent + sizeof(struct net_head));
    const struct net_result *result = (const void *)(record + 1);
    assert_int_equal(result->status, WEFT_ERR_ADDRESS);
    for (uint32_t i = 0; i < record->bytes; i++) /* nothing of an earlier message */
        assert_int_equal(((const unsigned char *)(result + 1))[i], 0);
}

/* Chunks that are not there: 2^40 chunks of 16 MiB come to 0 bytes again. */
static void chunks_that_are_not_there(void **context)
{
    (void)context;
    const struct net_wanted wanted = {.token = 9};
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
    const struct net_wanted wanted = {.token = 9};
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

/* Only the peer that was asked can answer, and only in what was asked for. */
static void answers_are_of_the_one_asked(void **context)
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

/* A PE with fewer NICs than its peer is told of one whose number it has not. */
static void notes_of_the_peers_rails(void **context)
{
    (void)context;
    const struct net_note closed = {.kind = NET_CLOSED_RAIL, .rail = 5},
                          ask = {.kind = NET_ASK, .rail = 6},
                          own = {.kind = NET_CLOSE_RAIL, .rail = END_RAILS},
                          none = {.kind = NET_CLOSED_RAIL, .rail = NET_RAILS};
    begin_message(&end, 1, 1, 0);
    add((struct net_record){.kind = NET_NOTE}, &closed, sizeof closed);
    add((struct net_record){.kind = NET_NOTE}, &own, sizeof own);
    add((struct net_record){.kind = NET_NOTE}, &none, sizeof none);
    add((struct net_record){.kind = NET_NOTE}, &ask, sizeof ask);
    feed(&end);
    assert_int_equal(end.peers[1].closed, 1 << 5);
    assert_int_equal(end.peers[1].wants_closed, 0);
    const struct net_note *here =
        (const void *)(sent + sizeof(struct net_head) + sizeof(struct net_record));
    assert_int_equal(here->kind, NET_HERE);
    assert_int_equal(here->rail, 6);
}

/* A receive that fails ends nothing. */
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

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_end, shut_end)
    const struct CMUnitTest tests[] = {
        CASE(drops_what_has_no_word),
        CASE(words_and_numbers_are_of_one_pair),
        CASE(lengths_are_those_that_came),
        CASE(numbers_are_those_that_were_sent),
        CASE(early_messages_are_bounded),
        CASE(answers_of_atomics_hold_no_stack),
        CASE(gets_are_bounded),
        CASE(chunks_that_are_not_there),
        CASE(keys_are_random),
        CASE(answers_are_of_the_one_asked),
        CASE(notes_of_the_peers_rails),
        CASE(failed_receives_are_posted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
