/* SPDX-License-Identifier: Apache-2.0 */
/* Examines the GPUs of this machine before the demo's job: which GPUs there are, the link of
 * each pair, whether the path test by kernels passed, and the measured rate. A child process
 * does this, so that the process that starts the job does not load a driver. */
#include "demo/demo.h"

#include "machine/checks/explain.h"
#include "machine_options.h"
#include "probe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SECONDS = 60 }; /* for all pairs; a pair takes about 0.1 s */

static json_t *gpu_json(const struct machine_gpu *gpu)
{
    return json_pack("{s:I, s:s, s:s, s:f}", "gpu", (json_int_t)number_or(gpu->index, -1), "name",
                     text_or(gpu->name, "unknown"), "address", text_or(gpu->bdf, "unknown"),
                     "memory_gib", (double)number_or(gpu->memory_bytes, 0) / (1 << 30));
}

/* One pair with its best route and the measured figures, if any. */
static json_t *link_json(const struct machine *machine, const char *a, const char *b)
{
    struct endpoint from, to;
    struct routes routes = {.n = 0};
    if (endpoint_find(machine, a, &from) || endpoint_find(machine, b, &to))
        return NULL;
    explain_routes(machine, &from, &to, &routes);
    const struct route *best = routes_best(&routes);
    const struct machine_measured *m = machine_find_measured(machine, a, b);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:s}", "from", a, "to", b, "way",
                     best ? best->text : "none", "expected_gbytes_per_s",
                     json_gbps(best ? best->mbps : 0), "measured_gbytes_per_s",
                     json_gbps(m ? number_or(m->write_mbps, 0) : 0), "us",
                     json_us(m ? number_or(m->latency_ns, 0) : 0), "proof",
                     m ? text_or(m->proof, "not run") : "not run", "evidence",
                     m ? text_or(m->evidence, "") : "");
}

static json_t *pairs_json(const struct machine *machine)
{
    json_t *list = json_array();
    for (size_t i = 0; i < machine->n_gpus; i++)
        for (size_t k = 0; k < machine->n_gpus; k++) {
            char a[24], b[24];
            snprintf(a, sizeof a, "gpu%" PRId64, number_or(machine->gpus[i].index, -1));
            snprintf(b, sizeof b, "gpu%" PRId64, number_or(machine->gpus[k].index, -1));
            if (i < k)
                json_array_append_new(list, link_json(machine, a, b));
        }
    return list;
}

/* Runs the path tests and measures. Returns the reason why GPUs cannot be used, else NULL. */
static const char *measure_links(struct machine *machine)
{
    struct probe *probe;
    if (machine->n_gpus == 0)
        return "there is none";
    if (probe_open(machine, &probe))
        return weft_last_error();
    probe_warm(probe);
    /* A pair that cannot be measured has no path test result, which the table shows. */
    machine_measure(machine, probe_interface(probe), true, NULL);
    probe_close(probe);
    return NULL;
}

static void find_and_write(int to)
{
    struct machine *machine = machine_read_live(&(struct machine_source){.root = "", .gpus = true});
    char cpu[128];
    snprintf(cpu, sizeof cpu, "%s", text_or(machine->system.cpu_model, "CPU of unknown model"));
    const char *why = measure_links(machine);
    json_t *gpus = json_array();
    for (size_t i = 0; i < machine->n_gpus; i++)
        json_array_append_new(gpus, gpu_json(&machine->gpus[i]));
    json_t *found = json_pack("{s:s, s:o, s:o, s:s*}", "cpu", cpu, "gpus", gpus, "pairs",
                              pairs_json(machine), "unusable", why);
    if (found)
        json_dumpfd(found, to, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(found);
    machine_free(machine);
}

static json_t *nothing_found(const char *why)
{
    return json_pack("{s:s, s:[], s:[], s:s}", "cpu", "CPU of unknown model", "gpus", "pairs",
                     "unusable", why);
}

json_t *demo_links(void)
{
    int ends[2], status = 0;
    if (pipe(ends))
        return nothing_found(strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        alarm(MOST_SECONDS); /* a driver that hangs must not hold up the rest */
        find_and_write(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    json_t *found = child > 0 ? json_loadfd(ends[0], 0, NULL) : NULL;
    close(ends[0]);
    if (child > 0)
        waitpid(child, &status, 0);
    return found ? found : nothing_found("the GPUs could not be examined in a minute");
}

int demo_links_gpus(const json_t *links)
{
    return json_object_get(links, "unusable")
               ? 0
               : (int)json_array_size(json_object_get(links, "gpus"));
}

bool demo_links_good(const json_t *links)
{
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(links, "pairs"), i,
                       pair) if (strcmp(json_string_value(json_object_get(pair, "proof")),
                                        "failed") == 0) return false;
    return true;
}

/* "389 GB/s"; "-" when it was not measured. */
static const char *text_of_figure(const json_t *pair, const char *key, const char *unit, char *text,
                                  size_t bytes)
{
    double value = json_number_value(json_object_get(pair, key));
    snprintf(text, bytes, value > 0 ? (value < 10 ? "%.2f %s" : "%.0f %s") : "-", value, unit);
    return text;
}

static void print_link_pair(const json_t *pair)
{
    char expected[24], measured[24], us[24];
    const char *proof = json_string_value(json_object_get(pair, "proof"));
    bool passed = strcmp(proof, "proven") == 0;
    printf("    %-5s %-5s %-32s %10s %10s %9s   %s\n",
           json_string_value(json_object_get(pair, "from")),
           json_string_value(json_object_get(pair, "to")),
           json_string_value(json_object_get(pair, "way")),
           text_of_figure(pair, "expected_gbytes_per_s", "GB/s", expected, sizeof expected),
           text_of_figure(pair, "measured_gbytes_per_s", "GB/s", measured, sizeof measured),
           text_of_figure(pair, "us", "us", us, sizeof us), passed ? "passed" : proof);
    if (!passed)
        printf("          %s\n", json_string_value(json_object_get(pair, "evidence")));
}

void demo_links_print(const json_t *links)
{
    enum { MOST_LINES = 12 };
    const json_t *pairs = json_object_get(links, "pairs");
    size_t n = json_array_size(pairs), proven = 0, i;
    json_t *pair;
    if (!demo_links_gpus(links) || n == 0)
        return;
    printf("\n"
           "Links between the GPUs: bandwidth of copies, expected and measured, and latency of 8 "
           "bytes one way.\n\n"
           "    from  to    link                               expected   measured   latency   "
           "test\n");
    json_array_foreach(pairs, i, pair)
    {
        if (i < MOST_LINES)
            print_link_pair(pair);
        proven += strcmp(json_string_value(json_object_get(pair, "proof")), "proven") == 0;
    }
    if (n > MOST_LINES)
        printf("    and %zu more\n", n - MOST_LINES);
    printf("    Kernels on both ends tested %zu of %zu pair%s: data, flags and atomics arrived.\n",
           proven, n, n == 1 ? "" : "s");
}
