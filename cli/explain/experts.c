/* SPDX-License-Identifier: Apache-2.0 */
/* See experts.h. */
#include "explain/experts.h"

#include "columns.h"
#include "commands.h"
#include "json_errors.h"
#include "machine_options.h"
#include "parse.h"
#include "tool/experts_way.h"
#include "tool/tool.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_PES = 256,
    KEY_TOKENS,
    KEY_HIDDEN,
    KEY_EXPERTS,
    KEY_TOP,
    KEY_TYPE,
    KEY_PER_NODE,
    KEY_GBIT,
    KEY_LATENCY,
    KEY_HBM,
    KEY_FULL,
    KEY_JSON
};

struct experts_options {
    struct tool_experts_question question;
    const char *type;
    bool json;
};

static const struct {
    const char *name;
    weft_type type, result_type;
    bool scales;
} types[] = {{"bf16", WEFT_BFLOAT16, WEFT_BFLOAT16, false},
             {"half", WEFT_HALF, WEFT_HALF, false},
             {"float", WEFT_FLOAT, WEFT_FLOAT, false},
             {"fp8", WEFT_FP8_E4M3, WEFT_BFLOAT16, true}};

/* ------------------------------------------------------------------------------- options */

static uint32_t parse_whole(struct argp_state *state, const char *option, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > UINT32_MAX)
        argp_error(state, "--%s %s: expected a whole number such as 8", option, text);
    return (uint32_t)value;
}

static void parse_type(struct argp_state *state, const char *text, struct experts_options *o)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, text) == 0) {
            o->question.attr.type = types[i].type;
            o->question.attr.result_type = types[i].result_type;
            o->type = types[i].name;
            return;
        }
    argp_error(state, "--type %s: expected bf16, half, float or fp8", text);
}

