/* SPDX-License-Identifier: Apache-2.0 */
/* `weft bench` from its options to its texts and pages, compared with golden/bench_*.txt. The jobs
 * that it starts, the version, the date, the files and their rates are mocks. */
#include "bench/bench.h"
#include "bench/coll/coll.h"
#include "bench/file/file.h"
#include "bench/plot.h"
#include "commands.h"
#include "run/run.h"

#include "tests/golden.h"
#include "tool/tool.h"

#include <argp.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------- mocks */

static int file_pes; /* PEs of the job of `weft bench file`; 0: init fails */
static int fails_at; /* number of the call that fails; -1: none */

static weft_status call(const char *name)
{
    if (fails_at-- != 0)
        return WEFT_OK;
    return base_fail(WEFT_ERR_SYSTEM, "%s fails", name);
}

const char *__wrap_weft_version(void);
const char *__wrap_weft_version(void)
{
    return "1.2.3";
}

struct tm *__wrap_localtime_r(const time_t *now, struct tm *tm);
struct tm *__wrap_localtime_r(const time_t *now, struct tm *tm)
{
    *tm = (struct tm){.tm_year = 126, .tm_mon = 1, .tm_mday = 3, .tm_hour = 4, .tm_min = 5};
    return tm;
}

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    return 0;
}

/* Prints a row of a job; its figures follow from its conditions. */
static void print_row(const char *bench, const char *path, int pes, unsigned ctas, unsigned bytes)
{
    double us = 0.5 * pes + (double)bytes / 700 + 3.0 / (ctas + 1) + (double)strlen(bench) / 9 +
                (double)(path[0] % 7);
    printf("{\"bench\":\"%s\",\"path\":\"%s\",\"target\":\"%s\",\"pes\":%d,\"ctas\":%u,"
           "\"bytes\":%u,\"us\":%.6f,\"gbytes_per_s\":%.6f,\"mops\":%.6f,\"verified\":%s}\n",
           bench, path, path[0] == 's' ? "simt" : "cuda", pes, ctas, bytes, us,
           bytes / us / 1e3 * ctas, ctas / us,
           strcmp(path, "slow") == 0   ? "false"
           : strcmp(path, "self") == 0 ? "null"
                                       : "true");
}

static const char *value_of(int argc, char **argv, const char *option, const char *preset)
{
    size_t length = strlen(option);
    for (int i = argc - 1; i >= 0; i--)
        if (strncmp(argv[i], option, length) == 0)
            return argv[i] + length;
    return preset;
}

static unsigned next_number(const char **list)
{
    char *end;
    unsigned long n = strtoul(*list, &end, 10);
    n <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
    end += strcspn(end, ",");
    *list = *end ? end + 1 : end;
    return (unsigned)n;
}

static void print_rows(int argc, char **argv, const char *path)
{
    char name[64];
    int seen = 0;
    int names = 0;
    for (int i = 0; i < argc - 1; i++)
        if (strcmp(argv[i + 1], "--one-path") == 0)
            names = i;
    for (int i = 0; i < argc - 1 && strncmp(argv[names], "--", 2) == 0; i++)
        if (strncmp(argv[i], "--progress", 10) == 0)
            names = i + 1; /* a suite passes it before the names */
    for (const char *at = argv[names]; *at;) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        at += strlen(name) + (at[strlen(name)] == ',');
        for (const char *c = value_of(argc, argv, "--ctas=", "1"); *c;) {
            unsigned ctas = next_number(&c);
            for (const char *s = value_of(argc, argv, "--sizes=", "0"); *s;) {
                unsigned bytes = next_number(&s);
                if (strcmp(path, "weak") != 0 || seen++ == 1)
                    print_row(name, path, atoi(argv[2]), ctas, bytes);
            }
        }
    }
}

/* `weft run`: prints its arguments and, if JSON is requested, the rows. */
/* What is said stays in order with what is done. */
void __wrap_json_errors_begin(void);
void __wrap_json_errors_begin(void)
{
}

int __wrap_cmd_run(int argc, char **argv);
int __wrap_cmd_run(int argc, char **argv)
{
    char self[4096] = "";
    const char *path = getenv("WEFT_PATH"), *initiator = getenv("WEFT_TEST_GDA_INITIATOR");
    bool json = false;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    dprintf(STDERR_FILENO, "[%s %s]", path ? path : "-", initiator ? initiator : "-");
    for (int i = 0; i < argc; i++) {
        dprintf(STDERR_FILENO, " %s", strcmp(argv[i], self) == 0 ? "SELF" : argv[i]);
        json |= strcmp(argv[i], "--json") == 0;
    }
    dprintf(STDERR_FILENO, "%s\n", argv[argc] ? ", and more" : "");
    if (json && path) {
        print_rows(argc, argv, path);
        printf("no row of %s\n", path);
    }
    if (path && strcmp(path, "net") == 0)
        kill(getpid(), SIGKILL);
    return path && strcmp(path, "relay") == 0 ? 3 : 0;
}

