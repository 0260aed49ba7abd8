/* SPDX-License-Identifier: Apache-2.0 */
/* Encryption of path net's messages: what a receiver accepts from its peer, and that it accepts
 * nothing else, with the real libcrypto. Three PEs are threads of this process while they exchange
 * keys. X25519 and AES-256-GCM give the values of RFC 7748 and of NIST's test vectors. */
#include "path/net/encrypt.c" /* for the counters of a pair */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PES = 3, KEY_MESSAGES = 1 << NET_KEY_MESSAGES_LOG2, TEXT_BYTES = 200 };

static struct pe {
    struct boot boot;
    struct path_world world;
    struct path_common net;
    struct net_peer peers[PES];
    const char *secret; /* its WEFT_SECRET */
    weft_status status;
    char error[256];
} pes[PES];

/* A message and its envelope, as message.c allocates them. */
static struct buffer {
    struct net_message message;
    unsigned char envelope[NET_WIRE_BYTES];
} out, in;

static unsigned char sent[NET_WIRE_BYTES]; /* the envelope that was made last */
static size_t sent_bytes;

/* ------------------------------------------------------------------------------------- exchange */

static pthread_barrier_t all_pes;
static unsigned char gathered[PES][1024];
static _Thread_local const char *own_secret;
static void (*tamper)(unsigned char (*gathered)[1024], size_t bytes);

const char *__real_config_string(enum config_id id);
const char *__wrap_config_string(enum config_id id);
const char *__wrap_config_string(enum config_id id)
{
    return id == CONFIG_SECRET && own_secret ? own_secret : __real_config_string(id);
}

static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    if (bytes > sizeof gathered[0])
        abort();
    memcpy(gathered[boot->pe], mine, bytes);
    if (pthread_barrier_wait(&all_pes) == PTHREAD_BARRIER_SERIAL_THREAD && tamper)
        tamper(gathered, bytes);
    pthread_barrier_wait(&all_pes);
    for (int pe = 0; pe < PES; pe++)
        memcpy((char *)all + (size_t)pe * bytes, gathered[pe], bytes);
    pthread_barrier_wait(&all_pes);
    return WEFT_OK;
}

static struct boot_ops boot_ops = {.name = "weft run", .allgather = gather};

static void *exchange_keys(void *argument)
{
    struct pe *one = argument;
    own_secret = one->secret;
    one->status = net_begin_encryption(&one->net);
    one->status = net_exchange_keys(&one->net, one->status);
    snprintf(one->error, sizeof one->error, "%s", base_last_error());
    return NULL;
}

static void exchange(const char *first, const char *second, const char *third)
{
    pthread_t threads[PES];
    const char *const secrets[PES] = {first, second, third};
    pthread_barrier_init(&all_pes, NULL, PES);
    for (int pe = 0; pe < PES; pe++) {
        struct pe *one = &pes[pe];
        *one = (struct pe){.boot = {.ops = &boot_ops, .pe = pe, .npes = PES},
                           .world = {.boot = &one->boot, .pe = pe, .npes = PES},
                           .net = {.world = &one->world, .peers = one->peers},
                           .secret = secrets[pe]};
        for (int peer = 0; peer < PES; peer++)
            one->peers[peer].pe = peer;
        assert_int_equal(pthread_create(&threads[pe], NULL, exchange_keys, one), 0);
    }
    for (int pe = 0; pe < PES; pe++)
        pthread_join(threads[pe], NULL);
    pthread_barrier_destroy(&all_pes);
}

static void end_all(void)
{
    for (int pe = 0; pe < PES; pe++)
        net_end_encryption(&pes[pe].net);
}

/* ------------------------------------------------------------------------------------- messages */

static void fill_message(int from, int to, unsigned char letter)
{
    memset(&out, 0, sizeof out);
    out.message.envelope = (struct net_envelope *)(void *)out.envelope;
    out.message.post.peer = &pes[from].peers[to];
    *net_message_head(&out.message) =
        (struct net_head){.auth_word = 0x1122334455667788,
                          .from = from,
                          .bytes = sizeof(struct net_head) + TEXT_BYTES};
    memset(out.message.bytes + sizeof(struct net_head), letter, TEXT_BYTES);
}

