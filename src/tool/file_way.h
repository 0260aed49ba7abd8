/* SPDX-License-Identifier: Apache-2.0 */
/* By what a job would read a file of this machine. Starts no job and reads nothing. */
#ifndef WEFT_TOOL_FILE_WAY_H
#define WEFT_TOOL_FILE_WAY_H

#include <weft_file.h>

/* Fills all but the size, as weft_file_query() does after weft_file_open(WEFT_FILE_READ). */
weft_status tool_file_way(const char *path, weft_file_info *info);

#endif
