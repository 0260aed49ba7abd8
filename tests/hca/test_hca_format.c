/* SPDX-License-Identifier: Apache-2.0 */
/* Packets as RoCE v2 datagrams: the bytes of each kind, what is decoded from them, and which
 * lengths and opcodes are invalid, compared with golden/hca_format.txt; and packet captures. */
#include "address.h"
#include "fails.h"
#include "roce_capture.h"
#include "roce_format.h"
#include "trace.h"
#include "wqe.h"

#include <time.h>
#include <unistd.h>

static const struct roce_route route = {0x0a010203, 0x0a040506, 0xc123, ROCE_PORT};

static void say_packet(const uint8_t *bytes, size_t n, uint32_t mtu)
{
    struct packet p;
    const uint8_t *payload;
    uint64_t scratch[4] = {0};
    bool good = roce_decode(bytes, n, mtu, &p, &payload, scratch);
    say("  %s kind %u flags %x bytes %u mtu %u qpn %x psn %x length %u rkey %x immediate %x "
        "messages %x address %llx",
        good ? "read" : "refused", p.kind, p.flags, p.bytes, p.mtu, p.to_qpn, p.psn, p.length,
        p.rkey, p.immediate, p.msn, (unsigned long long)p.address);
    if (p.flags & PACKET_DC)
        say(" by DC from %x connection %x", p.from_qpn, p.connection);
    for (uint32_t i = 0; good && i < p.bytes && i < 32; i++)
        say("%s%02x", i ? "" : " ", payload[i]);
    say("\n");
}

static void one(struct packet p, const void *payload)
{
    uint8_t out[ROCE_BYTES_MOST + 8];
    uint32_t qpn = 0;
    memset(out, 0xee, sizeof out);
    p.to_qpn = 0x123456;
    p.address = 0x1122334455667788;
    p.rkey = 0x99aabbcc;
    p.psn += 0xabcd00;
    p.msn = 0x654321;
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
    for (size_t i = 0; i < n; i++) { /* the check covers each byte except the congestion byte */
        out[i] ^= 1;
        assert_int_equal(roce_is_whole(out, n, &route), i == 4);
        out[i] ^= 1;
    }
    struct roce_route other = route;
    other.to++;
    assert_false(roce_is_whole(out, n, &other));
}

/* Requests of DC, whose payload begins with a key; and some whose header is wrong. */
static void dc_requests(const uint8_t *payload)
{
    static const uint8_t kinds[] = {PACKET_SEND, PACKET_WRITE, PACKET_READ, PACKET_ATOMIC};
    static const struct {
        uint8_t opcode, log_mtu;
        size_t n;
    } wrong[] = {{0x0a, 7, 60},  {0x0a, 13, 60}, {0x11, 11, 40}, {0x10, 11, 40}, {0xc0, 11, 40},
                 {0xc3, 11, 44}, {0xc4, 11, 60}, {0x77, 11, 60}, {0x0a, 11, 35}, {0x0a, 11, 47}};
    uint64_t operands[5] = {0xfedcba98, 0x0102030405060708, 0, 0x1112131415161718, 0};
    struct packet p = {.from_qpn = 0x7a7b7c, .mtu = 2048, .connection = 0x81020304, .length = 13};
    for (size_t k = 0; k < 2 * sizeof kinds; k++) {
        bool atomic = kinds[k / 2] == PACKET_ATOMIC, data = k < 4;
        p.kind = kinds[k / 2];
        p.flags = PACKET_DC | (data ? PACKET_FIRST : 0) | (data && k % 2 ? PACKET_LAST : 0);
        p.bytes = 8 + (atomic ? 32 : !data ? 0 : k % 2 ? 13 : 2048);
        p.immediate = k % 2 ? 8 : 4;
        one(p, atomic ? (const void *)operands : payload);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t bytes[64] = {0xc4, 0x40, 0xff, 0xff};
        for (size_t at = 14; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)(3 * at);
        bytes[12] = wrong[i].opcode;
        bytes[13] = wrong[i].log_mtu;
        say("opcode %02x by DC, mtu 2^%u, %zu bytes\n", wrong[i].opcode, wrong[i].log_mtu,
            wrong[i].n);
        say_packet(bytes, wrong[i].n, 1024);
    }
}