weft_status __wrap_weft_init(weft_job **job, const weft_init_attr *attr);
weft_status __wrap_weft_init(weft_job **job, const weft_init_attr *attr)
{
    static int made_up;
    const char *target = getenv("WEFT_TARGET");
    *job = NULL;
    if (!attr && file_pes) /* called by `weft bench coll` */
        fprintf(stderr, "target %s\n", target ? target : "-");
    if (!file_pes)
        return base_fail(WEFT_ERR_BOOT, "no job here");
    if (attr)
        assert_int_equal(attr->thread, WEFT_THREAD_MULTIPLE);
    *job = (weft_job *)(void *)&made_up;
    return call("init");
}

weft_ctx *__wrap_weft_default_ctx(weft_job *job);
weft_ctx *__wrap_weft_default_ctx(weft_job *job)
{
    return NULL;
}

weft_team *__wrap_weft_team_world(weft_job *job);
weft_team *__wrap_weft_team_world(weft_job *job)
{
    return NULL;
}

weft_status __wrap_weft_finalize(weft_job *job);
weft_status __wrap_weft_finalize(weft_job *job)
{
    fprintf(stderr, "finalize\n");
    return call("finalize");
}

int __wrap_weft_n_pes(const weft_job *job);
int __wrap_weft_n_pes(const weft_job *job)
{
    return file_pes;
}

int __wrap_weft_my_pe(const weft_job *job);
int __wrap_weft_my_pe(const weft_job *job)
{
    return 0;
}

weft_status __wrap_weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                              unsigned flags, void **address);
weft_status __wrap_weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align,
                              unsigned flags, void **address)
{
    static char memory[16];
    *address = memory;
    fprintf(stderr, "alloc %d, %zu bytes, align %zu, flags %u\n", (int)kind, bytes, align, flags);
    return call("alloc");
}

weft_status __wrap_weft_free(weft_job *job, void *address);
weft_status __wrap_weft_free(weft_job *job, void *address)
{
    fprintf(stderr, "free\n");
    return call("free");
}

static int open_files;

weft_status __wrap_weft_file_open(weft_job *job, const char *path, unsigned flags,
                                  const weft_file_attr *attr, weft_file **file);
weft_status __wrap_weft_file_open(weft_job *job, const char *path, unsigned flags,
                                  const weft_file_attr *attr, weft_file **file)
{
    weft_status status = call("file_open");
    *file = NULL;
    fprintf(stderr, "open %s, flags %u\n", path, flags);
    open_files += !status;
    return status;
}

weft_status __wrap_weft_file_close(weft_file *file);
weft_status __wrap_weft_file_close(weft_file *file)
{
    open_files--;
    return WEFT_OK;
}

weft_status __wrap_weft_file_size(weft_file *file, uint64_t *bytes);
weft_status __wrap_weft_file_size(weft_file *file, uint64_t *bytes)
{
    *bytes = 5000000;
    return call("file_size");
}

weft_status __wrap_weft_file_query(weft_file *file, weft_file_info *info);
weft_status __wrap_weft_file_query(weft_file *file, weft_file_info *info)
{
    bool worse = file_pes && getenv("WEFT_PATH");
    assert_int_equal(info->size, sizeof *info);
    *info = (weft_file_info){.size = sizeof *info, .backend = "uring direct", .gpu_backend = ""};
    strcpy(info->file_system, "ext4");
    strcpy(info->store, "NVMe");
    if (worse) {
        info->backend = "threads buffered";
        info->gpu_backend = "pinned";
        strcpy(info->reason, "no io_uring");
        strcpy(info->gpu_reason, "no nvidia_fs");
    }
    return call("file_query");
}

