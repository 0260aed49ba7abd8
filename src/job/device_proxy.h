/* SPDX-License-Identifier: Apache-2.0 */
/* The job's proxy: what device code gives to the host because it cannot reach a peer itself. */
#ifndef WEFT_JOB_DEVICE_PROXY_H
#define WEFT_JOB_DEVICE_PROXY_H

#include "job/device_state.h"
#include "proxy/proxy.h"

struct device_proxy;

/* Which ring carries what device code has for each PE of the job, peers[npes].ring. Toward the PEs
 * of a node they take turns, and so they do toward those PEs of all nodes that have this one's
 * place there. */
weft_status device_proxy_assign_rings(const struct weft_job *job, struct weft_dev_peer *peers);

/* Makes the rings, WEFT_PROXY_THREADS of them, in memory of the view, which frees it, and starts
 * the threads. *ring is what device code knows of them. */
weft_status device_proxy_open(struct weft_job *job, struct device_view *view,
                              struct weft_dev_ring *ring, struct device_proxy **proxy);

/* No kernel of the job runs any more. NULL is fine. */
void device_proxy_close(struct device_proxy *proxy);

/* What kernels gave that have ended is complete at every PE. WEFT_ERR_TIMEOUT after
 * WEFT_WAIT_LIMIT. */
weft_status device_proxy_quiet(struct device_proxy *proxy);

/* Notes what happens to ticket t in times[t % n], n a power of two, until it is called with NULL.
 * The ring is empty. */
void device_proxy_trace(struct device_proxy *proxy, struct proxy_times *times, uint64_t n);

/* Kernels are about to be launched. */
void device_proxy_wake(struct device_proxy *proxy);

#endif
