/* SPDX-License-Identifier: Apache-2.0 */
/* Types shared by the parts of `weft bench`: the benchmark (entry), the conditions (options),
 * the job (bench), the size (case) and the result (point). Uses only the public host API. */
#ifndef WEFT_CLI_BENCH_H
#define WEFT_CLI_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weft.h>

/* Memory of the buffers, scope of the caller, and target of the calling code. A new scope or
 * target is a row here and rows in the registry. */
#define BENCH_MEMORY_LIST(X) X(HOST, "host") X(GPU, "gpu")
#define BENCH_SCOPE_LIST(X)                                                                        \
    X(HOST, "host") X(THREAD, "thread") X(WARP, "warp") X(BLOCK, "block") X(STREAM, "stream")
#define BENCH_TARGET_LIST(X)        X(HOST, "host") X(CUDA, "cuda") X(SIMT, "simt")

#define BENCH_MEMORY_ENUM(id, text) MEMORY_##id,
#define BENCH_SCOPE_ENUM(id, text)  SCOPE_##id,
#define BENCH_TARGET_ENUM(id, text) TARGET_##id,
enum bench_memory { BENCH_MEMORY_LIST(BENCH_MEMORY_ENUM) MEMORY_COUNT };
enum bench_scope { BENCH_SCOPE_LIST(BENCH_SCOPE_ENUM) SCOPE_COUNT };
enum bench_target { BENCH_TARGET_LIST(BENCH_TARGET_ENUM) TARGET_COUNT };
#undef BENCH_MEMORY_ENUM
#undef BENCH_SCOPE_ENUM
#undef BENCH_TARGET_ENUM

extern const char *const bench_memory_names[MEMORY_COUNT];
extern const char *const bench_scope_names[SCOPE_COUNT];
extern const char *const bench_target_names[TARGET_COUNT];

enum { BENCH_SIZES_MAX = 64, BENCH_REPETITIONS_MAX = 101, BENCH_CTAS_MAX = 4096 };

struct bench_options {
    const char *names; /* comma-separated names or families; "all" */
    enum bench_memory memory;
    enum bench_scope scope;
    enum bench_target target;
    int pes; /* 0: not given */
    int from, to;
    size_t sizes[BENCH_SIZES_MAX]; /* --sizes; n_sizes 0: see bench_sizes() */
    int n_sizes;
    uint64_t iterations; /* 0: adaptive */
    int repetitions;
    bool verify, json, bind;
    bool list;  /* --list: print the benchmarks and end */
    bool trace; /* --trace: print the steps of one operation instead of the points (proxy, gda) */
    int ctas, threads; /* grid of device scopes: number of blocks; threads of a block */
    int queues;        /* enum weft_queue_mode */
    int ctas_list[BENCH_SIZES_MAX], n_ctas; /* --ctas; each number is measured in turn as `ctas` */
    const char *html;
    const char *compare; /* --compare: the first file; `names` is the second */
    const char *paths;   /* --paths; NULL: the path that the job chooses */
    bool all_pairs;      /* --pair all */
    int progress;        /* 1: shown, 0: not, -1: shown when stderr is a terminal */
};

/* The lower bound of the time of an operation on this machine. */
enum bench_floor {
    FLOOR_NONE,
    FLOOR_MEMCPY, /* memcpy of the bytes */
    FLOOR_STORE,  /* one 8-byte store */
    FLOOR_LOAD,   /* one 8-byte load */
    FLOOR_ATOMIC, /* one atomic addition on a line that the core owns */
    FLOOR_LINES,  /* half a round trip over two cache lines */
    FLOOR_HEARD,  /* the larger of FLOOR_LINES and memcpy of the bytes received */
};

/* Baseline of the bare machine, measured in the same run. Negative: could not be measured. */
struct bench_floors {
    double one_line_ns;  /* half a round trip, both PEs write the same line */
    double two_lines_ns; /* half a round trip, each PE writes a line that the other polls */
    double store_ns, load_ns, atomic_ns, clock_ns;
};

struct bench {
    const struct bench_options *options;
    weft_job *job;
    weft_ctx *ctx;
    weft_team *world;
    int me, n;
    int from, to; /* PEs of the one-sided benchmarks */
    const char *path;
    double *control; /* symmetric: for reductions between PEs */
    uint64_t *lines; /* symmetric, host memory: cache lines for the baseline */
    uint64_t *flags; /* symmetric, in the measured memory: cache lines for ping-pong */
    uint64_t rounds; /* ping-pong rounds so far; the same at every PE */
    struct bench_floors floors;
    struct bench_device *device; /* state of device.c; NULL in scope host */
};

