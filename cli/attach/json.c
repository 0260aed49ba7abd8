/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach --json`. The keys are stable; new ones may be added. */
#include "attach/attach.h"

#include <jansson.h>

static json_t *waits_json(const struct boxes_pe *pe, uint64_t now_ns)
{
    json_t *list = json_array();
    for (int i = 0; i < pe->n_waits; i++) {
        const struct boxes_wait *wait = &pe->waits[i];
        json_array_append_new(
            list, json_pack("{s:s, s:i, s:f, s:s, s:I, s:I, s:I, s:s}", "operation",
                            wait->operation, "peer", wait->peer, "seconds",
                            attach_seconds(now_ns, wait->since_ns), "compare", wait->compare,
                            "expected", (json_int_t)wait->expected, "seen", (json_int_t)wait->seen,
                            "offset", (json_int_t)wait->offset, "segment", wait->segment));
    }
    return list;
}

static json_t *kernels_json(const struct boxes_pe *pe)
{
    json_t *list = json_array();
    for (int i = 0; i < pe->n_kernels; i++)
        json_array_append_new(list, json_string(pe->kernels[i]));
    return list;
}

static json_t *ring_json(const struct boxes_proxy *ring, uint64_t now_ns)
{
    return json_pack("{s:I, s:I, s:I, s:s, s:f}", "carried", (json_int_t)ring->carried, "completed",
                     (json_int_t)ring->completed, "behind", (json_int_t)ring->behind, "under_way",
                     ring->under_way, "seconds",
                     ring->since_ns ? attach_seconds(now_ns, ring->since_ns) : 0.0);
}

static json_t *proxy(const struct boxes_pe *pe, uint64_t now_ns)
{
    json_t *all = ring_json(&pe->proxy, now_ns), *rings = json_array();
    for (int i = 0; i < pe->n_rings; i++) {
        json_t *one = ring_json(&pe->rings[i], now_ns);
        json_object_set_new(one, "ring", json_integer(pe->rings[i].ring));
        json_array_append_new(rings, one);
    }
    json_object_set_new(all, "rings", rings);
    return all;
}

static json_t *paths_json(const struct boxes_pe *pe)
{
    json_t *object = json_object();
    for (int i = 0; i < pe->n_paths; i++)
        json_object_set_new(object, pe->paths[i].name,
                            json_pack("{s:I, s:I, s:s}", "operations",
                                      (json_int_t)pe->paths[i].operations, "bytes",
                                      (json_int_t)pe->paths[i].bytes, "last", pe->paths[i].last));
    return object;
}

static json_t *communicator_json(const struct communicators *all, int i)
{
    const struct communicator *one = &all->ranks[i];
    json_t *calls = json_object(), *behind = json_object();
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)one->hash);
    for (int f = 0; f < COMMUNICATORS_FUNCTIONS; f++) {
        uint64_t late = communicators_behind(all, i, f);
        json_object_set_new(calls, communicators_function(f),
                            json_integer((json_int_t)one->calls[f]));
        if (late)
            json_object_set_new(behind, communicators_function(f), json_integer((json_int_t)late));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:o, s:o}", "hash", hash, "name",
                     one->name, "rank", one->rank, "size", one->size, "pid", one->pid, "device",
                     one->device, "state", one->state, "failure", one->failure, "calls", calls,
                     "behind", behind);
}

void attach_json(FILE *to, const struct boxes_job *job, const struct communicators *communicators)
{
    char sentence[512];
    json_t *pes = json_array();
    for (int i = 0; i < job->count; i++) {
        const struct boxes_pe *pe = &job->pes[i];
        if (!pe->present)
            continue;
        json_array_append_new(
            pes, json_pack("{s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:s, s:o, s:o, s:o, s:o}", "pe",
                           pe->pe, "pid", pe->pid, "node", pe->node, "npes", pe->npes, "program",
                           pe->program, "state", attach_state(pe), "seconds",
                           attach_seconds(job->now_ns, pe->start_ns), "failure", pe->failure,
                           "waits", waits_json(pe, job->now_ns), "kernels", kernels_json(pe),
                           "proxy", proxy(pe, job->now_ns), "paths", paths_json(pe)));
    }
    attach_diagnose(job, sentence, sizeof sentence);
    json_t *list = json_array();
    for (int i = 0; i < communicators->count; i++)
        json_array_append_new(list, communicator_json(communicators, i));
    json_t *all =
        json_pack("{s:o, s:s, s:o}", "pes", pes, "diagnosis", sentence, "communicators", list);
    json_dumpf(all, to, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', to);
    json_decref(all);
}
