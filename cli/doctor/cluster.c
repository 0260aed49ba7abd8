/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the verdict on a cluster: nodes that deviate, one line for all that do so in the same
 * way, and how many are as expected. The verdict itself is made in src/machine. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

/* Returns the folded names of the nodes of a group; the caller frees them. */
static char *group_names(const struct cluster *cluster, size_t group, size_t *n)
{
    const char **names = calloc(cluster->n_nodes, sizeof *names);
    *n = 0;
    for (size_t i = 0; names && i < cluster->n_nodes; i++)
        if (cluster->nodes[i].group == group)
            names[(*n)++] = cluster->nodes[i].name;
    char *text = names ? cluster_fold_names(names, *n) : NULL;
    free(names);
    return text;
}

static bool is_first_finding(const struct cluster *cluster, size_t i)
{
    return cluster->nodes[i].group == i;
}

static void print_cluster_finding(const struct cluster *cluster, size_t i)
{
    const struct node *node = &cluster->nodes[i];
    const char *label = !node->reached         ? "NOT REACHED"
                        : node->differs        ? "DIFFERS"
                        : node->n_faults       ? "FAULT"
                        : node->not_seen       ? "not verified"
                        : cluster->by_majority ? "alike"
                                               : "as expected";
    size_t n;
    char *names = group_names(cluster, i, &n);
    const char *deviation = node->deviation ? node->deviation : "";
    if (!node->reached)
        deviation = node->why;
    char count[32] = "";
    if (n > 1)
        snprintf(count, sizeof count, "%zu nodes ", n);
    columns_print(stdout, 14, "%-12s  %s%s%s%s", label, count, names ? names : "?",
                  *deviation ? ": " : "", deviation);
    free(names);
}

/* Prints the nodes without deviation first, then the deviating ones. */
void doctor_print_cluster(const struct cluster *cluster, const char *against)
{
    columns_print(stdout, 2, "%zu node%s, compared with %s", cluster->n_nodes,
                  cluster->n_nodes == 1 ? "" : "s", against ? against : "the majority of them");
    for (int good = 1; good >= 0; good--)
        for (size_t i = 0; i < cluster->n_nodes; i++) {
            const struct node *node = &cluster->nodes[i];
            bool is_good = node->reached && !node->differs && !node->n_faults;
            if (is_first_finding(cluster, i) && is_good == (bool)good)
                print_cluster_finding(cluster, i);
        }
    printf("%zu alike, %zu deviate%s, %zu not reached\n", cluster->as_expected, cluster->deviating,
           cluster->deviating == 1 ? "s" : "", cluster->not_reached);
}

static json_t *node_json(const struct cluster *cluster, const struct node *node)
{
    json_t *faults = json_array();
    for (size_t i = 0; i < node->n_faults; i++)
        json_array_append_new(faults, json_pack("{s:s, s:s, s:s}", "code", node->faults[i].code,
                                                "place", node->faults[i].place, "evidence",
                                                node->faults[i].evidence));
    if (!node->reached) {
        json_decref(faults);
        return json_pack("{s:s, s:b, s:s}", "host", node->name, "reached", 0, "why", node->why);
    }
    json_t *comparison = doctor_json_comparison(&node->profile, &cluster->expected, "");
    json_t *root = json_pack("{s:s, s:b, s:b, s:O, s:o, s:o}", "host", node->name, "reached", 1,
                             "deviates", node->differs || node->n_faults, "differences",
                             json_object_get(comparison, "differences"), "faults", faults, "facts",
                             profile_json(&node->profile));
    json_decref(comparison);
    return root;
}

void doctor_json_cluster(const struct cluster *cluster, const char *against)
{
    json_t *nodes = json_array();
    for (size_t i = 0; i < cluster->n_nodes; i++)
        json_array_append_new(nodes, node_json(cluster, &cluster->nodes[i]));
    json_print(json_pack("{s:s, s:o, s:I, s:I, s:I}", "expected_by", against ? against : "majority",
                         "nodes", nodes, "alike", (json_int_t)cluster->as_expected, "deviating",
                         (json_int_t)cluster->deviating, "not_reached",
                         (json_int_t)cluster->not_reached));
}