int __wrap_file_make(uint64_t bytes, char *path, size_t path_bytes);
int __wrap_file_make(uint64_t bytes, char *path, size_t path_bytes)
{
    fprintf(stderr, "make a file of %llu bytes\n", (unsigned long long)bytes);
    if (call("file_make"))
        return -1;
    snprintf(path, path_bytes, "MADE");
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

const char *__wrap_file_cufile_mode(void);
const char *__wrap_file_cufile_mode(void)
{
    return "of the test";
}

/* Rates in turn for each method: 7.25, 1.5, ...; fio is unavailable at depth 3. */
static double rate(const char *method, const struct file_point *point, char *why, size_t bytes)
{
    static const double turns[] = {7.25, 1.5, 4.125, 5, 2};
    static int turn;
    fprintf(stderr, "%s of %s: %llu bytes, window %zu, block %zu, depth %u, threads %u%s%s, %s\n",
            method, point->path, (unsigned long long)point->bytes, point->window, point->block,
            point->depth, point->threads, point->write ? ", write" : "", point->gpu ? ", gpu" : "",
            point->file_system);
    if (strcmp(method, "fio") == 0 && point->depth == 3) {
        snprintf(why, bytes, "depth 3");
        return -1;
    }
    if (call(method)) {
        snprintf(why, bytes, "%s", weft_last_error());
        return -1;
    }
    return turns[turn++ % 5];
}

#define METHOD(name)                                                                               \
    double __wrap_file_by_##name(const struct file_point *point, char *why, size_t bytes);         \
    double __wrap_file_by_##name(const struct file_point *point, char *why, size_t bytes)          \
    {                                                                                              \
        return rate(#name, point, why, bytes);                                                     \
    }
METHOD(weft)
METHOD(plain)
METHOD(fio)
METHOD(cufile)

/* ----------------------------------------------------------------------------- running commands */

static char text[1 << 19];
static size_t used;

__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    assert_true(used < sizeof text);
}

static void add_file(int fd)
{
    ssize_t n = pread(fd, text + used, sizeof text - 1 - used, 0);
    assert_true(n >= 0);
    used += (size_t)n;
    text[used] = '\0';
    close(fd);
}

typedef int command(int argc, char **argv);

/* Runs the command in a child process and keeps its output and exit status. */
static void run_args(command *command, int argc, char **argv)
{
    int fd = memfd_create("output", MFD_CLOEXEC), state = 0;
    assert_true(fd >= 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        setvbuf(stdout, NULL, _IONBF, 0);
        int code = command(argc, argv);
        if (open_files)
            fprintf(stderr, "%d files are open\n", open_files);
        fflush(NULL);
        _exit(code);
    }
    assert_int_equal(waitpid(pid, &state, 0), pid);
    assert_true(WIFEXITED(state));
    add_file(fd);
    add("-- %d\n", WEXITSTATUS(state));
}

/* Runs the command with the arguments in `words`, separated by spaces. */
static void run(command *command, const char *name, const char *words)
{
    char *argv[64] = {(char *)name}, *copy = strdup(words);
    int argc = 1;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    add("$ %s %s\n", name, words);
    run_args(command, argc, argv);
    free(copy);
}

/* Adds a page without the parts that only a browser interprets. */
static void add_page(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t from = used;
    assert_true(fd >= 0);
    add_file(fd);
    unlink(path);
    char *style = strstr(text + from, "<style>"), *end = strstr(text + from, "</style>");
    if (style && end) {
        memmove(style, end, strlen(end) + 1);
        used -= (size_t)(end - style);
    }
}

static int reset(void **state)
{
    *text = '\0';
    used = 0;
    file_pes = 0;
    fails_at = -1;
    unsetenv("WEFT_PATH");
    unsetenv("WEFT_TEST_GDA_INITIATOR");
    unsetenv("WEFT_TARGET");
    unsetenv("PMIX_RANK");
    unsetenv("WORLD_SIZE");
    config_reset();
    return 0;
}

static void many(command *command, const char *name, const char *const *words)
{
    for (; *words; words++)
        run(command, name, *words);
}

/* ------------------------------------------------------------------------------------- options */

static int dump_options(int argc, char **argv)
{
    struct bench_options o;
    bench_parse(argc, argv, &o);
    printf("names %s, memory %d, scope %d, target %d, pes %d, pair %d %d, iterations %llu, "
           "repetitions %d, verify %d, json %d, bind %d, trace %d, threads %d, html %s, paths %s, "
           "all_pairs %d, progress %d, sizes",
           o.names, o.memory, o.scope, o.target, o.pes, o.from, o.to,
           (unsigned long long)o.iterations, o.repetitions, o.verify, o.json, o.bind, o.trace,
           o.threads, o.html ? o.html : "-", o.paths ? o.paths : "-", o.all_pairs, o.progress);
    for (int i = 0; i < o.n_sizes; i++)
        printf(" %zu", o.sizes[i]);
    printf(", ctas");
    for (int i = 0; i < o.n_ctas; i++)
        printf(" %d", o.ctas_list[i]);
    printf("\n");
    return 0;
}

#define TEN(x) x x x x x x x x x x

static void options(void **state)
{
    static const char *const words[] = {"",
                                        "put",
                                        "put,get,latency",
                                        "put,",
                                        ",put",
                                        "pu",
                                        "putt",
                                        "put,gett",
                                        "put get",
                                        "evaluation",
                                        "evaluation,put",
                                        "gda",
                                        "gda --trace",
                                        "gda --trace --scope warp",
                                        "proxy",
                                        "put,proxy_trip",
                                        "proxy --scope block",
                                        "proxy --trace",
                                        "put --trace",
                                        "map_flag",
                                        "map",
                                        "jacobi --no-bind",
                                        "-n 1 -i 1 -j",
                                        "-n 100000 -i 1000000000",
                                        "-n 0",
                                        "-n 100001",
                                        "-n 2x",
                                        "-n x",
                                        "-i 0",
                                        "-i 1000000001",
                                        "--repetitions 1",
                                        "--repetitions 101",
                                        "--repetitions 0",
                                        "--repetitions 102",
                                        "--sizes 8,60,4K,1M",
                                        "--sizes 8,0",
                                        "--sizes 8,",
                                        "--sizes x",
                                        "--sizes " TEN("1,2,3,4,5,6,") "1,2,3,4",
                                        "--sizes " TEN("1,2,3,4,5,6,") "1,2,3,4,5",
                                        "--ctas 1,3,4096",
                                        "--ctas 5 --ctas 2,1 --sizes 8 --sizes 24,16",
                                        "--ctas 1,0",
                                        "--ctas 4097",
                                        "--ctas " TEN("1,2,3,4,5,6,") "1,2,3,4",
                                        "--ctas " TEN("1,2,3,4,5,6,") "1,2,3,4,5",
                                        "--threads 1",
                                        "--threads 1024",
                                        "--threads 0",
                                        "--threads 1025",
                                        "--pair 0,0",
                                        "--pair 3,2",
                                        "--pair 3",
                                        "--pair 3,2,",
                                        "--pair -1,2",
                                        "--pair 1,-2",
                                        "--pair all",
                                        "--pair all --paths p2p",
                                        "--memory host --scope host --target host",
                                        "--memory gpu --scope stream --target simt",
                                        "--scope thread --target cuda",
                                        "--scope warp",
                                        "--scope block",
                                        "--memory disk",
                                        "--scope grid",
                                        "--target gpu",
                                        "--verify",
                                        "--no-verify",
                                        "--no-verify --verify",
                                        "--html page --paths p2p put",
                                        "--html page --paths p2p gda",
                                        "--html page",
                                        "--paths p2p --one-path",
                                        "--progress 1",
                                        "--progress 0",
                                        "--progress 2",
                                        "--list",
                                        "--wrong",
                                        NULL};
    many(dump_options, "weft bench", words);
    golden_is(GOLDEN "/bench_options.txt", text);
}

static void help(void **state)
{
    run(dump_options, "weft bench", "--help");
    run(cmd_bench, "weft bench", "file --help");
    run(cmd_bench, "weft bench", "coll --help");
    golden_is(GOLDEN "/bench_help.txt", text);
}

/* ------------------------------------------------------------------------------------ registry */

static void add_entries(void)
{
    for (int i = 0; i < bench_entry_count; i++) {
        const struct bench_entry *e = &bench_entries[i];
        add("%s %s %d %d, memories %u, shape %d, sized %d, gridded %d, %zu bytes, per PE %d %d, "
            "floor %d, largest %zu, apart %d, by units %d, room %d\n",
            e->name, e->family ? e->family : "-", e->scope, e->target, e->memories, e->shape,
            e->sized, e->gridded, e->bytes, e->src_per_pe, e->dst_per_pe, e->floor, e->largest,
            e->apart, e->by_units, e->buffer_bytes != NULL);
    }
}

static void add_sizes(const struct bench_options *o, const struct bench_entry *e)
{
    const size_t *sizes;
    int n = bench_sizes(o, e, &sizes);
    add(" %s", e->name);
    for (int i = 0; i < n; i++)
        add("%c%zu", i ? ',' : ':', sizes[i]);
}

static void registry(void **state)
{
    static const char *const names[] = {"all",   "atomic,put", "latency", "map,barrier",
                                        "proxy", "jacobi,get", "",        "sync,"};
    add_entries();
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int scope = 0; scope < SCOPE_COUNT; scope++)
            for (int target = 0; target < TARGET_COUNT; target++)
                for (int memory = 0; memory < MEMORY_COUNT; memory++) {
                    struct bench_options o = {.names = names[k],
                                              .scope = (enum bench_scope)scope,
                                              .target = (enum bench_target)target,
                                              .memory = (enum bench_memory)memory,
                                              .sizes = {24, 48},
                                              .n_sizes = k == 1 ? 2 : 0};
                    const struct bench_entry *found = bench_find("put", &o);
                    add("%s, %d %d %d, proxy %d, put %d:", names[k], scope, target, memory,
                        bench_names_proxy(&o), found ? (int)(found - bench_entries) : -1);
                    for (int i = 0; i < bench_entry_count; i++)
                        if (bench_selected(&o, &bench_entries[i]))
                            add_sizes(&o, &bench_entries[i]);
                    add("\n");
                }
    assert_true(bench_name_known("atomic_add,x", 10));
    assert_false(bench_name_known("atomic_add,x", 9));
    assert_true(bench_name_known("atomic_add", 6));
    assert_false(bench_name_known("", 0));
    golden_is(GOLDEN "/bench_registry.txt", text);
}

