/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing PNG through libpng's simplified interface. See image.h. */
#include "image.h"

#include "tool/tool.h"

#include <errno.h>
#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Checks the size that libpng read from the header, before memory is allocated. */
static weft_status check_size(const char *path, const png_image *png)
{
    if (png->width > IMAGE_LONGEST_SIDE || png->height > IMAGE_LONGEST_SIDE)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: %u x %u pixels: no side may be longer than %d; scale the image down",
                         path, png->width, png->height, IMAGE_LONGEST_SIDE);
    if ((size_t)png->width * png->height > IMAGE_MOST_PIXELS)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: %u x %u pixels are more than %d; scale the image down", path,
                         png->width, png->height, IMAGE_MOST_PIXELS);
    return WEFT_OK;
}

static weft_status read_samples(const char *path, png_image *png, struct image *image)
{
    static const png_color white = {255, 255, 255};
    bool colour = png->format & PNG_FORMAT_FLAG_COLOR;
    png->format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    image->width = png->width;
    image->height = png->height;
    image->channels = colour ? 3 : 1;
    image->samples = malloc(image_samples(image));
    if (!image->samples)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no memory for %zu samples", path,
                         image_samples(image));
    if (png_image_finish_read(png, &white, image->samples, 0, NULL))
        return WEFT_OK;
    image_free(image);
    return base_fail(WEFT_ERR_ARGUMENT, "%s: the image is damaged or truncated: %s", path,
                     png->message);
}

/* Reads the first byte, to get the error of a file that cannot be read, such as a folder. */
static weft_status begin_png(const char *path, FILE *file, png_image *png)
{
    int byte = getc(file);
    if (byte == EOF && ferror(file))
        return base_fail(WEFT_ERR_SYSTEM, "%s: reading: %s", path, strerror(errno));
    ungetc(byte, file);
    if (png_image_begin_read_from_stdio(png, file))
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT,
                     "%s: not a PNG image: %s; convert it first, for example `convert "
                     "picture.jpg picture.png`",
                     path, png->message);
}

weft_status image_read(const char *path, struct image *image)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    *image = (struct image){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return base_fail(WEFT_ERR_SYSTEM, "%s: opening: %s", path, strerror(errno));
    weft_status status = begin_png(path, file, &png);
    if (!status)
        status = check_size(path, &png);
    if (!status)
        status = read_samples(path, &png, image);
    png_image_free(&png);
    fclose(file);
    return status;
}

weft_status image_write_png(const char *path, const struct image *image)
{
    png_image png = {
        .version = PNG_IMAGE_VERSION,
        .width = image->width,
        .height = image->height,
        .format = image->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY,
    };
    FILE *file = fopen(path, "wb");
    if (!file)
        return base_fail(WEFT_ERR_SYSTEM, "%s: opening for writing: %s", path, strerror(errno));
    bool written = png_image_write_to_stdio(&png, file, 0, image->samples, 0, NULL);
    bool closed = fclose(file) == 0;
    if (written && closed)
        return WEFT_OK;
    weft_status status = base_fail(WEFT_ERR_SYSTEM, "%s: writing: %s", path,
                                   written ? strerror(errno) : png.message);
    unlink(path);
    return status;
}

void image_free(struct image *image)
{
    free(image->samples);
    image->samples = NULL;
}
