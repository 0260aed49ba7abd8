/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. */
#include "address.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* Entries below the ipv6_count never change. */
static uint8_t ipv6_addresses[ADDRESS_IPV6_MOST][16];
static _Atomic uint32_t ipv6_count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

uint32_t address_find_ip(const uint8_t ip[16])
{
    uint32_t n = atomic_load_explicit(&ipv6_count, memory_order_acquire);
    if (!memcmp(ip, ipv4_prefix, sizeof ipv4_prefix)) {
        uint32_t ipv4 =
            (uint32_t)ip[12] << 24 | (uint32_t)ip[13] << 16 | (uint32_t)ip[14] << 8 | ip[15];
        return address_is_ip(ipv4) && !address_is_ipv6(ipv4) ? ipv4 : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!memcmp(ipv6_addresses[i], ip, sizeof ipv6_addresses[i]))
            return ADDRESS_IPV6_LEAST + i;
    return 0;
}

uint32_t address_of_ip(const uint8_t ip[16])
{
    static const uint8_t none[16];
    bool link_local = ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80, multicast = ip[0] == 0xff;
    if (memcmp(ip, none, sizeof none) == 0 || link_local || multicast)
        return 0;
    pthread_mutex_lock(&adding);
    uint32_t address = address_find_ip(ip);
    uint32_t n = atomic_load_explicit(&ipv6_count, memory_order_relaxed);
    if (!address && memcmp(ip, ipv4_prefix, sizeof ipv4_prefix) != 0 && n < ADDRESS_IPV6_MOST) {
        memcpy(ipv6_addresses[n], ip, sizeof ipv6_addresses[n]);
        atomic_store_explicit(&ipv6_count, n + 1, memory_order_release);
        address = ADDRESS_IPV6_LEAST + n;
    }
    pthread_mutex_unlock(&adding);
    return address;
}

void address_to_ip(uint32_t address, uint8_t ip[16])
{
    uint32_t ipv4 = htonl(address);
    if (address_is_ipv6(address)) {
        memcpy(ip, ipv6_addresses[address - ADDRESS_IPV6_LEAST], 16);
        return;
    }
    memcpy(ip, ipv4_prefix, sizeof ipv4_prefix);
    memcpy(ip + 12, &ipv4, sizeof ipv4);
}

socklen_t address_to_socket(uint32_t address, uint16_t port, union socket_address *out)
{
    if (!address_is_ipv6(address)) {
        out->ipv4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
        return sizeof out->ipv4;
    }
    out->ipv6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    address_to_ip(address, out->ipv6.sin6_addr.s6_addr);
    return sizeof out->ipv6;
}

uint32_t address_of_socket(const union socket_address *from, uint16_t *port)
{
    if (from->any.sa_family != AF_INET6) {
        *port = ntohs(from->ipv4.sin_port);
        return ntohl(from->ipv4.sin_addr.s_addr);
    }
    *port = ntohs(from->ipv6.sin6_port);
    return address_find_ip(from->ipv6.sin6_addr.s6_addr);
}

const char *address_text(uint32_t address, char *text)
{
    uint8_t ip[16];
    address_to_ip(address, ip);
    if (!address_is_ip(address))
        snprintf(text, ADDRESS_TEXT, "LID %u", address);
    else if (address_is_ipv6(address))
        inet_ntop(AF_INET6, ip, text, ADDRESS_TEXT);
    else
        inet_ntop(AF_INET, ip + 12, text, ADDRESS_TEXT);
    return text;
}
