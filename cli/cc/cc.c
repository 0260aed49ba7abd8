/* SPDX-License-Identifier: Apache-2.0 */
/* `weft cc`: runs weftcc, the script in the folder of this command. */
#include "commands.h"
#include "own_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cmd_cc(int argc, char **argv)
{
    char path[PATH_MAX] = "";
    (void)argc;
    char *slash = cli_own_path(path) ? strrchr(path, '/') : NULL;
    if (slash && (size_t)(slash - path) + sizeof "/weftcc" <= sizeof path) {
        strcpy(slash, "/weftcc");
        argv[0] = path;
        execv(path, argv);
    }
    fprintf(stderr, "weft cc: %s cannot be run: %s; install libweft-dev, which has it\n",
            slash ? path : "weftcc", strerror(errno));
    return EXIT_FAULT;
}
