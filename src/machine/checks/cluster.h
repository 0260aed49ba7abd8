/* SPDX-License-Identifier: Apache-2.0 */
/* Judges the nodes of a cluster beside an expectation, or beside each other. Pure; knows nothing of
 * how the reports of the nodes came here. */
#ifndef WEFT_MACHINE_CLUSTER_H
#define WEFT_MACHINE_CLUSTER_H

#include "machine/checks/doctor.h"
#include "machine/describe/profile.h"

struct node_fault {
    char code[32];      /* of a reason */
    char place[64];     /* gpu0, mlx5_0; may be empty */
    char evidence[256]; /* as that node observed it */
};

/* All-zero bytes are a node that has not been reached. node_free() releases what it holds. */
struct node {
    char name[128];
    bool reached;
    char why[400]; /* not reached: why */
    struct profile profile;
    struct node_fault *faults;
    size_t n_faults;
    /* filled in by cluster_judge(): */
    enum profile_match matches[PROFILE_COUNT];
    int differs, not_seen; /* how many facts do so */
    char *deviation;       /* in one line; "" when it is as expected */
    size_t group;          /* nodes of one group have the same line; the first one's index */
};

struct cluster {
    struct node *nodes;
    size_t n_nodes;
    struct profile expected;
    bool by_majority; /* expected is what most nodes have */
    size_t as_expected, deviating, not_reached;
};

/* Takes over what the diagnosis calls a fault. */
void node_take_faults(struct node *node, const struct diagnosis *diagnosis);

/* `expected` NULL: of each fact what most of the nodes that were reached have, of equally many what
 * the first of them has. A node deviates when a fact differs or its own diagnosis found a fault. */
void cluster_judge(struct cluster *cluster, const struct profile *expected);

/* "n[01-04,07], login": names with numbers in short, in the order given. To be freed; NULL: no
 * memory. */
char *cluster_fold_names(const char *const *names, size_t n);

void cluster_free(struct cluster *cluster);

#endif
