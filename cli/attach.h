/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft attach` finds in a job's black boxes, copied out of the live memory so that it can be
 * looked at in peace. */
#ifndef WEFT_CLI_ATTACH_H
#define WEFT_CLI_ATTACH_H

#include "job/device_state.h"

#include <stdbool.h>

struct attach_pe {
    struct box box;             /* a copy; strings are terminated */
    struct weft_dev_box device; /* a copy of what kernels say */
    bool present;               /* the slot holds a box */
    bool alive;                 /* its process exists */
};

struct attach_job {
    int count; /* PEs of the node */
    uint64_t now_ns;
    struct attach_pe *pes;
};

/* Finds and copies the boxes of the job that process `pid` belongs to. On failure false, and the
 * sentence is in `why`. */
bool attach_read(int pid, struct attach_job *job, char *why, int why_bytes);

void attach_free(struct attach_job *job);

/* One sentence on what is stuck, or that nothing is. */
void attach_diagnose(const struct attach_job *job, char *sentence, int bytes);

/* The PE (slot) that slot waits for first, -1: it does not wait, -2: for somebody unknown. */
int attach_waits_for(const struct attach_job *job, int slot);

/* "barrier", and how long it has lasted in seconds; NULL when the PE is in no slow wait. */
const struct box_wait *attach_wait(const struct attach_pe *pe);

#endif
