/* SPDX-License-Identifier: Apache-2.0 */
/* By which words a command of ours is started on another host. */
#ifndef WEFT_CLI_RUN_REACH_H
#define WEFT_CLI_RUN_REACH_H

#include <stdbool.h>

#include <weft.h>

/* This host needs no remote shell. */
bool run_reach_is_here(const char *host);

/* The command that starts `weft ARGUMENT...` (arguments: NULL-terminated) on `host`: `rsh` (NULL:
 * WEFT_RSH), split at blanks, the host's name, and `weft` (NULL: the path of this file); on this
 * host without the remote shell. *words (NULL-terminated) and *text, which they point into, are the
 * caller's to free; `host`, `weft` and `arguments` have to stay. WEFT_ERR_ARGUMENT for a path that
 * a remote shell would take apart, WEFT_ERR_NO_MEMORY. */
weft_status run_reach_words(const char *host, const char *rsh, const char *weft,
                            const char *const *arguments, char ***words, char **text);

#endif
