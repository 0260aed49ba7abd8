/* SPDX-License-Identifier: Apache-2.0 */
/* Types that the parts of `weft bench` share: what is measured (entry), under which conditions
 * (options), in which job (bench), at which size (case), and what came out (point). Written on the
 * public host API alone. */
#ifndef WEFT_CLI_BENCH_H
#define WEFT_CLI_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weft.h>

/* Where the buffers lie, who calls the operation, what the calling code was compiled for. A new
 * scope or target is a row here and its own rows in the registry. */
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
    int pes; /* 0 = not given */
    int from, to;
    size_t sizes[BENCH_SIZES_MAX]; /* given by the user; n_sizes 0: see bench_sizes() */
    int n_sizes;
    uint64_t iterations; /* 0 = adaptive */
    int repetitions;
    bool verify, json, bind;
    bool trace;        /* the steps of one operation in place of the points: proxy, gda */
    int ctas, threads; /* of the grids of device scopes; threads of a block */
    int ctas_list[BENCH_SIZES_MAX], n_ctas; /* --ctas, each measured in its turn as `ctas` */
    const char *html;
    const char *paths; /* of --paths; NULL: the job's own */
    bool all_pairs;    /* --pair all */
    int progress;      /* 1 shown, 0 not, -1 when stderr is a terminal */
};

/* What is the least time that an operation could take on this machine. */
enum bench_floor {
    FLOOR_NONE,
    FLOOR_MEMCPY, /* memcpy of the bytes */
    FLOOR_STORE,  /* one 8-byte store */
    FLOOR_LOAD,   /* one 8-byte load */
    FLOOR_ATOMIC, /* one atomic addition on a line that the core owns */
    FLOOR_LINES,  /* half a round trip over two cache lines */
    FLOOR_HEARD,  /* the larger of FLOOR_LINES and memcpy of the bytes received */
};

/* Figures of the bare machine, taken in the same run. Negative: could not be measured. */
struct bench_floors {
    double one_line_ns;  /* half round trip, both PEs write the same line */
    double two_lines_ns; /* half round trip, each PE writes a line that the other polls */
    double store_ns, load_ns, atomic_ns, clock_ns;
};

struct bench {
    const struct bench_options *options;
    weft_job *job;
    weft_ctx *ctx;
    weft_team *world;
    int me, n;
    int from, to; /* the pair of the one-sided benchmarks */
    const char *path;
    double *control; /* symmetric: agreement between PEs */
    uint64_t *lines; /* symmetric, host memory: cache lines for the floors */
    uint64_t *flags; /* symmetric, of the kind that is measured: cache lines for ping-pong */
    uint64_t rounds; /* of ping-pong played so far; alike at every PE */
    struct bench_floors floors;
    struct bench_device *device; /* device.c's; NULL in scope host */
};

/* Cache lines are kept two apart: adjacent ones are fetched in pairs. */
enum { BENCH_LINE_WORDS = 16, BENCH_LINES = 4 };

struct bench_case {
    const struct bench_entry *entry;
    size_t bytes;
    void *src, *dst; /* symmetric, sized by the entry */
};

/* Who works in a benchmark, and whose time counts. */
enum bench_shape {
    SHAPE_PAIR, /* `from` acts on `to`, the others wait; the time of `from` */
    SHAPE_ALL,  /* every PE; the mean over the PEs */
};

struct bench_entry {
    const char *name;   /* "atomic_add" */
    const char *family; /* "atomic": a name that stands for several entries */
    const char *text;
    enum bench_scope scope;
    enum bench_target target;
    unsigned memories; /* bit per bench_memory */
    enum bench_shape shape;
    bool sized;      /* measured at each of --sizes, else at `bytes` */
    bool gridded;    /* measured with each of --ctas, else with the first */
    size_t bytes;    /* of an unsized one; 0 when it moves no data */
    bool src_per_pe; /* src holds bytes for each PE, not once */
    bool dst_per_pe;
    enum bench_floor floor;
    size_t largest; /* of the sizes that are measured unasked; 0: as the scope has it */
    bool apart;     /* not among "all": it is asked for by name */
    bool by_units;  /* an iteration is one operation of each thread, warp or block of the grid */
    /* Bytes of src and of dst when they are not as said above. */
    size_t (*room)(const struct bench_options *options, size_t bytes);

    /* Performs the operation `iterations` times and adds up the time in ns at this PE (0 at a PE
     * that does not take the time). Called by every PE with the same count. */
    weft_status (*run)(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns);

    /* Performs the operation with known contents and compares, outside all timing; *right is this
     * PE's finding. */
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
    double us, us_min, us_max; /* per operation: median, least and greatest repetition */
    double gbps;               /* 10^9 bytes a second; 0 when the operation moves none */
    double mops;               /* 10^6 operations a second */
    int verified;              /* 1 right, 0 wrong, -1 not checked */
    double floor_us;           /* negative: none */
    double memcpy_us;          /* memcpy of `bytes`; negative: none */
    struct bench_floors floors;
};

/* bench.c: runs `weft run -n N weft bench ...` with these options; its exit status. */
int bench_start_job(const struct bench_options *options, int argc, char **argv);

/* `weft run -n PES weft bench FIRST ...` with argv[1] and what is behind it. */
int bench_start_pes(int pes, bool bind, char *first, int argc, char **argv);

/* Whether a launcher has started this process as a PE, or the user has said how to start. */
bool bench_in_job(void);

