/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach`: attach.c (options), communicators.c (those of NCCL), diagnose.c (which PE waits
 * for which, and the verdict), text.c and json.c (output). All work on a copy of the black boxes of
 * the PEs. */
#ifndef WEFT_CLI_ATTACH_H
#define WEFT_CLI_ATTACH_H

#include <stddef.h>
#include <stdio.h>

#include "tool/boxes.h"
#include "tool/communicators.h"

/* Writes one sentence: what is stuck, or that nothing is. */
void attach_diagnose(const struct boxes_job *job, char *sentence, size_t bytes);

enum { ATTACH_NOBODY = -1, ATTACH_SOMEBODY = -2 };

/* The index in job->pes of the PE that this one waits for. ATTACH_NOBODY: it does not wait.
 * ATTACH_SOMEBODY: the PE is unknown or on another node. */
int attach_waits_for(const struct boxes_job *job, int slot);

/* "running", "not started", "dead" ... */
const char *attach_state(const struct boxes_pe *pe);

/* Seconds from then_ns to now_ns; 0 when negative. */
double attach_seconds(uint64_t now_ns, uint64_t then_ns);

/* `history`: number of last operations to show. */
void attach_text(FILE *to, const struct boxes_job *job, int history);
void attach_json(FILE *to, const struct boxes_job *job, const struct communicators *all);

/* communicators.c: those of process `pid` and of the PEs of the job. */
void attach_communicators_read(int pid, const struct boxes_job *job, struct communicators *all);
void attach_communicators_text(FILE *to, const struct communicators *all);

#endif
