/* SPDX-License-Identifier: Apache-2.0 */
#include "roce_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 4791 };

static struct sockaddr_in at(uint32_t address)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(address)};
}

int roce_peer_open(uint32_t *address)
{
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), whole = IP_PMTUDISC_DO;
    setsockopt(s, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof whole);
    for (uint32_t i = 0; i < 100; i++) {
        *address = 0x7f000000u | (200 + i % 50) << 16 | ((uint32_t)getpid() + i) % 65535;
        struct sockaddr_in a = at(*address);
        if (!bind(s, (struct sockaddr *)&a, sizeof a))
            return s;
    }
    close(s);
    return -1;
}

/* ---------------------------------------------------------------------------------------- CRC */

static uint32_t crc_bits(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int i = 0; i < 8; i++)
        crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    return crc;
}

static uint32_t check(uint32_t from, uint32_t to, uint16_t from_port, const uint8_t *p, size_t n)
{
    size_t total = 28 + n + 4;
    uint8_t ip[28] = {0x45, 0xff, (uint8_t)(total >> 8), (uint8_t)total, 0, 0, 0x40, 0, 0xff, 17,
                      0xff, 0xff};
    for (int i = 0; i < 4; i++) {
        ip[12 + i] = (uint8_t)(from >> (24 - 8 * i));
        ip[16 + i] = (uint8_t)(to >> (24 - 8 * i));
    }
    ip[20] = (uint8_t)(from_port >> 8);
    ip[21] = (uint8_t)from_port;
    ip[22] = PORT >> 8;
    ip[23] = PORT & 0xff;
    ip[24] = (uint8_t)((total - 20) >> 8);
    ip[25] = (uint8_t)(total - 20);
    ip[26] = ip[27] = 0xff;
    uint32_t crc = 0xffffffff;
    for (int i = 0; i < 8; i++)
        crc = crc_bits(crc, 0xff);
    for (size_t i = 0; i < sizeof ip; i++)
        crc = crc_bits(crc, ip[i]);
    for (size_t i = 0; i < n; i++)
        crc = crc_bits(crc, i == 4 ? 0xff : p[i]);
    return ~crc;
}

/* ----------------------------------------------------------------------------- opcode sequences */

static bool has_reth(uint8_t o)
{
    return o == 0x06 || o == 0x0a || o == 0x0b || o == 0x0c;
}

static bool has_atomic(uint8_t o)
{
    return o == 0x13 || o == 0x14;
}

static bool has_aeth(uint8_t o)
{
    return o == 0x0d || (o >= 0x0f && o <= 0x12);
}

static bool has_word(uint8_t o)
{
    return o == 0x03 || o == 0x05 || o == 0x09 || o == 0x0b || o == 0x16 || o == 0x17;
}

struct cursor {
    uint8_t *p;
};

static void number(struct cursor *c, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *c->p++ = (uint8_t)(v >> 8 * i);
}

static uint64_t take(struct cursor *c, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | *c->p++;
    return v;
}

void roce_peer_send(int s, uint32_t from, uint32_t to, const struct frame *f)
{
    uint8_t bytes[2048];
    struct cursor c = {bytes};
    unsigned pad = (4 - f->bytes % 4) % 4;
    number(&c, f->opcode, 1);
    number(&c, 0x40 | pad << 4, 1);
    number(&c, 0xffff, 2);
    number(&c, f->qpn, 4);
    number(&c, (uint32_t)f->ask << 31 | f->psn, 4);
    if (has_reth(f->opcode) || has_atomic(f->opcode)) {
        number(&c, f->address, 8);
        number(&c, f->rkey, 4);
    }
    if (has_reth(f->opcode))
        number(&c, f->length, 4);
    if (has_atomic(f->opcode)) {
        number(&c, f->swap_add, 8);
        number(&c, f->compare, 8);
    }
    if (has_aeth(f->opcode))
        number(&c, (uint32_t)f->syndrome << 24 | f->msn, 4);
    if (f->opcode == 0x12)
        number(&c, f->value, 8);
    if (has_word(f->opcode))
        number(&c, f->word, 4);
    memcpy(c.p, f->data, f->bytes);
    c.p += f->bytes;
    memset(c.p, 0, pad);
    c.p += pad;
    uint32_t crc = check(from, to, PORT, bytes, (size_t)(c.p - bytes)) ^ f->damaged;
    for (int i = 0; i < 4; i++)
        *c.p++ = (uint8_t)(crc >> 8 * i);
    struct sockaddr_in a = at(to);
    sendto(s, bytes, (size_t)(c.p - bytes), 0, (struct sockaddr *)&a, sizeof a);
}

bool roce_peer_receive(int s, uint32_t own, unsigned ms, struct frame *f)
{
    uint8_t bytes[8192];
    struct pollfd p = {.fd = s, .events = POLLIN};
    struct sockaddr_in a;
    socklen_t length = sizeof a;
    if (poll(&p, 1, (int)ms) != 1)
        return false;
    ssize_t n = recvfrom(s, bytes, sizeof bytes, 0, (struct sockaddr *)&a, &length);
    if (n < 16)
        return false;
    memset(f, 0, sizeof *f);
    struct cursor c = {bytes};
    f->opcode = (uint8_t)take(&c, 1);
    f->pad = (unsigned)take(&c, 1) >> 4 & 3;
    take(&c, 2);
    f->qpn = (uint32_t)take(&c, 4);
    uint32_t ask = (uint32_t)take(&c, 4);
    f->ask = ask >> 31;
    f->psn = ask & 0xffffff;
    if (has_reth(f->opcode) || has_atomic(f->opcode)) {
        f->address = take(&c, 8);
        f->rkey = (uint32_t)take(&c, 4);
    }
    if (has_reth(f->opcode))
        f->length = (uint32_t)take(&c, 4);
    if (has_atomic(f->opcode)) {
        f->swap_add = take(&c, 8);
        f->compare = take(&c, 8);
    }
    if (has_aeth(f->opcode)) {
        f->syndrome = (uint8_t)take(&c, 1);
        f->msn = (uint32_t)take(&c, 3);
    }
    if (f->opcode == 0x12)
        f->value = take(&c, 8);
    if (has_word(f->opcode))
        f->word = (uint32_t)take(&c, 4);
    f->bytes = (uint32_t)(bytes + n - 4 - f->pad - c.p);
    if (f->bytes <= sizeof f->data)
        memcpy(f->data, c.p, f->bytes);
    uint32_t crc = 0;
    for (int i = 0; i < 4; i++)
        crc |= (uint32_t)bytes[n - 4 + i] << 8 * i;
    f->from_port = ntohs(a.sin_port);
    f->whole = crc == check(ntohl(a.sin_addr.s_addr), own, ntohs(a.sin_port), bytes, (size_t)n - 4);
    return true;
}
