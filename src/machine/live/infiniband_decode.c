/* SPDX-License-Identifier: Apache-2.0 */
/* Parses PortInfo and vital product data. See infiniband_decode.h. Source of offsets and numbers:
 * InfiniBand Architecture Specification 1.7, 14.2.1 (subnet management packets) and 14.2.5.6
 * (PortInfo); PCI Local Bus 3.0, appendix I (vital product data). */
#include "machine/live/infiniband_decode.h"

#include <string.h>

enum {
    CLASS_DIRECTED = 0x81,
    METHOD_GET = 1,
    METHOD_GET_RESPONSE = 0x81,
    ATTRIBUTE_PORT_INFO = 0x15,
    DATA = 64, /* of a directed packet; PortInfo begins here */
    PORT_CAPABILITIES = DATA + 20,
    PORT_WIDTH_SUPPORTED = DATA + 30,
    PORT_SPEED_SUPPORTED = DATA + 32, /* upper half */
    PORT_SPEED_EXTENDED = DATA + 62,  /* supported: lower half */
    EXTENDED_SPEEDS = 1 << 14,        /* in the capabilities */
    WIDTH_2X = 1 << 4,
    VPD_IDENTIFIER = 0x82
};

void infiniband_request(uint8_t mad[INFINIBAND_MAD_BYTES], int port)
{
    memset(mad, 0, INFINIBAND_MAD_BYTES);
    mad[0] = 1; /* version of packets, and of the class */
    mad[1] = CLASS_DIRECTED;
    mad[2] = 1;
    mad[3] = METHOD_GET;
    mad[15] = 1; /* number of the transaction */
    mad[17] = ATTRIBUTE_PORT_INFO;
    mad[23] = (uint8_t)port;
    memset(mad + 32, 0xff, 4); /* directed route without hops: permissive LIDs */
}

static int64_t lane_mbit(const uint8_t *mad)
{
    static const int plain[] = {2500, 5000, 10000}, extended[] = {14000, 25000, 50000, 100000};
    int64_t best = 0;
    uint32_t capabilities = (uint32_t)mad[PORT_CAPABILITIES] << 24 |
                            (uint32_t)mad[PORT_CAPABILITIES + 1] << 16 |
                            (uint32_t)mad[PORT_CAPABILITIES + 2] << 8 | mad[PORT_CAPABILITIES + 3];
    for (int bit = 0; bit < 3; bit++)
        if (mad[PORT_SPEED_SUPPORTED] >> 4 >> bit & 1)
            best = plain[bit];
    for (int bit = 0; bit < 4 && (capabilities & EXTENDED_SPEEDS); bit++)
        if (mad[PORT_SPEED_EXTENDED] >> bit & 1)
            best = extended[bit];
    return best;
}

static int lanes(uint8_t widths)
{
    static const struct {
        uint8_t bit;
        int lanes;
    } table[] = {{1 << 3, 12}, {1 << 2, 8}, {1 << 1, 4}, {WIDTH_2X, 2}, {1 << 0, 1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (widths & table[i].bit)
            return table[i].lanes;
    return 0;
}

bool infiniband_answer(const uint8_t *mad, size_t bytes, struct infiniband_port *port,
                       const char **why)
{
    *port = (struct infiniband_port){.mbit = 0};
    if (bytes < INFINIBAND_MAD_BYTES) {
        *why = "the answer is truncated";
        return false;
    }
    if (mad[1] != CLASS_DIRECTED || mad[3] != METHOD_GET_RESPONSE || mad[16] ||
        mad[17] != ATTRIBUTE_PORT_INFO) {
        *why = "the answer belongs to another request";
        return false;
    }
    if ((mad[4] & 0x7f) || mad[5]) { /* the upper bit is the direction */
        *why = "the NIC refused the request";
        return false;
    }
    uint8_t widths = mad[PORT_WIDTH_SUPPORTED];
    port->mbit = lane_mbit(mad) * lanes(widths);
    port->halves = (widths & WIDTH_2X) && lanes(widths) > 2;
    *why = port->mbit ? NULL : "the port reports no speed or no width";
    return port->mbit > 0;
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

int64_t infiniband_board_mbit(const uint8_t *vpd, size_t bytes)
{
    int64_t best = 0;
    if (bytes < 3 || vpd[0] != VPD_IDENTIFIER)
        return 0;
    size_t end = 3 + (vpd[1] | (size_t)vpd[2] << 8);
    end = end < bytes ? end : bytes;
    for (size_t at = 3; at < end; at++) {
        int64_t rate = 0;
        size_t from = at;
        while (at < end && is_digit(vpd[at]) && at - from < 5)
            rate = 10 * rate + vpd[at++] - '0';
        /* "Gb/s", "GbE", "Gbps"; "4.0 GT/s" is of PCIe */
        if (at > from && at + 1 < end && vpd[at] == 'G' && vpd[at + 1] == 'b' && rate * 1000 > best)
            best = rate * 1000;
    }
    return best;
}

int64_t infiniband_possible_mbit(const struct infiniband_port *port, int64_t board_mbit,
                                 int64_t active_mbit, const char **why)
{
    int64_t possible = board_mbit && board_mbit < port->mbit ? board_mbit : port->mbit;
    *why = NULL;
    if (active_mbit > possible)
        *why = "the port is faster than all speeds in the table of this weft";
    else if (!board_mbit && port->halves && active_mbit * 2 <= port->mbit)
        *why =
            "boards of half the rate report the same speeds and widths, and the board name cannot "
            "be read";
    return *why ? 0 : possible;
}
