/* SPDX-License-Identifier: Apache-2.0 */
/* `weft include`: prints the folder of Weft's headers, for compilers that a program calls. */
#include "commands.h"
#include "own_path.h"
#include "parse.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

static error_t parse_include(int key, char *argument, struct argp_state *state)
{
    if (key == 'j') {
        *(bool *)state->input = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

int cmd_include(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_include,
        .doc = "Print the folder of Weft's headers: weft.h, weft_device.h, and weft_device_all.h, "
               "which is all of weft_device.h in one file.\vnvcc -I$(weft include) ..."};
    bool json = false;
    char folder[PATH_MAX];
    cli_parse(&argp, argc, argv, 0, &json);
    if (!cli_find_folder("weft include", WEFT_INCLUDE_FROM_BIN, "../include", "weft_device.h",
                         folder))
        return EXIT_FAULT;
    cli_print_folder(json ? "folder" : NULL, folder);
    return EXIT_GOOD;
}