/* Encrypts a new message of one letter repeated, and returns its counter. */
static uint64_t encrypt(int from, int to, unsigned char letter)
{
    fill_message(from, to, letter);
    sent_bytes = net_encrypt_message(&pes[from].net, &out.message);
    assert_int_equal(sent_bytes, sizeof(struct net_head) + TEXT_BYTES + NET_ENVELOPE_BYTES);
    memcpy(sent, out.envelope, sent_bytes);
    return out.message.envelope->counter;
}

/* Returns the letter of the message that the PE decrypts; 0 if it drops it. */
static int decrypt(int at, const void *envelope, size_t bytes)
{
    memset(&in, 0, sizeof in);
    in.message.envelope = (struct net_envelope *)(void *)in.envelope;
    memcpy(in.envelope, envelope, bytes);
    size_t plain = net_decrypt_message(&pes[at].net, &in.message, bytes);
    if (!plain)
        return 0;
    assert_int_equal(plain, bytes - NET_ENVELOPE_BYTES);
    unsigned char letter = in.message.bytes[sizeof(struct net_head)];
    for (size_t i = 0; i < plain - sizeof(struct net_head); i++)
        assert_int_equal(in.message.bytes[sizeof(struct net_head) + i], letter);
    return letter;
}

static int begin(void **context)
{
    (void)context;
    exchange("", "", "");
    for (int pe = 0; pe < PES; pe++)
        assert_int_equal(pes[pe].status, WEFT_OK);
    return 0;
}

