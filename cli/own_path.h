/* SPDX-License-Identifier: Apache-2.0 */
/* Where this command lies. */
#ifndef WEFT_CLI_OWN_PATH_H
#define WEFT_CLI_OWN_PATH_H

#include <limits.h>
#include <stdbool.h>

/* The file by which this command is called again, here or on another host: its own, or of the whole
 * command in PREFIX/libexec/weft the small one in PREFIX/bin, which starts it. False with a
 * message: /proc does not name it. */
bool cli_own_path(char path[PATH_MAX]);

#endif
