/* SPDX-License-Identifier: Apache-2.0 */
/* `weft info`: this build and what it finds here, on one screen. */
#include "commands.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <weft.h>

#include "columns.h"
#include "machine_options.h"
#include "parse.h"
#include "tool/libraries.h"

static const char sanitizer[] = WEFT_SANITIZE_NAME;

static const char kernels_built[] = WEFT_KERNELS_BUILT;

static error_t parse_info(int key, char *argument, struct argp_state *state)
{
    if (key != 'j')
        return ARGP_ERR_UNKNOWN;
    *(int *)state->input = 1;
    return 0;
}

static void print_info_json(const struct tool_library *libraries)
{
    json_t *list = json_array();
    for (int i = 0; i < TOOL_LIBRARIES; i++) {
        const struct tool_library *l = &libraries[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "name", l->name,
                                              "use", l->use, "found", l->found, "version",
                                              l->version, "file", l->file, "why", l->why));
    }
    json_print(json_pack("{s:s, s:s, s:s, s:s, s:o}", "version", weft_version(), "compiler",
                         __VERSION__, "sanitizer", sanitizer, "gpu_kernels", kernels_built,
                         "libraries", list));
}

static void print_info_text(const struct tool_library *libraries)
{
    printf("weft      %s\n", weft_version());
    printf("compiler  %s, sanitizer %s\n", __VERSION__, sanitizer);
    printf("kernels   %s\n\nlibraries that Weft loads when it needs them\n", kernels_built);
    for (int i = 0; i < TOOL_LIBRARIES; i++) {
        const struct tool_library *l = &libraries[i];
        if (l->found)
            columns_print(stdout, 22, "  %-19s %s%s%s (%s)", l->name, l->version,
                          *l->version && *l->file ? ", " : "", l->file, l->use);
        else
            columns_print(stdout, 22, "  %-19s not found (%s): %s", l->name, l->use, l->why);
    }
}

int cmd_info(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "print a JSON object", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_info,
        .doc = "Print the version, how this Weft was built, and which libraries it finds here."};
    static struct tool_library libraries[TOOL_LIBRARIES];
    int json = 0;
    cli_parse(&argp, argc, argv, 0, &json);
    tool_find_libraries(libraries);
    if (json)
        print_info_json(libraries);
    else
        print_info_text(libraries);
    return EXIT_GOOD;
}
