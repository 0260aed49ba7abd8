/* SPDX-License-Identifier: Apache-2.0 */
/* By what a job would read a file of this machine. Starts no job and reads nothing. */
#ifndef WEFT_TOOL_FILE_WAY_H
#define WEFT_TOOL_FILE_WAY_H

#include <stdbool.h>

#include <weft_file.h>

/* Fills all but the size, as weft_file_query() does after weft_file_open(WEFT_FILE_READ). with_gpu:
 * also how it would come into GPU memory. */
weft_status tool_file_way(const char *path, bool with_gpu, weft_file_info *info);

#endif
