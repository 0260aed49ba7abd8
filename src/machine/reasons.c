/* SPDX-License-Identifier: Apache-2.0 */
/* The reason table, its printed forms, and the list of findings. See reasons.h. */
#include "machine/reasons.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define USER     "user"
#define ROOT     "root"
#define REBOOT   "root, then reboot"
#define PROVIDER "provider"
#define PROCESS  "this process only"
#define BOOT     "until reboot"
#define FOREVER  "permanent"
#define NOTHING  "no remedy"

const struct reason_text reason_table[REASON_COUNT] = {
#define ROW(id, code, cause, evidence, remedy, who, lasts)                                         \
    {code, cause, evidence, remedy, who, lasts},
    REASONS(ROW)
#undef ROW
};

const char *const weight_names[] = {"off", "slow", "unknown", "note"};

const struct reason_text *reason_find(const char *code)
{
    for (int i = 0; i < REASON_COUNT; i++)
        if (strcasecmp(reason_table[i].code, code) == 0)
            return &reason_table[i];
    return NULL;
}

const char *reason_nearest(const char *code)
{
    const char *codes[REASON_COUNT];
    for (int i = 0; i < REASON_COUNT; i++)
        codes[i] = reason_table[i].code;
    return base_nearest(code, codes, REASON_COUNT);
}

/* Copies a remedy and replaces each "{dev}" by the device. */
static void fill_remedy(char *to, size_t size, const char *remedy, const char *device)
{
    size_t n = 0;
    while (*remedy && n + 1 < size) {
        if (strncmp(remedy, "{dev}", 5) == 0) {
            n += (size_t)snprintf(to + n, size - n, "%s", device);
            n = n < size ? n : size - 1;
            remedy += 5;
        } else {
            to[n++] = *remedy++;
        }
    }
    to[n] = '\0';
}

/* Grows the list so that one more finding fits. */
static void reserve_finding(struct findings *findings)
{
    if (findings->n < findings->capacity)
        return;
    int capacity = findings->capacity ? 2 * findings->capacity : 16;
    struct finding *larger = realloc(findings->list, (size_t)capacity * sizeof *larger);
    if (!larger)
        abort();
    findings->list = larger;
    findings->capacity = capacity;
}

