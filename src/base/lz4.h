/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes frames of LZ4 ("LZ4 Frame Format Description" 1.6.4, "LZ4 Block Format"), in which the
 * build has packed the kernels with the program lz4. */
#ifndef WEFT_BASE_LZ4_H
#define WEFT_BASE_LZ4_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes begin as a frame does. */
bool lz4_is_frame(const void *frame, size_t bytes);

/* Returns the content followed by a 0, to be freed, and sets *content_bytes. Checksums are not
 * verified. NULL: no memory, or the frame is damaged or of a kind that is not read here (without
 * the size of its content, or with a dictionary). */
char *lz4_decode(const void *frame, size_t bytes, size_t *content_bytes);

#endif
