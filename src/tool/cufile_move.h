/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers a file by cuFile with its default settings: in compatibility mode when nvidia_fs is not
 * loaded. Only for comparison in benchmarks. */
#ifndef WEFT_TOOL_CUFILE_MOVE_H
#define WEFT_TOOL_CUFILE_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool_cufile_move {
    const char *path;
    char file_system[32]; /* type of its file system */
    uint64_t bytes;       /* a multiple of window */
    size_t window;        /* bytes of GPU memory, and of each call */
    bool write;
};

/* Transfers the file and returns the rate in GB/s; negative with the reason in `why` on failure. */
double tool_cufile_move(const struct tool_cufile_move *move, char *why, size_t why_bytes);

/* The mode of cuFile as text; "" = the library cannot be loaded. */
const char *tool_cufile_mode(void);

#endif
