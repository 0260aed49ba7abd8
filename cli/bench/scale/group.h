/* SPDX-License-Identifier: Apache-2.0 */
/* The group of processes that group.c measures: one parent and its children. */
#ifndef WEFT_CLI_BENCH_SCALE_GROUP_H
#define WEFT_CLI_BENCH_SCALE_GROUP_H

#include "bench/scale/scale.h"

enum { SCALE_GROUP_MOST = 256, SCALE_GROUP_BYTES_MOST = 32768 };

struct scale_group {
    bool between_hosts;
    int children; /* up to SCALE_GROUP_MOST */
    size_t bytes; /* of a frame to a child; up to SCALE_GROUP_BYTES_MOST */
};

struct scale_group_costs {
    struct scale_frame_cost down, up; /* of a frame to a child that sleeps, and of its answer */
    double round_ns;                  /* from the first frame to the last answer */
};

/* Medians of many rounds, on one CPU or where the scheduler places the processes. Where children
 * interrupt the parent, down.send_ns has their time too. false: it has reported why. */
bool scale_measure_group(const struct scale_group *group, bool one_cpu,
                         struct scale_group_costs *costs);

/* Means of several groups at a time, whose processes share the CPUs. */
bool scale_measure_groups(const struct scale_group *group, int groups,
                          struct scale_group_costs *costs);

double scale_median(double *times, int n); /* sorts them */
bool scale_report_errno(const char *what);

#endif