/* paths.c: one job for each path of options->paths (and pair); the exit status of the
 * command. */
int bench_paths(const struct bench_options *options, int argc, char **argv);

/* evaluation.c: sets of benchmarks by kernels over one path after another: the programs by
 * which ways to communicate are compared (`evaluation`), and requests to an adapter given by device
 * code beside those given by the CPU (`gda`). */
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
/* Whether the options name an entry of the proxy. */
bool bench_names_proxy(const struct bench_options *options);
/* The entry of this name for the scope, target and memory of `options`; NULL: there is none. */
const struct bench_entry *bench_find(const char *name, const struct bench_options *options);
/* The sizes at which this entry is measured: those of --sizes, or as many of the usual ones as its
 * scope can move in a reasonable time. Returns how many. */
int bench_sizes(const struct bench_options *options, const struct bench_entry *entry,
                const size_t **sizes);

/* session.c: joins the job; finds the path, gets memory, takes the floors; ends the job. */
weft_status bench_open(struct bench *bench, const struct bench_options *options);
weft_status bench_prepare(struct bench *bench);
weft_status bench_close(struct bench *bench);
/* Part of preparing: bench->flags, in the memory that bench->options name. */
weft_status bench_flags_make(struct bench *bench);

/* measure.c */
weft_status bench_case_open(struct bench *bench, const struct bench_entry *entry, size_t bytes,
                            struct bench_case *c);
weft_status bench_case_close(struct bench *bench, struct bench_case *c);
weft_status bench_measure(struct bench *bench, struct bench_case *c, struct bench_point *point);
weft_status bench_combine(struct bench *bench, weft_op op, double *value);

/* Of bits, by exclusive or. */
weft_status bench_combine_bits(struct bench *bench, uint64_t *bits);

/* memory.c: symmetric memory of the kind that is measured, and this PE's own part of it. */
weft_status bench_alloc(struct bench *bench, size_t bytes, unsigned hints, void **address);
weft_status bench_write(struct bench *bench, void *own, const void *from, size_t bytes);
weft_status bench_read(struct bench *bench, void *to, const void *own, size_t bytes);
/* The pattern of a seed; bench_has() makes *right false where something else is. */
weft_status bench_set(struct bench *bench, void *own, size_t bytes, uint64_t seed);
weft_status bench_has(struct bench *bench, const void *own, size_t bytes, uint64_t seed,
                      bool *right);

/* clock.c: nanoseconds since some moment. */
uint64_t bench_now_ns(void);

/* floors.c */
weft_status bench_floors_measure(struct bench *bench);
double bench_memcpy_ns(struct bench *bench, struct bench_case *c); /* negative but at `from` */

/* pattern.c: reproducible contents. */
uint64_t bench_word(uint64_t seed, uint64_t index);
void bench_fill(void *buffer, size_t bytes, uint64_t seed);
bool bench_holds(const void *buffer, size_t bytes, uint64_t seed);

/* The benchmarks, one function per (bench, scope): rma.c, atomics.c, latency.c, collectives.c. */
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
BENCH_FUNCTIONS(host_fcollect)
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

/* The atomics, X(name, floor): 64-bit, entries "atomic_<name>". */
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
 * device_latency.c, device_programs.c, device_stream.c over what device.h offers. */
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
size_t device_put_room(const struct bench_options *options, size_t bytes);
size_t device_get_room(const struct bench_options *options, size_t bytes);
size_t device_words_room(const struct bench_options *options, size_t bytes);
size_t device_packet_room(const struct bench_options *options, size_t bytes);
size_t device_proxied_room(const struct bench_options *options, size_t bytes);

/* gda.c: measures and prints the steps of a put over path gda. */
weft_status bench_gda_trace(struct bench *bench);

/* proxy_trace.c: measures and prints the steps of a put_signal and quiet through the proxy. */
weft_status bench_proxy_trace(struct bench *bench);

/* device.c: fills in what --target, --memory, --ctas and --threads leave open; says to the library
 * which target is meant, before the job begins; prepares the scopes other than host. */
void bench_device_choose(struct bench_options *options);
void bench_device_tell(const struct bench_options *options);
weft_status bench_device_prepare(struct bench *bench);
/* Operations that an iteration of this entry is. */
double bench_units(const struct bench_options *options, const struct bench_entry *entry);

/* measure.c: an order of doubles for qsort(3). */
int bench_compare_doubles(const void *a, const void *b);

/* table.c: figures as a person reads them; json.c: as a program does; html.c: as plots. */
struct bench_text {
    char text[24];
};
struct bench_text bench_name_text(const struct bench_point *point); /* "put x16": by 16 blocks */
struct bench_text bench_bytes_text(size_t bytes);
struct bench_text bench_us_text(double us);        /* "4.21 ns"; "-" when negative */
struct bench_text bench_number_text(double value); /* three digits; "-" when not positive */
const char *bench_floor_name(enum bench_floor floor);
double bench_memcpy_gbps(const struct bench_point *point); /* 0: unknown */
void bench_table_head(FILE *to, const struct bench *bench);
void bench_table_row(FILE *to, const struct bench_point *point, const struct bench_point *previous);
/* Says so when the repetitions were too far apart. */
void bench_table_foot(FILE *to, const struct bench_point *points, int count);
json_t *bench_json_figure(double value); /* null when negative: not measured */
void bench_json_row(FILE *to, const struct bench_point *point);
void bench_html(FILE *to, const struct bench *bench, const struct bench_point *points, int count);

#endif