/* Cache lines are used two apart, since the CPU prefetches adjacent lines in pairs. */
enum { BENCH_LINE_WORDS = 16, BENCH_LINES = 4 };

struct bench_case {
    const struct bench_entry *entry;
    size_t bytes;
    void *src, *dst; /* symmetric; the entry defines the size */
};

/* Which PEs work in a benchmark, and whose time counts. */
enum bench_shape {
    SHAPE_PAIR, /* `from` accesses `to`, other PEs wait; the time of `from` counts */
    SHAPE_ALL,  /* every PE works; the mean over the PEs counts */
};

struct bench_entry {
    const char *name;   /* "atomic_add" */
    const char *family; /* "atomic": selects several entries */
    const char *text;
    enum bench_scope scope;
    enum bench_target target;
    unsigned memories; /* one bit per bench_memory */
    enum bench_shape shape;
    bool sized;      /* measured at each size of --sizes, else at `bytes` */
    bool gridded;    /* measured with each number of --ctas, else with the first */
    size_t bytes;    /* bytes of an entry that is not `sized`; 0: it moves no data */
    bool src_per_pe; /* src has `bytes` for each PE */
    bool dst_per_pe;
    enum bench_floor floor;
    size_t largest; /* largest default size; 0: that of the scope */
    bool apart;     /* not part of "all"; must be named */
    bool by_units;  /* an iteration is one operation of each thread, warp or block of the grid */
    /* Bytes of src and of dst; NULL: as described by the fields above. */
    size_t (*buffer_bytes)(const struct bench_options *options, size_t bytes);

    /* Performs the operation `iterations` times and adds the time in ns at this PE to *ns (0 at
     * a PE that does not measure). Every PE calls it with the same count. */
    weft_status (*run)(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns);

    /* Performs the operation with known contents and compares the result, outside all timing.
     * *right is the result at this PE. */
    weft_status (*check)(struct bench *bench, struct bench_case *c, bool *right);
};

struct bench_point {
    const struct bench_entry *entry;
    enum bench_memory memory;
    const char *path;
    int pes, from, to;
    int ctas, threads; /* 0 in scope host */
    size_t bytes;
    uint64_t iterations;
    int repetitions;
    double us, us_min, us_max; /* time of one operation: median, least and greatest repetition */
    double gbps;               /* 10^9 bytes per second; 0: no data is moved */
    double mops;               /* 10^6 operations per second */
    int verified;              /* 1 right, 0 wrong, -1 not checked */
    double floor_us;           /* negative: none */
    double memcpy_us;          /* time of memcpy of `bytes`; negative: none */
    struct bench_floors floors;
};

/* bench.c: runs `weft run -n N weft bench ...` with these options and returns its exit status. */
int bench_start_job(const struct bench_options *options, int argc, char **argv);

/* Runs `weft run -n PES weft bench FIRST ...` with the arguments from argv[1] on. */
int bench_start_pes(int pes, bool bind, char *first, int argc, char **argv);

/* Whether a launcher has started this process as a PE, or WEFT_BOOT selects a bootstrap. */
bool bench_in_job(void);

/* paths.c: runs one job for each path of options->paths (and for each pair). Returns the
 * exit status of the command. */
int bench_paths(const struct bench_options *options, int argc, char **argv);

/* evaluation.c: sets of kernel benchmarks over several paths: `evaluation` compares ways
 * to communicate, `gda` compares NIC requests issued by device code with those issued by the
 * CPU. */
#define BENCH_GDA "gda"
bool bench_is_suite(const char *name);
void bench_list_suites(void);
int bench_suite(const struct bench_options *options);

/* options.c */
void bench_parse(int argc, char **argv, struct bench_options *options);

/* registry.c */
extern const struct bench_entry bench_entries[];
extern const int bench_entry_count;
bool bench_selected(const struct bench_options *options, const struct bench_entry *entry);
bool bench_name_known(const char *name, size_t length);
/* The benchmark of the nearest name; NULL: none is near. */
const char *bench_nearest(const char *name);
/* Whether the options name a benchmark of the proxy. */
bool bench_names_proxy(const struct bench_options *options);
/* Finds the entry of this name for the scope, target and memory of `options`; NULL: none. */
const struct bench_entry *bench_find(const char *name, const struct bench_options *options);
/* Gives the sizes of this entry: those of --sizes, or the default sizes up to a limit of its
 * scope. Returns how many. */
int bench_sizes(const struct bench_options *options, const struct bench_entry *entry,
                const size_t **sizes);

/* session.c: joins the job; finds the path, allocates memory and measures the baseline; leaves
 * the job. */
