/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns NICs to GPUs: candidates by rate and distance, then a bipartite matching. See assign.h.
 */
#include "machine/checks/assign.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/explain.h"

/* State of the matching. */
struct assign_work {
    const struct machine *machine;
    struct assignment *result;
    size_t n_nics;
    bool *candidate; /* [GPU * n_nics + NIC]: the NIC is a candidate of the GPU */
    int64_t *mbps;   /* [GPU * n_nics + NIC]: expected rate, MB/s */
    int *given;      /* [GPU]: index of its NIC, -1 when none yet */
    int *load;       /* [NIC]: number of GPUs that have it */
    bool *visited;   /* [NIC]: seen in the current search */
};

static void *alloc_zeroed(size_t n, size_t bytes)
{
    void *memory = calloc(n ? n : 1, bytes);
    if (!memory)
        abort();
    return memory;
}

/* --- NICs ------------------------------------------------------------------------------------- */

const struct machine_port *assign_port(const struct machine *machine, const struct machine_nic *nic)
{
    const struct machine_port *best = NULL;
    struct machine_range range = machine_ports_of(machine, nic);
    for (size_t i = range.first; nic->name.value && i < range.end; i++) {
        const struct machine_port *port = &machine->ports[i];
        if (text_is(port->nic, nic->name.value) && text_is(port->state, "active") &&
            (!best || number_or(port->mbit, 0) > number_or(best->mbit, 0)))
            best = port;
    }
    return best;
}

static bool any_state_known(const struct machine *machine, const struct machine_nic *nic)
{
    struct machine_range range = machine_ports_of(machine, nic);
    for (size_t i = range.first; nic->name.value && i < range.end; i++)
        if (text_is(machine->ports[i].nic, nic->name.value) && machine->ports[i].state.value)
            return true;
    return false;
}

bool assign_can_use(const struct machine *machine, const struct machine_nic *nic)
{
    return nic->name.value && (assign_port(machine, nic) || !any_state_known(machine, nic));
}

/* --- candidates ------------------------------------------------------------------------------- */

static int64_t expected_mbps(const struct machine *machine, const struct endpoint *gpu,
                             const struct endpoint *nic)
{
    static struct routes routes;
    if (!machine_find_gpu(machine, gpu->index) || !machine_find_nic(machine, nic->name))
        return 0; /* without an index or name of its own, a lookup would find another device */
    explain_routes(machine, gpu, nic, &routes);
    const struct route *best = routes_best(&routes);
    return best ? best->mbps : 0;
}

/* Marks the candidates of GPU `g`. */
static void find_candidates(struct assign_work *w, int g)
{
    const struct machine *m = w->machine;
    struct endpoint gpu = endpoint_of_gpu(m, w->result->list[g].gpu);
    enum level nearest = LEVEL_UNKNOWN;
    int64_t most = 0;
    for (size_t i = 0; i < w->n_nics; i++) {
        struct endpoint nic = endpoint_of_nic(m, &m->nics[i]);
        if (!assign_can_use(m, &m->nics[i]) || routes_level(m, gpu.pci, nic.pci) == LEVEL_NET)
            continue;
        w->mbps[(size_t)g * w->n_nics + i] = expected_mbps(m, &gpu, &nic);
        most =
            w->mbps[(size_t)g * w->n_nics + i] > most ? w->mbps[(size_t)g * w->n_nics + i] : most;
    }
    for (int pass = 0; pass < 2; pass++) /* finds the smallest distance, then marks NICs at it */
        for (size_t i = 0; i < w->n_nics; i++) {
            struct endpoint nic = endpoint_of_nic(m, &m->nics[i]);
            enum level level = routes_level(m, gpu.pci, nic.pci);
            bool fast = w->mbps[(size_t)g * w->n_nics + i] * 11 / 10 >= most;
            if (!assign_can_use(m, &m->nics[i]) || !fast || level == LEVEL_NET)
                continue;
            nearest = pass == 0 && level < nearest ? level : nearest;
            w->candidate[(size_t)g * w->n_nics + i] = pass == 1 && level == nearest;
        }
}

/* --- matching --------------------------------------------------------------------------------- */

static bool is_candidate(const struct assign_work *w, int g, size_t nic)
{
    return w->candidate[(size_t)g * w->n_nics + nic];
}

/* Gives GPU `g` a candidate that fewer than `most` GPUs have. */
static bool give_free_nic(struct assign_work *w, int g, int most)
{
    for (size_t i = 0; i < w->n_nics; i++)
        if (is_candidate(w, g, i) && w->load[i] < most) {
            w->given[g] = (int)i;
            w->load[i]++;
            return true;
        }
    return false;
}

/* Gives GPU `g` a candidate with fewer than `most` GPUs; when there is none, moves another GPU to
 * one of its other candidates (an augmenting path). */
static bool give_nic(struct assign_work *w, int g, int most)
{
    if (give_free_nic(w, g, most))
        return true;
    for (size_t i = 0; i < w->n_nics; i++) {
        if (!is_candidate(w, g, i) || w->visited[i])
            continue;
        w->visited[i] = true;
        for (int other = 0; other < w->result->n; other++)
            if (w->given[other] == (int)i && give_nic(w, other, most)) {
                w->given[g] = (int)i; /* `other` has another NIC now */
                return true;
            }
    }
    return false;
}

