/* SPDX-License-Identifier: Apache-2.0 */
/* Reading PGM and PPM (Netpbm: pgm(5), ppm(5)) and writing PNG (libpng). See image.h. */
#include "image.h"

#include "tool/tool.h"

#include <errno.h>
#include <png.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the parser is in the file. */
struct cursor {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    size_t at;
    size_t line; /* from 1 */
};

static weft_status complain(const struct cursor *cursor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static weft_status complain(const struct cursor *cursor, const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return base_fail(WEFT_ERR_ARGUMENT, "%s: byte %zu, line %zu: %s", cursor->name, cursor->at,
                     cursor->line, words);
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static void step(struct cursor *cursor)
{
    if (cursor->bytes[cursor->at++] == '\n')
        cursor->line++;
}

/* White space and comments; a comment runs from # to the end of its line. */
static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->size) {
        if (cursor->bytes[cursor->at] == '#') {
            while (cursor->at < cursor->size && cursor->bytes[cursor->at] != '\n')
                step(cursor);
        } else if (is_space(cursor->bytes[cursor->at])) {
            step(cursor);
        } else {
            return;
        }
    }
}

/* A decimal number of `least` ... `most`, after white space. */
static weft_status read_number(struct cursor *cursor, const char *what, unsigned least,
                               unsigned most, unsigned *number)
{
    skip_space(cursor);
    if (cursor->at == cursor->size)
        return complain(cursor, "the file ends before the %s; is it cut off?", what);
    if (cursor->bytes[cursor->at] < '0' || cursor->bytes[cursor->at] > '9')
        return complain(cursor, "the %s is expected here, a decimal number; found byte 0x%02x",
                        what, cursor->bytes[cursor->at]);
    struct cursor start = *cursor;
    uint64_t value = 0;
    while (cursor->at < cursor->size && cursor->bytes[cursor->at] >= '0' &&
           cursor->bytes[cursor->at] <= '9') {
        value = value * 10 + (cursor->bytes[cursor->at] - '0');
        if (value > most)
            return complain(&start, "the %s is larger than %u", what, most);
        step(cursor);
    }
    if (value < least)
        return complain(&start, "the %s is %u, but must be %u ... %u", what, (unsigned)value, least,
                        most);
    *number = (unsigned)value;
    return WEFT_OK;
}

static uint8_t to_byte(unsigned sample, unsigned brightest)
{
    return (uint8_t)((sample * 255u + brightest / 2) / brightest);
}

static weft_status read_plain(struct cursor *cursor, unsigned brightest, struct image *image)
{
    size_t n = image_samples(image);
    for (size_t i = 0; i < n; i++) {
        unsigned sample;
        weft_status status = read_number(cursor, "next sample", 0, brightest, &sample);
        if (status)
            return status;
        image->samples[i] = to_byte(sample, brightest);
    }
    return WEFT_OK;
}

static weft_status read_raw(struct cursor *cursor, unsigned brightest, struct image *image)
{
    size_t n = image_samples(image);
    for (size_t i = 0; i < n; i++) {
        unsigned sample = cursor->bytes[cursor->at];
        if (brightest > 255)
            sample = sample * 256 + cursor->bytes[cursor->at + 1];
        if (sample > brightest)
            return complain(cursor,
                            "sample %zu is %u, above the largest that the header allows, %u; "
                            "was the file converted as text?",
                            i, sample, brightest);
        image->samples[i] = to_byte(sample, brightest);
        cursor->at += brightest > 255 ? 2 : 1;
    }
    return WEFT_OK;
}

/* Refuses a picture that the rest of the file cannot hold before any memory is asked for. */
static weft_status check_room(struct cursor *cursor, bool plain, unsigned brightest,
                              const struct image *image)
{
    size_t samples = image_samples(image);
    size_t left = cursor->size - cursor->at;
    /* Plain samples are a digit each, with white space between them. */
    size_t needed = plain ? 2 * samples - 1 : samples * (brightest > 255 ? 2 : 1);
    if (left < needed)
        return complain(cursor,
                        "%u x %u pixels of %u sample%s need %s%zu bytes from here, but the file "
                        "has %zu; is it cut off?",
                        image->width, image->height, image->channels,
                        image->channels > 1 ? "s" : "", plain ? "at least " : "", needed, left);
    return WEFT_OK;
}

