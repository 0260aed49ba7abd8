/* SPDX-License-Identifier: Apache-2.0 */
/* See proxy_trace.h. */
#include "tool/proxy_trace.h"

#include "job/device_proxy.h"

_Static_assert(sizeof(struct proxy_trace_times) == sizeof(struct proxy_times) &&
                   offsetof(struct proxy_trace_times, counted) ==
                       offsetof(struct proxy_times, counted),
               "both have the same members");

weft_status proxy_trace(weft_job *job, struct proxy_trace_times *times, uint64_t n)
{
    return device_trace_proxy(job, (struct proxy_times *)(void *)times, n);
}
