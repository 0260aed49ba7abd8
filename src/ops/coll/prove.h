/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that lines (gpu/coll/ll128.h) come whole between the members of a team: run at its
 * first collective on GPU memory, and agreed on by all of them. */
#ifndef WEFT_OPS_COLL_PROVE_H
#define WEFT_OPS_COLL_PROVE_H

#include "gpu/coll/coll.h"
#include "ops/coll/coll.h"

/* Whether proofs are made at all: what is not proven is not used. Not with WEFT_PROVE=off, nor in
 * checking mode, which goes by what manuals promise. */
bool coll_prove_wanted(void);

/* Collective over the team, as its first rounds. call: of the team, without memory. blocks: the
 * same at all members.
 * *proven: no member saw a line in parts, and each saw enough of them. A member that could not take
 * part fails the call at all. */
weft_status coll_prove_lines(struct weft_team *team, struct coll_call *call, int blocks,
                             bool *proven);

#endif
