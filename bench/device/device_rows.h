/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the rows of weft_device_bench: the job and its memory, the end of a measurement, and
 * the contents of buffers. The rows are in device_pairs.c (from one PE to another) and
 * device_together.c (of all PEs, of streams and of the host); device_bench.c calls them. */
#ifndef WEFT_BENCH_DEVICE_ROWS_H
#define WEFT_BENCH_DEVICE_ROWS_H

#include "kernels.h"
#include "plan.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/stream.h>
#include <weft_device.h>

enum { VERIFY_ROUNDS = 50, FILL_SEED = 17, STALE_SEED = 5 };

struct device_bench {
    struct report report;
    const char *only; /* prefix of the names of the rows to be run */
    weft_job *job;
    weft_ctx *ctx;
    weft_team *world;
    weft_stream stream;
    int me, n_pes, on_gpu;
    int peer;            /* Peer of this PE: PE 0's is 1, PE 1's is 0; 0 if there is one PE. */
    unsigned threads;    /* threads of a block */
    unsigned processors; /* number of blocks that "all" means */
    uint64_t base;       /* number of the last round of any kernel */
    /* Symmetric memory of the kind that device code prefers. */
    char *src, *dst;
    size_t room; /* bytes of src and of dst */
    uint64_t *flag, *wrong;
    char *chain; /* words for fetching atomics */
    char *packets;
    struct device_times *times;
};
extern struct device_bench bench;

#define CHECK(call) check((call), #call)
#define LAUNCH(...)                                                                                \
    do {                                                                                           \
        CHECK(WEFT_LAUNCH(__VA_ARGS__));                                                           \
        CHECK(weft_stream_synchronize(bench.stream));                                              \
    } while (0)

/* A measurement returns its figure at this PE, or 0 at a PE that does not measure. */
struct shape {
    size_t bytes;
    unsigned ctas;
    int what;
};
typedef double (*measurement)(const char *row, const struct shape *shape);

/* Ends the job with the name of the failed call and the library's error message. */
void fail_job(const char *what, weft_status status) __attribute__((noreturn));
void check(weft_status status, const char *call);
double now_ns(void);
void barrier(void);
/* Returns the maximum of the PEs' values, at every PE. */
double max_over_pes(double value);
/* Returns ns from the start of the first block to the end of the last one. Ends the job if a block
 * failed or found wrong data. */
double kernel_span_ns(const char *row, unsigned blocks);
/* Returns the number of wrong words that checking kernels found. */
uint64_t count_wrong_words(void);
void clear_wrong(void);
int is_row_wanted(const char *row);
/* Runs a measurement at all PEs together: once as warm-up, then as often as the median needs. */
void measure(const char *row, const char *unit, measurement once, const struct shape *shape);
/* Returns a smaller count on simt. */
uint64_t scaled(uint64_t count);
unsigned blocks_of(const struct shape *s);
const char *ctas_name(unsigned ctas);
void fill(void *words, size_t bytes, uint64_t seed);
/* Ends the job unless this PE's dst equals the putter's src, offset by `shift` bytes. */
void expect_bytes(const char *row, size_t bytes, size_t shift);

/* The rows: device_pairs.c. */
void ping_rows(void);
void put_rows_of(size_t least, size_t most);
void put_to_all_rows(void);
void misaligned_rows(void);
void value_and_atomic_rows(void);

/* device_together.c */
void barrier_rows(void);
void collective_rows(void);
void stream_and_host_rows(void);

#endif