static unsigned chain_of(const struct findings *findings, const struct finding *f)
{
    uint64_t hash = (uint64_t)f->reason + 14695981039346656037ull;
    for (const char *at = f->evidence; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211ull;
    return (unsigned)(hash % (unsigned)findings->chains);
}

/* Adds the findings to their chains that are not in them yet. */
static void chain_findings(struct findings *findings)
{
    if (findings->chains < findings->capacity) {
        free(findings->latest);
        free(findings->before);
        findings->chains = findings->capacity;
        findings->chained = 0;
        memset(findings->of_reason, 0, sizeof findings->of_reason);
        findings->latest = calloc((size_t)findings->chains, sizeof *findings->latest);
        findings->before = calloc((size_t)findings->chains, sizeof *findings->before);
        if (!findings->latest || !findings->before)
            abort();
    }
    for (; findings->chained < findings->n; findings->chained++) {
        int *latest = &findings->latest[chain_of(findings, &findings->list[findings->chained])];
        findings->before[findings->chained] = *latest;
        *latest = findings->chained + 1;
        findings->of_reason[findings->list[findings->chained].reason]++;
    }
}

int finding_before(struct findings *findings, int at, const struct finding *like)
{
    if (!findings->n)
        return -1;
    chain_findings(findings);
    int one = findings->latest[chain_of(findings, like)] - 1;
    for (; one >= 0; one = findings->before[one] - 1)
        if (one < at && findings->list[one].reason == like->reason &&
            strcmp(findings->list[one].evidence, like->evidence) == 0)
            return one;
    return -1;
}

void findings_cut(struct findings *findings, int n)
{
    findings->n = n;
    findings->chained = 0;
    memset(findings->of_reason, 0, sizeof findings->of_reason);
    if (findings->latest)
        memset(findings->latest, 0, (size_t)findings->chains * sizeof *findings->latest);
}

/* The list has a finding of the same reason and evidence, of the same or a more severe weight. */
static bool has_finding(struct findings *findings, const struct finding *f)
{
    int at = findings->n;
    while ((at = finding_before(findings, at, f)) >= 0)
        if (findings->list[at].weight <= f->weight)
            return true;
    return false;
}

struct finding *finding_add(struct findings *findings, enum reason reason, enum weight weight,
                            const char *device, const char *evidence_format, ...)
{
    reserve_finding(findings);
    struct finding *f = &findings->list[findings->n];
    memset(f, 0, sizeof *f);
    f->reason = reason;
    f->weight = weight;
    va_list arguments;
    va_start(arguments, evidence_format);
    vsnprintf(f->evidence, sizeof f->evidence, evidence_format, arguments);
    va_end(arguments);
    snprintf(f->place, sizeof f->place, "%s", findings->place ? findings->place : "");
    snprintf(f->path, sizeof f->path, "%s", findings->path ? findings->path : "");
    f->routes_off = weight == WEIGHT_OFF ? findings->routes_off : 0;
    f->advice = reason_table[reason].remedy;
    f->who = reason_table[reason].who;
    f->lasts = reason_table[reason].lasts;
    fill_remedy(f->remedy, sizeof f->remedy, f->advice, device ? device : "");
    return has_finding(findings, f) ? NULL : &findings->list[findings->n++];
}

bool findings_turn_off(const struct findings *findings, unsigned kinds)
{
    for (int i = 0; i < findings->n; i++)
        if (findings->list[i].routes_off & kinds)
            return true;
    return false;
}

bool findings_have(struct findings *findings, enum reason reason)
{
    if (findings->n)
        chain_findings(findings);
    return findings->n && findings->of_reason[reason] > 0;
}

void findings_merge(struct findings *to, struct findings *from)
{
    for (int i = 0; i < from->n; i++)
        if (!has_finding(to, &from->list[i])) {
            reserve_finding(to);
            to->list[to->n++] = from->list[i];
        }
    findings_free(from);
}

void finding_repair(struct finding *finding, const char *format, ...)
{
    if (!finding)
        return;
    size_t used = strlen(finding->repair);
    va_list arguments;
    if (used)
        used += (size_t)snprintf(finding->repair + used, sizeof finding->repair - used, "; ");
    va_start(arguments, format);
    if (used < sizeof finding->repair)
        vsnprintf(finding->repair + used, sizeof finding->repair - used, format, arguments);
    va_end(arguments);
}

void finding_remedy(struct finding *finding, const char *remedy, const char *device)
{
    if (!finding)
        return;
    finding->advice = remedy;
    fill_remedy(finding->remedy, sizeof finding->remedy, remedy, device);
    if (strncmp(remedy, "none needed", 11) == 0) {
        finding->who = USER;
        finding->lasts = NOTHING;
    }
}

void finding_by_user(struct finding *finding)
{
    if (!finding)
        return;
    finding->who = USER;
    finding->lasts = PROCESS;
}

void findings_free(struct findings *findings)
{
    free(findings->list);
    free(findings->latest);
    free(findings->before);
    memset(findings, 0, sizeof *findings);
}

static void print_markdown(FILE *to)
{
    fputs("# Reason codes\n\n"
          "Made from `src/machine/reasons.def` by `weft explain --codes=md`.\n\n"
          "`weft explain` and `weft doctor` name each cause by a code. The meaning of a code never "
          "changes. `{dev}` stands for the device of the finding.\n\n"
          "| code | cause | evidence that is checked | remedy | who | lasts |\n"
          "| --- | --- | --- | --- | --- | --- |\n",
          to);
    for (int i = 0; i < REASON_COUNT; i++) {
        const struct reason_text *r = &reason_table[i];
        fprintf(to, "| `%s` | %s | %s | %s | %s | %s |\n", r->code, r->cause, r->evidence,
                r->remedy, r->who, r->lasts);
    }
}

/* Escapes underscores, asterisks and the like, which scdoc would read as markup. */
static void print_escaped(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (strchr("_*\\#`", *text))
            fputc('\\', to);
        fputc(*text, to);
    }
}

static void print_man(FILE *to)
{
    fputs("weft-reasons(7)\n\n# NAME\n\nweft-reasons - reason codes of weft explain and weft "
          "doctor\n\n# CODES\n\nMade from src/machine/reasons.def by weft explain --codes=man.\n\n",
          to);
    for (int i = 0; i < REASON_COUNT; i++) {
        const struct reason_text *r = &reason_table[i];
        const char *const parts[][2] = {{"Evidence: ", r->evidence},
                                        {"Remedy: ", r->remedy},
                                        {"Who: ", r->who},
                                        {"Lasts: ", r->lasts}};
        fprintf(to, "*%s*\n\t", r->code);
        print_escaped(to, r->cause);
        fputs(".\n", to);
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            fprintf(to, "\n\t%s", parts[k][0]);
            print_escaped(to, parts[k][1]);
            fputs(".\n", to);
        }
        fputc('\n', to);
    }
    fputs("# SEE ALSO\n\nweft-explain(1), weft-doctor(1)\n", to);
}

void reasons_print(FILE *to, const char *format)
{
    if (strcmp(format, "md") == 0)
        print_markdown(to);
    else
        print_man(to);
}
