/* SPDX-License-Identifier: Apache-2.0 */
/* Images for `weft demo`: reads and writes PNG with libpng, which checks untrusted files.
 * Independent of PEs and of what the demo does with the image. */
#ifndef WEFT_CLI_IMAGE_H
#define WEFT_CLI_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* Limits of a side and of the number of pixels. */
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

/* Reads a PNG file of any kind: palettes become colours, 16 bits become 8, transparent pixels
 * become white. On failure image->samples is NULL and the message names the file and the reason:
 * WEFT_ERR_ARGUMENT (not a PNG file, damaged or too large), WEFT_ERR_SYSTEM (cannot be read) or
 * WEFT_ERR_NO_MEMORY. */
weft_status image_read(const char *path, struct image *image);

/* Writes an 8-bit PNG and replaces the file. WEFT_ERR_SYSTEM: it has removed the incomplete
 * file. */
weft_status image_write_png(const char *path, const struct image *image);

void image_free(struct image *image);

#endif
