/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on one pair: which way is taken, what it gives, which better ones are off and why.
 * Pure functions of the model, measured results included where they are recorded in it. */
#ifndef WEFT_MACHINE_EXPLAIN_H
#define WEFT_MACHINE_EXPLAIN_H

#include "machine/reasons.h"
#include "machine/routes/routes.h"

struct verdict {
    struct endpoint a, b;
    const struct machine_mount *mount; /* for files, else NULL */
    struct routes routes;
    const struct route *chosen;   /* NULL: this version of Weft has no way */
    const struct route *possible; /* the best that the machine could; NULL: there is none */
    const struct machine_measured *measured, *measured_back; /* NULL: not measured */
    const struct machine_rung *ladder[8];                    /* for GPU and NIC */
    int n_ladder;
    struct findings findings;
};

/* Names as endpoint_find() takes them, or a file path (with a '/') beside a GPU or "host".
 * WEFT_ERR_ARGUMENT names what is wrong and what is near. */
weft_status explain_pair(const struct machine *machine, const char *a, const char *b,
                         struct verdict *verdict);

/* Every way between two endpoints, best first, and those that a finding turns off are off: what
 * each table, drawing and answer shows, so that none contradicts the verdict. */
void explain_routes(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, struct routes *routes);

/* Sets, of the findings from `first` on that are of this pair, what the repair of each brings: the
 * best way expected after it less the best of now. `mount` as in a verdict. */
void explain_gains(const struct machine *machine, const struct endpoint *a,
                   const struct endpoint *b, const struct machine_mount *mount,
                   struct findings *findings, int first);

/* Releases what a verdict owns; needed after a failure too. */
void verdict_free(struct verdict *verdict);

/* A finding turns a better way off, or makes this one slow. */
bool verdict_has_fault(const struct verdict *verdict);

#endif
