/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a text that a test generates with a file. With WEFT_GOLDEN_UPDATE set, a file that
 * differs is rewritten. */
#ifndef WEFT_TESTS_GOLDEN_H
#define WEFT_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void golden_is(const char *path, const char *text)
{
    enum { MOST = 1 << 20 };
    char *expected = calloc(1, MOST);
    FILE *file = fopen(path, "r");
    assert_non_null(expected);
    if (file) {
        expected[fread(expected, 1, MOST - 1, file)] = '\0';
        fclose(file);
    }
    if (strcmp(text, expected) != 0) {
        size_t at = 0, line = 0;
        for (; text[at] && text[at] == expected[at]; at++)
            if (text[at] == '\n')
                line = at + 1;
        if (getenv("WEFT_GOLDEN_UPDATE") && (file = fopen(path, "w"))) {
            fputs(text, file);
            fclose(file);
        }
        fail_msg("it is:\n%.*s\nexpected in %s:\n%.*s", (int)strcspn(text + line, "\n"),
                 text + line, path, (int)strcspn(expected + line, "\n"), expected + line);
    }
    free(expected);
}

#endif
