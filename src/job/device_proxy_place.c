/* SPDX-License-Identifier: Apache-2.0 */
/* On which CPUs the proxy's thread runs: those that WEFT_PROXY_CPUS names, or, of those that this PE may
 * use, the ones at its GPU, whose memory and doorbells are a socket nearer to them. */
#include "job/device_proxy_place.h"

#include "base/config.h"
#include "base/cpus.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

/* False: the machine does not say. */
static bool cpus_at_gpu(const struct weft_job *job, cpu_set_t *cpus)
{
    char name[96], list[4096];
    if (!job->gpu)
        return false;
    snprintf(name, sizeof name, "/sys/bus/pci/devices/%s/local_cpulist", job->gpu->device.bus_id);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    bool known = fgets(list, sizeof list, file) && cpus_parse(list, cpus);
    fclose(file);
    return known;
}

/* Of those that the calling thread has, which the launcher may have chosen. */
static void cpus_near(const struct weft_job *job, cpu_set_t *cpus)
{
    cpu_set_t near;
    if (!cpus_at_gpu(job, &near))
        return;
    CPU_AND(&near, &near, cpus);
    if (CPU_COUNT(&near))
        *cpus = near;
}

bool device_proxy_shares(const struct weft_job *job, int threads)
{
    cpu_set_t own;
    const char *wanted = config_string(CONFIG_PROXY_CPUS);
    bool named = strcmp(wanted, "any") != 0 && strcmp(wanted, "near") != 0;
    return !named &&
           (job->crowded || sched_getaffinity(0, sizeof own, &own) || CPU_COUNT(&own) <= threads);
}

weft_status device_proxy_place(const struct weft_job *job, pthread_t thread)
{
    const char *wanted = config_string(CONFIG_PROXY_CPUS);
    bool near = strcmp(wanted, "near") == 0;
    cpu_set_t cpus;
    if (strcmp(wanted, "any") == 0)
        return WEFT_OK;
    if (!near)
        cpus_parse(wanted, &cpus); /* config_check() has seen that it is a list */
    else if (pthread_getaffinity_np(thread, sizeof cpus, &cpus) == 0)
        cpus_near(job, &cpus);
    else
        return WEFT_OK;
    int error = pthread_setaffinity_np(thread, sizeof cpus, &cpus);
    if (error && !near)
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_PROXY_CPUS is \"%s\", none of which this process may use: "
                         "pthread_setaffinity_np: %s",
                         wanted, strerror(error));
    return WEFT_OK;
}
