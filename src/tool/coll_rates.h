/* SPDX-License-Identifier: Apache-2.0 */
/* For `weft bench coll`, `weft explain coll` and `weft env`: the rates from which the library
 * chooses the algorithm of a collective, forcing an algorithm, and storing measured rates. */
#ifndef WEFT_TOOL_COLL_RATES_H
#define WEFT_TOOL_COLL_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

#include "ops/coll/choose.h"

/* Rates that a job on this machine would use, and their origin in `text`: "built in", "of FILE,
 * measured DATE by 4 PEs on 4 NVIDIA H200", or why a file was refused. Needs no job. Loads the CUDA
 * driver only when there is a file to compare with. */
void tool_coll_rates_here(struct coll_rates *rates, char *text, size_t bytes);

/* The following functions need a team of a job. */

/* True when kernels run collectives of the team; else host callbacks in stream order do. */
bool tool_coll_by_kernels(weft_team *team);

/* Number of GPUs that the members of a team with kernels use. With fewer GPUs than members, kernels
 * take turns on a GPU for milliseconds, so measured times do not show the speed of links. */
int tool_coll_gpus(const weft_team *team);

/* Forces an algorithm. sms: as WEFT_COLL_SMS. Collective over the team, see coll_kernel_force(). */
weft_status tool_coll_force(weft_team *team, enum coll_algorithm way, int sms);

/* Prediction of the model. */
struct tool_coll_model {
    enum coll_algorithm taken; /* the chosen algorithm, for COLL_ALGO_AUTO; else the given one */
    double us;                 /* predicted time; negative: the algorithm cannot run this */
    double floor_us;           /* lowest time that any algorithm could reach */
    unsigned blocks;           /* thread blocks of its kernel */
};
struct tool_coll_model tool_coll_model(weft_team *team, enum coll_what what,
                                       enum coll_algorithm way, int sms, uint64_t bytes);

/* Prediction for a strided alltoall: copy engines and LL128 cannot run it, and the gaps between
 * elements cost nothing. */
struct tool_coll_model tool_coll_model_strided(weft_team *team, enum coll_algorithm way, int sms,
                                               uint64_t bytes);

/* Rates of the team, else the built-in ones. */
const struct coll_rates *tool_coll_rates(weft_team *team);

/* Writes rates into the file of this machine and returns its name in `path`. WEFT_ERR_CONFIG: there
 * is no file (WEFT_COLL_RATES=off). */
weft_status tool_coll_keep(weft_job *job, const struct coll_rates *rates, int pes, char *path,
                           size_t bytes);

/* Largest block or vector in bytes that one round of the algorithm handles. */
uint64_t tool_coll_round_bytes(weft_team *team, enum coll_what what, enum coll_algorithm way);

#endif
