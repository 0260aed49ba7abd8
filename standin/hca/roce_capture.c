/* SPDX-License-Identifier: Apache-2.0 */
/* Writes datagrams as IP packets to a pcap file. The headers are what the kernel sends, except for
 * the time to live, the flow label of IPv6, and the UDP checksum over IPv4, which is left out. */
#include "roce_capture.h"
#include "address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC_NS = 0xa1b23c4d, LINK_IPV4 = 228, LINK_IPV6 = 229, LONGEST = 65536 };

struct roce_capture {
    FILE *file;
};

struct roce_capture *roce_capture_open(const char *name, unsigned device, bool ipv6)
{
    char path[4096];
    if (!name)
        return NULL;
    struct roce_capture *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    snprintf(path, sizeof path, "%s.%ld.%u.pcap", name, (long)getpid(), device);
    c->file = fopen(path, "we");
    if (!c->file) {
        fprintf(stderr, "soft HCA: cannot capture packets: %s: %s (SOFT_HCA_CAPTURE)\n", path,
                strerror(errno));
        free(c);
        return NULL;
    }
    /* Version 2.4, no time zone, no accuracy. */
    uint32_t head[6] = {MAGIC_NS, 2 | 4 << 16, 0, 0, LONGEST, ipv6 ? LINK_IPV6 : LINK_IPV4};
    fwrite(head, sizeof head, 1, c->file);
    return c;
}

void roce_capture_close(struct roce_capture *c)
{
    if (!c)
        return;
    fclose(c->file);
    free(c);
}

/* Adds 16-bit words of network order; an odd last byte counts as the upper half of a word. */
static uint32_t add_words(uint32_t sum, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2)
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    return n % 2 ? sum + ((uint32_t)bytes[n - 1] << 8) : sum;
}

static void put_checksum(uint8_t *at, uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16)); /* the sum of both halves may carry again */
    at[0] = (uint8_t)(sum >> 8);
    at[1] = (uint8_t)sum;
}

/* IPv6: UDP's checksum, over both addresses, the length twice, the protocol's number and the
 * datagram. IPv4: that of its header. */
static void add_checksum(uint8_t *head, size_t head_bytes, bool ipv6, const uint8_t *bytes,
                         size_t n)
{
    enum { PROTOCOL_UDP = 17, UDP_BYTES = 8, IPV6_ADDRESSES_AT = 8, IPV4_CHECKSUM_AT = 10 };
    uint8_t *udp = head + head_bytes - UDP_BYTES;
    if (!ipv6) {
        put_checksum(head + IPV4_CHECKSUM_AT, add_words(0, head, head_bytes - UDP_BYTES));
        return;
    }
    uint32_t sum =
        add_words(PROTOCOL_UDP, head + IPV6_ADDRESSES_AT, head_bytes - IPV6_ADDRESSES_AT);
    put_checksum(udp + 6, add_words(add_words(sum, udp + 4, 2), bytes, n));
}

void roce_capture_add(struct roce_capture *c, const struct roce_route *route, const uint8_t *bytes,
                      uint32_t n)
{
    struct timespec t;
    uint8_t head[ROCE_PSEUDO_BYTES_MOST];
    clock_gettime(CLOCK_REALTIME, &t);
    uint32_t head_bytes = (uint32_t)roce_pseudo_header(route, n, head);
    add_checksum(head, head_bytes, address_is_ipv6(route->from), bytes, n);
    uint32_t record[4] = {(uint32_t)t.tv_sec, (uint32_t)t.tv_nsec, head_bytes + n, head_bytes + n};
    fwrite(record, sizeof record, 1, c->file);
    fwrite(head, head_bytes, 1, c->file);
    fwrite(bytes, n, 1, c->file);
    fflush(c->file);
}
