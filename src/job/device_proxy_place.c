/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the proxy's threads to CPUs: those of WEFT_PROXY_CPUS, or, of the CPUs that this PE may
 * use, those nearest to the NIC over which it reaches a peer, else those nearest to its GPU. */
#include "job/device_proxy_place.h"

#include "base/config.h"
#include "base/cpus.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

/* CPUs nearest to the GPU. False: the machine does not report them. */
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

/* CPUs nearest to the device of a path over which the proxy reaches a peer. */
static bool cpus_at_device(const struct weft_job *job, cpu_set_t *cpus)
{
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        for (int pe = 0; job->paths.choices[kind] && pe < job->npes; pe++) {
            enum path_id path = job->paths.choices[kind][pe].path;
            const struct path_ops *ops = path_ops_of(path);
            if (ops->cpus && job->paths.common[path] && ops->cpus(job->paths.common[path], cpus))
                return true;
        }
    return false;
}

void device_proxy_choose_cpus(const cpu_set_t *allowed, const cpu_set_t *nic, const cpu_set_t *gpu,
                              cpu_set_t *cpus)
{
    const cpu_set_t *near[] = {nic, gpu};
    for (int i = 0; i < 2; i++) {
        if (!near[i])
            continue;
        CPU_AND(cpus, near[i], allowed);
        if (CPU_COUNT(cpus))
            return;
    }
    *cpus = *allowed;
}

/* Chooses among the CPUs of the calling thread, which the launcher may have restricted. */
static void cpus_near(const struct weft_job *job, cpu_set_t *cpus)
{
    cpu_set_t allowed = *cpus, nic, gpu;
    bool has_nic = cpus_at_device(job, &nic), has_gpu = cpus_at_gpu(job, &gpu);
    device_proxy_choose_cpus(&allowed, has_nic ? &nic : NULL, has_gpu ? &gpu : NULL, cpus);
}

bool device_proxy_shares_cpus(const struct weft_job *job, int threads)
{
    cpu_set_t own;
    const char *wanted = config_string(CONFIG_PROXY_CPUS);
    bool named = strcmp(wanted, "any") != 0 && strcmp(wanted, "near") != 0;
    return !named && (job->oversubscribed || sched_getaffinity(0, sizeof own, &own) ||
                      CPU_COUNT(&own) <= threads);
}

weft_status device_proxy_place(const struct weft_job *job, pthread_t thread)
{
    const char *wanted = config_string(CONFIG_PROXY_CPUS);
    bool near = strcmp(wanted, "near") == 0;
    cpu_set_t cpus;
    if (strcmp(wanted, "any") == 0)
        return WEFT_OK;
    if (!near)
        cpus_parse(wanted, &cpus); /* config_check() has checked that it is a list */
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