/* ------------------------------------------------------------------------------- whole commands */

static void jobs(void **state)
{
    static const char *const words[] = {"put",
                                        "put --pes 3 --json",
                                        "put --no-bind",
                                        "proxy",
                                        "put --scope thread",
                                        "put --scope thread --target simt",
                                        "put --scope thread --target cuda --memory gpu",
                                        "p --scope block",
                                        "p --scope block --target simt --memory host",
                                        "map_put --scope warp --memory host",
                                        "gda --trace",
                                        "put --scope warp --target host",
                                        "file --folders a,b --write --size 4M",
                                        "file --folders a --json --size 4M",
                                        "coll",
                                        "coll --pes 5 --ops allreduce,scatter --sizes 8,4K --json",
                                        "coll --ops allreduce,redduce",
                                        "coll --ways two,three",
                                        "coll --sizes 8,0",
                                        "coll --sizes 1T",
                                        "coll --sizes 2T",
                                        "coll --pes 0",
                                        "coll --pes 100001",
                                        "coll --iters 0",
                                        "coll --iters 100001",
                                        "coll --repetitions 0",
                                        "coll --repetitions 102",
                                        "coll --sms -1",
                                        "coll --sms 99999",
                                        "coll --sms 3x",
                                        "coll --team 0",
                                        "coll --team 100001",
                                        "coll --target host",
                                        "coll --target cuda --target simt --csv --no-verify --tune",
                                        "coll put",
                                        NULL};
    many(cmd_bench, "weft bench", words);
    setenv("PMIX_RANK", "0", 1);
    static const char *const in_job[] = {"put",
                                         "put --paths p2p",
                                         "evaluation",
                                         "gda",
                                         "gda --trace",
                                         "put --target simt",
                                         "put --scope thread --target simt",
                                         "put --scope thread --target host",
                                         "coll --target cuda",
                                         NULL};
    many(cmd_bench, "weft bench", in_job);
    file_pes = 3;
    static const char *const coll[] = {"coll --target simt --team 4", "coll --target simt --pes 2",
                                       "coll --target cuda --pes 4 --team 5",
                                       "coll --target cuda --pes 3 --team 100000", NULL};
    many(cmd_bench, "weft bench", coll);
    file_pes = 0;
    unsetenv("PMIX_RANK");
    setenv("WORLD_SIZE", "2", 1);
    run(cmd_bench, "weft bench", "put --paths p2p");
    run(cmd_bench, "weft bench", "coll --target simt --json --csv -j");
    unsetenv("WORLD_SIZE");
    static const char *const ends[] = {
        "coll --pes 100000 --iters 100000 --repetitions 101 --sms 64 --team 100000",
        "coll --pes 1 --iters 1 --repetitions 1 --sms 0 --team 1 --ways auto,copies",
        "coll --ops broadcast,alltoallv_skew --sizes 1 --wrong",
        "coll --iters 99999999999999999999",
        "coll --sizes " TEN("1,2,3,4,5,6,") "1,2,3,4",
        "coll --sizes " TEN("1,2,3,4,5,6,") "1,2,3,4,5",
        "coll --sizes 8 --sizes " TEN("1,2,3,4,5,6,") "1,2,3,4",
        NULL};
    many(cmd_bench, "weft bench", ends);
    golden_is(GOLDEN "/bench_jobs.txt", text);
}

