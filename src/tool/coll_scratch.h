/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each GPU heap that the library uses for collectives, as text for `weft env`. */
#ifndef WEFT_TOOL_COLL_SCRATCH_H
#define WEFT_TOOL_COLL_SCRATCH_H

#include <stddef.h>

struct tool_coll_scratch {
    int teams;            /* teams with an area for the kernels of collectives */
    int wide_teams;       /* of these, teams with a large area */
    size_t wide_bytes;    /* size of a large area */
    size_t narrow_bytes;  /* size of a small area */
    size_t bytes;         /* all areas together */
    size_t room_bytes[2]; /* LL buffers of device code: [0] of the world or node team, [1] of
                             another team */
};

struct tool_coll_scratch tool_coll_scratch(void);

/* One line. */
void tool_coll_scratch_text(char *text, size_t bytes);

#endif
