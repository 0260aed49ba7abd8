/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes RoCE v2 datagrams, and computes the ICRC. One table describes all opcodes. */
#include "roce_format.h"

#include "address.h"
#include "wqe.h"

#include <pthread.h>
#include <string.h>

/* Extended transport headers, in the order in which they follow the BTH. */
enum {
    HAS_ADDRESS = 1, /* RETH: address, key, length */
    HAS_ATOMIC = 2,  /* AtomicETH: address, key, swap or add, compare */
    HAS_MASKED = 4,  /* format of this HCA: address, key, form, four operands */
    HAS_ACK = 8,     /* AETH: syndrome, message sequence number */
    HAS_VALUE = 16,  /* AtomicAckETH: 8 bytes */
    HAS_VALUE_4 = 32,
    HAS_WORD = 64, /* ImmDt or IETH: immediate data, or the key to be invalidated */
    HAS_PAYLOAD = 128,
};

enum { IPV4_BYTES = 20, IPV6_BYTES = 40, UDP_BYTES = 8 };

enum {
    PLACE = PACKET_FIRST | PACKET_LAST | PACKET_IMMEDIATE | PACKET_INVALIDATE,
    FIRST = PACKET_FIRST,
    LAST = PACKET_LAST,
    ONLY = PACKET_FIRST | PACKET_LAST,
    RELIABLE = 0x00, /* upper three bits of an RC opcode */
    OWN = 0xc0,      /* manufacturer-defined opcodes */
};

static const struct form {
    uint8_t opcode, kind, flags, headers;
} forms[] = {
    {0x00, PACKET_SEND, FIRST, HAS_PAYLOAD},
    {0x01, PACKET_SEND, 0, HAS_PAYLOAD},
    {0x02, PACKET_SEND, LAST, HAS_PAYLOAD},
    {0x03, PACKET_SEND, LAST | PACKET_IMMEDIATE, HAS_WORD | HAS_PAYLOAD},
    {0x04, PACKET_SEND, ONLY, HAS_PAYLOAD},
    {0x05, PACKET_SEND, ONLY | PACKET_IMMEDIATE, HAS_WORD | HAS_PAYLOAD},
    {0x06, PACKET_WRITE, FIRST, HAS_ADDRESS | HAS_PAYLOAD},
    {0x07, PACKET_WRITE, 0, HAS_PAYLOAD},
    {0x08, PACKET_WRITE, LAST, HAS_PAYLOAD},
    {0x09, PACKET_WRITE, LAST | PACKET_IMMEDIATE, HAS_WORD | HAS_PAYLOAD},
    {0x0a, PACKET_WRITE, ONLY, HAS_ADDRESS | HAS_PAYLOAD},
    {0x0b, PACKET_WRITE, ONLY | PACKET_IMMEDIATE, HAS_ADDRESS | HAS_WORD | HAS_PAYLOAD},
    {0x0c, PACKET_READ, 0, HAS_ADDRESS},
    {0x0d, PACKET_READ_DATA, FIRST, HAS_ACK | HAS_PAYLOAD},
    {0x0e, PACKET_READ_DATA, 0, HAS_PAYLOAD},
    {0x0f, PACKET_READ_DATA, LAST, HAS_ACK | HAS_PAYLOAD},
    {0x10, PACKET_READ_DATA, ONLY, HAS_ACK | HAS_PAYLOAD},
    {0x11, PACKET_ACK, 0, HAS_ACK},
    {0x12, PACKET_ATOMIC_VALUE, 0, HAS_ACK | HAS_VALUE},
    {0x13, PACKET_ATOMIC, 0, HAS_ATOMIC}, /* compare and swap */
    {0x14, PACKET_ATOMIC, 0, HAS_ATOMIC}, /* fetch and add */
    {0x16, PACKET_SEND, LAST | PACKET_INVALIDATE, HAS_WORD | HAS_PAYLOAD},
    {0x17, PACKET_SEND, ONLY | PACKET_INVALIDATE, HAS_WORD | HAS_PAYLOAD},
    /* Only between two software HCAs. */
    {0xc0, PACKET_PROBE, 0, 0},
    {0xc1, PACKET_PROBE_REPLY, 0, 0},
    {0xc2, PACKET_ATOMIC, 0, HAS_MASKED},
    {0xc3, PACKET_ATOMIC_VALUE, 0, HAS_ACK | HAS_VALUE_4},
};
enum {
    FORMS = sizeof forms / sizeof *forms,
    COMPARE_SWAP = 0x13,
    FETCH_ADD = 0x14,
    MASKED = 0xc2,
    VALUE = 0x12,
    VALUE_4 = 0xc3,
    DC_REQUEST = 0xc4,    /* the opcode of the RC request follows */
    COMPARE_BIT = 1 << 8, /* in `immediate` of an atomic packet */
};

