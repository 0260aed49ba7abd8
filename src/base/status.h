/* SPDX-License-Identifier: Apache-2.0 */
/* Failing with a message: every function that can fail returns a weft_status, and the place that
 * first detects the failure reports what it observed. Knows nothing of PEs. */
#ifndef WEFT_BASE_STATUS_H
#define WEFT_BASE_STATUS_H

#include <weft.h>

#define WEFT_EXPORT __attribute__((visibility("default")))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Sets the calling thread's last error message and returns `status`, so that `return
 * base_fail(WEFT_ERR_SYSTEM, "mmap of %zu bytes: %s", n, strerror(errno));` is one line. */
weft_status base_fail(weft_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* The calling thread's message; "WEFT_ERR_RANGE"; "out of range ...". Implement weft_last_error(),
 * weft_status_name() and weft_status_text(). */
const char *base_last_error(void);
const char *base_status_name(weft_status status);
const char *base_status_text(weft_status status);

/* A text of the calling thread, BASE_TEXT_BYTES bytes, at first empty. Larger thread-local
 * variables have no place: those of a library that a running program loads must fit into the few
 * hundred bytes that the loader has left, because simt_current is of model initial-exec. */
enum { BASE_TEXT_BYTES = 1400 };
enum base_text { BASE_TEXT_ERROR, BASE_TEXT_SENTENCE, BASE_TEXT_DRIVER, BASE_TEXTS };
char *base_thread_text(enum base_text which);

/* Prefixes the current message with a context ("heap: mmap of ..."). */
weft_status base_fail_context(weft_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Returns WEFT_OK, or WEFT_ERR_ARGUMENT if `given` has bits that are not in `known`; the message
 * names them. what: "weft_alloc: hints". */
weft_status base_check_bits(const char *what, unsigned long given, unsigned long known);

/* Checks a caller's structure that begins with its size. WEFT_ERR_ARGUMENT: the size is below
 * `least` or absurdly large, or the structure is larger than `known` bytes and a further byte is
 * not 0, which would be ignored. what: "weft_init: attr". */
weft_status base_check_size(const char *what, const void *given, size_t least, size_t known);

/* The exit status of a process that ends the job with `code`: 0 only for code 0, although the
 * system keeps only eight bits. */
static inline int base_exit_status(int code)
{
    return code & 0xff || !code ? code & 0xff : 1;
}

/* The static analyser does not analyse variadic functions; this declares what they return. */
#ifdef __clang_analyzer__
#define base_fail(status, ...)         ((void)base_fail(status, __VA_ARGS__), (status))
#define base_fail_context(status, ...) ((void)base_fail_context(status, __VA_ARGS__), (status))
#endif

#endif
