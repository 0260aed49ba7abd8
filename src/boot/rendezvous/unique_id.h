/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of a unique id (weft_unique_id_get()). */
#ifndef WEFT_BOOT_UNIQUE_ID_H
#define WEFT_BOOT_UNIQUE_ID_H

#include "boot/rendezvous/rendezvous.h"

/* A unique id of NVSHMEM has 124 bytes for its contents. */
enum { UNIQUE_ID_BYTES = 124, UNIQUE_ID_SECRET_BYTES = 16 };

weft_status unique_id_make(weft_unique_id *id);

/* Whether unique_id_make() made it, and it is complete. */
bool unique_id_good(const weft_unique_id *id);

/* Reads a valid id: stores the addresses at which PE 0 listens, and returns their number; copies
 * the secret. *keyed: false when the id has no secret. */
int unique_id_read(const weft_unique_id *id, struct rendezvous_address *addresses, int most,
                   uint8_t secret[UNIQUE_ID_SECRET_BYTES], bool *keyed);
int unique_id_port(const weft_unique_id *id);

#endif