static bool is_known_form(uint8_t digit)
{
    return digit == '2' || digit == '3' || digit == '5' || digit == '6';
}

static weft_status read_header(struct cursor *cursor, bool *plain, unsigned *brightest,
                               struct image *image)
{
    if (cursor->size < 2 || cursor->bytes[0] != 'P' || !is_known_form(cursor->bytes[1]))
        return complain(cursor, "not a PGM or PPM picture (these begin with P2, P3, P5 or P6); "
                                "convert it first, for example `convert picture.jpg picture.ppm`");
    *plain = cursor->bytes[1] < '5';
    image->channels = cursor->bytes[1] == '3' || cursor->bytes[1] == '6' ? 3 : 1;
    cursor->at = 2;
    if (cursor->at < cursor->size && cursor->bytes[2] != '#' && !is_space(cursor->bytes[2]))
        return complain(cursor, "white space is expected after P%c", cursor->bytes[1]);

    weft_status status = read_number(cursor, "width", 1, IMAGE_LONGEST_SIDE, &image->width);
    if (!status)
        status = read_number(cursor, "height", 1, IMAGE_LONGEST_SIDE, &image->height);
    if (!status && (size_t)image->width * image->height > IMAGE_MOST_PIXELS)
        status = complain(cursor, "%u x %u pixels are more than %d; scale the picture down",
                          image->width, image->height, IMAGE_MOST_PIXELS);
    if (!status)
        status = read_number(cursor, "largest sample", 1, 65535, brightest);
    if (status)
        return status;
    if (cursor->at == cursor->size)
        return complain(cursor, "the file ends after its header; is it cut off?");
    if (!is_space(cursor->bytes[cursor->at]))
        return complain(cursor, "white space is expected after the largest sample");
    step(cursor); /* exactly one byte: what follows may be raw samples */
    return WEFT_OK;
}

weft_status image_parse(const char *name, const void *bytes, size_t size, struct image *image)
{
    struct cursor cursor = {.name = name, .bytes = bytes, .size = size, .line = 1};
    bool plain = false;
    unsigned brightest = 1;
    *image = (struct image){0};
    weft_status status = read_header(&cursor, &plain, &brightest, image);
    if (!status)
        status = check_room(&cursor, plain, brightest, image);
    if (status)
        return status;
    image->samples = malloc(image_samples(image));
    if (!image->samples)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no memory for %zu samples", name,
                         image_samples(image));
    status = plain ? read_plain(&cursor, brightest, image) : read_raw(&cursor, brightest, image);
    if (status)
        image_free(image);
    return status;
}

/* Reads to the end or to the limit; *bytes is the caller's to free. */
static weft_status slurp(const char *path, FILE *file, uint8_t **bytes, size_t *size)
{
    size_t room = 1 << 16;
    *size = 0;
    *bytes = malloc(room);
    while (*bytes) {
        *size += fread(*bytes + *size, 1, room - *size, file);
        if (ferror(file))
            return base_fail(WEFT_ERR_SYSTEM, "%s: reading: %s", path, strerror(errno));
        if (*size < room)
            return WEFT_OK;
        if (room >= IMAGE_MOST_BYTES)
            return base_fail(WEFT_ERR_ARGUMENT,
                             "%s: byte %zu: longer than a picture may be here "
                             "(%d MiB); scale it down",
                             path, *size, IMAGE_MOST_BYTES >> 20);
        room *= 2;
        uint8_t *larger = realloc(*bytes, room);
        if (!larger)
            break;
        *bytes = larger;
    }
    base_fail(WEFT_ERR_NO_MEMORY, "%s: no memory for %zu bytes", path, room);
    return WEFT_ERR_NO_MEMORY;
}

weft_status image_read(const char *path, struct image *image)
{
    *image = (struct image){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return base_fail(WEFT_ERR_SYSTEM, "%s: opening: %s", path, strerror(errno));
    uint8_t *bytes;
    size_t size;
    weft_status status = slurp(path, file, &bytes, &size);
    if (!status)
        status = image_parse(path, bytes, size, image);
    free(bytes);
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
