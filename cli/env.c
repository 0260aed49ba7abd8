/* SPDX-License-Identifier: Apache-2.0 */
/* `weft env`: the configuration variables with value, origin and meaning; a fault when the
 * environment holds an unknown name or a bad value. */
#include "commands.h"
#include "parse.h"

#include "tool/choices.h"
#include "tool/coll_rates.h"
#include "tool/coll_scratch.h"
#include "tool/tool.h"

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <weft.h>

struct env_options {
    bool json, all;
};

static error_t parse_env(int key, char *argument, struct argp_state *state)
{
    struct env_options *options = state->input;
    (void)argument;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case 'a':
        options->all = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Switches for tests and what `weft run` sets are shown when asked for or set. */
static bool is_shown(int id, bool all)
{
    return all || id < CONFIG_USER_COUNT ||
           strcmp(config_origin((enum config_id)id), "environment") == 0;
}

/* Hides the secret, which must not appear in a terminal or a log. */
static const char *shown_value(enum config_id id)
{
    const char *value = config_string(id);
    return id == CONFIG_SECRET && *value ? "(set, not shown)" : value;
}

/* The rates of collectives in use on this machine. */
static const char *rates_here(void)
{
    static char text[1200];
    struct coll_rates rates;
    tool_coll_rates_here(&rates, text, sizeof text);
    return text;
}

static void print_env_json(bool all)
{
    json_t *list = json_array();
    for (int i = 0; i < CONFIG_COUNT; i++)
        if (is_shown(i, all))
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", config_vars[i].name, "value",
                                shown_value((enum config_id)i), "origin",
                                config_origin((enum config_id)i), "default", config_vars[i].preset,
                                "text", config_vars[i].text));
    json_object_set_new(json_array_get(list, CONFIG_COLL_RATES), "rates",
                        json_string(rates_here()));
    struct tool_coll_scratch s = tool_coll_scratch();
    json_object_set_new(json_array_get(list, CONFIG_COLL), "scratch",
                        json_pack("{s:I, s:i, s:i, s:I, s:I}", "bytes", (json_int_t)s.bytes,
                                  "teams", s.teams, "wide_teams", s.wide_teams, "wide_bytes",
                                  (json_int_t)s.wide_bytes, "narrow_bytes",
                                  (json_int_t)s.narrow_bytes));
    json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
}

static void print_table(bool all)
{
    for (int i = 0; i < CONFIG_COUNT; i++) {
        if (!is_shown(i, all))
            continue;
        const struct config_var *var = &config_vars[i];
        const char *value = shown_value((enum config_id)i);
        printf("%-18s = %-10s (%s)\n    %s", var->name, *value ? value : "\"\"",
               config_origin((enum config_id)i), var->text);
        if (var->choices)
            printf(" [%s]", var->choices);
        putchar('\n');
        char scratch[512];
        tool_coll_scratch_text(scratch, sizeof scratch);
        if (i == CONFIG_COLL)
            printf("    scratch: %s\n", scratch);
        if (i == CONFIG_COLL_RATES)
            printf("    rates: %s\n", rates_here());
    }
}

int cmd_env(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"all", 'a', NULL, 0, "also switches for tests, and variables that `weft run` sets", 0},
        {"json", 'j', NULL, 0, "print a JSON array", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_env,
        .doc = "List Weft's configuration variables: value, origin and meaning. Exit status 1 "
               "when the environment holds an unknown WEFT_ name or a bad value."};
    struct env_options given = {0};
    cli_parse(&argp, argc, argv, 0, &given);
    if (given.json)
        print_env_json(given.all);
    else
        print_table(given.all);
    if (config_check() || choices_check_order(config_string(CONFIG_PATH))) {
        fprintf(stderr, "weft env: %s\n", weft_last_error());
        return EXIT_FAULT;
    }
    return EXIT_GOOD;
}
