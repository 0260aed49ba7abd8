/* SPDX-License-Identifier: Apache-2.0 */
/* `weft demo` in three files: demo.c (options, the acts in their order, what is said), demo_paths.c
 * (proving and measuring), demo_picture.c (the picture that is mended). The acts fill `demo`; only
 * demo.c prints. */
#ifndef WEFT_CLI_DEMO_H
#define WEFT_CLI_DEMO_H

#include "bench/bench.h"
#include "image.h"

#include <stdbool.h>
#include <stdint.h>

/* One pair of PEs, as PE 0 knows it after demo_measure(). */
struct demo_pair {
    int from, to;
    char path[16];
    double latency_us;            /* 8 bytes, one way: half of a round trip */
    double put_gbps, memcpy_gbps; /* of 1 MiB; memcpy: in the memory of `from` alone */
    bool right;                   /* what was sent arrived */
};

/* One mending of the picture by this many PEs. */
struct demo_run {
    int pes;
    double seconds; /* the steps of all colours */
    bool identical; /* to the serial result, byte for byte */
};

enum { DEMO_PAIRS_MAX = 64, DEMO_RUNS_MAX = 16 };

struct demo {
    const char *image_file;
    const char *output; /* folder */
    bool json;

    struct bench_options bench_options;
    struct bench bench; /* holds the job */

    bool all_proven;
    char unproven[320]; /* of a path whose proof failed: which, and why */
    struct demo_pair pairs[DEMO_PAIRS_MAX];
    int n_pairs, possible_pairs;

    struct image before; /* at every PE */
    uint64_t missing;    /* pixels taken out */
    uint64_t steps;
    double serial_seconds;
    double error; /* mean difference of a mended sample from the original, of 255 */
    struct demo_run runs[DEMO_RUNS_MAX];
    int n_runs;
    char before_png[4096], after_png[4096];
};

/* demo_paths.c. Collective; the results are at PE 0. */
weft_status demo_prove(struct demo *demo);
weft_status demo_measure(struct demo *demo);

/* demo_picture.c. Collective; the results and the files are PE 0's. */
weft_status demo_picture(struct demo *demo);

#endif
