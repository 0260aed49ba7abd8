/* SPDX-License-Identifier: Apache-2.0 */
/* The table by which PEs find the others of a team; see team_meet.c. */
#ifndef WEFT_NVSHMEM_TEAM_MEET_H
#define WEFT_NVSHMEM_TEAM_MEET_H

#include <weft/nvshmem/host.h>

#include "base/status.h"

/* Collective. The table is a part of the host heap, and goes with it. */
weft_status team_meet_start(weft_job *job);
void team_meet_end(void);

#endif
