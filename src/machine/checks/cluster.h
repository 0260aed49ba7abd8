/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the nodes of a cluster with an expectation, or with each other. Pure functions; the
 * caller collects the reports of the nodes. */
#ifndef WEFT_MACHINE_CLUSTER_H
#define WEFT_MACHINE_CLUSTER_H

#include "machine/checks/doctor.h"
#include "machine/describe/profile.h"

struct node_fault {
    char code[32];      /* reason code */
    char place[64];     /* gpu0, mlx5_0; may be empty */
    char evidence[256]; /* what the node observed */
};

/* A node of the cluster. All-zero bytes are a node that was not reached. */
struct node {
    char name[128];
    bool reached;
    char why[400]; /* why the node was not reached */
    struct profile profile;
    struct node_fault *faults;
    size_t n_faults;
    /* cluster_judge() sets these: */
    enum profile_match matches[PROFILE_COUNT];
    int differs;     /* number of facts that differ from the expected ones */
    int not_seen;    /* number of expected facts whose value on the node is unknown */
    char *deviation; /* all deviations in one line; "" when the node is as expected */
    size_t group;    /* index of the first node with the same line */
};

struct cluster {
    struct node *nodes;
    size_t n_nodes;
    struct profile expected;
    bool by_majority;                           /* `expected` is what most nodes have */
    size_t as_expected, deviating, not_reached; /* numbers of nodes */
};

/* Copies the faults of a diagnosis into the node. */
void node_add_faults(struct node *node, const struct diagnosis *diagnosis);

/* Compares each node with `expected`. NULL: for each fact the value that most reached nodes have is
 * expected; with equally frequent values, the value of the first node. A node deviates when a fact
 * differs or its own diagnosis found a fault. */
void cluster_judge(struct cluster *cluster, const struct profile *expected);

/* Short form of a list of names, in the order given: "n[01-04,07],login". The caller frees it.
 * NULL: no memory. */
char *cluster_fold_names(const char *const *names, size_t n);

void cluster_free(struct cluster *cluster);

#endif
