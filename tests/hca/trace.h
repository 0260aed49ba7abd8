/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a test, compared with a golden file (tests/golden.h). */
#ifndef WEFT_TESTS_HCA_TRACE_H
#define WEFT_TESTS_HCA_TRACE_H

#include <unistd.h>

#include "tests/golden.h"

static char text[1 << 19];
static size_t used;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    assert_true(n >= 0 && (size_t)n < sizeof text - used);
    used += (size_t)n;
}

/* say_bytes: logs their number, the first of them, and a checksum. */
static inline void say_bytes(const void *from, size_t bytes)
{
    const uint8_t *at = from;
    uint32_t sum = 2166136261;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 16777619;
    say("%zu bytes ", bytes);
    for (size_t i = 0; i < bytes && i < 8; i++)
        say("%02x", at[i]);
    say(" %08x", sum);
}

/* From take_stderr() to say_stderr(), output to standard error goes into the log. */
static int stderr_before = -1, stderr_file = -1;

static inline void take_stderr(void)
{
    if (stderr_file < 0) {
        FILE *file = tmpfile();
        assert_non_null(file);
        stderr_file = fileno(file);
        stderr_before = dup(2);
    }
    fflush(stderr);
    assert_int_equal(lseek(stderr_file, 0, SEEK_SET) | ftruncate(stderr_file, 0), 0);
    assert_int_equal(dup2(stderr_file, 2), 2);
}

static inline void say_stderr(void)
{
    char said[4096];
    fflush(stderr);
    assert_int_equal(dup2(stderr_before, 2), 2);
    ssize_t n = pread(stderr_file, said, sizeof said, 0);
    say("%.*s", n > 0 ? (int)n : 0, said);
}

#endif
