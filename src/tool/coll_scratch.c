/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_scratch.h. */
#include "tool/coll_scratch.h"

#include "gpu/coll/coll.h"

#include <stdio.h>

#include <weft/device/state.h>

struct tool_coll_scratch tool_coll_scratch(void)
{
    const struct coll_areas areas = {.teams = COLL_TEAMS, .wide = COLL_WIDE_TEAMS};
    uint64_t bytes = coll_area_offset(&areas, COLL_TEAMS);
    return (struct tool_coll_scratch){
        .teams = areas.teams,
        .wide_teams = areas.wide,
        .wide_bytes = coll_area_offset(&areas, 1),
        .narrow_bytes = bytes - coll_area_offset(&areas, COLL_TEAMS - 1),
        .bytes = bytes,
        .room_bytes = {weft_dev_staging_bytes(2, 0),
                       weft_dev_staging_bytes(2, WEFT_DEV_WIDE_TEAMS)}};
}

void tool_coll_scratch_text(char *text, size_t bytes)
{
    struct tool_coll_scratch s = tool_coll_scratch();
    snprintf(text, bytes,
             "%zu bytes of each GPU heap: %d areas of %zu (world and node team), %d of %zu (the "
             "next teams; further teams use host callbacks), fewer with weft_init_attr.teams; for "
             "device code up to %zu more for the world and the node team each, %zu for another "
             "team",
             s.bytes, s.wide_teams, s.wide_bytes, s.teams - s.wide_teams, s.narrow_bytes,
             s.room_bytes[0], s.room_bytes[1]);
}
