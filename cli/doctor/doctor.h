/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of `weft doctor`: one machine, its comparison with an expectation, and the nodes
 * of a cluster. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>
#include <stdio.h>

#include "machine/checks/cluster.h"
#include "machine_options.h"
#include "run/hosts.h"

struct doctor_options {
    struct machine_options machine;
    int quick, all;
    const char *against;    /* file or description of the expectation; NULL: none */
    const char *log;        /* a log of NCCL to read; "-": standard input; NULL: the machine */
    const char *prometheus; /* file for metrics, "-": standard output; NULL: text */
    bool expect;            /* print this machine's facts as an expectation */
    bool report;            /* print the report that `weft doctor --hosts` on another host reads */
    bool job;               /* examine the nodes of the job of this PE */
    struct run_options reach; /* hosts and remote shell */
    uint64_t limit_ns;        /* time limit for each host */
    uint64_t interval_ns;     /* time between two readings of the counters; 0: one reading */
    const char *interval;     /* interval as given by the user */
};

/* --- compare.c: comparison of one machine with an expectation --- */

/* Both return the number of facts that differ; the second also prints them. */
int doctor_count_differences(const struct profile *seen, const struct profile *expected);
int doctor_print_comparison(const struct profile *seen, const struct profile *expected,
                            const char *name);
/* The comparison as an object with the keys expected_by, differs, not_seen and differences. */
json_t *doctor_json_comparison(const struct profile *seen, const struct profile *expected,
                               const char *name);

/* --- verdict.c: what to fix and what to check --- */

void doctor_print_verdict(const struct diagnosis *diagnosis);
/* A list of objects with the keys do ("fix" or "check"), code, place (of the greatest gain),
 * places, gain_mbps, remedy and who. */
json_t *doctor_json_verdict(const struct diagnosis *diagnosis);

/* --- libraries.c: what NCCL and NVSHMEM will do --- */

/* Prints nothing for a machine without GPUs of NVIDIA. */
void doctor_print_libraries(const struct machine *machine);
/* An object with the lists uses (library, scope, count, example, does) and variables (library,
 * name, value, why; value null: not known). */
json_t *doctor_json_libraries(const struct machine *machine);

/* --- log.c: a log of NCCL --- */

/* Prints what the log says of slow paths. Returns the exit status: EXIT_USAGE after reporting why
 * the file is no log of NCCL. */
int doctor_read_log(const char *name, bool json);

/* --- node.c: the report of a node --- */

/* Returns the report as text, which the caller frees; NULL: no memory. */
char *doctor_node_write(const struct machine *machine, const struct diagnosis *diagnosis);
/* Fills the node from the report. False: node->why has the reason. A node without a name gets
 * the host name of the report. */
bool doctor_node_read(struct node *node, const char *text);

/* --- hosts.c: gathers the reports of the hosts in options->reach --- */

/* Fills the cluster with one node for each host, in order. False: it has reported that there is
 * no memory. */
bool doctor_visit_hosts(const struct doctor_options *options, struct cluster *cluster);
/* Adds the hosts of the Slurm allocation of this process, reached by srun unless the user named
 * another command. False: it has reported why. */
bool doctor_add_allocation(struct run_options *reach);

/* --- job.c: gathers the reports from the PEs of a job --- */

struct doctor_job {
    struct boot *boot; /* NULL: there is no job of several PEs */
    bool examines;     /* this PE examines its node */
    bool silent;       /* this PE does not print; PE 0 does */
    size_t n_nodes;
};

/* Joins the job in which this process was started. `requested`: the user gave --job; else only jobs
 * of `weft run` and PMIx are joined. False: --job was given and there is no job; it has reported
 * so. */
bool doctor_join_job(bool requested, struct doctor_job *job);
/* Collective. report: the report of a PE that examines its node, else NULL. PE 0 gets the
 * cluster. */
weft_status doctor_gather_job(struct doctor_job *job, const char *report, struct cluster *cluster);
void doctor_leave_job(struct doctor_job *job, bool clean);

/* --- cluster.c --- */

/* `against`: the name of the expectation; NULL: the nodes were compared with the majority. */
void doctor_print_cluster(const struct cluster *cluster, const char *against);
void doctor_json_cluster(const struct cluster *cluster, const char *against);

/* --- metrics.c: for Prometheus --- */

/* `differs`: number of facts that are not as expected; -1: there is no expectation. Each returns
 * an exit status: that of the verdict, or EXIT_USAGE after reporting why the file could not be
 * written. */
int doctor_write_metrics(const char *path, const struct machine *machine,
                         const struct diagnosis *diagnosis, int differs);
int doctor_write_cluster_metrics(const char *path, const struct cluster *cluster);

#endif
