/* SPDX-License-Identifier: Apache-2.0 */
/* `weft explain A B`: prints the path in use and why no better one is. The verdict itself is
 * made in src/machine. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "commands.h"
#include "explain/coll.h"
#include "explain/experts.h"
#include "explain/pes.h"
#include "machine/checks/checks.h"
#include "machine/checks/explain.h"
#include "machine/live/ladder.h"
#include "machine_options.h"
#include "parse.h"
#include "probe.h"
#include "tool/file_way.h"
#include "tool/job_gpus.h"

enum { WORDS_MOST = 4 };

struct explain_arguments {
    struct machine_options options;
    const char *codes;
    const char *ends[WORDS_MOST]; /* two ends, a reason code, or "coll" and what follows it */
    int n;
    int job;
    int pes[2]; /* with --job and two ends */
    struct coll_words coll;
};

enum { KEY_COLL_GBIT = 256, KEY_COLL_LATENCY };

/* --job PID PE PE */
static void parse_pes(struct argp_state *state, struct explain_arguments *a)
{
    for (int i = 0; i < a->n; i++)
        if (!explain_pe_number(a->ends[i], &a->pes[i]))
            argp_error(state, "with --job name PEs such as 0 or pe0, not \"%s\"", a->ends[i]);
    if (a->n < 2)
        argp_error(state, "name two PEs of the job, e.g. weft explain --job %d 0 1, or none",
                   a->job);
    if (a->options.file || a->options.what_if || a->options.measure)
        argp_error(state, "--machine, --what-if and --measure do not go with PEs of a running job");
}

/* `end` alone is neither a pair nor a reason code. */
static void refuse_end(struct argp_state *state, const char *end)
{
    const char *near = end && strchr(end, '-') ? reason_nearest(end) : NULL;
    if (near)
        argp_error(state, "there is no reason code %s; nearest: %s (all: weft explain --codes)",
                   end, near);
    else
        argp_error(state, "name two ends%s, e.g. weft explain gpu0 gpu1, or a reason code",
                   end && strchr(end, ',') ? " as two words" : "");
}

static bool is_about_coll(const struct explain_arguments *a)
{
    return a->n && strcmp(a->ends[0], "coll") == 0;
}

static void check_coll(struct argp_state *state, const struct explain_arguments *a)
{
    if (a->options.file || a->options.what_if || a->options.measure || a->job)
        argp_error(state, "--machine, --what-if, --measure and --job do not go with coll, which is "
                          "estimated from rates (WEFT_COLL_RATES)");
}

