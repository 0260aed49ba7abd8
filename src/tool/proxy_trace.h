/* SPDX-License-Identifier: Apache-2.0 */
/* Timestamps of the proxy thread for each request, for `weft bench proxy --trace`. */
#ifndef WEFT_TOOL_PROXY_TRACE_H
#define WEFT_TOOL_PROXY_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

/* Times of clock_now_ns(). */
struct proxy_trace_times {
    uint64_t seen;     /* the thread saw the request in the ring */
    uint64_t decoded;  /* it has decoded the request */
    uint64_t handed;   /* it called the path (for a quiet: all paths) */
    uint64_t returned; /* the path returned */
    uint64_t counted;  /* it wrote the count of completed requests for the device */
};

/* Records the times of ticket t in times[t % n], n a power of two, until it is called with NULL.
 * Call it while no kernel runs. WEFT_ERR_UNSUPPORTED: the job has no proxy. */
weft_status proxy_trace(weft_job *job, struct proxy_trace_times *times, uint64_t n);

#endif