static void paths(void **state)
{
    static const char *const words[] = {
        "put --paths p2p,staged --sizes=8,1000",
        "put,get --paths weak,gda:cpu,p2p --ctas=1,4 --sizes=64,4K --pes 3 --pair 2,1",
        "put,p --paths p2p,weak --sizes=8,16 --json",
        "put --paths relay,p2p --sizes=1K",
        "put --paths net --sizes=1K",
        "put --paths p2p,slow --pair all --pes 3 --sizes=8",
        "put --paths p2p,relay --pair all --pes 2 --sizes=8",
        "put --paths p2p --pes 1 --pair all",
        "put --paths p2p, --sizes=8",
        "put --paths ,p2p",
        "put --paths p2p,,staged",
        "put --paths gda:123456789012345678901234567 --sizes=8",
        "put --paths gda:1234567890123456789012345678",
        "put --paths p2p,weak,gda,gda:a,gda:b,staged,gda:c,gda:d --sizes=8 --json",
        "put --paths p2p,weak,gda,gda:a,gda:b,staged,gda:c,gda:d,gda:e",
        "put --paths p2p,foo",
        NULL};
    many(cmd_bench, "weft bench", words);
    golden_is(GOLDEN "/bench_paths.txt", text);
}

static void suites(void **state)
{
    char page[] = "/tmp/weft-test-page.XXXXXX", words[300];
    int fd = mkstemp(page);
    assert_true(fd >= 0);
    close(fd);
    static const char *const of_page[] = {
        "evaluation --pes 5 --paths p2p,staged,weak --sizes 8,100,4K --repetitions 4 --html",
        "gda --target simt --threads 96 --iters 7 --no-verify --no-bind --html",
        "evaluation --paths staged --ctas 1,3 --threads 32 --html", NULL};
    for (int i = 0; of_page[i]; i++) {
        snprintf(words, sizeof words, "%s %s", of_page[i], page);
        char *argv[32] = {"weft bench"}, *copy = strdup(words);
        int argc = 1;
        for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
            argv[argc++] = word;
        add("$ weft bench %s PAGE\n", of_page[i]);
        run_args(cmd_bench, argc, argv);
        add_page(page);
        free(copy);
    }
    static const char *const plain[] = {"gda --ctas 2 --paths gda:gpu --json",
                                        "gda --ctas 1 --paths slow",
                                        "gda --ctas 1 --paths self --target cuda",
                                        "gda --ctas 1 --paths relay,p2p",
                                        "evaluation --paths ,",
                                        "evaluation --html /nothing/page",
                                        "gda --ctas 1 --paths p2p --html /dev/full",
                                        NULL};
    many(cmd_bench, "weft bench", plain);
    golden_is(GOLDEN "/bench_suites.txt", text);
}