static void as_written(void **state)
{
    static uint8_t payload[5000];
    static const uint32_t sizes[] = {0, 1, 3, 4, 13, 1024, 1025, 4096, 4097};
    static const uint8_t kinds[] = {PACKET_SEND, PACKET_WRITE, PACKET_READ_DATA};
    static const uint32_t why[] = {NAK_RNR,
                                   NAK_PSN_SEQUENCE,
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
    one((struct packet){.kind = PACKET_PROBE}, NULL);
    one((struct packet){.kind = PACKET_PROBE_REPLY}, NULL);
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
    dc_requests(payload);
    /* How every opcode with every length and padding is decoded. */
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
    /* acknowledgements, without and with an atomic's value */
    for (unsigned code = 0; code < 256; code++) {
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
    uint8_t bytes[ROCE_BYTES_MOST + 1] = {0x0a, 0x40, 0xff, 0xff, 0xff, 0x12, 0x34, 0x56};
    uint32_t qpn = 0;
    assert_true(roce_target(bytes, 16, &qpn));
    assert_int_equal(qpn, 0x123456);
    assert_false(roce_target(bytes, 15, &qpn));
    assert_true(roce_target(bytes, ROCE_BYTES_MOST, &qpn));
    assert_false(roce_target(bytes, ROCE_BYTES_MOST + 1, &qpn));
    bytes[2] = 0x7f; /* partition key of a limited member */
    assert_true(roce_target(bytes, 16, &qpn));
    bytes[2] = 0xfe;
    assert_false(roce_target(bytes, 16, &qpn));
    bytes[2] = 0xff;
    bytes[3] = 0xfe;
    assert_false(roce_target(bytes, 16, &qpn));
    bytes[3] = 0xff;
    bytes[1] = 0x41; /* another version of the header */
    assert_false(roce_target(bytes, 16, &qpn));
    assert_false(roce_is_whole(bytes, 15, &route));
}

static void forms_of_atomics(void **state)
{
    const uint64_t all = ~UINT64_C(0);
    assert_true(roce_is_standard_atomic(true, 8, all, all));
    assert_false(roce_is_standard_atomic(true, 8, all - 1, all));
    assert_false(roce_is_standard_atomic(true, 8, all, all - 1));
    assert_false(roce_is_standard_atomic(true, 4, all, all));
    assert_true(roce_is_standard_atomic(false, 8, 0, 5));
    assert_false(roce_is_standard_atomic(false, 8, 1, 0));
}

/* --- Captures --- */

int __wrap_clock_gettime(clockid_t which, struct timespec *t);
int __wrap_clock_gettime(clockid_t which, struct timespec *t)
{
    assert_int_equal(which, CLOCK_REALTIME);
    *t = (struct timespec){0x11223344, 0x0a0b0c0d};
    return 0;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return 4321;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return due("calloc") ? NULL : __real_calloc(count, bytes);
}

/* A message of 5 bytes between fd00::102:3 and 2001:db8::9: its check covers the header of IPv6,
 * but for traffic class, flow label and hop limit. The expected check is zlib's crc32 over the
 * bytes as annex A17 lists them. */
static const uint8_t ip_from[16] = {0xfd, [13] = 1, 2, 3},
                     ip_to[16] = {0x20, 1, 0xd, 0xb8, [15] = 9};

static void over_ipv6(void **state)
{
    uint8_t out[ROCE_BYTES_MOST], head[ROCE_PSEUDO_BYTES_MOST];
    struct roce_route route6 = {address_of_ip(ip_from), address_of_ip(ip_to), 0xc123, ROCE_PORT};
    struct packet p = {.kind = PACKET_SEND,
                       .flags = PACKET_FIRST | PACKET_LAST,
                       .to_qpn = 0x123456,
                       .psn = 0x0789ab,
                       .length = 5,
                       .bytes = 5};
    assert_true(address_is_ipv6(route6.from) && address_is_ipv6(route6.to));
    size_t n = roce_encode(&p, (const uint8_t *)"fibre", &route6, out);
    static const uint8_t expected[] = {0x04, 0x70, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56,
                                       0x80, 0x07, 0x89, 0xab, 0x66, 0x69, 0x62, 0x72,
                                       0x65, 0x00, 0x00, 0x00, 0xcd, 0x7c, 0x30, 0xe1};
    assert_int_equal(n, sizeof expected);
    assert_memory_equal(out, expected, n);
    assert_true(roce_is_whole(out, n, &route6));
    struct roce_route back = {route6.to, route6.from, 0xc123, ROCE_PORT};
    assert_false(roce_is_whole(out, n, &back));
    assert_int_equal(roce_pseudo_header(&route6, n, head), sizeof head);
    static const uint8_t begin[] = {0x60, 0, 0, 0, 0, 32, 17, 64, 0xfd};
    assert_memory_equal(head, begin, sizeof begin);
}

/* The type of the file is 229, raw IPv6; UDP's checksum over an odd number of bytes. */
static void capture_ipv6(const char *name, const char *path)
{
    const struct roce_route route6 = {address_of_ip(ip_from), address_of_ip(ip_to), 0xc123,
                                      ROCE_PORT};
    uint8_t got[200];
    struct roce_capture *c = roce_capture_open(name, 6, true);
    assert_non_null(c);
    roce_capture_add(c, &route6, (const uint8_t *)"0123456", 7);
    roce_capture_close(c);
    FILE *file = fopen(path, "re");
    size_t n = fread(got, 1, sizeof got, file);
    fclose(file);
    unlink(path);
    static const uint8_t udp[] = {0xc1, 0x23, 0x12, 0xb7, 0, 15, 0x32, 0x95};
    assert_int_equal(n, 24 + 16 + 48 + 7);
    assert_int_equal(got[20], 229);
    assert_int_equal(got[24 + 8], 48 + 7);
    assert_memory_equal(got + 40 + 8, ip_from, 16);
    assert_memory_equal(got + 40 + 24, ip_to, 16);
    assert_memory_equal(got + 40 + 40, udp, sizeof udp);
}

/* A capture file, byte for byte: the first and the last packet differ only in length. */
static void captures(void **state)
{
    char folder[] = "/tmp/hca_formatXXXXXX", name[64], path[96];
    uint8_t bytes[256], got[512], whole[] = "0123456789abcdef";
    /* The checksum of the second header is 0x1ffff before folding: it carries twice. */
    const struct roce_route far = {0x9d690000, 0x9d640000, 0xfff1, 0xfff2};
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/packets", folder);
    snprintf(path, sizeof path, "%s.4321.6.pcap", name);
    assert_null(roce_capture_open(NULL, 6, false));
    fail_next("calloc", 1, 0);
    assert_null(roce_capture_open(name, 6, false));
    assert_int_equal(access(path, F_OK), -1);
    unsigned files = open_files();
    struct roce_capture *c = roce_capture_open(name, 6, false);
    assert_non_null(c);
    roce_capture_add(c, &route, whole, 16);
    roce_capture_add(c, &far, whole + 3, 5);
    FILE *file = fopen(path, "re");
    size_t n = fread(got, 1, sizeof got, file);
    fclose(file);
    roce_capture_add(c, &route, bytes, 0);
    roce_capture_close(c);
    roce_capture_close(NULL);
    assert_int_equal(open_files(), files);
    static const uint8_t expected[] = {
        0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 228, 0, 0, 0,
        /* the first packet: time, lengths, IPv4, UDP */
        0x44, 0x33, 0x22, 0x11, 0x0d, 0x0c, 0x0b, 0x0a, 44, 0, 0, 0, 44, 0, 0, 0, 0x45, 0, 0, 44, 0,
        0, 0x40, 0, 64, 17, 0x1f, 0xb4, 10, 1, 2, 3, 10, 4, 5, 6, 0xc1, 0x23, 0x12, 0xb7, 0, 24, 0,
        0, '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
        /* the second packet */
        0x44, 0x33, 0x22, 0x11, 0x0d, 0x0c, 0x0b, 0x0a, 33, 0, 0, 0, 33, 0, 0, 0, 0x45, 0, 0, 33, 0,
        0, 0x40, 0, 64, 17, 0xff, 0xfe, 0x9d, 0x69, 0, 0, 0x9d, 0x64, 0, 0, 0xff, 0xf1, 0xff, 0xf2,
        0, 13, 0, 0, '3', '4', '5', '6', '7'};
    assert_int_equal(n, sizeof expected);
    assert_memory_equal(got, expected, sizeof expected);
    unlink(path);
    capture_ipv6(name, path);
    assert_int_equal(rmdir(folder), 0);
    used = 0;
    take_stderr();
    assert_null(roce_capture_open("/no/such/folder/x", 7, false));
    say_stderr();
    assert_string_equal(text,
                        "soft HCA: cannot capture packets: /no/such/folder/x.4321.7.pcap: No such "
                        "file or directory (SOFT_HCA_CAPTURE)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written),       cmocka_unit_test(over_ipv6), cmocka_unit_test(targets),
        cmocka_unit_test(forms_of_atomics), cmocka_unit_test(captures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
