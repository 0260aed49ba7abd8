/* SPDX-License-Identifier: Apache-2.0 */
/* The training text at every PE: PE 0 reads it and sends it to all. */
#ifndef EXAMPLES_TRAIN_TEXT_H
#define EXAMPLES_TRAIN_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

enum { TEXT_MOST = 16 << 20 }; /* most bytes that are read of a file */

struct text {
    /* Symmetric, in memory that kernels can access: the number of each byte among the different
     * ones. */
    uint8_t *ids;
    uint64_t length; /* length of the text in bytes */
    uint32_t vocabulary;
    uint8_t letters[256]; /* bytes by number */
    uint32_t crc32c;      /* CRC-32C of the bytes */
};

/* Returns false, and PE 0 prints why, if the file cannot be read or has fewer than `least` bytes.
 * Collective. */
bool text_read(weft_job *job, const char *path, uint64_t least, struct text *text);
weft_status text_free(weft_job *job, struct text *text);

uint32_t text_crc32c(const void *data, size_t bytes);

#endif