/* ---------------------------------------------------------------------------------------- pages */

static const struct bench_entry put = {.name = "put",
                                       .text = "puts",
                                       .sized = true,
                                       .gridded = true,
                                       .scope = SCOPE_WARP,
                                       .target = TARGET_SIMT,
                                       .floor = FLOOR_MEMCPY},
                                get = {.name = "get", .text = "gets", .sized = true},
                                add_one = {.name = "add", .floor = FLOOR_ATOMIC},
                                swap = {.name = "swap", .floor = FLOOR_STORE},
                                barrier = {.name = "barrier", .floor = FLOOR_LINES},
                                sync_all = {.name = "sync", .floor = FLOOR_LINES};

static struct bench_point point_of(const struct bench_entry *entry, int ctas, size_t bytes,
                                   double us, double floor_us)
{
    return (struct bench_point){.entry = entry,
                                .memory = MEMORY_GPU,
                                .path = "weak",
                                .pes = 3,
                                .from = 2,
                                .to = 1,
                                .ctas = ctas,
                                .threads = 96,
                                .bytes = bytes,
                                .iterations = 1234,
                                .repetitions = 9,
                                .us = us,
                                .us_min = us * 0.9,
                                .us_max = us * 1.7,
                                .gbps = (double)bytes / us / 1e3,
                                .mops = 1 / us,
                                .verified = 1,
                                .floor_us = floor_us,
                                .memcpy_us = bytes ? us / 3 : -1,
                                .floors = {40, -1, 3, 4000, 5, 6}};
}

static void add_stream(FILE *to)
{
    fflush(to);
    int fd = dup(fileno(to));
    add_file(fd);
    fclose(to);
}

static void pages(void **state)
{
    struct bench_options o = {.memory = MEMORY_GPU, .scope = SCOPE_WARP, .target = TARGET_CUDA};
    struct bench bench = {.options = &o, .n = 3, .from = 2, .to = 1, .path = "weak"};
    struct bench_point points[] = {
        point_of(&put, 1, 8, 0.75, 0.5),        point_of(&put, 1, 1000, 1.5, -1),
        point_of(&put, 1, 4096, 12, 3),         point_of(&put, 2, 8, 0.5, 0.5),
        point_of(&add_one, 1, 8, 0.02, 0.01),   point_of(&get, 2, 64, 3, 0),
        point_of(&swap, 1, 8, 0.0002, 0.03),    point_of(&barrier, 1, 0, 1.25, 0.7),
        point_of(&sync_all, 1, 0, 0.0004, 0.6), point_of(&get, 2, 0, 2, 1)};
    int count = (int)(sizeof points / sizeof *points);
    points[1].verified = 0;
    points[3].verified = -1;
    for (int n = 0; n <= count; n = n == 0 ? 4 : n == 4 ? count : count + 1) {
        FILE *to = tmpfile();
        add("%d points\n", n);
        bench_html(to, &bench, points, n);
        size_t from = used;
        add_stream(to);
        char *style = strstr(text + from, "<style>"), *end = strstr(text + from, "</style>");
        if (n) { /* keeps the style of the first page only */
            memmove(style, end, strlen(end) + 1);
            used -= (size_t)(end - style);
        }
    }
    FILE *to = tmpfile();
    for (int i = 0; i < count; i++)
        bench_json_row(to, &points[i]);
    add_stream(to);
    golden_is(GOLDEN "/bench_pages.txt", text);
}

