/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures for `weft demo`: reads and writes PNG, with libpng, which trusts nothing in a file.
 * Knows nothing of PEs or of what is done with the picture. */
#ifndef WEFT_CLI_IMAGE_H
#define WEFT_CLI_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* No side is longer, and no picture has more pixels. */
enum { IMAGE_LONGEST_SIDE = 16384, IMAGE_MOST_PIXELS = 1 << 24 };

struct image {
    unsigned width, height;
    unsigned channels; /* 1 grey, 3 red green blue */
    uint8_t *samples;  /* row by row, channels interleaved; 0 dark ... 255 bright */
};

static inline size_t image_samples(const struct image *image)
{
    return (size_t)image->width * image->height * image->channels;
}

/* Reads a PNG file of any kind: palettes become colours, 16 bits 8, and what is transparent shows
 * white. On failure image->samples is NULL and the sentence names file and reason:
 * WEFT_ERR_ARGUMENT (not such a file, damaged, too large), WEFT_ERR_SYSTEM (cannot be read) or
 * WEFT_ERR_NO_MEMORY. */
weft_status image_read(const char *path, struct image *image);

/* Writes an 8-bit PNG, replacing the file. WEFT_ERR_SYSTEM; what was half written is removed. */
weft_status image_write_png(const char *path, const struct image *image);

void image_free(struct image *image);

#endif