static int end(void **context)
{
    (void)context;
    end_all();
    return 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static void a_message_arrives_and_cannot_be_read(void **context)
{
    (void)context;
    for (int from = 0; from < PES; from++)
        for (int to = 0; to < PES; to++) {
            if (from == to)
                continue;
            for (uint64_t i = 1; i < 5; i++) {
                uint64_t word = 0x1122334455667788;
                assert_int_equal(encrypt(from, to, 'a'), i);
                assert_null(memmem(sent, sent_bytes, "aaa", 3));
                assert_null(memmem(sent, sent_bytes, &word, 4));
                assert_int_equal(decrypt(to, sent, sent_bytes), 'a');
            }
        }
}

/* Each bit of the envelope, of the encrypted bytes and of the tag. */
static void a_changed_bit_is_noticed(void **context)
{
    (void)context;
    encrypt(0, 1, 'a');
    for (size_t bit = 0; bit < 8 * sent_bytes; bit++) {
        sent[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(decrypt(1, sent, sent_bytes), 0);
        sent[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_int_equal(decrypt(1, sent, sent_bytes), 'a'); /* The copies have changed nothing. */
}

static void another_length_is_noticed(void **context)
{
    (void)context;
    encrypt(0, 1, 'a');
    unsigned char longer[NET_WIRE_BYTES] = {0};
    memcpy(longer, sent, sent_bytes);
    for (size_t bytes = 0; bytes < sent_bytes; bytes++)
        assert_int_equal(decrypt(1, sent, bytes), 0);
    for (size_t bytes = sent_bytes + 1; bytes <= sizeof longer; bytes += 97)
        assert_int_equal(decrypt(1, longer, bytes), 0);
    assert_int_equal(decrypt(1, longer, sizeof longer), 0);
    assert_int_equal(decrypt(1, sent, sent_bytes), 'a');
}

static void a_repeated_message_is_dropped(void **context)
{
    enum { SOME = 20 };
    unsigned char envelopes[SOME][NET_WIRE_BYTES];
    (void)context;
    for (int i = 0; i < SOME; i++) {
        encrypt(0, 1, (unsigned char)('a' + i));
        memcpy(envelopes[i], sent, sent_bytes);
    }
    /* in any order, and each once */
    for (int i = SOME - 1; i >= 0; i -= 2)
        assert_int_equal(decrypt(1, envelopes[i], sent_bytes), 'a' + i);
    for (int i = 0; i < SOME; i += 2)
        assert_int_equal(decrypt(1, envelopes[i], sent_bytes), 'a' + i);
    for (int i = 0; i < SOME; i++)
        assert_int_equal(decrypt(1, envelopes[i], sent_bytes), 0);
}

/* A message that NET_EARLY_MOST or more later ones have overtaken is dropped, and the window
 * forgets the counters that it leaves. */
static void the_window_has_an_end(void **context)
{
    enum { OLD = 5 };
    unsigned char old[OLD][NET_WIRE_BYTES], first[NET_WIRE_BYTES], second[NET_WIRE_BYTES];
    (void)context;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OLD; i++) {
            encrypt(0, 1, 'x');
            memcpy(old[i], sent, sizeof old[i]);
        }
        encrypt(0, 1, 'y');
        memcpy(second, sent, sizeof second);
        for (int i = 0; i < NET_EARLY_MOST - 1; i++) {
            encrypt(0, 1, 'a');
            if (i % 3 == round || i == NET_EARLY_MOST - 2)
                assert_int_equal(decrypt(1, sent, sent_bytes), 'a');
        }
        for (int i = 0; i < OLD; i++)
            assert_int_equal(decrypt(1, old[i], sent_bytes), 0);
        assert_int_equal(decrypt(1, second, sent_bytes), 'y');
        assert_int_equal(decrypt(1, second, sent_bytes), 0);
    }
    for (int i = 0; i < 2 * NET_EARLY_MOST; i++) {
        encrypt(0, 1, 'b');
        memcpy(first, second, sizeof first);
        memcpy(second, sent, sizeof second);
    }
    assert_int_equal(decrypt(1, second, sent_bytes), 'b');
    assert_int_equal(decrypt(1, first, sent_bytes), 'b');
    assert_int_equal(decrypt(1, second, sent_bytes), 0);
    assert_int_equal(decrypt(1, first, sent_bytes), 0);
}

/* A message for another PE, back to its sender, in the name of another PE, and of another job. */
static void a_message_is_for_one_pe_of_one_job(void **context)
{
    struct net_envelope *envelope = (struct net_envelope *)(void *)sent;
    (void)context;
    encrypt(0, 1, 'a');
    assert_int_equal(decrypt(2, sent, sent_bytes), 0);
    assert_int_equal(decrypt(0, sent, sent_bytes), 0);
    for (int from = -1; from <= PES; from++) {
        envelope->from = from;
        for (int to = 0; to < PES; to++)
            if (from != 0 || to != 1)
                assert_int_equal(decrypt(to, sent, sent_bytes), 0);
    }
    envelope->from = 0;
    end_all();
    exchange("", "", "");
    assert_int_equal(decrypt(1, sent, sent_bytes), 0);
}

/* Not even from a PE with the right key. */
static void a_message_has_a_head(void **context)
{
    (void)context;
    for (size_t bytes = 1; bytes < sizeof(struct net_head); bytes++) {
        fill_message(0, 1, 'a');
        net_message_head(&out.message)->bytes = (uint16_t)bytes;
        sent_bytes = net_encrypt_message(&pes[0].net, &out.message);
        assert_int_equal(sent_bytes, bytes + NET_ENVELOPE_BYTES);
        assert_int_equal(decrypt(1, out.envelope, sent_bytes), 0);
    }
}

static void a_pe_speaks_in_its_own_name(void **context)
{
    (void)context;
    fill_message(0, 1, 'a');
    net_message_head(&out.message)->from = 2;
    sent_bytes = net_encrypt_message(&pes[0].net, &out.message);
    assert_int_equal(decrypt(1, out.envelope, sent_bytes), 0);
}

/* XOR of two encrypted messages is that of their contents where key and nonce are the same. */
static bool shares_key_and_nonce(const unsigned char *a, const unsigned char *b)
{
    size_t at = sizeof(struct net_envelope) + sizeof(struct net_head);
    for (size_t i = at; i < at + TEXT_BYTES; i++)
        if ((a[i] ^ b[i]) != ('a' ^ 'b'))
            return false;
    return true;
}

static void no_two_messages_share_key_and_nonce(void **context)
{
    unsigned char first[NET_WIRE_BYTES];
    (void)context;
    uint64_t counter = encrypt(0, 1, 'a');
    memcpy(first, sent, sizeof first);
    for (int from = 0; from < PES; from++)
        for (int to = 0; to < PES; to++)
            if (from != to && (from || to != 1)) {
                assert_int_equal(encrypt(from, to, 'b'), counter);
                assert_false(shares_key_and_nonce(first, sent));
            }
    encrypt(0, 1, 'b');
    assert_false(shares_key_and_nonce(first, sent));
}

static ssize_t send_result;
static ssize_t take_message(struct fid_ep *endpoint, const void *bytes, size_t count,
                            void *descriptor, fi_addr_t to, void *context)
{
    (void)endpoint, (void)descriptor, (void)to, (void)context;
    memcpy(sent, bytes, count);
    sent_bytes = count;
    return send_result;
}

/* While the provider returns FI_EAGAIN, the envelope stays; then the message is a new one. */
static void a_retransmission_is_a_new_message(void **context)
{
    static struct fi_ops_msg messages = {.size = sizeof messages, .send = take_message};
    static const ssize_t results[] = {-FI_EAGAIN, -FI_EAGAIN, 0, 0, -FI_EIO, 0};
    static const uint64_t counters[] = {1, 1, 1, 2, 3, 4};
    unsigned char first[NET_WIRE_BYTES];
    void *descriptors[NET_RAILS] = {NULL};
    struct fid_ep endpoint = {.msg = &messages};
    (void)context;
    pes[0].net.rails[0].endpoint = &endpoint;
    fill_message(0, 1, 'a');
    out.message.descriptors = descriptors;
    for (int i = 0; i < 6; i++) {
        send_result = results[i];
        net_message_head(&out.message)->handled++; /* as net_write_sequences() does */
        assert_int_equal(net_post_send(&pes[0].net, &out.message, 0), results[i]);
        assert_int_equal(out.message.envelope->counter, counters[i]);
        if (i == 0)
            memcpy(first, sent, sizeof first);
        assert_int_equal(memcmp(sent, first, sent_bytes) == 0, counters[i] == 1);
        if (!results[i])
            assert_int_equal(decrypt(1, sent, sent_bytes), 'a');
    }
}

/* Messages on both sides of a change of the key arrive in any order. */
static void keys_are_renewed(void **context)
{
    enum { AROUND = 4 };
    unsigned char envelopes[2 * AROUND][NET_WIRE_BYTES];
    struct net_envelope *envelope = (struct net_envelope *)(void *)envelopes[AROUND];
    (void)context;
    for (uint64_t key = 1; key <= 3; key++) {
        pes[0].net.encryption->pairs[1]->sent = key * KEY_MESSAGES - AROUND - 2;
        encrypt(0, 1, 'a');
        assert_int_equal(decrypt(1, sent, sent_bytes), 'a');
        for (int i = 0; i < 2 * AROUND; i++) {
            encrypt(0, 1, (unsigned char)('b' + i));
            memcpy(envelopes[i], sent, sent_bytes);
        }
        assert_int_equal(envelope->counter, key * KEY_MESSAGES);
        envelopes[AROUND][sent_bytes - 1] ^= 1; /* does not renew the key */
        assert_int_equal(decrypt(1, envelopes[AROUND], sent_bytes), 0);
        envelopes[AROUND][sent_bytes - 1] ^= 1;
        for (int i = 2 * AROUND - 1; i >= 0; i--)
            assert_int_equal(decrypt(1, envelopes[i], sent_bytes), 'b' + i);
        for (int i = 0; i < 2 * AROUND; i++)
            assert_int_equal(decrypt(1, envelopes[i], sent_bytes), 0);
    }
    /* the key after the next one */
    envelope->counter = 5 * KEY_MESSAGES;
    assert_int_equal(decrypt(1, envelopes[AROUND], sent_bytes), 0);
}

static void a_wrong_secret_is_reported_at_every_pe(void **context)
{
    (void)context;
    for (int other = 0; other < PES; other++) {
        end_all();
        exchange(other == 0 ? "other" : "common", other == 1 ? "other" : "common",
                 other == 2 ? "other" : "common");
        for (int pe = 0; pe < PES; pe++) {
            assert_int_equal(pes[pe].status, WEFT_ERR_CONFIG);
            assert_non_null(strstr(pes[pe].error, "for encryption differ: set WEFT_SECRET to the "
                                                  "same text for every PE"));
        }
    }
    end_all();
    exchange("common", "common", "common");
    for (int pe = 0; pe < PES; pe++)
        assert_int_equal(pes[pe].status, WEFT_OK);
    encrypt(0, 1, 'a');
    assert_int_equal(decrypt(1, sent, sent_bytes), 'a');
}

/* An attacker between the PEs replaces a public key by another, or by one of low order. */
static int replacement;
static void replace_key(unsigned char (*keys)[1024], size_t bytes)
{
    if (bytes != CIPHER_POINT_BYTES) /* an agreement */
        return;
    memset(keys[1], replacement, bytes);
    tamper = NULL;
}

static void a_replaced_key_is_reported_at_every_pe(void **context)
{
    (void)context;
    end_all();
    tamper = replace_key;
    replacement = 9;
    exchange("", "", "");
    assert_null(tamper);
    for (int pe = 0; pe < PES; pe++)
        assert_int_equal(pes[pe].status, WEFT_ERR_CONFIG);
    end_all();
    tamper = replace_key;
    replacement = 0;
    exchange("", "", "");
    assert_null(tamper);
    for (int pe = 0; pe < PES; pe++) {
        assert_int_equal(pes[pe].status, WEFT_ERR_SYSTEM);
        assert_non_null(strstr(pes[pe].error, "libcrypto could not derive a key"));
    }
}

static void pmix_needs_a_secret(void **context)
{
    struct boot boot = {.ops = &(struct boot_ops){.name = "pmix"}};
    struct path_world world = {.boot = &boot};
    (void)context;
    setenv("WEFT_FABRIC_PROVIDER", "tcp+encrypted", 1);
    config_reset();
    assert_true(net_is_encryption_wanted());
    own_secret = "";
    assert_int_equal(net_check_encryption(&world), WEFT_ERR_CONFIG);
    assert_string_equal(base_last_error(),
                        "WEFT_FABRIC_PROVIDER is \"tcp+encrypted\", but PMIx does not authenticate "
                        "the keys that PEs exchange: set WEFT_SECRET to the same text for every "
                        "PE");
    own_secret = "a secret";
    assert_int_equal(net_check_encryption(&world), WEFT_OK);
    own_secret = NULL;
    boot.ops = &boot_ops;
    assert_int_equal(net_check_encryption(&world), WEFT_OK);
    setenv("WEFT_FABRIC_PROVIDER", "tcp", 1);
    config_reset();
    assert_false(net_is_encryption_wanted());
    unsetenv("WEFT_FABRIC_PROVIDER");
    config_reset();
}

static void memory_is_not_exposed(void **context)
{
    static const uint64_t access[] = {FI_REMOTE_READ, FI_REMOTE_WRITE, FI_REMOTE_READ | FI_SEND};
    struct fid_ep endpoint = {.fid = {0}};
    struct net_rail rail = {.endpoint = &endpoint, .traits = {.messages_only = true}};
    struct fid_mr *memory;
    (void)context;
    for (int i = 0; i < 3; i++)
        assert_int_equal(net_register_memory(&rail, sent, sizeof sent, access[i], &memory),
                         -FI_EOPNOTSUPP);
}

/* ----------------------------------------------------------------------------------- test vectors
 */

static void parse_hex(const char *text, uint8_t *bytes)
{
    for (size_t i = 0; text[2 * i]; i++)
        sscanf(text + 2 * i, "%2hhx", &bytes[i]);
}

/* RFC 7748, section 6.1 */
static void x25519_gives_the_values_of_its_rfc(void **context)
{
    static const char *const texts[] = {
        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
        "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"};
    uint8_t keys[5][CIPHER_POINT_BYTES], made[CIPHER_POINT_BYTES];
    (void)context;
    for (int i = 0; i < 5; i++)
        parse_hex(texts[i], keys[i]);
    for (int i = 0; i < 2; i++) {
        assert_true(cipher_public_key(keys[i], made));
        assert_memory_equal(made, keys[2 + i], sizeof made);
        assert_true(cipher_shared_secret(keys[i], keys[3 - i], made));
        assert_memory_equal(made, keys[4], sizeof made);
    }
}

/* Test case 14 of McGrew and Viega, which NIST's collection contains. */
static void aes_256_gcm_gives_the_values_of_its_authors(void **context)
{
    static const uint8_t zeros[CIPHER_KEY_BYTES];
    uint8_t expected[16], expected_tag[16], made[16], tag[16], back[16];
    struct cipher *cipher = cipher_open(zeros, true), *reader = cipher_open(zeros, false);
    (void)context;
    parse_hex("cea7403d4d606b6e074ec5d3baf39d18", expected);
    parse_hex("d0d1c8a799996bf0265b98b5d48ab919", expected_tag);
    assert_true(cipher && reader);
    for (int i = 0; i < 2; i++) { /* A context serves more than once. */
        assert_true(cipher_encrypt(cipher, zeros, zeros, 0, zeros, sizeof made, made, tag));
        assert_memory_equal(made, expected, sizeof made);
        assert_memory_equal(tag, expected_tag, sizeof tag);
        assert_true(cipher_decrypt(reader, zeros, zeros, 0, made, sizeof made, back, tag));
        assert_memory_equal(back, zeros, sizeof back);
        tag[0] ^= 1;
        assert_false(cipher_decrypt(reader, zeros, zeros, 0, made, sizeof made, back, tag));
    }
    cipher_close(cipher);
    cipher_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(x25519_gives_the_values_of_its_rfc),
        cmocka_unit_test(aes_256_gcm_gives_the_values_of_its_authors),
        cmocka_unit_test_setup_teardown(a_message_arrives_and_cannot_be_read, begin, end),
        cmocka_unit_test_setup_teardown(a_changed_bit_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(another_length_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(a_repeated_message_is_dropped, begin, end),
        cmocka_unit_test_setup_teardown(the_window_has_an_end, begin, end),
        cmocka_unit_test_setup_teardown(a_message_is_for_one_pe_of_one_job, begin, end),
        cmocka_unit_test_setup_teardown(a_message_has_a_head, begin, end),
        cmocka_unit_test_setup_teardown(a_pe_speaks_in_its_own_name, begin, end),
        cmocka_unit_test_setup_teardown(no_two_messages_share_key_and_nonce, begin, end),
        cmocka_unit_test_setup_teardown(a_retransmission_is_a_new_message, begin, end),
        cmocka_unit_test_setup_teardown(keys_are_renewed, begin, end),
        cmocka_unit_test_setup_teardown(a_wrong_secret_is_reported_at_every_pe, begin, end),
        cmocka_unit_test_setup_teardown(a_replaced_key_is_reported_at_every_pe, begin, end),
        cmocka_unit_test(pmix_needs_a_secret),
        cmocka_unit_test(memory_is_not_exposed),
    };
    if (cipher_load()) {
        printf("skipped: %s\n", base_last_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
