/* SPDX-License-Identifier: Apache-2.0 */
/* The inner interface of the command `weft`: besides weft.h and its relatives, and the machine's
 * model (src/machine/), the command includes only the headers of this room.
 *
 *   tool.h           failing with a sentence (base_fail), the clock, the configuration variables,
 *                    reading a file that the user names, text from elsewhere made fit for a
 *                    terminal
 *   boot.h           how the processes of a job tell each other bytes before weft_init()
 *   boxes.h          what the PEs of a running job do, from their black boxes
 *   choices.h        by which paths they reach each other, from the same place
 *   coll_rates.h     which rates collectives on GPU memory are chosen by, forcing a way
 *   coll_way.h       by which way a collective on GPU memory goes
 *   file_way.h       by what a job would read a file
 *   gpu_probe.h      proving and measuring pairs of GPUs
 *   job_gpus.h       which GPUs the processes of a job use
 *   launcher.h       the hub of a job, for `weft run`
 *   link_counters.h  error counters of links
 *   proxy_trace.h    when the proxy's thread did what
 *   timed_stream.h   a stream with a clock and graphs
 *
 * A front for rooms that the command must not depend on one by one: when one of them changes, this
 * room follows and the command does not. Knows no option and prints nothing. */
#ifndef WEFT_TOOL_TOOL_H
#define WEFT_TOOL_TOOL_H

#include "base/clock.h"
#include "base/config.h"
#include "base/printable.h"
#include "base/read_file.h"
#include "base/status.h"

#endif
