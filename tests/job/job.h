/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the job tests: checks that print their location, and allocation. */
#ifndef WEFT_TESTS_JOB_H
#define WEFT_TESTS_JOB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: CHECK(%s) failed; last error: %s\n", __FILE__, __LINE__,       \
                    #condition, weft_last_error());                                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_) {                                                                             \
            fprintf(stderr, "%s:%d: %s gave %s: %s\n", __FILE__, __LINE__, #call,                  \
                    weft_status_name(status_), weft_last_error());                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The call fails with this status, and its message contains this text. */
#define FAILS(call, wanted, text)                                                                  \
    do {                                                                                           \
        weft_status status_ = (call);                                                              \
        if (status_ != (wanted) || !strstr(weft_last_error(), text)) {                             \
            fprintf(stderr, "%s:%d: %s gave %s (wanted %s): %s (wanted \"%s\")\n", __FILE__,       \
                    __LINE__, #call, weft_status_name(status_), #wanted, weft_last_error(), text); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Number of rounds; JOB_ROUNDS lowers it on an emulated machine. */
static inline unsigned long long rounds_or(unsigned long long rounds)
{
    const char *told = getenv("JOB_ROUNDS");
    return told ? strtoull(told, NULL, 10) : rounds;
}

static inline void *alloc(weft_job *job, size_t bytes)
{
    void *address;
    OK(weft_alloc(job, WEFT_HOST, bytes, 0, WEFT_ALLOC_ZERO, &address));
    return address;
}

#endif
