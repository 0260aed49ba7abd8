/* SPDX-License-Identifier: Apache-2.0 */
/* The job's proxy: performs operations of device code toward peers that device code cannot
 * access. */
#ifndef WEFT_JOB_DEVICE_PROXY_H
#define WEFT_JOB_DEVICE_PROXY_H

#include "job/device_state.h"
#include "proxy/proxy.h"

struct device_proxy;

/* Assigns a ring to each PE of the job (peers[npes].ring). The PEs of a node use the rings in turn;
 * so do the PEs with the same local rank on different nodes. */
weft_status device_proxy_assign_rings(const struct weft_job *job, struct weft_dev_peer *peers);

/* Creates WEFT_PROXY_THREADS rings in memory of the view, which frees it, and starts their threads.
 * *ring: the description for device code. */
weft_status device_proxy_open(struct weft_job *job, struct device_view *view,
                              struct weft_dev_ring *ring, struct device_proxy **proxy);

/* Stops the threads. No kernel of the job may run any more. `proxy` may be NULL. */
void device_proxy_close(struct device_proxy *proxy);

/* Returns when all operations of completed kernels are complete at every PE. WEFT_ERR_TIMEOUT after
 * WEFT_WAIT_LIMIT. */
weft_status device_proxy_quiet(struct device_proxy *proxy);

/* Records the times of ticket t in times[t % n] (n is a power of two) until it is called with NULL.
 * The ring must be empty. */
void device_proxy_trace(struct device_proxy *proxy, struct proxy_times *times, uint64_t n);

/* Wakes the threads before kernels are launched. */
void device_proxy_wake(struct device_proxy *proxy);

#endif
