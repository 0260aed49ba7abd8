/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers a file with cuFile, where supported: one thread, GPU memory. */
#include "bench/file/file.h"

#include <string.h>

#include "tool/cufile_move.h"

double file_by_cufile(const struct file_point *point, char *why, size_t why_bytes)
{
    struct tool_cufile_move move = {
        .path = point->path, .bytes = point->bytes, .window = point->window, .write = point->write};
    memcpy(move.file_system, point->file_system, sizeof move.file_system);
    return point->gpu && point->threads == 1 ? tool_cufile_move(&move, why, why_bytes) : -1;
}

const char *file_cufile_mode(void)
{
    return tool_cufile_mode();
}
