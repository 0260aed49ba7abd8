/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the device tests for both targets: a job with device code, symmetric memory that the
 * host accesses by put and get to itself, and launches followed by a wait. */
#ifndef WEFT_TESTS_DEVICE_TEST_H
#define WEFT_TESTS_DEVICE_TEST_H

#include <weft_device.h>

#if WEFT_HOST_CODE

#include "tests/job/job.h"

static weft_job *job;
static weft_ctx *ctx;
static int me, n_pes;

/* Exits with 77 if the GPU target is requested and there is no GPU. */
static inline void device_begin(void)
{
    weft_status status = weft_init(&job, NULL);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    OK(status);
    OK(weft_device_start(job));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    n_pes = weft_n_pes(job);
}

static inline void device_end(void)
{
    OK(weft_device_check(job));
    OK(weft_finalize(job));
}

/* Zeroed symmetric memory of the kind that suits device code best. */
static inline void *symmetric(size_t bytes)
{
    void *address;
    OK(weft_alloc(job, weft_device_kind(job), bytes, 256, WEFT_ALLOC_ZERO, &address));
    return address;
}

static inline void fetch(void *host, const void *own, size_t bytes)
{
    OK(weft_get(ctx, host, own, bytes, me));
}

static inline void store(void *own, const void *host, size_t bytes)
{
    OK(weft_put(ctx, own, host, bytes, me));
    OK(weft_quiet(ctx));
}

static inline void barrier(void)
{
    OK(weft_barrier(weft_team_world(job)));
}

#define LAUNCH(...)                                                                                \
    do {                                                                                           \
        OK(WEFT_LAUNCH(__VA_ARGS__));                                                              \
        OK(weft_stream_synchronize(NULL));                                                         \
    } while (0)

#endif

#endif
