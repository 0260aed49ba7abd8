/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL and NVSHMEM will do on a machine by their documented rules, as far as the machine's
 * facts decide it, and the variables to set where the default is not the best. Pure functions of
 * the model: neither library is loaded or asked. */
#ifndef WEFT_MACHINE_LIBRARIES_H
#define WEFT_MACHINE_LIBRARIES_H

#include "machine/checks/assign.h"

/* What a library does for several pairs or GPUs of one kind. */
struct library_use {
    const char *library; /* "NCCL", "NVSHMEM" */
    const char *scope;   /* "pairs of GPUs", "GPUs to other hosts", "collectives" */
    char does[160];      /* "P2P over NVLink" */
    char example[80];    /* the first of them: "gpu0 gpu1"; "" for collectives */
    int n;               /* number of pairs or GPUs; 0 for collectives */
};

struct library_variable {
    const char *library, *name;
    char *value; /* NULL: its value is not known from the machine; `why` says where to find it */
    char why[240];
};

enum { LIBRARY_USES = 32, LIBRARY_VARIABLES = 16 };

struct library_plan {
    struct library_use uses[LIBRARY_USES];
    struct library_variable variables[LIBRARY_VARIABLES];
    int n_uses, n_variables;
};

/* Fills the plan; empty when the machine has no GPU of NVIDIA. libraries_free() releases it. */
void libraries_plan(const struct machine *machine, struct library_plan *plan);
void libraries_free(struct library_plan *plan);

#endif
