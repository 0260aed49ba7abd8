/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of device collectives need of a team: its index on the device, its size, and the PEs
 * of its members. */
#ifndef WEFT_TESTS_DEVICE_MEMBERS_H
#define WEFT_TESTS_DEVICE_MEMBERS_H

#include "device_test.h"

enum { MEMBERS = 5 }; /* at most */

#if WEFT_HOST_CODE

struct members {
    weft_team *team;
    int number, n, me, pes[MEMBERS];
};

static inline struct members know(weft_team *team)
{
    struct members m = {.team = team,
                        .number = weft_team_device(team),
                        .n = weft_team_n_pes(team),
                        .me = weft_team_my_pe(team)};
    CHECK(m.n <= MEMBERS);
    for (int i = 0; i < m.n; i++)
        m.pes[i] = weft_team_translate(team, i, weft_team_world(job));
    return m;
}

#endif

#endif
