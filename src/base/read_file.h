/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a whole file that a user has named, which may be a pipe. */
#ifndef WEFT_BASE_READ_FILE_H
#define WEFT_BASE_READ_FILE_H

#include <weft.h>

/* The contents, with a zero byte behind them; the caller frees *text. most: bytes that the file may
 * have. A pipe is read to its end; each pause of its writer may last 10 seconds.
 * Errors: WEFT_ERR_SYSTEM (the file cannot be read, or is larger, or the pause was longer),
 * _NO_MEMORY. */
weft_status base_read_file(const char *path, size_t most, char **text, size_t *bytes);

#endif
