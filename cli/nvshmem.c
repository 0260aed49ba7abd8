/* SPDX-License-Identifier: Apache-2.0 */
/* `weft nvshmem`: prints the folder that replaces an installation of NVSHMEM (cli/nvshmem). It
 * is located relative to the file of this command, so that an installation can be moved. */
#include "commands.h"
#include "own_path.h"
#include "parse.h"

#include <argp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static error_t parse_nvshmem(int key, char *argument, struct argp_state *state)
{
    if (key == 'j') {
        *(bool *)state->input = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* Whether the folder `from_bin`, relative to the folder of this command, exists; then its name
 * in `prefix`. */
static bool find_prefix(const char *bin, const char *from_bin, char prefix[PATH_MAX])
{
    char path[2 * PATH_MAX], header[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", bin, from_bin);
    if (!realpath(path, prefix))
        return false;
    snprintf(header, sizeof header, "%s/include/nvshmem.h", prefix);
    return access(header, R_OK) == 0;
}

/* Escapes quotes and backslashes of the path in JSON. */
static void print_nvshmem_json(const char *prefix)
{
    fputs("{\"prefix\": \"", stdout);
    for (const char *c = prefix; *c; c++) {
        if ((unsigned char)*c < ' ') {
            printf("\\u%04x", *c);
            continue;
        }
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar(*c);
    }
    fputs("\"}\n", stdout);
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
    char bin[PATH_MAX] = "", prefix[PATH_MAX];
    cli_parse(&argp, argc, argv, 0, &json);
    char *slash = cli_own_path(bin) ? strrchr(bin, '/') : NULL;
    if (slash)
        *slash = '\0';
    /* First the folder of an installation, then that of a build tree. */
    if (!slash || (!find_prefix(bin, WEFT_NVSHMEM_FROM_BIN, prefix) &&
                   !find_prefix(bin, "../lib/weft-nvshmem", prefix))) {
        fprintf(stderr,
                "weft nvshmem: there is no folder %s/%s; install libweft-dev, or call the weft of "
                "an installation or of a build tree\n",
                slash ? bin : ".", WEFT_NVSHMEM_FROM_BIN);
        return EXIT_FAULT;
    }
    if (json)
        print_nvshmem_json(prefix);
    else
        puts(prefix);
    return EXIT_GOOD;
}
