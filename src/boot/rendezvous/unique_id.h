/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a unique id (weft_unique_id_get()). */
#ifndef WEFT_BOOT_UNIQUE_ID_H
#define WEFT_BOOT_UNIQUE_ID_H

#include "boot/rendezvous/rendezvous.h"

/* An id of NVSHMEM has 124 bytes for what stands in it. */
enum { UNIQUE_ID_BYTES = 124, UNIQUE_ID_SECRET_BYTES = 16 };

weft_status unique_id_make(weft_unique_id *id);

/* It was made by unique_id_make(), and is whole. */
bool unique_id_good(const weft_unique_id *id);

/* Of a good one: where PE 0 listens (returns how many addresses), and the secret; *keyed: false
 * where there is none. */
int unique_id_read(const weft_unique_id *id, struct rendezvous_address *addresses, int most,
                   uint8_t secret[UNIQUE_ID_SECRET_BYTES], bool *keyed);
int unique_id_port(const weft_unique_id *id);

#endif
