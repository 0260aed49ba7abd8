/* SPDX-License-Identifier: Apache-2.0 */
/* What the port of an InfiniBand adapter could do, from the bytes in which it says so: bytes in,
 * facts out. Whatever the bytes are, nothing is read beyond them. Where they come from:
 * infiniband.c. */
#ifndef WEFT_MACHINE_INFINIBAND_H
#define WEFT_MACHINE_INFINIBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    INFINIBAND_MAD_BYTES = 256,
    INFINIBAND_VPD_BYTES = 192 /* a name, and no more: they come slowly */
};

/* What PortInfo says of a port. `mbit` is its fastest lane times its widest link, in the units of
 * sysfs (FDR: 14 Gbit/s a lane). Boards of half that rate say the same where `halves`: they have
 * all lanes only at lower speeds. */
struct infiniband_port {
    int64_t mbit;
    bool halves;
};

/* The request for PortInfo of the adapter's own port; it does not go out on a link. */
void infiniband_request(uint8_t mad[INFINIBAND_MAD_BYTES], int port);

/* The answer to it. False: it is none, and *why says what it is. */
bool infiniband_answer(const uint8_t *mad, size_t bytes, struct infiniband_port *port,
                       const char **why);

/* The rate in a board's name, which vital product data begin with ("... HDR IB (200Gb/s) and 200GbE
 * ..."): the largest, in Mbit/s; 0: there is none. */
int64_t infiniband_board_mbit(const uint8_t *vpd, size_t bytes);

/* The rate that the port can have; 0 with *why: it cannot be told. `board_mbit` may be 0. */
int64_t infiniband_possible_mbit(const struct infiniband_port *port, int64_t board_mbit,
                                 int64_t active_mbit, const char **why);

#endif
