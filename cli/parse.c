/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the words that begin with "-" before argp reads them. See parse.h. */
#include "parse.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json_errors.h"
#include "tool/tool.h"

enum { NAMES_MOST = 128 };

/* The options of a command and its children, and those that argp adds. */
struct option_names {
    const struct argp_option *list[NAMES_MOST];
    size_t n;
};

static void collect_options(const struct argp *argp, struct option_names *names)
{
    for (const struct argp_option *o = argp->options;
         o && (o->name || o->key || o->doc || o->group) && names->n < NAMES_MOST; o++)
        names->list[names->n++] = o;
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        collect_options(child->argp, names);
}

static const struct argp_option *find_long(const struct option_names *names, const char *text,
                                           size_t length)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->list[i]->name && strncmp(names->list[i]->name, text, length) == 0)
            return names->list[i]; /* getopt accepts a beginning, and reports one of several */
    return NULL;
}

static const struct argp_option *find_short(const struct option_names *names, int letter)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->list[i]->key == letter && isprint(letter))
            return names->list[i];
    return NULL;
}

static bool takes_next(const struct argp_option *option)
{
    return option && option->arg && !(option->flags & OPTION_ARG_OPTIONAL);
}

/* Ends the command where no option begins with the word. */
static const struct argp_option *require_long(const struct option_names *names, const char *command,
                                              const char *word)
{
    size_t length = strcspn(word, "=");
    const struct argp_option *found = find_long(names, word, length);
    const char *candidates[NAMES_MOST];
    char shown[64];
    if (found)
        return found;
    for (size_t i = 0; i < names->n; i++)
        candidates[i] = names->list[i]->flags & OPTION_HIDDEN ? NULL : names->list[i]->name;
    snprintf(shown, sizeof shown, "%.*s", (int)(length < 60 ? length : 60), word);
    const char *near = base_nearest(shown, candidates, names->n);
    fprintf(stderr, "%s: there is no option --%s%s%s (all: %s --help)\n", command, shown,
            near ? "; nearest: --" : "", near ? near : "", command);
    exit(EXIT_USAGE);
}

/* Whether the argument after this cluster of short options ("-jm") belongs to its last one. */
static bool cluster_takes_next(const struct option_names *names, const char *letters)
{
    for (; *letters; letters++) {
        const struct argp_option *option = find_short(names, (unsigned char)*letters);
        if (option && option->arg)
            return !letters[1] && takes_next(option);
    }
    return false;
}

/* Whether this cluster of short options ("-jm") holds -j. */
static bool cluster_has_json(const struct option_names *names, const char *letters)
{
    for (; *letters; letters++) {
        const struct argp_option *option = find_short(names, (unsigned char)*letters);
        if (option && strcmp(option->name ? option->name : "", "json") == 0)
            return true;
        if (!option || option->arg)
            return false;
    }
    return false;
}

/* Whether the arguments ask for JSON, which the command must offer. */
static bool asks_for_json(const struct option_names *names, int argc, char **argv, unsigned flags)
{
    const struct argp_option *json = find_long(names, "json", strlen("json"));
    for (int i = 1; json && i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0 || (*word != '-' && flags & ARGP_IN_ORDER))
            return false;
        if (word[0] == '-' && word[1] == '-' ? find_long(names, word + 2, strlen(word + 2)) == json
                                             : word[0] == '-' && cluster_has_json(names, word + 1))
            return true;
    }
    return false;
}

/* Argp calls this for an argument that the command does not take. */
static error_t refuse_argument(int key, char *argument, struct argp_state *state)
{
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    argp_error(state, "unexpected \"%s\"; %s takes options only", argument, state->name);
    return 0;
}

/* argp_parse() with refuse_argument() behind the parsers of the command. */
static error_t parse_all(const struct argp *argp, int argc, char **argv, unsigned flags,
                         void *input)
{
    static const struct argp refuse = {.parser = refuse_argument};
    enum { CHILDREN_MOST = 8 };
    struct argp_child children[CHILDREN_MOST + 2] = {{0}};
    struct argp whole = *argp;
    size_t n = 0;
    for (; argp->children && argp->children[n].argp && n < CHILDREN_MOST; n++)
        children[n] = argp->children[n];
    children[n].argp = &refuse;
    whole.children = children;
    return argp_parse(&whole, argc, argv, flags, NULL, input);
}

error_t cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    static const struct argp_option more[] = {
        {"help", 0, NULL, 0, "", 0}, {"usage", 0, NULL, 0, "", 0}, {0}};
    static const struct argp added = {.options = more};
    struct option_names names = {.n = 0};
    collect_options(argp, &names);
    collect_options(&added, &names);
    /* A PE may be killed: what it says goes out at once. */
    if (config_int(CONFIG_PE) < 0 && asks_for_json(&names, argc, argv, flags))
        json_errors_begin();
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        if (strcmp(word, "--") == 0 || (*word != '-' && flags & ARGP_IN_ORDER))
            break;
        if (strcmp(word, "-h") == 0 && !find_short(&names, 'h'))
            argv[i] = "--help";
        else if (word[0] == '-' && word[1] == '-')
            i += takes_next(require_long(&names, argv[0], word + 2)) && !strchr(word, '=');
        else if (word[0] == '-' && word[1])
            i += cluster_takes_next(&names, word + 1);
    }
    return parse_all(argp, argc, argv, flags, input);
}

double cli_parse_rate(struct argp_state *state, const char *option, const char *text,
                      const char *wanted, double least)
{
    char *end;
    double value = strtod(text, &end);
    if (!*text || *end || !isfinite(value) || value < least || value > 1e6)
        argp_error(state, "--%s %s: expected %s", option, text, wanted);
    return value;
}
