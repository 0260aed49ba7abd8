/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_JOB_DEVICE_PROXY_PLACE_H
#define WEFT_JOB_DEVICE_PROXY_PLACE_H

#include "job/job.h"

#include <pthread.h>

/* Places the proxy's thread, as WEFT_PROXY_CPUS says. WEFT_ERR_CONFIG: it may use none of the CPUs that
 * are named there. */
weft_status device_proxy_place(const struct weft_job *job, pthread_t thread);

/* Whether other threads of the job need the CPUs that so many threads of the proxy will have: they then give
 * them away between looks. */
bool device_proxy_shares(const struct weft_job *job, int threads);

#endif
