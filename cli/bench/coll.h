/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `weft bench coll`: what is asked for (options), the operations (coll_ops.c), how one
 * is timed (coll_time.c), a row and how it is written (coll_print.c), and the rates of this machine
 * (coll_tune.c). */
#ifndef WEFT_CLI_BENCH_COLL_H
#define WEFT_CLI_BENCH_COLL_H

#include "bench/bench.h"
#include "tool/coll_rates.h"
#include "tool/timed_stream.h"

enum { COLL_WAYS = COLL_ALGO_COPIES + 1, COLL_BENCH_REPETITIONS = 101 };

/* The rows' operations: those of enum coll_what, and two that are others of them. */
enum {
    COLL_OP_STRIDED = COLL_WHATS, /* alltoalls: an alltoall of elements that lie apart */
    COLL_OP_SKEWED,               /* an alltoallv of which most goes to member 0 */
    COLL_OPS
};

enum coll_form { COLL_TABLE, COLL_JSON, COLL_CSV };

struct coll_options {
    bool ops[COLL_OPS], ways[COLL_WAYS];
    bool named_ways; /* by the user */
    size_t sizes[BENCH_SIZES_MAX];
    int n_sizes;
    int pes;  /* 0: not given */
    int team; /* so many of the first PEs; 0: all */
    int sms;  /* blocks, at most; 0: copy engines where they can serve */
    int calls, repetitions;
    enum bench_target target;
    enum coll_form form;
    bool verify, tune;
};

/* What is the same in all rows. */
struct coll_bench {
    const struct coll_options *options;
    struct bench bench; /* its world is the team that is measured */
    weft_team *all;
    int members, member; /* of the team; this PE's place in it, -1: it is not in it */
    bool cuda;           /* on GPU memory, else on host memory by simt */
    bool kernels;        /* the library's kernels serve */
    struct timed_stream *stream;
    char *src, *dst;     /* symmetric, for the largest size */
    uint64_t *counts;    /* of alltoallv, symmetric: four arrays with a word for each member */
    char *wanted, *seen; /* this PE's: what should be in dst, and what is there */
    double memcpy_gbps;  /* of host memory, where simt is measured */
    bool wrong, refused; /* contents; what was asked for cannot be done here */
};

enum { COLL_GRAPH, COLL_STREAM, COLL_HOST, COLL_HOWS };

struct coll_row {
    int op;
    enum coll_algorithm way, taken; /* taken is auto where no kernel runs */
    size_t bytes;
    double us[COLL_HOWS];     /* medians of the slowest PE's; negative: not measured */
    double us_min[COLL_HOWS]; /* least repetitions of it */
    double gbps, floor_us, model_us;
    unsigned blocks;
    int verified; /* 1 right, 0 wrong, -1 not compared */
};

/* coll_ops.c */
extern const char *const coll_way_words[COLL_WAYS]; /* as WEFT_COLL has them */
const char *coll_op_name(int op);
/* What the library chooses a way for. */
enum coll_what coll_op_what(int op);
/* Bytes that src and dst have at a PE of n. */
size_t coll_src_bytes(int op, size_t bytes, int n);
size_t coll_dst_bytes(int op, size_t bytes, int n);
weft_status coll_call_on_stream(struct coll_bench *b, int op, size_t bytes, weft_stream stream);
weft_status coll_call_by_host(struct coll_bench *b, int op, size_t bytes);
/* Fills the sources and makes what is wanted, by a serial reference. */
weft_status coll_prepare(struct coll_bench *b, int op, size_t bytes);
/* Something else into the destination; compares it, *right being what all members found. */
weft_status coll_spoil(struct coll_bench *b, int op, size_t bytes);
weft_status coll_compare(struct coll_bench *b, int op, size_t bytes, bool *right);

/* coll_time.c: fills in the times and the verdict of a row whose way is forced. */
weft_status coll_time(struct coll_bench *b, struct coll_row *row);
/* The graph's time alone; on a stream where there are no graphs. */
weft_status coll_time_one(struct coll_bench *b, int op, size_t bytes, double *us);

/* coll_print.c */
void coll_print_head(const struct coll_bench *b);
void coll_print_row(const struct coll_bench *b, const struct coll_row *row);
/* 10^9 bytes a second: of a broadcast and a sum at one what it has, of a reduction 2 (n - 1) / n
 * times that (the bus), of the others what leaves or reaches the busiest PE, gaps not counted. */
double coll_gbps(int op, size_t bytes, int members, double us);

/* coll_tune.c: measures this machine's rates, prints them beside those that are built in, and keeps
 * them. */
weft_status coll_tune(struct coll_bench *b);

#endif
