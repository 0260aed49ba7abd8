/* SPDX-License-Identifier: Apache-2.0 */
/* `weft nvshmem`: prints the folder that replaces an installation of NVSHMEM (cli/nvshmem). It
 * is located relative to the file of this command, so that an installation can be moved. */
#include "commands.h"
#include "own_path.h"
#include "parse.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

static error_t parse_nvshmem(int key, char *argument, struct argp_state *state)
{
    if (key == 'j') {
        *(bool *)state->input = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

int cmd_nvshmem(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_nvshmem,
        .doc = "Print the folder that replaces an installation of NVSHMEM: headers by NVSHMEM's "
               "paths, libraries, CMake package, nvshmem.pc, nvshmrun and nvshmem-info.\vmake "
               "NVSHMEM_HOME=$(weft nvshmem)"};
    bool json = false;
    char prefix[PATH_MAX];
    cli_parse(&argp, argc, argv, 0, &json);
    if (!cli_find_folder("weft nvshmem", WEFT_NVSHMEM_FROM_BIN, "../lib/weft-nvshmem",
                         "include/nvshmem.h", prefix))
        return EXIT_FAULT;
    cli_print_path(json ? "prefix" : NULL, prefix);
    return EXIT_GOOD;
}
