/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures for `weft demo`: reads the Netpbm formats PGM and PPM (plain P2 and P3, raw P5 and P6),
 * writes PNG. The bytes of a picture come from anybody, so the parser trusts nothing in them.
 * Knows nothing of PEs or of what is done with the picture. */
#ifndef WEFT_CLI_IMAGE_H
#define WEFT_CLI_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* No side is longer, and no picture has more pixels than fit 256 MiB of file. */
enum { IMAGE_LONGEST_SIDE = 16384, IMAGE_MOST_PIXELS = 1 << 24, IMAGE_MOST_BYTES = 256 << 20 };

struct image {
    unsigned width, height;
    unsigned channels; /* 1 grey, 3 red green blue */
    uint8_t *samples;  /* row by row, channels interleaved; 0 dark ... 255 bright */
};

static inline size_t image_samples(const struct image *image)
{
    return (size_t)image->width * image->height * image->channels;
}

/* Makes a picture from the bytes of a PGM or PPM file; samples are scaled to 0 ... 255, rounded.
 * `name` stands in messages. On failure WEFT_ERR_ARGUMENT (not such a file; the sentence names
 * byte, line and remedy) or WEFT_ERR_NO_MEMORY, and image->samples is NULL. */
weft_status image_parse(const char *name, const void *bytes, size_t size, struct image *image);

/* The same for a file. Also WEFT_ERR_SYSTEM when it cannot be read. */
weft_status image_read(const char *path, struct image *image);

/* Writes an 8-bit PNG, replacing the file. WEFT_ERR_SYSTEM; what was half written is removed. */
weft_status image_write_png(const char *path, const struct image *image);

void image_free(struct image *image);

#endif
