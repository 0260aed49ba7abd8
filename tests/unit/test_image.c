/* SPDX-License-Identifier: Apache-2.0 */
/* The image reader: all kinds of PNG, and files that are truncated, damaged, too large or not
 * images. */
#include "image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <png.h>

#include <cmocka.h>

static char path[] = "/tmp/weft_test_image_XXXXXX";

static void store(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Makes a PNG from samples in a libpng format. */
static void *make_png(unsigned width, unsigned height, unsigned format, const void *samples,
                      const void *colours, unsigned n_colours, size_t *size)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = width,
                     .height = height,
                     .format = format,
                     .colormap_entries = n_colours};
    assert_true(png_image_write_to_memory(&png, NULL, size, 0, samples, 0, colours));
    void *bytes = malloc(*size);
    assert_true(png_image_write_to_memory(&png, bytes, size, 0, samples, 0, colours));
    return bytes;
}

static void reads_as(unsigned width, unsigned height, unsigned channels, const char *expected)
{
    struct image image;
    assert_int_equal(image_read(path, &image), WEFT_OK);
    assert_int_equal(image.width, width);
    assert_int_equal(image.height, height);
    assert_int_equal(image.channels, channels);
    assert_memory_equal(image.samples, expected, image_samples(&image));
    image_free(&image);
}

/* Checks that the file is rejected, nothing is allocated, and the message names the file and the
 * reason. */
static void is_refused(weft_status status, const char *why)
{
    struct image image;
    assert_int_equal(image_read(path, &image), status);
    assert_null(image.samples);
    if (!strstr(weft_last_error(), path) || !strstr(weft_last_error(), why))
        fail_msg("\"%s\" should name \"%s\" and \"%s\"", weft_last_error(), path, why);
}

static void every_kind_becomes_bytes(void **state)
{
    static const uint16_t deep[] = {0, 65535};
    static const struct {
        unsigned format, width, height, channels;
        const void *samples;
        const char *colours;
        const char *expected;
    } cases[] = {
        {PNG_FORMAT_GRAY, 3, 2, 1, "\0\012\377\007\010\011", NULL, "\0\012\377\007\010\011"},
        {PNG_FORMAT_RGB, 1, 2, 3, "\0\012\377\007\010\011", NULL, "\0\012\377\007\010\011"},
        {PNG_FORMAT_RGBA, 2, 1, 3, "\1\2\3\377\1\2\3\0", NULL, "\1\2\3\377\377\377"},
        {PNG_FORMAT_RGB_COLORMAP, 3, 1, 3, "\1\0\1", "\1\2\3\4\5\6", "\4\5\6\1\2\3\4\5\6"},
        {PNG_FORMAT_LINEAR_Y, 2, 1, 1, deep, NULL, "\0\377"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t size;
        void *bytes = make_png(cases[i].width, cases[i].height, cases[i].format, cases[i].samples,
                               cases[i].colours, cases[i].colours ? 2 : 0, &size);
        store(bytes, size);
        free(bytes);
        reads_as(cases[i].width, cases[i].height, cases[i].channels, cases[i].expected);
    }
}

static void other_files_are_refused(void **state)
{
    static const char *const others[] = {"", "P", "P6\n1 1\n255\nabc", "GIF89a", "\211PNG\r\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        store(others[i], strlen(others[i]));
        is_refused(WEFT_ERR_ARGUMENT, "convert picture.jpg picture.png");
    }
}

/* The file truncated at every length: it is rejected, or read completely if all samples are
 * there. */
static void cut_off_files_are_refused(void **state)
{
    size_t size, refused = 0;
    uint8_t *bytes = make_png(3, 2, PNG_FORMAT_GRAY, "abcdef", NULL, 0, &size);
    for (size_t left = 0; left < size; left++) {
        struct image image;
        store(bytes, left);
        if (image_read(path, &image) == WEFT_OK) {
            assert_memory_equal(image.samples, "abcdef", 6);
            image_free(&image);
            continue;
        }
        is_refused(WEFT_ERR_ARGUMENT, "");
        refused++;
    }
    assert_true(refused > size / 2);
    free(bytes);
}

static void damaged_files_are_refused(void **state)
{
    size_t size;
    uint8_t *bytes = make_png(3, 2, PNG_FORMAT_GRAY, "abcdef", NULL, 0, &size);
    uint8_t *data = memmem(bytes, size, "IDAT", 4);
    assert_non_null(data);
    data[6] ^= 0x55;
    store(bytes, size);
    is_refused(WEFT_ERR_ARGUMENT, "damaged or truncated: ");
    bytes[17] ^= 0x55; /* the width, whose checksum is then wrong */
    store(bytes, size);
    is_refused(WEFT_ERR_ARGUMENT, "not a PNG image: ");
    free(bytes);
}

static void large_pictures_are_refused(void **state)
{
    size_t size;
    uint8_t *samples = calloc(1, 4097 * 4097);
    void *bytes = make_png(16385, 1, PNG_FORMAT_GRAY, samples, NULL, 0, &size);
    store(bytes, size);
    free(bytes);
    is_refused(WEFT_ERR_ARGUMENT, "16385 x 1 pixels: no side may be longer than 16384");
    bytes = make_png(4097, 4097, PNG_FORMAT_GRAY, samples, NULL, 0, &size);
    store(bytes, size);
    free(bytes);
    is_refused(WEFT_ERR_ARGUMENT, "4097 x 4097 pixels are more than 16777216; scale");
    free(samples);
}

static void unreadable_files_name_the_reason(void **state)
{
    struct image image;
    assert_int_equal(image_read("/nonexistent/x.png", &image), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "/nonexistent/x.png: opening: No such file"));
    assert_int_equal(image_read("/", &image), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "directory"));
    assert_null(image.samples);
}

static void what_is_written_is_read(void **state)
{
    uint8_t samples[] = {0, 10, 255, 7, 8, 9};
    struct image colour = {1, 2, 3, samples}, grey = {3, 2, 1, samples};
    assert_int_equal(image_write_png(path, &colour), WEFT_OK);
    reads_as(1, 2, 3, (const char *)samples);
    assert_int_equal(image_write_png(path, &grey), WEFT_OK);
    reads_as(3, 2, 1, (const char *)samples);
}

static void a_failed_write_leaves_no_file(void **state)
{
    uint8_t sample = 1;
    struct image image = {1, 1, 1, &sample};
    assert_int_equal(image_write_png("/nonexistent/x.png", &image), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "/nonexistent/x.png"));
    char full[sizeof path + 8]; /* a link to the device; the failed write removes it */
    snprintf(full, sizeof full, "%s.full", path);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(symlink("/dev/full", full), 0);
        assert_int_equal(image_write_png(full, &image), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(weft_last_error(), ".full: writing: No space left on device"));
        assert_int_equal(access(full, F_OK), -1);
    }
}

static int make_file(void **state)
{
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_becomes_bytes),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(cut_off_files_are_refused),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(large_pictures_are_refused),
        cmocka_unit_test(unreadable_files_name_the_reason),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_failed_write_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
