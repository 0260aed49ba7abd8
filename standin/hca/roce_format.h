/* SPDX-License-Identifier: Apache-2.0 */
/* RoCE v2 packet format: converts between packets of the HCA (ring.h) and UDP payloads. Knows
 * nothing of sockets, queues or keys. Formats: InfiniBand Architecture Specification, volume 1,
 * chapter 9, and annex A17. */
#ifndef WEFT_HCA_ROCE_FORMAT_H
#define WEFT_HCA_ROCE_FORMAT_H

#include "ring.h"

enum {
    ROCE_PORT = 4791,
    ROCE_TRANSPORT_BYTES = 12,
    ROCE_CHECK_BYTES = 4,
    ROCE_ATOMIC_BYTES = 32, /* payload of PACKET_ATOMIC: four 8-byte operands in host byte order */
    /* Longest datagram in bytes: headers, 4096 bytes, ICRC. */
    ROCE_BYTES_MOST = 4096 + 64,
    /* Where the access key is in a DC request, behind the rest of its own header. */
    ROCE_DC_KEY_AT = ROCE_TRANSPORT_BYTES + 12,
    ROCE_DC_KEY_BYTES = 8,
    ROCE_DC_BYTES = 20, /* bytes of that header */
    /* The requester requests an ACK in the middle of a message after this many PSNs. */
    ROCE_ACK_INTERVAL = 8,
};

/* Source and destination: addresses (address.h), both IPv4 or both IPv6, and UDP ports in host byte
 * order. */
struct roce_route {
    uint32_t from, to;
    uint16_t from_port, to_port;
};

/* The headers of IP and UDP, which the ICRC covers besides the datagram. IPv4: "don't fragment",
 * identification 0. Returns their bytes. */
enum { ROCE_PSEUDO_BYTES_MOST = 48 };
size_t roce_pseudo_header(const struct roce_route *route, size_t bytes,
                          uint8_t out[ROCE_PSEUDO_BYTES_MOST]);

/* A DC request is an opcode of this HCA and a header of its own before those of the RC request: RC
 * opcode; log2 of the path MTU; PSN of the first packet of the connection and source QP, 3 bytes
 * each; number of the connection, 4 bytes; access key. A packet opens its connection if none of it
 * has arrived before, so that each may be lost, repeated or late. Responses are those of RC. */

/* roce_encode: writes the datagram of a packet and its payload with ICRC. Returns its length in
 * bytes, or 0 for a packet without a format. `out` has ROCE_BYTES_MOST bytes. */
size_t roce_encode(const struct packet *p, const uint8_t *payload, const struct roce_route *route,
                   uint8_t *out);

/* roce_is_whole: returns true if the ICRC is right. Valid only if the sender's IPv4 identification
 * is 0. */
bool roce_is_whole(const uint8_t *bytes, size_t n, const struct roce_route *route);

/* roce_target: gets the destination QP of a datagram. False: it is not a RoCE packet. */
bool roce_target(const uint8_t *bytes, size_t n, uint32_t *qpn);

/* roce_decode: decodes a datagram for which roce_target() returned true, for a QP of that path MTU.
 * A request that cannot be decoded becomes PACKET_INVALID. *payload points into `bytes`, or into
 * `scratch` for values whose byte order changes. False: the datagram is ignored. */
bool roce_decode(const uint8_t *bytes, size_t n, uint32_t mtu, struct packet *p,
                 const uint8_t **payload, uint64_t scratch[4]);

/* roce_is_response: returns true if packets of this kind go to a requester. */
bool roce_is_response(uint8_t kind);

/* Returns true if an atomic has a standard packet format: 8 bytes and no masks. */
bool roce_is_standard_atomic(bool compare_swap, uint32_t bytes, uint64_t operand_mask,
                             uint64_t compare_mask);

#endif
