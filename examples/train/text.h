/* SPDX-License-Identifier: Apache-2.0 */
/* The text that is learned, at every PE: PE 0 reads it and gives it to all. */
#ifndef EXAMPLES_TRAIN_TEXT_H
#define EXAMPLES_TRAIN_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

enum { TEXT_MOST = 16 << 20 }; /* bytes that are read of a file */

struct text {
    uint8_t *ids;    /* symmetric, where kernels reach it: for each byte its number among those that
                        occur */
    uint64_t length; /* of it */
    uint32_t vocabulary;
    uint8_t letters[256]; /* the bytes with these numbers */
    uint32_t crc32c;      /* of the bytes */
};

/* False where the file cannot be read or has fewer than `least` bytes, which PE 0 says.
 * Collective. */
bool text_read(weft_job *job, const char *path, uint64_t least, struct text *text);
weft_status text_free(weft_job *job, struct text *text);

uint32_t text_crc32c(const void *data, size_t bytes);

#endif