static error_t parse_explain(int key, char *argument, struct argp_state *state)
{
    struct explain_arguments *a = state->input;
    char *end;
    switch (key) {
    case 'c':
        a->codes = argument ? argument : "text";
        if (strcmp(a->codes, "text") != 0 && strcmp(a->codes, "md") != 0 &&
            strcmp(a->codes, "man") != 0)
            argp_error(state, "--codes takes text, md or man, not \"%s\"", a->codes);
        return 0;
    case 'p':
        a->job = (int)strtol(argument, &end, 10);
        if (*end || a->job <= 0)
            argp_error(state, "--job takes a process id, not \"%s\"", argument);
        return 0;
    case KEY_COLL_GBIT:
        a->coll.network = true;
        a->coll.gbit = cli_parse_rate(state, "gbit", argument, "Gbit/s such as 400", 1e-3);
        return 0;
    case KEY_COLL_LATENCY:
        a->coll.network = true;
        a->coll.latency_us =
            cli_parse_rate(state, "latency", argument, "microseconds such as 5", 0);
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->options;
        return 0;
    case ARGP_KEY_ARG:
        if (a->n == (is_about_coll(a) ? WORDS_MOST : 2))
            argp_error(state, "unexpected \"%s\"; %s", argument,
                       is_about_coll(a) ? "coll takes OPERATION BYTES [PES|NODESxPES]"
                                        : "two ends are explained, A and B");
        else
            a->ends[a->n++] = argument;
        return 0;
    case ARGP_KEY_END:
        if (is_about_coll(a))
            check_coll(state, a);
        else if (a->coll.network)
            argp_error(state, "--gbit and --latency go with coll over several nodes");
        else if (a->job && a->n)
            parse_pes(state, a);
        else if (!a->codes && !a->job && a->n < 2 && !(a->n == 1 && reason_find(a->ends[0])))
            refuse_end(state, a->n ? a->ends[0] : NULL);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option explain_option_list[] = {
    {"codes", 'c', "FORMAT", OPTION_ARG_OPTIONAL, "list the reason codes (text, md, man)", 0},
    {"job", 'p', "PID", 0,
     "explain a running job: the paths of its PEs and the pairs of its GPUs, or two of its PEs", 0},
    {"gbit", KEY_COLL_GBIT, "N", 0,
     "with coll and several nodes: rate of each GPU's NIC in Gbit/s (400)", 0},
    {"latency", KEY_COLL_LATENCY, "US", 0,
     "with coll and several nodes: latency between nodes in us (5)", 0},
    {0},
};

/* --- text ------------------------------------------------------------------------------------- */

enum { LABEL = 13 }; /* column at which the text of a line starts */

static void print_verdict(const struct verdict *v)
{
    char gbps[16], us[16];
    printf("%s%s -> %s%s\n", colour_begin(COLOUR_HEADING), v->a.name, v->b.name,
           colour_end(COLOUR_HEADING));
    if (!v->chosen && !v->possible)
        printf("  path       %snone%s\n", colour_begin(COLOUR_FAULT), colour_end(COLOUR_FAULT));
    if (!v->chosen && v->possible)
        columns_print(stdout, LABEL,
                      "  path       none in this version of Weft; the machine offers %s, %s GB/s "
                      "expected",
                      v->possible->text, show_gbps(v->possible->mbps, gbps, sizeof gbps));
    if (!v->chosen)
        return;
    columns_print(stdout, LABEL, "  path       %s%s", v->chosen->text,
                  v->chosen->usable == ANSWER_UNKNOWN ? " (unknown whether it is on)" : "");
    printf("  expected   %s%s%s%s%s\n",
           v->chosen->mbps ? show_gbps(v->chosen->mbps, gbps, sizeof gbps) : "speed unknown",
           v->chosen->mbps ? " GB/s" : "", v->chosen->latency_ns ? ", " : "",
           v->chosen->latency_ns ? show_us(v->chosen->latency_ns, us, sizeof us) : "",
           v->chosen->latency_ns ? " us" : "");
    if (*v->chosen->limit)
        columns_print(stdout, LABEL, "  limited by %s", v->chosen->limit);
}

/* "NVLink 4" of "18x NVLink 4 through NVSwitch". */
static const char *kind_of(const struct route *route, char *text, size_t size)
{
    const char *from = strchr(route->text, ' ');
    from = route->kind == ROUTE_LINK && from ? from + 1 : route->text;
    snprintf(text, size, "%s", from);
    char *end = strstr(text, " through");
    if (!end)
        end = strstr(text, " (");
    if (end)
        *end = '\0';
    return text;
}

/* Compares a measured speed with the expected one; the limits are those of the findings.
 * Measurements use direct access: `route` is NULL when another route is used. */
static void print_speed(const struct machine *machine, const char *what, int64_t mbps,
                        const struct route *route)
{
    char is[16], of[16], kind[64];
    if (!mbps)
        return;
    show_gbps(mbps, is, sizeof is);
    if (!route) {
        printf("  %-10s %s GB/s by direct access, which is not used\n", what, is);
        return;
    }
    if (!route->mbps) {
        printf("  %-10s %s GB/s\n", what, is);
        return;
    }
    bool degraded = mbps < check_threshold(machine, route->mbps);
    bool slower = mbps < route->mbps * 90 / 100;
    bool faster = mbps > route->mbps * 110 / 100;
    enum colour colour = degraded ? COLOUR_FAULT : slower ? COLOUR_WARN : COLOUR_OK;
    columns_print(stdout, LABEL, "  %-10s %s of %s GB/s, %s%s%s for %s", what, is,
                  show_gbps(route->mbps, of, sizeof of), colour_begin(colour),
                  degraded ? "degraded"
                  : slower ? "slower than usual"
                  : faster ? "faster than usual"
                           : "normal",
                  colour_end(colour), kind_of(route, kind, sizeof kind));
}

/* The result of the path test, for people: "passed" where files say "proven". */
static const char *path_test_word(const char *proof)
{
    return strcmp(proof, "proven") == 0 ? "passed" : proof;
}

static void print_latency(int64_t ns, const struct route *route)
{
    char is[16], of[16], expected[32] = "";
    if (!ns)
        return;
    if (route && route->latency_ns)
        snprintf(expected, sizeof expected, " of %s", show_us(route->latency_ns, of, sizeof of));
    printf("  latency    %s%s us one way, half a round trip\n", show_us(ns, is, sizeof is),
           expected);
}

static void print_measured_pair(const struct machine *machine, const struct verdict *v)
{
    const struct machine_measured *m = v->measured, *back = v->measured_back;
    char is[16];
    bool disk = v->a.kind == ENDPOINT_DISK || v->b.kind == ENDPOINT_DISK;
    if (!m) {
        if (!v->n_ladder) /* the ladder has more details */
            printf("  measured   not verified%s\n", disk ? "" : " (run --measure)");
        return;
    }
    const struct route *route = v->chosen && route_is_direct(v->chosen) ? v->chosen : NULL;
    if (m->proof.value && (v->a.kind == ENDPOINT_GPU && v->b.kind == ENDPOINT_GPU))
        columns_print(stdout, LABEL, "  path test  %s%s%s", path_test_word(m->proof.value),
                      *text_or(m->evidence, "") ? ": " : "", text_or(m->evidence, ""));
    else if (m->proof.value && *text_or(m->evidence, ""))
        columns_print(stdout, LABEL, "  mapping    %s: %s", m->proof.value, m->evidence.value);
    else if (!m->proof.value)
        columns_print(stdout, LABEL, "  path test  none: %s", why_unknown(m->proof.why));
    print_speed(machine, "measured", number_or(m->write_mbps, 0), route);
    print_speed(machine, "back", back ? number_or(back->write_mbps, 0) : 0, route);
    print_speed(machine, "read", number_or(m->read_mbps, 0), route);
    if (number_or(m->both_mbps, 0))
        printf("  both       %s GB/s together\n", show_gbps(m->both_mbps.value, is, sizeof is));
    print_latency(number_or(m->latency_ns, 0), route);
    if (m->errors_grown.known)
        columns_print(stdout, LABEL, "  links      %" PRId64 " errors during the measurement%s%s",
                      m->errors_grown.value, *text_or(m->errors_where, "") ? ": " : "",
                      text_or(m->errors_where, ""));
}

static void print_ladder(const struct verdict *v)
{
    for (int i = 0; i < v->n_ladder; i++) {
        const struct machine_rung *r = v->ladder[i];
        char number[48] = "", speed[48] = "";
        if (number_or(r->err, 0))
            snprintf(number, sizeof number, " (errno %" PRId64 ")", r->err.value);
        if (number_or(r->mbps, 0))
            snprintf(speed, sizeof speed, ", %" PRId64 ".%" PRId64 " GB/s", r->mbps.value / 1000,
                     r->mbps.value % 1000 / 100);
        columns_print(stdout, LABEL + 20, "  %-10s %-8s %-10s %s%s%s", i ? "" : "ladder",
                      text_or(r->rung, "?"), text_or(r->result, "?"), text_or(r->detail, ""),
                      number, speed);
    }
}

static bool have_same_cause(const struct finding *a, const struct finding *b)
{
    return a->reason == b->reason && a->weight == b->weight && strcmp(a->path, b->path) == 0;
}

static bool is_first_of_reason(const struct findings *findings, int at)
{
    for (int i = 0; i < at; i++)
        if (have_same_cause(&findings->list[i], &findings->list[at]))
            return false;
    return true;
}

/* Prints the remedy once for all findings that share it. */
static void print_remedy(const struct finding *f)
{
    char gain[16];
    columns_print(stdout, LABEL, "    %-8s %s", f->weight == WEIGHT_UNKNOWN ? "to see" : "remedy",
                  f->remedy);
    if (f->weight != WEIGHT_UNKNOWN)
        columns_print(stdout, LABEL, "    who      %s; %s", f->who, f->lasts);
    if (f->gain_mbps)
        printf("    gain     %s GB/s\n", show_gbps(f->gain_mbps, gain, sizeof gain));
}

static bool same_remedy(const struct finding *a, const struct finding *b)
{
    return strcmp(a->remedy, b->remedy) == 0 && a->gain_mbps == b->gain_mbps;
}

/* Prints all findings of one cause together. */
static void print_finding(const struct findings *findings, int at)
{
    const struct finding *f = &findings->list[at], *last = f;
    columns_print(stdout, 4, "  %s%s%s%s  %s", reason_table[f->reason].code, *f->path ? " (" : "",
                  f->path, *f->path ? ")" : "", reason_table[f->reason].cause);
    for (int i = at; i < findings->n; i++) {
        const struct finding *other = &findings->list[i];
        if (!have_same_cause(f, other))
            continue;
        if (!same_remedy(last, other))
            print_remedy(last);
        columns_print(stdout, LABEL, "    seen     %s", other->evidence);
        last = other;
    }
    print_remedy(last);
}

static void print_findings(const struct verdict *v, enum weight weight, const char *title)
{
    enum colour colour = colour_of_weight(weight);
    bool any = false;
    for (int i = 0; i < v->findings.n; i++) {
        if (v->findings.list[i].weight != weight || !is_first_of_reason(&v->findings, i))
            continue;
        if (!any)
            printf("\n%s%s%s\n", colour_begin(colour), title, colour_end(colour));
        any = true;
        print_finding(&v->findings, i);
    }
}

static void print_other_routes(const struct verdict *v)
{
    char gbps[16];
    if (v->routes.n < 2)
        return;
    puts("\nall paths of this machine");
    for (int i = 0; i < v->routes.n; i++)
        columns_print(stdout, 6, "  %-36s %5s GB/s  %s", v->routes.list[i].text,
                      show_gbps(v->routes.list[i].mbps, gbps, sizeof gbps),
                      route_state(&v->routes.list[i]));
    int indices[ROUTES_MOST];
    int64_t total;
    int n = routes_disjoint(&v->routes, indices, &total);
    if (n > 1)
        columns_print(
            stdout, 4,
            "  striped over %d paths that share no link: %s GB/s; used where it measures faster", n,
            show_gbps(total, gbps, sizeof gbps));
}

/* Prints how a job on this machine would transfer the file, from weft_file_query(). */
static void print_file(const weft_file_info *file)
{
    columns_print(stdout, LABEL,
                  "  file       %s, %u requests of up to %" PRIu64 " bytes in flight; %s on %s",
                  file->backend, file->depth, file->chunk_bytes, file->file_system, file->store);
    if (*file->reason)
        columns_print(stdout, LABEL, "             %s: %s", file->reason_code, file->reason);
    if (*file->gpu_backend)
        columns_print(stdout, LABEL, "  into GPU   %s", file->gpu_backend);
    if (*file->gpu_reason)
        columns_print(stdout, LABEL, "             %s%s%s", file->gpu_reason_code,
                      *file->gpu_reason_code ? ": " : "", file->gpu_reason);
}

/* file: NULL when neither end is a file of this machine that can be opened. why: the reason; "":
 * no end is a file. */
static void print_explanation(const struct machine *machine, const struct verdict *v,
                              const weft_file_info *file, const char *why)
{
    print_verdict(v);
    print_measured_pair(machine, v);
    if (v->mount)
        columns_print(stdout, LABEL, "  mount      %s, %s on %s", text_or(v->mount->path, "?"),
                      text_or(v->mount->type, "?"), text_or(v->mount->source, "?"));
    if (file)
        print_file(file);
    if (*why)
        columns_print(stdout, LABEL, "  file       %s", why);
    print_ladder(v);
    print_findings(v, WEIGHT_OFF, "off");
    print_findings(v, WEIGHT_SLOW, "degraded");
    print_findings(v, WEIGHT_UNKNOWN, "unknown");
    print_findings(v, WEIGHT_NOTE, "notes");
    print_other_routes(v);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *chosen_json(const struct route *route)
{
    static const char *const answers[] = {"off", "on", "unknown"};
    if (!route)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:s, s:s}", "path", route->text, "expected_gbytes_per_s",
                     json_gbps(route->mbps), "expected_us", json_us(route->latency_ns), "limit",
                     route->limit, "usable", answers[route->usable]);
}

static json_t *found_json(const struct machine_measured *m)
{
    if (!m)
        return json_pack("{s:s}", "unknown", "not measured");
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "write_gbytes_per_s",
        json_gbps(number_or(m->write_mbps, 0)), "read_gbytes_per_s",
        json_gbps(number_or(m->read_mbps, 0)), "both_gbytes_per_s",
        json_gbps(number_or(m->both_mbps, 0)), "us", json_us(number_or(m->latency_ns, 0)), "proof",
        json_fact_text(m->proof), "evidence", json_fact_text(m->evidence), "errors_grown",
        json_fact_number(m->errors_grown), "errors_where", json_fact_text(m->errors_where));
}

