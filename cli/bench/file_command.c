/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench file`: how fast a file comes into memory, and goes from there, by blocks, depths and
 * threads, beside plain read and copy, fio, and cuFile in its compatibility mode, in one run. A job
 * of one PE, or of one for each of several folders (cli/bench/file_several.c). How a method moves
 * the bytes is not known here (cli/bench/file_methods.c, file_cufile.c). */
#include "bench/file_command.h"
#include "bench/bench.h"
#include "bench/file.h"
#include "commands.h"

#include "tool/tool.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    double (*measure)(const struct file_point *point, char *why, size_t why_bytes);
} methods[FILE_METHODS] = {{"weft", file_by_weft},
                           {"plain", file_by_plain},
                           {"fio", file_by_fio},
                           {"cufile", file_by_cufile}};

/* ------------------------------------------------------------------------------------- options */

enum {
    KEY_FILE = 256,
    KEY_FOLDERS,
    KEY_SIZE,
    KEY_WINDOW,
    KEY_BLOCKS,
    KEY_DEPTHS,
    KEY_THREADS,
    KEY_MEMORY,
    KEY_WRITE,
    KEY_READ,
    KEY_REPETITIONS,
    KEY_METHODS,
};

static const struct argp_option file_option_list[] = {
    {"file", KEY_FILE, "PATH", 0,
     "a file or block device to read (a file of --size bytes is made in this folder, and removed)",
     0},
    {"folders", KEY_FOLDERS, "LIST", 0,
     "a PE for each of these folders, comma-separated, with a file of --size bytes there: each "
     "alone, then all at "
     "once",
     0},
    {"size", KEY_SIZE, "BYTES", 0, "bytes that are moved (1G, or what --file has)", 0},
    {"blocks", KEY_BLOCKS, "LIST", 0, "bytes of one request (256K,1M,4M)", 0},
    {"depths", KEY_DEPTHS, "LIST", 0, "requests under way at once (4,16)", 0},
    {"threads", KEY_THREADS, "LIST", 0, "threads, each with a part of the file (1)", 0},
    {"memory", KEY_MEMORY, "KIND", 0, "the target: host, gpu (host)", 0},
    {"window", KEY_WINDOW, "BYTES", 0,
     "bytes of memory that each thread moves the file through (depth times block, as fio)", 0},
    {"write", KEY_WRITE, NULL, 0, "write instead of read; not a file that --file names", 0},
    {"methods", KEY_METHODS, "LIST", 0, "of weft, plain, fio, cufile (all that are here)", 0},
    {"repetitions", KEY_REPETITIONS, "N", 0, "repetitions, of which the median counts (3)", 0},
    {"json", 'j', NULL, 0, "print one JSON object a line and point", 0},
    {0},
};

static int parse_list(struct argp_state *state, const char *option, const char *list, uint64_t most,
                      uint64_t *values)
{
    int n = 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char item[32];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at, ","), at);
        if (n == FILE_LIST_MOST)
            argp_error(state, "--%s: at most %d values", option, FILE_LIST_MOST);
        else if (!config_parse_size(item, &values[n]) || !values[n] || values[n] > most)
            argp_error(state, "--%s: \"%s\" is not a number from 1 to %llu", option, item,
                       (unsigned long long)most);
        else
            n++;
    }
    return n;
}

static uint64_t parse_bytes(struct argp_state *state, const char *option, const char *text)
{
    uint64_t bytes = 0;
    if (!config_parse_size(text, &bytes) || !bytes)
        argp_error(state, "--%s %s: a size such as 64M or 1G is wanted", option, text);
    return bytes;
}

static void parse_blocks(struct argp_state *state, struct file_options *options, const char *list)
{
    options->n_blocks = parse_list(state, "blocks", list, 64 << 20, options->blocks);
    for (int i = 0; i < options->n_blocks; i++)
        if (options->blocks[i] % 4096)
            argp_error(state, "--blocks: %llu is not a multiple of 4K",
                       (unsigned long long)options->blocks[i]);
}

/* 0: a name is missing, or there are too many. */
static int count_folders(const char *list)
{
    int n = 1;
    for (const char *at = list; *at; at++)
        if (*at == ',' && (at == list || !at[1] || at[1] == ','))
            return 0;
        else
            n += *at == ',';
    return *list && n <= FILE_FOLDERS_MOST ? n : 0;
}

static bool are_methods(const char *list)
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t length = strcspn(at, ",");
        int m = 0;
        while (m < FILE_METHODS &&
               (strncmp(at, methods[m].name, length) != 0 || methods[m].name[length]))
            m++;
        if (m == FILE_METHODS)
            return false;
    }
    return true;
}

static error_t parse_file(int key, char *argument, struct argp_state *state)
{
    struct file_options *options = state->input;
    switch (key) {
    case KEY_FILE:
        options->path = argument;
        return 0;
    case KEY_FOLDERS:
        options->folders = argument;
        return 0;
    case KEY_SIZE:
        options->bytes = parse_bytes(state, "size", argument);
        return 0;
    case KEY_WINDOW:
        options->window = parse_bytes(state, "window", argument);
        return 0;
    case KEY_BLOCKS:
        parse_blocks(state, options, argument);
        return 0;
    case KEY_DEPTHS:
        options->n_depths = parse_list(state, "depths", argument, 256, options->depths);
        return 0;
    case KEY_THREADS:
        options->n_threads = parse_list(state, "threads", argument, 64, options->threads);
        return 0;
    case KEY_MEMORY:
        options->gpu = strcmp(argument, "gpu") == 0;
        if (!options->gpu && strcmp(argument, "host") != 0)
            argp_error(state, "--memory %s: host or gpu is wanted", argument);
        return 0;
    case KEY_WRITE:
        options->write = true;
        return 0;
    case KEY_METHODS:
        options->methods = argument;
        if (!are_methods(argument))
            argp_error(state, "--methods %s: of weft, plain, fio and cufile are wanted", argument);
        return 0;
    case KEY_REPETITIONS:
        options->repetitions = atoi(argument);
        if (options->repetitions < 1 || options->repetitions > FILE_REPETITIONS_MOST)
            argp_error(state, "--repetitions %s: 1 to %d is wanted", argument,
                       FILE_REPETITIONS_MOST);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is no option; `file` is measured alone", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->write && options->path)
            argp_error(state, "--write and --file: what the file has would be lost");
        if (options->folders && options->path)
            argp_error(state, "--folders and --file: the files are made in the folders");
        if (options->folders && (options->pes = count_folders(options->folders)) < 1)
            argp_error(state, "--folders %s: 1 to %d names with a comma between are wanted",
                       options->folders, FILE_FOLDERS_MOST);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static struct file_options file_options_of(int argc, char **argv)
{
    static const struct argp argp = {
        .options = file_option_list,
        .parser = parse_file,
        .doc = "Measure reading a file into memory, in GB/s, by weft_file_read() and beside it by "
               "plain read and "
               "copy, by fio, and by cuFile in its compatibility mode, where those are here. fio "
               "copies to no "
               "target: with --memory gpu it shows what the store gives."};
    struct file_options options = {.blocks = {256 << 10, 1 << 20, 4 << 20},
                                   .n_blocks = 3,
                                   .depths = {4, 16},
                                   .n_depths = 2,
                                   .threads = {1},
                                   .n_threads = 1,
                                   .repetitions = 3,
                                   .pes = 1,
                                   .methods = "weft,plain,fio,cufile"};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    return options;
}

/* --------------------------------------------------------------------------------- the figures */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool named(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Methods in turn in every repetition, so that a change of the machine's pace meets all. */
void file_measure(const struct file_options *options, const struct file_point *point,
                  weft_team *together, struct file_row *row, char (*why)[256])
{
    double all[FILE_METHODS][FILE_REPETITIONS_MOST];
    for (int r = 0; r < options->repetitions; r++)
        for (int m = 0; m < FILE_METHODS; m++) {
            bool wanted = named(options->methods, methods[m].name) && !why[m][0];
            if (together && weft_barrier(together))
                snprintf(why[m], sizeof why[m], "%s", weft_last_error());
            all[m][r] = wanted ? methods[m].measure(point, why[m], sizeof why[m]) : -1;
        }
    for (int m = 0; m < FILE_METHODS; m++) {
        qsort(all[m], (size_t)options->repetitions, sizeof(double), by_value);
        row->gbps[m] = all[m][0] < 0 ? -1 : all[m][options->repetitions / 2];
    }
}

const char *file_method_name(int method)
{
    return methods[method].name;
}

json_t *file_row_json(const struct file_point *point, const struct file_row *row)
{
    json_t *object = json_object();
    json_object_set_new(object, "bench", json_string("file"));
    json_object_set_new(object, "direction", json_string(point->write ? "write" : "read"));
    json_object_set_new(object, "memory", json_string(point->gpu ? "gpu" : "host"));
    json_object_set_new(object, "bytes", json_integer((json_int_t)point->bytes));
    json_object_set_new(object, "block", json_integer((json_int_t)point->block));
    json_object_set_new(object, "depth", json_integer(point->depth));
    json_object_set_new(object, "threads", json_integer(point->threads));
    for (int m = 0; m < FILE_METHODS; m++) {
        char key[32];
        snprintf(key, sizeof key, "%s_gbytes_per_s", methods[m].name);
        json_object_set_new(object, key, row->gbps[m] < 0 ? json_null() : json_real(row->gbps[m]));
    }
    return object;
}

void file_json_print(json_t *object)
{
    json_dumpf(object, stdout, JSON_REAL_PRECISION(4));
    putchar('\n');
    json_decref(object);
}

static void print_row(const struct file_point *point, const struct file_row *row)
{
    printf("%8zuK %6u %8u", point->block >> 10, point->depth, point->threads);
    for (int m = 0; m < FILE_METHODS; m++)
        row->gbps[m] < 0 ? printf(" %9s", "-") : printf(" %9.2f", row->gbps[m]);
    if (row->gbps[0] >= 0 && row->gbps[2] > 0)
        printf(" %9.2f", row->gbps[0] / row->gbps[2]);
    putchar('\n');
    fflush(stdout);
}

/* A file that is too small is nobody's to lengthen. */
static weft_status find_bytes(const char *path, weft_job *job, uint64_t *bytes)
{
    weft_file *file;
    uint64_t there;
    weft_status status = weft_file_open(job, path, WEFT_FILE_READ, NULL, &file);
    if (status)
        return status;
    status = weft_file_size(file, &there);
    weft_file_close(file);
    if (status)
        return status;
    if (!*bytes)
        *bytes = there;
    return *bytes <= there ? WEFT_OK
                           : base_fail(WEFT_ERR_RANGE,
                                       "--size: %s has %llu bytes, less than the %llu that are to "
                                       "be read",
                                       path, (unsigned long long)there, (unsigned long long)*bytes);
}

/* By what Weft moves it, GPU memory too, once there is some. */
static weft_status examine_file(const char *path, weft_job *job, weft_file_info *info)
{
    weft_file *file;
    *info = (weft_file_info){.size = sizeof *info};
    weft_status status = weft_file_open(job, path, WEFT_FILE_READ, NULL, &file);
    if (status)
        return status;
    status = weft_file_query(file, info);
    weft_file_close(file);
    return status;
}

static void print_file_head(const struct file_options *options, const weft_file_info *info)
{
    printf("%s, %s on %s; weft by %s%s%s\n", options->write ? "write" : "read", info->file_system,
           info->store, info->backend, info->reason[0] ? ": " : "", info->reason);
    if (options->gpu) {
        printf("GPU memory: %s%s%s\n", info->gpu_backend, *info->gpu_reason ? ", " : "",
               info->gpu_reason);
        if (named(options->methods, "cufile"))
            printf("cufile: %s\n", file_cufile_mode());
    }
    printf("GB/s; memory: %s\n%9s %6s %8s", options->gpu ? "gpu" : "host", "block", "depth",
           "threads");
    for (int m = 0; m < FILE_METHODS; m++)
        printf(" %9s", methods[m].name);
    printf(" %9s\n", "weft/fio");
}

static int file_give_up(void)
{
    fprintf(stderr, "weft bench: %s\n", weft_last_error());
    return EXIT_FAULT;
}

/* False: they do not divide the bytes of the file. */
static bool set_point(const struct file_options *options, int block, int depth, int threads,
                      uint64_t bytes, struct file_point *point)
{
    point->block = options->blocks[block];
    point->depth = (unsigned)options->depths[depth];
    point->threads = (unsigned)options->threads[threads];
    point->window = options->window ? options->window : point->block * point->depth;
    uint64_t step = point->window * point->threads;
    point->bytes = bytes / step * step;
    if (point->bytes && point->window % point->block == 0)
        return true;
    if (weft_my_pe(point->job) == 0)
        fprintf(
            stderr,
            "weft bench: %llu bytes, window %zu, block %zu, %u threads do not divide; left out\n",
            (unsigned long long)bytes, point->window, point->block, point->threads);
    return false;
}

static void one_point(const struct file_options *options, const struct file_point *point,
                      char (*why)[256])
{
    struct file_row row;
    file_measure(options, point, NULL, &row, why);
    options->json ? file_json_print(file_row_json(point, &row)) : print_row(point, &row);
}

static int run_points(const struct file_options *options, struct file_point *point, uint64_t bytes,
                      struct file_several *several)
{
    char why[FILE_METHODS][256] = {{0}};
    for (int b = 0; b < options->n_blocks; b++)
        for (int d = 0; d < options->n_depths; d++)
            for (int t = 0; t < options->n_threads; t++) {
                if (!set_point(options, b, d, t, bytes, point))
                    continue;
                if (!several)
                    one_point(options, point, why);
                else if (file_several_point(several, options, point, why))
                    return file_give_up();
            }
    for (int m = 0; m < FILE_METHODS; m++)
        if (why[m][0])
            fprintf(stderr, "weft bench: %s: %s\n", methods[m].name, why[m]);
    return why[0][0] ? EXIT_FAULT : EXIT_GOOD;
}

static uint64_t largest_of(const uint64_t *values, int n)
{
    uint64_t most = 0;
    for (int i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* For the threads, a window each. */
static size_t most_memory(const struct file_options *options)
{
    uint64_t window = options->window ? options->window
                                      : largest_of(options->blocks, options->n_blocks) *
                                            largest_of(options->depths, options->n_depths);
    return window * largest_of(options->threads, options->n_threads);
}

/* By all PEs of the job alike. */
static int run_all_points(const struct file_options *options, struct file_point *point)
{
    uint64_t bytes = options->bytes;
    struct file_several *several = NULL;
    weft_file_info info;
    void *memory;
    if (find_bytes(point->path, point->job, &bytes) ||
        weft_alloc(point->job, options->gpu ? WEFT_GPU : WEFT_HOST, most_memory(options), 1 << 20,
                   WEFT_ALLOC_ZERO, &memory) ||
        examine_file(point->path, point->job, &info))
        return file_give_up();
    point->memory = memory;
    memcpy(point->file_system, info.file_system, sizeof point->file_system);
    if (options->folders && file_several_open(options, point->job, &info, &several))
        return file_give_up();
    if (!options->json && !several)
        print_file_head(options, &info);
    int code = run_points(options, point, bytes, several);
    file_several_close(several);
    return weft_free(point->job, memory) ? file_give_up() : code;
}

/* path: NULL: a file is made, in this PE's folder. */
static int run_file(const struct file_options *options, struct file_point *point)
{
    char made[64];
    int fd = -1;
    if (!point->path) {
        if (options->folders && file_several_enter(options, weft_my_pe(point->job)))
            return EXIT_FAULT;
        fd = file_make(options->bytes, made, sizeof made);
        if (fd < 0)
            return EXIT_FAULT;
        point->path = made;
    }
    int code = run_all_points(options, point);
    if (fd >= 0) {
        point->path = NULL;
        close(fd);
    }
    return code;
}

static int run_file_job(const struct file_options *options)
{
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    struct file_point point = {.path = options->path,
                               .window = options->window,
                               .write = options->write,
                               .gpu = options->gpu};
    if (weft_init(&point.job, &attr))
        return file_give_up();
    int pes = weft_n_pes(point.job);
    if (pes == options->pes) {
        int code = run_file(options, &point);
        /* Without the others' part there is no end in which all take part. */
        return code == EXIT_FAULT && pes > 1 ? code
               : weft_finalize(point.job)    ? file_give_up()
                                             : code;
    }
    if (weft_my_pe(point.job) == 0)
        fprintf(
            stderr,
            "weft bench: this job has %d PEs, and %d were wanted: --folders starts one for each of "
            "its folders by itself; leave the launcher out\n",
            pes, options->pes);
    weft_finalize(point.job);
    return EXIT_USAGE;
}

int bench_file(int argc, char **argv)
{
    char **names = calloc((size_t)argc + 1, sizeof *names); /* argp puts them in another order */
    if (!names)
        abort();
    memcpy(names, argv, (size_t)argc * sizeof *names);
    struct file_options options = file_options_of(argc, argv);
    if (!options.path && !options.bytes)
        options.bytes = (uint64_t)1 << 30;
    int code = options.folders && !bench_in_job()
                   ? bench_start_pes(options.pes, false, "file", argc, names)
                   : run_file_job(&options);
    free(names);
    return code;
}
