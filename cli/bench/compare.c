/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --compare A B`: two runs that --json has saved, row by row. */
#include "bench/bench.h"
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 2, LABEL_BYTES = 160, KEY_BYTES = 512, LEAST_PERCENT = 3 };

/* What a row measures. All else in a row is measured, or follows from what is measured. */
static const char *const conditions[] = {
    "bench", "op", "way",  "side",    "path", "memory",    "scope", "target", "pes",
    "from",  "to", "ctas", "threads", "sms",  "direction", "block", "depth",  "bytes"};
enum { CONDITIONS = sizeof conditions / sizeof *conditions, NAMES = 3, BYTES = CONDITIONS - 1 };

/* A figure of a row. least: the key of the quickest repetition, or NULL. */
static const struct figure {
    const char *key, *least, *label;
    bool rate; /* more is better */
} figures[] = {
    {"us", "us_min", "", false},
    {"graph_us", "graph_min_us", "in a graph", false},
    {"stream_us", "stream_min_us", "on a stream", false},
    {"host_us", "host_min_us", "by the host", false},
    {"weft_gbytes_per_s", NULL, "weft", true},
    {"plain_gbytes_per_s", NULL, "plain", true},
    {"fio_gbytes_per_s", NULL, "fio", true},
    {"cufile_gbytes_per_s", NULL, "cufile", true},
};
enum { FIGURES = sizeof figures / sizeof *figures };

struct saved_run {
    const char *file;
    json_t *rows;
};

struct outcome {
    int slower, faster, same;
};

/* Reads the objects of a file, one after the other. Returns false, with a message, for a file
 * without rows of `weft bench --json`. */
static bool read_run(struct saved_run *run)
{
    json_error_t error = {.text = ""};
    FILE *from = strcmp(run->file, "-") == 0 ? stdin : fopen(run->file, "r");
    run->rows = json_array();
    if (!from) {
        fprintf(stderr, "weft bench: --compare: %s: %s\n", run->file, strerror(errno));
        return false;
    }
    int c;
    while ((c = getc(from)) != EOF) {
        if (strchr(" \t\r\n", c))
            continue;
        ungetc(c, from);
        json_t *row = json_loadf(from, JSON_DISABLE_EOF_CHECK, &error);
        if (!row)
            break;
        if (json_is_string(json_object_get(row, "bench")))
            json_array_append(run->rows, row);
        json_decref(row);
    }
    if (from != stdin)
        fclose(from);
    if (*error.text)
        fprintf(stderr, "weft bench: --compare: %s: object %zu: %s\n", run->file,
                json_array_size(run->rows) + 1, error.text);
    else if (!json_array_size(run->rows))
        fprintf(stderr, "weft bench: --compare: %s has no row of `weft bench --json`\n", run->file);
    return !*error.text && json_array_size(run->rows) > 0;
}

static void append_value(char *text, size_t bytes, const char *before, const json_t *value)
{
    size_t used = strlen(text);
    if (json_is_string(value))
        snprintf(text + used, bytes - used, "%s%s", before, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text + used, bytes - used, "%s%" JSON_INTEGER_FORMAT, before,
                 json_integer_value(value));
}

/* All conditions of a row as one text, by which rows of two runs are matched. */
static void make_key(const json_t *row, char key[KEY_BYTES])
{
    key[0] = '\0';
    for (int i = 0; i < CONDITIONS; i++) {
        append_value(key, KEY_BYTES, "", json_object_get(row, conditions[i]));
        strncat(key, ";", KEY_BYTES - strlen(key) - 1);
    }
}

/* The row of the run with the same conditions, taken out of it, or NULL. */
static json_t *take_match(struct saved_run *run, const char *wanted)
{
    for (size_t i = 0; i < json_array_size(run->rows); i++) {
        char key[KEY_BYTES];
        json_t *row = json_array_get(run->rows, i);
        make_key(row, key);
        if (strcmp(key, wanted) != 0)
            continue;
        json_incref(row);
        json_array_remove(run->rows, i);
        return row;
    }
    return NULL;
}

/* Whether rows that have the condition differ in it. */
static bool varies(const struct saved_run runs[RUN], const char *condition)
{
    const json_t *first = NULL;
    for (int r = 0; r < RUN; r++)
        for (size_t i = 0; i < json_array_size(runs[r].rows); i++) {
            const json_t *value = json_object_get(json_array_get(runs[r].rows, i), condition);
            if (value && first && !json_equal(first, value))
                return true;
            first = first ? first : value;
        }
    return false;
}

/* Name, operation and algorithm, then the conditions that differ between rows, but the bytes. */
static void make_label(const json_t *row, const bool shown[CONDITIONS], char label[LABEL_BYTES])
{
    label[0] = '\0';
    for (int i = 0; i < BYTES; i++) {
        char before[32];
        snprintf(before, sizeof before, ", %s ", conditions[i]);
        if (i < NAMES || shown[i])
            append_value(label, LABEL_BYTES,
                         !i          ? ""
                         : i < NAMES ? " "
                                     : before,
                         json_object_get(row, conditions[i]));
    }
}

/* slower: also the quickest repetition of B takes longer than the median of A; faster: the other
 * way round. A difference of less than LEAST_PERCENT is none. */
static const char *judge_figure(const struct figure *figure, const json_t *a, const json_t *b,
                                struct outcome *outcome)
{
    double before = json_number_value(json_object_get(a, figure->key));
    double after = json_number_value(json_object_get(b, figure->key));
    const json_t *least_a = figure->least ? json_object_get(a, figure->least) : NULL;
    const json_t *least_b = figure->least ? json_object_get(b, figure->least) : NULL;
    double best_a = json_is_number(least_a) ? json_number_value(least_a) : before;
    double best_b = json_is_number(least_b) ? json_number_value(least_b) : after;
    double limit = 1 + LEAST_PERCENT / 100.0;
    bool longer = after > before * limit && (figure->rate || best_b > before);
    bool shorter = before > after * limit && (figure->rate || best_a > after);
    bool slower = figure->rate ? shorter : longer, faster = figure->rate ? longer : shorter;
    *(slower ? &outcome->slower : faster ? &outcome->faster : &outcome->same) += 1;
    return slower ? "slower" : faster ? "faster" : "";
}

static void print_figure(const struct figure *figure, const char *label, const json_t *a,
                         const json_t *b, const char *verdict)
{
    double before = json_number_value(json_object_get(a, figure->key));
    double after = json_number_value(json_object_get(b, figure->key));
    json_int_t bytes = json_integer_value(json_object_get(a, "bytes"));
    char name[LABEL_BYTES + 32];
    snprintf(name, sizeof name, "%s%s%s", label, *figure->label ? ", " : "", figure->label);
    printf("%-40s %9s %9s %9s %6.3f%s%s\n", name,
           bytes ? bench_bytes_text((size_t)bytes).text : "-",
           figure->rate ? bench_number_text(before).text : bench_us_text(before).text,
           figure->rate ? bench_number_text(after).text : bench_us_text(after).text, after / before,
           *verdict ? "  " : "", verdict);
}

static void print_figure_json(const struct figure *figure, const json_t *a, const json_t *b,
                              const char *verdict)
{
    json_t *line = json_object();
    double before = json_number_value(json_object_get(a, figure->key));
    double after = json_number_value(json_object_get(b, figure->key));
    for (int i = 0; i < CONDITIONS; i++)
        if (json_object_get(a, conditions[i]))
            json_object_set(line, conditions[i], json_object_get(a, conditions[i]));
    json_object_set_new(line, "figure", json_string(figure->key));
    json_object_set_new(line, "a", json_real(before));
    json_object_set_new(line, "b", json_real(after));
    json_object_set_new(line, "b_over_a", json_real(after / before));
    json_object_set_new(line, "verdict", json_string(*verdict ? verdict : "same"));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(line);
}

static void compare_rows(const json_t *a, const json_t *b, const char *label, bool json,
                         struct outcome *outcome)
{
    for (int i = 0; i < FIGURES; i++) {
        const struct figure *figure = &figures[i];
        if (json_number_value(json_object_get(a, figure->key)) <= 0 ||
            json_number_value(json_object_get(b, figure->key)) <= 0)
            continue;
        const char *verdict = judge_figure(figure, a, b, outcome);
        if (json)
            print_figure_json(figure, a, b, verdict);
        else
            print_figure(figure, label, a, b, verdict);
    }
}

static int compare_runs(struct saved_run runs[RUN], bool json)
{
    struct outcome outcome = {0};
    bool shown[CONDITIONS];
    size_t only_in_a = 0;
    for (int i = 0; i < CONDITIONS; i++)
        shown[i] = varies(runs, conditions[i]);
    if (!json)
        printf("A: %s\nB: %s\n\n%-40s %9s %9s %9s %6s\n", runs[0].file, runs[1].file, "benchmark",
               "bytes", "A", "B", "B/A");
    for (size_t i = 0; i < json_array_size(runs[0].rows); i++) {
        const json_t *a = json_array_get(runs[0].rows, i);
        char key[KEY_BYTES], label[LABEL_BYTES];
        make_key(a, key);
        make_label(a, shown, label);
        json_t *b = take_match(&runs[1], key);
        if (b)
            compare_rows(a, b, label, json, &outcome);
        only_in_a += !b;
        json_decref(b);
    }
    size_t only_in_b = json_array_size(runs[1].rows);
    int compared = outcome.slower + outcome.faster + outcome.same;
    if (!json && compared)
        printf("\n%d slower, %d faster, %d the same (less than %d %% apart, or within the "
               "repetitions)\n",
               outcome.slower, outcome.faster, outcome.same, LEAST_PERCENT);
    if (only_in_a || only_in_b)
        fprintf(stderr, "weft bench: --compare: %zu rows are only in %s, %zu only in %s\n",
                only_in_a, runs[0].file, only_in_b, runs[1].file);
    return !compared ? EXIT_USAGE : outcome.slower ? EXIT_FAULT : EXIT_GOOD;
}

int bench_compare(const char *a, const char *b, bool json)
{
    struct saved_run runs[RUN] = {{.file = a}, {.file = b}};
    bool good = read_run(&runs[0]) && read_run(&runs[1]);
    int status = good ? compare_runs(runs, json) : EXIT_USAGE;
    for (int r = 0; r < RUN; r++)
        json_decref(runs[r].rows);
    return status;
}
