/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `weft bench coll`: options, operations (coll_ops.c), timing (coll_time.c), rows
 * and their output (coll_print.c), and the rates of this machine (coll_tune.c). */
#ifndef WEFT_CLI_BENCH_COLL_H
#define WEFT_CLI_BENCH_COLL_H

#include "bench/bench.h"
#include "tool/coll_rates.h"
#include "tool/timed_stream.h"

enum { COLL_WAYS = COLL_ALGO_COPIES + 1, COLL_BENCH_REPETITIONS = 101 };

/* The operations: those of enum coll_what, and two variants. */
enum {
    COLL_OP_STRIDED = COLL_WHATS, /* alltoalls: alltoall of strided elements */
    COLL_OP_SKEWED,               /* alltoallv in which most bytes go to member 0 */
    COLL_OPS
};

enum coll_form { COLL_TABLE, COLL_JSON, COLL_CSV };

struct coll_options {
    bool ops[COLL_OPS], ways[COLL_WAYS];
    bool ways_given; /* the user gave --ways */
    size_t sizes[BENCH_SIZES_MAX];
    int n_sizes;
    int pes;  /* 0: not given */
    int team; /* number of PEs of the team, from PE 0 on; 0: all */
    int sms;  /* most blocks; 0: copy engines where possible */
    int calls, repetitions;
    enum bench_target target;
    enum coll_form form;
    bool verify, tune;
};

/* State shared by all rows. */
struct coll_bench {
    const struct coll_options *options;
    struct bench bench; /* its `world` is the measured team */
    weft_team *all;
    int members, member; /* size of the team; rank of this PE in it, -1: not a member */
    bool cuda;           /* GPU memory; else host memory with simt */
    bool kernels;        /* the library's kernels can run */
    struct timed_stream *stream;
    char *src, *dst;     /* symmetric, for the largest size */
    uint64_t *counts;    /* for alltoallv, symmetric: four arrays with a word for each member */
    char *wanted, *seen; /* expected and actual contents of dst at this PE */
    double memcpy_gbps;  /* rate of memcpy in host memory, for simt */
    bool wrong, refused; /* wrong contents were received; the request is not possible here */
};

enum { COLL_GRAPH, COLL_STREAM, COLL_HOST, COLL_HOWS };

struct coll_row {
    int op;
    enum coll_algorithm way,
        taken; /* algorithm requested and used; `taken` is auto when no kernel runs */
    size_t bytes;
    double us[COLL_HOWS];     /* median over the repetitions of the slowest PE's time; negative: not
                                 measured */
    double us_min[COLL_HOWS]; /* shortest repetition */
    double busbw, algbw;      /* GB/s */
    double floor_us, model_us;
    unsigned blocks;
    int verified; /* 1 right, 0 wrong, -1 not compared */
};

/* coll_ops.c */
extern const char *const coll_way_names[COLL_WAYS]; /* the names of WEFT_COLL */
const char *coll_op_name(int op);
/* The library's operation, for which it chooses an algorithm. */
enum coll_what coll_op_what(int op);
/* Bytes of src and dst at each of n PEs. */
size_t coll_src_bytes(int op, size_t bytes, int n);
size_t coll_dst_bytes(int op, size_t bytes, int n);
weft_status coll_call_on_stream(struct coll_bench *b, int op, size_t bytes, weft_stream stream);
weft_status coll_call_by_host(struct coll_bench *b, int op, size_t bytes);
/* Fills the sources and computes the expected result with a serial reference. */
weft_status coll_prepare(struct coll_bench *b, int op, size_t bytes);
/* coll_spoil() overwrites the destination; coll_compare() compares it: *right combines the
 * results of all members. */
weft_status coll_spoil(struct coll_bench *b, int op, size_t bytes);
weft_status coll_compare(struct coll_bench *b, int op, size_t bytes, bool *right);

/* coll_time.c: measures a row whose algorithm is forced, and verifies it. */
weft_status coll_time(struct coll_bench *b, struct coll_row *row);
/* Measures only the graph; a stream when graphs are not available. */
weft_status coll_time_one(struct coll_bench *b, int op, size_t bytes, double *us);

/* coll_print.c */
void coll_print_head(const struct coll_bench *b);
void coll_print_row(const struct coll_bench *b, const struct coll_row *row);
/* Bus bandwidth in 10^9 bytes per second, as nccl-tests define busbw: for a broadcast and a
 * reduction to one PE its bytes, for an allreduce 2 (n - 1) / n times its bytes, for the others the
 * bytes that leave or reach the busiest PE, without gaps. */
double coll_busbw(int op, size_t bytes, int members, double us);
/* Algorithm bandwidth, as nccl-tests define algbw: the bytes of the vector, or of all n blocks,
 * over the time. */
double coll_algbw(int op, size_t bytes, int members, double us);

/* coll_tune.c: measures this machine's rates, prints them next to the built-in rates, and saves
 * them. */
weft_status coll_tune(struct coll_bench *b);

#endif
