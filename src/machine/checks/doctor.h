/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every check over the whole machine; no fault ends the run. Pure functions of the model. */
#ifndef WEFT_MACHINE_DOCTOR_H
#define WEFT_MACHINE_DOCTOR_H

#include "machine/machine.h"
#include "machine/reasons.h"

enum { DOCTOR_CHECKS = 9 };

struct doctor_check {
    const char *name;    /* stable name, for JSON */
    const char *title;   /* shown to the user */
    int first, n;        /* index of its first finding, and their number */
    int faults, unknown; /* number of its findings of WEIGHT_OFF or _SLOW, and of WEIGHT_UNKNOWN */
    int examined;        /* GPUs, pairs, NICs ... that were examined */
    int absent;          /* of these, the ones without the feature of this check */
    bool known;          /* some fact that this check looks at is known */
};

struct diagnosis {
    struct doctor_check checks[DOCTOR_CHECKS];
    struct findings findings;
    int faults, unknown;
};

/* "absent" (nothing to examine), "fault", "unknown" (some facts could not be observed),
 * "not-known" (no fact is known), "not-offered" (no device has the feature), "in-part" (some
 * devices lack it), "good". */
const char *doctor_state(const struct doctor_check *check);

/* The caller releases the result with findings_free(&diagnosis->findings). */
void doctor_examine(const struct machine *machine, struct diagnosis *diagnosis);

#endif
