/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench --paths p2p,staged`: the same benchmarks over one path after another, each in a job of its
 * own, the figures side by side. What a figure is and how it is taken is not known here. */
#include "bench/bench.h"
#include "commands.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PATHS = 8, NAME_BYTES = 32 };

/* What one job printed: an array of rows, in the order of benchmarks and sizes. */
struct column {
    char path[NAME_BYTES];
    json_t *rows;
};

struct sides {
    struct column columns[MOST_PATHS];
    int count;
    bool failed;
};

static bool parse_paths(const char *list, struct sides *sides)
{
    while (*list) {
        size_t length = strcspn(list, ",");
        if (!length || length >= NAME_BYTES || sides->count == MOST_PATHS)
            return false;
        snprintf(sides->columns[sides->count++].path, NAME_BYTES, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
    }
    return sides->count > 0;
}

/* In a child of its own: the rows are what it prints. Its exit status, or -1. */
static int run_job(const struct bench_options *options, int argc, char **argv, const char *path,
                   int rows_fd)
{
    char pair[48];
    char **args = calloc((size_t)argc + 4, sizeof *args);
    if (!args)
        return -1;
    memcpy(args, argv, (size_t)argc * sizeof *args);
    snprintf(pair, sizeof pair, "--pair=%d,%d", options->from, options->to);
    args[argc] = "--one-path";
    args[argc + 1] = "--json";
    args[argc + 2] = pair;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (setenv("WEFT_PATH", path, 1) || dup2(rows_fd, STDOUT_FILENO) < 0)
            _exit(EXIT_FAULT);
        int code = bench_start_job(options, argc + 3, args);
        fflush(NULL);
        _exit(code);
    }
    free(args);
    int state = 0;
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/* Lines that are no rows (a program's own words) are passed on to stderr. */
static void read_rows(int fd, struct column *column)
{
    char *line = NULL;
    size_t room = 0;
    FILE *from = fdopen(fd, "r");
    if (!from)
        return;
    rewind(from);
    while (getline(&line, &room, from) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        if (row)
            json_array_append_new(column->rows, row);
        else
            fputs(line, stderr);
    }
    free(line);
    fclose(from);
}

static void measure(const struct bench_options *options, int argc, char **argv, struct sides *sides)
{
    for (int i = 0; i < sides->count; i++) {
        struct column *column = &sides->columns[i];
        int fd = memfd_create("weft-bench-rows", MFD_CLOEXEC);
        column->rows = json_array();
        int code = fd < 0 ? -1 : run_job(options, argc, argv, column->path, fd);
        if (fd >= 0)
            read_rows(fd, column);
        if (code) {
            sides->failed = true;
            fprintf(stderr, "weft bench: PE %d to PE %d over %s: no figures, or not all\n",
                    options->from, options->to, column->path);
        }
    }
}

/* ----------------------------------------------------------------------------------- printing */

static bool same_point(const json_t *a, const json_t *b)
{
    return json_equal(json_object_get(a, "bench"), json_object_get(b, "bench")) &&
           json_equal(json_object_get(a, "bytes"), json_object_get(b, "bytes"));
}

static const json_t *row_like(const struct column *column, const json_t *wanted)
{
    size_t i;
    json_t *row;
    json_array_foreach(column->rows, i, row) if (same_point(row, wanted)) return row;
    return NULL;
}

static double figure(const json_t *row, const char *key)
{
    return row ? json_number_value(json_object_get(row, key)) : -1;
}

static void print_head(const struct bench_options *options, const struct sides *sides)
{
    printf("PE %d to PE %d of %d\n%-16s %8s", options->from, options->to, options->pes, "benchmark",
           "bytes");
    for (int i = 0; i < sides->count; i++)
        printf("  %10.10s    GB/s", sides->columns[i].path);
    for (int i = 1; i < sides->count; i++)
        printf("  %s/%s", sides->columns[i].path, sides->columns[0].path);
    printf("\n");
}

static void print_line(const struct sides *sides, const json_t *first)
{
    double base = figure(first, "us");
    size_t bytes = (size_t)json_integer_value(json_object_get(first, "bytes"));
    printf("%-16s %8s", json_string_value(json_object_get(first, "bench")),
           bytes ? bench_bytes_text(bytes).text : "");
    for (int i = 0; i < sides->count; i++) {
        const json_t *row = row_like(&sides->columns[i], first);
        printf("  %10s  %6s", bench_us_text(figure(row, "us")).text,
               bench_number_text(figure(row, "gbps")).text);
    }
    for (int i = 1; i < sides->count; i++) {
        double us = figure(row_like(&sides->columns[i], first), "us");
        int width = (int)(strlen(sides->columns[i].path) + strlen(sides->columns[0].path) + 1);
        printf("  %*s", width, bench_number_text(base > 0 && us > 0 ? us / base : 0).text);
    }
    printf("\n");
}

static void print_table(const struct bench_options *options, const struct sides *sides)
{
    const struct column *longest = &sides->columns[0];
    size_t i;
    json_t *row;
    for (int k = 1; k < sides->count; k++)
        if (json_array_size(sides->columns[k].rows) > json_array_size(longest->rows))
            longest = &sides->columns[k];
    print_head(options, sides);
    json_array_foreach(longest->rows, i, row)
    {
        const json_t *first = row_like(&sides->columns[0], row);
        print_line(sides, first ? first : row);
    }
    printf("\n");
}

static void print_rows(const struct sides *sides)
{
    size_t i;
    json_t *row;
    for (int k = 0; k < sides->count; k++)
        json_array_foreach(sides->columns[k].rows, i, row)
        {
            json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
            putchar('\n');
        }
    fflush(stdout);
}

static bool one_pair(const struct bench_options *options, int argc, char **argv,
                     const struct sides *paths)
{
    struct sides sides = *paths;
    measure(options, argc, argv, &sides);
    if (options->json)
        print_rows(&sides);
    else
        print_table(options, &sides);
    for (int i = 0; i < sides.count; i++)
        json_decref(sides.columns[i].rows);
    return !sides.failed;
}

int bench_paths(const struct bench_options *given, int argc, char **argv)
{
    struct bench_options options = *given;
    struct sides paths = {0};
    bool good = true;
    if (!parse_paths(options.paths, &paths)) {
        fprintf(stderr, "weft bench: --paths %s: up to %d paths are wanted, e.g. p2p,staged\n",
                options.paths, MOST_PATHS);
        return EXIT_USAGE;
    }
    if (!options.all_pairs) {
        options.to = options.to < 0 ? 1 : options.to;
        return one_pair(&options, argc, argv, &paths) ? EXIT_GOOD : EXIT_FAULT;
    }
    for (options.from = 0; options.from < options.pes; options.from++)
        for (options.to = options.from + 1; options.to < options.pes; options.to++)
            good &= one_pair(&options, argc, argv, &paths);
    return good ? EXIT_GOOD : EXIT_FAULT;
}
