/* SPDX-License-Identifier: Apache-2.0 */
/* When the proxy's thread did what with each request: for `weft bench proxy --trace`. */
#ifndef WEFT_TOOL_PROXY_TRACE_H
#define WEFT_TOOL_PROXY_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

/* By clock_now_ns(): seen in the ring, decoded, handed to the path (of a quiet: the paths asked),
 * the path returned, the count of those done written for the device. */
struct proxy_trace_times {
    uint64_t seen, decoded, handed, returned, counted;
};

/* Notes the times of ticket t in times[t % n], n a power of two, until it is called with NULL. Call
 * while no kernel runs. WEFT_ERR_UNSUPPORTED: the job has no proxy. */
weft_status proxy_trace(weft_job *job, struct proxy_trace_times *times, uint64_t n);

#endif
