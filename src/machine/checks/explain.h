/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on one pair: the route that Weft uses, its expected rate, the faster routes that are
 * off and why. Pure functions of the model, which may contain measured results. */
#ifndef WEFT_MACHINE_EXPLAIN_H
#define WEFT_MACHINE_EXPLAIN_H

#include "machine/reasons.h"
#include "machine/routes/routes.h"

struct verdict {
    struct endpoint a, b;
    const struct machine_mount *mount; /* of a file or disk, else NULL */
    struct routes routes;
    const struct route *chosen;   /* the route that Weft uses; NULL when it supports none */
    const struct route *possible; /* the best usable route of the machine; NULL when none */
    const struct machine_measured *measured, *measured_back; /* NULL: not measured */
    const struct machine_rung *ladder[8];                    /* results for a GPU and a NIC */
    int n_ladder;
    struct findings findings;
};

/* `a` and `b` are names as endpoint_find() takes them; one may be a file path (with a '/') when the
 * other is a GPU or "host". WEFT_ERR_ARGUMENT: the message has the wrong name and similar ones. */
weft_status explain_pair(const struct machine *machine, const char *a, const char *b,
                         struct verdict *verdict);

/* Every route between two endpoints, best first. Routes that a finding turns off are not usable.
 * All tables and drawings use this, so that none contradicts the verdict. */
void explain_routes(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, struct routes *routes);

/* Adds everything that `explain` reports about a pair; `routes` are those of explain_routes().
 * `doctor` uses this too, so that it misses nothing that `explain` finds. */
void explain_findings(const struct machine *machine, const struct endpoint *a,
                      const struct endpoint *b, const struct machine_mount *mount,
                      const struct routes *routes, struct findings *findings);

/* Sets gain_mbps of the findings of this pair from index `first` on: the rate of the best route
 * after the repair minus the rate of the best route now. `mount` as in a verdict. */
void explain_gains(const struct machine *machine, const struct endpoint *a,
                   const struct endpoint *b, const struct machine_mount *mount,
                   struct findings *findings, int first);

/* Releases a verdict; also needed after explain_pair() failed. */
void verdict_free(struct verdict *verdict);

/* True when a finding turns a faster route off or makes this one slow. */
bool verdict_has_fault(const struct verdict *verdict);

#endif
