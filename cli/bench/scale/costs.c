/* SPDX-License-Identifier: Apache-2.0 */
/* The times of struct scale_costs on this machine: of frames, by groups of processes (group.c) and
 * by wires in one process, and of copies. See scale.h. */
#include "bench/scale/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE_BYTES = 16384, BEST_OF = 5 };

/* Time of the CPUs for a frame to a child and its answer, with all processes of a job. It grows
 * with the processes, whose memory the caches do not hold. Where there are too few to keep all CPUs
 * busy, one CPU shows it. */
static bool measure_work(const struct scale_group *what, int hosts, int cpus,
                         struct scale_group_costs *group, double *work_ns)
{
    const bool busy = cpus && hosts >= cpus;
    if (!(busy ? scale_measure_groups(what, hosts, group) : scale_measure_group(what, true, group)))
        return false;
    *work_ns = group->round_ns / what->children * (busy ? (double)cpus / hosts : 1);
    return true;
}

static double positive(double ns)
{
    return ns > 0 ? ns : 0;
}

/* Frames of one kind. What they do not take of the work is that of starting processes. A round of
 * one child where the scheduler places it, compared with one on the same CPU, shows what two starts
 * on idle CPUs take longer, a part of which is the sender's time. */
static bool measure_kind(bool between_hosts, const struct scale_processes *job, int cpus,
                         struct scale_kind_cost *kind)
{
    const int children = job->per_host < SCALE_GROUP_MOST ? job->per_host : SCALE_GROUP_MOST;
    const struct scale_group small = {between_hosts, children, 0},
                             large = {between_hosts, children, LARGE_BYTES},
                             single = {between_hosts, 1, 0};
    struct scale_group_costs group, other, one, free;
    double work_ns, large_ns;
    if (!measure_work(&small, job->hosts, cpus, &group, &work_ns) ||
        !measure_work(&large, job->hosts, cpus, &other, &large_ns) ||
        !scale_measure_group(&single, true, &one) || !scale_measure_group(&single, false, &free))
        return false;
    const double rest_ns = work_ns - one.down.receive_ns - group.up.send_ns - group.up.receive_ns;
    *kind = (struct scale_kind_cost){.down = one.down, .up = group.up};
    kind->byte_ns = positive((large_ns - work_ns) / LARGE_BYTES / 2);
    if (kind->down.send_ns > rest_ns) /* the child interrupted the parent */
        kind->down.send_ns = positive(rest_ns);
    kind->switch_ns = positive(rest_ns - kind->down.send_ns);
    kind->wake_ns = positive(free.down.send_ns - one.down.send_ns);
    kind->idle_ns = (free.round_ns - one.round_ns) / 2 - kind->wake_ns;
    return true;
}

/* A copy of a block that is larger than the caches of a core. */
static bool measure_copy(double *copy_ns)
{
    enum { BLOCK_BYTES = 32 << 20 };
    char *from = malloc(BLOCK_BYTES), *to = malloc(BLOCK_BYTES);
    bool good = from && to;
    *copy_ns = 1e18;
    for (int i = 0; i < BEST_OF && good; i++) {
        memset(from, i, BLOCK_BYTES);
        uint64_t began = clock_now_ns();
        memcpy(to, from, BLOCK_BYTES);
        const double ns = (double)(clock_now_ns() - began) / BLOCK_BYTES;
        *copy_ns = ns < *copy_ns && to[i] == i ? ns : *copy_ns;
    }
    free(from);
    free(to);
    if (!good)
        fprintf(stderr, "weft bench scale: no memory to measure copies\n");
    return good;
}

bool scale_costs_measure(const struct scale_processes *job, struct scale_costs *costs)
{
    const struct crypto_driver *crypto;
    if (crypto_load(&crypto)) {
        fprintf(stderr, "weft bench scale: %s\n", weft_last_error());
        return false;
    }
    return measure_kind(false, job, costs->cpus, &costs->in_host) &&
           measure_kind(true, job, costs->cpus, &costs->between_hosts) &&
           measure_copy(&costs->copy_ns);
}
