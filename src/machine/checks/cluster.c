/* SPDX-License-Identifier: Apache-2.0 */
/* Compares each node with the expectation, and groups nodes with equal deviations. See cluster.h.
 */
#include "machine/checks/cluster.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void node_add_faults(struct node *node, const struct diagnosis *diagnosis)
{
    const struct findings *all = &diagnosis->findings;
    node->faults = calloc((size_t)diagnosis->faults + 1, sizeof *node->faults);
    for (int i = 0; node->faults && i < all->n; i++) {
        const struct finding *f = &all->list[i];
        if (f->weight > WEIGHT_SLOW)
            continue;
        struct node_fault *fault = &node->faults[node->n_faults++];
        snprintf(fault->code, sizeof fault->code, "%s", reason_table[f->reason].code);
        snprintf(fault->place, sizeof fault->place, "%s", f->place);
        snprintf(fault->evidence, sizeof fault->evidence, "%s", f->evidence);
    }
}

/* --- the value of most nodes ------------------------------------------------------------------ */

static bool same_fact(int id, const struct profile_fact *a, const struct profile_fact *b)
{
    return profile_infos[id].is_text ? strcmp(a->text, b->text) == 0 : a->number == b->number;
}

/* Sets *expected to the value of the fact that most nodes have. */
static void find_majority(const struct cluster *cluster, int id, struct profile_fact *expected)
{
    size_t most = 0;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct profile_fact *fact = &cluster->nodes[i].profile.facts[id];
        size_t same = 0;
        if (!cluster->nodes[i].reached || !fact->known)
            continue;
        for (size_t j = i; j < cluster->n_nodes; j++) {
            const struct profile_fact *other = &cluster->nodes[j].profile.facts[id];
            same += cluster->nodes[j].reached && other->known && same_fact(id, fact, other);
        }
        if (same > most) {
            most = same;
            *expected = *fact;
        }
    }
}

/* --- one node --------------------------------------------------------------------------------- */

static void print_fact_deviations(FILE *to, const struct node *node, const struct profile *expected)
{
    char seen[PROFILE_TEXT + 8], wanted[PROFILE_TEXT + 8];
    const char *gap = "";
    for (int id = 0; id < PROFILE_COUNT; id++) {
        const struct profile_fact *fact = &node->profile.facts[id];
        const char *name = profile_infos[id].name;
        if (node->matches[id] == PROFILE_AS_EXPECTED)
            continue;
        profile_show(id, &expected->facts[id], wanted, sizeof wanted);
        if (node->matches[id] == PROFILE_NOT_SEEN)
            fprintf(to, "%s%s not known, %s expected", gap, name, wanted);
        else
            fprintf(to, "%s%s %s, %s expected", gap, name,
                    profile_show(id, fact, seen, sizeof seen), wanted);
        gap = "; ";
    }
}

/* An earlier fault of the node has the same code. */
static bool is_repeated_code(const struct node *node, size_t fault)
{
    for (size_t i = 0; i < fault; i++)
        if (strcmp(node->faults[i].code, node->faults[fault].code) == 0)
            return true;
    return false;
}

/* Prints each code once, with all its places. */
static void print_faults(FILE *to, const struct node *node, bool first)
{
    for (size_t i = 0; i < node->n_faults; i++) {
        const char *between = " at ";
        if (is_repeated_code(node, i))
            continue;
        fprintf(to, "%s%s", first ? "" : "; ", node->faults[i].code);
        first = false;
        for (size_t j = i; j < node->n_faults; j++) {
            if (!*node->faults[j].place || strcmp(node->faults[i].code, node->faults[j].code) != 0)
                continue;
            fprintf(to, "%s%s", between, node->faults[j].place);
            between = ", ";
        }
    }
}

