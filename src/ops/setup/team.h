/* SPDX-License-Identifier: Apache-2.0 */
/* Teams that the library makes for itself. */
#ifndef WEFT_OPS_SETUP_TEAM_H
#define WEFT_OPS_SETUP_TEAM_H

#include "job/job.h"

/* Makes a team of the members that are on this PE's node. Collective over the parent, which has
 * parent->nodes. weft_team_destroy() ends it.
 * Errors: those of weft_team_split_strided(). */
weft_status team_split_node(struct weft_team *parent, struct weft_team **team);

#endif