weft_status bench_open(struct bench *bench, const struct bench_options *options);
weft_status bench_prepare(struct bench *bench);
weft_status bench_close(struct bench *bench);
/* Part of bench_prepare(): allocates bench->flags in the memory that bench->options select. */
weft_status bench_flags_make(struct bench *bench);

/* measure.c */
weft_status bench_case_open(struct bench *bench, const struct bench_entry *entry, size_t bytes,
                            struct bench_case *c);
weft_status bench_case_close(struct bench *bench, struct bench_case *c);
weft_status bench_measure(struct bench *bench, struct bench_case *c, struct bench_point *point);
weft_status bench_combine(struct bench *bench, weft_op op, double *value);

/* Combines bits of all PEs by exclusive or. */
weft_status bench_combine_bits(struct bench *bench, uint64_t *bits);

/* memory.c: symmetric memory of the measured kind, and access to this PE's own part of it. */
weft_status bench_alloc(struct bench *bench, size_t bytes, unsigned hints, void **address);
weft_status bench_write(struct bench *bench, void *own, const void *from, size_t bytes);
weft_status bench_read(struct bench *bench, void *to, const void *own, size_t bytes);
/* bench_set() writes the pattern of a seed; bench_has() sets *right to false when the contents
 * differ from it. */
weft_status bench_set(struct bench *bench, void *own, size_t bytes, uint64_t seed);
weft_status bench_has(struct bench *bench, const void *own, size_t bytes, uint64_t seed,
                      bool *right);

/* clock.c: nanoseconds of a monotonic clock. */
uint64_t bench_now_ns(void);

/* floors.c */
weft_status bench_floors_measure(struct bench *bench);
double bench_memcpy_ns(struct bench *bench,
                       struct bench_case *c); /* negative at PEs other than `from` */

/* pattern.c: reproducible buffer contents. */
uint64_t bench_word(uint64_t seed, uint64_t index);
void bench_fill(void *buffer, size_t bytes, uint64_t seed);
bool bench_holds(const void *buffer, size_t bytes, uint64_t seed);

/* The benchmarks, two functions per (bench, scope): rma.c, atomics.c, latency.c, collectives.c. */
#define BENCH_FUNCTIONS(name)                                                                      \
    weft_status name##_run(struct bench *bench, struct bench_case *c, uint64_t iterations,         \
                           double *ns);                                                            \
    weft_status name##_check(struct bench *bench, struct bench_case *c, bool *right);
BENCH_FUNCTIONS(host_put)
BENCH_FUNCTIONS(host_get)
BENCH_FUNCTIONS(host_p)
BENCH_FUNCTIONS(host_g)
BENCH_FUNCTIONS(host_latency)
BENCH_FUNCTIONS(host_latency_signal)
BENCH_FUNCTIONS(host_barrier)
BENCH_FUNCTIONS(host_sync)
BENCH_FUNCTIONS(host_alltoall)
BENCH_FUNCTIONS(host_broadcast)
BENCH_FUNCTIONS(host_allgather)
BENCH_FUNCTIONS(host_collect)
BENCH_FUNCTIONS(host_reduce)
BENCH_FUNCTIONS(map_put)
BENCH_FUNCTIONS(map_get)
BENCH_FUNCTIONS(map_copy_to)
BENCH_FUNCTIONS(map_copy_to_single)
BENCH_FUNCTIONS(map_copy_to_flush)
BENCH_FUNCTIONS(map_copy_to_pinned)
BENCH_FUNCTIONS(map_copy_from)
BENCH_FUNCTIONS(map_copy_from_pinned)
BENCH_FUNCTIONS(map_driver_to)
BENCH_FUNCTIONS(map_driver_to_pinned)
BENCH_FUNCTIONS(map_driver_from)
BENCH_FUNCTIONS(map_driver_from_pinned)
BENCH_FUNCTIONS(map_flag)
BENCH_FUNCTIONS(map_window)
BENCH_FUNCTIONS(map_window_first)
BENCH_FUNCTIONS(map_window_first_plain)

/* The 64-bit atomics, X(name, floor): entries "atomic_<name>". */
#define BENCH_ATOMIC_LIST(X)                                                                       \
    X(fetch_add, FLOOR_ATOMIC)                                                                     \
    X(add, FLOOR_ATOMIC)                                                                           \
    X(swap, FLOOR_ATOMIC)                                                                          \
    X(cswap, FLOOR_ATOMIC)                                                                         \
    X(set, FLOOR_ATOMIC)                                                                           \
    X(fetch, FLOOR_LOAD)                                                                           \
    X(fetch_and, FLOOR_ATOMIC)                                                                     \
    X(fetch_or, FLOOR_ATOMIC)                                                                      \
    X(fetch_xor, FLOOR_ATOMIC) X(and, FLOOR_ATOMIC) X(or, FLOOR_ATOMIC) X(xor, FLOOR_ATOMIC)
