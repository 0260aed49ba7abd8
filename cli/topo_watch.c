/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --watch`: error counters of links, as they grow. Reads the counters alone, so that a
 * round is cheap. */
#include "topo.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "driver/nvml.h"

enum { GPUS_MOST = 64, LINKS_MOST = 18, COUNTERS = 4 };

static const char *const counter_names[COUNTERS] = {"replay", "recovery", "crc flit", "crc data"};

struct counters {
    unsigned long long value[GPUS_MOST][LINKS_MOST][COUNTERS];
    unsigned pcie[GPUS_MOST];
};

static unsigned open_devices(struct nvml *nvml, nvml_device *devices)
{
    unsigned n = 0, found = 0;
    if (!nvml->count || !nvml->by_index || nvml->count(&n) != NVML_OK)
        return 0;
    for (unsigned i = 0; i < n && found < GPUS_MOST; i++)
        if (nvml->by_index(i, &devices[found]) == NVML_OK)
            found++;
    return found;
}

static void read_counters(struct nvml *nvml, nvml_device *devices, unsigned n, struct counters *c)
{
    for (unsigned g = 0; g < n; g++) {
        if (nvml->pcie_replays)
            nvml->pcie_replays(devices[g], &c->pcie[g]);
        for (unsigned l = 0; l < LINKS_MOST && nvml->link_errors; l++)
            for (int k = 0; k < COUNTERS; k++)
                if (nvml->link_errors(devices[g], l, k, &c->value[g][l][k]) != NVML_OK && k == 0)
                    break;
    }
}

static int print_growth(const struct counters *was, const struct counters *is, unsigned n)
{
    int grown = 0;
    for (unsigned g = 0; g < n; g++) {
        if (is->pcie[g] > was->pcie[g]) {
            printf("gpu%u PCIe replay +%u\n", g, is->pcie[g] - was->pcie[g]);
            grown++;
        }
        for (unsigned l = 0; l < LINKS_MOST; l++)
            for (int k = 0; k < COUNTERS; k++)
                if (is->value[g][l][k] > was->value[g][l][k]) {
                    printf("gpu%u link %u %s +%llu\n", g, l, counter_names[k],
                           is->value[g][l][k] - was->value[g][l][k]);
                    grown++;
                }
    }
    return grown;
}

int topo_watch(double seconds, int times)
{
    struct nvml nvml;
    nvml_device devices[GPUS_MOST];
    struct timespec pause = {.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (nvml_open(&nvml)) {
        fprintf(stderr, "weft topo: --watch: %s\n", weft_last_error());
        return EXIT_FAULT;
    }
    unsigned n = open_devices(&nvml, devices);
    struct counters *was = calloc(2, sizeof *was), *is = was ? was + 1 : NULL;
    int grown = 0;
    if (was)
        read_counters(&nvml, devices, n, was);
    printf("%u GPUs, counters of NVLink and PCIe every %g s; only what grows is printed\n", n,
           seconds);
    for (int round = 0; was && (times < 0 || round < times); round++) {
        fflush(stdout);
        nanosleep(&pause, NULL);
        memcpy(is, was, sizeof *is);
        read_counters(&nvml, devices, n, is);
        grown += print_growth(was, is, n);
        memcpy(was, is, sizeof *was);
    }
    free(was);
    nvml_close(&nvml);
    return grown ? EXIT_FAULT : EXIT_GOOD;
}
