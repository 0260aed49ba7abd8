/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain --job PID` and `weft explain --job PID PE PE`: what the PEs have noted
 * themselves. */
#ifndef WEFT_CLI_EXPLAIN_PES_H
#define WEFT_CLI_EXPLAIN_PES_H

#include <jansson.h>
#include <stdbool.h>

#include "tool/choices.h"

/* Names of the kinds of memory. */
extern const char *const explain_kind_names[CHOICES_KINDS];

/* "pe3" or "3". */
bool explain_pe_number(const char *text, int *pe);

/* Prints how two PEs of the job of process `pid` reach each other, as they know it themselves. The
 * exit status: 1 when a pair is without a path, or one of its paths failed its proof; 2 when there
 * is no such job or PE. */
int explain_pes(int pid, const int pes[2], bool json);

/* Prints for each kind of memory which path the pairs of PEs have taken, the pairs of one path and
 * reason together, and how many operations went over each path so far. Of the PEs on this machine.
 * The exit status as above. json: added to *result, not printed. */
int explain_job_pes(int pid, json_t *result);

/* Whether `pid` is a PE of a Weft job, or has started one on this machine. */
bool explain_is_job(int pid);

#endif
