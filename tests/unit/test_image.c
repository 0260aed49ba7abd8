/* SPDX-License-Identifier: Apache-2.0 */
/* The picture reader: the four formats, scaling, and files that are cut off, absurd or hostile. */
#include "image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static weft_status parse(const char *text, struct image *image)
{
    return image_parse("test.pgm", text, strlen(text), image);
}

/* The file is refused, nothing is allocated, and the sentence says where and why. */
static void refused(const char *text, size_t size, const char *where, const char *why)
{
    struct image image;
    /* A copy of exactly this size, so that AddressSanitizer sees a byte read too many. */
    char *copy = malloc(size + !size);
    memcpy(copy, text, size);
    assert_int_equal(image_parse("test.pgm", copy, size, &image), WEFT_ERR_ARGUMENT);
    free(copy);
    assert_null(image.samples);
    assert_non_null(strstr(weft_last_error(), "test.pgm: "));
    if (!strstr(weft_last_error(), where) || !strstr(weft_last_error(), why))
        fail_msg("\"%s\" should name \"%s\" and \"%s\"", weft_last_error(), where, why);
}

#define REFUSED(text, where, why) refused(text, sizeof(text) - 1, where, why)

static void plain_and_raw_forms_give_the_same(void **state)
{
    static const uint8_t expected[] = {0, 10, 255, 7, 8, 9};
    static const char raw_grey[] = "P5 3 2 255\n\0\012\377\007\010\011";
    static const char raw_colour[] = "P6\n1 2\n255\n\0\012\377\007\010\011";
    struct image image;
    assert_int_equal(parse("P2\n3 2\n255\n0 10 255\n7 8 9\n", &image), WEFT_OK);
    assert_int_equal(image.width, 3);
    assert_int_equal(image.height, 2);
    assert_int_equal(image.channels, 1);
    assert_memory_equal(image.samples, expected, sizeof expected);
    image_free(&image);

    assert_int_equal(parse("P3 1 2 255 0 10 255 7 8 9", &image), WEFT_OK);
    assert_int_equal(image.channels, 3);
    assert_memory_equal(image.samples, expected, sizeof expected);
    image_free(&image);

    assert_int_equal(image_parse("a", raw_grey, sizeof raw_grey - 1, &image), WEFT_OK);
    assert_int_equal(image.channels, 1);
    assert_memory_equal(image.samples, expected, sizeof expected);
    image_free(&image);

    assert_int_equal(image_parse("a", raw_colour, sizeof raw_colour - 1, &image), WEFT_OK);
    assert_int_equal(image.channels, 3);
    assert_int_equal(image.height, 2);
    assert_memory_equal(image.samples, expected, sizeof expected);
    image_free(&image);
}

static void comments_and_odd_white_space_are_allowed(void **state)
{
    struct image image;
    assert_int_equal(parse("P2# one\n#two\r\n\t2 # 99\n1\v3 # x\n0\f3", &image), WEFT_OK);
    assert_int_equal(image.width, 2);
    assert_int_equal(image.height, 1);
    assert_int_equal(image.samples[1], 255);
    image_free(&image);
}

/* In raw files exactly one white space byte ends the header; a sample may look like white space. */
static void raw_samples_may_look_like_space(void **state)
{
    struct image image;
    assert_int_equal(parse("P5 2 1 255\n\n#", &image), WEFT_OK);
    assert_int_equal(image.samples[0], '\n');
    assert_int_equal(image.samples[1], '#');
    image_free(&image);
}

static void samples_are_scaled_to_a_byte(void **state)
{
    static const char deep[] = "P5 3 1 65535\n\0\0\200\0\377\377";
    struct image image;
    assert_int_equal(parse("P2 4 1 3 0 1 2 3", &image), WEFT_OK);
    assert_memory_equal(image.samples, "\0\125\252\377", 4);
    image_free(&image);
    assert_int_equal(image_parse("a", deep, sizeof deep - 1, &image), WEFT_OK);
    assert_memory_equal(image.samples, "\0\200\377", 3);
    image_free(&image);
}

