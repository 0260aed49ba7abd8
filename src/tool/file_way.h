/* SPDX-License-Identifier: Apache-2.0 */
/* How a job would read a file of this machine. Starts no job and reads no data. */
#ifndef WEFT_TOOL_FILE_WAY_H
#define WEFT_TOOL_FILE_WAY_H

#include <stdbool.h>

#include <weft_file.h>

/* Fills all of *info but the size, as weft_file_query() after weft_file_open(WEFT_FILE_READ).
 * with_gpu: also how the file would be read into GPU memory. */
weft_status tool_file_way(const char *path, bool with_gpu, weft_file_info *info);

#endif
