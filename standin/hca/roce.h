/* SPDX-License-Identifier: Apache-2.0 */
/* The wire of RoCE v2 over UDP: what the rest of the HCA knows of it. To the engine it is a link as
 * any other, two pairs of rings; this side stands at their far ends in place of another process. */
#ifndef WEFT_HCA_ROCE_H
#define WEFT_HCA_ROCE_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct link_in;
struct link_out;
struct qp;

/* An address of a port is one number: a LID, or an IPv4 address in the host's order, which is
 * larger. */
enum { ADDRESS_IPV4_LEAST = 1 << 24 };
static inline bool address_is_ipv4(uint32_t address)
{
    return address >= ADDRESS_IPV4_LEAST;
}

/* roce_open: takes an address of SOFT_HCA_ADDRESS that is free, if there are any. 0, or -1 with
 * errno and a sentence on standard error. */
int roce_open(struct device *d);
void roce_close(struct device *d);

/* The device's address, 0: none; and the largest path MTU, in bytes, that the network there carries
 * whole. */
uint32_t roce_address(const struct device *d);
uint32_t roce_mtu(const struct device *d);

/* roce_join: stands at the far ends of a pair of links. False: no memory. */
bool roce_attach(struct device *d, struct link_out *out, struct link_in *in);
void roce_detach(struct link_out *out);

/* roce_receive: brings what has come into the rings; roce_send: sends what stands in them. True:
 * there was some. */
bool roce_receive(struct device *d);
bool roce_send(struct device *d);

/* roce_take: one datagram that came from that address and port. */
void roce_handle_datagram(struct device *d, const uint8_t *bytes, uint32_t n, uint32_t from,
                          uint16_t port);

/* Packets that a queue may have under way, in numbers; 0: any. */
uint32_t roce_window(const struct qp *qp);

/* roce_knows_own: is the other end an HCA of this kind, with the forms that are not of the
 * standard? It is asked until it answers, or has not for so long that it is another. */
enum roce_peer_kind { ROCE_PEER_UNKNOWN, ROCE_PEER_SOFT, ROCE_PEER_OTHER };
enum roce_peer_kind roce_query_peer(struct qp *qp);

#endif