static void judge_node(struct node *node, const struct profile *expected)
{
    size_t bytes = 0;
    FILE *line = open_memstream(&node->deviation, &bytes);
    if (!line)
        return;
    for (int id = 0; node->reached && id < PROFILE_COUNT; id++) {
        node->matches[id] = profile_compare(id, &expected->facts[id], &node->profile.facts[id]);
        node->differs += node->matches[id] == PROFILE_DIFFERS;
        node->not_seen += node->matches[id] == PROFILE_NOT_SEEN;
    }
    if (!node->reached) {
        fprintf(line, "not reached: %s", node->why);
    } else {
        print_fact_deviations(line, node, expected);
        print_faults(line, node, node->differs + node->not_seen == 0);
    }
    fclose(line);
}

void cluster_judge(struct cluster *cluster, const struct profile *expected)
{
    memset(&cluster->expected, 0, sizeof cluster->expected);
    cluster->by_majority = !expected;
    if (expected)
        cluster->expected = *expected;
    for (int id = 0; !expected && id < PROFILE_COUNT; id++)
        find_majority(cluster, id, &cluster->expected.facts[id]);
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        struct node *node = &cluster->nodes[i];
        judge_node(node, &cluster->expected);
        cluster->not_reached += !node->reached;
        cluster->deviating += node->reached && (node->differs || node->n_faults);
        cluster->as_expected += node->reached && !node->differs && !node->n_faults;
        node->group = i;
        for (size_t j = 0; j < i; j++)
            if (node->deviation && cluster->nodes[j].deviation &&
                strcmp(node->deviation, cluster->nodes[j].deviation) == 0) {
                node->group = j;
                break;
            }
    }
}

void cluster_free(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        free(cluster->nodes[i].faults);
        free(cluster->nodes[i].deviation);
    }
    free(cluster->nodes);
    *cluster = (struct cluster){.nodes = NULL};
}

/* --- short form of names ---------------------------------------------------------------------- */

/* A name, split at its last number. */
struct split {
    int before;                /* letters before the number */
    int digits;                /* digits of the number, leading zeros included */
    const char *behind;        /* text after the number */
    unsigned long long number; /* 0 when there are no digits */
};

static struct split split_name(const char *name)
{
    int end = (int)strlen(name);
    while (end > 0 && !isdigit((unsigned char)name[end - 1]))
        end--;
    int start = end;
    while (start > 0 && isdigit((unsigned char)name[start - 1]) && end - start < 18)
        start--;
    return (struct split){.before = start,
                          .digits = end - start,
                          .behind = name + end,
                          .number = end > start ? strtoull(name + start, NULL, 10) : 0};
}

/* The names differ only in their numbers, which have equally many digits: "n07" and "n12". */
static bool differ_in_number(const char *a, struct split x, const char *b, struct split y)
{
    return x.digits && x.digits == y.digits && x.before == y.before &&
           strncmp(a, b, (size_t)x.before) == 0 && strcmp(x.behind, y.behind) == 0;
}

/* Prints the first name, or the first names that fit into one pair of brackets. Returns their
 * number. */
static size_t fold_first(FILE *to, const char *const *names, size_t n)
{
    struct split first = split_name(names[0]);
    size_t used = 1;
    while (used < n && differ_in_number(names[0], first, names[used], split_name(names[used])))
        used++;
    if (used == 1) {
        fputs(names[0], to);
        return 1;
    }
    fprintf(to, "%.*s[", first.before, names[0]);
    for (size_t i = 0, run; i < used; i += run) {
        unsigned long long number = split_name(names[i]).number;
        for (run = 1; i + run < used && split_name(names[i + run]).number == number + run; run++)
            ;
        fprintf(to, "%s%0*llu", i ? "," : "", first.digits, number);
        if (run > 1)
            fprintf(to, "%s%0*llu", run > 2 ? "-" : ",", first.digits, number + run - 1);
    }
    fprintf(to, "]%s", first.behind);
    return used;
}

char *cluster_fold_names(const char *const *names, size_t n)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    for (size_t i = 0; i < n;) {
        fputs(i ? "," : "", to);
        i += fold_first(to, names + i, n - i);
    }
    fclose(to);
    return text;
}