static void plots(void **state)
{
    static struct plot_series series[PLOT_SERIES], empty;
    static struct bench_point many_points[PLOT_POINTS + 2];
    char label[PLOT_SERIES][16];
    for (int s = 0; s < PLOT_SERIES; s++) {
        snprintf(label[s], sizeof label[s], "line %d", s);
        series[s].label = s % 5 == 4 ? NULL : label[s];
        series[s].dashed = s % 4 == 3;
        series[s].n = 1 + s * 3 % 19;
        for (int i = 0; i < series[s].n; i++) {
            series[s].x[i] = (double)(1 << i) * 3;
            series[s].y[i] = i % 6 == 5 ? 0 : 0.3 * (s + 1) * (i + 1);
            series[s].low[i] = s % 3 ? 0 : i == 2 ? -1 : series[s].y[i] * 0.5;
            series[s].high[i] = s % 3 ? 0 : series[s].y[i] * 3.5;
        }
    }
    for (int count = 0; count <= PLOT_SERIES; count = count < 3 ? count + 1 : count + 3) {
        const struct plot plot = {"A title", "GB/s", count % 2 == 0, series, count};
        FILE *to = tmpfile();
        add("%d lines\n", count);
        plot_draw(to, &plot);
        add_stream(to);
    }
    static const double levels[] = {1, 10, 9.99, 0, -1, NAN};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        struct plot_series one = {.x = {4}, .y = {levels[i]}, .n = 1};
        const struct plot plot = {"One", "us", true, &one, 1};
        FILE *to = tmpfile();
        add("one point at %g\n", levels[i]);
        plot_draw(to, &plot);
        add_stream(to);
    }
    FILE *to = tmpfile();
    const struct plot nothing = {"None", "us", true, &empty, 1};
    plot_draw(to, &nothing);
    add_stream(to);
    /* A line is limited to the points that a plot can hold. */
    struct bench_options o = {0};
    struct bench bench = {.options = &o, .n = 2, .to = 1, .path = "p2p"};
    for (int i = 0; i < PLOT_POINTS + 2; i++)
        many_points[i] = point_of(&get, 0, 8 + (size_t)i * 8, 1 + i, 0.5);
    to = tmpfile();
    bench_html(to, &bench, many_points, PLOT_POINTS + 2);
    add_stream(to);
    golden_is(GOLDEN "/bench_plots.txt", text);
}

/* ---------------------------------------------------------------------------------- bench file */

static void file_rows(void **state)
{
    static const char *const words[] = {
        "file --file F --methods weft --repetitions 1",
        "file --size 3M --blocks 256K,1M --depths 1,3 --threads 1,2 --repetitions 2",
        "file --write --blocks 64K --depths 2 --repetitions 5 --methods plain,weft",
        "file --file F --json --blocks 4K,8K --depths 3 --window 24K --repetitions 4 --size 100K",
        "file --file F --memory gpu --blocks 4K --depths 3 --window 8K --threads 3",
        "file --file F --memory gpu --blocks 4K --depths 2 --methods plain,cufile --json",
        "file --file F --memory gpu --blocks 4K --depths 2 --methods plain --repetitions 3",
        "file --file F --blocks 4K --depths 2 --window 6K",
        "file --file F --size 5000000 --blocks 4M --depths 1 --methods fio",
        "file --file F --size 5000001",
        NULL};
    file_pes = 1;
    many(cmd_bench, "weft bench", words);
    setenv("WEFT_PATH", "worse", 1);
    run(cmd_bench, "weft bench", words[4]);
    run(cmd_bench, "weft bench", words[8]);
    unsetenv("WEFT_PATH");
    file_pes = 2;
    run(cmd_bench, "weft bench", "file --file F");
    file_pes = 1;
    for (fails_at = 0; fails_at < 16; fails_at++) {
        add("call %d fails\n", fails_at);
        run(cmd_bench, "weft bench", "file --size 1M --blocks 64K --depths 3 --repetitions 2");
    }
    golden_is(GOLDEN "/bench_file.txt", text);
}

static void file_options(void **state)
{
    static const char *const words[] = {"file --blocks 64M --depths 256 --threads 64 --size 2T",
                                        "file --blocks 65M",
                                        "file --blocks 4096,5000",
                                        "file --blocks 0",
                                        "file --blocks x,4K",
                                        "file --depths 257",
                                        "file --depths 0",
                                        "file --depths 4,",
                                        "file --threads 65",
                                        "file --depths 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                                        "file --size 0",
                                        "file --size x",
                                        "file --window 0",
                                        "file --memory disk",
                                        "file --methods weft,fi",
                                        "file --methods weftt",
                                        "file --methods weft,,fio",
                                        "file --repetitions 0",
                                        "file --repetitions 32",
                                        "file --repetitions x",
                                        "file put",
                                        "file --file F --write",
                                        "file --file F --folders a",
                                        "file --folders a,,b",
                                        "file --folders a,",
                                        "file --folders ,a",
                                        "file --folders ,",
                                        "file --folders a,b,c",
                                        "file --folders " TEN("a,b,c,d,e,f,") "g,h,i,j",
                                        "file --folders " TEN("a,b,c,d,e,f,") "g,h,i,j,k",
                                        NULL};
    many(cmd_bench, "weft bench", words);
    file_pes = 1;
    run(cmd_bench, "weft bench", "file --repetitions 31 --methods weft --size 1M --blocks 4K");
    run(cmd_bench, "weft bench",
        "file --methods weft --repetitions 1 --size 8K --blocks 4K --threads 1 --window 4K "
        "--depths 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,256");
    golden_is(GOLDEN "/bench_file_options.txt", text);
}

/* ------------------------------------------------------------------------------- options of run */

