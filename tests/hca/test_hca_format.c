/* SPDX-License-Identifier: Apache-2.0 */
/* Packets as datagrams of RoCE v2: the bytes of each kind, what is read of them again, and which lengths and opcodes
 * are none, all as golden/hca_format.txt has it. */
#include "roce_format.h"
#include "trace.h"
#include "wqe.h"

static const struct roce_route route = {0x0a010203, 0x0a040506, 0xc123, ROCE_PORT};

static void say_packet(const uint8_t *bytes, size_t n, uint32_t mtu)
{
    struct packet p;
    const uint8_t *payload;
    uint64_t scratch[4] = {0};
    bool good = roce_decode(bytes, n, mtu, &p, &payload, scratch);
    say("  %s kind %u flags %x bytes %u mtu %u qpn %x psn %x length %u rkey %x immediate %x messages %x address %llx",
        good ? "read" : "refused", p.kind, p.flags, p.bytes, p.mtu, p.to_qpn, p.psn, p.length,
        p.rkey, p.immediate, p.messages, (unsigned long long)p.address);
    for (uint32_t i = 0; good && i < p.bytes && i < 32; i++)
        say("%s%02x", i ? "" : " ", payload[i]);
    say("\n");
}

static void one(struct packet p, const void *payload)
{
    uint8_t out[ROCE_MOST + 8];
    uint32_t qpn = 0;
    memset(out, 0xee, sizeof out);
    p.to_qpn = 0x123456;
    p.address = 0x1122334455667788;
    p.rkey = 0x99aabbcc;
    p.psn += 0xabcd00;
    p.messages = 0x654321;
    size_t n = roce_encode(&p, payload, &route, out);
    say("kind %u flags %x bytes %u: ", p.kind, p.flags, p.bytes);
    for (size_t i = 0; i < n && i < 96; i++)
        say("%02x", out[i]);
    say("%s %zu\n", n > 96 ? "..." : "", n);
    if (!n)
        return;
    assert_int_equal(out[n], 0xee);
    assert_true(roce_is_whole(out, n, &route));
    assert_true(roce_target(out, n, &qpn));
    assert_int_equal(qpn, 0x123456);
    say_packet(out, n, 1024);
    for (size_t i = 0; i < n; i++) { /* each byte counts but the one of congestion */
        out[i] ^= 1;
        assert_int_equal(roce_is_whole(out, n, &route), i == 4);
        out[i] ^= 1;
    }
    struct roce_route other = route;
    other.to++;
    assert_false(roce_is_whole(out, n, &other));
}

