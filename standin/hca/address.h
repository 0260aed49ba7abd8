/* SPDX-License-Identifier: Apache-2.0 */
/* A port address is one number: a LID, an IPv4 address in host byte order, which is larger, or the
 * number of an IPv6 address in a table of the process, which is larger still. */
#ifndef WEFT_HCA_ADDRESS_H
#define WEFT_HCA_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { ADDRESS_IPV4_LEAST = 1 << 24, ADDRESS_IPV6_MOST = 4096 };
#define ADDRESS_IPV6_LEAST 0xf0000000u /* 240.0.0.0: no host has an IPv4 address from here on */

static inline bool address_is_ip(uint32_t address)
{
    return address >= ADDRESS_IPV4_LEAST;
}

static inline bool address_is_ipv6(uint32_t address)
{
    return address >= ADDRESS_IPV6_LEAST;
}

/* address_of_ip: returns the number of an IP address; IPv4 as ::ffff:a.b.c.d. An IPv6 address gets
 * a number when it is first asked for. 0: not an address of one host; a link-local one, which needs
 * an interface; or the table is full. address_find_ip: the same for addresses that have a number
 * already, else 0. */
uint32_t address_of_ip(const uint8_t ip[16]);
uint32_t address_find_ip(const uint8_t ip[16]);
void address_to_ip(uint32_t address, uint8_t ip[16]);

/* address_to_socket: fills in the socket address and returns its bytes. address_of_socket: returns
 * the number of a peer, as address_find_ip() does, and its port in host byte order. */
union socket_address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};
socklen_t address_to_socket(uint32_t address, uint16_t port, union socket_address *out);
uint32_t address_of_socket(const union socket_address *from, uint16_t *port);

/* address_text: "LID 5", "10.0.0.1" or "fd00::1", in `text`. */
enum { ADDRESS_TEXT = INET6_ADDRSTRLEN };
const char *address_text(uint32_t address, char *text);

#endif