static int dump_run(int argc, char **argv)
{
    struct run_options o = {.rsh = "-", .weft = "-", .output_dir = "-"};
    printf("parsed %d: ", run_parse_options(&o, argc, argv));
    printf("%d PEs, agent %d, rsh %s, weft %s, prefix %d, output %s, timeout %llu, grace %llu, "
           "bind %d, hosts",
           o.npes, o.agent, o.rsh, o.weft, o.prefix, o.output_dir, (unsigned long long)o.timeout_ns,
           (unsigned long long)o.grace_ns, (int)o.bind);
    for (int i = 0; i < o.host_count; i++)
        printf(" %s:%d", o.hosts[i].name, o.hosts[i].npes);
    printf(", env");
    for (int i = 0; i < o.env_count; i++)
        printf(" %s", o.env[i]);
    printf(", command");
    for (char **word = o.command; word && *word; word++)
        printf(" %s", *word);
    printf("\n");
    return 0;
}

static void run_options(void **state)
{
    static const char *const words[] = {"-n 3 program -n 5 --prefix",
                                        "--pes=1 --prefix --output-dir D program",
                                        "-n 16384 -- program",
                                        "-n 16385 program",
                                        "-n 0 program",
                                        "-n 2x program",
                                        "-n x program",
                                        "-n 2",
                                        "program",
                                        "",
                                        "--timeout 5m --grace 500ms -n 1 program",
                                        "--timeout 5q -n 1 program",
                                        "--grace x -n 1 program",
                                        "--bind share -n 1 program",
                                        "--bind=core -n 1 program",
                                        "--bind=none -n 1 program",
                                        "--bind=cores -n 1 program",
                                        "--hosts a:2 --hosts b program",
                                        "--hosts a:0 program",
                                        "--hostfile /nothing/hosts program",
                                        "--rsh R --weft W --env A=1 --env B -n 2 program a b",
                                        "--agent",
                                        "--help",
                                        NULL};
    many(dump_run, "weft run", words);
    golden_is(GOLDEN "/run_options.txt", text);
}

/* --------------------------------------------------------------------------------- rows of coll */

static int dump_coll(int argc, char **argv)
{
    struct coll_options o = {.sms = 63, .form = (enum coll_form)atoi(argv[1])};
    struct coll_bench b = {.options = &o, .members = atoi(argv[2]), .memcpy_gbps = 12.345};
    b.bench.floors.two_lines_ns = 135;
    if (o.form != COLL_TABLE) /* in a table it would query the team for its rates */
        coll_print_head(&b);
    for (int i = 0; i < COLL_OPS * 2; i++) {
        struct coll_row row = {.op = i % COLL_OPS,
                               .way = (enum coll_algorithm)(i % COLL_WAYS),
                               .taken = (enum coll_algorithm)((i * 2 + 1) % COLL_WAYS),
                               .bytes = (size_t)24 << i,
                               .us = {i % 3 ? 1.5 + i : -1, 99.94 + 0.01 * i, i % 4 ? 7 : -1},
                               .us_min = {i % 3 ? 1.25 + i : -1, 88.8, i % 4 ? 6.5 : -1},
                               .busbw = i % 5 * 1.25,
                               .algbw = i % 4 * 2.75,
                               .floor_us = i % 2 ? 0.75 : -1,
                               .model_us = i % 7 ? 2.5 : -1,
                               .blocks = (unsigned)i,
                               .verified = i % 3 - 1};
        coll_print_row(&b, &row);
    }
    for (int op = 0; op < COLL_OPS; op++)
        printf("%s %d: %.6g %.6g %.6g, %.6g %.6g, %zu %zu\n", coll_op_name(op),
               (int)coll_op_what(op), coll_busbw(op, 1000, 5, 2), coll_busbw(op, 3000, 1, 3),
               coll_busbw(op, 3000, 2, 0), coll_algbw(op, 1000, 5, 2), coll_algbw(op, 3000, 2, 0),
               coll_src_bytes(op, 1000, 5), coll_dst_bytes(op, 1000, 5));
    return 0;
}

static void coll_rows(void **state)
{
    static const char *const words[] = {"0 1", "0 3", "1 4", "2 2", NULL};
    many(dump_coll, "rows", words);
    golden_is(GOLDEN "/bench_coll_rows.txt", text);
}

int main(void)
{
    argp_err_exit_status = EXIT_USAGE;
    setenv("ARGP_HELP_FMT", "rmargin=79", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options, reset),     cmocka_unit_test_setup(help, reset),
        cmocka_unit_test_setup(registry, reset),    cmocka_unit_test_setup(jobs, reset),
        cmocka_unit_test_setup(paths, reset),       cmocka_unit_test_setup(suites, reset),
        cmocka_unit_test_setup(pages, reset),       cmocka_unit_test_setup(plots, reset),
        cmocka_unit_test_setup(file_rows, reset),   cmocka_unit_test_setup(file_options, reset),
        cmocka_unit_test_setup(run_options, reset), cmocka_unit_test_setup(coll_rows, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
