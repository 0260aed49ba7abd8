/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own .data and .bss as a symmetric segment: the pages of the main executable's
 * writable data are moved into shared memory at the same addresses. */
#ifndef WEFT_MEMORY_GLOBAL_DATA_H
#define WEFT_MEMORY_GLOBAL_DATA_H

#include "memory/segment.h"

/* Bytes (whole pages) of the main executable's writable data; 0 when it has none. */
size_t global_data_size(void);

/* Makes SEG_DATA: like segment_create(), but segment->base stays where the program has its data,
 * now backed by this PE's slot, with the contents kept. Collective over the node. */
weft_status global_data_share(struct segment *segment, struct boot *boot);

/* Gives the program private pages with the same contents again. */
void global_data_unshare(struct segment *segment);

#endif
