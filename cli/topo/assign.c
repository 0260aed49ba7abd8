/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo --assign`: prints which NIC each GPU should use, and the variables of NCCL, UCX and
 * NVSHMEM for it. The assignment is made in src/machine. */
#include "topo/topo.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "commands.h"
#include "machine/checks/assign.h"
#include "machine_options.h"

/* Values of the variables; "": none. free_variables() releases them. */
struct variables {
    char *nccl, *nvshmem;
};

static bool assignment_is_complete(const struct assignment *a)
{
    for (int i = 0; i < a->n; i++)
        if (!a->list[i].nic)
            return false;
    return a->n > 0;
}

/* '=' selects exact names in NCCL: without it mlx5_1 would also match mlx5_10. */
static char *nccl_value(const struct assignment *a)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        abort();
    const char *separator = "=";
    for (int rail = 0; rail < a->rails; rail++)
        for (int i = 0; i < a->n; i++)
            if (a->list[i].rail == rail) {
                fprintf(to, "%s%s:%" PRId64, separator, a->list[i].nic->name.value,
                        a->list[i].port);
                separator = ",";
                break;
            }
    fclose(to);
    return text;
}

/* Whether every GPU has a NIC and NVSHMEM supports it. */
static bool has_nvshmem(const struct assignment *a)
{
    for (int i = 0; i < a->n; i++)
        if (text_is(a->list[i].gpu->vendor, "amd") || text_is(a->list[i].gpu->vendor, "intel"))
            return false;
    return assignment_is_complete(a);
}

/* NIC, port, and the number of consecutive PEs of the node that use it. Assumes that PE i uses
 * GPU i. */
static char *nvshmem_value(const struct assignment *a)
{
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        abort();
    for (int i = 0, end; has_nvshmem(a) && i < a->n; i = end) {
        for (end = i + 1; end < a->n && a->list[end].nic == a->list[i].nic; end++)
            ;
        fprintf(to, "%s%s:%" PRId64 ":%d", i ? "," : "", a->list[i].nic->name.value,
                a->list[i].port, end - i);
    }
    fclose(to);
    return text;
}

static struct variables variables_of(const struct assignment *a)
{
    return (struct variables){.nccl = nccl_value(a), .nvshmem = nvshmem_value(a)};
}

static void free_variables(struct variables *v)
{
    free(v->nccl);
    free(v->nvshmem);
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_assigned(const struct assigned *a)
{
    char name[32], nic[80], speed[48] = "", gbps[16];
    snprintf(name, sizeof name, "gpu%" PRId64, number_or(a->gpu->index, -1));
    if (!a->nic) {
        columns_print(stdout, 8, "%-7s none: %s", name, a->why);
        return;
    }
    snprintf(nic, sizeof nic, "%.60s:%" PRId64, a->nic->name.value, a->port);
    if (a->mbps)
        snprintf(speed, sizeof speed, ", %s GB/s", show_gbps(a->mbps, gbps, sizeof gbps));
    columns_print(stdout, 8, "%-7s %-11s rail %d%s; %s", name, nic, a->rail, speed, a->why);
}

static void print_variables(const struct assignment *a, const struct variables *v)
{
    if (!*v->nccl)
        return;
    puts("\nfor every process of the node");
    columns_print_list(stdout, "export NCCL_IB_HCA=", v->nccl);
    if (*v->nvshmem) {
        putchar('\n');
        columns_print(stdout, 0,
                      "for NVSHMEM, where PE 0 of the node is on the first GPU above, PE 1 "
                      "on the next, ...");
        puts("export NVSHMEM_ENABLE_NIC_PE_MAPPING=1");
        columns_print_list(stdout, "export NVSHMEM_HCA_PE_MAPPING=", v->nvshmem);
    }
    puts("\nfor the process of each GPU");
    for (int i = 0; i < a->n; i++)
        if (a->list[i].nic)
            columns_print(stdout, 4, "gpu%-4" PRId64 " export UCX_NET_DEVICES=%s:%" PRId64,
                          number_or(a->list[i].gpu->index, -1), a->list[i].nic->name.value,
                          a->list[i].port);
}

static void print_assignment(const struct machine *machine, const struct assignment *a,
                             const struct variables *v)
{
    if (a->n == 0)
        puts("there is no GPU that could use a NIC");
    for (int i = 0; i < a->n; i++)
        print_assigned(&a->list[i]);
    if (a->unused)
        printf("%d NIC%s that no GPU needs\n", a->unused, a->unused == 1 ? "" : "s");
    if (a->down && a->rails)
        printf("%d NIC%s without an active port\n", a->down, a->down == 1 ? "" : "s");
    if (machine_is_flat(machine) && a->rails)
        columns_print(
            stdout, 0,
            "unknown: which NIC is near which GPU, as the PCI tree of this virtual machine is "
            "flat. Ask the provider, and set it with --what-if 'move nic NAME under gpuN'.");
    print_variables(a, v);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *assigned_json(const struct assigned *a)
{
    json_t *object =
        json_pack("{s:I, s:s}", "gpu", (json_int_t)number_or(a->gpu->index, -1), "why", a->why);
    if (!a->nic) {
        json_object_set_new(object, "nic", json_null());
        return object;
    }
    json_t *more = json_pack(
        "{s:s, s:I, s:i, s:s, s:o, s:i, s:b, s:{s:o}}", "nic", a->nic->name.value, "port",
        (json_int_t)a->port, "rail", a->rail, "distance", level_name(a->level),
        "expected_gbytes_per_s", json_gbps(a->mbps), "sharers", a->sharers, "in_turn", a->in_turn,
        "variables", "UCX_NET_DEVICES", json_sprintf("%s:%" PRId64, a->nic->name.value, a->port));
    json_object_update_new(object, more);
    return object;
}

static void print_assignment_json(const struct machine *machine, const struct assignment *a,
                                  const struct variables *v)
{
    json_t *gpus = json_array(), *variables = json_object();
    for (int i = 0; i < a->n; i++)
        json_array_append_new(gpus, assigned_json(&a->list[i]));
    if (*v->nccl)
        json_object_set_new(variables, "NCCL_IB_HCA", json_string(v->nccl));
    if (*v->nvshmem) {
        json_object_set_new(variables, "NVSHMEM_ENABLE_NIC_PE_MAPPING", json_string("1"));
        json_object_set_new(variables, "NVSHMEM_HCA_PE_MAPPING", json_string(v->nvshmem));
    }
    json_print(json_pack("{s:s, s:b, s:o, s:o, s:i, s:i, s:i}", "machine", machine->origin, "flat",
                         machine_is_flat(machine), "gpus", gpus, "variables", variables, "rails",
                         a->rails, "nics_unused", a->unused, "nics_down", a->down));
}

int topo_assign(const struct machine *machine, int json)
{
    struct assignment assignment;
    assign_nics(machine, &assignment);
    struct variables variables = variables_of(&assignment);
    int status = assignment_is_complete(&assignment) ? EXIT_GOOD : EXIT_FAULT;
    if (json)
        print_assignment_json(machine, &assignment, &variables);
    else
        print_assignment(machine, &assignment, &variables);
    free_variables(&variables);
    assignment_free(&assignment);
    return status;
}
