/* SPDX-License-Identifier: Apache-2.0 */
/* Listening at every address of this machine, and telling others what those are. Whoever listens so
 * must know its visitors by something else (rendezvous.h). */
#ifndef WEFT_BOOT_LISTEN_H
#define WEFT_BOOT_LISTEN_H

#include "boot/rendezvous/rendezvous.h"

/* The listening socket, or -1 with errno. *port: 0 for one that the kernel chooses, which it
 * becomes. */
int listen_everywhere(int *port);

/* The addresses of this machine at this port, `most` at most: those of its interfaces that others
 * may reach, and of loopback; none whose meaning ends at a link. Returns how many. */
int listen_addresses(struct rendezvous_address *addresses, int most, int port);

#endif
