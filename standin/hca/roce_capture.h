/* SPDX-License-Identifier: Apache-2.0 */
/* Captures the RoCE packets in a pcap file of IP packets, which tshark and others read. */
#ifndef WEFT_HCA_ROCE_CAPTURE_H
#define WEFT_HCA_ROCE_CAPTURE_H

#include "roce_format.h"

struct roce_capture;

/* roce_capture_open: creates the file NAME.PID.DEVICE.pcap, of IPv6 packets or of IPv4 packets.
 * NULL: no name, or the file cannot be created, which is reported on standard error. */
struct roce_capture *roce_capture_open(const char *name, unsigned device, bool ipv6);
void roce_capture_close(struct roce_capture *c);
void roce_capture_add(struct roce_capture *c, const struct roce_route *route, const uint8_t *bytes,
                      uint32_t n);

#endif
