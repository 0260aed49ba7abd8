/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of `weft doctor`: one machine, beside an expectation, and the nodes of a cluster. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>

#include "machine/cluster.h"
#include "machine_options.h"

struct doctor_options {
    struct machine_options machine;
    int quick, all;
    const char *against; /* file or description; NULL */
    bool expect;         /* print the expectation that this machine makes */
};

/* doctor_compare.c */

/* How this machine stands beside an expectation: text, and the same as a JSON object. Each returns or holds
 * in "differs" the number of facts that differ. */
int doctor_print_comparison(const struct profile *seen, const struct profile *expected,
                            const char *name);
json_t *doctor_json_comparison(const struct profile *seen, const struct profile *expected,
                               const char *name);

#endif