static json_t *ladder_json(const struct verdict *v)
{
    json_t *list = json_array();
    for (int i = 0; i < v->n_ladder; i++) {
        const struct machine_rung *r = v->ladder[i];
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o}", "rung", json_fact_text(r->rung), "result",
                            json_fact_text(r->result), "errno", json_fact_number(r->err), "detail",
                            json_fact_text(r->detail)));
    }
    return list;
}

static json_t *file_json(const weft_file_info *file)
{
    if (!file)
        return json_null();
    return json_pack("{s:s, s:i, s:I, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "backend",
                     file->backend, "depth", (int)file->depth, "chunk_bytes",
                     (json_int_t)file->chunk_bytes, "alignment", (int)file->alignment,
                     "memory_alignment", (int)file->memory_alignment, "file_system",
                     file->file_system, "store", file->store, "reason_code", file->reason_code,
                     "reason", file->reason, "gpu_backend", file->gpu_backend, "gpu_reason_code",
                     file->gpu_reason_code, "gpu_reason", file->gpu_reason);
}

static json_t *verdict_json(const struct verdict *v, const weft_file_info *file, const char *why)
{
    json_t *findings = json_array(), *routes = json_array();
    for (int i = 0; i < v->findings.n; i++)
        json_array_append_new(findings, json_finding(&v->findings.list[i]));
    for (int i = 0; i < v->routes.n; i++) {
        const struct route *r = &v->routes.list[i];
        json_array_append_new(routes, json_pack("{s:s, s:o, s:b, s:b}", "path", r->text,
                                                "expected_gbytes_per_s", json_gbps(r->mbps), "off",
                                                r->usable == ANSWER_NO, "in_weft", r->offered));
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "a", v->a.name, "b",
                     v->b.name, "chosen", chosen_json(v->chosen), "possible",
                     chosen_json(v->possible), "measured", found_json(v->measured), "measured_back",
                     found_json(v->measured_back), "ladder", ladder_json(v), "findings", findings,
                     "routes", routes, "file", file_json(file), "file_refused",
                     *why ? json_string(why) : json_null());
}

