/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of `weft doctor`: one machine, beside an expectation, and the nodes of a cluster. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>
#include <stdio.h>

#include "run/hosts.h"
#include "machine/checks/cluster.h"
#include "machine_options.h"

struct doctor_options {
    struct machine_options machine;
    int quick, all;
    const char *against;      /* file or description; NULL */
    const char *prometheus;   /* file, "-": standard output; NULL: print for people */
    bool expect;              /* print the expectation that this machine makes */
    bool report;              /* print what `weft doctor --hosts` elsewhere gathers */
    bool job;                 /* examine the nodes of the job whose PE this is */
    struct run_options reach; /* hosts, and how they are reached */
    uint64_t limit_ns;        /* how long a host is waited for */
    uint64_t interval_ns;     /* between two looks at counters; 0: one look */
    const char *interval;     /* as it was given */
};

/* --- compare.c: one machine beside an expectation --- */

/* The number of facts that differ; also printed, with what they are. */
int doctor_count_differences(const struct profile *seen, const struct profile *expected);
int doctor_print_comparison(const struct profile *seen, const struct profile *expected,
                            const char *name);
/* The same as an object with the keys expected_by, differs, not_seen and differences. */
json_t *doctor_json_comparison(const struct profile *seen, const struct profile *expected,
                               const char *name);

/* --- node.c: the report of a node --- */

/* Text, to be freed; NULL: no memory. */
char *doctor_node_write(const struct machine *machine, const struct diagnosis *diagnosis);
/* Fills the node from the text; false: node->why says why not. A node without a name gets its
 * host's. */
bool doctor_node_read(struct node *node, const char *text);

/* --- hosts.c: gathers the reports of the hosts in options->reach --- */

/* One node for each host, in order. False: no memory, said so. */
bool doctor_visit_hosts(const struct doctor_options *options, struct cluster *cluster);
/* Takes the hosts of the Slurm allocation that this process is in, reached by srun where no other
 * command was named. False: said why not. */
bool doctor_take_allocation(struct run_options *reach);

/* --- job.c: gathers them from the PEs of a job --- */

struct doctor_job {
    struct boot *boot; /* NULL: no job of several PEs */
    bool examines;     /* this PE examines its node */
    bool silent;       /* PE 0 prints */
    size_t n_nodes;
};

/* Joins the job that this process was started in. `asked`: by --job; else only `weft run` and PMIx
 * count.
 * False: asked, and there is none; said so. */
bool doctor_join_job(bool asked, struct doctor_job *job);
/* Collective. report: of a PE that examines, else NULL. PE 0 gets the cluster. */
weft_status doctor_gather_job(struct doctor_job *job, const char *report, struct cluster *cluster);
void doctor_leave_job(struct doctor_job *job, bool clean);

/* --- cluster.c --- */

/* `against`: by what they were judged; NULL: each other. */
void doctor_print_cluster(const struct cluster *cluster, const char *against);
void doctor_json_cluster(const struct cluster *cluster, const char *against);

/* --- metrics.c: for Prometheus --- */

/* `differs`: facts that are not as expected, -1: nothing was expected. Each returns an exit status:
 * that of the judgement, or EXIT_USAGE after saying why the file could not be written. */
int doctor_write_metrics(const char *path, const struct machine *machine,
                         const struct diagnosis *diagnosis, int differs);
int doctor_write_cluster_metrics(const char *path, const struct cluster *cluster);

#endif
