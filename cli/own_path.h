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

/* Finds a folder of this installation, `installed`, or of this build tree, `built`, both relative
 * to the folder of this command. The folder has the file `file`. False with a message of `command`.
 */
bool cli_find_folder(const char *command, const char *installed, const char *built,
                     const char *file, char folder[PATH_MAX]);

/* Prints a path: as a line, or, with a key, as an object of JSON. */
void cli_print_path(const char *key, const char *path);

#endif
