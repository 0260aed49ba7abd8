/* SPDX-License-Identifier: Apache-2.0 */
/* Highest supported rate of an InfiniBand port, from PortInfo and the board's vital product data
 * (VPD). Never reads beyond the given bytes, whatever they contain. infiniband.c makes the
 * requests. */
#ifndef WEFT_MACHINE_INFINIBAND_H
#define WEFT_MACHINE_INFINIBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    INFINIBAND_MAD_BYTES = 256,
    INFINIBAND_VPD_BYTES = 192 /* enough for the board name; reading VPD is slow */
};

/* Rate of a port from PortInfo. */
struct infiniband_port {
    int64_t
        mbit;    /* fastest lane times widest link, in the units of sysfs (FDR: 14 Gbit/s a lane) */
    bool halves; /* boards of half that rate report the same: they have all lanes at lower speeds */
};

/* Makes the request for PortInfo of the NIC's own port; it does not leave the NIC. */
void infiniband_request(uint8_t mad[INFINIBAND_MAD_BYTES], int port);

/* Parses the answer. False when it is not one; *why has the reason. */
bool infiniband_answer(const uint8_t *mad, size_t bytes, struct infiniband_port *port,
                       const char **why);

/* Largest rate in Mbit/s in a board name, with which VPD begins ("... HDR IB (200Gb/s) and 200GbE
 * ..."); 0 when there is none. */
int64_t infiniband_board_mbit(const uint8_t *vpd, size_t bytes);

/* Highest supported rate of the port in Mbit/s; 0 with the reason in *why when it cannot be
 * determined. `board_mbit`: rate of the board name, 0 when unknown. */
int64_t infiniband_possible_mbit(const struct infiniband_port *port, int64_t board_mbit,
                                 int64_t active_mbit, const char **why);

#endif
