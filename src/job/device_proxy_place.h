/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_JOB_DEVICE_PROXY_PLACE_H
#define WEFT_JOB_DEVICE_PROXY_PLACE_H

#include "job/job.h"

#include <pthread.h>

/* Of the CPUs that are allowed those next to the NIC, or else those next to the GPU, or else all.
 * NULL: there is none, or its place is not known. A pure function.
 *
 * The NIC goes before the GPU: where they are at different sockets, each request crosses between
 * them with its doorbell, work request and completion when the thread is at the GPU, with its
 * descriptor and a count when it is at the NIC. */
void device_proxy_choose_cpus(const cpu_set_t *allowed, const cpu_set_t *nic, const cpu_set_t *gpu,
                              cpu_set_t *cpus);

/* Places the proxy's thread, as WEFT_PROXY_CPUS says. WEFT_ERR_CONFIG: it may use none of the CPUs
 * that are named there. */
weft_status device_proxy_place(const struct weft_job *job, pthread_t thread);

/* Whether other threads of the job need the CPUs that so many threads of the proxy will have: they
 * then give them away between looks. */
bool device_proxy_shares_cpus(const struct weft_job *job, int threads);

#endif
