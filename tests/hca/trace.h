/* SPDX-License-Identifier: Apache-2.0 */
/* The text that a test makes of what it sees, to be held against a file (tests/golden.h). */
#ifndef WEFT_TESTS_HCA_TRACE_H
#define WEFT_TESTS_HCA_TRACE_H

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

/* say_bytes: their number, the first of them, and a sum over all. */
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

#endif
