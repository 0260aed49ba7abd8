/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a command on another host. See reach.h. */
#include "run/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "own_path.h"
#include "tool/tool.h"

bool run_reach_is_here(const char *host)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    return strcmp(host, "localhost") == 0 || strcmp(host, own) == 0;
}

/* The remote end of ssh passes the arguments to a shell, so they must not contain characters
 * that a shell interprets. */
static bool is_plain(const char *word)
{
    return word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-"
                             "@%=,")] == '\0';
}

weft_status run_reach_command(const char *host, const char *rsh, const char *weft,
                              const char *const *arguments, char ***words, char **text)
{
    static char own[PATH_MAX];
    bool here = run_reach_is_here(host);
    size_t n_arguments = 0;
    int n = 0;
    *words = NULL;
    *text = NULL;
    if (!weft)
        weft = cli_own_path(own) ? own : "";
    if (!is_plain(weft))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "a remote shell would split or expand \"%s\": name the command on the "
                         "hosts with --weft",
                         weft);
    while (arguments[n_arguments])
        n_arguments++;
    *text = strdup(here ? "" : rsh ? rsh : config_string(CONFIG_RSH));
    *words = *text ? calloc(strlen(*text) + n_arguments + 4, sizeof **words) : NULL;
    if (!*words)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for the command that reaches %s", host);
    char *save = NULL;
    for (char *word = strtok_r(*text, " \t", &save); word; word = strtok_r(NULL, " \t", &save))
        (*words)[n++] = word;
    if (!here)
        (*words)[n++] = (char *)host;
    (*words)[n++] = (char *)weft;
    for (size_t i = 0; i < n_arguments; i++)
        (*words)[n++] = (char *)arguments[i];
    return WEFT_OK;
}
