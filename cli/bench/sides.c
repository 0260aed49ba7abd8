/* SPDX-License-Identifier: Apache-2.0 */
/* sides.h: runs one job for each path and prints the table of their figures. Independent of what
 * a figure means. */
#include "bench/sides.h"

#include "commands.h"
#include "tool/choices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* "gda:cpu" is path gda. */
static bool is_path(const char *side)
{
    char path[SIDE_NAME_BYTES];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(side, ":"), side);
    return choices_check_order(path) == WEFT_OK;
}

bool sides_parse(const char *list, struct bench_sides *sides)
{
    *sides = (struct bench_sides){0};
    while (*list) {
        size_t length = strcspn(list, ",");
        if (!length || length >= SIDE_NAME_BYTES || sides->count == SIDES_MAX)
            return false;
        snprintf(sides->side[sides->count].path, SIDE_NAME_BYTES, "%.*s", (int)length, list);
        if (!is_path(sides->side[sides->count++].path))
            return false;
        list += length + (list[length] == ',');
    }
    return sides->count > 0;
}

/* ------------------------------------------------------------------------------------- the jobs */

/* Sets the environment of the job that this process starts. */
static bool set_path_environment(const char *side)
{
    char path[SIDE_NAME_BYTES];
    size_t length = strcspn(side, ":");
    snprintf(path, sizeof path, "%.*s", (int)length, side);
    return !setenv("WEFT_PATH", path, 1) &&
           (!side[length] || !setenv("WEFT_TEST_GDA_INITIATOR", side + length + 1, 1));
}

/* Runs the job in a child process whose standard output is rows_fd. Returns its exit status, or
 * -1. */
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
        if (!set_path_environment(path) || dup2(rows_fd, STDOUT_FILENO) < 0)
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

/* A row names the path of its job, which is another where WEFT_PATH does not reach the memory. */
static bool is_of_side(const json_t *row, const char *side)
{
    const char *path = json_string_value(json_object_get(row, "path"));
    size_t length = strcspn(side, ":");
    if (!path || strcmp(path, "self") == 0) /* a job of one PE */
        return true;
    return strlen(path) == length && memcmp(path, side, length) == 0;
}

/* Reads the rows that a job printed; other lines go to stderr. Rows over another path are left out,
 * and *used names it. */
static void read_rows(int fd, struct bench_side *side, char used[SIDE_NAME_BYTES])
{
    char *line = NULL;
    size_t room = 0;
    FILE *from = fdopen(fd, "r");
    if (!from)
        return;
    rewind(from);
    while (getline(&line, &room, from) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        if (row && !is_of_side(row, side->path)) {
            snprintf(used, SIDE_NAME_BYTES, "%s", json_string_value(json_object_get(row, "path")));
            json_decref(row);
        } else if (row) {
            json_object_set_new(row, "side", json_string(side->path));
            json_array_append_new(side->rows, row);
        } else {
            fputs(line, stderr);
        }
    }
    free(line);
    fclose(from);
}

void sides_measure(const struct bench_options *options, int argc, char **argv,
                   struct bench_sides *sides)
{
    for (int i = 0; i < sides->count; i++) {
        struct bench_side *side = &sides->side[i];
        char used[SIDE_NAME_BYTES] = "";
        int fd = memfd_create("weft-bench-rows", MFD_CLOEXEC);
        if (!side->rows)
            side->rows = json_array();
        int code = fd < 0 ? -1 : run_job(options, argc, argv, side->path, fd);
        if (fd >= 0)
            read_rows(fd, side, used);
        if (used[0]) {
            sides->failed = true;
            fprintf(stderr,
                    "weft bench: PE %d to PE %d over %s: the job used path %s, since %s does not "
                    "reach this memory\n",
                    options->from, options->to, side->path, used, side->path);
        }
        if (code) {
            sides->failed = true;
            fprintf(stderr, "weft bench: PE %d to PE %d over %s: no figures, or not all\n",
                    options->from, options->to, side->path);
        }
    }
}

void sides_clear(struct bench_sides *sides)
{
    for (int i = 0; i < sides->count; i++) {
        json_decref(sides->side[i].rows);
        sides->side[i].rows = NULL;
    }
}

/* ----------------------------------------------------------------------------------- printing */

static bool same_point(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"bench", "bytes", "ctas", "pes"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

const json_t *side_row_like(const struct bench_side *side, const json_t *wanted)
{
    size_t i;
    json_t *row;
    json_array_foreach(side->rows, i, row) if (same_point(row, wanted)) return row;
    return NULL;
}

double side_figure(const json_t *row, const char *key)
{
    const json_t *value = row ? json_object_get(row, key) : NULL;
    return json_is_number(value) ? json_number_value(value) : -1;
}

static void print_sides_head(const struct bench_sides *sides)
{
    printf("%-18s %3s %4s %8s", "benchmark", "PEs", "ctas", "bytes");
    for (int i = 0; i < sides->count; i++)
        printf("  %10.10s    GB/s   Mop/s", sides->side[i].path);
    for (int i = 1; i < sides->count; i++)
        printf("  %s/%s", sides->side[i].path, sides->side[0].path);
    printf("\n");
}

static void print_side_row(const struct bench_sides *sides, const json_t *first)
{
    double base = side_figure(first, "us"), ctas = side_figure(first, "ctas");
    char blocks[16] = ""; /* none in scope host */
    size_t bytes = (size_t)json_integer_value(json_object_get(first, "bytes"));
    if (ctas > 0)
        snprintf(blocks, sizeof blocks, "%.0f", ctas);
    printf("%-18s %3.0f %4s %8s", json_string_value(json_object_get(first, "bench")),
           side_figure(first, "pes"), blocks, bytes ? bench_bytes_text(bytes).text : "");
    for (int i = 0; i < sides->count; i++) {
        const json_t *row = side_row_like(&sides->side[i], first);
        printf("  %10s  %6s  %6s", bench_us_text(side_figure(row, "us")).text,
               bench_number_text(side_figure(row, "gbytes_per_s")).text,
               bench_number_text(side_figure(row, "mops")).text);
    }
    for (int i = 1; i < sides->count; i++) {
        double us = side_figure(side_row_like(&sides->side[i], first), "us");
        int width = (int)(strlen(sides->side[i].path) + strlen(sides->side[0].path) + 1);
        printf("  %*s", width, bench_number_text(base > 0 && us > 0 ? us / base : 0).text);
    }
    printf("\n");
}

void sides_print_table(const struct bench_sides *sides)
{
    const struct bench_side *longest = &sides->side[0];
    size_t i;
    json_t *row;
    for (int k = 1; k < sides->count; k++)
        if (json_array_size(sides->side[k].rows) > json_array_size(longest->rows))
            longest = &sides->side[k];
    print_sides_head(sides);
    json_array_foreach(longest->rows, i, row)
    {
        const json_t *first = side_row_like(&sides->side[0], row);
        print_side_row(sides, first ? first : row);
    }
    printf("\n");
}

void sides_print_json(const struct bench_sides *sides)
{
    size_t i;
    json_t *row;
    for (int k = 0; k < sides->count; k++)
        json_array_foreach(sides->side[k].rows, i, row)
        {
            json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
            putchar('\n');
        }
    fflush(stdout);
}
