/* SPDX-License-Identifier: Apache-2.0 */
/* The program's .data and .bss as a symmetric segment: the pages of the main executable's writable
 * data are replaced by shared memory at the same addresses. */
#ifndef WEFT_MEMORY_GLOBAL_DATA_H
#define WEFT_MEMORY_GLOBAL_DATA_H

#include "memory/segment.h"

/* Size of the main executable's writable data in bytes (whole pages); 0: it has none. */
size_t global_data_size(void);

/* Creates SEG_DATA like segment_create(), but segment->base is the address of the program's data.
 * This PE's slot now backs the data; the contents are kept. Collective over the node. */
weft_status global_data_share(struct segment *segment, struct boot *boot);

/* Replaces the shared pages by private pages with the same contents. */
void global_data_unshare(struct segment *segment);

#endif
