/* SPDX-License-Identifier: Apache-2.0 */
/* Error messages (src/base/status.c): foreign text in them is made printable and they are cut at
 * their maximum length. Sizes and flag bits of a caller are checked against the known ones. */
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void sentences_are_printable(void **state)
{
    assert_int_equal(base_fail(WEFT_ERR_RANGE, "file %s", "a\033[31mb\n"), WEFT_ERR_RANGE);
    assert_string_equal(base_last_error(), "file a?[31mb?");
    assert_int_equal(base_fail_context(WEFT_ERR_SYSTEM, "open %s", "c\007"), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "open c?: file a?[31mb?");
    /* The previous message as an argument. */
    base_fail(WEFT_ERR_SYSTEM, "again: %s", base_last_error());
    assert_string_equal(base_last_error(), "again: open c?: file a?[31mb?");
}

static void long_sentences_end_in_time(void **state)
{
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    base_fail(WEFT_ERR_SYSTEM, "%s", text);
    assert_int_equal(strlen(base_last_error()), 1023);
    base_fail_context(WEFT_ERR_SYSTEM, "%.5s", text);
    assert_int_equal(strlen(base_last_error()), 1023);
    assert_memory_equal(base_last_error(), "xxxxx: xxx", 10);
    base_fail_context(WEFT_ERR_SYSTEM, "%.1021s", text); /* no space for the previous message */
    assert_int_equal(strlen(base_last_error()), 1021);
}

static void bits_and_sizes_are_checked(void **state)
{
    struct {
        size_t size;
        unsigned char rest[72];
    } given = {.size = 24};
    assert_int_equal(base_check_bits("flags", 5, 7), WEFT_OK);
    assert_int_equal(base_check_bits("flags", 0x15, 7), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "flags is 0x15: the bits 0x10 are unknown"));
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_OK);
    given.size = 23;
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_ERR_ARGUMENT);
    given.size = 4096 + 1;
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_ERR_ARGUMENT);
    given.size = 80; /* from a later version; the additional members are 0 */
    given.rest[31 - 8] = 1;
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_OK);
    given.rest[32 - 8] = 1;
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "byte 32 is not 0"));
    given.rest[32 - 8] = 0;
    given.rest[79 - 8] = 1;
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_ERR_ARGUMENT);
    given.size = 79;
    assert_int_equal(base_check_size("attr", &given, 24, 32), WEFT_OK);
}

static void names_are_known(void **state)
{
    assert_string_equal(base_status_name(WEFT_ERR_RANGE), "WEFT_ERR_RANGE");
    assert_string_equal(base_status_name((weft_status)-9999), "unknown status");
    assert_string_equal(base_status_text((weft_status)-9999),
                        "a status that this version of Weft does not know");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_are_printable),
        cmocka_unit_test(long_sentences_end_in_time),
        cmocka_unit_test(bits_and_sizes_are_checked),
        cmocka_unit_test(names_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