static bool has_candidate(const struct assign_work *w, int g)
{
    for (size_t i = 0; i < w->n_nics; i++)
        if (is_candidate(w, g, i))
            return true;
    return false;
}

/* Matches GPUs and NICs: first at most one GPU per NIC, then two, and so on. */
static void match_gpus(struct assign_work *w)
{
    int left = 0;
    for (int g = 0; g < w->result->n; g++)
        left += has_candidate(w, g);
    for (int most = 1; left > 0 && most <= w->result->n; most++)
        for (int g = 0; g < w->result->n; g++) {
            memset(w->visited, 0, w->n_nics * sizeof *w->visited);
            if (w->given[g] < 0 && has_candidate(w, g) && give_nic(w, g, most))
                left--;
        }
}

/* --- the result ------------------------------------------------------------------------------- */

static void explain_none(const struct assign_work *w, struct assigned *a)
{
    if (w->n_nics == 0)
        snprintf(a->why, sizeof a->why, "the machine has no RDMA device");
    else if (w->result->down < (int)w->n_nics)
        snprintf(a->why, sizeof a->why, "its host has no NIC with an active port");
    else
        snprintf(a->why, sizeof a->why, "no NIC has an active port: %d of %zu are down",
                 w->result->down, w->n_nics);
}

static void explain_nic(const struct assign_work *w, int g, struct assigned *a)
{
    int alike = 0;
    size_t used = 0;
    for (size_t i = 0; i < w->n_nics; i++)
        alike += is_candidate(w, g, i);
    a->in_turn = alike > 1;
    if (a->level == LEVEL_UNKNOWN)
        used = (size_t)snprintf(a->why, sizeof a->why, "distance unknown%s",
                                machine_is_flat(w->machine) ? ": the PCI tree is flat" : "");
    else
        used = (size_t)snprintf(a->why, sizeof a->why, "%s at %s",
                                alike > 1 ? "the nearest are" : "the nearest is",
                                level_name(a->level));
    if (alike > 1)
        used +=
            (size_t)snprintf(a->why + used, sizeof a->why - used, "%s %d equal NICs, round-robin",
                             a->level == LEVEL_UNKNOWN ? ";" : ",", alike);
    if (a->sharers > 1)
        used += (size_t)snprintf(a->why + used, sizeof a->why - used, "; shared by %d GPUs",
                                 a->sharers);
    if (!any_state_known(w->machine, a->nic))
        snprintf(a->why + used, sizeof a->why - used, "; its port state is unknown");
}

static void explain_choice(struct assign_work *w, int g)
{
    struct assigned *a = &w->result->list[g];
    a->rail = -1;
    a->level = LEVEL_UNKNOWN;
    if (w->given[g] < 0) {
        explain_none(w, a);
        return;
    }
    a->nic = &w->machine->nics[w->given[g]];
    const struct machine_port *port = assign_port(w->machine, a->nic);
    struct endpoint gpu = endpoint_of_gpu(w->machine, a->gpu),
                    nic = endpoint_of_nic(w->machine, a->nic);
    a->port = port ? number_or(port->port, 1) : 1;
    a->level = routes_level(w->machine, gpu.pci, nic.pci);
    a->mbps = w->mbps[(size_t)g * w->n_nics + (size_t)w->given[g]];
    a->sharers = w->load[w->given[g]];
    a->rail = 0;
    for (int i = 0; i < w->given[g]; i++)
        a->rail += w->load[i] > 0;
    explain_nic(w, g, a);
}

void assign_nics(const struct machine *machine, struct assignment *result)
{
    size_t gpus = machine->n_gpus, nics = machine->n_nics;
    *result = (struct assignment){.list = alloc_zeroed(gpus, sizeof *result->list), .n = (int)gpus};
    struct assign_work w = {.machine = machine,
                            .result = result,
                            .n_nics = nics,
                            .candidate = alloc_zeroed(gpus * nics, sizeof *w.candidate),
                            .mbps = alloc_zeroed(gpus * nics, sizeof *w.mbps),
                            .given = alloc_zeroed(gpus, sizeof *w.given),
                            .load = alloc_zeroed(nics, sizeof *w.load),
                            .visited = alloc_zeroed(nics, sizeof *w.visited)};
    for (size_t i = 0; i < nics; i++)
        result->down += !assign_can_use(machine, &machine->nics[i]);
    for (int g = 0; g < result->n; g++) {
        result->list[g].gpu = &machine->gpus[g];
        w.given[g] = -1;
        find_candidates(&w, g);
    }
    match_gpus(&w);
    for (int g = 0; g < result->n; g++)
        explain_choice(&w, g);
    for (size_t i = 0; i < nics; i++) {
        result->rails += w.load[i] > 0;
        result->unused += assign_can_use(machine, &machine->nics[i]) && !w.load[i];
    }
    free(w.candidate);
    free(w.mbps);
    free(w.given);
    free(w.load);
    free(w.visited);
}

void assignment_free(struct assignment *assignment)
{
    free(assignment->list);
    memset(assignment, 0, sizeof *assignment);
}