static void other_files_are_refused(void **state)
{
    REFUSED("", "byte 0", "not a PGM or PPM");
    REFUSED("P", "byte 0", "not a PGM or PPM");
    REFUSED("P4 8 1 x", "byte 0", "begin with P2, P3, P5 or P6");
    REFUSED("\211PNG\r\n\032\n", "byte 0", "convert it");
    REFUSED("P25 5 5", "byte 2", "white space is expected after P2");
}

static void cut_off_files_are_refused(void **state)
{
    static const char whole[] = "P2\n3 2\n255\n0 10 255\n7 8 9";
    static const char raw[] = "P6\n2 1\n255\nabcdef";
    for (size_t size = 0; size < sizeof whole - 1; size++)
        refused(whole, size, "byte ", "");
    for (size_t size = 0; size < sizeof raw - 1; size++)
        refused(raw, size, "byte ", "");
    REFUSED("P2", "byte 2, line 1", "the file ends before the width");
    REFUSED("P5 4 4 255", "byte 10", "the file ends after its header");
    REFUSED("P5 4 4 255 abc", "byte 11", "need 16 bytes from here, but the file has 3");
    REFUSED("P2\n2 2\n9\n1 2 3    ", "byte 18, line 4", "the file ends before the next sample");
}

static void absurd_sizes_are_refused(void **state)
{
    REFUSED("P2 0 5 255 1", "byte 3", "the width is 0");
    REFUSED("P2 5 0 255 1", "byte 5", "the height is 0");
    REFUSED("P2 99999999999999999999999 5 255 1", "byte 3", "the width is larger than 16384");
    REFUSED("P2 -5 5 255 1", "byte 3", "a decimal number; found byte 0x2d");
    REFUSED("P6 16384 16384 255 1", "byte 14", "scale the picture down");
    /* Would be 48 MiB; nothing may be allocated for it. */
    REFUSED("P6 4096 4096 255 abc", "byte 17", "need 50331648 bytes from here");
    REFUSED("P2 1 1 0 0", "byte 7", "the largest sample is 0");
    REFUSED("P2 1 1 65536 0", "byte 7", "larger than 65535");
}

static void bad_samples_are_refused(void **state)
{
    REFUSED("P2\n2 1\n9\n1 10\n", "byte 11, line 4", "the next sample is larger than 9");
    REFUSED("P2\n2 1\n9\n1 x\n", "byte 11, line 4", "found byte 0x78");
    REFUSED("P5 2 1 9\n\001\012", "byte 10", "sample 1 is 10, above the largest");
    REFUSED("P5 1 1 255#\n1", "byte 10", "white space is expected after the largest sample");
}

static void unreadable_files_name_the_reason(void **state)
{
    struct image image;
    assert_int_equal(image_read("/nonexistent/x.pgm", &image), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "/nonexistent/x.pgm: opening: No such file"));
    assert_int_equal(image_read("/", &image), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "directory"));
    assert_null(image.samples);
}

static void png_is_written_and_failure_leaves_no_file(void **state)
{
    char path[] = "/tmp/weft_test_image_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct image image;
    assert_int_equal(parse("P3 1 2 255 0 10 255 7 8 9", &image), WEFT_OK);
    assert_int_equal(image_write_png(path, &image), WEFT_OK);
    uint8_t head[24];
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    /* Signature, IHDR, width 1, height 2 (PNG specification, sections 5.2 and 11.2.2). */
    assert_memory_equal(head, "\211PNG\r\n\032\n\0\0\0\015IHDR\0\0\0\001\0\0\0\002", sizeof head);
    close(fd);
    unlink(path);
    assert_int_equal(image_write_png("/nonexistent/x.png", &image), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "/nonexistent/x.png"));
    if (access("/dev/full", W_OK) == 0 && geteuid() != 0) {
        assert_int_equal(image_write_png("/dev/full", &image), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(weft_last_error(), "/dev/full: writing"));
    }
    image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_raw_forms_give_the_same),
        cmocka_unit_test(comments_and_odd_white_space_are_allowed),
        cmocka_unit_test(raw_samples_may_look_like_space),
        cmocka_unit_test(samples_are_scaled_to_a_byte),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(cut_off_files_are_refused),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(bad_samples_are_refused),
        cmocka_unit_test(unreadable_files_name_the_reason),
        cmocka_unit_test(png_is_written_and_failure_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
