/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether LL128 lines (gpu/coll/ll128.h) arrive as a whole between the members of a team. The
 * test runs at the team's first collective on GPU memory, and all members use the common result. */
#ifndef WEFT_OPS_COLL_PROVE_H
#define WEFT_OPS_COLL_PROVE_H

#include "gpu/coll/coll.h"
#include "ops/coll/coll.h"

/* Whether the test is made at all; without it LL128 is not used. It is not made with
 * WEFT_PROVE=off, nor in checking mode, which relies only on what the vendor's manuals
 * guarantee. */
bool coll_prove_wanted(void);

/* Runs the test in the team's first rounds. Collective over the team. call: a call of the team
 * without memory. blocks: number of blocks, the same at all members. *proven: no member saw a torn
 * line, and each saw enough lines change. A member that cannot take part fails the call at all
 * members. */
weft_status coll_prove_ll128(struct weft_team *team, struct coll_call *call, int blocks,
                             bool *proven);

#endif
