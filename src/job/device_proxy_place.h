/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_JOB_DEVICE_PROXY_PLACE_H
#define WEFT_JOB_DEVICE_PROXY_PLACE_H

#include "job/job.h"

#include <pthread.h>

/* Chooses, of the allowed CPUs, those nearest to the NIC, else those nearest to the GPU, else all.
 * NULL: there is no such device, or its CPUs are unknown. A pure function.
 *
 * The NIC takes precedence over the GPU. If they are at different sockets, a thread at the GPU
 * makes doorbell, work request and completion of each request cross the sockets; a thread at the
 * NIC makes only the descriptor and a counter cross. */
void device_proxy_choose_cpus(const cpu_set_t *allowed, const cpu_set_t *nic, const cpu_set_t *gpu,
                              cpu_set_t *cpus);

/* Binds the proxy's thread to the CPUs of WEFT_PROXY_CPUS. WEFT_ERR_CONFIG: it may use none of
 * them. */
weft_status device_proxy_place(const struct weft_job *job, pthread_t thread);

/* Whether other threads of the job need the CPUs that this number of proxy threads will use. The
 * proxy threads then yield between polls. */
bool device_proxy_shares_cpus(const struct weft_job *job, int threads);

#endif
