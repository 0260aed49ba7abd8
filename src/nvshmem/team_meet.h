/* SPDX-License-Identifier: Apache-2.0 */
/* The table in which PEs find the other members of a team; see team_meet.c. */
#ifndef WEFT_NVSHMEM_TEAM_MEET_H
#define WEFT_NVSHMEM_TEAM_MEET_H

#include <weft/nvshmem/host.h>

#include "base/status.h"

/* Collective. The table is in the host heap, and freed with it. */
weft_status team_meet_start(weft_job *job);
void team_meet_end(void);

#endif
