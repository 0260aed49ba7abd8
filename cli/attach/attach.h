/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach` in four files: attach.c (options), diagnose.c (who waits for whom, and what
 * that means), text.c and json.c (how it is shown). All work on a copy of the
 * boxes. */
#ifndef WEFT_CLI_ATTACH_H
#define WEFT_CLI_ATTACH_H

#include <stddef.h>
#include <stdio.h>

#include "tool/boxes.h"

/* One sentence on what is stuck, or that nothing is. */
void attach_diagnose(const struct boxes_job *job, char *sentence, size_t bytes);

enum { ATTACH_NOBODY = -1, ATTACH_SOMEBODY = -2 };

/* The slot in job->pes that this slot waits for; ATTACH_NOBODY: it does not wait;
 * ATTACH_SOMEBODY: for a PE that is not known or not on this node. */
int attach_waits_for(const struct boxes_job *job, int slot);

/* "running", "not started", "dead" ... */
const char *attach_state(const struct boxes_pe *pe);

/* From `then` to `now`; 0 when that is negative. */
double attach_seconds(uint64_t now_ns, uint64_t then_ns);

/* `history`: how many of the last operations are shown. */
void attach_text(FILE *to, const struct boxes_job *job, int history);
void attach_json(FILE *to, const struct boxes_job *job);

#endif
