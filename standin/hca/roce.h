/* SPDX-License-Identifier: Apache-2.0 */
/* Interface of RoCE v2 over UDP. For the engine a RoCE link is like any other, two pairs of rings;
 * this module takes the place of the other process at their remote ends. */
#ifndef WEFT_HCA_ROCE_H
#define WEFT_HCA_ROCE_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct link_in;
struct link_out;
struct qp;

/* roce_open: binds a free address of SOFT_HCA_ADDRESS, if there are any. Returns 0, or -1 with
 * errno and a message on standard error. */
int roce_open(struct device *d);
void roce_close(struct device *d);

/* The device's IP address (address.h), 0: none; and the largest path MTU in bytes that its network
 * carries without fragmentation. */
uint32_t roce_address(const struct device *d);
uint32_t roce_mtu(const struct device *d);

/* Whether the interface of the device's address has a carrier; true without such an interface. */
bool roce_has_carrier(const struct device *d);

/* roce_attach: attaches to the remote ends of a pair of links. False: no memory. */
bool roce_attach(struct device *d, struct link_out *out, struct link_in *in);
void roce_detach(struct link_out *out);

/* roce_receive: moves received packets into the rings. roce_send: sends the packets in the rings.
 * True: there were some. */
bool roce_receive(struct device *d);
bool roce_send(struct device *d);

/* roce_handle_datagram: handles a datagram received from that address and port. */
void roce_handle_datagram(struct device *d, const uint8_t *bytes, uint32_t n, uint32_t from,
                          uint16_t port);

/* Returns the number of packets that a QP may have outstanding; 0: no limit. */
uint32_t roce_window(const struct qp *qp);

/* roce_query_peer: returns whether the peer is a software HCA, which knows packet formats beyond
 * the standard. The peer is asked repeatedly until it responds or a limit is reached. */
enum roce_peer_kind { ROCE_PEER_UNKNOWN, ROCE_PEER_SOFT, ROCE_PEER_OTHER };
enum roce_peer_kind roce_query_peer(struct qp *qp);

#endif