/* --- running ---------------------------------------------------------------------------------- */

/* Tries a GPU and a NIC by the ladder, and measures other pairs by the probe. */
static weft_status measure_named_pair(struct machine *machine, const struct probe *probe,
                                      const struct endpoint *x, const struct endpoint *y)
{
    const struct endpoint *gpu = x->kind == ENDPOINT_GPU ? x : y, *other = gpu == x ? y : x;
    if (gpu->kind == ENDPOINT_GPU && other->kind == ENDPOINT_NIC)
        return machine_test_gdr(machine, gpu->index, other->name);
    const struct machine_probe *interface = probe_interface(probe);
    weft_status status = machine_measure_pair(machine, interface, x->name, y->name, false);
    return status ? status : machine_measure_pair(machine, interface, y->name, x->name, false);
}

static void measure_ends(const struct explain_arguments *a, struct machine *machine, const char *x,
                         const char *y)
{
    struct probe *probe = NULL;
    struct endpoint from, to;
    if (!a->options.measure || strchr(x, '/') || strchr(y, '/') ||
        endpoint_find(machine, x, &from) || endpoint_find(machine, y, &to))
        return;
    bool climbs = (from.kind == ENDPOINT_GPU && to.kind == ENDPOINT_NIC) ||
                  (from.kind == ENDPOINT_NIC && to.kind == ENDPOINT_GPU);
    if (a->options.file)
        machine_options_measure(&a->options, machine, 0); /* prints why not */
    else if ((!climbs && probe_open(machine, &probe)) ||
             measure_named_pair(machine, probe, &from, &to))
        fprintf(stderr, "weft explain: --measure: %s\n", weft_last_error());
    probe_close(probe);
}

