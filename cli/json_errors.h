/* SPDX-License-Identifier: Apache-2.0 */
/* With --json, what a command says on stderr is one JSON object: {"error": sentences, "status":
 * exit status}, or "warning" where the status is 0. */
#ifndef WEFT_CLI_JSON_ERRORS_H
#define WEFT_CLI_JSON_ERRORS_H

/* From here on, this process keeps text for stderr until json_errors_end(). */
void json_errors_begin(void);

/* Prints what was kept, without the prefix "weft COMMAND: " and without the hint of argp. */
void json_errors_end(int status);

#endif
