/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft bench coll`, `weft explain coll` and `weft env`: which rates the library reckons with
 * when it chooses a collective's way, forcing a way, and keeping rates that were measured. */
#ifndef WEFT_TOOL_COLL_RATES_H
#define WEFT_TOOL_COLL_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#include "ops/coll/choose.h"

/* What a job on this machine would take, without one: "built in", "of FILE, measured DATE by 4 PEs
 * on 4 NVIDIA H200", or why a file was refused. Opens the driver only where there is a file to be
 * judged. */
void tool_coll_rates_here(struct coll_rates *rates, char *text, size_t bytes);

/* Of a team in a job. */

/* Whether kernels serve it at all: else the host's functions are called in stream order. */
bool tool_coll_by_kernels(weft_team *team);

/* Of a team served by kernels: how many GPUs its members use. Where they are fewer than the
 * members, kernels take turns on one, by the millisecond, and times say nothing of links. */
int tool_coll_gpus(const weft_team *team);

/* sms: as WEFT_COLL_SMS. Collective over the team, see coll_kernel_force(). */
weft_status tool_coll_force(weft_team *team, enum coll_algorithm way, int sms);

/* What the model says, and what is taken where the way is COLL_ALGO_AUTO. us negative: the way
 * cannot serve. */
struct tool_coll_model {
    enum coll_algorithm taken;
    double us, floor_us;
    unsigned blocks;
};
struct tool_coll_model tool_coll_model(weft_team *team, enum coll_what what,
                                       enum coll_algorithm way, int sms, uint64_t bytes);

/* Of an alltoall whose elements lie apart: copy engines and lines do not serve, and the gaps cost
 * nothing. */
struct tool_coll_model tool_coll_model_strided(weft_team *team, enum coll_algorithm way, int sms,
                                               uint64_t bytes);

/* Those of the team; where there is none, those that are built in. */
const struct coll_rates *tool_coll_rates(weft_team *team);

/* Writes them into this machine's file, whose name comes back. WEFT_ERR_CONFIG: there is none
 * (WEFT_COLL_RATES=off). */
weft_status tool_coll_keep(weft_job *job, const struct coll_rates *rates, int pes, char *path,
                           size_t bytes);

/* The largest size of a block, or vector, that goes in one round. */
uint64_t tool_coll_round_bytes(weft_team *team, enum coll_what what, enum coll_algorithm way);

#endif
