/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a whole file that a user has named, which may be a pipe. */
#ifndef WEFT_BASE_READ_FILE_H
#define WEFT_BASE_READ_FILE_H

#include <weft.h>

/* Reads the contents, followed by a zero byte; the caller frees *text. most: largest size in bytes.
 * A pipe is read to its end; each pause of its writer may last 10 seconds. Errors: WEFT_ERR_SYSTEM
 * (the file cannot be read, is larger, or the pause was longer), _NO_MEMORY. */
weft_status base_read_file(const char *path, size_t most, char **text, size_t *bytes);

#endif
