/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel answers of an Ethernet interface, taken apart: bytes in, facts out. Whatever the
 * bytes are, nothing is read beyond them. Where they come from: ethernet.c. */
#ifndef WEFT_MACHINE_ETHERNET_H
#define WEFT_MACHINE_ETHERNET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fastest of the link modes (bits as in linux/ethtool.h), in Mbit/s; 0: none that has a
 * speed. */
int64_t ethernet_fastest_mbit(const uint32_t *modes, int words);

/* The request by which rtnetlink tells the IEEE settings of data centre bridging. Returns its
 * bytes; 0: the name or the room is too long or small. */
size_t ethernet_pfc_request(const char *interface, void *message, size_t size);

/* The answer: *priorities has a bit for each priority with flow control. False: the answer has
 * none. */
bool ethernet_pfc_answer(const void *message, size_t bytes, int64_t *priorities);

#endif
