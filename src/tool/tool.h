/* SPDX-License-Identifier: Apache-2.0 */
/* The internal interface of the command `weft`. Besides the public headers and the machine model
 * (src/machine/), the command includes only the headers of this module.
 *
 *   tool.h           error messages (base_fail), the clock, the configuration variables, reading a
 *                    file that the user names, making foreign text printable
 *   boot.h           data exchange between the processes of a job before weft_init()
 *   boxes.h          what the PEs of a running job are doing, from their black boxes
 *   choices.h        the paths between them, from the same source
 *   coll_rates.h     the rates from which algorithms of collectives are chosen
 *   coll_scratch.h   the slots of their staged algorithms
 *   coll_way.h       the algorithm of a collective on GPU memory
 *   cufile_move.h    a transfer by cuFile alone
 *   file_way.h       how a job would read a file
 *   gpu_copies.h, gpu_link.h   copies of a GPU by themselves; its PCIe link
 *   gpu_probe.h      tests and measurements of pairs of GPUs
 *   job_gpus.h       the GPUs that the processes of a job use
 *   launcher.h       the hub of a job, for `weft run`
 *   link_counters.h  error counters of links
 *   map_probe.h      tests of GPU memory that the CPU maps
 *   proxy_trace.h    timestamps of the proxy thread
 *   system_segment.h the system segment of a running job
 *   timed_stream.h   a stream with timing and graphs
 *
 * The command does not depend on the modules behind these headers. When one of them changes, this
 * module is adapted, not the command. It has no options and prints nothing. */
#ifndef WEFT_TOOL_TOOL_H
#define WEFT_TOOL_TOOL_H

#include "base/clock.h"
#include "base/config.h"
#include "base/printable.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/text.h"

#endif
