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
    int absent;    /* of these, where nothing offers what the check is about */
};

struct diagnosis {
    struct doctor_check checks[DOCTOR_CHECKS];
    struct findings findings;
    int faults, unknown;
};

/* "absent" (nothing to look at), "fault", "unknown" (not all could be seen), "not-offered" (nowhere
 * is what the check is about), "in-part" (somewhere it is not), "good". */
const char *doctor_state(const struct doctor_check *check);

/* To be ended with findings_free(&diagnosis->findings). */
void doctor_examine(const struct machine *machine, struct diagnosis *diagnosis);

#endif
