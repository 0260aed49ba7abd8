/* SPDX-License-Identifier: Apache-2.0 */
/* What units.c, units_other.c and the library units_loaded.c share. */
#ifndef WEFT_TESTS_UNITS_H
#define WEFT_TESTS_UNITS_H

#include "device_test.h"

/* The contents of a unit's copy of the state, written by a kernel of that unit. */
struct told {
    int me, n_pes;
    uint64_t reached; /* written by the previous PE */
};

#if WEFT_HOST_CODE
weft_status other_unit(struct told *told, int next);
#endif

#endif
