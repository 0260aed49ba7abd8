/* SPDX-License-Identifier: Apache-2.0 */
/* One file moved by cuFile as it is when nothing special is set up: in compatibility mode, where
 * its driver module is not loaded. For comparison only. */
#ifndef WEFT_TOOL_CUFILE_MOVE_H
#define WEFT_TOOL_CUFILE_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool_cufile_move {
    const char *path;
    char file_system[32]; /* its type */
    uint64_t bytes;       /* a multiple of window */
    size_t window;        /* bytes of GPU memory, and of each call */
    bool write;
};

/* GB/s, or negative with why not in `why`. */
double tool_cufile_move(const struct tool_cufile_move *move, char *why, size_t why_bytes);

/* In which mode it is, "" = it is not here. */
const char *tool_cufile_mode(void);

#endif