#define BENCH_ATOMIC_DECLARE(name, floor) BENCH_FUNCTIONS(host_atomic_##name)
BENCH_ATOMIC_LIST(BENCH_ATOMIC_DECLARE)
#undef BENCH_ATOMIC_DECLARE

/* The benchmarks of device scopes, each for all scopes and targets that have it: device_rma.c,
 * device_latency.c, device_programs.c, device_stream.c. They use device.h. */
BENCH_FUNCTIONS(device_put)
BENCH_FUNCTIONS(device_get)
BENCH_FUNCTIONS(device_p)
BENCH_FUNCTIONS(device_p_scattered)
BENCH_FUNCTIONS(device_g)
BENCH_FUNCTIONS(device_fetch_add)
BENCH_FUNCTIONS(device_add)
BENCH_FUNCTIONS(device_latency)
BENCH_FUNCTIONS(device_latency_signal)
BENCH_FUNCTIONS(device_latency_packet)
BENCH_FUNCTIONS(device_barrier)
BENCH_FUNCTIONS(device_sync)
BENCH_FUNCTIONS(device_alltoall)
BENCH_FUNCTIONS(device_jacobi_values)
BENCH_FUNCTIONS(device_jacobi_rows)
BENCH_FUNCTIONS(device_proxy_empty)
BENCH_FUNCTIONS(device_proxy_trip)
BENCH_FUNCTIONS(device_proxy_p)
BENCH_FUNCTIONS(device_proxy_put)
BENCH_FUNCTIONS(device_proxy_put_signal)
BENCH_FUNCTIONS(device_proxy_g)
BENCH_FUNCTIONS(device_put_quiet)
BENCH_FUNCTIONS(stream_put)
BENCH_FUNCTIONS(stream_get)
BENCH_FUNCTIONS(stream_barrier)
#undef BENCH_FUNCTIONS
size_t device_put_buffer_bytes(const struct bench_options *options, size_t bytes);
size_t device_get_buffer_bytes(const struct bench_options *options, size_t bytes);
size_t device_words_buffer_bytes(const struct bench_options *options, size_t bytes);
size_t device_packet_buffer_bytes(const struct bench_options *options, size_t bytes);
size_t device_proxied_buffer_bytes(const struct bench_options *options, size_t bytes);

/* gda.c: measures and prints the steps of a put over path gda. */
weft_status bench_gda_trace(struct bench *bench);

/* proxy_trace.c: measures and prints the steps of a put_signal and quiet through the proxy. */
weft_status bench_proxy_trace(struct bench *bench);

/* device.c: sets defaults of --target, --memory, --ctas and --threads; sets the library's target
 * before the job begins; prepares the scopes other than host. */
void bench_device_choose(struct bench_options *options);
void bench_device_set_target(const struct bench_options *options);
weft_status bench_device_prepare(struct bench *bench);
/* Number of operations in an iteration of this entry. */
double bench_units(const struct bench_options *options, const struct bench_entry *entry);

/* measure.c: compares doubles for qsort(3). */
int bench_compare_doubles(const void *a, const void *b);

/* table.c: text output; json.c: JSON output; html.c: plots. */
struct bench_text {
    char text[24];
};
struct bench_text bench_name_text(const struct bench_point *point); /* "put x16": 16 blocks */
struct bench_text bench_bytes_text(size_t bytes);
struct bench_text bench_us_text(double us);        /* "4.21 ns"; "-" when negative */
struct bench_text bench_number_text(double value); /* three digits; "-" when not positive */
const char *bench_floor_name(enum bench_floor floor);
double bench_memcpy_gbps(const struct bench_point *point); /* 0: unknown */
void bench_table_head(FILE *to, const struct bench *bench);
void bench_table_row(FILE *to, const struct bench_point *point, const struct bench_point *previous);
/* Prints a warning when the repetitions differ too much. */
void bench_table_foot(FILE *to, const struct bench_point *points, int count);
json_t *bench_json_figure(double value); /* null when negative (not measured) */
void bench_json_row(FILE *to, const struct bench_point *point);
void bench_html(FILE *to, const struct bench *bench, const struct bench_point *points, int count);

/* compare.c: compares two runs that --json has saved ("-": standard input). Returns the exit
 * status: 1 where a row of B is slower than that of A, 2 where nothing can be compared. */
int bench_compare(const char *a, const char *b, bool json);

#endif