static error_t parse_experts(int key, char *text, struct argp_state *state)
{
    struct experts_options *o = state->input;
    weft_experts_attr *attr = &o->question.attr;
    switch (key) {
    case KEY_PES:
        o->question.pes = (int)parse_whole(state, "pes", text);
        return 0;
    case KEY_TOKENS:
        attr->tokens = parse_whole(state, "tokens", text);
        return 0;
    case KEY_HIDDEN:
        attr->hidden = parse_whole(state, "hidden", text);
        return 0;
    case KEY_EXPERTS:
        attr->experts = parse_whole(state, "experts", text);
        return 0;
    case KEY_TOP:
        attr->top = parse_whole(state, "top", text);
        return 0;
    case KEY_TYPE:
        parse_type(state, text, o);
        return 0;
    case KEY_PER_NODE:
        attr->node_members = parse_whole(state, "per-node", text);
        return 0;
    case KEY_GBIT:
        o->question.nic_gbps = cli_parse_rate(state, "gbit", text, "Gbit/s such as 400", 1e-3) / 8;
        return 0;
    case KEY_LATENCY:
        o->question.nic_us = cli_parse_rate(state, "latency", text, "microseconds such as 5", 0);
        return 0;
    case KEY_HBM:
        o->question.hbm_gbps = cli_parse_rate(state, "hbm", text, "GB/s such as 3350", 1e-3);
        return 0;
    case KEY_FULL:
        columns_set_full(true);
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"; weft explain experts has options only", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option experts_option_list[] = {
    {"pes", KEY_PES, "N", 0, "PEs, a GPU each (8)", 0},
    {"tokens", KEY_TOKENS, "N", 0, "tokens of each PE (4096)", 0},
    {"hidden", KEY_HIDDEN, "N", 0, "elements of a token (7168)", 0},
    {"experts", KEY_EXPERTS, "N", 0, "experts of all PEs (256)", 0},
    {"top", KEY_TOP, "N", 0, "experts of a token (8)", 0},
    {"type", KEY_TYPE, "TYPE", 0,
     "bf16, half, float, or fp8 with a scale for 128 elements and results of bf16 (bf16)", 0},
    {"per-node", KEY_PER_NODE, "N", 0, "PEs of each node (all on one)", 0},
    {"gbit", KEY_GBIT, "N", 0, "rate of each GPU's NIC in Gbit/s (400)", 0},
    {"latency", KEY_LATENCY, "US", 0, "latency between nodes in us (5)", 0},
    {"hbm", KEY_HBM, "N", 0, "rate of a GPU's memory in GB/s (3350, of an H100)", 0},
    {"full", KEY_FULL, NULL, 0, "fold no line", 0},
    {"json", KEY_JSON, NULL, 0, "print JSON", 0},
    {0},
};

/* ------------------------------------------------------------------------------- output */

enum { HANG = 4 };

/* Megabytes, or "-" for none. */
static const char *show_mb(double bytes, char text[16])
{
    if (bytes <= 0)
        return "-";
    snprintf(text, 16, "%.*f", bytes < 1e5 ? 4 : bytes < 1e7 ? 2 : 1, bytes / 1e6);
    return text;
}

static void print_experts_row(const char *name, double link, double nic, double hbm, double us,
                              bool nodes)
{
    char of_link[16], of_nic[16], of_hbm[16];
    printf("    %-22s %10s", name, show_mb(link, of_link));
    if (nodes)
        printf(" %10s", show_mb(nic, of_nic));
    printf(" %10s %10.1f\n", show_mb(hbm, of_hbm), us);
}

static void print_step(const struct experts_options *o, const char *name, const char *form,
                       const struct tool_experts_step *step)
{
    const weft_experts_attr *attr = &o->question.attr;
    bool nodes = attr->node_members && (int)attr->node_members < o->question.pes;
    double link = 0, nic = 0, hbm = 0;
    printf("  %s, %s\n    %-22s %10s", name, form, "", "links, MB");
    if (nodes)
        printf(" %10s", "NIC, MB");
    printf(" %10s %10s\n", "HBM, MB", "us");
    for (int i = 0; i < step->n; i++) {
        const struct tool_experts_term *t = &step->terms[i];
        print_experts_row(t->name, t->link_bytes, t->nic_bytes, t->hbm_bytes, t->us, nodes);
        link += t->link_bytes;
        nic += t->nic_bytes;
        hbm += t->hbm_bytes;
    }
    print_experts_row("total", link, nic, hbm, step->us, nodes);
    if (link > 0 || nic > 0)
        printf("    %.0f GB/s over the links%s\n", (link + nic) / step->us / 1e3,
               nodes ? " and the NIC" : "");
}

static void print_spread(const struct experts_options *o, const struct tool_experts_answer *a)
{
    const struct tool_experts_question *q = &o->question;
    bool nodes = a->nodes > 0;
    char far[64] = "";
    if (nodes)
        snprintf(far, sizeof far, ", and to %.2f other nodes", a->nodes);
    columns_print(stdout, HANG,
                  "dispatch and combine of %u tokens of each of %d PEs, %u %s each, %u of %u "
                  "experts for each token",
                  q->attr.tokens, q->pes, q->attr.hidden, o->type, q->attr.top, q->attr.experts);
    columns_print(stdout, HANG,
                  "  A token goes to %.2f PEs, %.2f of them others%s: to each PE with probability "
                  "%.3f, for %u different experts chosen at random.",
                  a->pes, a->others, far, a->share, q->attr.top);
}

static void print_assumptions(const struct experts_options *o, const struct tool_experts_answer *a)
{
    const struct tool_experts_question *q = &o->question;
    columns_print(stdout, HANG, "  rates: %s (weft explain coll has them)", a->rates);
    columns_print(stdout, HANG,
                  "  from figures of two H200: %.1f us for each kernel that follows another one in "
                  "a graph, %.1f us to assign rows",
                  a->kernel_us, a->assign_us);
    columns_print(stdout, HANG, "  assumed: %.0f GB/s of a GPU's memory (--hbm)", q->hbm_gbps);
    if (a->nodes > 0)
        columns_print(
            stdout, HANG,
            "  assumed: %.0f Gbit/s of a NIC for each GPU (--gbit), %.1f us between nodes "
            "(--latency)",
            q->nic_gbps * 8, q->nic_us);
    columns_print(stdout, HANG,
                  "  The times are estimates for a replayed graph, when all PEs begin together.");
}

static void print_experts(const struct experts_options *o, const struct tool_experts_answer *a)
{
    char form[64];
    print_spread(o, a);
    snprintf(form, sizeof form, "%s form%s", a->is_short ? "short" : "long",
             a->relays     ? " with relays"
             : a->is_short ? ", one kernel"
                           : "");
    print_step(o, "dispatch", form, &a->dispatch);
    if (!a->is_short && a->parts > 1)
        snprintf(form, sizeof form, "long form%s, results in %u parts",
                 a->relays ? " with relays" : "", a->parts);
    print_step(o, "combine", form, &a->combine);
    if (a->is_short)
        columns_print(stdout, HANG,
                      "  as two calls, send and receive: %.1f and %.1f us; in the long form: %.1f "
                      "and %.1f us",
                      a->dispatch.us + a->kernel_us, a->combine.us + a->kernel_us,
                      a->long_dispatch_us, a->long_combine_us);
    print_assumptions(o, a);
}

static json_t *experts_step_json(const struct tool_experts_step *step)
{
    json_t *terms = json_array();
    for (int i = 0; i < step->n; i++) {
        const struct tool_experts_term *t = &step->terms[i];
        json_array_append_new(terms,
                              json_pack("{s:s, s:f, s:f, s:f, s:f}", "term", t->name, "link_bytes",
                                        t->link_bytes, "nic_bytes", t->nic_bytes, "hbm_bytes",
                                        t->hbm_bytes, "us", t->us));
    }
    return json_pack("{s:f, s:o}", "us", step->us, "terms", terms);
}

static json_t *experts_json(const struct experts_options *o, const struct tool_experts_answer *a)
{
    const struct tool_experts_question *q = &o->question;
    return json_pack(
        "{s:i, s:I, s:I, s:I, s:I, s:s, s:s, s:b, s:i, s:f, s:f, s:f, s:f, s:o, s:o, "
        "s:f, s:f, s:f, s:s, s:f, s:f, s:f}",
        "pes", q->pes, "tokens", (json_int_t)q->attr.tokens, "hidden", (json_int_t)q->attr.hidden,
        "experts", (json_int_t)q->attr.experts, "top", (json_int_t)q->attr.top, "type", o->type,
        "form", a->is_short ? "short" : "long", "relays", a->relays, "parts", (int)a->parts,
        "pes_of_token", a->pes, "other_pes_of_token", a->others, "other_nodes_of_token", a->nodes,
        "probability_of_pe", a->share, "dispatch", experts_step_json(&a->dispatch), "combine",
        experts_step_json(&a->combine), "long_dispatch_us", a->long_dispatch_us, "long_combine_us",
        a->long_combine_us, "kernel_us", a->kernel_us, "rates", a->rates, "hbm_gbytes_per_s",
        q->hbm_gbps, "nic_gbit_per_s", q->nic_gbps * 8, "latency_us", q->nic_us);
}

/* ------------------------------------------------------------------------------- running */

int explain_experts(int argc, char **argv)
{
    static const struct argp argp = {
        .options = experts_option_list,
        .parser = parse_experts,
        .doc = "Estimate the time of dispatch and combine of a mixture of experts on GPUs, term by "
               "term: fixed times, and bytes over links, NICs and in the GPU's memory."};
    struct experts_options o = {.question = {.pes = 8,
                                             .attr = {.size = sizeof o.question.attr,
                                                      .tokens = 4096,
                                                      .hidden = 7168,
                                                      .experts = 256,
                                                      .top = 8,
                                                      .type = WEFT_BFLOAT16,
                                                      .result_type = WEFT_BFLOAT16},
                                             .hbm_gbps = 3350,
                                             .nic_gbps = 400 / 8.0,
                                             .nic_us = 5},
                                .type = types[0].name};
    struct tool_experts_answer answer;
    weft_experts_attr *attr = &o.question.attr;
    if (cli_parse(&argp, argc, argv, 0, &o))
        return EXIT_USAGE;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].name == o.type && types[i].scales)
            attr->scales = (attr->hidden + 511) / 512 * 4;
    if (tool_experts_way(argv[0], &o.question, &answer)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return EXIT_USAGE;
    }
    if (o.json)
        json_print(experts_json(&o, &answer));
    else
        print_experts(&o, &answer);
    return EXIT_GOOD;
}
