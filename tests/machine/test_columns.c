/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are broken at spaces, at most 100 columns wide, and no text is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

static char *print(int hang, const char *text)
{
    char *printed;
    size_t size;
    FILE *to = open_memstream(&printed, &size);
    assert_non_null(to);
    columns_print(to, hang, "%s", text);
    fclose(to);
    return printed;
}

static void expect(int hang, const char *text, const char *wanted)
{
    char *printed = print(hang, text);
    assert_string_equal(printed, wanted);
    free(printed);
}

static char *words(int n, const char *word)
{
    char *text = calloc((size_t)n, strlen(word) + 2);
    assert_non_null(text);
    for (int i = 0; i < n; i++)
        strcat(strcat(text, i ? " " : ""), word);
    return text;
}

static void test_short(void **state)
{
    (void)state;
    expect(4, "a line", "a line\n");
    expect(4, "", "\n");
}

/* 20 words of 4 characters and 19 spaces are 99 columns; the 21st word starts the next line. */
static void test_folded(void **state)
{
    (void)state;
    char *twenty = words(20, "word"), *more = words(21, "word"), wanted[256];
    expect(3, twenty, strcat(strcpy(wanted, twenty), "\n"));
    expect(3, more, strcat(strcpy(wanted, twenty), "\n   word\n"));
    free(twenty);
    free(more);
}

static void test_exactly_full(void **state)
{
    (void)state;
    char text[120], wanted[120];
    memset(text, 'x', 100);
    strcpy(text + 100, " y");
    memset(wanted, 'x', 100);
    strcpy(wanted + 100, "\n  y\n");
    expect(2, text, wanted);
}

/* A word that is longer than a line is cut; one that fits in the next line is not. */
static void test_long_words(void **state)
{
    (void)state;
    char text[320], wanted[320];
    memset(text, 'x', 150);
    text[150] = '\0';
    memset(wanted, 'x', 100);
    strcpy(wanted + 100, "\n  ");
    memset(wanted + 103, 'x', 50);
    strcpy(wanted + 153, "\n");
    expect(2, text, wanted);
    strcpy(text, "label and ");
    memset(text + 10, 'x', 95);
    text[105] = '\0';
    strcpy(wanted, "label and\n  ");
    memset(wanted + 12, 'x', 95);
    strcpy(wanted + 107, "\n");
    expect(2, text, wanted);
}

/* Text before column `hang` is a label and is not broken. */
static void test_label_stays(void **state)
{
    (void)state;
    char text[160], wanted[160];
    strcpy(text, "note      ");
    memset(text + 10, 'x', 120);
    text[130] = '\0';
    strcpy(wanted, "note      ");
    memset(wanted + 10, 'x', 90);
    strcpy(wanted + 100, "\n          ");
    memset(wanted + 111, 'x', 30);
    strcpy(wanted + 141, "\n");
    expect(10, text, wanted);
}

/* A character of two bytes takes one column. */
static void test_utf8(void **state)
{
    (void)state;
    char *text = words(100, "\xc3\xa9"); /* 199 columns */
    char *printed = print(0, text);
    char *line = strtok(printed, "\n");
    assert_int_equal(columns_of(line), 99);
    assert_int_equal(strlen(line), 149);
    line = strtok(NULL, "\n");
    assert_int_equal(columns_of(line), 99);
    assert_null(strtok(NULL, "\n"));
    free(printed);
    free(text);
}

/* A colour takes no column and is never cut; an ESC that begins no colour is text. */
static void test_colours(void **state)
{
    (void)state;
    assert_int_equal(columns_of("\033[31mred\033[0m, \033[1;32mgreen\033[0m"), 10);
    assert_int_equal(columns_of("\033[31x\033"), 6);
    char *twenty = words(20, "\033[31mword\033[0m"), *more = words(21, "\033[31mword\033[0m");
    char wanted[400];
    expect(3, twenty, strcat(strcpy(wanted, twenty), "\n"));
    expect(3, more, strcat(strcpy(wanted, twenty), "\n   \033[31mword\033[0m\n"));
    free(twenty);
    free(more);
}

static void test_list(void **state)
{
    (void)state;
    char *printed, list[200] = "";
    size_t size;
    for (int i = 0; i < 12; i++)
        strcat(list, i ? ",mlx5_10:1" : "mlx5_10:1");
    FILE *to = open_memstream(&printed, &size);
    assert_non_null(to);
    columns_print_list(to, "export A=", list);
    fclose(to);
    char *fold = strstr(printed, "\\\n");
    assert_non_null(fold);
    assert_true(fold - printed < columns_limit());
    assert_true(strlen(fold + 2) <= (size_t)columns_limit() + 1);
    memmove(fold, fold + 2, strlen(fold + 2) + 1); /* joined as a shell does */
    assert_memory_equal(printed, "export A=", 9);
    printed[strlen(printed) - 1] = '\0';
    assert_string_equal(printed + 9, list);
    free(printed);
}

static void test_full(void **state)
{
    (void)state;
    char *text = words(60, "word"), wanted[400];
    columns_set_full(true);
    expect(3, text, strcat(strcpy(wanted, text), "\n"));
    columns_set_full(false);
    free(text);
}

static void test_numbers(void **state)
{
    (void)state;
    char text[16];
    assert_string_equal(show_gbps(0, text, sizeof text), "?");
    assert_string_equal(show_gbps(395598, text, sizeof text), "396");
    assert_string_equal(show_gbps(48366, text, sizeof text), "48.4");
    assert_string_equal(show_gbps(99949, text, sizeof text), "99.9");
    assert_string_equal(show_gbps(99950, text, sizeof text), "100");
    assert_string_equal(show_us(630, text, sizeof text), "0.63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short),        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_exactly_full), cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_label_stays),  cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_list),         cmocka_unit_test(test_full),
        cmocka_unit_test(test_numbers),      cmocka_unit_test(test_colours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
