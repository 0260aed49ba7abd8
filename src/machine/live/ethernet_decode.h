/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the kernel's answers about an Ethernet interface. Never reads beyond the given bytes,
 * whatever they contain. ethernet.c makes the requests. */
#ifndef WEFT_MACHINE_ETHERNET_H
#define WEFT_MACHINE_ETHERNET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rate of the fastest link mode in Mbit/s (mode bits as in linux/ethtool.h); 0 when no mode has a
 * rate. */
int64_t ethernet_fastest_mbit(const uint32_t *modes, int words);

/* Makes the rtnetlink request for the IEEE settings of data centre bridging. Returns its bytes; 0
 * when the name is too long or the buffer too small. */
size_t ethernet_pfc_request(const char *interface, void *message, size_t size);

/* Parses the answer: *priorities gets a bit for each priority with flow control (PFC). False when
 * the answer has no PFC settings. */
bool ethernet_pfc_answer(const void *message, size_t bytes, int64_t *priorities);

#endif
