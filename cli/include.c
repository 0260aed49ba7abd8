/* SPDX-License-Identifier: Apache-2.0 */
/* `weft include`: prints the folder of Weft's headers, or the file of LLVM bitcode, for compilers
 * that a program calls. */
#include "commands.h"
#include "own_path.h"
#include "parse.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct include_options {
    bool json, bitcode;
};

static error_t parse_include(int key, char *argument, struct argp_state *state)
{
    struct include_options *options = state->input;
    if (key == 'j')
        options->json = true;
    else if (key == 'b')
        options->bitcode = true;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int cmd_include(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"bitcode", 'b', NULL, 0, "print the file of the device operations as LLVM bitcode", 0},
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_include,
        .doc = "Print the folder of Weft's headers: weft.h, weft_device.h, and weft_device_all.h, "
               "which is all of weft_device.h in one file.\vnvcc -I$(weft include) ..."};
    static const char bitcode[] = "weft_device.bc";
    struct include_options asked = {0};
    char path[PATH_MAX + sizeof bitcode + 1];
    cli_parse(&argp, argc, argv, 0, &asked);
    bool found = asked.bitcode ? cli_find_folder("weft include --bitcode", WEFT_SHARE_FROM_BIN,
                                                 "../share/weft", bitcode, path)
                               : cli_find_folder("weft include", WEFT_INCLUDE_FROM_BIN,
                                                 "../include", "weft_device.h", path);
    if (!found)
        return EXIT_FAULT;
    if (asked.bitcode)
        snprintf(path + strlen(path), sizeof bitcode + 1, "/%s", bitcode);
    cli_print_path(!asked.json ? NULL : asked.bitcode ? "bitcode" : "folder", path);
    return EXIT_GOOD;
}