/* Resolves links and relative names on this machine, also of a file that does not exist yet. Not
 * for a recorded machine. */
static const char *absolute_path(const struct explain_arguments *a, const char *name, char *real)
{
    char folder[PATH_MAX];
    const char *last = strrchr(name, '/');
    if (a->options.file || !last || realpath(name, real))
        return a->options.file || !last ? name : real;
    snprintf(folder, sizeof folder, "%.*s", last == name ? 1 : (int)(last - name), name);
    if (!realpath(folder, real) || strlen(real) + strlen(last) >= PATH_MAX)
        return name;
    strcat(real, real[1] ? last : last + 1);
    return real;
}

/* Queries the end that is a file of this machine. NULL: neither is, or the file cannot be
 * opened, with the reason in `why`. */
static const weft_file_info *find_file(const struct explain_arguments *a, const char *x,
                                       const char *y, weft_file_info *info, char *why,
                                       size_t why_bytes)
{
    static const char prefix[] = "weft_file_open: ";
    const char *path = strchr(x, '/') ? x : strchr(y, '/') ? y : NULL;
    *info = (weft_file_info){.size = sizeof *info};
    *why = '\0';
    bool gpu = strncmp(path == x ? y : x, "gpu", 3) == 0;
    if (!path || a->options.file)
        return NULL;
    if (!tool_file_way(path, gpu, info))
        return info;
    const char *sentence = weft_last_error();
    if (strncmp(sentence, prefix, strlen(prefix)) == 0)
        sentence += strlen(prefix);
    snprintf(why, why_bytes, "%s", sentence);
    return NULL;
}

