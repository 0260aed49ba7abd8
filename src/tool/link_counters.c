/* SPDX-License-Identifier: Apache-2.0 */
/* See link_counters.h. */
#include "tool/link_counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "driver/nvml.h"

enum { LINKS_MOST = 18, COUNTERS = 5, GPUS_MOST = 64 };

/* In NVML's order. */
static const char *const counter_names[COUNTERS] = {"replay", "recovery", "crc flit", "crc data",
                                                    "ecc data"};
/* NVML fields of the same counters as totals of all links of a GPU, read with one call. */
static const unsigned total_fields[COUNTERS] = {52, 59, 38, 45, 160};

typedef unsigned long long reading[LINKS_MOST][COUNTERS];

struct link_counters {
    struct nvml nvml;
    nvml_device devices[GPUS_MOST];
    int n;
    bool totals_agree[GPUS_MOST];
    reading last[GPUS_MOST];
    unsigned long long last_total[GPUS_MOST];
    unsigned last_pcie[GPUS_MOST];
    int marked[2];
    bool by_total;
};

/* Reads all counters; those that the driver does not report stay 0. Returns the number of reported
 * ones. */
static int read_links(const struct link_counters *c, int gpu, reading to)
{
    int reported = 0;
    memset(to, 0, sizeof(reading));
    for (unsigned link = 0; link < LINKS_MOST; link++) {
        int before = reported;
        for (int k = 0; k < COUNTERS; k++)
            reported += c->nvml.link_errors(c->devices[gpu], link, k, &to[link][k]) == NVML_OK;
        if (reported == before && link > 0)
            break; /* link numbers have no gaps, so this was the last link */
    }
    return reported;
}

static bool read_total(const struct link_counters *c, int gpu, unsigned long long *total)
{
    struct nvml_field fields[COUNTERS] = {{0}};
    *total = 0;
    for (int k = 0; k < COUNTERS; k++)
        fields[k].id = total_fields[k];
    if (!c->nvml.fields || c->nvml.fields(c->devices[gpu], COUNTERS, fields) != NVML_OK)
        return false;
    for (int k = 0; k < COUNTERS; k++) {
        if (fields[k].status != NVML_OK)
            return false;
        *total += fields[k].type == 1 ? fields[k].value.u : fields[k].value.ull;
    }
    return true;
}

static unsigned long long sum_of(reading r)
{
    unsigned long long sum = 0;
    for (int link = 0; link < LINKS_MOST; link++)
        for (int k = 0; k < COUNTERS; k++)
            sum += r[link][k];
    return sum;
}

/* Reads the counters of all links of a GPU. False: the driver reports none. The totals may replace
 * them only when both are equal and not 0, because two zeros do not show that the totals cover all
 * links. */
static bool start_counting(struct link_counters *c, int gpu)
{
    bool reported = read_links(c, gpu, c->last[gpu]) > 0;
    unsigned long long sum = sum_of(c->last[gpu]);
    c->totals_agree[gpu] =
        read_total(c, gpu, &c->last_total[gpu]) && sum > 0 && c->last_total[gpu] == sum;
    return reported;
}

/* Opens up to `n` GPUs; *any: one of them has link counters. NULL without NVML. */
static struct link_counters *open_gpus(int n, bool *any)
{
    struct link_counters *c = calloc(1, sizeof *c);
    *any = false;
    if (!c || nvml_open(&c->nvml)) {
        if (!c)
            base_fail(WEFT_ERR_NO_MEMORY, "no memory for the counters of links");
        free(c);
        return NULL;
    }
    for (int i = 0; i < n && i < GPUS_MOST && c->nvml.by_index; i++) {
        if (c->nvml.by_index((unsigned)i, &c->devices[i]) != NVML_OK)
            break;
        c->n = i + 1;
        *any |= c->nvml.link_errors && start_counting(c, i);
        if (c->nvml.pcie_replays)
            c->nvml.pcie_replays(c->devices[i], &c->last_pcie[i]);
    }
    return c;
}

struct link_counters *link_counters_open(int n)
{
    bool any;
    struct link_counters *c = open_gpus(n, &any);
    if (any)
        return c;
    link_counters_close(c);
    return NULL;
}

struct link_counters *link_counters_watch(int *n)
{
    bool any;
    struct link_counters *c = open_gpus(GPUS_MOST, &any);
    *n = c ? c->n : 0;
    return c;
}

void link_counters_close(struct link_counters *c)
{
    if (!c)
        return;
    nvml_close(&c->nvml);
    free(c);
}

void link_counters_mark(struct link_counters *c, int a, int b, bool brief)
{
    c->marked[0] = a;
    c->marked[1] = b;
    c->by_total = brief && c->totals_agree[a] && c->totals_agree[b];
    for (int i = 0; i < 2; i++) {
        int gpu = c->marked[i];
        if (c->by_total)
            read_total(c, gpu, &c->last_total[gpu]);
        else
            read_links(c, gpu, c->last[gpu]);
    }
}

typedef void (*on_growth)(void *argument, const struct link_growth *growth);

/* Reports the growth of the counters of one GPU since they were last read. */
static int64_t report_gpu(struct link_counters *c, int gpu, on_growth report, void *argument)
{
    reading now;
    int64_t grown = 0;
    read_links(c, gpu, now);
    for (int link = 0; link < LINKS_MOST; link++)
        for (int k = 0; k < COUNTERS; k++) {
            unsigned long long was = c->last[gpu][link][k], is = now[link][k];
            if (is <= was)
                continue;
            grown += (int64_t)(is - was);
            report(argument, &(struct link_growth){gpu, link, counter_names[k], is - was});
        }
    memcpy(c->last[gpu], now, sizeof now);
    return grown;
}

struct place_list {
    char *text;
    size_t bytes;
};

static void add_place(void *argument, const struct link_growth *growth)
{
    struct place_list *list = argument;
    size_t n = strlen(list->text);
    snprintf(list->text + n, list->bytes - n, "%sgpu%d link %d %s +%llu", n ? ", " : "",
             growth->gpu, growth->link, growth->counter, growth->by);
}

/* When totals have grown, reads the links one by one: their growth since they were last read, which
 * was in this run. */
int64_t link_counters_grown(struct link_counters *c, char *where, size_t bytes)
{
    int64_t grown = 0;
    struct place_list list = {where, bytes};
    where[0] = '\0';
    for (int i = 0; i < 2; i++) {
        int gpu = c->marked[i];
        unsigned long long total = 0;
        if (c->by_total && read_total(c, gpu, &total) && total <= c->last_total[gpu])
            continue;
        grown += report_gpu(c, gpu, add_place, &list);
    }
    return grown;
}

int64_t link_counters_each(struct link_counters *c, on_growth report, void *argument)
{
    int64_t grown = 0;
    for (int gpu = 0; gpu < c->n; gpu++) {
        unsigned replays = c->last_pcie[gpu];
        if (c->nvml.pcie_replays && c->nvml.pcie_replays(c->devices[gpu], &replays) == NVML_OK &&
            replays > c->last_pcie[gpu]) {
            unsigned by = replays - c->last_pcie[gpu];
            report(argument, &(struct link_growth){gpu, -1, "PCIe replay", by});
            c->last_pcie[gpu] = replays;
            grown += by;
        }
        if (c->nvml.link_errors)
            grown += report_gpu(c, gpu, report, argument);
    }
    return grown;
}
