/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of the wire: sends and receives single RoCE v2 datagrams. It has its own definition
 * of the format and shares no code with the HCA; it computes the CRC bit by bit. */
#ifndef ROCE_PEER_H
#define ROCE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROCE_PEER_QPN = 0x123456, ROCE_PEER_MTU = 1024 };

struct frame {
    uint8_t opcode;
    bool ask;
    uint32_t qpn, psn;
    uint64_t address; /* RETH, AtomicETH */
    uint32_t rkey, length;
    uint64_t swap_add, compare;
    uint8_t syndrome; /* AETH */
    uint32_t msn;
    uint64_t value;
    uint32_t word; /* immediate data */
    uint32_t bytes;
    uint8_t data[ROCE_PEER_MTU + 8];
    bool damaged; /* sent with a wrong CRC */
    bool whole;   /* received with a correct CRC */
    unsigned pad;
    uint16_t from_port; /* received */
};

/* roce_peer_open: opens a socket on a free address of 127.0.0.0/8; *address: that address. */
int roce_peer_open(uint32_t *address);

void roce_peer_send(int s, uint32_t from, uint32_t to, const struct frame *f);

/* roce_peer_receive: the next datagram within `ms` ms; false: none. */
bool roce_peer_receive(int s, uint32_t own, unsigned ms, struct frame *f);

#endif