/* Explains one pair and returns the exit status. With a list, appends to it instead of printing. */
static int explain_one(const struct explain_arguments *a, struct machine *machine, const char *x,
                       const char *y, json_t *list)
{
    static struct verdict v;
    int status = EXIT_USAGE;
    char real_x[PATH_MAX], real_y[PATH_MAX];
    measure_ends(a, machine, x, y);
    x = absolute_path(a, x, real_x);
    y = absolute_path(a, y, real_y);
    weft_file_info info;
    char why[1024];
    const weft_file_info *file = find_file(a, x, y, &info, why, sizeof why);
    if (explain_pair(machine, x, y, &v)) {
        fprintf(stderr, "weft explain: %s\n", weft_last_error());
    } else {
        status = verdict_has_fault(&v) ? EXIT_FAULT : EXIT_GOOD;
        if (list)
            json_array_append_new(list, verdict_json(&v, file, why));
        else if (a->options.json)
            json_print(verdict_json(&v, file, why));
        else
            print_explanation(machine, &v, file, why);
    }
    verdict_free(&v);
    return status;
}

static int explain_job(const struct explain_arguments *a, struct machine *machine)
{
    struct job_gpus job = {.n = 0};
    const bool has_pes = explain_is_job(a->job);
    json_t *result = a->options.json ? json_pack("{s:i}", "job", a->job) : NULL;
    json_t *list = result ? json_array() : NULL;
    int worst = has_pes ? explain_job_pes(a->job, result) : EXIT_GOOD;
    /* A Weft job can be explained without a GPU; another program's job cannot. */
    if (job_find_gpus(a->job, &job) && !has_pes) {
        fprintf(stderr, "weft explain: %s\n", weft_last_error());
        json_decref(list);
        json_decref(result);
        return EXIT_FAULT;
    }
    if (!list && has_pes && job.n > 1)
        putchar('\n');
    for (int i = 0; i < job.n; i++)
        for (int k = 0; k < job.n; k++) {
            char x[16], y[16];
            if (i == k)
                continue;
            snprintf(x, sizeof x, "gpu%d", job.gpus[i]);
            snprintf(y, sizeof y, "gpu%d", job.gpus[k]);
            int status = explain_one(a, machine, x, y, list);
            worst = status > worst ? status : worst;
            if (!list)
                putchar('\n');
        }
    if (!list && !has_pes && job.n < 2)
        printf("the job of process %d uses %d GPU%s: no pair to explain\n", a->job, job.n,
               job.n == 1 ? "" : "s");
    if (result) {
        json_object_set_new(result, "gpus", list);
        json_print(result);
    }
    return worst;
}

