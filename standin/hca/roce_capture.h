/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over the wire, in a file that tshark and the like read (pcap, of IPv4 packets). */
#ifndef WEFT_HCA_ROCE_CAPTURE_H
#define WEFT_HCA_ROCE_CAPTURE_H

#include "roce_format.h"

struct roce_capture;

/* roce_capture_open: a file NAME.PID.DEVICE.pcap; NULL: no name, or the file cannot be made, which
 * is said. */
struct roce_capture *roce_capture_open(const char *name, unsigned device);
void roce_capture_close(struct roce_capture *c);
void roce_capture_add(struct roce_capture *c, const struct roce_route *route, const uint8_t *bytes,
                      uint32_t n);

#endif
