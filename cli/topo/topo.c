/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo`: shows the devices of the machine and how they are connected, and records a
 * machine. */
#include "topo/topo.h"
#include "parse.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "machine/routes/whatif.h"
#include "machine_options.h"

enum {
    KEY_TREE = 256,
    KEY_LINKS,
    KEY_ROUTES,
    KEY_SVG,
    KEY_NCCL,
    KEY_WATCH,
    KEY_TIMES,
    KEY_ASSIGN,
    KEY_HTML
};

struct topo_arguments {
    struct machine_options options;
    const char *record, *svg, *html, *nccl;
    int anonymous, tree, links, routes, assign, watch, times;
    double seconds;
};

static void parse_watch(struct topo_arguments *a, const char *argument, struct argp_state *state)
{
    char *end = NULL;
    a->watch = 1;
    a->seconds = argument ? strtod(argument, &end) : 1;
    if (argument && (end == argument || *end || !(a->seconds >= 0.01 && a->seconds <= 86400)))
        argp_error(state, "--watch takes seconds from 0.01 to 86400, not \"%s\"", argument);
}

static error_t take_name(struct argp_state *state, const char *option, const char *name,
                         const char **file)
{
    if (!*name)
        argp_error(state, "%s: no file is named; '-' is standard output", option);
    *file = name;
    return 0;
}

static error_t parse_topo(int key, char *argument, struct argp_state *state)
{
    struct topo_arguments *a = state->input;
    switch (key) {
    case 'r':
        a->record = argument;
        return 0;
    case 'a':
        a->anonymous = 1;
        return 0;
    case KEY_TREE:
        a->tree = 1;
        return 0;
    case KEY_LINKS:
        a->links = 1;
        return 0;
    case KEY_ROUTES:
        a->routes = 1;
        return 0;
    case KEY_ASSIGN:
        a->assign = 1;
        return 0;
    case KEY_SVG:
        return take_name(state, "--svg", argument, &a->svg);
    case KEY_HTML:
        return take_name(state, "--html", argument, &a->html);
    case KEY_NCCL:
        a->nccl = argument ? argument : "-";
        return 0;
    case KEY_WATCH:
        parse_watch(a, argument, state);
        return 0;
    case KEY_TIMES:
        a->times = atoi(argument);
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case ARGP_KEY_ARG:
        machine_options_refuse(state, argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option topo_option_list[] = {
    {"record", 'r', "FILE", 0, "write the machine to FILE ('-': standard output)", 0},
    {"anonymous", 'a', NULL, 0, "with --record: mask serial numbers, names and addresses", 0},
    {"tree", KEY_TREE, NULL, 0, "print the PCI tree with link widths, IOMMU groups and ACS", 0},
    {"links", KEY_LINKS, NULL, 0, "print every NVLink or xGMI link with its error counters", 0},
    {"routes", KEY_ROUTES, NULL, 0, "print every path of every pair", 0},
    {"assign", KEY_ASSIGN, NULL, 0,
     "print which NIC each GPU should use, and the variables of NCCL, UCX and NVSHMEM", 0},
    {"svg", KEY_SVG, "FILE", 0, "draw the machine ('-': standard output)", 0},
    {"html", KEY_HTML, "FILE", 0,
     "write an HTML page with the drawing and the measured and expected figures", 0},
    {"nccl", KEY_NCCL, "FILE", OPTION_ARG_OPTIONAL, "write a topology file for NCCL_TOPO_FILE", 0},
    {"watch", KEY_WATCH, "SECONDS", OPTION_ARG_OPTIONAL,
     "print link errors as they grow (default every second)", 0},
    {"times", KEY_TIMES, "N", 0, "with --watch: stop after N rounds", 0},
    {0},
};

static FILE *open_file(const char *path)
{
    FILE *to = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (!to)
        fprintf(stderr, "weft topo: open %s: %s\n", path, strerror(errno));
    return to;
}

static int close_file(FILE *to, const char *path)
{
    bool whole = !ferror(to);
    if ((to == stdout ? fflush(to) : fclose(to)) == 0 && whole)
        return EXIT_GOOD;
    fprintf(stderr, "weft topo: write %s: %s\n", path, strerror(errno));
    return EXIT_FAULT;
}

static int record_machine(const struct machine *machine, const struct topo_arguments *a)
{
    char *text = machine_format(machine, a->anonymous);
    FILE *to = text ? open_file(a->record) : NULL;
    int status = EXIT_FAULT;
    if (to) {
        fputs(text, to);
        status = close_file(to, a->record);
    }
    free(text);
    return status;
}

typedef void write_function(const struct machine *machine, FILE *to);

static int write_file(const struct machine *machine, const char *path, write_function *write)
{
    FILE *to = open_file(path);
    if (!to)
        return EXIT_FAULT;
    write(machine, to);
    return close_file(to, path);
}

static int write_nccl(const struct machine *machine, const char *path)
{
    for (size_t i = 0; i < machine->n_pci; i++)
        if (number_or(machine->pci[i].host, 0) > 0) {
            fprintf(stderr,
                    "weft topo: --nccl: the description has several nodes, but NCCL reads one "
                    "file per node: describe one node\n");
            return EXIT_USAGE;
        }
    return write_file(machine, path, topo_nccl);
}

/* Applies the change to a copy, since both states are needed. */
static int what_if(const struct topo_arguments *a)
{
    struct machine_options plain = a->options;
    plain.what_if = NULL;
    struct machine *before = machine_options_read(&plain);
    if (!before)
        return EXIT_USAGE;
    struct machine *after = machine_copy(before);
    int status = EXIT_GOOD;
    if (whatif_apply(after, a->options.what_if)) {
        fprintf(stderr, "weft topo: --what-if: %s\n", weft_last_error());
        status = EXIT_USAGE;
    } else {
        topo_changes(before, after, a->options.json);
    }
    machine_free(before);
    machine_free(after);
    return status;
}

static int show_machine(struct machine *machine, const struct topo_arguments *a)
{
    static struct topo topo;
    if (a->options.measure)
        machine_options_measure(&a->options, machine, 0);
    topo_collect(machine, &topo);
    if (a->record)
        return record_machine(machine, a);
    if (a->nccl)
        return write_nccl(machine, a->nccl);
    if (a->svg)
        return write_file(machine, a->svg, topo_svg);
    if (a->html)
        return write_file(machine, a->html, topo_html);
    if (a->assign)
        return topo_assign(machine, a->options.json);
    if (a->options.json)
        topo_json(&topo);
    else if (a->tree)
        topo_tree(machine, stdout);
    else if (a->links)
        topo_links(machine, stdout);
    else if (a->routes)
        topo_routes(&topo, stdout);
    else
        topo_text(&topo, stdout);
    return EXIT_GOOD;
}

int cmd_topo(int argc, char **argv)
{
    static const struct argp_child children[] = {{&machine_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = topo_option_list,
        .parser = parse_topo,
        .children = children,
        .doc = "Show GPUs, NICs, disks and how they are connected: distance, expected and "
               "measured speed of every pair. With --what-if, the pairs that change."};
    struct topo_arguments a = {.times = -1};
    cli_parse(&argp, argc, argv, 0, &a);
    if (a.watch)
        return topo_watch(a.seconds, a.times);
    bool other = a.record || a.nccl || a.svg || a.html || a.tree || a.links || a.routes || a.assign;
    if (a.options.what_if && !other)
        return what_if(&a);
    struct machine *machine = machine_options_read(&a.options);
    if (!machine)
        return EXIT_USAGE;
    int status = show_machine(machine, &a);
    machine_free(machine);
    return status;
}