static void as_written(void **state)
{
    static uint8_t payload[5000];
    static const uint32_t sizes[] = {0, 1, 3, 4, 13, 1024, 1025, 4096, 4097};
    static const uint8_t kinds[] = {PACKET_SEND, PACKET_WRITE, PACKET_READ_DATA};
    static const uint32_t why[] = {REFUSED_RNR,
                                   REFUSED_SEQUENCE,
                                   SYNDROME_REMOTE_INVALID_REQUEST,
                                   SYNDROME_REMOTE_ACCESS,
                                   SYNDROME_REMOTE_OPERATION,
                                   1};
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(7 * i + i / 251 + 1);
    for (size_t k = 0; k < 3; k++)
        for (unsigned flags = 0; flags < 128; flags++)
            if (!(flags & (PACKET_DC | PACKET_OPENS)))
                one((struct packet){.kind = kinds[k],
                                    .flags = (uint8_t)flags,
                                    .bytes = flags & PACKET_LAST ? 5 : 1024,
                                    .length = 3000,
                                    .immediate = 0x01020304,
                                    .psn = flags % 16},
                    payload);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        one((struct packet){.kind = PACKET_WRITE,
                            .flags = PACKET_FIRST | PACKET_LAST,
                            .bytes = sizes[i]},
            payload);
    one((struct packet){.kind = PACKET_READ, .length = 77777}, NULL);
    one((struct packet){.kind = PACKET_WHO}, NULL);
    one((struct packet){.kind = PACKET_I_AM}, NULL);
    one((struct packet){.kind = PACKET_ACK}, NULL);
    one((struct packet){.kind = PACKET_PAD}, NULL);
    one((struct packet){.kind = PACKET_INVALID}, NULL);
    for (size_t i = 0; i < sizeof why / sizeof *why; i++)
        one((struct packet){.kind = PACKET_NAK, .immediate = why[i], .length = 45}, NULL);
    for (int k = 0; k < 8; k++) {
        uint64_t numbers[4] = {0x0102030405060708, k & 2 ? ~UINT64_C(0) : 0, 0x1112131415161718,
                               k & 4 ? ~UINT64_C(0) : 5};
        one((struct packet){.kind = PACKET_ATOMIC,
                            .bytes = 32,
                            .immediate = 8 | (k & 1 ? 1u << 8 : 0)},
            numbers);
        one((struct packet){.kind = PACKET_ATOMIC,
                            .bytes = 32,
                            .immediate = 4 | (k & 1 ? 1u << 8 : 0)},
            numbers);
    }
    one((struct packet){.kind = PACKET_ATOMIC_VALUE, .bytes = 8}, payload);
    one((struct packet){.kind = PACKET_ATOMIC_VALUE, .bytes = 4}, payload);
    /* Every opcode with every length and padding: what it is taken for. */
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        unsigned before = 99;
        uint8_t bytes[128] = {0};
        bytes[0] = (uint8_t)opcode;
        bytes[2] = bytes[3] = 0xff;
        for (unsigned at = ROCE_TRANSPORT_BYTES; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)(at < 16 ? 0 : at);
        for (unsigned pad = 0; pad < 4; pad += 3)
            for (size_t n = 16; n <= 72; n++) {
                struct packet p;
                const uint8_t *rest;
                uint64_t scratch[4];
                bytes[1] = (uint8_t)(0x40 | pad << 4);
                bool good = roce_decode(bytes, n, 16, &p, &rest, scratch);
                unsigned now = good * 16u + p.kind;
                if (now != before)
                    say("opcode %02x pad %u from %zu: %s %u\n", opcode, pad, n,
                        good ? "read" : "refused", p.kind);
                before = now;
            }
    }
    for (unsigned code = 0; code < 256; code++) { /* of acknowledgements, and with an answer */
        uint8_t bytes[32] = {0x11, 0x40, 0xff, 0xff};
        for (int k = 0; k < 2; k++) {
            struct packet p;
            const uint8_t *rest;
            uint64_t scratch[4];
            bytes[0] = k ? 0x12 : 0x11;
            bytes[12] = (uint8_t)code;
            bool good = roce_decode(bytes, k ? 28 : 20, 1024, &p, &rest, scratch);
            if (code % 8 == 0 || code / 8 == 12)
                say("code %02x: %s %u %x %u\n", code, good ? "read" : "refused", p.kind,
                    p.immediate, p.length);
        }
    }
    golden_is(GOLDEN, text);
}

static void targets(void **state)
{
    uint8_t bytes[ROCE_MOST + 1] = {0x0a, 0x40, 0xff, 0xff, 0xff, 0x12, 0x34, 0x56};
    uint32_t qpn = 0;
    assert_true(roce_target(bytes, 16, &qpn));
    assert_int_equal(qpn, 0x123456);
    assert_false(roce_target(bytes, 15, &qpn));
    assert_true(roce_target(bytes, ROCE_MOST, &qpn));
    assert_false(roce_target(bytes, ROCE_MOST + 1, &qpn));
    bytes[2] = 0x7f; /* a limited member */
    assert_true(roce_target(bytes, 16, &qpn));
    bytes[2] = 0xfe;
    assert_false(roce_target(bytes, 16, &qpn));
    bytes[2] = 0xff;
    bytes[3] = 0xfe;
    assert_false(roce_target(bytes, 16, &qpn));
    bytes[3] = 0xff;
    bytes[1] = 0x41; /* another version */
    assert_false(roce_target(bytes, 16, &qpn));
    assert_false(roce_is_whole(bytes, 15, &route));
}

static void forms_of_atomics(void **state)
{
    const uint64_t all = ~UINT64_C(0);
    assert_true(roce_has_form(true, 8, all, all));
    assert_false(roce_has_form(true, 8, all - 1, all));
    assert_false(roce_has_form(true, 8, all, all - 1));
    assert_false(roce_has_form(true, 4, all, all));
    assert_true(roce_has_form(false, 8, 0, 5));
    assert_false(roce_has_form(false, 8, 1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written),
        cmocka_unit_test(targets),
        cmocka_unit_test(forms_of_atomics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