/* AETH syndrome codes. */
enum {
    AETH_ACK = 0x1f,
    AETH_RNR = 0x20,
    AETH_SEQUENCE = 0x60,
    AETH_INVALID,
    AETH_ACCESS,
    AETH_OPERATION
};

static const struct form *form_of(uint8_t opcode)
{
    for (unsigned i = 0; i < FORMS; i++)
        if (forms[i].opcode == opcode)
            return &forms[i];
    return NULL;
}

bool roce_is_response(uint8_t kind)
{
    return kind == PACKET_READ_DATA || kind == PACKET_ACK || kind == PACKET_NAK ||
           kind == PACKET_ATOMIC_VALUE;
}

bool roce_is_standard_atomic(bool compare_swap, uint32_t bytes, uint64_t operand_mask,
                             uint64_t compare_mask)
{
    if (bytes != 8)
        return false;
    return compare_swap ? !~operand_mask && !~compare_mask : !operand_mask;
}

/* --- The check: CRC-32 as of Ethernet, eight bytes a step --- */

static uint32_t crc_tables[8][256];

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++)
            v = v >> 1 ^ (v & 1 ? 0xedb88320u : 0);
        crc_tables[0][i] = v;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            crc_tables[t][i] =
                crc_tables[t - 1][i] >> 8 ^ crc_tables[0][crc_tables[t - 1][i] & 0xff];
}

static uint32_t crc_add(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        v ^= crc;
        crc = crc_tables[7][v & 0xff] ^ crc_tables[6][v >> 8 & 0xff] ^
              crc_tables[5][v >> 16 & 0xff] ^ crc_tables[4][v >> 24 & 0xff] ^
              crc_tables[3][v >> 32 & 0xff] ^ crc_tables[2][v >> 40 & 0xff] ^
              crc_tables[1][v >> 48 & 0xff] ^ crc_tables[0][v >> 56];
    }
    while (n--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *p++) & 0xff];
    return crc;
}

static void put16(uint8_t *at, uint32_t v)
{
    at[0] = (uint8_t)(v >> 8);
    at[1] = (uint8_t)v;
}

static void put24(uint8_t *at, uint32_t v)
{
    at[0] = (uint8_t)(v >> 16);
    put16(at + 1, v);
}

static void put32(uint8_t *at, uint32_t v)
{
    put16(at, v >> 16);
    put16(at + 2, v);
}

