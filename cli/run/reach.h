/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments that start a weft command on another host. */
#ifndef WEFT_CLI_RUN_REACH_H
#define WEFT_CLI_RUN_REACH_H

#include <stdbool.h>

#include <weft.h>

/* True when `host` is this machine, which needs no remote shell. */
bool run_reach_is_here(const char *host);

/* Makes the command that runs `weft ARGUMENT...` on `host`: `rsh` (NULL: WEFT_RSH) split at
 * blanks, the host name, `weft` (NULL: the path of this program) and the NULL-terminated
 * arguments. Without `rsh` and host name on this machine. The caller frees *words
 * (NULL-terminated) and *text, which *words points into; `host`, `weft` and `arguments` must
 * outlive them. WEFT_ERR_ARGUMENT: a remote shell would split or expand the path.
 * WEFT_ERR_NO_MEMORY. */
weft_status run_reach_command(const char *host, const char *rsh, const char *weft,
                              const char *const *arguments, char ***words, char **text);

#endif
