/* SPDX-License-Identifier: Apache-2.0 */
/* Every check over the whole machine at once; nothing stops at the first fault. Pure functions of
 * the model. */
#ifndef WEFT_MACHINE_DOCTOR_H
#define WEFT_MACHINE_DOCTOR_H

#include "machine/machine.h"
#include "machine/reasons.h"

enum { DOCTOR_CHECKS = 9 };

struct doctor_check {
    const char *name;  /* stable, for JSON */
    const char *title; /* for people */
    int first, n;      /* findings of this check */
    int faults, unknown;
    int looked_at; /* GPUs, pairs, NICs ... that were examined */
};

struct diagnosis {
    struct doctor_check checks[DOCTOR_CHECKS];
    struct findings findings;
    int faults, unknown;
};

/* To be ended with findings_free(&diagnosis->findings). */
void doctor_examine(const struct machine *machine, struct diagnosis *diagnosis);

#endif
