/* SPDX-License-Identifier: Apache-2.0 */
/* RoCE v2 as it stands in a UDP datagram: between packets of the HCA (ring.h) and bytes. Knows
 * nothing of sockets, queues or keys. Formats: InfiniBand Architecture Specification, volume 1,
 * chapter 9, and annex A17. */
#ifndef WEFT_HCA_ROCE_FORMAT_H
#define WEFT_HCA_ROCE_FORMAT_H

#include "ring.h"

enum {
    ROCE_PORT = 4791,
    ROCE_TRANSPORT_BYTES = 12,
    ROCE_CHECK_BYTES = 4,
    ROCE_ATOMIC_BYTES =
        32, /* payload of PACKET_ATOMIC: four operands of 8 bytes, in the host's order */
    /* The longest datagram: headers, 4096 bytes, check. */
    ROCE_BYTES_MOST = 4096 + 64,
    /* Numbers of the requester behind which it asks for an acknowledgement in the midst of a
     * message. */
    ROCE_ACK_INTERVAL = 8,
};

/* From where to where: IPv4 addresses and ports, in the host's order. */
struct roce_route {
    uint32_t from, to;
    uint16_t from_port, to_port;
};

/* What the check covers besides the datagram: version 4, "don't fragment", identification 0. */
enum { ROCE_PSEUDO_BYTES = 28 };
void roce_pseudo_header(const struct roce_route *route, size_t bytes,
                        uint8_t out[ROCE_PSEUDO_BYTES]);

/* roce_encode: the datagram of a packet and its payload, with its check; returns its length, or 0
 * for a packet that has no form. `out` has ROCE_MOST bytes. */
size_t roce_encode(const struct packet *p, const uint8_t *payload, const struct roce_route *route,
                   uint8_t *out);

/* roce_is_whole: the datagram's check is right. Only where its sender's identification is 0. */
bool roce_is_whole(const uint8_t *bytes, size_t n, const struct roce_route *route);

/* roce_target: the queue pair that a datagram is for; false: it is none of this protocol. */
bool roce_target(const uint8_t *bytes, size_t n, uint32_t *qpn);

/* roce_decode: the packet in a datagram for which roce_target() was true, for a queue pair of that
 * path MTU. A request that cannot be read becomes PACKET_INVALID. *payload points into `bytes`, or
 * for numbers, which change their order of bytes, into `scratch`. False: nothing for anybody. */
bool roce_decode(const uint8_t *bytes, size_t n, uint32_t mtu, struct packet *p,
                 const uint8_t **payload, uint64_t scratch[4]);

/* roce_is_answer: a packet of this kind goes to a requester. */
bool roce_is_response(uint8_t kind);

/* Whether an atomic of `bytes` has a form that every HCA knows: of 8 bytes and without masks. */
bool roce_is_standard_atomic(bool compare_swap, uint32_t bytes, uint64_t operand_mask,
                             uint64_t compare_mask);

#endif
