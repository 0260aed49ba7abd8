/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the probe interface of src/machine on real GPUs. See probe.h. */
#include "probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/routes/routes.h"
#include "tool/gpu_link.h"
#include "tool/gpu_probe.h"
#include "tool/link_counters.h"
#include "tool/tool.h"

/* Result for an unordered pair; serves both orders. */
struct known_pair {
    bool known, brief;
    weft_status status;
    char sentence[PROBE_EVIDENCE];
    struct probe_pair pair;
    int64_t grown; /* -1: not counted */
    char where[160];
};

struct probe {
    struct machine_probe interface;
    const struct machine *machine;
    const char *addresses[PROBE_GPUS_MOST];
    int n;
    struct probe_gpus *gpus;
    struct link_counters *links; /* NULL: there are none */
    struct tool_gpu_links *pcie; /* NULL: without NVML */
    struct known_pair *pairs;    /* [n * n], the lower GPU first */
};

/* Errors that do not recur under the same load do not count as growth: links have a bit error
 * rate, and the hardware repairs each error. */
static void count_again(struct probe *probe, int low, int high, bool brief, struct known_pair *k)
{
    char again[sizeof k->where];
    link_counters_mark(probe->links, low, high, brief);
    weft_status status = probe_gpus_load(probe->gpus, low, high, brief);
    int64_t grown = link_counters_grown(probe->links, again, sizeof again);
    if (status || !grown) {
        k->grown = 0;
        return;
    }
    k->grown += grown;
    memcpy(k->where, again, sizeof k->where);
}

static const struct known_pair *find_out(struct probe *probe, int low, int high, bool brief)
{
    struct known_pair *k = &probe->pairs[low * probe->n + high];
    if (k->known && k->brief <= brief)
        return k;
    *k = (struct known_pair){.known = true, .brief = brief, .grown = -1};
    if (probe->links)
        link_counters_mark(probe->links, low, high, brief);
    k->status = probe_gpus_pair(probe->gpus, low, high, brief, &k->pair);
    if (k->status)
        snprintf(k->sentence, sizeof k->sentence, "%s", weft_last_error());
    if (probe->links && !k->status && k->pair.proof == FOUND_PROVEN) {
        k->grown = link_counters_grown(probe->links, k->where, sizeof k->where);
        if (k->grown > 0)
            count_again(probe, low, high, brief, k);
    }
    return k;
}

static int find_gpu(const struct probe *probe, const char *name)
{
    struct endpoint end;
    if (endpoint_find(probe->machine, name, &end) || end.kind != ENDPOINT_GPU)
        return -1;
    for (int i = 0; i < probe->n; i++)
        if (number_is(probe->machine->gpus[i].index, end.index))
            return i;
    return -1;
}

static const enum probe_proof proofs[] = {[FOUND_PROVEN] = PROBE_PROVEN,
                                          [FOUND_FAILED] = PROBE_FAILED,
                                          [FOUND_REFUSED] = PROBE_REFUSED,
                                          [FOUND_NOT_OFFERED] = PROBE_NOT_RUN};

/* The path test is that of the mapping by the CPU. */
static weft_status measure_host(struct probe *probe, int gpu, bool brief, int64_t *to_host_mbps,
                                int64_t *to_gpu_mbps, struct probe_result *r)
{
    struct probe_host host;
    weft_status status = probe_gpus_host(probe->gpus, gpu, brief, &host);
    /* an idle GPU lowers its link speed, but not at once */
    r->pcie_gen = status ? 0 : gpu_links_generation(probe->pcie, probe->addresses[gpu]);
    *to_host_mbps = host.to_host_mbps;
    *to_gpu_mbps = host.to_gpu_mbps;
    r->proven = proofs[host.mapping];
    snprintf(r->evidence, sizeof r->evidence, "%s", host.evidence);
    return status;
}

static weft_status measure_gpus(struct probe *probe, int a, int b, bool brief,
                                struct probe_result *r)
{
    int back = a > b;
    const struct known_pair *k = find_out(probe, back ? b : a, back ? a : b, brief);
    if (k->status)
        return base_fail(k->status, "%s", k->sentence);
    r->proven = proofs[k->pair.proof];
    snprintf(r->evidence, sizeof r->evidence, "%s", k->pair.evidence);
    r->write_mbps = k->pair.write_mbps[back];
    r->read_mbps = k->pair.read_mbps[back];
    r->both_mbps = k->pair.both_mbps;
    r->latency_ns = k->pair.latency_ns;
    r->errors_grown = k->grown;
    snprintf(r->errors_where, sizeof r->errors_where, "%s", k->grown > 0 ? k->where : "");
    return WEFT_OK;
}

static weft_status measure_pair(void *context, const char *a, const char *b, bool quick,
                                struct probe_result *r)
{
    struct probe *probe = context;
    bool from_host = strcmp(a, "host") == 0, to_host = strcmp(b, "host") == 0;
    int x = find_gpu(probe, a), y = find_gpu(probe, b);
    if (x >= 0 && y >= 0 && x != y)
        return measure_gpus(probe, x, y, quick, r);
    if (x >= 0 && to_host)
        return measure_host(probe, x, quick, &r->write_mbps, &r->read_mbps, r);
    if (from_host && y >= 0)
        return measure_host(probe, y, quick, &r->read_mbps, &r->write_mbps, r);
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "%s %s: only pairs of GPUs, and GPU and host, are measured", a, b);
}

weft_status probe_open(const struct machine *machine, struct probe **result)
{
    *result = NULL;
    struct probe *probe = calloc(1, sizeof *probe);
    size_t n = machine->n_gpus < PROBE_GPUS_MOST ? machine->n_gpus : PROBE_GPUS_MOST;
    struct known_pair *pairs = calloc(n * n + 1, sizeof *pairs);
    weft_status status =
        probe && pairs ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no memory to measure with");
    for (size_t i = 0; !status && i < n; i++)
        probe->addresses[i] = machine->gpus[i].bdf.value;
    if (!status)
        status = probe_gpus_open(&probe->gpus, probe->addresses, (int)n);
    if (status) {
        free(probe);
        free(pairs);
        return status;
    }
    probe->machine = machine;
    probe->n = (int)n;
    probe->links = n > 1 && machine->n_links ? link_counters_open((int)n) : NULL;
    probe->pcie = gpu_links_open();
    probe->pairs = pairs;
    probe->interface = (struct machine_probe){.pair = measure_pair, .context = probe};
    *result = probe;
    return WEFT_OK;
}

void probe_close(struct probe *probe)
{
    if (!probe)
        return;
    link_counters_close(probe->links);
    gpu_links_close(probe->pcie);
    probe_gpus_close(probe->gpus);
    free(probe->pairs);
    free(probe);
}

void probe_prepare(void)
{
    probe_gpus_prepare();
}

void probe_wait(void)
{
    probe_gpus_wait();
}

void probe_warm(struct probe *probe)
{
    probe_gpus_warm(probe->gpus);
}

const struct machine_probe *probe_interface(const struct probe *probe)
{
    return &probe->interface;
}