static json_t *code_json(const struct reason_text *r)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "code", r->code, "cause", r->cause,
                     "evidence", r->evidence, "remedy", r->remedy, "who", r->who, "lasts",
                     r->lasts);
}

static void print_codes(const char *format, bool json)
{
    if (json) {
        json_t *list = json_array();
        for (int i = 0; i < REASON_COUNT; i++)
            json_array_append_new(list, code_json(&reason_table[i]));
        json_print(list);
        return;
    }
    if (strcmp(format, "text") != 0) {
        reasons_print(stdout, format);
        return;
    }
    for (int i = 0; i < REASON_COUNT; i++)
        columns_print(stdout, 19, "%-18s %s", reason_table[i].code, reason_table[i].cause);
}

static int explain_code(const char *code, bool json)
{
    const struct reason_text *r = reason_find(code);
    if (json) {
        json_print(code_json(r));
        return EXIT_GOOD;
    }
    const char *const lines[][2] = {{"cause", r->cause},
                                    {"evidence", r->evidence},
                                    {"remedy", r->remedy},
                                    {"who", r->who},
                                    {"lasts", r->lasts}};
    puts(r->code);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        columns_print(stdout, 12, "  %-9s %s", lines[i][0], lines[i][1]);
    return EXIT_GOOD;
}

int cmd_explain(int argc, char **argv)
{
    static const struct argp_child children[] = {{&machine_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = explain_option_list,
        .parser = parse_explain,
        .children = children,
        .args_doc = "A B\n--job PID [PE PE]\nCODE\ncoll OPERATION BYTES [PES|NODESxPES]\n"
                    "experts [OPTION...]",
        .doc = "Explain the path between two ends: GPUs (gpu0), NICs (mlx5_0), host, NUMA nodes "
               "(numa1), disks, or a file by its path. Reports the path in use, better paths "
               "that are off, the evidence, the remedy and who can apply it. Exit status 1 when "
               "something is off or slow. coll: the algorithm of a collective on GPU memory, and "
               "the estimated time of each algorithm; of several nodes (16x8: 16 nodes of 8) the "
               "way of the bytes between them. experts: the estimated time of dispatch and "
               "combine of a mixture of experts, with its terms (weft explain experts --help)."};
    struct explain_arguments a = {.coll = COLL_WORDS};
    if (argc > 1 && strcmp(argv[1], "experts") == 0) {
        argv[1] = "weft explain experts";
        return explain_experts(argc - 1, argv + 1);
    }
    cli_parse(&argp, argc, argv, 0, &a);
    if (a.codes) {
        print_codes(a.codes, a.options.json);
        return EXIT_GOOD;
    }
    if (is_about_coll(&a)) {
        a.coll.json = a.options.json;
        for (; a.coll.n < a.n - 1; a.coll.n++)
            a.coll.words[a.coll.n] = a.ends[1 + a.coll.n];
        return explain_coll(&a.coll);
    }
    if (a.job && a.n)
        return explain_pes(a.job, a.pes, a.options.json);
    if (a.n == 1)
        return explain_code(a.ends[0], a.options.json);
    struct machine *machine = machine_options_read(&a.options);
    if (!machine)
        return EXIT_USAGE;
    int status =
        a.job ? explain_job(&a, machine) : explain_one(&a, machine, a.ends[0], a.ends[1], NULL);
    machine_free(machine);
    return status;
}
