/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain --job PID` and `weft explain --job PID PE PE`: the paths that the PEs have
 * recorded. */
#ifndef WEFT_CLI_EXPLAIN_PES_H
#define WEFT_CLI_EXPLAIN_PES_H

#include <jansson.h>
#include <stdbool.h>

#include "tool/choices.h"

enum { EXPLAIN_LABEL = 12 }; /* column at which the text of a line starts */

/* Names of the memory kinds. */
extern const char *const explain_kind_names[CHOICES_KINDS];

/* Parses "pe3" or "3". */
bool explain_pe_number(const char *text, int *pe);

/* Prints how two PEs of the job of process `pid` reach each other, as the PEs have recorded it.
 * Returns the exit status: 1 when a pair has no path or a path failed its test, 2 when there is
 * no such job or PE. */
int explain_pes(int pid, const int pes[2], bool json);

/* Prints for each memory kind the path of each pair of PEs, with pairs of the same path and
 * reason in one line, and how many operations used each path so far. Covers the PEs on this
 * machine. Returns the exit status as above. json: added to *result instead of printed. */
int explain_job_pes(int pid, json_t *result);

/* Whether `pid` is a PE of a Weft job, or has started one on this machine. */
bool explain_is_job(int pid);

#endif
