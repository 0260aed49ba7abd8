/* SPDX-License-Identifier: Apache-2.0 */
/* Listens at every address of this machine, and lists these addresses. A process that listens in
 * this way must authenticate its peers (rendezvous.h). */
#ifndef WEFT_BOOT_LISTEN_H
#define WEFT_BOOT_LISTEN_H

#include "boot/rendezvous/rendezvous.h"

/* Returns the listening socket, or -1 with errno. *port: 0 lets the kernel select a port, which
 * *port becomes. */
int listen_everywhere(int *port);

/* Stores at most `most` addresses of this machine with this port, and returns their number: of
 * interfaces that other machines may reach, and of loopback. Link-local addresses are left out. */
int listen_addresses(struct rendezvous_address *addresses, int most, int port);

#endif
