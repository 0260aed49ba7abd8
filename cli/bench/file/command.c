/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench file`: measures reading a file into memory and writing it, by block size, depth
 * and threads, compared with plain read and copy, with fio, and with cuFile in its compatibility
 * mode, in one run. The job has one PE, or one for each of several folders
 * (cli/bench/file/several.c). The methods themselves are in cli/bench/file/methods.c and
 * file_cufile.c. */
#include "bench/file/command.h"
#include "bench/bench.h"
#include "bench/file/file.h"
#include "commands.h"
#include "parse.h"

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
     "a file or block device to read (default: a temporary file of --size bytes in this folder)",
     0},
    {"folders", KEY_FOLDERS, "LIST", 0,
     "start one PE for each of these folders, comma-separated, with a temporary file of --size "
     "bytes there: measure each alone, then all at once",
     0},
    {"size", KEY_SIZE, "BYTES", 0, "bytes to move (1G, or the size of --file)", 0},
    {"blocks", KEY_BLOCKS, "LIST", 0, "bytes of one request (256K,1M,4M)", 0},
    {"depths", KEY_DEPTHS, "LIST", 0, "requests in flight (4,16)", 0},
    {"threads", KEY_THREADS, "LIST", 0, "threads, each with a part of the file (1)", 0},
    {"memory", KEY_MEMORY, "KIND", 0, "memory to read into or write from: host, gpu (host)", 0},
    {"window", KEY_WINDOW, "BYTES", 0, "buffer of each thread in bytes (depth times block, as fio)",
     0},
    {"write", KEY_WRITE, NULL, 0, "write instead of read; not with --file", 0},
    {"methods", KEY_METHODS, "LIST", 0,
     "methods, of weft, plain, fio, cufile (all that are "
     "installed)",
     0},
    {"repetitions", KEY_REPETITIONS, "N", 0, "repetitions (3); the median is reported", 0},
    {"json", 'j', NULL, 0, "print each point as a JSON object on one line", 0},
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
        argp_error(state, "--%s %s: expected a size such as 64M or 1G", option, text);
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

/* Returns the number of folders; 0: a name is empty, or there are too many. */
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
            argp_error(state, "--memory %s: expected host or gpu", argument);
        return 0;
    case KEY_WRITE:
        options->write = true;
        return 0;
    case KEY_METHODS:
        options->methods = argument;
        if (!are_methods(argument))
            argp_error(state, "--methods %s: expected a list of weft, plain, fio and cufile",
                       argument);
        return 0;
    case KEY_REPETITIONS:
        options->repetitions = atoi(argument);
        if (options->repetitions < 1 || options->repetitions > FILE_REPETITIONS_MOST)
            argp_error(state, "--repetitions %s: expected 1 to %d", argument,
                       FILE_REPETITIONS_MOST);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected \"%s\"; `file` is measured alone", argument);
        return 0;
    case ARGP_KEY_END:
        if (options->write && options->path)
            argp_error(state, "--write does not go with --file: it would overwrite the file");
        if (options->folders && options->path)
            argp_error(state, "--folders does not go with --file: it creates files in the folders");
        if (options->folders && (options->pes = count_folders(options->folders)) < 1)
            argp_error(state, "--folders %s: expected 1 to %d names separated by commas",
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
        .doc = "Measure reading a file into memory, in GB/s, with weft_file_read(), with plain "
               "read and copy, with fio, and with cuFile in its compatibility mode, where "
               "installed. fio does not copy to the GPU: with --memory gpu its figure is the "
               "rate of the storage."};
    struct file_options options = {.blocks = {256 << 10, 1 << 20, 4 << 20},
                                   .n_blocks = 3,
                                   .depths = {4, 16},
                                   .n_depths = 2,
                                   .threads = {1},
                                   .n_threads = 1,
                                   .repetitions = 3,
                                   .pes = 1,
                                   .methods = "weft,plain,fio,cufile"};
    cli_parse(&argp, argc, argv, 0, &options);
    return options;
}

/* ----------------------------------------------------------------------------- the measurement */

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool list_contains(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Each repetition runs all methods in turn, so that a change of the machine's speed affects all
 * of them. */
void file_measure(const struct file_options *options, const struct file_point *point,
                  weft_team *together, struct file_row *row, char (*why)[256])
{
    double all[FILE_METHODS][FILE_REPETITIONS_MOST];
    for (int r = 0; r < options->repetitions; r++)
        for (int m = 0; m < FILE_METHODS; m++) {
            bool wanted = list_contains(options->methods, methods[m].name) && !why[m][0];
            if (together && weft_barrier(together))
                snprintf(why[m], sizeof why[m], "%s", weft_last_error());
            all[m][r] = wanted ? methods[m].measure(point, why[m], sizeof why[m]) : -1;
        }
    for (int m = 0; m < FILE_METHODS; m++) {
        qsort(all[m], (size_t)options->repetitions, sizeof(double), compare_values);
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

/* Checks the size of the file; a file that is too small is not extended. */
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
    return *bytes <= there
               ? WEFT_OK
               : base_fail(WEFT_ERR_RANGE, "--size: %s has %llu bytes, fewer than the %llu to read",
                           path, (unsigned long long)there, (unsigned long long)*bytes);
}

/* Queries the backend that Weft uses for the file, for GPU memory too once some is allocated. */
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
        if (list_contains(options->methods, "cufile"))
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

/* False: window, block and threads do not divide the bytes of the file. */
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
        fprintf(stderr,
                "weft bench: skipped: %llu bytes do not divide into window %zu, block %zu, %u "
                "threads\n",
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

/* The most memory that any point needs: one window for each thread. */
static size_t most_memory(const struct file_options *options)
{
    uint64_t window = options->window ? options->window
                                      : largest_of(options->blocks, options->n_blocks) *
                                            largest_of(options->depths, options->n_depths);
    return window * largest_of(options->threads, options->n_threads);
}

/* Runs all points; all PEs of the job call it. */
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

/* point->path NULL: creates a file in the folder of this PE. */
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
        /* One PE failed: weft_finalize() is collective and the others do not reach it. */
        return code == EXIT_FAULT && pes > 1 ? code
               : weft_finalize(point.job)    ? file_give_up()
                                             : code;
    }
    if (weft_my_pe(point.job) == 0)
        fprintf(
            stderr,
            "weft bench: this job has %d PEs, but --folders needs %d. It starts them itself: run "
            "without a launcher\n",
            pes, options->pes);
    weft_finalize(point.job);
    return EXIT_USAGE;
}

int bench_file(int argc, char **argv)
{
    char **names = calloc((size_t)argc + 1, sizeof *names); /* argp reorders them */
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