static void put64(uint8_t *at, uint64_t v)
{
    put32(at, (uint32_t)(v >> 32));
    put32(at + 4, (uint32_t)v);
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t get24(const uint8_t *at)
{
    return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static uint64_t get_net64(const uint8_t *at)
{
    return (uint64_t)get32(at) << 32 | get32(at + 4);
}

static void put_udp_header(const struct roce_route *route, size_t bytes, uint8_t *out)
{
    put16(out, route->from_port);
    put16(out + 2, route->to_port);
    put16(out + 4, (uint32_t)(UDP_BYTES + bytes));
}

size_t roce_pseudo_header(const struct roce_route *route, size_t bytes,
                          uint8_t out[ROCE_PSEUDO_BYTES_MOST])
{
    static const uint8_t fixed4[IPV4_BYTES] = {0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17};
    static const uint8_t fixed6[IPV6_BYTES] = {0x60, 0, 0, 0, 0, 0, 17, 64};
    memset(out, 0, ROCE_PSEUDO_BYTES_MOST);
    if (address_is_ipv6(route->from)) {
        memcpy(out, fixed6, sizeof fixed6);
        put16(out + 4, (uint32_t)(UDP_BYTES + bytes));
        address_to_ip(route->from, out + 8);
        address_to_ip(route->to, out + 24);
        put_udp_header(route, bytes, out + IPV6_BYTES);
        return IPV6_BYTES + UDP_BYTES;
    }
    memcpy(out, fixed4, sizeof fixed4);
    put16(out + 2, (uint32_t)(IPV4_BYTES + UDP_BYTES + bytes));
    put32(out + 12, route->from);
    put32(out + 16, route->to);
    put_udp_header(route, bytes, out + IPV4_BYTES);
    return IPV4_BYTES + UDP_BYTES;
}

/* Sets the fields that routers change to ones: type of service or traffic class and flow label,
 * time to live, both checksums. */
static void mask_changing(uint8_t *ip, size_t bytes, bool ipv6)
{
    if (ipv6) {
        ip[0] |= 0x0f;
        ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
    } else {
        ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
    }
    ip[bytes - 2] = ip[bytes - 1] = 0xff;
}

/* Computes the ICRC of a datagram of n bytes without ICRC. Fields that routers change count as
 * ones, also the BTH byte with the congestion bits. */
static uint32_t crc_of(const uint8_t *bytes, size_t n, const struct roce_route *route)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint8_t head[8 + ROCE_PSEUDO_BYTES_MOST + 8];
    pthread_once(&once, make_tables);
    memset(head, 0xff, 8);
    size_t headers = roce_pseudo_header(route, n + ROCE_CHECK_BYTES, head + 8);
    mask_changing(head + 8, headers, address_is_ipv6(route->from));
    uint8_t *transport = head + 8 + headers;
    memcpy(transport, bytes, 8);
    transport[4] = 0xff;
    uint32_t crc = crc_add(0xffffffff, head, 8 + headers + 8);
    return ~crc_add(crc, bytes + 8, n - 8);
}

static void put_check(uint8_t *bytes, size_t n, const struct roce_route *route)
{
    uint32_t crc = crc_of(bytes, n, route);
    for (unsigned i = 0; i < 4; i++)
        bytes[n + i] = (uint8_t)(crc >> 8 * i);
}

bool roce_is_whole(const uint8_t *bytes, size_t n, const struct roce_route *route)
{
    if (n < ROCE_TRANSPORT_BYTES + ROCE_CHECK_BYTES)
        return false;
    n -= ROCE_CHECK_BYTES;
    uint32_t crc = crc_of(bytes, n, route), there = 0;
    for (unsigned i = 0; i < 4; i++)
        there |= (uint32_t)bytes[n + i] << 8 * i;
    return crc == there;
}

/* --- To bytes --- */

static const struct form *form_for(const struct packet *p, const uint64_t *operands)
{
    if (p->kind == PACKET_ATOMIC) {
        bool swap = p->immediate & COMPARE_BIT;
        if (!roce_is_standard_atomic(swap, p->immediate & 0xff, operands[1], operands[3]))
            return form_of(MASKED);
        return form_of(swap ? COMPARE_SWAP : FETCH_ADD);
    }
    if (p->kind == PACKET_ATOMIC_VALUE)
        return form_of(p->bytes == 4 ? VALUE_4 : VALUE);
    uint8_t kind = p->kind == PACKET_NAK ? PACKET_ACK : p->kind, flags = 0;
    if (kind == PACKET_SEND || kind == PACKET_WRITE || kind == PACKET_READ_DATA)
        flags = p->flags & PLACE;
    for (unsigned i = 0; i < FORMS; i++)
        if (forms[i].kind == kind && forms[i].flags == flags)
            return &forms[i];
    return NULL;
}

static uint8_t ack_code(const struct packet *p)
{
    if (p->kind != PACKET_NAK)
        return AETH_ACK;
    switch (p->immediate) {
    case NAK_RNR:
        return (uint8_t)(AETH_RNR | (p->length & 31));
    case NAK_PSN_SEQUENCE:
        return AETH_SEQUENCE;
    case SYNDROME_REMOTE_INVALID_REQUEST:
        return AETH_INVALID;
    case SYNDROME_REMOTE_ACCESS:
        return AETH_ACCESS;
    default:
        return AETH_OPERATION;
    }
}

static uint8_t *put_headers(uint8_t *at, const struct packet *p, const struct form *f,
                            const uint64_t *numbers)
{
    if (f->headers & (HAS_ADDRESS | HAS_ATOMIC | HAS_MASKED)) {
        put64(at, p->address);
        put32(at + 8, p->rkey);
        at += 12;
    }
    if (f->headers & HAS_ADDRESS) {
        put32(at, p->length);
        at += 4;
    }
    if (f->headers & HAS_ATOMIC) {
        put64(at, numbers[0]);
        put64(at + 8, p->immediate & COMPARE_BIT ? numbers[2] : 0);
        at += 16;
    }
    if (f->headers & HAS_MASKED) {
        put32(at, p->immediate);
        for (unsigned i = 0; i < 4; i++)
            put64(at + 4 + 8 * i, numbers[i]);
        at += 36;
    }
    if (f->headers & HAS_ACK) {
        put32(at, (uint32_t)ack_code(p) << 24 | p->msn);
        at += 4;
    }
    if (f->headers & HAS_VALUE) {
        put64(at, numbers[0]);
        at += 8;
    }
    if (f->headers & HAS_VALUE_4) {
        put32(at, (uint32_t)numbers[0]);
        at += 4;
    }
    if (f->headers & HAS_WORD) {
        memcpy(at, &p->immediate, 4); /* byte order as in memory */
        at += 4;
    }
    return at;
}

/* Returns the bytes of the header of a DC request. The key is the beginning of its payload. */
static uint32_t put_dc(uint8_t *at, const struct packet *p, uint8_t opcode, const uint8_t *key)
{
    if (!(p->flags & PACKET_DC))
        return 0;
    at[0] = opcode;
    at[1] = (uint8_t)__builtin_ctz(p->mtu);
    put24(at + 2, p->msn);
    put24(at + 5, p->from_qpn);
    put32(at + 8, p->connection);
    memcpy(at + 12, key, ROCE_DC_KEY_BYTES);
    return ROCE_DC_BYTES;
}

size_t roce_encode(const struct packet *p, const uint8_t *payload, const struct roce_route *route,
                   uint8_t *out)
{
    uint64_t numbers[4] = {0};
    const uint32_t key = p->flags & PACKET_DC ? ROCE_DC_KEY_BYTES : 0, data = p->bytes - key;
    bool counts = p->kind == PACKET_ATOMIC || p->kind == PACKET_ATOMIC_VALUE;
    if (counts)
        memcpy(numbers, payload + key, data < sizeof numbers ? data : sizeof numbers);
    const struct form *f = form_for(p, numbers);
    uint32_t bytes = f && f->headers & HAS_PAYLOAD ? data : 0, pad = -bytes & 3;
    bool request = !roce_is_response(p->kind);
    bool ask = request && (p->flags & LAST || p->psn % ROCE_ACK_INTERVAL == ROCE_ACK_INTERVAL - 1);
    if (!f || bytes > 4096)
        return 0;
    out[0] = key ? DC_REQUEST : f->opcode;
    out[1] = (uint8_t)((p->flags & PACKET_SOLICITED ? 0x80 : 0) | 0x40 | pad << 4);
    put16(out + 2, 0xffff);
    put32(out + 4, p->to_qpn);
    put32(out + 8, (ask ? 1u << 31 : 0) | p->psn);
    uint32_t dc = put_dc(out + ROCE_TRANSPORT_BYTES, p, f->opcode, payload);
    uint8_t *at = put_headers(out + ROCE_TRANSPORT_BYTES + dc, p, f, numbers);
    if (bytes)
        memcpy(at, payload + key, bytes);
    memset(at + bytes, 0, pad);
    size_t n = (size_t)(at - out) + bytes + pad;
    put_check(out, n, route);
    return n + ROCE_CHECK_BYTES;
}

/* --- From bytes --- */

bool roce_target(const uint8_t *bytes, size_t n, uint32_t *qpn)
{
    if (n < ROCE_TRANSPORT_BYTES + ROCE_CHECK_BYTES || n > ROCE_BYTES_MOST)
        return false;
    *qpn = get32(bytes + 4) & 0xffffff;
    /* Version 0; default P_Key, full or limited member. */
    return !(bytes[1] & 0xf) && (bytes[2] & 0x7f) == 0x7f && bytes[3] == 0xff;
}

static size_t headers_bytes(const struct form *f)
{
    static const uint8_t bytes[] = {16, 28, 48, 4, 8, 4, 4, 0};
    size_t n = ROCE_TRANSPORT_BYTES;
    for (unsigned i = 0; i < sizeof bytes; i++)
        n += f->headers >> i & 1 ? bytes[i] : 0;
    return n;
}

/* Decodes an AETH. False: an unknown code. */
static bool get_ack(struct packet *p, const uint8_t *at)
{
    static const uint8_t reasons[] = {NAK_PSN_SEQUENCE, SYNDROME_REMOTE_INVALID_REQUEST,
                                      SYNDROME_REMOTE_ACCESS, SYNDROME_REMOTE_OPERATION};
    p->msn = get32(at) & 0xffffff;
    if (p->kind != PACKET_ACK || at[0] <= AETH_ACK)
        return at[0] <= AETH_ACK;
    p->kind = PACKET_NAK;
    if (at[0] >> 5 == AETH_RNR >> 5) {
        p->immediate = NAK_RNR;
        p->length = at[0] & 31;
        return true;
    }
    p->immediate = reasons[at[0] & 3];
    return at[0] >= AETH_SEQUENCE && at[0] <= AETH_OPERATION;
}

static void get_operands(struct packet *p, const struct form *f, const uint8_t *at,
                         uint64_t scratch[4])
{
    p->bytes = ROCE_ATOMIC_BYTES;
    if (f->headers & HAS_MASKED) {
        p->immediate = get32(at) & (COMPARE_BIT | 0xff);
        for (unsigned i = 0; i < 4; i++)
            scratch[i] = get_net64(at + 4 + 8 * i);
        return;
    }
    bool swap = f->opcode == COMPARE_SWAP;
    p->immediate = 8 | (swap ? COMPARE_BIT : 0);
    scratch[0] = get_net64(at);
    scratch[1] = swap ? ~UINT64_C(0) : 0;
    scratch[2] = get_net64(at + 8);
    scratch[3] = ~UINT64_C(0);
}

/* Decodes the extended headers. False: their values are invalid. */
static bool get_headers(struct packet *p, const struct form *f, const uint8_t *at,
                        uint64_t scratch[4])
{
    if (f->headers & (HAS_ADDRESS | HAS_ATOMIC | HAS_MASKED)) {
        p->address = get_net64(at);
        p->rkey = get32(at + 8);
        at += 12;
    }
    if (f->headers & HAS_ADDRESS) {
        p->length = get32(at);
        at += 4;
    }
    if (f->headers & (HAS_ATOMIC | HAS_MASKED))
        get_operands(p, f, at, scratch);
    if (f->headers & HAS_ACK) {
        if (!get_ack(p, at))
            return false;
        at += 4;
    }
    if (f->headers & (HAS_VALUE | HAS_VALUE_4)) {
        uint32_t four = get32(at);
        p->bytes = f->headers & HAS_VALUE ? 8 : 4;
        if (p->bytes == 8)
            scratch[0] = get_net64(at);
        else
            memcpy(scratch, &four, 4);
    }
    if (f->headers & HAS_WORD)
        memcpy(&p->immediate, at, 4);
    return true;
}

/* Returns true if the payload has a valid length: every packet of a message except the last has the
 * path MTU. */
static bool is_length_valid(const struct form *f, uint32_t bytes, uint32_t mtu)
{
    if (!(f->headers & HAS_PAYLOAD))
        return !bytes;
    if (!(f->flags & LAST))
        return bytes == mtu;
    return bytes <= mtu && (bytes || f->flags & FIRST);
}

/* Decodes the header of a DC request, and its RC opcode. False: it is not one. */
static bool get_dc(struct packet *p, const uint8_t *bytes, size_t n, uint8_t *opcode)
{
    enum { LOG_MTU_LEAST = 8, LOG_MTU_MOST = 12 };
    const uint8_t *at = bytes + ROCE_TRANSPORT_BYTES;
    if (n < ROCE_TRANSPORT_BYTES + ROCE_DC_BYTES + ROCE_CHECK_BYTES || at[1] < LOG_MTU_LEAST ||
        at[1] > LOG_MTU_MOST)
        return false;
    *opcode = at[0];
    p->mtu = (uint16_t)(1u << at[1]);
    p->msn = get24(at + 2);
    p->from_qpn = get24(at + 5);
    p->connection = get32(at + 8);
    const struct form *f = form_of(*opcode);
    return f && f->opcode >> 5 == RELIABLE >> 5 ? !roce_is_response(f->kind) : *opcode == MASKED;
}

bool roce_decode(const uint8_t *bytes, size_t n, uint32_t mtu, struct packet *p,
                 const uint8_t **payload, uint64_t scratch[4])
{
    uint8_t opcode = bytes[0];
    const bool dc = opcode == DC_REQUEST;
    const uint32_t dc_bytes = dc ? ROCE_DC_BYTES : 0;
    *p = (struct packet){.kind = PACKET_INVALID,
                         .mtu = (uint16_t)mtu,
                         .to_qpn = get32(bytes + 4) & 0xffffff,
                         .psn = get32(bytes + 8) & 0xffffff};
    *payload = bytes;
    if (dc && !get_dc(p, bytes, n, &opcode))
        return false;
    const struct form *f = form_of(opcode);
    if (!f)
        return opcode >> 5 == RELIABLE >> 5;
    size_t head = headers_bytes(f) + dc_bytes, rest = n - ROCE_CHECK_BYTES, pad = bytes[1] >> 4 & 3;
    bool request = !roce_is_response(f->kind);
    p->flags = dc ? PACKET_DC : 0;
    if (head + pad > rest || !is_length_valid(f, (uint32_t)(rest - head - pad), p->mtu))
        return request && f->opcode >> 5 == RELIABLE >> 5;
    p->kind = f->kind;
    p->flags |= (uint8_t)(f->flags | (bytes[1] & 0x80 && f->flags & LAST ? PACKET_SOLICITED : 0));
    p->bytes = p->length = (uint32_t)(rest - head - pad);
    *payload = bytes + head;
    if (!get_headers(p, f, bytes + ROCE_TRANSPORT_BYTES + dc_bytes, scratch))
        return false;
    if (!(f->headers & HAS_PAYLOAD))
        *payload = (const uint8_t *)scratch;
    return true;
}
