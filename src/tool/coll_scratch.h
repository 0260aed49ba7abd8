/* SPDX-License-Identifier: Apache-2.0 */
/* What the library takes of each GPU heap for collectives, in words for `weft env`. */
#ifndef WEFT_TOOL_COLL_SCRATCH_H
#define WEFT_TOOL_COLL_SCRATCH_H

#include <stddef.h>

struct tool_coll_scratch {
    int teams,
        wide_teams; /* that have an area for the kernels of collectives; of those the larger ones */
    size_t wide_bytes, narrow_bytes, bytes; /* of each, of all */
    size_t room_bytes[2]; /* of device code's packets: of the world and the node each, of another
                             team */
};

struct tool_coll_scratch tool_coll_scratch(void);

/* One line. */
void tool_coll_scratch_text(char *text, size_t bytes);

#endif
