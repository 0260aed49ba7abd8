/* SPDX-License-Identifier: Apache-2.0 */
/* The foreign libraries that Weft loads at run time, as found on this machine. */
#ifndef WEFT_TOOL_LIBRARIES_H
#define WEFT_TOOL_LIBRARIES_H

#include <stdbool.h>

enum { TOOL_LIBRARIES = 9 };

struct tool_library {
    const char *name; /* "CUDA driver" */
    const char *use;  /* what Weft does with it */
    bool found;
    char version[64]; /* "" when the library does not tell */
    char file[256];   /* of a library that was found */
    char why[400];    /* why it was not found */
};

/* Loads each library in turn, as a job would, and unloads it. */
void tool_find_libraries(struct tool_library list[TOOL_LIBRARIES]);

#endif
