/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_scratch.h. */
#include "tool/coll_scratch.h"

#include "gpu/coll/coll.h"

#include <stdio.h>

#include <weft/device/state.h>

struct tool_coll_scratch tool_coll_scratch(void)
{
    return (struct tool_coll_scratch){
        .teams = COLL_TEAMS,
        .wide_teams = COLL_WIDE_TEAMS,
        .wide_bytes = coll_area_offset(1),
        .narrow_bytes = coll_area_offset(COLL_TEAMS) - coll_area_offset(COLL_TEAMS - 1),
        .bytes = gpu_coll_bytes(),
        .room_bytes = {weft_dev_room_bytes(2, 0), weft_dev_room_bytes(2, WEFT_DEV_WIDE_TEAMS)}};
}

void tool_coll_scratch_text(char *text, size_t bytes)
{
    struct tool_coll_scratch s = tool_coll_scratch();
    snprintf(text, bytes,
             "%zu bytes of each GPU heap: %d of %zu (the world and the node), %d of %zu (the next "
             "teams; others call the host's functions); taken with the GPU side, bounded by no "
             "variable; and for device code up to %zu for each of the world and the node, %zu for "
             "another team",
             s.bytes, s.wide_teams, s.wide_bytes, s.teams - s.wide_teams, s.narrow_bytes,
             s.room_bytes[0], s.room_bytes[1]);
}
